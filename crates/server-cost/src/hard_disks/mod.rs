//! `harddisks`: hard disks in software, as files for loop devices (tests/speed/hard_disks.py puts file systems on them).
//!
//! A FUSE file system with the files `disk1` to `diskN`, whose requests take the time that [`model`] says, and
//! `control`: reading it returns a line of JSON with the counters of each disk; writing `reset` sets them to zero,
//! writing `scale N` makes all disks N times slower than told (0: they take no time, for instance while file
//! systems are made). Bytes are in memory. The process ends when the file system is unmounted.
//!
//! Written against the protocol itself: a library would be one more dependency for four kinds of requests.
//!
//! Must not depend on: what is on the disks.

mod model;
mod wire;

use std::{
    fs::{File, OpenOptions},
    io::{IoSlice, Read, Write},
    os::fd::AsRawFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;

use crate::{outcome::Outcome, shell::is_root, size::Size};
use model::{Ask, Counts, Disk, Request, Speed};

/// `harddisks`.
#[derive(Args)]
pub struct Options {
    /// The folder on which the files appear
    #[arg(long)]
    dir: PathBuf,
    /// How many
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// The size of each; memory is used as it fills
    #[arg(long, default_value = "4GiB")]
    size: Size,
    /// Time of a seek and of a flush, in microseconds
    #[arg(long, default_value_t = 8000)]
    seek_us: u64,
    /// Bytes per second
    #[arg(long, default_value_t = 200_000_000)]
    rate: u64,
}

/// The number of the file `control`; those of the disks follow. 1 is the folder.
const CONTROL: u64 = 2;
const FIRST_DISK: u64 = 3;

struct Disks {
    device: File,
    disks: Vec<Arc<Disk>>,
    size: u64,
    seek: Duration,
    rate: u64,
}

/// Serves the files until they are unmounted.
pub fn run(options: &Options) -> Outcome {
    if !is_root() {
        return Err("mounting needs root".into());
    }
    let device =
        OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(|e| format!("/dev/fuse: {e}"))?;
    let told = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let told = std::ffi::CString::new(told)?;
    rustix::mount::mount(
        "ashlar-hard-disks",
        &options.dir,
        "fuse",
        rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV,
        Some(told.as_c_str()),
    )
    .map_err(|e| format!("mounting {}: {e}", options.dir.display()))?;
    let disks = (0..options.count).map(|_| Arc::new(Disk::default())).collect();
    let seek = Duration::from_micros(options.seek_us);
    let all = Disks { device, disks, size: options.size.0, seek, rate: options.rate };
    std::thread::scope(|scope| {
        for disk in &all.disks {
            let mut device = all.device.try_clone()?;
            let size = usize::try_from(all.size)?;
            scope.spawn(move || {
                disk.serve(size, |id, bytes, ask| {
                    let written = match &ask {
                        Ask::Write { bytes, from, .. } => (bytes.len() - from) as u64,
                        _ => 0,
                    };
                    let written = written.to_le_bytes();
                    answer(
                        &mut device,
                        id,
                        0,
                        if matches!(ask, Ask::Write { .. }) { &written } else { bytes },
                    );
                });
            });
        }
        let served = all.serve();
        for disk in &all.disks {
            disk.close();
        }
        served
    })
}

/// An answer that nobody waits for any more is refused by the kernel, which is no error here.
fn answer(device: &mut File, id: u64, error: i32, bytes: &[u8]) {
    let head = wire::answer_head(id, error, bytes.len());
    let _ = device.write_vectored(&[IoSlice::new(&head), IoSlice::new(bytes)]);
}

impl Disks {
    /// Takes requests from the kernel until the file system is unmounted.
    fn serve(&self) -> Outcome {
        const ENODEV: i32 = 19;
        const INTERRUPTED: [i32; 3] = [2, 4, 11];
        let mut device = self.device.try_clone()?;
        let mut message = vec![0; wire::MAX_WRITE + 4096];
        loop {
            message.resize(wire::MAX_WRITE + 4096, 0);
            match device.read(&mut message) {
                Ok(len) => message.truncate(len),
                Err(e) if e.raw_os_error() == Some(ENODEV) => return Ok(()),
                Err(e) if e.raw_os_error().is_some_and(|n| INTERRUPTED.contains(&n)) => continue,
                Err(e) => return Err(e.into()),
            }
            self.dispatch(&mut device, &mut message)?;
        }
    }

    /// Answers a request, or gives it to its disk.
    fn dispatch(&self, device: &mut File, message: &mut Vec<u8>) -> Outcome {
        let arrived = Instant::now();
        let (kind, id, node) =
            (wire::u32_at(message, 4), wire::u64_at(message, 8), wire::u64_at(message, 16));
        let body = message.get(wire::HEAD..).unwrap_or_default();
        let disk = node.checked_sub(FIRST_DISK).and_then(|n| self.disks.get(n as usize));
        // A request of READ and WRITE: handle, offset, size, and 20 bytes more.
        let (at, len) = (wire::u64_at(body, 8), wire::u32_at(body, 16) as usize);
        let out = match (kind, disk) {
            (wire::FORGET | wire::BATCH_FORGET | wire::INTERRUPT, _) => return Ok(()),
            (wire::READ, Some(disk)) => {
                disk.push(Request { id, ask: Ask::Read { at, len }, arrived });
                return Ok(());
            }
            (wire::WRITE, Some(disk)) => {
                let bytes = std::mem::take(message);
                disk.push(Request { id, ask: Ask::Write { at, bytes, from: wire::HEAD + 40 }, arrived });
                return Ok(());
            }
            (wire::FSYNC, Some(disk)) => {
                disk.push(Request { id, ask: Ask::Flush, arrived });
                return Ok(());
            }
            (wire::READ, None) => {
                let text = self.report();
                Ok(text
                    .as_bytes()
                    .get(at as usize..)
                    .map(|b| b[..b.len().min(len)].to_vec())
                    .unwrap_or_default())
            }
            (wire::WRITE, None) => {
                self.control(&String::from_utf8_lossy(body.get(40..).unwrap_or_default()));
                Ok((len as u64).to_le_bytes().to_vec())
            }
            (wire::INIT, _) => Ok(wire::init(wire::u32_at(body, 8))),
            (wire::LOOKUP, _) => self.lookup(body).ok_or(wire::ENOENT),
            (wire::GETATTR | wire::SETATTR, _) => Ok(self.attributes(node)),
            (wire::OPEN, _) => Ok(wire::open()),
            (wire::RELEASE | wire::FLUSH | wire::FSYNC, _) => Ok(Vec::new()),
            _ => Err(wire::ENOSYS),
        };
        match out {
            Ok(bytes) => answer(device, id, 0, &bytes),
            Err(error) => answer(device, id, error, &[]),
        }
        Ok(())
    }

    fn lookup(&self, name: &[u8]) -> Option<Vec<u8>> {
        let name = std::str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
        if name == "control" {
            return Some(wire::entry(CONTROL, 0, true));
        }
        let number: u64 = name.strip_prefix("disk")?.parse().ok()?;
        let known = (1..=self.disks.len() as u64).contains(&number);
        known.then(|| wire::entry(FIRST_DISK + number - 1, self.size, false))
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let size = if node >= FIRST_DISK { self.size } else { 0 };
        wire::getattr(node, size, node < CONTROL, node == CONTROL)
    }

    /// What was written to `control`.
    fn control(&self, text: &str) {
        for line in text.lines() {
            match line.trim().strip_prefix("scale ").map(str::parse::<u32>) {
                Some(Ok(0)) => self.disks.iter().for_each(|d| d.set_speed(Speed::default())),
                Some(Ok(n)) => {
                    self.disks.iter().for_each(|d| d.set_speed(Speed::new(self.seek, self.rate, n)))
                }
                _ if line.trim() == "reset" => self.disks.iter().for_each(|d| d.reset()),
                _ => eprintln!("control: {line:?} is not known; write `reset` or `scale N`"),
            }
        }
    }

    /// A line of JSON: for each disk its counters.
    fn report(&self) -> String {
        let disks: Vec<_> = self.disks.iter().map(|d| json(d.counts())).collect();
        format!("{}\n", serde_json::Value::Array(disks))
    }
}

fn json(counts: Counts) -> serde_json::Value {
    serde_json::json!({
        "seeks": counts.seeks,
        "flushes": counts.flushes,
        "reads": counts.reads,
        "bytes_read": counts.bytes_read,
        "writes": counts.writes,
        "bytes_written": counts.bytes_written,
        "busy_s": counts.busy.as_secs_f64(),
    })
}
