//! The usage of buckets is that of the cluster at every node: nodes exchange what each changed, and one counts each bucket.
//! What is made of that is decided in `usage_board`.
//!
//! Invariants: an exchange asks only for what changed since the last one, and waits no longer than [`PATIENCE`] for a node;
//! one exchange at a time. A machine that is alone counts for itself and does nothing here.
//!
//! Must not depend on: what shows usage.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_environment::time::{self, Instant};
use ashlar_format::BucketId;
use ashlar_node::Node;
use ashlar_node::clock::now_ms;
use ashlar_node::questions::NoAnswer;
use parking_lot::Mutex;

use super::question::Question;
use super::usage_board::{Board, PartNow, UsageShare, base};

/// How long other nodes may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between exchanges.
const INTERVAL: Duration = Duration::from_secs(2);
/// An exchange that ended so short a time ago need not be repeated for whoever asks.
const FRESH: Duration = Duration::from_millis(200);
/// Time after a count that failed.
const RETRY_MS: i64 = 10_000;
/// Most parts, and most bases, in an answer.
const MOST: usize = 1000;
/// Most answers that one exchange asks a node for.
const ROUNDS: usize = 64;

/// The usage of the cluster, as this node knows it.
pub struct ClusterUsage {
    node: Arc<Node>,
    life: u64,
    board: Mutex<Board>,
    /// When the last exchange ended. Held during one.
    exchanged: tokio::sync::Mutex<Option<Instant>>,
}

impl ClusterUsage {
    /// Of a node.
    pub fn new(node: Arc<Node>) -> ClusterUsage {
        // Zero is no process.
        let life = ashlar_environment::random::u64().unwrap_or(now_ms().unsigned_abs()).max(1);
        let board = Mutex::new(Board::new(node.number(), life));
        ClusterUsage { node, life, board, exchanged: Default::default() }
    }

    /// Answers another node: see [`Question::Usage`].
    pub fn share(&self, [parts_since, bases_since]: [u64; 2]) -> UsageShare {
        let parts = self.node.store.usage_parts(parts_since, MOST);
        let (next_base, bases, more_bases) = self.board.lock().bases_since(bases_since, MOST);
        UsageShare {
            life: self.life,
            next: [parts.next, next_base],
            parts: parts.parts.into_iter().map(|(id, part)| (id.to_hex(), part.own, part.losses)).collect(),
            bases,
            more: parts.more || more_bases,
        }
    }

    /// Answers another node: see [`Question::UsagePart`].
    pub fn part(&self, bucket: BucketId) -> PartNow {
        let part = self.node.store.usage_part(bucket);
        PartNow { life: self.life, own: part.own, losses: part.losses }
    }

    /// Brings the usage of all buckets up to date, as far as other nodes answer.
    pub async fn refresh(&self) {
        if self.node.member.is_none() {
            return;
        }
        let mut exchanged = self.exchanged.lock().await;
        if exchanged.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let nodes = self.node.nodes();
        let others = nodes.iter().filter(|(n, runs)| *runs && *n != self.node.number());
        futures::future::join_all(others.map(|(n, _)| self.ask(*n))).await;
        self.show(nodes);
        *exchanged = Some(Instant::now());
    }

    /// Asks a node for what is new there.
    async fn ask(&self, number: u16) {
        for _ in 0..ROUNDS {
            let question = Question::Usage { since: self.board.lock().since(number) };
            let answer = self.node.ask(number, question.encode(), PATIENCE).await;
            let share = answer.and_then(|a| {
                serde_json::from_slice(&a).map_err(|_| NoAnswer::Refused("it is not understood".to_owned()))
            });
            match share {
                Ok(share) => {
                    if !self.board.lock().heard(number, share) {
                        return;
                    }
                }
                Err(no) => return tracing::debug!(node = number, %no, "no usage of another node"),
            }
        }
    }

    /// Shows what is known.
    fn show(&self, nodes: Vec<(u16, bool)>) {
        let buckets = self.node.store.buckets();
        let there: HashSet<BucketId> = buckets.iter().map(|b| b.id).collect();
        let mut board = self.board.lock();
        board.running(nodes.into_iter().filter(|(n, _)| *n != self.node.number()), now_ms());
        board.keep(&there);
        for id in there {
            self.node.store.set_rest_of_usage(id, board.rest(id));
        }
    }

    /// Exchanges and counts, in the background, until the server ends.
    pub fn begin(self: &Arc<Self>) {
        if self.node.member.is_none() {
            return;
        }
        let (exchanging, counting) = (Arc::downgrade(self), Arc::downgrade(self));
        ashlar_environment::spawn("usage", async move {
            while let Some(usage) = exchanging.upgrade() {
                usage.refresh().await;
                drop(usage);
                time::sleep(INTERVAL).await;
            }
        });
        ashlar_environment::spawn("usage", count_due(counting));
    }

    /// Counts a bucket for all nodes.
    async fn count(&self, bucket: BucketId) -> Result<(), String> {
        let began = now_ms();
        let before = self.parts(bucket).await?;
        let found = self.node.store.count_with_part(bucket).await;
        let (numbers, own) = found.map_err(|e| e.to_string())?;
        let own = PartNow { life: self.life, own: own.own, losses: own.losses };
        let after = self.parts(bucket).await?;
        let times = (now_ms(), now_ms() - began);
        let made = base(numbers, (self.node.number(), own), &before, &after, times);
        self.board.lock().counted(bucket, made.ok_or("a node was started meanwhile")?);
        Ok(())
    }

    /// The parts of all other nodes that run.
    async fn parts(&self, bucket: BucketId) -> Result<BTreeMap<u16, PartNow>, String> {
        let question = Question::UsagePart { bucket: bucket.to_hex() };
        let mut parts = BTreeMap::new();
        for (number, answer) in self.node.ask_all(question.encode(), PATIENCE).await {
            match answer {
                Ok(bytes) => parts.insert(number, serde_json::from_slice(&bytes).map_err(|e| e.to_string())?),
                Err(NoAnswer::NotRunning) => None,
                Err(no) => return Err(format!("node {number} {no}")),
            };
        }
        Ok(parts)
    }
}

/// Counts the buckets that this node counts, whenever that is due.
async fn count_due(usage: Weak<ClusterUsage>) {
    let mut failed: BTreeMap<[u8; 16], i64> = BTreeMap::new();
    loop {
        time::sleep(INTERVAL).await;
        let Some(usage) = usage.upgrade() else { return };
        let (node, mut counted) = (&usage.node, false);
        for bucket in node.store.buckets() {
            let losses = || node.store.usage_part(bucket.id).losses;
            let waits = failed.get(&bucket.id.0).is_some_and(|at| now_ms() - at < RETRY_MS);
            if waits
                || !node.counts(bucket.id)
                || !usage.board.lock().wants_count(bucket.id, losses(), now_ms())
            {
                continue;
            }
            match usage.count(bucket.id).await {
                Ok(()) => {
                    failed.remove(&bucket.id.0);
                    counted = true;
                }
                Err(why) => {
                    tracing::debug!(bucket = bucket.name, why, "the bucket is not counted yet");
                    failed.insert(bucket.id.0, now_ms());
                }
            }
        }
        failed.retain(|_, at| now_ms() - *at < RETRY_MS);
        if counted {
            usage.show(node.nodes());
        }
    }
}
