//! etcd as a child process: one member, on this machine, for trying out.
//!
//! Invariants: it listens on 127.0.0.1 only; it ends with this process, also when this process is killed: a shell between
//! the two waits for the end of its standard input.
//!
//! Must not depend on: the content of the store.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ashlar_client::{Client, Config};
use ashlar_environment::time::{Instant, sleep};
use ashlar_environment::{net, process as environment};

use super::process::Process;
use crate::failure::{Failure, Kind, Outcome, While as _};

/// How long a start may take.
const START: Duration = Duration::from_secs(60);
/// Time between looks.
const LOOK: Duration = Duration::from_millis(100);
/// Runs etcd until it ends or the standard input does. A shell gives a background command no standard input, so the
/// one that waits gets a copy.
const GUARD: &str = r#"
exec 3<&0
"$@" 3<&- &
etcd=$!
(cat <&3 >/dev/null; kill "$etcd") 2>/dev/null &
waiting=$!
exec 3<&-
wait "$etcd"
code=$?
kill "$waiting" 2>/dev/null
exit "$code"
"#;

/// How to install it, where it is not found.
pub const MISSING: &str = "etcd is not installed here (no `etcd` on PATH); it holds the control store of a cluster. \
Debian and Ubuntu: `apt-get install etcd-server`; other systems: https://github.com/etcd-io/etcd/releases. Or name one that \
runs: --control etcd://HOST:PORT";

/// The program on PATH.
///
/// # Errors
/// It is not there: the message says how to install it.
pub fn find() -> Outcome<PathBuf> {
    let path = environment::variable_os("PATH").unwrap_or_default();
    find_in(&path).ok_or_else(|| Failure::new(Kind::Failed, MISSING))
}

fn find_in(path: &OsStr) -> Option<PathBuf> {
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).map(|folder| folder.join("etcd")).find(runs)
}

/// A running etcd.
pub struct Etcd {
    /// The process.
    pub process: Process,
    /// Host and port of its clients.
    pub address: String,
}

impl Etcd {
    /// Starts it with its data in `data`; returns when it answers.
    ///
    /// # Errors
    /// It ended, or does not answer in time.
    pub async fn start(program: &Path, data: &Path, log: &Path) -> Outcome<Etcd> {
        // Two at once, so that they differ.
        let ports = (free_port()?, free_port()?);
        let (address, peers) = (listener(&ports.0)?, listener(&ports.1)?);
        drop(ports);
        let (client, peer) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "sh"]).arg(program).arg("--data-dir").arg(data);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args([
            "--initial-cluster",
            &format!("default={peer}"),
            "--logger",
            "zap",
            "--log-level",
            "warn",
        ]);
        command.args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"]);
        for (name, _) in environment::variables().iter().filter(|(name, _)| name.starts_with("ETCD_")) {
            command.env_remove(name);
        }
        let mut etcd = Etcd { process: Process::start("etcd", command, log)?, address };
        etcd.wait(&client).await?;
        Ok(etcd)
    }

    async fn wait(&mut self, url: &str) -> Outcome {
        let asked = Client::new(Config { attempts: 1, ..Config::new(url, None) })?;
        let began = Instant::now();
        while asked.probe("/health").await.is_err() {
            if self.process.ended().is_some() || began.elapsed() > START {
                return Err(self.process.report());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }
}

fn free_port() -> Outcome<std::net::TcpListener> {
    net::bind_blocking("127.0.0.1:0").when(|| "cannot find a free port".to_owned())
}

fn listener(port: &std::net::TcpListener) -> Outcome<String> {
    let address = port.local_addr().when(|| "cannot find a free port".to_owned())?;
    Ok(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_on_the_path_only_if_it_can_run() {
        let home = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "c"].map(|name| home.path().join(name));
        folders.iter().for_each(|f| std::fs::create_dir(f).unwrap());
        let path = std::env::join_paths(&folders).unwrap();
        assert_eq!(find_in(&path), None);
        assert_eq!(find_in(OsStr::new("")), None);
        std::fs::create_dir(folders[0].join("etcd")).unwrap();
        for folder in &folders[1..] {
            std::fs::write(folder.join("etcd"), "").unwrap();
        }
        std::fs::set_permissions(folders[2].join("etcd"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(&path), Some(folders[2].join("etcd")));
        assert!(MISSING.contains("apt-get install etcd-server"));
    }
}
