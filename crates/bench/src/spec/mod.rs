//! The spec sheet of a system through its life: its drives alone, nominal, with drives down, during rebuild, after.
//!
//! * [`Driver`] is the interface to the measured system: objects of a server ([`objects`]), blocks of arrays ([`arrays`]).
//!   The runner uses only this trait.
//! * [`run`] does every phase in every state, several times, and again where repetitions differ too much;
//!   [`ashlar_bench_report::check`] finds reasons to reject or doubt the numbers.
//!
//! Invariants: the number of repetitions is bounded; every repetition is kept, and one that is set aside is
//! marked and not averaged; after an error the driver restores the drives that it took down.
//!
//! Must not depend on: the content of a phase, the kind of drives.

use ashlar_bench_report::{check::Facts, result::Phase};

pub mod arrays;
pub mod objects;
pub mod rig;
mod runner;
mod watch;

pub use runner::{Expected, Options, Outcome, run};

/// A stage of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The drives of an array, without it.
    Baseline,
    /// Everything works.
    Nominal,
    /// Some drives are out of service.
    Down,
    /// They were replaced and are being filled.
    Rebuild,
    /// The rebuild is over.
    After,
}

impl State {
    /// Every state of a server, in the order of life.
    pub const ALL: [State; 4] = [State::Nominal, State::Down, State::Rebuild, State::After];
    /// Every state of an array: its baseline comes first, as making the array of the drives ends it.
    pub const ARRAY: [State; 5] =
        [State::Baseline, State::Nominal, State::Down, State::Rebuild, State::After];

    /// As [`Phase::state`] writes it.
    pub fn name(self) -> &'static str {
        match self {
            State::Baseline => "baseline",
            State::Nominal => "nominal",
            State::Down => "down",
            State::Rebuild => "rebuild",
            State::After => "after",
        }
    }
}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rebuild {
    /// Whether it is over.
    pub done: bool,
    /// Seconds from its start to its end, or until now.
    pub seconds: f64,
    /// Bytes that were made, where known.
    pub bytes: Option<u64>,
    /// Things (records of objects, blocks) that were looked at or copied, where known.
    pub items: Option<u64>,
}

/// What is driven through its life.
pub trait Driver {
    /// What can go wrong; the run ends with it.
    type Error;

    /// The names of its phases, sequential ones first, for instance `seq-get-4MiB`, `rand-get-4KiB`.
    fn phases(&self) -> Vec<String>;

    /// Does a phase once. State and repetition of what it returns are set by the runner. A phase in
    /// which operations fail is no error; they are counted.
    ///
    /// # Errors
    /// When the phase could not be done at all.
    fn phase(&mut self, name: &str) -> Result<Phase, Self::Error>;

    /// Makes the drives themselves what phases use. A system that has no such state does nothing.
    ///
    /// # Errors
    /// When they cannot be used.
    fn expose(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Makes the system what phases use. One that is there already does nothing.
    ///
    /// # Errors
    /// When it cannot be made.
    fn assemble(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Takes drives out of service: as many as the system should survive.
    ///
    /// # Errors
    /// When it refuses.
    fn take_down(&mut self) -> Result<(), Self::Error>;

    /// Replaces what was taken down by blank drives; the rebuild begins.
    ///
    /// # Errors
    /// When it refuses.
    fn start_rebuild(&mut self) -> Result<(), Self::Error>;

    /// How far the rebuild is.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn rebuild(&mut self) -> Result<Rebuild, Self::Error>;

    /// Waits a moment (the runner does so between questions for the rebuild).
    fn wait(&mut self);

    /// Puts drives that were taken down back into service after an error; errors of this are not reported.
    fn restore(&mut self);

    /// What the numbers have to be judged against.
    fn facts(&self) -> Facts;
}
