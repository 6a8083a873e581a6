//! The host's side of DH-HMAC-CHAP.
//!
//! Invariant: a host that has the secret of the controller is satisfied only by a response to its own challenge.
//!
//! Must not depend on: connections.

use zeroize::Zeroizing;

use super::exchange::{random_bytes, sequence};
use super::group::{Group, KeyPair};
use super::hash::{Asked, Hash, Prover, same};
use super::message::{Message, Negotiate, Offer, Reply, reason};
use super::secret::Secret;
use crate::error::Error;

/// Who authenticates itself to whom.
#[derive(Clone, Copy)]
pub(crate) struct Parties<'a> {
    pub(crate) host: &'a str,
    pub(crate) subsystem: &'a str,
    pub(crate) secret: &'a Secret,
    pub(crate) controller_secret: Option<&'a Secret>,
}

/// What the host waits for.
pub(crate) struct Pending {
    transaction: u16,
    hash: Hash,
    /// The response of the controller, if it was asked.
    expected: Option<Zeroizing<Vec<u8>>>,
}

/// The first message.
pub(crate) fn negotiate(transaction: u16) -> Vec<u8> {
    let offer = Offer { hashes: Hash::ALL.to_vec(), groups: Group::ALL.to_vec() };
    Message::Negotiate(Negotiate { transaction, channel: false, offer: Some(offer) }).encode()
}

/// The message that ends an exchange.
pub(crate) fn failure(transaction: u16, reason: u8) -> Vec<u8> {
    Message::Failure2 { transaction, reason }.encode()
}

/// The message that ends an exchange in which the controller was asked.
pub(crate) fn success(transaction: u16) -> Vec<u8> {
    Message::Success2 { transaction }.encode()
}

/// Why an exchange failed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The controller says so.
    Told(u8),
    /// This host says so.
    Found(u8),
}

impl Parties<'_> {
    /// Answers the challenge of a controller.
    ///
    /// # Errors
    /// [`Failure`], or no random bytes.
    pub(crate) fn reply(
        &self,
        bytes: &[u8],
        transaction: u16,
    ) -> Result<Result<(Vec<u8>, Pending), Failure>, Error> {
        let asked = match Message::decode(bytes) {
            Ok(Message::Challenge(asked)) if asked.transaction == transaction => asked,
            Ok(Message::Challenge(_)) => return Ok(Err(Failure::Found(reason::PAYLOAD))),
            other => return Ok(Err(wrong(other))),
        };
        let pair = KeyPair::new(asked.group)?;
        let shared = match &pair {
            None => None,
            Some(pair) => match pair.shared(&asked.public) {
                Some(shared) => Some(shared),
                None => return Ok(Err(Failure::Found(reason::GROUP))),
            },
        };
        let of = |challenge, sequence| Asked {
            hash: asked.hash,
            challenge,
            shared: shared.as_ref().map(|s| &s[..]),
            sequence,
            transaction,
            host: self.host,
            subsystem: self.subsystem,
        };
        let response =
            of(&asked.challenge[..], asked.sequence).response(Prover::Host, &self.secret.key(self.host));
        let (mut challenge, mut expected) = (None, None);
        if let Some(secret) = self.controller_secret {
            let (bytes, sequence) = (random_bytes(asked.hash.len())?, sequence()?);
            let key = secret.key(self.subsystem);
            expected = Some(of(&bytes[..], sequence).response(Prover::Controller, &key));
            challenge = Some((bytes, sequence));
        }
        let public = pair.map(|p| p.public.clone()).unwrap_or_default();
        let reply = Message::Reply(Reply { transaction, response: response.to_vec(), challenge, public });
        Ok(Ok((reply.encode(), Pending { transaction, hash: asked.hash, expected })))
    }
}

impl Pending {
    /// Whether the controller has to be told of the success.
    pub(crate) fn is_mutual(&self) -> bool {
        self.expected.is_some()
    }

    /// Looks at what the controller says about the reply.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn conclude(&self, bytes: &[u8]) -> Result<(), Failure> {
        let (transaction, hash, response) = match Message::decode(bytes) {
            Ok(Message::Success1 { transaction, hash, response }) => (transaction, hash, response),
            other => return Err(wrong(other)),
        };
        if transaction != self.transaction || hash.len() != self.hash.len() {
            return Err(Failure::Found(reason::PAYLOAD));
        }
        match (&self.expected, response) {
            (None, _) => Ok(()),
            (Some(expected), Some(response)) if same(expected, &response) => Ok(()),
            (Some(_), _) => Err(Failure::Found(reason::FAILED)),
        }
    }
}

/// What is wrong with a message that is not the expected one.
fn wrong(message: Result<Message, u8>) -> Failure {
    match message {
        Ok(Message::Failure1 { reason, .. }) => Failure::Told(reason),
        Ok(_) => Failure::Found(reason::MESSAGE),
        Err(reason) => Failure::Found(reason),
    }
}
