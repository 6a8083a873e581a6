//! Decision tables, and random rules compared with a second implementation written from AWS's documentation.

use crate::*;

/// 15 January 2024, 10:30 UTC.
const NOW: i64 = 1_705_314_600_000;
const MIDNIGHT: i64 = 1_705_276_800_000;

fn seen(modified_ms: i64, size: u64, delete_marker: bool) -> VersionState<'static> {
    VersionState { modified_ms, size, delete_marker, tags: &[], locked: false }
}

fn rule(prefix: &str) -> Rule {
    let filter = Filter { prefix: prefix.into(), ..Filter::default() };
    Rule { id: format!("r-{prefix}"), enabled: true, filter, ..Rule::default() }
}

fn config(rules: Vec<Rule>) -> Config {
    Config { rules, ..Config::default() }
}

#[test]
fn days_end_at_the_next_midnight() {
    let c = Calendar::default();
    assert_eq!(c.after(NOW, 3), MIDNIGHT + 4 * DAY_MS, "AWS's own example");
    assert_eq!(c.after(MIDNIGHT, 1), MIDNIGHT + 2 * DAY_MS);
    assert_eq!(c.after(MIDNIGHT - 1, 1), MIDNIGHT + DAY_MS);
    assert_eq!(c.after(-1, 0), 0);
    assert!(c.after(i64::MAX, u32::MAX) >= i64::MAX - DAY_MS);
    assert_eq!(Calendar::with_days_of(2000).after(3500, 1), 6000);
}

#[test]
fn current_versions_expire_by_days_date_or_marker() {
    let c = Calendar::default();
    let days = config(vec![Rule { expiration: Some(Expiration::Days(3)), ..rule("a/") }]);
    let due = MIDNIGHT + 4 * DAY_MS;
    let v = [seen(NOW, 5, false)];
    let plan = |now| days.plan("a/k", &v, true, now, c);
    assert!(plan(due - 1).is_empty());
    assert_eq!(plan(due), [Due { index: 0, action: Action::Expire, rule: 0, at_ms: due }]);
    assert!(days.plan("b/k", &v, true, i64::MAX, c).is_empty());
    assert_eq!(days.expiry("a/k", &v[0], c), Some((due, "r-a/")));
    assert_eq!(days.next_due("a/k", &v, c), Some(due));
    // A marker that hides a version is not removed; one that hides none is removed by age.
    let two = [seen(NOW, 0, true), seen(NOW, 5, false)];
    assert!(days.plan("a/k", &two, true, i64::MAX, c).is_empty());
    assert_eq!(days.plan("a/k", &two[..1], true, due, c)[0].action, Action::RemoveMarker);
    assert!(days.plan("a/k", &two[..1], true, due - 1, c).is_empty());
    // A date applies regardless of when the version was made.
    let date = config(vec![Rule { expiration: Some(Expiration::Date(MIDNIGHT)), ..rule("") }]);
    assert!(date.plan("k", &v, true, MIDNIGHT - 1, c).is_empty());
    assert_eq!(date.plan("k", &v, true, NOW, c).len(), 1);
    // Markers only.
    let markers = config(vec![Rule { expiration: Some(Expiration::Markers), ..rule("") }]);
    assert!(markers.plan("k", &v, true, i64::MAX, c).is_empty());
    assert!(markers.plan("k", &two, true, i64::MAX, c).is_empty());
    assert_eq!(markers.plan("k", &two[..1], true, NOW, c)[0].action, Action::RemoveMarker);
}

#[test]
fn noncurrent_versions_count_from_their_successor() {
    let c = Calendar::default();
    let of = |days, newer| config(vec![Rule { noncurrent: Some(Noncurrent { days, newer }), ..rule("") }]);
    let list = [
        seen(NOW, 1, false),
        seen(NOW - DAY_MS, 1, false),
        seen(NOW - 2 * DAY_MS, 0, true),
        seen(NOW - 100 * DAY_MS, 1, false),
    ];
    let hit = |config: &Config, now| -> Vec<usize> {
        config.plan("k", &list, true, now, c).iter().map(|d| d.index).collect()
    };
    assert_eq!(hit(&of(1, 0), NOW), [3], "superseded two days ago, whatever its age");
    assert_eq!(hit(&of(1, 0), MIDNIGHT + DAY_MS), [2, 3]);
    assert_eq!(hit(&of(1, 0), MIDNIGHT + 2 * DAY_MS), [1, 2, 3]);
    assert_eq!(hit(&of(1, 2), MIDNIGHT + 9 * DAY_MS), [3]);
    assert_eq!(hit(&of(0, 1), MIDNIGHT + DAY_MS), [2, 3]);
    assert!(hit(&of(1, 3), i64::MAX).is_empty());
}

#[test]
fn filters_locks_and_overlaps() {
    let c = Calendar::default();
    let tag = vec![("class".to_owned(), "tmp".to_owned()), ("x".to_owned(), "y".to_owned())];
    let mut tagged = Rule { expiration: Some(Expiration::Days(1)), ..rule("") };
    tagged.filter.tags = vec![tag[0].clone()];
    tagged.filter.greater = Some(10);
    let config = config(vec![Rule { expiration: Some(Expiration::Days(9)), ..rule("") }, tagged]);
    let at = |size, tags| {
        let v = [VersionState { tags, ..seen(NOW, size, false) }];
        config.next_due("k", &v, c).unwrap()
    };
    assert_eq!(at(11, &tag), c.after(NOW, 1), "the shorter wins");
    assert_eq!(at(10, &tag), c.after(NOW, 9), "more than, not from");
    assert_eq!(at(11, &tag[1..]), c.after(NOW, 9));
    let locked = [VersionState { locked: true, ..seen(NOW, 1, false) }];
    assert_eq!(config.plan("k", &locked, true, i64::MAX, c).len(), 1, "a marker hides it; its data stays");
    assert!(config.plan("k", &locked, false, i64::MAX, c).is_empty());
    let mut off = config.clone();
    off.rules.iter_mut().for_each(|r| r.enabled = false);
    assert_eq!((off.next_due("k", &locked, c), off.is_about()), (None, (false, false)));
    let nested =
        ["b/x", "a", "b/", "ab", "c"].map(|p| Rule { expiration: Some(Expiration::Days(1)), ..rule(p) });
    assert_eq!(Config { rules: nested.to_vec(), ..Config::default() }.prefixes(false), ["a", "b/", "c"]);
}

#[test]
fn uploads_are_aborted_by_age() {
    let c = Calendar::default();
    let config =
        config(vec![Rule { abort_days: Some(7), ..rule("") }, Rule { abort_days: Some(2), ..rule("t/") }]);
    assert_eq!(config.abort_at("t/x", NOW, c), Some((c.after(NOW, 2), 1)));
    assert_eq!(config.abort_at("u", NOW, c), Some((c.after(NOW, 7), 0)));
}

#[test]
fn invalid_rules_are_refused() {
    let days = |n| Rule { expiration: Some(Expiration::Days(n)), ..rule("a") };
    let check = |rules: Vec<Rule>| config(rules).check(|| "fresh".into());
    assert_eq!(check(vec![days(1)]), Ok(()));
    assert!(matches!(check(vec![]), Err(Invalid::Malformed(_))));
    assert!(matches!(check(vec![days(0)]), Err(Invalid::Argument(_))));
    assert!(matches!(check(vec![days(u32::MAX)]), Err(Invalid::Argument(_))));
    assert!(matches!(check(vec![days(1), days(1)]), Err(Invalid::Argument(_))), "the same id");
    assert!(matches!(check(vec![Rule { id: "x".repeat(256), ..days(1) }]), Err(Invalid::Argument(_))));
    assert_eq!(check(vec![Rule { id: "ü".repeat(255), ..days(1) }]), Ok(()));
    assert!(matches!(check(vec![rule("a")]), Err(Invalid::Request(_))), "no action");
    let legacy = Rule { legacy: true, ..days(1) };
    assert!(matches!(check(vec![legacy, rule("b")]), Err(Invalid::Request(_))));
    let late = Rule { expiration: Some(Expiration::Date(NOW)), ..rule("a") };
    assert!(matches!(check(vec![late]), Err(Invalid::Argument(_))));
    let mut tagged = Rule { abort_days: Some(1), ..rule("a") };
    tagged.filter.tags.push(("a".into(), "b".into()));
    assert!(matches!(check(vec![tagged.clone()]), Err(Invalid::Request(_))));
    tagged.abort_days = None;
    tagged.expiration = Some(Expiration::Markers);
    assert!(matches!(check(vec![tagged]), Err(Invalid::Request(_))));
    let mut sizes = days(1);
    (sizes.filter.greater, sizes.filter.less) = (Some(5), Some(5));
    assert!(matches!(check(vec![sizes]), Err(Invalid::Request(_))));
    let many = (0..1001).map(|i| Rule { id: i.to_string(), ..days(1) }).collect();
    assert!(matches!(check(many), Err(Invalid::Request(_))));
    let mut unnamed = config(vec![Rule { id: String::new(), ..days(1) }]);
    unnamed.check(|| "fresh".into()).unwrap();
    assert_eq!(unnamed.rules[0].id, "fresh");
}

#[test]
fn golden_document() {
    let mut full = rule("logs/");
    full.filter.tags.push(("k".into(), "v".into()));
    full.filter.greater = Some(1);
    full.expiration = Some(Expiration::Days(3));
    full.noncurrent = Some(Noncurrent { days: 4, newer: 5 });
    let c = Config { rules: vec![full], minimum: Minimum::Varies, set_ms: 7 };
    let text = "{\"format\":1,\"rules\":[{\"id\":\"r-logs/\",\"enabled\":true,\"filter\":{\"prefix\":\"logs/\",\
        \"tags\":[[\"k\",\"v\"]],\"greater\":1},\"expiration\":{\"days\":3},\"noncurrent\":{\"days\":4,\"newer\":5}}],\
        \"minimum\":\"varies_by_storage_class\",\"set_ms\":7}";
    assert_eq!(c.encode(), text);
    assert_eq!(Config::decode(text), Some(c));
    for bad in
        ["", "{}", &text.replace("\"format\":1", "\"format\":2"), &text.replace("\"days\":3", "\"hours\":3")]
    {
        assert_eq!(Config::decode(bad), None, "{bad}");
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

fn random_rule(r: &mut Rng, i: usize, day: i64) -> Rule {
    let mut filter = Filter { prefix: ["", "a", "a/", "b"][r.below(4) as usize].into(), ..Filter::default() };
    if r.below(4) == 0 {
        filter.tags.push((["x", "y"][r.below(2) as usize].into(), "1".into()));
    }
    if r.below(4) == 0 {
        filter.greater = Some(r.below(3));
    }
    if r.below(4) == 0 {
        filter.less = Some(r.below(3) + 4);
    }
    let expiration = match r.below(5) {
        0 | 1 => Some(Expiration::Days(1 + r.below(5) as u32)),
        2 => Some(Expiration::Date(r.below(12) as i64 * day)),
        3 if !filter.looks_inside() => Some(Expiration::Markers),
        _ => None,
    };
    let noncurrent =
        (r.below(2) == 0).then(|| Noncurrent { days: 1 + r.below(4) as u32, newer: r.below(3) as u32 });
    let enabled = r.below(4) > 0;
    Rule { id: i.to_string(), enabled, legacy: false, filter, expiration, noncurrent, abort_days: None }
}

/// A second implementation from AWS's documentation, one version and one rule at a time, counting whole days.
fn naive(
    config: &Config,
    key: &str,
    list: &[VersionState<'_>],
    keeps: bool,
    now: i64,
    day: i64,
) -> Vec<(usize, Action)> {
    let mut out = Vec::new();
    let midnight_today = now / day;
    // Count the midnights since then without the first one: a partial day does not count.
    let days_since = |ms: i64| midnight_today - ms / day - 1;
    for (i, v) in list.iter().enumerate() {
        let mut hit = None;
        for r in &config.rules {
            let tags = r.filter.tags.iter().all(|t| v.tags.iter().any(|u| u == t));
            let big = r.filter.greater.is_none_or(|g| v.size > g);
            let small = r.filter.less.is_none_or(|l| v.size < l);
            let markers = r.filter.tags.is_empty() && r.filter.greater.is_none() && r.filter.less.is_none();
            let fits = if v.delete_marker { markers } else { tags && big && small };
            if !r.enabled || !key.starts_with(r.filter.prefix.as_str()) || !fits {
                continue;
            }
            if i > 0 {
                if let Some(n) = r.noncurrent
                    && days_since(list[i - 1].modified_ms) >= i64::from(n.days)
                    && list[1..i].len() >= n.newer as usize
                {
                    hit = Some(Action::Remove);
                }
                continue;
            }
            let due = match r.expiration {
                Some(Expiration::Days(n)) => days_since(v.modified_ms) >= i64::from(n),
                Some(Expiration::Date(at)) => now >= at,
                Some(Expiration::Markers) => v.delete_marker && now >= v.modified_ms,
                None => false,
            };
            if due && !v.delete_marker {
                hit = Some(Action::Expire);
            } else if due && list.len() == 1 {
                hit = Some(Action::RemoveMarker);
            }
        }
        match hit {
            Some(Action::Expire) if v.locked && !keeps => {}
            Some(Action::Expire) => out.push((i, Action::Expire)),
            Some(action) if !v.locked => out.push((i, action)),
            _ => {}
        }
    }
    out
}

#[test]
fn random_rules_agree_with_the_second_implementation() {
    let day = 10_000;
    let calendar = Calendar::with_days_of(day);
    let tags = [("x".to_owned(), "1".to_owned()), ("y".to_owned(), "1".to_owned())];
    let mut hits = 0;
    for seed in 1..=20_000u64 {
        let mut r = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let config = Config {
            rules: (0..=r.below(3)).map(|i| random_rule(&mut r, i as usize, day)).collect(),
            ..Config::default()
        };
        let mut at = r.below(8 * day as u64) as i64 + day;
        let list: Vec<VersionState<'_>> = (0..r.below(5))
            .map(|_| {
                let delete_marker = r.below(3) == 0;
                let which = r.below(3) as usize;
                let v = VersionState {
                    modified_ms: at,
                    size: if delete_marker { 0 } else { r.below(8) },
                    delete_marker,
                    tags: if delete_marker { &[] } else { &tags[..which] },
                    locked: r.below(4) == 0,
                };
                at = (at - r.below(3 * day as u64) as i64).max(0);
                v
            })
            .collect();
        let keeps = r.below(2) == 0;
        let now = r.below(14 * day as u64) as i64;
        for key in ["a", "a/1", "b", "c"] {
            let plan = config.plan(key, &list, keeps, now, calendar);
            let got: Vec<(usize, Action)> = plan.iter().map(|d| (d.index, d.action)).collect();
            assert_eq!(
                got,
                naive(&config, key, &list, keeps, now, day),
                "seed {seed} key {key} {config:?} {list:?} now {now}"
            );
            hits += got.len();
            let untouched = |d: &Due| !list[d.index].locked || (d.action == Action::Expire && keeps);
            assert!(plan.iter().all(untouched), "seed {seed}: something locked");
            let Some(first) = list.first() else { continue };
            let key_summary = KeySummary {
                modified_ms: first.modified_ms,
                size: first.size,
                delete_marker: first.delete_marker,
                alone: list.len() == 1 && r.below(2) == 0,
            };
            let looked = config.may_be_due(key, &key_summary, now, calendar);
            assert!(looked || plan.is_empty(), "seed {seed} key {key}: overlooked by the list");
            assert!(plan.is_empty() || config.next_due(key, &list, calendar).unwrap() <= now, "seed {seed}");
            assert!(
                plan.is_empty() || config.prefixes(false).iter().any(|p| key.starts_with(p)),
                "seed {seed}: its prefix is not looked through"
            );
        }
    }
    assert!(hits > 10_000, "{hits} hits: the test tests nothing");
}
