//! Every byte of the device against the CPU: all codes, all plans of the fixed kernel, and the table kernel for some
//! thousand random codes, losses, row lengths and numbers of stripes.

use ashlar_erasure::Code;
use ashlar_gpu::crossover::noise;
use ashlar_gpu::{Computation, Device, Doubling, Error, Kernel, Plan, Shape, Slot};
use serde_json::json;

use crate::{CODES, Run, computations};

/// Largest batch of a check.
const MOST: usize = 8 << 20;

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for i in 0..count {
            let j = i + self.below(bound - i);
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }
}

/// What a check needs, made once.
struct Checker {
    slot: Slot,
    noise: Vec<u8>,
    expected: Vec<u8>,
}

impl Checker {
    /// Runs a kernel and the CPU on the same rows. Where the first difference is, if there is one.
    fn differs(
        &mut self,
        kernel: &Kernel,
        computation: &Computation,
        shape: Shape,
        seed: usize,
    ) -> Result<Option<usize>, Error> {
        let from = shape.bytes(kernel.inputs())?;
        let to = shape.bytes(kernel.outputs())?;
        let start = seed * 8 % (self.noise.len() - from);
        let input = &self.noise[start..start + from];
        self.slot.input()?[..from].copy_from_slice(input);
        computation.on_cpu(input, &mut self.expected[..to], shape)?;
        self.slot.start(kernel, shape)?;
        let made = &self.slot.output()?[..to];
        if made == &self.expected[..to] {
            return Ok(None);
        }
        Ok(made.iter().zip(&self.expected).position(|(a, b)| a != b))
    }
}

pub fn run(run: &mut Run, device: &Device) {
    let slot = Slot::new(device, MOST, MOST);
    let Some(slot) = run.attempt("slot", slot) else { return };
    let mut checker = Checker { slot, noise: noise(3 * MOST, 7), expected: vec![0; MOST] };
    fixed(run, device, &mut checker);
    tables(run, device, &mut checker);
}

/// Counts a check, and prints it if bytes differ.
fn judge(run: &mut Run, what: &str, result: Result<Option<usize>, Error>) -> bool {
    match run.attempt(what, result) {
        Some(None) => true,
        Some(Some(at)) => {
            println!("DIFFERENT {what}: from byte {at} on");
            run.failures += 1;
            run.records.push(json!({ "different": what, "at": at }));
            false
        }
        None => false,
    }
}

fn fixed(run: &mut Run, device: &Device, checker: &mut Checker) {
    let mut random = Random(11);
    let (mut right, mut all) = (0, 0);
    let plans: Vec<Plan> = Doubling::ALL
        .into_iter()
        .flat_map(|doubling| [1, 2, 4].map(|words| (doubling, words)))
        .zip([1, 4, 3].into_iter().cycle())
        .map(|((doubling, words), group)| Plan { doubling, group, words })
        .collect();
    for (k, m) in CODES {
        for (name, computation) in computations(k, m) {
            // On quick runs every code with a third of the plans, another third each time.
            let some =
                plans.iter().skip(if run.quick { all % 3 } else { 0 }).step_by(if run.quick { 3 } else { 1 });
            for plan in some {
                let shape = Shape { row: 16 * (1 + random.below(1200)), stripes: 1 + random.below(9) };
                let what = format!("fixed {name} {k}+{m} {plan:?} {shape:?}");
                let kernel = device.fixed(computation.matrix(), *plan);
                let Some(kernel) = run.attempt(&what, kernel) else { continue };
                let result = checker.differs(&kernel, &computation, shape, random.below(1 << 20));
                right += usize::from(judge(run, &what, result));
                all += 1;
            }
        }
    }
    println!("fixed kernels: {right} of {all} right");
    run.record("check", json!({ "kernel": "fixed", "right": right, "of": all }));
}

fn tables(run: &mut Run, device: &Device, checker: &mut Checker) {
    let mut random = Random(12);
    let (mut right, mut bytes) = (0, 0);
    let count = if run.quick { 2000 } else { 6000 };
    for at in 0..count {
        // Half of them the codes of the list, half any code.
        let (k, m) = if at % 2 == 0 {
            CODES[random.below(CODES.len())]
        } else {
            let k = 1 + random.below(48);
            (k, 1 + random.below(16.min(64 - k)))
        };
        let code = Code::new(k, m).expect("1 <= k, k + m <= 64");
        let count = 1 + random.below(m);
        let lost = random.distinct(count, k + m);
        let present: Vec<usize> = (0..k + m).filter(|row| !lost.contains(row)).collect();
        let computation = match at % 8 {
            0 => Computation::encode(&code),
            _ => Computation::reconstruct(&code, &present, &lost),
        };
        let Some(computation) = run.attempt("computation", computation) else { continue };
        let shape = Shape { row: 16 * (1 + random.below(300)), stripes: 1 + random.below(5) };
        let what = format!("table {k}+{m} lost {lost:?} {shape:?}");
        let Some(kernel) = run.attempt(&what, device.table(computation.matrix())) else { continue };
        let result = checker.differs(&kernel, &computation, shape, random.below(1 << 20));
        right += usize::from(judge(run, &what, result));
        bytes += shape.row * shape.stripes * computation.matrix().outputs();
        if run.failures > 50 {
            println!("too many failures, the check ends");
            break;
        }
    }
    println!("table kernel: {right} of {count} random patterns right, {bytes} bytes compared");
    run.record("check", json!({ "kernel": "table", "right": right, "of": count, "bytes": bytes }));
}
