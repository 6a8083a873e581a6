//! What a run is made of: drawn from its seed, or set by a scenario.
//!
//! Must not depend on: how a plan is carried out.

use ashlar_environment::random::Seeded;

/// A defect that is switched on, to show that the checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Every coordinator takes itself for the only one.
    Sole,
    /// A coordinator that reads takes what one drive says for the answer of all.
    OneSlot,
    /// A drive answers before it has flushed.
    NoFlush,
    /// A refused record counts as accepted.
    RefusedCounts,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 4] = [Mutant::Sole, Mutant::OneSlot, Mutant::NoFlush, Mutant::RefusedCounts];
}

/// How messages fare, in parts of a thousand.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Messages that are lost, each way.
    pub lost: u64,
    /// Requests that come twice.
    pub twice: u64,
    /// Messages that take up to 50 ms.
    pub slow: u64,
    /// Messages that take up to 3 s.
    pub late: u64,
}

impl Weather {
    /// Messages come, in any order.
    pub const CALM: Weather = Weather { lost: 0, twice: 0, slow: 20, late: 0 };
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that is not said here.
    pub seed: u64,
    /// Coordinators.
    pub coordinators: usize,
    /// Drives, which is also the number of slots of a placement group.
    pub drives: usize,
    /// Placement groups.
    pub groups: u16,
    /// Clients.
    pub clients: usize,
    /// Calls of each client.
    pub calls: u64,
    /// Faults that strike, one after another.
    pub strikes: u64,
    /// Of messages.
    pub weather: Weather,
    /// A defect that is switched on.
    pub mutant: Option<Mutant>,
    /// Lines of the trace are kept.
    pub traced: bool,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Plan {
        let mut dice = Seeded::new(seed ^ 0x706c_616e);
        let rough = dice.below(4);
        let weather = match rough {
            0 => Weather::CALM,
            1 => Weather { lost: 10, twice: 10, slow: 50, late: 5 },
            2 => Weather { lost: 50, twice: 50, slow: 100, late: 20 },
            _ => Weather { lost: 5, twice: 200, slow: 300, late: 10 },
        };
        Plan {
            seed,
            coordinators: 2 + dice.below(2) as usize,
            drives: 4 + dice.below(3) as usize,
            groups: 1 + dice.below(2) as u16,
            clients: 2 + dice.below(3) as usize,
            calls: 4 + dice.below(9),
            strikes: dice.below(6),
            weather,
            mutant: None,
            traced: false,
        }
    }
}
