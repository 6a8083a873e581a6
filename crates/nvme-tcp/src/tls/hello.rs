//! What a `ClientHello` says about pre-shared keys, and with which of several keys it was made.
//!
//! The library of TLS takes one key for each name and checks it; this only finds out which key that has to be.
//!
//! Invariant: whatever the bytes are, no more than [`OFFERS`] names are looked at.
//!
//! Must not depend on: connections.

use super::psk::{Psk, expand_label, extract};
use crate::auth::hash::same;

/// Names of keys that are looked at, at most. Hosts send one or two.
pub(super) const OFFERS: usize = 16;
/// The type of the handshake message.
const CLIENT_HELLO: u8 = 1;
/// The extension `pre_shared_key` (RFC 8446, 4.2.11).
const PRE_SHARED_KEY: u16 = 41;
/// Bytes of the version and of the random value.
const FIXED: usize = 34;

/// A key that is offered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its name.
    pub(crate) identity: Vec<u8>,
    /// The proof that the client has it.
    pub(crate) binder: Vec<u8>,
}

/// The part of a `ClientHello` that is about pre-shared keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) offers: Vec<Offer>,
    /// The message with its header, up to the binders.
    before_binders: Vec<u8>,
}

/// Bytes that are read one field after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }

    /// A field behind its length, which has `bytes` bytes.
    fn field(&mut self, bytes: usize) -> Option<Reader<'a>> {
        let len = self.number(bytes)?;
        self.take(len).map(Reader)
    }
}

impl Hello {
    /// Reads the body of the message. None: it is not one. Without offers it has none.
    pub(crate) fn decode(body: &[u8]) -> Option<Hello> {
        let mut rest = Reader(body);
        rest.take(FIXED)?;
        // The session, the cipher suites, the compression methods.
        rest.field(1)?;
        rest.field(2)?;
        rest.field(1)?;
        let mut extensions = rest.field(2)?;
        while !extensions.0.is_empty() {
            let (kind, mut content) = (extensions.number(2)?, extensions.field(2)?);
            if kind != usize::from(PRE_SHARED_KEY) {
                continue;
            }
            let mut identities = content.field(2)?;
            let proofs = content.0.len();
            let mut binders = content.field(2)?;
            // It is the last one, and the binders its last part: they prove what is before them.
            if !content.0.is_empty() || !extensions.0.is_empty() || !rest.0.is_empty() {
                return None;
            }
            let mut offers = Vec::new();
            while !identities.0.is_empty() && offers.len() < OFFERS {
                let identity = identities.field(2)?.0.to_vec();
                // The age of a ticket.
                identities.take(4)?;
                offers.push(Offer { identity, binder: binders.field(1)?.0.to_vec() });
            }
            let len = (body.len() as u32).to_be_bytes();
            let before_binders = [&[CLIENT_HELLO], &len[1..], &body[..body.len() - proofs]].concat();
            return Some(Hello { offers, before_binders });
        }
        Some(Hello::default())
    }

    /// Whether an offer was made with a key (RFC 8446, 4.2.11.2).
    pub(crate) fn proves(&self, offer: &Offer, psk: &Psk) -> bool {
        binder(psk, &self.before_binders).is_some_and(|expected| same(&expected, &offer.binder))
    }
}

/// The proof that a client has a key which is not one of a session, with the message up to the binders.
fn binder(psk: &Psk, before: &[u8]) -> Option<zeroize::Zeroizing<Vec<u8>>> {
    let (hash, len) = (psk.hash, psk.hash.len() as u16);
    let early = extract(hash, &psk.secret);
    let key = expand_label(hash, &early, b"tls13 ext binder", &hash.digest(b""), len)?;
    let finished = expand_label(hash, &key, b"tls13 finished", b"", len)?;
    Some(hash.hmac(&finished, &[&hash.digest(before)]))
}
