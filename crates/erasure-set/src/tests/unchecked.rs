//! Unchecked reads, which the caller verifies: they return the stored bytes or the right ones, and nothing is
//! reconstructed from unchecked bytes.

use super::*;
use ashlar_drive::Check;
use ashlar_machine::{Fault, Operation};

const EIO: i32 = 5;

struct Got {
    bytes: Vec<u8>,
    damage: u64,
}

async fn read(rig: &Rig, name: &str, part: &Part, from: u64) -> Result<Got> {
    read_while(rig, name, part, from, || {}).await
}

/// `inject` runs when the data shards are open.
async fn read_while(rig: &Rig, name: &str, part: &Part, from: u64, inject: impl FnOnce()) -> Result<Got> {
    let key = rig.key(name);
    let mut r = rig.sets.read(&key, &part.data, part.size, from..part.size).await?;
    r.uncheck();
    inject();
    let mut bytes = Vec::new();
    while let Some(b) = r.next().await {
        bytes.extend_from_slice(&b?);
    }
    Ok(Got { bytes, damage: r.damage() })
}

async fn put(rig: &Rig, name: &str, want: &[u8]) -> Part {
    rig.put(name, want).await.unwrap();
    basic::quiet(&rig.sets).await;
    let reg = rig.sets.read_register(&rig.key(name)).await.unwrap().unwrap();
    reg.record.data().next().unwrap().clone()
}

/// The bytes of each stripe in a data shard: stripe, shard and position in the body.
fn rows(part: &Part) -> Vec<(u8, std::ops::Range<usize>)> {
    let stripe = u64::from(part.data.stripe);
    let mut all = Vec::new();
    for at in (0..part.size).step_by(stripe as usize) {
        let len = stripe.min(part.size - at);
        let row = part.data.row_len(len);
        for i in 0..u64::from(part.data.k) {
            let (a, z) = ((i * row).min(len), ((i + 1) * row).min(len));
            if a < z {
                all.push((i as u8, (at + a) as usize..(at + z) as usize));
            }
        }
    }
    all
}

fn bits(a: &[u8], b: &[u8]) -> u32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Whether others are asked instead of the drive of a shard, because a busy machine delayed it.
fn is_late(rig: &Rig, part: &Part, shard: u8) -> bool {
    rig.sets.inner.table.load().members[&drive_id(part.data.slot_of(shard), 0)].is_late()
}

/// A read for which the drive of a damaged shard is asked. If it was late, its rows were reconstructed and are right.
async fn read_asking(rig: &Rig, part: &Part, shard: u8, want: &[u8]) -> Got {
    loop {
        let asked = !is_late(rig, part, shard);
        let got = read(rig, "x", part, 0).await.unwrap();
        if got.bytes != want {
            return got;
        }
        assert!(!asked || is_late(rig, part, shard), "its drive was asked in time, and its bytes are others");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_reads_return_stored_bytes() {
    for rig in [Rig::new(2, 2).await, Rig::direct(2, 2).await] {
        let want = noise(3, 2_900_000);
        let part = put(&rig, "x", &want).await;
        assert!(read(&rig, "x", &part, 0).await.unwrap().bytes == want);
        assert!(read(&rig, "x", &part, 1_234_567).await.unwrap().bytes == want[1_234_567..]);
        assert!(faults::damage(&rig, part.data.slot_of(0), &want[..64]));
        let got = read_asking(&rig, &part, 0, &want).await;
        assert_eq!((bits(&got.bytes, &want), got.bytes[0] ^ want[0]), (1, 1));
        assert_eq!((got.damage, rig.sets.heal_backlog()), (0, 0), "whoever reads finds it");
        // Reading again returns the right bytes.
        while rig.sets.heal_backlog() == 0 {
            let asked = !is_late(&rig, &part, 0);
            assert!(rig.get("x").await.unwrap().unwrap() == want);
            let found = rig.sets.heal_backlog() == 1;
            assert!(found || !asked || is_late(&rig, &part, 0), "the damage is not found");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        rig.close().await;
    }
}

/// Shards outside of extents are always checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_shards_are_always_checked() {
    let rig = Rig::new(2, 2).await;
    let want = noise(4, 30_000);
    let part = put(&rig, "x", &want).await;
    assert!(part.data.inline);
    assert!(faults::damage(&rig, part.data.slot_of(1), &want[want.len() / 2 + 100..][..64]));
    let got = read(&rig, "x", &part, 0).await.unwrap();
    assert!(got.bytes == want);
    assert_eq!(got.damage, 0b10);
    rig.close().await;
}

/// The drive of a shard.
fn drive(rig: &Rig, part: &Part, shard: u8) -> Drive {
    let id = drive_id(part.data.slot_of(shard), 0);
    rig.sets.drives().into_iter().find(|d| d.label().drive == id).unwrap()
}

/// Flips one bit of every frame of a stored shard; the second call restores it.
async fn flip(rig: &Rig, part: &Part, shard: u8) {
    let r = drive(rig, part, shard).open_shard(part.data.write_id, shard).await.unwrap();
    for n in 0..r.frames() {
        let frame = r.read(n, Check::Reader).await.unwrap();
        assert!(faults::damage(rig, part.data.slot_of(shard), &frame[..64]));
    }
}

/// How often a row had to be reconstructed while a damaged shard was asked for; how often that was detected;
/// in how many of these, damaged bytes had been returned before; how often it was not checked.
#[derive(Default, Debug)]
struct Seen {
    sought: u32,
    found: u32,
    begun: u32,
    unseen: u32,
}

/// One drive cannot be read and the shard of another is damaged, at every position of both: the rows of the
/// first are reconstructed from others, excluding the damaged one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconstruction_uses_only_checked_rows() {
    for rig in [Rig::new(4, 2).await, Rig::direct(4, 2).await] {
        let want = noise(5, 6_300_000);
        let part = put(&rig, "x", &want).await;
        let mut seen = Seen::default();
        for bad in 0..6u8 {
            flip(&rig, &part, bad).await;
            for failing in (0..6u8).filter(|i| *i != bad) {
                for after in 0..4 {
                    one_of_each(&rig, (&part, &want), (failing, after), bad, &mut seen).await;
                }
            }
            flip(&rig, &part, bad).await;
        }
        assert!(read(&rig, "x", &part, 0).await.unwrap().bytes == want);
        // In a few cases a drive was late, so more drives were asked.
        assert!(seen.found * 4 > seen.sought * 3 && seen.begun > 0 && seen.unseen > 20, "{seen:?}");
        rig.close().await;
    }
}

/// Reads while shard `failing` fails after this number of reads of its drive and shard `bad` is damaged.
async fn one_of_each(
    rig: &Rig,
    (part, want): (&Part, &[u8]),
    (failing, after): (u8, u64),
    bad: u8,
    seen: &mut Seen,
) {
    let what = format!("shard {failing} fails after {after} reads, shard {bad} is damaged");
    let faults = &rig.faults[usize::from(part.data.slot_of(failing))];
    let inject = || faults.set_after(Operation::Read, Fault::Error(EIO), after, u64::MAX);
    let got = read_while(rig, "x", part, 0, inject).await.expect(&what);
    faults.clear();
    // Its maintenance thread may have detected the fault, and a late drive is not asked again soon.
    rig.unplug(part.data.slot_of(failing), 0).await;
    rig.plug(part.data.slot_of(failing), 0).await;
    let mut wrong = 0;
    for (shard, place) in rows(part) {
        let bits = bits(&got.bytes[place.clone()], &want[place.clone()]);
        assert!(bits == 0 || (bits == 1 && shard == bad), "{what}: {bits} bits in {place:?}");
        wrong += bits;
    }
    // If rows had to be reconstructed, damage was detected if it was in a requested row that arrived first.
    let k = part.data.k;
    let sought = failing < k && bad <= k;
    // It is also detected if a drive was late and others were asked as well.
    assert!(got.damage == 0 || got.damage == 1 << bad, "{what}: {}", got.damage);
    assert!(!sought || after > 0 || wrong == 0, "{what}: {wrong} bits");
    seen.sought += u32::from(sought);
    seen.found += u32::from(got.damage != 0 && sought);
    seen.begun += u32::from(sought && wrong > 0);
    seen.unseen += u32::from(bad < k && failing >= k && wrong > 0);
}
