//! Drives that are lost and return under a running server process.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

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
        // At the same time from the server's point of view.
        server.signal("STOP");
        for d in ["d2", "d3"] {
            empty(&root.path().join(d));
        }
        server.signal("CONT");
        // Reads do not fail, not even now.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(6) {
            for (i, data) in data.iter().enumerate() {
                assert!(get(&client, &format!("k{i}")).await == *data, "k{i} after {:?}", began.elapsed());
            }
        }
        // Two at once may only be unmounted: the server replaces nothing until an operator orders it.
        let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
        assert_eq!((info["epoch"].as_u64(), info["writable"].as_bool()), (Some(1), Some(false)), "{info}");
        for d in ["d2", "d3"] {
            let path = root.path().join(d).display().to_string();
            assert!(problem(&info, &path).contains("2 folders are blank at once"), "{info}");
        }
        for d in ["d2", "d3"] {
            let order = serde_json::json!({ "drive": root.path().join(d) });
            client.admin(Method::POST, "drives/replace", &[], Some(&order)).await.unwrap();
        }
        // Writes succeed again.
        wait_until("writes work again", Duration::from_secs(60), async || {
            client.put_object("b-1", "new", b"new".to_vec(), &PutOptions::default()).await.is_ok()
        })
        .await;
        wait_until("all drives are whole", Duration::from_secs(60), async || {
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            let online = info["drives"]
                .as_array()
                .unwrap()
                .iter()
                .all(|d| d["state"] == "online" && d["rebuild"].is_null());
            online && info["heal"]["queued"] == 0
        })
        .await;
        // The other two can be removed now: all data was rebuilt.
        for d in ["d1", "d4"] {
            empty(&root.path().join(d));
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        for (i, data) in data.iter().enumerate() {
            assert!(get(&client, &format!("k{i}")).await == *data, "k{i}");
        }
    });
}

/// Why the drive at `path` is out of service.
fn problem(info: &Value, path: &str) -> String {
    let drives = info["drives"].as_array().unwrap();
    drives.iter().find(|d| d["path"] == *path).unwrap()["problem"].as_str().unwrap_or_default().to_owned()
}

/// A file system in memory, mounted at a folder; unmounted when dropped.
struct Mount(std::path::PathBuf);

impl Mount {
    fn run(args: &[&str]) -> bool {
        Command::new(args[0]).args(&args[1..]).output().is_ok_and(|o| o.status.success())
    }

    /// `None`: this process has no permission to mount.
    fn new(at: &Path) -> Option<Mount> {
        std::fs::create_dir_all(at).unwrap();
        let at = at.to_owned();
        Mount::run(&["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", at.to_str()?]).then_some(Mount(at))
    }

    fn bind(from: &Path, at: &Path) -> Mount {
        std::fs::create_dir_all(at).unwrap();
        assert!(Mount::run(&["mount", "--bind", from.to_str().unwrap(), at.to_str().unwrap()]));
        Mount(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Mount::run(&["umount", "-l", self.0.to_str().unwrap()]);
    }
}

/// `umount -l` under a running server, of one drive and of two. The empty folders below the mount points are
/// on another disk: they are never used, and the drives come back unchanged.
#[test]
fn unmounted_drives_are_not_rebuilt_onto_the_disk_below() {
    let root = tempfile::tempdir().unwrap();
    let at = |n: usize| root.path().join(format!("d{n}"));
    let keep = |n: usize| root.path().join(format!("keep{n}"));
    let mut mounts = Vec::new();
    for n in 1..=4 {
        let Some(mount) = Mount::new(&at(n)) else {
            eprintln!("not run: mounting is not permitted here");
            return;
        };
        mounts.push(mount);
    }
    // An unmounted file system stays mounted elsewhere.
    let kept: Vec<Mount> = (1..=4).map(|n| Mount::bind(&at(n), &keep(n))).collect();
    let server = Start::new(root.path(), "d{1...4}").run();
    let warnings = server.hello["warnings"].to_string();
    assert!(warnings.contains("in memory") && !warnings.contains("one file system"), "{warnings}");
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        put(&client, "k", b"before").await;
        wait_until("the map knows the mounts", Duration::from_secs(60), async || {
            // Stored with the first change of the map after the start.
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            info["control"]["current"] == 4
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        for away in [vec![2], vec![2, 3]] {
            let before = client.admin(Method::GET, "info", &[], None).await.unwrap();
            for n in &away {
                assert!(Mount::run(&["umount", "-l", at(*n).to_str().unwrap()]));
            }
            let gone = |info: &Value| {
                away.iter().all(|n| problem(info, at(*n).to_str().unwrap()).contains("is it not mounted"))
            };
            wait_until("the server knows", Duration::from_secs(60), async || {
                gone(&client.admin(Method::GET, "info", &[], None).await.unwrap())
            })
            .await;
            // Long enough for the server to use a blank folder.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            assert!(gone(&info) && info["epoch"] == before["epoch"], "{info}");
            for n in &away {
                let found = std::fs::read_dir(at(*n)).unwrap().count();
                assert_eq!(found, 0, "nothing is written below the mount point");
            }
            assert_eq!(get(&client, "k").await, b"before");
            for n in &away {
                assert!(Mount::run(&[
                    "mount",
                    "--bind",
                    keep(*n).to_str().unwrap(),
                    at(*n).to_str().unwrap()
                ]));
            }
            wait_until("they are back", Duration::from_secs(60), async || {
                let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
                info["drives"].as_array().unwrap().iter().all(|d| d["state"] == "online")
            })
            .await;
            put(&client, "k2", b"after").await;
        }
    });
    server.stop();
    for n in [2, 3] {
        Mount::run(&["umount", "-l", at(n).to_str().unwrap()]);
    }
    drop((mounts, kept));
}

/// The server warns about folders on one file system, and counts its space once.
#[test]
fn folders_on_one_file_system_warn_and_count_once() {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(root.path(), "d{1...4}").run();
    let warnings = server.hello["warnings"].to_string();
    assert!(warnings.contains("are on one file system"), "{warnings}");
    assert!(!warnings.contains("no parity"), "{warnings}");
    block_on(async {
        let info = server.client().admin(Method::GET, "info", &[], None).await.unwrap();
        assert_eq!(info["capacity"]["raw"], info["drives"][0]["capacity"], "{info}");
    });
    server.stop();
    let one = Start::new(root.path(), "alone").run();
    assert!(one.hello["warnings"].to_string().contains("no parity"), "{}", one.hello);
}

/// A folder that hangs when it is inspected (or is refused at once) delays nothing, and SIGTERM stops
/// the server.
#[test]
fn unresponsive_drive_delays_neither_start_nor_stop() {
    let root = tempfile::tempdir().unwrap();
    let start = Start::new(root.path(), "d{1...6}");
    let server = start.run();
    let data = noise(300_000, 5);
    block_on(async {
        server.client().create_bucket("b-1", false).await.unwrap();
        put(&server.client(), "k", &data).await;
    });
    server.stop();
    let label = root.path().join("d3/label");
    std::fs::rename(&label, root.path().join("label")).unwrap();
    assert!(Command::new("mkfifo").arg(&label).status().unwrap().success());
    let server = start.run();
    assert_eq!(server.hello["drives"], 5);
    block_on(async {
        assert_eq!(get(&server.client(), "k").await, data);
        put(&server.client(), "new", &data).await;
    });
    server.stop();
}

/// The exercise of docs/operating.md: one flipped bit in the journals of three of four drives.
#[test]
fn recovery_of_store_with_three_of_four_journals_damaged() {
    let root = tempfile::tempdir().unwrap();
    let start = Start::new(root.path(), "d{1...4}");
    let mut server = start.run();
    let data: Vec<Vec<u8>> = (0..40).map(|i| noise([100, 3000, 700_000][i % 3], i as u64)).collect();
    block_on(async {
        let client = server.client();
        client.create_bucket("b-1", false).await.unwrap();
        // The first checkpoint comes soon after the first change, the next a minute later.
        put(&client, "first", b"x").await;
        wait_until("the first checkpoint", Duration::from_secs(60), async || {
            (1..=4).all(|n| root.path().join(format!("d{n}/index/manifest")).exists())
        })
        .await;
        for (i, data) in data.iter().enumerate() {
            put(&client, &format!("key-{i:04}"), data).await;
        }
    });
    // As after a crash: what is in the journals is not in the index yet.
    server.signal("KILL");
    server.child.wait().unwrap();
    drop(server);
    let mut damaged = 0;
    for n in 1..=3 {
        for entry in std::fs::read_dir(root.path().join(format!("d{n}/journal"))).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let Some(found) = bytes.windows(8).position(|w| w == b"key-0018") else { continue };
            bytes[found + 3] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
            break;
        }
    }
    assert_eq!(damaged, 3);
    let server = start.run();
    let run = |args: &[&str]| ashlar(root.path(), args);
    run(&["alias", "set", "it", &server.endpoint(), USER, PASSWORD]).unwrap();
    block_on(async {
        let client = server.client();
        assert!(client.get_bytes("b-1", "key-0000", 1 << 20).await.is_err(), "nobody knows what is newest");
    });
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let dry = json(run(&["drive", "recover", "it", "--dry-run", "--json"]).unwrap());
    assert_eq!((dry["state"].as_str(), dry["dry_run"].as_bool()), (Some("done"), Some(true)), "{dry}");
    block_on(async {
        assert!(
            server.client().get_bytes("b-1", "key-0000", 1 << 20).await.is_err(),
            "a dry run changes nothing"
        );
    });
    let report = json(run(&["drive", "recover", "it", "--json"]).unwrap());
    assert_eq!(report["drives"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(report["uncertain"], dry["uncertain"], "{report}");
    let named: Vec<&str> =
        report["named"].as_array().unwrap().iter().filter_map(|k| k["key"].as_str()).collect();
    assert!(named.contains(&"key-0018"), "{report}");
    assert!(named.len() < 20, "what most drives show is certain: {report}");
    block_on(async {
        let client = server.client();
        for (i, data) in data.iter().enumerate() {
            assert!(get(&client, &format!("key-{i:04}")).await == *data, "key-{i:04}");
        }
        put(&client, "after", b"writes work").await;
        wait_until("all drives are whole", Duration::from_secs(60), async || {
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            let drives = info["drives"].as_array().unwrap();
            drives.iter().all(|d| d["state"] == "online" && d["rebuild"].is_null())
                && info["heal"]["queued"] == 0
        })
        .await;
    });
    assert!(run(&["drive", "recover", "it"]).unwrap_err().contains("no placement group needs"));
    server.stop();
    // Permanently: the next start finds nothing wrong.
    let server = start.run();
    assert_eq!(server.hello["drives"], 4);
    block_on(async {
        for (i, data) in data.iter().enumerate() {
            assert!(get(&server.client(), &format!("key-{i:04}")).await == *data, "key-{i:04}");
        }
    });
}

#[test]
fn missing_drive_joins_blank_at_next_start() {
    let root = tempfile::tempdir().unwrap();
    let start = Start::new(root.path(), "d{1...4}");
    let server = start.run();
    let data = noise(500_000, 1);
    block_on(async {
        server.client().create_bucket("b-1", false).await.unwrap();
        put(&server.client(), "k", &data).await;
    });
    server.stop();
    // The folder is missing: it is not created again, because it may be a drive that is not mounted.
    std::fs::remove_dir_all(root.path().join("d1")).unwrap();
    let server = start.run();
    assert_eq!(server.hello["drives"], 3);
    assert!(!root.path().join("d1").exists());
    block_on(async { assert_eq!(get(&server.client(), "k").await, data) });
    std::fs::create_dir(root.path().join("d1")).unwrap();
    block_on(async {
        let client = server.client();
        wait_until("the blank folder has joined", Duration::from_secs(60), async || {
            let info = client.admin(Method::GET, "info", &[], None).await.unwrap();
            info["drives"].as_array().unwrap().iter().all(|d| d["state"] == "online")
        })
        .await;
    });
    server.stop();
    // The drive of the first start is removed from the map; the new one is in it.
    let server = start.run();
    assert_eq!(server.hello["drives"], 4);
    block_on(async { assert_eq!(get(&server.client(), "k").await, data) });
}

/// Runs `ashlar` as a client, with `home` for its configuration; returns its output.
fn ashlar(home: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
    command.args(args).env("ASHLAR_CONFIG", home.join("aliases.toml")).env("NO_COLOR", "1");
    let out = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr) + &text(out.stdout)) }
}

/// The steps of an operator with a broken drive: offline, mount a blank one, replace, watch.
#[test]
fn operator_replaces_drive() {
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
    let mut rebuilt: Vec<String> = Vec::new();
    for name in ["d2", "d4"] {
        let place = root.path().join(name);
        let path = place.display().to_string();
        let drive_of = |text: &str| -> Value {
            let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
            lines.find(|d| d["path"] == path).unwrap()
        };
        let before = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        let id = before["id"].as_str().unwrap().to_owned();
        // A folder with a drive is never replaced.
        assert!(run(&["drive", "replace", "it", &path]).unwrap_err().contains("not blank"));
        assert!(run(&["drive", "replace", "it", "nonsense"]).unwrap_err().contains("no drive is called"));
        run(&["drive", "offline", "it", &id[..8]]).unwrap();
        let held = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        assert_eq!((held["state"].as_str(), held["id"].as_str()), (Some("held"), Some(id.as_str())));
        assert!(run(&["drive", "replace", "it", &path]).unwrap_err().contains("not blank"));
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        // It is offline by order: nothing happens by itself. Its id still names it.
        run(&["drive", "replace", "it", &id[..8]]).unwrap();
        let status: Value = serde_json::from_str(&run(&["heal", "status", "it", "--json"]).unwrap()).unwrap();
        // In no order; the rebuild of the earlier drive is there too.
        let earlier = |r: &&Value| !rebuilt.iter().any(|d| r["drive"] == **d);
        let rebuild = status["rebuilds"].as_array().unwrap().iter().find(earlier).unwrap().clone();
        assert_ne!(rebuild["drive"].as_str().unwrap(), id);
        rebuilt.push(rebuild["drive"].as_str().unwrap().to_owned());
        assert!(["waiting", "records", "shards", "done"].contains(&rebuild["phase"].as_str().unwrap()));
        // The watch ends when the drive is rebuilt and reports it, also when the rebuild ended before the
        // watch began.
        let watched = run(&["heal", "status", "--watch", "it"]).unwrap();
        let told = format!("drive {}: rebuilt at ", &rebuild["drive"].as_str().unwrap()[..8]);
        assert!(watched.lines().any(|line| line.starts_with(&told)), "{watched}");
        assert!(watched.lines().any(|line| line.starts_with("nothing waits")), "{watched}");
        let after = drive_of(&run(&["drive", "list", "it", "--json"]).unwrap());
        assert_eq!((after["state"].as_str(), after["rebuild"].is_null()), (Some("online"), true));
        assert_ne!(after["id"].as_str().unwrap(), id);
    }
    // Only the completed rebuild is left.
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
