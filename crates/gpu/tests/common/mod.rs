//! Shared by the test files: random data, and `ashlar_erasure` as the reference.
#![allow(dead_code)] // each test file uses a part of this

use ashlar_erasure::Code;
use ashlar_gpu::Matrix;

/// The codes of the measurements.
pub const CODES: [(usize, usize); 6] = [(7, 1), (8, 2), (8, 4), (12, 4), (14, 4), (20, 10)];

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

/// A matrix with its rows of input and the rows of output that `ashlar_erasure` makes, each `len` bytes.
pub struct Case {
    pub name: String,
    pub matrix: Matrix,
    pub inputs: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
}

/// All `n` rows of random data.
fn rows(code: &Code, len: usize, noise: &mut Noise) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = (0..code.k()).map(|_| noise.bytes(len)).collect();
    rows.resize(code.n(), vec![0; len]);
    let (data, parity) = rows.split_at_mut(code.k());
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut parity).unwrap();
    rows
}

/// Encoding with a code.
pub fn encoding(k: usize, m: usize, len: usize, noise: &mut Noise) -> Case {
    let code = Code::new(k, m).unwrap();
    let mut inputs = rows(&code, len, noise);
    let outputs = inputs.split_off(k);
    Case { name: format!("encode {k}+{m}"), matrix: Matrix::encode(&code).unwrap(), inputs, outputs }
}

/// Reconstruction of `lost` random rows.
pub fn decoding(k: usize, m: usize, lost: usize, len: usize, noise: &mut Noise) -> Case {
    let code = Code::new(k, m).unwrap();
    let rows = rows(&code, len, noise);
    let lost = noise.distinct(lost, code.n());
    let present: Vec<usize> = (0..code.n()).filter(|row| !lost.contains(row)).collect();
    let (used, matrix) = Matrix::decode(&code, &present, &lost).unwrap();
    let given: Vec<(usize, &[u8])> = present.iter().map(|&row| (row, rows[row].as_slice())).collect();
    let mut outputs = vec![vec![0; len]; lost.len()];
    let mut slots: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    code.reconstruct(&given, &lost, &mut slots).unwrap();
    let inputs = used.iter().map(|&row| rows[row].clone()).collect();
    Case { name: format!("reconstruct {k}+{m} lost {lost:?}"), matrix, inputs, outputs }
}
