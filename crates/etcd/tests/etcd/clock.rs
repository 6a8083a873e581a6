//! The difference between the clocks of this machine and of etcd.

use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_etcd::{Options, clock_offset};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Cluster, address, created};

/// A second of the year 1994, as a header, and in ms.
const HEADER: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
const DATE_MS: i64 = 784_111_777_000;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A server that answers every request with these headers; its endpoint.
async fn server(headers: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let answer = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    endpoint
}

fn options(endpoints: Vec<String>) -> Options {
    Options { endpoints, ..Options::parse("etcd://127.0.0.1", "c").unwrap() }
}

/// On one machine there is one clock: what differs is the resolution, and the time that the answer takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_this_machine_is_that_of_its_etcd() {
    let cluster = Cluster::start(1).await;
    let before = clock_offset(&cluster.options("c")).await.expect("etcd names the date");
    let after = created(&cluster.options("c")).await.clock_offset().await.expect("etcd names the date");
    for offset in [before, after] {
        assert!(offset.abs() < 5_000, "{offset} ms");
    }
}

/// A clock that is behind by decades is measured to half a second and the time of the answer. Endpoints that do not
/// answer, or name no date, are passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clock_is_measured() {
    let other = server(HEADER).await;
    let nothing = format!("http://{}", address());
    let (dateless, strange) = (server("").await, server("date: yesterday\r\n").await);
    let begin = now_ms();
    let offset = clock_offset(&options(vec![nothing.clone(), dateless.clone(), other])).await.unwrap();
    let end = now_ms();
    assert!((begin - DATE_MS - 500..=end - DATE_MS - 500).contains(&offset), "{offset} ms");
    assert_eq!(clock_offset(&options(vec![nothing, dateless, strange])).await, None);
    assert_eq!(clock_offset(&options(Vec::new())).await, None);
}
