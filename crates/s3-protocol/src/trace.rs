//! The live trace of requests for listeners, and the log of slow requests.
//!
//! Invariants: without listeners a request pays one relaxed load; a slow listener loses events, learns how
//! many, and never delays a request; no event contains a signature, a session token or a body.

use ashlar_environment::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::{Method, Uri};
use tokio::sync::broadcast;

/// Events that wait for a slow listener.
const WAITING: usize = 4096;

/// One request, when its answer has been sent.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Nanoseconds since 1970 when the request came.
    pub time_ns: i128,
    /// `s3`, `sts` or `admin`.
    pub kind: &'static str,
    /// As in `x-amz-request-id`.
    pub request_id: String,
    /// The operation's name.
    pub operation: &'static str,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query without what signs it.
    pub query: String,
    /// The address of the client.
    pub client: String,
    /// `Host` of the request.
    pub host: String,
    /// `User-Agent` of the request.
    pub user_agent: String,
    /// The access key that signed; empty: anonymous.
    pub access_key: String,
    /// The HTTP status.
    pub status: u16,
    /// The code of the error that was answered.
    pub error: &'static str,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// From the head of the request to the end of the answer.
    pub took: Duration,
    /// From the head of the request to the head of the answer.
    pub first_byte: Duration,
    /// Of that, waiting for the client to send the body.
    pub waited_for_client: Duration,
    /// Of that, waiting for the drives.
    pub waited_for_drives: Duration,
    /// The answer was not sent to its end.
    pub cut: bool,
}

/// Where events go.
#[derive(Debug)]
pub struct Tracer {
    listeners: AtomicUsize,
    sender: broadcast::Sender<Arc<Event>>,
}

impl Default for Tracer {
    fn default() -> Tracer {
        Tracer { listeners: AtomicUsize::new(0), sender: broadcast::Sender::new(WAITING) }
    }
}

/// Hears events until it is dropped.
pub struct Listener {
    tracer: Arc<Tracer>,
    receiver: broadcast::Receiver<Arc<Event>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tracer.listeners.fetch_sub(1, Relaxed);
    }
}

impl Listener {
    /// The next event, or how many were lost since the last; `None`: there will be no more.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>, u64>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(lost)) => Some(Err(lost)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Tracer {
    /// Whether there are listeners.
    pub fn is_on(&self) -> bool {
        self.listeners.load(Relaxed) > 0
    }

    /// Listens from now on, to requests that come from now on.
    pub fn listen(self: &Arc<Tracer>) -> Listener {
        let receiver = self.sender.subscribe();
        self.listeners.fetch_add(1, Relaxed);
        Listener { tracer: self.clone(), receiver }
    }

    /// Hands an event to all who listen.
    pub fn publish(&self, event: Event) {
        // Fails if no listener is left.
        let _ = self.sender.send(Arc::new(event));
    }
}

/// A request whose answer is still being sent.
pub struct Sending {
    /// Where its event is published at the end.
    pub tracer: Arc<Tracer>,
    /// Its event, complete but for the end.
    pub event: Event,
}

/// Requests that take longer are logged.
pub const SLOW: Duration = Duration::from_secs(10);

/// The line about a slow request in the log.
pub struct Slow {
    /// A request that takes less is not logged.
    pub limit: Duration,
    /// The request id.
    pub id: String,
    /// The method of the request.
    pub method: Method,
    /// Its target as it came.
    pub uri: Uri,
    /// The name of the operation.
    pub op: &'static str,
    /// Who sent it.
    pub peer: std::net::SocketAddr,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub received: u64,
    /// Time until the first byte of the answer.
    pub first_byte: Duration,
}

impl Slow {
    /// The request is over; logs it if it took long.
    pub fn over(&self, began: Instant, sent: u64, whole: bool) {
        let took = began.elapsed();
        if took < self.limit {
            return;
        }
        let (seconds, first_byte_s) = (took.as_secs_f64(), self.first_byte.as_secs_f64());
        tracing::warn!(
            target: "ashlar::slow", request_id = self.id, method = %self.method, path = self.uri.path(),
            op = self.op, status = self.status, seconds, first_byte_s, bytes_in = self.received,
            bytes_out = sent, whole, peer = %self.peer, "slow request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_receive_events_while_they_listen() {
        let tracer = Arc::new(Tracer::default());
        assert!(!tracer.is_on());
        tracer.publish(Event { request_id: "before".into(), ..Event::default() });
        let mut listener = tracer.listen();
        assert!(tracer.is_on());
        tracer.publish(Event { request_id: "one".into(), ..Event::default() });
        assert_eq!(listener.next().await.unwrap().unwrap().request_id, "one");
        for _ in 0..WAITING + 5 {
            tracer.publish(Event::default());
        }
        assert_eq!(listener.next().await.unwrap().unwrap_err(), 5);
        drop(listener);
        assert!(!tracer.is_on());
    }
}
