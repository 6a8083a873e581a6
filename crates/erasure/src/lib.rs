//! GF(2^8) erasure codes and their SIMD kernels.
//!
//! A [`Code`] turns `k` data rows into `m` parity rows of the same length such that any `k` of the
//! `n = k + m` rows give back all of them. RAID 1 (`k = 1`), RAID 5 (`m = 1`), RAID 6 (`m = 2`) and
//! Reed-Solomon are one and the same systematic matrix code over GF(2^8), polynomial 0x11D; any
//! `k >= 1`, `m >= 0` with `k + m <= 64` is allowed.
//!
//! Four operations share one kernel operation. [`Code::encode`], [`Code::reconstruct`], [`Code::update`] and
//! [`Code::verify`] are all "coefficient matrix times rows" (`plan`), which each instruction set implements
//! once:
//!
//! | file | what it holds |
//! |---|---|
//! | `field` | the field: tables built at compile time |
//! | `matrix` | the generator matrix (**part of the on-drive format**) and its inverses |
//! | `plan` | a matrix prepared for a kernel, and the safe interface to the kernels |
//! | `lane` | the loop that all SIMD kernels share: tiles of up to 6 rows in registers |
//! | `scalar`, `ssse3`, `avx2`, `gfni`, `neon` | one file per instruction set |
//! | `kernel` | the kernels of this CPU, and the measurement at the start that selects one |
//! | `code`, `cache` | the operations, and the bounded cache of decode matrices |
//!
//! # Invariants
//! - Every kernel yields the same bytes as the reference kernel (`scalar`), for every length and alignment.
//! - Coefficient (parity row `i`, data row `j`) depends on `i` and `j` alone, never on `k`, `m` or the CPU,
//!   and never changes: shards on drives depend on it. Golden bytes check it.
//! - No operation allocates in proportion to the row length.
//! - Kernels read and write only within the rows they are given; wrong shapes are errors, never
//!   undefined behaviour.
//!
//! # Must not depend on:
//! Drives, stripes, objects, hashes. Rows are bytes; the caller checks whether they are intact: `reconstruct`
//! trusts every row that it is given.
//!
//! # Sources
//! - J. S. Plank, *A Tutorial on Reed-Solomon Coding for Fault-Tolerance in RAID-like Systems*
//!   (1997), with the 2003 correction by Plank and Ding: systematic codes and decoding by inverting
//!   the surviving rows.
//! - J. Blömer et al., *An XOR-Based Erasure-Resilient Coding Scheme* (1995): Cauchy matrices are
//!   MDS, their submatrices invertible.
//! - H. P. Anvin, *The mathematics of RAID-6*: first parity row XOR, second row powers of two.
//! - J. S. Plank, K. M. Greenan, E. L. Miller, *Screaming Fast Galois Field Arithmetic Using Intel
//!   SIMD Instructions* (FAST 2013): products from two 16-entry nibble tables and a byte shuffle.
//! - Intel, *Galois Field New Instructions (GFNI) Technology Guide*: `GF2P8AFFINEQB` multiplies by
//!   any constant in any field of 256 elements, as an 8x8 bit matrix, so also for 0x11D, while
//!   `GF2P8MULB` is bound to 0x11B.
//!
//! # Example
//! ```
//! use ashlar_erasure::Code;
//! let code = Code::new(2, 1)?;
//! let (a, b) = ([1u8, 2, 3], [4u8, 5, 6]);
//! let mut parity = [0u8; 3];
//! code.encode(&[&a, &b], &mut [&mut parity])?;
//! let mut lost = [0u8; 3];
//! code.reconstruct(&[(1, &b), (2, &parity)], &[0], &mut [&mut lost])?;
//! assert_eq!(lost, a);
//! # Ok::<(), ashlar_erasure::Error>(())
//! ```

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod cache;
mod code;
mod error;
mod field;
mod kernel;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, unused))]
mod lane;
mod matrix;
mod plan;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub use code::{Code, DECODE_PLANS};
pub use error::Error;
pub use kernel::{KERNEL_VARIABLE, Kernel, kernels};

/// Most rows a code may have, data and parity together.
pub const MAX_ROWS: usize = 64;
