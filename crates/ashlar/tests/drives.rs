//! Drives that are lost and come back under a server process.

mod common;

use std::time::{Duration, Instant};

use ashlar_client::PutOptions;
use common::*;
use http::Method;

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
