//! When a command of a host ends: the drive, the port and the module that it passes, each with its rates.
//!
//! Each resource takes the command when it arrives, and the command ends when the last of them is done. Resources are not
//! passed one after the other: a command that waits at a slow drive would else hold up those of other drives at the port.
//! Every cap is kept exactly all the same, as what has ended was done by each resource.
//!
//! Pure: time is an argument.
//!
//! Must not depend on: files, sockets, hosts.

use std::time::Duration;

use crate::drive_model::{DriveModel, Operation};
use crate::limiter::{Limiter, each, transfer};
use crate::setup::{Caps, Setup};
use crate::thermal::Thermal;

/// A command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Index of the drive.
    pub(crate) drive: usize,
    /// Index of the port.
    pub(crate) port: usize,
    pub(crate) operation: Operation,
    /// First byte, of the drive.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// Commands and both directions of what they pass.
#[derive(Debug, Default)]
struct Link {
    commands: Limiter,
    sent: Limiter,
    received: Limiter,
}

impl Link {
    fn pass(&mut self, caps: &Caps, now: Duration, command: &Command) -> Duration {
        let mut end = self.commands.reserve(now, each(caps.iops));
        let direction = match command.operation {
            Operation::Read => &mut self.sent,
            Operation::Write => &mut self.received,
            Operation::Change | Operation::Flush => return end,
        };
        end = end.max(direction.reserve(now, transfer(command.len, caps.rate)));
        end
    }
}

/// The resources of an enclosure.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) drives: Vec<DriveModel>,
    ports: Vec<Link>,
    modules: Vec<Link>,
    per_module: usize,
    port: Caps,
    module: Caps,
}

impl Model {
    pub(crate) fn new(setup: &Setup) -> Model {
        let drive = || DriveModel::new(setup.media.clone(), Thermal::new(setup.heat));
        Model {
            drives: (0..setup.bays).map(|_| drive()).collect(),
            ports: (0..setup.ports.len()).map(|_| Link::default()).collect(),
            modules: (0..setup.modules).map(|_| Link::default()).collect(),
            per_module: setup.ports_per_module,
            port: setup.port,
            module: setup.module,
        }
    }

    /// Begins a command at `now`, the time since the start; returns when it ends.
    pub(crate) fn begin(&mut self, now: Duration, command: &Command) -> Duration {
        let by_drive = self.drives[command.drive].begin(now, command.operation, command.at, command.len);
        let by_port = self.ports[command.port].pass(&self.port, now, command);
        let by_module = self.modules[command.port / self.per_module].pass(&self.module, now, command);
        by_drive.max(by_port).max(by_module)
    }
}
