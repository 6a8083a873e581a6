//! The parameters of a run: drawn from its seed, or set by a scenario.
//!
//! Must not depend on: how a plan is executed.

use ashlar_environment::random::Seeded;

/// A defect that is switched on, to show that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Every coordinator assumes that it is the only one.
    Sole,
    /// A coordinator that reads treats the answer of one drive as the answer of all.
    OneSlot,
    /// A drive answers before it has flushed.
    NoFlush,
    /// A refused record counts as accepted.
    RefusedCounts,
    /// A drive that lost what it acknowledged goes on with its votes. Found by a scenario.
    KeepsVote,
    /// A drive that does not vote shows a list what it has. Found by a scenario.
    NonVotersList,
    /// A record, or a small shard, counts as accepted when its message, or the answer, is lost.
    UnansweredCounts,
    /// A drive answers that it has stored a small shard, and has not.
    ShardsNotStored,
    /// When the message of a read, or its answer, is lost, the drive counts as one that has no record.
    SilenceIsAbsence,
    /// A lifecycle pass removes what a key has, not what the pass has read.
    BlindExpiry,
    /// A coordinator reads the map when it starts, and never again.
    MapReadOnce,
    /// A coordinator reads the registry of buckets when it starts, and never again. Found by a scenario.
    BucketsReadOnce,
    /// Drives answer node 1 that they have stored its change feed, and have not. Found by a scenario.
    FeedNotStored,
    /// A collector believes that a day has passed since uploads were completed. Found by a scenario.
    SweepsEarly,
    /// The control store makes updates whatever the state is that they were made from. Found by scenarios.
    NoCompare,
}

impl Mutant {
    /// All mutants that default runs find; scenarios find the others.
    pub const ALL: [Mutant; 9] = [
        Mutant::Sole,
        Mutant::OneSlot,
        Mutant::NoFlush,
        Mutant::RefusedCounts,
        Mutant::UnansweredCounts,
        Mutant::ShardsNotStored,
        Mutant::SilenceIsAbsence,
        Mutant::BlindExpiry,
        Mutant::MapReadOnce,
    ];
}

/// Rates of network faults, in parts of a thousand.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFaults {
    /// Messages that are lost, in each direction.
    pub lost: u64,
    /// Requests that are duplicated.
    pub twice: u64,
    /// Messages that take up to 50 ms.
    pub slow: u64,
    /// Messages that take up to 3 s.
    pub late: u64,
}

impl NetworkFaults {
    /// All messages arrive, in any order.
    pub const NONE: NetworkFaults = NetworkFaults { lost: 0, twice: 0, slow: 20, late: 0 };
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Determines everything that is not a parameter.
    pub seed: u64,
    /// Number of coordinators.
    pub coordinators: usize,
    /// Number of drives, and of slots of a placement group.
    pub drives: usize,
    /// Number of placement groups.
    pub groups: u16,
    /// Number of clients.
    pub clients: usize,
    /// Number of calls of each client.
    pub calls: u64,
    /// Number of faults that are injected, one after another.
    pub fault_count: u64,
    /// Rates of network faults.
    pub network_faults: NetworkFaults,
    /// Whether lists of versions move into pages after two versions.
    pub small_pages: bool,
    /// Whether coordinators whose proposals meet take turns.
    pub takes_turns: bool,
    /// A defect that is switched on.
    pub mutant: Option<Mutant>,
    /// Whether the trace is kept.
    pub traced: bool,
}

/// One run in so many is long.
const LONG: u64 = 8;

impl Plan {
    /// The plan of a seed. Most runs are short: half of the calls and faults of [`Plan::long`], and nearly twice as many runs in
    /// the same time.
    #[must_use]
    pub fn of(seed: u64) -> Plan {
        let long = Plan::long(seed);
        if seed.is_multiple_of(LONG) {
            return long;
        }
        Plan { calls: long.calls.div_ceil(2), fault_count: long.fault_count.div_ceil(2), ..long }
    }

    /// The long plan of a seed.
    #[must_use]
    pub fn long(seed: u64) -> Plan {
        let mut rng = Seeded::new(seed ^ 0x706c_616e);
        let rough = rng.below(4);
        let network_faults = match rough {
            0 => NetworkFaults::NONE,
            1 => NetworkFaults { lost: 10, twice: 10, slow: 50, late: 5 },
            2 => NetworkFaults { lost: 50, twice: 50, slow: 100, late: 20 },
            _ => NetworkFaults { lost: 5, twice: 200, slow: 300, late: 10 },
        };
        Plan {
            seed,
            coordinators: 2 + rng.below(2) as usize,
            drives: 4 + rng.below(3) as usize,
            groups: 1 + rng.below(2) as u16,
            clients: 2 + rng.below(3) as usize,
            calls: 4 + rng.below(9),
            fault_count: rng.below(8),
            network_faults,
            small_pages: rng.below(2) == 0,
            takes_turns: rng.below(8) != 0,
            mutant: None,
            traced: false,
        }
    }
}
