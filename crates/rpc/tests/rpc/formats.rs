//! The bytes of messages and certificates.

use std::time::Duration;

use ashlar_format::DeploymentId;
use ashlar_rpc::frame::{
    FREE_BULK, HEADER, Header, Kind, MAX_BULK, MAX_HEAD, MAX_VERSION, charge, fuzz_seeds, fuzzed,
    with_checksums,
};
use ashlar_rpc::hello::{Hello, Purpose};
use ashlar_rpc::{Authority, Credentials, Error, Identity, NodeKey, Trust, serial_of};
use proptest::prelude::*;

use crate::common::*;

/// These bytes never change: a node of another release reads them.
#[test]
fn golden_messages() {
    let request = Header {
        code: 0x0102,
        id: 0x1112_1314_1516_1718,
        deadline_us: 0x2122_2324,
        epoch: 0x3132_3334,
        amount: 0x0001_0000,
        ..Header::new(Kind::Request, 1)
    };
    let golden = "4153484d0102020118171615141312112423222134333231000001000400000000000000";
    let bytes = message(request, b"head");
    assert_eq!(hex(&bytes[..36]), golden, "all but the checksums");
    assert_eq!(&bytes[44..], b"head");
    let decoded = Header::decode(bytes.first_chunk().unwrap(), Some(1)).unwrap();
    decoded.check_head(b"head").unwrap();
    assert!(decoded.check_head(b"heat").is_err());
    // CRC32C of "123456789" is e3069283 in every catalogue of checksums.
    let known = message(Header { id: 1, ..Header::new(Kind::Answer, 1) }, b"123456789");
    assert_eq!(hex(&known[36..40]), "839206e3");
    let said = Hello {
        cluster: DeploymentId([0xab; 16]),
        from: 0x0102,
        to: 0x0304,
        incarnation: 0x1112_1314_1516_1718,
        min_version: 1,
        max_version: 2,
        purpose: Purpose::Bulk,
        feature_level: 0x2122_2324,
        window: 0x3132_3334,
        requests: 0x4142_4344,
        oldest_level: 0x0102_0304,
    };
    let golden = "0201040318171615141312110102010024232221343332314443424104030201";
    assert_eq!(hex(&said.encode()), "ab".repeat(16) + golden);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn impossible_messages_are_refused() {
    let request = Header { id: 1, ..Header::new(Kind::Request, 1) };
    let refused = |header: Header| Header::decode(&header.bytes(), Some(1)).unwrap_err();
    let answer = Header { id: 1, ..Header::new(Kind::Answer, 1) };
    for header in [
        Header { head_len: MAX_HEAD as u32 + 1, ..request },
        Header { bulk_len: MAX_BULK as u32 + 1, ..request },
        Header { amount: MAX_BULK as u32 + 1, ..request },
        Header { version: 2, ..request },
        Header { version: 0, ..request },
        Header { id: 0, ..request },
        Header { head_crc: 1, ..request },
        Header { epoch: 1, ..answer },
        Header { code: 1, bulk_len: 1, ..answer },
        Header { bulk_len: 1, ..Header::new(Kind::Hello, 0) },
        Header { version: 1, ..Header::new(Kind::Hello, 0) },
        Header { id: 1, code: 1, ..Header::new(Kind::Cancel, 1) },
        Header { head_len: 1, head_crc: 5, ..Header::new(Kind::Ping, 1) },
        Header::new(Kind::Credit, 1),
    ] {
        assert!(matches!(refused(header), Error::Malformed(_)), "{header:?}");
    }
    assert!(Header::decode(&request.bytes(), None).is_err(), "before the hello");
    Header::decode(&request.bytes(), Some(1)).unwrap();
    let mut unknown = request.bytes().to_vec();
    unknown[5] = 9;
    let unknown = with_checksums(&unknown);
    assert!(Header::decode(unknown.first_chunk().unwrap(), Some(1)).is_err());
    assert_eq!((charge(FREE_BULK), charge(FREE_BULK + 1)), (0, FREE_BULK as u32 + 1));
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Hello,
        Kind::Request,
        Kind::Answer,
        Kind::Cancel,
        Kind::Ping,
        Kind::Pong,
        Kind::Credit,
        Kind::Goodbye,
    ])
}

proptest! {
    #[test]
    fn requests_round_trip(
        code: u16, id in 1u64.., deadline_us: u32, epoch: u32, amount in 0..=MAX_BULK as u32,
        bulk_len in 0..=MAX_BULK as u32, head in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let header = Header { code, id, deadline_us, epoch, amount, bulk_len, ..Header::new(Kind::Request, 1) };
        let bytes = message(header, &head);
        let decoded = Header::decode(bytes.first_chunk().unwrap(), Some(1)).unwrap();
        prop_assert_eq!(Header { head_len: 0, head_crc: 0, ..decoded }, header);
        prop_assert_eq!(decoded.head_len as usize, head.len());
        decoded.check_head(&bytes[HEADER..]).unwrap();
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzzed(&bytes);
        fuzzed(&with_checksums(&bytes));
        let _ = Hello::decode(&bytes);
    }

    /// Whatever decodes encodes to the same bytes, and no single wrong bit is overlooked.
    #[test]
    fn decoding_is_exact(kind in kinds(), seed in 0..9usize, at in 0..HEADER * 8, byte: u8) {
        let seeds = fuzz_seeds();
        let mut bytes = seeds[seed % seeds.len()][..HEADER].to_vec();
        let first = Header::decode(bytes.first_chunk().unwrap(), Some(MAX_VERSION)).unwrap();
        prop_assert_eq!(&first.bytes()[..], &bytes[..]);
        bytes[at / 8] ^= 1 << (at % 8);
        prop_assert!(Header::decode(bytes.first_chunk().unwrap(), Some(MAX_VERSION)).is_err());
        bytes[5] = kind as u8;
        bytes[at / 8] = byte;
        fuzzed(&with_checksums(&bytes));
    }
}

#[test]
fn hellos_of_later_releases_can_be_read() {
    let said = hello(1, 2);
    let later = [&said.encode()[..], b"more fields"].concat();
    assert_eq!(Hello::decode(&later).unwrap(), said);
    assert!(Hello::decode(&said.encode()[..47]).is_err());
    let newer = Hello { min_version: 2, max_version: 5, ..said.clone() };
    let both = Hello { min_version: 1, max_version: 3, ..said.clone() };
    assert_eq!(newer.common_version(&both), Ok(3));
    assert!(matches!(newer.common_version(&said), Err(Error::Incompatible(_))));
}

#[test]
fn feature_levels_must_overlap() {
    let can = |oldest_level, feature_level| Hello { oldest_level, feature_level, ..hello(1, 2) };
    for (a, b) in [((1, 1), (1, 3)), ((2, 3), (3, 5)), ((0, 0), (0, 0))] {
        assert_eq!(can(a.0, a.1).check_levels(&can(b.0, b.1)), Ok(()));
        assert_eq!(can(b.0, b.1).check_levels(&can(a.0, a.1)), Ok(()));
    }
    let why = can(1, 2).check_levels(&can(3, 4)).unwrap_err();
    assert!(
        matches!(&why, Error::Incompatible(said) if said.contains("levels 1 to 2") && said.contains("3 to 4"))
    );
    assert!(Hello::decode(&can(3, 2).encode()).is_err());
}

#[test]
fn authorities_and_keys_are_kept_and_restored() {
    let first = authority();
    let key = first.to_pkcs8();
    let again = Authority::restore(CLUSTER, first.certificate(), &key).unwrap();
    // A certificate of the restored one is trusted by those who trust the first.
    Credentials::new(identity(&again, 4), trust(&[&first])).unwrap();
    let other = authority();
    assert!(Authority::restore(CLUSTER, other.certificate(), &key).is_err(), "another key");
    assert!(Authority::restore(DeploymentId([8; 16]), first.certificate(), &key).is_err());
    assert!(Authority::restore(CLUSTER, b"no certificate", &key).is_err());
    assert!(Credentials::new(identity(&other, 4), trust(&[&first])).is_err(), "its own is not trusted");
    let node = NodeKey::generate().unwrap();
    let kept = NodeKey::from_pkcs8(&node.to_pkcs8()).unwrap();
    let certificate = first.sign(&node.request().unwrap(), 65_535, DAY).unwrap();
    let identity = Identity::new(CLUSTER, &certificate, &kept).unwrap();
    assert_eq!((identity.node(), identity.cluster()), (65_535, CLUSTER));
    let (from, until) = identity.validity();
    assert_eq!(until - from, 86_400 + 3600);
    assert!(!identity.is_due(until - 40_000) && identity.is_due(until - 20_000));
    let stranger = NodeKey::generate().unwrap();
    assert!(Identity::new(CLUSTER, &certificate, &stranger).is_err(), "not its key");
    assert!(Identity::new(DeploymentId([8; 16]), &certificate, &kept).is_err());
    assert!(Identity::new(CLUSTER, first.certificate(), &kept).is_err(), "an authority is no node");
    assert!(Trust::new(CLUSTER, []).is_err() && Trust::new(CLUSTER, [&b"x"[..]]).is_err());
    let debug = format!("{node:?} {identity:?} {first:?}");
    assert!(!debug.contains("key:") && debug.contains("node/65535"), "{debug}");
}

#[test]
fn requests_for_certificates_prove_the_key() {
    let authority = authority();
    let request = NodeKey::generate().unwrap().request().unwrap();
    authority.sign(&request, 1, DAY).unwrap();
    let accepted: Vec<usize> = (0..request.len())
        .filter(|at| {
            let mut wrong = request.clone();
            wrong[*at] ^= 1;
            authority.sign(&wrong, 1, DAY).is_ok()
        })
        .collect();
    // What is signed follows the outer header, whose three bytes are refused too.
    let signed = 0..5 + usize::from(request[4]);
    assert!(signed.len() > 90 && accepted.iter().all(|at| !signed.contains(at)), "{accepted:?}");
    assert!(accepted.len() <= 1, "the kind of what names the algorithm is read leniently: {accepted:?}");
    for wrong in [&request[..request.len() - 1], &[&request[..], &[0]].concat(), &[0x30; 5000], b""] {
        assert!(authority.sign(wrong, 1, DAY).is_err());
    }
    // A key of another kind.
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let other = rcgen::CertificateParams::default().serialize_request(&pair).unwrap();
    assert!(authority.sign(other.der(), 1, DAY).is_err());
}

#[test]
fn withdrawn_certificates_are_not_trusted() {
    let authority = authority();
    let key = NodeKey::generate().unwrap();
    let certificate = authority.sign(&key.request().unwrap(), 7, Duration::from_secs(100)).unwrap();
    let identity = Identity::new(CLUSTER, &certificate, &key).unwrap();
    let serial = serial_of(&certificate).unwrap();
    let (from, _) = identity.validity();
    let plain = trust(&[&authority]);
    for (trust, trusted) in [
        (plain.clone(), true),
        (plain.clone().without_serial(&serial), false),
        (plain.clone().without_serial(&[1, 2, 3]), true),
        (plain.clone().without_before(7, from + 1), false),
        (plain.clone().without_before(7, from), true),
        (plain.without_before(8, from + 1), true),
    ] {
        assert_eq!(Credentials::new(identity.clone(), trust).is_ok(), trusted);
    }
    let credentials = credentials(&authority, 1);
    let moved = credentials.replace(crate::common::identity(&authority, 2), trust(&[&authority]));
    assert!(moved.is_err(), "a process does not become another node");
}
