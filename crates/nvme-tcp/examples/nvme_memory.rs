//! Serves a namespace in memory over NVMe/TCP, to hosts that a file names or to all, until it is killed: for measurements of the
//! protocol, and for hosts that this repository did not write.
//!
//! `cargo run --release -p ashlar-nvme-tcp --example nvme_memory -- HOST:PORT MIB [FILE]`

#![allow(clippy::disallowed_methods, reason = "a program that never runs in a simulation")]

use std::path::Path;
use std::sync::Arc;

use ashlar_nvme_tcp::{Admission, Hosts, Limits, Memory, Server, Subsystem, Subsystems, TlsMode};

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6d656d6f-7279-806e-616d-657370616365";

struct Served(Arc<dyn Subsystems>, Option<Hosts>);

impl Subsystems for Served {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        self.0.list()
    }

    fn admission(&self, host: &str) -> Admission {
        self.1.as_ref().map_or(Admission::Open, |hosts| hosts.admission(host))
    }

    fn tls(&self) -> TlsMode {
        if self.1.is_some() { TlsMode::Allowed } else { TlsMode::Off }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, mib, rest @ ..] = &words[..] else { panic!("HOST:PORT MIB [FILE]") };
    let blocks = mib.parse::<u64>().expect("a number of MiB") * 256;
    let hosts = rest.first().map(|file| Hosts::open(Path::new(file)).expect("a file of hosts"));
    let served = Served(Memory::new(4096, blocks).subsystems(NQN), hosts);
    let server = Server::start(std::slice::from_ref(address), Arc::new(served), Limits::default());
    println!("{NQN} at {:?}", server.as_ref().expect("an address").addresses());
    loop {
        std::thread::park();
    }
}
