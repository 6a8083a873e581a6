//! All devices: a block device for each export, for as long as it is there, and over the end of this process.
//!
//! Invariants: an export has a device at most [`FOLLOW`] and the time of its making after it appeared, and none that long after it is
//! gone; a device that cannot be made or taken over does not keep others from it, and is tried again.
//!
//! Must not depend on: requests, queues.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::{thread, time::Instant};
use ashlar_machine::become_io_flusher;
use ashlar_nbd::{Export, Exports};
use parking_lot::{Condvar, Mutex};

use crate::choice::{self, Choice, choose};
use crate::driver::{Driver, Info, is_held};
use crate::error::Error;
use crate::links::Links;
use crate::request::Counters;
use crate::served::{Served, path_of};

/// Time between looks at the list of exports.
const FOLLOW: Duration = Duration::from_millis(500);
/// And while the kernel has not yet noticed that a process has ended.
const SOON: Duration = Duration::from_millis(50);
/// How long the start waits for that; then it goes on beside everything else, and is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// Queues of a device, at most.
pub const MAX_QUEUES: u16 = 64;

/// What a server has counted since it was started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Other requests.
    pub others: u64,
    /// Bytes of reads that were executed.
    pub bytes_read: u64,
    /// Bytes of writes that were executed.
    pub bytes_written: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Devices that were taken over from a process that had ended.
    pub recovered: u64,
}

struct Shared {
    driver: Driver,
    links: Links,
    queues: u16,
    exports: Arc<dyn Exports>,
    counters: Arc<Counters>,
    served: Mutex<BTreeMap<String, Served>>,
    /// What of it others see, who do not wait for the driver.
    seen: Mutex<(BTreeMap<String, PathBuf>, u64)>,
    stopping: Mutex<bool>,
    wake: Condvar,
}

/// A server in operation.
pub struct Server {
    shared: Arc<Shared>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// What earlier looks at the exports have found.
#[derive(Default)]
struct Looked {
    /// What the last one has said.
    said: Vec<String>,
    /// Since when devices are held for a process that has ended.
    held: Option<Instant>,
}

/// What a look at the exports has left undone.
#[derive(Default)]
struct Undone {
    errors: Vec<Error>,
    /// Devices that are taken over when the kernel has let go of them.
    held: Vec<u32>,
}

impl Server {
    /// Makes each export a block device with up to `queues` queues, and `FOLDER/NAME` a link to it, until [`Server::stop`]. A name with
    /// `/` is a path below the folder. Devices that a process has left are taken over; this waits for it, some seconds at most.
    ///
    /// # Errors
    /// [`Error`] if this machine or its folder does not permit it; then nothing has changed. A single device that cannot be made or
    /// taken over is reported in the log and tried again.
    pub fn start(folder: &Path, queues: u16, exports: Arc<dyn Exports>) -> Result<Server, Error> {
        let driver = Driver::open()?;
        let links = Links::new(folder).map_err(|error| Error::Folder { path: folder.to_owned(), error })?;
        let shared = Arc::new(Shared {
            driver,
            links,
            queues: queues.clamp(1, MAX_QUEUES),
            exports,
            counters: Arc::default(),
            served: Mutex::default(),
            seen: Mutex::default(),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
        });
        shared.mention_others();
        let mut looked = Looked::default();
        while shared.look(&mut looked) {
            thread::sleep(SOON);
        }
        let server = Server { shared: shared.clone(), thread: Mutex::default() };
        match thread::start("ublk", None, move || shared.run(looked)) {
            Ok(thread) => *server.thread.lock() = Some(thread),
            Err(error) => {
                server.stop();
                return Err(Error::Device { what: "a thread".to_owned(), error });
            }
        }
        Ok(server)
    }

    /// The folder of the links.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.links.folder()
    }

    /// The block devices, by the names of their exports.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<String, PathBuf> {
        self.shared.seen.lock().0.clone()
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let c = &self.shared.counters;
        Statistics {
            reads: c.reads.load(Ordering::Relaxed),
            writes: c.writes.load(Ordering::Relaxed),
            others: c.others.load(Ordering::Relaxed),
            bytes_read: c.bytes_read.load(Ordering::Relaxed),
            bytes_written: c.bytes_written.load(Ordering::Relaxed),
            errors: c.errors.load(Ordering::Relaxed),
            recovered: self.shared.seen.lock().1,
        }
    }

    /// Answers the requests that were taken and lets go of all devices. They stay, with their links: requests wait until a process
    /// takes them over.
    pub fn stop(&self) {
        *self.shared.stopping.lock() = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        let served = std::mem::take(&mut *self.shared.served.lock());
        served.into_values().for_each(Served::leave);
    }
}

impl Shared {
    fn run(&self, mut looked: Looked) {
        let _ = become_io_flusher();
        let mut soon = false;
        loop {
            let mut stopping = self.stopping.lock();
            if !*stopping {
                self.wake.wait_for(&mut stopping, if soon { SOON } else { FOLLOW });
            }
            if *stopping {
                return;
            }
            drop(stopping);
            soon = self.look(&mut looked);
        }
    }

    /// Devices that look like ours and are of none of the exports: of another process, or of a group that is not in service.
    fn mention_others(&self) {
        let names = self.exports.list().into_iter();
        let marks: Vec<u64> =
            names.filter_map(|(name, _)| self.exports.open(&name)).map(|e| mark_of(&e)).collect();
        for info in self.driver.all().unwrap_or_default() {
            if choice::is_ours(&info) && !marks.contains(&info.mark) {
                let path = path_of(info.id);
                tracing::info!(path = %path.display(), pid = info.pid, "a block device of another process or group");
            }
        }
    }

    /// Makes devices what the exports are, and says what could not be done, each once. Whether to look again soon.
    fn look(&self, looked: &mut Looked) -> bool {
        let undone = self.follow();
        let mut errors: Vec<String> = undone.errors.iter().map(ToString::to_string).collect();
        if undone.held.is_empty() {
            looked.held = None;
        }
        let late =
            !undone.held.is_empty() && looked.held.get_or_insert_with(Instant::now).elapsed() >= PATIENCE;
        if late {
            errors.extend(undone.held.iter().map(|id| {
                let path = path_of(*id);
                format!("{}: the kernel still holds it for the process that has ended", path.display())
            }));
        }
        for why in errors.iter().filter(|why| !looked.said.contains(*why)) {
            tracing::error!(why, "a virtual drive is no block device as it should be");
        }
        looked.said = errors;
        !undone.held.is_empty() && !late
    }

    fn follow(&self) -> Undone {
        let mut served = self.served.lock();
        let names: Vec<String> = self.exports.list().into_iter().map(|(name, _)| name).collect();
        let mut wanted: BTreeMap<String, Export> =
            names.into_iter().filter_map(|name| Some((name.clone(), self.exports.open(&name)?))).collect();
        let gone: Vec<String> = served
            .iter()
            .filter(|(name, one)| wanted.get(*name).is_none_or(|export| !one.serves(&export.device)))
            .map(|(name, _)| name.clone())
            .collect();
        let mut undone = Undone::default();
        for (name, one) in gone.into_iter().filter_map(|name| Some((name.clone(), served.remove(&name)?))) {
            self.links.remove(&name, &one.path());
            self.seen.lock().0.remove(&name);
            let path = one.path();
            match one.delete(&self.driver) {
                Ok(()) => tracing::info!(name, path = %path.display(), "a block device was deleted"),
                // The next look finds it with the mark, if it is wanted again.
                Err(error) => undone.errors.push(error),
            }
        }
        wanted.retain(|name, _| !served.contains_key(name));
        if wanted.is_empty() {
            return undone;
        }
        let all = match self.driver.all() {
            Ok(all) => all,
            Err(error) => {
                undone.errors.push(Error::Device { what: "/dev".to_owned(), error });
                return undone;
            }
        };
        for (name, export) in wanted {
            match self.make(&name, &export, &all, &mut undone.held) {
                Ok(Some(one)) => drop(served.insert(name, one)),
                Ok(None) => {}
                Err(error) => undone.errors.push(error),
            }
        }
        undone
    }

    /// Makes the device of an export, or takes it over. `None`: not now.
    fn make(
        &self,
        name: &str,
        export: &Export,
        all: &[Info],
        held: &mut Vec<u32>,
    ) -> Result<Option<Served>, Error> {
        let link = self.links.path(name);
        let link = link.map_err(|error| Error::Folder { path: self.links.folder().join(name), error })?;
        let mark = mark_of(export);
        let made = match choose(all, mark, runs) {
            Choice::Add => Some(Served::add(&self.driver, export, mark, self.queues, &self.counters)?),
            Choice::Recover(info) => {
                let taken = Served::recover(&self.driver, &info, export, &self.counters)?;
                match &taken {
                    Some(_) => self.seen.lock().1 += 1,
                    None => held.push(info.id),
                }
                taken
            }
            Choice::Wait(id) => {
                held.push(id);
                None
            }
            Choice::Remove(id) => {
                if !is_held(id) {
                    let what = path_of(id).display().to_string();
                    self.driver.delete(id).map_err(|error| Error::Device { what, error })?;
                }
                held.push(id);
                None
            }
            Choice::Refuse(why) => return Err(Error::Refused(format!("{name}: {why}"))),
        };
        if let Some(one) = &made {
            let path = one.path();
            tracing::info!(name, path = %path.display(), link = %link.display(), "a virtual drive is a block device");
            // It is there without its name.
            if let Err(error) = self.links.set(name, &path) {
                tracing::error!(link = %link.display(), %error, "a block device has no link");
            }
            self.seen.lock().0.insert(name.to_owned(), path);
        }
        Ok(made)
    }
}

fn mark_of(export: &Export) -> u64 {
    choice::mark(export.device.identity(), &export.name)
}

/// Whether there is a process with this number, other than this one.
fn runs(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
