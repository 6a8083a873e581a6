//! Commands of the authentication of a queue: Authentication Send and Receive (Base 6.1, 6.2).
//!
//! Invariant: a queue whose host has to authenticate itself executes nothing else before.
//!
//! Must not depend on: sockets, what messages say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_environment::time::Instant;
use parking_lot::Mutex;

use crate::auth::Admission;
use crate::auth::exchange::Exchange;
use crate::auth::message::{MAX_MESSAGE, PROTOCOL, SPECIFIC, reason};
use crate::command::{Answer, Command, admin, fabrics as kind};
use crate::controller::{Core, Queue};
use crate::flow::Job;
use crate::status;

/// What the host of a queue has to pass.
pub(crate) struct QueueAuthentication {
    exchange: Mutex<Exchange>,
    passed: AtomicBool,
    /// The keep-alive time of the controller, which begins when its host is authenticated.
    keep_alive: Mutex<Option<Duration>>,
    /// Until when.
    pub(crate) until: Instant,
}

impl QueueAuthentication {
    /// That of a host and a subsystem, to be passed within a time. `keep_alive`: that of the controller, if the queue is its admin queue.
    pub(crate) fn new(
        host: &str,
        subsystem: &str,
        time: Duration,
        keep_alive: Option<Duration>,
    ) -> QueueAuthentication {
        QueueAuthentication {
            exchange: Mutex::new(Exchange::new(host, subsystem)),
            passed: AtomicBool::new(false),
            keep_alive: Mutex::new(keep_alive),
            until: Instant::now() + time,
        }
    }

    /// Whether the host is authenticated.
    pub(crate) fn is_passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }

    /// Why the connection has to end. None: it has not.
    pub(crate) fn failure(&self) -> Option<String> {
        let exchange = self.exchange.lock();
        exchange.is_over().then(|| reason::describe(exchange.failure().unwrap_or(reason::FAILED)))
    }
}

/// Whether a command is one of the authentication.
pub(crate) fn concerns(command: &Command) -> bool {
    let types = [kind::AUTHENTICATION_SEND, kind::AUTHENTICATION_RECEIVE];
    command.opcode() == admin::FABRICS && types.contains(&command.fabrics_type())
}

/// Executes a command of the authentication; another one is refused.
pub(crate) fn perform(core: &Core, queue: &Queue, job: &Job) -> Answer {
    let command = &job.command;
    let Some(authentication) = &queue.authentication else { return Answer::failed(status::INVALID_OPCODE) };
    if !concerns(command) {
        return Answer::failed(status::AUTHENTICATION_REQUIRED);
    }
    let sends = command.fabrics_type() == kind::AUTHENTICATION_SEND;
    let len = command.dword(11) as usize;
    let here = if sends { job.data.len() } else { job.room };
    if command.0[41..43] != SPECIFIC || command.0[43] != PROTOCOL || len == 0 || len != here {
        return Answer::failed(status::INVALID_FIELD);
    }
    let mut exchange = authentication.exchange.lock();
    let mut answer = Answer::default();
    if sends {
        if len > MAX_MESSAGE {
            return Answer::failed(status::INVALID_FIELD);
        }
        exchange.send(&job.data, || match core.subsystems.admission(&queue.controller.host.nqn) {
            Admission::Authenticated(keys) => Some(keys),
            Admission::Open | Admission::Refused => None,
        });
    } else {
        match exchange.receive() {
            None => return Answer::failed(status::COMMAND_SEQUENCE),
            Some(message) => answer.data = message,
        }
        // Whoever allocates more gets as much; a message that does not fit is refused, and lost.
        if answer.data.len() < len {
            answer.data.resize(len, 0);
        }
    }
    let passed = exchange.is_authenticated();
    authentication.passed.store(passed, Ordering::Release);
    if passed && let Some(time) = authentication.keep_alive.lock().take() {
        queue.controller.heard();
        queue.controller.set_patience(time);
        tracing::info!(host = queue.controller.host.nqn, "an NVMe host is authenticated");
    }
    answer
}
