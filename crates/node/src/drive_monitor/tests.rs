//! Tests of starts and operators' orders over real folders, without HTTP.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::{Root as Credential, Secret};
use parking_lot::Mutex;

use crate::deployments::Deployments;
use crate::kms::Configured;
use crate::node::Node;
use crate::node_start::Plan;

/// Folders whose drives never open, for nodes that tests start from now on.
static HANG: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub fn hang() -> Arc<HashSet<PathBuf>> {
    Arc::new(HANG.lock().iter().cloned().collect())
}

fn plan(root: &Path, drives: usize) -> Plan {
    Plan {
        paths: (1..=drives).map(|n| root.join(format!("d{n}"))).collect(),
        code: None,
        memory: 128 << 20,
        drive_kind: ashlar_drive::DriveKind::Auto,
        ring: None,
        limits: ashlar_erasure_set::MemoryLimits::default(),
        heal_limits: crate::heal_limits::HealLimits::default(),
        calendar: ashlar_lifecycle::Calendar::default(),
        deployments: Deployments::new(Some(root.join("state")), |_| None),
        new_deployment: false,
        allow_shared_drive: false,
        cluster: None,
    }
}

async fn start(plan: &Plan) -> Result<(Arc<Node>, tokio::task::JoinHandle<()>), String> {
    let root = Credential { access_key: "tester".into(), secret: Secret::new("a-password-for-tests") };
    let mut keys = Configured::nothing(&plan.paths[0].with_file_name("state"));
    let (node, _, drives) = Node::open(plan, Some(root), &mut keys).await?;
    Ok((node.clone(), tokio::spawn(super::run(node, drives))))
}

fn serving(node: &Node) -> usize {
    node.folders.lock().iter().filter(|s| s.drive.is_some()).count()
}

/// One of six drives hangs; the server starts, serves and stops without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_that_hangs_at_open_delays_neither_start_nor_stop() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), 6);
    let (node, task) = start(&plan).await.unwrap();
    assert_eq!(serving(&node), 6);
    task.abort();
    let _ = task.await;
    node.close().await;
    drop(node);
    let hung = plan.paths[2].clone();
    HANG.lock().push(hung.clone());
    let (node, task) = tokio::time::timeout(Duration::from_secs(60), start(&plan)).await.unwrap().unwrap();
    HANG.lock().retain(|p| *p != hung);
    assert_eq!(serving(&node), 5);
    assert!(node.sets.health().iter().all(|g| g.writable));
    assert!(node.folders.lock()[2].problem.is_some());
    // A folder that hangs does not delay the inspection of the others.
    super::hold(&node, &plan.paths[4].display().to_string()).await.unwrap();
    assert_eq!(serving(&node), 4);
    super::release(&node, &plan.paths[4].display().to_string()).await.unwrap();
    for _ in 0..600 {
        if serving(&node) == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(serving(&node), 5);
    task.abort();
    tokio::time::timeout(Duration::from_secs(60), node.close()).await.unwrap();
}

/// A start over folders that held a deployment and are all empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_folders_of_a_deployment_are_not_formatted_silently() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = plan(dir.path(), 4);
    let (node, task) = start(&plan).await.unwrap();
    let first = node.map.load().deployment;
    if node.folders.lock()[0].facts.as_ref().unwrap().memory {
        return; // temporary files are in memory here, and drives in memory are not noted
    }
    let note = dir.path().join("state").join(format!("deployment-{}.json", first.to_hex()));
    for _ in 0..600 {
        if note.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    task.abort();
    node.close().await;
    for path in &plan.paths {
        std::fs::remove_dir_all(path).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    let why = start(&plan).await.err().expect("it is refused");
    assert!(why.contains(&first.to_hex()) && why.contains("--new-deployment"), "{why}");
    assert!(plan.paths.iter().all(|p| std::fs::read_dir(p).unwrap().next().is_none()), "nothing was written");
    plan.new_deployment = true;
    let (node, task) = start(&plan).await.unwrap();
    assert_ne!(node.map.load().deployment, first);
    task.abort();
    node.close().await;
    // The confirmation is for one start.
    let why = start(&plan).await.err().expect("it is refused");
    assert!(why.contains("leave --new-deployment out"), "{why}");
}
