//! The decision table: generated policies and requests, decided twice.
//!
//! `oracle` is a second evaluator, written independently from AWS's documentation: it evaluates the JSON of
//! the policies for every request, uses only texts, and shares no code with the crate. Every case must have
//! the same result; a difference is reduced before it is printed. `ASHLAR_POLICY_SEED` and
//! `ASHLAR_POLICY_WORLDS` repeat or extend a run.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod ask;
mod generate;
mod oracle;

use std::collections::BTreeMap;

use ashlar_policy::{DecidedBy, decide, explain};
use ask::Ask;
use generate::{Random, World};

const SEED: u64 = 20_261_121;
/// Each with [`ASKS`] requests: 120,000 cases.
const WORLDS: u64 = 2500;
const ASKS: usize = 48;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What the crate answers. A world that does not compile is a fault of the generator.
fn ours(world: &World, ask: &Ask) -> bool {
    let compiled = world.compile().unwrap_or_else(|e| panic!("{e}\n{world}"));
    ask.with(&compiled, |request, authority| decide(request, authority).allowed)
}

fn theirs(world: &World, ask: &Ask) -> bool {
    oracle::allowed(&world.for_oracle(), &ask.facts())
}

/// Reduces a disagreement by leaving out one element after the other.
fn shrink(mut world: World, ask: &Ask) -> World {
    'again: loop {
        for smaller in world.smaller() {
            if smaller.compile().is_ok() && ours(&smaller, ask) != theirs(&smaller, ask) {
                world = smaller;
                continue 'again;
            }
        }
        return world;
    }
}

#[test]
fn two_evaluators_agree_on_a_generated_table() {
    let (seed, worlds) = (setting("ASHLAR_POLICY_SEED", SEED), setting("ASHLAR_POLICY_WORLDS", WORLDS));
    let mut random = Random(seed);
    let (mut cases, mut allowed) = (0u64, 0u64);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for number in 0..worlds {
        let world = World::random(&mut random);
        let compiled =
            world.compile().unwrap_or_else(|e| panic!("seed {seed}, world {number}: {e}\n{world}"));
        let plain = world.for_oracle();
        for _ in 0..ASKS {
            let ask = Ask::random(&mut random);
            let theirs = oracle::allowed(&plain, &ask.facts());
            ask.with(&compiled, |request, authority| {
                let decision = decide(request, authority);
                if decision.allowed != theirs {
                    let small = shrink(world.clone(), &ask);
                    panic!(
                        "seed {seed}, world {number}: the crate says {}, the documentation {}\n{small}\n{ask:#?}",
                        ours(&small, &ask),
                        !ours(&small, &ask),
                    );
                }
                cases += 1;
                allowed += u64::from(decision.allowed);
                *reasons.entry(reason(decision.by, decision.allowed)).or_default() += 1;
                check_explanation(&world, &ask, decision, &explain(request, authority));
                // The lattice: without its session policies the same request is allowed at least as often.
                let free = ashlar_policy::Authority { sessions: &[], ..*authority };
                let without = decide(request, &free);
                assert!(!decision.allowed || without.allowed, "a session policy allowed more\n{world}\n{ask:#?}");
            });
        }
    }
    println!("{cases} cases, {allowed} allowed, seed {seed}: {reasons:?}");
    assert!(worlds < WORLDS || cases >= 100_000);
    // The table is useful only if it covers everything.
    assert!(allowed * 100 > cases * 10 && allowed * 100 < cases * 60, "{allowed} of {cases}");
    for name in ["root", "own", "acl", "session", "block", "nothing", "allow", "deny"] {
        assert!(reasons.get(name).is_some_and(|n| *n > 50), "{name}: {reasons:?}");
    }
}

fn reason(by: DecidedBy, allowed: bool) -> &'static str {
    match by {
        DecidedBy::Statement { .. } if allowed => "allow",
        DecidedBy::Statement { .. } => "deny",
        DecidedBy::Root => "root",
        DecidedBy::Own => "own",
        DecidedBy::Acl => "acl",
        DecidedBy::NoSession(_) => "session",
        DecidedBy::PublicAccessBlock => "block",
        DecidedBy::Nothing => "nothing",
    }
}

/// An explanation names a statement that applies, and says the same as the decision.
fn check_explanation(
    world: &World,
    ask: &Ask,
    decision: ashlar_policy::Decision,
    explanation: &ashlar_policy::Explanation,
) {
    assert_eq!(explanation.decision, decision);
    if let DecidedBy::Statement { source, index } = decision.by {
        let trace = explanation.traces.iter().find(|t| t.source == source && t.index == index);
        let trace = trace.unwrap_or_else(|| panic!("no trace of what decided\n{world}\n{ask:#?}"));
        assert_eq!(trace.misses, None);
        assert_eq!(trace.effect == ashlar_policy::Effect::Allow, decision.allowed);
        assert_eq!(trace.sid, explanation.sid);
    }
    assert!(explanation.traces.iter().all(|t| t.misses.as_deref() != Some("")));
    assert!(!decision.to_string().is_empty());
}
