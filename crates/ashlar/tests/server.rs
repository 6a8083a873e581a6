//! The server as a process: starting, stopping, drives that come and go, what is not S3.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_client::{Client, Config, Credentials, GetOptions, PutOptions};
use http::Method;
use serde_json::Value;

const USER: &str = "tester-of-servers";
const PASSWORD: &str = "a-password-for-tests";

/// A server process; killed when dropped.
struct Server {
    child: Child,
    hello: Value,
    took: Duration,
}

/// What a start is made of.
struct Start {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Start {
    fn new(root: &Path, drives: &str) -> Start {
        let args = vec![
            "server".into(),
            root.join(drives).display().to_string(),
            "--address".into(),
            "127.0.0.1:0".into(),
            "--json".into(),
        ];
        let env =
            vec![("ASHLAR_ROOT_USER".into(), USER.into()), ("ASHLAR_ROOT_PASSWORD".into(), PASSWORD.into())];
        Start { args, env }
    }
    fn arg(mut self, arg: &str) -> Start {
        self.args.push(arg.into());
        self
    }
    fn generated(mut self) -> Start {
        self.env.clear();
        self
    }
    fn command(&self) -> Command {
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
    fn run(&self) -> Server {
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
        // Its log must not fill the pipe.
        let mut log = child.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Server { child, hello: serde_json::from_str(&line).unwrap(), took }
    }
    /// Starts expecting a refusal; answers the words.
    fn refused(&self) -> String {
        let out = self.command().output().unwrap();
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
}

impl Server {
    fn endpoint(&self) -> String {
        self.hello["endpoint"].as_str().unwrap().to_owned()
    }
    fn client(&self) -> Client {
        self.client_with(USER, PASSWORD)
    }
    fn client_with(&self, user: &str, password: &str) -> Client {
        Client::new(Config::new(self.endpoint(), Some(Credentials::new(user, password)))).unwrap()
    }
    fn signal(&self, name: &str) {
        let done =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
    /// Stops in order; answers how long that took.
    fn stop(mut self) -> Duration {
        let began = Instant::now();
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        began.elapsed()
    }
    fn get(&self, path: &str, lines: &str) -> (u16, String) {
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

fn noise(n: usize, seed: u64) -> Vec<u8> {
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

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn put(client: &Client, key: &str, data: &[u8]) {
    client.put_object("b-1", key, data.to_vec(), &PutOptions::default()).await.unwrap();
}

async fn get(client: &Client, key: &str) -> Vec<u8> {
    client.get_bytes("b-1", key, 64 << 20).await.unwrap().to_vec()
}

fn empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
    }
}

#[test]
fn a_first_start_and_a_second_one() {
    let root = tempfile::tempdir().unwrap();
    let start = Start::new(root.path(), "d{1...4}").generated();
    let server = start.run();
    let (user, password) = (
        server.hello["access_key"].as_str().unwrap().to_owned(),
        server.hello["secret_key"].as_str().unwrap().to_owned(),
    );
    assert_eq!((server.hello["code"].as_str(), server.hello["formatted"].as_u64()), (Some("2+2"), Some(4)));
    assert!(server.took < Duration::from_secs(5), "{:?}", server.took);
    let data = noise(3_000_000, 1);
    block_on(async {
        let client = server.client_with(&user, &password);
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "dir/key", &data).await;
        assert!(server.client_with(&user, "another-password").list_buckets().await.is_err());
    });
    server.stop();
    // Other order, same drives, same credentials, not shown again.
    let mut again = Start::new(root.path(), "d3").generated();
    for d in ["d1", "d4", "d2"] {
        again = again.arg(&root.path().join(d).display().to_string());
    }
    let server = again.run();
    assert!(server.hello["secret_key"].is_null() && server.hello["access_key"] == user.as_str());
    assert!(server.took < Duration::from_secs(5), "{:?}", server.took);
    block_on(async {
        assert_eq!(get(&server.client_with(&user, &password), "dir/key").await, data);
    });
    // A second server finds the drives in use.
    assert!(start.refused().contains("in use"));
    server.stop();
    // Killed, it comes back.
    let mut server = start.run();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = start.run();
    block_on(async { assert_eq!(get(&server.client_with(&user, &password), "dir/key").await, data) });
    assert!(start.refused().contains("in use"));
}

#[test]
fn what_is_refused_is_named() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    std::fs::create_dir_all(path("f2")).unwrap();
    std::fs::write(path("f2/photo.jpg"), b"x").unwrap();
    let text = Start::new(root.path(), "f{1...4}").refused();
    assert!(text.contains("f2") && text.contains("not be touched"), "{text}");
    assert!(!path("f1").exists(), "nothing was made");
    assert!(Start::new(root.path(), "d{1..4}").refused().contains("{1...4}"));
    assert!(
        Start::new(root.path(), "d{1...4}").arg("--code").arg("4+2").refused().contains("needs 6 drives")
    );
    assert!(Start::new(root.path(), "d1").arg("--memory").arg("1MiB").refused().contains("--memory"));
    let mut weak = Start::new(root.path(), "d{1...4}");
    weak.env = vec![
        ("MINIO_ROOT_USER".into(), "minioadmin".into()),
        ("MINIO_ROOT_PASSWORD".into(), "minioadmin".into()),
    ];
    weak.args[3] = "0.0.0.0:0".into();
    assert!(weak.refused().contains("known to everybody"));
    weak.args[3] = "127.0.0.1:0".into();
    weak.run();
    let mut half = Start::new(root.path(), "d{1...4}");
    half.env.pop();
    assert!(half.refused().contains("together"));
    // Two deployments, or another code than the drives were made with.
    Start::new(root.path(), "e{1...2}").run().stop();
    let mixed = Start::new(root.path(), "e{1...2}").arg(&path("d1").display().to_string());
    assert!(mixed.refused().contains("different deployments"));
    assert!(Start::new(root.path(), "e{1...2}").arg("--code").arg("2+0").refused().contains("keeps it"));
}

#[test]
fn any_number_of_drives() {
    for (n, code) in [(1, "1+0"), (2, "1+1"), (3, "2+1"), (8, "4+4"), (16, "12+4"), (18, "14+4"), (24, "8+4")]
    {
        let root = tempfile::tempdir().unwrap();
        let server = Start::new(root.path(), &format!("d{{1...{n}}}")).run();
        assert_eq!(server.hello["code"].as_str(), Some(code));
        let data = noise(700_000, n as u64);
        block_on(async {
            let client = server.client();
            client.create_bucket("b-1", false).await.unwrap();
            for key in ["a", "b/c"] {
                put(&client, key, &data).await;
                assert_eq!(get(&client, key).await, data, "{n} drives");
            }
        });
        server.stop();
    }
}

#[test]
fn health_metrics_and_administration() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    for path in ["live", "ready", "cluster", "cluster/read"] {
        for front in ["minio", "ashlar"] {
            assert_eq!(server.get(&format!("/{front}/health/{path}"), "").0, 200, "{path}");
        }
    }
    assert_eq!(server.get("/minio/health/cluster?maintenance=true", "").0, 412);
    assert_eq!(server.get("/minio/admin/v3/info", "").0, 501);
    for path in ["/minio/v2/metrics/cluster", "/ashlar/metrics"] {
        assert_eq!(server.get(path, "").0, 403);
        assert_eq!(server.get(path, "authorization: Bearer nonsense\r\n").0, 403);
    }
    for path in ["info", "heal", "drives", "metrics-token"] {
        assert_eq!(server.get(&format!("/ashlar/admin/v1/{path}"), "").0, 403, "{path}");
    }
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "k", b"hello").await;
        let stranger = server.client_with(USER, "another-password");
        assert!(stranger.admin(Method::GET, "info", &[], None).await.is_err());
        assert!(stranger.admin(Method::POST, "heal", &[], None).await.is_err());
        let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
        assert_eq!(info["code"], "2+2");
        assert_eq!(info["drives"].as_array().unwrap().len(), 4);
        assert!(info["drives"].as_array().unwrap().iter().all(|d| d["state"] == "online"), "{info}");
        let token = client.admin(Method::GET, "metrics-token", &[], None).await.unwrap();
        let (status, text) = server.get(
            "/minio/v2/metrics/cluster",
            &format!("authorization: Bearer {}\r\n", token["token"].as_str().unwrap()),
        );
        assert_eq!(status, 200);
        for line in [
            "minio_cluster_drive_online_total 4",
            "minio_s3_requests_total{api=\"putobject\"} 1",
            "minio_cluster_health_status 1",
            "minio_cluster_bucket_total 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains(PASSWORD));
        client.admin(Method::POST, "heal", &[], Some(&serde_json::json!({ "deep": true }))).await.unwrap();
        let drive = info["drives"][1]["path"].as_str().unwrap().to_owned();
        let order = serde_json::json!({ "drive": drive });
        client.admin(Method::POST, "drives/offline", &[], Some(&order)).await.unwrap();
        let drives = client.admin(Method::GET, "drives", &[], None).await.unwrap();
        assert_eq!(drives["drives"][1]["state"], "held");
        assert_eq!(get(&client, "k").await, b"hello");
        put(&client, "k2", b"while one is away").await;
        client.admin(Method::POST, "drives/online", &[], Some(&order)).await.unwrap();
        wait_until("the drive is back", Duration::from_secs(20), async || {
            let drives = client.admin(Method::GET, "drives", &[], None).await.unwrap();
            drives["drives"][1]["state"] == "online"
        })
        .await;
        let nobody = serde_json::json!({ "drive": "/no/such/drive" });
        assert!(client.admin(Method::POST, "drives/offline", &[], Some(&nobody)).await.is_err());
    });
    let public = Start::new(root.path(), "d{1...4}").arg("--public-metrics");
    server.stop();
    let server = public.run();
    assert_eq!(server.get("/ashlar/metrics", "").0, 200);
}

async fn wait_until(what: &str, patience: Duration, mut done: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !done().await {
        assert!(began.elapsed() < patience, "{what}: not within {patience:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn two_of_four_drives_are_emptied_under_a_running_server() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    let data: Vec<Vec<u8>> = (0..30).map(|i| noise([100, 40_000, 900_000][i % 3], i as u64)).collect();
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        for (i, data) in data.iter().enumerate() {
            put(&client, &format!("k{i}"), data).await;
        }
        for d in ["d2", "d3"] {
            empty(&root.path().join(d));
        }
        // Reads never fail, not even now.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            for (i, data) in data.iter().enumerate() {
                assert!(get(&client, &format!("k{i}")).await == *data, "k{i} after {:?}", began.elapsed());
            }
        }
        // Writes come back by themselves.
        wait_until("writes work again", Duration::from_secs(20), async || {
            client.put_object("b-1", "new", b"new".to_vec(), &PutOptions::default()).await.is_ok()
        })
        .await;
        wait_until("all drives are whole", Duration::from_secs(30), async || {
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            let online = info["drives"]
                .as_array()
                .unwrap()
                .iter()
                .all(|d| d["state"] == "online" && d["rebuild"].is_null());
            online && info["heal"]["queued"] == 0
        })
        .await;
        // The other two can go now: everything was made again.
        for d in ["d1", "d4"] {
            empty(&root.path().join(d));
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        for (i, data) in data.iter().enumerate() {
            assert!(get(&client, &format!("k{i}")).await == *data, "k{i}");
        }
    });
}

#[test]
fn a_missing_drive_joins_blank_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let start = Start::new(root.path(), "d{1...4}");
    let server = start.run();
    let data = noise(500_000, 1);
    block_on(async {
        server.client().create_bucket("b-1", false).await.unwrap();
        put(&server.client(), "k", &data).await;
    });
    server.stop();
    // The folder is gone: not made again, because it may be a drive that is not mounted.
    std::fs::remove_dir_all(root.path().join("d1")).unwrap();
    let server = start.run();
    assert_eq!(server.hello["drives"], 3);
    assert!(!root.path().join("d1").exists());
    block_on(async { assert_eq!(get(&server.client(), "k").await, data) });
    std::fs::create_dir(root.path().join("d1")).unwrap();
    block_on(async {
        let client = server.client();
        wait_until("the blank folder has joined", Duration::from_secs(20), async || {
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            info["drives"].as_array().unwrap().iter().all(|d| d["state"] == "online")
        })
        .await;
    });
    server.stop();
    // What it was made with at the first start is gone for good; the new one is known.
    let server = start.run();
    assert_eq!(server.hello["drives"], 4);
    block_on(async { assert_eq!(get(&server.client(), "k").await, data) });
}

#[test]
fn stopping_lets_what_is_in_flight_end() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "big", &noise(8_000_000, 1)).await;
        // An answer that is read slowly, and an idle connection.
        let mut object = client.get_object("b-1", "big", &GetOptions::default()).await.unwrap();
        let idle = TcpStream::connect(server.hello["addresses"][0].as_str().unwrap()).unwrap();
        let mut got = object.body.piece().await.unwrap().unwrap().len();
        server.signal("TERM");
        tokio::time::sleep(Duration::from_millis(500)).await;
        while let Some(piece) = object.body.piece().await.unwrap() {
            got += piece.len();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(got, 8_000_000);
        drop(idle);
        assert!(client.list_buckets().await.is_err(), "new requests find nobody");
    });
    let mut server = server;
    assert!(server.child.wait().unwrap().success());
    // A second signal ends at once.
    let mut server = Start::new(root.path(), "d{1...4}").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PUT /b-1/k HTTP/1.1\r\nhost: a\r\n").unwrap();
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    server.signal("INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

#[test]
fn slow_and_silent_clients_are_cut_off() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d1").run();
    let address = server.hello["addresses"][0].as_str().unwrap().to_owned();
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let began = Instant::now();
    let mut buf = [0u8; 100];
    slow.write_all(b"GET / HT").unwrap();
    let trickle = std::thread::spawn({
        let mut slow = slow.try_clone().unwrap();
        move || {
            // One byte a second does not help.
            for _ in 0..20 {
                std::thread::sleep(Duration::from_secs(1));
                if slow.write_all(b"x").is_err() {
                    break;
                }
            }
        }
    });
    let closed = matches!(slow.read(&mut buf), Ok(0) | Err(_));
    let took = began.elapsed();
    assert!(closed && (Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "{took:?}");
    let _ = slow.shutdown(std::net::Shutdown::Both);
    trickle.join().unwrap();
}

fn openssl(folder: &Path, name: &str) -> bool {
    std::fs::create_dir_all(folder).unwrap();
    let out = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .arg("-keyout")
        .arg(folder.join("private.key.new"))
        .arg("-out")
        .arg(folder.join("public.crt.new"))
        .output();
    if !out.is_ok_and(|o| o.status.success()) {
        return false;
    }
    for file in ["private.key", "public.crt"] {
        std::fs::rename(folder.join(format!("{file}.new")), folder.join(file)).unwrap();
    }
    true
}

#[test]
fn tls_with_certificates_that_change() {
    let root = tempfile::tempdir().unwrap();
    let certs: PathBuf = root.path().join("certs");
    if !openssl(&certs, "first") {
        eprintln!("no openssl here: TLS is not tested");
        return;
    }
    let trust = |server: &Server| {
        let mut config = Config::new(server.endpoint(), Some(Credentials::new(USER, PASSWORD)));
        config.tls.authorities = vec![std::fs::read(certs.join("public.crt")).unwrap()];
        config.attempts = 1;
        Client::new(config).unwrap()
    };
    let missing = Start::new(root.path(), "d1").arg("--certs").arg("/nowhere").refused();
    assert!(missing.contains("public.crt"), "{missing}");
    let server = Start::new(root.path(), "d1").arg("--certs").arg(&certs.display().to_string()).run();
    assert!(server.endpoint().starts_with("https://"));
    block_on(async {
        let client = trust(&server);
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "k", b"over TLS").await;
        assert!(openssl(&certs, "second"));
        wait_until("the new certificate is served", Duration::from_secs(20), async || {
            trust(&server).get_bytes("b-1", "k", 100).await.is_ok_and(|b| b == "over TLS")
        })
        .await;
    });
    // Plain HTTP is not understood there.
    let address = server.hello["addresses"][0].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}
