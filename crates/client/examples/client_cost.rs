//! Measures the cost of a signed 4 KiB GET in the client: CPU time of its thread per request, against a
//! server on loopback that sends a constant answer.
//!
//! `cargo run --release -p ashlar-client --example client_cost`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::{Duration, Instant},
};

use ashlar_client::{Call, Client, Config, Credentials, Method, Target};
use futures::{StreamExt, stream::FuturesUnordered};

const REQUESTS: usize = 40_000;

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || serve(listener));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for concurrency in [1, 8, 32] {
        let mut config = Config::new(&endpoint, Some(Credentials::new("benchmark", "benchmark-secret")));
        config.attempts = 1;
        let client = Client::new(config).expect("a valid configuration");
        let (cpu, begin) = (thread_cpu(), Instant::now());
        runtime.block_on(async {
            let workers = (0..concurrency).map(|_| worker(&client, REQUESTS / concurrency));
            workers.collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await
        });
        let each = |time: Duration| time.as_secs_f64() * 1e6 / REQUESTS as f64;
        println!(
            "concurrency {concurrency:2}: {:.1} us CPU, {:.1} us elapsed per signed 4 KiB GET",
            each(thread_cpu() - cpu),
            each(begin.elapsed())
        );
    }
}

async fn worker(client: &Client, requests: usize) {
    for number in 0..requests {
        let key = format!("bench-01234567/4096/{number:08}");
        let call = Call::new(Method::GET, Target::Object("benchmark", &key));
        let mut answer = client.execute(call).await.expect("an answer");
        assert_eq!(answer.drain().await.expect("a body"), 4096);
    }
}

/// CPU time of this thread, from the scheduler, in nanoseconds.
fn thread_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// A thread per connection; requests have no body and fit into one read.
fn serve(listener: TcpListener) {
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4096\r\ncontent-type: application/octet-stream\r\n\
        etag: \"5d41402abc4b2a76b9719d911017c592\"\r\nlast-modified: Sat, 21 Nov 2026 09:00:00 GMT\r\n\
        accept-ranges: bytes\r\nx-amz-request-id: 18EA0562567FEB78\r\ndate: Sat, 21 Nov 2026 09:00:00 GMT\r\n\r\n"
        .to_vec();
    answer.extend([7; 4096]);
    for stream in listener.incoming().flatten() {
        let answer = answer.clone();
        std::thread::spawn(move || {
            let mut stream = stream;
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|n| n > 0) {
                if stream.write_all(&answer).is_err() {
                    return;
                }
            }
        });
    }
}
