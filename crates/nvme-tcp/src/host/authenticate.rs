//! Authentication of a queue: this host proves that it knows its secret, and has the target prove that it knows its own.
//!
//! Invariant: a host that has the secret of a target uses no queue of its subsystems that has not proved it.
//!
//! Must not depend on: what is read and written.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::auth::initiator::{self, Failure as Problem, Parties};
use crate::auth::message::reason;
use crate::error::Error;
use crate::host::call::Failure;
use crate::host::options::HostOptions;
use crate::host::queue::{Queue, data_of};
use crate::host::request;
use crate::namespace::DISCOVERY;
use crate::status;

/// Bits of the answer to Connect (AUTHREQ): a secure channel is to be built, the host has to authenticate itself.
const CHANNEL: u64 = 1 << 18;
const AUTHENTICATE: u64 = 1 << 17;
/// The number of the last exchange.
static TRANSACTION: AtomicU16 = AtomicU16::new(0);

fn failed(what: &str, failure: Failure) -> Error {
    match failure {
        Failure::Status(s) => Error::Refused(format!("{what}: {}", status::describe(s))),
        Failure::Digest => Error::Refused(format!("{what}: the digest of its data is wrong")),
        Failure::Lost | Failure::Unsent => {
            let text = format!("{what}: the connection was lost");
            Error::Connection(std::io::Error::new(std::io::ErrorKind::ConnectionReset, text))
        }
    }
}

/// Does what the answer to Connect demands.
///
/// # Errors
/// [`Error::Refused`] if an end is not satisfied, [`Error::Connection`].
pub(crate) fn answer_demand(
    queue: &Queue,
    answer: u64,
    nqn: &str,
    options: &HostOptions,
) -> Result<(), Error> {
    let refused = |text: &str| Err(Error::Refused(text.to_owned()));
    if answer & CHANNEL != 0 {
        return refused(
            "the target demands a secure channel that begins with the authentication, which is not supported",
        );
    }
    if answer & AUTHENTICATE == 0 {
        if options.controller_secret.is_some() && nqn != DISCOVERY {
            return refused(
                "the target does not authenticate anybody, and this host demands that it authenticates itself",
            );
        }
        return Ok(());
    }
    let Some(secret) = &options.secret else {
        return refused("the target demands authentication, and this host has no secret");
    };
    let host = &options.host_nqn;
    let parties =
        Parties { host, subsystem: nqn, secret, controller_secret: options.controller_secret.as_ref() };
    exchange(queue, &parties)
}

fn exchange(queue: &Queue, parties: &Parties<'_>) -> Result<(), Error> {
    let transaction = TRANSACTION.fetch_add(1, Ordering::Relaxed);
    let send = |what, message: &[u8]| {
        queue.call(request::authentication_send(message)).map(drop).map_err(|f| failed(what, f))
    };
    let receive = |what| data_of(queue.call(request::authentication_receive())).map_err(|f| failed(what, f));
    let end = |problem: Problem| -> Error {
        let (who, reason) = match problem {
            Problem::Told(reason) => ("the target does not accept this host", reason),
            Problem::Found(reason) => {
                // It ends the connection; that it does so is no other error.
                let _ = send("end the authentication", &initiator::failure(transaction, reason));
                ("this host does not accept the target", reason)
            }
        };
        Error::Refused(format!("{who}: {}", reason::describe(reason)))
    };
    send("negotiate authentication", &initiator::negotiate(transaction))?;
    let challenge = receive("receive the challenge of the target")?;
    let (reply, pending) = parties.reply(&challenge, transaction)?.map_err(end)?;
    send("answer the challenge of the target", &reply)?;
    let verdict = receive("receive whether this host is authenticated")?;
    pending.conclude(&verdict).map_err(end)?;
    if pending.is_mutual() {
        send("accept the target", &initiator::success(transaction))?;
    }
    Ok(())
}
