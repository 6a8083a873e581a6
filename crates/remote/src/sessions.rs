//! Shards that callers on other nodes have open on drives of this process.
//!
//! Invariants: a session belongs to one caller and one drive; it ends with [`Sessions::end`], with its caller, with its
//! first error, or [`IDLE`] after its last use. A shard whose session ends before its last frame is abandoned. A caller has
//! at most [`MOST`] sessions.
//!
//! Must not depend on: messages.

use std::sync::Arc;
use std::time::Duration;

use ashlar_drive::{Drive, Error, Result, ShardReader, ShardWriter};
use ashlar_environment::HashMap;
use ashlar_environment::time::Instant;
use ashlar_format::DriveId;
use parking_lot::Mutex;

use crate::serve::Caller;

/// How long a session may be unused.
pub const IDLE: Duration = Duration::from_secs(600);
/// How often unused sessions are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// The most sessions of one caller.
pub const MOST: usize = 65_536;

/// A shard that is being written. Its messages come one after the other; the lock keeps two copies of one apart.
pub type OpenWriter = Arc<tokio::sync::Mutex<Option<ShardWriter>>>;

enum Shard {
    Written(OpenWriter, Drive),
    Read(Arc<ShardReader>),
}

struct Session {
    shard: Shard,
    used: Instant,
}

/// Sessions of one caller, by drive and number.
type OfCaller = HashMap<(DriveId, u64), Session>;

struct Table {
    callers: HashMap<Caller, OfCaller>,
    swept: Instant,
}

/// All sessions.
pub struct Sessions(Mutex<Table>);

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions(Mutex::new(Table { callers: HashMap::default(), swept: Instant::now() }))
    }
}

impl Sessions {
    /// Begins a session that writes a shard.
    ///
    /// # Errors
    /// `Malformed`: the caller has a session with this number. `Offline`: it has too many.
    pub fn write(&self, at: (Caller, DriveId, u64), writer: ShardWriter, drive: Drive) -> Result<OpenWriter> {
        let writer = Arc::new(tokio::sync::Mutex::new(Some(writer)));
        self.begin(at, Shard::Written(writer.clone(), drive))?;
        Ok(writer)
    }

    /// Begins a session that reads a shard.
    ///
    /// # Errors
    /// Like [`Sessions::write`].
    pub fn read(&self, at: (Caller, DriveId, u64), reader: Arc<ShardReader>) -> Result<()> {
        self.begin(at, Shard::Read(reader))
    }

    fn begin(&self, (caller, drive, number): (Caller, DriveId, u64), shard: Shard) -> Result<()> {
        let ended = {
            let mut table = self.0.lock();
            let ended = table.idle();
            let of_caller = table.callers.entry(caller).or_default();
            if of_caller.len() >= MOST {
                return Err(Error::Offline("too many operations wait for the drive"));
            }
            if of_caller.contains_key(&(drive, number)) {
                return Err(Error::Malformed("the session exists"));
            }
            of_caller.insert((drive, number), Session { shard, used: Instant::now() });
            ended
        };
        // Abandoning a shard takes locks of its drive.
        drop(ended);
        Ok(())
    }

    /// The writer of a session, and its drive.
    ///
    /// # Errors
    /// `Offline`: there is no such session, or no longer.
    pub fn writer(&self, at: (Caller, DriveId, u64)) -> Result<(OpenWriter, Drive)> {
        self.used(at, |shard| match shard {
            Shard::Written(writer, drive) => Some((writer.clone(), drive.clone())),
            Shard::Read(_) => None,
        })
    }

    /// The reader of a session.
    ///
    /// # Errors
    /// Like [`Sessions::writer`].
    pub fn reader(&self, at: (Caller, DriveId, u64)) -> Result<Arc<ShardReader>> {
        self.used(at, |shard| match shard {
            Shard::Read(reader) => Some(reader.clone()),
            Shard::Written(..) => None,
        })
    }

    fn used<T>(
        &self,
        (caller, drive, number): (Caller, DriveId, u64),
        get: impl FnOnce(&Shard) -> Option<T>,
    ) -> Result<T> {
        let mut table = self.0.lock();
        let session = table.callers.get_mut(&caller).and_then(|of| of.get_mut(&(drive, number)));
        let found = session.and_then(|session| {
            session.used = Instant::now();
            get(&session.shard)
        });
        found.ok_or(Error::Offline(ENDED))
    }

    /// Ends a session, if it is there.
    pub fn end(&self, (caller, drive, number): (Caller, DriveId, u64)) {
        let ended = {
            let mut table = self.0.lock();
            let of_caller = table.callers.get_mut(&caller);
            let ended = of_caller.and_then(|of| of.remove(&(drive, number)));
            if table.callers.get(&caller).is_some_and(HashMap::is_empty) {
                table.callers.remove(&caller);
            }
            ended
        };
        drop(ended);
    }

    /// Ends all sessions of a caller.
    pub fn end_of(&self, caller: Caller) {
        let ended = self.0.lock().callers.remove(&caller);
        drop(ended);
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.0.lock().callers.values().map(HashMap::len).sum()
    }
}

/// The reason that a caller gets for a session that is not there.
pub const ENDED: &str = "the session ended";

impl Table {
    /// Takes out the sessions that were not used for [`IDLE`].
    fn idle(&mut self) -> Vec<Session> {
        if self.swept.elapsed() < SWEEP {
            return Vec::new();
        }
        self.swept = Instant::now();
        let mut ended = Vec::new();
        for of_caller in self.callers.values_mut() {
            let idle = of_caller.iter().filter(|(_, session)| session.used.elapsed() >= IDLE);
            let idle: Vec<_> = idle.map(|(at, _)| *at).collect();
            ended.extend(idle.iter().filter_map(|at| of_caller.remove(at)));
        }
        self.callers.retain(|_, of_caller| !of_caller.is_empty());
        ended
    }
}
