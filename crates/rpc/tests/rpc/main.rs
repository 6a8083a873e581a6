//! Tests of connections between nodes, over real sockets of this machine.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

mod calls;
mod common;
mod formats;
mod limits;
mod security;
