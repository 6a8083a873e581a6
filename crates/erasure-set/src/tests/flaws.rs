//! The flaws F1-F12 of docs/protocol.md 4, as far as this crate can test them: F3, F4, F5, F6, F9, F10 and
//! F11. (F2 is `torn`; the others need a process, a clock or an API layer: docs/proof.md says where.)

use super::join::replaced;
use super::*;
use ashlar_drive::{Error as DriveError, Prepared};
use ashlar_format::Ballot;
use ashlar_machine::{Fault, Operation};
use std::sync::mpsc;
use std::time::Instant;

const EIO: i32 = 5;

/// A rig whose drives have other coordinators too, so that nothing is answered from memory.
async fn shared(k: u8, m: u8) -> Rig {
    Rig::with(k, m, 1, |o| o.sole = false).await
}

/// Another coordinator over the same drives, as another process would be.
fn coordinator(rig: &Rig, node: u16, one_sync: bool) -> Sets {
    let mut o = Options::new(BufferPool::new(32 << 20));
    (o.node, o.sole, o.one_sync) = (node, false, one_sync);
    Sets::new(rig.layout.clone(), rig.sets.drives(), o).unwrap()
}

fn drive(rig: &Rig, slot: u8) -> Drive {
    let all = rig.sets.drives();
    all.into_iter().find(|d| d.label().drive.0[0] == slot).unwrap()
}

/// F3: whichever drives are away, an existing object is returned or *unavailable*, never absent; and a key
/// that never existed is absent only if enough drives say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_too_few_drives_is_unavailable_never_absent() {
    for (k, m) in [(2u8, 2u8), (4, 2)] {
        let rig = shared(k, m).await;
        let n = k + m;
        // Enough to be certain about a register: n - M + 1 that agree (2.13).
        let enough = u32::from(n - (n / 2 + 1) + 1);
        rig.put("there", &noise(1, 5000)).await.unwrap();
        rig.put("deleted", b"x").await.unwrap();
        rig.delete("deleted").await.unwrap();
        basic::quiet(&rig.sets).await;
        let all = rig.sets.drives();
        for away in 0u32..1 << n {
            let what = format!("{k}+{m}, away {away:b}");
            let left = u32::from(n) - away.count_ones();
            for d in all.iter().filter(|d| away >> d.label().drive.0[0] & 1 == 1) {
                rig.sets.detach(d.label().drive);
            }
            match rig.get("there").await {
                Ok(Some(b)) => assert!(b == noise(1, 5000) && left >= enough, "{what}"),
                Ok(None) => panic!("{what}: absent"),
                Err(Error::Unavailable(_)) => assert!(left < u32::from(k).max(enough), "{what}"),
                Err(e) => panic!("{what}: {e}"),
            }
            for name in ["never", "deleted"] {
                match rig.get(name).await {
                    Ok(None) => assert!(left >= enough, "{what}: {name} is absent by the word of {left}"),
                    Err(Error::Unavailable(_)) => assert!(left < enough, "{what}: {name}"),
                    other => panic!("{what}: {name}: {other:?}"),
                }
            }
            match rig.sets.list(Space::Object, BUCKET, b"", b"", 10).await {
                Ok(page) => assert!(left >= enough && page.entries.len() == 1, "{what}: {page:?}"),
                Err(Error::Unavailable(_)) => assert!(left < enough, "{what}"),
                Err(e) => panic!("{what}: {e}"),
            }
            // A condition is not evaluated with too few drives either.
            if left < u32::from(n / 2 + 1) {
                let r = put_if(&rig.sets, "there", b"y", |r| r.is_none()).await;
                assert!(matches!(r, Err(Error::Unavailable(_))), "{what}");
            }
            for d in &all {
                rig.sets.attach(d.clone());
            }
        }
        assert!(rig.get("there").await.unwrap().unwrap() == noise(1, 5000));
        rig.close().await;
    }
}

/// F3 again, with drives that answer but whose records are unreadable: that is not "no record".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_unreadable_records_are_not_absent() {
    let rig = shared(2, 2).await;
    rig.put("there", &noise(1, 5000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    for slot in 0..4 {
        rig.unplug(slot, 0).await;
        rig.plug(slot, 0).await;
    }
    for fault in [Fault::Error(EIO), Fault::Corrupt] {
        for bad in 1..=4usize {
            for f in &rig.faults[..bad] {
                f.set(Operation::Read, fault);
            }
            match rig.get("there").await {
                Ok(Some(b)) => assert!(b == noise(1, 5000)),
                Err(Error::Unavailable(_) | Error::Corrupt(_)) => assert!(bad > 2, "{fault:?} on {bad}"),
                other => panic!("{fault:?} on {bad}: {:?}", other.map(|b| b.map(|b| b.len()))),
            }
            for f in &rig.faults {
                f.clear();
            }
        }
    }
    rig.close().await;
}

/// F4: what is acknowledged is durable on k' + f drives. Checked in three ways: by asking the drives at that
/// moment; by removing any f of them; with n - (k' + f) drives failing meanwhile.
async fn spare_shards(k: u8, m: u8, one_sync: bool, fail: bool, size: usize) {
    let rig = Rig::with(k, m, 1, |o| (o.one_sync, o.sole) = (one_sync, false)).await;
    let (n, f) = (k + m, m.div_ceil(2));
    let what = format!("{k}+{m} one_sync {one_sync} fail {fail} {size} bytes");
    rig.put("warm", b"up").await.unwrap();
    if fail {
        for slot in 0..m - f {
            rig.faults[usize::from(slot)].set(Operation::Sync, Fault::Error(EIO));
        }
    }
    let want = noise(3, size);
    let reg = rig.put("spare", &want).await.expect(&what);
    let data = reg.record.data().next().unwrap().data;
    let mut holders = Vec::new();
    for slot in 0..n {
        if fail && slot < m - f {
            continue;
        }
        let d = drive(&rig, slot);
        if d.verify_shard(data.write_id, data.shard_of(slot)).await.is_ok() {
            holders.push(slot);
        }
    }
    assert!(holders.len() >= usize::from(data.k + f), "{what}: on {holders:?} only, k' = {}", data.k);
    // The record claims no more than is true. (One that contains its shard names all slots it was sent to.)
    if !one_sync || size > 1_000_000 {
        for slot in (0..n).filter(|s| data.durable >> s & 1 == 1) {
            assert!(holders.contains(&slot), "{what}: the record lies about slot {slot}");
        }
    }
    if fail {
        // Half of 2+2 may answer only with the hint, which is sent when the write has ended.
        basic::quiet(&rig.sets).await;
    }
    // Any f of those that have it are removed; a sample of the patterns if there are many.
    let mut patterns = 0;
    for lost in (0u32..1 << n).filter(|l| l.count_ones() == u32::from(f)) {
        if !(0..n).all(|s| lost >> s & 1 == 0 || holders.contains(&s)) {
            continue;
        }
        patterns += 1;
        if n > 8 && patterns % 7 != 0 {
            continue;
        }
        let away: Vec<Drive> =
            (0..n).filter(|s| lost >> s & 1 == 1).filter_map(|s| rig.sets.detach(drive_id(s, 0))).collect();
        let got = rig.get("spare").await;
        assert!(got.expect(&what).unwrap() == want, "{what}: lost {lost:b}");
        away.into_iter().for_each(|d| rig.sets.attach(d));
    }
    assert!(patterns > 1, "{what}");
    for f in &rig.faults {
        f.clear();
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_acknowledged_with_spare_shards() {
    for (k, m) in [(2, 2), (4, 2), (12, 4)] {
        for fail in [false, true] {
            for size in [3000, 50_000, 1_500_000] {
                spare_shards(k, m, true, fail, size).await;
            }
            spare_shards(k, m, false, fail, 3000).await;
        }
    }
}

/// F4 by time: with n - (k' + f) slow drives an answer does not wait for them; with one more it does,
/// although k' drives (and a majority) were done long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_answer_waits_for_spare_shards() {
    let slow = Duration::from_millis(600);
    for (k, m) in [(2u8, 2u8), (4, 2)] {
        for (one_sync, size) in [(true, 5000), (false, 5000), (true, 900_000)] {
            let needed = k + m.div_ceil(2);
            for extra in [false, true] {
                let rig = Rig::with(k, m, 1, |o| o.one_sync = one_sync).await;
                // A large one, so that every drive has an extent segment.
                rig.put("warm", &noise(0, 900_000)).await.unwrap();
                basic::quiet(&rig.sets).await;
                for slot in 0..k + m - needed + u8::from(extra) {
                    rig.faults[usize::from(slot)].set(Operation::Sync, Fault::Delay(slow));
                }
                let began = Instant::now();
                rig.put("k", &noise(1, size)).await.unwrap();
                let took = began.elapsed();
                assert_eq!(took >= slow, extra, "{k}+{m} {size} bytes, one more {extra}: {took:?}");
                for f in &rig.faults {
                    f.clear();
                }
                basic::quiet(&rig.sets).await;
                rig.close().await;
            }
        }
    }
}

/// Signals when it is paused, continues on request, ends with the result and the states on which it decided.
type Paused = (mpsc::Receiver<()>, mpsc::Sender<()>, tokio::task::JoinHandle<(Result<Register>, Vec<u64>)>);

/// An update whose coordinator is paused between promise and accept (SIGSTOP, a frozen virtual machine, a
/// partition): it signals the pause and continues on request. Returns the states on which it decided.
fn paused(sets: Sets, name: &'static str, bytes: Vec<u8>) -> Paused {
    let (here, wait) = mpsc::channel();
    let (resume, go) = mpsc::channel::<()>();
    let task = tokio::spawn(async move {
        let (key, size) = (key(&sets, name), bytes.len() as u64);
        let mut w = sets.write(&key, size).await.unwrap();
        w.write(&bytes).await.unwrap();
        let staged = w.finish().await.unwrap();
        let mut seen = Vec::new();
        let go = Mutex::new(go);
        let done = sets
            .update_register::<(), ()>(&key, &[&staged], |base| {
                seen.push(base.map_or(0, |r| r.seq));
                if seen.len() == 1 {
                    here.send(()).unwrap();
                    tokio::task::block_in_place(|| go.lock().recv()).unwrap();
                }
                let body = body(size, Some(staged.data()));
                Decision::Write { body, summary: summary(size), moved: false, out: () }
            })
            .await;
        let done = match done {
            Ok(u) => Ok(u.register.unwrap()),
            Err(UpdateError::Set(e)) => Err(e),
            Err(UpdateError::Refused(())) => unreachable!(),
        };
        (done, seen)
    });
    (wait, resume, task)
}

/// F5: a coordinator that was paused while others continued returns with a stale ballot. A majority refuses
/// its record, so it must read again, and builds on the newer state. If too much happened to tell the outcome
/// of its record, it reports that and has changed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f5_paused_coordinator_is_refused() {
    for (one_sync, size, others) in [
        (true, 2000usize, 1u64),
        (true, 2000, 3),
        (true, 400_000, 1),
        (true, 400_000, 3),
        (false, 2000, 1),
        (false, 2000, 3),
        (false, 400_000, 1),
    ] {
        let what = format!("one_sync {one_sync}, {size} bytes, {others} others");
        let rig = Rig::with(2, 2, 1, |o| (o.one_sync, o.sole) = (one_sync, false)).await;
        let other = coordinator(&rig, 2, one_sync);
        rig.put("k", b"first").await.unwrap();
        let (here, resume, task) = paused(rig.sets.clone(), "k", noise(7, size));
        tokio::task::block_in_place(|| here.recv()).unwrap();
        // During the pause, others are served and acknowledged.
        for i in 0..others {
            put(&other, "k", &noise(20 + i, size)).await.expect(&what);
            assert!(get(&other, "k").await.unwrap().unwrap() == noise(20 + i, size), "{what}");
        }
        let before = other.read_register(&key(&other, "k")).await.unwrap().unwrap();
        assert_eq!(before.record.seq, 1 + others, "{what}");
        resume.send(()).unwrap();
        let (done, seen) = task.await.unwrap();
        assert_eq!(seen[0], 1, "{what}: it had decided on the first state");
        let (seq, bytes) = match done {
            Ok(done) => {
                assert_eq!(seen.last(), Some(&(1 + others)), "{what}: it must decide again, {seen:?}");
                assert!(done.ballot > before.ballot, "{what}");
                (2 + others, noise(7, size))
            }
            Err(Error::Unknown(_)) if others > 1 => (1 + others, noise(19 + others, size)),
            Err(e) => panic!("{what}: {e}"),
        };
        for sets in [&rig.sets, &other] {
            assert!(get(sets, "k").await.unwrap().unwrap() == bytes, "{what}");
            let r = sets.read_register(&key(sets, "k")).await.unwrap().unwrap();
            assert_eq!(r.record.seq, seq, "{what}");
        }
        rig.close().await;
    }
}

/// F5, at the drives: a promise is the fencing token. Messages of a stale coordinator are refused by every
/// drive that promised later, also after the drive was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f5_drives_refuse_stale_ballots() {
    let rig = shared(2, 2).await;
    rig.put("k", b"first").await.unwrap();
    let key = rig.key("k");
    for restarted in [false, true] {
        for slot in 0..4 {
            let d = drive(&rig, slot);
            let stale = Ballot { epoch: 1, counter: d.floor().counter + 5, node: 1, nonce: 1 };
            let fresh = Ballot { counter: stale.counter + 1, node: 0, ..stale };
            assert!(matches!(d.prepare(&key, stale).await.unwrap(), Prepared::Promised { .. }));
            assert!(matches!(d.prepare(&key, fresh).await.unwrap(), Prepared::Promised { .. }));
            let d = if restarted {
                drop(d);
                rig.unplug(slot, 0).await;
                rig.plug(slot, 0).await
            } else {
                d
            };
            assert!(matches!(d.prepare(&key, stale).await.unwrap(), Prepared::Refused { .. }));
            let tally = ashlar_drive::Tally::new(1);
            let record = Bytes::from_static(b"never looked at");
            let accept = ashlar_drive::Accept {
                key: key.clone(),
                ballot: stale,
                epoch: 1,
                record,
                summary: Bytes::new(),
                inline: None,
            };
            d.accept(accept, tally.completion(0));
            let o = tally.wait_all().await;
            assert_eq!((o.ok, o.refused), (0, 1), "slot {slot}, restarted {restarted}");
        }
    }
    assert_eq!(rig.get("k").await.unwrap().unwrap(), b"first");
    rig.close().await;
}

/// F6: a coordinator that lost a majority cannot acknowledge, however long it continues; the side with the
/// majority can, and what it acknowledged stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f6_coordinator_without_majority_acknowledges_nothing() {
    for minority in [0b0000u64, 0b0001, 0b1000, 0b0011, 0b1010] {
        let what = format!("reaches {minority:04b}");
        let rig = shared(2, 2).await;
        let other = coordinator(&rig, 2, true);
        rig.put("k", b"first").await.unwrap();
        // Promises still arrived; then the network failed.
        rig.sets.inner.gate.set(Some((u64::MAX, minority)));
        let cut = put(&rig.sets, "k", b"from the cut-off side").await;
        assert!(matches!(cut, Err(Error::Unknown(_))), "{what}: {cut:?}");
        put(&other, "k", b"from the other side").await.expect(&what);
        let again = put(&rig.sets, "k", b"once more").await;
        assert!(matches!(again, Err(Error::Unknown(_))), "{what}: {again:?}");
        // "Unknown" may succeed later, but only in the order of ballots, and only once.
        let now = get(&other, "k").await.unwrap().unwrap();
        assert!(now == b"from the other side" || now == b"once more", "{what}");
        put(&other, "k", b"last").await.expect(&what);
        rig.sets.inner.gate.set(None);
        for sets in [&rig.sets, &other] {
            assert_eq!(get(sets, "k").await.unwrap().unwrap(), b"last", "{what}");
        }
        rig.close().await;
    }
}

/// F9: a newly formatted drive has no vote, and answers so instead of "not found": with three blank drives
/// and one old one nothing is absent, nothing is decided, and nothing is lost when the old drives return.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f9_blank_drive_has_no_vote() {
    let rig = shared(2, 2).await;
    rig.put("there", &noise(1, 5000)).await.unwrap();
    basic::quiet(&rig.sets).await;
    for blank in 1..=4u8 {
        let slots: Vec<u8> = (0..blank).collect();
        let old: Vec<Drive> = slots.iter().map(|s| rig.sets.detach(drive_id(*s, 0)).unwrap()).collect();
        for s in &slots {
            if !rig.path(*s, 1).exists() {
                rig.format(*s, 1, Role::Joining);
            }
        }
        let epoch = rig.sets.layout().epoch + 1;
        rig.sets.set_layout(in_epoch(&replaced(&rig, &slots), epoch)).unwrap();
        for s in &slots {
            rig.plug(*s, 1).await;
        }
        let what = format!("{blank} blank");
        let old_voters = 4 - usize::from(blank);
        assert_eq!(usize::from(rig.sets.health()[0].voters), old_voters, "{what}");
        let answer = rig.sets.read_register(&rig.key("there")).await;
        let never = rig.sets.read_register(&rig.key("never")).await;
        let page = rig.sets.list(Space::Object, BUCKET, b"", b"", 10).await;
        if old_voters >= 2 {
            assert!(rig.get("there").await.unwrap().unwrap() == noise(1, 5000), "{what}");
            assert!(never.unwrap().is_none() && page.unwrap().entries.len() == 1, "{what}");
        } else {
            assert!(matches!(answer, Err(Error::Unavailable(_))), "{what}: {answer:?}");
            assert!(matches!(never, Err(Error::Unavailable(_))), "{what}: {never:?}");
            assert!(matches!(page, Err(Error::Unavailable(_))), "{what}: {page:?}");
        }
        if old_voters < 3 {
            let r = rig.put("there", b"new").await;
            assert!(matches!(r, Err(Error::Unavailable(_))), "{what}: {r:?}");
            let r = rig.delete("there").await;
            assert!(matches!(r, Err(Error::Unavailable(_))), "{what}: {r:?}");
        }
        // Heal must not take their silence for "deleted" either.
        let _ = rig.sets.scrub(true).await;
        for s in &slots {
            rig.unplug(*s, 1).await;
        }
        rig.sets.set_layout(in_epoch(&rig.layout, epoch + 1)).unwrap();
        old.into_iter().for_each(|d| rig.sets.attach(d));
        assert!(rig.get("there").await.unwrap().unwrap() == noise(1, 5000), "{what}: and back");
    }
    rig.put("there", b"new").await.unwrap();
    rig.close().await;
}

/// Flips a bit wherever `needle` is in the files of a drive that is not open. Returns how often.
fn spoil(dir: &std::path::Path, needle: &[u8]) -> usize {
    let mut count = 0;
    for e in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if e.file_type().unwrap().is_dir() {
            count += spoil(&e.path(), needle);
            continue;
        }
        let mut bytes = std::fs::read(e.path()).unwrap();
        let found: Vec<usize> =
            bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect();
        for at in &found {
            bytes[*at] ^= 1;
        }
        if !found.is_empty() {
            std::fs::write(e.path(), bytes).unwrap();
        }
        count += found.len();
    }
    count
}

/// Adds a version named `name` to the list of versions; returns the number of versions before.
async fn add_version(sets: &Sets, key: &RegisterKey, name: &str) -> Result<usize> {
    let mut base_len = 0;
    let done = sets
        .update_register::<(), ()>(key, &[], |base| {
            let mut list = match base.map(|r| &r.body) {
                Some(Body::Versions(v)) => v.clone(),
                _ => Vec::new(),
            };
            base_len = list.len();
            list.insert(0, Version { meta: vec![("name".into(), name.into())], ..Version::default() });
            Decision::Write { body: Body::Versions(list), summary: summary(0), moved: false, out: () }
        })
        .await;
    match done {
        Ok(_) => Ok(base_len),
        Err(UpdateError::Set(e)) => Err(e),
        Err(UpdateError::Refused(())) => unreachable!(),
    }
}

fn names_of(record: &Record) -> Vec<String> {
    let Body::Versions(v) = &record.body else { panic!("{record:?}") };
    v.iter().map(|v| v.meta[0].1.clone()).collect()
}

/// F10: a record that cannot be read on a drive when its key is overwritten counts as silence of that drive,
/// not as an empty list of versions, unless the proposer has that record. Every version still exists
/// afterwards, on that drive too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_corrupt_record_drops_no_version() {
    let all = [vec![2u8], vec![0], vec![0, 1], vec![1, 3], vec![0, 1, 2]];
    for (damaged, kept) in all.iter().flat_map(|d| [(d, false), (d, true)]) {
        let what = format!("damaged {damaged:?}, kept {kept}");
        // A damaged drive stays silent if it is asked before another has shown the record. That depends on how soon
        // the others answer, except for the first drives.
        let shown = kept || damaged.len() == 1;
        let never = !shown && damaged[0] == 0;
        let rig = shared(2, 2).await;
        let key = rig.key("k");
        for i in 0..3 {
            let had = add_version(&rig.sets, &key, &format!("version-number-{i}")).await.unwrap();
            assert_eq!(had, i);
        }
        basic::quiet(&rig.sets).await;
        if !kept {
            rig.sets.inner.cache.forget(ashlar_checksum::key_hash(key.as_bytes()));
        }
        for slot in damaged {
            let d = drive(&rig, *slot);
            d.flush().await.unwrap();
            tokio::task::spawn_blocking(move || d.tidy()).await.unwrap().unwrap();
            rig.unplug(*slot, 0).await;
            assert!(spoil(&rig.path(*slot, 0), b"version-number-2") > 0, "{what}");
            let d = rig.plug(*slot, 0).await;
            let r = d.read(&key, true, u32::MAX).await;
            assert!(matches!(r, Err(DriveError::Corrupt(_))), "{what}: the test must damage it: {r:?}");
        }
        let added = add_version(&rig.sets, &key, "version-number-3").await;
        let count = match added {
            Ok(had) if !never => had + 1,
            Err(Error::Unavailable(_)) if !shown => 3,
            other => panic!("{what}: {other:?}"),
        };
        assert!(count == 3 + usize::from(!never) || !shown, "{what}: built on all versions");
        let want: Vec<String> = (0..count).rev().map(|i| format!("version-number-{i}")).collect();
        match rig.sets.read_register(&key).await {
            Ok(Some(r)) => assert_eq!(names_of(&r.record), want, "{what}"),
            Err(Error::Unavailable(_)) if damaged.len() > 2 => {}
            other => panic!("{what}: {other:?}"),
        }
        if damaged.len() == 1 {
            rig.sets.heal_register(&key, true).await.unwrap();
            basic::quiet(&rig.sets).await;
            for d in rig.sets.drives() {
                let seen = d.read(&key, true, u32::MAX).await.unwrap().accepted.unwrap();
                let stored = crate::stored::Stored::parse(&seen.record.unwrap()).unwrap();
                assert_eq!(names_of(&stored.decode().unwrap()), want, "{what}: {:?}", d.label().drive);
            }
        }
        rig.close().await;
    }
}

/// F11: the place of a key is a pure function of layout and key: no lookup, no free space, nothing that two
/// nodes could see differently. The order in which drives were found changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_key_has_one_placement_group() {
    let rig = Rig::with(2, 2, 5, |_| {}).await;
    for i in 0..200 {
        rig.put(&format!("k{i}"), &vec![7; i % 3 * 100]).await.unwrap();
    }
    basic::quiet(&rig.sets).await;
    let mut reversed = rig.sets.drives();
    reversed.reverse();
    let mut o = Options::new(BufferPool::new(16 << 20));
    o.sole = false;
    let other = Sets::new(rig.layout.clone(), reversed, o).unwrap();
    let mut homes = vec![0; 5];
    for i in 0..200 {
        let name = format!("k{i}");
        let home = rig.sets.group_of(BUCKET, name.as_bytes());
        assert_eq!(other.group_of(BUCKET, name.as_bytes()), home);
        assert_eq!(rig.sets.slots(home), other.slots(home));
        homes[usize::from(home.group)] += 1;
        assert_eq!(get(&other, &name).await.unwrap().unwrap(), vec![7; i % 3 * 100]);
        // In its group and nowhere else, on every drive.
        for group in (0..5).map(|g| GroupId::new(0, g)) {
            let there = RegisterKey::new(group, Space::Object, BUCKET, name.as_bytes());
            for d in rig.sets.drives() {
                let seen = d.read(&there, false, u32::MAX).await.unwrap();
                assert_eq!(seen.accepted.is_some(), group == home, "{name} in group {group}");
            }
        }
    }
    assert!(homes.iter().all(|n| *n > 15), "{homes:?}");
    rig.close().await;
}
