//! Commands of I/O queues: NVM 3.2, and Flush and the reservation commands, Base 7.
//!
//! Invariants: ranges that reach a namespace are inside of it; a command that the reservation of a namespace forbids does not reach it.
//!
//! Must not depend on: sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{Answer, Command, io};
use crate::controller::{Controller, Core, Queue};
use crate::flow::Job;
use crate::identify::ALL;
use crate::namespace::{Fault, Namespace, Subsystem};
use crate::pdu::{u32_at, u64_at};
use crate::reservation::command::{Request, concerns};
use crate::reservation::{Admitted, Class};
use crate::status;

/// Bytes of a range of Dataset Management.
const RANGE: usize = 16;

/// Bits of the flags of a command: it is one of a fused pair (Base 3.3.3.1).
const FUSED: u8 = 3;
/// Bits of dword 12.
const FUA: u32 = 1 << 30;
const DEALLOCATE: u32 = 1 << 25;
/// Protection information is checked or made: no format has any.
const PROTECTION: u32 = 0xf << 26;
/// Bit of dword 11 of Dataset Management: deallocate. The others are hints.
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// Executes an I/O command.
pub(crate) fn perform(core: &Core, queue: &Queue, job: Job) -> Answer {
    let controller = &queue.controller;
    let Some(subsystem) = controller.subsystem.as_ref() else {
        return Answer::failed(status::INVALID_OPCODE);
    };
    let Some(executing) = controller.execute() else {
        return Answer::failed(status::COMMAND_SEQUENCE);
    };
    let command = job.command;
    let known = [io::FLUSH, io::WRITE, io::READ, io::COMPARE, io::WRITE_ZEROES, io::DATASET_MANAGEMENT];
    if !known.contains(&command.opcode()) && !concerns(command.opcode()) {
        return Answer::failed(status::INVALID_OPCODE);
    }
    if command.0[1] & FUSED != 0 {
        // Executed one by one, the second would not depend on the first.
        return Answer::failed(status::INVALID_FIELD);
    }
    count(core, queue, &job);
    let done = if command.opcode() == io::FLUSH && command.nsid() == ALL {
        flush_all(controller, &**subsystem)
    } else {
        match (subsystem.namespace(command.nsid()), controller.refusal(command.nsid())) {
            (Some(_), Some(status)) => Err(status),
            (Some(namespace), None) if concerns(command.opcode()) => {
                let done = reserve(controller, &*namespace, &job);
                // It is done. A controller that ends does not wait for the commands of others.
                drop(executing);
                if let Some(reservations) = namespace.reservations() {
                    reservations.wait();
                }
                done
            }
            (Some(namespace), None) => {
                let admitted = admit(controller, &*namespace, command.opcode());
                admitted.and_then(|_admitted| execute(&namespace, job))
            }
            (None, _) => Err(status::INVALID_NAMESPACE),
        }
    };
    match done {
        Ok(data) => Answer::data(data),
        Err(status) => {
            if [status::WRITE_FAULT, status::UNRECOVERED_READ].contains(&status) {
                controller.use_counters.media_errors.fetch_add(1, Ordering::Relaxed);
            }
            Answer::failed(status)
        }
    }
}

/// Flushes all namespaces. One that cannot be flushed, or not by this host, keeps no other one from it.
fn flush_all(controller: &Controller, subsystem: &dyn Subsystem) -> Result<Vec<u8>, u16> {
    let mut done = Ok(Vec::new());
    for nsid in subsystem.namespaces() {
        let Some(namespace) = subsystem.namespace(nsid) else { continue };
        let flushed = match controller.refusal(nsid) {
            Some(status) => Err(status),
            None => admit(controller, &*namespace, io::FLUSH)
                .and_then(|_admitted| namespace.flush().map_err(|f| of_fault(f, false))),
        };
        if let (Ok(_), Err(status)) = (&done, flushed) {
            done = Err(status);
        }
    }
    done
}

/// Admits a command, until the result is dropped.
fn admit(controller: &Controller, namespace: &dyn Namespace, opcode: u8) -> Result<Option<Admitted>, u16> {
    let class = if [io::READ, io::COMPARE].contains(&opcode) { Class::Read } else { Class::Write };
    let admitted = namespace.reservations().map(|r| r.admit(&controller.host.id, class));
    admitted.transpose().map_err(|_| status::RESERVATION_CONFLICT)
}

/// Executes a reservation command, without waiting for the commands of before.
fn reserve(controller: &Controller, namespace: &dyn Namespace, job: &Job) -> Result<Vec<u8>, u16> {
    let reservations = namespace.reservations().ok_or(status::INVALID_OPCODE)?;
    let request = Request::decode(&job.command, &job.data, job.room)?;
    let host = &controller.host;
    let done = request.perform(reservations, &host.id, &host.nqn);
    let nsid = job.command.nsid();
    match (&done, request) {
        (Ok(_), Request::Preempt { .. } | Request::Clear { .. }) => {
            tracing::info!(host = host.nqn, nsid, ?request, "an NVMe reservation was taken away");
        }
        (_, Request::Report { .. }) => {}
        _ => tracing::debug!(host = host.nqn, nsid, ?request, refused = done.is_err(), "an NVMe reservation"),
    }
    done
}

fn execute(namespace: &Arc<dyn Namespace>, job: Job) -> Result<Vec<u8>, u16> {
    let Job { command, data, room, .. } = job;
    if command.opcode() == io::FLUSH {
        return namespace.flush().map(|()| Vec::new()).map_err(|f| of_fault(f, false));
    }
    let changes = [io::WRITE, io::WRITE_ZEROES, io::DATASET_MANAGEMENT].contains(&command.opcode());
    if changes && namespace.read_only() {
        return Err(status::NAMESPACE_WRITE_PROTECTED);
    }
    if command.opcode() == io::DATASET_MANAGEMENT {
        return dataset_management(&**namespace, &command, &data).map(|()| Vec::new());
    }
    let flags = command.dword(12);
    if flags & PROTECTION != 0 {
        return Err(status::INVALID_FIELD);
    }
    let (at, len) = place(&**namespace, command.quadword(10), u64::from(flags & 0xffff) + 1)?;
    let durable = flags & FUA != 0;
    let moves = if command.opcode() == io::READ { room } else { data.len() };
    if command.opcode() != io::WRITE_ZEROES && moves as u64 != len {
        return Err(status::SGL_LENGTH);
    }
    match command.opcode() {
        io::READ => read(&**namespace, at, len as usize, durable),
        io::COMPARE => match read(&**namespace, at, len as usize, durable)? == data {
            true => Ok(Vec::new()),
            false => Err(status::COMPARE_FAILURE),
        },
        io::WRITE => namespace.write(at, data, durable).map(|()| Vec::new()).map_err(|f| of_fault(f, true)),
        _ => {
            let keep = flags & DEALLOCATE == 0;
            namespace.zero(at, len, keep, durable).map(|()| Vec::new()).map_err(|f| of_fault(f, true))
        }
    }
}

/// With FUA, what is read is durable.
fn read(namespace: &dyn Namespace, at: u64, len: usize, durable: bool) -> Result<Vec<u8>, u16> {
    if durable {
        namespace.flush().map_err(|f| of_fault(f, false))?;
    }
    let mut out = vec![0; len];
    namespace.read(at, &mut out).map(|()| out).map_err(|f| of_fault(f, false))
}

/// First byte and bytes of blocks.
fn place(namespace: &dyn Namespace, first: u64, blocks: u64) -> Result<(u64, u64), u16> {
    let block = u64::from(namespace.block());
    match first.checked_add(blocks) {
        Some(end) if end <= namespace.blocks() => Ok((first * block, blocks * block)),
        _ => Err(status::LBA_RANGE),
    }
}

/// Dataset Management (NVM 3.2.3): all ranges are checked before one is deallocated.
fn dataset_management(namespace: &dyn Namespace, command: &Command, data: &[u8]) -> Result<(), u16> {
    let ranges = usize::from(command.dword(10) as u8) + 1;
    if data.len() < ranges * RANGE {
        return Err(status::SGL_LENGTH);
    }
    let mut places = Vec::with_capacity(ranges);
    for range in data.chunks_exact(RANGE).take(ranges) {
        let (blocks, first) = (u64::from(u32_at(range, 4)), u64_at(range, 8));
        places.push(place(namespace, first, blocks)?);
    }
    if command.dword(11) & ATTRIBUTE_DEALLOCATE == 0 {
        return Ok(());
    }
    for (at, len) in places.into_iter().filter(|(_, len)| *len > 0) {
        namespace.trim(at, len).map_err(|f| of_fault(f, true))?;
    }
    Ok(())
}

fn count(core: &Core, queue: &Queue, job: &Job) {
    let (c, own) = (&core.counters, &queue.controller.use_counters);
    let add = |counter: &AtomicU64, n: usize| {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    };
    match job.command.opcode() {
        io::READ => {
            [&c.reads, &own.reads].iter().for_each(|a| add(a, 1));
            [&c.bytes_read, &own.bytes_read].iter().for_each(|a| add(a, job.room));
        }
        io::WRITE => {
            [&c.writes, &own.writes].iter().for_each(|a| add(a, 1));
            [&c.bytes_written, &own.bytes_written].iter().for_each(|a| add(a, job.data.len()));
        }
        _ => add(&c.others, 1),
    }
}

/// The status of a fault of a namespace; `change`: of a command that changes it.
fn of_fault(fault: Fault, change: bool) -> u16 {
    match fault {
        Fault::Media if change => status::WRITE_FAULT,
        Fault::Media => status::UNRECOVERED_READ,
        Fault::Internal => status::INTERNAL,
        Fault::Gone => status::INVALID_NAMESPACE,
        Fault::NoSpace => status::CAPACITY,
        Fault::Range => status::LBA_RANGE,
    }
}
