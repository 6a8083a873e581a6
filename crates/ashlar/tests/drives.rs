//! Drives that are lost and come back under a server process.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ashlar_client::PutOptions;
use common::*;
use http::Method;
use serde_json::Value;

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

/// `ashlar` as a client, with `home` for its configuration; answers what it printed.
fn ashlar(home: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.args(args).env("ASHLAR_CONFIG", home.join("aliases.toml")).env("NO_COLOR", "1");
    let out = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
}

/// What an operator does with a broken drive: offline, a blank one in its place, replace, watch.
#[test]
fn a_drive_is_replaced_by_an_operator() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    let data: Vec<Vec<u8>> = (0..60).map(|i| noise([100, 40_000, 1_500_000][i % 3], i as u64)).collect();
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        for (i, data) in data.iter().enumerate() {
            put(&client, &format!("k{i}"), data).await;
        }
    });
    let run = |args: &[&str]| ashlar(root.path(), args);
    run(&["alias", "set", "it", &server.endpoint(), USER, PASSWORD]).unwrap();
    for name in ["d2", "d4"] {
        let place = root.path().join(name);
        let path = place.display().to_string();
        let drive_of = |text: &str| -> Value {
            let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
            lines.find(|d| d["path"] == path).unwrap()
        };
        let before = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        let id = before["id"].as_str().unwrap().to_owned();
        // A folder with a drive in it is never replaced.
        assert!(run(&["drive", "replace", "it", &path]).unwrap_err().contains("not blank"));
        assert!(run(&["drive", "replace", "it", "nonsense"]).unwrap_err().contains("no drive is called"));
        run(&["drive", "offline", "it", &id[..8]]).unwrap();
        let held = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        assert_eq!((held["state"].as_str(), held["id"].as_str()), (Some("held"), Some(id.as_str())));
        assert!(run(&["drive", "replace", "it", &path]).unwrap_err().contains("not blank"));
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        // It is held: nothing happens by itself. Its id still means it.
        run(&["drive", "replace", "it", &id[..8]]).unwrap();
        let status: Value = serde_json::from_str(&run(&["heal", "status", "it", "--json"]).unwrap()).unwrap();
        let rebuild = status["rebuilds"].as_array().unwrap().last().unwrap().clone();
        assert_ne!(rebuild["drive"].as_str().unwrap(), id);
        assert!(["waiting", "records", "shards", "done"].contains(&rebuild["phase"].as_str().unwrap()));
        // The watch ends when the drive is whole; its last line says so.
        let watched = run(&["heal", "status", "--watch", "it"]).unwrap();
        assert!(watched.lines().last().unwrap().starts_with("nothing waits"), "{watched}");
        let after = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        assert_eq!((after["state"].as_str(), after["rebuild"].is_null()), (Some("online"), true));
        assert_ne!(after["id"].as_str().unwrap(), id);
    }
    // Only what was rebuilt is left.
    server.stop();
    for name in ["d1", "d3"] {
        std::fs::remove_dir_all(root.path().join(name)).unwrap();
    }
    let server = Start::new(root.path(), "d{1...4}").run();
    block_on(async {
        let client = server.client();
        for (i, data) in data.iter().enumerate() {
            assert!(get(&client, &format!("k{i}")).await == *data, "k{i}");
        }
    });
}
