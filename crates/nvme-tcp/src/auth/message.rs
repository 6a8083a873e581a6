//! Messages of DH-HMAC-CHAP, byte for byte: Base 8.13.5.3 to 8.13.5.6. All integers are little-endian.
//!
//! Invariants: decoding never panics, and reads only what it is given; what follows a message is ignored, as its receiver may have
//! asked for more bytes than it has.
//!
//! Must not depend on: what is done with messages.

use super::group::Group;
use super::hash::Hash;
use crate::pdu::{u16_at, u32_at};

/// Bytes of a message, at most: a reply with the largest group has 1168.
pub(crate) const MAX_MESSAGE: usize = 4096;
/// The security protocol of the commands (SECP), and its two specific bytes.
pub(crate) const PROTOCOL: u8 = 0xe9;
pub(crate) const SPECIFIC: [u8; 2] = [1, 1];
/// DH-HMAC-CHAP among authentication protocols.
const DH_HMAC_CHAP: u8 = 1;
/// Bytes of a protocol descriptor; identifiers of hash functions and groups begin at these places in it, and are so many at most.
const DESCRIPTOR: usize = 64;
const HASHES: usize = 4;
const GROUPS: usize = 34;
const MOST_IDS: usize = 30;
/// Bytes before the variable part of a message.
const HEADER: usize = 16;

/// Types of messages: AUTH_TYPE and AUTH_ID.
mod kind {
    pub(super) const NEGOTIATE: [u8; 2] = [0, 0x00];
    pub(super) const FAILURE2: [u8; 2] = [0, 0xf0];
    pub(super) const FAILURE1: [u8; 2] = [0, 0xf1];
    pub(super) const CHALLENGE: [u8; 2] = [1, 0x01];
    pub(super) const REPLY: [u8; 2] = [1, 0x02];
    pub(super) const SUCCESS1: [u8; 2] = [1, 0x03];
    pub(super) const SUCCESS2: [u8; 2] = [1, 0x04];
}

/// Why authentication failed (reason code explanations).
pub(crate) mod reason {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const PROTOCOL: u8 = 2;
    pub(crate) const CONCATENATION: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const GROUP: u8 = 5;
    pub(crate) const PAYLOAD: u8 = 6;
    pub(crate) const MESSAGE: u8 = 7;

    /// A reason in words.
    pub(crate) fn describe(reason: u8) -> String {
        let text = match reason {
            FAILED => "authentication failed",
            PROTOCOL => "authentication protocol not usable",
            CONCATENATION => "secure channel concatenation mismatch",
            HASH => "hash function not usable",
            GROUP => "Diffie-Hellman group not usable",
            PAYLOAD => "incorrect payload",
            MESSAGE => "incorrect protocol message",
            other => return format!("reason {other:#04x}"),
        };
        text.to_owned()
    }
}

/// What a host can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Negotiate {
    pub(crate) transaction: u16,
    /// A secure channel is to be built on it (SC_C is not 0).
    pub(crate) channel: bool,
    /// None: it does not know DH-HMAC-CHAP. Identifiers that are not known are left out.
    pub(crate) offer: Option<Offer>,
}

/// Hash functions and groups, in the order of the host's preference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub(crate) hashes: Vec<Hash>,
    pub(crate) groups: Vec<Group>,
}

/// What a controller asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge {
    pub(crate) transaction: u16,
    pub(crate) hash: Hash,
    pub(crate) group: Group,
    pub(crate) sequence: u32,
    /// As many bytes as the hash has.
    pub(crate) challenge: Vec<u8>,
    /// As many bytes as the group has.
    pub(crate) public: Vec<u8>,
}

/// What a host answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) transaction: u16,
    pub(crate) response: Vec<u8>,
    /// The challenge to the controller, and its sequence number, which is not 0.
    pub(crate) challenge: Option<(Vec<u8>, u32)>,
    pub(crate) public: Vec<u8>,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    Negotiate(Negotiate),
    Challenge(Challenge),
    Reply(Reply),
    /// The host is authenticated; the response of the controller, if it was asked.
    Success1 {
        transaction: u16,
        hash: Hash,
        response: Option<Vec<u8>>,
    },
    /// The controller is authenticated.
    Success2 {
        transaction: u16,
    },
    /// Why the controller ends the exchange.
    Failure1 {
        transaction: u16,
        reason: u8,
    },
    /// Why the host does.
    Failure2 {
        transaction: u16,
        reason: u8,
    },
}

/// Reads parts of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Result<Vec<u8>, u8> {
        let (part, rest) = self.0.split_at_checked(len).ok_or(reason::PAYLOAD)?;
        self.0 = rest;
        Ok(part.to_vec())
    }
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// A reason.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, u8> {
        let kind = *bytes.first_chunk::<2>().ok_or(reason::PAYLOAD)?;
        let short = kind == kind::NEGOTIATE || kind == kind::FAILURE1 || kind == kind::FAILURE2;
        let (head, rest) = bytes.split_at_checked(if short { 8 } else { HEADER }).ok_or(reason::PAYLOAD)?;
        let transaction = u16_at(head, 4);
        let mut rest = Reader(rest);
        match kind {
            kind::NEGOTIATE => Ok(Message::Negotiate(Negotiate {
                transaction,
                channel: head[6] != 0,
                offer: offer(rest.0, head[7].into())?,
            })),
            kind::FAILURE1 => Ok(Message::Failure1 { transaction, reason: head[7] }),
            kind::FAILURE2 => Ok(Message::Failure2 { transaction, reason: head[7] }),
            kind::CHALLENGE => {
                let hash = hash_of(head[8], head[6])?;
                let group = Group::of_id(head[9]).ok_or(reason::GROUP)?;
                if usize::from(u16_at(head, 10)) != group.len() {
                    return Err(if group == Group::Null { reason::PAYLOAD } else { reason::GROUP });
                }
                Ok(Message::Challenge(Challenge {
                    transaction,
                    hash,
                    group,
                    sequence: u32_at(head, 12),
                    challenge: rest.take(hash.len())?,
                    public: rest.take(group.len())?,
                }))
            }
            kind::REPLY => {
                let (len, sequence) = (head[6].into(), u32_at(head, 12));
                let response = rest.take(len)?;
                let challenge = rest.take(len)?;
                let challenge = match (head[8] & 1, sequence) {
                    (0, _) => None,
                    // Zero means that the challenge is only for a secure channel.
                    (_, 0) => return Err(reason::CONCATENATION),
                    _ => Some((challenge, sequence)),
                };
                let public = rest.take(u16_at(head, 10).into())?;
                Ok(Message::Reply(Reply { transaction, response, challenge, public }))
            }
            kind::SUCCESS1 => {
                let hash = Hash::ALL.into_iter().find(|h| h.len() == usize::from(head[6]));
                let hash = hash.ok_or(reason::HASH)?;
                let response = if head[8] & 1 != 0 { Some(rest.take(hash.len())?) } else { None };
                Ok(Message::Success1 { transaction, hash, response })
            }
            kind::SUCCESS2 => Ok(Message::Success2 { transaction }),
            _ => Err(reason::MESSAGE),
        }
    }

    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let begin = |kind: [u8; 2], transaction: u16, len: usize| {
            let mut out = vec![kind[0], kind[1], 0, 0];
            out.extend_from_slice(&transaction.to_le_bytes());
            out.resize(len, 0);
            out
        };
        let failure = |kind, transaction: u16, reason: u8| {
            let mut out = begin(kind, transaction, 8);
            (out[6], out[7]) = (1, reason);
            out
        };
        match self {
            Message::Negotiate(n) => {
                let mut out = begin(kind::NEGOTIATE, n.transaction, 8);
                out[6] = n.channel.into();
                if let Some(offer) = &n.offer {
                    out[7] = 1;
                    out.extend_from_slice(&descriptor(offer));
                }
                out
            }
            Message::Challenge(c) => {
                let mut out = begin(kind::CHALLENGE, c.transaction, HEADER);
                (out[6], out[8], out[9]) = (c.hash.len() as u8, c.hash.id(), c.group.id());
                out[10..12].copy_from_slice(&(c.public.len() as u16).to_le_bytes());
                out[12..16].copy_from_slice(&c.sequence.to_le_bytes());
                [out, c.challenge.clone(), c.public.clone()].concat()
            }
            Message::Reply(r) => {
                let mut out = begin(kind::REPLY, r.transaction, HEADER);
                let nothing = (vec![0; r.response.len()], 0);
                let (challenge, sequence) = r.challenge.as_ref().unwrap_or(&nothing);
                (out[6], out[8]) = (r.response.len() as u8, r.challenge.is_some().into());
                out[10..12].copy_from_slice(&(r.public.len() as u16).to_le_bytes());
                out[12..16].copy_from_slice(&sequence.to_le_bytes());
                [&out, &r.response, challenge, &r.public].map(|p| &p[..]).concat()
            }
            Message::Success1 { transaction, hash, response } => {
                let mut out = begin(kind::SUCCESS1, *transaction, HEADER);
                (out[6], out[8]) = (hash.len() as u8, response.is_some().into());
                match response {
                    Some(response) => out.extend_from_slice(response),
                    None => out.resize(HEADER + hash.len(), 0),
                }
                out
            }
            Message::Success2 { transaction } => begin(kind::SUCCESS2, *transaction, HEADER),
            Message::Failure1 { transaction, reason } => failure(kind::FAILURE1, *transaction, *reason),
            Message::Failure2 { transaction, reason } => failure(kind::FAILURE2, *transaction, *reason),
        }
    }
}

fn hash_of(id: u8, len: u8) -> Result<Hash, u8> {
    Hash::of_id(id).filter(|h| h.len() == usize::from(len)).ok_or(reason::HASH)
}

/// What the first descriptor of DH-HMAC-CHAP offers.
fn offer(descriptors: &[u8], count: usize) -> Result<Option<Offer>, u8> {
    for number in 0..count {
        let all = descriptors.get(number * DESCRIPTOR..(number + 1) * DESCRIPTOR).ok_or(reason::PAYLOAD)?;
        if all[0] != DH_HMAC_CHAP {
            continue;
        }
        let (hashes, groups) = (usize::from(all[2]), usize::from(all[3]));
        if hashes > MOST_IDS || groups > MOST_IDS {
            return Err(reason::PAYLOAD);
        }
        return Ok(Some(Offer {
            hashes: all[HASHES..HASHES + hashes].iter().filter_map(|id| Hash::of_id(*id)).collect(),
            groups: all[GROUPS..GROUPS + groups].iter().filter_map(|id| Group::of_id(*id)).collect(),
        }));
    }
    Ok(None)
}

fn descriptor(offer: &Offer) -> [u8; DESCRIPTOR] {
    let mut out = [0; DESCRIPTOR];
    (out[0], out[2], out[3]) = (DH_HMAC_CHAP, offer.hashes.len() as u8, offer.groups.len() as u8);
    out[HASHES..].iter_mut().zip(&offer.hashes).for_each(|(to, hash)| *to = hash.id());
    out[GROUPS..].iter_mut().zip(&offer.groups).for_each(|(to, group)| *to = group.id());
    out
}
