//! Nodes that form a cluster over a control store in memory, with real drives.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ashlar_cluster::registry::{Cluster, Token};
use ashlar_cluster::{Accept, Embedded, Medium, MemoryMedium};
use ashlar_drive::{Label, Options, Role};
use ashlar_format::DeploymentId;
use ashlar_machine::BufferPool;

use super::*;

const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);

fn settings(region: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("the region".to_owned(), region.to_owned())])
}

async fn control(nodes: u16, code: Option<CodeSpec>) -> Control {
    let media = vec![(DriveId([99; 16]), Arc::new(MemoryMedium::default()) as Arc<dyn Medium>)];
    let cluster = Cluster::forming(nodes, code, Accept::default(), settings("a"));
    Embedded::create(DEPLOYMENT, media, vec![cluster.entry()]).await.unwrap().control()
}

/// Opens the drives of a node, which are formatted if they are new.
fn drives(dir: &Path, node: u8, count: u8) -> Vec<Drive> {
    let pool = BufferPool::new(16 << 20);
    let one = |n: u8| {
        let path = dir.join(format!("{node}-{n}"));
        if !path.exists() {
            std::fs::create_dir(&path).unwrap();
            let label = Label { deployment: DEPLOYMENT, drive: DriveId([node * 16 + n; 16]), created_ms: 1 };
            ashlar_drive::format(&path, &label, &[]).unwrap();
        }
        let mut options = Options::new(pool.clone());
        (options.segment_bytes, options.journal_segment_bytes) = (4 << 20, 1 << 20);
        options.reserve_bytes = 1 << 20;
        Drive::open(&path, &options).unwrap()
    };
    (1..=count).map(one).collect()
}

struct Node {
    drives: Vec<Drive>,
    settings: BTreeMap<String, String>,
    address: String,
}

impl Node {
    fn new(dir: &Path, node: u8) -> Node {
        Node { drives: drives(dir, node, 2), settings: settings("a"), address: format!("node{node}:1") }
    }

    fn candidate<'a>(&'a self, control: &'a Control) -> Candidate<'a> {
        let record = NodeRecord::new(
            self.address.clone(),
            "http://x".into(),
            "host".into(),
            "1".into(),
            drives_of(&self.drives),
        );
        Candidate {
            control,
            record,
            drives: &self.drives,
            settings: &self.settings,
            nodes: None,
            code: None,
            token: None,
        }
    }
}

/// Every drive votes in exactly the groups that the map gives it.
fn check_formed(control: &Control, nodes: &[Node]) {
    let registry = registry(control).unwrap();
    assert_eq!(registry.cluster.state, State::Formed);
    let map = Map::read(control).unwrap();
    assert_eq!(map.drives.len(), nodes.iter().map(|n| n.drives.len()).sum::<usize>());
    for drive in nodes.iter().flat_map(|n| &n.drives) {
        let wanted: Vec<_> =
            map.groups_of(drive.label().drive).into_iter().map(|g| (g, Role::Voter)).collect();
        assert_eq!(drive.held(), wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_form_one_cluster_and_return_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let control = control(3, None).await;
    let nodes: Vec<Node> = (1..=3).map(|n| Node::new(dir.path(), n)).collect();
    for _ in 0..2 {
        let candidates: Vec<_> = nodes.iter().map(|n| n.candidate(&control)).collect();
        let numbers = futures::future::join_all(candidates.iter().map(Candidate::take_part)).await;
        let numbers: BTreeSet<u16> = numbers.into_iter().map(Result::unwrap).collect();
        assert_eq!(numbers, BTreeSet::from([1, 2, 3]));
        check_formed(&control, &nodes);
    }
    // A node that moved says so.
    let moved =
        Node { address: "elsewhere:1".into(), drives: nodes[1].drives.clone(), settings: settings("a") };
    let number = moved.candidate(&control).take_part().await.unwrap();
    assert_eq!(registry(&control).unwrap().nodes[&number].address, "elsewhere:1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_end_anywhere_are_continued() {
    for round in 0..20u64 {
        let dir = tempfile::tempdir().unwrap();
        let control = control(3, None).await;
        let nodes: Vec<Node> = (1..=3).map(|n| Node::new(dir.path(), n)).collect();
        let ended = nodes.iter().zip(0u64..).map(|(node, n)| {
            let control = &control;
            async move {
                for micros in (0u64..).map(|i| (round * 131 + n * 71 + i * 257) % 4_000) {
                    let candidate = node.candidate(control);
                    let part = candidate.take_part();
                    // The last attempts have all the time that they need.
                    if let Ok(number) = tokio::time::timeout(Duration::from_micros(micros), part).await {
                        return number.unwrap();
                    }
                }
                unreachable!()
            }
        });
        let numbers = futures::future::join_all(ended).await.into_iter().collect::<BTreeSet<u16>>();
        assert_eq!(numbers.len(), 3, "round {round}");
        check_formed(&control, &nodes);
    }
}

#[tokio::test]
async fn a_node_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let control = control(1, CodeSpec::parse("1+1").ok()).await;
    let node = Node::new(dir.path(), 1);
    let refused = async |change: &dyn Fn(&mut Candidate<'_>)| {
        let mut candidate = node.candidate(&control);
        change(&mut candidate);
        candidate.take_part().await.unwrap_err()
    };
    assert!(refused(&|c| c.nodes = Some(4)).await.contains("--nodes 4"));
    assert!(refused(&|c| c.code = CodeSpec::parse("2+2").ok()).await.contains("--code 2+2"));
    let newer = ashlar_cluster::Levels { oldest: 4, newest: 5 };
    assert!(refused(&|c| c.record.levels = newer).await.contains("this release can do 4 to 5 only"));
    let other = settings("b");
    let mut candidate = node.candidate(&control);
    candidate.settings = &other;
    let text = candidate.take_part().await.unwrap_err();
    assert!(text.contains("the region") && text.contains("\"a\"") && text.contains("\"b\""), "{text}");
    // One node with all drives: its loss would lose everything.
    let text = node.candidate(&control).take_part().await.unwrap_err();
    assert!(text.contains("--accept-node-loss"), "{text}");
    assert_eq!(registry(&control).unwrap().cluster.state, State::Forming);
}

#[tokio::test]
async fn a_node_joins_with_a_token_once() {
    let dir = tempfile::tempdir().unwrap();
    let control = control(2, CodeSpec::parse("2+2").ok()).await;
    let nodes: Vec<Node> = (1..=2).map(|n| Node::new(dir.path(), n)).collect();
    let candidates: Vec<_> = nodes.iter().map(|n| n.candidate(&control)).collect();
    futures::future::join_all(candidates.iter().map(Candidate::take_part)).await;
    check_formed(&control, &nodes);
    let (key, value) = Token::new("hash".into(), i64::MAX).entry("id");
    let mut update = Update::new();
    update.set(&control.read(&key), value);
    control.update(update).await.unwrap();
    let third = Node::new(dir.path(), 3);
    assert!(third.candidate(&control).take_part().await.unwrap_err().contains("--join"));
    let with = |node: &'static str| Some(("id".to_owned(), node.to_owned()));
    let mut candidate = third.candidate(&control);
    candidate.token = with("another hash");
    assert!(candidate.take_part().await.unwrap_err().contains("not known"));
    candidate.token = with("hash");
    assert_eq!(candidate.take_part().await.unwrap(), 3);
    // It is one of the cluster now, with or without a token.
    assert_eq!(third.candidate(&control).take_part().await.unwrap(), 3);
    let fourth = Node::new(dir.path(), 4);
    let mut candidate = fourth.candidate(&control);
    candidate.token = with("hash");
    assert!(candidate.take_part().await.unwrap_err().contains("was used by node 3"));
    // An address belongs to one node.
    let mut candidate = fourth.candidate(&control);
    candidate.record.address = "node1:1".into();
    candidate.token = with("hash");
    assert!(candidate.take_part().await.is_err());
}
