//! A small S3 server of threads, with delays and faults that a test sets.
#![allow(dead_code)] // each test binary uses its own part

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_bench::load::{Job, Mode, Offer, Op, Order, Select, Sizes, Stop, Target, Warmup};
use ashlar_bench::wire::{Keys, Payload, Shape};

/// A request as the server sees it.
pub struct Request {
    pub method: String,
    pub bucket: String,
    pub key: String,
    pub query: String,
    pub body: Vec<u8>,
}

/// What a test may do with a GET: wait, and change the answer's bytes.
pub type Fault = dyn Fn(&Request, &mut Vec<u8>) -> Option<u16> + Send + Sync;

#[derive(Default)]
pub struct State {
    /// Objects by bucket.
    pub buckets: Mutex<BTreeMap<String, BTreeMap<String, Vec<u8>>>>,
    /// How long each GET took here, from its head to its answer.
    pub took: Mutex<Vec<Duration>>,
    pub gets: AtomicU64,
}

pub struct Server {
    pub state: Arc<State>,
    pub url: String,
    end: Arc<AtomicBool>,
}

impl Server {
    pub fn start(fault: Box<Fault>) -> Server {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let state = Arc::new(State::default());
        let end = Arc::new(AtomicBool::new(false));
        let fault: Arc<Fault> = Arc::from(fault);
        let (inner, stop) = (state.clone(), end.clone());
        thread::spawn(move || {
            for stream in socket.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (state, fault) = (inner.clone(), fault.clone());
                thread::spawn(move || drop(serve(stream.unwrap(), &state, &fault)));
            }
        });
        Server { state, url, end }
    }

    pub fn plain() -> Server {
        Server::start(Box::new(|_, _| None))
    }

    pub fn put(&self, bucket: &str, key: &str, body: &[u8]) {
        let mut buckets = self.state.buckets.lock().unwrap();
        buckets.entry(bucket.into()).or_default().insert(key.into(), body.into());
    }

    pub fn keys(&self, bucket: &str) -> Option<Vec<String>> {
        self.state.buckets.lock().unwrap().get(bucket).map(|b| b.keys().cloned().collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

fn serve(stream: TcpStream, state: &State, fault: &Arc<Fault>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let Some(request) = read(&mut input)? else { return Ok(()) };
        let begun = Instant::now();
        let (mut status, mut body) = answer(&request, state);
        let is_get = request.method == "GET" && !request.key.is_empty();
        if is_get {
            state.gets.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(code) = fault(&request, &mut body) {
            status = code;
            body = b"<Error><Code>Injected</Code><Message>by the test</Message></Error>".to_vec();
        }
        let text = format!("HTTP/1.1 {status} X\r\netag: \"0\"\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut bytes = text.into_bytes();
        if request.method != "HEAD" && status != 204 {
            bytes.extend_from_slice(&body);
        }
        if is_get {
            state.took.lock().unwrap().push(begun.elapsed());
        }
        out.write_all(&bytes)?;
    }
}

fn read(input: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        input.read_line(&mut header)?;
        if header == "\r\n" {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let (bucket, key, query) = (bucket.to_owned(), key.replace("%20", " "), query.replace("%2F", "/"));
    Ok(Some(Request { method, bucket, key, query, body }))
}

fn answer(request: &Request, state: &State) -> (u16, Vec<u8>) {
    let mut buckets = state.buckets.lock().unwrap();
    let has = |name: &str| request.query.split('&').any(|p| p == name || p.starts_with(&format!("{name}=")));
    let value = |name: &str| {
        request.query.split('&').find_map(|p| p.strip_prefix(&format!("{name}="))).unwrap_or("").to_owned()
    };
    let missing = |code: &str| (404, format!("<Error><Code>{code}</Code></Error>").into_bytes());
    if request.key.is_empty() && request.method == "PUT" {
        buckets.entry(request.bucket.clone()).or_default();
        return (200, Vec::new());
    }
    let Some(bucket) = buckets.get_mut(&request.bucket) else { return missing("NoSuchBucket") };
    match (request.method.as_str(), request.key.as_str()) {
        ("HEAD", "") => (200, Vec::new()),
        ("DELETE", "") if !bucket.is_empty() => (409, b"<Error><Code>BucketNotEmpty</Code></Error>".to_vec()),
        ("DELETE", "") => {
            buckets.remove(&request.bucket);
            (204, Vec::new())
        }
        ("GET", "") if has("uploads") => (200, b"<ListMultipartUploadsResult/>".to_vec()),
        ("GET", "") => {
            let (prefix, after) = (value("prefix"), value("start-after").max(value("continuation-token")));
            let found: Vec<&String> =
                bucket.keys().filter(|k| k.starts_with(&prefix) && **k > after).take(1001).collect();
            let mut out = String::from("<ListBucketResult>");
            for key in found.iter().take(1000) {
                out += &format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
            }
            if found.len() > 1000 {
                out += "<IsTruncated>true</IsTruncated>";
                out += &format!("<NextContinuationToken>{}</NextContinuationToken>", found[999]);
            }
            (200, (out + "</ListBucketResult>").into_bytes())
        }
        ("POST", "") => {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            for part in text.split("<Key>").skip(1) {
                bucket.remove(part.split("</Key>").next().unwrap());
            }
            (200, b"<DeleteResult/>".to_vec())
        }
        ("PUT", key) => {
            bucket.insert(key.into(), request.body.clone());
            (200, Vec::new())
        }
        ("DELETE", key) => {
            bucket.remove(key);
            (204, Vec::new())
        }
        (_, key) => match bucket.get(key) {
            Some(body) => (200, body.clone()),
            None => missing("NoSuchKey"),
        },
    }
}

/// A job on a server: 100 objects of 1,000 bytes.
pub fn job(server: &Server, mode: Mode) -> Job {
    let op = match mode {
        Mode::Put => Op::Put,
        Mode::List => Op::List,
        Mode::Delete => Op::Delete,
        Mode::Stat => Op::Head,
        _ => Op::Get,
    };
    let keys = Keys { access: "a".into(), secret: "s".into(), token: None, region: "us-east-1".into() };
    Job {
        mode,
        target: Target {
            endpoints: vec![server.url.clone()],
            keys: Some(keys),
            insecure: false,
            authority: None,
            virtual_host: false,
            select: Select::RoundRobin,
            timeout_s: 5.0,
            payload: Payload::Signed,
            checksum: None,
        },
        bucket: "bench".into(),
        buckets: 1,
        prefix: String::new(),
        run: "ashlar-bench-test".into(),
        depth: 0,
        fanout: 16,
        order: Order::Random,
        existing: false,
        objects: 100,
        sizes: Sizes::Fixed(1000),
        shape: Shape::Random,
        seed: 1,
        verify: true,
        range: None,
        mix: vec![(op, 1)],
        versions: 1,
        part_size: 5 << 20,
        parts: 1,
        batch: 1,
        list_keys: 100,
        keep: false,
        offer: Offer { concurrency: 4, rate: None, poisson: false, limit: 10_000 },
        stop: Stop { seconds: Some(1.0), ..Stop::default() },
        warmup: Warmup::Seconds(0.0),
        repetitions: 1,
        max_error_rate: 0.5,
        sweep: None,
    }
}
