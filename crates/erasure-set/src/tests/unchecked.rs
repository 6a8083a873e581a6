//! Reads of which whoever reads makes sure: what comes is what lies there, or right; and nothing is made
//! from what was not checked.

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

/// `befall` happens when the data shards are open.
async fn read_while(rig: &Rig, name: &str, part: &Part, from: u64, befall: impl FnOnce()) -> Result<Got> {
    let key = rig.key(name);
    let mut r = rig.sets.read(&key, &part.data, part.size, from..part.size).await?;
    r.uncheck();
    befall();
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

/// What a data shard holds of each stripe: stripe, shard and place in the body.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_reads_return_stored_bytes() {
    for rig in [Rig::new(2, 2).await, Rig::direct(2, 2).await] {
        let want = noise(3, 2_900_000);
        let part = put(&rig, "x", &want).await;
        assert!(read(&rig, "x", &part, 0).await.unwrap().bytes == want);
        assert!(read(&rig, "x", &part, 1_234_567).await.unwrap().bytes == want[1_234_567..]);
        assert!(faults::damage(&rig, part.data.slot_of(0), &want[..64]));
        let got = read(&rig, "x", &part, 0).await.unwrap();
        assert_eq!((bits(&got.bytes, &want), got.bytes[0] ^ want[0]), (1, 1));
        assert_eq!((got.damage, rig.sets.heal_backlog()), (0, 0), "whoever reads finds it");
        // And so it does, by reading again.
        assert!(rig.get("x").await.unwrap().unwrap() == want);
        assert_eq!(rig.sets.heal_backlog(), 1);
        rig.close().await;
    }
}

/// What is not extents is checked as ever.
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

/// Flips one bit of every frame of a shard where it lies; again: back.
async fn flip(rig: &Rig, part: &Part, shard: u8) {
    let r = drive(rig, part, shard).open_shard(part.data.write_id, shard).await.unwrap();
    for n in 0..r.frames() {
        let frame = r.read(n, Check::Reader).await.unwrap();
        assert!(faults::damage(rig, part.data.slot_of(shard), &frame[..64]));
    }
}

/// How often something had to be made while a shard was damaged that was asked for; how often that was
/// found; in how many of these damage had gone out before; how often nobody looked.
#[derive(Default, Debug)]
struct Seen {
    sought: u32,
    found: u32,
    begun: u32,
    unseen: u32,
}

/// One drive cannot be read and the shard of another is damaged, in every place of both: what the first had
/// is made from others, of which the damaged one is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconstruction_uses_only_checked_rows() {
    for rig in [Rig::new(4, 2).await, Rig::direct(4, 2).await] {
        let want = noise(5, 6_300_000);
        let part = put(&rig, "x", &want).await;
        let mut seen = Seen::default();
        for bad in 0..6u8 {
            flip(&rig, &part, bad).await;
            for ill in (0..6u8).filter(|i| *i != bad) {
                for after in 0..4 {
                    one_of_each(&rig, (&part, &want), (ill, after), bad, &mut seen).await;
                }
            }
            flip(&rig, &part, bad).await;
        }
        assert!(read(&rig, "x", &part, 0).await.unwrap().bytes == want);
        // In a few a drive was late, so that more were asked.
        assert!(seen.found * 4 > seen.sought * 3 && seen.begun > 0 && seen.unseen > 20, "{seen:?}");
        rig.close().await;
    }
}

/// Reads while shard `ill` fails after so many reads of its drive and shard `bad` is damaged.
async fn one_of_each(
    rig: &Rig,
    (part, want): (&Part, &[u8]),
    (ill, after): (u8, u64),
    bad: u8,
    seen: &mut Seen,
) {
    let what = format!("shard {ill} fails after {after} reads, shard {bad} is damaged");
    let faults = &rig.faults[usize::from(part.data.slot_of(ill))];
    let befall = || faults.set_after(Operation::Read, Fault::Error(EIO), after, u64::MAX);
    let got = read_while(rig, "x", part, 0, befall).await.expect(&what);
    faults.clear();
    // Its keeper may have come upon the fault, and whoever was late is not asked soon again.
    rig.unplug(part.data.slot_of(ill), 0).await;
    rig.plug(part.data.slot_of(ill), 0).await;
    let mut wrong = 0;
    for (shard, place) in rows(part) {
        let bits = bits(&got.bytes[place.clone()], &want[place.clone()]);
        assert!(bits == 0 || (bits == 1 && shard == bad), "{what}: {bits} bits in {place:?}");
        wrong += bits;
    }
    // Where rows had to be made damage was found, if it was among what was asked for and came first.
    let k = part.data.k;
    let sought = ill < k && bad <= k;
    // It is also found when a drive was late and others were asked beside it.
    assert!(got.damage == 0 || got.damage == 1 << bad, "{what}: {}", got.damage);
    assert!(!sought || after > 0 || wrong == 0, "{what}: {wrong} bits");
    seen.sought += u32::from(sought);
    seen.found += u32::from(got.damage != 0 && sought);
    seen.begun += u32::from(sought && wrong > 0);
    seen.unseen += u32::from(bad < k && ill >= k && wrong > 0);
}
