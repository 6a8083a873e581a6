//! A server process on a free port of the loopback interface, with helpers for tests.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_client::{Client, Config, Credentials, PutOptions};
use serde_json::Value;

pub const USER: &str = "tester-of-servers";
pub const PASSWORD: &str = "a-password-for-tests";

/// A server process; killed when dropped.
pub struct Server {
    pub child: Child,
    pub hello: Value,
    pub took: Duration,
}

/// The parameters of a start.
pub struct Start {
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl Start {
    pub fn new(root: &Path, drives: &str) -> Start {
        let args = vec![
            "server".into(),
            root.join(drives).display().to_string(),
            "--address".into(),
            "127.0.0.1:0".into(),
            "--json".into(),
        ];
        let state = ("ASHLAR_STATE_DIR".into(), root.join("state").display().to_string());
        let root =
            [("ASHLAR_ROOT_USER".into(), USER.into()), ("ASHLAR_ROOT_PASSWORD".into(), PASSWORD.into())];
        Start { args, env: root.into_iter().chain([state]).collect() }
    }
    pub fn arg(mut self, arg: &str) -> Start {
        self.args.push(arg.into());
        self
    }
    pub fn generated(mut self) -> Start {
        self.env.retain(|(name, _)| name == "ASHLAR_STATE_DIR");
        self
    }
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        command.args(&self.args).envs(self.env.iter().cloned());
        for name in [
            "ASHLAR_ROOT_USER",
            "ASHLAR_ROOT_PASSWORD",
            "MINIO_ROOT_USER",
            "MINIO_ROOT_PASSWORD",
            "ASHLAR_ADDRESS",
        ] {
            if !self.env.iter().any(|(n, _)| n == name) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null());
        command
    }
    pub fn run(&self) -> Server {
        let began = Instant::now();
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let took = began.elapsed();
        if line.is_empty() {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("the server did not start: {why}");
        }
        // The log must not fill the pipe.
        let mut log = child.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Server { child, hello: serde_json::from_str(&line).unwrap(), took }
    }
    /// Starts a server that must refuse to start; returns its message.
    pub fn refused(&self) -> String {
        let out = self.command().output().unwrap();
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
}

impl Server {
    pub fn endpoint(&self) -> String {
        self.hello["endpoint"].as_str().unwrap().to_owned()
    }
    pub fn client(&self) -> Client {
        self.client_with(USER, PASSWORD)
    }
    pub fn client_with(&self, user: &str, password: &str) -> Client {
        Client::new(Config::new(self.endpoint(), Some(Credentials::new(user, password)))).unwrap()
    }
    pub fn signal(&self, name: &str) {
        let done =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
    /// Stops the server with SIGTERM; returns how long that took.
    pub fn stop(mut self) -> Duration {
        let began = Instant::now();
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        began.elapsed()
    }
    pub fn get(&self, path: &str, lines: &str) -> (u16, String) {
        let address = self.hello["addresses"][0].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{lines}connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    })
    .take(n)
    .collect()
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub async fn put(client: &Client, key: &str, data: &[u8]) {
    client.put_object("b-1", key, data.to_vec(), &PutOptions::default()).await.unwrap();
}

pub async fn get(client: &Client, key: &str) -> Vec<u8> {
    client.get_bytes("b-1", key, 64 << 20).await.unwrap().to_vec()
}

pub fn empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
    }
}

pub async fn wait_until(what: &str, patience: Duration, mut done: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !done().await {
        assert!(began.elapsed() < patience, "{what}: not within {patience:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
