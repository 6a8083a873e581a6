//! The body of an answer.
//!
//! Invariants: bytes are not copied; a body with an announced length is sent completely or the connection is
//! closed, so that a client never takes a truncated body for a complete one. Must not depend on: objects.

use ashlar_environment::time;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use crate::note::Note;

/// A read that failed after the head of the answer was sent: the connection breaks.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct Broken(pub String);

/// The bytes of an object, piece by piece.
pub trait Pieces: Send + 'static {
    /// The next piece. Errors break the connection, so that a short answer cannot pass as whole.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Broken>>> + Send;
}

type Piece = Option<Result<Bytes, Broken>>;
type Pending = Pin<Box<dyn Future<Output = (Box<dyn AnyPieces>, Piece)> + Send>>;

/// [`Pieces`] behind a pointer.
trait AnyPieces: Send {
    fn advance(self: Box<Self>) -> Pending;
}

impl<P: Pieces> AnyPieces for P {
    fn advance(mut self: Box<Self>) -> Pending {
        Box::pin(async move {
            let piece = self.next().await;
            (self as Box<dyn AnyPieces>, piece)
        })
    }
}

/// A response body.
#[derive(Default)]
pub struct Body(Kind);

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Whole(Bytes),
    /// Several pieces in memory; they leave in one vectored write.
    Many(VecDeque<Bytes>, u64),
    Stream(Stream),
    Patient(Patient),
    Endless(Endless),
}

/// An answer whose document is not known yet: it begins, and white space keeps the client waiting.
struct Patient {
    /// The XML declaration, which must come before any white space.
    begun: bool,
    work: Option<Pin<Box<dyn Future<Output = String> + Send>>>,
    beat: time::Interval,
    sent: u64,
    note: Option<Note>,
}

/// Pieces of unknown total length: the body ends when there are no more.
struct Endless {
    idle: Option<Box<dyn AnyPieces>>,
    pending: Option<Pending>,
    first: Option<Bytes>,
    sent: u64,
    note: Option<Note>,
}

impl Drop for Endless {
    fn drop(&mut self) {
        if let Some(note) = &mut self.note {
            note.finish(self.sent, true);
        }
    }
}

impl Endless {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        if let Some(first) = self.first.take().filter(|f| !f.is_empty()) {
            self.sent += first.len() as u64;
            return Poll::Ready(Some(Ok(first)));
        }
        let pending = match &mut self.pending {
            Some(pending) => pending,
            None => match self.idle.take() {
                Some(pieces) => self.pending.insert(pieces.advance()),
                None => return Poll::Ready(None),
            },
        };
        let (pieces, piece) = std::task::ready!(pending.as_mut().poll(cx));
        self.pending = None;
        if let Some(Ok(data)) = &piece {
            self.sent += data.len() as u64;
            self.idle = Some(pieces);
        }
        Poll::Ready(piece)
    }
}

struct Stream {
    first: Option<Bytes>,
    idle: Option<Box<dyn AnyPieces>>,
    pending: Option<Pending>,
    left: u64,
    sent: u64,
    /// Called with the number of bytes sent when the body is dropped.
    note: Option<Note>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(note) = &mut self.note {
            note.finish(self.sent, self.left == 0);
        }
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if let Some(note) = &mut self.note {
            note.finish(self.sent, self.work.is_none());
        }
    }
}

impl Body {
    /// No bytes.
    pub fn empty() -> Body {
        Body(Kind::Empty)
    }

    /// All of it.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        if bytes.is_empty() { Body::empty() } else { Body(Kind::Whole(bytes)) }
    }

    /// All of it, in pieces.
    pub fn many(pieces: VecDeque<Bytes>) -> Body {
        let length = pieces.iter().map(|p| p.len() as u64).sum();
        if length == 0 { Body::empty() } else { Body(Kind::Many(pieces, length)) }
    }

    /// The document that `work` gives, without its XML declaration, whenever it is done; white space
    /// every `beat` until then.
    pub fn patient(work: Pin<Box<dyn Future<Output = String> + Send>>, beat: Duration) -> Body {
        let beat = time::interval_at(time::Instant::now() + beat, beat);
        Body(Kind::Patient(Patient { begun: false, work: Some(work), beat, sent: 0, note: None }))
    }

    /// `length` bytes: `first`, then what `rest` gives.
    pub fn pieces(first: Bytes, rest: impl Pieces, length: u64) -> Body {
        Body(Kind::Stream(Stream {
            first: Some(first),
            idle: Some(Box::new(rest)),
            pending: None,
            left: length,
            sent: 0,
            note: None,
        }))
    }

    /// `first`, then what `rest` gives, until it gives nothing more.
    pub fn endless(first: Bytes, rest: impl Pieces) -> Body {
        let idle: Option<Box<dyn AnyPieces>> = Some(Box::new(rest));
        Body(Kind::Endless(Endless { idle, pending: None, first: Some(first), sent: 0, note: None }))
    }

    /// Hands a record over when all is sent or the client has gone; at once, if the body is already in memory.
    pub fn note(&mut self, mut note: Note) {
        match &mut self.0 {
            Kind::Stream(stream) => stream.note = Some(note),
            Kind::Patient(patient) => patient.note = Some(note),
            Kind::Endless(endless) => endless.note = Some(note),
            _ => note.finish(self.len(), true),
        }
    }

    /// Whether sending it takes more than handing it to the socket.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_) | Kind::Patient(_) | Kind::Endless(_))
    }

    /// Bytes still to be sent; 0 if that is not known.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Kind::Empty | Kind::Patient(_) | Kind::Endless(_) => 0,
            Kind::Whole(bytes) => bytes.len() as u64,
            Kind::Many(_, length) => *length,
            Kind::Stream(stream) => stream.left,
        }
    }

    /// Whether nothing will be sent.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kind::Patient(patient) => patient.work.is_none(),
            Kind::Endless(endless) => endless.idle.is_none() && endless.pending.is_none(),
            _ => self.len() == 0,
        }
    }

    /// All bytes, for tests and for bodies known to be small.
    pub async fn collect(mut self) -> Result<Bytes, Broken> {
        let mut all = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {
            if let Ok(data) = frame?.into_data() {
                all.extend_from_slice(&data);
            }
        }
        Ok(all.into())
    }
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(self.pass(Some(Ok(first))));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let pending = match &mut self.pending {
            Some(pending) => pending,
            None => match self.idle.take() {
                Some(pieces) => self.pending.insert(pieces.advance()),
                None => return Poll::Ready(None),
            },
        };
        let (pieces, piece) = std::task::ready!(pending.as_mut().poll(cx));
        self.pending = None;
        self.idle = Some(pieces);
        Poll::Ready(self.pass(piece))
    }

    /// Counts a piece; a body that ends early or runs over is broken, never short.
    fn pass(&mut self, piece: Piece) -> Piece {
        match piece {
            Some(Ok(data)) if data.len() as u64 <= self.left => {
                self.left -= data.len() as u64;
                self.sent += data.len() as u64;
                Some(Ok(data))
            }
            Some(Ok(_)) => Some(Err(Broken("more bytes than announced".into()))),
            Some(Err(broken)) => Some(Err(broken)),
            None => Some(Err(Broken("fewer bytes than announced".into()))),
        }
    }
}

impl Patient {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if !std::mem::replace(&mut self.begun, true) {
            self.sent += crate::xml::DECLARATION.len() as u64;
            return Poll::Ready(Some(Bytes::from_static(crate::xml::DECLARATION.as_bytes())));
        }
        if let Poll::Ready(document) = work.as_mut().poll(cx) {
            self.work = None;
            let rest = document.strip_prefix(crate::xml::DECLARATION).unwrap_or(&document);
            self.sent += rest.len() as u64;
            return Poll::Ready(Some(Bytes::copy_from_slice(rest.as_bytes())));
        }
        std::task::ready!(self.beat.poll_tick(cx));
        self.sent += 1;
        Poll::Ready(Some(Bytes::from_static(b" ")))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Many(pieces, length) => {
                let piece = pieces.pop_front();
                *length -= piece.as_ref().map_or(0, |p| p.len() as u64);
                Poll::Ready(piece.map(|p| Ok(Frame::data(p))))
            }
            Kind::Stream(stream) => stream.poll(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
            Kind::Patient(patient) => patient.poll(cx).map(|piece| piece.map(|p| Ok(Frame::data(p)))),
            Kind::Endless(endless) => endless.poll(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Patient(patient) if patient.work.is_some() => SizeHint::default(),
            Kind::Endless(endless) if endless.idle.is_some() || endless.pending.is_some() => {
                SizeHint::default()
            }
            _ => SizeHint::with_exact(self.len()),
        }
    }
}
