//! Slots that move to a drive that votes in other groups, while the drive that had them is away, and comes back as a
//! voter of the old epoch.

use super::join::census_after_load;
use super::*;
use crate::ShardState;

/// Objects of each test.
const COUNT: u64 = 24;

/// The layout in which `to` has the slot of `from` in a group.
fn moved(layout: &Layout, group: usize, from: DriveId, to: DriveId) -> Layout {
    let mut layout = Layout { epoch: layout.epoch + 1, ..layout.clone() };
    let epoch = layout.epoch;
    let group = &mut layout.groups[group];
    group.epoch = epoch;
    group.slots.iter_mut().filter(|d| **d == from).for_each(|d| *d = to);
    layout
}

fn value(i: u64, round: u64) -> Vec<u8> {
    noise(i + 100 * round, [100, 5000, 300_000, 1_200_000][i as usize % 4])
}

async fn fill(rig: &Rig, round: u64, which: impl Fn(u64) -> bool) {
    for i in (0..COUNT).filter(|i| which(*i)) {
        rig.put(&format!("f{i}"), &value(i, round)).await.unwrap();
    }
}

/// The value that each object has, by number; `None`: deleted.
async fn check(rig: &Rig, wanted: impl Fn(u64) -> Option<u64>) {
    for i in 0..COUNT {
        let got = rig.get(&format!("f{i}")).await.unwrap();
        assert!(got == wanted(i).map(|round| value(i, round)), "f{i}");
    }
}

fn group(n: u16) -> GroupId {
    GroupId::new(0, n)
}

/// The drive durably loses its votes, as its node makes it.
async fn lose_votes(drive: &Drive, layout: &Layout) {
    let left: Vec<_> = layout.groups.iter().map(|g| (g.id, g.epoch)).collect();
    for (group, epoch) in &left {
        drive.fence_epoch(*group, *epoch).await.unwrap();
    }
    drive.set_joining(&left).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_takes_over_groups_and_the_one_that_left_never_votes_there() {
    let rig = Rig::with(2, 2, 2, |o| (o.sole, o.orphan_age) = (false, Duration::ZERO)).await;
    fill(&rig, 0, |_| true).await;
    let (old, new) = (drive_id(0, 0), drive_id(0, 1));
    // The new drive votes in one group.
    rig.format(0, 1, Role::Joining);
    let first = moved(&rig.layout, 1, old, new);
    rig.sets.set_layout(first.clone()).unwrap();
    let taker = rig.plug(0, 1).await;
    assert!(rig.sets.joins(new) && !rig.sets.joins(old), "what counts are slots");
    rig.sets.rebuild(new).await.unwrap();
    assert_eq!(taker.held(), [(group(1), Role::Voter)]);
    basic::quiet(&rig.sets).await;
    // The old drive goes, and misses changes before and after its other slot moves.
    rig.unplug(0, 0).await;
    fill(&rig, 1, |i| i % 3 == 0).await;
    let second = moved(&first, 0, old, new);
    rig.sets.set_layout(second.clone()).unwrap();
    fill(&rig, 2, |i| i % 6 == 1).await;
    rig.delete("f5").await.unwrap();
    assert!(rig.sets.joins(new));
    rig.sets.rebuild(new).await.unwrap();
    assert_eq!(taker.held(), [(group(0), Role::Voter), (group(1), Role::Voter)]);
    fill(&rig, 3, |i| i % 6 == 2).await;
    let wanted = |i: u64| match i {
        5 => None,
        i if i % 3 == 0 => Some(1),
        i if i % 6 == 1 => Some(2),
        i if i % 6 == 2 => Some(3),
        _ => Some(0),
    };
    check(&rig, wanted).await;
    // It comes back and believes that it votes in both groups. For others that changes nothing.
    let back = rig.plug(0, 0).await;
    assert!(back.votes() && !rig.sets.joins(old));
    assert!(rig.sets.health().iter().all(|h| (h.voters, h.joining) == (4, 0)));
    // A coordinator that knows only the first layout gets nowhere with it.
    let mut options = Options::new(BufferPool::new(32 << 20));
    (options.node, options.sole) = (9, false);
    let stale = Sets::new(rig.layout.clone(), rig.sets.drives(), options).unwrap();
    for name in ["f0", "f1", "f5"] {
        assert!(put(&stale, name, b"stale").await.is_err(), "{name}");
        assert!(get(&stale, name).await.is_err(), "{name}: an old state is not an answer");
        assert!(delete(&stale, name).await.is_err(), "{name}");
    }
    drop(stale);
    check(&rig, wanted).await;
    // A drive that votes, or has a slot, releases nothing.
    let both = [group(0), group(1)];
    assert!(matches!(rig.sets.release(old, &both).await, Err(Error::Invalid(_))));
    assert!(matches!(rig.sets.release(new, &both).await, Err(Error::Invalid(_))));
    lose_votes(&back, &second).await;
    assert!(!back.votes());
    // While a slot is empty, what the drive holds may be needed.
    let shards = back.shards(None, 1000).await.unwrap().len();
    let away = rig.sets.detach(drive_id(2, 0)).unwrap();
    assert!(rig.sets.release(old, &both).await.unwrap().is_empty());
    assert!(shards > 0 && back.shards(None, 1000).await.unwrap().len() == shards);
    rig.sets.attach(away);
    assert_eq!(rig.sets.release(old, &both).await.unwrap(), both);
    assert!(back.shards(None, 1000).await.unwrap().is_empty());
    assert!(back.scan(&[], &[0xff; 64], 1000, u32::MAX).await.unwrap().is_empty());
    assert_eq!(rig.sets.release(old, &both).await.unwrap(), both, "again");
    census_after_load(&rig.sets).await;
    for slot in [1, 2] {
        rig.sets.detach(drive_id(slot, 0));
    }
    check(&rig, wanted).await;
    rig.close().await;
}

/// A drive that left a group and has let go of it gets a slot there again, like any other drive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_that_let_go_joins_again() {
    let rig = Rig::with(2, 2, 2, |o| (o.sole, o.orphan_age) = (false, Duration::ZERO)).await;
    fill(&rig, 0, |_| true).await;
    let (old, new) = (drive_id(0, 0), drive_id(0, 1));
    rig.format(0, 1, Role::Joining);
    let mut layout = rig.layout.clone();
    for group in [0, 1] {
        layout = moved(&layout, group, old, new);
    }
    rig.sets.set_layout(layout.clone()).unwrap();
    rig.plug(0, 1).await;
    rig.sets.rebuild(new).await.unwrap();
    let drive = rig.sets.drives().into_iter().find(|d| d.label().drive == old).unwrap();
    lose_votes(&drive, &layout).await;
    // It still has its records: nothing was dropped, and they are old by now.
    fill(&rig, 1, |i| i % 2 == 0).await;
    rig.delete("f7").await.unwrap();
    basic::quiet(&rig.sets).await;
    rig.unplug(1, 0).await;
    let layout = moved(&layout, 1, drive_id(1, 0), old);
    rig.sets.set_layout(layout).unwrap();
    assert!(rig.sets.joins(old));
    rig.sets.rebuild(old).await.unwrap();
    assert_eq!(drive.role(group(1)), Some(Role::Voter));
    assert_eq!((drive.epoch(group(1)), drive.role(group(0))), (4, Some(Role::Distrusted)));
    // Who knows an older map cannot make it drop anything.
    let before = drive.scan(&[], &[0xff; 64], 1000, u32::MAX).await.unwrap();
    for entry in before.iter().filter(|e| e.key.group() == group(1)) {
        drive.purge(&entry.key, entry.ballot, 3);
    }
    drive.flush().await.unwrap();
    assert_eq!(drive.scan(&[], &[0xff; 64], 1000, u32::MAX).await.unwrap(), before);
    for slot in [2, 3] {
        rig.sets.detach(drive_id(slot, 0));
    }
    for i in 0..COUNT {
        let name = format!("f{i}");
        if rig.key(&name).group() == group(1) {
            let wanted = (i != 7).then(|| value(i, u64::from(i % 2 == 0)));
            assert!(rig.get(&name).await.unwrap() == wanted, "{name}");
        }
    }
    rig.close().await;
}

/// A slot moves to another drive, which is complete, after the shards of a body were sent and before its record is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shard_of_a_slot_that_moves_while_its_body_is_written_is_made() {
    for sole in [true, false] {
        let rig = Rig::with(2, 2, 1, |o| o.sole = sole).await;
        let (old, new) = (drive_id(0, 0), drive_id(0, 1));
        let mut bodies = Vec::new();
        for (name, size) in [("small", 5000), ("large", 1_200_000)] {
            let key = rig.key(name);
            let mut writer = rig.sets.write(&key, size).await.unwrap();
            writer.write(noise(size, size as usize)).await.unwrap();
            let mut staged = writer.finish().await.unwrap();
            rig.sets.stage(&key, vec![&mut staged]).await.unwrap();
            bodies.push((name, key, size, staged));
        }
        rig.format(0, 1, Role::Joining);
        rig.sets.set_layout(moved(&rig.layout, 0, old, new)).unwrap();
        rig.unplug(0, 0).await;
        rig.plug(0, 1).await;
        rig.sets.rebuild(new).await.unwrap();
        rig.sets.heal_queued().await;
        for (name, key, size, staged) in bodies {
            let data = staged.data();
            let refs = [&staged];
            let done = rig.sets.update_register::<(), ()>(&key, &refs, |_| Decision::Write {
                body: body(size, Some(data)),
                summary: summary(size),
                moved: false,
                out: (),
            });
            let register = done.await.unwrap().register.unwrap();
            let durable = register.record.data().next().unwrap().data.durable;
            drop(staged);
            assert_eq!(
                durable & 1,
                0,
                "{name}, {sole}: the drive that has the slot now does not have the shard"
            );
            basic::quiet(&rig.sets).await;
            rig.sets.heal_queued().await;
            let placed = rig.sets.placement(&key, &data, true).await.unwrap();
            assert!(placed.iter().all(|p| p.state == ShardState::Good), "{name}, {sole}: {placed:?}");
            assert_eq!(rig.get(name).await.unwrap(), Some(noise(size, size as usize)));
        }
        rig.close().await;
    }
}
