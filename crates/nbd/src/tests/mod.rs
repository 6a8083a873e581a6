//! Tests with raw bytes, over scripts and over sockets.

mod endings;
mod negotiation;
mod requests;
mod tls;
