//! What is due: of a key, of an upload, and as far as a list can tell.

use crate::calendar::Calendar;
use crate::rule::{Config, Expiration, Rule};

/// One version as rules see it; of a key the newest comes first.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When it was made, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Bytes.
    pub size: u64,
    /// It is a delete marker.
    pub delete_marker: bool,
    /// Its tags.
    pub tags: &'a [(String, String)],
    /// A lock keeps it: legal hold, or retention of either mode that has not ended.
    pub locked: bool,
}

/// What a list tells of a key.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// Of the current version.
    pub modified_ms: i64,
    /// Of the current version.
    pub size: u64,
    /// The current version is a delete marker.
    pub delete_marker: bool,
    /// It is the only version; false also where that is not known.
    pub alone: bool,
}

/// What happens to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The current version expires: a delete marker is put above it, or without versioning it goes.
    Expire,
    /// A noncurrent version, or a noncurrent delete marker, is removed.
    Remove,
    /// A delete marker that hides nothing is removed.
    RemoveMarker,
}

/// Something that will be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which version, by its place in the list.
    pub index: usize,
    /// What happens to it.
    pub action: Action,
    /// By which rule: its place in the configuration.
    pub rule: usize,
    /// From when on, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Config {
    fn active(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().enumerate().filter(|(_, r)| r.enabled)
    }

    /// Everything that becomes due of a key if nothing else happens to it, at most one thing of each
    /// version: the earliest, of several at the same time the one of the first rule. Locks are not
    /// looked at.
    #[must_use]
    pub fn dues(&self, key: &str, versions: &[Seen<'_>], calendar: Calendar) -> Vec<Due> {
        let mut out: Vec<Due> = Vec::new();
        let rules: Vec<(usize, &Rule)> =
            self.active().filter(|(_, r)| key.starts_with(&r.filter.prefix)).collect();
        if rules.is_empty() {
            return out;
        }
        for (index, v) in versions.iter().enumerate() {
            let alone = versions.len() == 1;
            let due = |(rule, r): &(usize, &Rule)| {
                if !fits(r, v) {
                    return None;
                }
                let (action, at_ms) = match index {
                    0 => current(r, v, alone, calendar)?,
                    _ => (Action::Remove, noncurrent(r, versions, index, calendar)?),
                };
                Some(Due { index, action, rule: *rule, at_ms })
            };
            out.extend(rules.iter().filter_map(due).min_by_key(|d| d.at_ms));
        }
        out
    }

    /// What is due of a key at `now_ms`. `keeps`: expiring the current version leaves its data where it
    /// is, below a delete marker. What is locked is left out.
    #[must_use]
    pub fn plan(
        &self,
        key: &str,
        versions: &[Seen<'_>],
        keeps: bool,
        now_ms: i64,
        calendar: Calendar,
    ) -> Vec<Due> {
        let mut dues = self.dues(key, versions, calendar);
        dues.retain(|d| {
            let harmless = d.action == Action::Expire && keeps;
            d.at_ms <= now_ms && (harmless || !versions[d.index].locked)
        });
        dues
    }

    /// When something of a key becomes due next, locks aside.
    #[must_use]
    pub fn next_due(&self, key: &str, versions: &[Seen<'_>], calendar: Calendar) -> Option<i64> {
        self.dues(key, versions, calendar).into_iter().map(|d| d.at_ms).min()
    }

    /// When a current version expires, and by which rule; for the `x-amz-expiration` header.
    #[must_use]
    pub fn expiry(&self, key: &str, version: &Seen<'_>, calendar: Calendar) -> Option<(i64, &str)> {
        if version.delete_marker {
            return None;
        }
        let rules = self.active().filter(|(_, r)| key.starts_with(&r.filter.prefix) && fits(r, version));
        let at = rules.filter_map(|(_, r)| {
            let (_, at) = current(r, version, false, calendar)?;
            Some((at, r.id.as_str()))
        });
        at.min_by_key(|(at, _)| *at)
    }

    /// Whether the record of a key has to be looked at: false only if nothing of it is due.
    #[must_use]
    pub fn may_be_due(&self, key: &str, seen: &Glance, now_ms: i64, calendar: Calendar) -> bool {
        let v = Seen {
            modified_ms: seen.modified_ms,
            size: seen.size,
            delete_marker: seen.delete_marker,
            tags: &[],
            locked: false,
        };
        self.active().any(|(_, r)| {
            if !key.starts_with(&r.filter.prefix) {
                return false;
            }
            if r.noncurrent.is_some() && !seen.alone {
                return true;
            }
            // Tags are in the record.
            let size = !v.delete_marker && r.filter.fits_size(v.size);
            let fits = if v.delete_marker { !r.filter.looks_inside() } else { size };
            // Where it is not known whether a marker stands alone, it is taken to.
            fits && current(r, &v, true, calendar).is_some_and(|(_, at)| at <= now_ms)
        })
    }

    /// When an upload is given up, and by which rule.
    #[must_use]
    pub fn abort_at(&self, key: &str, begun_ms: i64, calendar: Calendar) -> Option<(i64, usize)> {
        let rules = self.active().filter(|(_, r)| key.starts_with(&r.filter.prefix));
        let at = rules.filter_map(|(i, r)| Some((calendar.after(begun_ms, r.abort_days?), i)));
        at.min_by_key(|(at, _)| *at)
    }

    /// Whether any rule is about versions, or any about uploads.
    #[must_use]
    pub fn is_about(&self) -> (bool, bool) {
        let versions = self.active().any(|(_, r)| r.expiration.is_some() || r.noncurrent.is_some());
        (versions, self.active().any(|(_, r)| r.abort_days.is_some()))
    }

    /// The prefixes that have to be looked through, in order, none within another. `uploads`: for rules
    /// about uploads.
    #[must_use]
    pub fn prefixes(&self, uploads: bool) -> Vec<&str> {
        let about = |r: &Rule| match uploads {
            true => r.abort_days.is_some(),
            false => r.expiration.is_some() || r.noncurrent.is_some(),
        };
        let mut all: Vec<&str> =
            self.active().filter(|(_, r)| about(r)).map(|(_, r)| r.filter.prefix.as_str()).collect();
        all.sort_unstable();
        // After sorting, what is within a prefix follows it.
        all.dedup_by(|next, kept| next.starts_with(*kept));
        all
    }
}

/// Whether a version is one that a rule's filter means, its key aside. Delete markers have neither tags
/// nor a size: a rule that asks for one is not about them.
fn fits(r: &Rule, v: &Seen<'_>) -> bool {
    if v.delete_marker {
        return !r.filter.looks_inside();
    }
    r.filter.fits_size(v.size) && r.filter.tags.iter().all(|t| v.tags.contains(t))
}

/// What a rule does to a current version, and from when on.
fn current(r: &Rule, v: &Seen<'_>, alone: bool, calendar: Calendar) -> Option<(Action, i64)> {
    let action = match (v.delete_marker, alone) {
        (false, _) => Action::Expire,
        (true, true) => Action::RemoveMarker,
        (true, false) => return None,
    };
    let at = match r.expiration? {
        Expiration::Days(days) => calendar.after(v.modified_ms, days),
        Expiration::Date(at) => at,
        Expiration::Markers if v.delete_marker => v.modified_ms,
        Expiration::Markers => return None,
    };
    Some((action, at))
}

/// From when on a rule removes the noncurrent version at `index`.
fn noncurrent(r: &Rule, versions: &[Seen<'_>], index: usize, calendar: Calendar) -> Option<i64> {
    let n = r.noncurrent?;
    // It is noncurrent since its successor was made; between the two there are none.
    let newer = index - 1;
    (newer >= n.newer as usize).then(|| calendar.after(versions[index - 1].modified_ms, n.days))
}
