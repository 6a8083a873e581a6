//! The MD5 block function (RFC 1321), once, for any number of lanes.
//!
//! [`Lane`] is the little that an instruction set must provide; [`blocks`] is the function over it.
//! MD5 is a chain of 64 dependent steps, so one message leaves most of the processor idle. A vector
//! of messages fills the vector's lanes, and [`Pair`] interleaves two vectors, so that one works
//! while the other waits for its chain.
//!
//! Invariant: every `Lane` computes the same function; `u32`, with one lane and no instruction set, is the
//! reference that the tests compare with the `md-5` crate.
//!
//! Must not depend on: streams, scheduling.

/// The state before the first block.
pub(super) const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The bytes of a block.
pub(super) const BLOCK: usize = 64;

/// A vector of 32-bit words, one for each of `WIDTH` messages.
///
/// # Safety
/// Every method may require the instruction set of its implementation, and may only be called,
/// and inlined, where that is enabled. The pointers must be readable (or writable) for the words
/// that the method names, at any alignment.
pub(super) trait Lane: Copy {
    /// How many messages.
    const WIDTH: usize;
    /// `value` in every lane.
    unsafe fn splat(value: u32) -> Self;
    /// `WIDTH` words from `from`.
    unsafe fn load(from: *const u32) -> Self;
    /// `WIDTH` words to `to`.
    unsafe fn store(self, to: *mut u32);
    /// Lane-wise wrapping sum.
    unsafe fn add(self, other: Self) -> Self;
    /// Lane-wise rotation to the left by `L`; `R` is `32 - L`, which the language cannot compute
    /// in this place.
    unsafe fn rotate<const L: i32, const R: i32>(self) -> Self;
    /// `acc` plus the first round's function, `b ? c : d`.
    unsafe fn add_f(acc: Self, b: Self, c: Self, d: Self) -> Self;
    /// `acc` plus the second round's function, `d ? b : c`.
    unsafe fn add_g(acc: Self, b: Self, c: Self, d: Self) -> Self;
    /// `acc` plus the third round's function, `b ^ c ^ d`.
    unsafe fn add_h(acc: Self, b: Self, c: Self, d: Self) -> Self;
    /// `acc` plus the fourth round's function, `c ^ (b | !d)`.
    unsafe fn add_i(acc: Self, b: Self, c: Self, d: Self) -> Self;
    /// The sixteen words of the block that begins `offset` bytes after each of `WIDTH` pointers.
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16];
}

/// `floor(2^32 * abs(sin(i + 1)))`, the constant of step `i`.
#[rustfmt::skip]
static SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Two vectors side by side, as one of twice the width.
#[derive(Clone, Copy)]
pub(super) struct Pair<V>(V, V);

macro_rules! pairwise {
    ($($name:ident($acc:ident, $b:ident, $c:ident, $d:ident);)*) => {$(
        #[inline(always)]
        unsafe fn $name($acc: Self, $b: Self, $c: Self, $d: Self) -> Self {
            // SAFETY: the caller's promise for the pair is the promise for its halves.
            unsafe { Pair(V::$name($acc.0, $b.0, $c.0, $d.0), V::$name($acc.1, $b.1, $c.1, $d.1)) }
        }
    )*};
}

// SAFETY of each block below: what the caller promises for the pair is the promise for its halves,
// of which the second begins `V::WIDTH` words (or pointers) after the first.
impl<V: Lane> Lane for Pair<V> {
    const WIDTH: usize = 2 * V::WIDTH;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self {
        // SAFETY: see above.
        unsafe { Pair(V::splat(value), V::splat(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: see above.
        unsafe { Pair(V::load(from), V::load(from.add(V::WIDTH))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(V::WIDTH));
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Pair(self.0.add(other.0), self.1.add(other.1)) }
    }

    #[inline(always)]
    unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { Pair(self.0.rotate::<L, R>(), self.1.rotate::<L, R>()) }
    }

    pairwise! {
        add_f(acc, b, c, d);
        add_g(acc, b, c, d);
        add_h(acc, b, c, d);
        add_i(acc, b, c, d);
    }

    #[inline(always)]
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
        // SAFETY: see above.
        let (low, high) = unsafe { (V::words(from, offset), V::words(from.add(V::WIDTH), offset)) };
        std::array::from_fn(|i| Pair(low[i], high[i]))
    }
}

impl Lane for u32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller lets us read one word here.
        unsafe { from.read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller lets us write one word here.
        unsafe { to.write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
        self.rotate_left(L as u32)
    }

    #[inline(always)]
    unsafe fn add_f(acc: Self, b: Self, c: Self, d: Self) -> Self {
        acc.wrapping_add(d ^ (b & (c ^ d)))
    }

    #[inline(always)]
    unsafe fn add_g(acc: Self, b: Self, c: Self, d: Self) -> Self {
        // The two halves share no bit, so their sum is their union, and only the second addition
        // waits for `b`, the result of the step before.
        acc.wrapping_add(c & !d).wrapping_add(b & d)
    }

    #[inline(always)]
    unsafe fn add_h(acc: Self, b: Self, c: Self, d: Self) -> Self {
        acc.wrapping_add(b ^ (c ^ d))
    }

    #[inline(always)]
    unsafe fn add_i(acc: Self, b: Self, c: Self, d: Self) -> Self {
        acc.wrapping_add(c ^ (b | !d))
    }

    #[inline(always)]
    unsafe fn words(from: *const *const u8, offset: usize) -> [Self; 16] {
        // SAFETY: the caller lets us read one pointer, and sixteen words from where it points.
        let block = unsafe { (*from).add(offset).cast::<u32>() };
        // SAFETY: as above, with `i` below sixteen.
        std::array::from_fn(|i| u32::from_le(unsafe { block.add(i).read_unaligned() }))
    }
}

/// Hashes `count` blocks of each of `V::WIDTH` messages.
///
/// `state` is four rows of `stride` words: word `w` of message `i` at `w * stride + i`.
///
/// # Safety
/// The instruction set of `V` is enabled in the function that this is inlined into. `state` is
/// readable and writable for three strides and `V::WIDTH` words. `from` is readable for `V::WIDTH`
/// pointers, each of which is readable for `count` blocks, at any alignment.
#[inline(always)]
pub(super) unsafe fn blocks<V: Lane>(state: *mut u32, stride: usize, from: *const *const u8, count: usize) {
    // The compiler must not know that these are constants: it would move each one behind the
    // other terms of its step's sum, that is into the chain, which costs a fifth of the speed.
    let sines: *const u32 = std::hint::black_box(SINES.as_ptr());
    // SAFETY: all pointers stay within what the caller promises; so does the instruction set;
    // `sines` is read below 64.
    unsafe {
        let mut a = V::load(state);
        let mut b = V::load(state.add(stride));
        let mut c = V::load(state.add(2 * stride));
        let mut d = V::load(state.add(3 * stride));
        for block in 0..count {
            let w = V::words(from, block * BLOCK);
            let before = (a, b, c, d);
            macro_rules! step {
                ($f:ident $a:ident $b:ident $c:ident $d:ident $w:expr, $step:expr, $l:literal) => {
                    let sine = V::splat(*sines.add($step));
                    $a = V::$f($a.add(w[$w]).add(sine), $b, $c, $d).rotate::<$l, { 32 - $l }>().add($b);
                };
            }
            // Four steps; step `i` of a round takes word `i * $mul + $add` modulo 16.
            macro_rules! four {
                ($f:ident $i:literal $round:literal $mul:literal $add:literal
                    $l0:literal $l1:literal $l2:literal $l3:literal) => {
                    step!($f a b c d ($i * $mul + $add) % 16, $round + $i, $l0);
                    step!($f d a b c (($i + 1) * $mul + $add) % 16, $round + $i + 1, $l1);
                    step!($f c d a b (($i + 2) * $mul + $add) % 16, $round + $i + 2, $l2);
                    step!($f b c d a (($i + 3) * $mul + $add) % 16, $round + $i + 3, $l3);
                };
            }
            macro_rules! round {
                ($f:ident $round:literal $mul:literal $add:literal
                    $l0:literal $l1:literal $l2:literal $l3:literal) => {
                    four!($f 0 $round $mul $add $l0 $l1 $l2 $l3);
                    four!($f 4 $round $mul $add $l0 $l1 $l2 $l3);
                    four!($f 8 $round $mul $add $l0 $l1 $l2 $l3);
                    four!($f 12 $round $mul $add $l0 $l1 $l2 $l3);
                };
            }
            round!(add_f 0 1 0 7 12 17 22);
            round!(add_g 16 5 1 5 9 14 20);
            round!(add_h 32 3 5 4 11 16 23);
            round!(add_i 48 7 0 6 10 15 21);
            a = a.add(before.0);
            b = b.add(before.1);
            c = c.add(before.2);
            d = d.add(before.3);
        }
        a.store(state);
        b.store(state.add(stride));
        c.store(state.add(2 * stride));
        d.store(state.add(3 * stride));
    }
}
