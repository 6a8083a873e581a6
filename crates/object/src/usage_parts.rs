//! The usage of buckets that several nodes change: what each node's changes made of a bucket, and the rest.
//!
//! A node counts what its own changes add and remove. Nobody sees all changes; what is in a bucket is the sum of three: what
//! some node once found in a scan, what all nodes have changed since, and what this one has changed. How nodes exchange
//! these, and which one scans, is not known here: this module hands out the part of this node ([`Store::usage_parts`]),
//! takes the rest ([`Store::set_rest_of_usage`]) and scans ([`Store::count_with_part`]).
//!
//! Invariants: a part is read at one instant; it counts from the start of the process. A node that is alone has no parts.
//!
//! Must not depend on: how nodes reach each other.

use std::sync::atomic::Ordering::Relaxed;

use ashlar_format::BucketId;
use futures::future::BoxFuture;

use crate::usage::{Counted, Ledger, NUMBERS, Numbers, Usage};
use crate::usage_numbers::{RestOfUsage, UsagePart, UsageParts, sum};
use crate::{Result, Store};

impl Ledger {
    fn part(&self) -> UsagePart {
        let (own, losses) = self.tally.lock().own();
        UsagePart { own, losses }
    }

    /// The usage of a bucket that other nodes change too.
    pub(crate) fn counted_together(&self) -> Counted {
        let (own, unsettled) = {
            let tally = self.tally.lock();
            (tally.own().0, tally.unsettled() as u64)
        };
        let rest = *self.rest.lock();
        let rest = rest.unwrap_or(RestOfUsage { numbers: [0; NUMBERS], complete: false, counted_ms: 0 });
        Counted {
            usage: Usage::from_numbers(&sum(&own, &rest.numbers)),
            complete: rest.complete,
            unsettled,
            counted_ms: rest.counted_ms,
        }
    }
}

impl Store {
    /// The parts of this node that changed since `since` (0: all), at most `most`, the earliest change first.
    #[must_use]
    pub fn usage_parts(&self, since: u64, most: usize) -> UsageParts {
        let Some((clock, ledgers)) = self.inner.usage.ledgers() else { return UsageParts::default() };
        // A change that is not seen below has a later time than this.
        let next = clock.fetch_add(1, Relaxed) + 1;
        let changed = ledgers.iter().filter_map(|(id, ledger)| {
            let tally = ledger.tally.lock();
            let (own, losses) = tally.own();
            (tally.touched >= since.max(1)).then_some((tally.touched, *id, UsagePart { own, losses }))
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_unstable_by_key(|(touched, ..)| *touched);
        let more = changed.len() > most;
        changed.truncate(most);
        let next = if more { changed.last().map_or(next, |(touched, ..)| touched + 1) } else { next };
        UsageParts { next, parts: changed.into_iter().map(|(_, id, part)| (id, part)).collect(), more }
    }

    /// The part of this node in one bucket.
    #[must_use]
    pub fn usage_part(&self, bucket: BucketId) -> UsagePart {
        self.inner.usage.of(bucket).part()
    }

    /// Shows the usage of a bucket as the part of this node and this rest from now on. Nothing happens on a node that is
    /// alone.
    pub fn set_rest_of_usage(&self, bucket: BucketId, rest: RestOfUsage) {
        if self.inner.usage.share_node().is_some() {
            *self.inner.usage.of(bucket).rest.lock() = Some(rest);
        }
    }

    /// Counts a bucket from the index, at half speed: its numbers, and the part of this node at the same instant. Of what
    /// other nodes change meanwhile, some is in the numbers and some is not.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn count_with_part(&self, bucket: BucketId) -> BoxFuture<'_, Result<(Numbers, UsagePart)>> {
        Box::pin(async move {
            self.inner.scan_and_settle(bucket).await?;
            let ledger = self.inner.usage.of(bucket);
            let tally = ledger.tally.lock();
            let (own, losses) = tally.own();
            Ok((tally.numbers(), UsagePart { own, losses }))
        })
    }
}
