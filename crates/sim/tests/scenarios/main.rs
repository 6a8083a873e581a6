//! Named runs with a story of their own, instead of the default calls and faults.
//!
//! | file | what it holds |
//! |---|---|
//! | `defects` | defects that were found by reading code |
//! | `moves` | slots move away from a drive that is gone, and returns |
//! | `quota` | several coordinators admit into one bucket |
//! | `contention` | many clients change one key through all coordinators |
//! | `hedging` | a drive takes much longer than the others to read shards |
//! | `records` | two nodes change one record; one collects what another works on |
//! | `feed` | change feeds of nodes that are taken for gone and are not |
//!
//! A scenario for a known defect that still exists asserts that the defect is found; the assertion is
//! inverted when the defect is fixed.

mod contention;
mod defects;
mod feed;
mod hedging;
mod moves;
mod quota;
mod records;

use std::sync::Arc;

use ashlar_object::{PutSpec, Store, VersionSpec};
use ashlar_sim::client::Clients;
use ashlar_sim::plan::{Mutant, NetworkFaults, Plan};
use ashlar_sim::run::simulate;
use bytes::Bytes;

/// Two coordinators over four drives, without injected faults.
pub(crate) fn without_faults(seed: u64) -> Plan {
    let network_faults = NetworkFaults::NONE;
    Plan {
        coordinators: 2,
        drives: 4,
        groups: 1,
        clients: 0,
        calls: 0,
        fault_count: 0,
        network_faults,
        ..Plan::of(seed)
    }
}

/// The findings of the seeds in `seeds`.
pub(crate) fn findings<F: Future<Output = ()> + 'static>(
    seeds: std::ops::Range<u64>,
    plan: impl Fn(u64) -> Plan,
    story: impl Fn(Arc<Clients>) -> F + Clone + 'static,
) -> Vec<(u64, Vec<String>)> {
    let one = |seed| (seed, simulate(plan(seed), story.clone()).findings);
    seeds.map(one).filter(|(_, found)| !found.is_empty()).collect()
}

/// Asserts that a story finds a mutant, or an assertion of the code under test does.
pub(crate) fn assert_found<F: Future<Output = ()> + 'static>(
    mutant: Mutant,
    seeds: std::ops::Range<u64>,
    plan: impl Fn(u64) -> Plan,
    story: impl Fn(Arc<Clients>) -> F + Clone + 'static,
) {
    let most = seeds.end;
    let with = |seed| Plan { mutant: Some(mutant), ..plan(seed) };
    let finds = |seed: &u64| {
        let run = || findings(*seed..*seed + 1, with, story.clone());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_or(true, |found| !found.is_empty())
    };
    let first = seeds.into_iter().find(finds);
    println!("{mutant:?}: found by seed {first:?}");
    assert!(first.is_some(), "{mutant:?} is not found by {most} seeds");
}

/// Puts a body of `size` bytes.
pub(crate) async fn put(
    store: Store,
    bucket: &'static str,
    key: String,
    size: u64,
) -> ashlar_object::Result<()> {
    let mut put = store.put(&store.bucket(bucket)?, &key, PutSpec::new(size)).await?;
    put.write(Bytes::from(vec![7; size as usize])).await?;
    put.commit(VersionSpec::default(), &ashlar_object::Conditions::NONE).await.map(|_| ())
}
