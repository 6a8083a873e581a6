#![forbid(unsafe_code)]
//! The coding engine: computes the parity of stripes and reconstructs missing rows.
//!
//! Keeps one prepared [`Code`] per (k, m) with the kernel that was fastest at the start, encodes whole
//! stripes in one buffer, and decodes a sample of them again as a check.
//!
//! Invariants: the `k` data rows and `m` parity rows of a stripe are contiguous in one buffer, each `row`
//! bytes long; one of every [`SAMPLE`] encoded stripes (in tests, every stripe) is decoded from a changing
//! set of rows and compared, so that a CPU or memory that miscalculates is detected while the write can still
//! be refused.
//!
//! Must not depend on: drives, files, what the bytes are.

mod stripe;

pub use ashlar_erasure::Code;
pub use stripe::{encode_stripe, recheck_stripe};

use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// One of this many encoded stripes is decoded again.
pub const SAMPLE: u64 = 64;

/// Why a stripe was not coded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Wrong parameters or shapes, or too few rows: see the source.
    #[error(transparent)]
    Code(#[from] ashlar_erasure::Error),
    /// Decoding the encoded stripe gave other bytes: this machine miscalculates. The caller refuses the write
    /// and raises an alarm.
    #[error("a stripe of {k}+{m} did not decode to what was encoded: memory or CPU error")]
    Miscalculated {
        /// Data rows.
        k: usize,
        /// Parity rows.
        m: usize,
    },
}

/// Prepared codes, shared by all writers and readers.
pub struct Engine {
    /// At most one per (k, m), of which there are 2,080.
    codes: RwLock<Vec<Code>>,
    encoded: AtomicU64,
    rechecked: AtomicU64,
    sample: u64,
}

impl Engine {
    /// An engine that checks one of [`SAMPLE`] stripes.
    #[must_use]
    pub fn new() -> Engine {
        Engine::with_sample(SAMPLE)
    }

    /// An engine that checks one of `sample` stripes; 1: every stripe.
    #[must_use]
    pub fn with_sample(sample: u64) -> Engine {
        Engine {
            codes: RwLock::new(Vec::new()),
            encoded: AtomicU64::new(0),
            rechecked: AtomicU64::new(0),
            sample: sample.max(1),
        }
    }

    /// Returns the code of `k` data and `m` parity rows.
    ///
    /// # Errors
    /// [`Error::Code`] when there is no such code.
    pub fn code(&self, k: u8, m: u8) -> Result<Code, Error> {
        let (k, m) = (usize::from(k), usize::from(m));
        let is = |c: &&Code| c.k() == k && c.m() == m;
        if let Some(c) = self.codes.read().iter().find(is) {
            return Ok(c.clone());
        }
        let made = Code::new(k, m)?;
        let mut codes = self.codes.write();
        if let Some(c) = codes.iter().find(is) {
            return Ok(c.clone());
        }
        codes.push(made.clone());
        Ok(made)
    }

    /// Computes the parity rows of a stripe: `stripe` has `k` data rows, then space for `m` parity rows, each
    /// of `row` bytes.
    ///
    /// # Errors
    /// [`Error::Code`] for wrong shapes, [`Error::Miscalculated`] when the sample does not decode.
    pub fn encode(&self, code: &Code, stripe: &mut [u8], row: usize) -> Result<(), Error> {
        encode_stripe(code, stripe, row)?;
        let count = self.encoded.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(self.sample) {
            recheck_stripe(code, stripe, row, count / self.sample)?;
            self.rechecked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The number of encoded stripes, and how many of them were decoded again.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.encoded.load(Ordering::Relaxed), self.rechecked.load(Ordering::Relaxed))
    }

    /// The kernel in use, by name.
    #[must_use]
    pub fn kernel(&self) -> String {
        self.code(1, 0).map_or_else(|e| e.to_string(), |c| c.kernel().to_string())
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}
