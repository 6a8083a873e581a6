//! An answer whose body is still arriving.
//!
//! Invariants: the connection goes back to the pool exactly when the body was read to its end, and
//! is closed otherwise; a body shorter than announced is an error, never a short success.
//!
//! Must never know: what the body means.

use ashlar_environment::time::{self, Instant, Sleep};
use futures::future::BoxFuture;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, HeaderName, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::{
    error::{Error, Result},
    pool::{Connection, Pool, chain},
};

/// A status, headers, and a body that is read piece by piece (it is also a [`Stream`]).
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// Present until the body has been read to its end.
    lease: Option<(Arc<Pool>, Connection)>,
    idle_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether bytes arrived since the timer was set.
    timer_stale: bool,
}

impl Answer {
    pub(crate) fn new(
        response: http::Response<Incoming>,
        pool: Arc<Pool>,
        connection: Connection,
        idle_timeout: Duration,
    ) -> Answer {
        let (head, body) = response.into_parts();
        let mut answer = Answer {
            status: head.status,
            headers: head.headers,
            body,
            lease: Some((pool, connection)),
            idle_timeout,
            timer: None,
            timer_stale: true,
        };
        answer.give_back_at_end();
        answer
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// One header as text; `None` if it is absent or no text.
    pub fn header(&self, name: impl Into<HeaderKey>) -> Option<&str> {
        self.headers.get(name.into().0).and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
    }

    fn give_back_at_end(&mut self) {
        if self.body.is_end_stream()
            && let Some((pool, connection)) = self.lease.take()
        {
            pool.put(connection);
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.timer_stale = true;
                    self.give_back_at_end();
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let endpoint = self.endpoint();
                    self.lease = None;
                    let reason = chain(&error);
                    return Poll::Ready(Some(Err(Error::Broken { endpoint, reason })));
                }
                Poll::Ready(None) => {
                    if let Some((pool, connection)) = self.lease.take() {
                        pool.put(connection);
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    ready!(self.poll_timer(cx));
                    self.lease = None;
                    let seconds = self.idle_timeout.as_secs();
                    let error = Error::Timeout { what: "receiving", seconds };
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// Ready when nothing has arrived for the idle time. The timer is made on the first wait and
    /// moved on the first wait after bytes: most small answers never need one.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.idle_timeout;
        let timer = self.timer.get_or_insert_with(|| {
            self.timer_stale = false;
            Box::pin(time::sleep(idle))
        });
        if std::mem::take(&mut self.timer_stale) {
            timer.as_mut().reset(Instant::now() + idle);
        }
        timer.as_mut().poll(cx)
    }

    fn endpoint(&self) -> String {
        self.lease.as_ref().map(|(_, c)| c.host.authority.clone()).unwrap_or_default()
    }

    /// The next piece of the body; `None` at its end.
    pub fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(async move { std::future::poll_fn(|cx| self.poll_piece(cx)).await.transpose() })
    }

    /// The whole body, at most `limit` bytes; more is an error.
    pub fn collect(&mut self, limit: usize) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let Some(first) = self.piece().await? else { return Ok(Bytes::new()) };
            let mut total = BytesMut::new();
            let mut only = Some(first);
            loop {
                let length = only.as_ref().map_or(0, Bytes::len) + total.len();
                if length > limit {
                    return Err(Error::Unexpected(format!("a body of more than {limit} bytes")));
                }
                match self.piece().await? {
                    None => return Ok(only.unwrap_or_else(|| total.freeze())),
                    Some(next) => {
                        if let Some(first) = only.take() {
                            total.extend_from_slice(&first);
                        }
                        total.extend_from_slice(&next);
                    }
                }
            }
        })
    }

    /// Reads and drops the body; returns its length.
    pub fn drain(&mut self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let mut length = 0;
            while let Some(piece) = self.piece().await? {
                length += piece.len() as u64;
            }
            Ok(length)
        })
    }
}

impl Stream for Answer {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(cx)
    }
}

/// A header's name, from text or from a [`HeaderName`]. Names that cannot exist find nothing.
pub struct HeaderKey(HeaderName);

impl From<HeaderName> for HeaderKey {
    fn from(name: HeaderName) -> Self {
        HeaderKey(name)
    }
}

impl From<&str> for HeaderKey {
    fn from(name: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes());
        HeaderKey(name.unwrap_or(HeaderName::from_static("x-no-such-header")))
    }
}
