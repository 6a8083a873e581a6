//! Asymmetric namespace access (ANA): which namespaces a port serves well, badly or not at all (Base 8.1.1).
//!
//! * [`AnaState`]: the state of a group of namespaces at a port.
//! * [`AnaStates`]: states that are set while a server runs, for implementations of [`crate::Subsystem`].
//!
//! Must not depend on: controllers, connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::namespace::Subsystem;
use crate::status;

/// Bytes of the header of the ANA log page, and of a descriptor without its list of namespaces (Base 5.16.1.13).
pub(crate) const LOG_HEADER: usize = 16;
pub(crate) const DESCRIPTOR: usize = 32;
/// The bit of the log specific parameter that leaves lists of namespaces out (RGO).
pub(crate) const GROUPS_ONLY: u32 = 1;
/// Asynchronous event configuration and OAES: ANA change (Base 5.27.1.9).
pub(crate) const EVENTS: u32 = 1 << 11;
/// Groups of a subsystem, at most.
pub(crate) const MAX_GROUPS: u32 = 1024;

/// The state of access to an ANA group of namespaces through a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnaState {
    /// Commands are executed.
    #[default]
    Optimized,
    /// Commands are executed, more slowly than through another port.
    NonOptimized,
    /// No I/O command is executed. That may change.
    Inaccessible,
    /// No I/O command is executed, and none will be.
    PersistentLoss,
    /// It changes: no I/O command is executed until it has another state.
    Change,
}

impl AnaState {
    /// All states.
    pub const ALL: [AnaState; 5] = [
        AnaState::Optimized,
        AnaState::NonOptimized,
        AnaState::Inaccessible,
        AnaState::PersistentLoss,
        AnaState::Change,
    ];

    /// The number of the state in the log page.
    pub(crate) fn code(self) -> u8 {
        match self {
            AnaState::Optimized => 1,
            AnaState::NonOptimized => 2,
            AnaState::Inaccessible => 3,
            AnaState::PersistentLoss => 4,
            AnaState::Change => 0xf,
        }
    }

    /// The state of a number; none: it is reserved.
    pub(crate) fn of_code(code: u8) -> Option<AnaState> {
        match code {
            1 => Some(AnaState::Optimized),
            2 => Some(AnaState::NonOptimized),
            3 => Some(AnaState::Inaccessible),
            4 => Some(AnaState::PersistentLoss),
            0xf => Some(AnaState::Change),
            _ => None,
        }
    }

    /// The status with which I/O commands are refused, if they are.
    pub(crate) fn refusal(self) -> Option<u16> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(status::ANA_TRANSITION),
        }
    }

    /// Whether I/O commands are executed.
    #[must_use]
    pub fn is_accessible(self) -> bool {
        matches!(self, AnaState::Optimized | AnaState::NonOptimized)
    }
}

impl fmt::Display for AnaState {
    /// Its name in Linux's `ana_state`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnaState::Optimized => "optimized",
            AnaState::NonOptimized => "non-optimized",
            AnaState::Inaccessible => "inaccessible",
            AnaState::PersistentLoss => "persistent-loss",
            AnaState::Change => "change",
        })
    }
}

/// States by port and ANA group. What nobody has set is optimized.
///
/// Hosts that asked for it are told of a change within half a second; commands are judged by it at once.
#[derive(Default)]
pub struct AnaStates(Mutex<BTreeMap<(SocketAddr, u32), AnaState>>);

impl AnaStates {
    /// Sets the state of a group at a port, which is one of [`crate::Server::addresses`].
    pub fn set(&self, port: SocketAddr, group: u32, state: AnaState) {
        self.0.lock().insert((port, group), state);
    }

    /// The state of a group at a port.
    #[must_use]
    pub fn get(&self, port: SocketAddr, group: u32) -> AnaState {
        self.0.lock().get(&(port, group)).copied().unwrap_or_default()
    }
}

/// The states of the groups at a port, as far as a controller has looked.
#[derive(Default)]
pub(crate) struct Known {
    /// The state of each group, and how often it has changed.
    groups: Vec<(AnaState, u64)>,
    changes: u64,
    /// The host has not read the last change.
    unread: bool,
    /// It was told of it.
    told: bool,
}

impl Known {
    /// Compares the states with those that are known. What is so at the first look is no change.
    pub(crate) fn look(&mut self, subsystem: &dyn Subsystem, port: SocketAddr) {
        let first = self.groups.is_empty();
        let count = subsystem.ana_groups().clamp(1, MAX_GROUPS) as usize;
        self.groups.resize(count, (AnaState::Optimized, 0));
        let mut changed = false;
        for (group, (state, changes)) in (1..).zip(&mut self.groups) {
            let now = subsystem.ana_state(port, group);
            if std::mem::replace(state, now) != now && !first {
                *changes += 1;
                changed = true;
            }
        }
        self.changes += u64::from(changed);
        self.unread |= changed;
    }

    /// Whether there is a change that the host was not told of.
    pub(crate) fn is_untold(&self) -> bool {
        self.unread && !self.told
    }

    /// The host is told.
    pub(crate) fn tell(&mut self) {
        self.told = true;
    }

    /// The host reads how often the states have changed, and the state of each group with how often that has. `keep`: a change is told
    /// again.
    pub(crate) fn read(&mut self, keep: bool) -> (u64, Vec<(AnaState, u64)>) {
        if !keep {
            (self.unread, self.told) = (false, false);
        }
        (self.changes, self.groups.clone())
    }
}
