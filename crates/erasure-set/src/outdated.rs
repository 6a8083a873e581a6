//! Finds out whether an operation failed only because this process knows an old layout, or old states of drives.
//!
//! Another process may change the layout: its drives refuse the old epoch from then on, and this process hears of the
//! new one a moment later. The states of drives of other nodes are those that were heard last.
//!
//! Invariant: nothing is decided here; an operation that begins again does so with what the table says.
//!
//! Must not depend on: who announces layouts, what the operations are.

use crate::sets::Inner;
use crate::table::{Member, View};
use ashlar_commit::SlotSet;
use ashlar_environment::HashMap;
use ashlar_environment::time::{self, Instant};
use ashlar_format::DriveId;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// How long an operation waits for a layout that drives follow already.
const LAYOUT_WAIT: Duration = Duration::from_secs(5);
/// Time between looks for it.
const LOOK: Duration = Duration::from_millis(5);

impl Inner {
    /// Whether a newer layout than that of these views is in force here: an operation that too few drives answered may
    /// begin again. If a drive follows a newer layout, it is waited for.
    pub(crate) async fn newer_layout(&self, views: &[Arc<View>]) -> bool {
        let began = Instant::now();
        let of_views = views.iter().map(|v| v.layout).min().unwrap_or(u32::MAX);
        loop {
            if self.table.load().layout.epoch > of_views {
                return true;
            }
            if !views.iter().any(|v| v.is_outdated()) || began.elapsed() >= LAYOUT_WAIT {
                return false;
            }
            time::sleep(LOOK).await;
        }
    }

    /// As [`Inner::newer_layout`]; also, whether one of the drives that could not be used, as far as was known, can be: their
    /// nodes are asked.
    pub(crate) async fn knew_too_little(&self, views: &[Arc<View>]) -> bool {
        if self.newer_layout(views).await {
            return true;
        }
        let usable = |v: &View| v.which(|m| m.is_here() && m.is_voter(v.group));
        let before: Vec<SlotSet> = views.iter().map(|v| usable(v)).collect();
        let mut asked: HashMap<DriveId, &Arc<Member>> = HashMap::default();
        for (view, usable) in views.iter().zip(&before) {
            let unusable = view.members().filter(|(slot, m)| !usable.contains(*slot) && !m.is_away());
            asked.extend(unusable.map(|(_, m)| (m.id, m)));
        }
        join_all(asked.values().map(|m| m.drive.ask_status())).await;
        views.iter().zip(before).any(|(v, before)| !usable(v).without(before).is_empty())
    }
}

impl View {
    /// Whether a drive follows a newer layout of the group.
    fn is_outdated(&self) -> bool {
        self.members().any(|(_, m)| m.drive.epoch(self.group) > self.epoch)
    }
}
