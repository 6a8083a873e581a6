//! Entry points for the fuzzer: what a target sends to a host.
//!
//! Must not depend on: sockets of the system.

use std::sync::Arc;
use std::time::Duration;

use crate::ana::{DESCRIPTOR, LOG_HEADER, MAX_GROUPS};
use crate::fuzzed::Script;
use crate::host::call::{Call, Event};
use crate::host::facts::{self, Facts, RECORD, STRUCTURE};
use crate::host::health::Health;
use crate::host::pdu::{Head, Terms};
use crate::host::queue::{Opening, Queue};
use crate::host::request;
use crate::host::slots::Sink;
use crate::pdu::{COMMON, IC, MAX_DATA, SHORT, digest, flag, kind};

/// Bytes of the write that is on its way.
const WRITTEN: usize = 16 << 10;

/// A queue with a read, a write, an Identify and a request for events on their way, to which a target sends what follows the
/// first byte of `input`, which chooses the digests. Each command is answered once at most, and once when the connection has ended.
pub fn connection(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let (header_digest, data_digest) = (first & 1 != 0, first & 2 != 0);
    let opening = Opening {
        header_digest,
        data_digest,
        depth: 4,
        timeout: Duration::from_secs(60),
        connect: Duration::from_secs(60),
    };
    let Ok((queue, mut incoming)) = Queue::over(Script::new(rest), &opening) else { return };
    let (call, data) = (Arc::new(Call::default()), vec![7; WRITTEN]);
    let requests = [request::read(1, 0, 8, 512), request::write(1, 0, 32, &data), request::identify(1, 0)];
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(queue.submit(request, Sink::Call(call.clone(), number), false), Ok(true));
    }
    assert_eq!(queue.submit(&request::async_event(), Sink::Event, false), Ok(true));
    let mut done = [0; 3];
    let mut look = |last: bool| {
        for (number, event) in call.told() {
            match event {
                Event::Done(Ok(outcome)) => {
                    assert_eq!(outcome.data.len(), requests[number].room);
                    done[number] += 1;
                }
                Event::Done(Err(_)) => done[number] += 1,
                Event::Asked(asked) => assert!(asked.offset + asked.len <= WRITTEN && number == 1),
            }
        }
        assert!(done.iter().all(|n| *n == 1 || !last && *n == 0), "{done:?}");
    };
    while let Ok(true) = queue.receive(&mut incoming) {
        look(false);
    }
    queue.close();
    look(true);
}

/// Common headers: what they say about lengths holds.
pub fn header(input: &[u8]) {
    let Some(bytes) = input.first_chunk::<COMMON>() else { return };
    let flags = input.get(COMMON).copied().unwrap_or(0);
    let (header_digest, data_digest) = (flags & 1 != 0, flags & 2 != 0);
    let terms = Terms { header_digest, data_digest, align: 4, max_data: MAX_DATA };
    for terms in [None, Some(&terms)] {
        if let Ok(head) = Head::decode(bytes, terms, MAX_DATA) {
            assert!(head.header <= head.len && head.offset + head.data <= head.len && head.data <= MAX_DATA);
        }
    }
}

/// Identify structures, log pages and their entries.
pub fn structures(input: &[u8]) {
    if let Some((_, state)) = facts::ana(input, 1) {
        assert!(state.is_none() || input.len() >= LOG_HEADER + DESCRIPTOR);
    }
    if let Some(bytes) = input.first_chunk() {
        assert!(Health::decode(bytes).warnings().len() <= 6);
    }
    if let Some(bytes) = input.first_chunk::<STRUCTURE>() {
        let known = Facts::decode(bytes, 4096);
        assert!(known.max_transfer.is_none_or(|l| l >= 4096));
        assert!(known.ana.is_none_or(|a| a.groups <= MAX_GROUPS as usize));
        if let Ok((block, blocks, _)) = facts::namespace(bytes) {
            assert!(blocks.checked_mul(u64::from(block)).is_some());
        }
        let _ = facts::identity(bytes);
        assert!(facts::numbers(&bytes[..]).len() <= STRUCTURE / 4);
    }
    if let Some(bytes) = input.first_chunk::<RECORD>() {
        let _ = (facts::record(bytes), facts::discovery(bytes));
    }
}

fn sealed(mut header: Vec<u8>, data: &[u8], digests: u8) -> Vec<u8> {
    header[1] |= digests;
    let tail = if digests & 2 != 0 && !data.is_empty() { 4 } else { 0 };
    let ends = header.len() + if digests & 1 != 0 { 4 } else { 0 };
    header[2] = header.len() as u8;
    header[3] = if data.is_empty() { 0 } else { ends as u8 };
    header[4..8].copy_from_slice(&((ends + data.len() + tail) as u32).to_le_bytes());
    if digests & 1 != 0 {
        let sum = digest(&[&header]);
        header.extend_from_slice(&sum);
    }
    header.extend_from_slice(data);
    if tail > 0 {
        header.extend_from_slice(&digest(&[data]));
    }
    header
}

fn short(kind: u8, flags: u8, numbers: [u32; 4]) -> Vec<u8> {
    let mut out = vec![kind, flags, 0, 0, 0, 0, 0, 0];
    numbers.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    assert_eq!(out.len(), SHORT);
    out
}

/// The identifier of the command at a place.
fn id(place: u32) -> u32 {
    place | 1 << 10
}

/// Targets that answer everything, without and with digests.
#[must_use]
pub fn connections() -> Vec<Vec<u8>> {
    let of = |digests: u8| {
        let mut out = vec![digests, kind::IC_RESP, 0, IC as u8, 0, IC as u8, 0, 0, 0, 0, 0, 0, digests];
        out.extend_from_slice(&(MAX_DATA as u32).to_le_bytes());
        out.resize(1 + IC, 0);
        let last = flag::LAST | flag::SUCCESS;
        out.extend(sealed(short(kind::C2H_DATA, 0, [id(0), 0, 1024, 0]), &[1; 1024], digests));
        out.extend(sealed(short(kind::C2H_DATA, last, [id(0), 1024, 3072, 0]), &[2; 3072], digests));
        out.extend(sealed(short(kind::R2T, 0, [id(1) | 5 << 16, 0, 8192, 0]), b"", digests));
        out.extend(sealed(short(kind::C2H_DATA, flag::LAST, [id(2), 0, 4096, 0]), &[3; 4096], digests));
        out.extend(sealed(short(kind::RESPONSE, 0, [0, 0, 1, id(2)]), b"", digests));
        out.extend(sealed(short(kind::RESPONSE, 0, [0, 0, 1, id(1) | 0x0181 << 17]), b"", digests));
        out.extend(sealed(short(kind::RESPONSE, 0, [0x04_00_02, 0, 1, id(3)]), b"", digests));
        out.extend([kind::C2H_TERM, 0, 24, 0, 24, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out
    };
    vec![of(0), of(1), of(3)]
}

/// Common headers, each with a byte that says which digests were agreed on.
#[must_use]
pub fn headers() -> Vec<Vec<u8>> {
    vec![
        vec![1, 0, 128, 0, 128, 0, 0, 0],
        vec![5, 0, 24, 0, 24, 0, 0, 0, 0],
        vec![7, 7, 24, 28, 32, 16, 0, 0, 3],
        vec![9, 1, 24, 0, 28, 0, 0, 0, 1],
    ]
}

/// Structures of a controller, a namespace and its identity, of a discovery entry, and the log pages of ANA and health.
#[must_use]
pub fn structure_samples() -> Vec<Vec<u8>> {
    let mut controller = vec![0; STRUCTURE];
    (controller[77], controller[320], controller[520], controller[525]) = (8, 1, 0x0c, 7);
    (controller[76], controller[342], controller[348], controller[386]) = (0x0b, 10, 2, 100);
    controller[1792..1796].copy_from_slice(&516u32.to_le_bytes());
    let mut namespace = vec![0; STRUCTURE];
    (namespace[1], namespace[130]) = (1, 12);
    let mut identity = vec![0; STRUCTURE];
    identity[..4].copy_from_slice(&[2, 16, 0, 0]);
    identity[4..20].fill(9);
    identity[20..24].copy_from_slice(&[3, 16, 0, 0]);
    identity[24..40].fill(8);
    let mut record = vec![0; RECORD];
    (record[0], record[2]) = (3, 2);
    record[32..36].copy_from_slice(b"4420");
    record[256..261].copy_from_slice(b"nqn.x");
    record[512..521].copy_from_slice(b"127.0.0.1");
    let mut ana = vec![0; LOG_HEADER + DESCRIPTOR];
    (ana[0], ana[8], ana[16], ana[32]) = (3, 1, 1, 2);
    let mut health = vec![0; 512];
    (health[0], health[1], health[2], health[3], health[48]) = (2, 0x42, 1, 100, 7);
    vec![controller, namespace, identity, record, ana, health]
}
