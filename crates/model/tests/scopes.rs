//! Every small scope is clean, and every mutant is found. Larger scopes: `cargo test --release -p
//! ashlar-model -- --ignored`, or `cargo run --release -p ashlar-model -- large`.

use ashlar_model::{Limits, scopes};

/// One thread per test: the tests run in parallel.
const LIMITS: Limits = Limits { threads: 1, transitions: 20_000_000 };

/// Runs one part of the settings, so that a few tests share them in parallel.
fn clean(part: usize) {
    for setting in scopes::small().into_iter().skip(part).step_by(2) {
        let report = setting.run(LIMITS);
        assert!(report.clean(), "{}: {}\n{:#?}", report.name, report.verdict(), report.violation);
    }
}

#[test]
fn small_scopes_are_clean_1() {
    clean(0);
}

#[test]
fn small_scopes_are_clean_2() {
    clean(1);
}

fn found(part: usize) {
    for (mutant, setting) in scopes::mutants().into_iter().skip(part).step_by(2) {
        let report = setting.run(LIMITS);
        let steps = report.violation.map_or(0, |(_, steps)| steps.len());
        assert!(steps > 0, "{mutant:?} is not found: the rule or its check is idle");
    }
}

#[test]
fn every_mutant_is_found_1() {
    found(0);
}

#[test]
fn every_mutant_is_found_2() {
    found(1);
}

#[test]
#[ignore = "minutes; nightly"]
fn large_scopes_are_clean() {
    for setting in scopes::large() {
        let report = setting.run(Limits { threads: 2, transitions: 30_000_000 });
        assert!(report.violation.is_none(), "{}: {:#?}", report.name, report.violation);
    }
}
