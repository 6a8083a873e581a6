//! Fabrics commands: Connect, Property Get and Property Set (Base 6).
//!
//! Invariants: a queue belongs to the host that has made its controller; a connection with TLS serves the host and the subsystem of its key.
//!
//! Must not depend on: sockets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::auth::Admission;
use crate::authentication::QueueAuthentication;
use crate::command::{Answer, fabrics as kind};
use crate::connection::Connection;
use crate::controller::{Controller, ENTRIES, Host, IO_QUEUES, Queue, VERSION};
use crate::flow::Job;
use crate::namespace::DISCOVERY;
use crate::pdu::{u16_at, u32_at};
use crate::{channel, status};

/// Bytes of the data of Connect.
pub(crate) const CONNECT_DATA: usize = 1024;
/// The number of a controller that a host asks for, if it takes any.
const ANY_CONTROLLER: u16 = 0xffff;
/// Bytes of an NQN, at most (Base 4.5).
const MAX_NQN: usize = 223;
/// Entries of an admin queue, at least (Base 6.3).
const LEAST_ADMIN_ENTRIES: u16 = 32;

/// CAP (Base 3.1.3.1): queues of [`ENTRIES`] entries, contiguous; ready after at most 7.5 s; the NVM command set; pages of 4 KiB;
/// namespaces are ready with the controller.
const CAPABILITIES: u64 = (ENTRIES as u64 - 1) | 1 << 16 | 15 << 24 | 1 << 37 | 1 << 59;
/// CRTO (Base 3.1.3.26): the time of CAP.
const READY_TIMEOUTS: u64 = 15;

/// The answer to Connect: the host has to authenticate itself (AUTHREQ, ATR).
const AUTHENTICATE: u64 = 1 << 17;

/// Byte offsets of properties.
mod property {
    pub(super) const CAP: u32 = 0x00;
    pub(super) const VS: u32 = 0x08;
    pub(super) const CC: u32 = 0x14;
    pub(super) const CSTS: u32 = 0x1c;
    pub(super) const NSSR: u32 = 0x20;
    pub(super) const CRTO: u32 = 0x68;
}

/// A parameter of Connect that is wrong: where it is, in the data or in the command.
fn wrong(at: u16, in_data: bool) -> Answer {
    let result = u64::from(at) | u64::from(in_data) << 16;
    Answer { status: status::CONNECT_PARAMETER | status::DNR, result, data: Vec::new() }
}

/// A name in a field of 256 bytes that ends with a zero.
fn name(bytes: &[u8]) -> Option<String> {
    let len = bytes.iter().position(|b| *b == 0)?;
    let text = std::str::from_utf8(&bytes[..len]).ok()?;
    (1..=MAX_NQN).contains(&len).then(|| text.to_owned())
}

/// The first command of a connection, which has to be Connect (Base 6.3).
pub(crate) fn connect(connection: &Connection, job: &Job) -> Answer {
    let command = &job.command;
    if command.opcode() != crate::command::admin::FABRICS || command.fabrics_type() != kind::CONNECT {
        return Answer::failed(status::COMMAND_SEQUENCE);
    }
    if job.data.len() != CONNECT_DATA {
        return Answer::failed(status::SGL_LENGTH);
    }
    let (format, id) = (u16_at(&command.0, 40), u16_at(&command.0, 42));
    let (entries, attributes) = (u16_at(&command.0, 44).saturating_add(1), command.0[46]);
    if format != 0 {
        return Answer::failed(status::CONNECT_FORMAT);
    }
    let least = if id == 0 { LEAST_ADMIN_ENTRIES } else { 2 };
    if entries < least || entries > ENTRIES {
        return wrong(44, false);
    }
    let (Some(subsystem), Some(nqn)) = (name(&job.data[256..512]), name(&job.data[512..768])) else {
        return wrong(if name(&job.data[256..512]).is_none() { 256 } else { 512 }, true);
    };
    let mut host = Host { id: [0; 16], nqn };
    host.id.copy_from_slice(&job.data[..16]);
    let asked = u16_at(&job.data, 16);
    let kato = Duration::from_millis(u64::from(u32_at(&command.0, 48)));
    let authentication = match admit(connection, &host.nqn, &subsystem, (id == 0).then_some(kato)) {
        Ok(authentication) => authentication,
        Err(answer) => return answer,
    };
    let made = if id == 0 {
        // The time of a host that has to authenticate itself begins afterwards.
        let kato = if authentication.is_some() { Duration::ZERO } else { kato };
        make_controller(connection, host, &subsystem, asked, kato)
    } else {
        join(connection, &host, &subsystem, asked, id)
    };
    match made {
        Err(answer) => answer,
        Ok(controller) => {
            let number = controller.id;
            let demand = if authentication.is_some() { AUTHENTICATE } else { 0 };
            let queue = Queue { id, controller, flow_control: attributes & 4 == 0, authentication };
            connection.become_queue(queue, entries);
            Answer::with(u64::from(number) | demand)
        }
    }
}

/// What a host has to pass before its queue executes anything; none: nothing. `keep_alive`: that of a new controller.
fn admit(
    connection: &Connection,
    host: &str,
    subsystem: &str,
    keep_alive: Option<Duration>,
) -> Result<Option<QueueAuthentication>, Answer> {
    let core = &connection.core;
    let refuse = |why: &str| {
        core.counters.unauthenticated.fetch_add(1, Ordering::Relaxed);
        let from = &connection.from;
        tracing::warn!(from, host, subsystem, why, "an NVMe host was refused");
        Err(Answer::failed(status::CONNECT_HOST))
    };
    if connection.peer.as_ref().is_some_and(|p| p.host != host || p.subsystem != subsystem) {
        return refuse("its key of TLS is that of another host or subsystem");
    }
    if subsystem == DISCOVERY {
        return Ok(None);
    }
    match core.subsystems.admission(host) {
        Admission::Open => Ok(None),
        Admission::Authenticated(keys) => {
            if let Some(why) = channel::objection(&keys, core.subsystems.tls(), connection.peer.is_some()) {
                return refuse(why);
            }
            let new = || QueueAuthentication::new(host, subsystem, core.authentication, keep_alive);
            Ok(keys.secret.is_some().then(new))
        }
        Admission::Refused => refuse("it is not one of those that may connect"),
    }
}

fn make_controller(
    connection: &Connection,
    host: Host,
    nqn: &str,
    asked: u16,
    kato: Duration,
) -> Result<std::sync::Arc<Controller>, Answer> {
    if asked != ANY_CONTROLLER {
        return Err(wrong(16, true));
    }
    let subsystem = if nqn == DISCOVERY {
        None
    } else {
        // It may come into service: the host may ask again.
        let unknown = Answer { status: status::CONNECT_PARAMETER, ..wrong(256, true) };
        Some(connection.core.subsystems.open_for(nqn, &host.nqn).filter(|s| s.in_service()).ok_or(unknown)?)
    };
    if !connection.core.wait_for_earlier(&host) {
        return Err(Answer::failed(status::CONNECT_BUSY));
    }
    let (from, host_nqn) = (&connection.from, host.nqn.clone());
    let made = connection.core.create(host, subsystem, kato, connection.wire.socket.clone());
    let controller = made.ok_or_else(|| Answer::failed(status::CONNECT_BUSY))?;
    tracing::info!(
        from,
        host = host_nqn,
        subsystem = nqn,
        controller = controller.id,
        "an NVMe host is connected"
    );
    Ok(controller)
}

fn join(
    connection: &Connection,
    host: &Host,
    nqn: &str,
    asked: u16,
    id: u16,
) -> Result<std::sync::Arc<Controller>, Answer> {
    let controller = connection.core.controller(asked).ok_or_else(|| wrong(16, true))?;
    if controller.subsystem.as_ref().is_none_or(|s| s.nqn() != nqn) {
        return Err(wrong(256, true));
    }
    if controller.host.id != host.id {
        return Err(wrong(0, true));
    }
    if controller.host.nqn != host.nqn {
        return Err(wrong(512, true));
    }
    if id > IO_QUEUES {
        return Err(wrong(42, false));
    }
    if !controller.ready() {
        return Err(Answer::failed(status::COMMAND_SEQUENCE));
    }
    if !controller.join(id, connection.wire.socket.clone()) {
        return Err(wrong(42, false));
    }
    Ok(controller)
}

/// A fabrics command after Connect.
pub(crate) fn perform(queue: &Queue, job: &Job) -> Answer {
    let command = &job.command;
    let (wide, offset) = (command.0[40] & 7, u32_at(&command.0, 44));
    let controller = &queue.controller;
    match (command.fabrics_type(), queue.id) {
        (kind::CONNECT, _) => Answer::failed(status::COMMAND_SEQUENCE),
        (kind::PROPERTY_GET, 0) => match (offset, wide) {
            (property::CAP, 1) => Answer::with(CAPABILITIES),
            (property::VS, 0) => Answer::with(u64::from(VERSION)),
            (property::CC, 0) => Answer::with(u64::from(controller.configuration())),
            (property::CSTS, 0) => Answer::with(u64::from(controller.status())),
            (property::NSSR, 0) => Answer::with(0),
            (property::CRTO, 0) => Answer::with(READY_TIMEOUTS),
            _ => Answer::failed(status::INVALID_FIELD),
        },
        (kind::PROPERTY_SET, 0) => match (offset, wide) {
            (property::CC, 0) => {
                controller.configure(u32_at(&command.0, 48));
                Answer::default()
            }
            _ => Answer::failed(status::INVALID_FIELD),
        },
        _ => Answer::failed(status::INVALID_OPCODE),
    }
}
