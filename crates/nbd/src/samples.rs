//! What clients send, for the fuzzer and tests.
//!
//! Must not depend on: the server.

use crate::protocol::*;

/// The client's part of the handshake.
pub(crate) fn hello() -> Vec<u8> {
    u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes().to_vec()
}

/// An option.
pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = OPTION_MAGIC.to_vec();
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
    out
}

fn string(s: &str) -> Vec<u8> {
    [&(s.len() as u32).to_be_bytes()[..], s.as_bytes()].concat()
}

/// The data of `INFO` and `GO`.
pub(crate) fn export(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut out = string(name);
    out.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|k| out.extend_from_slice(&k.to_be_bytes()));
    out
}

/// The data of options about metadata contexts.
pub(crate) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut out = string(name);
    out.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|q| out.extend(string(q)));
    out
}

/// A request and its data.
pub(crate) fn request(command: u16, flags: u16, cookie: u64, at: u64, len: u32, data: &[u8]) -> Vec<u8> {
    let mut out = REQUEST.to_be_bytes().to_vec();
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&command.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&at.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(data);
    out
}

fn requests() -> Vec<u8> {
    [
        request(command::WRITE, flag::FUA, 1, 4096, 8, b"contents"),
        request(command::READ, flag::DF, 2, 4090, 20, b""),
        request(command::BLOCK_STATUS, 0, 3, 0, 16 << 10, b""),
        request(command::BLOCK_STATUS, flag::REQ_ONE, 4, 0, 16 << 10, b""),
        request(command::WRITE_ZEROES, flag::NO_HOLE, 5, 0, 4096, b""),
        request(command::TRIM, 0, 6, 4096, 4096, b""),
        request(command::FLUSH, 0, 7, 0, 0, b""),
        request(command::WRITE, 0, 8, u64::MAX - 4, 8, b"nowhere!"),
        request(command::DISCONNECT, 0, 9, 0, 0, b""),
    ]
    .concat()
}

/// Whole connections.
pub(crate) fn connections() -> Vec<Vec<u8>> {
    let modern = [
        hello(),
        option(option::STRUCTURED_REPLY, b""),
        option(option::LIST, b""),
        option(option::LIST_META_CONTEXT, &contexts("memory", &[])),
        option(option::SET_META_CONTEXT, &contexts("memory", &[ALLOCATION])),
        option(option::INFO, &export("memory", &[info::NAME, info::DESCRIPTION, info::BLOCK_SIZE])),
        option(option::GO, &export("memory", &[info::BLOCK_SIZE])),
        requests(),
    ];
    let simple = [hello(), option(option::GO, &export("", &[])), requests()];
    let old = [vec![0; 4], option(option::EXPORT_NAME, b"memory"), requests()];
    let ends = [hello(), option(option::STARTTLS, b""), option(99, b"x"), option(option::ABORT, b"")];
    vec![modern.concat(), simple.concat(), old.concat(), ends.concat()]
}

/// The data of options.
pub(crate) fn options() -> Vec<Vec<u8>> {
    vec![export("a", &[0, 3]), export("", &[]), contexts("a", &["base:", ALLOCATION]), contexts("", &[])]
}
