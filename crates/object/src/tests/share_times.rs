//! Shares of a quota over hours of simulated time: a node that is cut off stops in time, its share is taken back later
//! and given to others, and it gets another when it returns, whatever its wall clock shows.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Control;
use ashlar_commit::quota_share::Share;
use ashlar_environment::simulation::{Process, Simulation, new_process, set_wall_ahead, spawn_in};
use ashlar_environment::time::sleep;

use super::shares::{Node, body, full, limit_bucket, node, stored};
use super::{Rng, Store, memory, put, times};
use crate::memory::Memory;
use crate::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: u64 = 10_000;

/// A node with the tasks of its process.
struct Running {
    node: Node,
    process: Process,
    number: u16,
}

impl Running {
    /// Calls the store, with the clocks of the node.
    async fn call<F>(&self, call: impl FnOnce(Store) -> F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_in(self.process, "call", call(self.node.store.clone())).await.unwrap()
    }

    async fn put(&self, bytes: usize) -> Result<()> {
        let key = format!("of{}", self.number);
        self.call(move |s| async move { put(&s, "bucket", &key, &body(bytes)).await.map(drop) }).await
    }

    /// Deletes the oldest version of all.
    async fn delete_oldest(&self) -> Result<()> {
        self.call(|s| async move {
            let spec = VersionListSpec { max_keys: 1000, ..Default::default() };
            let all = s.list_versions("bucket", &spec).await?.entries;
            let Some(oldest) = all.last() else { return Ok(()) };
            s.delete("bucket", &oldest.entry.key, Some(oldest.version_id), &Conditions::NONE).await.map(drop)
        })
        .await
    }

    /// It does not reach the control store any more, and the others soon take it for gone.
    fn cut(&mut self) {
        self.node.link.cut();
        self.node.announced = None;
    }

    async fn mend(&mut self, control: &Control) {
        self.node.link.mend();
        if self.node.announced.is_none() {
            self.node.announced = control.announce(self.number).await.ok();
        }
    }

    /// Adds to what is stored until it is refused.
    async fn put_until_refused(&self, bytes: usize) -> Error {
        loop {
            if let Err(e) = self.put(bytes).await {
                return e;
            }
        }
    }
}

struct Rig {
    nodes: Vec<Running>,
    control: Control,
    _memory: Arc<Memory>,
}

impl Rig {
    /// Nodes 1 and up, each of which does every few seconds what a server does.
    async fn new(n: u16) -> Rig {
        let (_, memory, control) = memory().await;
        let mut nodes = Vec::new();
        for number in 1..=n {
            nodes.push(node(number, &memory, &control).await);
        }
        limit_bucket(&nodes, LIMIT).await;
        let run = |(number, node): (u16, Node)| {
            let (process, store) = (new_process(), node.store.clone());
            let tend = async move {
                loop {
                    let _ = store.count_uncounted(false).await;
                    sleep(Duration::from_secs(10)).await;
                }
            };
            drop(spawn_in(process, "tend", tend));
            Running { node, process, number }
        };
        Rig { nodes: (1..).zip(nodes).map(run).collect(), control, _memory: memory }
    }

    /// The share of a node, as the control store has it.
    fn share(&self, number: u16) -> Option<Share> {
        let bucket = self.nodes[0].node.store.bucket("bucket").unwrap().id;
        let read =
            crate::quota_record::decode(&self.control.read(&crate::quota_record::key(bucket))).unwrap();
        read.record.shares.get(&number).copied()
    }

    async fn stored(&self) -> u64 {
        stored(&self.nodes[0].node).await
    }
}

fn simulated<F: Future<Output = ()> + 'static>(seed: u64, work: F) {
    Simulation::new(seed).run(work).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));
}

/// It admits and commits nothing after four hours; its share is given to others after six; and when it returns, it gets
/// another.
#[test]
fn share_of_node_that_is_cut_off_ends_and_is_given_to_others() {
    simulated(1, async {
        let mut rig = Rig::new(2).await;
        for node in [1, 0, 1, 0] {
            rig.nodes[node].put(100).await.unwrap();
        }
        rig.nodes[0].cut();
        let granted = rig.share(1).unwrap().granted;
        assert!(granted > 500, "{granted}");
        // The other one has what is left and cannot say whether there is more.
        let refused = rig.nodes[1].put_until_refused(50).await;
        assert!(matches!(refused, Error::Busy), "{refused:?}");
        assert!(rig.stored().await <= LIMIT - granted + 200);

        sleep(4 * HOUR - 5 * MINUTE).await;
        rig.nodes[0].put(100).await.unwrap();
        let (begun, end) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let open = {
            let (store, begun, end) = (rig.nodes[0].node.store.clone(), begun.clone(), end.clone());
            spawn_in(rig.nodes[0].process, "open", async move {
                let mut put = store.put("bucket", "open", PutSpec::new(100)).await?;
                put.write(body(100)).await?;
                begun.notify_one();
                end.notified().await;
                put.commit(VersionSpec::default(), &Conditions::NONE).await
            })
        };
        begun.notified().await;
        sleep(6 * MINUTE).await;
        // Its room would have been enough for both.
        let refused = rig.nodes[0].put(1).await;
        assert!(matches!(refused, Err(Error::ControlStore(_))), "{refused:?}");
        end.notify_one();
        let refused = open.await.unwrap();
        assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");

        sleep(HOUR).await;
        assert!(rig.share(1).is_some(), "five hours");
        assert!(matches!(rig.nodes[1].put(50).await, Err(Error::Busy)));
        sleep(HOUR + 5 * MINUTE).await;
        assert_eq!(rig.share(1), None, "six hours");
        let refused = rig.nodes[1].put_until_refused(50).await;
        assert!(matches!(refused, Error::QuotaExceeded { .. }), "{refused:?}");
        let held = rig.stored().await;
        assert!(held > LIMIT - 50 && held <= LIMIT, "{held}");
        assert!(matches!(rig.nodes[0].put(1).await, Err(Error::ControlStore(_))));

        let control = rig.control.clone();
        rig.nodes[0].mend(&control).await;
        assert!(full(&rig.nodes[0].put(51).await));
        for _ in 0..10 {
            rig.nodes[1].delete_oldest().await.unwrap();
        }
        sleep(Duration::from_secs(2)).await;
        rig.nodes[0].put(51).await.unwrap();
        assert!(rig.share(1).is_some(), "it has a share again");
        assert!(rig.stored().await <= LIMIT);
    });
}

/// The clock that counts intervals stands still while a machine sleeps, or its virtual machine is paused; the wall clock
/// shows it. Put back, the wall clock does not make the share last longer.
#[test]
fn share_ends_by_whichever_clock_shows_more() {
    simulated(2, async {
        let mut rig = Rig::new(2).await;
        for node in [1, 0, 1, 0] {
            rig.nodes[node].put(100).await.unwrap();
        }
        rig.nodes[0].cut();
        rig.nodes[0].put(10).await.unwrap();
        let four_hours = 4 * 3_600_000;
        set_wall_ahead(rig.nodes[0].process, four_hours);
        let refused = rig.nodes[0].put(10).await;
        assert!(matches!(refused, Err(Error::ControlStore(_))), "{refused:?}");
        set_wall_ahead(rig.nodes[0].process, -10 * four_hours);
        rig.nodes[0].put(10).await.unwrap();
        sleep(4 * HOUR).await;
        let refused = rig.nodes[0].put(10).await;
        assert!(matches!(refused, Err(Error::ControlStore(_))), "{refused:?}");
        // One that reaches the control store has its share confirmed, and goes on.
        set_wall_ahead(rig.nodes[1].process, 2 * four_hours);
        rig.nodes[1].put(10).await.unwrap();
    });
}

/// Whose wall clock jumps does not take the share of another one back earlier.
#[test]
fn share_is_not_taken_back_early_by_clock_that_jumps() {
    simulated(3, async {
        let mut rig = Rig::new(3).await;
        for node in [1, 0, 2, 1, 0] {
            rig.nodes[node].put(100).await.unwrap();
        }
        rig.nodes[0].cut();
        sleep(MINUTE).await;
        assert!(rig.share(1).unwrap().suspected.is_some());
        for ms in [48 * 3_600_000, -48 * 3_600_000, 7 * 3_600_000] {
            set_wall_ahead(rig.nodes[1].process, ms);
            set_wall_ahead(rig.nodes[2].process, -ms);
            sleep(HOUR).await;
            assert!(rig.share(1).is_some());
        }
        rig.nodes[0].put(100).await.unwrap();
        sleep(2 * HOUR).await;
        assert!(rig.share(1).is_some(), "five hours");
        sleep(HOUR).await;
        assert_eq!(rig.share(1), None, "six hours");
    });
}

/// Random changes, cuts, waits of up to hours, and jumps of wall clocks: never more than the limit, and in the end all
/// of it can be used.
#[test]
fn random_hours_and_clocks_never_exceed_quota() {
    for seed in 1..=6 * times() {
        let taken = Rc::new(std::cell::Cell::new(0));
        let count = taken.clone();
        simulated(seed, async move {
            let mut rig = Rig::new(3).await;
            let control = rig.control.clone();
            let mut rng = Rng(seed * 7919);
            for step in 0..150 {
                let at = rng.below(3) as usize;
                match rng.below(16) {
                    0 => rig.nodes[at].cut(),
                    1 => rig.nodes[at].mend(&control).await,
                    2 => {
                        let ahead = rng.below(24 * 3_600_000) as i64 - 12 * 3_600_000;
                        set_wall_ahead(rig.nodes[at].process, ahead);
                    }
                    3..=5 => {
                        let shares = (1..=3).filter(|n| rig.share(*n).is_some()).count();
                        sleep(MINUTE * (1 + rng.below(90) as u32)).await;
                        let after = (1..=3).filter(|n| rig.share(*n).is_some()).count();
                        count.set(count.get() + shares.saturating_sub(after));
                    }
                    6 | 7 => drop(rig.nodes[at].delete_oldest().await),
                    _ => drop(rig.nodes[at].put(1 + rng.below(1500) as usize).await),
                }
                let held = rig.stored().await;
                assert!(held <= LIMIT, "seed {seed}, step {step}: {held}");
            }
            for node in &mut rig.nodes {
                node.mend(&control).await;
            }
            // What was charged too high is found by a count of each.
            sleep(20 * MINUTE).await;
            for node in &rig.nodes {
                node.call(|s| async move { s.count_uncounted(true).await }).await.unwrap();
            }
            sleep(MINUTE).await;
            let refused = rig.nodes[0].put_until_refused(50).await;
            assert!(matches!(refused, Error::QuotaExceeded { .. }), "seed {seed}: {refused:?}");
            let held = rig.stored().await;
            assert!(held <= LIMIT && held > LIMIT - 50, "seed {seed}: {held}");
        });
        assert!(taken.get() > 0, "seed {seed}: no share was taken back");
    }
}
