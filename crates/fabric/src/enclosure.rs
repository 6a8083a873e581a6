//! An enclosure in service: what a command of a host meets, from its arrival to its answer.
//!
//! A command waits until the model says that it is done, and takes effect then. A drive that is pulled and a port that goes down
//! begin a new *generation*: commands of earlier generations never take effect, so that a host may send them again over another
//! path without an old write that overtakes a new one.
//!
//! Invariants: the generations of port and drive are held from the check to the end of the effect; nobody who holds the faults
//! waits for a port or a drive.
//!
//! Must not depend on: NVMe beside its reservations, sockets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_environment::{thread, time::Instant};
use ashlar_nvme_tcp::Reservations;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::ana::States;
use crate::api::{Fault, FaultSpec};
use crate::drive_model::Operation;
use crate::error::Error;
use crate::faults::{self, Faults};
use crate::model::{Command, Model};
use crate::setup::Setup;
use crate::store::Store;
use crate::usage::Usage;

/// How long a command waits before it looks whether its drive and port are still there.
const LOOK: Duration = Duration::from_millis(50);
/// Blocks whose faults are decided together.
const TOGETHER: u64 = 4096;

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The port or the drive is gone, or was gone meanwhile.
    Gone,
    /// The namespace is lost.
    NoNamespace,
    /// The disk of this machine failed, or is full.
    Store { full: bool },
}

/// Something that can go away and come back.
#[derive(Default)]
struct Presence {
    generation: u64,
    present: bool,
}

impl Presence {
    fn set(&mut self, present: bool) {
        if self.present != present {
            self.present = present;
            self.generation += 1;
        }
    }
}

/// A drive or a port.
#[derive(Default)]
pub(crate) struct Part {
    presence: RwLock<Presence>,
    pub(crate) usage: Usage,
    /// How often a drive was pulled while it was in use.
    pub(crate) losses: AtomicU64,
    /// Blocks that a fault returned with a wrong bit, and blocks whose write it lost.
    pub(crate) corrupt: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Blocks that it had not flushed when it was pulled, and lost.
    pub(crate) unflushed: AtomicU64,
    /// The identify LED of a bay, which stays on while its drive is pulled.
    pub(crate) locate: AtomicBool,
}

impl Part {
    /// The generation; none: it is not there.
    pub(crate) fn generation(&self) -> Option<u64> {
        let presence = self.presence.read();
        presence.present.then_some(presence.generation)
    }

    /// Holds it, if it is there and was there all the time.
    fn hold(&self, generation: u64) -> Option<RwLockReadGuard<'_, Presence>> {
        let presence = self.presence.read();
        (presence.present && presence.generation == generation).then_some(presence)
    }

    /// `leave` is called if it goes away, before a command can see that.
    fn set(&self, present: bool, leave: impl FnOnce()) {
        let mut presence = self.presence.write();
        if presence.present && !present {
            self.losses.fetch_add(1, Ordering::Relaxed);
            leave();
        }
        presence.set(present);
    }
}

/// The path of a host to a drive: a port and a drive of certain generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DrivePath {
    pub(crate) port: usize,
    pub(crate) port_generation: u64,
    /// From 1.
    pub(crate) bay: usize,
    pub(crate) drive_generation: u64,
}

/// An enclosure in service.
pub(crate) struct Enclosure {
    pub(crate) setup: Setup,
    start: Instant,
    pub(crate) model: Mutex<Model>,
    faults: RwLock<Faults>,
    /// How namespaces are accessed through ports.
    pub(crate) ana: States,
    /// Held while drives and ports follow the faults.
    applying: Mutex<()>,
    drives: Vec<Part>,
    ports: Vec<Part>,
    /// Of each drive, of each of its namespaces: common to all hosts and ports. A drive that is pulled forgets them.
    reservations: Vec<Vec<Reservations>>,
    store: Store,
}

impl Enclosure {
    /// Opens its files. Its ports are down; [`Enclosure::apply_faults`] decides which come up.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open(setup: Setup) -> Result<Enclosure, Error> {
        let store = Store::open(&setup)?;
        let parts = |n: usize| (0..n).map(|_| Part::default()).collect();
        let enclosure = Enclosure {
            start: Instant::now(),
            model: Mutex::new(Model::new(&setup)),
            faults: RwLock::default(),
            ana: States::new(&setup)?,
            applying: Mutex::default(),
            drives: parts(setup.bays),
            ports: parts(setup.ports.len()),
            reservations: (0..setup.bays)
                .map(|_| (0..setup.namespaces).map(|_| Reservations::new()).collect())
                .collect(),
            store,
            setup,
        };
        for fault in enclosure.setup.faults.clone() {
            enclosure.faults.write().inject(&enclosure.setup, fault)?;
        }
        enclosure.apply_faults(&|_| {});
        Ok(enclosure)
    }

    /// Time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn drive(&self, bay: usize) -> &Part {
        &self.drives[bay - 1]
    }

    pub(crate) fn port(&self, port: usize) -> &Part {
        &self.ports[port]
    }

    pub(crate) fn faults(&self) -> RwLockReadGuard<'_, Faults> {
        self.faults.read()
    }

    /// Adds a fault. Drives and ports follow at once. `cut` ends the connections of a port that goes down: commands in
    /// progress must not be answered, as their hosts would take the answer for one of the drive.
    ///
    /// # Errors
    /// Those of [`Faults::inject`]; nothing is changed then.
    pub(crate) fn inject(&self, fault: &FaultSpec, cut: &dyn Fn(usize)) -> Result<Fault, Error> {
        let added = self.faults.write().inject(&self.setup, fault.clone())?;
        self.apply_faults(cut);
        Ok(added)
    }

    /// Ends faults; none named: all. Otherwise as [`Enclosure::inject`].
    ///
    /// # Errors
    /// Those of [`Faults::clear`]; nothing is changed then.
    pub(crate) fn clear(&self, ids: &[u32], cut: &dyn Fn(usize)) -> Result<Vec<Fault>, Error> {
        let ended = self.faults.write().clear(ids)?;
        self.apply_faults(cut);
        Ok(ended)
    }

    /// Has drives and ports follow the faults.
    fn apply_faults(&self, cut: &dyn Fn(usize)) {
        let _one = self.applying.lock();
        let (down, drives): (Vec<bool>, Vec<(bool, f64)>) = {
            let faults = self.faults.read();
            let drive = |bay| (faults.gone(bay), faults.slowness(bay));
            let down = (0..self.ports.len()).map(|port| faults.down(&self.setup, port));
            (down.collect(), (1..=self.setup.bays).map(drive).collect())
        };
        for (port, (part, down)) in self.ports.iter().zip(down).enumerate() {
            part.set(!down, || cut(port));
        }
        let all = self.drives.iter().zip(&self.reservations).zip(&drives);
        for (bay, ((part, reservations), (gone, _))) in (1..).zip(all) {
            part.set(!gone, || {
                self.lose_cache(bay);
                reservations.iter().for_each(Reservations::forget);
            });
        }
        let mut model = self.model.lock();
        model.drives.iter_mut().zip(&drives).for_each(|(drive, (_, slowness))| drive.slowness = *slowness);
    }

    /// Turns the identify LED of a bay on or off.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound): there is no such bay.
    pub(crate) fn locate(&self, bay: usize, on: bool) -> Result<(), Error> {
        let drive = bay.checked_sub(1).and_then(|i| self.drives.get(i));
        let drive = drive.ok_or_else(|| faults::no_bay(&self.setup, bay))?;
        drive.locate.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// The reservations of a namespace, by its bay and its number, each from 1.
    pub(crate) fn reservations(&self, bay: usize, nsid: u32) -> Option<&Reservations> {
        self.reservations.get(bay.checked_sub(1)?)?.get(nsid.checked_sub(1)? as usize)
    }

    /// The path to a drive through a port, if both are there.
    pub(crate) fn path(&self, port: usize, bay: usize) -> Option<DrivePath> {
        let port_generation = self.port(port).generation()?;
        let drive_generation = self.drive(bay).generation()?;
        Some(DrivePath { port, port_generation, bay, drive_generation })
    }

    /// Whether a path is as it was.
    pub(crate) fn open_still(&self, path: &DrivePath) -> bool {
        self.path(path.port, path.bay) == Some(*path)
    }

    /// Executes a command: waits for its time, then has `effect` while port and drive are held.
    fn execute<T>(
        &self,
        path: &DrivePath,
        nsid: u32,
        operation: Operation,
        (at, len): (u64, u64),
        effect: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let done = self.wait(path, nsid, operation, at, len).and_then(|()| {
            let _port = self.port(path.port).hold(path.port_generation).ok_or(Refusal::Gone)?;
            let _drive = self.drive(path.bay).hold(path.drive_generation).ok_or(Refusal::Gone)?;
            if self.faults.read_recursive().lost(path.bay, nsid) {
                return Err(Refusal::NoNamespace);
            }
            effect()
        });
        self.drive(path.bay).usage.count(operation, len, done.is_err());
        self.port(path.port).usage.count(operation, len, done.is_err());
        done
    }

    fn wait(
        &self,
        path: &DrivePath,
        nsid: u32,
        operation: Operation,
        at: u64,
        len: u64,
    ) -> Result<(), Refusal> {
        let begin = |path: &DrivePath| self.open_still(path).then_some(()).ok_or(Refusal::Gone);
        begin(path)?;
        let at = u64::from(nsid - 1) * self.setup.size + at;
        let command = Command { drive: path.bay - 1, port: path.port, operation, at, len };
        let now = self.now();
        let end = self.model.lock().begin(now, &command);
        loop {
            let left = end.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
            begin(path)?;
        }
    }

    pub(crate) fn read(&self, path: &DrivePath, nsid: u32, at: u64, out: &mut [u8]) -> Result<(), Refusal> {
        let span = (at, out.len() as u64);
        self.execute(path, nsid, Operation::Read, span, || {
            self.store.read(path.bay, nsid, at, out).map_err(|e| self.failed(path.bay, &e))?;
            let block = self.setup.block as usize;
            let damaged = self.faults.read_recursive().corrupt(path.bay, nsid, at / block as u64, block, out);
            self.drive(path.bay).corrupt.fetch_add(damaged, Ordering::Relaxed);
            Ok(())
        })
    }

    pub(crate) fn write(
        &self,
        path: &DrivePath,
        nsid: u32,
        at: u64,
        data: &[u8],
        durable: bool,
    ) -> Result<(), Refusal> {
        let span = (at, data.len() as u64);
        self.execute(path, nsid, Operation::Write, span, || {
            self.runs(path.bay, nsid, span, |from, len| {
                let piece = &data[(from - at) as usize..(from - at + len) as usize];
                self.store.write(path.bay, nsid, from, piece)
            })?;
            if durable { self.settle(path.bay, nsid, span) } else { Ok(()) }
        })
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(
        &self,
        path: &DrivePath,
        nsid: u32,
        (at, len): (u64, u64),
        durable: bool,
    ) -> Result<(), Refusal> {
        self.execute(path, nsid, Operation::Change, (at, len), || {
            let store = |from, len| self.store.zero(path.bay, nsid, from, len);
            self.runs(path.bay, nsid, (at, len), store)?;
            if durable { self.settle(path.bay, nsid, (at, len)) } else { Ok(()) }
        })
    }

    pub(crate) fn flush(&self, path: &DrivePath, nsid: u32) -> Result<(), Refusal> {
        self.execute(path, nsid, Operation::Flush, (0, 0), || self.sync(path.bay, nsid))
    }

    fn sync(&self, bay: usize, nsid: u32) -> Result<(), Refusal> {
        self.store.flush(bay, nsid).map_err(|e| self.failed(bay, &e))
    }

    fn settle(&self, bay: usize, nsid: u32, (at, len): (u64, u64)) -> Result<(), Refusal> {
        self.store.settle(bay, nsid, at, len).map_err(|e| self.failed(bay, &e))
    }

    /// A drive was pulled: it loses what it had not flushed.
    fn lose_cache(&self, bay: usize) {
        match self.store.lose_cache(&self.setup, bay) {
            Ok(lost) => drop(self.drive(bay).unflushed.fetch_add(lost, Ordering::Relaxed)),
            Err(error) => tracing::error!(bay, %error, "a backing file failed when the drive was pulled"),
        }
    }

    /// Stores the parts of a range that no fault loses: `store` gets the first byte and the length of each.
    fn runs(
        &self,
        bay: usize,
        nsid: u32,
        (at, len): (u64, u64),
        store: impl Fn(u64, u64) -> std::io::Result<()>,
    ) -> Result<(), Refusal> {
        let failed = |e: std::io::Error| self.failed(bay, &e);
        let faults = self.faults.read_recursive();
        if !faults.lies(bay) {
            return store(at, len).map_err(failed);
        }
        let block = u64::from(self.setup.block);
        let (mut first, end) = (at / block, (at + len) / block);
        while first < end {
            let count = (end - first).min(TOGETHER);
            let kept = faults.written(bay, nsid, first, count);
            let lost = kept.iter().filter(|kept| !**kept).count() as u64;
            self.drive(bay).lost.fetch_add(lost, Ordering::Relaxed);
            for run in kept.chunk_by(|a, b| a == b) {
                if run[0] {
                    store(first * block, run.len() as u64 * block).map_err(failed)?;
                }
                first += run.len() as u64;
            }
        }
        Ok(())
    }

    fn failed(&self, bay: usize, error: &std::io::Error) -> Refusal {
        tracing::error!(bay, %error, "a backing file failed");
        let full =
            matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
        Refusal::Store { full }
    }

    /// Makes the rates of the last second.
    pub(crate) fn sample(&self) {
        let now = self.now();
        self.drives.iter().chain(&self.ports).for_each(|part| part.usage.sample(now));
        let mut model = self.model.lock();
        for drive in &mut model.drives {
            let worked = drive.worked();
            drive.thermal.advance(now, worked);
        }
    }

    /// Whether the namespace of a drive is lost.
    pub(crate) fn is_lost(&self, bay: usize, nsid: u32) -> bool {
        self.faults.read().lost(bay, nsid)
    }
}
