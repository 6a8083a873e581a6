//! Shared by the test files: random data from a seed, rows at odd addresses, patterns of losses.
#![allow(dead_code)] // each test file uses a part of this

use ashlar_erasure::{Code, Kernel, kernels};

/// Bytes and numbers from a seed (splitmix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    pub fn rows(&mut self, count: usize, len: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.bytes(len)).collect()
    }

    /// `count` distinct numbers below `bound`, in random order.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for i in 0..count {
            let j = i + self.below(bound - i);
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }
}

const CANARY: u8 = 0xA7;
const MARGIN: usize = 80;

/// Rows for output, each at its own alignment and with a margin on both sides that must stay as it is.
pub struct Fenced {
    spaces: Vec<Vec<u8>>,
    starts: Vec<usize>,
    len: usize,
}

impl Fenced {
    pub fn new(count: usize, len: usize, shift: usize) -> Fenced {
        let spaces: Vec<Vec<u8>> = (0..count).map(|_| vec![CANARY; len + 2 * MARGIN + 128]).collect();
        // Row i begins at an address that is shift + 7 i modulo 64.
        let start = |(i, space): (usize, &Vec<u8>)| {
            let aligned = MARGIN + (space.as_ptr() as usize + MARGIN).wrapping_neg() % 64;
            aligned + (shift + 7 * i) % 64
        };
        let starts = spaces.iter().enumerate().map(start).collect();
        Fenced { spaces, starts, len }
    }

    pub fn rows(&mut self) -> Vec<&mut [u8]> {
        self.spaces.iter_mut().zip(&self.starts).map(|(space, &at)| &mut space[at..at + self.len]).collect()
    }

    /// The rows, after checking that nothing beside them was touched.
    pub fn checked(&self) -> Vec<&[u8]> {
        self.spaces
            .iter()
            .zip(&self.starts)
            .map(|(space, &at)| {
                let mut fence = space[..at].iter().chain(&space[at + self.len..]);
                assert!(fence.all(|&b| b == CANARY), "bytes beside a row were overwritten");
                &space[at..at + self.len]
            })
            .collect()
    }
}

pub fn slices(rows: &[Vec<u8>]) -> Vec<&[u8]> {
    rows.iter().map(Vec::as_slice).collect()
}

/// `code` on each kernel of this CPU, except the reference kernel.
pub fn fast(code: &Code) -> Vec<Code> {
    let others = kernels().into_iter().filter(|&kernel| kernel != Kernel::Scalar);
    others.map(|kernel| code.with_kernel(kernel).unwrap()).collect()
}

/// `code` on the reference kernel.
pub fn naive(code: &Code) -> Code {
    code.with_kernel(Kernel::Scalar).unwrap()
}

/// Data and parity rows, `n` in all.
pub fn encoded(code: &Code, mut rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let len = rows[0].len();
    rows.resize(code.n(), vec![0; len]);
    let (data, parity) = rows.split_at_mut(code.k());
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&slices(data), &mut parity).unwrap();
    rows
}

/// Rebuilds the rows `lost` out of all others and compares.
pub fn check_loss(code: &Code, rows: &[Vec<u8>], lost: &[usize]) {
    let present: Vec<(usize, &[u8])> =
        (0..code.n()).filter(|row| !lost.contains(row)).map(|row| (row, rows[row].as_slice())).collect();
    let mut out = vec![vec![0x55; rows[0].len()]; lost.len()];
    let mut slots: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
    code.reconstruct(&present, lost, &mut slots).unwrap();
    for (row, made) in lost.iter().zip(&out) {
        assert_eq!(&rows[*row], made, "{code:?} lost {lost:?}: row {row} differs");
    }
}
