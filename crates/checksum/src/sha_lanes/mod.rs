//! SHA-256 of many uploads at once, two side by side.
//!
//! The SHA unit of a processor hashes two messages in hardly more time than one. Bodies that come at
//! the same time meet here: who brings bytes and finds another body's bytes waiting hashes both, on
//! its own thread; who finds none leaves its own for the next to come. There are no threads and no
//! waiting: a body alone, or one with [`LIMIT`] bytes queued, is hashed at once, and what is left at
//! the end of a body is hashed by who asks for the digest.
//!
//! `kernel`, `x86`: the block function. `message`: one message and its queue.
//!
//! Invariants: a message is with its slot or with the one thread that hashes it; bytes are hashed in
//! the order of their arrival; whoever waits for a digest is woken when its message comes back; a
//! stream that is dropped leaves nothing behind. No lock is held while bytes are hashed or dropped.
//!
//! Must not depend on: what is uploaded, signatures.

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
    Beside(Ticket),
}

/// A place in the [`Meeting`], given up when dropped.
struct Ticket(u64);

/// Where streams meet.
struct Meeting {
    next: u64,
    slots: BTreeMap<u64, Slot>,
    /// Streams whose bytes may be hashed by whoever comes next; bounded by the number of streams.
    waiting: VecDeque<u64>,
}

struct Slot {
    /// `None` while a thread hashes it.
    message: Option<Message>,
    /// What came meanwhile.
    arrived: VecDeque<Bytes>,
    /// Who waits for the message.
    waiter: Option<Waker>,
}

static MEETING: Mutex<Meeting> =
    Mutex::new(Meeting { next: 0, slots: BTreeMap::new(), waiting: VecDeque::new() });

impl Meeting {
    /// Takes the message of another stream that waits.
    fn partner(&mut self) -> Option<(u64, Message)> {
        let id = self.waiting.pop_front()?;
        let message = self.slots.get_mut(&id).and_then(|s| s.message.take());
        assert!(message.is_some(), "a stream that waits has its message");
        message.map(|m| (id, m))
    }

    fn leave(&mut self, id: u64) {
        self.waiting.retain(|w| *w != id);
    }

    /// Puts a message back. Returns whom to wake, and the message if its stream is gone.
    #[must_use]
    fn put_back(&mut self, id: u64, mut message: Message) -> (Option<Waker>, Option<Message>) {
        let Some(slot) = self.slots.get_mut(&id) else { return (None, Some(message)) };
        message.chunks.append(&mut slot.arrived);
        let waits = !message.chunks.is_empty();
        slot.message = Some(message);
        let waiter = slot.waiter.take();
        if waits && waiter.is_none() {
            self.waiting.push_back(id);
        }
        (waiter, None)
    }
}

fn put_back(id: u64, mut message: Message) {
    let done = message.take_done();
    let (waker, gone) = MEETING.lock().put_back(id, message);
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
        let mut meeting = MEETING.lock();
        let id = meeting.next;
        meeting.next += 1;
        let slot = Slot { message: Some(Message::new()), arrived: VecDeque::new(), waiter: None };
        meeting.slots.insert(id, slot);
        Sha256Stream(Way::Beside(Ticket(id)))
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

impl Ticket {
    fn update(&self, data: &Bytes) {
        if data.is_empty() {
            return;
        }
        let id = self.0;
        let (mut mine, mut partner) = {
            let mut meeting = MEETING.lock();
            let lone = meeting.slots.len() == 1;
            let Some(slot) = meeting.slots.get_mut(&id) else { unreachable!("the ticket holds it") };
            let Some(message) = &mut slot.message else {
                slot.arrived.push_back(data.clone());
                return;
            };
            message.chunks.push_back(data.clone());
            let queued = message.queued();
            if queued < WORTH {
                return;
            }
            meeting.leave(id);
            let partner = meeting.partner();
            if partner.is_none() && !lone && queued < LIMIT {
                meeting.waiting.push_back(id);
                return;
            }
            let message = meeting.slots.get_mut(&id).and_then(|s| s.message.take());
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
                partner = MEETING.lock().partner();
            }
        }
        put_back(id, mine);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<[u8; 32]> {
        let id = self.0;
        let mut mine = {
            let mut meeting = MEETING.lock();
            meeting.leave(id);
            let Some(slot) = meeting.slots.get_mut(&id) else { unreachable!("the ticket holds it") };
            match slot.message.take() {
                Some(message) => message,
                None => {
                    let before = slot.waiter.replace(cx.waker().clone());
                    drop(meeting);
                    drop(before);
                    return Poll::Pending;
                }
            }
        };
        while mine.queued() >= WORTH {
            let Some((other, mut message)) = MEETING.lock().partner() else { break };
            mine.hash_beside(&mut message);
            put_back(other, message);
        }
        mine.hash();
        let digest = mine.digest();
        put_back(id, mine);
        Poll::Ready(digest)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let slot = {
            let mut meeting = MEETING.lock();
            meeting.leave(self.0);
            meeting.slots.remove(&self.0)
        };
        drop(slot);
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
        let meeting = MEETING.lock();
        assert!(meeting.waiting.len() <= meeting.slots.len());
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
