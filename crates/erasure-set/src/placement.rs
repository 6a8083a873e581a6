//! Where the shards of a body are, for operators: which drive of the group has which shard, and whether it is good.
//!
//! Invariants: asks every slot once and changes nothing, not even the queue of heals; a drive that does not answer is
//! named and not waited for longer than for a read.
//!
//! Must not depend on: what the bytes are, how drives are named for people.

use crate::Result;
use crate::sets::Sets;
use ashlar_drive::Error as DriveError;
use ashlar_format::{Data, DriveId, RegisterKey};
use futures::future::{BoxFuture, join_all};

/// The state of a shard at the drive that should have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// The drive has it; if its bytes were to be verified, they are as they were written.
    Good,
    /// The drive does not have it.
    Missing,
    /// Its bytes are not those that were written.
    Damaged(String),
    /// The drive is not in service or does not answer.
    Unknown(String),
}

/// A shard and its drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedShard {
    /// The number of the shard: below k a data shard, from k on a parity shard.
    pub shard: u8,
    /// The drive of its slot.
    pub drive: DriveId,
    /// What that drive says about it.
    pub state: ShardState,
}

impl Sets {
    /// The shards of a body that the register `key` names, in order of their numbers. `verify`: every byte is read on
    /// its drive and compared with its hash; otherwise the drives only look whether they have it.
    ///
    /// # Errors
    /// There is no such group.
    pub fn placement<'a>(
        &'a self,
        key: &'a RegisterKey,
        data: &'a Data,
        verify: bool,
    ) -> BoxFuture<'a, Result<Vec<PlacedShard>>> {
        Box::pin(async move {
            let view = self.inner.view(key.group())?;
            let drives = self.slots(key.group());
            let state = |slot: u8| {
                let (view, id, shard) = (&view, data.write_id, data.shard_of(slot));
                async move {
                    let Some(member) = view.member(slot) else {
                        return ShardState::Unknown("the drive is not in service".into());
                    };
                    if member.is_hung() {
                        return ShardState::Unknown("the drive does not answer".into());
                    }
                    let found = match verify {
                        true => member.patiently(member.drive.verify_shard(id, shard)).await,
                        false => member.open(id, shard).await.map(drop),
                    };
                    match found {
                        Ok(()) => ShardState::Good,
                        Err(DriveError::Missing) => ShardState::Missing,
                        Err(DriveError::Corrupt(why)) => ShardState::Damaged(why),
                        Err(other) => ShardState::Unknown(other.to_string()),
                    }
                }
            };
            let placed = drives.into_iter().enumerate().map(|(slot, drive)| async move {
                let slot = slot as u8;
                PlacedShard { shard: data.shard_of(slot), drive, state: state(slot).await }
            });
            let mut all = join_all(placed).await;
            all.sort_by_key(|p| p.shard);
            Ok(all)
        })
    }
}
