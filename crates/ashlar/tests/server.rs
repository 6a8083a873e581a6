//! The server as a process: starting, health, administration, TLS.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ashlar_client::{Client, Config, Credentials};
use common::*;
use http::Method;

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
    assert!(weak.refused().contains("everybody tries first"));
    weak.args[3] = "127.0.0.1:0".into();
    weak.run();
    // Others could reach it, without TLS: said before anything else happens.
    let plain = |address: &str| {
        let mut start = Start::new(root.path(), "d{1...4}").arg("--code").arg("3+1");
        start.args[3] = address.into();
        start.refused().contains("TLS is off")
    };
    assert!(plain("0.0.0.0:0") && !plain("127.0.0.1:0"));
    let mut half = Start::new(root.path(), "d{1...4}");
    half.env.retain(|(name, _)| !name.contains("PASSWORD"));
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
    assert_eq!(server.get("/minio/admin/v3/info", "").0, 403);
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
        let address = server.hello["addresses"][0].as_str().unwrap();
        for (name, more, value) in [
            ("minio_cluster_drive_online_total", "", 4),
            ("minio_s3_requests_total", ",api=\"putobject\"", 1),
            ("minio_cluster_health_status", "", 1),
            ("minio_cluster_bucket_total", "", 1),
            ("minio_cluster_usage_object_total", "", 1),
            ("minio_cluster_usage_total_bytes", "", 5),
        ] {
            let line = format!("{name}{{server=\"{address}\"{more}}} {value}");
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
