//! Requests of a device, and what they do.
//!
//! Invariants: a request whose range is not inside of the device changes nothing; a request takes at most [`PIECE`] bytes of memory,
//! however long it is.
//!
//! Must not depend on: queues, threads.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_machine::UblkDescriptor;
use ashlar_nbd::{Device, Fault};

use crate::driver::{EINVAL, EIO, ENOSPC, EOPNOTSUPP, EROFS};

/// Bytes of a sector, the unit of requests.
pub(crate) const SECTOR: u64 = 512;
/// Bytes that are copied at once.
pub(crate) const PIECE: usize = 1 << 20;

/// What a request is: the lowest 8 bits of its descriptor.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;
/// Its flags: durable before the answer, and zeros that keep their space.
const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;

/// What was counted, of all devices.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// The data of one request, which is in the memory of others.
pub(crate) trait Data {
    /// Fills `out` with what a write request has from a byte on.
    fn take(&self, from: u32, out: &mut [u8]) -> io::Result<()>;
    /// Gives a read request what it wants from a byte on.
    fn give(&self, from: u32, data: &[u8]) -> io::Result<()>;
}

/// An error number.
struct Refusal(i32);

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal(match fault {
            Fault::NoSpace => ENOSPC,
            Fault::Invalid => EINVAL,
            Fault::Io | Fault::Gone => EIO,
        })
    }
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Refusal {
        Refusal(EIO)
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// Executes a request: the bytes of a read or write, 0 for others, or an error number below 0.
pub(crate) fn execute(
    device: &dyn Device,
    counters: &Counters,
    asked: UblkDescriptor,
    data: &dyn Data,
) -> i32 {
    perform(device, counters, asked, data).unwrap_or_else(|Refusal(number)| {
        counters.errors.fetch_add(1, Ordering::Relaxed);
        -number
    })
}

fn perform(device: &dyn Device, counters: &Counters, asked: UblkDescriptor, data: &dyn Data) -> Result<i32> {
    let kind = asked.operation & 0xff;
    let counter = match kind {
        READ => &counters.reads,
        WRITE => &counters.writes,
        _ => &counters.others,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    if matches!(kind, WRITE | DISCARD | WRITE_ZEROES) && device.read_only() {
        return Err(Refusal(EROFS));
    }
    let durable = asked.operation & FUA != 0;
    match kind {
        READ => read(device, counters, range(device, asked)?, data),
        WRITE => write(device, counters, range(device, asked)?, durable, data),
        FLUSH => {
            device.flush()?;
            Ok(0)
        }
        DISCARD => {
            let range = range(device, asked)?;
            device.trim(range.start, range.end - range.start, durable)?;
            Ok(0)
        }
        WRITE_ZEROES => {
            let range = range(device, asked)?;
            let keep = asked.operation & NO_UNMAP != 0;
            device.zero(range.start, range.end - range.start, keep, durable)?;
            Ok(0)
        }
        _ => Err(Refusal(EOPNOTSUPP)),
    }
}

/// The bytes that a request is about.
fn range(device: &dyn Device, asked: UblkDescriptor) -> Result<Range<u64>> {
    let at = asked.start.checked_mul(SECTOR).ok_or(Refusal(EINVAL))?;
    let end = at.checked_add(u64::from(asked.sectors) * SECTOR).ok_or(Refusal(EINVAL))?;
    if end <= device.size() { Ok(at..end) } else { Err(Refusal(EINVAL)) }
}

/// The number of bytes as an answer.
fn all_of(range: &Range<u64>) -> Result<i32> {
    i32::try_from(range.end - range.start).map_err(|_| Refusal(EINVAL))
}

fn read(device: &dyn Device, counters: &Counters, range: Range<u64>, data: &dyn Data) -> Result<i32> {
    let answer = all_of(&range)?;
    let mut buffer = vec![0; PIECE.min(answer as usize)];
    let mut at = range.start;
    while at < range.end {
        let piece = &mut buffer[..PIECE.min((range.end - at) as usize)];
        device.read(at, piece)?;
        data.give((at - range.start) as u32, piece)?;
        at += piece.len() as u64;
    }
    counters.bytes_read.fetch_add(range.end - range.start, Ordering::Relaxed);
    Ok(answer)
}

fn write(
    device: &dyn Device,
    counters: &Counters,
    range: Range<u64>,
    durable: bool,
    data: &dyn Data,
) -> Result<i32> {
    let answer = all_of(&range)?;
    let mut at = range.start;
    while at < range.end {
        let mut piece = vec![0; PIECE.min((range.end - at) as usize)];
        let len = piece.len() as u64;
        data.take((at - range.start) as u32, &mut piece)?;
        device.write(at, piece, durable)?;
        at += len;
    }
    counters.bytes_written.fetch_add(range.end - range.start, Ordering::Relaxed);
    Ok(answer)
}
