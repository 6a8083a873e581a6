//! Tests of the proposer: what follows from each answer, and what must never be allowed.

use super::*;

fn b(counter: u64) -> Ballot {
    Ballot { counter, node: 1, ..Ballot::ZERO }
}

fn proposer(n: u8) -> Proposer<&'static str> {
    Proposer::new(Quorum::new(n), b(10))
}

#[test]
fn write_over_undecided_base() {
    let mut p = proposer(3);
    assert_eq!(p.on_promise(0, Some((b(2), "old"))), Step::Wait);
    assert_eq!(p.on_promise(0, Some((b(2), "old"))), Step::Wait, "repeated");
    assert_eq!(p.on_promise(2, None), Step::Base(Some((b(2), "old")), false));
    assert!(!p.chosen_known());
    let _ = p.on_promise(1, Some((b(2), "old")));
    assert!(p.chosen_known(), "a late promise shows that it was chosen");
    p.on_stage_durable(0);
    assert!(!p.may_propose(2));
    p.on_stage_durable(1);
    p.propose(2);
    assert_eq!(p.on_accepted(1), Step::Wait);
    assert_eq!(p.on_accepted(1), Step::Wait);
    assert_eq!(p.on_accepted(0), Step::Chosen);
    assert_eq!(p.on_accepted(2), Step::Wait);
    assert_eq!(p.accepted_by().len(), 3);
}

#[test]
fn first_write() {
    let mut p = proposer(3);
    let _ = p.on_promise(0, None);
    assert_eq!(p.on_promise(1, None), Step::Base(None, true));
    let _ = p.on_promise(2, Some((b(3), "dead")));
    p.propose(0);
    assert!(p.maybe_accepted());
    let _ = p.on_accept_refused(0, b(12));
    assert_eq!(p.on_accept_refused(1, b(11)), Step::Lost { retry_above: b(12) });
    assert!(p.maybe_accepted());
    let _ = p.on_accept_refused(2, b(11));
    assert!(!p.maybe_accepted());
}

#[test]
fn refusals_and_silence() {
    let mut p = proposer(3);
    let _ = p.on_refused(0, b(20));
    assert_eq!(p.on_silent(1), Step::Lost { retry_above: b(20) });
    let mut p = proposer(3);
    let _ = p.on_silent(0);
    assert_eq!(p.on_silent(1), Step::Unavailable);
    assert!(!p.maybe_accepted());
    let mut p = proposer(3);
    let _ = p.on_silent(0);
    let _ = p.on_refused(1, b(10));
    assert_eq!(p.promised_by(), SlotSet::EMPTY, "our own ballot is no refusal");
    let mut p = proposer(3);
    let _ = p.on_silent(0);
    let _ = p.on_promise(0, None);
    assert!(matches!(p.on_promise(1, None), Step::Base(None, true)), "late is not never");
    p.propose(0);
    let _ = p.on_accept_silent(0);
    assert_eq!(p.on_accept_silent(1), Step::Unavailable);
}

#[test]
fn retry_treats_base_as_undecided() {
    let mut p: Proposer<&'static str> = Proposer::retry(Quorum::new(3), b(10));
    p.on_hint(b(2));
    let _ = p.on_promise(0, Some((b(2), "x")));
    assert_eq!(p.on_promise(1, Some((b(2), "x"))), Step::Base(Some((b(2), "x")), false));
}

#[test]
fn hint_makes_base_chosen() {
    let mut p = proposer(3);
    p.on_hint(b(2));
    let _ = p.on_promise(0, Some((b(2), "x")));
    assert_eq!(p.on_promise(1, None), Step::Base(Some((b(2), "x")), true));
}

#[test]
#[should_panic(expected = "I4")]
fn record_is_not_proposed_before_data() {
    let mut p = proposer(3);
    let _ = p.on_promise(0, None);
    let _ = p.on_promise(1, None);
    p.on_stage_durable(0);
    p.propose(2);
}

#[test]
#[should_panic(expected = "I1")]
fn one_record_per_ballot() {
    let mut p = proposer(1);
    let _ = p.on_promise(0, None);
    p.propose(0);
    p.propose(0);
}

/// 3+2: M = 3, needed 4.
const ONE_SYNC: OneSync = OneSync { k: 3, needed: 4, targets: SlotSet::first(5) };

#[test]
fn one_sync_needs_durable_shards() {
    let mut p = proposer(5);
    for slot in 0..3 {
        let _ = p.on_promise(slot, None);
    }
    p.one_sync(ONE_SYNC);
    for slot in 0..3 {
        assert_eq!(p.on_accepted(slot), Step::Wait);
    }
    let mut q = p.clone();
    assert_eq!(p.on_accepted(4), Step::Chosen);
    let _ = q.on_accept_silent(3);
    assert_eq!(q.on_accept_silent(4), Step::Unavailable);
}

#[test]
fn one_sync_base_overtaken_mended_or_unknown() {
    let base = |p: &mut Proposer<&'static str>, slot| {
        p.on_promise_one_sync(slot, (b(3), "one-sync"), ONE_SYNC, true)
    };
    let mut p = proposer(5);
    let _ = p.on_promise(0, Some((b(1), "parent")));
    let _ = base(&mut p, 1);
    let mut unknown = p.clone();
    let mut solid = p.clone();
    let step = p.on_promise(2, None);
    let Step::Recover(r) = step else { panic!("{step:?}") };
    assert_eq!((r.ballot, r.value, r.footing), (b(3), "one-sync", Footing::Overtaken));
    assert!(!p.chosen_known() && p.may_propose(0));

    assert_eq!(base(&mut unknown, 2), Step::Wait, "slots 3 and 4 may have it");
    let mut mend = unknown.clone();
    assert_eq!(base(&mut mend, 3), Step::Wait, "slot 4 may spare the mending");
    let step = mend.on_silent(4);
    assert!(matches!(step, Step::Recover(Recovery { footing: Footing::Mend { needed: 4, .. }, .. })));
    assert!(!mend.may_propose(0));
    let mut anew = mend.clone();
    mend.on_mended(0);
    assert!(mend.may_propose(0));
    anew.rewrite_base(2);
    anew.on_mended(1);
    assert!(!anew.may_propose(0));
    anew.on_mended(2);
    assert!(anew.may_propose(0));
    let _ = unknown.on_silent(3);
    let mut retry = unknown.clone();
    assert_eq!(unknown.on_silent(4), Step::Unavailable, "blocked");
    assert_eq!(retry.on_refused(4, b(11)), Step::Lost { retry_above: b(11) });

    solid.on_hint(b(3));
    assert_eq!(base(&mut solid, 2), Step::Base(Some((b(3), "one-sync")), true));
}

#[test]
fn idle_update_needs_all_promises_and_none_above() {
    let mut p: Proposer<&str> = Proposer::new(Quorum::new(4), b(9));
    for slot in 0..2 {
        assert_eq!(p.on_absent(slot, Ballot::ZERO), Step::Wait);
    }
    assert_eq!(p.on_absent(2, Ballot::ZERO), Step::Base(None, true));
    assert!(p.chosen_known() && !p.idle_known(), "the fourth may hold something");
    let mut quiet = p.clone();
    assert_eq!(quiet.on_absent(3, Ballot::ZERO), Step::Wait);
    assert!(quiet.idle_known());
    assert_eq!(p.on_promise(3, Some((b(5), "failed"))), Step::Wait);
    assert!(!p.chosen_known() && !p.idle_known(), "a record above the base: a round first");
}

#[test]
fn absence_above_record_makes_it_dead() {
    let four = |seen: [Option<Result<u64, u64>>; 4]| {
        let mut p: Proposer<u64> = Proposer::new(Quorum::new(4), b(99));
        let mut last = Step::Wait;
        for (slot, s) in seen.into_iter().enumerate() {
            let step = match s {
                None => p.on_silent(slot as Slot),
                Some(Ok(c)) => p.on_promise(slot as Slot, Some((b(c), c))),
                Some(Err(h)) => p.on_absent(slot as Slot, b(h)),
            };
            if step != Step::Wait {
                last = step;
            }
        }
        (last, p.chosen_known())
    };
    // Two of four purged their tombstone; the third went back in time.
    assert_eq!(four([Some(Err(8)), Some(Ok(5)), Some(Err(7)), None]), (Step::Base(None, false), false));
    // Only one horizon, and no other slot to ask: the record may be chosen.
    assert_eq!(four([Some(Err(8)), Some(Ok(5)), Some(Ok(5)), None]).0, Step::Base(Some((b(5), 5)), false));
    // The proposer waits for the fourth slot, which decides.
    assert_eq!(four([Some(Err(8)), Some(Ok(5)), Some(Err(4)), Some(Err(6))]).0, Step::Base(None, false));
    // The horizons do not concern a record above them.
    assert_eq!(
        four([Some(Err(8)), Some(Ok(9)), Some(Err(8)), Some(Err(8))]).0,
        Step::Base(Some((b(9), 9)), false)
    );
}
