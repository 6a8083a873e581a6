//! What nodes tell each other of the usage of buckets: see `usage_parts`.
//!
//! Must not depend on: how it is counted.

use ashlar_format::BucketId;

use crate::tally::Numbers;

/// What the changes of a node have made of a bucket since the start of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsagePart {
    /// Differences of the numbers of a usage.
    pub own: Numbers,
    /// Changes of unknown outcome.
    pub losses: u64,
}

/// What is in a bucket besides the changes of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestOfUsage {
    /// To be added to the part of this node.
    pub numbers: Numbers,
    /// Whether it is known of all nodes.
    pub complete: bool,
    /// When it was counted last, in milliseconds since 1970.
    pub counted_ms: i64,
}

/// The parts of a node that changed since a time on its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageParts {
    /// The time to ask for next.
    pub next: u64,
    /// The parts; a bucket that is not named and never was has an empty one.
    pub parts: Vec<(BucketId, UsagePart)>,
    /// Whether there are more.
    pub more: bool,
}

/// The sum of two lists of numbers.
#[must_use]
pub fn sum(a: &Numbers, b: &Numbers) -> Numbers {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}
