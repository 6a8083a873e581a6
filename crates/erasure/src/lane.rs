//! The loop that all SIMD kernels share: a tile of output rows is kept in registers while the input
//! rows stream past it.
//!
//! An instruction set implements load, store, add and multiply of one vector ([`Lane`]); [`sweep`] does the
//! rest. A tile is `R` output rows by `C` vectors. For each input row its `C` vectors are loaded once and
//! multiplied into all `R` outputs, and each coefficient is loaded once for `C` vectors. Outputs are written
//! once, whole, never read (unless accumulating).
//!
//! Rows that come from memory: the CPU fetches what it sees being read in sequence, but not enough rows at a time,
//! and nothing beyond a page. So a long pass asks for lines of its inputs or of its outputs ahead of use, where that
//! was measured to pay and to cost nothing when the rows are in a cache ([`Lane::ahead`]). It never asks beyond the
//! end of a row.
//!
//! Everything here is `#[inline(always)]` and has no target feature of its own: it must only be called from
//! functions that enable the features of the given [`Lane`], into which it is inlined. It has no closures and
//! no iterator adapters, because these would be compiled separately, without those features.
#![allow(clippy::needless_range_loop)] // iterator adapters: see above

/// What a pass may assume; a constant to the compiler, so that each mode is compiled as a separate loop
/// ([`Pass::mode`]).
pub(crate) type Mode = u8;
/// Any coefficients.
pub(crate) const GENERAL: Mode = 0;
/// Row 0 has ones for the first [`Pass::unit_columns`] inputs and zeros for the others.
pub(crate) const UNIT: Mode = 1;
/// Row 0 and column 0 are all ones, there are at least two columns, and nothing is folded or
/// accumulated: the shape of encoding.
pub(crate) const ENCODE: Mode = 2;

/// How row 0 takes part in a step: multiplied like the others.
const MULTIPLY: u8 = 0;
/// Its coefficients are 1: just added.
const ADD: u8 = 1;
/// Its coefficients are 0: left out.
const SKIP: u8 = 2;

/// Which rows a pass asks for before it needs them ([`Lane::ahead`]); a constant to the compiler.
pub(crate) type Ahead = u8;
/// None: what the CPU fetches by itself is enough.
pub(crate) const NOTHING: Ahead = 0;
/// The inputs.
pub(crate) const INPUTS: Ahead = 1;
/// The outputs: a store needs the old content of its line in the cache first.
pub(crate) const OUTPUTS: Ahead = 2;

/// Bytes from what is read or written to what is asked for.
const DISTANCE: usize = 256;
/// Bytes from which on a pass asks for anything: with shorter rows it would be in the cache already, and each
/// request takes the place of a load.
const LONG: usize = 16 * 1024;
/// Bytes that one request brings.
const LINE: usize = 64;

/// One vector of an instruction set.
///
/// # Safety
/// Each function requires that the CPU has the instruction set; pointers must be valid for the
/// bytes named, at any alignment.
pub(crate) trait Lane {
    /// A vector of bytes.
    type Vector: Copy;
    /// A vector made ready for multiplication (its nibbles apart, say).
    type Operand: Copy;
    /// A coefficient in registers.
    type Factor: Copy;
    /// Bytes in a vector.
    const BYTES: usize;
    /// 64-bit words per coefficient in the table (1: bit matrix, 4: nibble tables).
    const WORDS: usize;
    /// Whether taking two input rows at a time pays (three-way XOR, enough registers).
    const PAIRS: bool;

    /// What pays to be asked for ahead, measured (docs/decisions/0080-erasure-kernels-from-memory.md).
    fn ahead(_rows: usize, _columns: usize) -> Ahead {
        NOTHING
    }

    unsafe fn zero() -> Self::Vector;
    unsafe fn load(from: *const u8) -> Self::Vector;
    unsafe fn store(to: *mut u8, v: Self::Vector);
    /// Loads `1 <= n < BYTES` bytes, zeros behind them.
    unsafe fn load_part(from: *const u8, n: usize) -> Self::Vector;
    /// Stores the first `1 <= n < BYTES` bytes.
    unsafe fn store_part(to: *mut u8, v: Self::Vector, n: usize);
    unsafe fn xor(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn xor3(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    unsafe fn operand(v: Self::Vector) -> Self::Operand;
    unsafe fn factor(table: *const u64) -> Self::Factor;
    unsafe fn mul(f: Self::Factor, x: Self::Operand) -> Self::Vector;
    /// `sum + f * x`
    unsafe fn mul_add(sum: Self::Vector, f: Self::Factor, x: Self::Operand) -> Self::Vector;
    /// `sum + f * x + g * y` for the pairs `(f, x)` and `(g, y)`
    unsafe fn mul_add2(
        sum: Self::Vector,
        fx: (Self::Factor, Self::Operand),
        gy: (Self::Factor, Self::Operand),
    ) -> Self::Vector;
}

/// One call of a kernel: a group of up to 6 output rows over a range of bytes.
///
/// Invariants, upheld by `plan` and relied upon by every kernel: `inputs` points to `columns`
/// pointers and `outputs` to `rows` pointers, each valid for `to` bytes, for writing in the case of
/// outputs, and no output overlaps any other row; `from <= to`; `tables` holds `columns * rows`
/// entries of the kernel's width, column by column; `columns >= 1`; `mode` describes the coefficients, and
/// where it is [`UNIT`], `1 <= unit_columns <= columns`.
pub(crate) struct Pass {
    pub tables: *const u64,
    pub inputs: *const *const u8,
    pub columns: usize,
    pub outputs: *const *mut u8,
    pub rows: usize,
    pub mode: Mode,
    /// See [`UNIT`].
    pub unit_columns: usize,
    /// Only with [`UNIT`]: row 0 as given is the sum of all rows of the group, so the others must be
    /// added to it at the end.
    pub fold: bool,
    /// All coefficients of column 0 are 1.
    pub first_ones: bool,
    /// Add to the outputs instead of overwriting them.
    pub accumulate: bool,
    pub from: usize,
    pub to: usize,
}

/// Calls `$sweep::<R, C, MODE>` for the rows of a pass.
macro_rules! by_rows {
    ($sweep:ident, $pass:expr, $($rows:literal x $vectors:literal),+) => {
        match ($pass.rows, $pass.mode) {
            $(
                ($rows, $crate::lane::GENERAL) => $sweep::<$rows, $vectors, { $crate::lane::GENERAL }>($pass),
                ($rows, $crate::lane::UNIT) => $sweep::<$rows, $vectors, { $crate::lane::UNIT }>($pass),
                ($rows, $crate::lane::ENCODE) => $sweep::<$rows, $vectors, { $crate::lane::ENCODE }>($pass),
            )+
            (rows, _) => unreachable!("a group of {rows} rows"),
        }
    };
}
pub(crate) use by_rows;

/// Runs a pass: whole tiles, at first perhaps with requests ahead, then single vectors, then a part of one.
///
/// # Safety
/// The CPU must have the instruction set of `L`, `pass` must keep its invariants, and `R` must be
/// its number of rows and `MODE` its `mode`.
#[inline(always)]
pub(crate) unsafe fn sweep<L: Lane, const R: usize, const C: usize, const MODE: Mode>(pass: &Pass) {
    let mut at = pass.from;
    // Kept in registers: reading the pointers again for each tile costs 3 % where the cache is the limit.
    let mut outputs = [std::ptr::null_mut(); R];
    // SAFETY: the pass holds `R` outputs and at least one input.
    let first = unsafe {
        for r in 0..R {
            outputs[r] = *pass.outputs.add(r);
        }
        [*pass.inputs, *pass.inputs.add(usize::from(pass.columns > 1))]
    };
    let known = (&first, &outputs);
    // SAFETY: the mode holds for every tile, each lies within from..to, and up to `DISTANCE` bytes before `to`
    // also what is asked for; the rest is this function's contract.
    unsafe {
        if pass.to - at >= LONG {
            let to = pass.to - DISTANCE;
            match L::ahead(R, pass.columns) {
                INPUTS => tiles::<L, R, C, MODE, INPUTS>(pass, known, &mut at, to),
                OUTPUTS => tiles::<L, R, C, MODE, OUTPUTS>(pass, known, &mut at, to),
                _ => {}
            }
        }
        tiles::<L, R, C, MODE, NOTHING>(pass, known, &mut at, pass.to);
        while pass.to - at >= L::BYTES {
            tile::<L, R, 1, MODE, NOTHING, false>(pass, known, at, 0);
            at += L::BYTES;
        }
        if at < pass.to {
            tile::<L, R, 1, MODE, NOTHING, true>(pass, known, at, pass.to - at);
        }
    }
}

/// The whole tiles from `at` to before `to`; `at` becomes where they end.
///
/// # Safety
/// As [`sweep`]; `to` must be within the rows, and unless `AHEAD` is [`NOTHING`] so must be the `DISTANCE` bytes
/// after it.
#[inline(always)]
unsafe fn tiles<L: Lane, const R: usize, const C: usize, const MODE: Mode, const AHEAD: Ahead>(
    pass: &Pass,
    known: (&[*const u8; 2], &[*mut u8; R]),
    at: &mut usize,
    to: usize,
) {
    while to - *at >= C * L::BYTES {
        // SAFETY: the tile ends at or before `to`.
        unsafe { tile::<L, R, C, MODE, AHEAD, false>(pass, known, *at, 0) };
        *at += C * L::BYTES;
    }
}

/// One tile of `R` rows by `C` vectors, or by one vector of which `part` bytes count. `first` holds
/// the first two inputs (the same one twice if there is only one).
///
/// # Safety
/// As [`sweep`]; all bytes of the tile must lie within the rows, and so must those `DISTANCE` further on unless
/// `AHEAD` is [`NOTHING`].
#[inline(always)]
unsafe fn tile<
    L: Lane,
    const R: usize,
    const C: usize,
    const MODE: Mode,
    const AHEAD: Ahead,
    const PART: bool,
>(
    pass: &Pass,
    (first, outputs): (&[*const u8; 2], &[*mut u8; R]),
    at: usize,
    part: usize,
) {
    // SAFETY: the contract of this function is that of everything it calls.
    unsafe {
        let mut sums = [[L::zero(); C]; R];
        if AHEAD == OUTPUTS {
            for r in 0..R {
                prefetch::<L, C>(outputs[r].add(at));
            }
        }
        let x = input::<L, C, AHEAD, PART>(first[0].add(at), part);
        if MODE == ENCODE {
            let y = input::<L, C, AHEAD, PART>(first[1].add(at), part);
            begin_encoding::<L, R, C>(&mut sums, pass, x, y);
            add_columns::<L, R, C, ADD, AHEAD, PART>(&mut sums, pass, 2, pass.columns, at, part);
        } else {
            if pass.accumulate {
                for r in 0..R {
                    sums[r] = read::<L, C, PART>(outputs[r].add(at), part);
                }
            }
            if MODE == GENERAL {
                // In pairs, beginning with zeros costs nothing: the first sum of two products is then
                // a sum of three.
                let alone = pass.first_ones || !L::PAIRS;
                if alone {
                    begin::<L, R, C, MODE>(&mut sums, pass, x);
                }
                let next = usize::from(alone);
                add_columns::<L, R, C, MULTIPLY, AHEAD, PART>(&mut sums, pass, next, pass.columns, at, part);
            } else {
                begin::<L, R, C, MODE>(&mut sums, pass, x);
                add_columns::<L, R, C, ADD, AHEAD, PART>(&mut sums, pass, 1, pass.unit_columns, at, part);
                add_columns::<L, R, C, SKIP, AHEAD, PART>(
                    &mut sums,
                    pass,
                    pass.unit_columns,
                    pass.columns,
                    at,
                    part,
                );
                for r in 1..R {
                    for c in 0..C {
                        if pass.fold {
                            sums[0][c] = L::xor(sums[0][c], sums[r][c]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            write::<L, C, PART>(outputs[r].add(at), sums[r], part);
        }
    }
}

/// Sets the sums of a tile to those of the first two columns.
///
/// # Safety
/// As [`tile`], in mode [`ENCODE`].
#[inline(always)]
unsafe fn begin_encoding<L: Lane, const R: usize, const C: usize>(
    sums: &mut [[L::Vector; C]; R],
    pass: &Pass,
    x: [L::Vector; C],
    y: [L::Vector; C],
) {
    // SAFETY: as above; the table has entries for two columns.
    unsafe {
        for c in 0..C {
            sums[0][c] = L::xor(x[c], y[c]);
        }
        for r in 1..R {
            let f = L::factor(pass.tables.add((R + r) * L::WORDS));
            for c in 0..C {
                sums[r][c] = L::mul_add(x[c], f, L::operand(y[c]));
            }
        }
    }
}

/// Adds the first column to the sums of a tile, which hold zeros or, accumulating, the outputs.
///
/// # Safety
/// As [`tile`], in the other modes.
#[inline(always)]
unsafe fn begin<L: Lane, const R: usize, const C: usize, const MODE: Mode>(
    sums: &mut [[L::Vector; C]; R],
    pass: &Pass,
    x: [L::Vector; C],
) {
    // SAFETY: as above; the table has entries for one column.
    unsafe {
        for r in 0..R {
            let f = L::factor(pass.tables.add(r * L::WORDS));
            for c in 0..C {
                let ones = pass.first_ones || MODE == UNIT && r == 0;
                let term = if ones { x[c] } else { L::mul(f, L::operand(x[c])) };
                sums[r][c] = if pass.accumulate { L::xor(sums[r][c], term) } else { term };
            }
        }
    }
}

/// Adds the input rows `j..end`, multiplied, to the sums of a tile.
///
/// # Safety
/// As [`tile`], and `end` must not exceed the number of columns.
#[inline(always)]
unsafe fn add_columns<
    L: Lane,
    const R: usize,
    const C: usize,
    const ROW0: u8,
    const AHEAD: Ahead,
    const PART: bool,
>(
    sums: &mut [[L::Vector; C]; R],
    pass: &Pass,
    mut j: usize,
    end: usize,
    at: usize,
    part: usize,
) {
    // SAFETY: as above; table entries `j * R + r` exist for every column and row.
    unsafe {
        while L::PAIRS && j + 1 < end {
            let x = input::<L, C, AHEAD, PART>((*pass.inputs.add(j)).add(at), part);
            let y = input::<L, C, AHEAD, PART>((*pass.inputs.add(j + 1)).add(at), part);
            let table = pass.tables.add(j * R * L::WORDS);
            for r in 0..R {
                if r == 0 && ROW0 == ADD {
                    for c in 0..C {
                        sums[0][c] = L::xor3(sums[0][c], x[c], y[c]);
                    }
                } else if r > 0 || ROW0 == MULTIPLY {
                    let f = L::factor(table.add(r * L::WORDS));
                    let g = L::factor(table.add((R + r) * L::WORDS));
                    for c in 0..C {
                        let (fx, gy) = ((f, L::operand(x[c])), (g, L::operand(y[c])));
                        sums[r][c] = L::mul_add2(sums[r][c], fx, gy);
                    }
                }
            }
            j += 2;
        }
        while j < end {
            let x = input::<L, C, AHEAD, PART>((*pass.inputs.add(j)).add(at), part);
            let table = pass.tables.add(j * R * L::WORDS);
            for r in 0..R {
                if r == 0 && ROW0 == ADD {
                    for c in 0..C {
                        sums[0][c] = L::xor(sums[0][c], x[c]);
                    }
                } else if r > 0 || ROW0 == MULTIPLY {
                    let f = L::factor(table.add(r * L::WORDS));
                    for c in 0..C {
                        sums[r][c] = L::mul_add(sums[r][c], f, L::operand(x[c]));
                    }
                }
            }
            j += 1;
        }
    }
}

/// Loads `C` vectors of an input, or one in part, and asks for those further on with [`INPUTS`].
///
/// # Safety
/// As [`read`], and with [`INPUTS`] the `C` vectors `DISTANCE` further on must lie within the row.
#[inline(always)]
unsafe fn input<L: Lane, const C: usize, const AHEAD: Ahead, const PART: bool>(
    from: *const u8,
    part: usize,
) -> [L::Vector; C] {
    // SAFETY: the contract of this function.
    unsafe {
        if AHEAD == INPUTS {
            prefetch::<L, C>(from);
        }
        read::<L, C, PART>(from, part)
    }
}

/// Asks for the lines of the `C` vectors `DISTANCE` after `from`. A hint: it changes nothing but the caches.
///
/// # Safety
/// They must lie within the row.
#[inline(always)]
unsafe fn prefetch<L: Lane, const C: usize>(from: *const u8) {
    for line in 0..C * L::BYTES / LINE {
        // SAFETY: the contract of this function.
        let _at = unsafe { from.add(DISTANCE + line * LINE) };
        // SAFETY: every x86-64 CPU has the instruction, and it has no effect but on the caches.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(_at.cast());
        }
    }
}

/// Loads `C` vectors, or one in part.
///
/// # Safety
/// `from` must be valid for `C` vectors, or for `part` bytes.
#[inline(always)]
unsafe fn read<L: Lane, const C: usize, const PART: bool>(from: *const u8, part: usize) -> [L::Vector; C] {
    // SAFETY: the contract of this function.
    unsafe {
        let mut v = [L::zero(); C];
        for c in 0..C {
            v[c] = if PART { L::load_part(from, part) } else { L::load(from.add(c * L::BYTES)) };
        }
        v
    }
}

/// Stores `C` vectors, or one in part.
///
/// # Safety
/// `to` must be valid for `C` vectors, or for `part` bytes.
#[inline(always)]
unsafe fn write<L: Lane, const C: usize, const PART: bool>(to: *mut u8, v: [L::Vector; C], part: usize) {
    // SAFETY: the contract of this function.
    unsafe {
        for c in 0..C {
            if PART {
                L::store_part(to, v[c], part);
            } else {
                L::store(to.add(c * L::BYTES), v[c]);
            }
        }
    }
}
