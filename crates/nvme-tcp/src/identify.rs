//! Identify data structures: Base 5.17.2, NVM 4.1.5.
//!
//! Invariant: each has 4096 bytes.
//!
//! Must not depend on: connections.

use crate::command::Command;
use crate::controller::{ASYNC_EVENTS, Controller, ENTRIES, NAMESPACE_EVENTS, VERSION};
use crate::namespace::{DISCOVERY, Health, Namespace, Subsystem};
use crate::pdu::{IN_CAPSULE, MAX_DATA};
use crate::reservation::command::CAPABILITIES;
use crate::{ana, status};

/// Bytes of a structure.
pub(crate) const LEN: usize = 4096;
/// The number that means all namespaces.
pub(crate) const ALL: u32 = u32::MAX;
/// Namespaces of a subsystem, at most: MNAN, with which hosts size their ANA log page.
pub(crate) const MAX_NAMESPACES: u32 = 1024;

/// Controller or namespace structure, the CNS values.
mod cns {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const ACTIVE: u8 = 0x02;
    pub(super) const DESCRIPTORS: u8 = 0x03;
    pub(super) const NVM_CONTROLLER: u8 = 0x06;
    pub(super) const INDEPENDENT: u8 = 0x08;
}

/// What an Identify command asks for.
///
/// # Errors
/// A status.
pub(crate) fn identify(controller: &Controller, command: &Command) -> Result<Vec<u8>, u16> {
    let (cns, nsid) = (command.dword(10) as u8, command.nsid());
    let nvm_only = command.dword(11) >> 24 == 0;
    let Some(subsystem) = controller.subsystem.as_deref() else {
        return if cns == cns::CONTROLLER {
            Ok(of_controller(controller))
        } else {
            Err(status::INVALID_FIELD)
        };
    };
    match cns {
        cns::CONTROLLER => Ok(of_controller(controller)),
        cns::NAMESPACE => {
            valid(nsid)?;
            // A number that no namespace has is answered with zeros.
            Ok(subsystem.namespace(nsid).map_or_else(empty, |n| of_namespace(&*n, subsystem.ana_group(nsid))))
        }
        cns::ACTIVE => active(subsystem, nsid),
        cns::DESCRIPTORS => {
            valid(nsid)?;
            let namespace = subsystem.namespace(nsid).ok_or(status::INVALID_NAMESPACE)?;
            Ok(descriptors(&*namespace))
        }
        // No limits beside MDTS, and none for commands without data: zeros.
        cns::NVM_CONTROLLER if nvm_only => Ok(empty()),
        cns::INDEPENDENT => {
            valid(nsid)?;
            Ok(subsystem.namespace(nsid).map_or_else(empty, |n| independent(&*n, subsystem.ana_group(nsid))))
        }
        _ => Err(status::INVALID_FIELD),
    }
}

fn empty() -> Vec<u8> {
    vec![0; LEN]
}

fn valid(nsid: u32) -> Result<(), u16> {
    if nsid == 0 || nsid == ALL { Err(status::INVALID_NAMESPACE) } else { Ok(()) }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A text of ASCII characters, padded with spaces.
fn text(out: &mut [u8], at: usize, len: usize, value: &str) {
    let field = &mut out[at..at + len];
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(value.bytes().filter(|b| (0x20..0x7f).contains(b))) {
        *to = from;
    }
}

fn of_controller(controller: &Controller) -> Vec<u8> {
    let mut out = empty();
    let o = &mut out;
    let subsystem = controller.subsystem.as_deref();
    let (serial, model, nqn) = match subsystem {
        Some(s) => (s.serial(), s.model(), s.nqn()),
        None => ("1".into(), "Ashlar discovery".into(), DISCOVERY.into()),
    };
    text(o, 4, 20, &serial);
    text(o, 24, 40, &model);
    text(o, 64, 8, env!("CARGO_PKG_VERSION"));
    // MDTS, in units of 4 KiB.
    o[77] = (MAX_DATA / 4096).ilog2() as u8;
    put(o, 78, &controller.id.to_le_bytes());
    put(o, 80, &VERSION.to_le_bytes());
    // CTRATT: identifiers of hosts of 128 bits, traffic based keep alive.
    put(o, 96, &(1u32 | 1 << 6).to_le_bytes());
    // CNTRLTYPE.
    o[111] = if subsystem.is_some() { 1 } else { 2 };
    // ACL, AERL: from 0.
    o[258] = 3;
    o[259] = ASYNC_EVENTS as u8 - 1;
    // LPA: extended data.
    o[261] = 1 << 2;
    // KAS: in units of 100 ms.
    put(o, 320, &1u16.to_le_bytes());
    put(o, 514, &ENTRIES.to_le_bytes());
    // SGLS: supported, also for data in capsules.
    put(o, 536, &(1u32 | 1 << 20).to_le_bytes());
    put(o, 768, nqn.as_bytes());
    // IOCCSZ, IORCSZ: in units of 16 bytes.
    put(o, 1792, &((64 + IN_CAPSULE as u32) / 16).to_le_bytes());
    put(o, 1796, &1u32.to_le_bytes());
    // MSDBD: one descriptor per command.
    o[1803] = 1;
    if let Some(subsystem) = subsystem {
        of_io_controller(o, subsystem.ana_groups(), subsystem.health());
    }
    out
}

fn of_io_controller(o: &mut [u8], groups: u32, health: Option<Health>) {
    // CMIC: several ports, several controllers, ANA.
    o[76] = 1 | 1 << 1 | 1 << 3;
    put(o, 92, &(NAMESPACE_EVENTS | ana::EVENTS).to_le_bytes());
    if let Some(health) = health {
        // WCTEMP, CCTEMP.
        put(o, 266, &health.warning_kelvins.to_le_bytes());
        put(o, 268, &health.critical_kelvins.to_le_bytes());
    }
    // FRMW: one slot, which is not writable.
    o[260] = 1 | 1 << 1;
    // ANATT: seconds of a transition; ANACAP: all states, and groups of namespaces stay; ANAGRPMAX, NANAGRPID.
    (o[342], o[343]) = (10, 0x1f | 1 << 6);
    put(o, 344, &groups.to_le_bytes());
    put(o, 348, &groups.to_le_bytes());
    // SQES, CQES.
    (o[512], o[513]) = (0x66, 0x44);
    // NN: the largest number; MNAN: how many there are at most.
    put(o, 516, &(ALL - 1).to_le_bytes());
    put(o, 540, &MAX_NAMESPACES.to_le_bytes());
    // ONCS: Compare, Dataset Management, Write Zeroes, reservations.
    put(o, 520, &(1u16 | 1 << 2 | 1 << 3 | 1 << 5).to_le_bytes());
    // VWC: there is a volatile write cache; Flush takes the number of all namespaces.
    o[525] = 1 | 3 << 1;
}

fn of_namespace(namespace: &dyn Namespace, group: u32) -> Vec<u8> {
    let mut out = empty();
    let o = &mut out;
    let blocks = namespace.blocks().to_le_bytes();
    // NSZE, NCAP, NUSE.
    (0..3).for_each(|i| put(o, 8 * i, &blocks));
    if let Some(used) = namespace.used() {
        put(o, 16, &used.min(namespace.blocks()).to_le_bytes());
        // NSFEAT: thin provisioning; NCAP is its size all the same, as room is not set aside for it.
        o[24] = 1;
    }
    // NMIC: shared by controllers.
    o[30] = 1;
    o[31] = capabilities(namespace);
    // DLFEAT: deallocated blocks read as zeros; Write Zeroes may deallocate.
    o[33] = 1 | 1 << 3;
    put(o, 92, &group.to_le_bytes());
    o[99] = u8::from(namespace.read_only());
    put(o, 104, &namespace.id());
    put(o, 120, &namespace.eui64().unwrap_or_default());
    // The only format: no metadata, LBADS.
    o[130] = namespace.block().ilog2() as u8;
    out
}

/// RESCAP.
fn capabilities(namespace: &dyn Namespace) -> u8 {
    namespace.reservations().map_or(0, |_| CAPABILITIES)
}

fn independent(namespace: &dyn Namespace, group: u32) -> Vec<u8> {
    let mut out = empty();
    // NMIC, RESCAP, ANAGRPID, NSATTR, NSTAT: ready.
    (out[1], out[2]) = (1, capabilities(namespace));
    put(&mut out, 4, &group.to_le_bytes());
    out[8] = u8::from(namespace.read_only());
    out[14] = 1;
    out
}

fn active(subsystem: &dyn Subsystem, after: u32) -> Result<Vec<u8>, u16> {
    if after >= ALL - 1 {
        return Err(status::INVALID_NAMESPACE);
    }
    let mut out: Vec<u8> = subsystem
        .namespaces()
        .into_iter()
        .filter(|n| *n > after)
        .take(LEN / 4)
        .flat_map(u32::to_le_bytes)
        .collect();
    out.resize(LEN, 0);
    Ok(out)
}

/// EUI-64, NGUID, UUID and the command set.
fn descriptors(namespace: &dyn Namespace) -> Vec<u8> {
    let mut out = Vec::with_capacity(LEN);
    if let Some(eui) = namespace.eui64() {
        out.extend_from_slice(&[1, 8, 0, 0]);
        out.extend_from_slice(&eui);
    }
    for kind in [2, 3] {
        out.extend_from_slice(&[kind, 16, 0, 0]);
        out.extend_from_slice(&namespace.id());
    }
    out.extend_from_slice(&[4, 1, 0, 0, 0]);
    out.resize(LEN, 0);
    out
}
