//! Keys, their names and what is derived from them, as others have it; messages of OpenSSL and GnuTLS; sessions in memory.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use super::hello::Hello;
use super::samples::*;
use super::*;
use crate::error::Error;
use crate::wire::Socket;

/// Key, derivation, version, name, pre-shared key: from a script over Python's `hmac`, `hashlib`, `zlib` and `base64`. The names of
/// version 1 with a hash function are those that the tests of libnvme expect, with and without "compat".
const KNOWN: [(&str, Derivation, u8, &str, &str); 24] = [
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Specified,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Specified,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
        "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Libnvme,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "e2b16189378b34adba9fec995ab479040cedec0bc7c6b47728ee4d8de6ff52ba",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Libnvme,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
        "d50f6d3dd79345b6e8217744524df5ac0dc66964ff70cc5fd18e1b9d57ce7fcf",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::LibnvmeOpenssl30,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "16d719d9e86368c51e623a88159962afe3800c91fe3ba77f63cbac5cc46c5d07",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::LibnvmeOpenssl30,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
        "90782cc416c103d0bbd411d047219868fc293264dfd94907b40234e85ef7e869",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Specified,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Specified,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
        "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Libnvme,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::Libnvme,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
        "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::LibnvmeOpenssl30,
        0,
        "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
        "c45ffd126b73c01299c932a315772290f626038b92ca2ff01248de7807a160d8",
    ),
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Derivation::LibnvmeOpenssl30,
        1,
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys mJUDthe4jhFVFSnaBaydV/EHJK6OvIuw8xap5IkTnG0=",
        "1d822f4a3b1f3da94354bc23c899a5dc8c1db901d0e0604ec1ac5fb9476b4e80",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Specified,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "b5dd464067a9378ba2226d71f005d7ac90ed8696e4b2142084384365597201d33ba26f8aeeb529574d4267bd294a828e",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Specified,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys dyoPfSR5TBRaPMI5/FXUlJv2XMDtmQ7Q9Xrj89aBKbyRYkQeT5V1wNvIpnMDRTQW",
        "1569317890995e207ab4cf148bc53470561e148030cb019b1d87fb4bc5794a791ed5ee68676c952ce5f11f3786e900d4",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Libnvme,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "9cb989c1d40fdcdc1bb729d6691901bfcd0b310f060f558d4a63c7afc2a0923f2d0610073fded349d25d6b3f91980826",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Libnvme,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys dyoPfSR5TBRaPMI5/FXUlJv2XMDtmQ7Q9Xrj89aBKbyRYkQeT5V1wNvIpnMDRTQW",
        "f6259eaeaab509d2e42bc494098bd1ccc4334b2528a1a34ea95fbe27e3fa75e3422d260a299110afa42170521b02d689",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::LibnvmeOpenssl30,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "3c1a1b15addeb902ac3c0e68633aa9326843fb0777ceb1fd65c5174ada0cd7e0513548473934d42d18344d6bcd7b72b8",
    ),
    (
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::LibnvmeOpenssl30,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys dyoPfSR5TBRaPMI5/FXUlJv2XMDtmQ7Q9Xrj89aBKbyRYkQeT5V1wNvIpnMDRTQW",
        "2f833d9a6ebdbaaef41bddd792a5e6fb03cf7c840692e7031e9bd33f46a457168476dfdbb04fd3cccafc27414d61370b",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Specified,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Specified,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
        "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Libnvme,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "2ee4754186a625b28a3936ef4a40d839c3ad958b2e017562ee07e2501f172ce999dc9c29033ea7ee33f814f192c13f47",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::Libnvme,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
        "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48d3014aa8d76ad80107e4f5c9f27e2149",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::LibnvmeOpenssl30,
        0,
        "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
        "10a715cf116ba0c3068b2ba7278e7678bebdcc77fcb4c0b7b509dea46395881d6f90f408517c2c69e4f771f04f0fbcd1",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        Derivation::LibnvmeOpenssl30,
        1,
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys J6B5sIVRCNLtZutDfmNnfPeqOFbnewwc8KEkhcOcO0dAWfdJYe/DrMyIC7znu00M",
        "f5887cac40cafd177fdd53039d179a125800103f922e3d99e5847231b98b023cd663a97f717d05326e3933255db96100",
    ),
];

fn key(text: &str) -> TlsKey {
    text.parse().unwrap()
}

#[test]
fn keys_are_derived_as_others_do() {
    for (text, derivation, version, identity, secret) in KNOWN {
        let psk = Psk::new(&key(text), HOST, SUBSYSTEM, version, derivation).unwrap();
        assert_eq!((psk.identity.as_str(), hex::encode(&psk.secret)), (identity, secret.to_owned()));
        let read = Identity::decode(identity.as_bytes()).unwrap();
        assert_eq!((read.version, read.host, read.subsystem), (version, HOST, SUBSYSTEM));
    }
    let long = format!("nqn.{}", "x".repeat(219));
    assert!(
        Psk::new(&key(KEY_256), &long, &long, 0, Derivation::Specified).is_none(),
        "no label has so much"
    );
    assert!(Psk::new(&key(KEY_256), &long, &long, 1, Derivation::Specified).is_some());
}

#[test]
fn keys_have_one_text_and_show_it_to_nobody() {
    for text in [KEY_256, KEY_384, KNOWN[0].0, KNOWN[12].0] {
        assert_eq!(&*key(&format!(" {text}\n")).expose(), text);
        assert_eq!(format!("{:?}", key(text)), "TlsKey(...)");
        assert_eq!(String::from(TlsKey::try_from(text.to_owned()).unwrap()), text);
    }
    let wrong = |text: &str, what: &str| {
        let said = text.parse::<TlsKey>().unwrap_err().to_string();
        assert!(said.contains(what) && !said.contains("VRLb"), "{said}");
    };
    wrong("DHHC-1:00:AA==:", "does not begin with NVMeTLSkey-1:");
    wrong(&KEY_256.replace("-1:", "-2:"), "version");
    wrong(&KEY_256.replace(":01:", ":03:"), "none of 00, 01 and 02");
    wrong(&KEY_256.replace(":01:", ":02:"), "not as long as the digests");
    wrong(&KEY_256.replace("VRLb", "VRLc"), "checksum");
    wrong(&KEY_256.replace("VRLb", "VR-b"), "base 64");
    wrong(KEY_256.trim_end_matches(':'), "does not end with a colon");
    wrong("NVMeTLSkey-1:01", "has no key");
    wrong("NVMeTLSkey-1:00:AA==:", "too short");
    wrong("NVMeTLSkey-1:00:AAAAAAAAAAA=:", "neither 32 nor 48 bytes");
}

#[test]
fn names_that_are_not_of_retained_keys_are_not_read() {
    for name in [
        "",
        "NVMe0R01",
        "NVMe0R01 nqn.a",
        "NVMe0R01 nqn.a ",
        "NVMe0R01 nqn.a nqn.b digest",
        "NVMe1R01 nqn.a nqn.b",
        "NVMe1R01 nqn.a nqn.b digest more",
        "NVMe0R03 nqn.a nqn.b",
        "NVMe1G01 nqn.a nqn.b digest",
        "NVMe2R01 nqn.a nqn.b digest",
        "nvme0R01 nqn.a nqn.b",
    ] {
        assert_eq!(Identity::decode(name.as_bytes()), None, "{name}");
    }
    assert_eq!(Identity::decode(b"NVMe0R01 nqn.\xff nqn.b"), None);
}

#[test]
fn the_key_of_a_client_hello_is_found() {
    for (body, text, derivation) in
        [(OPENSSL, KEY_256, Derivation::Specified), (GNUTLS, KEY_256, Derivation::Libnvme)]
    {
        let mut body = STANDARD.decode(body).unwrap();
        let hello = Hello::decode(&body).unwrap();
        let proves = |hello: &Hello, derivation| {
            let psk = Psk::new(&key(text), HOST, SUBSYSTEM, 1, derivation).unwrap();
            hello.proves(&hello.offers[0], &psk)
        };
        assert_eq!(hello.offers.len(), 1);
        for other in Derivation::ALL {
            assert_eq!(proves(&hello, other), other == derivation);
        }
        // Whatever changes, it proves nothing any more; nothing that is cut off is read.
        body[5] ^= 1;
        assert!(!proves(&Hello::decode(&body).unwrap(), derivation));
        for len in 0..body.len() {
            assert_eq!(Hello::decode(&body[..len]), None);
        }
        body.push(0);
        assert_eq!(Hello::decode(&body), None);
    }
    // Without extensions for it.
    let empty = [&[0; 34][..], &[0, 0, 2, 0x13, 1, 1, 0, 0, 0]].concat();
    assert_eq!(Hello::decode(&empty), Some(Hello::default()));
}

/// One end of a connection in memory.
struct End {
    from: Mutex<(Receiver<Vec<u8>>, Vec<u8>)>,
    to: Mutex<Option<Sender<Vec<u8>>>>,
    /// Bytes that a call sends, at most; every other call sends none.
    narrow: Option<usize>,
    turn: Mutex<bool>,
}

fn ends(narrow: Option<usize>) -> [Arc<dyn Socket>; 2] {
    let ((a, b), (c, d)) = (channel(), channel());
    let end = |to, from| {
        let (from, to) = (Mutex::new((from, Vec::new())), Mutex::new(Some(to)));
        Arc::new(End { from, to, narrow, turn: Mutex::default() }) as Arc<dyn Socket>
    };
    [end(a, d), end(c, b)]
}

impl Socket for End {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut from = self.from.lock();
        if from.1.is_empty() {
            match from.0.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => from.1 = bytes,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Err(_) => return Ok(0),
            }
        }
        let n = out.len().min(from.1.len());
        out[..n].copy_from_slice(&from.1[..n]);
        from.1.drain(..n);
        Ok(n)
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut turn = self.turn.lock();
        *turn = !*turn;
        if self.narrow.is_some() && *turn {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut all = slices.iter().flat_map(|s| s.to_vec()).collect::<Vec<u8>>();
        all.truncate(self.narrow.unwrap_or(usize::MAX));
        let n = all.len();
        let to = self.to.lock();
        let sent = to.as_ref().map(|t| t.send(all).is_ok());
        if sent == Some(true) { Ok(n) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn shut(&self, _how: Shutdown) {
        self.to.lock().take();
    }

    fn local(&self) -> Option<SocketAddr> {
        None
    }
}

fn soon() -> ashlar_environment::time::Instant {
    ashlar_environment::time::Instant::now() + Duration::from_secs(60)
}

fn psks(text: &str, derivation: Derivation) -> Vec<Psk> {
    [1, 0].into_iter().filter_map(|v| Psk::new(&key(text), HOST, SUBSYSTEM, v, derivation)).collect()
}

#[test]
fn a_key_of_sha_384_may_be_proved_with_sha_256() {
    let offered = psks(KEY_384, Derivation::Libnvme).into_iter().map(|psk| psk.proved_by(32)).collect();
    let (host, target) = session(None, offered, KEY_384);
    host.unwrap();
    assert_eq!(target.unwrap().1.host, HOST);
}

type Made = (Result<Arc<dyn Socket>, Error>, Result<(Arc<dyn Socket>, Peer), String>);

/// A session between a host with keys, and a target with the key `known`.
fn session(narrow: Option<usize>, offered: Vec<Psk>, known: &str) -> Made {
    let [host, target] = ends(narrow);
    let known = key(known);
    let find = Box::new(
        move |i: &Identity<'_>| {
            if i.host == HOST { Ok(known.clone()) } else { Err("a stranger".to_owned()) }
        },
    );
    let other = std::thread::spawn(move || {
        let made = accept(&target, find, soon());
        if made.is_err() {
            target.shut(Shutdown::Both);
        }
        made
    });
    (connect(&host, offered, soon()), other.join().unwrap())
}

#[test]
fn both_ends_agree_with_every_derivation_and_either_version() {
    for text in [KEY_256, KEY_384, KNOWN[0].0, KNOWN[12].0] {
        for derivation in Derivation::ALL {
            for count in [1, 2] {
                let mut offered = psks(text, derivation);
                offered.rotate_left(count - 1);
                offered.truncate(count);
                let (host, target) = session(None, offered, text);
                let (target, peer) = target.unwrap();
                assert_eq!(peer, Peer { host: HOST.into(), subsystem: SUBSYSTEM.into() });
                assert_eq!(
                    host.unwrap().send(&[IoSlice::new(b"to the "), IoSlice::new(b"target")]).unwrap(),
                    13
                );
                let mut got = [0; 64];
                let n = loop {
                    match target.receive(&mut got) {
                        Ok(n) => break n,
                        Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
                    }
                };
                assert_eq!(&got[..n], b"to the target");
            }
        }
    }
}

#[test]
fn ends_with_different_keys_or_names_do_not_agree() {
    let refused = |offered, known, expected: &str| {
        let (host, target) = session(None, offered, known);
        assert!(matches!(host.err().unwrap(), Error::Refused(why) if why.contains("there is no TLS")));
        let why = target.err().unwrap();
        assert!(why.contains(expected), "{why}");
    };
    let other = "NVMeTLSkey-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:";
    refused(psks(KEY_256, Derivation::Specified), other, "not the one that \"nqn.psk-test-host\" has");
    refused(psks(KEY_256, Derivation::Specified), KEY_384, "not the one that");
    let stranger = Psk::new(&key(KEY_256), "nqn.x", SUBSYSTEM, 1, Derivation::Specified).unwrap();
    refused(vec![stranger.clone()], KEY_256, "a stranger");
    refused(vec![Psk { identity: "me".into(), ..stranger }], KEY_256, "not that of a retained key");
}

#[test]
fn much_arrives_in_both_directions_at_once_over_a_narrow_socket() {
    let (host, target) = session(Some(5000), psks(KEY_256, Derivation::Specified), KEY_256);
    let (host, target) = (host.unwrap(), target.unwrap().0);
    let content: Vec<u8> = (0..3_000_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
    let send = |end: Arc<dyn Socket>, content: Vec<u8>| {
        std::thread::spawn(move || {
            let wire = crate::wire::Wire::new(end, Duration::from_secs(60));
            for chunk in content.chunks(700_000) {
                let (a, b) = chunk.split_at(chunk.len() / 3);
                wire.send(&mut [IoSlice::new(a), IoSlice::new(b""), IoSlice::new(b)]).unwrap();
            }
        })
    };
    let receive = |end: Arc<dyn Socket>, len: usize| {
        std::thread::spawn(move || {
            let mut got = vec![0; len];
            crate::wire::Wire::new(end, Duration::from_secs(60)).receive_all(&mut got, soon()).unwrap();
            got
        })
    };
    let begin = Instant::now();
    let threads = [send(host.clone(), content.clone()), send(target.clone(), content.clone())];
    let got = [receive(host.clone(), content.len()), receive(target.clone(), content.len())];
    for thread in got {
        assert!(thread.join().unwrap() == content);
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(begin.elapsed() < Duration::from_secs(60));
    // The end is told.
    host.shut(Shutdown::Write);
    let mut rest = [0; 16];
    while let Err(e) = target.receive(&mut rest) {
        assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(target.receive(&mut rest).unwrap(), 0);
}

#[test]
fn what_was_changed_on_its_way_ends_the_session() {
    let [host, middle] = ends(None);
    let [other, target] = ends(None);
    let flip = Arc::new(Mutex::new(false));
    let mine = flip.clone();
    let pump = move |from: Arc<dyn Socket>, to: Arc<dyn Socket>| {
        let mine = mine.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                match from.receive(&mut bytes) {
                    Ok(0) => break,
                    Ok(n) => {
                        if *mine.lock() {
                            bytes[n - 1] ^= 1;
                        }
                        if to.send(&[IoSlice::new(&bytes[..n])]).is_err() {
                            break;
                        }
                    }
                    Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
                }
            }
            to.shut(Shutdown::Both);
        })
    };
    pump(middle.clone(), other.clone());
    pump(other, middle);
    let known = key(KEY_256);
    let accepted = std::thread::spawn(move || accept(&target, Box::new(move |_| Ok(known.clone())), soon()));
    let host = connect(&host, psks(KEY_256, Derivation::Specified), soon()).unwrap();
    let target = accepted.join().unwrap().unwrap().0;
    *flip.lock() = true;
    host.send(&[IoSlice::new(b"a secret")]).unwrap();
    let error = loop {
        match target.receive(&mut [0; 64]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().starts_with("TLS: "), "{error}");
}
