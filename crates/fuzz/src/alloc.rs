//! Counts the bytes that a fuzzed call allocates on its own thread.
//!
//! Invariant: the counter never changes what the allocator does. It must not depend on: what is fuzzed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a per-thread count of live bytes.
pub struct Counting;

fn grow(n: usize) {
    // A thread that is exiting has no counters any more; nothing is measured then.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add(n));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn shrink(n: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(n)));
}

// SAFETY: every call is passed on to `System` unchanged; the counters are plain cells of the calling
// thread, allocate nothing and cannot unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `at` came from `alloc` above with the same layout, hence from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `f` and returns the most bytes that were live beyond what was live before.
pub fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let value = f();
    (value, PEAK.get().saturating_sub(before))
}
