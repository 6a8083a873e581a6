//! Following a part of the control store: what keeps a projection of it in memory listens here.
//!
//! A projection is what a component keeps in memory of the keys under one prefix, decoded: identities,
//! buckets. It is read once, and from then on brought up to date by [`Projection::next`]. Reading and
//! following overlap when the revision is taken before the keys are read: then nothing is missed, and what is
//! told twice must do no harm. A component therefore reads the keys anew when it is told of a change, and
//! does not apply the change itself.
//!
//! The delay is the driver's: as soon as its memory has a change, whoever follows is told. Reading costs no
//! I/O whatever the driver, see [`ControlDriver`](crate::ControlDriver).
//!
//! Must not depend on: what values mean.

use crate::control::{Change, Control, Watch, Watched};

/// What happened to the keys that are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Changes in order, at least one, all under the prefix.
    Changes(Vec<Change>),
    /// Too much: read everything anew.
    Everything,
}

/// Follows the keys under one prefix.
pub struct Projection {
    watch: Watch,
    prefix: &'static str,
}

impl Projection {
    /// Follows the changes after revision `since`, which is to be taken before the keys are read.
    #[must_use]
    pub fn new(control: &Control, prefix: &'static str, since: u64) -> Projection {
        Projection { watch: control.watch(since), prefix }
    }

    /// Waits for what happens next to keys under the prefix. Dropping the future loses nothing.
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
