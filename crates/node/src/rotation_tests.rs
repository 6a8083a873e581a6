//! The replacement of the authority, step by step and in random orders, over a control store in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use ashlar_cluster::registry::Cluster;
use ashlar_cluster::{Accept, Embedded, Medium, MemoryMedium};
use ashlar_format::{DeploymentId, DriveId};
use ashlar_iam::{Root, Secret};

use super::*;
use crate::authority;

async fn store() -> (Control, Iam) {
    let media = vec![(DriveId([99; 16]), Arc::new(MemoryMedium::default()) as Arc<dyn Medium>)];
    let cluster = Cluster::forming(3, None, Accept::default(), BTreeMap::new());
    let entries = vec![cluster.entry()];
    let control = Embedded::create(DeploymentId([7; 16]), media, entries).await.unwrap().control();
    let root = Root { access_key: "root-of-tests".into(), secret: Secret::new("a secret of tests") };
    let iam = Iam::open(control.clone(), root, None, Arc::new(|| 0)).await.unwrap();
    authority::ensure(&control, &iam).await.unwrap();
    (control, iam)
}

fn said(standings: &[Standing]) -> BTreeMap<u16, NodeStanding> {
    (1..).zip(standings).map(|(n, s)| (n, NodeStanding::Said(s.clone()))).collect()
}

#[tokio::test]
async fn each_phase_waits_for_the_nodes_that_run() {
    let (control, iam) = store().await;
    let read = || Authorities::read(&control).unwrap();
    let first = authority::wanted(&control).unwrap();
    let old = read().old().to_owned();
    assert_eq!((read().phase, read().signer(), &first.signer), (None, &old[..], &old));
    assert!(read().advance(&control, &iam).await.unwrap());

    let introducing = authority::wanted(&control).unwrap();
    assert_eq!((read().phase, read().signer(), read().old()), (Some(Phase::Introducing), &old[..], &old[..]));
    let mut nodes = said(&[introducing.clone(), first.clone()]);
    nodes.insert(3, NodeStanding::Silent("does not answer".into()));
    nodes.insert(4, NodeStanding::Away);
    let waits = read().waits(&nodes);
    assert_eq!(waits, ["node 2 does not trust the new authority yet", "node 3 does not answer"]);
    assert!(read().waits(&said(&[introducing.clone(), introducing.clone()])).is_empty());
    assert!(read().advance(&control, &iam).await.unwrap());

    let renewing = authority::wanted(&control).unwrap();
    assert_eq!((read().phase, read().old()), (Some(Phase::Renewing), &old[..]));
    assert!(renewing.signer != old && renewing.trusted.contains(&old));
    let waits = read().waits(&said(&[renewing.clone(), introducing]));
    assert_eq!(waits, ["node 2 has no certificate of the new authority yet"]);
    // Two orders at once: one step.
    let (one, two) = (read(), read());
    assert!(one.advance(&control, &iam).await.unwrap());
    assert!(!two.advance(&control, &iam).await.unwrap());
    let done = authority::wanted(&control).unwrap();
    assert_eq!((read().phase, &done.trusted[..]), (None, &[renewing.signer][..]));
    // The certificates that nodes get are those that they trust.
    let identity = authority::certify(&control, &iam, 5).unwrap();
    ashlar_rpc::Credentials::new(identity, authority::trust(&control).unwrap()).unwrap();
}

/// What a node did last: it took the authorities when it started, or reached the control store.
#[derive(Clone)]
struct Running {
    standing: Standing,
    cut_off: bool,
}

#[tokio::test]
async fn nodes_that_run_trust_each_other_in_every_order_of_steps() {
    let mut seen = BTreeSet::new();
    // A seed goes on with the authorities that the one before it left.
    let (control, iam) = store().await;
    for seed in 0..60u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let start =
            |control: &Control| Running { standing: authority::wanted(control).unwrap(), cut_off: false };
        let mut nodes: Vec<Option<Running>> = vec![Some(start(&control)); 3];
        // An order that has looked at the nodes and has not written yet, as after a pause.
        let mut looked: Option<Authorities> = None;
        for _ in 0..120 {
            let i = next(3) as usize;
            match next(8) {
                // It ends, or starts anew.
                0 => nodes[i] = if nodes[i].is_some() { None } else { Some(start(&control)) },
                1 => nodes[i].iter_mut().for_each(|n| n.cut_off = !n.cut_off),
                2..=4 => {
                    if let Some(node) = nodes[i].as_mut().filter(|n| !n.cut_off) {
                        node.standing = authority::wanted(&control).unwrap();
                    }
                }
                5 | 6 => {
                    let authorities = Authorities::read(&control).unwrap();
                    let of = |n: &Option<Running>| match n {
                        None => NodeStanding::Away,
                        Some(n) => NodeStanding::Said(n.standing.clone()),
                    };
                    let all = (1..).zip(&nodes).map(|(number, n)| (number, of(n))).collect();
                    let ready = authorities.phase.is_none() || authorities.waits(&all).is_empty();
                    looked = ready.then_some(authorities);
                }
                _ => {
                    if let Some(authorities) = looked.take() {
                        let _ = authorities.advance(&control, &iam).await.unwrap();
                        seen.insert(format!("{:?}", authority::wanted(&control).unwrap().trusted.len()));
                    }
                }
            }
            let running: Vec<&Running> = nodes.iter().flatten().collect();
            for (a, b) in running.iter().flat_map(|a| running.iter().map(move |b| (a, b))) {
                let trusts = b.standing.trusted.contains(&a.standing.signer);
                assert!(trusts, "seed {seed}: {:?} does not trust {:?}", b.standing, a.standing);
            }
        }
    }
    assert_eq!(seen.len(), 2, "replacements began and ended");
}
