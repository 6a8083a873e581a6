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
use known::KNOWN;

mod known;

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

#[test]
fn the_fuzz_target_holds_for_its_samples_and_what_is_near_them() {
    for seed in fuzzed::hellos() {
        fuzzed::hello(&seed);
        for at in 0..seed.len() {
            for bit in [0, 3, 7] {
                let mut near = seed.clone();
                near[at] ^= 1 << bit;
                fuzzed::hello(&near);
            }
            fuzzed::hello(&seed[..at]);
        }
    }
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
