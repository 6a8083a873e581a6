//! HighwayHash for shard frames, journal records and placement.
//!
//! Invariants: the output is the published HighwayHash of the concatenated input, its words in
//! little-endian order, on every machine; it is part of the on-drive format and never changes.
//! HighwayHash with a fixed or stored key detects damage; it is not a defence against a person
//! who knows the key.
//!
//! Must not depend on: the content of frames, records and keys.

use highway::{HighwayHash, HighwayHasher, Key};

/// The key of [`key_hash`]: the ASCII bytes `ashlar key placement hash v1 ...` read as four little-endian
/// words. It is arbitrary and public, and never changes, because the placement of every stored key depends on
/// it.
pub const KEY_HASH_KEY: [u64; 4] = [
    u64::from_le_bytes(*b"ashlar k"),
    u64::from_le_bytes(*b"ey place"),
    u64::from_le_bytes(*b"ment has"),
    u64::from_le_bytes(*b"h v1 ..."),
];

/// HighwayHash-256 under `key` of the concatenation of `parts`.
///
/// How the bytes are cut into parts does not matter: `["ab", "c"]` and `["a", "bc"]` hash alike, so
/// a caller that needs to tell them apart includes lengths. Algorithm: Alakuijala, Cox, Wassenberg,
/// "Fast keyed hash/pseudo-random function using SIMD multiply and permute" (2016).
pub fn frame_hash(key: &[u64; 4], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = HighwayHasher::new(Key(*key));
    for part in parts {
        hasher.append(part);
    }
    let words = hasher.finalize256();
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// HighwayHash-64 under [`KEY_HASH_KEY`], for placement: bucket and key to placement group.
pub fn key_hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(Key(KEY_HASH_KEY)).hash64(bytes)
}
