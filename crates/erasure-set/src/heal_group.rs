//! Heals the registers of a placement group in the order of their keys, for rebuilds and scrubs.
//!
//! Invariant: a register that fails, or is not whole afterwards, does not stop the others; it is counted, and goes to the
//! heal queue.
//!
//! Must not depend on: who asks for it, and what is recorded of it.

use crate::Result;
use crate::heal_queue::{Depth, Healed};
use crate::list::group_range;
use crate::sets::Inner;
use crate::table::View;
use ashlar_environment::time::Instant;
use ashlar_format::GroupId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;

/// Registers read at a time.
pub(crate) const STRETCH: usize = 512;
/// Number of concurrent copies and heals.
pub(crate) const WIDTH: usize = 16;

/// What a stretch of a group came to.
pub(crate) struct HealedStretch {
    /// Registers that could not be inspected.
    pub(crate) failed: u64,
    /// Where the next stretch begins; `None`: this was the last.
    pub(crate) next: Option<Vec<u8>>,
}

impl Inner {
    /// Heals every register of a group that is behind on some slot, and calls `told` for each. Returns how
    /// many registers could not be inspected.
    pub(crate) async fn heal_group(
        self: &Arc<Self>,
        view: &Arc<View>,
        deep: bool,
        told: impl Fn(Healed, u64),
    ) -> Result<u64> {
        let (mut from, _) = group_range(view.group);
        let mut failed = 0;
        loop {
            let stretch = self.heal_stretch(view.group, deep, (&from, STRETCH), &told).await?;
            failed += stretch.failed;
            match stretch.next {
                Some(next) => from = next,
                None => return Ok(failed),
            }
        }
    }

    /// [`Inner::heal_group`] for about `limit` registers of the group, those at `from` and behind.
    pub(crate) async fn heal_stretch(
        self: &Arc<Self>,
        group: GroupId,
        deep: bool,
        (from, limit): (&[u8], usize),
        told: &impl Fn(Healed, u64),
    ) -> Result<HealedStretch> {
        let (began, mut failed) = (Instant::now(), 0);
        let depth = if deep { Depth::Scrubbed } else { Depth::Present };
        let view = self.view(group)?;
        let stretch = self.any_stretch(&view, from, &group_range(group).1, limit, true).await?;
        let mut heals = FuturesUnordered::new();
        let mut keys = stretch.keys.iter();
        loop {
            while heals.len() < WIDTH {
                let Some(shown) = keys.next() else { break };
                heals.push(async move {
                    let healed = self.heal(shown.key(), depth).await;
                    // For what could not wait where it was written.
                    self.heal_pacer.pace(0, Duration::ZERO).await;
                    if healed.as_ref().map_or(true, Healed::is_unfinished) {
                        // A write of it is under way, or a drive did not answer: the heal queue tries it again.
                        self.heals.push(shown.key(), deep);
                    }
                    healed
                });
            }
            let Some(healed) = heals.next().await else { break };
            match healed {
                Ok(h) => told(h, 1),
                Err(e) => {
                    failed += 1;
                    tracing::debug!("heal of a group: {e}");
                    let h = Healed { missing: 1, ..Default::default() };
                    told(h, 1);
                }
            }
        }
        drop(heals);
        self.heal_pacer.pace(0, began.elapsed()).await;
        Ok(HealedStretch { failed, next: stretch.next })
    }
}
