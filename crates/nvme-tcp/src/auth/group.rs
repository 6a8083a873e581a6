//! Diffie-Hellman groups: those of RFC 7919 that NVMe uses (Base 8.13.5.2), and none.
//!
//! Exponents are secret, so they are raised in constant time (`crypto-bigint`).
//!
//! Must not depend on: messages.

use ashlar_environment::random;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::Error;

/// floor(2^8062 * e), from which RFC 7919 makes its primes, in hexadecimal digits. Calculated as the sum of 2^8062 / n!.
const EULER: &str = "\
    adf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fbcc939dce249b3ef97d2fe363630c75d8\
    f681b202aec4617ad3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935984f0c70e0e68b77\
    e2a689daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61d108a94bb2c8e3fbb96adab760d7f468\
    1d4f42a3de394df4ae56ede76372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f619172fe9ce98583ff\
    8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec22005c58ef1837d1683b2c6f34a26c1b2effa886b4238611fcfdc\
    de355b3b6519035bbc34f4def99c023861b46fc9d6e6c9077ad91d2691f7f7ee598cb0fac186d91caefe130985139270\
    b4130c93bc437944f4fd4452e2d74dd364f2e21e71f54bff5cae82ab9c9df69ee86d2bc522363a0dabc521979b0deada\
    1dbf9a42d5c4484e0abcd06bfa53ddef3c1b20ee3fd59d7c25e41d2b669e1ef16e6f52c3164df4fb7930e9e4e58857b6\
    ac7d5f42d69f6d187763cf1d5503400487f55ba57e31cc7a7135c886efb4318aed6a1e012d9e6832a907600a918130c4\
    6dc778f971ad0038092999a333cb8b7a1a1db93d7140003c2a4ecea9f98d0acc0a8291cdcec97dcf8ec9b55a7f88a46b\
    4db5a851f44182e1c68a007e5e0dd9020bfd64b645036c7a4e677d2c38532a3a23ba4442caf53ea63bb454329b7624c8\
    917bdd64b1c0fd4cb38e8c334c701c3acdad0657fccfec719b1f5c3e4e46041f388147fb4cfdb477a52471f7a9a96910\
    b855322edb6340d8a00ef092350511e30abec1fff9e3a26e7fb29f8c183023c3587e38da0077d9b4763e4e4b94b2bbc1\
    94c6651e77caf992eeaac0232a281bf6b3a739c1226116820ae8db5847a67cbef9c9091b462d538cd72b03746ae77f5e\
    62292c311562a846505dc82db854338ae49f5235c95b91178ccf2dd5cacef403ec9d1810c6272b045b3b71f9dc6b80d6\
    3fdd4a8e9adb1e6962a69526d43161c1a41d570d7938dad4a40e329ccff46aaa36ad004cf600c8381e425a31d951ae64\
    fdb23fcec9509d43687feb69edd1cc5e0b8cc3bdf64b10ef86b63142a3ab8829555b2f747c932665cb2c0f1cc01bd702\
    29388839d2af05e454504ac78b7582822846c0ba35c35f5c59160cc046fd8251541fc68c9c86b022bb7099876a460e74\
    51a8a93109703fee1c217e6c3826e52c51aa691e0e423cfc99e9e31650c1217b624816cdad9a95f9d5b8019488d9c0a0\
    a1fe3075a577e23183f81d4a3f2fa4571efc8ce0ba8a4fe8b6855dfe72b0a66eded2fbabfbe58a30fafabe1c5d71a87e\
    2f741ef8c1fe86fea6bbfde530677f0d97d11d49f7a8443d0822e506a9f4614e011e2a94838ff88cd68c8bb7c51eef6d";
/// The generator.
const GENERATOR: u8 = 2;

/// A group. Its names are those of the Linux kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// No Diffie-Hellman exchange: the response depends on the secret and the challenge alone.
    Null,
    /// 2048 bits.
    Ffdhe2048,
    /// 3072 bits.
    Ffdhe3072,
    /// 4096 bits.
    Ffdhe4096,
    /// 6144 bits.
    Ffdhe6144,
    /// 8192 bits.
    Ffdhe8192,
}

impl Group {
    /// All, by their identifiers.
    pub const ALL: [Group; 6] = [
        Group::Null,
        Group::Ffdhe2048,
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
    ];

    /// Its identifier (DHgID).
    pub(crate) fn id(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_id(id: u8) -> Option<Group> {
        Group::ALL.get(usize::from(id)).copied()
    }

    /// Its name: `null`, `ffdhe2048`, ...
    #[must_use]
    pub fn name(self) -> &'static str {
        ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"][usize::from(self.id())]
    }

    /// Bytes of a value: 0 for [`Group::Null`].
    pub(crate) fn len(self) -> usize {
        [0, 256, 384, 512, 768, 1024][usize::from(self.id())]
    }

    /// What RFC 7919 adds so that the number is a safe prime (appendix A).
    fn addend(self) -> u32 {
        [0, 560_316, 2_625_351, 5_736_041, 15_705_020, 10_965_728][usize::from(self.id())]
    }

    /// Bits of an exponent: at least those of RFC 7919, section 5.2 (225, 275, 325, 375, 400).
    fn exponent_bits(self) -> u32 {
        [0, 256, 320, 384, 384, 448][usize::from(self.id())]
    }

    /// The prime p = 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1, most significant byte first.
    fn prime(self) -> Vec<u8> {
        let mut out = vec![0xff; self.len()];
        let middle = out.len() - 16;
        let digits = EULER.as_bytes().chunks_exact(2).take(middle);
        let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        for (byte, pair) in out[8..].iter_mut().zip(digits) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        // The - 1 has taken one from the part above the last 64 bits.
        let mut carry = self.addend() - 1;
        for byte in out[8..8 + middle].iter_mut().rev() {
            carry += u32::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
        out
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let found = Group::ALL.into_iter().find(|g| g.name() == text);
        found.ok_or_else(|| {
            format!("{text:?} is none of null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192")
        })
    }
}

/// A key pair of one exchange.
pub(crate) struct KeyPair {
    group: Group,
    params: BoxedMontyParams,
    exponent: BoxedUint,
    /// For the other end: as many bytes as the group has.
    pub(crate) public: Vec<u8>,
}

impl KeyPair {
    /// A new one. None: the group is [`Group::Null`].
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn new(group: Group) -> Result<Option<KeyPair>, Error> {
        if group == Group::Null {
            return Ok(None);
        }
        let mut secret = Zeroizing::new(vec![0; group.exponent_bits() as usize / 8]);
        random::fill(&mut secret).map_err(|e| Error::Connection(std::io::Error::other(e.to_string())))?;
        Ok(KeyPair::of(group, &secret))
    }

    fn of(group: Group, secret: &[u8]) -> Option<KeyPair> {
        let bits = 8 * group.len() as u32;
        let modulus = BoxedUint::from_be_slice(&group.prime(), bits).ok()?;
        let params = BoxedMontyParams::new_vartime(Odd::new(modulus).into_option()?);
        let exponent = BoxedUint::from_be_slice(secret, 8 * secret.len() as u32).ok()?;
        let mut generator = vec![0; group.len()];
        *generator.last_mut()? = GENERATOR;
        let mut pair = KeyPair { group, params, exponent, public: Vec::new() };
        pair.public = pair.raise(&generator)?.to_vec();
        Some(pair)
    }

    fn raise(&self, base: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let base = BoxedUint::from_be_slice(base, 8 * self.group.len() as u32).ok()?;
        let bits = self.exponent.bits_precision();
        let raised = BoxedMontyForm::new(base, &self.params).pow_bounded_exp(&self.exponent, bits);
        let mut number = raised.retrieve();
        let bytes = Zeroizing::new(number.to_be_bytes().into_vec());
        number.zeroize();
        Some(bytes)
    }

    /// What both ends have, as many bytes as the group has, from the public value of the other end. None: that value is not one
    /// of the group, or is one that gives the secret away (RFC 7919, section 5.1).
    pub(crate) fn shared(&self, other: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if other.len() != self.group.len() {
            return None;
        }
        // 1 < value < p - 1; the numbers have the same length, and p is odd.
        let mut last = self.group.prime();
        *last.last_mut()? -= 1;
        let (highest, rest) = other.split_last()?;
        if rest.iter().all(|b| *b == 0) && *highest <= 1 || other >= &last[..] {
            return None;
        }
        self.raise(other)
    }
}

impl Drop for KeyPair {
    fn drop(&mut self) {
        self.exponent.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_openssl() {
        // SHA-256 of the numbers in `openssl genpkey -algorithm DH -pkeyopt group:ffdhe2048 -outform DER` and so on.
        let known = [
            "9cd3b7f336872f46c09428d1bbc19877a4d440512cda8d1c1cf0cd6e33698966",
            "0eaf67db3a839156d5013494a5318a772b5697d270d721f37f092efc69ea5a17",
            "4648414224ac881b3d0dc59b466f96d06a558278776807797ecf1f66ff397b3e",
            "227ac9066b3ddd9e193670cda2388fa884f65ba0cf98b742d1fe77a6687c79c7",
            "770b14efaf6f049929c523113b3fa99a8d11dab1b18af3609590122075d19833",
        ];
        for (group, sum) in Group::ALL[1..].iter().zip(known) {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &group.prime());
            assert_eq!(hex::encode(digest), sum, "{group}");
        }
    }

    #[test]
    fn both_ends_have_the_same_secret() {
        for group in Group::ALL {
            let pair = || KeyPair::new(group).unwrap();
            let (Some(a), Some(b)) = (pair(), pair()) else {
                assert_eq!(group, Group::Null);
                continue;
            };
            assert_ne!(a.public, b.public);
            let (one, other) = (a.shared(&b.public).unwrap(), b.shared(&a.public).unwrap());
            assert_eq!((&one, one.len()), (&other, group.len()), "{group}");
        }
    }

    #[test]
    fn a_small_exponent_gives_the_known_power() {
        let pair = KeyPair::of(Group::Ffdhe2048, &[0, 0, 0, 0, 0, 0, 0, 10]).unwrap();
        assert_eq!(pair.public[254..], [4, 0]);
        let mut three = vec![0; 256];
        three[255] = 3;
        assert_eq!(pair.shared(&three).unwrap()[253..], 59_049u32.to_be_bytes()[1..]);
    }

    #[test]
    fn values_that_give_the_secret_away_are_refused() {
        let group = Group::Ffdhe2048;
        let pair = KeyPair::new(group).unwrap().unwrap();
        let small = |n: u8| [vec![0; 255], vec![n]].concat();
        let near = |less: u8| {
            let mut p = group.prime();
            p[255] -= less;
            p
        };
        for bad in [small(0), small(1), near(0), near(1), vec![0xff; 256], vec![], vec![2; 255], vec![2; 257]]
        {
            assert!(pair.shared(&bad).is_none());
        }
        assert!(pair.shared(&small(2)).is_some() && pair.shared(&near(2)).is_some());
    }
}
