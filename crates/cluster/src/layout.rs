//! Chooses the code and the placement groups for a set of drives. Pure functions.
//!
//! Groups are chosen by weighted rendezvous hashing (Thaler and Ravishankar, 1998; weights as in
//! Schindelhauer and Schomaker, 2005), with one addition: every drive gets a fixed number of slots in
//! proportion to its weight. So drives are used evenly by construction and not only on average.
//!
//! Must not depend on: devices, the control store.

use ashlar_checksum::key_hash;
use ashlar_format::DriveId;

use crate::{Error, Result};

/// Most drives of one code.
const MAX_CODE: usize = 64;
/// Largest group that is chosen by default.
const MAX_GROUP: usize = 18;
/// Most drives of one pool.
const MAX_DRIVES: usize = 1024;
/// Fewest groups of a pool, even with few drives: work is divided by groups, and drives that are added later
/// take over groups.
const LEAST_GROUPS: usize = 64;
/// Most groups of a pool: all groups of a map are changed together (`map`).
const MOST_GROUPS: usize = 4096;
/// Number of groups in which a drive has a slot.
const PER_DRIVE: usize = 64;

/// Data and parity shards, as in `--code 4+2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct CodeSpec {
    /// Data shards, at least 1.
    pub k: u8,
    /// Parity shards.
    pub m: u8,
}

impl CodeSpec {
    /// Parses `K+M`.
    ///
    /// # Errors
    /// `Layout`, with a message for the operator.
    pub fn parse(text: &str) -> Result<CodeSpec> {
        let bad = || Error::Layout(format!("code {text:?} is not of the form K+M, for instance 4+2"));
        let (k, m) = text.split_once('+').ok_or_else(bad)?;
        let (k, m): (u8, u8) = (k.trim().parse().map_err(|_| bad())?, m.trim().parse().map_err(|_| bad())?);
        let code = CodeSpec { k, m };
        code.check()?;
        Ok(code)
    }

    fn check(self) -> Result<()> {
        if self.k == 0 {
            return Err(Error::Layout("a code needs at least one data shard".to_owned()));
        }
        if self.slots() > MAX_CODE {
            return Err(Error::Layout(format!(
                "code {self} has {} shards; {MAX_CODE} is the most",
                self.slots()
            )));
        }
        Ok(())
    }

    /// Number of slots of a placement group.
    #[must_use]
    pub fn slots(self) -> usize {
        usize::from(self.k) + usize::from(self.m)
    }
}

impl std::fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.k, self.m)
    }
}

/// Default parity shards of a group of `n` drives: 1: 0, 2-3: 1, 4-5: 2, 6-7: 3, from 8 on 4. MinIO has the
/// same defaults.
#[must_use]
pub fn default_parity(n: usize) -> u8 {
    match n {
        0 | 1 => 0,
        2 | 3 => 1,
        4 | 5 => 2,
        6 | 7 => 3,
        _ => 4,
    }
}

/// The default code for `drives` drives. Up to 18 drives are all in every group. With more, groups have 8 to
/// 16 drives: the largest number that divides the drives, or 16 if none does.
///
/// # Errors
/// `Layout` for no drives or too many.
pub fn default_code(drives: usize) -> Result<CodeSpec> {
    if drives == 0 || drives > MAX_DRIVES {
        return Err(Error::Layout(format!("{drives} drives: a pool has 1 to {MAX_DRIVES}")));
    }
    let n = if drives <= MAX_GROUP {
        drives
    } else {
        (8..=16).rev().find(|n| drives.is_multiple_of(*n)).unwrap_or(16)
    };
    let m = default_parity(n);
    Ok(CodeSpec { k: n as u8 - m, m })
}

/// A layout for a set of drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The code.
    pub code: CodeSpec,
    /// For each group, the drives by slot.
    pub groups: Vec<Vec<DriveId>>,
}

/// Computes placement groups over `drives` (id and weight, for instance capacity in bytes; weights within 2 %
/// of each other count as equal). `code`: `None` for the default. `least`: the fewest groups, `None` for as
/// many as the drives need.
///
/// # Errors
/// `Layout`, with a message for the operator.
pub fn plan(drives: &[(DriveId, u64)], code: Option<CodeSpec>, least: Option<usize>) -> Result<Plan> {
    let (code, n) = parts(drives, code)?;
    let groups = group_count(drives.len(), n, least);
    let quotas = quotas(drives, groups, n, equal(drives));
    Ok(Plan { code, groups: assign(drives, quotas, groups, n) })
}

/// The code for these drives and its number of slots.
pub(crate) fn parts(drives: &[(DriveId, u64)], code: Option<CodeSpec>) -> Result<(CodeSpec, usize)> {
    let default = default_code(drives.len())?;
    let code = code.unwrap_or(default);
    code.check()?;
    let (count, n) = (drives.len(), code.slots());
    if n > count {
        return Err(Error::Layout(format!(
            "code {code} needs {n} drives, one for each shard; there are {count}"
        )));
    }
    let mut ids: Vec<DriveId> = drives.iter().map(|(d, _)| *d).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != count {
        return Err(Error::Layout("a drive is named twice".to_owned()));
    }
    Ok((code, n))
}

/// Number of groups for `count` drives: large enough that each drive has about [`PER_DRIVE`], and such that
/// equal drives can have equally many slots.
pub(crate) fn group_count(count: usize, n: usize, least: Option<usize>) -> usize {
    let wanted = least.unwrap_or((count * PER_DRIVE).div_ceil(n).clamp(LEAST_GROUPS, MOST_GROUPS));
    // Equal drives have equally many slots in any multiple of this.
    let step = count / gcd(count, n);
    match wanted.next_multiple_of(step) {
        groups if groups <= MOST_GROUPS => groups,
        // Not above the limit, so the last multiple below it; a step is never more than the number of drives.
        _ => MOST_GROUPS / step * step,
    }
}

/// Whether all weights are within 2 % of each other.
pub(crate) fn equal(drives: &[(DriveId, u64)]) -> bool {
    let (low, high) = drives.iter().fold((u64::MAX, 0), |(l, h), (_, w)| (l.min(*w), h.max(*w)));
    u128::from(high - low) * 50 <= u128::from(high)
}

/// Number of slots of each drive over all groups, in proportion to weight, at most one per group.
pub(crate) fn quotas(drives: &[(DriveId, u64)], groups: usize, n: usize, equal: bool) -> Vec<usize> {
    let total = groups * n;
    if equal {
        // `groups` was chosen so that this divides.
        return vec![total / drives.len(); drives.len()];
    }
    // A drive whose share exceeds one slot per group gets exactly one per group, and the rest share what is
    // left (water filling). The largest remainders get the slots left over by rounding.
    let mut full = vec![false; drives.len()];
    let share = |full: &[bool], i: usize| -> f64 {
        let left = total - groups * full.iter().filter(|f| **f).count();
        let weight: f64 =
            drives.iter().zip(full).filter(|(_, f)| !**f).map(|((_, w), _)| (*w).max(1) as f64).sum();
        left as f64 * drives[i].1.max(1) as f64 / weight
    };
    while let Some(i) = (0..drives.len()).find(|i| !full[*i] && share(&full, *i) > groups as f64) {
        full[i] = true;
    }
    let exact: Vec<f64> =
        (0..drives.len()).map(|i| if full[i] { groups as f64 } else { share(&full, i) }).collect();
    let mut out: Vec<usize> = exact.iter().map(|e| e.floor() as usize).collect();
    let mut order: Vec<usize> = (0..drives.len()).collect();
    order.sort_by(|a, b| {
        let rest = |i: usize| exact[i] - exact[i].floor();
        rest(*b).total_cmp(&rest(*a)).then(drives[*a].0.cmp(&drives[*b].0))
    });
    let mut missing = total.saturating_sub(out.iter().sum());
    while missing > 0 {
        for i in &order {
            if missing > 0 && out[*i] < groups {
                out[*i] += 1;
                missing -= 1;
            }
        }
    }
    out
}

/// Fills the groups one after another with the drives of the highest score that have slots left. A drive that
/// needs a slot in every remaining group is always taken, so that every drive gets its number of slots.
pub(crate) fn assign(
    drives: &[(DriveId, u64)],
    mut left: Vec<usize>,
    groups: usize,
    n: usize,
) -> Vec<Vec<DriveId>> {
    let mut out = Vec::with_capacity(groups);
    for group in 0..groups {
        let remaining = groups - group;
        let able = (0..drives.len()).filter(|i| left[*i] > 0);
        let mut order: Vec<(bool, f64, usize)> =
            able.map(|i| (left[i] >= remaining, score(group, drives[i].0, left[i]), i)).collect();
        let by_score = |a: &(bool, f64, usize), b: &(bool, f64, usize)| {
            b.1.total_cmp(&a.1).then(drives[a.2].0.cmp(&drives[b.2].0))
        };
        order.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| by_score(a, b)));
        order.truncate(n);
        assert_eq!(order.len(), n, "quotas leave every group enough drives");
        // The order of slots differs in every group: no drive has more of the parity than the others.
        order.sort_by(by_score);
        for (_, _, i) in &order {
            left[*i] -= 1;
        }
        out.push(order.iter().map(|(_, _, i)| drives[*i].0).collect());
    }
    assert!(left.iter().all(|l| *l == 0), "every slot is used");
    out
}

/// Weighted rendezvous score: -weight / ln(u) with u uniform in (0, 1).
pub(crate) fn score(group: usize, drive: DriveId, weight: usize) -> f64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&(group as u64).to_le_bytes());
    bytes[8..].copy_from_slice(&drive.0);
    let u = ((key_hash(&bytes) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -(weight as f64) / u.ln()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn drives(n: usize) -> Vec<(DriveId, u64)> {
        (0..n)
            .map(|i| {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&(i as u64 * 7 + 1).to_le_bytes());
                (DriveId(id), 1000)
            })
            .collect()
    }

    fn counts(plan: &Plan) -> BTreeMap<DriveId, usize> {
        let mut c = BTreeMap::new();
        for g in &plan.groups {
            let mut ids = g.clone();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), plan.code.slots(), "no drive twice in a group");
            for d in g {
                *c.entry(*d).or_default() += 1;
            }
        }
        c
    }

    #[test]
    fn defaults_follow_the_convention() {
        let want = [
            (1, "1+0", 64),
            (2, "1+1", 64),
            (3, "2+1", 64),
            (4, "2+2", 64),
            (5, "3+2", 64),
            (6, "3+3", 64),
            (7, "4+3", 64),
            (8, "4+4", 64),
            (12, "8+4", 64),
            (16, "12+4", 64),
            (17, "13+4", 64),
            (18, "14+4", 64),
            (20, "6+4", 128),
            (24, "8+4", 128),
            (32, "12+4", 128),
            (60, "11+4", 256),
            (19, "12+4", 76),
        ];
        for (n, code, groups) in want {
            let p = plan(&drives(n), None, None).unwrap();
            assert_eq!((p.code.to_string().as_str(), p.groups.len()), (code, groups), "{n} drives");
            let c = counts(&p);
            assert_eq!(c.len(), n);
            assert!(c.values().all(|v| *v == groups * p.code.slots() / n), "{n}: even");
        }
    }

    #[test]
    fn slot_order_differs_in_every_group() {
        for n in [4, 12, 19] {
            let p = plan(&drives(n), None, None).unwrap();
            for d in drives(n) {
                // The number of last slots, which hold parity, is what chance gives: some, but never most.
                let last = p.groups.iter().filter(|g| g[p.code.slots() - 1] == d.0).count();
                assert!(last <= p.groups.len() / n * 4, "{n}: {last} of {}", p.groups.len());
            }
        }
        let one = plan(&drives(4), None, Some(1)).unwrap();
        assert_eq!(one.groups.len(), 1, "tests may ask for fewer");
        let most = plan(&drives(1024), None, None).unwrap();
        assert!(most.groups.len() <= MOST_GROUPS && counts(&most).values().all(|v| *v == 64));
    }

    #[test]
    fn codes_that_fit_are_planned() {
        for n in 1..=24usize {
            for k in 1..=n {
                for m in 0..=(n - k) {
                    let code = CodeSpec { k: k as u8, m: m as u8 };
                    let p = plan(&drives(n), Some(code), Some(1)).unwrap();
                    let c = counts(&p);
                    assert_eq!(c.len(), n, "{n} {code}: every drive is used");
                    let slots = p.groups.len() * code.slots();
                    assert!(c.values().all(|v| v * n == slots), "{n} {code}: even");
                }
            }
        }
    }

    #[test]
    fn weights_count() {
        let mut d = drives(10);
        d[0].1 = 3000;
        d[1].1 = 500;
        d[2].1 = 1_000_000;
        let p = plan(&d, Some(CodeSpec { k: 3, m: 1 }), None).unwrap();
        let c = counts(&p);
        assert_eq!(c[&d[2].0], p.groups.len(), "at most one slot per group");
        assert!(c[&d[0].0] > c[&d[3].0] && c[&d[3].0] >= c[&d[1].0]);
        let d = drives(10).into_iter().map(|(i, w)| (i, w + u64::from(i.0[0] % 7))).collect::<Vec<_>>();
        assert!(counts(&plan(&d, Some(CodeSpec { k: 3, m: 1 }), None).unwrap()).values().all(|v| *v == 64));
    }

    #[test]
    fn error_messages() {
        let text = |r: Result<Plan>| r.unwrap_err().to_string();
        let code = CodeSpec::parse("4+2").unwrap();
        assert_eq!(
            text(plan(&drives(4), Some(code), None)),
            "code 4+2 needs 6 drives, one for each shard; there are 4"
        );
        assert!(text(plan(&[], None, None)).contains("0 drives"));
        assert!(text(plan(&[drives(1)[0], drives(1)[0]], None, None)).contains("twice"));
        for bad in ["", "4", "4-2", "0+2", "60+5", "a+b", "300+1"] {
            assert!(CodeSpec::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn placement_is_a_pure_function() {
        let a = plan(&drives(19), None, None).unwrap();
        assert_eq!(a, plan(&drives(19), None, None).unwrap());
    }

    /// F11 of docs/protocol.md 4: the drives of a group depend only on the ids and weights of the drives, not
    /// on the order in which they were found.
    #[test]
    fn f11_placement_ignores_order_of_drives() {
        for (n, code) in
            [(4, None), (19, None), (24, None), (32, None), (60, None), (10, CodeSpec::parse("3+1").ok())]
        {
            let mut d = drives(n);
            for weights in 0..2 {
                let want = plan(&d, code, Some(64)).unwrap();
                for turn in 1..n {
                    d.rotate_left(1);
                    d.swap(turn, 0);
                    assert_eq!(
                        plan(&d, code, Some(64)).unwrap(),
                        want,
                        "{n} drives, weights {weights}, turn {turn}"
                    );
                }
                d.iter_mut().for_each(|(id, w)| *w = 500 + u64::from(id.0[0]) * 40);
            }
        }
    }
}
