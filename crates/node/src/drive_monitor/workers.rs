//! Work on one folder, each on its own thread: inspecting, opening, formatting.
//!
//! Invariants: no caller waits for such a thread without a time limit, and the process can exit without it;
//! each thread sends exactly one answer.

use std::path::PathBuf;

use ashlar_cluster::drive_monitor::Found;
use ashlar_drive::{Drive, Label, Options, Probe};
use ashlar_format::{DeploymentId, DriveId};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::now_ms;
use crate::control_store;
use crate::drive_discovery::{self, Facts, InspectedFolder};
use crate::rollback;

/// The result of work on a folder.
pub(crate) enum Answer {
    /// What was found in it.
    Probed(usize, InspectedFolder),
    /// The opened drive.
    Opened(usize, Result<AtOpen, String>),
    /// The role is durable.
    MadeJoining(usize, Result<(), String>),
    /// The blank folder was formatted as a drive.
    Formatted(usize, Result<(), String>),
    /// The map names the drive, which is in service.
    Replaced(usize, Result<(), String>),
    /// The drive is closed.
    Closed(usize),
}

/// A drive that was opened.
pub(crate) struct AtOpen {
    /// The drive.
    pub drive: Drive,
    /// Its file system.
    pub facts: Option<Facts>,
    /// Why the drive must join before it votes, although its label does not say so.
    pub distrust: Option<String>,
}

/// Starts threads that work on folders.
#[derive(Clone)]
pub(crate) struct Workers {
    answers: UnboundedSender<Answer>,
    options: Options,
    /// The name of the cluster that formatted drives belong to.
    cluster: Option<String>,
    #[cfg(test)]
    hang: std::sync::Arc<std::collections::HashSet<PathBuf>>,
}

impl Workers {
    /// Results are sent to `answers`.
    pub(crate) fn new(answers: UnboundedSender<Answer>, options: Options) -> Workers {
        Workers {
            answers,
            options,
            cluster: None,
            #[cfg(test)]
            hang: super::tests::hang(),
        }
    }

    /// Drives that it formats belong to a cluster.
    pub(crate) fn in_cluster(mut self, name: &str) -> Workers {
        self.cluster = Some(name.to_owned());
        self
    }

    /// Sends the result of something that was done elsewhere.
    pub(crate) fn answer(&self, answer: Answer) {
        // The receiver is gone when the server stops.
        let _ = self.answers.send(answer);
    }

    /// Inspects a folder.
    pub(crate) fn probe(&self, i: usize, path: PathBuf) {
        let failed =
            InspectedFolder { path: path.clone(), probe: Probe::Unreadable(NO_THREAD.into()), facts: None };
        self.start("drive-look", Answer::Probed(i, failed), move || {
            Answer::Probed(i, drive_discovery::inspect(&path))
        });
    }

    /// Opens the drive in a folder, which includes recovery. `peers`: folders whose drives have noted the
    /// journal sequence of this one.
    pub(crate) fn open(&self, i: usize, path: PathBuf, peers: Vec<PathBuf>) {
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
                let noted = rollback::read_sequences(peers, drive.label().deployment);
                let distrust = rollback::behind(&drive, &noted);
                AtOpen { facts: drive_discovery::facts(&path), distrust, drive }
            };
            Answer::Opened(i, opened.map(at_open))
        });
    }

    /// Formats a blank folder, if its file system is mounted at `mount` (`None`:
    /// anywhere), and `check` does not refuse what it fails with.
    pub(crate) fn format(
        &self,
        i: usize,
        path: PathBuf,
        deployment: DeploymentId,
        mount: Option<String>,
        check: impl FnOnce(Option<&str>) -> Result<(), String> + Send + 'static,
    ) {
        let cluster = self.cluster.clone();
        self.start("drive-format", Answer::Formatted(i, Err(NO_THREAD.into())), move || {
            let here = || drive_discovery::facts(&path).map(|f| f.mount);
            let moved = mount.is_some_and(|m| here().is_none_or(|now| now != m));
            if moved {
                return Answer::Formatted(i, Err("its file system is no longer mounted".into()));
            }
            let checked = check(drive_discovery::domain(&path).as_deref());
            let format = || format(&path, deployment, cluster.as_deref()).map(|_| ());
            Answer::Formatted(i, checked.and_then(|()| format()))
        });
    }

    fn start(&self, name: &'static str, failed: Answer, work: impl FnOnce() -> Answer + Send + 'static) {
        let answers = self.answers.clone();
        if ashlar_environment::thread::run_apart(name, move || drop(answers.send(work()))).is_err() {
            self.answer(failed);
        }
    }
}

const NO_THREAD: &str = "no thread can be started";

/// Formats one blank folder, as a drive that holds no placement group yet, of a cluster if one is named; returns its
/// label.
///
/// # Errors
/// A message for the operator.
pub(crate) fn format(
    path: &std::path::Path,
    deployment: DeploymentId,
    cluster: Option<&str>,
) -> Result<Label, String> {
    drive_discovery::check_size(path)?;
    let label = Label { deployment, drive: DriveId(crate::node::random_id()), created_ms: now_ms() };
    ashlar_drive::format(path, &label, &[]).map_err(|e| format!("{}: {e}", path.display()))?;
    if let Some(cluster) = cluster {
        control_store::mark(path, cluster).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(label)
}

/// The result of an inspection as an input of the monitor of `deployment`.
pub(crate) fn found(inspected: &InspectedFolder, deployment: DeploymentId) -> Found {
    match &inspected.probe {
        Probe::Ours(label) if label.deployment == deployment => Found::Drive(label.drive),
        Probe::Ours(_) => Found::Other("a drive of another deployment".into()),
        Probe::Blank => Found::Blank { mount: inspected.facts.as_ref().map(|f| f.mount.clone()) },
        other => Found::Other(drive_discovery::problem(other).unwrap_or_default()),
    }
}
