//! The scripted bytes that connections of this thread read in place of a server's answer.
//!
//! Only `script::play` sets them, which only the fuzzer calls. Depends on no other file of this crate, so that
//! connections (`wire`) and the fuzz entry points (`script`) do not depend on each other.

use std::cell::{Cell, RefCell};

thread_local! {
    static SCRIPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PLAYING: Cell<bool> = const { Cell::new(false) };
}

/// The bytes that a connection of this thread reads, whatever it sends: the script for the first connection,
/// then nothing, so that a script never causes a connection to a real server.
pub(crate) fn take() -> Option<Vec<u8>> {
    PLAYING.get().then(|| SCRIPT.take())
}

/// Runs `f`, whose first connection reads `bytes`.
pub(crate) fn playing<T>(bytes: &[u8], f: impl FnOnce() -> T) -> T {
    SCRIPT.set(bytes.to_vec());
    PLAYING.set(true);
    let done = f();
    PLAYING.set(false);
    done
}
