//! etcd processes on loopback addresses, and raw requests to them.
//!
//! Invariant: a process that a test started ends with the test, and no other process is touched.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ashlar_cluster::{Control, Medium, MemoryMedium};
use ashlar_etcd::{Error, Etcd, Options};
use ashlar_format::DriveId;
use ashlar_outbound::{Outbound, Rules, tls::Identity};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::contract::DEPLOYMENT;

/// What is long enough for anything that happens at all.
pub const LONG: Duration = Duration::from_secs(60);

/// Drives for snapshots.
pub type Media = Vec<(DriveId, Arc<dyn Medium>)>;

/// Ports that were given out, so that no two processes of this test program get the same.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A loopback address that this test program alone uses, with a free port.
pub fn address() -> std::net::SocketAddr {
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let ip = std::net::Ipv4Addr::new(127, 64 + (pid >> 8) as u8 % 64, pid as u8, 1 + (n % 250) as u8);
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// One etcd process.
pub struct Member {
    pub url: String,
    name: String,
    folder: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Member {
    /// Starts the process, with the data that it had.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let child = Command::new("etcd")
            .args(&self.arguments)
            .arg("--data-dir")
            .arg(self.data())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap_or_else(|e| {
            panic!("etcd cannot be started: {e}; the tests need it on PATH: apt-get install etcd-server")
        }));
    }

    /// The folder with the data.
    pub fn data(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("last lines of {}:", self.name);
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// An etcd of one or more members.
pub struct Cluster {
    pub members: Vec<Member>,
    pub http: Outbound,
    _folder: tempfile::TempDir,
}

/// Files for TLS.
pub struct Tls {
    pub authority: Vec<u8>,
    pub client: Identity,
    pub arguments: Vec<String>,
}

impl Cluster {
    /// Starts an etcd and waits until it answers.
    pub async fn start(members: usize) -> Cluster {
        Cluster::with(members, &[], None).await
    }

    /// As [`Cluster::start`], with more arguments.
    pub async fn with(members: usize, arguments: &[&str], tls: Option<&Tls>) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let peers: Vec<String> = (0..members).map(|_| format!("http://{}", address())).collect();
        let all: Vec<String> = peers.iter().enumerate().map(|(i, p)| format!("m{i}={p}")).collect();
        let mut list = Vec::new();
        for (i, peer) in peers.iter().enumerate() {
            let url = format!("{scheme}://{}", address());
            let name = format!("m{i}");
            let mut own: Vec<String> = Vec::new();
            for (key, value) in [
                ("name", name.as_str()),
                ("listen-client-urls", &url),
                ("advertise-client-urls", &url),
                ("listen-peer-urls", peer),
                ("initial-advertise-peer-urls", peer),
                ("initial-cluster", &all.join(",")),
                ("initial-cluster-token", &format!("{}", std::process::id())),
                ("log-level", "warn"),
            ] {
                own.extend([format!("--{key}"), value.to_owned()]);
            }
            own.extend(arguments.iter().map(|a| (*a).to_owned()));
            own.extend(tls.iter().flat_map(|t| t.arguments.clone()));
            let folder = folder.path().join(format!("of-{i}"));
            std::fs::create_dir(&folder).unwrap();
            list.push(Member { url, name, folder, arguments: own, child: None });
        }
        let rules = Rules {
            allow_loopback: true,
            authorities: tls.iter().map(|t| t.authority.clone()).collect(),
            identity: tls.map(|t| t.client.clone()),
            timeout: Duration::from_secs(10),
            max_body: 64 << 20,
            ..Rules::default()
        };
        let mut cluster = Cluster { members: list, http: Outbound::new(rules).unwrap(), _folder: folder };
        cluster.members.iter_mut().for_each(Member::start);
        cluster.ready().await;
        cluster
    }

    /// Waits until every member can answer reads that need a quorum.
    pub async fn ready(&self) {
        for at in 0..self.members.len() {
            self.member_ready(at).await;
        }
    }

    /// Waits until one member can answer.
    pub async fn member_ready(&self, at: usize) {
        let url = format!("{}/health", self.members[at].url);
        until(|| async {
            let answer = self.http.get(&url, &[]).await;
            answer.is_ok_and(|a| a.status.is_success() && a.body.windows(4).any(|w| w == b"true"))
        })
        .await;
    }

    /// A request to one member; the answer of any status.
    pub async fn ask(&self, at: usize, path: &str, body: Value) -> Value {
        let url = format!("{}{path}", self.members[at].url);
        let answer = self.http.post(&url, &[], Bytes::from(body.to_string())).await.unwrap();
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The present revision.
    pub async fn revision(&self, at: usize) -> u64 {
        let answer = self.ask(at, "/v3/kv/range", json!({ "key": "AA==" })).await;
        answer["header"]["revision"].as_str().unwrap().parse().unwrap()
    }

    /// Forgets all revisions before the present one.
    pub async fn compact(&self, at: usize) {
        let revision = self.revision(at).await.to_string();
        let done = self.ask(at, "/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await;
        assert!(done["header"].is_object(), "{done}");
    }

    /// The member that is the leader, and its id and those of the others.
    pub async fn leader(&self) -> (usize, Vec<String>) {
        let mut ids = Vec::new();
        let mut leader = String::new();
        for at in 0..self.members.len() {
            let status = self.ask(at, "/v3/maintenance/status", json!({})).await;
            ids.push(status["header"]["member_id"].as_str().unwrap().to_owned());
            leader = status["leader"].as_str().unwrap_or_default().to_owned();
        }
        (ids.iter().position(|id| *id == leader).unwrap_or(0), ids)
    }

    /// Options for a store with this name, over all members directly.
    pub fn options(&self, name: &str) -> Options {
        Options {
            endpoints: self.members.iter().map(|m| m.url.clone()).collect(),
            cluster: name.to_owned(),
            authorities: Vec::new(),
            certificate: None,
            user: None,
        }
    }
}

/// A new store of [`DEPLOYMENT`].
pub async fn created(options: &Options) -> Etcd {
    Etcd::create(options, DEPLOYMENT, Vec::new()).await.unwrap();
    opened(options).await
}

/// Opens a store without snapshots.
pub async fn opened(options: &Options) -> Etcd {
    Etcd::open(options, Vec::new(), Some(DEPLOYMENT)).await.unwrap()
}

/// The error of an opening that fails.
pub async fn not_opened(options: &Options, media: Media) -> Error {
    match Etcd::open(options, media, Some(DEPLOYMENT)).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Waits until something holds.
pub async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < LONG, "it does not happen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sets a key, whatever it holds.
pub async fn put(control: &Control, key: &str, value: &str) -> Result<u64, ashlar_cluster::Error> {
    control
        .change(|update| {
            update.set(&control.read(key), value.to_owned());
            Ok::<_, ashlar_cluster::Error>(())
        })
        .await?;
    Ok(control.revision())
}

/// The text of a key.
pub fn text(control: &Control, key: &str) -> Option<String> {
    control.get(key).map(|v| String::from_utf8(v.bytes.to_vec()).unwrap())
}

/// One drive for snapshots.
pub fn drive() -> (Arc<MemoryMedium>, Media) {
    let medium = Arc::new(MemoryMedium::default());
    (medium.clone(), medium.as_only_drive())
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}
