//! A root key file that is sealed under a passphrase, for machines without a TPM.
//!
//! Text, two lines: [`HEAD`], then base64 of
//!
//! | bytes | |
//! |---|---|
//! | 16 | salt, random |
//! | 4, 4, 4 | Argon2id's memory in KiB, passes, lanes (u32, big-endian) |
//! | 65 | the root key, as `wrap` seals it |
//!
//! The key of the seal is Argon2id (RFC 9106, version 0x13) of the passphrase; the parameters are bound.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroize as _;

use crate::wrap::{self, SEALED};
use crate::{Error, Result, Secret, random};

/// The first line.
pub const HEAD: &str = "ashlar sealed root key 1";
/// Shortest passphrase, in bytes.
pub const SHORTEST: usize = 12;
/// Bytes before the sealed key.
const FRONT: usize = 16 + 3 * 4;
/// Memory in KiB, passes, lanes (RFC 9106, 4: the second recommended option).
const COST: [u32; 3] = [64 << 10, 3, 4];
/// Upper limits of each. A file with higher values is not opened.
const MOST: [u32; 3] = [4 << 20, 64, 64];

fn invalid(why: &str) -> Error {
    Error::Invalid(format!("the sealed root key: {why}"))
}

fn derived(passphrase: &str, front: &[u8; FRONT]) -> Result<Secret> {
    let number = |i: usize| u32::from_be_bytes([front[i], front[i + 1], front[i + 2], front[i + 3]]);
    let cost = [number(16), number(20), number(24)];
    if cost.iter().zip(MOST).any(|(c, most)| *c > most) {
        return Err(invalid("its Argon2 cost is too high"));
    }
    let params = Params::new(cost[0], cost[1], cost[2], Some(32))
        .map_err(|_| invalid("its Argon2 cost is not valid"))?;
    let mut bytes = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), &front[..16], &mut bytes)
        .map_err(|_| invalid("its Argon2 cost is not valid"))?;
    let key = Secret::new(bytes);
    bytes.zeroize();
    Ok(key)
}

/// Seals a root key under a passphrase: the text of the file.
///
/// # Errors
/// [`Error::Invalid`]: the passphrase is shorter than [`SHORTEST`].
pub fn seal_root(key: &Secret, passphrase: &str) -> Result<String> {
    seal_at(COST, key, passphrase)
}

fn seal_at(cost: [u32; 3], key: &Secret, passphrase: &str) -> Result<String> {
    if passphrase.len() < SHORTEST {
        return Err(Error::Invalid(format!("a passphrase must have at least {SHORTEST} characters")));
    }
    let mut front = [0; FRONT];
    front[..16].copy_from_slice(&random::<16>());
    for (place, number) in front[16..].chunks_exact_mut(4).zip(cost) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    let sealed = wrap::seal(&derived(passphrase, &front)?, key, &front);
    Ok(format!("{HEAD}\n{}\n", STANDARD.encode([&front[..], &sealed].concat())))
}

/// Opens a sealed root key.
///
/// # Errors
/// [`Error::Invalid`]: the text cannot be decoded, or the passphrase is wrong.
pub fn open_root(text: &str, passphrase: &str) -> Result<Secret> {
    let coded = text
        .strip_prefix(HEAD)
        .map(str::trim)
        .ok_or_else(|| invalid("it does not begin with the line of a sealed root key"))?;
    let bytes = STANDARD.decode(coded).map_err(|_| invalid("it is not base64"))?;
    let (front, sealed) = bytes
        .split_first_chunk::<FRONT>()
        .filter(|(_, sealed)| sealed.len() == SEALED)
        .ok_or_else(|| invalid("its length is wrong"))?;
    let why = "the passphrase is wrong, or the file was changed";
    wrap::open(&derived(passphrase, front)?, sealed, front).map_err(|_| invalid(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHT: [u32; 3] = [64, 1, 1];

    #[test]
    fn only_the_passphrase_opens_the_root_key() {
        let key = Secret::generate();
        let text = seal_at(LIGHT, &key, "correct horse battery").ok().unwrap();
        assert_eq!(open_root(&text, "correct horse battery").ok().unwrap().expose(), key.expose());
        assert!(open_root(&text, "correct horse batterx").is_err());
        let coded = text.lines().nth(1).unwrap();
        let bytes = STANDARD.decode(coded).unwrap();
        // A changed cost is limited, and no changed text opens.
        for at in (0..bytes.len()).filter(|at| !(16..FRONT).contains(at)) {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            let bad = format!("{HEAD}\n{}", STANDARD.encode(bad));
            assert!(open_root(&bad, "correct horse battery").is_err(), "byte {at}");
        }
        let mut costly = bytes.clone();
        costly[16] = 0xff;
        let costly = format!("{HEAD}\n{}", STANDARD.encode(costly));
        assert!(open_root(&costly, "correct horse battery").err().unwrap().to_string().contains("too high"));
        for cut in [0, 10, HEAD.len(), text.len() - 20] {
            assert!(open_root(&text[..cut], "correct horse battery").is_err(), "cut at {cut}");
        }
        assert!(seal_at(LIGHT, &key, "too short").is_err());
    }

    #[test]
    fn golden() {
        let text = format!(
            "{HEAD}\nAAECAwQFBgcICQoLDA0ODwAAAEAAAAABAAAAAQEQERITFBUWFxgZGhscHR4f{}\n",
            include_str!("golden_root.txt").trim()
        );
        let key = open_root(&text, "correct horse battery").ok().unwrap();
        assert!(key.expose().iter().enumerate().all(|(i, b)| usize::from(*b) == i + 1));
    }
}
