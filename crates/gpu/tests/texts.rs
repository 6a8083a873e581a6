//! The texts of the kernels, compiled by the C compiler of this machine and run on the CPU, against
//! `ashlar_erasure`: arithmetic, indices of threads, blocks and stripes, shared memory.
//!
//! What differs on a device is in `tests/host.h`: two instructions, memory access, the order of threads. NVRTC,
//! where it is installed, compiles the same texts for real here too.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use ashlar_gpu::{Error, Program, compile_text, text, words_of_tables};
use common::{CODES, Case, Noise, decoding, encoding};

/// Compiles a text and returns the program.
fn build(folder: &Path, text: &str) -> std::path::PathBuf {
    let (source, program) = (folder.join("kernel.c"), folder.join("kernel"));
    let all = format!("{}\n{text}\n{}", include_str!("host.h"), include_str!("main.h"));
    std::fs::write(&source, all).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let arguments = ["-O1", "-fno-strict-aliasing", "-w", "-o"];
    let made = Command::new(&compiler).args(arguments).arg(&program).arg(&source).output();
    let made = made.unwrap_or_else(|e| panic!("a C compiler is needed ({compiler}): {e}"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

/// Runs a kernel on the case, cut into stripes of `row` bytes, with `down` blocks in y.
fn check(text: &str, case: &Case, row: usize, down: usize, tables: &[u32]) {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), text);
    let stripes = case.inputs[0].len() / row;
    let together = |rows: &[Vec<u8>]| -> Vec<u8> {
        let stripe = |s: usize| rows.iter().flat_map(move |r| r[s * row..(s + 1) * row].iter().copied());
        (0..stripes).flat_map(stripe).collect()
    };
    let numbers = [row, stripes, case.inputs.len(), case.outputs.len(), 16, down, tables.len()];
    let mut given: Vec<u8> = numbers.iter().flat_map(|&n| (n as u32).to_le_bytes()).collect();
    given.extend(tables.iter().flat_map(|word| word.to_le_bytes()));
    given.extend(together(&case.inputs));
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&given).unwrap());
    let made = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(made.status.success(), "{}", case.name);
    assert!(made.stdout == together(&case.outputs), "{}", case.name);
}

#[test]
fn fixed_kernels_compute_what_the_cpu_computes() {
    let mut noise = Noise(4);
    for (k, m) in CODES {
        for case in [encoding(k, m, 10_560, &mut noise), decoding(k, m, m, 10_560, &mut noise)] {
            let text = text::fixed(&Program::new(&case.matrix));
            // 3,520 bytes are 2 blocks of 128 vectors of 16 bytes, the second of them in part.
            check(&text, &case, 3_520, 2, &[]);
        }
    }
}

#[test]
fn table_kernels_compute_what_the_cpu_computes() {
    let mut noise = Noise(5);
    for (k, m, row) in [(1, 1, 16), (2, 16, 2_064), (7, 1, 3_520), (8, 4, 2_048), (20, 10, 3_520)] {
        for case in [encoding(k, m, 3 * row, &mut noise), decoding(k, m, m, 3 * row, &mut noise)] {
            check(&text::table(m), &case, row, 2, &words_of_tables(&case.matrix));
        }
    }
}

#[test]
fn the_run_time_compiler_accepts_the_texts() {
    let case = decoding(8, 4, 4, 64, &mut Noise(6));
    for text in [text::table(4), text::fixed(&Program::new(&case.matrix))] {
        match compile_text(&text, 90) {
            Ok(image) => assert!(image.len() > 1000),
            Err(Error::Unavailable(why)) => return eprintln!("not checked: {why}"),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn without_a_device_an_error_says_so() {
    match ashlar_gpu::Device::open(9) {
        Err(Error::Unavailable(why)) => assert!(!why.is_empty()),
        Ok(device) => eprintln!("not checked: there are ten devices here: {}", device.describe()),
        Err(e) => panic!("{e}"),
    }
}
