//! SHA-256 of many uploads at once, two side by side.
//!
//! The SHA unit of a processor hashes two messages in hardly more time than one. Streams that are active at
//! the same time are paired: a caller that brings bytes and finds bytes of another stream waiting hashes
//! both, on its own thread; otherwise it leaves its bytes for the next caller. There are no threads and no
//! waiting: a lone stream, or one with [`LIMIT`] bytes queued, is hashed immediately, and the caller that
//! asks for the digest hashes the rest.
//!
//! `kernel`, `x86`: the block function. `message`: one message and its queue.
//!
//! Invariants: a message is in its stream's entry or with the one thread that hashes it; bytes are hashed in
//! the order of their arrival; a caller that waits for a digest is woken when its message returns; a dropped
//! stream leaves nothing behind. No lock is held while bytes are hashed or dropped.
//!
//! Must not depend on: the content of uploads, signatures.

mod kernel;
mod message;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::Sha256;
use message::Message;

/// Bytes of one body that may wait for another body.
const LIMIT: usize = 1 << 20;
/// Fewer bytes are not worth a look for another body.
const WORTH: usize = 32 << 10;

/// The SHA-256 of one upload.
pub struct Sha256Stream(Way);

enum Way {
    /// On a processor without the instructions.
    Alone(Sha256),
    Beside(StreamId),
}

/// The id of a stream registered in [`Pairing`], removed when dropped.
struct StreamId(u64);

/// The streams that can be hashed in pairs.
struct Pairing {
    next: u64,
    streams: BTreeMap<u64, StreamEntry>,
    /// Streams whose bytes the next caller may hash; bounded by the number of streams.
    waiting: VecDeque<u64>,
}

struct StreamEntry {
    /// `None` while a thread hashes it.
    message: Option<Message>,
    /// Chunks that arrived meanwhile.
    arrived: VecDeque<Bytes>,
    /// The waker of the task that waits for the message.
    waiter: Option<Waker>,
}

static PAIRING: Mutex<Pairing> =
    Mutex::new(Pairing { next: 0, streams: BTreeMap::new(), waiting: VecDeque::new() });

impl Pairing {
    /// Takes the message of another stream that waits.
    fn partner(&mut self) -> Option<(u64, Message)> {
        let id = self.waiting.pop_front()?;
        let message = self.streams.get_mut(&id).and_then(|s| s.message.take());
        assert!(message.is_some(), "a stream that waits has its message");
        message.map(|m| (id, m))
    }

    fn leave(&mut self, id: u64) {
        self.waiting.retain(|w| *w != id);
    }

    /// Puts a message back. Returns whom to wake, and the message if its stream is gone.
    #[must_use]
    fn put_back(&mut self, id: u64, mut message: Message) -> (Option<Waker>, Option<Message>) {
        let Some(entry) = self.streams.get_mut(&id) else { return (None, Some(message)) };
        message.chunks.append(&mut entry.arrived);
        let waits = !message.chunks.is_empty();
        entry.message = Some(message);
        let waiter = entry.waiter.take();
        if waits && waiter.is_none() {
            self.waiting.push_back(id);
        }
        (waiter, None)
    }
}

fn put_back(id: u64, mut message: Message) {
    let done = message.take_done();
    let (waker, gone) = PAIRING.lock().put_back(id, message);
    drop((done, gone));
    if let Some(w) = waker {
        w.wake();
    }
}

impl Sha256Stream {
    /// An empty message.
    pub fn new() -> Sha256Stream {
        if !kernel::available() {
            return Sha256Stream(Way::Alone(Sha256::new()));
        }
        let mut pairing = PAIRING.lock();
        let id = pairing.next;
        pairing.next += 1;
        let entry = StreamEntry { message: Some(Message::new()), arrived: VecDeque::new(), waiter: None };
        pairing.streams.insert(id, entry);
        Sha256Stream(Way::Beside(StreamId(id)))
    }

    /// Appends `data`. At most 1 MiB of a message waits to be hashed, and what came while another
    /// thread hashes.
    pub fn update(&mut self, data: &Bytes) {
        match &mut self.0 {
            Way::Alone(hash) => hash.update(data),
            Way::Beside(ticket) => ticket.update(data),
        }
    }

    /// The digest of everything appended.
    pub async fn finish(self) -> [u8; 32] {
        match self.0 {
            Way::Alone(hash) => hash.finish(),
            Way::Beside(ticket) => poll_fn(|cx| ticket.poll(cx)).await,
        }
    }
}

impl Default for Sha256Stream {
    fn default() -> Self {
        Sha256Stream::new()
    }
}

impl StreamId {
    fn update(&self, data: &Bytes) {
        if data.is_empty() {
            return;
        }
        let id = self.0;
        let (mut mine, mut partner) = {
            let mut pairing = PAIRING.lock();
            let lone = pairing.streams.len() == 1;
            let Some(entry) = pairing.streams.get_mut(&id) else { unreachable!("the stream is registered") };
            let Some(message) = &mut entry.message else {
                entry.arrived.push_back(data.clone());
                return;
            };
            message.chunks.push_back(data.clone());
            let queued = message.queued();
            if queued < WORTH {
                return;
            }
            pairing.leave(id);
            let partner = pairing.partner();
            if partner.is_none() && !lone && queued < LIMIT {
                pairing.waiting.push_back(id);
                return;
            }
            let message = pairing.streams.get_mut(&id).and_then(|s| s.message.take());
            let Some(message) = message else { unreachable!("seen above") };
            (message, partner)
        };
        if partner.is_none() {
            mine.hash();
        }
        while let Some((other, mut message)) = partner.take() {
            mine.hash_beside(&mut message);
            put_back(other, message);
            if !mine.chunks.is_empty() {
                partner = PAIRING.lock().partner();
            }
        }
        put_back(id, mine);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<[u8; 32]> {
        let id = self.0;
        let mut mine = {
            let mut pairing = PAIRING.lock();
            pairing.leave(id);
            let Some(entry) = pairing.streams.get_mut(&id) else { unreachable!("the stream is registered") };
            match entry.message.take() {
                Some(message) => message,
                None => {
                    let before = entry.waiter.replace(cx.waker().clone());
                    drop(pairing);
                    drop(before);
                    return Poll::Pending;
                }
            }
        };
        while mine.queued() >= WORTH {
            let Some((other, mut message)) = PAIRING.lock().partner() else { break };
            mine.hash_beside(&mut message);
            put_back(other, message);
        }
        mine.hash();
        let digest = mine.digest();
        put_back(id, mine);
        Poll::Ready(digest)
    }
}

impl Drop for StreamId {
    fn drop(&mut self) {
        let entry = {
            let mut pairing = PAIRING.lock();
            pairing.leave(self.0);
            pairing.streams.remove(&self.0)
        };
        drop(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(t) => return t,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    fn random(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    /// Many threads with streams of odd lengths in odd pieces, some dropped in the middle, against
    /// aws-lc.
    #[test]
    fn streams_agree_with_the_reference() {
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let data = Bytes::from(data);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let data = data.clone();
                scope.spawn(move || {
                    let mut seed = thread + 1;
                    for round in 0..12 {
                        let len =
                            if round < 4 { random(&mut seed) % 200 } else { random(&mut seed) % 3_000_000 };
                        let mut stream = Sha256Stream::new();
                        let mut at = 0;
                        let stop = if random(&mut seed).is_multiple_of(5) { len / 2 } else { len };
                        while at < stop {
                            let piece = (1 + random(&mut seed) % 300_000).min(len - at);
                            stream.update(&data.slice(at..at + piece));
                            at += piece;
                        }
                        if stop == len {
                            assert_eq!(wait(stream.finish()), crate::sha256(&data[..len]), "{len} bytes");
                        }
                    }
                });
            }
        });
        let pairing = PAIRING.lock();
        assert!(pairing.waiting.len() <= pairing.streams.len());
    }

    /// Every length around the edges of blocks, cut anywhere.
    #[test]
    fn edges_agree_with_the_reference() {
        let data = Bytes::from((0..300).map(|i| (i * 7 + 3) as u8).collect::<Vec<u8>>());
        for len in 0..data.len() {
            for cut in [0, 1, len / 3, len / 2, len.saturating_sub(1)] {
                let cut = cut.min(len);
                let mut stream = Sha256Stream::new();
                stream.update(&data.slice(..cut));
                stream.update(&data.slice(cut..len));
                assert_eq!(wait(stream.finish()), crate::sha256(&data[..len]), "{len} cut at {cut}");
            }
        }
    }
}
