//! The controller's side of DH-HMAC-CHAP: one exchange after another on a queue.
//!
//! The host sends `Negotiate`, receives `Challenge`, sends `Reply`, receives `Success1`, and, if it has asked the controller too, sends
//! `Success2`. Whatever is wrong leads to `Failure1`, after which the connection ends.
//!
//! Invariants: a queue is authenticated only by a response to a challenge of the exchange that is going on; a challenge is used once;
//! a queue has at most [`ATTEMPTS`] exchanges before it is authenticated.
//!
//! Must not depend on: connections, where secrets are kept.

use std::sync::Arc;

use ashlar_environment::random;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::group::{Group, KeyPair};
use super::hash::{Asked, Hash, Prover, same};
use super::hosts::HostKeys;
use super::message::{Challenge, Message, Negotiate, Reply, reason};
use crate::error::Error;

/// Exchanges that a host may begin before it has to have succeeded.
const ATTEMPTS: u32 = 4;
/// Groups that a controller chooses, if nobody has chosen one for the host.
const GROUPS: [Group; 6] =
    [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe6144, Group::Ffdhe8192, Group::Null];

/// A sequence number of a challenge. They count from a random one, and are never 0 (Base 8.13.5.4).
pub(crate) fn sequence() -> Result<u32, Error> {
    static LAST: Mutex<u32> = Mutex::new(0);
    let mut last = LAST.lock();
    *last = match *last {
        0 => random_bytes(4)?.first_chunk().copied().map_or(1, u32::from_le_bytes),
        last => last.wrapping_add(1),
    }
    .max(1);
    Ok(*last)
}

/// Random bytes.
pub(crate) fn random_bytes(len: usize) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; len];
    random::fill(&mut out).map_err(|e| Error::Connection(std::io::Error::other(e.to_string())))?;
    Ok(out)
}

/// What both ends have agreed on.
struct Terms {
    keys: Arc<HostKeys>,
    transaction: u16,
    hash: Hash,
    group: Group,
}

/// Where an exchange is.
enum Step {
    /// Nothing was negotiated.
    Begin,
    /// The host may receive its challenge.
    Challenge(Terms),
    /// The host has it: the pair, the challenge and its sequence number.
    Reply(Terms, Option<KeyPair>, Vec<u8>, u32),
    /// The host may receive that it has succeeded, with the response to its own challenge.
    Success1(u16, Hash, Option<Zeroizing<Vec<u8>>>),
    /// The host has to say whether the controller has succeeded.
    Success2(u16),
    /// It may receive why it has not.
    Failure(u16, u8),
    /// It has, or has said so itself: the connection ends.
    End,
}

/// The exchanges of a queue.
pub(crate) struct Exchange {
    host: String,
    subsystem: String,
    step: Step,
    authenticated: bool,
    attempts: u32,
    /// Why the last one has failed.
    failure: Option<u8>,
}

impl Exchange {
    pub(crate) fn new(host: &str, subsystem: &str) -> Exchange {
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        Exchange { host, subsystem, step: Step::Begin, authenticated: false, attempts: 0, failure: None }
    }

    /// Whether other commands are executed.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether the connection has to end.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.step, Step::End)
    }

    /// Why the last exchange has failed.
    pub(crate) fn failure(&self) -> Option<u8> {
        self.failure
    }

    /// The host sends a message. `keys`: those of the host, if it may connect.
    pub(crate) fn send(&mut self, bytes: &[u8], keys: impl FnOnce() -> Option<Arc<HostKeys>>) {
        let transaction = bytes.get(4..6).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
        let step = std::mem::replace(&mut self.step, Step::End);
        self.step = match self.advance(step, bytes, keys) {
            Ok(step) => step,
            Err(reason) => {
                self.failure = Some(reason);
                self.authenticated = false;
                Step::Failure(transaction, reason)
            }
        };
    }

    fn advance(
        &mut self,
        step: Step,
        bytes: &[u8],
        keys: impl FnOnce() -> Option<Arc<HostKeys>>,
    ) -> Result<Step, u8> {
        if let Step::End = step {
            return Ok(step);
        }
        match (Message::decode(bytes)?, step) {
            (_, Step::Failure(_, reason)) => Err(reason),
            (Message::Negotiate(offered), _) => self.negotiate(&offered, keys),
            (Message::Reply(reply), Step::Reply(terms, pair, challenge, sequence)) => {
                let shared = match pair {
                    Some(pair) => Some(pair.shared(&reply.public).ok_or(reason::GROUP)?),
                    None if reply.public.is_empty() => None,
                    None => return Err(reason::PAYLOAD),
                };
                self.verify(&terms, &reply, shared.as_ref().map(|s| &s[..]), &challenge, sequence)
            }
            (Message::Success2 { transaction }, Step::Success2(expected)) if transaction == expected => {
                Ok(self.succeed())
            }
            (Message::Success2 { .. }, Step::Success2(_)) => Err(reason::PAYLOAD),
            (Message::Failure2 { reason, .. }, _) => {
                self.failure = Some(reason);
                self.authenticated = false;
                Ok(Step::End)
            }
            _ => Err(reason::MESSAGE),
        }
    }

    fn succeed(&mut self) -> Step {
        (self.authenticated, self.attempts) = (true, 0);
        Step::Begin
    }

    fn negotiate(
        &mut self,
        offered: &Negotiate,
        keys: impl FnOnce() -> Option<Arc<HostKeys>>,
    ) -> Result<Step, u8> {
        self.attempts += 1;
        if !self.authenticated && self.attempts > ATTEMPTS {
            return Err(reason::FAILED);
        }
        if offered.channel {
            return Err(reason::CONCATENATION);
        }
        let offer = offered.offer.as_ref().ok_or(reason::PROTOCOL)?;
        let keys = keys().ok_or(reason::FAILED)?;
        let hashes = Hash::ALL.into_iter().filter(|h| keys.hash.is_none_or(|only| only == *h));
        let groups = GROUPS.into_iter().filter(|g| keys.group.is_none_or(|only| only == *g));
        let hash = hashes.into_iter().find(|h| offer.hashes.contains(h)).ok_or(reason::HASH)?;
        let group = groups.into_iter().find(|g| offer.groups.contains(g)).ok_or(reason::GROUP)?;
        Ok(Step::Challenge(Terms { keys, transaction: offered.transaction, hash, group }))
    }

    fn verify(
        &self,
        terms: &Terms,
        reply: &Reply,
        shared: Option<&[u8]>,
        challenge: &[u8],
        sequence: u32,
    ) -> Result<Step, u8> {
        if reply.transaction != terms.transaction {
            return Err(reason::PAYLOAD);
        }
        let asked = |challenge, sequence| Asked {
            hash: terms.hash,
            challenge,
            shared,
            sequence,
            transaction: terms.transaction,
            host: &self.host,
            subsystem: &self.subsystem,
        };
        let secret = terms.keys.secret.as_ref().ok_or(reason::FAILED)?;
        let key = secret.key(&self.host);
        let expected = asked(challenge, sequence).response(Prover::Host, &key);
        if !same(&expected, &reply.response) {
            return Err(reason::FAILED);
        }
        let response = match (&reply.challenge, &terms.keys.controller_secret) {
            (None, _) => None,
            // It would be answered with what the host has to find out.
            (Some((theirs, _)), _) if *theirs == challenge => return Err(reason::FAILED),
            (Some(_), None) => return Err(reason::FAILED),
            (Some((theirs, sequence)), Some(secret)) => {
                Some(asked(theirs, *sequence).response(Prover::Controller, &secret.key(&self.subsystem)))
            }
        };
        Ok(Step::Success1(terms.transaction, terms.hash, response))
    }

    /// The message that the host receives. None: there is none for it now.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let step = std::mem::replace(&mut self.step, Step::End);
        let (message, next) = match step {
            Step::Challenge(terms) => {
                let transaction = terms.transaction;
                ask(terms).unwrap_or_else(|error| {
                    tracing::error!(%error, "a host cannot be authenticated");
                    self.failure = Some(reason::FAILED);
                    (Message::Failure1 { transaction, reason: reason::FAILED }, Step::End)
                })
            }
            Step::Success1(transaction, hash, response) => {
                let next = match response {
                    Some(_) => Step::Success2(transaction),
                    None => self.succeed(),
                };
                let response = response.map(|r| r.to_vec());
                (Message::Success1 { transaction, hash, response }, next)
            }
            Step::Failure(transaction, reason) => (Message::Failure1 { transaction, reason }, Step::End),
            other => {
                self.step = other;
                return None;
            }
        };
        self.step = next;
        Some(message.encode())
    }
}

/// The challenge of a host.
fn ask(terms: Terms) -> Result<(Message, Step), Error> {
    let pair = KeyPair::new(terms.group)?;
    let (challenge, sequence) = (random_bytes(terms.hash.len())?, sequence()?);
    let message = Message::Challenge(Challenge {
        transaction: terms.transaction,
        hash: terms.hash,
        group: terms.group,
        sequence,
        challenge: challenge.clone(),
        public: pair.as_ref().map(|p| p.public.clone()).unwrap_or_default(),
    });
    Ok((message, Step::Reply(terms, pair, challenge, sequence)))
}
