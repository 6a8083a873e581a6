//! Which member is where in a stripe of a declustered group. **Part of the on-drive format** (docs/array.md, "Declustered groups").
//!
//! A row of the group has a position for each member: those of the sets one after another, by role, then those of the spares. The table is
//! [`BASES`] permutations of the members, each of which is developed (as in dRAID and in parity declustering by block designs): in strip `t`
//! the member at position `p` is `bases[t / n mod BASES][p] + t mod n`, modulo `n` members. So in `n` strips each member is at each position
//! once, and what the members share does not depend on which they are, but on their distance.
//!
//! The permutations are drawn with SplitMix64 from the shape alone, so all members and releases have the same ones. Of [`DRAWN`] for each base
//! that one is taken with which the load of a rebuild is most even: the sum of the squares, over distances, of the blocks that a member at that distance
//! reads and writes when another one is rebuilt, is least.
//!
//! Invariant: the table of a shape never changes.
//!
//! Must not depend on: groups, the state of members.

use ashlar_environment::random::Seeded;

use crate::geometry::Geometry;

/// Permutations of a table.
const BASES: usize = 32;
/// Permutations of which each is chosen.
const DRAWN: usize = 32;

/// See the module.
pub(crate) struct Table {
    members: usize,
    /// By base and position.
    bases: Vec<Vec<u16>>,
    /// The inverse: the position by base and member.
    positions: Vec<Vec<u16>>,
}

impl Table {
    /// The table of a declustered shape.
    pub(crate) fn new(g: &Geometry) -> Table {
        let members = g.members();
        let shape = (members as u64) | (g.k as u64) << 16 | (g.m as u64) << 32 | (g.spares as u64) << 48;
        let mut random = Seeded::new(shape);
        let mut load = vec![vec![0; members]; g.spares];
        let mut bases = Vec::with_capacity(BASES);
        for _ in 0..BASES {
            let drawn = (0..DRAWN).map(|_| permutation(members, &mut random));
            let with = |base: Vec<u16>| {
                let load = added(&load, &base, g);
                (load.iter().flatten().map(|l| l * l).sum::<u64>(), base, load)
            };
            // The first of those that are equal.
            if let Some((_, base, new)) = drawn.map(with).min_by_key(|(cost, ..)| *cost) {
                bases.push(base);
                load = new;
            }
        }
        let inverse = |base: &Vec<u16>| {
            let mut out = vec![0; members];
            (0u16..).zip(base).for_each(|(position, member)| out[usize::from(*member)] = position);
            out
        };
        let positions = bases.iter().map(inverse).collect();
        Table { members, bases, positions }
    }

    /// Strips after which members are where they were.
    #[cfg(test)]
    pub(crate) fn period(&self) -> u64 {
        (self.members * self.bases.len()) as u64
    }

    fn base(&self, strip: u64) -> (usize, usize) {
        let n = self.members as u64;
        ((strip / n % self.bases.len() as u64) as usize, (strip % n) as usize)
    }

    /// The member at a position of a strip.
    pub(crate) fn member(&self, strip: u64, position: usize) -> usize {
        let (base, turn) = self.base(strip);
        (usize::from(self.bases[base][position]) + turn) % self.members
    }

    /// The position of a member in a strip.
    pub(crate) fn position(&self, strip: u64, member: usize) -> usize {
        let (base, turn) = self.base(strip);
        usize::from(self.positions[base][(member + self.members - turn) % self.members])
    }
}

/// The load with one more base, by spare and distance: what a member at that distance reads and writes when one is rebuilt into that spare.
fn added(load: &[Vec<u64>], base: &[u16], g: &Geometry) -> Vec<Vec<u64>> {
    let (members, data) = (base.len(), g.sets as usize * g.n());
    let distance = |from: u16, to: u16| (usize::from(to) + members - usize::from(from)) % members;
    let mut reads = vec![0; members];
    for set in base[..data].chunks_exact(g.n()) {
        for (at, from) in set.iter().enumerate() {
            let others = set.iter().enumerate().filter(|(i, _)| *i != at);
            others.for_each(|(_, to)| reads[distance(*from, *to)] += 1);
        }
    }
    let mut out = load.to_vec();
    for (load, to) in out.iter_mut().zip(&base[data..]) {
        load.iter_mut().zip(&reads).for_each(|(load, reads)| *load += reads);
        base[..data].iter().for_each(|from| load[distance(*from, *to)] += 1);
    }
    out
}

/// By Fisher and Yates.
fn permutation(members: usize, random: &mut Seeded) -> Vec<u16> {
    let mut out: Vec<u16> = (0..members as u16).collect();
    for i in (1..members).rev() {
        out.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn shape(k: u8, m: u8, spares: u8, members: usize) -> Geometry {
        Geometry::new(Level::Declustered { k, m, spares }, members, 4096, 1 << 20).unwrap()
    }

    fn shapes() -> [Geometry; 7] {
        [
            shape(2, 1, 1, 7),
            shape(5, 1, 1, 13),
            shape(4, 2, 1, 13),
            shape(3, 2, 2, 12),
            shape(8, 2, 4, 24),
            shape(8, 3, 2, 90),
            shape(16, 4, 16, 256),
        ]
    }

    #[test]
    fn every_member_is_at_every_position_equally_often() {
        for g in shapes() {
            let (table, n) = (Table::new(&g), g.members());
            let mut count = vec![vec![0; n]; n];
            for strip in 0..table.period() {
                let mut seen = vec![false; n];
                for (position, count) in count.iter_mut().enumerate() {
                    let member = table.member(strip, position);
                    assert!(!std::mem::replace(&mut seen[member], true), "a member is at one position");
                    assert_eq!(table.position(strip, member), position);
                    count[member] += 1;
                }
                // After each development already.
                if (strip + 1) % n as u64 == 0 {
                    let turns = (strip + 1) / n as u64;
                    assert!(count.iter().flatten().all(|c| *c == turns), "{}", g.level);
                }
            }
        }
    }

    /// What each other member reads and writes when one is rebuilt into a spare: at most this much above the mean.
    #[test]
    fn the_load_of_a_rebuild_is_even() {
        for g in shapes() {
            let (table, n) = (Table::new(&g), g.members());
            let data = g.sets as usize * g.n();
            let failed = 1;
            for spare in 0..g.spares {
                let mut load = vec![0u64; n];
                for strip in 0..table.period() {
                    let position = table.position(strip, failed);
                    if position >= data {
                        continue;
                    }
                    let set = position / g.n() * g.n();
                    let others = (set..set + g.n()).filter(|p| *p != position);
                    others.chain([data + spare]).for_each(|p| load[table.member(strip, p)] += 1);
                }
                assert_eq!(load[failed], 0);
                load.remove(failed);
                let mean = load.iter().sum::<u64>() as f64 / load.len() as f64;
                let most = *load.iter().max().unwrap() as f64 / mean - 1.0;
                let least = 1.0 - *load.iter().min().unwrap() as f64 / mean;
                println!(
                    "{} of {n}, spare {spare}: +{:.1} %, -{:.1} %",
                    g.level,
                    most * 100.0,
                    least * 100.0
                );
                assert!(most < 0.1 && least < 0.1, "{} of {n}", g.level);
            }
        }
    }

    /// A change of these numbers would make all declustered groups unreadable.
    #[test]
    fn tables_do_not_change() {
        assert_eq!(Seeded::new(1_234_567).next(), 6_457_827_717_110_365_317);
        let table = Table::new(&shape(2, 1, 1, 7));
        assert_eq!(table.bases[..3], [[0, 2, 3, 1, 6, 5, 4], [5, 1, 6, 3, 0, 2, 4], [4, 1, 3, 6, 2, 0, 5]]);
        let of = |g: &Geometry| {
            let table = Table::new(g);
            let all = table.bases.iter().flatten();
            all.fold(0u64, |sum, member| sum.wrapping_mul(1_000_003).wrapping_add(u64::from(*member)))
        };
        let known = [
            16_340_710_920_605_259_440,
            7_796_415_218_341_018_862,
            12_656_046_146_897_015_332,
            8_079_747_722_012_822_474,
            7_514_574_655_340_550_734,
            6_705_084_356_237_823_110,
        ];
        // From another program.
        assert_eq!(shapes()[..6].iter().map(of).collect::<Vec<_>>(), known);
    }
}
