//! Entry points for the fuzzer.
//!
//! Must not depend on: connections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::hello::{Hello, OFFERS};
use super::key::TlsKey;
use super::psk::{Derivation, Identity, Psk};
use super::samples::{GNUTLS, HOST, KEY_256, KEY_384, OPENSSL, SUBSYSTEM};

/// The body of a `ClientHello`: what is read is bounded, and no key is found that the client does not have. Keys in their text form: what is
/// read is written to the same.
pub fn hello(input: &[u8]) {
    let text = std::str::from_utf8(input).ok().and_then(|t| t.parse::<TlsKey>().ok());
    if let Some(key) = text {
        assert_eq!(key.expose().parse::<TlsKey>().ok(), Some(key));
    }
    let Some(hello) = Hello::decode(input) else { return };
    assert!(hello.offers.len() <= OFFERS);
    // Nobody has sent a message with this one.
    let Ok(key) =
        KEY_256.replace("VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ", OTHER).parse::<TlsKey>()
    else {
        return;
    };
    for offer in &hello.offers {
        let Some(identity) = Identity::decode(&offer.identity) else { continue };
        assert!(identity.host.len() + identity.subsystem.len() < offer.identity.len());
        let (version, derivation) = (identity.version, Derivation::Specified);
        let psk = Psk::new(&key, identity.host, identity.subsystem, version, derivation);
        assert!(psk.is_none_or(|psk| !hello.proves(offer, &psk)));
    }
}

/// Another key of 32 bytes with its checksum.
const OTHER: &str = "AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC";

/// Bodies of messages, keys.
#[must_use]
pub fn hellos() -> Vec<Vec<u8>> {
    let bodies = [OPENSSL, GNUTLS].into_iter().filter_map(|text| STANDARD.decode(text).ok());
    let names = format!("NVMe0R01 {HOST} {SUBSYSTEM}");
    bodies.chain([KEY_256, KEY_384, &names].map(|text| text.as_bytes().to_vec())).collect()
}
