//! READ of a register on all drives of a group: those of this process one by one, those of another node with one message.
//!
//! Invariants: a drive that has to wait for its device is asked by itself and delays no other; no request is added to those of
//! a drive that hangs or is away; what a drive did not answer is silence, never absence.
//!
//! Must not depend on: what the answers mean together, what a record means.

use crate::prefetch::Plan;
use crate::register::Answers;
use crate::sets::Inner;
use crate::table::{Member, View};
use ashlar_commit::{ReadStep, SlotSet};
use ashlar_drive::{Error as DriveError, ReadReply, ReadWithShard};
use ashlar_environment::time::Instant;
use ashlar_format::{Ballot, DriveId, RegisterKey};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use smallvec::SmallVec;
use std::time::Duration;

/// What a drive answered; `None`: it has to be asked by itself.
type Reply = Option<Result<ReadReply, DriveError>>;

/// The answers of drives of one node, with their slots.
pub(crate) struct Told {
    replies: SmallVec<[(u8, Reply); 4]>,
    shards: SmallVec<[(u8, Bytes); 4]>,
    took: Duration,
}

pub(crate) type Waiting<'a> = FuturesUnordered<BoxFuture<'a, Told>>;

impl Inner {
    /// Asks all drives. `known`: the ballot of a record that need not be sent, zero if there is none yet; a record that one
    /// drive shows need not be sent by others. `None`: all send their records.
    pub(crate) fn ask_each<'a>(
        &self,
        view: &View,
        key: &'a RegisterKey,
        known: Option<Ballot>,
        answers: &mut Answers,
        waiting: &mut Waiting<'a>,
    ) -> ReadStep {
        let newest = self.ask_here(view, key, known, answers, waiting);
        self.ask_there(view, key, newest, None, answers, waiting)
    }

    /// Asks the drives of this process, which answer at once where they can. Slots without a drive are silent. Returns `known`,
    /// or the ballot of a newer record that one of them showed.
    pub(crate) fn ask_here<'a>(
        &self,
        view: &View,
        key: &'a RegisterKey,
        known: Option<Ballot>,
        answers: &mut Answers,
        waiting: &mut Waiting<'a>,
    ) -> Option<Ballot> {
        let mut newest = known;
        for (slot, member) in (0..).zip(&view.slots) {
            let Some(m) = member else {
                let _ = answers.silent(slot);
                continue;
            };
            if !view.here.contains(slot) {
                continue;
            }
            match read_here(m, key, newest, view.epoch) {
                Some(Ok(reply)) => {
                    // One copy of a record is enough while the drives agree.
                    if let (Some(ballot), Some(seen)) = (&mut newest, &reply.accepted)
                        && seen.record.is_some()
                    {
                        *ballot = seen.ballot.max(*ballot);
                    }
                    let _ = answers.take(slot, &reply);
                }
                // A request would only fill its queue.
                _ if m.is_hung() => {
                    let _ = answers.silent(slot);
                }
                Some(Err(e)) => {
                    self.note(key, &e);
                    let _ = answers.silent(slot);
                }
                None => waiting.push(alone(m, slot, key, view.epoch)),
            }
        }
        newest
    }

    /// Asks the drives of other nodes, those of one node with one message, and some of them for shards. `known` as for
    /// [`Inner::ask_each`].
    pub(crate) fn ask_there<'a>(
        &self,
        view: &View,
        key: &'a RegisterKey,
        known: Option<Ballot>,
        plan: Option<&Plan>,
        answers: &mut Answers,
        waiting: &mut Waiting<'a>,
    ) -> ReadStep {
        for slots in &view.there {
            let hung = view.hung(*slots);
            for slot in hung.iter() {
                let _ = answers.silent(slot);
            }
            let asked = slots.without(hung);
            let Some((slot, first)) = asked.iter().next().and_then(|slot| Some((slot, view.member(slot)?)))
            else {
                continue;
            };
            let known = known.unwrap_or(Ballot::ZERO);
            let shards = plan.and_then(|plan| plan.of(asked));
            if asked.len() == 1 && shards.is_none() {
                waiting.push(alone(first, slot, key, view.epoch));
                continue;
            }
            let drives = view.members().filter(|(slot, _)| asked.contains(*slot));
            let drives: SmallVec<[DriveId; 16]> = drives.map(|(_, m)| m.id).collect();
            let began = Instant::now();
            let answer = first.drive.read_many(&drives, key, known, view.epoch, shards);
            waiting.push(Box::pin(async move { told(asked, &answer.await, began.elapsed()) }));
        }
        answers.reader.step()
    }

    /// Takes what drives told.
    pub(crate) fn hear<'a>(
        &self,
        view: &View,
        key: &'a RegisterKey,
        told: Told,
        answers: &mut Answers,
        waiting: &mut Waiting<'a>,
    ) -> ReadStep {
        answers.shards.extend(told.shards);
        for (slot, reply) in told.replies {
            let Some(m) = view.member(slot) else { continue };
            match reply {
                Some(Ok(reply)) => {
                    if m.drive.node().is_some() {
                        m.latency.note_answer(told.took);
                    }
                    let _ = answers.take(slot, &reply);
                }
                Some(Err(e)) => {
                    self.note(key, &e);
                    let _ = answers.silent(slot);
                }
                None => waiting.push(alone(m, slot, key, view.epoch)),
            }
        }
        answers.reader.step()
    }
}

/// Asks a drive of this process, without waiting. Its record comes along if it is newer than the one of the ballot `known`;
/// `None`: always.
fn read_here(
    m: &Member,
    key: &RegisterKey,
    known: Option<Ballot>,
    epoch: u32,
) -> Option<Result<ReadReply, DriveError>> {
    let known = known.unwrap_or(Ballot::ZERO);
    let reply = m.drive.read_now(key, known == Ballot::ZERO, epoch)?;
    let is_newer = |reply: &ReadReply| {
        reply.accepted.as_ref().is_some_and(|seen| seen.record.is_none() && seen.ballot > known)
    };
    match &reply {
        // If that record cannot be read now, its ballot counts all the same.
        Ok(shown) if is_newer(shown) => {
            Some(m.drive.read_now(key, true, epoch).filter(Result::is_ok).unwrap_or(reply))
        }
        _ => Some(reply),
    }
}

/// Asks one drive.
fn alone<'a>(m: &Member, slot: u8, key: &'a RegisterKey, epoch: u32) -> BoxFuture<'a, Told> {
    let (drive, began) = (m.drive.clone(), Instant::now());
    Box::pin(async move {
        let reply = drive.read(key, true, epoch).await;
        let replies = [(slot, Some(reply))].into_iter().collect();
        Told { replies, shards: SmallVec::new(), took: began.elapsed() }
    })
}

/// The answers of the drives in `slots`, which one message brought.
fn told(slots: SlotSet, answer: &Result<Vec<Option<ReadWithShard>>, DriveError>, took: Duration) -> Told {
    let mut shards = SmallVec::new();
    let replies = slots.iter().enumerate().map(|(i, slot)| {
        let reply = match answer {
            Ok(all) => all.get(i).and_then(Option::as_ref).map(|drive| {
                shards.extend(drive.shard.iter().map(|shard| (slot, shard.clone())));
                Ok(drive.reply.clone())
            }),
            Err(e) => Some(Err(e.clone())),
        };
        (slot, reply)
    });
    Told { replies: replies.collect(), shards, took }
}
