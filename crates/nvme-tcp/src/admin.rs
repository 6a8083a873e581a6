//! Commands of the admin queue: Base 5.
//!
//! Must not depend on: sockets.

use std::time::Duration;

use crate::command::{Answer, Command, admin};
use crate::connection::Connection;
use crate::controller::{Controller, IO_QUEUES, NAMESPACE_EVENTS, Queue};
use crate::flow::Job;
use crate::identify::identify;
use crate::reservation::feature as reservation;
use crate::{ana, log, status};

/// Identifiers of features (Base 5.27.1).
mod feature {
    pub(super) const VOLATILE_WRITE_CACHE: u8 = 0x06;
    pub(super) const NUMBER_OF_QUEUES: u8 = 0x07;
    pub(super) const ASYNC_EVENTS: u8 = 0x0b;
    pub(super) const KEEP_ALIVE: u8 = 0x0f;
    pub(super) const HOST_IDENTIFIER: u8 = 0x81;
    pub(super) const RESERVATION_MASK: u8 = 0x82;
    pub(super) const RESERVATION_PERSISTENCE: u8 = 0x83;
}

/// Executes an admin command. None: it waits for an event.
pub(crate) fn perform(connection: &Connection, queue: &Queue, job: &Job) -> Option<Answer> {
    let (controller, command) = (&*queue.controller, &job.command);
    if !controller.ready() {
        return Some(Answer::failed(status::COMMAND_SEQUENCE));
    }
    let discovery = controller.subsystem.is_none();
    let data = |made: Result<Vec<u8>, u16>| made.map_or_else(Answer::failed, Answer::data);
    Some(match command.opcode() {
        admin::IDENTIFY => data(identify(controller, command)),
        admin::GET_LOG_PAGE => {
            data(log::get(&connection.core, controller, connection.wire.socket.local(), command))
        }
        admin::KEEP_ALIVE => Answer::default(),
        admin::ASYNC_EVENT if controller.wait_for_event(command.id()) => return None,
        admin::ASYNC_EVENT => Answer::failed(status::ASYNC_LIMIT),
        admin::SET_FEATURES => set_feature(controller, command),
        admin::GET_FEATURES => get_feature(controller, command),
        // It is never too late for the command to be answered as if nobody had asked: bit 0, not aborted.
        admin::ABORT if !discovery => Answer::with(1),
        _ => Answer::failed(status::INVALID_OPCODE),
    })
}

fn answer(result: Result<u32, u16>) -> Answer {
    result.map_or_else(Answer::failed, |value| Answer::with(value.into()))
}

fn set_feature(controller: &Controller, command: &Command) -> Answer {
    let (wanted, value) = (command.dword(10), command.dword(11));
    if wanted >> 31 != 0 {
        return Answer::failed(status::FEATURE_NOT_SAVEABLE);
    }
    let io = controller.subsystem.is_some();
    match wanted as u8 {
        feature::NUMBER_OF_QUEUES if io => {
            if value as u16 == 0xffff || value >> 16 == 0xffff {
                return Answer::failed(status::INVALID_FIELD);
            }
            queues()
        }
        feature::ASYNC_EVENTS => {
            let known = if io { NAMESPACE_EVENTS | ana::EVENTS } else { 0 };
            controller.set_events(value & known);
            Answer::default()
        }
        feature::KEEP_ALIVE => {
            if value == 0 && io && controller.patience() > Duration::ZERO {
                // The timer of a fabrics controller that has one cannot be switched off (Base 3.9).
                return Answer::failed(status::KEEP_ALIVE_INVALID);
            }
            controller.set_patience(Duration::from_millis(u64::from(value)));
            Answer::default()
        }
        feature::VOLATILE_WRITE_CACHE if io && value & 1 == 1 => Answer::default(),
        feature::VOLATILE_WRITE_CACHE if io => Answer::failed(status::FEATURE_NOT_CHANGEABLE),
        // Over fabrics it is that of Connect (Base 5.27.1.28).
        feature::HOST_IDENTIFIER if io => Answer::failed(status::COMMAND_SEQUENCE),
        feature::RESERVATION_MASK if io => answer(reservation::set_mask(controller, command.nsid(), value)),
        feature::RESERVATION_PERSISTENCE if io => {
            answer(reservation::set_persistence(controller, command.nsid(), value))
        }
        _ => Answer::failed(status::INVALID_FIELD),
    }
}

fn get_feature(controller: &Controller, command: &Command) -> Answer {
    let wanted = command.dword(10);
    let io = controller.subsystem.is_some();
    // The current value, or the default one; none is saved.
    let default = match wanted >> 8 & 7 {
        0 => false,
        1 => true,
        _ => return Answer::failed(status::INVALID_FIELD),
    };
    match wanted as u8 {
        feature::NUMBER_OF_QUEUES if io => queues(),
        feature::ASYNC_EVENTS if default => Answer::with(0),
        feature::ASYNC_EVENTS => Answer::with(u64::from(controller.events())),
        feature::KEEP_ALIVE if default => Answer::with(0),
        feature::KEEP_ALIVE => Answer::with(controller.patience().as_millis() as u64),
        feature::VOLATILE_WRITE_CACHE if io => Answer::with(1),
        // Its 128 bits; the short form has 64.
        feature::HOST_IDENTIFIER if io && command.dword(11) & 1 == 0 => {
            Answer::failed(status::HOST_IDENTIFIER_FORMAT)
        }
        feature::HOST_IDENTIFIER if io => Answer { result: 1, ..Answer::data(controller.host.id.to_vec()) },
        feature::RESERVATION_MASK if io && default => Answer::with(0),
        feature::RESERVATION_MASK if io => answer(reservation::mask(controller, command.nsid())),
        feature::RESERVATION_PERSISTENCE if io => {
            answer(reservation::persistence(controller, command.nsid()))
        }
        _ => Answer::failed(status::INVALID_FIELD),
    }
}

/// Submission and completion queues that a host may have, from 0.
fn queues() -> Answer {
    let n = u64::from(IO_QUEUES) - 1;
    Answer::with(n | n << 16)
}
