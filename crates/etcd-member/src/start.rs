//! The options that etcd is started with.
//!
//! Invariant: nothing of the environment changes them.
//!
//! Must not depend on: when it is started.

use std::path::PathBuf;
use std::process::Command;

use crate::child::guarded;
use crate::greeting::listen_host;
use crate::program::Program;
use crate::state::{Origin, State};
use crate::{Address, founding};

/// What every etcd of ours is started with: its log as JSON, and history is kept for an hour (docs/control-store.md).
pub const COMMON: [&str; 6] =
    ["--logger", "zap", "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"];

/// What the command needs.
pub struct Start<'a> {
    /// The program.
    pub program: &'a Program,
    /// This member.
    pub own: &'a Address,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// etcd's folder.
    pub data: PathBuf,
    /// The files of the authority, the certificate, and its key.
    pub certificates: Option<&'a [PathBuf; 3]>,
    /// How its etcd came to be.
    pub state: &'a State,
    /// Whether its informative lines are wanted.
    pub verbose: bool,
}

impl Start<'_> {
    /// The command. With data, etcd ignores how the cluster began.
    #[must_use]
    pub fn command(&self) -> Command {
        let (own, scheme) = (self.own, self.scheme);
        let mut command = guarded(&self.program.path);
        let listen = |port: u16| format!("{scheme}://{}:{port}", listen_host(own));
        command.args(COMMON).args(["--log-level", if self.verbose { "info" } else { "warn" }]);
        command.args(["--name", &own.name()]).arg("--data-dir").arg(&self.data);
        command.args(["--listen-client-urls", &listen(own.client)]);
        command.args(["--advertise-client-urls", &own.client_url(scheme)]);
        command.args(["--listen-peer-urls", &listen(own.peer)]);
        command.args(["--initial-advertise-peer-urls", &own.peer_url(scheme)]);
        match &self.state.origin {
            Origin::Added { initial } => {
                command.args(["--initial-cluster-state", "existing", "--initial-cluster", initial]);
            }
            Origin::Founded(plan) | Origin::Planned(plan) => {
                let all: Vec<String> = plan.keys().map(|name| format!("{name}={scheme}://{name}")).collect();
                command.args(["--initial-cluster-state", "new", "--initial-cluster", &all.join(",")]);
                command.args(["--initial-cluster-token", &founding::token(&self.state.cluster, plan)]);
            }
            Origin::Blank => {}
        }
        if let Some([authority, certificate, key]) = self.certificates {
            for prefix in ["--", "--peer-"] {
                command.arg(format!("{prefix}client-cert-auth"));
                command.arg(format!("{prefix}trusted-ca-file")).arg(authority);
                command.arg(format!("{prefix}cert-file")).arg(certificate);
                command.arg(format!("{prefix}key-file")).arg(key);
            }
            if let Some(option) = self.program.skip_address {
                command.arg(format!("--{option}"));
            }
        }
        command
    }
}
