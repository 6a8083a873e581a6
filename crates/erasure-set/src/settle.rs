//! Rounds that change nothing: they decide what is undecided.
//!
//! Invariant: the caller of a round holds its key's turn, and passes it on, so that rounds that meet other proposals are made
//! with a turn among the nodes.
//!
//! Must not depend on: what a record means.

use crate::key_turn::KeyTurn;
use crate::propose::Attempt;
use crate::register::Register;
use crate::sets::Inner;
use crate::table::View;
use crate::{Error, Result};
use ashlar_environment::time::Instant;
use ashlar_format::{Ballot, RegisterKey};
use bytes::Bytes;

impl Inner {
    /// Decides an undecided register, so that no older record can appear any more. The caller holds the key's
    /// turn.
    pub(crate) async fn settle(
        &self,
        key: &RegisterKey,
        hash: u64,
        turn: &mut KeyTurn,
    ) -> Result<Option<Register>> {
        let (began, mut round) = (Instant::now(), 0);
        while round == 0 || self.may_propose_again(round, began) {
            if round > 0 {
                self.met(turn, hash, round).await;
            }
            round += 1;
            let view = self.view(key.group())?;
            let Some(mut a) = Attempt::prepare(self, view, key, hash, false).await? else { continue };
            let base = a.base.take();
            a.await_all_promises().await;
            if a.idle_known() || a.complete(base.as_ref()).await?.is_some() {
                self.undecided_registers.settled(hash);
                return Ok(base.map(|b| a.register(b)));
            }
        }
        Err(Error::Contended)
    }

    /// Like [`Inner::settle`], and all slots accept the record again, whether it was decided or not.
    pub(crate) async fn renew(&self, key: &RegisterKey, hash: u64, turn: &mut KeyTurn) -> Result<()> {
        let (began, mut round) = (Instant::now(), 0);
        while round == 0 || self.may_propose_again(round, began) {
            if round > 0 {
                self.met(turn, hash, round).await;
            }
            round += 1;
            let view = self.view(key.group())?;
            let Some(mut a) = Attempt::prepare(self, view, key, hash, false).await? else { continue };
            let base = a.base.take();
            a.await_all_promises().await;
            if base.is_none() && a.idle_known() || a.complete(base.as_ref()).await?.is_some() {
                self.undecided_registers.settled(hash);
                return Ok(());
            }
        }
        Err(Error::Contended)
    }

    /// Settles the registers of failed updates; returns how many are left.
    pub(crate) async fn settle_undecided(&self) -> usize {
        let mut left = 0;
        for key in self.undecided_registers.keys() {
            let hash = ashlar_checksum::key_hash(key.as_bytes());
            let mut turn = self.turn(hash).await;
            left += usize::from(self.settle(&key, hash, &mut turn).await.is_err());
        }
        left
    }

    /// The summary that some slot stores with the record of `ballot`.
    pub(crate) async fn summary(&self, view: &View, key: &RegisterKey, ballot: Ballot) -> Option<Bytes> {
        // Of a drive of this process, without a scan.
        for (_, m) in view.prompt_first() {
            if let Some(summary) = m.drive.summary_now(key, ballot, view.epoch) {
                return Some(summary);
            }
        }
        let from = key.as_bytes();
        let mut to = from.to_vec();
        to.push(0);
        for (_, m) in view.prompt_first() {
            let entries = m.scan(from, &to, 1, view.epoch).await;
            if let Some(e) = entries.ok().and_then(|e| e.into_iter().next())
                && e.ballot == ballot
            {
                return Some(e.summary);
            }
        }
        None
    }

    /// Whether a message may be sent: always, except if a test stops an update half-way.
    #[cfg(not(test))]
    #[allow(clippy::unused_self)]
    pub(crate) fn allowed(&self, _stage: bool, _slot: u8) -> bool {
        true
    }
    #[cfg(test)]
    pub(crate) fn allowed(&self, stage: bool, slot: u8) -> bool {
        self.gate.allows(stage, slot)
    }

    /// Waits while a test holds an update back that is about to make the missing shards of its base.
    #[cfg(not(test))]
    #[allow(clippy::unused_async, clippy::unused_self)]
    pub(crate) async fn before_mending(&self) {}
    #[cfg(test)]
    pub(crate) async fn before_mending(&self) {
        self.gate.mending().await;
    }
}
