//! Runs are repeatable, the present seeds find nothing, and every mutant is found.

use ashlar_sim::{Mutant, Plan, run};

#[test]
fn seed_is_repeatable() {
    for seed in 1..=6 {
        let traced = || run(Plan { traced: true, ..Plan::of(seed) });
        let (first, second) = (traced(), traced());
        let differs = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
        let at = differs.map(|i| (&first.trace[i], &second.trace[i]));
        assert_eq!(at, None, "seed {seed}");
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
        assert_eq!((first.fingerprint, first.findings), (second.fingerprint, second.findings), "seed {seed}");
        assert!(first.calls > 10 && !first.trace.is_empty());
    }
}

#[test]
fn different_seeds_give_different_runs() {
    assert_ne!(run(Plan::of(1)).fingerprint, run(Plan::of(2)).fingerprint);
}

#[test]
fn first_seeds_find_nothing() {
    let found: Vec<_> =
        (1..=20).map(|s| (s, run(Plan::of(s)).findings)).filter(|f| !f.1.is_empty()).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The first seed that finds a mutant, by a finding or by an assertion of the code under test.
fn caught(mutant: Mutant) -> Option<u64> {
    let finds = |seed: &u64| {
        let plan = Plan { mutant: Some(mutant), ..Plan::of(*seed) };
        std::panic::catch_unwind(|| run(plan)).map_or(true, |verdict| !verdict.findings.is_empty())
    };
    (1..=400).find(finds)
}

#[test]
fn every_mutant_is_found() {
    for mutant in Mutant::ALL {
        let seed = caught(mutant);
        println!("{mutant:?}: found by seed {seed:?}");
        assert!(seed.is_some(), "{mutant:?} is not found by 400 seeds");
    }
}
