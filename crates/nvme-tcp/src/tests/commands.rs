//! I/O commands, with and without digests, in capsules and not.

use std::sync::Arc;

use super::rig::*;
use crate::command::io;
use crate::memory::Memory;
use crate::namespace::{Fault, Namespace};
use crate::pdu::MAX_DATA;
use crate::samples;
use crate::server::Limits;
use crate::status;

const FUA: u32 = 1 << 30;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}

#[test]
fn every_command_under_every_agreement() {
    for (digests, align, flags) in [(OFF, 0, 0), (ON, 0, 0), (ON, 31, 4), (OFF, 3, 4)] {
        for block in [512u32, 4096] {
            let server = serve(block, 1024);
            let admin = Host::admin_with(&server, samples::NQN, 0, digests);
            let mut host = Host::io(&server, &admin, digests, align, flags);
            let b = block as usize;
            // In the capsule, then asked for.
            let (small, large) = (pattern(b, 1), pattern(64 * b, 2));
            assert_eq!(host.call(&blocks(io::WRITE, 3, 1, 0, b, true), &small, true).status, 0);
            assert_eq!(host.asked, 0);
            assert_eq!(host.call(&blocks(io::WRITE, 10, 64, FUA, 64 * b, false), &large, false).status, 0);
            assert_eq!(host.asked, 1);
            let read = host.ask(&blocks(io::READ, 2, 72, FUA, 72 * b, false));
            let expected = [vec![0; b], small.clone(), vec![0; 6 * b], large.clone()].concat();
            assert_eq!((read.status, read.data == expected), (0, true));
            // Compare.
            assert_eq!(host.call(&blocks(io::COMPARE, 10, 64, 0, 64 * b, false), &large, false).status, 0);
            let other = host.call(&blocks(io::COMPARE, 11, 1, 0, b, true), &large[..b], true);
            assert_eq!(other.status, status::COMPARE_FAILURE);
            // Flush of one and of all.
            assert_eq!(host.ask(&samples::command(io::FLUSH, 1, 1, [0; 6])).status, 0);
            assert_eq!(host.ask(&samples::command(io::FLUSH, 1, u32::MAX, [0; 6])).status, 0);
            // Zeros, with and without space.
            for (first, flags) in [(10, 0), (12, 1 << 25 | FUA)] {
                assert_eq!(host.ask(&blocks(io::WRITE_ZEROES, first, 2, flags, 0, false)).status, 0);
            }
            let read = host.ask(&blocks(io::READ, 10, 5, 0, 5 * b, false));
            assert_eq!(read.data, [vec![0; 4 * b], large[4 * b..5 * b].to_vec()].concat());
            // Two ranges are deallocated, at once.
            let range = |first: u64, n: u32| [&[0; 4][..], &n.to_le_bytes(), &first.to_le_bytes()].concat();
            let ranges = [range(20, 2), range(30, 1)].concat();
            let trim = samples::command(io::DATASET_MANAGEMENT, 5, 1, [1, 4, 0, 0, 0, 0]);
            let trim = samples::with_data(trim, 32, true);
            assert_eq!(host.call(&trim, &ranges, true).status, 0);
            for (at, zero) in [(19, false), (20, true), (21, true), (22, false), (30, true), (31, false)] {
                let read = host.ask(&blocks(io::READ, at, 1, 0, b, false)).data;
                assert_eq!(read.iter().all(|x| *x == 0), zero, "block {at}");
            }
            assert_eq!(server.statistics().controllers, 1);
        }
    }
}

#[test]
fn the_largest_command() {
    let server = serve(4096, 1024);
    let admin = Host::admin(&server, samples::NQN, 0);
    let mut host = Host::io(&server, &admin, ON, 0, 0);
    let data = pattern(MAX_DATA, 9);
    let n = (MAX_DATA / 4096) as u32;
    assert_eq!(host.call(&blocks(io::WRITE, 0, n, 0, MAX_DATA, false), &data, false).status, 0);
    assert_eq!(host.call(&blocks(io::COMPARE, 0, n, 0, MAX_DATA, false), &data, false).status, 0);
    assert!(host.ask(&blocks(io::READ, 0, n, 0, MAX_DATA, false)).data == data);
    let more = host.ask(&blocks(io::READ, 0, n + 1, 0, MAX_DATA + 4096, false));
    assert_eq!(more.status, status::INVALID_FIELD);
}

#[test]
fn commands_that_are_refused() {
    let server = serve(512, 1024);
    let admin = Host::admin(&server, samples::NQN, 0);
    let mut host = Host::io(&server, &admin, OFF, 0, 0);
    let data = [1; 512];
    for (first, count) in [(1024, 1), (1023, 2), (u64::MAX, 1), (u64::MAX - 1, 3)] {
        let len = 512 * count as usize;
        let read = host.ask(&blocks(io::READ, first, count, 0, len, false));
        assert_eq!(read.status, status::LBA_RANGE, "{first}+{count}");
        let zero = host.ask(&blocks(io::WRITE_ZEROES, first, count, 0, 0, false));
        assert_eq!(zero.status, status::LBA_RANGE);
    }
    let write = host.call(&blocks(io::WRITE, 1024, 1, 0, 512, true), &data, true);
    assert_eq!(write.status, status::LBA_RANGE);
    // Lengths that are not those of the blocks.
    assert_eq!(host.ask(&blocks(io::READ, 0, 2, 0, 512, false)).status, status::SGL_LENGTH);
    let short = host.call(&blocks(io::WRITE, 0, 2, 0, 512, true), &data, true);
    assert_eq!(short.status, status::SGL_LENGTH);
    // Protection information, unknown commands and namespaces.
    let protected = host.ask(&blocks(io::READ, 0, 1, 1 << 29, 512, false));
    assert_eq!(protected.status, status::INVALID_FIELD);
    for opcode in [0x04, 0x0c, 0x12, 0x19, 0x7d, 0x80] {
        assert_eq!(host.ask(&samples::command(opcode, 1, 1, [0; 6])).status, status::INVALID_OPCODE);
    }
    let mut elsewhere = blocks(io::READ, 0, 1, 0, 512, false);
    elsewhere[4] = 2;
    assert_eq!(host.ask(&elsewhere).status, status::INVALID_NAMESPACE);
    // Compare and Write as a fused pair.
    let mut fused = blocks(io::WRITE, 0, 1, 0, 512, true);
    fused[1] |= 2;
    assert_eq!(host.call(&fused, &data, true).status, status::INVALID_FIELD);
    // A range of Dataset Management that is outside: none is deallocated.
    assert_eq!(host.call(&blocks(io::WRITE, 5, 1, 0, 512, true), &data, true).status, 0);
    let range = |first: u64| [&[0; 4][..], &1u32.to_le_bytes(), &first.to_le_bytes()].concat();
    let trim = samples::command(io::DATASET_MANAGEMENT, 5, 1, [1, 4, 0, 0, 0, 0]);
    let both = host.call(&samples::with_data(trim, 32, false), &[range(5), range(1024)].concat(), false);
    assert_eq!(both.status, status::LBA_RANGE);
    let few = host.call(&samples::with_data(trim, 16, true), &range(5), true);
    assert_eq!(few.status, status::SGL_LENGTH);
    assert_eq!(host.ask(&blocks(io::READ, 5, 1, 0, 512, false)).data, data);
    assert_eq!(host.ask(&samples::property_get(1, 0, true)).status, status::INVALID_OPCODE);
    assert!(server.statistics().errors > 10);
}

/// A namespace that fails.
struct Failing(Fault, bool);

impl Namespace for Failing {
    fn block(&self) -> u32 {
        4096
    }
    fn blocks(&self) -> u64 {
        8
    }
    fn id(&self) -> [u8; 16] {
        [1; 16]
    }
    fn read_only(&self) -> bool {
        self.1
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
    fn trim(&self, _: u64, _: u64) -> Result<(), Fault> {
        Err(self.0)
    }
}

#[test]
fn faults_have_their_statuses() {
    for (fault, on_read, on_write) in [
        (Fault::Media, status::UNRECOVERED_READ, status::WRITE_FAULT),
        (Fault::Internal, status::INTERNAL, status::INTERNAL),
        (Fault::Gone, status::INVALID_NAMESPACE, status::INVALID_NAMESPACE),
        (Fault::NoSpace, status::CAPACITY, status::CAPACITY),
        (Fault::Range, status::LBA_RANGE, status::LBA_RANGE),
    ] {
        let server = serve_namespace(Arc::new(Failing(fault, false)), Limits::default());
        let admin = Host::admin(&server, samples::NQN, 0);
        let mut host = Host::io(&server, &admin, OFF, 0, 0);
        assert_eq!(host.ask(&blocks(io::READ, 0, 1, 0, 4096, false)).status, on_read);
        let write = host.call(&blocks(io::WRITE, 0, 1, 0, 4096, true), &[0; 4096], true);
        assert_eq!(write.status, on_write);
        assert_eq!(host.ask(&blocks(io::WRITE_ZEROES, 0, 1, 0, 0, false)).status, on_write);
        assert_eq!(host.ask(&samples::command(io::FLUSH, 1, 1, [0; 6])).status, on_read);
    }
    assert_eq!(status::INTERNAL & status::DNR, 0, "a repetition may succeed");
    let server = serve_namespace(Arc::new(Failing(Fault::Internal, true)), Limits::default());
    let admin = Host::admin(&server, samples::NQN, 0);
    let mut host = Host::io(&server, &admin, OFF, 0, 0);
    let write = host.call(&blocks(io::WRITE, 0, 1, 0, 4096, true), &[0; 4096], true);
    assert_eq!(write.status, status::NAMESPACE_WRITE_PROTECTED);
}

#[test]
fn damaged_data_is_not_written_and_the_connection_goes_on() {
    let memory = Memory::new(512, 64);
    let server = serve_namespace(memory.clone(), Limits::default());
    let admin = Host::admin(&server, samples::NQN, 0);
    let mut host = Host::io(&server, &admin, ON, 0, 0);
    let mut capsule = samples::capsule(&blocks(io::WRITE, 0, 1, 0, 512, true), &[7; 512], ON);
    *capsule.last_mut().unwrap() ^= 1;
    host.send(&capsule);
    assert_eq!(completion(&host.receive().unwrap()).status, status::TRANSIENT_TRANSPORT);
    // The first of two PDUs is damaged.
    host.submit(&blocks(io::WRITE, 0, 2, 0, 1024, false), b"");
    let tag = crate::pdu::u16_at(&host.receive().unwrap().header, 10);
    let mut first = samples::h2c(9, tag, 0, &[7; 512], false, ON);
    first[40] ^= 1;
    host.send(&first);
    host.send(&samples::h2c(9, tag, 512, &[7; 512], true, ON));
    assert_eq!(completion(&host.receive().unwrap()).status, status::TRANSIENT_TRANSPORT);
    assert_eq!(host.ask(&blocks(io::READ, 0, 2, 0, 1024, false)).data, [0; 1024]);
}
