//! Every byte of the device against the CPU: the fixed kernel for all codes, and the table kernel for some thousand
//! random codes, losses, row lengths and numbers of stripes.

use ashlar_bench_report::random::splitmix;
use ashlar_erasure::Code;
use ashlar_gpu::crossover::noise;
use ashlar_gpu::{Computation, Device, Error, Kernel, Shape, Slot};

use super::session::Session;

/// Largest batch of a check.
const MOST: usize = 16 << 20;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (splitmix(&mut self.0) % bound as u64) as usize
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
    /// Runs a kernel and the CPU on the same rows. Whether they make the same bytes.
    fn same(
        &mut self,
        kernel: &Kernel,
        computation: &Computation,
        shape: Shape,
        seed: usize,
    ) -> Result<bool, Error> {
        let from = shape.bytes(kernel.inputs())?;
        let to = shape.bytes(kernel.outputs())?;
        let start = seed * 8 % (self.noise.len() - from);
        let input = &self.noise[start..start + from];
        self.slot.input()?[..from].copy_from_slice(input);
        computation.on_cpu(input, &mut self.expected[..to], shape)?;
        self.slot.start(kernel, shape)?;
        Ok(self.slot.output()?[..to] == self.expected[..to])
    }
}

pub(super) fn run(session: &mut Session<'_>, device: &Device) {
    let Some(slot) = session.attempt("check", Slot::new(device, MOST, MOST)) else { return };
    let mut checker = Checker { slot, noise: noise(3 * MOST, 7), expected: vec![0; MOST] };
    fixed(session, device, &mut checker);
    tables(session, device, &mut checker);
}

/// What was checked so far with a kernel.
#[derive(Default)]
struct Count {
    of: usize,
    right: usize,
    bytes: usize,
}

impl Count {
    /// Counts a check.
    fn add(&mut self, session: &mut Session<'_>, what: &str, bytes: usize, result: Result<bool, Error>) {
        self.of += 1;
        match session.attempt(what, result) {
            Some(true) => {
                self.right += 1;
                self.bytes += bytes;
            }
            Some(false) => session.wrong(what),
            None => (),
        }
    }

    fn phase(&self, session: &mut Session<'_>, name: &str) {
        let all = [("right", self.right), ("checked", self.of), ("compared_bytes", self.bytes)];
        let values = all.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect();
        session.phase(name.to_owned(), 1, values);
    }
}

fn fixed(session: &mut Session<'_>, device: &Device, checker: &mut Checker) {
    let mut random = Random(11);
    let mut count = Count::default();
    for (name, computation) in session.computations() {
        for _ in 0..if session.quick() { 3 } else { 9 } {
            let shape = Shape { row: 16 * (1 + random.below(1200)), stripes: 1 + random.below(9) };
            let what = format!("check {name} fixed, {} stripes of {} bytes a row", shape.stripes, shape.row);
            let result = device
                .fixed(computation.matrix())
                .and_then(|kernel| checker.same(&kernel, &computation, shape, random.below(1 << 20)));
            let bytes = shape.row * shape.stripes * computation.matrix().outputs();
            count.add(session, &what, bytes, result);
        }
    }
    count.phase(session, "check fixed");
}

fn tables(session: &mut Session<'_>, device: &Device, checker: &mut Checker) {
    let mut random = Random(12);
    let mut count = Count::default();
    for at in 0..if session.quick() { 2000 } else { 6000 } {
        if session.stopped() || count.of - count.right > 50 {
            break;
        }
        // Half of them the codes of the list, half any code.
        let (k, m) = if at % 2 == 0 {
            session.options.codes[random.below(session.options.codes.len())]
        } else {
            let k = 1 + random.below(48);
            (k, 1 + random.below(16.min(64 - k)))
        };
        let code = Code::new(k, m).expect("1 <= k, k + m <= 64");
        let lost = random.below(m) + 1;
        let lost = random.distinct(lost, k + m);
        let present: Vec<usize> = (0..k + m).filter(|row| !lost.contains(row)).collect();
        let shape = Shape { row: 16 * (1 + random.below(300)), stripes: 1 + random.below(5) };
        let what = format!(
            "check {k}+{m} table, lost {lost:?}, {} stripes of {} bytes a row",
            shape.stripes, shape.row
        );
        let computation = match at % 8 {
            0 => Computation::encode(&code),
            _ => Computation::reconstruct(&code, &present, &lost),
        };
        let Some(computation) = session.attempt(&what, computation) else { continue };
        let result = device
            .table(computation.matrix())
            .and_then(|kernel| checker.same(&kernel, &computation, shape, random.below(1 << 20)));
        let bytes = shape.row * shape.stripes * computation.matrix().outputs();
        count.add(session, &what, bytes, result);
    }
    count.phase(session, "check table");
}
