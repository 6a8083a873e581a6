//! Every block of a group lies at exactly one place.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::{Error, Geometry, Level};

/// Levels with a fitting number of members.
fn shapes() -> impl Strategy<Value = (Level, usize)> {
    prop_oneof![
        (1usize..9).prop_map(|n| (Level::Raid0, n)),
        (2usize..6).prop_map(|n| (Level::Raid1, n)),
        (1usize..6).prop_map(|n| (Level::Raid10, 2 * n)),
        (3usize..12).prop_map(|n| (Level::Raid5, n)),
        (4usize..12).prop_map(|n| (Level::Raid6, n)),
        (1u8..33, 0u8..32).prop_map(|(k, m)| (Level::Coded { k, m }, usize::from(k) + usize::from(m))),
        (1u16..5, 3usize..6).prop_map(|(sets, n)| (Level::Raid50 { sets }, usize::from(sets) * n)),
        (1u16..4, 4usize..7).prop_map(|(sets, n)| (Level::Raid60 { sets }, usize::from(sets) * n)),
    ]
}

proptest! {
    #[test]
    fn every_block_has_one_place((level, members) in shapes(), strip in 0u32..4, blocks in 20u64..120) {
        let g = Geometry::new(level, members, 4096 << strip, blocks).unwrap();
        let mut used: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for block in 0..g.blocks() {
            let place = g.locate(block);
            prop_assert_eq!(g.block(place), Some(block));
            prop_assert!(place.role < g.k && place.row < g.rows() && place.set < g.sets);
            let slot = g.slot(place.set, place.row, place.role);
            prop_assert_eq!(g.set(slot), place.set);
            prop_assert_eq!(g.role(slot, place.row), place.role);
            prop_assert_eq!(used.insert((slot, place.row), block), None, "two blocks at one place");
        }
        // Together with parity, the rows fill the members, without overlap.
        for set in 0..g.sets {
            for row in 0..g.rows() {
                let slots: BTreeSet<usize> = (0..g.n()).map(|role| g.slot(set, row, role)).collect();
                prop_assert_eq!(slots.len(), g.n());
                for role in g.k..g.n() {
                    prop_assert_eq!(used.insert((g.slot(set, row, role), row), u64::MAX), None);
                }
            }
        }
        prop_assert_eq!(used.len() as u64, g.members() as u64 * g.rows());
    }

    #[test]
    fn parity_takes_turns((level, members) in shapes()) {
        let n = Geometry::new(level, members, 4096, 64).unwrap().n() as u64;
        let g = Geometry::new(level, members, 4096, n).unwrap();
        // Over n stripes, each member of a set has each role once.
        for slot in 0..g.members() {
            let roles: BTreeSet<usize> = (0..n).map(|row| g.role(slot, row)).collect();
            prop_assert_eq!(roles.len(), g.n());
        }
    }
}

#[test]
fn left_symmetric_as_known() {
    let g = Geometry::new(Level::Raid5, 4, 4096, 8).unwrap();
    // Parity: last member first, then one to the left each stripe; the first data block follows the parity.
    let parity: Vec<usize> = (0..5).map(|row| g.slot(0, row, 3)).collect();
    assert_eq!(parity, [3, 2, 1, 0, 3]);
    let first: Vec<usize> = (0..5).map(|row| g.slot(0, row, 0)).collect();
    assert_eq!(first, [0, 3, 2, 1, 0]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    for (level, members, strip) in [
        ("5", 2, 4096),
        ("6", 3, 4096),
        ("1", 1, 4096),
        ("10", 5, 4096),
        ("50", 7, 4096),
        ("8+2", 9, 4096),
        ("0+2", 2, 4096),
        ("0", 0, 4096),
        ("6", 65, 4096),
        ("5", 4, 2048),
        ("5", 4, 12288),
        ("5", 4, 2 << 20),
        ("50x0", 6, 4096),
    ] {
        let made = Geometry::new(level.parse().unwrap(), members, strip, 1000);
        assert!(matches!(made, Err(Error::Layout(_))), "{level} of {members}: {made:?}");
    }
    assert!(
        "7".parse::<Level>().is_err() && "5x2".parse::<Level>().is_err() && "a+b".parse::<Level>().is_err()
    );
    for level in ["0", "1", "10", "5", "6", "14+4", "50x3", "60x2"] {
        assert_eq!(level.parse::<Level>().unwrap().to_string(), level);
    }
}
