//! What a controller knows of reservation notifications: their events and the log page that says them (Base 5.16.1.25).
//!
//! Invariant: as many pages as a namespace keeps notices are kept, the newest.
//!
//! Must not depend on: controllers, how reservations change.

use std::collections::{BTreeMap, VecDeque};

use crate::namespace::Subsystem;
use crate::reservation::notice::{MOST, NoticeKind};
use crate::reservation::rights::HostId;

/// Bytes of the log page.
pub(crate) const PAGE: usize = 64;
/// The event that there is a page: I/O command specific status, reservation log page available, log page 80h (Base 5.2.1).
pub(crate) const AVAILABLE: u64 = 0x80_00_06;

/// Masks of notifications: bits 1 to 3, one for each type (feature 82h).
pub(crate) const MASKS: u32 = 0b1110;

/// What a controller knows of the reservations of its namespaces.
#[derive(Default)]
pub(crate) struct Known {
    /// The last notice of each namespace that was looked at. One that is away for a while has told what it had.
    seen: BTreeMap<u32, u64>,
    /// Types that are not told, by namespace.
    masks: BTreeMap<u32, u32>,
    /// Number of the page, type, namespace: not read yet.
    pages: VecDeque<(u64, NoticeKind, u32)>,
    /// Pages that there were.
    count: u64,
    /// The host was told that there is a page.
    told: bool,
}

impl Known {
    /// Looks for notices. The first time nothing is new: `first`.
    pub(crate) fn look(&mut self, subsystem: &dyn Subsystem, host: &HostId, first: bool) {
        for nsid in subsystem.namespaces() {
            let Some(namespace) = subsystem.namespace(nsid) else { continue };
            let Some(reservations) = namespace.reservations() else { continue };
            let seen = self.seen.entry(nsid).or_insert(0);
            let new;
            (*seen, new) = reservations.notices(host, *seen);
            if first {
                continue;
            }
            let mask = self.masks.get(&nsid).copied().unwrap_or(0);
            for kind in new.into_iter().filter(|k| mask >> k.code() & 1 == 0) {
                self.count += 1;
                self.pages.push_back((self.count, kind, nsid));
            }
        }
        let over = self.pages.len().saturating_sub(MOST);
        self.pages.drain(..over);
    }

    /// Whether there is a page of which the host was not told.
    pub(crate) fn is_untold(&self) -> bool {
        !self.pages.is_empty() && !self.told
    }

    /// The host is told.
    pub(crate) fn tell(&mut self) {
        self.told = true;
    }

    /// The oldest page. `keep`: it stays.
    pub(crate) fn page(&mut self, keep: bool) -> [u8; PAGE] {
        let oldest = self.pages.front().copied();
        let left = self.pages.len().saturating_sub(1).min(255) as u8;
        if !keep {
            self.pages.pop_front();
            self.told = false;
        }
        page(oldest, left)
    }

    /// Types that are not told of a namespace.
    pub(crate) fn mask(&self, nsid: u32) -> u32 {
        self.masks.get(&nsid).copied().unwrap_or(0)
    }

    pub(crate) fn set_mask(&mut self, nsid: u32, mask: u32) {
        self.masks.insert(nsid, mask);
    }
}

/// The bytes of a page; none: there is none, and all are zero.
pub(crate) fn page(what: Option<(u64, NoticeKind, u32)>, left: u8) -> [u8; PAGE] {
    let mut out = [0; PAGE];
    if let Some((number, kind, nsid)) = what {
        out[..8].copy_from_slice(&number.to_le_bytes());
        (out[8], out[9]) = (kind.code(), left);
        out[12..16].copy_from_slice(&nsid.to_le_bytes());
    }
    out
}
