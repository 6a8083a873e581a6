//! The parts that decide: policies, ranges that are held, copies of what was not flushed, and pages of log.

use std::time::Duration;

use ashlar_environment::time::Instant;

use crate::ana::AnaState;
use crate::host::facts::{self, Identity};
use crate::host::health::Health;
use crate::host::policy::{Candidate, IoPolicy, Load, choose};
use crate::host::ranges::Ranges;
use crate::host::unflushed::{Change, Unflushed};

#[test]
fn policies_choose() {
    let of = |all: &[(usize, u64, Option<u64>)]| -> Vec<Candidate> {
        let one = |(index, in_flight, micros): &(usize, u64, Option<u64>)| Candidate {
            index: *index,
            in_flight: *in_flight,
            latency: micros.map(Duration::from_micros),
        };
        all.iter().map(one).collect()
    };
    let three = of(&[(0, 5, Some(10)), (2, 1, Some(100)), (3, 1, Some(30))]);
    assert_eq!(
        [0, 1, 2, 3, 9].map(|last| choose(IoPolicy::RoundRobin, &three, last)),
        [2, 2, 3, 0, 0].map(Some)
    );
    // The next one in turn, of two that are equal.
    assert_eq!([0, 2, 3].map(|last| choose(IoPolicy::QueueDepth, &three, last)), [2, 3, 2].map(Some));
    assert_eq!([0, 2, 3].map(|last| choose(IoPolicy::Latency, &three, last)), [3, 3, 0].map(Some));
    let unknown = of(&[(0, 0, Some(10)), (1, 9, None)]);
    assert_eq!(choose(IoPolicy::Latency, &unknown, 1), Some(1));
    assert_eq!(choose(IoPolicy::Latency, &[], 0), None);
    let load = Load::default();
    load.begin(3);
    load.end(1, 0, Duration::from_secs(9));
    assert_eq!((load.in_flight(), load.commands(), load.latency()), (2, 0, None));
    load.end(2, 2, Duration::from_micros(80));
    load.begin(1);
    load.end(1, 1, Duration::from_micros(160));
    assert_eq!((load.in_flight(), load.commands(), load.latency()), (0, 3, Some(Duration::from_micros(90))));
}

#[test]
fn ranges_are_held_once_and_for_whoever_comes_next() {
    let identity = Identity::Eui64(*b"a range!");
    let ranges = Ranges::of(&identity);
    let first = ranges.begin(0, 10);
    let second = ranges.begin(10, 20);
    assert!(ranges.try_begin(9, 11).is_none() && ranges.try_begin(19, 30).is_none());
    ranges.end(first, None);
    let first = ranges.try_begin(0, 10).unwrap();
    ranges.end(first, Some(Instant::now() + Duration::from_secs(600)));
    ranges.end(second, Some(Instant::now()));
    assert!(ranges.try_begin(5, 6).is_none());
    let third = ranges.begin(10, 20);
    ranges.end(third, None);
    ranges.leave(&identity);
    let again = Ranges::of(&identity);
    assert!(again.try_begin(9, 20).is_none() && again.try_begin(10, 20).is_some());
    assert!(Ranges::of(&Identity::Eui64(*b"another!")).try_begin(0, 10).is_some());
}

fn write(at: u64, byte: u8, len: usize) -> Change {
    Change::Write { at, data: vec![byte; len].into() }
}

#[test]
fn copies_do_not_overlap_and_belong_to_their_controller() {
    let mut kept = Unflushed::default();
    kept.done(write(0, 1, 100), 1);
    kept.done(Change::Zero { at: 100, len: 50 }, 2);
    kept.done(write(40, 3, 80), 2);
    assert_eq!(kept.lost_ranges(&[]), [(0, 40), (40, 120), (120, 150)]);
    assert_eq!(
        kept.lost(&[], 30, 125),
        [write(30, 1, 10), write(40, 3, 80), Change::Zero { at: 120, len: 5 }]
    );
    assert_eq!(kept.lost(&[2], 0, 200), [write(0, 1, 40)]);
    assert_eq!(kept.lost_ranges(&[1, 2]), []);
    // A change inside of another cuts it in two.
    kept.done(write(60, 4, 10), 1);
    assert_eq!(kept.lost_ranges(&[1]), [(40, 60), (70, 120), (120, 150)]);
    let marks = kept.marks();
    assert_eq!(marks.into_iter().collect::<Vec<_>>(), [(1, 4), (2, 3)]);
    kept.done(write(200, 5, 1), 2);
    // What came after the mark is not flushed.
    kept.flushed(2, 3);
    assert_eq!(kept.lost_ranges(&[]), [(0, 40), (60, 70), (200, 201)]);
    kept.disown(1);
    assert_eq!(kept.lost_ranges(&[1, 2]), [(0, 40), (60, 70)]);
    kept.forget(10, 65);
    assert_eq!(kept.lost(&[2], 0, 100), [write(0, 1, 10), write(65, 4, 5)]);
    kept.flushed(0, 9);
    kept.flushed(2, 9);
    assert!(kept.marks().is_empty());
    let most = crate::host::unflushed::MOST;
    assert!(kept.has_room(&write(0, 0, most + 1)), "nothing is kept");
    kept.done(write(0, 0, most / 2), 1);
    assert!(kept.has_room(&write(0, 0, most / 4)) && !kept.has_room(&write(0, 0, most / 2)));
}

#[test]
fn log_pages_of_access_and_health() {
    let mut page = vec![0; 16 + 3 * 32];
    (page[0], page[8]) = (7, 2);
    for (at, (group, state)) in [(16, (1, 2)), (48, (9, 15)), (80, (5, 3))] {
        (page[at], page[at + 16]) = (group, state);
    }
    assert_eq!(facts::ana(&page, 1), Some((7, Some(AnaState::NonOptimized))));
    assert_eq!(facts::ana(&page, 9), Some((7, Some(AnaState::Change))));
    assert_eq!(facts::ana(&page, 5), Some((7, None)), "beyond the number of groups");
    assert_eq!(facts::ana(&page[..60], 9), Some((7, None)), "cut");
    assert_eq!(facts::ana(&page[..15], 1), None);
    page[32] = 7;
    assert_eq!(facts::ana(&page, 1), Some((7, None)), "reserved");

    let mut page = [0; 512];
    (page[0], page[1], page[2], page[3], page[4], page[5]) = (0x12, 0x3c, 1, 90, 10, 120);
    (page[32], page[48], page[112], page[128], page[144], page[160], page[176]) = (1, 2, 3, 4, 5, 6, 7);
    page[47] = 0xff;
    let health = Health::decode(&page);
    assert_eq!(health.warnings(), ["temperature", "volatile-backup"]);
    assert_eq!((health.temperature, health.available_spare, health.percentage_used), (Some(316), 90, 120));
    assert_eq!((health.bytes_read, health.bytes_written), (u128::MAX, 1_024_000));
    assert_eq!((health.power_cycles, health.power_on_hours, health.unsafe_shutdowns), (3, 4, 5));
    assert_eq!((health.media_errors, health.error_entries), (6, 7));
}
