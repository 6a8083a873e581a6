//! Every option, well-formed and malformed.

use crate::fuzzed::session;
use crate::memory::Memory;
use crate::protocol::*;
use crate::samples::{connections, contexts, export, hello, option};

/// What the server sends after its hello.
fn talk(parts: &[Vec<u8>]) -> Vec<u8> {
    let exports = Memory::new(16 << 10).exports();
    let out = session(&parts.concat(), &*exports);
    let hello = [&MAGIC[..], OPTION_MAGIC, &[0, 3]].concat();
    assert_eq!(out[..18], hello[..], "the handshake");
    out[18..].to_vec()
}

/// The replies to options: option, type, data.
fn replies(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let mut r = Reader(bytes);
        assert_eq!(r.u64(), Some(OPTION_REPLY));
        let (option, kind, len) = (r.u32().unwrap(), r.u32().unwrap(), r.u32().unwrap());
        out.push((option, kind, r.raw(len as usize).unwrap().to_vec()));
        bytes = r.0;
    }
    out
}

/// The types of the replies after `hello`.
fn kinds(options: &[Vec<u8>]) -> Vec<u32> {
    let mut parts = vec![hello()];
    parts.extend_from_slice(options);
    parts.push(option(option::ABORT, b""));
    let all = replies(&talk(&parts));
    let (last, rest) = all.split_last().expect("the end is answered");
    assert_eq!((last.0, last.1), (option::ABORT, answer::ACK), "the negotiation went on to its end");
    rest.iter().map(|(_, kind, _)| *kind).collect()
}

#[test]
fn options_have_their_replies() {
    let structured = option(option::STRUCTURED_REPLY, b"");
    assert_eq!(kinds(std::slice::from_ref(&structured)), [answer::ACK]);
    assert_eq!(kinds(&[option(option::LIST, b"")]), [answer::SERVER, answer::ACK]);
    let all = export("memory", &[info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77]);
    assert_eq!(kinds(&[option(option::INFO, &all)]), [vec![answer::INFO; 4], vec![answer::ACK]].concat());
    assert_eq!(kinds(&[option(option::INFO, &export("", &[]))]), [answer::INFO, answer::ACK]);
    for queries in [&[][..], &["base:"], &["x:y", ALLOCATION]] {
        let asked = option(option::LIST_META_CONTEXT, &contexts("memory", queries));
        assert_eq!(kinds(&[structured.clone(), asked])[1..], [answer::META_CONTEXT, answer::ACK]);
    }
    let set = |queries: &[&str]| option(option::SET_META_CONTEXT, &contexts("memory", queries));
    assert_eq!(kinds(&[structured.clone(), set(&[ALLOCATION])])[1..], [answer::META_CONTEXT, answer::ACK]);
    assert_eq!(kinds(&[structured.clone(), set(&[])])[1..], [answer::ACK], "nothing is set by no query");
    assert_eq!(kinds(&[structured, set(&["base:", "qemu:dirty-bitmap:x"])])[1..], [answer::ACK]);
}

#[test]
fn block_sizes_and_flags_are_told() {
    let asked = option(option::INFO, &export("memory", &[info::BLOCK_SIZE]));
    let all = replies(&talk(&[hello(), asked, option(option::ABORT, b"")]));
    let flags = transmission::HAS_FLAGS
        | transmission::FLUSH
        | transmission::FUA
        | transmission::TRIM
        | transmission::WRITE_ZEROES
        | transmission::DF
        | transmission::MULTI_CONN;
    let told = [&[0, 0][..], &(16u64 << 10).to_be_bytes(), &flags.to_be_bytes()].concat();
    assert_eq!(all[0].2, told);
    let sizes: Vec<u8> = [1u32, 4096, MAX_PAYLOAD].iter().flat_map(|s| s.to_be_bytes()).collect();
    assert_eq!(all[1].2, [&[0, 3][..], &sizes].concat());
}

#[test]
fn malformed_options_are_refused_and_the_negotiation_goes_on() {
    let structured = option(option::STRUCTURED_REPLY, b"");
    let good = export("memory", &[3]);
    let mut wrong = vec![
        (option::LIST, b"x".to_vec(), answer::INVALID),
        (option::STRUCTURED_REPLY, b"x".to_vec(), answer::INVALID),
        (option::STARTTLS, vec![], answer::POLICY),
        (4, vec![], answer::UNSUPPORTED),
        (11, vec![], answer::UNSUPPORTED),
        (u32::MAX, vec![7; 100], answer::UNSUPPORTED),
        (option::INFO, export("other", &[]), answer::UNKNOWN),
        (option::GO, export("other", &[]), answer::UNKNOWN),
        (option::GO, [&[0, 0, 0, 2, 0xff, 0xfe, 0, 0][..]].concat(), answer::INVALID),
        (option::GO, export(&"x".repeat(MAX_NAME + 1), &[]), answer::INVALID),
        (option::GO, [&good[..], b"x"].concat(), answer::INVALID),
        (option::SET_META_CONTEXT, contexts("other", &[ALLOCATION]), answer::UNKNOWN),
        (option::SET_META_CONTEXT, vec![0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], answer::INVALID),
        (option::LIST_META_CONTEXT, vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, b'a'], answer::INVALID),
        (option::LIST_META_CONTEXT, [contexts("memory", &[]), vec![0]].concat(), answer::INVALID),
    ];
    // Each option cut at each length.
    wrong.extend((0..good.len()).map(|n| (option::GO, good[..n].to_vec(), answer::INVALID)));
    wrong.extend((0..good.len()).map(|n| (option::INFO, good[..n].to_vec(), answer::INVALID)));
    let context = contexts("memory", &[ALLOCATION]);
    wrong.extend(
        (0..context.len()).map(|n| (option::SET_META_CONTEXT, context[..n].to_vec(), answer::INVALID)),
    );
    for (number, data, expected) in wrong {
        let got = kinds(&[structured.clone(), option(number, &data), option(option::LIST, b"")]);
        assert_eq!(got, [answer::ACK, expected, answer::SERVER, answer::ACK], "option {number} {data:?}");
    }
}

#[test]
fn contexts_need_structured_replies_and_their_export() {
    let set = option(option::SET_META_CONTEXT, &contexts("memory", &[ALLOCATION]));
    assert_eq!(kinds(std::slice::from_ref(&set)), [answer::INVALID]);
}

#[test]
fn what_cannot_go_on_ends_the_connection() {
    let too_long = [&OPTION_MAGIC[..], &[0, 0, 0, 7], &(MAX_OPTION + 1).to_be_bytes()].concat();
    let all = replies(&talk(&[hello(), too_long, vec![0; 100]]));
    assert_eq!(all.iter().map(|r| r.1).collect::<Vec<_>>(), [answer::TOO_BIG]);
    let silent: [Vec<Vec<u8>>; 8] = [
        vec![],
        vec![vec![0, 0]],
        vec![vec![0, 0, 0, 4]],
        vec![vec![0xff; 4]],
        vec![hello(), b"IHAVEOPX\0\0\0\x03\0\0\0\0".to_vec()],
        vec![hello(), option(option::LIST, b"")[..12].to_vec()],
        vec![hello(), option(option::EXPORT_NAME, b"other")],
        vec![hello(), option(option::EXPORT_NAME, &[0xff])],
    ];
    for parts in silent {
        assert_eq!(talk(&parts), b"", "{parts:?}");
    }
    let many = vec![option(99, b""); MAX_OPTIONS + 5].concat();
    assert_eq!(replies(&talk(&[hello(), many])).len(), MAX_OPTIONS);
}

#[test]
fn every_connection_cut_anywhere_ends() {
    for whole in connections() {
        for n in 0..whole.len() {
            let exports = Memory::new(16 << 10).exports();
            session(&whole[..n], &*exports);
        }
    }
}

#[test]
fn the_old_way_to_choose_an_export() {
    let chosen = option(option::EXPORT_NAME, b"memory");
    assert_eq!(talk(&[hello(), chosen.clone()]).len(), 10, "without zeros");
    assert_eq!(talk(&[vec![0, 0, 0, 1], chosen]).len(), 134, "with zeros");
}
