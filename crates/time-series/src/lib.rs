//! # ashlar-time-series: a bounded history of metrics
//!
//! A [`History`] takes a [`Point`] every ten seconds: how often something happened in this time (a sum), and how large
//! something was at its end (a gauge). It keeps points of 10 s for a day, of a minute for two weeks, and of a quarter of
//! an hour for 400 days, and answers what happened between two times in steps of a given length.
//!
//! | module | contents |
//! |---|---|
//! | `point` | [`Point`] and its encoding |
//! | `ring` | the points of one resolution, encoded, in segments; the oldest are dropped |
//! | `history` | [`History`]: the three rings, and how points of one become points of the next |
//! | `files` | [`Files`]: the segments as files of a folder |
//!
//! The history is a pure data structure: [`History::push`] returns the [`Change`]s to make in the files, which may be
//! made later, together, or never.
//!
//! Invariants: it holds at most [`LONGEST`] bytes for each of its segments, whatever the clock does; what the files hold
//! after a crash is a prefix of each segment; bytes of a file that are not what was written are not read as points.
//!
//! Must not depend on: what is measured, what time it is.
#![forbid(unsafe_code)]

mod files;
mod history;
mod point;
mod ring;

pub use files::{Files, Loaded};
pub use history::{Change, History, JUMP_S, Steps, fuzzed, fuzzed_seeds};
pub use point::{Kind, Point};
pub use ring::{LONGEST, RESOLUTIONS, Resolution};

/// Why bytes are not a segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes were damaged, or are of something else.
    #[error("{0}")]
    Damaged(&'static str),
    /// A newer release wrote them.
    #[error("it has format {0}, which this release does not support")]
    Newer(u32),
}

#[cfg(test)]
mod tests;
