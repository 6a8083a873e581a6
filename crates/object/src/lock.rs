//! Object lock: what protects a version, and until when.
//!
//! One check runs wherever version lists are replaced ([`guard`]), so that no present or future operation
//! removes or weakens a lock.
//!
//! Invariants: a version under legal hold, or under retention that has not ended, stays with its data and its
//! lock, except that callers with the bypass permission override GOVERNANCE; a retention may always be
//! extended and otherwise never shortened; the time for locks is [`LockTime`], which does not run ahead if a
//! wall clock is set forward.
//!
//! Rules: Amazon S3 User Guide, "Locking objects with Object Lock".
//!
//! Must not depend on: who may bypass, what a bucket's default is.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{Control, Update};
use ashlar_environment::time::Clock;
use ashlar_format::{Retention, Version};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The key of the stored lock time.
const KEY: &str = "lock-time";
/// When the lock time is behind the wall clock, it gains one part in this many: a week in a year.
const CATCH_UP: i64 = 52;

/// The lock time: it advances with the machine's uptime, not with its wall clock.
///
/// At the first use it equals the wall clock. From then on it is never ahead of the wall clock, and gains at
/// most one part in [`CATCH_UP`] on uptime while it is behind. So a clock that is set forward releases
/// nothing early (a week in a year at most). In return, locks last longer by the time in which the machine
/// was off, until that is made up for. After NetApp's ComplianceClock.
pub(crate) struct LockTime {
    clock: Arc<dyn Clock>,
    at: Mutex<At>,
}

/// The lock time at a point of uptime.
struct At {
    ms: i64,
    uptime: Duration,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    ms: i64,
}

impl LockTime {
    /// Continues from the stored time.
    pub fn open(control: &Control, clock: Arc<dyn Clock>) -> Result<LockTime> {
        let ms = stored(control.read(KEY).bytes())?.unwrap_or_else(|| clock.wall_ms());
        let at = Mutex::new(At { ms, uptime: clock.elapsed() });
        Ok(LockTime { clock, at })
    }

    /// Milliseconds since 1970, never later than the wall clock.
    pub fn now_ms(&self) -> i64 {
        let mut at = self.at.lock();
        let (wall, uptime) = (self.clock.wall_ms(), self.clock.elapsed());
        let passed = i64::try_from(uptime.saturating_sub(at.uptime).as_millis()).unwrap_or(0);
        if passed > 0 {
            at.uptime = uptime;
            let on = at.ms.saturating_add(passed);
            // The whole step counts, so that short steps lose at most one part in CATCH_UP.
            at.ms = if on < wall { wall.min(on.saturating_add(passed / CATCH_UP)) } else { on };
        }
        at.ms.min(wall)
    }

    /// Stores the time.
    pub async fn save(&self, control: &Control) -> Result<()> {
        let ms = self.now_ms();
        let json =
            serde_json::to_vec(&Stored { format: 1, ms }).map_err(|e| Error::Internal(e.to_string()))?;
        let json = Bytes::from(json);
        // It never goes back: a server that is behind does not overwrite a later stored time.
        let advance = |update: &mut Update| {
            let entry = control.read(KEY);
            if stored(entry.bytes())?.is_none_or(|before| before < ms) {
                update.set(&entry, json.clone());
            }
            Ok(())
        };
        control.change(advance).await
    }
}

/// The stored time, in milliseconds since 1970.
fn stored(bytes: Option<&Bytes>) -> Result<Option<i64>> {
    let Some(bytes) = bytes else { return Ok(None) };
    match serde_json::from_slice(bytes) {
        Ok(Stored { format: 1, ms }) => Ok(Some(ms)),
        _ => Err(Error::Internal("the stored time of locks cannot be read".into())),
    }
}

/// The permissions of an operation on locks.
#[derive(Clone, Copy, Default)]
pub(crate) struct LockPermissions {
    /// Bypasses retention in GOVERNANCE mode.
    pub bypass: bool,
    /// The operation changes the legal hold.
    pub hold: bool,
}

/// The retention of a version that has not ended.
fn active(v: &Version, now_ms: i64) -> Option<&Retention> {
    v.retention.as_ref().filter(|r| now_ms < r.until_ms)
}

/// Whether a lock of any kind protects a version at `now_ms`.
pub(crate) fn is_locked(v: &Version, now_ms: i64) -> bool {
    v.legal_hold || active(v, now_ms).is_some()
}

/// Refuses a next list that lacks a locked version of the old one, or contains it with a weaker lock.
pub(crate) fn check_locks(
    old: &[Version],
    new: &[Version],
    now_ms: impl FnOnce() -> i64,
    permit: LockPermissions,
) -> Result<()> {
    if !old.iter().any(|v| v.legal_hold || v.retention.is_some()) {
        return Ok(());
    }
    let now_ms = now_ms();
    for v in old.iter().filter(|v| v.legal_hold || v.retention.is_some()) {
        // A null version that replaces another has the same id and other data.
        let same = |n: &&Version| {
            n.id == v.id && n.modified_ms == v.modified_ms && n.md5 == v.md5 && n.parts == v.parts
        };
        let kept = new.iter().find(same);
        if v.legal_hold && !kept.is_some_and(|n| n.legal_hold || permit.hold) {
            return Err(Error::Locked);
        }
        let Some(r) = active(v, now_ms) else { continue };
        let stronger = |n: &Retention| n.compliance == r.compliance && n.until_ms >= r.until_ms;
        let holds = kept.and_then(|n| n.retention.as_ref()).is_some_and(stronger);
        if !holds && (r.compliance || !permit.bypass) {
            return Err(Error::Locked);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_format::VersionId;

    #[derive(Default)]
    struct FakeClock(Mutex<(i64, u64)>);

    impl Clock for FakeClock {
        fn wall_ms(&self) -> i64 {
            self.0.lock().0
        }
        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.lock().1)
        }
    }

    const DAY: i64 = 86_400_000;

    fn at(ms: i64, clock: &Arc<FakeClock>) -> LockTime {
        let clock: Arc<dyn Clock> = clock.clone();
        LockTime { at: Mutex::new(At { ms, uptime: clock.elapsed() }), clock }
    }

    #[test]
    fn lock_time_does_not_follow_wall_clock_set_forward() {
        let clock = Arc::new(FakeClock::default());
        let set = |wall: i64, up: i64| *clock.0.lock() = (wall, up as u64);
        set(100 * DAY, 0);
        let time = at(100 * DAY, &clock);
        // In step while nothing happens.
        set(101 * DAY, DAY);
        assert_eq!(time.now_ms(), 101 * DAY);
        // A year forward: a fifty-second part of each day is gained, not a day more.
        set(466 * DAY, DAY);
        assert_eq!(time.now_ms(), 101 * DAY);
        set(467 * DAY, 2 * DAY);
        assert_eq!(time.now_ms(), 102 * DAY + DAY / 52);
        for hour in 1..=24 {
            set(467 * DAY + hour * DAY / 24, 2 * DAY + hour * DAY / 24);
            time.now_ms();
        }
        assert!(time.now_ms() <= 103 * DAY + 2 * (DAY / 52));
        // Set back: never ahead of the wall.
        set(50 * DAY, 3 * DAY);
        assert_eq!(time.now_ms(), 50 * DAY);
        // Off for ten days: behind, and caught up slowly.
        set(200 * DAY, 0);
        let time = at(190 * DAY, &clock);
        set(252 * DAY, 52 * DAY);
        assert_eq!(time.now_ms(), 243 * DAY);
    }

    /// Every lock, every operation, before and after the end: the decisions of the user guide.
    #[test]
    fn locked_versions_cannot_be_removed_or_weakened() {
        let modes = [None, Some((false, 10)), Some((true, 10))];
        let retention =
            |m: Option<(bool, i64)>| m.map(|(compliance, until_ms)| Retention { compliance, until_ms });
        let mut rows = 0;
        for mode in modes {
            for hold in [false, true] {
                for now in [9, 10] {
                    for bypass in [false, true] {
                        let v = Version {
                            id: VersionId([1; 16]),
                            retention: retention(mode),
                            legal_hold: hold,
                            md5: [1; 16],
                            ..Version::default()
                        };
                        let old = [v.clone()];
                        let active = mode.is_some() && now < 10;
                        let compliance = mode.is_some_and(|(c, _)| c);
                        let gives_way = !active || (!compliance && bypass);
                        let try_it = |new: &[Version], permit: LockPermissions| {
                            check_locks(&old, new, || now, permit).is_ok()
                        };
                        let plain = LockPermissions { bypass, hold: false };
                        let what = format!("{mode:?} hold {hold} now {now} bypass {bypass}");
                        // Removed, or replaced by other data under its id.
                        assert_eq!(try_it(&[], plain), !hold && gives_way, "remove: {what}");
                        let other = Version { md5: [2; 16], ..v.clone() };
                        assert_eq!(try_it(&[other], plain), !hold && gives_way, "replace: {what}");
                        // Kept, with something newer on top, other tags.
                        let newer = Version { id: VersionId([2; 16]), ..Version::default() };
                        let tagged = Version { tags: vec![("a".into(), "b".into())], ..v.clone() };
                        assert!(try_it(&[newer, tagged], plain), "keep: {what}");
                        // Hold lifted: only by what is about holds.
                        let lifted = Version { legal_hold: false, ..v.clone() };
                        assert_eq!(try_it(std::slice::from_ref(&lifted), plain), !hold, "lift: {what}");
                        assert!(
                            try_it(&[lifted], LockPermissions { bypass, hold: true }),
                            "lift rightly: {what}"
                        );
                        // Other retentions.
                        for (to, fine) in [
                            (None, gives_way),
                            (Some((false, 11)), gives_way || !compliance),
                            (Some((true, 11)), gives_way || compliance),
                            (Some((false, 9)), gives_way),
                            (Some((true, 9)), gives_way),
                            (mode, true),
                        ] {
                            let changed = Version { retention: retention(to), ..v.clone() };
                            assert_eq!(try_it(&[changed], plain), fine, "to {to:?}: {what}");
                            rows += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(rows, 3 * 2 * 2 * 2 * 6);
    }
}
