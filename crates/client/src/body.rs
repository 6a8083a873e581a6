//! Request bodies: empty, bytes, a source that can be read again, or a stream that cannot.
//!
//! Invariants: exactly the announced number of bytes is sent, or the request fails; a request whose body can
//! be read only once is not repeated after the first byte.
//!
//! Must not depend on: signatures, files.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::{chunked::Chunked, error::Error};

/// Bytes as they become available. Pieces of about 256 KiB are best.
pub type PieceStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A payload that can be read from its start for each attempt of a request.
pub trait Source: Send + Sync {
    /// The number of bytes of each reading.
    fn len(&self) -> u64;
    /// Whether there is nothing to read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Starts to read.
    fn open(&self) -> PieceStream;
}

/// The payload of a request.
#[derive(Clone, Default)]
pub enum Body {
    /// No payload.
    #[default]
    Empty,
    /// A payload in memory.
    Bytes(Bytes),
    /// A payload that can be read again.
    Source(Arc<dyn Source>),
    /// A payload of known length that can be read only once.
    Stream {
        /// Its length in bytes.
        len: u64,
        /// Its bytes; taken when the request is sent.
        stream: Arc<Mutex<Option<PieceStream>>>,
    },
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Body {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl Body {
    /// A payload that can be read only once.
    pub fn stream(len: u64, stream: PieceStream) -> Body {
        Body::Stream { len, stream: Arc::new(Mutex::new(Some(stream))) }
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Source(source) => source.len(),
            Body::Stream { len, .. } => *len,
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it can be read again.
    pub(crate) fn replayable(&self) -> bool {
        !matches!(self, Body::Stream { .. })
    }

    /// Starts to read; `None` if the payload was read before and cannot be read again.
    pub(crate) fn open(&self) -> Option<Input> {
        Some(match self {
            Body::Empty => Input::Bytes(Bytes::new()),
            Body::Bytes(bytes) => Input::Bytes(bytes.clone()),
            Body::Source(source) => Input::Stream { left: source.len(), stream: source.open() },
            Body::Stream { len, stream } => Input::Stream { left: *len, stream: stream.lock().take()? },
        })
    }

    /// Returns the stream of a reading that has not used any byte.
    pub(crate) fn give_back(&self, unused: Outgoing) {
        if let (Body::Stream { stream, .. }, Input::Stream { stream: unread, .. }) =
            (self, unused.into_input())
        {
            *stream.lock() = Some(unread);
        }
    }

    /// The SHA-256 of all bytes; reads a source once. `None` if the payload can be read only once.
    pub(crate) async fn sha256(&self) -> Result<Option<[u8; 32]>, Error> {
        match self {
            Body::Empty => Ok(Some(ashlar_checksum::sha256(&[]))),
            Body::Bytes(bytes) => Ok(Some(ashlar_checksum::sha256(bytes))),
            Body::Stream { .. } => Ok(None),
            Body::Source(source) => {
                let mut hash = ashlar_checksum::Sha256::new();
                let mut stream = source.open();
                while let Some(piece) = stream.next().await {
                    hash.update(&piece.map_err(Error::Source)?);
                }
                Ok(Some(hash.finish()))
            }
        }
    }
}

/// The bytes of one attempt, in pieces.
pub(crate) enum Input {
    Bytes(Bytes),
    Stream { left: u64, stream: PieceStream },
}

/// The size of pieces of a payload in memory. It is the granularity of progress, and about what a socket
/// takes in one call.
const PIECE: usize = 256 << 10;

impl Input {
    pub(crate) fn left(&self) -> u64 {
        match self {
            Input::Bytes(bytes) => bytes.len() as u64,
            Input::Stream { left, .. } => *left,
        }
    }

    /// The next piece, never empty; `None` at the end. Fails if the source has more or fewer bytes than
    /// announced.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Input::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Input::Bytes(bytes) => {
                let n = bytes.len().min(PIECE);
                Poll::Ready(Some(Ok(bytes.split_to(n))))
            }
            Input::Stream { left, stream } => loop {
                if *left == 0 {
                    return Poll::Ready(None);
                }
                match ready!(stream.as_mut().poll_next(cx)) {
                    Some(Ok(piece)) if piece.is_empty() => continue,
                    Some(Ok(piece)) => {
                        let Some(rest) = left.checked_sub(piece.len() as u64) else {
                            return Poll::Ready(Some(Err(wrong_length("more"))));
                        };
                        *left = rest;
                        return Poll::Ready(Some(Ok(piece)));
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(Some(Err(wrong_length("less")))),
                }
            },
        }
    }
}

fn wrong_length(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the source holds {what} than announced"))
}

/// The body that the connection sends.
pub(crate) struct Outgoing {
    framing: Framing,
    /// Bytes given to the connection so far, to detect progress.
    sent: Arc<AtomicU64>,
    /// The source's error, which the connection would only report as "user body failed".
    failure: Arc<Mutex<Option<io::Error>>>,
}

enum Framing {
    Plain(Input),
    Chunked(Box<Chunked>),
}

/// What the sender observes of an [`Outgoing`].
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) failure: Arc<Mutex<Option<io::Error>>>,
}

impl Outgoing {
    pub(crate) fn plain(input: Input, watch: Watch) -> Outgoing {
        Outgoing { framing: Framing::Plain(input), sent: watch.sent, failure: watch.failure }
    }

    pub(crate) fn chunked(chunked: Chunked, watch: Watch) -> Outgoing {
        let framing = Framing::Chunked(Box::new(chunked));
        Outgoing { framing, sent: watch.sent, failure: watch.failure }
    }

    fn into_input(self) -> Input {
        match self.framing {
            Framing::Plain(input) => input,
            Framing::Chunked(chunked) => chunked.into_input(),
        }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.framing {
            Framing::Plain(input) => ready!(input.poll_piece(cx)),
            Framing::Chunked(chunked) => ready!(chunked.poll_piece(cx)),
        };
        Poll::Ready(match piece {
            None => None,
            Some(Ok(bytes)) => {
                self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(error)) => {
                let kind = error.kind();
                *self.failure.lock() = Some(error);
                Some(Err(io::Error::new(kind, "reading the data to send")))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.framing, Framing::Plain(input) if input.left() == 0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.framing {
            Framing::Plain(input) => input.left(),
            Framing::Chunked(chunked) => chunked.encoded_left(),
        })
    }
}
