//! Makes trouble: kills, pauses and cuts off one member after the other.
//!
//! Invariant: at most one member is in trouble at a time, so that a quorum is left.

use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::random::Seeded;
use tokio::sync::{Mutex, watch};

use crate::proxy::{Network, Proxy};
use crate::support::Cluster;

/// Makes trouble until it is stopped.
pub struct Nemesis {
    stop: watch::Sender<bool>,
    done: watch::Receiver<u32>,
    task: tokio::task::JoinHandle<()>,
}

impl Nemesis {
    /// Begins. `proxies` are between the clients and the members, in order of the members.
    pub fn begin(cluster: Arc<Mutex<Cluster>>, proxies: Vec<Proxy>, seed: u64) -> Nemesis {
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let (count, counted) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut random = Seeded::new(seed);
            let mut done = 0;
            while !*stopped.borrow() {
                let at = random.below(proxies.len() as u64) as usize;
                let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
                match done % 4 {
                    0 => {
                        cluster.lock().await.members[at].kill();
                        pause(700).await;
                        let mut cluster = cluster.lock().await;
                        cluster.members[at].start();
                        cluster.member_ready(at).await;
                    }
                    1 => {
                        cluster.lock().await.members[at].pause();
                        pause(1200).await;
                        cluster.lock().await.members[at].go_on();
                    }
                    2 => {
                        proxies[at].set(Network::Cut);
                        pause(1200).await;
                        proxies[at].set(Network::Passes);
                    }
                    _ => {
                        proxies[at].set(Network::Refuses);
                        pause(300).await;
                        proxies[at].set(Network::Passes);
                    }
                }
                done += 1;
                count.send_replace(done);
                let _ = tokio::time::timeout(Duration::from_millis(700), stopped.changed()).await;
            }
        });
        Nemesis { stop, done: counted, task }
    }

    /// Waits until there was each kind of trouble.
    pub async fn each_kind(&mut self) {
        self.done.wait_for(|done| *done >= 4).await.unwrap();
    }

    /// Ends, with all members in order.
    pub async fn end(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }
}
