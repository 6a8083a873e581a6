//! A drive with the machine that serves it: it answers, it stands still, it loses power.
//!
//! Invariants: what was answered is on the medium after a power cut; of what was written after the last answer any
//! part may be lost. A host that is down answers nothing. What a drive said before a power cut never leaves it
//! afterwards.
//!
//! Must not depend on: the network.

use std::future::Future;
use std::time::Duration;

use ashlar_drive::{Drive, Error, Label, Options, Result, Role, Status};
use ashlar_environment::random::Seeded;
use ashlar_environment::time::{Instant, sleep, sleep_until};
use ashlar_format::{DeploymentId, DriveId, GroupId};
use ashlar_machine::{BufferPool, Crash, Folder, SimDisk};
use parking_lot::Mutex;

/// The deployment of all simulated drives.
pub const DEPLOYMENT: DeploymentId = DeploymentId([0xd; 16]);

/// A drive and its machine.
pub struct Host {
    /// Its label.
    pub label: Label,
    state: Mutex<State>,
    options: Options,
    /// False: it answers before it has flushed (a mutant).
    flushes: bool,
}

struct State {
    disk: SimDisk,
    drive: Option<Drive>,
    /// How often it was opened.
    life: u32,
    /// Everything up to this place of the disk's log was answered.
    answered: usize,
    stands_until: Instant,
    dice: Seeded,
}

fn options() -> Options {
    let mut o = Options::new(BufferPool::new(64 << 20));
    o.segment_bytes = 256 << 10;
    o.journal_segment_bytes = 128 << 10;
    o.reserve_bytes = 1 << 20;
    o.cache_bytes = 256 << 10;
    o.direct = false;
    o
}

impl Host {
    /// A blank drive, formatted; `groups`: those that it holds from the beginning.
    ///
    /// # Panics
    /// When a simulated disk cannot be formatted.
    #[must_use]
    pub fn new(id: DriveId, groups: &[(GroupId, Role)], seed: u64, flushes: bool) -> Host {
        let label = Label { deployment: DEPLOYMENT, drive: id, created_ms: 1 };
        let disk = SimDisk::new(1 << 40);
        let folder = Folder::simulated(&disk, None);
        let options = options();
        let first = options.journal_segment_bytes;
        let formatted = ashlar_drive::format_folder(&folder, &label, groups, first);
        formatted.expect("a simulated disk");
        let drive = Drive::open_folder(&folder, &options, false).expect("a new drive");
        let state = State {
            answered: disk.position(),
            disk,
            drive: Some(drive),
            life: 1,
            stands_until: Instant::now(),
            dice: Seeded::new(seed),
        };
        Host { label, state: Mutex::new(state), options, flushes }
    }

    /// The drive, if it is in service.
    #[must_use]
    pub fn drive(&self) -> Option<Drive> {
        self.state.lock().drive.clone()
    }

    /// How often it was opened.
    #[must_use]
    pub fn life(&self) -> u32 {
        self.state.lock().life
    }

    /// Does `work` with the drive and answers when the answer leaves the machine; `None`: it never does.
    pub async fn serve<T, F: Future<Output = Result<T>>>(
        &self,
        work: impl FnOnce(Drive, u32) -> F,
    ) -> Option<(Result<T>, Status)> {
        let until = self.state.lock().stands_until;
        sleep_until(until).await;
        let (drive, life, pause) = {
            let mut s = self.state.lock();
            let pause = 20 + s.dice.below(800);
            (s.drive.clone()?, s.life, pause)
        };
        let answer = work(drive.clone(), life).await;
        drive.pump();
        let (at, status) = (self.state.lock().disk.position(), status(&drive));
        drop(drive);
        sleep(Duration::from_micros(pause)).await;
        let mut s = self.state.lock();
        if s.life != life || s.drive.is_none() {
            return None;
        }
        if self.flushes {
            s.answered = s.answered.max(at);
        }
        Some((answer, status))
    }

    /// How it is, if it is in service.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.drive().map(|d| status(&d))
    }

    /// It stands still.
    pub fn stand(&self, time: Duration) {
        self.state.lock().stands_until = Instant::now() + time;
    }

    /// It loses power. Of what was not answered yet any part may be on the medium.
    pub fn cut(&self) {
        let s = &mut *self.state.lock();
        let Some(drive) = s.drive.take() else { return };
        let unanswered = (s.disk.position() - s.answered) as u64;
        let from = if self.flushes { s.answered } else { 0 };
        let span = if self.flushes { unanswered } else { s.disk.position() as u64 };
        let at = from + s.dice.below(span + 1) as usize;
        s.image(at);
        drop(drive);
    }

    /// The place of the log at which it is now.
    #[must_use]
    pub fn position(&self) -> usize {
        self.state.lock().disk.position()
    }

    /// It loses power and comes back as it was at an earlier place of its log.
    pub fn go_back(&self, at: usize) {
        let s = &mut *self.state.lock();
        let drive = s.drive.take();
        s.image(at);
        drop(drive);
    }

    /// It is gone for good: its medium with it.
    pub fn lose(&self) {
        let drive = self.state.lock().drive.take();
        drop(drive);
    }

    /// Its power is back.
    ///
    /// # Errors
    /// What opening the drive ends with, and damage that it finds: a power cut makes none.
    pub fn start(&self) -> std::result::Result<(), String> {
        let mut s = self.state.lock();
        if s.drive.is_some() {
            return Ok(());
        }
        let folder = Folder::simulated(&s.disk, None);
        let drive = Drive::open_folder(&folder, &self.options, false)
            .map_err(|e| format!("drive {} does not open after a power cut: {e}", self.label.drive))?;
        let damage = drive.damage();
        if !damage.is_empty() && self.flushes {
            return Err(format!("drive {} is damaged after a power cut: {damage:?}", self.label.drive));
        }
        drive.pump();
        s.life += 1;
        s.answered = s.disk.position();
        s.drive = Some(drive);
        Ok(())
    }

    /// What a drive does by itself.
    ///
    /// # Errors
    /// What its upkeep ends with.
    pub fn chores(&self) -> Result<()> {
        let Some(drive) = self.drive() else { return Ok(()) };
        drive.pump();
        drive.tick();
        drive.upkeep()?;
        drive.pump();
        Ok(())
    }
}

impl State {
    fn image(&mut self, at: usize) {
        let mut crash = Crash::new(&self.disk);
        crash.advance(at);
        let dice = &mut self.dice;
        self.disk = crash.image(|| dice.next());
        self.disk.resume();
        self.life += 1;
    }
}

fn status(drive: &Drive) -> Status {
    let stats = ashlar_drive::Stats { free: 1 << 40, ..ashlar_drive::Stats::default() };
    Status { stats, ..drive.status() }
}

/// Of a session that a power cut ended.
#[must_use]
pub fn ended() -> Error {
    Error::Offline("the session ended")
}
