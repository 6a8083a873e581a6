//! The negotiation: the client's options, until it has chosen an export.
//!
//! Invariants: an option that is malformed is answered with an error and changes nothing; before TLS, where TLS is required,
//! no option but `STARTTLS` and `ABORT` is answered with anything else than that. What was agreed on before TLS is
//! forgotten. A negotiation has an end: [`MAX_OPTIONS`] options, and a time.
//!
//! Must not depend on: threads, requests.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time::Instant;
use rustls::ServerConfig;

use crate::device::{Export, Exports};
use crate::error::Error;
use crate::protocol::*;
use crate::wire::Wire;

/// Time that a negotiation may take.
pub(crate) const TIME: Duration = Duration::from_secs(30);

/// What client and server have agreed on.
pub(crate) struct Agreed {
    pub(crate) export: Export,
    /// Replies to reads are structured.
    pub(crate) structured: bool,
    /// The context `base:allocation` is in use.
    pub(crate) allocation: bool,
}

/// What the negotiation knows of the server.
pub(crate) struct Offer<'a> {
    pub(crate) exports: &'a dyn Exports,
    pub(crate) tls: Option<&'a Arc<ServerConfig>>,
    pub(crate) tls_required: bool,
}

/// An option of the client.
struct Asked {
    option: u32,
    data: Vec<u8>,
}

struct Negotiation<'a> {
    wire: &'a mut Wire,
    offer: &'a Offer<'a>,
    /// Whether the reply to `EXPORT_NAME` ends in zeros.
    zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was set.
    allocation: Option<String>,
    until: Instant,
}

/// What becomes of the negotiation after an option.
enum Next {
    Option,
    Transmission(Agreed),
    End,
}

/// Negotiates. None: the client needed nothing else.
///
/// # Errors
/// [`Error::Connection`], [`Error::Protocol`]: the connection is to be closed.
pub(crate) fn negotiate(wire: &mut Wire, offer: &Offer<'_>) -> Result<Option<Agreed>, Error> {
    let until = Instant::now() + TIME;
    let mut hello = [&MAGIC[..], OPTION_MAGIC].concat();
    hello.extend_from_slice(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    wire.send(&mut [IoSlice::new(&hello)])?;
    let mut me = Negotiation { wire, offer, zeroes: true, structured: false, allocation: None, until };
    let mut flags = [0; 4];
    match me.receive(&mut flags) {
        // Whoever only looks whether somebody listens.
        Err(Error::Connection(e)) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
        return Err(Error::Protocol("unknown flags in the handshake"));
    }
    me.zeroes = flags & u32::from(handshake::NO_ZEROES) == 0;
    for _ in 0..MAX_OPTIONS {
        let Some(asked) = me.next_option()? else { return Ok(None) };
        match me.answer(&asked)? {
            Next::Option => {}
            Next::Transmission(agreed) => return Ok(Some(agreed)),
            Next::End => return Ok(None),
        }
    }
    Err(Error::Protocol("too many options"))
}

impl Negotiation<'_> {
    fn receive(&self, out: &mut [u8]) -> Result<(), Error> {
        Ok(self.wire.receive_all(out, self.until)?)
    }

    /// None: the client has closed the connection between options.
    fn next_option(&self) -> Result<Option<Asked>, Error> {
        let mut head = [0; 16];
        match self.receive(&mut head[..1]) {
            Err(Error::Connection(e)) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        self.receive(&mut head[1..])?;
        let mut r = Reader(&head);
        if r.raw(8) != Some(OPTION_MAGIC) {
            return Err(Error::Protocol("an option without its magic number"));
        }
        let (Some(option), Some(len)) = (r.u32(), r.u32()) else {
            return Err(Error::Protocol("an option without a length"));
        };
        if len > MAX_OPTION {
            self.reply(option, answer::TOO_BIG, b"the option is too long")?;
            return Err(Error::Protocol("an option that is too long"));
        }
        let mut data = vec![0; len as usize];
        self.receive(&mut data)?;
        Ok(Some(Asked { option, data }))
    }

    fn reply(&self, option: u32, kind: u32, data: &[u8]) -> Result<(), Error> {
        Ok(self.wire.send(&mut [IoSlice::new(&option_reply(option, kind, data))])?)
    }

    fn refuse(&self, asked: &Asked, kind: u32, why: &str) -> Result<Next, Error> {
        self.reply(asked.option, kind, why.as_bytes())?;
        Ok(Next::Option)
    }

    fn answer(&mut self, asked: &Asked) -> Result<Next, Error> {
        let open = self.wire.is_encrypted() || !self.offer.tls_required;
        match asked.option {
            option::ABORT => {
                // The client may be gone already.
                let _ = self.reply(option::ABORT, answer::ACK, b"");
                Ok(Next::End)
            }
            option::STARTTLS => self.start_tls(asked),
            option::EXPORT_NAME if !open => Err(Error::Protocol("an export was asked for without TLS")),
            _ if !open => self.refuse(asked, answer::TLS_REQUIRED, "this server requires TLS"),
            option::EXPORT_NAME => self.export_name(asked),
            option::LIST => self.list(asked),
            option::INFO | option::GO => self.info(asked),
            option::STRUCTURED_REPLY if asked.data.is_empty() => {
                self.structured = true;
                self.reply(asked.option, answer::ACK, b"")?;
                Ok(Next::Option)
            }
            option::STRUCTURED_REPLY => self.refuse(asked, answer::INVALID, "this option has no data"),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(asked),
            _ => self.refuse(asked, answer::UNSUPPORTED, "this server does not know the option"),
        }
    }

    fn start_tls(&mut self, asked: &Asked) -> Result<Next, Error> {
        let Some(config) = self.offer.tls else {
            return self.refuse(asked, answer::POLICY, "this server has no certificate");
        };
        if self.wire.is_encrypted() || !asked.data.is_empty() {
            return self.refuse(asked, answer::INVALID, "TLS is in use, or the option has data");
        }
        self.reply(asked.option, answer::ACK, b"")?;
        self.wire.start_tls(config, self.until)?;
        self.structured = false;
        self.allocation = None;
        Ok(Next::Option)
    }

    fn export_name(&mut self, asked: &Asked) -> Result<Next, Error> {
        let name =
            std::str::from_utf8(&asked.data).map_err(|_| Error::Protocol("a name that is not UTF-8"))?;
        // This option has no reply that is an error.
        let Some(export) = self.offer.exports.open(name) else {
            return Err(Error::Protocol("there is no export of that name"));
        };
        let mut out = export.device.size().to_be_bytes().to_vec();
        out.extend_from_slice(&transmission_flags(&export).to_be_bytes());
        if self.zeroes {
            out.resize(out.len() + 124, 0);
        }
        self.wire.send(&mut [IoSlice::new(&out)])?;
        Ok(Next::Transmission(self.agree(export, name)))
    }

    fn agree(&mut self, export: Export, asked: &str) -> Agreed {
        let allocation = self.structured && self.allocation.as_deref() == Some(asked);
        Agreed { export, structured: self.structured, allocation }
    }

    fn list(&self, asked: &Asked) -> Result<Next, Error> {
        if !asked.data.is_empty() {
            return self.refuse(asked, answer::INVALID, "this option has no data");
        }
        for (name, description) in self.offer.exports.list() {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(name.as_bytes());
            data.extend_from_slice(description.as_bytes());
            self.reply(asked.option, answer::SERVER, &data)?;
        }
        self.reply(asked.option, answer::ACK, b"")?;
        Ok(Next::Option)
    }

    fn info(&mut self, asked: &Asked) -> Result<Next, Error> {
        let Some((name, kinds)) = export_request(&asked.data) else {
            return self.refuse(asked, answer::INVALID, "the name of an export and a list were expected");
        };
        let Some(export) = self.offer.exports.open(name) else {
            return self.refuse(asked, answer::UNKNOWN, "there is no export of that name");
        };
        let mut data = info::EXPORT.to_be_bytes().to_vec();
        data.extend_from_slice(&export.device.size().to_be_bytes());
        data.extend_from_slice(&transmission_flags(&export).to_be_bytes());
        self.reply(asked.option, answer::INFO, &data)?;
        for kind in [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
            if !kinds.contains(&kind) {
                continue;
            }
            let mut data = kind.to_be_bytes().to_vec();
            match kind {
                info::NAME => data.extend_from_slice(export.name.as_bytes()),
                info::DESCRIPTION => data.extend_from_slice(export.description.as_bytes()),
                _ => {
                    let (least, preferred, most) = export.device.block_sizes();
                    for size in [least, preferred, most.min(MAX_PAYLOAD)] {
                        data.extend_from_slice(&size.to_be_bytes());
                    }
                }
            }
            self.reply(asked.option, answer::INFO, &data)?;
        }
        self.reply(asked.option, answer::ACK, b"")?;
        if asked.option == option::INFO {
            return Ok(Next::Option);
        }
        Ok(Next::Transmission(self.agree(export, name)))
    }

    fn contexts(&mut self, asked: &Asked) -> Result<Next, Error> {
        let set = asked.option == option::SET_META_CONTEXT;
        if set {
            // A failed attempt leaves none.
            self.allocation = None;
        }
        if !self.structured {
            return self.refuse(asked, answer::INVALID, "metadata needs structured replies");
        }
        let Some((name, queries)) = context_request(&asked.data) else {
            return self.refuse(asked, answer::INVALID, "the name of an export and queries were expected");
        };
        if self.offer.exports.open(name).is_none() {
            return self.refuse(asked, answer::UNKNOWN, "there is no export of that name");
        }
        let wildcard = !set && (queries.is_empty() || queries.contains(&"base:"));
        if wildcard || queries.contains(&ALLOCATION) {
            // In a list the number has no meaning.
            let mut data = (if set { ALLOCATION_ID } else { 0 }).to_be_bytes().to_vec();
            data.extend_from_slice(ALLOCATION.as_bytes());
            self.reply(asked.option, answer::META_CONTEXT, &data)?;
            if set {
                self.allocation = Some(name.to_owned());
            }
        }
        self.reply(asked.option, answer::ACK, b"")?;
        Ok(Next::Option)
    }
}

fn transmission_flags(export: &Export) -> u16 {
    use transmission::*;
    let both = HAS_FLAGS | FLUSH | FUA | TRIM | WRITE_ZEROES | DF | MULTI_CONN;
    if export.device.read_only() { both | READ_ONLY } else { both }
}
