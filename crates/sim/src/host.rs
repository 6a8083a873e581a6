//! A host: a drive and the machine that serves it. It answers requests, pauses and loses power.
//!
//! Invariants: everything that was acknowledged is on the medium after a power cut; any part of what was
//! written after the last answer may be lost. A host without power answers nothing. An answer that was not
//! sent before a power cut is never sent. Reads of the medium fail or return wrong bytes only while its faults say so.
//!
//! Must not depend on: the network.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::{Drive, Label, Options, Result, Role, Status};
use ashlar_environment::random::Seeded;
use ashlar_environment::time::{Instant, sleep, sleep_until};
use ashlar_format::{Ballot, DeploymentId, DriveId, GroupId};
use ashlar_machine::{BufferPool, Crash, Faults, Folder, SimDisk};
use ashlar_remote::wire::Heard;
use ashlar_remote::{Caller, Served};
use parking_lot::Mutex;

/// The deployment of all simulated drives.
pub const DEPLOYMENT: DeploymentId = DeploymentId([0xd; 16]);

/// The size of a medium.
const PLENTY: u64 = 1 << 40;

/// A drive and its machine.
pub struct Host {
    /// Its label.
    pub label: Label,
    state: Mutex<State>,
    options: Options,
    /// What its medium does wrong.
    pub faults: Arc<Faults>,
    /// False: it answers before it has flushed (a mutant).
    flushes: bool,
}

/// What became of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The drive is served, or was already.
    Served,
    /// The drive stays off: it must not vote, and is to be started with [`Host::start_joining`].
    MustJoin,
    /// The drive stays off: its medium has no room for the record that it does not vote. It is to be started again.
    NoRoom,
}

struct State {
    disk: SimDisk,
    drive: Option<Drive>,
    /// It joins before it is served, because of what it lost.
    must_join: bool,
    /// It stays off until it has room.
    waits_for_room: bool,
    /// The drive as coordinators reach it; the sessions of a machine end with its power.
    served: Served,
    /// How many times the drive was opened.
    incarnation: u32,
    /// The position in the log of the disk when the drive was opened.
    opened: usize,
    /// The position up to which everything was acknowledged.
    answered: usize,
    stands_until: Instant,
    rng: Seeded,
}

fn options() -> Options {
    let mut o = Options::new(BufferPool::new(64 << 20));
    o.segment_bytes = 128 << 10;
    o.journal_segment_bytes = 64 << 10;
    o.reserve_bytes = 1 << 20;
    o.cache_bytes = 256 << 10;
    o.direct = false;
    o
}

impl Host {
    /// A newly formatted drive; `groups`: the groups that it has from the beginning.
    ///
    /// # Panics
    /// If the simulated disk cannot be formatted.
    #[must_use]
    pub fn new(id: DriveId, groups: &[(GroupId, Role)], seed: u64, flushes: bool) -> Host {
        let label = Label { deployment: DEPLOYMENT, drive: id, created_ms: 1 };
        let disk = SimDisk::new(PLENTY);
        let faults = Arc::new(Faults::new());
        let folder = Folder::simulated(&disk, Some(faults.clone()));
        let options = options();
        let first = options.journal_segment_bytes;
        let formatted = ashlar_drive::format_folder(&folder, &label, groups, first);
        formatted.expect("a simulated disk");
        let drive = Drive::open_folder(&folder, &options, false).expect("a new drive");
        let state = State {
            opened: disk.position(),
            answered: disk.position(),
            disk,
            served: served(&drive),
            drive: Some(drive),
            must_join: false,
            waits_for_room: false,
            incarnation: 1,
            stands_until: Instant::now(),
            rng: Seeded::new(seed),
        };
        Host { label, state: Mutex::new(state), options, faults, flushes }
    }

    /// The drive, if it is in service.
    #[must_use]
    pub fn drive(&self) -> Option<Drive> {
        self.state.lock().drive.clone()
    }

    /// A process of a coordinator ended.
    pub fn ended(&self, caller: Caller) {
        self.state.lock().served.ended(caller);
    }

    /// Runs `work` with the served drive, and returns its answer when the machine sends it; `None`: it is never
    /// sent.
    pub async fn serve<T, F: Future<Output = T>>(&self, work: impl FnOnce(Served) -> F) -> Option<T> {
        let until = self.state.lock().stands_until;
        sleep_until(until).await;
        let (drive, served, incarnation, pause) = {
            let mut s = self.state.lock();
            let pause = 20 + s.rng.below(800);
            (s.drive.clone()?, s.served.clone(), s.incarnation, pause)
        };
        let answer = work(served).await;
        drive.pump_queued();
        let at = self.state.lock().disk.position();
        drop(drive);
        sleep(Duration::from_micros(pause)).await;
        let mut s = self.state.lock();
        if s.incarnation != incarnation || s.drive.is_none() {
            return None;
        }
        if self.flushes {
            s.answered = s.answered.max(at);
        }
        Some(answer)
    }

    /// What a coordinator knows of the drive before it has heard from it: if it is not in service, that it is in
    /// `groups`.
    #[must_use]
    pub fn heard(&self, groups: &[GroupId]) -> Heard {
        let unheard = || Status {
            state: ashlar_drive::State::Online,
            held: groups.iter().map(|group| (*group, Role::Voter, 0)).collect(),
            floor: Ballot::ZERO,
            stats: ashlar_drive::Stats { free: 1 << 40, ..ashlar_drive::Stats::default() },
        };
        let status = self.drive().map_or_else(unheard, |drive| drive.status());
        let path = format!("sim:/{:02x}", self.label.drive.0[0]);
        Heard { label: self.label, path, status, oldest: Duration::ZERO }
    }

    /// Pauses the machine.
    pub fn pause(&self, time: Duration) {
        self.state.lock().stands_until = Instant::now() + time;
    }

    /// Cuts the power. Any part of what was not yet acknowledged may be on the medium.
    pub fn cut_power(&self) {
        let s = &mut *self.state.lock();
        let Some(drive) = s.drive.take() else { return };
        // What reads it next is another process.
        self.faults.clear();
        let served = std::mem::take(&mut s.served);
        let unanswered = (s.disk.position() - s.answered) as u64;
        let from = if self.flushes { s.answered } else { 0 };
        let span = if self.flushes { unanswered } else { s.disk.position() as u64 };
        let at = from + s.rng.below(span + 1) as usize;
        s.image(at);
        drop((drive, served));
    }

    /// The present position in the log of the disk.
    #[must_use]
    pub fn position(&self) -> usize {
        self.state.lock().disk.position()
    }

    /// Leaves this much room on the medium, in bytes; `None`: plenty.
    pub fn limit_room(&self, room: Option<u64>) {
        let disk = &self.state.lock().disk;
        disk.set_limit(room.map_or(PLENTY, |room| disk.used() + room));
    }

    /// Cuts the power; everything that was written after a random moment since the drive was opened is lost, also what
    /// was acknowledged: a volatile cache, or an older image. Returns false if it has no power.
    pub fn lose_writes(&self) -> bool {
        let at = {
            let s = &mut *self.state.lock();
            if s.drive.is_none() {
                return false;
            }
            let span = s.disk.position() - s.opened;
            s.opened + s.rng.below(span as u64 + 1) as usize
        };
        self.go_back(at);
        true
    }

    /// Cuts the power and restores the disk to an earlier position of its log.
    pub fn go_back(&self, at: usize) {
        let s = &mut *self.state.lock();
        let (drive, served) = (s.drive.take(), std::mem::take(&mut s.served));
        s.image(at);
        drop((drive, served));
    }

    /// Destroys the drive with its medium.
    pub fn destroy(&self) {
        let gone = {
            let s = &mut *self.state.lock();
            (s.drive.take(), std::mem::take(&mut s.served))
        };
        drop(gone);
    }

    /// Whether it stays off until its medium has room.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.state.lock().waits_for_room
    }

    /// Restores the power. A drive that is damaged because its medium did something wrong stays off.
    ///
    /// # Errors
    /// The error of opening the drive, or damage that it reports: a power cut must not cause damage.
    pub fn start(&self) -> std::result::Result<Start, String> {
        if self.state.lock().must_join {
            return Ok(Start::MustJoin);
        }
        let drive = match self.open() {
            Ok(Some(drive)) => drive,
            Ok(None) => return Ok(Start::Served),
            // It is damaged, and its votes end durably when it is opened.
            Err(ashlar_drive::Error::Full) if self.faults.affected() > 0 => return Ok(self.no_room()),
            Err(e) => return Err(format!("drive {} does not open after a power cut: {e}", self.label.drive)),
        };
        let damage = drive.damage();
        if damage.is_empty() || !self.flushes {
            self.put_in_service(drive);
            return Ok(Start::Served);
        }
        if self.faults.affected() > 0 {
            return Ok(Start::MustJoin);
        }
        Err(format!("drive {} is damaged after a power cut: {damage:?}", self.label.drive))
    }

    /// Restores the power; the drive durably loses its votes, in the layout of `epoch`, before it is served.
    ///
    /// # Errors
    /// The error of opening the drive, or of making it joining.
    pub async fn start_joining(&self, epoch: u32) -> std::result::Result<Start, String> {
        self.state.lock().must_join = true;
        let opened = match self.open() {
            Ok(None) => return Ok(Start::Served),
            Ok(Some(drive)) => drive,
            Err(ashlar_drive::Error::Full) if self.faults.affected() > 0 => return Ok(self.no_room()),
            Err(e) => return Err(format!("drive {} does not open: {e}", self.label.drive)),
        };
        let held: Vec<(GroupId, u32)> = opened.held().into_iter().map(|(group, _)| (group, epoch)).collect();
        match opened.set_joining(&held).await {
            Ok(()) => {}
            Err(ashlar_drive::Error::Full) => return Ok(self.no_room()),
            Err(e) => return Err(format!("drive {} does not lose its votes: {e}", self.label.drive)),
        }
        self.put_in_service(opened);
        Ok(Start::Served)
    }

    fn no_room(&self) -> Start {
        self.state.lock().waits_for_room = true;
        Start::NoRoom
    }

    fn open(&self) -> Result<Option<Drive>> {
        let s = self.state.lock();
        if s.drive.is_some() {
            return Ok(None);
        }
        // A drive that cannot be opened for a while is opened again; here, at once.
        self.faults.clear();
        let folder = Folder::simulated(&s.disk, Some(self.faults.clone()));
        let drive = Drive::open_folder(&folder, &self.options, false)?;
        drive.pump();
        Ok(Some(drive))
    }

    fn put_in_service(&self, drive: Drive) {
        let s = &mut *self.state.lock();
        s.incarnation += 1;
        s.answered = s.disk.position();
        s.opened = s.answered;
        s.served = served(&drive);
        s.drive = Some(drive);
        (s.must_join, s.waits_for_room) = (false, false);
    }

    /// Runs the maintenance of the drive.
    ///
    /// # Errors
    /// The error of the maintenance, unless the medium was made to do something wrong.
    pub fn maintain(&self) -> Result<()> {
        let Some(drive) = self.drive() else { return Ok(()) };
        drive.pump();
        drive.tick();
        match drive.upkeep() {
            Err(e) if self.faults.affected() == 0 && e != ashlar_drive::Error::Full => return Err(e),
            _ => {}
        }
        drive.pump();
        Ok(())
    }
}

impl State {
    fn image(&mut self, at: usize) {
        let mut crash = Crash::new(&self.disk);
        crash.advance(at);
        let rng = &mut self.rng;
        self.disk = crash.image(|| rng.next());
        self.disk.resume();
        self.incarnation += 1;
    }
}

fn served(drive: &Drive) -> Served {
    let served = Served::default();
    served.set([drive.clone()]);
    served
}
