//! Messages of FUSE, as far as a folder with a few files needs them (linux/fuse.h, protocol 7.31).
//!
//! Must not depend on: what the files are.

/// Bytes of the head of a request.
pub const HEAD: usize = 40;
/// Bytes of the head of an answer.
pub const ANSWER_HEAD: usize = 16;
/// The most bytes that one write has.
pub const MAX_WRITE: usize = 1 << 20;

pub const LOOKUP: u32 = 1;
pub const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const SETATTR: u32 = 4;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const RELEASE: u32 = 18;
pub const FSYNC: u32 = 20;
pub const FLUSH: u32 = 25;
pub const INIT: u32 = 26;
pub const INTERRUPT: u32 = 36;
pub const BATCH_FORGET: u32 = 42;

/// Errors, negated as answers have them.
pub const ENOENT: i32 = -2;
pub const ENOSYS: i32 = -38;

/// The integers of a message.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// See [`u32_at`].
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The head of an answer with `len` bytes behind it; `error`: 0, or a negative error number.
pub fn answer_head(id: u64, error: i32, len: usize) -> [u8; ANSWER_HEAD] {
    let mut head = [0; ANSWER_HEAD];
    head[..4].copy_from_slice(&((ANSWER_HEAD + len) as u32).to_le_bytes());
    head[4..8].copy_from_slice(&error.to_le_bytes());
    head[8..].copy_from_slice(&id.to_le_bytes());
    head
}

/// The answer to INIT: direct requests in parallel and in the background, of 1 MiB each.
pub fn init(max_readahead: u32) -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const ASYNC_DIO: u32 = 1 << 15;
    const MAX_PAGES: u32 = 1 << 22;
    let mut out = Vec::with_capacity(64);
    for word in [7, 31, max_readahead, ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES] {
        out.extend(u32::to_le_bytes(word));
    }
    // Requests in the background, and how many are many.
    out.extend(u16::to_le_bytes(1024));
    out.extend(u16::to_le_bytes(1024));
    out.extend((MAX_WRITE as u32).to_le_bytes());
    // Nanoseconds of times; pages of a request; alignment.
    out.extend(u32::to_le_bytes(1));
    out.extend(((MAX_WRITE / 4096) as u16).to_le_bytes());
    out.resize(64, 0);
    out
}

/// The attributes of a file or (`folder`) of the folder.
fn attributes(node: u64, size: u64, folder: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(88);
    for word in [node, size, size.div_ceil(512), 0, 0, 0] {
        out.extend(u64::to_le_bytes(word));
    }
    let mode = if folder { 0o040_755 } else { 0o100_600 };
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        out.extend(u32::to_le_bytes(word));
    }
    out
}

/// The answer to GETATTR. The kernel may keep it for a day, unless the file changes by itself (`volatile`).
pub fn getattr(node: u64, size: u64, folder: bool, volatile: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    out.extend(u64::to_le_bytes(if volatile { 0 } else { 86_400 }));
    out.extend([0; 8]);
    out.extend(attributes(node, size, folder));
    out
}

/// The answer to LOOKUP.
pub fn entry(node: u64, size: u64, volatile: bool) -> Vec<u8> {
    let valid = u64::to_le_bytes(if volatile { 0 } else { 86_400 });
    let mut out = Vec::with_capacity(128);
    out.extend(u64::to_le_bytes(node));
    out.extend([0; 8]);
    out.extend(valid);
    out.extend(valid);
    out.extend([0; 8]);
    out.extend(attributes(node, size, false));
    out
}

/// The answer to OPEN: no page cache, writes in parallel.
pub fn open() -> Vec<u8> {
    const DIRECT_IO: u32 = 1;
    const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    let mut out = vec![0; 8];
    out.extend((DIRECT_IO | PARALLEL_DIRECT_WRITES).to_le_bytes());
    out.extend([0; 4]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        assert_eq!(init(0).len(), 64);
        assert_eq!(getattr(1, 0, true, false).len(), 104);
        assert_eq!(entry(2, 1 << 30, false).len(), 128);
        assert_eq!(open().len(), 16);
        assert_eq!(answer_head(7, ENOENT, 0)[..8], [16, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
    }
}
