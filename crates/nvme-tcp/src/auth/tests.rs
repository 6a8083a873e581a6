//! Responses that were calculated elsewhere, bytes of messages, and exchanges between the two ends without a connection.

use std::sync::Arc;

use super::exchange::Exchange;
use super::hash::{Asked, Prover};
use super::initiator::{self, Failure, Parties};
use super::message::{Challenge, Message, Negotiate, Offer, Reply, reason};
use super::*;
use crate::samples::{HOST, NQN};

/// Hash function, secret of the host, secret of the subsystem, with Diffie-Hellman, first bytes of the responses of the two: from a
/// script over Python's `hmac`, `hashlib`, `zlib` and `base64`, with the formulas of Base 8.13.5. Challenges are 1, 4, 7, ...; the
/// shared secret is 0, 1, 2, ... 250, 0, ...; the sequence number is 01020304h, the transaction abcdh.
const KNOWN: [(Hash, &str, &str, bool, &str, &str); 12] = [
    (
        Hash::ALL[0],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5w5mbdT:",
        false,
        "754f26efa1c0e2902238ba84a10174e9",
        "a887864f078a5cbbe07e172302ec768e",
    ),
    (
        Hash::ALL[0],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5w5mbdT:",
        true,
        "f1def00428676ba2305e182710ab7408",
        "f047ff15d9057a8b7a711baffa6cf797",
    ),
    (
        Hash::ALL[0],
        "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
        "DHHC-1:01:AgcMERYbICUqLzQ5PkNITVJXXGFma3B1en+EiY6TmJ19R/Gn:",
        false,
        "0124ac73f52df05cc3712ac6ee214cbd",
        "d6bf56ed4595dbf90b0d9f9ca97d175e",
    ),
    (
        Hash::ALL[0],
        "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
        "DHHC-1:01:AgcMERYbICUqLzQ5PkNITVJXXGFma3B1en+EiY6TmJ19R/Gn:",
        true,
        "a7de472ee12420354fbe71b6b2da572a",
        "f6ff6165f5357e601871ae1337b31ea5",
    ),
    (
        Hash::ALL[1],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng5+71/AMKERgfJi00O0JJ2TiKYw==:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5yhpquwtbq/xMnO09jd4ufs2J3JOw==:",
        false,
        "df5d8a3586598b28553b85b6df9e1a64",
        "6a344f2c6898d3dcc55e2005f51773cf",
    ),
    (
        Hash::ALL[1],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng5+71/AMKERgfJi00O0JJ2TiKYw==:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5yhpquwtbq/xMnO09jd4ufs2J3JOw==:",
        true,
        "de67664e6f7f4a008b5300ee20e6f33a",
        "76f58f49191d0a464f587bef54b1b610",
    ),
    (
        Hash::ALL[1],
        "DHHC-1:02:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nvi6fD3/gUMExohKC82PURLIrqU+w==:",
        "DHHC-1:02:AwgNEhccISYrMDU6P0RJTlNYXWJnbHF2e4CFio+UmZ6jqK2yt7zBxsvQ1drf5OnuCDjAIQ==:",
        false,
        "6603f9c0c1f8c58257f2e70cbceddb08",
        "b35e190b8ffa5b67850fc589d5873661",
    ),
    (
        Hash::ALL[1],
        "DHHC-1:02:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nvi6fD3/gUMExohKC82PURLIrqU+w==:",
        "DHHC-1:02:AwgNEhccISYrMDU6P0RJTlNYXWJnbHF2e4CFio+UmZ6jqK2yt7zBxsvQ1drf5OnuCDjAIQ==:",
        true,
        "d86645ab0dd98e01b033899bfe250c52",
        "2e94449458e6ac54f9f04fffe37be4cf",
    ),
    (
        Hash::ALL[2],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng5+71/AMKERgfJi00O0JJUFdeZWxzeoGIj5adpKuyudSnJNM=:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5yhpquwtbq/xMnO09jd4ufs8fb7AAUKDxQZHiMoLTI3PHosVYQ=:",
        false,
        "b913610ba7a15c1999ff07b8d4d908ab",
        "ff83135ecb469ee8060afe9dfb59ad9d",
    ),
    (
        Hash::ALL[2],
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tng5+71/AMKERgfJi00O0JJUFdeZWxzeoGIj5adpKuyudSnJNM=:",
        "DHHC-1:00:AQYLEBUaHyQpLjM4PUJHTFFWW2Blam90eX6DiI2Sl5yhpquwtbq/xMnO09jd4ufs8fb7AAUKDxQZHiMoLTI3PHosVYQ=:",
        true,
        "90b7914721b3918fd8d648e2050e8ff2",
        "ba3ae3abd40ac2a62ea25eff6ee322c9",
    ),
    (
        Hash::ALL[2],
        "DHHC-1:03:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vPDs2cs=:",
        "DHHC-1:03:BAkOExgdIicsMTY7QEVKT1RZXmNobXJ3fIGGi5CVmp+kqa6zuL3Cx8zR1tvg5erv9Pn+AwgNEhccISYrMDU6P8Y4ExE=:",
        false,
        "dae190d8048b445fe72b726803727d66",
        "966546593e4dfebe8b4b4e5c6c7f91ba",
    ),
    (
        Hash::ALL[2],
        "DHHC-1:03:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vPDs2cs=:",
        "DHHC-1:03:BAkOExgdIicsMTY7QEVKT1RZXmNobXJ3fIGGi5CVmp+kqa6zuL3Cx8zR1tvg5erv9Pn+AwgNEhccISYrMDU6P8Y4ExE=:",
        true,
        "1c51369d77f2e0a7dda0e50e7b877235",
        "d3eb29b30d212e8fdde03589f1f4a23b",
    ),
];

fn secret(text: &str) -> Secret {
    text.parse().unwrap()
}

fn host_secret() -> Secret {
    secret(KNOWN[0].1)
}

fn controller_secret() -> Secret {
    secret(KNOWN[0].2)
}

/// A key of TLS.
const TLS_KEY: &str = "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";

fn keys(controller: Option<Secret>, hash: Option<Hash>, group: Option<Group>) -> Arc<HostKeys> {
    Arc::new(HostKeys { secret: Some(host_secret()), controller_secret: controller, hash, group, tls: None })
}

#[test]
fn responses_are_those_of_the_specification() {
    let shared: Vec<u8> = (0..256u32).map(|i| (i % 251) as u8).collect();
    for (hash, host, controller, exchanged, of_host, of_controller) in KNOWN {
        let challenge: Vec<u8> = (0..hash.len()).map(|i| (3 * i + 1) as u8).collect();
        let asked = Asked {
            hash,
            challenge: &challenge,
            shared: exchanged.then_some(&shared[..]),
            sequence: 0x0102_0304,
            transaction: 0xabcd,
            host: HOST,
            subsystem: NQN,
        };
        let first = |prover, key: &[u8]| hex::encode(&asked.response(prover, key)[..16]);
        assert_eq!(first(Prover::Host, &secret(host).key(HOST)), of_host);
        assert_eq!(first(Prover::Controller, &secret(controller).key(NQN)), of_controller);
    }
}

#[test]
fn messages_have_the_bytes_of_the_specification() {
    // As the host of Linux begins: one descriptor of 64 bytes, hash functions from its byte 4 on, groups from 34 on.
    let begin = initiator::negotiate(0x0201);
    assert_eq!(begin.len(), 72);
    assert_eq!(begin[..12], [0, 0, 0, 0, 1, 2, 0, 1, 1, 0, 3, 6]);
    assert_eq!((&begin[12..16], &begin[42..49]), (&[1, 2, 3, 0][..], &[0, 1, 2, 3, 4, 5, 0][..]));
    let challenge = Message::Challenge(Challenge {
        transaction: 7,
        hash: Hash::Sha256,
        group: Group::Ffdhe2048,
        sequence: 9,
        challenge: vec![8; 32],
        public: vec![6; 256],
    });
    let bytes = challenge.encode();
    assert_eq!(bytes[..16], [1, 1, 0, 0, 7, 0, 32, 0, 1, 1, 0, 1, 9, 0, 0, 0]);
    assert_eq!((bytes.len(), bytes[47], bytes[48]), (304, 8, 6));
    let reply = Reply {
        transaction: 7,
        response: vec![1; 48],
        challenge: Some((vec![2; 48], 3)),
        public: vec![4; 8],
    };
    let bytes = Message::Reply(reply).encode();
    assert_eq!(bytes[..16], [1, 2, 0, 0, 7, 0, 48, 0, 1, 0, 8, 0, 3, 0, 0, 0]);
    assert_eq!((bytes.len(), bytes[63], bytes[64], bytes[112]), (120, 1, 2, 4));
    let bytes =
        Message::Success1 { transaction: 7, hash: Hash::Sha512, response: Some(vec![5; 64]) }.encode();
    assert_eq!(bytes[..17], [1, 3, 0, 0, 7, 0, 64, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(bytes.len(), 80);
    assert_eq!(initiator::success(7), [1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(initiator::failure(7, 6), [0, 0xf0, 0, 0, 7, 0, 1, 6]);
    assert_eq!(Message::Failure1 { transaction: 7, reason: 1 }.encode(), [0, 0xf1, 0, 0, 7, 0, 1, 1]);
}

#[test]
fn messages_that_are_too_short_or_of_no_known_kind_are_refused() {
    let reply = Reply {
        transaction: 1,
        response: vec![1; 32],
        challenge: Some((vec![2; 32], 3)),
        public: vec![4; 256],
    };
    let whole = [
        initiator::negotiate(1),
        Message::Reply(reply).encode(),
        Message::Success1 { transaction: 1, hash: Hash::Sha256, response: Some(vec![1; 32]) }.encode(),
    ];
    for message in whole {
        assert!(Message::decode(&message).is_ok());
        for len in 0..message.len() {
            assert_eq!(Message::decode(&message[..len]), Err(reason::PAYLOAD), "{len}");
        }
    }
    assert_eq!(Message::decode(&[1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(reason::MESSAGE));
    let mut many = initiator::negotiate(1);
    many[10] = 31;
    assert_eq!(Message::decode(&many), Err(reason::PAYLOAD));
}

/// An exchange between the two ends. What the host and the controller think of it.
fn run(
    known: &Arc<HostKeys>,
    host: (&Secret, Option<&Secret>),
    exchange: &mut Exchange,
) -> (Result<(), Failure>, bool) {
    let parties = Parties { host: HOST, subsystem: NQN, secret: host.0, controller_secret: host.1 };
    let keys = || Some(known.clone());
    let before = exchange.is_authenticated();
    let done = (|| {
        exchange.send(&initiator::negotiate(5), keys);
        let challenge = exchange.receive().unwrap();
        let (reply, pending) = parties.reply(&challenge, 5).unwrap()?;
        assert!(exchange.receive().is_none() || challenge[0] == 0);
        exchange.send(&reply, keys);
        let verdict = exchange.receive().unwrap();
        pending.conclude(&verdict)?;
        if pending.is_mutual() {
            assert_eq!(exchange.is_authenticated(), before, "the host has not accepted the controller");
            exchange.send(&initiator::success(5), keys);
        }
        Ok(())
    })();
    if let Err(Failure::Found(reason)) = done {
        exchange.send(&initiator::failure(5, reason), keys);
    }
    (done, exchange.is_authenticated())
}

#[test]
fn both_ends_accept_each_other_with_every_hash_and_group() {
    let groups = [Group::Null, Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096];
    for hash in Hash::ALL {
        for group in groups.into_iter().filter(|g| hash == Hash::Sha256 || g.len() <= 256) {
            let known = keys(Some(controller_secret()), Some(hash), Some(group));
            for mutual in [None, Some(&controller_secret())] {
                let mut exchange = Exchange::new(HOST, NQN);
                let done = run(&known, (&host_secret(), mutual), &mut exchange);
                assert_eq!((done, exchange.is_over()), ((Ok(()), true), false), "{hash} {group}");
                // Again, on the same queue.
                assert_eq!(run(&known, (&host_secret(), mutual), &mut exchange), (Ok(()), true));
            }
        }
    }
}

#[test]
fn a_host_with_another_secret_is_refused() {
    let known = keys(Some(controller_secret()), None, None);
    for bad in [KNOWN[2].1, KNOWN[4].1, KNOWN[0].2] {
        let mut exchange = Exchange::new(HOST, NQN);
        let done = run(&known, (&secret(bad), None), &mut exchange);
        assert_eq!(done, (Err(Failure::Told(reason::FAILED)), false));
        assert!(exchange.is_over());
    }
}

#[test]
fn a_controller_with_another_secret_or_none_is_refused() {
    for theirs in [Some(secret(KNOWN[2].2)), None] {
        let known = keys(theirs.clone(), None, Some(Group::Null));
        let mut exchange = Exchange::new(HOST, NQN);
        let (done, authenticated) = run(&known, (&host_secret(), Some(&controller_secret())), &mut exchange);
        let expected =
            if theirs.is_some() { Failure::Found(reason::FAILED) } else { Failure::Told(reason::FAILED) };
        assert_eq!((done, authenticated), (Err(expected), false));
        assert!(exchange.is_over());
    }
}

#[test]
fn a_controller_that_does_not_answer_the_host_is_refused() {
    let secrets = (host_secret(), controller_secret());
    let parties =
        Parties { host: HOST, subsystem: NQN, secret: &secrets.0, controller_secret: Some(&secrets.1) };
    let known = keys(None, None, None);
    let mut exchange = Exchange::new(HOST, NQN);
    exchange.send(&initiator::negotiate(5), || Some(known.clone()));
    let (_, pending) = parties.reply(&exchange.receive().unwrap(), 5).unwrap().unwrap();
    let silent = Message::Success1 { transaction: 5, hash: Hash::Sha256, response: None };
    assert_eq!(pending.conclude(&silent.encode()), Err(Failure::Found(reason::FAILED)));
}

#[test]
fn what_is_out_of_order_is_refused() {
    let known = keys(Some(controller_secret()), None, Some(Group::Null));
    let keys = || Some(known.clone());
    let parties = Parties { host: HOST, subsystem: NQN, secret: &host_secret(), controller_secret: None };
    let reply_to = |challenge: &[u8]| parties.reply(challenge, 5).unwrap().unwrap().0;
    let refused = |exchange: &mut Exchange, reason: u8| {
        let told = Message::decode(&exchange.receive().unwrap());
        assert!(matches!(told, Ok(Message::Failure1 { reason: r, .. }) if r == reason), "{told:?}");
        assert!(exchange.is_over() && !exchange.is_authenticated() && exchange.receive().is_none());
        exchange.send(&initiator::negotiate(5), keys);
        assert!(exchange.receive().is_none(), "it has ended");
    };
    // Success2 and Reply before anything else.
    for message in [
        initiator::success(5),
        Message::Success1 { transaction: 5, hash: Hash::Sha256, response: None }.encode(),
    ] {
        let mut exchange = Exchange::new(HOST, NQN);
        assert!(exchange.receive().is_none());
        exchange.send(&message, keys);
        refused(&mut exchange, reason::MESSAGE);
    }
    // The response to a challenge that was given before: each is used once.
    let mut exchange = Exchange::new(HOST, NQN);
    exchange.send(&initiator::negotiate(5), keys);
    let reply = reply_to(&exchange.receive().unwrap());
    exchange.send(&initiator::negotiate(5), keys);
    exchange.receive().unwrap();
    exchange.send(&reply, keys);
    refused(&mut exchange, reason::FAILED);
    // Another transaction.
    let mut exchange = Exchange::new(HOST, NQN);
    exchange.send(&initiator::negotiate(5), keys);
    let mut reply = reply_to(&exchange.receive().unwrap());
    reply[4] = 6;
    exchange.send(&reply, keys);
    refused(&mut exchange, reason::PAYLOAD);
    // The challenge of the controller, sent back to it.
    let mut exchange = Exchange::new(HOST, NQN);
    exchange.send(&initiator::negotiate(5), keys);
    let challenge = exchange.receive().unwrap();
    let Ok(Message::Reply(mut reply)) = Message::decode(&reply_to(&challenge)) else { panic!() };
    reply.challenge = Some((challenge[16..48].to_vec(), 1));
    exchange.send(&Message::Reply(reply).encode(), keys);
    refused(&mut exchange, reason::FAILED);
    // A host that begins again and again.
    let mut exchange = Exchange::new(HOST, NQN);
    for _ in 0..4 {
        exchange.send(&initiator::negotiate(5), keys);
        exchange.receive().unwrap();
    }
    exchange.send(&initiator::negotiate(5), keys);
    refused(&mut exchange, reason::FAILED);
    // A host that is not known any more.
    let mut exchange = Exchange::new(HOST, NQN);
    exchange.send(&initiator::negotiate(5), || None);
    refused(&mut exchange, reason::FAILED);
}

#[test]
fn what_a_host_does_not_offer_is_not_chosen() {
    let known = |hash, group| keys(None, hash, group);
    let offered = |hashes: &[Hash], groups: &[Group], channel| {
        let offer = Some(Offer { hashes: hashes.to_vec(), groups: groups.to_vec() });
        Message::Negotiate(Negotiate { transaction: 5, channel, offer }).encode()
    };
    let chosen = |message: &[u8], known: Arc<HostKeys>| {
        let mut exchange = Exchange::new(HOST, NQN);
        exchange.send(message, || Some(known));
        match Message::decode(&exchange.receive().unwrap()).unwrap() {
            Message::Challenge(c) => Ok((c.hash, c.group)),
            Message::Failure1 { reason, .. } => Err(reason),
            other => panic!("{other:?}"),
        }
    };
    let (all, every) = (&Hash::ALL[..], &Group::ALL[..]);
    let any = || known(None, None);
    assert_eq!(chosen(&offered(all, every, false), any()), Ok((Hash::Sha256, Group::Ffdhe2048)));
    assert_eq!(chosen(&offered(&all[1..], &every[..1], false), any()), Ok((Hash::Sha384, Group::Null)));
    let strict = || known(Some(Hash::Sha512), Some(Group::Ffdhe3072));
    assert_eq!(chosen(&offered(all, every, false), strict()), Ok((Hash::Sha512, Group::Ffdhe3072)));
    assert_eq!(chosen(&offered(&all[..2], every, false), strict()), Err(reason::HASH));
    assert_eq!(chosen(&offered(all, &every[..2], false), strict()), Err(reason::GROUP));
    assert_eq!(chosen(&offered(&[], every, false), any()), Err(reason::HASH));
    assert_eq!(chosen(&offered(all, every, true), any()), Err(reason::CONCATENATION));
    let nothing = Message::Negotiate(Negotiate { transaction: 5, channel: false, offer: None }).encode();
    assert_eq!(chosen(&nothing, any()), Err(reason::PROTOCOL));
}

#[test]
fn the_file_of_hosts_keeps_what_was_set_and_nobody_else_reads_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts.toml");
    let hosts = Hosts::open(&file).unwrap();
    assert!(hosts.list().is_empty() && !file.exists());
    assert!(matches!(hosts.admission("nqn.a"), Admission::Refused));
    let keys = HostKeys {
        secret: Some(host_secret()),
        controller_secret: Some(controller_secret()),
        hash: Some(Hash::Sha384),
        group: None,
        tls: Some(TLS_KEY.parse().unwrap()),
    };
    assert!(hosts.set("nqn.a", keys.clone()).unwrap());
    assert!(!hosts.set("nqn.a", keys.clone()).unwrap());
    assert!(hosts.set("nqn.b", HostKeys { controller_secret: None, ..keys.clone() }).unwrap());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // One that has only a key of TLS; one that has nothing, and one whose target has more than it.
    let tls = HostKeys { tls: keys.tls.clone(), ..HostKeys::default() };
    assert!(hosts.set("nqn.t", tls.clone()).unwrap());
    assert!(hosts.list().iter().any(|h| h.nqn == "nqn.t" && h.tls && !h.dhchap && !h.mutual));
    assert!(hosts.set("nqn.c", HostKeys::default()).is_err());
    assert!(hosts.set("nqn.c", HostKeys { controller_secret: Some(host_secret()), ..tls }).is_err());
    // The same secret for both, and a name that is none.
    let same = HostKeys { controller_secret: Some(host_secret()), ..keys.clone() };
    assert!(hosts.set("nqn.c", same).is_err() && hosts.set("c", keys.clone()).is_err());
    let again = Hosts::open(&file).unwrap();
    assert_eq!(again.list(), hosts.list());
    assert!(matches!(again.admission("nqn.a"), Admission::Authenticated(k) if *k == keys));
    assert!(again.remove("nqn.a").unwrap() && !again.remove("nqn.a").unwrap());
    assert_eq!(Hosts::open(&file).unwrap().list().len(), 2);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Hosts::open(&file).unwrap_err().to_string().contains("600"));
}

#[test]
fn a_file_of_hosts_that_is_wrong_is_refused_without_its_secrets() {
    let good = format!("[[host]]\nnqn = \"nqn.a\"\ndhchap_secret = \"{}\"\n", KNOWN[0].1);
    assert_eq!(hosts::parse(&good).unwrap().len(), 1);
    for bad in [
        format!("{good}{good}"),
        format!("{good}other = 1\n"),
        format!("{good}dhchap_hash = \"md5\"\n"),
        format!("{good}dhchap_dhgroup = \"modp\"\n"),
        format!("{good}dhchap_ctrl_secret = \"{}\"\n", KNOWN[0].1),
        format!("{good}dhchap_ctrl_secret = \"{}x\"\n", KNOWN[0].2),
        format!("{good}tls_key = \"{}\"\n", TLS_KEY.replace("AQgP", "AAcO")),
        "[[host]]\nnqn = \"nqn.a\"\n".to_owned(),
        good.replace("nqn.a", "a"),
        good.replace("\"DHHC", "DHHC"),
    ] {
        let error = hosts::parse(&bad).unwrap_err().to_string();
        assert!(!error.contains("AAcO") && !error.contains("AQYL"), "{error}");
    }
}
