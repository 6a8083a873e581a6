//! Reservation notifications: what happened to a host without its doing (Base 8.19.1).
//!
//! A namespace keeps the last notices; each controller fetches those of its host when it looks for events.
//!
//! Invariants: numbers of notices ascend in the whole process, so that a namespace in the place of another one starts behind it; kept are at
//! most [`MOST`] of a namespace, the newest.
//!
//! Must not depend on: controllers, namespaces.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::reservation::rights::HostId;

/// Notices of a namespace, and pages of a controller, at most: beyond that the oldest are dropped.
pub(crate) const MOST: usize = 1024;
/// The number of the last notice in this process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoticeKind {
    /// Another host has removed the registration of this one.
    RegistrationPreempted,
    /// The reservation was given up, or has another type.
    Released,
    /// Another host, or an operator, has removed the reservation and all registrations.
    Preempted,
}

impl NoticeKind {
    /// The number of the type, which is also its bit of the mask.
    pub(crate) fn code(self) -> u8 {
        match self {
            NoticeKind::RegistrationPreempted => 1,
            NoticeKind::Released => 2,
            NoticeKind::Preempted => 3,
        }
    }
}

/// A notice for a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    pub(crate) host: HostId,
    pub(crate) kind: NoticeKind,
}

/// The last notices of a namespace.
#[derive(Default)]
pub(crate) struct Notices(VecDeque<(u64, Notice)>);

impl Notices {
    pub(crate) fn extend(&mut self, new: Vec<Notice>) {
        // Whoever adds to a namespace has it alone, so its numbers ascend.
        self.0.extend(new.into_iter().map(|n| (LAST.fetch_add(1, Ordering::Relaxed) + 1, n)));
        let over = self.0.len().saturating_sub(MOST);
        self.0.drain(..over);
    }

    /// Those for a host after number `seen`, and the number of the last one of all.
    pub(crate) fn after(&self, host: &HostId, seen: u64) -> (u64, Vec<NoticeKind>) {
        let last = self.0.back().map_or(0, |(number, _)| *number);
        let new = self.0.iter().skip_while(|(number, _)| *number <= seen);
        (last.max(seen), new.filter(|(_, n)| n.host == *host).map(|(_, n)| n.kind).collect())
    }
}
