//! Updates that are retried after their records were sent: what they may answer, and when.

use super::{Choice, Done, Error, Follows, Result, SentRecords, Stop};
use crate::tests::back::purged;
use crate::tests::basic::{census, quiet};
use crate::tests::{Rig, body, delete, drive_id, in_epoch, key, put, shut, summary};
use crate::{Decision, Options, Register, Sets};
use ashlar_drive::Drive;
use ashlar_format::{Ballot, Body, GroupId, Record};
use ashlar_machine::BufferPool;

/// Another process over the same drives.
fn other(rig: &Rig) -> Sets {
    let mut options = Options::new(BufferPool::new(16 << 20));
    (options.node, options.sole) = (2, false);
    Sets::new(rig.layout.clone(), rig.sets.drives(), options).unwrap()
}

/// The size of the first version, by which bodies without data are distinguished.
fn size_of(r: Option<&Register>) -> Option<u64> {
    match &r?.record.body {
        Body::Versions(v) => Some(v[0].size),
        _ => None,
    }
}

/// One attempt.
async fn attempt(
    sets: &Sets,
    sent: &mut SentRecords,
    mut decide: impl FnMut(Option<&Record>) -> Choice + Send,
) -> Result<Option<Done>> {
    let key = key(sets, "x");
    let hash = ashlar_checksum::key_hash(key.as_bytes());
    let _turn = sets.inner.locks.lock(hash).await;
    let mut undecided = super::UndecidedGuard { inner: &sets.inner, key: &key, hash, sent: false };
    let view = sets.inner.view(key.group()).unwrap();
    let done = sets.inner.attempt(&view, &key, &[], &mut decide, sent, &mut undecided).await;
    // The update continues with its next attempt.
    undecided.sent = false;
    done.map_err(|e| match e {
        super::UpdateError::Set(e) => e,
        super::UpdateError::Refused(()) => unreachable!("nothing is refused here"),
    })
}

/// One attempt that writes a version that is `size` bytes larger than the present one.
async fn add(sets: &Sets, sent: &mut SentRecords, size: u64) -> Result<Option<Done>> {
    let decide = |base: Option<&Record>| {
        let had = match base.map(|r| &r.body) {
            Some(Body::Versions(v)) => v[0].size,
            _ => 0,
        };
        let size = had + size;
        let (body, summary) = (body(size, None), summary(size));
        Choice::Write { body, summary, follows: Follows::Drop, answer: size as usize }
    };
    attempt(sets, sent, decide).await
}

/// One attempt that deletes. The answer: 1, it was there; 0, it was not.
async fn remove(sets: &Sets, sent: &mut SentRecords) -> Result<Option<Done>> {
    let decide = |base: Option<&Record>| match base.map(|r| &r.body) {
        None | Some(Body::Tombstone) => Choice::Keep { answer: 0 },
        Some(_) => Choice::Write {
            body: Body::Tombstone,
            summary: bytes::Bytes::new(),
            follows: Follows::Drop,
            answer: 1,
        },
    };
    attempt(sets, sent, decide).await
}

fn only(sets: &Sets, slots: &[u8]) {
    sets.inner.gate.set(Some((u64::MAX, slots.iter().fold(0, |b, s| b | 1 << s))));
}

fn drive(sets: &Sets, slot: u8) -> Drive {
    sets.drives().into_iter().find(|d| d.label().drive == drive_id(slot, 0)).unwrap()
}

/// Waits until an update is about to make the missing shards of its base.
async fn until_mending(sets: &Sets) {
    while sets.inner.gate.mended.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Waits until the drive in a slot has a record with a ballot of `node`: the attempt has ended by then.
async fn holds(sets: &Sets, slot: u8, node: u16, above: Ballot) {
    let drive = drive(sets, slot);
    for _ in 0..2000 {
        let seen = drive.read(&key(sets, "x"), false, u32::MAX).await.unwrap().accepted;
        if seen.is_some_and(|a| a.ballot.node == node && a.ballot > above) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("slot {slot} never took the record");
}

/// A record of this process and a child that another one built on it, both on a minority: the child may
/// disappear, and the parent with it, unless it is chosen before the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ancestor_of_undecided_base_is_undecided() {
    let rig = Rig::with(4, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, Ballot::ZERO).await;
    only(&second, &[1]);
    let mut theirs = SentRecords::default();
    assert!(matches!(add(&second, &mut theirs, 100).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 1, 2, Ballot::ZERO).await;
    rig.sets.inner.gate.set(None);
    let mut done = None;
    for _ in 0..8 {
        done = add(&rig.sets, &mut sent, 10).await.unwrap();
        if done.is_some() {
            break;
        }
    }
    assert_eq!(done.expect("nobody is in the way").answer, 10);
    // The two drives that showed it are removed: what was acknowledged must still exist.
    for slot in [0, 1] {
        rig.sets.detach(drive_id(slot, 0));
    }
    let now = rig.sets.read_register(&rig.key("x")).await.unwrap();
    assert_eq!(size_of(now.as_ref()), Some(110), "acknowledged, and gone");
    rig.close().await;
}

/// Another process completes the first of two sent records: the update is done and must not be repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successful_earlier_attempt_is_not_repeated() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, Ballot::ZERO).await;
    // The next attempt does not reach the first one's slot, but only another one.
    let d = rig.sets.detach(drive_id(0, 0)).unwrap();
    only(&rig.sets, &[1]);
    assert!(matches!(add(&rig.sets, &mut sent, 11).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 1, 0, Ballot::ZERO).await;
    rig.sets.attach(d);
    // Another process does not reach that slot, and decides the first record.
    second.detach(drive_id(1, 0)).unwrap();
    let chosen = second.read_register(&rig.key("x")).await.unwrap();
    assert_eq!(size_of(chosen.as_ref()), Some(10));
    rig.sets.inner.gate.set(None);
    let mut done = None;
    for _ in 0..8 {
        done = add(&rig.sets, &mut sent, 1000).await.unwrap();
        if done.is_some() {
            break;
        }
    }
    let done = done.expect("nobody is in the way");
    assert_eq!(done.answer, 10, "the answer of the attempt that came through");
    assert_eq!(size_of(done.register.as_ref()), Some(10), "applied once");
    let now = rig.sets.read_register(&rig.key("x")).await.unwrap();
    assert_eq!(size_of(now.as_ref()), Some(10));
    rig.close().await;
}

/// An update learns that its record was applied only after another process has built on it: its place is before that change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ballots_of_updates_are_in_the_order_of_the_changes() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, Ballot::ZERO).await;
    // A majority that the first slot is part of.
    let absent = second.detach(drive_id(1, 0)).unwrap();
    let theirs = add_until_done(&second, &mut SentRecords::default()).await.unwrap();
    assert_eq!(size_of(theirs.register.as_ref()), Some(1010), "it was built on the record");
    second.attach(absent);
    rig.sets.inner.gate.set(None);
    let ours = add_until_done(&rig.sets, &mut sent).await.unwrap();
    assert_eq!(
        (ours.answer, size_of(ours.register.as_ref())),
        (10, Some(1010)),
        "it was applied, and not again"
    );
    assert!(ours.ballot < theirs.ballot, "{:?} is not before {:?}", ours.ballot, theirs.ballot);
    let key = rig.key("x");
    let kept = second.update_register(&key, &[], |_| Decision::<(), ()>::Keep(())).await.unwrap();
    assert!(kept.ballot > theirs.ballot, "what keeps a state is behind the change that made it");
    assert!(add_until_done(&rig.sets, &mut SentRecords::default()).await.unwrap().ballot > kept.ballot);
    rig.close().await;
}

/// Another process changes the register after each attempt of an update: however many of its records have followed
/// the first one that was sent, they show that it was not applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_that_others_overtake_again_and_again_has_an_outcome() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    second.detach(drive_id(0, 0)).unwrap();
    let mut sent = SentRecords::default();
    let mut newest = Ballot::ZERO;
    for round in 1..=4 {
        only(&rig.sets, &[0]);
        let cut_off = add(&rig.sets, &mut sent, 10).await;
        assert!(matches!(cut_off, Err(Error::Unavailable(_))), "round {round}: {:?}", cut_off.err());
        holds(&rig.sets, 0, 0, newest).await;
        rig.sets.inner.gate.set(None);
        let theirs = add_until_done(&second, &mut SentRecords::default()).await.unwrap();
        assert_eq!(size_of(theirs.register.as_ref()), Some(1000 * round), "round {round}");
        newest = theirs.register.unwrap().ballot;
    }
    let mut done = None;
    for _ in 0..8 {
        done = add(&rig.sets, &mut sent, 10).await.unwrap();
        if done.is_some() {
            break;
        }
    }
    assert_eq!(size_of(done.expect("nobody is in the way").register.as_ref()), Some(4010));
    rig.close().await;
}

/// A record of this process that only the first slot has, which the other process does not reach.
async fn on_first_slot(rig: &Rig, second: &Sets, above: Ballot) -> SentRecords {
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, above).await;
    rig.sets.inner.gate.set(None);
    second.detach(drive_id(0, 0)).unwrap();
    sent
}

/// Another process changes the register many times while an update waits for its turn. `learns`: it has read the register
/// meanwhile, after the first of these changes.
async fn changed_often_while_waiting(existed: bool, learns: bool) {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let before = match existed {
        true => rig.put("x", b"").await.unwrap().ballot,
        false => Ballot::ZERO,
    };
    let mut sent = on_first_slot(&rig, &second, before).await;
    for round in 0..5 {
        add_until_done(&second, &mut SentRecords::default()).await.unwrap();
        if learns && round == 0 {
            assert!(rig.sets.inner.learn_outcome(&rig.key("x"), &mut sent, &Stop::default()).await.is_none());
            assert!(sent.are_passed());
            // Without a record before it, a purge has to be ruled out at every attempt.
            assert_eq!(sent.may_be_applied(), !existed);
        }
    }
    let done = add_until_done(&rig.sets, &mut sent).await;
    match learns {
        true => assert_eq!(size_of(done.unwrap().register.as_ref()), Some(6000)),
        false => assert!(matches!(done.map(|d| d.answer), Err(Error::Unknown(_)))),
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcome_is_learned_before_many_changes_follow() {
    changed_often_while_waiting(true, true).await;
    changed_often_while_waiting(false, true).await;
}

/// The above shows something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcome_is_unknown_after_many_changes() {
    changed_often_while_waiting(true, false).await;
    changed_often_while_waiting(false, false).await;
}

/// Another process chooses the record and builds on it: the update is done, without another proposal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_others_chose_is_found_applied() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, Ballot::ZERO).await;
    rig.sets.inner.gate.set(None);
    let theirs = add_until_done(&second, &mut SentRecords::default()).await.unwrap();
    assert_eq!(size_of(theirs.register.as_ref()), Some(1010));
    let key = rig.key("x");
    let ours = rig.sets.inner.learn_outcome(&key, &mut sent, &Stop::default()).await.expect("it is applied");
    assert_eq!((ours.answer, size_of(ours.register.as_ref())), (10, Some(1010)));
    assert!(ours.ballot < theirs.ballot, "{:?} is not before {:?}", ours.ballot, theirs.ballot);
    rig.close().await;
}

/// A record of another process on one slot has the same place, but nothing is chosen: ours may still be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecided_record_of_others_settles_nothing() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let before = rig.put("x", b"").await.unwrap();
    let mut sent = on_first_slot(&rig, &second, before.ballot).await;
    only(&second, &[1]);
    assert!(matches!(add(&second, &mut SentRecords::default(), 100).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 1, 2, before.ballot).await;
    assert!(rig.sets.inner.learn_outcome(&rig.key("x"), &mut sent, &Stop::default()).await.is_none());
    assert!(sent.may_be_applied() && !sent.are_passed());
    // A third process does not reach that slot, and chooses ours.
    second.inner.gate.set(None);
    let third = other(&rig);
    third.detach(drive_id(1, 0)).unwrap();
    let chosen = third.read_register(&rig.key("x")).await.unwrap();
    assert_eq!(size_of(chosen.as_ref()), Some(10));
    let done = add_until_done(&rig.sets, &mut sent).await.unwrap();
    assert_eq!((done.answer, size_of(done.register.as_ref())), (10, Some(10)), "applied once");
    rig.close().await;
}

/// Others change the register while an attempt is slow: its record is not sent, so that nothing is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_that_others_overtake_sends_nothing() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let (key, inner) = (rig.key("x"), &rig.sets.inner);
    let view = inner.view(key.group()).unwrap();
    let mut sent = SentRecords::default();
    let slow = || tokio::time::sleep(std::time::Duration::from_millis(300));
    let ballot = inner.ballots.next(view.epoch);
    assert!(inner.unless_overtaken((&view, &key, ballot), &mut sent, slow()).await.is_some());
    let theirs = add_until_done(&second, &mut SentRecords::default()).await.unwrap().register.unwrap();
    assert!(theirs.ballot > ballot, "a ballot of a process that never met another one is low");
    assert!(inner.unless_overtaken((&view, &key, ballot), &mut sent, slow()).await.is_none());
    let above = Ballot { counter: theirs.ballot.counter + 1, ..ballot };
    assert!(inner.unless_overtaken((&view, &key, above), &mut sent, slow()).await.is_some());
    rig.close().await;
}

/// A record sent earlier is on a slot outside of the majority: a refusal is answered only after something
/// newer is chosen, so that the record cannot reappear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusal_follows_newer_chosen_record() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let before = rig.put("x", b"").await.unwrap();
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, before.ballot).await;
    rig.sets.inner.gate.set(None);
    let d = rig.sets.detach(drive_id(0, 0)).unwrap();
    let key = rig.key("x");
    let hash = ashlar_checksum::key_hash(key.as_bytes());
    let mut refused = false;
    for _ in 0..8 {
        let mut refuse = |_: Option<&Record>| Choice::Refuse;
        let mut undecided = super::UndecidedGuard { inner: &rig.sets.inner, key: &key, hash, sent: false };
        let view = rig.sets.inner.view(key.group()).unwrap();
        match rig.sets.inner.attempt(&view, &key, &[], &mut refuse, &mut sent, &mut undecided).await {
            Ok(None) => {}
            Ok(Some(_)) => panic!("it was not written"),
            Err(super::UpdateError::Refused(())) => {
                refused = true;
                break;
            }
            Err(super::UpdateError::Set(e)) => panic!("{e}"),
        }
    }
    assert!(refused);
    // The slot returns, another one is removed: the old record must lose to what was chosen after it.
    rig.sets.attach(d);
    rig.sets.detach(drive_id(3, 0));
    let now = rig.sets.read_register(&key).await.unwrap();
    assert_eq!(size_of(now.as_ref()), Some(0), "a refused write appeared");
    rig.close().await;
}

/// A record of an attempt that failed on most drives; another process completes it, deletes the key, and purges it.
async fn completed_deleted_and_purged(rig: &Rig, second: &Sets) -> SentRecords {
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(add(&rig.sets, &mut sent, 10).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, Ballot::ZERO).await;
    let chosen = second.read_register(&rig.key("x")).await.unwrap();
    assert_eq!(size_of(chosen.as_ref()), Some(10));
    delete(second, "x").await.unwrap();
    let began = std::time::Instant::now();
    while !purged(second).await {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "purged");
        second.scrub(false).await.unwrap();
    }
    rig.sets.inner.gate.set(None);
    sent
}

/// Attempts until one does not ask for another.
async fn add_until_done(sets: &Sets, sent: &mut SentRecords) -> Result<Done> {
    for _ in 0..8 {
        if let Some(done) = add(sets, sent, 1000).await? {
            return Ok(done);
        }
    }
    panic!("nobody is in the way");
}

/// The update was applied, and its key deleted and purged. It must not be applied again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_update_is_not_repeated() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = completed_deleted_and_purged(&rig, &second).await;
    let done = add_until_done(&rig.sets, &mut sent).await.map(|d| d.answer);
    assert!(matches!(done, Err(Error::Unknown(_))), "{done:?}");
    assert_eq!(size_of(rig.sets.read_register(&rig.key("x")).await.unwrap().as_ref()), None);
    rig.close().await;
}

/// The same, and the key was created again: its new record has the sequence number of the one that was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_of_key_created_again_is_not_repeated() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let mut sent = completed_deleted_and_purged(&rig, &second).await;
    put(&second, "x", b"").await.unwrap();
    let done = add_until_done(&rig.sets, &mut sent).await.map(|d| d.answer);
    assert!(matches!(done, Err(Error::Unknown(_))), "{done:?}");
    assert_eq!(size_of(rig.sets.read_register(&rig.key("x")).await.unwrap().as_ref()), Some(0));
    rig.close().await;
}

/// Two processes delete one key: their tombstones are alike, and only one of them has deleted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_of_another_process_is_not_taken_for_ones_own() {
    let rig = Rig::with(2, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    let before = rig.put("x", b"").await.unwrap();
    let mut sent = SentRecords::default();
    only(&rig.sets, &[0]);
    assert!(matches!(remove(&rig.sets, &mut sent).await, Err(Error::Unavailable(_))));
    holds(&rig.sets, 0, 0, before.ballot).await;
    // The other one does not see that tombstone.
    let d = second.detach(drive_id(0, 0)).unwrap();
    let mut theirs = SentRecords::default();
    let done = remove(&second, &mut theirs).await.unwrap().expect("nobody is in the way");
    assert_eq!(done.answer, 1);
    second.attach(d);
    rig.sets.inner.gate.set(None);
    let mut done = None;
    for _ in 0..8 {
        done = remove(&rig.sets, &mut sent).await.unwrap();
        if done.is_some() {
            break;
        }
    }
    assert_eq!(done.expect("nobody is in the way").answer, 0, "both have deleted it");
    rig.close().await;
}

/// An update finds a one-sync record that it would have to complete. Before it reads the data, another process completes the
/// record and deletes the key, so that the data is dropped everywhere. Nothing is damaged: the update begins again; also if the
/// drives follow a newer layout by then, so that they do not tell this process what they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base_that_others_completed_and_replaced_is_not_damage() {
    for moved in [false, true] {
        completed_and_replaced(moved).await;
    }
}

/// `moved`: the layout changes, too.
async fn completed_and_replaced(moved: bool) {
    let rig = Rig::with(4, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    only(&second, &[0]);
    assert!(put(&second, "x", b"a small body").await.is_err(), "one drive has it");
    holds(&rig.sets, 0, 2, Ballot::ZERO).await;
    second.inner.gate.set(None);
    let held = rig.sets.inner.gate.hold_mending.lock().await;
    let update = delete(&rig.sets, "x");
    let others = async {
        until_mending(&rig.sets).await;
        delete(&second, "x").await.unwrap();
        quiet(&second).await;
        let began = std::time::Instant::now();
        while census(&rig).await > 0 {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "the data is dropped");
        }
        if moved {
            for drive in rig.sets.drives() {
                drive.fence_epoch(GroupId::new(0, 0), 2).await.unwrap();
            }
        }
        drop(held);
        if moved {
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            rig.sets.set_layout(in_epoch(&rig.sets.layout(), 2)).unwrap();
        }
    };
    let (done, ()) = tokio::join!(update, others);
    done.unwrap();
    assert!(rig.get("x").await.unwrap().is_none());
    rig.close().await;
}

/// A record that one drive has, and that is not chosen, is being completed by an update when that drive is lost. Nothing is damaged:
/// the other drives decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base_whose_only_drive_is_lost_is_not_damage() {
    let rig = Rig::with(4, 2, 1, |o| o.sole = false).await;
    let second = other(&rig);
    only(&second, &[0]);
    assert!(put(&second, "x", b"a small body").await.is_err(), "one drive has it");
    holds(&rig.sets, 0, 2, Ballot::ZERO).await;
    let held = rig.sets.inner.gate.hold_mending.lock().await;
    let update = put(&rig.sets, "x", b"another one");
    let loss = async {
        until_mending(&rig.sets).await;
        shut(&rig.sets.detach(drive_id(0, 0)).unwrap()).await;
        drop(held);
    };
    let (done, ()) = tokio::join!(update, loss);
    done.unwrap();
    assert_eq!(rig.get("x").await.unwrap().unwrap(), b"another one");
    rig.close().await;
}

/// A record that two drives have, and that is not chosen, is being completed by an update when they lose its shards. Nobody was told that it is stored, so this is no damage: the update asks for patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_write_without_its_shards_is_not_damage() {
    let rig = Rig::with(2, 3, 1, |o| o.sole = false).await;
    let second = other(&rig);
    only(&second, &[0, 1]);
    assert!(put(&second, "x", b"a small body").await.is_err(), "two drives have it");
    holds(&rig.sets, 0, 2, Ballot::ZERO).await;
    holds(&rig.sets, 1, 2, Ballot::ZERO).await;
    let held = rig.sets.inner.gate.hold_mending.lock().await;
    let update = put(&rig.sets, "x", b"another one");
    let loss = async {
        until_mending(&rig.sets).await;
        for slot in [0, 1] {
            let drive = drive(&rig.sets, slot);
            let shards = drive.shards(None, 100).await.unwrap();
            assert_eq!(shards.len(), 1);
            drive.discard(GroupId::new(0, 0), u32::MAX, &[(shards[0].write_id, shards[0].index)]);
            drive.flush().await.unwrap();
            assert!(drive.shards(None, 100).await.unwrap().is_empty(), "the shard is dropped");
        }
        drop(held);
    };
    let (done, ()) = tokio::join!(update, loss);
    assert!(matches!(done, Err(Error::Unavailable(_))), "{done:?}");
    rig.close().await;
}
