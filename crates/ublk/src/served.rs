//! One device that this process serves: how it is made, taken over, left and deleted.
//!
//! Invariants: after [`Served::leave`] and [`Served::delete`] no request is under way, no thread is left, and the driver may be asked for
//! the device by another process; a device that could not be made does not stay.
//!
//! Must not depend on: the list of exports.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ashlar_environment::{thread, time::Instant};
use ashlar_machine::UblkChannel;
use ashlar_nbd::{Device, Export};

use crate::driver::{Driver, EINVAL, Info, Parameters};
use crate::error::Error;
use crate::pool::Pool;
use crate::queue::{Answers, Job, Queue};
use crate::request::{Counters, PIECE, SECTOR, execute};

/// Requests of a queue.
const DEPTH: u16 = 128;
/// The most sectors in one request to discard or to write zeros: the work of a request is bounded.
const MOST_CLEARED: u32 = (256 << 20) / SECTOR as u32;
/// Time until the file of a new device has to be there.
const APPEAR: Duration = Duration::from_secs(5);
/// Milliseconds after which the kernel asks whether a request's process has ended. Without it, a device whose requests were all under
/// way when its process was killed waits 30 s (Linux before 6.15).
const NOTICE_MS: &str = "2000";

/// A device with its threads.
pub(crate) struct Served {
    id: u32,
    device: Arc<dyn Device>,
    queues: Vec<(Arc<Answers>, thread::JoinHandle<()>)>,
    pool: Arc<Pool<Job>>,
}

/// Where the block device with a number is.
pub(crate) fn path_of(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

fn failed(id: u32, what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{}: {what}", path_of(id).display());
    move |error| Error::Device { what, error }
}

impl Served {
    /// Makes a new device.
    pub(crate) fn add(
        driver: &Driver,
        export: &Export,
        mark: u64,
        queues: u16,
        counters: &Arc<Counters>,
    ) -> Result<Served, Error> {
        let info = driver.add(&Info::new(mark, queues, DEPTH, PIECE as u32)).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::PermissionDenied => Error::Denied(error.to_string()),
            _ => Error::Device { what: "a new ublk device".to_owned(), error },
        })?;
        let made = Served::make(driver, &info, export, counters);
        if made.is_err()
            && let Err(error) = driver.delete(info.id)
        {
            tracing::warn!(id = info.id, %error, "a ublk device that failed stays");
        }
        made
    }

    fn make(
        driver: &Driver,
        info: &Info,
        export: &Export,
        counters: &Arc<Counters>,
    ) -> Result<Served, Error> {
        if let Some(missing) = info.lacks() {
            return Err(Error::OldDriver { missing });
        }
        let (_, preferred, _) = export.device.block_sizes();
        let parameters = Parameters {
            sectors: export.device.size() / SECTOR,
            read_only: export.device.read_only(),
            physical: preferred.max(SECTOR as u32),
            most: info.most / SECTOR as u32,
            most_cleared: MOST_CLEARED,
        };
        driver.set(info.id, &parameters).map_err(failed(info.id, "its parameters"))?;
        let served = Served::begin(info, export, counters).map_err(failed(info.id, "its queues"))?;
        match driver.start(info.id) {
            Ok(()) => {
                notice_soon(info.id);
                Ok(served)
            }
            Err(error) => {
                served.leave();
                Err(failed(info.id, "its start")(error))
            }
        }
    }

    /// Takes over a device of a process that has ended. `None`: the kernel does not permit it yet.
    pub(crate) fn recover(
        driver: &Driver,
        info: &Info,
        export: &Export,
        counters: &Arc<Counters>,
    ) -> Result<Option<Served>, Error> {
        let sectors = driver.sectors(info.id).map_err(failed(info.id, "its parameters"))?;
        // A virtual drive that has grown: the device keeps its size.
        if sectors > export.device.size() / SECTOR {
            return Err(Error::Refused(format!(
                "{} has {sectors} sectors, and the virtual drive {} only: delete the device",
                path_of(info.id).display(),
                export.device.size() / SECTOR
            )));
        }
        match driver.start_recovery(info.id) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(None),
            // A process has ended after it had begun to take the device over, before any of its queues was ready.
            Err(error) if error.raw_os_error() == Some(EINVAL) => {
                tracing::warn!(id = info.id, "a process has ended while it took over this device");
            }
            Err(error) => return Err(failed(info.id, "the begin of its recovery")(error)),
        }
        let served = Served::begin(info, export, counters).map_err(failed(info.id, "its queues"))?;
        match driver.end_recovery(info.id) {
            Ok(()) => {
                notice_soon(info.id);
                Ok(Some(served))
            }
            Err(error) => {
                served.leave();
                Err(failed(info.id, "the end of its recovery")(error))
            }
        }
    }

    /// Opens the device and starts its threads; all of them are ready for requests.
    fn begin(info: &Info, export: &Export, counters: &Arc<Counters>) -> io::Result<Served> {
        let channel = open(info.id)?;
        let (device, counters) = (export.device.clone(), counters.clone());
        let pool = Pool::new(Box::new(move |job: Job| {
            let result = execute(&*device, &counters, job.asked, &job);
            job.answer(result);
        }));
        let (told, ready) = mpsc::channel();
        let mut served = Served { id: info.id, device: export.device.clone(), queues: Vec::new(), pool };
        let started = (0..info.queues).try_for_each(|number| {
            let answers = Answers::new()?;
            let (channel, pool) = (channel.clone(), served.pool.clone());
            let queue = Queue { channel, number, depth: info.depth, answers: answers.clone(), pool };
            let told = told.clone();
            let thread = thread::start("ublk-queue", None, move || queue.run(&told))?;
            served.queues.push((answers, thread));
            Ok(())
        });
        drop(told);
        let started = started.and_then(|()| {
            let broke = || io::Error::other("its thread has ended");
            served.queues.iter().try_for_each(|_| ready.recv().map_err(|_| broke())?)
        });
        match started {
            Ok(()) => Ok(served),
            Err(error) => {
                served.leave();
                Err(error)
            }
        }
    }

    /// Whether this is its device.
    pub(crate) fn serves(&self, device: &Arc<dyn Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Where the block device is.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(self.id)
    }

    /// Answers the requests that were taken and lets go of the device, which waits for the next process.
    pub(crate) fn leave(self) {
        self.queues.iter().for_each(|(answers, _)| answers.stop());
        for (_, thread) in self.queues {
            let _ = thread.join();
        }
        self.pool.finish();
    }

    /// Answers the requests that were taken and deletes the device; others fail, also for whoever has it open.
    pub(crate) fn delete(self, driver: &Driver) -> Result<(), Error> {
        let id = self.id;
        // The threads answer meanwhile.
        let stopped = driver.stop(id);
        self.leave();
        stopped.and_then(|()| driver.delete(id)).map_err(failed(id, "its end"))
    }
}

/// Opens the driver's side of a device, whose file may appear a moment after the device.
fn open(id: u32) -> io::Result<Arc<UblkChannel>> {
    let since = Instant::now();
    loop {
        match UblkChannel::open(id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && since.elapsed() < APPEAR => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Without it, only the takeover after some kills takes longer.
fn notice_soon(id: u32) {
    let _ = std::fs::write(format!("/sys/block/ublkb{id}/queue/io_timeout"), NOTICE_MS);
}
