//! When a pass is due, what restarts and wrong clocks change, and when a register counts as verified.

use super::*;

const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;
const EVERY: Duration = Duration::from_secs(7 * 86_400);
/// The present of these tests.
const NOW: i64 = 1_800_000_000_000;

fn drives() -> Vec<DriveId> {
    (0..4).map(|i| DriveId([i; 16])).collect()
}

fn ended(began_ms: i64) -> ScrubRecord {
    let mut record = ScrubRecord { seen_ms: 1, ..ScrubRecord::default() };
    let mut pass = record.begin(drives(), began_ms);
    pass.end(began_ms + MINUTE);
    record.note(pass);
    record
}

fn at(record: &ScrubRecord, now_ms: i64) -> Step {
    record.step(&drives(), now_ms, EVERY, Elapsed::default())
}

#[test]
fn pass_is_due_after_the_last_one_began_or_the_group_was_seen() {
    let new = ScrubRecord { seen_ms: NOW, ..ScrubRecord::default() };
    assert_eq!((at(&new, NOW + 7 * DAY - 1), at(&new, NOW + 7 * DAY)), (Step::Wait, Step::Begin));
    // Together with others a little earlier.
    let round = Elapsed { in_round: true, ..Elapsed::default() };
    let early = |now_ms| new.step(&drives(), now_ms, EVERY, round);
    assert_eq!((early(NOW + 6 * DAY), early(NOW + 7 * DAY - DAY / 4)), (Step::Wait, Step::Begin));
    let old = ended(NOW);
    assert_eq!((at(&old, NOW + 7 * DAY - 1), at(&old, NOW + 7 * DAY)), (Step::Wait, Step::Begin));
}

#[test]
fn interrupted_pass_goes_on_unless_the_drives_changed() {
    let mut record = ended(NOW - 8 * DAY);
    let mut pass = record.begin(drives(), NOW);
    assert!(pass.advance(b"m", NOW + 2 * MINUTE, 1));
    record.note(pass.clone());
    assert_eq!(at(&record, NOW + 3 * MINUTE), Step::Resume);
    let mut others = drives();
    others[2] = DriveId([9; 16]);
    assert_eq!(record.step(&others, NOW, EVERY, Elapsed::default()), Step::Begin);
    // The one that begins anew replaces it.
    let anew = record.begin(others, NOW);
    record.note(anew.clone());
    assert_eq!(record.current, Some(anew));
    // The end of the first one changes nothing but the last pass.
    pass.end(NOW + 5 * MINUTE);
    record.note(pass.clone());
    assert_eq!((record.last, record.current.is_some()), (Some(pass), true));
}

/// The clock was set back: the monotonic clock still makes the pass due, and the order of passes stays.
#[test]
fn clock_that_was_set_back_delays_by_one_interval() {
    let mut record = ended(NOW + 3650 * DAY);
    let elapsed = |since_learned| Elapsed { since_learned, ..Elapsed::default() };
    assert_eq!(record.step(&drives(), NOW, EVERY, elapsed(EVERY - Duration::from_secs(1))), Step::Wait);
    assert_eq!(record.step(&drives(), NOW, EVERY, elapsed(EVERY)), Step::Begin);
    assert!(record.begin(drives(), NOW).began_ms > NOW + 3650 * DAY);
    // A process that does not run as long replaces the time, and later ones count from there.
    assert!(record.correct(NOW) && !record.correct(NOW));
    assert_eq!((at(&record, NOW + 7 * DAY - 1), at(&record, NOW + 7 * DAY)), (Step::Wait, Step::Begin));
    // Clocks of nodes that differ a little are left alone.
    let mut near = ended(NOW + MINUTE);
    assert!(!near.correct(NOW));
}

/// The clock was set far ahead: one pass, and then none for half the interval, whatever the clock says.
#[test]
fn clock_that_was_set_ahead_costs_one_pass() {
    let record = ended(NOW);
    assert_eq!(at(&record, NOW + 1000 * DAY), Step::Begin);
    let begun = |since| Elapsed { since_begun: Some(since), ..Elapsed::default() };
    let record = ended(NOW + 1000 * DAY);
    assert_eq!(record.step(&drives(), NOW + 2000 * DAY, EVERY, begun(EVERY / 2 - MS)), Step::Wait);
    assert_eq!(record.step(&drives(), NOW + 2000 * DAY, EVERY, begun(EVERY / 2)), Step::Begin);
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn of_two_records_the_later_passes_count() {
    let (old, new) = (ended(NOW), ended(NOW + DAY));
    assert_eq!(old.clone().merged(new.clone(), NOW + DAY), new);
    assert_eq!(new.clone().merged(old.clone(), NOW + DAY), new);
    // Of one pass the further state.
    let mut near = old.clone();
    let mut pass = near.begin(drives(), NOW + 2 * DAY);
    pass.advance(b"b", NOW + 2 * DAY + MINUTE, 1);
    near.note(pass.clone());
    let mut far = near.clone();
    pass.advance(b"c", NOW + 2 * DAY + 2 * MINUTE, 1);
    far.note(pass.clone());
    assert_eq!(near.clone().merged(far.clone(), NOW + 3 * DAY), far);
    assert_eq!(far.clone().merged(near.clone(), NOW + 3 * DAY), far);
    // A pass that began later and ended ends what is in progress.
    let manual = ended(NOW + 3 * DAY);
    let merged = far.merged(manual.clone(), NOW + 3 * DAY);
    assert_eq!((merged.last, merged.current), (manual.last, None));
    // A stored time of the future does not win.
    let mut future = ended(NOW + 900 * DAY);
    future.seen_ms = NOW;
    assert_eq!(old.clone().merged(future, NOW + DAY), old);
    // Whoever saw the group first is right.
    let seen = |seen_ms| ScrubRecord { seen_ms, ..ScrubRecord::default() };
    assert_eq!(
        [seen(0).merged(seen(5), 9), seen(5).merged(seen(7), 9), seen(7).merged(seen(5), 9)],
        [seen(5), seen(5), seen(5)]
    );
}

/// However long a pass takes: few marks, and few moments at which it is stored.
#[test]
fn marks_are_bounded() {
    for (groups, most) in [(1, MARKS), (256, 32), (4096, LEAST_MARKS)] {
        let mut pass = ScrubRecord::default().begin(drives(), NOW);
        let mut stored = 0;
        for i in 0..60_480i64 {
            // A week, in steps of ten seconds.
            let position = format!("{i:08}");
            stored += u64::from(pass.advance(position.as_bytes(), NOW + i * 10_000, groups));
            assert!(pass.marks.len() <= most);
            assert_eq!(pass.position, position.as_bytes());
        }
        assert!(pass.marks.len() >= most / 3, "{} marks", pass.marks.len());
        assert!(pass.marks.is_sorted_by(|a, b| a.position < b.position && a.at_ms < b.at_ms));
        assert!(stored <= 400, "stored {stored} times");
    }
}

#[test]
fn verified_is_what_a_pass_has_passed_after_the_write() {
    let mut record = ScrubRecord::default();
    let mut pass = record.begin(drives(), NOW);
    assert!(pass.advance(b"g", NOW + MINUTE, 1) && pass.advance(b"p", NOW + 3 * MINUTE, 1));
    record.note(pass.clone());
    let of = |record: &ScrubRecord, key: &str, written| {
        record.verified_ms(key.as_bytes(), DriveId([1; 16]), written)
    };
    assert_eq!(of(&record, "a", NOW - DAY), Some(NOW + MINUTE));
    assert_eq!(of(&record, "k", NOW - DAY), Some(NOW + 3 * MINUTE));
    assert_eq!(of(&record, "p", NOW - DAY), None, "it was not reached yet");
    assert_eq!(of(&record, "k", NOW + 2 * MINUTE), None, "it may have been written after it was passed");
    assert_eq!(of(&record, "k", NOW + 4 * MINUTE), None);
    assert_eq!(record.verified_ms(b"a", DriveId([9; 16]), 0), None, "a drive that was not there");
    pass.end(NOW + 5 * MINUTE);
    record.note(pass);
    assert_eq!(of(&record, "z", NOW - DAY), Some(NOW + 5 * MINUTE));
    // The next pass: what it has not reached yet was verified by the one before.
    let mut next = record.begin(drives(), NOW + 7 * DAY);
    next.advance(b"g", NOW + 7 * DAY + MINUTE, 1);
    record.note(next);
    assert_eq!(of(&record, "a", NOW - DAY), Some(NOW + 7 * DAY + MINUTE));
    assert_eq!(of(&record, "a", NOW + DAY), Some(NOW + 7 * DAY + MINUTE));
    assert_eq!(of(&record, "z", NOW - DAY), Some(NOW + 5 * MINUTE));
    assert_eq!(of(&record, "z", NOW + DAY), None);
}

/// A stretch in which a drive did not answer verified nothing for sure.
#[test]
fn stretch_with_failures_is_not_verified() {
    let mut pass = ScrubRecord::default().begin(drives(), NOW);
    pass.whole = false;
    assert!(pass.advance(b"g", NOW + MINUTE, 1));
    pass.end(NOW + 2 * MINUTE);
    assert_eq!((pass.passed(b"a"), pass.passed(b"h").is_some()), (None, true));
}

/// Positions of marks are cut: no register behind the cut counts as passed before it was.
#[test]
fn cut_positions_claim_nothing() {
    let mut pass = ScrubRecord::default().begin(drives(), NOW);
    let long = |end: &str| [&[b'x'; 80][..], end.as_bytes()].concat();
    pass.advance(&long("b"), NOW + MINUTE, 1);
    pass.advance(&long("m"), NOW + 2 * MINUTE, 1);
    pass.advance(b"y", NOW + 3 * MINUTE, 1);
    assert_eq!(pass.position, b"y");
    assert_eq!(pass.marks.len(), 2, "the second was cut like the first");
    // It was verified between the beginning and the second mark; later is not known.
    assert_eq!(pass.passed(&long("a")), Some((NOW, NOW + 3 * MINUTE)));
    assert_eq!(pass.passed(b"xz"), Some((NOW + MINUTE, NOW + 3 * MINUTE)));
    assert_eq!(pass.passed(b"a"), Some((NOW, NOW + MINUTE)));
}

#[test]
fn stretches_get_shorter_when_they_take_long() {
    let seconds = Duration::from_secs;
    assert_eq!([61, 30, 10].map(|s| next_limit(128, 512, seconds(s))), [64, 128, 256]);
    assert_eq!((next_limit(16, 512, seconds(100)), next_limit(512, 512, seconds(1))), (16, 512));
}
