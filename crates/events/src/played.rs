//! The script that connections of this thread play in place of a server.
//!
//! Only with the feature `script`, which no release has. Depends on no other file of this crate, so that
//! connections (`wire`) and those who play to them (`script`) need not know each other.

use std::cell::{Cell, RefCell};

thread_local! {
    static SCRIPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PLAYING: Cell<bool> = const { Cell::new(false) };
}

/// What the server of a connection of this thread says, whatever it is told: the script at the first connection, then
/// nothing, so that no script leads to a real server.
pub(crate) fn take() -> Option<Vec<u8>> {
    PLAYING.get().then(|| SCRIPT.take())
}

/// Does something whose first connection reads `bytes`.
pub(crate) fn playing<T>(bytes: &[u8], f: impl FnOnce() -> T) -> T {
    SCRIPT.set(bytes.to_vec());
    PLAYING.set(true);
    let done = f();
    PLAYING.set(false);
    done
}
