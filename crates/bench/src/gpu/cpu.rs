//! The CPU with its fastest kernel, from memory, each thread on memory of its own.

use ashlar_gpu::{Shape, crossover::on_cpu};

use super::session::{ROW, Session, cores, rates};

pub(super) fn run(session: &mut Session<'_>) {
    for (what, computation) in session.computations() {
        for threads in [1, 2, 4, 8, 16].into_iter().filter(|&threads| threads <= cores()) {
            if session.stopped() {
                return;
            }
            let inputs = computation.matrix().inputs();
            let shape = Shape { row: ROW, stripes: (1 << 20) / (inputs * ROW) + 1 };
            let seconds = on_cpu(&computation, shape, threads, session.repetitions(), session.time());
            let name = format!("cpu {what}");
            if let Some(seconds) = session.attempt(&name, seconds) {
                session.phase(name, threads, rates(shape.stripes * inputs * ROW, seconds));
            }
        }
    }
}
