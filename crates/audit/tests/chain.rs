//! The file: whole, changed, shortened, rotated, torn; and what a receiver gets.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ashlar_audit::{ApiLayer, Audit, Config, FileConfig, Full, Record, WebhookConfig, key_from, verify};
use ashlar_outbound::Rules;

const SECRET: &str = "root's secret";

fn config(path: &Path, max_size: u64) -> Config {
    Config {
        deployment: "d0".into(),
        key: key_from(SECRET),
        file: Some(FileConfig { path: path.to_owned(), max_size }),
        webhooks: Vec::new(),
    }
}

fn record(id: u32) -> Record {
    let mut r = Record::new(1_700_000_000_000, &format!("ID{id:06}"), ApiLayer::S3, [127, 0, 0, 1].into());
    r.operation = "GetObject";
    r.key = format!("key {id} \"\n");
    r
}

async fn write(audit: &Audit, from: u32, to: u32) {
    for id in from..to {
        audit.note(audit.ticket().await.unwrap(), record(id));
    }
    let last = audit.ticket().await.unwrap();
    audit.note_and_wait(last, record(to)).await.unwrap();
}

fn keys() -> Vec<[u8; 32]> {
    vec![key_from(SECRET)]
}

fn good(files: &[PathBuf]) -> ashlar_audit::Report {
    let report = verify(files, &keys()).unwrap();
    assert_eq!(report.problem, None);
    report
}

#[tokio::test]
async fn every_changed_or_missing_line_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let audit = Audit::open(config(&path, 1 << 30)).unwrap();
    write(&audit, 0, 20).await;
    // Another server does not write here.
    assert!(Audit::open(config(&path, 1 << 30)).is_err());
    assert_eq!(audit.find("ID000007").await.unwrap()["key"], "key 7 \"\n");
    assert!(audit.find("ID9").await.is_none() && audit.find("\"").await.is_none());
    audit.close();
    let files = [path.clone()];
    let report = good(&files);
    assert_eq!((report.records, report.signed, report.uncovered), (21, 2, 0));

    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let bad = |text: String| {
        fs::write(&path, text).unwrap();
        let report = verify(&files, &keys()).unwrap();
        report.problem.unwrap_or_else(|| panic!("not noticed")).1
    };
    for i in 0..lines.len() {
        let mut without = lines.clone();
        without.remove(i);
        bad(without.join("\n") + "\n");
        let mut twice = lines.clone();
        twice.insert(i, lines[i]);
        bad(twice.join("\n") + "\n");
        // A byte in the middle, wherever that is.
        for at in [8, lines[i].len() / 2, lines[i].len() - 3] {
            let mut changed = lines[i].as_bytes().to_vec();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            let mut all: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
            all[i] = String::from_utf8(changed).unwrap();
            assert_eq!(bad(all.join("\n") + "\n"), i as u64 + 1);
        }
        // Shortened: what stands beside the file remembers.
        if i > 0 {
            bad(lines[..i].join("\n") + "\n");
        }
    }
    // Under another secret nothing is believed.
    fs::write(&path, &whole).unwrap();
    assert!(verify(&files, &[key_from("another")]).unwrap().problem.is_some());
    assert!(verify(&files, &[]).unwrap().problem.is_none());
}

#[tokio::test]
async fn the_chain_goes_on_after_restarts_crashes_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut next = 0;
    for round in 0..3 {
        let audit = Audit::open(config(&path, 64 * 1024)).unwrap();
        write(&audit, next, next + 300).await;
        next += 301;
        audit.close();
        if round == 1 {
            // Killed in the middle of a line.
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"{\"seq\":77,\"time\":\"20").unwrap();
        }
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| !p.to_string_lossy().ends_with(".head"))
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let report = good(&files);
    assert_eq!(report.records, u64::from(next));
    assert!(report.notes.iter().any(|n| n.contains("unfinished line")), "{:?}", report.notes);
    // A file in the middle is missing; one of the first is: that is only a later beginning.
    let without: Vec<_> = files.iter().filter(|f| **f != files[2]).cloned().collect();
    assert!(verify(&without, &keys()).unwrap().problem.is_some());
    let audit = Audit::open(config(&path, 64 * 1024)).unwrap();
    assert!(audit.find("ID000003").await.is_some(), "in a file that was rotated away");
    audit.close();
    // Lines that were cut off at the end are noticed at the next start, and for ever after.
    let text = fs::read_to_string(&path).unwrap();
    let shorter: Vec<&str> = text.lines().collect();
    fs::write(&path, shorter[..shorter.len() - 2].join("\n") + "\n").unwrap();
    Audit::open(config(&path, 64 * 1024)).unwrap().close();
    let report = good(std::slice::from_ref(&path));
    assert!(report.notes.iter().any(|n| n.contains("2 lines were missing")), "{:?}", report.notes);
    // Something else is not written into.
    let other = folder.path().join("other");
    fs::write(&other, "notes\n").unwrap();
    assert!(Audit::open(config(&other, 1 << 20)).is_err());
}

/// Answers `status` to every request and keeps the bodies.
fn receiver(listener: TcpListener, status: u16, got: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let got = got.clone();
            std::thread::spawn(move || {
                let mut data = Vec::new();
                let mut buffer = [0u8; 65536];
                while let Ok(n) = stream.read(&mut buffer) {
                    if n == 0 {
                        return;
                    }
                    data.extend_from_slice(&buffer[..n]);
                    while let Some(at) = data.windows(4).position(|w| w == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&data[..at]).to_lowercase();
                        assert!(head.contains("authorization: bearer t0ken"), "{head}");
                        let length = head.split("content-length: ").nth(1).unwrap();
                        let length: usize = length.lines().next().unwrap().parse().unwrap();
                        if data.len() < at + 4 + length {
                            break;
                        }
                        let body = data[at + 4..at + 4 + length].to_vec();
                        data.drain(..at + 4 + length);
                        got.lock().unwrap().push(String::from_utf8(body).unwrap());
                        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
}

#[tokio::test]
async fn a_receiver_that_was_away_gets_everything() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/audit", listener.local_addr().unwrap());
    let at = listener.local_addr().unwrap();
    drop(listener);
    let webhook = WebhookConfig {
        name: "one".into(),
        url,
        token: Some("Bearer t0ken".into()),
        queue_dir: Some(folder.path().join("queue")),
        queue_size: 1000,
        batch: 1,
        full: Full::Drop,
        rules: Rules { allow_loopback: true, timeout: Duration::from_secs(5), ..Rules::default() },
    };
    let open = |webhook: &WebhookConfig| {
        Audit::open(Config { deployment: "d0".into(), webhooks: vec![webhook.clone()], ..Config::default() })
            .unwrap()
    };
    let audit = open(&webhook);
    write(&audit, 0, 30).await;
    let mut page = ashlar_metrics::Page::new("s");
    audit.render(&mut page);
    let text = page.text(&[ashlar_metrics::Group::Node]);
    assert!(text.contains("minio_audit_target_queue_length{server=\"s\",target_id=\"one\"} 31"), "{text}");
    audit.close();
    drop(audit);
    let got = Arc::new(Mutex::new(Vec::new()));
    receiver(TcpListener::bind(at).unwrap(), 200, got.clone());
    let audit = open(&webhook);
    write(&audit, 31, 40).await;
    let until = Instant::now() + Duration::from_secs(10);
    while got.lock().unwrap().len() < 41 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let bodies = got.lock().unwrap().clone();
    let mut ids: Vec<String> = Vec::new();
    for body in bodies {
        let entry: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&entry["version"], &entry["deploymentid"]), (&"1".into(), &"d0".into()));
        assert_eq!(entry["api"]["name"], "GetObject");
        ids.push(entry["requestID"].as_str().unwrap().to_owned());
    }
    ids.sort();
    assert_eq!(ids, (0..41).map(|i| format!("ID{i:06}")).collect::<Vec<_>>());
    audit.close();
}

#[tokio::test]
async fn a_full_queue_drops_and_counts() {
    let webhook = WebhookConfig {
        name: "one".into(),
        url: "http://127.0.0.1:9/".into(),
        token: None,
        queue_dir: None,
        queue_size: 10,
        batch: 1,
        full: Full::Drop,
        rules: Rules { timeout: Duration::from_secs(5), ..Rules::default() },
    };
    let audit = Audit::open(Config { webhooks: vec![webhook], ..Config::default() }).unwrap();
    write(&audit, 0, 14).await;
    let mut page = ashlar_metrics::Page::new("s");
    audit.render(&mut page);
    let text = page.text(&[ashlar_metrics::Group::Node]);
    assert!(text.contains("ashlar_audit_dropped_total{server=\"s\",target_id=\"one\"} 5"), "{text}");
    audit.close();
}
