//! From which size of batches the device is faster than the CPU.

use ashlar_gpu::Device;
use ashlar_gpu::crossover::{Crossover, Options, measure};

use super::session::{Session, cores};

pub(super) fn run(session: &mut Session<'_>, device: &Device) {
    let powers = if session.quick() { vec![21, 23, 25] } else { vec![21, 22, 23, 24, 25, 26] };
    let options = Options {
        sizes: powers.into_iter().map(|power| 1 << power).collect(),
        cores: [1, 2, 4, 8, 16].into_iter().filter(|&c| c <= cores()).collect(),
        repetitions: 3,
        time: session.time() / 3,
        ..Options::default()
    };
    let mut all = session.computations();
    if session.quick() {
        all.truncate(2);
    }
    for (what, computation) in all {
        for (place, copied) in [("pinned", false), ("copied", true)] {
            if session.stopped() {
                return;
            }
            let name = format!("crossover {what} {place}");
            let options = Options { copied, ..options.clone() };
            let found = device
                .table(computation.matrix())
                .and_then(|kernel| measure(device, &kernel, &computation, &options));
            if let Some(found) = session.attempt(&name, found) {
                add(session, &name, &found, &options);
            }
        }
    }
}

/// Adds a phase per size, and one with the sizes from which on the device is faster: absent where it never is.
fn add(session: &mut Session<'_>, name: &str, found: &Crossover, options: &Options) {
    for point in &found.points {
        let rate = |seconds: f64| point.bytes as f64 / seconds;
        let mut values = vec![
            ("batch_bytes".to_owned(), point.bytes as f64),
            ("bytes_per_s".to_owned(), rate(point.device.median)),
            ("alone_bytes_per_s".to_owned(), rate(point.alone.median)),
        ];
        for (cores, cpu) in &point.cpu {
            values.push((format!("cpu_{cores}_bytes_per_s"), rate(cpu.median)));
        }
        session.phase(format!("{name} {} KiB", point.bytes >> 10), options.slots, values);
    }
    let wins = options.cores.iter().filter_map(|&cores| {
        let bytes = found.from(cores)? as f64;
        Some((format!("faster_than_{cores}_from_bytes"), bytes))
    });
    let alone = found.from_alone().map(|bytes| ("alone_faster_than_1_from_bytes".to_owned(), bytes as f64));
    session.phase(name.to_owned(), options.slots, wins.chain(alone).collect());
}
