//! Makes missing shards of one piece of data again.
//!
//! Invariants: a shard is made from verified shards of the same write; if its register stops naming the data
//! while shards are being made, these are dropped again; one stripe is in memory at a time.
//!
//! Must not depend on: what the bytes are.

use crate::damage::What;
use crate::heal::answers;
use crate::heal_queue::{Depth, Healed};
use crate::prefetch::Opening;
use crate::sets::{Inner, Sets};
use crate::table::{Member, View};
use crate::update::{Decision, UpdateError, set_durable};
use crate::{Error, Result};
use ashlar_commit::{SlotSet, version_list};
use ashlar_drive::{Error as DriveError, InlineShard, Tally, WriterHandle};
use ashlar_environment::time::Instant;
use ashlar_format::{Ballot, Body, Data, Part, RegisterKey, Version};
use ashlar_pacer::Pacer;
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::Arc;

/// Whether data that the record's `body` names may be written anew and dropped: nothing else names it. While an upload
/// is being completed, its parts, the upload and the key do (docs/protocol.md 2.8); a shared version's data, a version
/// in a page may.
fn may_widen(body: &Body, data: &Data) -> bool {
    let (versions, with_pages) = match body {
        Body::Versions(versions) => (versions, false),
        Body::Paged(paged) => (&paged.head, true),
        _ => return false,
    };
    let names = |v: &&Version| v.parts.iter().any(|p| p.data.write_id == data.write_id);
    let named_elsewhere = |v: &Version| v.is_marked() || with_pages && version_list::is_shared(v);
    let mut naming = versions.iter().filter(names).peekable();
    naming.peek().is_some() && !naming.any(named_elsewhere)
}

impl Inner {
    /// Makes the missing shards of one piece of data, which the record's `body`, or a page of it, names. `direct`: the
    /// record itself names it, so that what becomes of it can be noted there; what a page says of it stays as it is.
    pub(crate) async fn heal_part(
        self: &Arc<Self>,
        key: &RegisterKey,
        body: &Body,
        part: &Part,
        depth: Depth,
        direct: bool,
    ) -> Result<Healed> {
        let view = self.view(key.group())?;
        let data = part.data;
        let later = Healed { later: 1, ..Healed::default() };
        // Its shards may still be written: then they are not missing.
        if self.is_under_way(data.write_id) {
            return Ok(later);
        }
        let (mut missing, mut present, mut damaged) = (SlotSet::EMPTY, SlotSet::EMPTY, SlotSet::EMPTY);
        // They may have their shards.
        let (mut unheard, mut failed) = (SlotSet::EMPTY, SlotSet::EMPTY);
        for (slot, m) in view.members() {
            if m.is_hung() {
                unheard.insert(slot);
                continue;
            }
            match self.shard_state(m, part, slot, depth).await {
                Ok(()) => {
                    present.insert(slot);
                }
                Err(DriveError::Missing) => {
                    missing.insert(slot);
                }
                Err(DriveError::Corrupt(_)) => {
                    damaged.insert(slot);
                    m.drive.discard(view.group, view.epoch, &[(data.write_id, data.shard_of(slot))]);
                    missing.insert(slot);
                }
                Err(DriveError::Unanswered | DriveError::Offline(_)) => {
                    unheard.insert(slot);
                }
                Err(_) => {
                    failed.insert(slot);
                }
            }
        }
        let mut healed = Healed { unheard: view.in_service(unheard.or(failed)), ..Healed::default() };
        // Shards are dropped when their register no longer names them; then they are not missing either.
        if !missing.is_empty() && !self.is_named(key, &data).await? {
            return Ok(healed);
        }
        if !missing.is_empty() {
            let ballot = self.ballots.next(view.epoch);
            let made = self.make_shards(&view, key, part, missing, ballot, Some(&self.heal_pacer)).await;
            let whole = made.as_ref().map_or(SlotSet::EMPTY, |made| *made);
            for slot in missing.iter() {
                let shard = data.shard_of(slot);
                if damaged.contains(slot) {
                    self.damages.found(&view, slot, key, What::Shard(shard), whole.contains(slot));
                } else if depth.is_deep() && !self.rebuilds.is_filling(&view, slot) {
                    self.damages.found(&view, slot, key, What::Missing(shard), whole.contains(slot));
                }
            }
            match made {
                Ok(made) => {
                    healed.shards = made.len().into();
                    healed.missing = missing.without(made).len().into();
                    healed.bytes = u64::from(made.len()) * data.shard_len(part.size);
                    present = present.or(made);
                    self.recheck_named(&view, key, &data, made).await?;
                }
                Err(_) if !self.is_named(key, &data).await? => return Ok(healed),
                Err(e) => {
                    healed.missing = missing.len().into();
                    let may_exist = present.or(unheard);
                    if may_exist.len() < data.k && view.members().count() == view.slots.len() {
                        healed.lost = 1;
                        tracing::error!(?key, write = %data.write_id, "data is lost: {e}");
                    } else {
                        tracing::warn!(?key, write = %data.write_id, "cannot heal yet: {e}");
                    }
                    return Ok(healed);
                }
            }
        }
        if direct && present == view.quorum.all() {
            if data.k < crate::layout::width(view.k, part.size, self.options.min_shard)
                && may_widen(body, &data)
            {
                self.widen(key, part).await?;
            } else if data.durable != present.0 {
                self.note_durable(key, &data, present).await?;
            }
        }
        Ok(healed)
    }

    /// Drops new shards of data that its register stopped naming in the meantime.
    async fn recheck_named(&self, view: &View, key: &RegisterKey, data: &Data, made: SlotSet) -> Result<()> {
        if !self.is_named(key, data).await? {
            self.drop_on(view, made, std::slice::from_ref(data));
        }
        Ok(())
    }

    /// Writes the slots that are durable now into the record.
    async fn note_durable(self: &Arc<Self>, key: &RegisterKey, data: &Data, slots: SlotSet) -> Result<()> {
        let note = |body: &mut Body| {
            set_durable(body, data, slots);
            true
        };
        self.change_data(key, data, &[], note).await
    }

    /// Changes something about one piece of data, if the register still names it and `change` says true.
    async fn change_data(
        self: &Arc<Self>,
        key: &RegisterKey,
        data: &Data,
        staged: &[&crate::write::Staged],
        change: impl Fn(&mut Body) -> bool + Sync,
    ) -> Result<()> {
        let view = self.view(key.group())?;
        let hash = ashlar_checksum::key_hash(key.as_bytes());
        let Some(now) = self.read(key, hash, None).await? else { return Ok(()) };
        let Some(summary) = self.summary(&view, key, now.ballot).await else { return Ok(()) };
        let sets = Sets { inner: self.clone() };
        let done = sets
            .update_register::<(), Infallible>(key, staged, |base| match base {
                // Only the exact state whose summary was read.
                Some(r) if *r == *now.record && r.data().any(|p| p.data.write_id == data.write_id) => {
                    let mut body = r.body.clone();
                    if !change(&mut body) {
                        return Decision::Keep(());
                    }
                    let summary = summary.clone();
                    Decision::Write { body, summary, moved: false, out: () }
                }
                _ => Decision::Keep(()),
            })
            .await;
        match done {
            Ok(_) => Ok(()),
            Err(UpdateError::Set(e)) => Err(e),
            Err(UpdateError::Refused(e)) => match e {},
        }
    }

    /// Writes data again with as many data shards as its size and code require: it was written while drives
    /// were missing.
    async fn widen(self: &Arc<Self>, key: &RegisterKey, part: &Part) -> Result<()> {
        let old = part.data;
        let _turn = self.copy_permit().await;
        let mut to = self.begin(key, part.size, u8::MAX).await?;
        if to.code().0 <= old.k {
            return Ok(());
        }
        let mut from = self.open(key, &old, part.size, 0..part.size, Opening::default()).await?;
        let (k, m) = to.code();
        while let Some(b) = from.next().await {
            let b = b?;
            // Not slept for here: that would keep copies of clients waiting for the permit.
            self.heal_pacer.charge(b.len() as u64 * u64::from(k + m) / u64::from(k));
            to.write(b).await?;
        }
        let staged = to.finish().await?;
        let new = staged.data();
        self.change_data(key, &old, &[&staged], |body| {
            if !may_widen(body, &old) {
                return false;
            }
            crate::update::each_data(body, |d| {
                if d.write_id == old.write_id {
                    *d = new;
                }
            });
            true
        })
        .await
    }

    /// Makes the shards of the slots `wanted` from the others and writes them there. Returns the slots on
    /// which they are durable now. `pacer`: what is written goes at its rate; small shards are only charged, so the
    /// caller has to pace afterwards. `None`: a client's request waits for them.
    pub(crate) async fn make_shards(
        self: &Arc<Self>,
        view: &View,
        key: &RegisterKey,
        part: &Part,
        wanted: SlotSet,
        ballot: Ballot,
        pacer: Option<&Pacer>,
    ) -> Result<SlotSet> {
        let (data, size) = (&part.data, part.size);
        let wanted = wanted.without(view.hung(wanted));
        if wanted.is_empty() {
            return Ok(wanted);
        }
        if data.inline {
            let rows = self.rows_of(view, key, data, size, wanted).await?;
            let tally = Tally::new(rows.len() as u8);
            let asked: SlotSet = rows.iter().map(|(slot, _)| *slot).collect();
            for (slot, row) in rows {
                let Some(m) = view.member(slot) else { continue };
                let (owner, write_id, index) = (key.clone(), data.write_id, data.shard_of(slot));
                if let Some(pacer) = pacer {
                    pacer.charge(row.len() as u64);
                }
                let shard = InlineShard { owner, write_id, index, ballot, epoch: view.epoch, data: row };
                m.drive.stage(shard, tally.completion(slot));
            }
            let o = answers(&tally, view, asked).await;
            return Ok(SlotSet(o.ok | o.uncounted));
        }
        let mut writers = self.reserve(view, key, data, size, wanted, ballot);
        if writers.is_empty() {
            return Ok(SlotSet::EMPTY);
        }
        let mut stripes = self.stripes(key, data, size, wanted).await?;
        loop {
            let began = Instant::now();
            let Some((rows, row)) = stripes.next().await? else { break };
            let mut kept = Vec::with_capacity(writers.len());
            for (slot, mut w) in writers {
                let at = usize::from(data.shard_of(slot)) * row;
                let member = view.member(slot);
                let written = match member {
                    Some(m) => m.patiently(w.write(rows.slice(at..at + row))).await,
                    None => Err(DriveError::Offline("it went away")),
                };
                match written {
                    Ok(()) => kept.push((slot, w)),
                    Err(e) => tracing::debug!(slot, "heal: a drive stopped taking a shard: {e}"),
                }
            }
            writers = kept;
            if writers.is_empty() {
                return Ok(SlotSet::EMPTY);
            }
            // A pause can be long, and requests need the memory.
            drop(rows);
            if let Some(pacer) = pacer {
                pacer.pace((row * writers.len()) as u64, began.elapsed()).await;
            }
        }
        let tally = Tally::new(writers.len() as u8);
        let asked: SlotSet = writers.iter().map(|(s, _)| *s).collect();
        for (slot, w) in writers {
            w.finish(tally.completion(slot));
        }
        let o = answers(&tally, view, asked).await;
        Ok(SlotSet(o.ok | o.uncounted))
    }

    /// Whether a slot has its shard.
    async fn shard_state(&self, m: &Member, part: &Part, slot: u8, depth: Depth) -> Result<(), DriveError> {
        let (id, shard) = (part.data.write_id, part.data.shard_of(slot));
        if !depth.is_deep() {
            return m.open(id, shard).await.map(|_| ());
        }
        let state = m.patiently(m.drive.verify_shard(id, shard)).await;
        if depth == Depth::Scrubbed && matches!(state, Ok(()) | Err(DriveError::Corrupt(_))) {
            self.scrub_pacer.charge(part.data.shard_len(part.size));
        }
        state
    }

    fn reserve(
        &self,
        view: &View,
        key: &RegisterKey,
        data: &Data,
        size: u64,
        wanted: SlotSet,
        ballot: Ballot,
    ) -> Vec<(u8, WriterHandle)> {
        let len = data.shard_len(size);
        let frame = data.row_len(u64::from(data.stripe)) as u32;
        let begin = |slot: u8| {
            let (id, shard) = (data.write_id, data.shard_of(slot));
            let w = view.member(slot)?.drive.begin_shard(key, id, shard, ballot, view.epoch, len, frame);
            w.ok().map(|w| (slot, w))
        };
        wanted.iter().filter_map(begin).collect()
    }

    /// All rows of a one-stripe body for the slots `wanted`.
    pub(crate) async fn rows_of(
        self: &Inner,
        view: &View,
        key: &RegisterKey,
        data: &Data,
        size: u64,
        wanted: SlotSet,
    ) -> Result<Vec<(u8, Bytes)>> {
        let Some(me) = self.me.upgrade() else { return Err(Error::Unavailable("stopping".into())) };
        let mut stripes = me.stripes(key, data, size, wanted).await?;
        let Some((rows, row)) = stripes.next().await? else {
            return Err(Error::Invalid("an empty body has no shards"));
        };
        let cut = |slot: u8| {
            let at = usize::from(data.shard_of(slot)) * row;
            (slot, rows.slice(at..at + row))
        };
        Ok(wanted.iter().filter(|s| view.member(*s).is_some()).map(cut).collect())
    }

    /// The encoded stripes of a body, read from slots other than `without`.
    async fn stripes(
        self: &Arc<Self>,
        key: &RegisterKey,
        data: &Data,
        size: u64,
        without: SlotSet,
    ) -> Result<Stripes> {
        let opening = Opening { avoid: Some(without), ..Opening::default() };
        let reader = self.open(key, data, size, 0..size, opening).await?;
        Ok(Stripes { inner: self.clone(), data: *data, size, at: 0, reader, rest: Bytes::new() })
    }
}

/// Reads a body stripe by stripe, with parity.
struct Stripes {
    inner: Arc<Inner>,
    data: Data,
    size: u64,
    at: u64,
    reader: crate::read::ObjectReader,
    rest: Bytes,
}

impl Stripes {
    /// The next stripe: all n rows, and the length of a row.
    async fn next(&mut self) -> Result<Option<(Bytes, usize)>> {
        let bytes = u64::from(self.data.stripe).min(self.size - self.at) as usize;
        if bytes == 0 {
            return Ok(None);
        }
        let row = self.data.row_len(bytes as u64) as usize;
        let n = usize::from(self.data.k + self.data.m);
        let mut buf = self.inner.options.pool.get(n * row).await;
        let mut filled = 0;
        while filled < bytes {
            if self.rest.is_empty() {
                self.rest = match self.reader.next().await {
                    Some(b) => b?,
                    None => return Err(Error::Corrupt("a body shorter than its record says".into())),
                };
            }
            let take = self.rest.len().min(bytes - filled);
            buf[filled..filled + take].copy_from_slice(&self.rest.split_to(take));
            filled += take;
        }
        buf[bytes..row * usize::from(self.data.k)].fill(0);
        let code = self.inner.code(&self.data)?;
        self.inner.engine.encode(&code, &mut buf, row).map_err(|e| Error::Corrupt(e.to_string()))?;
        self.at += bytes as u64;
        Ok(Some((buf.freeze(), row)))
    }
}
