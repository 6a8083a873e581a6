//! Delivery: order per key, an unreachable target, refused events, events that the feed dropped. The receiver
//! is a webhook in this process; the feed and the dead letters are in memory.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use ashlar_events::settings::{Configured, Values};
use ashlar_events::{
    Batch, DeadLetter, DeadLetterStore, Event, Kind, Name, Names, Reader, Result, Rule, Rules, Shape, Site,
    Source, TargetId, TargetManager,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const ARN: &str = "arn:minio:sqs::1:webhook";

/// A feed in memory.
#[derive(Default)]
struct Memory {
    events: Mutex<VecDeque<Arc<Event>>>,
    done: Arc<Mutex<BTreeMap<String, u64>>>,
    lost: AtomicU64,
    news: Notify,
    rules: Mutex<Option<Arc<Rules>>>,
}

struct At {
    feed: Arc<Memory>,
    name: String,
    next: u64,
}

impl Reader for At {
    fn next(&mut self, most: usize) -> BoxFuture<'_, Result<Batch>> {
        Box::pin(async move {
            loop {
                let news = self.feed.news.notified();
                let events: Vec<_> = self
                    .feed
                    .events
                    .lock()
                    .iter()
                    .filter(|e| e.position > self.next)
                    .take(most)
                    .cloned()
                    .collect();
                if let Some(last) = events.last() {
                    self.next = last.position;
                    return Ok(Batch { upto: self.next, events, lost: self.feed.lost.swap(0, SeqCst) });
                }
                news.await;
            }
        })
    }

    fn done(&self, position: u64) {
        self.feed
            .done
            .lock()
            .entry(self.name.clone())
            .and_modify(|d| *d = position.max(*d))
            .or_insert(position);
    }

    fn lag(&self) -> u64 {
        0
    }
}

/// The source that the target manager gets: its readers share the whole feed.
struct Shared(Arc<Memory>);

impl Source for Shared {
    fn reader<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Box<dyn Reader>>> {
        Box::pin(async move {
            let next = *self.0.done.lock().entry(name.to_owned()).or_insert(0);
            Ok(Box::new(At { feed: self.0.clone(), name: name.to_owned(), next }) as Box<dyn Reader>)
        })
    }

    fn forget(&self, name: &str) {
        self.0.done.lock().remove(name);
    }

    fn readers(&self) -> Vec<String> {
        self.0.done.lock().keys().cloned().collect()
    }

    fn rules(&self, _: &str) -> Option<Arc<Rules>> {
        self.0.rules.lock().clone()
    }
}

#[derive(Default)]
struct Drawer(Mutex<Vec<DeadLetter>>);

impl DeadLetterStore for Drawer {
    fn put(&self, dead_letter: DeadLetter) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.lock().push(dead_letter);
            Ok(())
        })
    }

    fn list<'a>(&'a self, target: Option<&'a str>, most: usize) -> BoxFuture<'a, Result<Vec<DeadLetter>>> {
        Box::pin(async move {
            let fits = |l: &&DeadLetter| target.is_none_or(|t| l.target == t);
            Ok(self.0.lock().iter().filter(fits).take(most).cloned().collect())
        })
    }

    fn remove(&self, ids: Vec<String>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.lock().retain(|l| !ids.contains(&l.id));
            Ok(())
        })
    }
}

fn event(position: u64, key: &str) -> Arc<Event> {
    Arc::new(Event {
        position,
        ballot: String::new(),
        time_ms: 0,
        name: Name::CreatedPut,
        bucket: "b".into(),
        key: key.into(),
        version: None,
        size: 1,
        etag: None,
        meta: Vec::new(),
        who: String::new(),
        source: String::new(),
        request_id: String::new(),
        agent: String::new(),
        endpoint: String::new(),
    })
}

/// Keys and sequencers of the events that the receiver got.
type Got = Arc<Mutex<Vec<(String, u64)>>>;

/// A webhook: refuses keys that begin with `bad`, and everything while it is `away`.
async fn receiver(away: Arc<AtomicBool>) -> (String, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let got: Got = Arc::default();
    let all = got.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (away, got) = (away.clone(), all.clone());
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                loop {
                    let head = loop {
                        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                            break at + 4;
                        }
                        if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                            return;
                        }
                    };
                    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
                    let length = text.split("content-length: ").nth(1).and_then(|t| t.split("\r\n").next());
                    let length: usize = length.unwrap().parse().unwrap();
                    while buffer.len() < head + length {
                        if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let body: serde_json::Value =
                        serde_json::from_slice(&buffer[head..head + length]).unwrap();
                    buffer.drain(..head + length);
                    let object = &body["Records"][0]["s3"]["object"];
                    let key = object["key"].as_str().unwrap_or_default().to_owned();
                    let status = if away.load(SeqCst) {
                        "503 away"
                    } else if key.starts_with("bad") {
                        "400 bad"
                    } else {
                        let sequencer = object["sequencer"].as_str().unwrap_or("0");
                        got.lock().push((key, u64::from_str_radix(sequencer, 16).unwrap()));
                        "200 OK"
                    };
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, got)
}

fn rules() -> Arc<Rules> {
    let rule = Rule {
        id: "r".into(),
        shape: Shape::Queue,
        arn: ARN.into(),
        events: vec!["s3:ObjectCreated:*".into()],
        prefix: None,
        suffix: None,
        names: Names::default(),
        target: None,
    };
    Arc::new(Rules::new(vec![rule], "r", |_| true, String::new).unwrap())
}

struct Rig {
    feed: Arc<Memory>,
    drawer: Arc<Drawer>,
    target_manager: Arc<TargetManager>,
    id: TargetId,
    url: String,
    got: Got,
    away: Arc<AtomicBool>,
}

impl Rig {
    async fn new() -> Rig {
        // The receiver is on this machine.
        ashlar_outbound::allow(true, false);
        let away = Arc::new(AtomicBool::new(false));
        let (url, got) = receiver(away.clone()).await;
        let feed = Arc::new(Memory::default());
        *feed.rules.lock() = Some(rules());
        let drawer = Arc::new(Drawer::default());
        let target_manager = TargetManager::new(
            Arc::new(Shared(feed.clone())),
            drawer.clone(),
            Site::default(),
            Vec::new(),
            || 7,
        );
        Rig { feed, drawer, target_manager, id: TargetId::new("1", Kind::Webhook), url, got, away }
    }

    async fn configure(&self, extra: &[(&str, &str)]) {
        let mut values = Values::from([("endpoint".to_owned(), self.url.clone())]);
        values.extend(extra.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        self.target_manager.configure(vec![Configured { id: self.id.clone(), values }]).await;
    }

    fn happen(&self, position: u64, key: &str) {
        self.feed.events.lock().push_back(event(position, key));
        self.feed.news.notify_waiters();
    }

    async fn until(&self, what: impl Fn(&Rig) -> bool) {
        let end = tokio::time::Instant::now() + Duration::from_secs(15);
        while !what(self) {
            assert!(
                tokio::time::Instant::now() < end,
                "{:?} {:?}",
                self.got.lock(),
                self.target_manager.statuses()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_key_arrive_in_order_after_outage_and_restart() {
    let rig = Rig::new().await;
    rig.configure(&[]).await;
    for n in 1..=100u64 {
        if n == 30 {
            rig.away.store(true, SeqCst);
        }
        rig.happen(n, &format!("k{}", n % 7));
        if n == 60 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // With other settings the worker is stopped, and another one continues at its position.
            rig.configure(&[("comment", "x")]).await;
            rig.away.store(false, SeqCst);
        }
    }
    rig.until(|r| r.feed.done.lock().get("events/1:webhook") == Some(&100)).await;
    let got = rig.got.lock().clone();
    for key in 0..7 {
        let mut of: Vec<u64> = got.iter().filter(|(k, _)| *k == format!("k{key}")).map(|(_, p)| *p).collect();
        assert!(of.is_sorted(), "{of:?}");
        of.dedup();
        assert_eq!(of, (1..=100).filter(|n| n % 7 == key).collect::<Vec<_>>());
    }
    assert!(rig.target_manager.test(&rig.id, "b", "rid").await.is_ok());
    rig.away.store(true, SeqCst);
    assert!(rig.target_manager.test(&rig.id, "b", "rid").await.unwrap_err().to_string().contains("503"));
    rig.target_manager.configure(Vec::new()).await;
    assert!(rig.feed.done.lock().is_empty(), "its position is removed");
    assert!(!rig.target_manager.knows(&rig.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_or_lost_events_become_dead_letters_that_can_be_replayed() {
    let rig = Rig::new().await;
    rig.feed.lost.store(3, SeqCst);
    for (n, key) in ["a", "bad1", "b", "bad2", "c"].into_iter().enumerate() {
        rig.happen(n as u64 + 1, key);
    }
    rig.configure(&[]).await;
    rig.until(|r| r.feed.done.lock().get("events/1:webhook") == Some(&5)).await;
    // Events of different keys may be in flight together.
    let mut keys: Vec<_> = rig.got.lock().iter().map(|(k, _)| k.clone()).collect();
    keys.sort();
    assert_eq!(keys.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
    let letters = rig.target_manager.dead_letters(Some("1:webhook")).await.unwrap();
    assert_eq!(letters.iter().map(|l| l.lost).collect::<Vec<_>>(), [3, 0, 0]);
    assert_eq!(letters[1].event.as_ref().unwrap().key, "bad1");
    let status = &rig.target_manager.statuses()[0];
    assert_eq!((status.sent, status.dead, status.lost), (3, 3, 3));
    // The target still refuses it: only the dead letter without an event is removed.
    assert!(rig.target_manager.replay(&rig.id).await.is_err());
    assert_eq!(rig.drawer.0.lock().len(), 2);
    rig.drawer.0.lock().iter_mut().for_each(|l| l.event.as_mut().unwrap().key = "good".into());
    assert_eq!(rig.target_manager.replay(&rig.id).await.unwrap(), 2);
    assert!(rig.drawer.0.lock().is_empty());
    assert_eq!(rig.got.lock().len(), 5);
    rig.target_manager.stop().await;
}

#[tokio::test]
async fn invalid_settings_are_refused_with_their_name() {
    let rig = Rig::new().await;
    for (kind, values, why) in [
        (Kind::Webhook, &[][..], "endpoint is missing"),
        (Kind::Webhook, &[("endpoint", "ftp://x")], "https://"),
        (Kind::Redis, &[("address", "h:1")], "key is missing"),
        (Kind::Redis, &[("address", "h:1"), ("key", "k"), ("format", "x")], "format"),
        (Kind::Nats, &[("address", "h"), ("subject", "s"), ("nkey_seed", "x")], "nkey_seed"),
        (Kind::Nats, &[("address", "h"), ("subject", "a b")], "subject"),
        (Kind::Mqtt, &[("broker", "ws://h"), ("topic", "t")], "ws://"),
        (Kind::Mqtt, &[("broker", "tcp://h"), ("topic", "t"), ("qos", "3")], "qos"),
        (Kind::Amqp, &[("url", "http://h")], "amqp"),
        (Kind::Nsq, &[("nsqd_address", "h:0"), ("topic", "t")], "port"),
        (Kind::Elasticsearch, &[("url", "http://h"), ("index", "A/B")], "index"),
    ] {
        let values: Values = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let error = rig.target_manager.check(&TargetId::new("1", kind), &values).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // Metadata addresses of clouds are refused when the setting is stored, not only at connection time.
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "0.0.0.0"] {
        let (http, plain, amqp) = (format!("http://{host}/"), format!("{host}:9"), format!("amqp://{host}"));
        let mqtt = format!("tcp://{host}:1");
        for (kind, values) in [
            (Kind::Webhook, vec![("endpoint", http.as_str())]),
            (Kind::Elasticsearch, vec![("url", http.as_str()), ("index", "i")]),
            (Kind::Redis, vec![("address", plain.as_str()), ("key", "k")]),
            (Kind::Nats, vec![("address", plain.as_str()), ("subject", "s")]),
            (Kind::Nsq, vec![("nsqd_address", plain.as_str()), ("topic", "t")]),
            (Kind::Kafka, vec![("brokers", plain.as_str()), ("topic", "t")]),
            (Kind::Amqp, vec![("url", amqp.as_str())]),
            (Kind::Mqtt, vec![("broker", mqtt.as_str()), ("topic", "t")]),
        ] {
            let values: Values = values.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            let error = rig.target_manager.check(&TargetId::new("1", kind), &values).unwrap_err();
            assert!(error.contains("not allowed"), "{kind:?} {host}: {error}");
        }
    }
}
