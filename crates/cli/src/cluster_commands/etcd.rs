//! etcd as a child process: one member, on this machine, for trying out.
//!
//! Invariants: it listens on 127.0.0.1 only; it ends with this process, also when this process is killed
//! (`ashlar_etcd_member::guarded`).
//!
//! Must not depend on: the content of the store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_client::{Client, Config};
use ashlar_environment::net;
use ashlar_environment::time::{Instant, sleep};
use ashlar_etcd_member::{COMMON, guarded};

use super::process::Process;
use crate::failure::{Failure, Kind, Outcome, While as _};

/// How long a start may take.
const START: Duration = Duration::from_secs(60);
/// Time between looks.
const LOOK: Duration = Duration::from_millis(100);

/// The program on PATH.
///
/// # Errors
/// It is not there: the message says how to install it.
pub fn find() -> Outcome<PathBuf> {
    let other = ". Or name one that runs: --control etcd://HOST:PORT";
    ashlar_etcd_member::find().map_err(|e| Failure::new(Kind::Failed, format!("{e}{other}")))
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
        let mut command = guarded(program);
        command.args(COMMON).args(["--log-level", "warn"]).arg("--data-dir").arg(data);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
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
