//! Known answers: published check values, and golden values of the on-drive format.
//!
//! If a golden value here changes, stored data can no longer be read or found.

use ashlar_checksum::{
    Algorithm, Digest, Hasher, KEY_HASH_KEY, Sha256, combine_crc, composite, ct_eq, frame_hash, hmac_sha256,
    key_hash, md5_once, sha256,
};
use highway::{HighwayHash, Key, PortableHash};
use proptest::prelude::*;

fn checksum(algorithm: Algorithm, data: &[u8]) -> Digest {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish()
}

/// RFC 1321, A.5.
#[test]
fn md5_matches_rfc_1321() {
    for (data, digest) in [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ] {
        assert_eq!(hex::encode(md5_once(data.as_bytes())), digest, "{data}");
    }
}

/// The check values of the CRC catalogue, and of FIPS 180 for "abc".
#[test]
fn checksums_match_published_values() {
    for (algorithm, data, digest, base64) in [
        (Algorithm::Crc32, "123456789", "cbf43926", "y/Q5Jg=="),
        (Algorithm::Crc32c, "123456789", "e3069283", "4waSgw=="),
        (Algorithm::Crc64Nvme, "123456789", "ae8b14860a799888", "rosUhgp5mIg="),
        (Algorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d", "qZk+NkcGgWq6PiVxeFDCbJzQ2J0="),
        (
            Algorithm::Sha256,
            "abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
        ),
        (
            Algorithm::Sha512,
            "abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==",
        ),
        (Algorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72", "kAFQmDzST7DWlj99KOF/cg=="),
        (Algorithm::XxHash64, "abc", "44bc2cf5ad770999", "RLws9a13CZk="),
        (Algorithm::XxHash3, "abc", "78af5f94892f3950", "eK9flIkvOVA="),
        (Algorithm::XxHash128, "abc", "06b05ab6733a618578af5f94892f3950", "BrBatnM6YYV4r1+UiS85UA=="),
    ] {
        let value = checksum(algorithm, data.as_bytes());
        assert_eq!(hex::encode(value.as_bytes()), digest, "{algorithm}");
        assert_eq!(value.base64(), base64, "{algorithm}");
        assert_eq!(value.as_bytes().len(), algorithm.digest_len());
        assert_eq!(Digest::from_base64(algorithm, base64), Some(value));
        assert_eq!(Digest::from_bytes(algorithm, value.as_bytes()), Some(value));
        assert_eq!(Algorithm::parse(algorithm.name()), Some(algorithm));
        assert_eq!(Algorithm::parse(&algorithm.name().to_lowercase()), Some(algorithm));
    }
}

/// Of 0 to 255, 40 times, in pieces; the digests are those of the reference implementation (xxHash 0.8).
#[test]
fn xxhash_is_the_same_in_pieces() {
    let data: Vec<u8> = (0..=255u8).cycle().take(40 * 256).collect();
    for (algorithm, digest) in [
        (Algorithm::XxHash64, "58b820aa7970dbe2"),
        (Algorithm::XxHash3, "c03d2231ab9348f3"),
        (Algorithm::XxHash128, "1cb22534d0d96975c03d2231ab9348f3"),
        (Algorithm::Md5, "c3cd26e07e555c0116db237fbc06d99c"),
    ] {
        for piece in [1, 63, 1000, data.len()] {
            let mut hasher = Hasher::new(algorithm);
            data.chunks(piece).for_each(|p| hasher.update(p));
            assert_eq!(hex::encode(hasher.finish().as_bytes()), digest, "{algorithm} by {piece}");
        }
    }
}

/// iSCSI (RFC 3720, B.4): CRC-32C of 32 zeros, of 32 ones, of 0 to 31.
#[test]
fn crc32c_matches_the_iscsi_standard() {
    let ascending: Vec<u8> = (0..32).collect();
    for (data, crc) in [(&[0; 32][..], "8a9136aa"), (&[0xff; 32], "62a8ab43"), (&ascending, "46dd794e")] {
        assert_eq!(hex::encode(checksum(Algorithm::Crc32c, data).as_bytes()), crc);
    }
}

#[test]
fn malformed_digests_and_names_are_refused() {
    for text in ["", "y/Q5Jg", "y/Q5Jg=", "y/Q5Jh==", "rosUhgp5mIg=", "y/Q5\nJg==", &"A".repeat(4000)] {
        assert_eq!(Digest::from_base64(Algorithm::Crc32, text), None, "{text}");
    }
    assert_eq!(Digest::from_bytes(Algorithm::Sha1, &[0; 32]), None);
    for name in ["", "CRC", "CRC32 ", "XXHASH", "CRC-32"] {
        assert_eq!(Algorithm::parse(name), None, "{name}");
    }
}

/// FIPS 180 and RFC 4231.
#[test]
fn sha256_and_hmac_match_published_values() {
    let mut running = Sha256::new();
    running.update(b"a");
    running.update(b"bc");
    assert_eq!(running.finish(), sha256(b"abc"));
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(hex::encode(sha256(b"")), empty);
    assert_eq!(hex::encode(Sha256::default().finish()), empty);
    let long_key = [0xaa; 131];
    for (key, data, mac) in [
        (
            &b"Jefe"[..],
            &b"what do ya want for nothing?"[..],
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &long_key,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ] {
        assert_eq!(hex::encode(hmac_sha256(key, data)), mac);
    }
    assert!(ct_eq(b"same", b"same") && !ct_eq(b"same", b"sane") && !ct_eq(b"same", b"sam"));
}

/// HighwayHash's own test vectors (`highwayhash_test_target.cc`): key 0 to 31, data 0, 1, 2, ...
#[test]
fn frame_hash_is_the_published_function() {
    let key = [0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110, 0x1f1e1d1c1b1a1918];
    let words = [0xdd44482ac2c874f5u64, 0xd946017313c7351f, 0xb3aebeccb98714ff, 0x41da233145751df4];
    let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(frame_hash(&key, &[]).to_vec(), expected);
    assert_eq!(PortableHash::new(Key(key)).hash64(&[]), 0x907a56de22c26e53);
    assert_eq!(PortableHash::new(Key(key)).hash64(&[0]), 0x7eab43aac7cddd78);
}

/// Golden: frames and records on drives.
#[test]
fn golden_frame_hash() {
    let key = [1, 2, 3, u64::MAX];
    let data: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    for (parts, hash) in [
        (&[][..], "b6e5c61782f917f7d294dfad6c8b3716930b684b1bd8e8f895262b75aaa10945"),
        (&[&b"ashlar"[..]], "c99d15f1f1a91b6f686d82d7f03a6c349858011ac43a624b55aa922bf4cfe8a0"),
        (&[&data[..]], "d03e832859dd988d51404863d814f6cf677ce20fce45c391d7b31da1f2bb8e3b"),
        (
            &[&data[..7], &data[7..640], &[], &data[640..]],
            "d03e832859dd988d51404863d814f6cf677ce20fce45c391d7b31da1f2bb8e3b",
        ),
    ] {
        assert_eq!(hex::encode(frame_hash(&key, parts)), hash);
    }
}

/// Golden: placement of keys.
#[test]
fn golden_key_hash() {
    assert_eq!(KEY_HASH_KEY.map(u64::to_le_bytes).concat(), b"ashlar key placement hash v1 ...",);
    for (key, hash) in [
        ("", 0x07ba_e3b5_d965_55cc),
        ("bucket/key", 0x41aa_76c4_03b7_3966),
        ("a longer key, past one packet of 32 bytes", 0x7b6f_8ff8_8476_a100),
    ] {
        assert_eq!(key_hash(key.as_bytes()), hash, "{key}");
    }
}

#[test]
fn incompatible_digests_are_not_combined() {
    let a = checksum(Algorithm::Sha256, b"a");
    assert_eq!(combine_crc(Algorithm::Sha256, &a, &a, 1), None);
    let b = checksum(Algorithm::Crc32, b"a");
    assert_eq!(combine_crc(Algorithm::Crc32c, &b, &b, 1), None);
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.is_crc(), algorithm.name().starts_with("CRC"));
    }
}

/// The composite of parts is the checksum of their digests in a row.
#[test]
fn composite_hashes_the_digests() {
    for algorithm in Algorithm::ALL {
        let parts = [checksum(algorithm, b"one"), checksum(algorithm, b"two")];
        let row = [parts[0].as_bytes(), parts[1].as_bytes()].concat();
        assert_eq!(composite(algorithm, &parts), checksum(algorithm, &row));
    }
}

/// Bit by bit, as in the definition: reflected polynomials.
fn slow_crc(algorithm: Algorithm, data: &[u8]) -> u64 {
    let (width, polynomial) = match algorithm {
        Algorithm::Crc32 => (32, 0xedb8_8320),
        Algorithm::Crc32c => (32, 0x82f6_3b78),
        _ => (64, 0x9a6c_9329_ac4b_c9b5),
    };
    let ones = u64::MAX >> (64 - width);
    let mut crc = ones;
    for &byte in data {
        crc ^= u64::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 };
        }
    }
    crc ^ ones
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn crcs_agree_with_their_definition_and_combine(
        data in prop::collection::vec(any::<u8>(), 0..3000),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let whole = checksum(algorithm, &data);
            let slow = slow_crc(algorithm, &data).to_be_bytes();
            prop_assert_eq!(whole.as_bytes(), &slow[8 - algorithm.digest_len()..]);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
            cuts.push(data.len());
            cuts.sort_unstable();
            let mut combined = checksum(algorithm, &[]);
            let mut running = Hasher::new(algorithm);
            let mut start = 0;
            for cut in cuts {
                let part = &data[start..cut];
                running.update(part);
                combined = combine_crc(algorithm, &combined, &checksum(algorithm, part), part.len() as u64)
                    .expect("a CRC");
                start = cut;
            }
            prop_assert_eq!(combined, whole);
            prop_assert_eq!(running.finish(), whole);
        }
    }

    #[test]
    fn highway_agrees_with_its_portable_implementation(
        key in any::<[u64; 4]>(),
        data in prop::collection::vec(any::<u8>(), 0..500),
        cut in any::<prop::sample::Index>(),
    ) {
        let words = PortableHash::new(Key(key)).hash256(&data);
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (a, b) = data.split_at(cut.index(data.len() + 1));
        prop_assert_eq!(frame_hash(&key, &[a, b]).to_vec(), expected);
        prop_assert_eq!(key_hash(&data), PortableHash::new(Key(KEY_HASH_KEY)).hash64(&data));
    }
}
