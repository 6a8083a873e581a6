//! What goes into the drive monitor and comes out of it.

use std::sync::Arc;
use std::time::Duration;

use ashlar_format::DriveId;

use crate::map::Map;

/// Times of the monitor.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a folder must have been blank before it takes the place of a drive by itself: drives that are
    /// lost together are then seen together.
    pub blank_for: Duration,
    /// A drive that failed is opened again after this long, then after twice that, and so on.
    pub first_pause: Duration,
    /// The longest of these pauses.
    pub longest_pause: Duration,
    /// After this long without an answer a folder is said not to answer.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            blank_for: Duration::from_secs(3),
            first_pause: Duration::from_secs(30),
            longest_pause: Duration::from_secs(3600),
            patience: Duration::from_secs(10),
        }
    }
}

/// What a look at a folder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An empty folder, on the file system that is mounted here.
    Blank {
        /// The mount point, if it can be told.
        mount: Option<String>,
    },
    /// A drive of this deployment.
    Drive(DriveId),
    /// Anything else: why it is not used, for people.
    Other(String),
}

/// A drive that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Which drive.
    pub id: DriveId,
    /// It would vote as it is.
    pub voter: bool,
    /// Why it must join before it votes, although it does not say so itself: it went back in time.
    pub distrust: Option<String>,
}

/// How a drive in service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It reads and writes.
    Works,
    /// It only reads.
    ReadOnly,
    /// Its folder no longer holds it: emptied, or its file system was unmounted. Nothing failed.
    Gone,
    /// It fenced itself, or was taken out as failed: why.
    Failed(String),
    /// It was closed by somebody else.
    Closed,
}

/// What happened. Folders are numbered as they were named.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time since the monitor was made.
    Tick(Duration),
    /// Answer to [`Action::Probe`].
    Probed(usize, Found),
    /// Answer to [`Action::Open`].
    Opened(usize, Result<Opened, String>),
    /// Answer to [`Action::MakeJoining`]: the role is durable on the drive.
    MadeJoining(usize, Result<(), String>),
    /// Answer to [`Action::Format`].
    Formatted(usize, Result<(), String>),
    /// Answer to [`Action::Replace`]: the map is written and the drive attached.
    Replaced(usize, Result<(), String>),
    /// Answer to [`Action::Withdraw`] and [`Action::Discard`]: the drive is closed.
    Closed(usize),
    /// What a drive in service says of itself.
    Condition(usize, Condition),
    /// The map in force.
    Map(Arc<Map>),
}

/// What is to be done. Each is carried out on its own: one that hangs holds up no other folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at the folder.
    Probe(usize),
    /// Open the drive in the folder.
    Open(usize),
    /// Durably take the vote of the drive that was opened.
    MakeJoining(usize),
    /// Put the drive that was opened in service.
    Attach(usize),
    /// Make a drive, joining, of the folder, if it is still blank and on this file system.
    Format(usize, Option<String>),
    /// Write the map in which the drive that was opened has the slots of this one; then put it in service.
    Replace(usize, DriveId),
    /// Take the drive out of service and close it: why.
    Withdraw(usize, String),
    /// Close a drive that was opened and is not used.
    Discard(usize),
    /// Note in the map that the drive must join: why. Repeated until the map says so.
    Distrust(DriveId, String),
    /// Say why the folder is out of service, or that it no longer is.
    Note(usize, Option<String>),
}
