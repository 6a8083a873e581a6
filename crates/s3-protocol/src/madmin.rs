//! Documents sealed as MinIO's administration clients do it: under the secret of the caller.
//!
//! `salt (32) | kind (1) | nonce (8) | fragments`. The key is Argon2id (one pass, 64 MiB, 4 lanes) or, for
//! clients in FIPS mode, PBKDF2 (HMAC-SHA-256, 8192 rounds) of the secret and the salt. The fragments have
//! the format `sio`: 16 KiB of text each, each sealed by AES-256-GCM or ChaCha20-Poly1305 under `nonce |
//! number` (little endian, from 1). The associated data is one byte that marks the last fragment, and the tag
//! of an empty text under number 0. The format was determined from MinIO's own clients, which also made the
//! golden bytes.
//!
//! Invariants: opening fails without a reason; parsing and opening allocate no more than the input; deriving
//! a key costs [`MEMORY`] and some 50 ms, and only [`Sealed::key`] and [`Key::new`] do it: their caller has
//! checked signature and permission, and limits how many run at once.
//!
//! Must not depend on: identities, the content of documents.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2;

/// Bytes that making one key takes for a moment.
pub const MEMORY: usize = 64 << 20;
/// Bytes of text in a fragment.
const FRAGMENT: usize = 16 << 10;
const TAG: usize = 16;
const SALT: usize = 32;
const NONCE: usize = 8;
const HEAD: usize = SALT + 1 + NONCE;
/// What a sealed document is longer than its text, at least.
pub const OVERHEAD: usize = HEAD + TAG;

/// How a document is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Argon2id and AES-256-GCM.
    Aes,
    /// Argon2id and ChaCha20-Poly1305: clients without AES instructions.
    ChaCha,
    /// PBKDF2 and AES-256-GCM: clients that must keep to FIPS.
    Fips,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Aes),
            1 => Some(Kind::ChaCha),
            2 => Some(Kind::Fips),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Kind::Aes => 0,
            Kind::ChaCha => 1,
            Kind::Fips => 2,
        }
    }
}

/// The document is not sealed as it must be, not under this secret, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document is not sealed with the secret key that signed the request")]
pub struct Broken;

/// A sealed document, looked at but not opened.
#[derive(Clone, Copy)]
pub struct Sealed<'a> {
    salt: [u8; SALT],
    kind: Kind,
    nonce: [u8; NONCE],
    fragments: &'a [u8],
}

/// A key made from a secret and a salt.
pub struct Key {
    salt: [u8; SALT],
    kind: Kind,
    aead: LessSafeKey,
}

impl<'a> Sealed<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// It is too short, or sealed in a way that is not known.
    pub fn parse(bytes: &'a [u8]) -> Result<Sealed<'a>, Broken> {
        let (head, fragments) = bytes.split_at_checked(HEAD).ok_or(Broken)?;
        let mut sealed = Sealed {
            salt: [0; SALT],
            kind: Kind::of(head[SALT]).ok_or(Broken)?,
            nonce: [0; NONCE],
            fragments,
        };
        sealed.salt.copy_from_slice(&head[..SALT]);
        sealed.nonce.copy_from_slice(&head[SALT + 1..]);
        // The last fragment has at least its tag, and there is always one.
        let last = fragments.len() % (FRAGMENT + TAG);
        if fragments.is_empty() || (last != 0 && last < TAG) {
            return Err(Broken);
        }
        Ok(sealed)
    }

    /// Makes the key it would be sealed under. Takes [`MEMORY`] and some 50 ms.
    #[must_use]
    pub fn key(&self, secret: &[u8]) -> Key {
        Key::with(secret, self.salt, self.kind)
    }

    /// Opens it.
    ///
    /// # Errors
    /// It is not under this key, or was changed.
    pub fn open(&self, key: &Key) -> Result<Vec<u8>, Broken> {
        if key.kind != self.kind || key.salt != self.salt {
            return Err(Broken);
        }
        let bound = key.bound(&self.nonce);
        let mut out = Vec::with_capacity(self.fragments.len());
        let pieces = self.fragments.chunks(FRAGMENT + TAG);
        let count = pieces.len();
        for (i, piece) in pieces.enumerate() {
            let begin = out.len();
            out.extend_from_slice(piece);
            let text = key
                .aead
                .open_in_place(
                    numbered(&self.nonce, i + 1)?,
                    Aad::from(bound.with(i + 1 == count)),
                    &mut out[begin..],
                )
                .map_err(|_| Broken)?
                .len();
            out.truncate(begin + text);
        }
        Ok(out)
    }
}

impl Key {
    /// A key for documents that this server seals, under a salt of 32 random bytes. Takes [`MEMORY`] and some
    /// 50 ms.
    #[must_use]
    pub fn new(secret: &[u8], salt: [u8; SALT]) -> Key {
        Key::with(secret, salt, Kind::Aes)
    }

    fn with(secret: &[u8], salt: [u8; SALT], kind: Kind) -> Key {
        let mut bytes = [0; 32];
        match kind {
            Kind::Aes | Kind::ChaCha => {
                let params =
                    Params::new((MEMORY >> 10) as u32, 1, 4, Some(32)).expect("parameters of Argon2");
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(secret, &salt, &mut bytes)
                    .expect("secret and salt have lengths that Argon2 takes");
            }
            Kind::Fips => {
                let rounds = std::num::NonZeroU32::new(8192).expect("not zero");
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, secret, &mut bytes);
            }
        }
        Key::of(bytes, salt, kind)
    }

    /// A key from its bytes, for tests and fuzzing: nothing is computed.
    #[must_use]
    pub fn of(bytes: [u8; 32], salt: [u8; SALT], kind: Kind) -> Key {
        let algorithm = if kind == Kind::ChaCha { &CHACHA20_POLY1305 } else { &AES_256_GCM };
        let aead = UnboundKey::new(algorithm, &bytes).expect("32 bytes are a key of either");
        Key { salt, kind, aead: LessSafeKey::new(aead) }
    }

    /// Seals a document; `nonce`: 8 random bytes, new for each document.
    #[must_use]
    pub fn seal(&self, nonce: [u8; NONCE], text: &[u8]) -> Vec<u8> {
        let count = text.len().div_ceil(FRAGMENT).max(1);
        let mut out = Vec::with_capacity(HEAD + text.len() + count * TAG);
        out.extend_from_slice(&self.salt);
        out.push(self.kind.byte());
        out.extend_from_slice(&nonce);
        let bound = self.bound(&nonce);
        for i in 0..count {
            let begin = out.len();
            let end = text.len().min((i + 1) * FRAGMENT);
            out.extend_from_slice(&text[i * FRAGMENT..end]);
            let number = numbered(&nonce, i + 1).expect("documents have few fragments");
            let tag = self
                .aead
                .seal_in_place_separate_tag(number, Aad::from(bound.with(i + 1 == count)), &mut out[begin..])
                .expect("the length is within that of the algorithm");
            out.extend_from_slice(tag.as_ref());
        }
        out
    }

    fn bound(&self, nonce: &[u8; NONCE]) -> Bound {
        let number = numbered(nonce, 0).expect("0 is a number");
        let tag = self
            .aead
            .seal_in_place_separate_tag(number, Aad::empty(), &mut [])
            .expect("nothing is within the length of the algorithm");
        let mut bound = Bound([0; 1 + TAG]);
        bound.0[1..].copy_from_slice(tag.as_ref());
        bound
    }
}

/// What every fragment is bound to.
struct Bound([u8; 1 + TAG]);

impl Bound {
    fn with(&self, last: bool) -> [u8; 1 + TAG] {
        let mut all = self.0;
        all[0] = if last { 0x80 } else { 0 };
        all
    }
}

fn numbered(nonce: &[u8; NONCE], number: usize) -> Result<Nonce, Broken> {
    let mut all = [0; 12];
    all[..NONCE].copy_from_slice(nonce);
    all[NONCE..].copy_from_slice(&u32::try_from(number).map_err(|_| Broken)?.to_le_bytes());
    Ok(Nonce::assume_unique_for_key(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 % 251) as u8).collect()
    }

    fn open(secret: &str, sealed: &[u8]) -> Result<Vec<u8>, Broken> {
        let sealed = Sealed::parse(sealed)?;
        sealed.open(&sealed.key(secret.as_bytes()))
    }

    /// Made by madmin-go 3.0.109, `EncryptData`.
    #[test]
    fn document_sealed_by_a_client_opens() {
        let sealed = hex::decode(
            "9e5b592cd194c001f5b2c3b3244aa2719f66e8487324fe65199e297f129a56fb006fbf1b193499bb90f654474811d32e92a2e3c812947958e31f7cbfdd6c1baa7fb796e49dc60562ce08ff11d0d687974c1df262f7e57b587b59394213713967873ca5b476b26a",
        )
        .unwrap();
        let want: &[u8] = br#"{"secretKey":"from-madmin","status":"enabled"}"#;
        assert_eq!(open("clienttests-secret-key", &sealed).unwrap(), want);
        assert_eq!(open("another-secret-key", &sealed), Err(Broken));
    }

    /// Golden bytes by `sio` of the same release, with salt 07.., nonce 01..08 and the secret "a password".
    #[test]
    fn sealing_gives_the_same_bytes_as_a_client() {
        const SHORT: [(Kind, &str); 3] = [
            (
                Kind::Aes,
                "4984a0cef3a6d5273e2fdc2cf498bfdfb5faa519299780535929c67cefc53facca7b953bbb4078dcf7107c9cc4a4c30f03c3aa241314a339923d9a4d07fb",
            ),
            (
                Kind::ChaCha,
                "ddcb2f80f39786f7840cbba2c3b17d35f56418ee89e1ee085c1c39d480d70d9aec75157cdd33b43c0295bf2a994b73de45c1a713e2dccaf5110931f28437",
            ),
            (
                Kind::Fips,
                "70669e52e20953d2d2a98d52a6a3d0f1ec3b84294a3ce0de1455e58ec52bdd6bd3635c85dd7bd2be065632ff4dc138664a293ddedc0fdc73f491c4ae976f",
            ),
        ];
        const EMPTY: [&str; 3] = [
            "234c0ecb7995a1d85433da4c21f5e3e9",
            "1fe30a817e09471c34a773c5d364ac90",
            "ec57ed34695b20037319a6be4d4a739d",
        ];
        const LONG: [(usize, [&str; 3]); 5] = [
            (
                16383,
                [
                    "d5b348e19418589d38a8f0a00efd1ee7e42d564dbabd4112637b0add9b64561c",
                    "1b2cb9f304570870ba6a9ca4c68dd385479b04c89a9184d7d0b0e355cf546bfa",
                    "539f8fbd1c645c4a42a8e032e7cbae4c48167a3bb76e42dc739bcf1dee7371f4",
                ],
            ),
            (
                16384,
                [
                    "e17ba075ededace28d199406635f259a0201458d304970b866d755313da2d99b",
                    "698a18b52ad302f697b9f38247b48876f10267b9a5e5b35fb67178290a8b717b",
                    "6e1fadc76a873a58a9df874d6c8f1fc26de78a52f829a0119fa6e8e6a6cd8e5f",
                ],
            ),
            (
                16385,
                [
                    "1297fd3407bc04132c1ca79ea74ced2abbdf9ca9b966197d82df0678afa0ceed",
                    "5afc844bd311ebce5d875f74f7006c13365e3415bc3031cc0bf6ac081e34b33a",
                    "68760eed0ce42f442c8979c16ef54ad2586590cc3ed46068aeb2803240bc0809",
                ],
            ),
            (
                32768,
                [
                    "1d99606e34ef89f768b268954efb8a8906a105025da7f908f2b040fa355865bc",
                    "e6ea83089c841f92612db5f72f488fa34c85dd57733f10a6332f007bdbda6e83",
                    "902152a4b28baaf8e95261e6dd2783f1be7fedcbadabdb1ce781a5cf6b870564",
                ],
            ),
            (
                40000,
                [
                    "8f265cfeaff82792d30e0619764aeb147eedbff9682a5219295a87db0e76624f",
                    "018d5f112d272f066096cc53b6120c352b094820d3f7e94bc90cc8cd2ab78b49",
                    "198d16939340a461f70bbc78c71b574b7e7d07a6eeaca246c281a5b2f3c3cc8c",
                ],
            ),
        ];
        let head = "07".repeat(32);
        for (i, (kind, short)) in SHORT.into_iter().enumerate() {
            let key = Key::with(b"a password", [7; 32], kind);
            let seal = |len| key.seal([1, 2, 3, 4, 5, 6, 7, 8], &text(len));
            let golden = |rest: &str| hex::decode(format!("{head}0{i}0102030405060708{rest}")).unwrap();
            assert_eq!(seal(46), golden(short));
            assert_eq!(seal(0), golden(EMPTY[i]));
            for (len, hashes) in &LONG {
                let sealed = seal(*len);
                assert_eq!(hex::encode(ashlar_checksum::sha256(&sealed)), hashes[i], "{kind:?} {len}");
                assert_eq!(Sealed::parse(&sealed).unwrap().open(&key).unwrap(), text(*len));
            }
        }
    }

    #[test]
    fn changed_truncated_or_recombined_documents_do_not_open() {
        let key = Key::of([3; 32], [4; 32], Kind::Aes);
        let open = |b: &[u8]| Sealed::parse(b).and_then(|s| s.open(&key));
        let small = key.seal([5; 8], b"some text");
        for at in 0..small.len() {
            let mut bad = small.clone();
            bad[at] ^= 1;
            assert_eq!(open(&bad), Err(Broken), "byte {at}");
            assert_eq!(open(&small[..at]), Err(Broken), "cut at {at}");
        }
        let whole = FRAGMENT + TAG;
        let long = key.seal([5; 8], &text(3 * FRAGMENT));
        assert_eq!(open(&long).unwrap(), text(3 * FRAGMENT));
        assert_eq!(open(&long[..HEAD + 2 * whole]), Err(Broken), "the end is missing");
        let swapped = [
            &long[..HEAD],
            &long[HEAD + whole..HEAD + 2 * whole],
            &long[HEAD..HEAD + whole],
            &long[HEAD + 2 * whole..],
        ];
        assert_eq!(open(&swapped.concat()), Err(Broken), "in another order");
        assert_eq!(open(&[&long[..], &long[HEAD + 2 * whole..]].concat()), Err(Broken), "longer");
    }
}
