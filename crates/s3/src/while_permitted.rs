//! [`WhilePermitted`]: an answer without an end that ends when its receiver may not have it any more.
//!
//! A request is permitted when it arrives. A stream goes on for hours after that: without this, whoever was locked out
//! would go on receiving until they hang up.
//!
//! Invariants: the question is asked at least every [`CHECK`] while the stream is awaited, and before a piece is given
//! out that comes later than that; nothing is given out after the answer was no; the stream then ends as one whose server
//! stops, not as one that broke off.
//!
//! Must not depend on: what is sent, who decides.

use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use bytes::Bytes;

use crate::body::{Broken, Pieces};

/// How often the question is asked.
pub const CHECK: Duration = Duration::from_secs(1);

/// Whether the receiver may still have the answer.
pub type StillPermitted = Box<dyn Fn() -> bool + Send>;

/// Pieces that end with a permission.
pub struct WhilePermitted<P> {
    pieces: P,
    still: StillPermitted,
    asked: Instant,
    over: bool,
}

impl<P: Pieces> WhilePermitted<P> {
    /// `still`: cheap, and asked every [`CHECK`]. The answer now is known to be yes.
    pub fn new(pieces: P, still: StillPermitted) -> WhilePermitted<P> {
        WhilePermitted { pieces, still, asked: Instant::now(), over: false }
    }
}

impl<P: Pieces> Pieces for WhilePermitted<P> {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.over {
            return None;
        }
        // One future for the whole wait: pieces that are sent after a silence would never come if it began again.
        let mut next = std::pin::pin!(self.pieces.next());
        loop {
            let piece = tokio::select! {
                biased;
                piece = &mut next => Some(piece),
                () = time::sleep(CHECK.saturating_sub(self.asked.elapsed())) => None,
            };
            if self.asked.elapsed() >= CHECK {
                self.asked = Instant::now();
                if !(self.still)() {
                    self.over = true;
                    return None;
                }
            }
            if let Some(piece) = piece {
                return piece;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    use super::*;

    /// A piece every `every`; counts those that were begun.
    struct Steady {
        every: Duration,
        begun: Arc<AtomicU32>,
    }

    impl Pieces for Steady {
        async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
            self.begun.fetch_add(1, Relaxed);
            time::sleep(self.every).await;
            Some(Ok(Bytes::from_static(b"x")))
        }
    }

    fn guarded(every: Duration) -> (WhilePermitted<Steady>, Arc<AtomicBool>, Arc<AtomicU32>) {
        let (permitted, begun) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
        let still = permitted.clone();
        let pieces = Steady { every, begun: begun.clone() };
        (WhilePermitted::new(pieces, Box::new(move || still.load(Relaxed))), permitted, begun)
    }

    /// Far more than it takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn silent_stream_ends_with_its_permission() {
        let (mut stream, _, begun) = guarded(2 * CHECK + CHECK / 2);
        assert!(stream.next().await.is_some());
        assert_eq!(begun.load(Relaxed), 1, "the wait for a piece began again at each question");
        let (mut stream, silent, _) = guarded(2 * PATIENCE);
        silent.store(false, Relaxed);
        assert!(time::timeout(PATIENCE, stream.next()).await.is_ok_and(|piece| piece.is_none()));
        silent.store(true, Relaxed);
        assert!(stream.next().await.is_none(), "it went on after its end");
    }

    #[tokio::test]
    async fn busy_stream_ends_with_its_permission() {
        let (mut stream, permitted, _) = guarded(Duration::from_millis(10));
        assert!(stream.next().await.is_some());
        permitted.store(false, Relaxed);
        let ends = async { while stream.next().await.is_some() {} };
        assert!(time::timeout(PATIENCE, ends).await.is_ok());
    }
}
