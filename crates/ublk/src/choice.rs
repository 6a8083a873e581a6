//! Whether an export needs a new device, or has one that an ended process has left.
//!
//! Invariants: a device is taken over only if it has the mark of the export and waits for a process; while any process may serve a
//! device with that mark, nothing is made or taken.
//!
//! Must not depend on: the driver's commands.

use crate::driver::{Info, State};

/// The upper 16 bits of the mark of our devices.
const OURS: u64 = 0xa51a << 48;

/// What to do for an export.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// Make a device.
    Add,
    /// Take this one over.
    Recover(Info),
    /// Look again soon: the kernel has not noticed yet that the process of this device has ended.
    Wait(u32),
    /// Delete this one, which a process has not finished to make, and look again.
    Remove(u32),
    /// Nothing, for this reason.
    Refuse(String),
}

/// By what the devices of an export are known: from its identity, or else from its name.
pub(crate) fn mark(identity: Option<[u8; 16]>, name: &str) -> u64 {
    let known = identity.as_ref().map_or(name.as_bytes(), |id| &id[..]);
    let sum = ashlar_checksum::sha256(&[b"ashlar ublk device", known].concat());
    OURS | sum[..6].iter().fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// Whether a device has a mark like ours.
pub(crate) fn is_ours(info: &Info) -> bool {
    info.mark >> 48 == OURS >> 48
}

/// What to do for the export with a mark. `runs`: whether there is a process with this number.
pub(crate) fn choose(all: &[Info], mark: u64, runs: impl Fn(i32) -> bool) -> Choice {
    let mine = || all.iter().filter(|info| info.mark == mark);
    let of = |state| mine().filter(move |info| info.state == state);
    if let Some(live) = of(State::Live).chain(of(State::Failing)).next() {
        return if live.pid > 0 && runs(live.pid) {
            Choice::Refuse(format!(
                "/dev/ublkb{} is this virtual drive already, and process {} serves it: end that process",
                live.id, live.pid
            ))
        } else {
            Choice::Wait(live.id)
        };
    }
    let mut waiting = of(State::Quiesced);
    match (waiting.next(), waiting.next()) {
        (Some(one), Some(other)) => Choice::Refuse(format!(
            "/dev/ublkb{} and /dev/ublkb{} both wait for this virtual drive: delete one of them",
            one.id, other.id
        )),
        (Some(one), None) => match one.lacks() {
            None => Choice::Recover(one.clone()),
            Some(missing) => Choice::Refuse(format!("/dev/ublkb{} lacks {missing}: delete it", one.id)),
        },
        _ => of(State::Dead).next().map_or(Choice::Add, |dead| Choice::Remove(dead.id)),
    }
}
