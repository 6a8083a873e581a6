//! Erasure coding on a GPU that is found at run time.
//!
//! Output rows are sums of input rows times the coefficients of a [`Matrix`], exactly those of `ashlar_erasure`, so
//! the bytes are the same on the CPU and on the device. Batches of stripes go to the device and back over pinned
//! memory ([`Slot`]); several slots keep the bus and the device busy at once.
//!
//! Nothing of CUDA is needed to build, and nothing is linked: the driver and the run-time compiler (NVRTC) are loaded
//! when [`Device::open`] is called. Without them, or without a device, it returns [`Error::Unavailable`], and the caller
//! uses the CPU. Whether a device pays is not a matter of course, because the bus is slower than a few CPU cores:
//! [`crossover`] measures it.
//!
//! | file | what it holds |
//! |---|---|
//! | `computation`, `matrix` | what is computed |
//! | `program`, `doubling` | a matrix as a program of XORs and doublings, and its twin on the CPU |
//! | `table` | multiplication by look-ups, and its twin on the CPU |
//! | `text` | both as texts of kernels |
//! | `library`, `driver`, `compiler` | CUDA behind safe types |
//! | `device`, `slot` | the device with its compiled kernels; a batch in flight |
//! | `crossover` | the measurement of CPU against GPU |
//!
//! # Invariants
//! - A kernel computes the same bytes as `ashlar_erasure` for every matrix. Tests run the generated programs and
//!   the texts, compiled by a C compiler, on the CPU. **Not checked without a device**: that NVRTC compiles the texts
//!   to the same, launches, copies, the order of streams. `ashlar bench gpu` checks these on a machine with one.
//! - The device reads and writes only within buffers of this crate; a buffer is not touched by the host while a batch
//!   is in flight.
//! - Managed memory is never used.
//!
//! # Must not depend on:
//! Drives, files, what the bytes are.

mod compiler;
mod computation;
pub mod crossover;
mod device;
mod doubling;
mod driver;
mod error;
mod library;
mod matrix;
mod program;
mod slot;
mod table;
pub mod text;

pub use computation::Computation;
pub use device::{Device, KERNELS, Kernel, TABLE_OUTPUTS};
pub use driver::{Buffer, Event, Pinned, Stream};
pub use error::Error;
pub use matrix::Matrix;
pub use program::Program;
pub use slot::{Shape, Slot};
pub use table::{run_tables, tables as words_of_tables};

/// Compiles a text of [`text`] for a device of `architecture` (90 for 9.0), without a device.
///
/// # Errors
/// [`Error::Unavailable`] without the run-time compiler, [`Error::Compile`] if it refuses the text.
pub fn compile_text(text: &str, architecture: i32) -> Result<Vec<u8>, Error> {
    compiler::compile(&format!("{}{text}", text::DEVICE), architecture)
}
