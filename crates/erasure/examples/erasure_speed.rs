//! Speed of every kernel this CPU has: GB/s of data going in (k rows, 1 GB = 10^9 bytes), on one
//! core, best of several rounds. `reconstruct` rebuilds the first m data rows (or all k) from
//! the remaining rows, `one lost` only the first, `update` counts the bytes of the one row changed.
//!
//! Each call gets the same rows, so they are in a cache if they fit. With `cold` each gets the next rows out
//! of 1 GiB, which were written long before: they come from memory, unless the last cache holds 1 GiB.
//!
//! `cargo run --release -p ashlar-erasure --example erasure_speed [KERNEL | K+M | ROW_BYTES | cold]...`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ashlar_erasure::{Code, Kernel, kernels};

/// What to measure; whatever the command line does not name stays as here.
struct Choice {
    kernels: Vec<Kernel>,
    codes: Vec<(usize, usize)>,
    rows: Vec<usize>,
    /// Bytes that the calls go through, in turn; at least the rows of one call.
    reach: usize,
}

fn choice() -> Result<Choice, Box<dyn std::error::Error>> {
    let (mut named, mut codes, mut rows, mut reach) = (vec![], vec![], vec![], 0);
    for word in std::env::args().skip(1) {
        if let Some((k, m)) = word.split_once('+') {
            codes.push((k.parse()?, m.parse()?));
        } else if let Ok(row) = word.parse() {
            rows.push(row);
        } else if word == "cold" {
            reach = 1 << 30;
        } else {
            named.push(word.parse()?);
        }
    }
    let or = |codes: Vec<_>, other: &[_]| if codes.is_empty() { other.to_vec() } else { codes };
    Ok(Choice {
        kernels: if named.is_empty() { kernels() } else { named },
        codes: or(codes, &[(2, 2), (4, 2), (8, 4), (12, 4), (14, 4)]),
        rows: if rows.is_empty() { vec![16 << 10, 64 << 10, 512 << 10] } else { rows },
        reach,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let choice = choice()?;
    let from = if choice.reach == 0 { "the same rows" } else { "cold" };
    println!("GB/s of data in, one core, {from}; default kernel here: {}", Code::new(8, 4)?.kernel());
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
                choice.rows.iter().for_each(|&row| print!("{:>10.1}", operation(&code, row, choice.reach)));
            }
            println!();
        }
    }
    Ok(())
}

/// Sets of page-aligned rows one after another, filled with noise.
struct Space {
    bytes: Vec<u8>,
    start: usize,
    count: usize,
    row: usize,
}

/// Rows to read and rows to write.
type Split<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

impl Space {
    /// As many sets of `count` rows as `reach` has room for, at least one.
    fn new(count: usize, row: usize, reach: usize) -> Space {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let one: Vec<u8> = (0..count * row).map(|_| noise()).collect();
        let sets = (reach / one.len()).max(1);
        let mut bytes = vec![0; sets * one.len() + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        bytes[start..].chunks_exact_mut(one.len()).for_each(|set| set.copy_from_slice(&one));
        Space { bytes, start, count, row }
    }

    fn sets(&mut self) -> impl Iterator<Item = Vec<&mut [u8]>> {
        let sets = self.bytes[self.start..].chunks_exact_mut(self.count * self.row);
        sets.map(|set| set.chunks_exact_mut(self.row).collect())
    }

    /// The sets with their first `k` rows to read and the others to write.
    fn split(&mut self, k: usize) -> Vec<Split<'_>> {
        self.sets()
            .map(|mut rows| {
                let others = rows.split_off(k);
                (rows.into_iter().map(|row| &*row).collect(), others)
            })
            .collect()
    }

    /// The sets, whose parity rows are made.
    fn encoded(&mut self, code: &Code) -> Vec<Vec<&[u8]>> {
        self.split(code.k()).iter_mut().for_each(|(data, parity)| code.encode(data, parity).unwrap());
        self.bytes[self.start..]
            .chunks_exact(self.count * self.row)
            .map(|set| set.chunks_exact(self.row).collect())
            .collect()
    }
}

fn encode(code: &Code, row: usize, reach: usize) -> f64 {
    let mut space = Space::new(code.n(), row, reach);
    measure(code.k() * row, &mut space.split(code.k()), |(data, parity)| {
        code.encode(black_box(data), parity).unwrap();
    })
}

fn reconstruct(code: &Code, row: usize, reach: usize) -> f64 {
    rebuild(code, row, reach, code.m().min(code.k()))
}

fn one_lost(code: &Code, row: usize, reach: usize) -> f64 {
    rebuild(code, row, reach, code.m().min(1))
}

fn verify(code: &Code, row: usize, reach: usize) -> f64 {
    let mut space = Space::new(code.n(), row, reach);
    measure(code.k() * row, &mut space.encoded(code), |rows| assert!(code.verify(black_box(rows)).unwrap()))
}

fn update(code: &Code, row: usize, reach: usize) -> f64 {
    let mut space = Space::new(2 + code.m(), row, reach);
    measure(row, &mut space.split(2), |(data, parity)| {
        code.update(0, black_box(data[0]), data[1], parity).unwrap();
    })
}

fn rebuild(code: &Code, row: usize, reach: usize, lost: usize) -> f64 {
    let mut space = Space::new(code.n(), row, reach);
    let mut out = Space::new(lost, row, reach / code.n() * lost);
    let wanted: Vec<usize> = (0..lost).collect();
    let rows = space.encoded(code);
    let mut sets: Vec<_> = rows
        .iter()
        .zip(out.sets())
        .map(|(rows, out)| ((lost..code.n()).map(|i| (i, rows[i])).collect::<Vec<_>>(), out))
        .collect();
    let speed = measure(code.k() * row, &mut sets, |(present, out)| {
        code.reconstruct(black_box(present), &wanted, out).unwrap();
    });
    assert!((0..lost).all(|i| rows[0][i] == &*sets[0].1[i]));
    speed
}

/// Best of 15 rounds of about 8 ms each, in GB/s. The calls take the sets in turn.
fn measure<T>(bytes: usize, sets: &mut [T], mut work: impl FnMut(&mut T)) -> f64 {
    let mut best = f64::INFINITY;
    let mut calls = 1u32;
    let mut next = 0;
    let mut round = |calls: u32| {
        let start = Instant::now();
        for _ in 0..calls {
            work(&mut sets[next]);
            next = (next + 1) % sets.len();
        }
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
