//! A process that serves, used over TCP by our own host, and managed over its socket.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_nvme_tcp::host::{Address, HostOptions, RemoteNamespace, discover, list};
use ashlar_nvme_tcp::{HostKeys, Secret};
use tokio::runtime::Runtime;

use crate::api::{Call, FaultSpec, State};
use crate::{Client, Kind, Options, Process, identity};

pub(super) struct Served {
    runtime: Runtime,
    pub(super) process: Option<Process>,
    socket: PathBuf,
    pub(super) ports: Vec<u16>,
}

fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|l| l.local_addr().unwrap().port()).collect()
}

impl Served {
    pub(super) fn new(folder: &Path, rest: &str) -> Served {
        Served::with(folder, rest, None)
    }

    /// With a file of the hosts that may connect.
    fn with(folder: &Path, rest: &str, hosts: Option<PathBuf>) -> Served {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let ports = free_ports(2);
        let text = format!(
            "name = \"s\"\nmodel = \"data24\"\nports = [\"127.0.0.1:{}\", \"127.0.0.1:{}\"]\nsync = false\n{rest}",
            ports[0], ports[1]
        );
        let setup = crate::parse(&text, folder).unwrap();
        let socket = folder.join("f.sock");
        let options = Options {
            setup,
            socket: socket.clone(),
            hosts,
            allow_anyone: false,
            redfish: Some("127.0.0.1:0".into()),
            redfish_allow_anyone: false,
        };
        let process = runtime.block_on(Process::start(options)).unwrap();
        Served { runtime, process: Some(process), socket, ports }
    }

    pub(super) fn call(&self, call: Call) -> Result<crate::api::Answer, crate::Error> {
        self.runtime.block_on(Client::new(&self.socket).call(&call))
    }

    pub(super) fn services(&self) -> crate::api::Services {
        self.run(Client::new(&self.socket).services()).unwrap()
    }

    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn state(&self) -> State {
        self.runtime.block_on(Client::new(&self.socket).state()).unwrap()
    }

    fn attach(&self, port: usize, bay: usize, queues: u16) -> RemoteNamespace {
        let nqn = self.state().drives[bay - 1].nqn.clone();
        let address: Address = format!("nvme-tcp://127.0.0.1:{}/{nqn}/1", self.ports[port]).parse().unwrap();
        RemoteNamespace::attach(&address, HostOptions { queues, ..options() }).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            self.runtime.block_on(process.stop());
        }
    }
}

pub(super) fn until(is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(super) fn options() -> HostOptions {
    HostOptions::new().unwrap()
}

#[test]
fn hosts_discover_use_and_lose_an_enclosure() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::new(folder.path(), "bays = 3\n[drive]\ncapacity = \"16MiB\"");
    let told = discover(&format!("127.0.0.1:{}", served.ports[1]), &options()).unwrap();
    assert_eq!(told.iter().filter(|e| !e.discovery).count(), 6, "three drives at two ports");
    let state = served.state();
    let found = list(&format!("127.0.0.1:{}", served.ports[0]), &state.drives[1].nqn, &options()).unwrap();
    let facts = found[1].1.as_ref().unwrap();
    assert_eq!((found.len(), facts.blocks, facts.block), (2, 2048, 4096));
    assert_eq!(
        facts.identity.to_string(),
        format!("uuid.{}", state.drives[1].namespaces[1].uuid.replace('-', ""))
    );

    let (a, b) = (served.attach(0, 2, 1), served.attach(1, 2, 1));
    a.write(4096, &[5; 8192]).unwrap();
    let read = |n: &RemoteNamespace| {
        let mut out = vec![0; 8192];
        n.read(4096, &mut out).map(|()| out)
    };
    // The host would write again, after a lost connection, what was not flushed.
    a.flush().unwrap();
    assert!(read(&b).unwrap() == [5; 8192]);
    // Those of discovery end when the server has seen the end of their connections.
    until(|| served.state().ports.iter().all(|p| p.controllers == 1));

    // A port that is down has no connections; the other one works; the host comes back with it.
    let fault =
        served.call(Call::Inject { fault: FaultSpec::PortDown { port: "A1".into() } }).unwrap().faults[0].id;
    let state = served.state();
    assert_eq!((state.ports[0].state.as_str(), state.ports[0].controllers), ("DOWN", 0));
    assert!(std::net::TcpStream::connect(("127.0.0.1", served.ports[0])).is_err());
    b.write(4096, &[6; 8192]).unwrap();
    served.call(Call::Clear { ids: vec![fault] }).unwrap();
    assert!(read(&a).unwrap() == [6; 8192]);
    assert!(a.losses() >= 1 && b.losses() == 0);
    assert_eq!(served.call(Call::Clear { ids: vec![fault] }).unwrap_err().kind, Kind::NotFound);
    let page = served.process.as_ref().map(|p| crate::metrics::text(&p.state())).unwrap();
    assert!(
        page.contains("ashlar_fabric_port_up") && page.contains("ashlar_fabric_drive_bytes_total"),
        "{page}"
    );
}

#[test]
fn hosts_get_no_more_than_the_rates() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::new(folder.path(), "scale = 1000\nbays = 1\n[drive]\ncapacity = \"64GB\"");
    let namespace = served.attach(0, 1, 4);
    let done = AtomicU64::new(0);
    let begin = Instant::now();
    let end = begin + Duration::from_secs(3);
    std::thread::scope(|scope| {
        for thread in 0..24u64 {
            let (namespace, done) = (&namespace, &done);
            scope.spawn(move || {
                let mut random = ashlar_environment::random::Seeded::new(thread);
                let mut out = vec![0; 4096];
                while Instant::now() < end {
                    namespace.read(random.below(4096) * 4096, &mut out).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let took = begin.elapsed().as_secs_f64();
    let rate = done.load(Ordering::Relaxed) as f64 / took;
    let cap = 1e6 / 1.214 / 1000.0;
    println!("{rate:.1} reads per second of {cap:.1}, {:.2} %", 100.0 * rate / cap);
    // How much less it is depends on the machine.
    assert!(rate <= cap * (1.0 + 0.005 / took) + 24.0 / took, "{rate}");
    assert_eq!(
        identity::serial(
            &crate::parse("name = \"s\"\nmodel = \"data24\"\nports = [\"127.0.0.1:1\"]", folder.path())
                .unwrap(),
            1
        ),
        served.state().drives[0].serial
    );
}

#[test]
fn hosts_that_a_list_names_authenticate_themselves_at_every_port() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts.toml");
    let served = Served::with(folder.path(), "bays = 1\n[drive]\ncapacity = \"16MiB\"", Some(file));
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:24000000-0000-4000-8000-000000000001".to_owned();
    let secret: Secret = "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:".parse().unwrap();
    let drive = served.state().drives[0].nqn.clone();
    let attach = |secret: Option<Secret>| {
        let ports = format!("127.0.0.1:{},127.0.0.1:{}", served.ports[0], served.ports[1]);
        let address: Address = format!("nvme-tcp://{ports}/{drive}/1").parse().unwrap();
        RemoteNamespace::attach(&address, HostOptions { host_nqn: nqn.clone(), secret, ..options() })
    };
    assert!(attach(Some(secret.clone())).is_err(), "no host is known");
    let keys = HostKeys { secret: Some(secret.clone()), ..HostKeys::default() };
    served.call(Call::SetHost { nqn: nqn.clone(), keys }).unwrap();
    assert_eq!(served.state().hosts.unwrap()[0].nqn, nqn);
    assert!(attach(None).is_err());
    let namespace = attach(Some(secret.clone())).unwrap();
    until(|| namespace.paths().iter().all(|p| p.state == "live"));
    namespace.write(0, &[7; 4096]).unwrap();
    served.call(Call::RemoveHost { nqn: nqn.clone() }).unwrap();
    until(|| namespace.paths().iter().all(|p| p.state != "live"));
    assert!(attach(Some(secret)).is_err());
    assert!(served.state().ports.iter().map(|p| p.unauthenticated).sum::<u64>() >= 3);
}
