//! The agreement of three members, step by step and in random order.

use super::*;
use crate::access::Greeting;

fn state(incarnation: &str, origin: Origin) -> State {
    let text = serde_json::json!({ "format": 1, "cluster": "prod", "incarnation": incarnation,
                                   "origin": serde_json::to_value(origin).unwrap() });
    serde_json::from_value(text).unwrap()
}

fn plan(all: &[(&str, &str)]) -> Plan {
    all.iter().map(|(name, incarnation)| ((*name).to_owned(), (*incarnation).to_owned())).collect()
}

fn blank(incarnation: &str, plan: Option<Plan>) -> Peer {
    Peer::Blank(Greeting { cluster: "prod".to_owned(), incarnation: incarnation.to_owned(), plan })
}

fn others(all: &[(&str, Peer)]) -> BTreeMap<String, Peer> {
    all.iter().map(|(name, peer)| ((*name).to_owned(), peer.clone())).collect()
}

#[test]
fn blank_members_plan_together_when_all_are_there() {
    let (a, all) = (state("1", Origin::Blank), plan(&[("a", "1"), ("b", "2"), ("c", "3")]));
    let missing = others(&[("b", blank("2", None)), ("c", Peer::Silent("refused".to_owned()))]);
    assert_eq!(next(&a, "a", &missing), Step::Wait("c (refused)".to_owned()));
    let here = others(&[("b", blank("2", None)), ("c", blank("3", Some(all.clone())))]);
    assert_eq!(next(&a, "a", &here), Step::Plan(all.clone()));
    let other = others(&[("b", blank("2", None)), ("c", blank("3", Some(plan(&[("c", "3")]))))]);
    assert_eq!(next(&a, "a", &other), Step::Wait("c (planned with other members)".to_owned()));
    assert_eq!(next(&a, "a", &others(&[])), Step::Plan(plan(&[("a", "1")])));
}

#[test]
fn a_blank_member_never_founds_beside_a_running_etcd() {
    let a = state("1", Origin::Blank);
    for c in [Peer::Silent(String::new()), blank("3", None), Peer::Etcd] {
        assert_eq!(next(&a, "a", &others(&[("b", Peer::Etcd), ("c", c)])), Step::Join);
    }
}

/// Members that the control store named do not found another one, for example when all of them are new.
#[test]
fn a_blank_member_that_knows_of_a_control_store_only_joins() {
    let mut a = state("1", Origin::Blank);
    a.members = Some(crate::Members::parse("a,b,c").unwrap());
    let all_blank = others(&[("b", blank("2", None)), ("c", blank("3", None))]);
    assert!(matches!(next(&a, "a", &all_blank), Step::Wait(why) if why.contains("there was one")));
    assert!(matches!(next(&a, "a", &others(&[])), Step::Wait(_)));
    assert_eq!(next(&a, "a", &others(&[("b", Peer::Etcd), ("c", blank("3", None))])), Step::Join);
}

#[test]
fn etcd_is_started_when_all_have_written_down_the_plan() {
    let all = plan(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let a = state("1", Origin::Planned(all.clone()));
    let with = |b: Peer, c: Peer| next(&a, "a", &others(&[("b", b), ("c", c)]));
    let agreed = |incarnation| blank(incarnation, Some(all.clone()));
    assert_eq!(with(agreed("2"), agreed("3")), Step::Found { plan: all.clone(), if_alone: false });
    assert_eq!(with(agreed("2"), blank("3", None)), Step::Wait("c (has not agreed yet)".to_owned()));
    assert!(matches!(with(agreed("2"), Peer::Silent(String::new())), Step::Wait(_)));
    // One that runs had seen that all agreed.
    assert_eq!(with(Peer::Etcd, blank("3", None)), Step::Found { plan: all.clone(), if_alone: true });
    // One that lost its folder makes the plan void.
    assert_eq!(with(agreed("2"), blank("4", None)), Step::GiveUp("c began anew".to_owned()));
    let more = others(&[("b", agreed("2")), ("c", agreed("3")), ("d", agreed("4"))]);
    assert!(matches!(next(&a, "a", &more), Step::GiveUp(_)));
    let single = state("1", Origin::Planned(plan(&[("a", "1")])));
    assert!(matches!(next(&single, "a", &others(&[])), Step::Found { if_alone: false, .. }));
}

#[test]
fn tokens_differ_with_every_incarnation() {
    let one = plan(&[("a", "1"), ("b", "2")]);
    assert_ne!(token("prod", &one), token("prod", &plan(&[("a", "1"), ("b", "3")])));
    assert_ne!(token("prod", &one), token("test", &one));
    assert_eq!(token("prod", &one), token("prod", &one));
}

/// Three members take steps in random order, each seeing the others as they were a while ago; folders are lost now and
/// then. No incarnation is ever started twice, or in two clusters.
#[test]
fn incarnations_are_started_once_whatever_happens() {
    let names = ["a", "b", "c"];
    for seed in 0..3000_u64 {
        let mut random = ashlar_environment::random::Seeded::new(seed);
        let mut number = 0;
        let mut fresh = || {
            number += 1;
            number.to_string()
        };
        let mut members: Vec<State> = names.iter().map(|_| state(&fresh(), Origin::Blank)).collect();
        let mut started: BTreeMap<String, Plan> = BTreeMap::new();
        // What each has seen of each.
        let mut seen = vec![vec![Peer::Silent(String::new()); 3]; 3];
        let shown = |s: &State| match &s.origin {
            Origin::Blank => blank(&s.incarnation, None),
            Origin::Planned(plan) => blank(&s.incarnation, Some(plan.clone())),
            _ => Peer::Etcd,
        };
        for step in 0..120 {
            let me = (random.next() % 3) as usize;
            match random.next() % 8 {
                0 if step < 60 && random.next().is_multiple_of(8) => {
                    members[me] = state(&fresh(), Origin::Blank)
                }
                1..4 => {
                    let other = (random.next() % 3) as usize;
                    seen[me][other] = shown(&members[other]);
                }
                _ => {
                    let known =
                        (0..3).filter(|i| *i != me).map(|i| (names[i].to_owned(), seen[me][i].clone()));
                    let known: BTreeMap<String, Peer> = known.collect();
                    if members[me].was_started() {
                        continue;
                    }
                    match next(&members[me], names[me], &known) {
                        Step::Plan(plan) => members[me].origin = Origin::Planned(plan),
                        Step::GiveUp(_) => members[me] = state(&fresh(), Origin::Blank),
                        Step::Found { plan, .. } => {
                            let own = members[me].incarnation.clone();
                            assert_eq!(plan[names[me]], own, "seed {seed}");
                            assert!(started.insert(own, plan.clone()).is_none(), "seed {seed}");
                            members[me].origin = Origin::Founded(plan);
                        }
                        Step::Join | Step::Wait(_) => {}
                    }
                }
            }
        }
    }
}

/// Without losses all found the same cluster.
#[test]
fn members_agree_when_nothing_is_lost() {
    let names = ["a", "b", "c"];
    let mut members: Vec<State> = (1..=3).map(|n| state(&n.to_string(), Origin::Blank)).collect();
    for _ in 0..4 {
        for me in 0..3 {
            let shown = |s: &State| match &s.origin {
                Origin::Blank => blank(&s.incarnation, None),
                Origin::Planned(plan) => blank(&s.incarnation, Some(plan.clone())),
                _ => Peer::Etcd,
            };
            let known =
                (0..3).filter(|i| *i != me).map(|i| (names[i].to_owned(), shown(&members[i]))).collect();
            if members[me].was_started() {
                continue;
            }
            match next(&members[me], names[me], &known) {
                Step::Plan(plan) => members[me].origin = Origin::Planned(plan),
                Step::Found { plan, .. } => members[me].origin = Origin::Founded(plan),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(members.iter().all(|m| m.origin == members[0].origin && m.was_started()));
}
