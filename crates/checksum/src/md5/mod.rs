//! MD5 of many uploads at once, in SIMD lanes.
//!
//! `compress`, `x86`, `neon`, `kernel`: the block function over one, eight or sixteen messages. `state`: one
//! message. `cell`: the queue of a stream. `batch`: streams side by side in lanes. `worker`: the threads that
//! hash. `scheduler`: which thread is woken. `stream`: the handles.
//!
//! Must not depend on: the content of uploads, HTTP, drives.

mod batch;
mod cell;
mod compress;
mod kernel;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod scheduler;
mod state;
mod stream;
mod worker;
#[cfg(target_arch = "x86_64")]
mod x86;

use kernel::Kernel;
pub use scheduler::LaneStats;
#[doc(hidden)]
pub use scheduler::Tuning;
use state::Md5;
pub use stream::{Md5Lanes, Md5Stream};

/// Whole bodies shorter than this, in bytes, are for [`md5_once`] rather than for a stream.
///
/// Measured on Zen 4 (`examples/checksum_speed.rs`), processor time per body of 64 KiB: alone 85-98
/// us by `md5_once` and 94-127 by a stream; eight at a time 84 and 22-36 us. Of 32 KiB: alone 42-56
/// and 52-82 us; eight at a time 42 and 13-20 us. Below the bound a stream saves little and may cost
/// a millisecond of waiting for other streams.
pub const INLINE_BELOW: usize = 64 * 1024;

/// MD5 (RFC 1321) of `data`, hashed here and now on one lane: about 1.4 us per KiB.
pub fn md5_once(data: &[u8]) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(data);
    md5.finish()
}

/// Which instruction set the lanes use on this machine.
pub fn md5_kernel() -> &'static str {
    Kernel::get().name
}
