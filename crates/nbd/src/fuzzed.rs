//! Entry points for the fuzzer: a whole connection over bytes instead of a socket.
//!
//! Must not depend on: sockets of the system.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::budget::Budget;
use crate::connection::Connection;
use crate::device::Exports;
use crate::memory::Memory;
use crate::negotiate::{Offer, negotiate};
use crate::protocol::{context_request, export_request};
use crate::wire::{Socket, Wire};

/// What a client sends, and what it has received.
pub(crate) struct Script {
    input: Mutex<(Vec<u8>, usize)>,
    pub(crate) output: Mutex<Vec<u8>>,
}

impl Script {
    pub(crate) fn new(input: &[u8]) -> Arc<Script> {
        Arc::new(Script { input: Mutex::new((input.to_vec(), 0)), output: Mutex::default() })
    }
}

impl Socket for Script {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut input = self.input.lock();
        let (bytes, at) = &mut *input;
        let n = out.len().min(bytes.len() - *at);
        out[..n].copy_from_slice(&bytes[*at..*at + n]);
        *at += n;
        Ok(n)
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut output = self.output.lock();
        slices.iter().for_each(|s| output.extend_from_slice(s));
        Ok(slices.iter().map(|s| s.len()).sum())
    }

    fn shut(&self, _how: Shutdown) {}
}

/// Serves a device of a few blocks to a client that sends `input`, in this thread. What the client gets.
pub(crate) fn session(input: &[u8], exports: &dyn Exports) -> Vec<u8> {
    let script = Script::new(input);
    let mut wire = Wire::new(script.clone(), Duration::from_secs(60));
    let offer = Offer { exports, tls: None, tls_required: false };
    if let Ok(Some(agreed)) = negotiate(&mut wire, &offer) {
        let budget = Budget::new(1 << 20, None);
        Connection::new(wire, agreed, budget, Arc::default(), Arc::default(), 1).work(&|| ());
    }
    let output = script.output.lock();
    output.clone()
}

/// Serves a client that sends `input`; what it gets is bounded.
pub fn connection(input: &[u8]) {
    let exports = Memory::new(16 << 10).exports();
    let output = session(input, &*exports);
    // A request of 28 bytes reads a device of 16 KiB; an option of 16 bytes has a reply of a few hundred.
    assert!(output.len() <= 64 + 1024 * (1 + input.len()));
}

/// The content of options about exports and contexts.
pub fn options(input: &[u8]) {
    if let Some((name, kinds)) = export_request(input) {
        assert_eq!(input.len(), 6 + name.len() + 2 * kinds.len());
    }
    if let Some((name, queries)) = context_request(input) {
        assert_eq!(input.len(), 8 + name.len() + queries.iter().map(|q| 4 + q.len()).sum::<usize>());
    }
}

/// Connections of clients.
#[must_use]
pub fn connections() -> Vec<Vec<u8>> {
    crate::samples::connections()
}

/// Options about exports and contexts.
#[must_use]
pub fn option_samples() -> Vec<Vec<u8>> {
    crate::samples::options()
}
