//! A coefficient matrix prepared for one kernel, and the safe interface to the kernels.
//!
//! Preparing a matrix: the output rows are split into groups that fit the kernel's registers, rows and
//! columns that need no multiplication are found, and the kernel's tables are laid out in the order in which
//! it reads them.
//!
//! Multiplications take most of the time. They are avoided in these cases:
//! - **unit row**: a row of ones and zeros is only added up. The first parity row is one, and so is every
//!   single lost data row that is rebuilt from it.
//! - **fold**: if not row 0 but the *sum* of a group's rows consists of ones and zeros, that sum replaces row
//!   0, and the other rows are added to it at the end, in registers. This is the case whenever several lost
//!   data rows are rebuilt with the help of the XOR parity: together with the surviving data they add up to
//!   that parity.
//! - **first column of ones**: the first input row is copied into all sums. The first data row has
//!   coefficient 1 in all parity rows.
//!
//! Invariant: [`Plan::apply`] is the only caller of the kernels and checks every length first, so the
//! rest of the crate stays safe.
//!
//! Must not depend on: what the rows contain.

use std::mem::MaybeUninit;

use crate::field::{affine_matrix, nibble_tables};
use crate::kernel::{Kernel, Tables};
use crate::lane::Pass;
use crate::{MAX_ROWS, lane, scalar};

/// Bytes of the input rows that several groups of output rows read in turn, so that the second group
/// finds them in a first-level cache of 32 KiB.
const BLOCK_BUDGET: usize = 24 * 1024;

/// A prepared matrix; see the module.
pub(crate) struct Plan {
    kernel: Kernel,
    rows: usize,
    columns: usize,
    /// Row by row, as given.
    matrix: Vec<u8>,
    /// The input row of each column of the groups' tables.
    order: Vec<u8>,
    groups: Vec<Group>,
    /// Add to the outputs instead of overwriting them.
    accumulate: bool,
}

/// The part of the rows to work on: `len` bytes from an offset into the inputs and one into the
/// outputs.
pub(crate) struct Window {
    pub in_at: usize,
    pub out_at: usize,
    pub len: usize,
}

impl Window {
    /// Rows of `len` bytes, whole.
    pub fn whole(len: usize) -> Window {
        Window { in_at: 0, out_at: 0, len }
    }
}

/// Output rows that one pass makes together.
struct Group {
    first: usize,
    rows: usize,
    mode: lane::Mode,
    unit_columns: usize,
    fold: bool,
    first_ones: bool,
    tables: Box<[u64]>,
}

impl Plan {
    /// Prepares `matrix` (`rows` x `columns`, row by row, `columns >= 1`) for `kernel`. With
    /// `accumulate` the products are added to the outputs instead of replacing them.
    pub fn new(kernel: Kernel, matrix: Vec<u8>, rows: usize, columns: usize, accumulate: bool) -> Plan {
        assert!(rows <= MAX_ROWS && (1..=MAX_ROWS).contains(&columns));
        assert_eq!(matrix.len(), rows * columns);
        let most = kernel.group_rows();
        let count = rows.div_ceil(most);
        let mut order: Vec<u8> = (0..columns as u8).collect();
        let mut groups = Vec::with_capacity(count);
        let mut first = 0;
        for left in (1..=count).rev() {
            let rows = (rows - first).div_ceil(left);
            let slice = &matrix[first * columns..][..rows * columns];
            let wanted = if count == 1 { Some(&mut order) } else { None };
            groups.push(Group::new(kernel, first, slice, columns, wanted, accumulate));
            first += rows;
        }
        Plan { kernel, rows, columns, matrix, order, groups, accumulate }
    }

    /// `out(r)[out_at..][..len] = sum over c of matrix[r][c] * input(c)[in_at..][..len]`, or `+=`,
    /// where `out(r)` is `outputs[pick(r)]`. `pick` must give a different output for each row.
    ///
    /// Panics if a row is too short; callers check before.
    pub fn apply<'a>(
        &self,
        input: impl Fn(usize) -> &'a [u8],
        outputs: &mut [&mut [u8]],
        pick: impl Fn(usize) -> usize,
        Window { in_at, out_at, len }: Window,
    ) {
        let Some(run) = self.kernel.entry() else {
            for r in 0..self.rows {
                self.apply_naively(r, &input, in_at, &mut outputs[pick(r)][out_at..][..len]);
            }
            return;
        };
        // Only the first `columns` and `rows` pointers are ever set and read: filling all 128 would
        // take as long as a row of 512 bytes.
        let mut from = [const { MaybeUninit::<*const u8>::uninit() }; MAX_ROWS];
        for (pointer, &column) in from.iter_mut().zip(&self.order) {
            pointer.write(input(column as usize)[in_at..][..len].as_ptr());
        }
        let mut to = [const { MaybeUninit::<*mut u8>::uninit() }; MAX_ROWS];
        for (r, pointer) in to.iter_mut().enumerate().take(self.rows) {
            pointer.write(outputs[pick(r)][out_at..][..len].as_mut_ptr());
        }
        let block = self.block(len);
        let mut at = 0;
        while at < len {
            let end = len.min(at + block);
            for group in &self.groups {
                let pass = Pass {
                    tables: group.tables.as_ptr(),
                    inputs: from.as_ptr().cast(),
                    columns: self.columns,
                    outputs: to[group.first..].as_ptr().cast(),
                    rows: group.rows,
                    mode: group.mode,
                    unit_columns: group.unit_columns,
                    fold: group.fold,
                    first_ones: group.first_ones,
                    accumulate: self.accumulate,
                    from: at,
                    to: end,
                };
                // SAFETY: `entry` names a kernel only if this CPU has it (`Kernel::check`, called
                // before any plan is made). `order` has `columns` entries and all groups together
                // have `rows` rows, so every pointer the pass names was set, and slicing checked that
                // `len` bytes follow each; `end <= len`. Inputs are shared borrows and outputs
                // exclusive ones, so nothing overlaps. The tables were laid out by `Group::new` for
                // this kernel.
                unsafe { run(&pass) };
            }
            at = end;
        }
    }

    /// Number of bytes of each row that are processed at a time: all of them if one group makes all outputs.
    fn block(&self, len: usize) -> usize {
        if self.groups.len() == 1 {
            len
        } else {
            let per_row = BLOCK_BUDGET / (self.columns + self.groups[0].rows);
            per_row.next_multiple_of(512)
        }
    }

    fn apply_naively<'a>(&self, r: usize, input: impl Fn(usize) -> &'a [u8], in_at: usize, out: &mut [u8]) {
        if !self.accumulate {
            out.fill(0);
        }
        for (c, &factor) in self.matrix[r * self.columns..][..self.columns].iter().enumerate() {
            scalar::mul_add(out, factor, &input(c)[in_at..][..out.len()]);
        }
    }
}

impl Group {
    /// Prepares the rows of `matrix`, whose first is row `first` of the plan. If `order` is given, the
    /// columns may be permuted, and `order` is permuted in the same way.
    fn new(
        kernel: Kernel,
        first: usize,
        matrix: &[u8],
        columns: usize,
        order: Option<&mut Vec<u8>>,
        accumulate: bool,
    ) -> Group {
        let mut matrix = matrix.to_vec();
        let rows = matrix.len() / columns;
        let sum: Vec<u8> = (0..columns).map(|c| column(&matrix, columns, c).fold(0, |s, x| s ^ x)).collect();
        let permute = order.is_some();
        let own = ones_first(&matrix[..columns], permute);
        // Folding adds finished rows to row 0, which is wrong if the outputs had other content before.
        let fold = own.is_none() && !accumulate && ones_first(&sum, permute).is_some();
        if fold {
            matrix[..columns].copy_from_slice(&sum);
        }
        let unit = if fold { ones_first(&sum, permute) } else { own };

        let all_ones = |c: usize| column(&matrix, columns, c).all(|x| x == 1);
        let (mut sequence, unit_columns) = unit.clone().unwrap_or(((0..columns).collect(), 0));
        if let Some(order) = order {
            sequence[..unit_columns].sort_by_key(|&c| !all_ones(c));
            *order = sequence.iter().map(|&c| c as u8).collect();
        }
        let first_ones = all_ones(sequence[0]);
        let encode = first_ones && columns > 1 && unit_columns == columns && !fold && !accumulate;
        let mode = match unit {
            Some(_) if encode => lane::ENCODE,
            Some(_) => lane::UNIT,
            None => lane::GENERAL,
        };

        let entries = sequence.iter().flat_map(|&c| column(&matrix, columns, c));
        let tables = match kernel.tables() {
            Tables::None => Vec::new(),
            Tables::Affine => entries.map(affine_matrix).collect(),
            Tables::Nibbles => entries.flat_map(|x| words(nibble_tables(x))).collect(),
        };
        Group { first, rows, mode, unit_columns, fold, first_ones, tables: tables.into() }
    }
}

/// The coefficients of column `c`, from the first row to the last.
fn column(matrix: &[u8], columns: usize, c: usize) -> impl Iterator<Item = u8> {
    matrix.iter().skip(c).step_by(columns).copied()
}

/// If `row` is made of ones and zeros, at least one of them a one: its columns with the ones first,
/// and the number of ones. Unless columns may be permuted, the ones must come first already.
fn ones_first(row: &[u8], permute: bool) -> Option<(Vec<usize>, usize)> {
    let ones = row.iter().filter(|&&x| x == 1).count();
    if ones == 0 || row.iter().any(|&x| x > 1) || !(permute || row[..ones].iter().all(|&x| x == 1)) {
        return None;
    }
    let mut sequence: Vec<usize> = (0..row.len()).collect();
    sequence.sort_by_key(|&c| row[c] != 1);
    Some((sequence, ones))
}

/// The same 32 bytes, in memory order, as words.
fn words(bytes: [u8; 32]) -> [u64; 4] {
    std::array::from_fn(|i| u64::from_ne_bytes(std::array::from_fn(|j| bytes[8 * i + j])))
}
