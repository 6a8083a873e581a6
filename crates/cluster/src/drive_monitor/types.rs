//! Input and output types of the drive monitor.
//!
//! Must not depend on: devices, threads, requests.

use std::sync::Arc;
use std::time::Duration;

use ashlar_format::DriveId;

use crate::map::Map;

/// Whose drives the monitor manages, and its times.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number of this node in the map: drives of other nodes are none of its business. `None`: all drives
    /// of the map are this server's.
    pub node: Option<u16>,
    /// How long a folder must have been blank before it replaces a drive automatically. Drives that are lost
    /// together are then detected together.
    pub blank_for: Duration,
    /// The pause before a drive that failed is opened again. It doubles with each further failure.
    pub first_pause: Duration,
    /// The longest of these pauses.
    pub longest_pause: Duration,
    /// After this time without an answer, a folder is reported as not answering.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node: None,
            blank_for: Duration::from_secs(3),
            first_pause: Duration::from_secs(30),
            longest_pause: Duration::from_secs(3600),
            patience: Duration::from_secs(10),
        }
    }
}

/// The result of probing a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An empty folder, on the file system that is mounted here.
    Blank {
        /// The mount point, if it can be determined.
        mount: Option<String>,
    },
    /// A drive of this deployment.
    Drive(DriveId),
    /// Anything else: why it is not used, for the operator.
    Other(String),
}

/// A drive that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its id.
    pub id: DriveId,
    /// Whether it would vote as it is.
    pub voter: bool,
    /// Why it must join before it votes, although it does not record that itself: it went back in time.
    pub distrust: Option<String>,
}

/// The condition of a drive in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It reads and writes.
    Works,
    /// It only reads.
    ReadOnly,
    /// Its folder no longer holds it: the folder was emptied, or its file system was unmounted. Nothing
    /// failed.
    Gone,
    /// It fenced itself, or was taken out as failed: the reason.
    Failed(String),
    /// It was closed by another component.
    Closed,
}

/// An event. Folders are numbered in the order in which they were named.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time since the monitor was made.
    Tick(Duration),
    /// Result of [`Action::Probe`].
    Probed(usize, Found),
    /// Result of [`Action::Open`].
    Opened(usize, Result<Opened, String>),
    /// Result of [`Action::MakeJoining`]: the role is durable on the drive.
    MadeJoining(usize, Result<(), String>),
    /// Result of [`Action::Format`].
    Formatted(usize, Result<(), String>),
    /// Result of [`Action::Replace`]: the map is written and the drive attached.
    Replaced(usize, Result<(), String>),
    /// Result of [`Action::Withdraw`] and [`Action::Discard`]: the drive is closed.
    Closed(usize),
    /// The condition that a drive in service reports.
    Condition(usize, Condition),
    /// The map in force.
    Map(Arc<Map>),
}

/// An action. Each is executed independently: one that hangs blocks no other folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Probe the folder.
    Probe(usize),
    /// Open the drive in the folder.
    Open(usize),
    /// Durably remove the vote of the drive that was opened.
    MakeJoining(usize),
    /// Put the drive that was opened in service.
    Attach(usize),
    /// Format the folder as a joining drive, if it is still blank and on this file system.
    Format(usize, Option<String>),
    /// Write the map in which the opened drive has the slots of this one; then put it in service.
    Replace(usize, DriveId),
    /// Take the drive out of service and close it; with the reason.
    Withdraw(usize, String),
    /// Close a drive that was opened and is not used.
    Discard(usize),
    /// Record in the map that the drive must join, with the reason. Repeated until the map contains it.
    Distrust(DriveId, String),
    /// Report why the folder is out of service, or that it no longer is.
    Note(usize, Option<String>),
}
