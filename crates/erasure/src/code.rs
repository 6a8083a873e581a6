//! The operations: encode, reconstruct, update, verify.
//!
//! Invariant: all arguments are checked before the first output byte is written. Invariant: an operation
//! allocates nothing that grows with the rows; `reconstruct` allocates only for a pattern of losses that is
//! not in the cache.
//!
//! Must not depend on: instruction sets.

use std::fmt;
use std::sync::Arc;

use crate::cache::{Cache, Pattern};
use crate::kernel::{Kernel, default_kernel};
use crate::matrix::{coefficient, decode_matrix, parity_matrix};
use crate::plan::{Plan, Window};
use crate::{Error, MAX_ROWS};

/// Most decode matrices that a [`Code`] and its clones keep, the least recently used go first. The
/// worst case of 32+32 on a kernel with 32-byte tables takes 33 KiB each, 2.1 MiB in all; 12+4
/// takes at most 1.6 KiB each.
pub const DECODE_PLANS: usize = 64;

/// Bytes of the scratch spaces on the stack in `update` and `verify`.
const DELTA: usize = 4096;
const SCRATCH: usize = 16 * 1024;

/// A systematic erasure code of `k` data and `m` parity rows, prepared for one kernel.
///
/// Row indices run from 0 to `n - 1`: data rows first, then parity rows. All rows of a call are
/// equally long, any length from 0 on, at any alignment. Cloning copies a reference; clones share the
/// cache of decode matrices.
///
/// Fastest are rows aligned to 64 bytes whose addresses differ modulo 4096: a first-level cache keeps
/// 8 lines of the same address modulo 4096, so 8+4 rows at whole pages drive each other out (measured
/// on Zen 4 with AVX-512: 10-20 %, with 256 bits: 40 %).
#[derive(Clone)]
pub struct Code {
    inner: Arc<Inner>,
}

struct Inner {
    k: usize,
    m: usize,
    kernel: Kernel,
    encode: Plan,
    /// Per data row, what a change of it adds to each parity row.
    update: Box<[Plan]>,
    decode: Cache,
}

impl Code {
    /// A code of `k >= 1` data and `m >= 0` parity rows, `k + m <= 64`, with the default kernel.
    ///
    /// # Errors
    /// [`Error::Parameters`]; [`Error::KernelName`] or [`Error::KernelUnavailable`] if the
    /// environment ([`crate::KERNEL_VARIABLE`]) forces a kernel that does not exist or cannot run.
    pub fn new(k: usize, m: usize) -> Result<Code, Error> {
        Code::build(k, m, default_kernel()?)
    }

    fn build(k: usize, m: usize, kernel: Kernel) -> Result<Code, Error> {
        kernel.check()?;
        if k == 0 || k > MAX_ROWS || m > MAX_ROWS - k {
            return Err(Error::Parameters { k, m });
        }
        let column = |j| (0..m).map(|i| coefficient(i, j)).collect();
        let inner = Inner {
            k,
            m,
            kernel,
            encode: Plan::new(kernel, parity_matrix(k, m), m, k, false),
            // With m = 0 there is no parity to update and no coefficient for data row 63.
            update: (0..k).map(|j| Plan::new(kernel, column(j), m, 1, true)).collect(),
            decode: Cache::new(DECODE_PLANS),
        };
        Ok(Code { inner: Arc::new(inner) })
    }

    /// The same code on another kernel, with a cache of its own.
    ///
    /// # Errors
    /// [`Error::KernelUnavailable`] if this CPU cannot run it.
    pub fn with_kernel(&self, kernel: Kernel) -> Result<Code, Error> {
        Code::build(self.k(), self.m(), kernel)
    }

    /// The kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.inner.kernel
    }

    /// Data rows.
    pub fn k(&self) -> usize {
        self.inner.k
    }

    /// Parity rows.
    pub fn m(&self) -> usize {
        self.inner.m
    }

    /// All rows, `k + m`.
    pub fn n(&self) -> usize {
        self.inner.k + self.inner.m
    }

    /// Makes the `m` parity rows of `k` data rows; what they held before does not matter.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of rows is not `k` and `m` or lengths differ.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Error> {
        expect("data rows", data.len(), self.k())?;
        expect("parity rows", parity.len(), self.m())?;
        let len = data[0].len();
        same_length(data, len)?;
        same_length(parity, len)?;
        if self.k() == 1 {
            parity.iter_mut().for_each(|row| row.copy_from_slice(data[0]));
        } else if self.m() > 0 {
            self.inner.encode.apply(|c| data[c], parity, |r| r, Window::whole(len));
        }
        Ok(())
    }

    /// Makes the rows `wanted`, data or parity, out of `present` rows, each with its index.
    ///
    /// `k` rows are used: all distinct data rows present, then parity rows in the order given. A
    /// repeated index counts once, the first time. A wanted row that is present is copied. The rows
    /// present must be intact: nothing here can tell a damaged row.
    ///
    /// # Errors
    /// [`Error::TooFewRows`] if fewer than `k` distinct rows are present; [`Error::Shape`] if an
    /// index is `n` or more, a wanted index is repeated, `wanted` and `out` differ in number, or
    /// lengths differ.
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &[usize],
        out: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        let found = Present::sort(self, present)?;
        self.check_wanted(wanted, out, found.len)?;
        let mut missing = 0u64;
        for (&row, to) in wanted.iter().zip(out.iter_mut()) {
            if found.have >> row & 1 != 0 {
                to.copy_from_slice(found.row(row));
            } else if self.k() == 1 {
                to.copy_from_slice(found.row(bits(found.used).next().expect("k rows are used")));
            } else {
                missing |= 1 << row;
            }
        }
        if missing == 0 {
            return Ok(());
        }

        let pattern = Pattern { used: found.used, wanted: missing };
        let plan = self.inner.decode.get(pattern, || self.decode_plan(pattern));
        let mut used = [0u8; MAX_ROWS];
        for (row, slot) in bits(found.used).zip(&mut used) {
            *slot = row as u8;
        }
        // The plan makes its rows in ascending order, not in the order of `wanted`.
        let mut place = [0u8; MAX_ROWS];
        for (at, &row) in wanted.iter().enumerate() {
            if missing >> row & 1 != 0 {
                place[(missing & ((1 << row) - 1)).count_ones() as usize] = at as u8;
            }
        }
        let input = |c: usize| found.row(used[c] as usize);
        plan.apply(input, out, |r| place[r] as usize, Window::whole(found.len));
        Ok(())
    }

    /// Brings the parity rows up to date after data row `index` changed from `old` to `new`: adds
    /// the difference, multiplied, to each. Any equal part of the rows will do, so a partial write
    /// passes only the bytes it changes and the same range of each parity row.
    ///
    /// # Errors
    /// [`Error::Shape`] if `index` is not a data row, there are not `m` parity rows, or lengths
    /// differ.
    pub fn update(
        &self,
        index: usize,
        old: &[u8],
        new: &[u8],
        parity: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        if index >= self.k() {
            return Err(Error::Shape(format!("row {index} is not one of the {} data rows", self.k())));
        }
        expect("parity rows", parity.len(), self.m())?;
        same_length(&[new], old.len())?;
        same_length(parity, old.len())?;
        if self.m() == 0 {
            return Ok(());
        }
        let mut delta = Aligned([0u8; DELTA]);
        let mut at = 0;
        for (old, new) in old.chunks(DELTA).zip(new.chunks(DELTA)) {
            let delta = &mut delta.0[..old.len()];
            for ((to, &old), &new) in delta.iter_mut().zip(old).zip(new) {
                *to = old ^ new;
            }
            let window = Window { in_at: 0, out_at: at, len: old.len() };
            self.inner.update[index].apply(|_| delta, parity, |r| r, window);
            at += old.len();
        }
        Ok(())
    }

    /// Whether the parity rows match the data rows: `rows` are all `n`, in order. `false` means that at least
    /// one row is damaged, without telling which.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are not `n` rows or lengths differ.
    pub fn verify(&self, rows: &[&[u8]]) -> Result<bool, Error> {
        expect("rows", rows.len(), self.n())?;
        let len = rows[0].len();
        same_length(rows, len)?;
        let (data, parity) = rows.split_at(self.k());
        if self.m() == 0 || self.k() == 1 {
            return Ok(parity.iter().all(|row| *row == data[0]));
        }
        // Expected parity goes into a small scratch space and is compared while it is in cache.
        let mut scratch = Aligned([0u8; SCRATCH]);
        let block = (SCRATCH / self.m() / 64 * 64).min(DELTA);
        let mut outputs: [&mut [u8]; MAX_ROWS] = std::array::from_fn(|_| &mut [][..]);
        for (output, space) in outputs.iter_mut().zip(scratch.0.chunks_mut(block)).take(self.m()) {
            *output = space;
        }
        for at in (0..len).step_by(block) {
            let size = block.min(len - at);
            let window = Window { in_at: at, out_at: 0, len: size };
            self.inner.encode.apply(|c| data[c], &mut outputs, |r| r, window);
            if parity.iter().zip(&outputs).any(|(row, made)| row[at..at + size] != made[..size]) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The coefficients that [`Code::encode`] multiplies with: `m` rows of `k`, row by row. For a device that
    /// computes the same rows with a kernel of its own.
    pub fn parity_coefficients(&self) -> Vec<u8> {
        parity_matrix(self.k(), self.m())
    }

    /// The coefficients with which the rows `present` make the rows `wanted`: the `k` rows that are read, in
    /// ascending order, and one row of `k` coefficients per wanted row, row by row. The rows read are those
    /// that [`Code::reconstruct`] reads. For a device that computes the same rows with a kernel of its own.
    ///
    /// # Errors
    /// [`Error::TooFewRows`] if fewer than `k` distinct rows are present; [`Error::Shape`] if an index is `n`
    /// or more, or a wanted index is repeated or present.
    pub fn decode_coefficients(
        &self,
        present: &[usize],
        wanted: &[usize],
    ) -> Result<(Vec<usize>, Vec<u8>), Error> {
        let rows: Vec<(usize, &[u8])> = present.iter().map(|&row| (row, &[][..])).collect();
        let found = Present::sort(self, &rows)?;
        let none: Vec<&mut [u8]> = wanted.iter().map(|_| &mut [][..]).collect();
        self.check_wanted(wanted, &none, 0)?;
        if let Some(row) = wanted.iter().find(|&&row| found.have >> row & 1 != 0) {
            return Err(Error::Shape(format!("row {row} is wanted and present")));
        }
        let used: Vec<usize> = bits(found.used).collect();
        let matrix = decode_matrix(self.k(), &used, wanted);
        Ok((used, matrix))
    }

    fn check_wanted(&self, wanted: &[usize], out: &[&mut [u8]], len: usize) -> Result<(), Error> {
        expect("output rows", out.len(), wanted.len())?;
        same_length(out, len)?;
        let mut seen = 0u64;
        for &row in wanted {
            if row >= self.n() {
                return Err(Error::Shape(format!("wanted row {row} is not one of the {} rows", self.n())));
            }
            if seen >> row & 1 != 0 {
                return Err(Error::Shape(format!("row {row} is wanted twice")));
            }
            seen |= 1 << row;
        }
        Ok(())
    }

    fn decode_plan(&self, pattern: Pattern) -> Plan {
        let used: Vec<usize> = bits(pattern.used).collect();
        let wanted: Vec<usize> = bits(pattern.wanted).collect();
        let matrix = decode_matrix(self.k(), &used, &wanted);
        Plan::new(self.kernel(), matrix, wanted.len(), self.k(), false)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}+{}, {})", self.k(), self.m(), self.kernel())
    }
}

/// The rows handed to `reconstruct`, by index.
struct Present<'a> {
    rows: &'a [(usize, &'a [u8])],
    /// For each present row, the index of its first occurrence in `rows`.
    place: [u32; MAX_ROWS],
    /// Bit set of the rows present.
    have: u64,
    /// Bit set of the `k` of them that are used.
    used: u64,
    len: usize,
}

impl<'a> Present<'a> {
    fn sort(code: &Code, rows: &'a [(usize, &'a [u8])]) -> Result<Present<'a>, Error> {
        let (k, n) = (code.k(), code.n());
        let len = rows.first().map_or(0, |(_, row)| row.len());
        let mut place = [0u32; MAX_ROWS];
        let mut have = 0u64;
        for (at, &(index, row)) in rows.iter().enumerate() {
            if index >= n {
                return Err(Error::Shape(format!("present row {index} is not one of the {n} rows")));
            }
            same_length(&[row], len)?;
            if have >> index & 1 == 0 {
                have |= 1 << index;
                place[index] = at as u32;
            }
        }
        let count = have.count_ones() as usize;
        if count < k {
            return Err(Error::TooFewRows { have: count, need: k });
        }
        let mut used = have & (u64::MAX >> (64 - k));
        for &(index, _) in rows {
            if (used.count_ones() as usize) < k {
                used |= 1 << index;
            }
        }
        Ok(Present { rows, place, have, used, len })
    }

    /// A row that is present.
    fn row(&self, index: usize) -> &'a [u8] {
        self.rows[self.place[index] as usize].1
    }
}

/// Scratch space on the boundary of a cache line.
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

/// The positions of the ones, ascending.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

fn expect(what: &str, got: usize, want: usize) -> Result<(), Error> {
    if got == want { Ok(()) } else { Err(Error::Shape(format!("{want} {what} are expected, got {got}"))) }
}

fn same_length<R: std::ops::Deref<Target = [u8]>>(rows: &[R], len: usize) -> Result<(), Error> {
    match rows.iter().find(|row| row.len() != len) {
        None => Ok(()),
        Some(row) => {
            Err(Error::Shape(format!("rows must be equally long, got {} and {len} bytes", row.len())))
        }
    }
}
