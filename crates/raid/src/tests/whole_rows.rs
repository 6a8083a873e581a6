//! Whole rows that are written once, among other batches under way: power cuts as in `pipelined`, with images of whole blocks.

use std::cell::Cell;

use ashlar_environment::random::Seeded;
use ashlar_machine::Crash;

use super::crash::{State, allowed, images, levels};
use super::pipelined::{Life, is_found_in, life, live};
use super::rig::*;
use crate::group::{Mutant, OPENED_WITH};
use crate::{Error, Group, Level, Policy, Shared};

thread_local! {
    /// Batches with rows that were written once, of all lives of a test.
    pub(super) static WRITTEN_ONCE: Cell<usize> = const { Cell::new(0) };
}

/// Lives in which whole rows are written once.
fn all_once(state: State, seeds: std::ops::Range<u64>) {
    let mut count = 0;
    for seed in seeds {
        for (level, members) in levels().into_iter().chain([(Level::Raid0, 3)]) {
            if level == Level::Raid0 && state != State::Optimal {
                continue;
            }
            let (lived, _) = live(&Life { once: true, steps: 200, ..life(level, members, state, seed) });
            count += images(&lived, seed, 3);
        }
    }
    let written = WRITTEN_ONCE.take();
    println!("{state:?}: {count} images, {written} batches with rows that were written once");
    assert!(count > 200, "{count} images");
    let optimal = matches!(state, State::Optimal | State::Failing);
    assert!(if optimal { written > 40 } else { written == 0 }, "{written} batches were written once");
}

#[test]
fn power_cut_while_whole_rows_are_written_once() {
    all_once(State::Optimal, 1..4);
}

#[test]
fn power_cut_while_whole_rows_are_written_once_and_a_member_fails() {
    all_once(State::Failing, 1..5);
}

/// A power cut, and a member that was in service is gone: what was answered is there, and what was not is old, new, or an error until it is
/// written again.
#[test]
fn a_member_that_is_lost_with_the_power_costs_only_rows_that_were_being_written_once() {
    let (mut errors, mut count) = (0, 0);
    for seed in 1..4 {
        for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
            let (lived, _) =
                live(&Life { once: true, steps: 200, ..life(level, members, State::Optimal, seed) });
            let (mut crash, mut random) = (Crash::new(&lived.disk), Seeded::new(seed));
            for position in lived.from..=lived.disk.position() {
                crash.advance(position);
                if random.below(2) != 0 {
                    continue;
                }
                let rig = Rig::of(lived.image(&crash, &mut random), lived.count);
                let gone = random.below(members as u64) as usize;
                let mut group = Group::open(rig.devices((0..members).filter(|m| *m != gone)), true).unwrap();
                let mut out = vec![0; B as usize];
                for (block, past) in lived.pasts.iter().enumerate() {
                    let open =
                        past.iter().any(|(_, asked, answered)| *asked <= position && *answered > position);
                    match group.read(block as u64 * B, &mut out) {
                        Ok(()) => {
                            let (id, allowed) = (identity(&out), allowed(past, position));
                            assert!(
                                id.is_some_and(|id| allowed.contains(&id)),
                                "{block}: {id:?} of {allowed:?}"
                            );
                        }
                        Err(Error::Lost { .. }) if open => {
                            errors += 1;
                            group.write(block as u64 * B, &content(999)).unwrap();
                            group.read(block as u64 * B, &mut out).unwrap();
                            assert_eq!(identity(&out), Some(999));
                        }
                        Err(e) => panic!("block {block} at {position}: {e}"),
                    }
                }
                assert_eq!(group.counters().corrected, 0);
                count += 1;
            }
        }
    }
    println!("{errors} errors in {count} images");
    assert!(count > 300 && errors > 0, "{errors} errors in {count} images");
}

#[test]
fn rows_of_groups_that_are_not_optimal_are_not_written_once() {
    for state in [State::Degraded, State::Rebuilding] {
        all_once(state, 1..2);
    }
}

#[test]
fn the_journals_begin_again_while_whole_rows_are_written_once() {
    let long = Life { steps: 1200, once: true, ..life(Level::Raid5, 4, State::Optimal, 3) };
    let (lived, _) = live(&long);
    images(&lived, 3, 40);
}

#[test]
fn mutants_are_found_among_rows_that_are_written_once() {
    is_found_in(Mutant::DurableAtStaging, State::Optimal, 20, true);
    is_found_in(Mutant::OnceUnflushed, State::Optimal, 20, true);
    OPENED_WITH.set(Some(Mutant::OnceUnresolved));
    is_found_in(Mutant::OnceUnresolved, State::Optimal, 20, true);
    OPENED_WITH.set(None);
    is_found_in(Mutant::OnceShared, State::Optimal, 40, true);
    is_found_in(Mutant::RecordedWhileWrittenOnce, State::Failing, 60, true);
    is_found_in(Mutant::OnceThoughDegraded, State::Failing, 60, true);
}

/// Files that are written as a whole too: one block of each journal has the intent.
#[test]
fn whole_rows_of_members_that_do_not_wait_are_written_once() {
    for (atomic, blocks) in [(true, 1), (false, 5)] {
        let rig = Rig { atomic, ..Rig::new(4) };
        let mut group = rig.create(Level::Raid5, 8192, Policy::Journal, 4);
        group.once_rows = 1;
        group.create_volume("v", None).unwrap();
        let shared = Shared::new(group);
        let drive = shared.volume("v").unwrap();
        let write = |from: u64| drive.write(0, (from..from + 12).flat_map(content).collect()).unwrap();
        write(1);
        let used = || shared.with(|g| g.members.iter().flatten().map(|m| m.journal_at).sum::<u64>());
        let before = used();
        write(100);
        assert_eq!(used() - before, 4 * blocks);
        assert_eq!(shared.with(identities)[..12], (100..112).map(Some).collect::<Vec<_>>());
    }
}
