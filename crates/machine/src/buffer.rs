//! Aligned, reusable memory with one ceiling for the whole process.
//!
//! A fresh page costs about 1.5 us per 4 KiB when it is first touched, so buffers are kept and reused.
//! Invariants: the bytes handed out never exceed the ceiling; waiters are served in order of arrival, and a
//! waiter that is not polled does not block the others; idle buffers are returned to the system after a while
//! ([`BufferPool::trim`]); a buffer's bytes are always initialized (zero or the data of an earlier user), so
//! that handing them out as a slice is sound.
//!
//! Must not depend on: what the buffers are used for.

use ashlar_environment::HashSet;
use ashlar_environment::time::Instant;
use parking_lot::Mutex;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Alignment of every buffer, in bytes: what direct I/O needs on every common device.
pub const ALIGN: usize = 4096;

/// Size classes of the free lists; a request is rounded up to the next one. Larger buffers are allocated and
/// freed each time.
const CLASSES: [usize; 13] = [
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    132 << 10,
    256 << 10,
    520 << 10,
    1 << 20,
    1536 << 10,
    2 << 20,
    4 << 20,
    8 << 20,
];

/// Seconds after which an unused buffer is returned to the system.
const IDLE_SECONDS: u64 = 10;

struct Raw {
    ptr: NonNull<u8>,
    cap: usize,
}

// SAFETY: `Raw` owns its allocation alone; nothing else keeps the pointer.
unsafe impl Send for Raw {}
// SAFETY: shared access is reading only; writing needs `&mut`.
unsafe impl Sync for Raw {}

impl Raw {
    fn layout(cap: usize) -> Layout {
        assert!(cap > 0 && cap.is_multiple_of(ALIGN) && cap < isize::MAX as usize / 2);
        match Layout::from_size_align(cap, ALIGN) {
            Ok(l) => l,
            Err(_) => unreachable!("size was checked"),
        }
    }
    fn new(cap: usize) -> Raw {
        let layout = Raw::layout(cap);
        // SAFETY: the layout has a non-zero size.
        let p = unsafe { alloc_zeroed(layout) };
        match NonNull::new(p) {
            Some(ptr) => Raw { ptr, cap },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.ptr.as_ptr(), Raw::layout(self.cap)) }
    }
}

#[derive(Default)]
struct FreeList {
    free: Vec<(Raw, Instant)>,
}

struct Waiting {
    ticket: u64,
    cap: usize,
    waker: Waker,
}

struct Inner {
    free_lists: [FreeList; CLASSES.len()],
    waiting: VecDeque<Waiting>,
    /// Tickets of waiters whose bytes already count as handed out, because their turn came.
    granted: HashSet<u64>,
    next_ticket: u64,
    /// Bytes on the free lists.
    idle: usize,
}

struct Shared {
    inner: Mutex<Inner>,
    /// Bytes handed out.
    used: AtomicUsize,
    ceiling: usize,
    /// The most bytes kept idle.
    keep: usize,
}

/// Reusable aligned buffers under one ceiling. Cloning gives another handle of the same pool.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

impl BufferPool {
    /// A pool that hands out at most `ceiling` bytes at a time (at least 8 MiB) and keeps at most half
    /// of that idle, less while more than half is handed out.
    #[must_use]
    pub fn new(ceiling: usize) -> BufferPool {
        let ceiling = ceiling.max(8 << 20);
        BufferPool {
            shared: Arc::new(Shared {
                inner: Mutex::new(Inner {
                    free_lists: Default::default(),
                    waiting: VecDeque::new(),
                    granted: HashSet::default(),
                    next_ticket: 0,
                    idle: 0,
                }),
                used: AtomicUsize::new(0),
                ceiling,
                keep: ceiling / 2,
            }),
        }
    }

    /// Bytes handed out now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Bytes kept for reuse now.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.shared.inner.lock().idle
    }

    /// How many wait for a buffer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.inner.lock().waiting.len()
    }

    /// The most bytes that can be handed out.
    #[must_use]
    pub fn ceiling(&self) -> usize {
        self.shared.ceiling
    }

    /// A buffer of `len` bytes with unspecified (but initialised) contents, now or not at all.
    #[must_use]
    pub fn try_get(&self, len: usize) -> Option<Buf> {
        let (class, cap) = class_of(len);
        let mut inner = self.shared.inner.lock();
        if !inner.waiting.is_empty() {
            return None;
        }
        self.take(&mut inner, class, cap, len)
    }

    /// A buffer of `len` bytes, waiting while the pool is at its ceiling.
    ///
    /// # Panics
    /// If `len` alone is above the ceiling: the caller's own bound is wrong.
    pub fn get(&self, len: usize) -> impl Future<Output = Buf> + Send + use<> {
        let (class, cap) = class_of(len);
        assert!(cap <= self.shared.ceiling, "a buffer of {len} bytes is above the pool's ceiling");
        Get { pool: self.clone(), class, cap, len, ticket: None }
    }

    /// A buffer outside the ceiling, for work that must never wait (a drive's journal). Uses the same free
    /// lists.
    #[must_use]
    pub fn get_reserved(&self, len: usize) -> Buf {
        let (class, cap) = class_of(len);
        let mut inner = self.shared.inner.lock();
        self.shared.used.fetch_add(cap, Ordering::Relaxed);
        let raw = pop(&mut inner, class, cap);
        drop(inner);
        Buf { raw: Some(raw.unwrap_or_else(|| Raw::new(cap))), len, pool: self.shared.clone() }
    }

    /// Returns idle buffers that were unused for a while to the system.
    pub fn trim(&self) {
        self.trim_older(std::time::Duration::from_secs(IDLE_SECONDS));
    }

    /// Like [`BufferPool::trim`] with another age.
    pub fn trim_older(&self, age: std::time::Duration) {
        let mut gone = Vec::new();
        let mut inner = self.shared.inner.lock();
        if inner.idle == 0 {
            return;
        }
        let now = Instant::now();
        let mut freed = 0;
        for s in &mut inner.free_lists {
            // Free lists are stacks: the oldest entries are at the bottom.
            let n = s.free.iter().take_while(|(_, t)| now.duration_since(*t) >= age).count();
            for (raw, _) in s.free.drain(..n) {
                freed += raw.cap;
                gone.push(raw);
            }
            if s.free.is_empty() {
                s.free = Vec::new();
            }
        }
        inner.idle -= freed;
        drop(inner);
    }

    fn take(&self, inner: &mut Inner, class: Option<usize>, cap: usize, len: usize) -> Option<Buf> {
        if self.shared.used.load(Ordering::Relaxed) + cap > self.shared.ceiling {
            return None;
        }
        self.shared.used.fetch_add(cap, Ordering::Relaxed);
        let raw = pop(inner, class, cap).unwrap_or_else(|| Raw::new(cap));
        Some(Buf { raw: Some(raw), len, pool: self.shared.clone() })
    }
}

fn pop(inner: &mut Inner, class: Option<usize>, cap: usize) -> Option<Raw> {
    let (raw, _) = inner.free_lists[class?].free.pop()?;
    inner.idle -= cap;
    Some(raw)
}

fn class_of(len: usize) -> (Option<usize>, usize) {
    match CLASSES.iter().position(|c| *c >= len) {
        Some(i) => (Some(i), CLASSES[i]),
        None => (None, len.next_multiple_of(ALIGN)),
    }
}

struct Get {
    pool: BufferPool,
    class: Option<usize>,
    cap: usize,
    len: usize,
    ticket: Option<u64>,
}

impl Future for Get {
    type Output = Buf;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Buf> {
        let me = &mut *self;
        let pool = me.pool.clone();
        let mut inner = pool.shared.inner.lock();
        let taken = match me.ticket {
            // Its bytes are counted as handed out since its turn came.
            Some(t) if inner.granted.remove(&t) => {
                let raw = pop(&mut inner, me.class, me.cap).unwrap_or_else(|| Raw::new(me.cap));
                Some(Buf { raw: Some(raw), len: me.len, pool: pool.shared.clone() })
            }
            None if inner.waiting.is_empty() => pool.take(&mut inner, me.class, me.cap, me.len),
            _ => None,
        };
        if let Some(b) = taken {
            me.ticket = None;
            return Poll::Ready(b);
        }
        match me.ticket {
            Some(t) => {
                if let Some(w) = inner.waiting.iter_mut().find(|w| w.ticket == t) {
                    w.waker.clone_from(cx.waker());
                }
            }
            None => {
                let ticket = inner.next_ticket;
                inner.next_ticket += 1;
                me.ticket = Some(ticket);
                let waker = cx.waker().clone();
                inner.waiting.push_back(Waiting { ticket, cap: me.cap, waker });
            }
        }
        Poll::Pending
    }
}

impl Drop for Get {
    fn drop(&mut self) {
        if let Some(t) = self.ticket {
            let mut inner = self.pool.shared.inner.lock();
            if inner.granted.remove(&t) {
                self.pool.shared.used.fetch_sub(self.cap, Ordering::Relaxed);
            } else {
                inner.waiting.retain(|w| w.ticket != t);
            }
            grant(&self.pool.shared, &mut inner);
        }
    }
}

/// Assigns free bytes to the next waiters. The bytes belong to a waiter from then on, whether it is polled
/// soon or not: a waiter that is not polled (a read-ahead for a client that has stopped reading) must not
/// block those behind it.
fn grant(shared: &Shared, inner: &mut Inner) {
    while let Some(w) = inner.waiting.front()
        && shared.used.load(Ordering::Relaxed) + w.cap <= shared.ceiling
        && let Some(w) = inner.waiting.pop_front()
    {
        shared.used.fetch_add(w.cap, Ordering::Relaxed);
        inner.granted.insert(w.ticket);
        w.waker.wake();
    }
}

/// A buffer from a [`BufferPool`], aligned to [`ALIGN`]; goes back when dropped.
pub struct Buf {
    raw: Option<Raw>,
    len: usize,
    pool: Arc<Shared>,
}

impl Buf {
    fn raw(&self) -> &Raw {
        match &self.raw {
            Some(r) => r,
            None => unreachable!("only Drop takes it"),
        }
    }

    /// Bytes the buffer can be extended to.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.raw().cap
    }

    /// Changes the visible length. Bytes that become visible have the data of an earlier user.
    ///
    /// # Panics
    /// If `len` is above the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
    }

    /// Shares the buffer as immutable bytes; it goes back to the pool when the last clone or slice
    /// is dropped.
    #[must_use]
    pub fn freeze(self) -> bytes::Bytes {
        bytes::Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation has at least `len` initialised bytes and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.raw().ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.raw().ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let cap = raw.cap;
        let mut inner = self.pool.inner.lock();
        self.pool.used.fetch_sub(cap, Ordering::Relaxed);
        let mut extra = Some(raw);
        if let (Some(class), cap) = class_of(cap)
            && inner.idle + cap <= self.pool.keep
            && self.pool.used.load(Ordering::Relaxed) + inner.idle + cap <= self.pool.ceiling
            && let Some(raw) = extra.take()
        {
            inner.free_lists[class].free.push((raw, Instant::now()));
            inner.idle += cap;
        }
        grant(&self.pool, &mut inner);
        drop(inner);
        drop(extra);
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} of {})", self.len, self.capacity())
    }
}
