//! What a connection begins with: TLS, or a PDU.
//!
//! A record of TLS with a handshake message begins with 16h, and `ICReq` with its type, 0: the first byte says which of the two it is.
//!
//! Invariants: with TLS required, nothing but a handshake is answered; a host that has a key of TLS is not served without.
//!
//! Must not depend on: PDUs, commands.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_environment::time::Instant;

use crate::auth::{Admission, HostKeys};
use crate::controller::Core;
use crate::namespace::{DISCOVERY, Subsystems};
use crate::tls::{self, Identity, Peer, TlsKey, TlsMode};
use crate::wire::{Socket, is_tick};

/// The type of a record with a handshake message (RFC 8446, 5.1).
const HANDSHAKE: u8 = 0x16;

/// What a connection is served over, and who is at its other end if TLS has shown it.
type Channel = (Arc<dyn Socket>, Option<Peer>);

/// Waits for the first byte of a connection, and begins TLS if it is one of it. `patience`: the time for both. None: the connection ends;
/// why is in the log.
pub(crate) fn begin(
    stream: &Arc<TcpStream>,
    from: &str,
    core: &Arc<Core>,
    patience: Duration,
) -> Option<Channel> {
    let mode = core.subsystems.tls();
    let until = Instant::now() + patience;
    let first = first_byte(stream, core, until)?;
    let socket: Arc<dyn Socket> = stream.clone();
    let why = match (first == HANDSHAKE, mode) {
        (false, TlsMode::Off | TlsMode::Allowed) => return Some((socket, None)),
        (false, TlsMode::Required) => "it did not begin TLS, which is required".to_owned(),
        (true, TlsMode::Off) => "it began TLS, which is off".to_owned(),
        (true, _) => {
            let subsystems = core.subsystems.clone();
            let known = Box::new(move |identity: &Identity<'_>| key(&*subsystems, identity));
            let until = Instant::now() + core.authentication.min(patience);
            match tls::accept(&socket, known, until) {
                Ok((channel, peer)) => return Some((channel, Some(peer))),
                Err(why) => why,
            }
        }
    };
    if !core.stopping.load(Ordering::Acquire) {
        core.counters.unauthenticated.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(from, why, "an NVMe connection was refused");
    }
    None
}

/// The first byte, which stays where it is.
fn first_byte(stream: &TcpStream, core: &Core, until: Instant) -> Option<u8> {
    let mut first = [0];
    loop {
        match stream.peek(&mut first) {
            Ok(1) => return Some(first[0]),
            Err(e) if is_tick(&e) || e.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
        if core.stopping.load(Ordering::Acquire) || Instant::now() >= until {
            return None;
        }
    }
}

/// The key of the host that the name of a key says.
fn key(subsystems: &dyn Subsystems, identity: &Identity<'_>) -> Result<TlsKey, String> {
    let Identity { host, subsystem, .. } = identity;
    let key = match subsystems.admission(host) {
        Admission::Authenticated(keys) => keys.tls.clone(),
        Admission::Open | Admission::Refused => {
            return Err(format!("{host:?} is not one of the hosts that may connect with TLS"));
        }
    };
    let key = key.ok_or_else(|| format!("the host {host:?} has no key of TLS here"))?;
    if *subsystem != DISCOVERY && subsystems.open_for(subsystem, host).is_none() {
        return Err(format!("there is no subsystem {subsystem:?} for {host:?}"));
    }
    Ok(key)
}

/// Why a host with these keys is not served over a connection, if it is not.
pub(crate) fn objection(keys: &HostKeys, mode: TlsMode, has_tls: bool) -> Option<&'static str> {
    match (&keys.tls, mode) {
        (Some(_), TlsMode::Allowed | TlsMode::Required) if !has_tls => {
            Some("it has a key of TLS, and came without TLS")
        }
        // TLS was switched off, or the key was removed, while it connected.
        (Some(_), TlsMode::Off) if keys.secret.is_none() => Some("it has only a key of TLS, and TLS is off"),
        (None, TlsMode::Required) if !has_tls => Some("it came without TLS, which is required"),
        _ => None,
    }
}
