//! `ashlar cluster`: a whole cluster on this machine, its status, and a node that joins it with a token.
//!
//! The nodes are at 127.0.0.1, 127.0.0.2 and so on. Without etcd the tests say so and do nothing, except the one of that.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use common::{block_on, noise, wait_until};
use serde_json::Value;

/// How long anything may take; a machine may be slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// The program, without what the environment of the tests says.
fn ashlar(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("ASHLAR_") || n.starts_with("MINIO_")) {
            command.env_remove(name);
        }
    }
    command.env("ASHLAR_CONFIG", home.join("config.toml")).stdin(Stdio::null());
    command
}

fn has_etcd() -> bool {
    let found = Command::new("etcd").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("no etcd here (apt-get install etcd-server): clusters are not tested");
    }
    found
}

/// A port that is free, with the next one, at the first four addresses. Each call looks in another range.
fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let from = 20_000 + (std::process::id() % 100) as u16 * 100 + NEXT.fetch_add(20, Ordering::Relaxed);
    let free = |port: &u16| {
        (1..=4).all(|n| (0..2).all(|next| TcpListener::bind(format!("127.0.0.{n}:{}", port + next)).is_ok()))
    };
    (from..).step_by(2).find(free).unwrap()
}

/// `ashlar cluster up` with 3 nodes of 2 drives.
struct Up {
    child: Child,
    hello: Value,
}

impl Up {
    fn start(home: &Path, port: u16) -> Up {
        let mut command = ashlar(home);
        command.args(["--json", "cluster", "up"]).arg(home.join("c")).arg("--port").arg(port.to_string());
        command.args(["--nodes", "3", "--drives", "2", "--memory", "64MiB"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it says what it has started").unwrap();
        // What it reports later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let hello: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(hello["event"], "started", "{hello}");
        Up { child, hello }
    }

    fn endpoint(&self, node: usize) -> &str {
        self.hello["nodes"][node - 1]["endpoint"].as_str().unwrap()
    }

    fn pid(&self, node: usize) -> u64 {
        self.hello["nodes"][node - 1]["pid"].as_u64().unwrap()
    }

    fn text(&self, name: &str) -> &str {
        self.hello[name].as_str().unwrap()
    }

    /// Aliases `n1`, `n2` and `n3`.
    fn set_aliases(&self, home: &Path) {
        for node in 1..=3 {
            let (user, secret) = (self.text("access_key"), self.text("secret_key"));
            let name = format!("n{node}");
            done(ashlar(home).args(["alias", "set", &name, self.endpoint(node), user, secret]));
        }
    }

    /// Sends a signal and waits for the end.
    fn end(&mut self, signal: &str) {
        send(signal, u64::from(self.child.id()));
        let status = self.child.wait().unwrap();
        assert_eq!(status.success(), signal == "TERM", "{status}");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(signal: &str, pid: u64) {
    let done = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(done.success());
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> Output {
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{said}", String::from_utf8_lossy(&out.stdout));
    out
}

/// Runs a command that must fail; returns what it says.
fn refused(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(!out.status.success(), "{command:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn status(home: &Path, alias: &str) -> Value {
    let out = ashlar(home).args(["--json", "cluster", "status", alias]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_default()
}

/// How many nodes the answering node knows to run.
fn running(status: &Value) -> usize {
    status["nodes"].as_array().map_or(0, |all| all.iter().filter(|n| n["running"] == true).count())
}

/// Command lines of all processes that name a folder.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let lines = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&folder).then_some(line)
    });
    lines.collect()
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    block_on(wait_until(what, PATIENCE, async || done()));
}

#[test]
fn cluster_serves_at_every_node_and_lets_another_join_and_comes_back() {
    if !has_etcd() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (home, port) = (root.path(), free_ports());
    let mut up = Up::start(home, port);
    assert_eq!(up.hello["code"], "3+3");
    up.set_aliases(home);
    let file = home.join("file");
    std::fs::write(&file, noise(3_000_000, 5)).unwrap();
    done(ashlar(home).args(["mb", "n1/b-1"]));
    done(ashlar(home).arg("cp").arg(&file).arg("n1/b-1/key"));
    for node in ["n2", "n3"] {
        assert!(done(ashlar(home).args(["cat", &format!("{node}/b-1/key")])).stdout == noise(3_000_000, 5));
    }
    let seen = status(home, "n2");
    assert_eq!(running(&seen), 3, "{seen}");
    assert_eq!((&seen["name"], &seen["state"]), (&up.hello["cluster"], &"formed".into()));
    assert_eq!(seen["control_store"]["kind"], "etcd");
    assert_eq!(seen["tolerates"]["nodes"], 1, "{seen}");
    assert!(seen["nodes"][1]["this"] == true && seen["nodes"][1]["drives"]["serving_here"] == 2, "{seen}");
    for node in 1..=3 {
        assert_eq!(
            seen["nodes"][node - 1]["endpoint"],
            up.endpoint(node),
            "numbers are those of the cluster"
        );
    }
    // The secret is private, and not on a command line.
    let lines = processes(&home.join("c")).join("\n");
    assert!(!lines.contains(up.text("secret_key")), "{lines}");
    // The same folder is not started twice, and not as another cluster.
    let again = |more: &[&str]| refused(ashlar(home).args(["cluster", "up"]).arg(home.join("c")).args(more));
    assert!(again(&["--port", &(port + 10).to_string()]).contains("is running already"));
    assert!(again(&["--nodes", "4"]).contains("was made with --nodes 3"));

    let token = done(ashlar(home).args(["cluster", "token", "n3", "--lifetime", "10m"])).stdout;
    let token = String::from_utf8(token).unwrap().trim().to_owned();
    let mut fourth = join(home, &up, port, &token);
    wait_for("the fourth node serves", || running(&status(home, "n1")) == 4);
    let (user, secret) = (up.text("access_key"), up.text("secret_key"));
    let url = format!("http://127.0.0.4:{port}");
    wait_for("the fourth node answers", || {
        let set = ["alias", "set", "n4", &url, user, secret];
        ashlar(home).args(set).output().is_ok_and(|o| o.status.success())
    });
    assert!(done(ashlar(home).args(["cat", "n4/b-1/key"])).stdout == noise(3_000_000, 5));
    send("TERM", u64::from(fourth.id()));
    assert!(fourth.wait().unwrap().success());

    up.end("TERM");
    assert_eq!(processes(&home.join("c")), Vec::<String>::new(), "everything ends with it");
    let mut up = Up::start(home, port);
    assert!(done(ashlar(home).args(["cat", "n3/b-1/key"])).stdout == noise(3_000_000, 5));
    // A node that dies is not missed, and the killed parent leaves nobody behind.
    send("KILL", up.pid(2));
    wait_for("the others know", || running(&status(home, "n1")) == 2);
    wait_for("the others write without it", || {
        let mut copy = ashlar(home);
        copy.arg("cp").arg(&file).arg("n3/b-1/later").output().unwrap().status.success()
    });
    assert!(done(ashlar(home).args(["cat", "n3/b-1/key"])).stdout == noise(3_000_000, 5));
    up.end("KILL");
    wait_for("all have ended", || processes(&home.join("c")).is_empty());
}

/// Starts a fourth node with a token.
fn join(home: &Path, up: &Up, port: u16, token: &str) -> Child {
    let mut command = ashlar(home);
    command.args(["server", "--control", up.text("control"), "--cluster", up.text("cluster")]);
    command.args(["--join", token, "--address", &format!("127.0.0.4:{port}"), "--memory", "64MiB"]);
    command.arg("--kms-root-key-file").arg(home.join("c/root-key"));
    command.arg("--state-dir").arg(home.join("fourth/state")).arg(home.join("fourth/drive{1...2}"));
    command.env("ASHLAR_ROOT_USER", up.text("access_key"));
    command.env("ASHLAR_ROOT_PASSWORD", up.text("secret_key"));
    let log = std::fs::File::create(home.join("fourth.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

#[test]
fn nothing_is_made_where_etcd_is_missing_or_the_command_line_is_wrong() {
    let root = tempfile::tempdir().unwrap();
    let (home, port) = (root.path(), free_ports().to_string());
    let up = |more: &[&str]| {
        let mut command = ashlar(home);
        command.args(["cluster", "up"]).arg(home.join("c")).args(["--port", &port]).args(more);
        command
    };
    let why = refused(up(&[]).env("PATH", home));
    assert!(why.contains("apt-get install etcd-server"), "{why}");
    for (wrong, part) in [
        (["--code", "12+8"], "needs 20 drives"),
        (["--memory", "1MiB"], "at least 64"),
        (["--nodes", "0"], "--nodes"),
    ] {
        let why = refused(&mut up(&wrong));
        assert!(why.contains(part), "{wrong:?}: {why}");
    }
    let _taken = TcpListener::bind(format!("127.0.0.3:{port}")).unwrap();
    // Whether or not etcd is there.
    let why = refused(&mut up(&["--control", "etcd://127.0.0.1:1"]));
    assert!(why.contains("127.0.0.3") && why.contains("--port"), "{why}");
    assert!(!home.join("c").exists());
}

#[test]
fn machine_that_is_alone_has_a_status_and_no_tokens() {
    let root = tempfile::tempdir().unwrap();
    let server = common::Start::new(root.path(), "d{1...4}").run();
    let home = root.path();
    let set = ["alias", "set", "it", &server.endpoint(), common::USER, common::PASSWORD];
    done(ashlar(home).args(set));
    let seen = status(home, "it");
    assert_eq!((&seen["state"], &seen["control_store"]["kind"]), (&"alone".into(), &"embedded".into()));
    assert_eq!(running(&seen), 1);
    assert_eq!(seen["nodes"][0]["drives"]["serving_here"], 4);
    // The only alias need not be named.
    let text = String::from_utf8(done(ashlar(home).args(["cluster", "status"])).stdout).unwrap();
    assert!(text.contains("One server without a cluster, code 2+2"), "{text}");
    for command in ["token", "upgrade"] {
        let why = refused(ashlar(home).args(["cluster", command]));
        assert!(why.contains("alone"), "{why}");
    }
}
