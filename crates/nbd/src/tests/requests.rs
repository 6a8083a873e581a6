//! Requests and their replies, over scripts.

use std::sync::Arc;

use crate::device::{Device, Export, Extent, Fault};
use crate::fuzzed::session;
use crate::memory::{Memory, Only};
use crate::protocol::*;
use crate::samples::{contexts, export, hello, option, request};

const SIZE: u64 = 4 << 20;

/// A device that fails where it is told.
struct Failing(Fault);

impl Device for Failing {
    fn size(&self) -> u64 {
        SIZE
    }
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(self.0)
    }
    fn write(&self, _: u64, _: Vec<u8>, _: bool) -> Result<(), Fault> {
        Err(self.0)
    }
    fn flush(&self) -> Result<(), Fault> {
        Err(self.0)
    }
    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), Fault> {
        Err(self.0)
    }
    fn trim(&self, _: u64, _: u64, _: bool) -> Result<(), Fault> {
        Err(self.0)
    }
    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, Fault> {
        Ok(vec![])
    }
    fn read_only(&self) -> bool {
        self.0 == Fault::NoSpace
    }
}

/// The replies of a connection with these requests, after its negotiation.
fn replies(device: &Arc<dyn Device>, structured: bool, requests: &[Vec<u8>]) -> Vec<u8> {
    let only = Only(Export { name: "x".into(), description: String::new(), device: device.clone() });
    let mut parts = vec![hello()];
    if structured {
        parts.push(option(option::STRUCTURED_REPLY, b""));
        parts.push(option(option::SET_META_CONTEXT, &contexts("x", &[ALLOCATION])));
    }
    parts.push(option(option::GO, &export("x", &[])));
    let before = session(&parts.concat(), &only).len();
    parts.extend_from_slice(requests);
    session(&parts.concat(), &only)[before..].to_vec()
}

/// The error of a reply to the only request.
fn error(device: &Arc<dyn Device>, structured: bool, one: Vec<u8>) -> u32 {
    let out = replies(device, structured, &[one]);
    let mut r = Reader(&out);
    match r.u32() {
        Some(SIMPLE_REPLY) => r.u32().unwrap(),
        Some(CHUNK) => {
            assert_eq!((r.u16(), r.u16()), (Some(chunk::DONE), Some(chunk::ERROR)));
            assert_eq!((r.u64(), r.u32()), (Some(5), Some(6)));
            r.u32().unwrap()
        }
        other => panic!("no reply: {other:?}"),
    }
}

fn memory() -> Arc<dyn Device> {
    Memory::new(SIZE)
}

#[test]
fn writes_are_read_back_in_both_forms() {
    let (device, data) = (memory(), vec![7; 100_000]);
    let write = request(command::WRITE, flag::FUA, 1, 4000, 100_000, &data);
    let read = request(command::READ, 0, 2, 3999, 100_002, b"");
    let expected = [&[0][..], &data, &[0]].concat();
    let simple = replies(&device, false, &[write.clone(), read.clone()]);
    assert_eq!(simple, [simple_reply(0, 1), simple_reply(0, 2), expected.clone()].concat());
    let structured = replies(&device, true, &[write, read]);
    let head = last_chunk(chunk::OFFSET_DATA, 2, 8 + 100_002);
    let offset = 3999u64.to_be_bytes().to_vec();
    assert_eq!(structured, [simple_reply(0, 1), head, offset, expected].concat());
}

#[test]
fn allocation_is_told() {
    let device = memory();
    let write = request(command::WRITE, 0, 1, 1 << 20, 8, &[1; 8]);
    let all = |flags| request(command::BLOCK_STATUS, flags, 2, 0, SIZE as u32, b"");
    let pieces = |list: &[(u32, u32)]| {
        let mut data = ALLOCATION_ID.to_be_bytes().to_vec();
        for (len, state) in list {
            data.extend([len.to_be_bytes(), state.to_be_bytes()].concat());
        }
        [last_chunk(chunk::BLOCK_STATUS, 2, data.len() as u32), data].concat()
    };
    let out = replies(&device, true, &[write, all(0)]);
    assert_eq!(out[16..], pieces(&[(1 << 20, 3), (1 << 20, 0), (2 << 20, 3)])[..]);
    let out = replies(&device, true, &[all(flag::REQ_ONE)]);
    assert_eq!(out, pieces(&[(1 << 20, 3)]));
    let zero = request(command::WRITE_ZEROES, 0, 1, 1 << 20, 1 << 20, b"");
    let out = replies(&device, true, &[zero, all(0)]);
    assert_eq!(out[16..], pieces(&[(4 << 20, 3)])[..]);
}

#[test]
fn requests_that_do_not_fit_are_refused_and_the_connection_goes_on() {
    let device = memory();
    let end = SIZE;
    for (one, expected) in [
        (request(command::READ, 0, 5, end, 1, b""), errno::INVALID),
        (request(command::READ, 0, 5, u64::MAX, 2, b""), errno::INVALID),
        (request(command::READ, 0, 5, 0, 0, b""), errno::INVALID),
        (request(command::READ, 0, 5, 0, MAX_PAYLOAD + 1, b""), errno::OVERFLOW),
        (request(command::READ, flag::FUA, 5, 0, 1, b""), errno::INVALID),
        (request(command::WRITE, 0, 5, end - 1, 2, b"ab"), errno::NO_SPACE),
        (request(command::WRITE, 0x8000, 5, 0, 2, b"ab"), errno::INVALID),
        (request(command::WRITE, 0, 5, end, 200_000, &[1; 200_000]), errno::NO_SPACE),
        (request(command::TRIM, 0, 5, end, 1, b""), errno::INVALID),
        (request(command::WRITE_ZEROES, 0, 5, end, 1, b""), errno::NO_SPACE),
        (request(command::WRITE_ZEROES, 1 << 4, 5, 0, 1, b""), errno::INVALID),
        (request(command::FLUSH, 0, 5, 0, 1, b""), errno::INVALID),
        (request(command::BLOCK_STATUS, 0, 5, end, 1, b""), errno::INVALID),
        (request(5, 0, 5, 0, 1, b""), errno::INVALID),
        (request(0xffff, 0xffff, 5, 0, 1, b""), errno::INVALID),
    ] {
        assert_eq!(error(&device, true, one.clone()), expected, "{:?}", &one[..28]);
        let after = request(command::FLUSH, 0, 6, 0, 0, b"");
        let out = replies(&device, true, &[one, after]);
        assert!(out.ends_with(&simple_reply(0, 6)), "the next request is answered");
    }
    let status = request(command::BLOCK_STATUS, 0, 5, 0, 4096, b"");
    assert_eq!(error(&device, false, status), errno::INVALID, "it was not agreed on");
}

#[test]
fn faults_of_the_device_are_told() {
    let requests = |cookie| {
        [
            request(command::READ, 0, cookie, 0, 4096, b""),
            request(command::WRITE, 0, cookie, 0, 2, b"ab"),
            request(command::FLUSH, 0, cookie, 0, 0, b""),
            request(command::TRIM, 0, cookie, 0, 4096, b""),
            request(command::WRITE_ZEROES, 0, cookie, 0, 4096, b""),
        ]
    };
    for (fault, expected) in
        [(Fault::Io, errno::IO), (Fault::Gone, errno::SHUTDOWN), (Fault::Invalid, errno::INVALID)]
    {
        let device: Arc<dyn Device> = Arc::new(Failing(fault));
        for one in requests(5) {
            assert_eq!(error(&device, true, one), expected);
        }
        let status = request(command::BLOCK_STATUS, 0, 5, 0, 4096, b"");
        assert_eq!(error(&device, true, status), errno::IO, "a reply has at least one piece");
    }
    let device: Arc<dyn Device> = Arc::new(Failing(Fault::NoSpace));
    let errors = requests(5).map(|one| error(&device, true, one));
    assert_eq!(errors, [errno::NO_SPACE, errno::PERM, errno::NO_SPACE, errno::PERM, errno::PERM]);
}

#[test]
fn garbage_ends_the_connection() {
    let device = memory();
    let flush = request(command::FLUSH, 0, 6, 0, 0, b"");
    let mut wrong = flush.clone();
    wrong[0] ^= 1;
    assert_eq!(replies(&device, true, &[flush.clone(), wrong, flush.clone()]), simple_reply(0, 6));
    let bye = request(command::DISCONNECT, 0, 0, 0, 0, b"");
    assert_eq!(replies(&device, true, &[flush.clone(), bye, flush]), simple_reply(0, 6));
}
