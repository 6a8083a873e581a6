//! The block function for this processor, and the registers of its lanes.
//!
//! Invariants: a kernel hashes the same blocks to the same states as every other; only the states of lanes
//! below the requested number are valid afterwards.
//!
//! Must not depend on: streams, scheduling.

use std::sync::OnceLock;

use super::compress::{self, BLOCK};

/// The most messages that one call hashes side by side.
pub(super) const LANES: usize = 16;

/// The MD5 states of [`LANES`] messages, word by word as vectors want them.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct States([[u32; LANES]; 4]);

impl States {
    /// All lanes before their first block.
    pub(super) fn new() -> States {
        States(compress::INITIAL.map(|word| [word; LANES]))
    }

    /// The state of `lane`.
    pub(super) fn get(&self, lane: usize) -> [u32; 4] {
        self.0.map(|row| row[lane])
    }

    /// Sets the state of `lane`.
    pub(super) fn set(&mut self, lane: usize, state: [u32; 4]) {
        for (row, word) in self.0.iter_mut().zip(state) {
            row[lane] = word;
        }
    }
}

/// One instruction set: functions over 1, 8 and 16 messages.
///
/// Their arguments are those of [`compress::blocks`]; `eight` and `sixteen` take the stride
/// [`LANES`], `one` takes 1.
pub(super) struct Kernel {
    /// What it uses, for reports.
    pub(super) name: &'static str,
    one: unsafe fn(*mut u32, *const *const u8, usize),
    eight: unsafe fn(*mut u32, *const *const u8, usize),
    sixteen: unsafe fn(*mut u32, *const *const u8, usize),
}

impl Kernel {
    /// The best of this processor, found once.
    pub(super) fn get() -> &'static Kernel {
        static BEST: OnceLock<&'static Kernel> = OnceLock::new();
        BEST.get_or_init(|| Kernel::all()[0])
    }

    /// Every kernel that this processor can run, best first; the last is plain code.
    pub(super) fn all() -> Vec<&'static Kernel> {
        let mut kernels: Vec<&'static Kernel> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                if super::x86::rotates_in_one_cycle() {
                    kernels.push(&AVX512_ONE);
                }
                kernels.push(&AVX512);
            }
            if is_x86_feature_detected!("avx2") {
                kernels.push(&AVX2);
            }
            kernels.push(&SSE2);
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        kernels.push(&NEON);
        kernels.push(&PLAIN);
        kernels
    }

    /// Hashes all of `data`, whole blocks, into `state`.
    pub(super) fn hash_one(&self, state: &mut [u32; 4], data: &[u8]) {
        assert!(data.len().is_multiple_of(BLOCK), "MD5 hashes whole blocks");
        let from = data.as_ptr();
        // SAFETY: a kernel is only reachable where `all` found its instruction set; `state` is
        // four words; `data` holds so many blocks.
        unsafe { (self.one)(state.as_mut_ptr(), &from, data.len() / BLOCK) }
    }

    /// Hashes `blocks` blocks from the start of each of `lanes` (1 to [`LANES`] slices) into the
    /// states of the same position. States beyond `lanes.len()` become meaningless.
    pub(super) fn hash_lanes(&self, states: &mut States, lanes: &[&[u8]], blocks: usize) {
        assert!((1..=LANES).contains(&lanes.len()), "1 to 16 lanes");
        assert!(lanes.iter().all(|lane| lane.len() >= blocks * BLOCK), "lanes hold the blocks");
        if let [lane] = lanes {
            let mut state = states.get(0);
            self.hash_one(&mut state, &lane[..blocks * BLOCK]);
            states.set(0, state);
            return;
        }
        // Lanes without work read the first lane's bytes again, which is free: they are in the
        // nearest cache.
        let mut from = [lanes[0].as_ptr(); LANES];
        for (pointer, lane) in from.iter_mut().zip(lanes) {
            *pointer = lane.as_ptr();
        }
        let function = if lanes.len() <= 8 { self.eight } else { self.sixteen };
        // SAFETY: as in `hash_one`; `states` is four rows of `LANES` words, `from` is `LANES`
        // pointers, and each points to `blocks` blocks.
        unsafe { function(states.0.as_mut_ptr().cast(), from.as_ptr(), blocks) }
    }
}

/// Defines a kernel from three types of lanes; `sixteen` may be two calls of `eight`.
macro_rules! kernel {
    ($kernel:ident, $name:literal, $module:ident, [$($feature:literal)?], $one:ty, $eight:ty, $sixteen:ty) => {
        mod $module {
            #[allow(unused_imports)]
            use super::super::{compress::{Pair, blocks, Lane}, *};
            use super::LANES;

            // SAFETY of each: the caller of a kernel's function promises what `blocks` asks.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn one(state: *mut u32, from: *const *const u8, count: usize) {
                // SAFETY: see above.
                unsafe { blocks::<$one>(state, 1, from, count) }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn eight(state: *mut u32, from: *const *const u8, count: usize) {
                let mut lane = 0;
                while lane < 8 {
                    // SAFETY: see above; the lanes are below eight.
                    unsafe { blocks::<$eight>(state.add(lane), LANES, from.add(lane), count) };
                    lane += <$eight>::WIDTH;
                }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn sixteen(state: *mut u32, from: *const *const u8, count: usize) {
                let mut lane = 0;
                while lane < LANES {
                    // SAFETY: see above; the lanes are below sixteen.
                    unsafe { blocks::<$sixteen>(state.add(lane), LANES, from.add(lane), count) };
                    lane += <$sixteen>::WIDTH;
                }
            }
        }

        static $kernel: Kernel =
            Kernel { name: $name, one: $module::one, eight: $module::eight, sixteen: $module::sixteen };
    };
}

kernel!(PLAIN, "plain", plain, [], u32, u32, u32);
#[cfg(target_arch = "x86_64")]
kernel!(SSE2, "sse2", sse2, [], u32, Pair<x86::Sse2>, Pair<x86::Sse2>);
#[cfg(target_arch = "x86_64")]
kernel!(AVX2, "avx2", avx2, ["avx2"], u32, x86::Avx2, Pair<x86::Avx2>);
#[cfg(target_arch = "x86_64")]
kernel!(
    AVX512_ONE,
    "avx512vl",
    avx512_one,
    ["avx512f,avx512vl,avx2"],
    x86::Avx512One,
    x86::Avx512,
    Pair<x86::Avx512>
);
#[cfg(target_arch = "x86_64")]
kernel!(AVX512, "avx512vl", avx512, ["avx512f,avx512vl,avx2"], u32, x86::Avx512, Pair<x86::Avx512>);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
kernel!(NEON, "neon", neon_lanes, [], u32, Pair<neon::Neon>, Pair<neon::Neon>);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel, every number of lanes, several lengths and alignments, against plain code.
    #[test]
    fn kernels_agree_with_plain_code() {
        let plain = *Kernel::all().last().expect("plain code is always there");
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for kernel in Kernel::all() {
            for lanes in 1..=LANES {
                for blocks in [1, 2, 3, 7] {
                    let starts: Vec<usize> = (0..lanes).map(|lane| lane * 1031 + blocks).collect();
                    let data: Vec<&[u8]> =
                        starts.iter().map(|&start| &bytes[start..start + blocks * BLOCK]).collect();
                    let mut states = States::new();
                    for lane in 0..lanes {
                        states.set(lane, [lane as u32, 2, 3, u32::MAX - lane as u32]);
                    }
                    let mut expected: Vec<_> = (0..lanes).map(|lane| states.get(lane)).collect();
                    kernel.hash_lanes(&mut states, &data, blocks);
                    for (lane, expected) in expected.iter_mut().enumerate() {
                        plain.hash_one(expected, data[lane]);
                        let name = kernel.name;
                        assert_eq!(
                            states.get(lane),
                            *expected,
                            "{name}, lane {lane} of {lanes}, {blocks} blocks"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn kernels_are_detected() {
        let names: Vec<_> = Kernel::all().iter().map(|kernel| kernel.name).collect();
        assert_eq!(names.last(), Some(&"plain"));
        assert_eq!(Kernel::get().name, names[0]);
    }

    #[test]
    #[should_panic(expected = "lanes hold the blocks")]
    fn fewer_blocks_than_requested_are_refused() {
        Kernel::get().hash_lanes(&mut States::new(), &[&[0; 128], &[0; 64]], 2);
    }
}
