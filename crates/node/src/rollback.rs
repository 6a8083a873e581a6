//! Detection of drives that went back in time, for instance to an older image: when a drive is opened, its
//! journal sequence is compared with the one that other drives have stored for it (docs/protocol.md 2.14).
//!
//! Invariants: a drive behind its stored sequence durably loses its vote before it is put into service
//! (`drive_monitor` does that), and comes back by joining; sequences are written at a bounded rate, never as
//! part of a request; a folder that no longer holds the drive is not written to.

use ashlar_environment::time::{self, Instant};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Sequences;
use ashlar_drive::{Drive, Probe, State};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_machine::Folder;
use futures::future::BoxFuture;

use super::node::{Node, blocking};

/// Time between writes of sequences.
const EVERY: Duration = Duration::from_secs(2);

/// Time limit for reading the folders of other drives when a drive is opened.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The sequences stored in the folders of a deployment, merged; folders that exceed the time limit are left
/// out. Blocks.
pub(crate) fn read_sequences(paths: Vec<PathBuf>, deployment: DeploymentId) -> Sequences {
    let (send, receive) = std::sync::mpsc::channel();
    for path in paths {
        let send = send.clone();
        // On its own thread: a folder that hangs must not delay the opened drive.
        let read = move || drop(send.send(Sequences::read(&Folder::real(&path, None), deployment)));
        let _ = ashlar_environment::thread::run_apart("sequences", read);
    }
    drop(send);
    let (until, mut all) = (Instant::now() + TIMEOUT, Sequences::default());
    while let Ok(some) = receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.merge(&some);
    }
    all
}

/// Why a newly opened drive must join before it votes: its sequence is behind the stored one.
pub(crate) fn behind(drive: &Drive, noted: &Sequences) -> Option<String> {
    let batches = noted.behind(drive.label().drive, drive.opened_sequence());
    if batches == 0 || !drive.votes() {
        return None;
    }
    tracing::error!(
        drive = %drive.path().display(),
        batches,
        "the drive lost acknowledged data (an older image, or a cache that was not flushed): it joins again"
    );
    Some(format!("it went back in time by {batches} batches of its journal"))
}

/// Stores the sequences of all drives on every drive, periodically; never returns.
pub fn run(node: Arc<Node>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let paths = node.folders.lock().iter().map(|s| s.path.clone()).collect();
        let deployment = node.map.load().deployment;
        let mut all = blocking(move || read_sequences(paths, deployment)).await.unwrap_or_default();
        let mut interval = time::interval(EVERY);
        loop {
            interval.tick().await;
            note(&node, deployment, &mut all).await;
        }
    })
}

/// Stores the sequences once.
async fn note(node: &Node, deployment: DeploymentId, all: &mut Sequences) {
    let drives: Vec<Drive> = node.folders.lock().iter().filter_map(|s| s.drive.clone()).collect();
    let online = drives.iter().filter(|d| d.state() == State::Online);
    let mut news = false;
    for drive in online {
        let (id, sequence) = (drive.label().drive, drive.sequence());
        // The sequence of a joining drive may be behind the stored one now, and may pass it later.
        news |= match node.joins.lock().contains(&id) {
            true => all.begin_again(id, sequence),
            false => all.note(id, sequence),
        };
    }
    if !news {
        return;
    }
    let writes = drives.iter().filter(|d| d.state() == State::Online).map(|drive| {
        let (path, id, all) = (drive.path().to_owned(), drive.label().drive, all.clone());
        // A drive that hangs must not delay the others for long.
        let write = time::timeout(EVERY, blocking(move || write(&path, id, &all, deployment)));
        async move {
            match write.await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(e))) => tracing::debug!(drive = %drive.path().display(), "sequences: {e}"),
                Ok(Err(e)) => tracing::debug!("sequences: {e}"),
                Err(_) => tracing::debug!(drive = %drive.path().display(), "sequences: it does not answer"),
            }
        }
    });
    futures::future::join_all(writes).await;
}

fn write(path: &Path, id: DriveId, all: &Sequences, deployment: DeploymentId) -> std::io::Result<()> {
    match ashlar_drive::probe(path) {
        Probe::Ours(label) if label.drive == id => all.write(&Folder::real(path, None), deployment),
        _ => Err(std::io::Error::other("the folder does not hold this drive any more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_drive::{Label, Options, Role};
    use ashlar_format::GroupId;
    use ashlar_machine::BufferPool;

    const GROUP: GroupId = GroupId::new(0, 0);

    /// Replaces the content of a folder by that of another.
    fn copy(from: &Path, to: &Path) {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir_all(to).unwrap();
        for e in std::fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
            let to = to.join(e.file_name());
            if e.file_type().unwrap().is_dir() {
                copy(&e.path(), &to);
            } else {
                std::fs::copy(e.path(), to).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn older_drive_image_loses_vote_and_joins() {
        let dir = tempfile::tempdir().unwrap();
        let deployment = DeploymentId([9; 16]);
        let paths: Vec<PathBuf> = ["a", "b", "image"].iter().map(|n| dir.path().join(n)).collect();
        let mut options = Options::new(BufferPool::new(16 << 20));
        (options.segment_bytes, options.journal_segment_bytes) = (4 << 20, 1 << 20);
        options.reserve_bytes = 1 << 20;
        let open = |path: &Path| Drive::open(path, &options).unwrap();
        for (i, path) in paths.iter().take(2).enumerate() {
            std::fs::create_dir_all(path).unwrap();
            let label = Label { deployment, drive: DriveId([i as u8 + 1; 16]), created_ms: 1 };
            ashlar_drive::format(path, &label, &[(GROUP, Role::Voter)]).unwrap();
        }
        let (a, b) = (open(&paths[0]), open(&paths[1]));
        a.fence_epoch(GROUP, 1).await.unwrap();
        a.close().await;
        drop(a);
        copy(&paths[0], &paths[2]);

        // It continues, and the other drive stores its sequence.
        let a = open(&paths[0]);
        assert_eq!(behind(&a, &Sequences::default()), None, "nothing is known of it");
        for epoch in 2..20 {
            a.fence_epoch(GROUP, epoch).await.unwrap();
        }
        let mut all = Sequences::default();
        assert!(all.note(a.label().drive, a.sequence()));
        write(&paths[1], b.label().drive, &all, deployment).unwrap();
        assert!(write(&paths[1], a.label().drive, &all, deployment).is_err(), "another drive's folder");
        a.close().await;
        drop(a);
        let known = read_sequences(paths[..2].to_vec(), deployment);
        let a = open(&paths[0]);
        assert_eq!(behind(&a, &known), None, "it lost nothing");
        a.close().await;
        drop(a);

        // The older image replaces it.
        copy(&paths[2], &paths[0]);
        let a = open(&paths[0]);
        assert!(a.votes());
        // The drive monitor takes its vote before it serves.
        assert!(behind(&a, &known).is_some());
        a.set_joining(&[(GROUP, 1)]).await.unwrap();
        a.close().await;
        drop(a);
        let a = open(&paths[0]);
        assert!(!a.votes(), "for good");
        // After it has its vote back, it is not behind at the next start; an older image of it is.
        let mut all = known;
        assert!(all.begin_again(a.label().drive, a.sequence()));
        a.joined(GROUP, 1).await.unwrap();
        all.note(a.label().drive, a.sequence());
        write(&paths[1], b.label().drive, &all, deployment).unwrap();
        a.close().await;
        drop(a);
        let known = read_sequences(paths[..2].to_vec(), deployment);
        let a = open(&paths[0]);
        assert_eq!((a.votes(), behind(&a, &known)), (true, None));
        a.close().await;
        drop(a);
        copy(&paths[2], &paths[0]);
        assert!(behind(&open(&paths[0]), &known).is_some());
    }
}
