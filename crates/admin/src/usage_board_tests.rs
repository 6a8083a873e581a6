//! Tests of `usage_board`: nodes that exchange, count, start again and join.

use super::*;

const BUCKET: BucketId = BucketId([7; 16]);
const ALL: [u16; 3] = [1, 2, 3];

/// Only the first number is looked at.
fn bytes(n: i64) -> Numbers {
    let mut numbers = [0; NUMBERS];
    numbers[0] = n;
    numbers
}

/// Nodes 1 to 3, what each changed since its process began, and what is in the bucket.
struct World {
    boards: BTreeMap<u16, Board>,
    parts: BTreeMap<u16, PartNow>,
    truth: i64,
    now_ms: i64,
}

impl World {
    fn new() -> World {
        let mut world =
            World { boards: BTreeMap::new(), parts: BTreeMap::new(), truth: 0, now_ms: 1_000_000 };
        ALL.iter().for_each(|n| world.start(*n, u64::from(*n)));
        world
    }

    fn start(&mut self, node: u16, life: u64) {
        self.boards.insert(node, Board::new(node, life));
        self.parts.insert(node, PartNow { life, own: bytes(0), losses: 0 });
    }

    fn stop(&mut self, node: u16) {
        self.boards.remove(&node);
        self.parts.remove(&node);
    }

    fn change(&mut self, node: u16, by: i64) {
        self.truth += by;
        self.parts.get_mut(&node).unwrap().own[0] += by;
    }

    fn exchange(&mut self) {
        let now_ms = self.now_ms;
        for node in ALL {
            let Some(mut board) = self.boards.remove(&node) else { continue };
            board.running(
                ALL.map(|n| (n, self.parts.contains_key(&n))).into_iter().filter(|(n, _)| *n != node),
                now_ms,
            );
            for (other, part) in self.parts.iter().filter(|(other, _)| **other != node) {
                loop {
                    let since = board.since(*other);
                    let (next, bases, more) = self.boards[other].bases_since(since[1], 1);
                    let parts = vec![(BUCKET.to_hex(), part.own, part.losses)];
                    let share = UsageShare { life: part.life, next: [1, next], parts, bases, more };
                    if !board.heard(*other, share) {
                        break;
                    }
                }
            }
            self.boards.insert(node, board);
        }
    }

    fn others(&self, node: u16) -> BTreeMap<u16, PartNow> {
        self.parts.iter().filter(|(n, _)| **n != node).map(|(n, p)| (*n, *p)).collect()
    }

    /// Counts at a node; another one changes something meanwhile, of which the count sees all or nothing.
    fn count(&mut self, node: u16, meanwhile: Option<(u16, i64, bool)>) {
        let before = self.others(node);
        let mut found = self.truth;
        if let Some((other, by, seen)) = meanwhile {
            self.change(other, by);
            found += if seen { by } else { 0 };
        }
        let own = (node, self.parts[&node]);
        let made = base(bytes(found), own, &before, &self.others(node), (self.now_ms, 10)).unwrap();
        self.boards.get_mut(&node).unwrap().counted(BUCKET, made);
        self.now_ms += 1000;
    }

    /// What each node shows, and whether it is complete.
    fn shown(&self) -> Vec<(i64, bool)> {
        let shown = |(n, board): (&u16, &Board)| {
            let rest = board.rest(BUCKET);
            (rest.numbers[0] + self.parts[n].own[0], rest.complete)
        };
        self.boards.iter().map(shown).collect()
    }

    fn wants(&self, node: u16) -> bool {
        self.boards[&node].wants_count(BUCKET, self.parts[&node].losses, self.now_ms)
    }
}

#[test]
fn every_node_shows_what_any_node_changed() {
    let mut w = World::new();
    w.truth = 10_000;
    w.change(1, 5);
    w.exchange();
    assert!(w.shown().iter().all(|(_, complete)| !complete), "nobody has counted");
    assert!(ALL.iter().all(|n| w.wants(*n)));
    w.count(2, None);
    w.exchange();
    assert_eq!(w.shown(), [(10_005, true); 3]);
    assert!(!ALL.iter().any(|n| w.wants(*n)));
    w.change(1, 100);
    w.change(3, -2000);
    w.change(2, 7);
    w.exchange();
    assert_eq!(w.shown(), [(8112, true); 3]);
    // The last count is used, whoever made it.
    w.count(3, None);
    w.change(2, 1);
    w.exchange();
    assert_eq!(w.shown(), [(8113, true); 3]);
    w.now_ms += DAY_MS;
    assert!(w.wants(1));
}

#[test]
fn changes_during_a_count_are_placed_by_the_next_one() {
    for seen in [false, true] {
        let mut w = World::new();
        w.exchange();
        w.count(1, Some((2, 600, seen)));
        w.exchange();
        let off = if seen { 300 } else { -300 };
        assert_eq!(w.shown(), [(600 + off, true); 3]);
        assert!(!w.wants(1), "not at once");
        w.now_ms += AGAIN_MS;
        assert!(w.wants(1));
        w.count(1, None);
        w.exchange();
        assert_eq!(w.shown(), [(600, true); 3]);
    }
}

#[test]
fn a_node_that_starts_again_is_counted_again_and_its_changes_stay() {
    let mut w = World::new();
    w.exchange();
    w.count(1, None);
    w.change(3, 50);
    w.exchange();
    w.stop(3);
    w.exchange();
    assert_eq!(w.shown(), [(50, true); 2]);
    assert!(!w.wants(1), "it may only be restarting");
    w.now_ms += GONE_MS;
    assert!(w.wants(1));
    w.start(3, 33);
    w.change(3, 8);
    w.exchange();
    w.exchange();
    assert_eq!(w.shown()[..2], [(58, false); 2], "its former changes are known");
    assert!(!w.shown()[2].1 && w.wants(1) && w.wants(3));
    w.count(2, None);
    w.exchange();
    assert_eq!(w.shown(), [(58, true); 3]);
    assert!(!w.wants(1));
    // A start during a count makes it void.
    let before = w.others(1);
    w.start(2, 22);
    assert_eq!(base(bytes(0), (1, w.parts[&1]), &before, &w.others(1), (1, 1)), None);
}

#[test]
fn changes_of_unknown_outcome_cause_a_count() {
    let mut w = World::new();
    w.exchange();
    w.count(1, None);
    w.parts.get_mut(&2).unwrap().losses = 1;
    w.exchange();
    assert!(!w.wants(1));
    w.now_ms += AGAIN_MS;
    assert!(w.wants(1));
    w.count(1, None);
    w.exchange();
    w.now_ms += AGAIN_MS;
    assert!(!w.wants(1));
    // A bucket that is gone is forgotten.
    w.boards.get_mut(&1).unwrap().keep(&HashSet::new());
    assert_eq!(w.boards[&1].rest(BUCKET).numbers, bytes(0));
}

#[test]
fn shares_come_back_as_they_were() {
    let base = base(
        bytes(1),
        (1, PartNow { life: 9, own: bytes(-4), losses: 2 }),
        &BTreeMap::new(),
        &BTreeMap::new(),
        (5, 6),
    );
    let share = UsageShare {
        life: u64::MAX,
        next: [1, 2],
        parts: vec![(BUCKET.to_hex(), bytes(-3), 1)],
        bases: vec![(BUCKET.to_hex(), base.unwrap())],
        more: true,
    };
    let text = serde_json::to_vec(&share).unwrap();
    assert_eq!(serde_json::from_slice::<UsageShare>(&text).unwrap(), share);
    // The longest answer is well below what a question may have.
    assert!(1000 * (text.len() + 6000) < ashlar_node::questions::LONGEST);
}
