//! What a target of the fuzzer is.
//!
//! Must not depend on: other files of this crate.

/// One decoder under test.
pub struct Target {
    /// As on the command line.
    pub name: &'static str,
    /// Inputs to start from.
    pub seeds: Vec<Vec<u8>>,
    /// Pieces that mutations insert.
    pub tokens: &'static [&'static [u8]],
    /// Decodes an input.
    pub run: fn(&[u8]),
}
