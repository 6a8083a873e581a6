//! Speed of every kernel this CPU has: GB/s of data going in (k rows, 1 GB = 10^9 bytes), on one
//! core, warm, best of several rounds. `reconstruct` rebuilds the first m data rows (or all k) from
//! the remaining rows, `one lost` only the first, `update` counts the bytes of the one row changed.
//!
//! `cargo run --release -p ashlar-erasure --example erasure_speed [KERNEL | K+M | ROW_BYTES]...`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ashlar_erasure::{Code, Kernel, kernels};

/// What to measure; whatever the command line does not name stays as here.
struct Choice {
    kernels: Vec<Kernel>,
    codes: Vec<(usize, usize)>,
    rows: Vec<usize>,
}

fn choice() -> Result<Choice, Box<dyn std::error::Error>> {
    let (mut named, mut codes, mut rows) = (vec![], vec![], vec![]);
    for word in std::env::args().skip(1) {
        if let Some((k, m)) = word.split_once('+') {
            codes.push((k.parse()?, m.parse()?));
        } else if let Ok(row) = word.parse() {
            rows.push(row);
        } else {
            named.push(word.parse()?);
        }
    }
    let or = |codes: Vec<_>, other: &[_]| if codes.is_empty() { other.to_vec() } else { codes };
    Ok(Choice {
        kernels: if named.is_empty() { kernels() } else { named },
        codes: or(codes, &[(2, 2), (4, 2), (8, 4), (12, 4), (14, 4)]),
        rows: if rows.is_empty() { vec![16 << 10, 64 << 10, 512 << 10] } else { rows },
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let choice = choice()?;
    println!("GB/s of data in, one core; default kernel here: {}", Code::new(8, 4)?.kernel());
    for &kernel in &choice.kernels {
        let half = choice.rows.len() * 10;
        print!("\n{kernel:<12}");
        ["encode", "reconstruct", "one lost", "verify", "update"]
            .iter()
            .for_each(|operation| print!("{operation:>half$}"));
        println!();
        print!("{:<12}", "row bytes");
        (0..5).for_each(|_| choice.rows.iter().for_each(|row| print!("{row:>10}")));
        println!();
        for &(k, m) in &choice.codes {
            let code = Code::new(k, m)?.with_kernel(kernel)?;
            print!("{:<12}", format!("{k}+{m}"));
            for operation in [encode, reconstruct, one_lost, verify, update] {
                choice.rows.iter().for_each(|&row| print!("{:>10.1}", operation(&code, row)));
            }
            println!();
        }
    }
    Ok(())
}

/// Page-aligned rows one after another, filled with noise.
struct Space {
    bytes: Vec<u8>,
    start: usize,
    count: usize,
    row: usize,
}

impl Space {
    fn new(count: usize, row: usize) -> Space {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..count * row + 4096).map(|_| noise()).collect();
        let start = bytes.as_ptr().align_offset(4096);
        Space { bytes, start, count, row }
    }

    fn rows(&self) -> Vec<&[u8]> {
        self.bytes[self.start..].chunks_exact(self.row).take(self.count).collect()
    }

    fn rows_mut(&mut self) -> Vec<&mut [u8]> {
        self.bytes[self.start..].chunks_exact_mut(self.row).take(self.count).collect()
    }
}

fn encode(code: &Code, row: usize) -> f64 {
    let mut space = Space::new(code.n(), row);
    let mut rows = space.rows_mut();
    let (data, parity) = rows.split_at_mut(code.k());
    let data: Vec<&[u8]> = data.iter().map(|row| &**row).collect();
    measure(code.k() * row, || code.encode(black_box(&data), parity).unwrap())
}

fn reconstruct(code: &Code, row: usize) -> f64 {
    rebuild(code, row, code.m().min(code.k()))
}

fn one_lost(code: &Code, row: usize) -> f64 {
    rebuild(code, row, code.m().min(1))
}

fn verify(code: &Code, row: usize) -> f64 {
    let mut space = Space::new(code.n(), row);
    let mut rows = space.rows_mut();
    let (data, parity) = rows.split_at_mut(code.k());
    let data: Vec<&[u8]> = data.iter().map(|row| &**row).collect();
    code.encode(&data, parity).unwrap();
    let rows = space.rows();
    measure(code.k() * row, || assert!(code.verify(black_box(&rows)).unwrap()))
}

fn update(code: &Code, row: usize) -> f64 {
    let mut space = Space::new(2 + code.m(), row);
    let mut rows = space.rows_mut();
    let (data, parity) = rows.split_at_mut(2);
    measure(row, || code.update(0, black_box(data[0]), data[1], parity).unwrap())
}

fn rebuild(code: &Code, row: usize, lost: usize) -> f64 {
    let mut space = Space::new(code.n(), row);
    let mut out = Space::new(code.m(), row);
    let mut rows = space.rows_mut();
    let (data, parity) = rows.split_at_mut(code.k());
    let data: Vec<&[u8]> = data.iter().map(|row| &**row).collect();
    code.encode(&data, parity).unwrap();
    let rows = space.rows();
    let present: Vec<(usize, &[u8])> = (lost..code.n()).map(|i| (i, rows[i])).collect();
    let wanted: Vec<usize> = (0..lost).collect();
    let mut out = out.rows_mut();
    let speed = measure(code.k() * row, || {
        code.reconstruct(black_box(&present), &wanted, &mut out[..lost]).unwrap();
    });
    assert!((0..lost).all(|i| rows[i] == &*out[i]));
    speed
}

/// Best of 15 rounds of about 8 ms each, in GB/s.
fn measure(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let mut calls = 1u32;
    let mut round = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        start.elapsed()
    };
    while round(calls) < Duration::from_millis(8) {
        calls *= 2;
    }
    for _ in 0..15 {
        best = best.min(round(calls).as_secs_f64() / f64::from(calls));
    }
    bytes as f64 / best / 1e9
}
