//! PDUs that come in, until one makes a command that can be executed.
//!
//! Invariants: a header is checked, and its digest, before anything is done with it; data is received where it stays; at most
//! [`BUFFER`] bytes and the data of one PDU are here.
//!
//! Must not depend on: what commands do.

use std::sync::atomic::Ordering;

use ashlar_environment::time::Instant;

use crate::command::{Command, SQE};
use crate::connection::{Connection, Packet};
use crate::error::Error;
use crate::flow::{Action, Job};
use crate::pdu::*;
use crate::wire::is_tick;

/// Bytes that are received at once.
pub(crate) const BUFFER: usize = 64 << 10;

/// Bytes that have come in.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    agreed: Option<Agreed>,
    /// The header of the PDU that is received, to repeat it if it is wrong.
    pub(crate) header: Vec<u8>,
    /// Nothing more is received.
    pub(crate) ended: bool,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Inbox { buffer, start: 0, end: 0, agreed: None, header: Vec::new(), ended: false }
    }

    /// Moves bytes that are here to the end of `out`.
    fn take(&mut self, most: usize, out: &mut Vec<u8>) -> usize {
        let n = most.min(self.end - self.start);
        out.extend_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        n
    }
}

/// What a PDU led to.
pub(crate) enum Received {
    Job(Job),
    /// Nothing to execute yet.
    Nothing,
    /// The host has ended the connection, or the server ends it.
    End,
}

impl Connection {
    /// Receives one PDU.
    ///
    /// # Errors
    /// [`Error::Protocol`], [`Error::Connection`].
    pub(crate) fn receive(&self, inbox: &mut Inbox) -> Result<Received, Error> {
        inbox.header.clear();
        if !self.wait(inbox)? {
            return Ok(Received::End);
        }
        self.fetch_header(inbox, COMMON)?;
        let mut first = [0; COMMON];
        first.copy_from_slice(&inbox.header);
        let common = Common::decode(&first, inbox.agreed.as_ref())?;
        self.fetch_header(inbox, common.header)?;
        if common.kind == kind::H2C_TERM {
            let (fes, at) = (u16_at(&inbox.header, 8), u32_at(&inbox.header, 10));
            tracing::warn!(host = self.from, fes, at, "an NVMe host ended its connection: it found an error");
            return Ok(Received::End);
        }
        let Some(agreed) = inbox.agreed else {
            let mut bytes = [0; IC];
            bytes.copy_from_slice(&inbox.header);
            let agreed = ic_req(&bytes)?;
            inbox.agreed = Some(agreed);
            self.agree(agreed);
            self.send(Packet::control(ic_resp(&agreed)));
            return Ok(Received::Nothing);
        };
        if agreed.header_digest {
            self.fetch_header(inbox, common.header + DIGEST)?;
            let (header, sum) = inbox.header.split_at(common.header);
            if digest(&[header]) != *sum {
                return broken("a header digest", fes::HEADER_DIGEST, 0);
            }
        }
        if common.offset > 0 {
            // What is between the header and its data.
            self.fetch_header(inbox, common.offset)?;
        }
        match common.kind {
            kind::COMMAND => self.receive_command(inbox, &common, &agreed),
            _ => self.receive_data(inbox, &common, &agreed),
        }
    }

    fn receive_command(
        &self,
        inbox: &mut Inbox,
        common: &Common,
        agreed: &Agreed,
    ) -> Result<Received, Error> {
        let mut bytes = [0; SQE];
        bytes.copy_from_slice(&inbox.header[COMMON..CAPSULE]);
        let (mut data, len) = (Vec::new(), common.data(agreed));
        let whole = len == 0 || self.fetch_data(inbox, len, &mut data, agreed)?;
        let action = self.flow.lock().admit(Command(bytes), data, !whole)?;
        match action {
            Some(Action::Run(job)) => Ok(Received::Job(job)),
            Some(Action::Ask(command, tag, len)) => {
                self.send(Packet::control(r2t(command, tag, len, agreed)));
                Ok(Received::Nothing)
            }
            None => Ok(Received::Nothing),
        }
    }

    fn receive_data(&self, inbox: &mut Inbox, common: &Common, agreed: &Agreed) -> Result<Received, Error> {
        let mut bytes = [0; SHORT];
        bytes.copy_from_slice(&inbox.header[..SHORT]);
        let head = H2cData::decode(&bytes);
        if head.len != common.data(agreed) {
            return broken("the length of data", fes::INVALID_HEADER, 16);
        }
        let mut data = self.flow.lock().take(&head)?;
        let whole = self.fetch_data(inbox, head.len, &mut data, agreed)?;
        let job = self.flow.lock().put(head.tag, data, !whole);
        Ok(job.map_or(Received::Nothing, Received::Job))
    }

    /// Waits for the first byte of a PDU. False: the connection ends.
    fn wait(&self, inbox: &mut Inbox) -> Result<bool, Error> {
        while inbox.start == inbox.end {
            if self.broken.load(Ordering::Acquire) || self.core.stopping.load(Ordering::Acquire) {
                return Ok(false);
            }
            match self.wire.receive(&mut inbox.buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => (inbox.start, inbox.end) = (0, n),
                Err(e) if is_tick(&e) => {
                    if !self.tick() {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// Receives until the header has `len` bytes.
    fn fetch_header(&self, inbox: &mut Inbox, len: usize) -> Result<(), Error> {
        let mut header = std::mem::take(&mut inbox.header);
        let done = self.fetch(inbox, len.saturating_sub(header.len()), &mut header);
        inbox.header = header;
        done
    }

    /// Receives data and its digest. False: the digest is wrong.
    fn fetch_data(
        &self,
        inbox: &mut Inbox,
        len: usize,
        out: &mut Vec<u8>,
        agreed: &Agreed,
    ) -> Result<bool, Error> {
        let from = out.len();
        self.fetch(inbox, len, out)?;
        if !agreed.data_digest {
            return Ok(true);
        }
        let mut sum = Vec::with_capacity(DIGEST);
        self.fetch(inbox, DIGEST, &mut sum)?;
        Ok(digest(&[&out[from..]]) == *sum)
    }

    /// Receives `len` bytes, to the end of `out`.
    fn fetch(&self, inbox: &mut Inbox, len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = len - inbox.take(len, out);
        if left == 0 {
            return Ok(());
        }
        let until: Instant = self.wire.deadline(left);
        if left >= BUFFER {
            let from = out.len();
            out.resize(from + left, 0);
            return Ok(self.wire.receive_all(&mut out[from..], until)?);
        }
        while left > 0 {
            // The buffer is empty.
            match self.wire.receive(&mut inbox.buffer) {
                Ok(0) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => (inbox.start, inbox.end) = (0, n),
                Err(e) if is_tick(&e) => {}
                Err(e) => return Err(e.into()),
            }
            left -= inbox.take(left, out);
            if left > 0 && Instant::now() >= until {
                let slow =
                    std::io::Error::new(std::io::ErrorKind::TimedOut, "the host is too slow within a PDU");
                return Err(slow.into());
            }
        }
        Ok(())
    }
}
