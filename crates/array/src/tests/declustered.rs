//! Declustered groups in service: failed drives are rebuilt into distributed spares by themselves, and new drives get the blocks back.

use super::exports::{Nbd, fill};
use super::rig::*;
use crate::api::{Call, Group, Marker};
use crate::error::Kind;
use crate::{Process, offline};

fn mark(position: usize, marker: Marker) -> Call {
    Call::Mark { drive: format!("tank/{position}"), marker, group: None, force: false }
}

/// All blocks of a drive are in this distributed spare.
fn in_spare(group: &Group, position: usize, spare: u64) -> bool {
    group.drives[position].distributed_spare == Some(spare) && group.state == "PARTIALLY_DEGRADED"
}

#[test]
fn drives_fail_one_after_another_and_are_replaced() {
    const LEN: u32 = 24 << 20;
    run(async {
        let rig = Rig::new(9);
        let process = Process::start(rig.options(vec![])).await.unwrap();
        let client = rig.client();
        fails(&client, Call::CreateGroup(rig.new_group("2+1s1", 0..8)), Kind::Invalid, "it can be 2, 5")
            .await;
        let made = client.call(&Call::CreateGroup(rig.new_group("2+1s2", 0..8))).await.unwrap();
        let group = only(&made);
        assert_eq!((group.level.as_str(), group.data, group.parity, group.sets), ("2+1s2", 2, 1, 2));
        assert_eq!((group.distributed_spares, group.distributed_spares_used), (2, 0));
        client.call(&all_of_it()).await.unwrap();
        fill(&rig, "tank/vd0", LEN);
        for (position, spare) in [(3, 0), (6, 1)] {
            client.call(&mark(position, Marker::Offline)).await.unwrap();
            let group = until(&client, "it is in a spare", |g| in_spare(g, position, spare)).await;
            assert_eq!(
                (group.distributed_spares_used, group.drives[position].state.as_str()),
                (spare + 1, "OFFLINE")
            );
        }
        // One more is tolerated, and has no spare.
        client.call(&mark(0, Marker::Offline)).await.unwrap();
        let group = until(&client, "it is degraded", |g| g.state == "DEGRADED").await;
        assert_eq!(group.drives[0].distributed_spare, None);
        fails(&client, mark(1, Marker::Offline), Kind::Conflict, "cannot do without").await;
        let right =
            |rig: &Rig| Nbd::connect(rig, "tank/vd0").unwrap().read(0, LEN).iter().all(|b| *b == 0x5a);
        assert!(right(&rig));
        // Without a process the drives say the same.
        assert!(process.stop().await.is_empty());
        let (groups, _) = offline::describe(&offline::find(&rig.members(0..8)).unwrap());
        assert_eq!((groups[0].distributed_spares, groups[0].distributed_spares_used), (2, 2));
        assert_eq!(groups[0].drives[6].distributed_spare, Some(1));
        let process = Process::start(rig.options(rig.members(0..8))).await.unwrap();
        assert!(right(&rig));
        // The spare that is free first takes the blocks of the third one.
        let new = rig.member(8).display().to_string();
        let replace =
            Call::Replace { old: "tank/3".into(), new: new.into(), force: false, shared_domains: false };
        client.call(&replace).await.unwrap();
        let group = until(&client, "the third one is in a spare", |g| in_spare(g, 0, 0)).await;
        assert_eq!((group.drives[3].state.as_str(), group.drives[3].distributed_spare), ("ONLINE", None));
        for position in [0, 6] {
            client.call(&mark(position, Marker::Online)).await.unwrap();
        }
        let group = until(&client, "all are back", |g| g.state == "OPTIMAL").await;
        assert_eq!(group.distributed_spares_used, 0);
        assert!(right(&rig));
        assert!(process.stop().await.is_empty());
    });
}
