//! Work on one folder, on a thread of its own: looking, opening, formatting.
//!
//! Invariants: nobody waits for such a thread without an end, and the process ends without it; each answers
//! once, however late.

use std::path::PathBuf;

use ashlar_cluster::drive_monitor::Found;
use ashlar_drive::{Drive, Label, Options, Probe};
use ashlar_format::{DeploymentId, DriveId};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::now_ms;
use crate::drive_discovery::{self, Facts, Place};
use crate::rollback;

/// What became of the work on a folder.
pub enum Answer {
    /// What lies there.
    Probed(usize, Place),
    /// Its drive.
    Opened(usize, Result<AtOpen, String>),
    /// The role is durable.
    MadeJoining(usize, Result<(), String>),
    /// The blank folder is a drive now.
    Formatted(usize, Result<(), String>),
    /// The map says so and the drive is in service.
    Replaced(usize, Result<(), String>),
    /// The drive is closed.
    Closed(usize),
}

/// A drive that was opened.
pub struct AtOpen {
    /// The drive.
    pub drive: Drive,
    /// Its file system.
    pub facts: Option<Facts>,
    /// Why it must join before it votes, although it does not say so itself.
    pub distrust: Option<String>,
}

/// Starts the work.
#[derive(Clone)]
pub struct Workers {
    answers: UnboundedSender<Answer>,
    options: Options,
    #[cfg(test)]
    hang: std::sync::Arc<std::collections::HashSet<PathBuf>>,
}

impl Workers {
    /// Answers go to `answers`.
    pub fn new(answers: UnboundedSender<Answer>, options: Options) -> Workers {
        Workers {
            answers,
            options,
            #[cfg(test)]
            hang: super::tests::hang(),
        }
    }

    /// Says what became of something that was done elsewhere.
    pub fn answer(&self, answer: Answer) {
        // Nobody listens any more when the server ends.
        let _ = self.answers.send(answer);
    }

    /// Looks at a folder.
    pub fn probe(&self, i: usize, path: PathBuf) {
        let failed = Place { path: path.clone(), probe: Probe::Unreadable(NO_THREAD.into()), facts: None };
        self.start("drive-look", Answer::Probed(i, failed), move || {
            Answer::Probed(i, drive_discovery::look(&path))
        });
    }

    /// Opens the drive in a folder: recovery reads. `peers`: folders where it is noted how far it had come.
    pub fn open(&self, i: usize, path: PathBuf, peers: Vec<PathBuf>) {
        let options = self.options.clone();
        #[cfg(test)]
        let hang = self.hang.clone();
        self.start("drive-open", Answer::Opened(i, Err(NO_THREAD.into())), move || {
            #[cfg(test)]
            while hang.contains(&path) {
                std::thread::park();
            }
            let opened = Drive::open(&path, &options).map_err(|e| e.to_string());
            let at_open = |drive: Drive| {
                let noted = rollback::noted_in_time(peers, drive.label().deployment);
                let distrust = rollback::behind(&drive, &noted);
                AtOpen { facts: drive_discovery::facts(&path), distrust, drive }
            };
            Answer::Opened(i, opened.map(at_open))
        });
    }

    /// Formats a blank folder, if its file system is mounted at `mount` (anywhere: `None`).
    pub fn format(&self, i: usize, path: PathBuf, deployment: DeploymentId, mount: Option<String>) {
        self.start("drive-format", Answer::Formatted(i, Err(NO_THREAD.into())), move || {
            let here = || drive_discovery::facts(&path).map(|f| f.mount);
            let moved = mount.is_some_and(|m| here().is_none_or(|now| now != m));
            Answer::Formatted(
                i,
                if moved {
                    Err("its file system is not mounted any more".into())
                } else {
                    format(&path, deployment).map(|_| ())
                },
            )
        });
    }

    fn start(&self, name: &str, failed: Answer, work: impl FnOnce() -> Answer + Send + 'static) {
        let answers = self.answers.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        if thread.spawn(move || drop(answers.send(work()))).is_err() {
            self.answer(failed);
        }
    }
}

const NO_THREAD: &str = "no thread can be started";

/// Formats one blank folder, as a drive that holds no placement group yet; answers its label.
///
/// # Errors
/// In words.
pub fn format(path: &std::path::Path, deployment: DeploymentId) -> Result<Label, String> {
    drive_discovery::check_size(path)?;
    let label = Label { deployment, drive: DriveId(crate::node::random_id()), created_ms: now_ms() };
    ashlar_drive::format(path, &label, &[]).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(label)
}

/// What a look found, for the monitor of `deployment`.
pub fn found(place: &Place, deployment: DeploymentId) -> Found {
    match &place.probe {
        Probe::Ours(label) if label.deployment == deployment => Found::Drive(label.drive),
        Probe::Ours(_) => Found::Other("a drive of another deployment".into()),
        Probe::Blank => Found::Blank { mount: place.facts.as_ref().map(|f| f.mount.clone()) },
        other => Found::Other(drive_discovery::problem(other).unwrap_or_default()),
    }
}
