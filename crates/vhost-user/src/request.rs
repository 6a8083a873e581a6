//! Requests of a virtual block device, and what they do.
//!
//! Source: Virtual I/O Device specification 1.2, section 5.2.6.
//!
//! Invariants: a request whose range is not inside of the device changes nothing; a request takes at most [`PIECE`] bytes of memory,
//! however long it is.
//!
//! Must not depend on: rings, connections.

use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_nbd::{Device, Fault};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
    VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};
use virtio_queue::{DescriptorChain, Reader, Writer};
use vm_memory::{GuestMemoryLoadGuard, GuestMemoryMmap};

/// Bytes of a sector, the unit of addresses, whatever the block size is.
pub(crate) const SECTOR: u64 = 512;
/// Ranges of one request to discard or to write zeros, at most.
pub(crate) const RANGES: u32 = 16;
/// Bytes of a request that are in memory at once.
const PIECE: usize = 1 << 20;
/// Bytes of the header of a request, and of one range.
const HEADER: usize = 16;

/// A request as it lies in the memory of the guest.
pub(crate) type Chain = DescriptorChain<Memory>;
/// The memory of the guest, as it is mapped now.
pub(crate) type Memory = GuestMemoryLoadGuard<GuestMemoryMmap>;

/// What was counted.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// The device that requests are for.
pub(crate) struct Target<'a> {
    pub(crate) device: &'a dyn Device,
    /// What the guest is told as its serial number.
    pub(crate) serial: &'a str,
    pub(crate) counters: &'a Counters,
}

/// Why a request is not answered with success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// It failed, or it makes no sense.
    Failed,
    /// There is no such request here.
    Unsupported,
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Refusal {
        Refusal::Failed
    }
}

impl From<std::io::Error> for Refusal {
    fn from(_: std::io::Error) -> Refusal {
        Refusal::Failed
    }
}

type Result<T> = std::result::Result<T, Refusal>;

impl Target<'_> {
    /// Executes a request and writes its status. The bytes that were written to the memory of the guest: 0 if there is no room for
    /// a status.
    pub(crate) fn execute(&self, chain: &Chain, memory: &Memory) -> u32 {
        let (Ok(mut reader), Ok(mut writer)) = (chain.clone().reader(memory), chain.clone().writer(memory))
        else {
            return 0;
        };
        let Some(room) = writer.available_bytes().checked_sub(1) else { return 0 };
        let Ok(mut status) = writer.split_at(room) else { return 0 };
        let done = self.perform(&mut reader, &mut writer);
        let said = match done {
            Ok(()) => VIRTIO_BLK_S_OK,
            Err(Refusal::Failed) => VIRTIO_BLK_S_IOERR,
            Err(Refusal::Unsupported) => VIRTIO_BLK_S_UNSUPP,
        };
        if done.is_err() {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        match status.write_obj(said as u8) {
            Ok(()) => u32::try_from(writer.bytes_written() + 1).unwrap_or(u32::MAX),
            Err(_) => 0,
        }
    }

    fn perform(&self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<()> {
        let mut header = [0; HEADER];
        reader.read_exact(&mut header)?;
        let (kind, sector) = (number32(&header[..4]), number64(&header[8..]));
        let counters = self.counters;
        match kind {
            VIRTIO_BLK_T_IN => {
                counters.reads.fetch_add(1, Ordering::Relaxed);
                self.read(self.range(sector, writer.available_bytes() as u64)?, writer)
            }
            VIRTIO_BLK_T_OUT => {
                counters.writes.fetch_add(1, Ordering::Relaxed);
                self.write(self.range(sector, reader.available_bytes() as u64)?, reader)
            }
            _ => {
                counters.others.fetch_add(1, Ordering::Relaxed);
                self.other(kind, reader, writer)
            }
        }
    }

    /// The bytes of a request for whole sectors.
    fn range(&self, sector: u64, len: u64) -> Result<Range<u64>> {
        let at = sector.checked_mul(SECTOR).ok_or(Refusal::Failed)?;
        let end = at.checked_add(len).ok_or(Refusal::Failed)?;
        if len.is_multiple_of(SECTOR) && end <= self.device.size() {
            Ok(at..end)
        } else {
            Err(Refusal::Failed)
        }
    }

    fn read(&self, range: Range<u64>, writer: &mut Writer<'_>) -> Result<()> {
        let mut buffer = vec![0; PIECE.min((range.end - range.start) as usize)];
        let mut at = range.start;
        while at < range.end {
            let piece = &mut buffer[..PIECE.min((range.end - at) as usize)];
            self.device.read(at, piece)?;
            writer.write_all(piece)?;
            at += piece.len() as u64;
            self.counters.bytes_read.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write(&self, range: Range<u64>, reader: &mut Reader<'_>) -> Result<()> {
        self.may_change()?;
        let mut at = range.start;
        while at < range.end {
            let mut piece = vec![0; PIECE.min((range.end - at) as usize)];
            reader.read_exact(&mut piece)?;
            let len = piece.len() as u64;
            self.device.write(at, piece, false)?;
            at += len;
            self.counters.bytes_written.fetch_add(len, Ordering::Relaxed);
        }
        Ok(())
    }

    fn other(&self, kind: u32, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<()> {
        match kind {
            VIRTIO_BLK_T_FLUSH => Ok(self.device.flush()?),
            VIRTIO_BLK_T_GET_ID => {
                // Not more than the guest has room for; shorter ones end with a zero.
                let mut id = [0; VIRTIO_BLK_ID_BYTES as usize];
                let serial = self.serial.as_bytes();
                let len = serial.len().min(id.len());
                id[..len].copy_from_slice(&serial[..len]);
                let room = id.len().min(writer.available_bytes());
                Ok(writer.write_all(&id[..room])?)
            }
            VIRTIO_BLK_T_DISCARD => {
                let ranges = self.ranges(reader)?;
                refuse_unless(ranges.iter().all(|(_, flags)| *flags == 0))?;
                for (range, _) in ranges {
                    self.device.trim(range.start, range.end - range.start, false)?;
                }
                Ok(())
            }
            VIRTIO_BLK_T_WRITE_ZEROES => {
                let ranges = self.ranges(reader)?;
                refuse_unless(
                    ranges.iter().all(|(_, flags)| flags & !VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP == 0),
                )?;
                for (range, flags) in ranges {
                    let keep = flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP == 0;
                    self.device.zero(range.start, range.end - range.start, keep, false)?;
                }
                Ok(())
            }
            _ => Err(Refusal::Unsupported),
        }
    }

    /// The ranges of a request to discard or to write zeros, with their flags. All of them are inside of the device.
    fn ranges(&self, reader: &mut Reader<'_>) -> Result<Vec<(Range<u64>, u32)>> {
        self.may_change()?;
        let len = reader.available_bytes();
        if len == 0 || !len.is_multiple_of(HEADER) || len / HEADER > RANGES as usize {
            return Err(Refusal::Failed);
        }
        let mut ranges = Vec::new();
        for _ in 0..len / HEADER {
            let mut bytes = [0; HEADER];
            reader.read_exact(&mut bytes)?;
            let sectors = u64::from(number32(&bytes[8..12]));
            ranges.push((self.range(number64(&bytes[..8]), sectors * SECTOR)?, number32(&bytes[12..])));
        }
        Ok(ranges)
    }

    fn may_change(&self) -> Result<()> {
        if self.device.read_only() { Err(Refusal::Failed) } else { Ok(()) }
    }
}

/// A request with flags that are not known must be refused as such.
fn refuse_unless(known: bool) -> Result<()> {
    if known { Ok(()) } else { Err(Refusal::Unsupported) }
}

fn number32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b))
}

fn number64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}
