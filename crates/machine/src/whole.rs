//! Reads and writes of a descriptor that are complete, or errors.
//!
//! Must not depend on: what is read and written.

use std::fs::File;
use std::io::{self, IoSlice};

/// Reads all of `buf`.
pub(crate) fn read_full(f: &File, buf: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match rustix::io::pread(f, &mut buf[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes all slices.
pub(crate) fn write_full(f: &File, mut slices: &mut [IoSlice<'_>], mut at: u64) -> io::Result<()> {
    while !slices.is_empty() {
        // IOV_MAX is 1024 on Linux.
        let n = slices.len().min(1024);
        match rustix::io::pwritev(f, &slices[..n], at) {
            Ok(0) if slices[..n].iter().all(|s| s.is_empty()) => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(done) => {
                at += done as u64;
                IoSlice::advance_slices(&mut slices, done);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
