//! Measures this node every ten seconds.
//!
//! Invariants: a measurement is in memory at once and in the files after a minute at most; what is not in them yet is
//! written when the server stops.
//!
//! Must not depend on: requests.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use ashlar_node::Node;
use ashlar_s3::Service;
use ashlar_time_series::{Change, History, Point, RESOLUTIONS};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::series::{KINDS, difference, measure};
use super::writer::{self, Writer};

/// How many measurements are written together.
const BATCH: usize = 6;
/// Time between attempts to open the files again, in measurements.
const RETRY: u32 = 60;

/// What this node measured.
pub struct Recorder(Mutex<History>);

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder(Mutex::new(History::new(KINDS)))
    }
}

impl Recorder {
    /// What was measured so far.
    pub(crate) fn read<T>(&self, of: impl FnOnce(&History) -> T) -> T {
        of(&self.0.lock())
    }

    /// Measures until `stop` is true.
    pub(crate) async fn record(
        self: Arc<Self>,
        service: Arc<Service>,
        node: Arc<Node>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut files = Kept { writer: None, pending: Vec::new(), measured: 0, retry: 0, told: false };
        files.open(&self, &node).await;
        let (mut before, mut since) = (measure(service.metrics(), &node), Instant::now());
        loop {
            let stopped = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => true,
                () = time::sleep(until_next(time::wall_ms())) => false,
            };
            if stopped {
                files.write();
                return;
            }
            let now = measure(service.metrics(), &node);
            let step_s = RESOLUTIONS[0].step_s;
            let at_s = (time::wall_ms() + 500).div_euclid(1000 * step_s) * step_s;
            // To the nearest second: a first measurement may cover less than one.
            let covered_s = (since.elapsed().as_millis() as u64 + 500) / 1000;
            let point = Point { at_s, covered_s: covered_s.max(1), values: difference(&before, &now) };
            let Some(changes) = self.0.lock().push(&point) else { continue };
            (before, since) = (now, Instant::now());
            files.add(changes);
            if files.measured >= BATCH {
                files.write();
            }
            if files.is_due() {
                files.open(&self, &node).await;
            }
        }
    }
}

/// How long to wait for the next multiple of a step.
fn until_next(now_ms: i64) -> Duration {
    let step_ms = RESOLUTIONS[0].step_s * 1000;
    let wait = step_ms - now_ms.rem_euclid(step_ms);
    // One that is just over, as the clock has it, is not measured twice.
    Duration::from_millis(if wait < 500 { wait + step_ms } else { wait } as u64)
}

/// The files, or why there are none.
struct Kept {
    writer: Option<Writer>,
    pending: Vec<Change>,
    /// Measurements in `pending`.
    measured: usize,
    /// Measurements until the files are opened again.
    retry: u32,
    /// Whether it was said that they cannot be opened.
    told: bool,
}

impl Kept {
    async fn open(&mut self, recorder: &Recorder, node: &Node) {
        let ours = recorder.0.lock().clone();
        match writer::open(node, &ours, KINDS).await {
            Ok((history, writer)) => {
                *recorder.0.lock() = history;
                *self =
                    Kept { writer: Some(writer), pending: Vec::new(), measured: 0, retry: 0, told: false };
            }
            Err(why) => {
                if !self.told {
                    tracing::warn!(
                        why,
                        "the history of metrics is in memory only; its files are tried again every ten minutes"
                    );
                }
                (self.told, self.retry) = (true, RETRY);
            }
        }
    }

    fn add(&mut self, changes: Vec<Change>) {
        self.retry = self.retry.saturating_sub(1);
        if self.writer.is_some() {
            self.pending.extend(changes);
            self.measured += 1;
        }
    }

    fn write(&mut self) {
        self.measured = 0;
        let changes = std::mem::take(&mut self.pending);
        if let Some(writer) = &self.writer
            && !writer.write(changes)
        {
            // What is lost to the files is in memory, and is in them after they were opened again.
            (self.writer, self.retry) = (None, RETRY);
        }
    }

    fn is_due(&self) -> bool {
        self.writer.is_none() && self.retry == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_at_multiples_of_ten_seconds() {
        for (now_ms, wait_ms) in [(20_000, 10_000), (20_001, 9_999), (29_400, 600), (29_600, 10_400)] {
            assert_eq!(until_next(now_ms), Duration::from_millis(wait_ms), "{now_ms}");
        }
    }
}
