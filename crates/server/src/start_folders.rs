//! The folders at a start: looked at and opened all at once, waited for only as long as it makes sense.
//!
//! Invariant: a folder that does not answer never holds up a start that most of the drives suffice for. Must not
//! depend on: the node.

use ashlar_environment::time::{self, Instant};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_drive::{Drive, Probe};
use tokio::sync::mpsc::UnboundedReceiver;

use super::drive_discovery::Place;
use super::drive_monitor::workers::{Answer, AtOpen, Workers};

/// How long a start waits for folders to say what they are when others have said it.
const LOOK: Duration = Duration::from_secs(2);
/// The same when none has: disks that stand still need a while.
const LOOK_ALL: Duration = Duration::from_secs(30);
/// How long it waits for the last drives to open when most have.
const OPEN: Duration = Duration::from_secs(2);

/// Drives that were opened, by folder.
pub type Opened = Vec<(PathBuf, Result<Drive, String>)>;

/// The folders at a start.
pub struct Folders {
    pub all: Vec<AtStart>,
    pub workers: Workers,
    pub answers: UnboundedReceiver<Answer>,
}

/// One of them.
pub struct AtStart {
    pub path: PathBuf,
    pub place: Option<Place>,
    pub opening: bool,
    pub opened: Option<Result<(Drive, Option<String>), String>>,
}

impl Folders {
    pub fn new(paths: &[PathBuf], workers: Workers, answers: UnboundedReceiver<Answer>) -> Folders {
        let folder = |p: &PathBuf| AtStart { path: p.clone(), place: None, opening: false, opened: None };
        Folders { all: paths.iter().map(folder).collect(), workers, answers }
    }

    /// Waits for answers until `enough`, or `until`.
    async fn gather(&mut self, until: Option<Instant>, enough: impl Fn(&[AtStart]) -> bool) {
        while !enough(&self.all) {
            let answer = match until {
                None => self.answers.recv().await,
                Some(at) => match time::timeout_at(at, self.answers.recv()).await {
                    Ok(answer) => answer,
                    Err(_) => return,
                },
            };
            match answer {
                Some(Answer::Probed(i, place)) => self.all[i].place = Some(place),
                Some(Answer::Opened(i, outcome)) => {
                    self.all[i].opened = Some(outcome.map(|AtOpen { drive, facts, distrust }| {
                        if let Some(place) = &mut self.all[i].place {
                            place.facts = facts;
                        }
                        (drive, distrust)
                    }));
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Looks at all of them.
    pub async fn look(&mut self) {
        for (i, folder) in self.all.iter().enumerate() {
            self.workers.probe(i, folder.path.clone());
        }
        let began = Instant::now();
        let all = |f: &[AtStart]| f.iter().all(|f| f.place.is_some());
        self.gather(Some(began + LOOK), all).await;
        let ours = |f: &AtStart| f.place.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_)));
        self.gather(Some(began + LOOK_ALL), |f| all(f) || f.iter().any(ours)).await;
    }

    /// What is known of them; a folder that does not answer cannot be read.
    pub fn places(&self) -> Vec<Place> {
        let silent = |path: &Path| Place {
            path: path.to_owned(),
            probe: Probe::Unreadable("it does not answer".into()),
            facts: None,
        };
        self.all.iter().map(|f| f.place.clone().unwrap_or_else(|| silent(&f.path))).collect()
    }

    pub fn formatted(&mut self, found: &[Place]) {
        for (folder, place) in self.all.iter_mut().zip(found) {
            folder.place = Some(place.clone());
        }
    }

    /// Opens the drives, at the same time: recovery reads. With `all`, waits for every one of them; else until most
    /// are open and the others had a while.
    pub async fn open(&mut self, all: bool) -> Result<Opened, String> {
        let peers: Vec<PathBuf> = self.all.iter().map(|f| f.path.clone()).collect();
        for (i, folder) in self.all.iter_mut().enumerate() {
            if folder.place.as_ref().is_some_and(|p| matches!(p.probe, Probe::Ours(_))) {
                folder.opening = true;
                self.workers.open(i, folder.path.clone(), peers.clone());
            }
        }
        let answered = |f: &[AtStart]| f.iter().all(|f| !f.opening || f.opened.is_some());
        let is_open = |f: &&AtStart| matches!(f.opened, Some(Ok(_)));
        let most = |f: &[AtStart]| f.iter().filter(is_open).count() > f.len() / 2;
        let began = Instant::now();
        if !all {
            self.gather(Some(began + OPEN), answered).await;
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
                    tracing::warn!(drive = %folder.path.display(), "it is being opened: it recovers, or does not answer; too few others are open to start without it");
                }
            }
        }
        let outcome = |f: &AtStart| {
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
