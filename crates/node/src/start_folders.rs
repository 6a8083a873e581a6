//! The folders at a start: inspected and opened in parallel, with time limits.
//!
//! Invariant: a folder that does not answer does not delay a start if enough drives are open. Must not depend
//! on: the node.

use ashlar_environment::time::{self, Instant};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_drive::{Drive, Probe};
use tokio::sync::mpsc::UnboundedReceiver;

use super::drive_discovery::InspectedFolder;
use super::drive_monitor::workers::{Answer, AtOpen, Workers};

/// Time limit for the inspection of folders once one has answered.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit if none has answered: disks in standby need time to spin up.
const INSPECT_TIMEOUT_ALL: Duration = Duration::from_secs(30);
/// Time limit for the last drives to open once most are open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// Drives that were opened, by folder.
pub type Opened = Vec<(PathBuf, Result<Drive, String>)>;

/// The folders at a start.
pub(crate) struct StartFolders {
    pub all: Vec<StartFolder>,
    pub workers: Workers,
    pub answers: UnboundedReceiver<Answer>,
}

/// One folder.
pub(crate) struct StartFolder {
    pub path: PathBuf,
    pub inspected: Option<InspectedFolder>,
    pub opening: bool,
    pub opened: Option<Result<(Drive, Option<String>), String>>,
}

impl StartFolders {
    pub(crate) fn new(
        paths: &[PathBuf],
        workers: Workers,
        answers: UnboundedReceiver<Answer>,
    ) -> StartFolders {
        let folder =
            |p: &PathBuf| StartFolder { path: p.clone(), inspected: None, opening: false, opened: None };
        StartFolders { all: paths.iter().map(folder).collect(), workers, answers }
    }

    /// Waits for results until `enough`, or `until`.
    async fn gather(&mut self, until: Option<Instant>, enough: impl Fn(&[StartFolder]) -> bool) {
        while !enough(&self.all) {
            let answer = match until {
                None => self.answers.recv().await,
                Some(at) => match time::timeout_at(at, self.answers.recv()).await {
                    Ok(answer) => answer,
                    Err(_) => return,
                },
            };
            match answer {
                Some(Answer::Probed(i, inspected)) => self.all[i].inspected = Some(inspected),
                Some(Answer::Opened(i, outcome)) => {
                    self.all[i].opened = Some(outcome.map(|AtOpen { drive, facts, distrust }| {
                        if let Some(inspected) = &mut self.all[i].inspected {
                            inspected.facts = facts;
                        }
                        (drive, distrust)
                    }));
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Inspects all folders.
    pub async fn inspect(&mut self) {
        for (i, folder) in self.all.iter().enumerate() {
            self.workers.probe(i, folder.path.clone());
        }
        let began = Instant::now();
        let all = |f: &[StartFolder]| f.iter().all(|f| f.inspected.is_some());
        self.gather(Some(began + INSPECT_TIMEOUT), all).await;
        let ours = |f: &StartFolder| f.inspected.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_)));
        self.gather(Some(began + INSPECT_TIMEOUT_ALL), |f| all(f) || f.iter().any(ours)).await;
    }

    /// The results of the inspection; a folder that did not answer counts as unreadable.
    pub(crate) fn inspected(&self) -> Vec<InspectedFolder> {
        let silent = |path: &Path| InspectedFolder {
            path: path.to_owned(),
            probe: Probe::Unreadable("it does not answer".into()),
            facts: None,
        };
        self.all.iter().map(|f| f.inspected.clone().unwrap_or_else(|| silent(&f.path))).collect()
    }

    pub(crate) fn formatted(&mut self, found: &[InspectedFolder]) {
        for (folder, inspected) in self.all.iter_mut().zip(found) {
            folder.inspected = Some(inspected.clone());
        }
    }

    /// Opens the drives in parallel, which includes recovery. With `all`, waits for every drive; else until
    /// most are open and the time limit for the others has passed.
    pub async fn open(&mut self, all: bool) -> Result<Opened, String> {
        let peers: Vec<PathBuf> = self.all.iter().map(|f| f.path.clone()).collect();
        for (i, folder) in self.all.iter_mut().enumerate() {
            if folder.inspected.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_))) {
                folder.opening = true;
                self.workers.open(i, folder.path.clone(), peers.clone());
            }
        }
        let answered = |f: &[StartFolder]| f.iter().all(|f| !f.opening || f.opened.is_some());
        let is_open = |f: &&StartFolder| matches!(f.opened, Some(Ok(_)));
        let most = |f: &[StartFolder]| f.iter().filter(is_open).count() > f.len() / 2;
        let began = Instant::now();
        if !all {
            self.gather(Some(began + OPEN_TIMEOUT), answered).await;
        }
        let mut told = Instant::now();
        while !answered(&self.all) && (all || !most(&self.all)) {
            self.gather(Some(Instant::now() + Duration::from_millis(500)), |f| {
                answered(f) || !all && most(f)
            })
            .await;
            if told.elapsed() >= Duration::from_secs(10) {
                told = Instant::now();
                let silent = self.all.iter().filter(|f| f.opening && f.opened.is_none());
                for folder in silent {
                    tracing::warn!(drive = %folder.path.display(), "it is still being opened, for recovery or because it does not answer; too few others are open to start without it");
                }
            }
        }
        let outcome = |f: &StartFolder| {
            let opened = f.opened.as_ref()?;
            Some((f.path.clone(), opened.as_ref().map(|(drive, _)| drive.clone()).map_err(String::clone)))
        };
        let opened: Opened = self.all.iter().filter_map(outcome).collect();
        if opened.iter().all(|(_, o)| o.is_err()) {
            let why =
                opened.into_iter().filter_map(|(p, o)| o.err().map(|e| format!("{}: {e}", p.display())));
            return Err(format!("no drive can be opened\n{}", why.collect::<Vec<_>>().join("\n")));
        }
        Ok(opened)
    }
}
