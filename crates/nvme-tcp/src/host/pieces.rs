//! Requests as commands: ranges are cut into what a command may have.
//!
//! Must not depend on: connections.

use crate::host::call::Failure;
use crate::host::device::Device;
use crate::host::facts::Facts;
use crate::host::request::{self, Request};
use crate::host::unflushed::Change;
use crate::status;

/// Zeros for targets without Write Zeroes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// First block and blocks of each part of a range of bytes, of at most `most` bytes.
fn cut(device: &Device, at: u64, len: u64, most: usize) -> impl Iterator<Item = (u64, u32)> {
    let block = u64::from(device.facts.block);
    let step = most as u64 / block;
    let (first, blocks) = (at / block, len / block);
    (0..blocks.div_ceil(step)).map(move |n| (first + n * step, step.min(blocks - n * step) as u32))
}

/// Reads of a range.
pub(crate) fn of_read(device: &Device, at: u64, len: u64) -> Vec<Request<'static>> {
    let (nsid, block) = (device.address.nsid, device.facts.block);
    cut(device, at, len, device.most).map(|(first, count)| request::read(nsid, first, count, block)).collect()
}

/// The commands of a change.
pub(crate) fn of_change<'a>(change: &'a Change, device: &Device, facts: &Facts) -> Vec<Request<'a>> {
    let nsid = device.address.nsid;
    let block = device.facts.block as usize;
    match change {
        Change::Write { at, data } => {
            let parts = cut(device, *at, data.len() as u64, device.most).zip(data.chunks(device.most));
            parts.map(|((first, count), part)| request::write(nsid, first, count, part)).collect()
        }
        Change::Zero { at, len } if facts.write_zeroes => {
            // As long as a command with data: WZSL is not read.
            let parts = cut(device, *at, *len, device.most);
            parts.map(|(first, count)| request::write_zeroes(nsid, first, count)).collect()
        }
        Change::Zero { at, len } => {
            let parts = cut(device, *at, *len, device.most.min(ZEROS.len()));
            parts.map(|(first, n)| request::write(nsid, first, n, &ZEROS[..n as usize * block])).collect()
        }
    }
}

/// What went wrong with a command, for people.
pub(crate) fn describe(failure: Failure) -> String {
    match failure {
        Failure::Status(s) => status::describe(s),
        Failure::Digest => "the digest of its data is wrong".into(),
        Failure::Lost | Failure::Unsent => "the connection was lost".into(),
    }
}
