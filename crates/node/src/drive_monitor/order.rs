//! The type of an operator's order about a drive, sent to the drive monitor.
//!
//! Must not depend on: the node, which holds the channel.

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::drive_discovery;

/// An order of an operator; the reply says whether it was carried out.
pub(crate) enum Order {
    /// Takes a drive out of service until `Release`.
    Hold(usize, Reply),
    /// Undoes `Hold`.
    Release(usize, Reply),
    /// Replaces the drive of a folder, which is blank now; with the result of the inspection.
    Replace(usize, drive_discovery::InspectedFolder, Reply),
}

/// The channel for the reply.
pub(crate) type Reply = oneshot::Sender<Result<(), String>>;

/// The channel to the drive monitor.
pub(crate) type Orders = UnboundedSender<Order>;
