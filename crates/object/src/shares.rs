//! Keeping a quota together with other nodes: asking for shares, giving them back, counting
//! (docs/protocol.md 2.17).
//!
//! What is decided is decided by `ashlar_commit::quota_share`; here is when, and what is written. A node that is
//! alone has no shares: its count is all there is (`usage`).
//!
//! Invariants: one settlement of a bucket at a time; what a settlement gives back is out of reach before it is sent;
//! a share that was not confirmed for [`EXPIRY`](crate::node_share::EXPIRY) admits nothing, and it is taken
//! back no earlier than [`HOLD`] after its owner was told.
//!
//! Must not depend on: what is stored in a bucket.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::{News, Update};
use ashlar_commit::quota_share::{Keep, NodeNumber, QuotaRecord, Settled};
use ashlar_environment::time::{self, Instant};
use ashlar_format::BucketId;
use futures::future::BoxFuture;

use crate::node_share::Confirmed;
use crate::quota_record::{self, Read};
use crate::store::Inner;
use crate::usage::{Ledger, Reservation};
use crate::{Error, Result};

/// The share of a node that is gone is taken back so long after it was suspected. Longer than
/// [`EXPIRY`](crate::node_share::EXPIRY) by what a process
/// may stand still between the look at its clock and the end of a change, and by what clocks differ in their pace.
const HOLD: Duration = Duration::from_secs(6 * 3600);
/// Time between confirmations.
const CONFIRM: Duration = Duration::from_secs(60);
/// How long a body waits for others to give back what they do not need.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// That a bucket is full, as all nodes said, holds for so long without another question.
const FRESH: Duration = Duration::from_secs(1);
/// Pause between looks at what the others answered.
const PAUSE: Duration = Duration::from_millis(10);
/// Settlements that lose against others before it is given up.
const TRIES: u32 = 16;

impl Inner {
    /// Reserves room for a body.
    pub(crate) async fn reserve(&self, bucket: BucketId, bytes: u64) -> Result<Reservation> {
        match self.usage.reserve(bucket, bytes)? {
            Ok(room) => Ok(room),
            Err(ledger) => self.ask_for_room(bucket, ledger, bytes).await,
        }
    }

    /// Makes the share larger until there is room for `need` bytes.
    fn ask_for_room(
        &self,
        bucket: BucketId,
        ledger: Arc<Ledger>,
        need: u64,
    ) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async move {
            let _turn = ledger.asking.lock().await;
            let until = Instant::now() + MAX_WAIT;
            let mut ask = None;
            loop {
                if let Ok(room) = self.usage.reserve(bucket, need)? {
                    return Ok(room);
                }
                let Some(limit) = ledger.limit() else { continue };
                if ledger.with(|h| h.is_expired()) == Some(true) {
                    self.registry.control.barrier().await?;
                }
                let (used, granted, certain) =
                    match self.settle_share(bucket, &ledger, Keep::More { need, ask }).await? {
                        Settled::Write(_) | Settled::TakenBack => continue,
                        Settled::NotCounted => return Err(Error::Busy),
                        Settled::Short { used, granted, certain } => (used, granted, certain),
                    };
                let known =
                    ledger.with(|h| h.full.filter(|(at, was)| at.elapsed() < FRESH && granted <= *was));
                if certain || known.flatten().is_some() {
                    if certain {
                        ledger.with(|h| h.full = Some((Instant::now(), granted)));
                    }
                    return Err(Error::QuotaExceeded { used, limit });
                }
                match ask {
                    None => ask = self.change_quota(bucket, |record| Some(record.ask())).await?,
                    // Somebody has not answered: whether there is room is not known.
                    Some(_) if Instant::now() >= until => return Err(Error::Busy),
                    Some(_) => time::sleep(PAUSE).await,
                }
            }
        })
    }

    fn read_quota(&self, bucket: BucketId) -> Result<Read> {
        quota_record::decode(&self.registry.control.read(&quota_record::key(bucket)))
    }

    /// Changes the record in something else than the share of this node. `None`: it stays as it is.
    async fn change_quota<T: Send>(
        &self,
        bucket: BucketId,
        mut change: impl FnMut(&mut QuotaRecord) -> Option<T> + Send,
    ) -> Result<Option<T>> {
        let control = &self.registry.control;
        let write = |update: &mut Update| {
            let entry = control.read(&quota_record::key(bucket));
            let read = quota_record::decode(&entry)?;
            let mut record = read.record.clone();
            let changed = change(&mut record);
            if changed.is_some() {
                update.set(&entry, read.encode(&record)?);
            }
            Ok::<_, Error>(changed)
        };
        control.change(write).await
    }

    /// Settles the share of this node. [`Settled::Write`]: it is written.
    async fn settle_share(&self, bucket: BucketId, ledger: &Ledger, keep: Keep) -> Result<Settled> {
        let _turn = ledger.settling.lock().await;
        let control = &self.registry.control;
        for _ in 0..TRIES {
            let entry = control.read(&quota_record::key(bucket));
            let read = quota_record::decode(&entry)?;
            let mut record = read.record.clone();
            let limit = ledger.limit().ok_or(Error::Conflict)?;
            let began = Confirmed::now();
            let settled = ledger.with(|h| h.settle(&mut record, limit, keep));
            let (settled, life) = settled.ok_or(Error::Conflict)??;
            let Settled::Write(settlement) = settled else { return Ok(settled) };
            let Some(life) = life else { return Ok(settled) };
            let mut update = Update::new();
            update.set(&entry, read.encode(&record)?);
            match control.update(update).await {
                Ok(_) => {
                    ledger.with(|h| h.written(life, settlement, began));
                    return Ok(settled);
                }
                Err(ashlar_cluster::Error::Conflict(_)) => {
                    ledger.with(|h| h.refused(life, settlement));
                    let chance = ashlar_environment::random::u64().unwrap_or(0) % 256;
                    time::sleep(Duration::from_micros(100 * chance)).await;
                }
                // Whether the record says so now is found out by the next settlement.
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Busy)
    }

    /// What is to be done about the share of a bucket from time to time. Answers whether the bucket is to be
    /// counted. `confirmed`: when the control store was asked last in this pass over all buckets.
    pub(crate) async fn tend_share(
        &self,
        bucket: BucketId,
        confirmed: &mut Option<Confirmed>,
    ) -> Result<bool> {
        let ledger = self.usage.of(bucket);
        let Some(node) = self.usage.share_node().filter(|_| ledger.is_shared()) else { return Ok(false) };
        ledger.with(|h| h.forget_lost());
        if ledger.with(|h| h.confirmed.elapsed() >= CONFIRM) == Some(true) {
            let began = match *confirmed {
                Some(began) => began,
                None => {
                    let began = Confirmed::now();
                    self.registry.control.barrier().await?;
                    *confirmed = Some(began);
                    began
                }
            };
            let record = self.read_quota(bucket)?.record;
            ledger.with(|h| h.confirm(&record, began));
        }
        self.post_count(bucket, &ledger).await?;
        self.look_for_gone(bucket, &ledger, node).await?;
        self.answer_calls(bucket, &ledger, node).await?;
        if ledger.with(|h| h.is_idle()) == Some(true) {
            self.settle_share(bucket, &ledger, Keep::InUse).await?;
        }
        Ok(self.read_quota(bucket)?.record.charged.is_none() || ledger.with(|h| h.recount) == Some(true))
    }

    /// Answers what others ask for.
    async fn answer_calls(&self, bucket: BucketId, ledger: &Ledger, node: NodeNumber) -> Result<()> {
        let record = self.read_quota(bucket)?.record;
        ledger.with(|h| h.holder.saw(record.counts));
        let suspected = record.shares.get(&node).is_some_and(|s| s.suspected.is_some());
        if record.share_is_asked(node) {
            self.settle_share(bucket, ledger, Keep::InUse).await?;
        } else if record.calls(node) || suspected {
            self.settle_share(bucket, ledger, Keep::Rest).await?;
        }
        Ok(())
    }

    /// A scan of the bucket begins.
    pub(crate) async fn begin_shared_count(&self, bucket: BucketId, ledger: &Ledger) -> Result<()> {
        if ledger.is_shared() {
            // The end of an earlier life would make the count void.
            let read = self.read_quota(bucket)?.record;
            if ledger.with(|h| h.is_new_in(&read)) == Some(true) {
                self.settle_share(bucket, ledger, Keep::InUse).await?;
            }
            let before = self.read_quota(bucket)?.record;
            ledger.with(|h| (h.scanning, h.counted) = (Some(before), None));
        }
        Ok(())
    }

    /// Tells the other nodes what a scan has found, once that is certain.
    pub(crate) async fn post_count(&self, bucket: BucketId, ledger: &Ledger) -> Result<()> {
        let Some(before) = ledger.with(|h| h.counted.clone()).flatten() else { return Ok(()) };
        let certain = {
            let tally = ledger.tally.lock();
            tally.bytes().filter(|_| tally.unsettled() == 0)
        };
        let (Some(bytes), Some(parts)) = (certain, self.usage.parts.bytes(bucket)) else { return Ok(()) };
        let bytes = bytes.saturating_add(parts);
        let post = |record: &mut QuotaRecord| record.counted(&before, bytes).then_some(());
        let posted = self.change_quota(bucket, post).await?;
        ledger.with(|h| (h.counted, h.recount) = (None, posted.is_none()));
        if let Some(node) = self.usage.share_node() {
            self.answer_calls(bucket, ledger, node).await?;
        }
        Ok(())
    }

    /// Suspects nodes that are not announced, and takes back the shares of those that stay away.
    async fn look_for_gone(&self, bucket: BucketId, ledger: &Ledger, me: NodeNumber) -> Result<()> {
        let announced = self.registry.control.announced().borrow().clone();
        let record = self.read_quota(bucket)?.record;
        let gone = record.shares.iter().filter(|(node, _)| **node != me && !announced.contains(node));
        let gone: Vec<_> = gone.map(|(node, share)| (*node, *share)).collect();
        ledger.with(|h| {
            h.gone.retain(|suspicion, _| gone.iter().any(|(_, s)| s.suspected == Some(*suspicion)))
        });
        for (node, share) in gone {
            let Some(suspicion) = share.suspected else {
                // From here on its owner learns of it when it confirms its share.
                self.change_quota(bucket, |r| r.suspect(node, share.life)).await?;
                continue;
            };
            let since = ledger.with(|h| *h.gone.entry(suspicion).or_insert_with(Instant::now));
            if since.is_some_and(|since| since.elapsed() >= HOLD) {
                let take = |r: &mut QuotaRecord| r.take_back(node, share.life, suspicion).then_some(());
                let taken = self.change_quota(bucket, take).await?;
                ledger.with(|h| h.recount |= taken.is_some());
            }
        }
        Ok(())
    }

    /// Takes up what other nodes ask for.
    pub(crate) fn take_quota_news(self: &Arc<Inner>, news: &News) {
        let Some(node) = self.usage.share_node() else { return };
        let buckets: Vec<BucketId> = match news {
            News::Changes(changes) => {
                changes.iter().filter_map(|c| quota_record::bucket_of(&c.key)).collect()
            }
            News::Everything => self.usage.shared_buckets(),
        };
        for bucket in buckets {
            let ledger = self.usage.of(bucket);
            if !ledger.is_shared() {
                continue;
            }
            let Ok(Read { record, .. }) = self.read_quota(bucket) else { continue };
            ledger.with(|h| h.holder.saw(record.counts));
            if !record.calls(node) {
                continue;
            }
            let inner = self.clone();
            drop(ashlar_environment::spawn("quota-share", async move {
                if let Err(error) = inner.answer_calls(bucket, &ledger, node).await {
                    tracing::debug!(%error, "a call for shares of a quota is answered later");
                }
            }));
        }
    }
}
