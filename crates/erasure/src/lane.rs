//! The loop that all SIMD kernels share: a tile of output rows is kept in registers while the input
//! rows stream past it.
//!
//! An instruction set says how to load, store, add and multiply one vector ([`Lane`]); [`sweep`] does
//! the rest. A tile is `R` output rows by `C` vectors. For each input row its `C` vectors are loaded
//! once and multiplied into all `R` outputs, and each coefficient is fetched once for `C` vectors.
//! Outputs are written once, whole, never read (unless accumulating).
//!
//! Everything here is `#[inline(always)]` and has no target feature of its own: it must only be
//! called from functions that enable the features of the [`Lane`] it is given, into which it then
//! dissolves. No closures and no iterator adapters in here, they would be compiled on their own,
//! without those features.

/// How a row 0 of a tile takes part in a step: by multiplication like the others.
const MULTIPLY: u8 = 0;
/// Its coefficient is 1: just add.
const ADD: u8 = 1;
/// Its coefficient is 0: leave it out.
const SKIP: u8 = 2;

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
    /// `sum + f * x + g * y`
    unsafe fn mul_add2(
        sum: Self::Vector,
        (f, x): (Self::Factor, Self::Operand),
        (g, y): (Self::Factor, Self::Operand),
    ) -> Self::Vector;
}

/// One call of a kernel: a group of up to 6 output rows over a range of bytes.
///
/// Invariants, upheld by `plan` and relied upon by every kernel: `inputs` points to `columns`
/// pointers and `outputs` to `rows` pointers, each valid for `to` bytes, for writing in the case of
/// outputs, and no output overlaps any other row; `tables` holds `columns * rows` entries of the
/// kernel's width, column by column; `columns >= 1` and, where `unit` is set, `unit_columns >= 1`.
pub(crate) struct Pass {
    pub tables: *const u64,
    pub inputs: *const *const u8,
    pub columns: usize,
    pub outputs: *const *mut u8,
    pub rows: usize,
    /// Coefficients of row 0 are 1 for the first `unit_columns` inputs and 0 for the others.
    pub unit: bool,
    pub unit_columns: usize,
    /// Row 0 as given is the sum of all rows of the group, so the others must be added to it.
    pub fold: bool,
    /// All coefficients of column 0 are 1.
    pub first_ones: bool,
    /// Add to the outputs instead of overwriting them.
    pub accumulate: bool,
    pub from: usize,
    pub to: usize,
}

/// Calls `$sweep::<R, C, UNIT>` for the rows of a pass.
macro_rules! by_rows {
    ($sweep:ident, $pass:expr, $($rows:literal x $vectors:literal),+) => {
        match ($pass.rows, $pass.unit) {
            $(
                ($rows, false) => $sweep::<$rows, $vectors, false>($pass),
                ($rows, true) => $sweep::<$rows, $vectors, true>($pass),
            )+
            (rows, _) => unreachable!("a group of {rows} rows"),
        }
    };
}
pub(crate) use by_rows;

/// Runs a pass: whole tiles, then single vectors, then a part of one.
///
/// # Safety
/// The CPU must have the instruction set of `L`, `pass` must keep its invariants, and `R` must be
/// its number of rows and `UNIT` its `unit`.
#[inline(always)]
pub(crate) unsafe fn sweep<L: Lane, const R: usize, const C: usize, const UNIT: bool>(pass: &Pass) {
    let mut at = pass.from;
    // SAFETY: each tile lies within from..to; the rest is this function's contract.
    unsafe {
        while pass.to - at >= C * L::BYTES {
            tile::<L, R, C, UNIT, false>(pass, at, 0);
            at += C * L::BYTES;
        }
        while pass.to - at >= L::BYTES {
            tile::<L, R, 1, UNIT, false>(pass, at, 0);
            at += L::BYTES;
        }
        if at < pass.to {
            tile::<L, R, 1, UNIT, true>(pass, at, pass.to - at);
        }
    }
}

/// One tile of `R` rows by `C` vectors, or by one vector of which `part` bytes count.
///
/// # Safety
/// As [`sweep`]; all bytes of the tile must lie within the rows.
#[inline(always)]
unsafe fn tile<L: Lane, const R: usize, const C: usize, const UNIT: bool, const PART: bool>(
    pass: &Pass,
    at: usize,
    part: usize,
) {
    // SAFETY: the contract of this function is that of everything it calls.
    unsafe {
        let mut sums = [[L::zero(); C]; R];
        let mut j = 0;
        if pass.accumulate {
            for r in 0..R {
                sums[r] = read::<L, C, PART>((*pass.outputs.add(r)).add(at), part);
            }
        }
        if pass.first_ones {
            let x = read::<L, C, PART>((*pass.inputs).add(at), part);
            for r in 0..R {
                for c in 0..C {
                    sums[r][c] = if pass.accumulate { L::xor(sums[r][c], x[c]) } else { x[c] };
                }
            }
            j = 1;
        } else if !pass.accumulate {
            let x = read::<L, C, PART>((*pass.inputs).add(at), part);
            for r in 0..R {
                if UNIT && r == 0 {
                    sums[0] = x;
                } else {
                    let f = L::factor(pass.tables.add(r * L::WORDS));
                    for c in 0..C {
                        sums[r][c] = L::mul(f, L::operand(x[c]));
                    }
                }
            }
            j = 1;
        }

        if UNIT {
            add_columns::<L, R, C, ADD, PART>(&mut sums, pass, j, pass.unit_columns, at, part);
            if pass.unit_columns < pass.columns {
                add_columns::<L, R, C, SKIP, PART>(&mut sums, pass, pass.unit_columns, pass.columns, at, part);
            }
            if pass.fold {
                for r in 1..R {
                    for c in 0..C {
                        sums[0][c] = L::xor(sums[0][c], sums[r][c]);
                    }
                }
            }
        } else {
            add_columns::<L, R, C, MULTIPLY, PART>(&mut sums, pass, j, pass.columns, at, part);
        }

        for r in 0..R {
            let to = (*pass.outputs.add(r)).add(at);
            for c in 0..C {
                if PART {
                    L::store_part(to, sums[r][c], part);
                } else {
                    L::store(to.add(c * L::BYTES), sums[r][c]);
                }
            }
        }
    }
}

/// Adds the input rows `j..end`, multiplied, to the sums of a tile.
///
/// # Safety
/// As [`tile`], and `end` must not exceed the number of columns.
#[inline(always)]
unsafe fn add_columns<L: Lane, const R: usize, const C: usize, const ROW0: u8, const PART: bool>(
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
            let x = read::<L, C, PART>((*pass.inputs.add(j)).add(at), part);
            let y = read::<L, C, PART>((*pass.inputs.add(j + 1)).add(at), part);
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
            let x = read::<L, C, PART>((*pass.inputs.add(j)).add(at), part);
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

/// `C` vectors, or one in part.
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
