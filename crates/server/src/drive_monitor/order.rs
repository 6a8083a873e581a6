//! An order of an operator about a drive, on its way to the drive monitor.
//!
//! Must not depend on: the node, which holds where orders go.

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::drive_discovery;

/// An order of an operator; the answer says whether it is done.
pub enum Order {
    /// Out of service until `Release`.
    Hold(usize, Reply),
    /// Undoes `Hold`.
    Release(usize, Reply),
    /// The blank folder takes the place of the drive that was there; what was just seen in it.
    Replace(usize, drive_discovery::Place, Reply),
}

/// Where the answer goes.
pub type Reply = oneshot::Sender<Result<(), String>>;

/// Where orders of operators go.
pub type Orders = UnboundedSender<Order>;
