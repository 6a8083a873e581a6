//! The files of the history, on a thread of their own, so that a drive that hangs delays nothing.
//!
//! The files are in the folder `history` of the first drive in service. It is made only beside a drive's label: a folder
//! that was emptied to become a blank drive stays blank.
//!
//! Invariants: at most [`QUEUE`] batches of changes wait; what cannot be written stays in memory, and is written when
//! writing works again.
//!
//! Must not depend on: what is measured.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ashlar_environment::{thread, time};
use ashlar_machine::Folder;
use ashlar_node::Node;
use ashlar_time_series::{Change, Files, History, Kind};
use tokio::sync::oneshot;

/// The folder on the drive.
const FOLDER: &str = "history";
/// The file that makes a folder a drive.
const LABEL: &str = "label";
/// Most batches that wait to be written.
const QUEUE: usize = 8;
/// How long the files may take to be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Has changes written.
pub(super) struct Writer {
    queue: SyncSender<Vec<Change>>,
    failed: Arc<AtomicBool>,
}

impl Writer {
    /// Has changes written, in the order of the calls. `false`: they are not, and no later ones will be.
    pub fn write(&self, changes: Vec<Change>) -> bool {
        !self.failed.load(Ordering::Acquire) && self.queue.try_send(changes).is_ok()
    }
}

/// The folder of the first drive in service.
fn place(node: &Node) -> Option<PathBuf> {
    node.folders.lock().iter().find(|f| f.drive.is_some()).map(|f| f.path.clone())
}

/// Opens the files of the first drive and continues `ours` with them: what they have from before, and what they lack.
///
/// # Errors
/// A message for the operator; `ours` is unchanged.
pub(super) async fn open(
    node: &Node,
    ours: &History,
    kinds: &'static [Kind],
) -> Result<(History, Writer), String> {
    let path = place(node).ok_or("no drive is in service")?;
    let (done, answer) = oneshot::channel();
    let ours = ours.clone();
    let read = move || {
        let opened = joined(&path, ours, kinds);
        let opened = opened.map_err(|e| format!("{}: {e}", path.join(FOLDER).display()));
        let (queue, batches) = sync_channel(QUEUE);
        let failed = Arc::new(AtomicBool::new(false));
        let (answer, files) = match opened {
            Ok((history, files)) => (Ok((history, Writer { queue, failed: failed.clone() })), Some(files)),
            Err(why) => (Err(why), None),
        };
        // Nobody waits any longer: the files are opened again later.
        if done.send(answer).is_ok()
            && let Some(files) = files
        {
            write_all(files, &batches, &failed);
        }
    };
    thread::run_apart("metrics-history", read).map_err(|e| e.to_string())?;
    match time::timeout(PATIENCE, answer).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(_)) => Err("the thread that reads them ended".to_owned()),
        Err(_) => Err(format!("the drive did not answer within {} s", PATIENCE.as_secs())),
    }
}

/// What the files and this process have, together.
fn joined(path: &Path, ours: History, kinds: &'static [Kind]) -> io::Result<(History, Files)> {
    let drive = Folder::real(path, None);
    drive.open_read(LABEL)?;
    let folder = drive.sub(FOLDER);
    folder.make()?;
    let loaded = Files::load(folder, kinds)?;
    for problem in &loaded.problems {
        tracing::warn!("{problem}");
    }
    let (mut history, mut files) = (loaded.history, loaded.files);
    if ours.first_s().is_some_and(|first| history.first_s().is_none_or(|f| first < f)) {
        // Another drive, or a new one: it gets everything.
        files.apply(&ours.whole())?;
        return Ok((ours, files));
    }
    let newer: Vec<_> = ours.finest(history.last_s().unwrap_or(i64::MIN)).collect();
    let changes: Vec<Change> = newer.iter().filter_map(|p| history.push(p)).flatten().collect();
    files.apply(&changes)?;
    Ok((history, files))
}

/// Writes batches until one cannot be written, or nobody sends any more.
fn write_all(mut files: Files, batches: &Receiver<Vec<Change>>, failed: &AtomicBool) {
    while let Ok(changes) = batches.recv() {
        if let Err(error) = files.apply(&changes) {
            tracing::warn!(%error, "the history of metrics cannot be written; it stays in memory and is written again later");
            failed.store(true, Ordering::Release);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_time_series::Point;

    const KINDS: &[Kind] = &[Kind::Sum];

    fn point(n: i64) -> Point {
        Point { at_s: 1_764_000_000 + n * 10, covered_s: 10, values: vec![n as u64] }
    }

    fn sum(history: &History) -> u64 {
        history.steps(1_764_000_000, 900, 40).points.iter().flatten().map(|p| p.values[0]).sum()
    }

    #[test]
    fn files_and_memory_are_joined_and_a_blank_folder_stays_blank() {
        let drive = tempfile::tempdir().unwrap();
        let blank = joined(drive.path(), History::new(KINDS), KINDS).map(drop).unwrap_err();
        assert_eq!(blank.kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(drive.path()).unwrap().count(), 0);
        std::fs::write(drive.path().join(LABEL), b"label").unwrap();
        let (mut history, mut files) = joined(drive.path(), History::new(KINDS), KINDS).unwrap();
        for n in 1..=100 {
            files.apply(&history.push(&point(n)).unwrap()).unwrap();
        }
        // The next process measured twice before it read the files.
        let mut ours = History::new(KINDS);
        ours.push(&point(101));
        ours.push(&point(102));
        let (history, _) = joined(drive.path(), ours, KINDS).unwrap();
        assert_eq!(sum(&history), (1..=102).sum::<u64>());
        let (again, _) = joined(drive.path(), History::new(KINDS), KINDS).unwrap();
        assert_eq!(sum(&again), (1..=102).sum::<u64>());
        // Another drive gets all of it.
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join(LABEL), b"label").unwrap();
        joined(other.path(), again, KINDS).unwrap();
        assert_eq!(sum(&joined(other.path(), History::new(KINDS), KINDS).unwrap().0), (1..=102).sum::<u64>());
    }
}
