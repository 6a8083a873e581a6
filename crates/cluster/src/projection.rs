//! Follows a part of the control store, for components that keep a projection of it in memory.
//!
//! A projection is what a component keeps in memory of the keys under one prefix, decoded: identities,
//! buckets. The component reads the keys once; from then on [`Projection::next`] reports changes. If the
//! revision is taken before the keys are read, nothing is missed, but a change may be reported that was
//! already read. So a component reads the keys again when a change is reported, and does not apply the change
//! itself.
//!
//! The driver determines the delay: it reports a change as soon as its memory has it. Reading costs no I/O
//! with any driver, see [`ControlDriver`](crate::ControlDriver).
//!
//! Must not depend on: what values mean.

use crate::control::{Change, Control, Watch, Watched};

/// What happened to the followed keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Changes in order, at least one, all under the prefix.
    Changes(Vec<Change>),
    /// Too many changes: read everything again.
    Everything,
}

/// Follows the keys under one prefix.
pub struct Projection {
    watch: Watch,
    prefix: &'static str,
}

impl Projection {
    /// Follows the changes after revision `since`, which must be taken before the keys are read.
    #[must_use]
    pub fn new(control: &Control, prefix: &'static str, since: u64) -> Projection {
        Projection { watch: control.watch(since), prefix }
    }

    /// Waits for the next changes of keys under the prefix. Dropping the future loses nothing.
    pub async fn next(&mut self) -> News {
        loop {
            match self.watch.next().await {
                Watched::Changes(mut changes) => {
                    changes.retain(|c| c.key.starts_with(self.prefix));
                    if !changes.is_empty() {
                        return News::Changes(changes);
                    }
                }
                Watched::Reset(_) => return News::Everything,
            }
        }
    }
}
