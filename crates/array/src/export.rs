//! Virtual drives as exports: what their requests do, and devices of the NBD server. `namespace` has the NVMe/TCP target.
//!
//! Invariants: long requests are divided, so that others get their turn; a request waits for the limits of its virtual drive before it does
//! anything; FUA and flush mean what they say under every policy.
//!
//! Must not depend on: the protocols.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_nbd::{Device, Extent, Fault};
use ashlar_nvme_tcp::Reservations;
use ashlar_raid::{BLOCK, Error, Id, Policy, VirtualDrive};
use parking_lot::RwLock;

use crate::limit::Limiter;

/// Bytes of a range that is made zeros, or looked at, in one turn.
const PIECE: u64 = 64 << 20;
/// Bytes of zeros that are written at once.
const ZEROS: u64 = 1 << 20;

/// What a virtual drive has counted.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// A virtual drive that is exported.
pub(crate) struct Exported {
    /// As large as it is now.
    drive: RwLock<VirtualDrive>,
    deleted: AtomicBool,
    name: String,
    /// Its number as a namespace; 0: it has none.
    pub(crate) nsid: u32,
    /// Its identity.
    pub(crate) id: Id,
    /// Answers are durable without a flush.
    durable: bool,
    pub(crate) counters: Counters,
    pub(crate) limiter: Limiter,
    /// What hosts over NVMe/TCP have reserved. It concerns no other clients.
    pub(crate) reservations: Reservations,
    /// Requests of the group: background work sees whether there are any.
    foreground: Arc<AtomicU64>,
}

impl Exported {
    pub(crate) fn new(
        drive: VirtualDrive,
        name: String,
        (nsid, id): (u32, Id),
        policy: Policy,
        foreground: Arc<AtomicU64>,
    ) -> Exported {
        let durable = policy == Policy::Journal;
        let limiter = Limiter::new(drive.limits());
        let (drive, deleted, counters) = (RwLock::new(drive), AtomicBool::new(false), Counters::default());
        let reservations = Reservations::new();
        Exported { drive, deleted, name, nsid, id, durable, counters, limiter, reservations, foreground }
    }

    /// Clients get errors from now on, also if there is another virtual drive of the same name.
    pub(crate) fn withdraw(&self) {
        self.deleted.store(true, Ordering::Release);
        self.limiter.end();
    }

    /// The virtual drive has another size or other limits: they count at once, for clients that are connected too.
    pub(crate) fn has_changed(&self, drive: VirtualDrive) {
        self.limiter.set(drive.limits());
        *self.drive.write() = drive;
    }

    fn drive(&self) -> Result<VirtualDrive, Error> {
        match self.deleted.load(Ordering::Acquire) {
            true => Err(Error::State(format!("the virtual drive {:?} was deleted", self.name))),
            false => Ok(self.drive.read().clone()),
        }
    }

    fn done<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.foreground.fetch_add(1, Ordering::Relaxed);
        result.inspect_err(|error| {
            // A client may repeat what fails without an end.
            if self.counters.errors.fetch_add(1, Ordering::Relaxed).is_power_of_two() {
                tracing::error!(volume = self.name, %error, "a request failed");
            }
        })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.drive.read().size()
    }

    /// Bytes of the group that it has, if it is thin.
    pub(crate) fn given(&self) -> Option<u64> {
        self.drive.read().given()
    }

    fn make_durable(&self, wanted: bool) -> Result<(), Error> {
        if wanted && !self.durable { self.sync() } else { Ok(()) }
    }

    fn write_zeros(&self, at: u64, len: u64) -> Result<(), Error> {
        let (drive, mut done) = (self.drive()?, 0);
        while done < len {
            let n = ZEROS.min(len - done);
            self.done(drive.write(at + done, vec![0; n as usize]))?;
            done += n;
        }
        Ok(())
    }

    /// Fills `out` with what is at `at`.
    pub(crate) fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        self.limiter.wait(out.len() as u64);
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes_read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.done(self.drive().and_then(|d| d.read(at, out)))
    }

    /// Writes; `durable`: before the return.
    pub(crate) fn store(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Error> {
        self.limiter.wait(data.len() as u64);
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes_written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.done(self.drive().and_then(|d| d.write(at, data)))?;
        self.make_durable(durable)
    }

    /// Makes everything that was answered durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.done(self.drive().and_then(|d| d.flush()))
    }

    /// Makes a range read as zeros; `keep`: its space stays.
    pub(crate) fn clear(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Error> {
        // What is discarded is a request, but no data.
        self.limiter.wait(if keep { len } else { 0 });
        if keep {
            // Zeros that are written have their space; those of a discarded row have not.
            self.write_zeros(at, len)?;
            return self.make_durable(durable);
        }
        let (drive, mut done) = (self.drive()?, 0);
        while done < len {
            let n = (PIECE - (at + done) % PIECE).min(len - done);
            self.done(drive.zero(at + done, n))?;
            done += n;
        }
        self.make_durable(durable)
    }
}

/// An error in the words of NBD.
fn fault(error: Error) -> Fault {
    match error {
        Error::State(_) => Fault::Gone,
        Error::Range { .. } => Fault::Invalid,
        Error::NoSpace => Fault::NoSpace,
        _ => Fault::Io,
    }
}

impl Device for Exported {
    fn size(&self) -> u64 {
        self.bytes()
    }

    fn identity(&self) -> Option<[u8; 16]> {
        Some(self.id)
    }

    fn block_sizes(&self) -> (u32, u32, u32) {
        (1, BLOCK as u32, ashlar_nbd::MAX_PAYLOAD)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.load(at, out).map_err(fault)
    }

    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.store(at, data, durable).map_err(fault)
    }

    fn flush(&self) -> Result<(), Fault> {
        self.sync().map_err(fault)
    }

    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.clear(at, len, keep, durable).map_err(fault)
    }

    fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), Fault> {
        // Blocks in part keep what they have.
        let block = BLOCK as u64;
        let (first, last) = (at.next_multiple_of(block), (at + len) / block * block);
        if first < last {
            self.zero(first, last - first, false, durable)
        } else {
            self.make_durable(durable).map_err(fault)
        }
    }

    fn extents(&self, at: u64, len: u64, most: usize) -> Result<Vec<Extent>, Fault> {
        let pieces = self.drive().and_then(|d| d.allocated(at, len.min(PIECE), most));
        let pieces = self.done(pieces).map_err(fault)?;
        Ok(pieces.into_iter().map(|(len, data)| Extent { len, data }).collect())
    }
}
