//! Which versions and uploads are due: exactly, from records, or as far as a listing shows.

use crate::calendar::Calendar;
use crate::rule::{Config, Expiration, Rule};

/// A version as rules see it. The versions of a key are ordered newest first.
#[derive(Clone, Copy, Debug)]
pub struct VersionState<'a> {
    /// When it was made, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Bytes.
    pub size: u64,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
    /// Its tags.
    pub tags: &'a [(String, String)],
    /// Whether a lock protects it: a legal hold, or retention of either mode that has not ended.
    pub locked: bool,
}

/// What a listing knows about a key.
#[derive(Clone, Copy, Debug)]
pub struct KeySummary {
    /// Of the current version.
    pub modified_ms: i64,
    /// Of the current version.
    pub size: u64,
    /// Whether the current version is a delete marker.
    pub delete_marker: bool,
    /// Whether it is the only version; false if unknown.
    pub alone: bool,
}

/// The action for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The current version expires: a delete marker is added, or without versioning the version is removed.
    Expire,
    /// A noncurrent version, or a noncurrent delete marker, is removed.
    Remove,
    /// A delete marker that hides nothing is removed.
    RemoveMarker,
}

/// An action that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The index of the version in the list.
    pub index: usize,
    /// The action.
    pub action: Action,
    /// The index of the rule in the configuration.
    pub rule: usize,
    /// When it is due, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Config {
    fn active(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().enumerate().filter(|(_, r)| r.enabled)
    }

    /// All actions that become due for a key if it does not change, at most one for each version: the
    /// earliest; of several at the same time, that of the first rule. Ignores locks.
    #[must_use]
    pub fn dues(&self, key: &str, versions: &[VersionState<'_>], calendar: Calendar) -> Vec<Due> {
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

    /// The actions that are due for a key at `now_ms`, without those on locked versions. `keeps`: expiring
    /// the current version keeps its data, below a delete marker.
    #[must_use]
    pub fn plan(
        &self,
        key: &str,
        versions: &[VersionState<'_>],
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

    /// When the next action for a key is due, ignoring locks.
    #[must_use]
    pub fn next_due(&self, key: &str, versions: &[VersionState<'_>], calendar: Calendar) -> Option<i64> {
        self.dues(key, versions, calendar).into_iter().map(|d| d.at_ms).min()
    }

    /// When a current version expires, and the id of the rule; for the `x-amz-expiration` header.
    #[must_use]
    pub fn expiry(&self, key: &str, version: &VersionState<'_>, calendar: Calendar) -> Option<(i64, &str)> {
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

    /// Whether the record of a key has to be read: false only if nothing is due.
    #[must_use]
    pub fn may_be_due(&self, key: &str, seen: &KeySummary, now_ms: i64, calendar: Calendar) -> bool {
        let v = VersionState {
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
            // Tags are only in the record.
            let size = !v.delete_marker && r.filter.fits_size(v.size);
            let fits = if v.delete_marker { !r.filter.looks_inside() } else { size };
            // If it is unknown whether a marker is the only version, assume it.
            fits && current(r, &v, true, calendar).is_some_and(|(_, at)| at <= now_ms)
        })
    }

    /// When an upload is aborted, and by which rule.
    #[must_use]
    pub fn abort_at(&self, key: &str, begun_ms: i64, calendar: Calendar) -> Option<(i64, usize)> {
        let rules = self.active().filter(|(_, r)| key.starts_with(&r.filter.prefix));
        let at = rules.filter_map(|(i, r)| Some((calendar.after(begun_ms, r.abort_days?), i)));
        at.min_by_key(|(at, _)| *at)
    }

    /// Whether any rule applies to versions, and whether any applies to uploads.
    #[must_use]
    pub fn is_about(&self) -> (bool, bool) {
        let versions = self.active().any(|(_, r)| r.expiration.is_some() || r.noncurrent.is_some());
        (versions, self.active().any(|(_, r)| r.abort_days.is_some()))
    }

    /// The prefixes that have to be scanned, in order, none contained in another. `uploads`: for rules about
    /// uploads.
    #[must_use]
    pub fn prefixes(&self, uploads: bool) -> Vec<&str> {
        let about = |r: &Rule| match uploads {
            true => r.abort_days.is_some(),
            false => r.expiration.is_some() || r.noncurrent.is_some(),
        };
        let mut all: Vec<&str> =
            self.active().filter(|(_, r)| about(r)).map(|(_, r)| r.filter.prefix.as_str()).collect();
        all.sort_unstable();
        // After sorting, the longer prefixes follow the prefix that contains them.
        all.dedup_by(|next, kept| next.starts_with(*kept));
        all
    }
}

/// Whether a rule's filter, except for the key, matches a version. Delete markers have neither tags nor a
/// size: a rule that filters by these does not match them.
fn fits(r: &Rule, v: &VersionState<'_>) -> bool {
    if v.delete_marker {
        return !r.filter.looks_inside();
    }
    r.filter.fits_size(v.size) && r.filter.tags.iter().all(|t| v.tags.contains(t))
}

/// The action of a rule for a current version, and when it is due.
fn current(r: &Rule, v: &VersionState<'_>, alone: bool, calendar: Calendar) -> Option<(Action, i64)> {
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

/// When a rule removes the noncurrent version at `index`.
fn noncurrent(r: &Rule, versions: &[VersionState<'_>], index: usize, calendar: Calendar) -> Option<i64> {
    let n = r.noncurrent?;
    // A version is noncurrent since its successor was made, which is the next newer one in the list.
    let newer = index - 1;
    (newer >= n.newer as usize).then(|| calendar.after(versions[index - 1].modified_ms, n.days))
}
