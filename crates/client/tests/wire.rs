//! The client against a scripted server: connections, repetitions, broken answers.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ashlar_client::{
    Algorithm, Body, Call, Client, Config, Credentials, Error, GetOptions, Method, Payload, PutOptions,
    Repeat, Target,
};
use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

/// What the server does with one request.
#[derive(Clone)]
enum Act {
    /// Answers and keeps the connection.
    Answer(String),
    /// Answers, then closes without having said so.
    AnswerAndClose(String),
    /// Closes without an answer.
    Close,
    /// Never answers.
    Silent,
}

fn ok(body: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\netag: \"e\"\r\n\r\n{body}", body.len()))
}

fn error(status: u16, code: &str, more: &str) -> Act {
    let body = format!("<Error><Code>{code}</Code><Message>m</Message>{more}</Error>");
    Act::Answer(format!(
        "HTTP/1.1 {status} X\r\nx-amz-request-id: R1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

struct Script {
    endpoint: String,
    connections: Arc<AtomicUsize>,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Script {
    /// Serves the acts in order of arrival, whatever the connection; then answers 200.
    async fn start(acts: Vec<Act>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (seen, requests) = mpsc::unbounded_channel();
        let acts = Arc::new(std::sync::Mutex::new(acts.into_iter()));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acts, seen) = (acts.clone(), seen.clone());
                tokio::spawn(async move {
                    while let Some(request) = read_request(&mut stream).await {
                        let _ = seen.send(request);
                        let act = acts.lock().unwrap().next().unwrap_or(ok(""));
                        match act {
                            Act::Answer(text) => stream.write_all(text.as_bytes()).await.unwrap(),
                            Act::AnswerAndClose(text) => {
                                stream.write_all(text.as_bytes()).await.unwrap();
                                return;
                            }
                            Act::Close => return,
                            Act::Silent => std::future::pending().await,
                        }
                    }
                });
            }
        });
        Script { endpoint, connections, requests }
    }

    fn client(&self, change: impl FnOnce(&mut Config)) -> Client {
        let mut config = Config::new(&self.endpoint, Some(Credentials::new("k", "secret")));
        config.idle_timeout = Duration::from_millis(300);
        change(&mut config);
        Client::new(config).unwrap()
    }

    fn seen(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

/// A whole request with its body (by content-length); `None` when the peer is gone.
async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<String> {
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some(head) = text.find("\r\n\r\n") {
            let length = text[..head]
                .lines()
                .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if all.len() >= head + 4 + length {
                return Some(text);
            }
        }
        if stream.read_buf(&mut all).await.ok()? == 0 {
            return None;
        }
    }
}

async fn get(client: &Client) -> Result<Bytes, Error> {
    client.get_bytes("b", "k", 1000).await
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let mut script = Script::start(vec![ok("one"), ok("two")]).await;
    let client = script.client(|_| {});
    assert_eq!(get(&client).await.unwrap(), "one");
    assert_eq!(get(&client).await.unwrap(), "two");
    client.put_object("b", "k", "", &PutOptions::default()).await.unwrap();
    assert_eq!(script.connections.load(Ordering::SeqCst), 1);
    let seen = script.seen();
    assert!(seen[0].starts_with("GET /b/k HTTP/1.1\r\n"));
    assert!(seen[2].contains("\r\ncontent-length: 0\r\n"), "{}", seen[2]);
    assert!(seen[2].contains("authorization: AWS4-HMAC-SHA256 Credential=k/"));
}

#[tokio::test]
async fn a_closed_idle_connection_is_replaced() {
    let Act::Answer(text) = ok("x") else { unreachable!() };
    let script = Script::start(vec![Act::AnswerAndClose(text), ok("y")]).await;
    let client = script.client(|c| c.attempts = 2);
    assert_eq!(get(&client).await.unwrap(), "x");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(get(&client).await.unwrap(), "y");
    assert_eq!(script.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn unread_answers_close_their_connection() {
    let script = Script::start(vec![ok(&"z".repeat(1 << 20))]).await;
    let client = script.client(|_| {});
    drop(client.get_object("b", "k", &GetOptions::default()).await.unwrap());
    get(&client).await.unwrap();
    assert_eq!(script.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn failures_of_the_server_are_tried_again() {
    let mut script = Script::start(vec![error(503, "SlowDown", ""), Act::Close, ok("x")]).await;
    assert_eq!(get(&script.client(|_| {})).await.unwrap(), "x");
    assert_eq!(script.seen().len(), 3);
}

#[tokio::test]
async fn errors_of_the_caller_are_not() {
    let mut script = Script::start(vec![error(404, "NoSuchKey", "<Key>k</Key>")]).await;
    let failed = get(&script.client(|_| {})).await.unwrap_err();
    assert!(failed.is_not_found());
    assert_eq!(failed.to_string(), "m (NoSuchKey) [request R1]");
    assert_eq!(failed.service().unwrap().resource, "k");
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test]
async fn what_may_have_happened_is_not_repeated_unless_harmless() {
    let mut script = Script::start(vec![Act::Close, Act::Close, Act::Close]).await;
    let client = script.client(|_| {});
    let mut call = Call::new(Method::POST, Target::Object("b", "k"));
    assert!(matches!(client.execute(call).await, Err(Error::Broken { .. })));
    let mut options = PutOptions::default();
    options.headers.insert("if-none-match", "*".parse().unwrap());
    let failed = client.put_object("b", "k", "data", &options).await;
    assert!(matches!(failed, Err(Error::Broken { .. })));
    assert_eq!(script.seen().len(), 2);
    call = Call::new(Method::POST, Target::Object("b", "k"));
    call.repeat = Some(Repeat::Harmless);
    client.execute(call).await.unwrap();
    assert_eq!(script.seen().len(), 2);
}

#[tokio::test]
async fn a_stream_is_sent_once_but_a_refused_one_says_why() {
    let mut script = Script::start(vec![error(503, "SlowDown", "")]).await;
    let pieces = ["ab", "cd"].map(|p| Ok(Bytes::from_static(p.as_bytes())));
    let body = Body::stream(4, Box::pin(futures::stream::iter(pieces)));
    let client = script.client(|_| {});
    let failed = client.put_object("b", "k", body, &PutOptions::default()).await.unwrap_err();
    assert_eq!(failed.code(), Some("SlowDown"));
    let seen = script.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].contains("x-amz-trailer: x-amz-checksum-crc64nvme"));
    assert!(seen[0].contains("\r\n\r\n4\r\nabcd\r\n0\r\nx-amz-checksum-crc64nvme:"), "{}", seen[0]);
}

#[tokio::test]
async fn a_source_of_the_wrong_length_is_named() {
    let script = Script::start(vec![]).await;
    let short = Body::stream(4, Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"ab"))])));
    let options = PutOptions { payload: Some(Payload::Unsigned), ..PutOptions::default() };
    let failed = script.client(|_| {}).put_object("b", "k", short, &options).await;
    assert!(matches!(failed, Err(Error::Source(_))), "{failed:?}");
}

#[tokio::test]
async fn the_region_the_server_names_is_taken_over() {
    let wrong = error(400, "AuthorizationHeaderMalformed", "<Region>eu-south-1</Region>");
    let mut script = Script::start(vec![wrong, ok("x"), ok("y")]).await;
    let client = script.client(|_| {});
    get(&client).await.unwrap();
    get(&client).await.unwrap();
    let seen = script.seen();
    assert!(seen[0].contains("/us-east-1/s3/"));
    assert!(seen[1].contains("/eu-south-1/s3/"));
    assert!(seen[2].contains("/eu-south-1/s3/"));
}

#[tokio::test]
async fn short_bodies_and_silence_are_errors() {
    let cut = Act::AnswerAndClose("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".into());
    let stall = Act::Answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".into());
    let script = Script::start(vec![cut, stall, Act::Silent]).await;
    let client = script.client(|c| c.attempts = 1);
    assert!(matches!(get(&client).await, Err(Error::Broken { .. })));
    assert!(matches!(get(&client).await, Err(Error::Timeout { what: "receiving", .. })));
    assert!(matches!(get(&client).await, Err(Error::Timeout { .. })));
}

#[tokio::test]
async fn an_error_after_200_is_an_error() {
    let late = "<?xml version=\"1.0\"?><Error><Code>InternalError</Code></Error>";
    let script = Script::start(vec![ok(late)]).await;
    let client = script.client(|_| {});
    let failed = client.copy_object(("b", "k"), ("b", "l"), &Default::default()).await.unwrap_err();
    assert_eq!(failed.code(), Some("InternalError"));
}

#[tokio::test]
async fn a_lost_completion_is_recognised() {
    let part = ashlar_client::Part {
        number: 1,
        etag: "5d41402abc4b2a76b9719d911017c592".into(),
        size: 5,
        checksum: None,
    };
    let head =
        |etag: &str| Act::Answer(format!("HTTP/1.1 200 OK\r\netag: \"{etag}\"\r\ncontent-length: 0\r\n\r\n"));
    // The second is the MD5 of the one part's MD5.
    for (etag, succeeded) in
        [("62109206880d38a4010a98e11243924a-2", false), ("62109206880d38a4010a98e11243924a-1", true)]
    {
        let script = Script::start(vec![Act::Close, error(404, "NoSuchUpload", ""), head(etag)]).await;
        let client = script.client(|_| {});
        let outcome = client
            .complete_multipart("b", "k", "u", std::slice::from_ref(&part), &PutOptions::default())
            .await;
        assert_eq!(outcome.is_ok(), succeeded, "{outcome:?}");
    }
}

#[tokio::test]
async fn unreachable_and_not_http() {
    let mut config = Config::new("http://127.0.0.1:1", None);
    config.attempts = 1;
    let failed = Client::new(config).unwrap().list_buckets().await.unwrap_err();
    assert!(failed.is_unavailable() && failed.to_string().contains("127.0.0.1:1"), "{failed}");
    let script = Script::start(vec![Act::Answer("SSH-2.0-x\r\n\r\n".into())]).await;
    let failed = script.client(|c| c.attempts = 1).list_buckets().await.unwrap_err();
    assert!(matches!(failed, Error::Unexpected(_)), "{failed}");
}

#[tokio::test]
async fn payload_modes_say_what_they_are() {
    let mut script = Script::start(vec![]).await;
    let client = script.client(|_| {});
    for (mode, expected) in [
        (Payload::Signed, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        (Payload::SignedChunks, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n"),
        (Payload::SignedTrailer(Algorithm::Crc32), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
        (Payload::Unsigned, "UNSIGNED-PAYLOAD"),
        (Payload::Trailer(Algorithm::Sha256), "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ] {
        let options = PutOptions { payload: Some(mode), ..PutOptions::default() };
        client.put_object("b", "k", "test", &options).await.unwrap();
        let request = script.seen().remove(0);
        assert!(request.contains(&format!("x-amz-content-sha256: {expected}")), "{request}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let config = Config::new("http://h", Some(Credentials::new("k", "very-secret")));
    assert!(!format!("{config:?}").contains("very-secret"));
}
