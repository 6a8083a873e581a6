//! Log pages: Base 5.16.
//!
//! Invariant: a page is made as a whole, and the part that is asked for is cut from it: it is as large as what it tells.
//!
//! Must not depend on: connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use crate::ana::{DESCRIPTOR, GROUPS_ONLY, LOG_HEADER};
use crate::auth::Admission;
use crate::command::Command;
use crate::controller::{Controller, Core};
use crate::identify::{ALL, MAX_NAMESPACES};
use crate::namespace::{DISCOVERY, DiscoveryRecord, Health};
use crate::status;
use crate::tls::TlsMode;

/// Identifiers of log pages.
mod page {
    pub(super) const SUPPORTED: u8 = 0x00;
    pub(super) const ERRORS: u8 = 0x01;
    pub(super) const HEALTH: u8 = 0x02;
    pub(super) const FIRMWARE: u8 = 0x03;
    pub(super) const CHANGED: u8 = 0x04;
    pub(super) const EFFECTS: u8 = 0x05;
    pub(super) const ANA: u8 = 0x0c;
    pub(super) const DISCOVERY: u8 = 0x70;
    pub(super) const RESERVATIONS: u8 = 0x80;
}

const OF_IO: [u8; 8] = [
    page::SUPPORTED,
    page::ERRORS,
    page::HEALTH,
    page::FIRMWARE,
    page::CHANGED,
    page::EFFECTS,
    page::ANA,
    page::RESERVATIONS,
];
const OF_DISCOVERY: [u8; 2] = [page::SUPPORTED, page::DISCOVERY];

/// Kinds of entries of the discovery log page (SUBTYPE).
const SUBSYSTEM: u8 = 2;
const ITSELF: u8 = 3;

/// What a Get Log Page command asks for. `local`: the address that the host has connected to.
///
/// # Errors
/// A status.
pub(crate) fn get(
    core: &Core,
    controller: &Controller,
    local: Option<SocketAddr>,
    command: &Command,
) -> Result<Vec<u8>, u16> {
    let (low, high) = (command.dword(10), command.dword(11));
    let dwords = u64::from(low >> 16) | u64::from(high & 0xffff) << 16;
    let (page, specific, keep) = (low as u8, low >> 8 & 0x7f, low >> 15 & 1 != 0);
    let (offset, len) = (command.quadword(12), (dwords + 1) * 4);
    if command.dword(14) >> 23 & 1 != 0 || !offset.is_multiple_of(4) {
        // An offset by index, or within a dword.
        return Err(status::INVALID_FIELD);
    }
    let whole = match (page, controller.subsystem.is_some()) {
        (page::SUPPORTED, io) => supported(if io { &OF_IO } else { &OF_DISCOVERY }),
        // No error is kept: each is told in its completion.
        (page::ERRORS, true) => vec![0; 64],
        (page::HEALTH, true) => health(controller, command.nsid())?,
        (page::FIRMWARE, true) => firmware(),
        (page::CHANGED, true) => changed(controller, keep),
        (page::EFFECTS, true) => effects(),
        (page::ANA, true) => ana(controller, specific & GROUPS_ONLY != 0, keep),
        (page::RESERVATIONS, true) => controller.reservation_notice(keep).to_vec(),
        (page::DISCOVERY, false) => discovery(core, &controller.host.nqn, local),
        _ => return Err(status::INVALID_LOG_PAGE),
    };
    if offset > whole.len() as u64 || len > crate::pdu::MAX_DATA as u64 {
        return Err(status::INVALID_FIELD);
    }
    let (offset, len) = (offset as usize, len as usize);
    let mut out = whole[offset..whole.len().min(offset + len)].to_vec();
    // Hosts ask for more than there is.
    out.resize(len, 0);
    Ok(out)
}

fn supported(pages: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 1024];
    pages.iter().for_each(|p| out[4 * usize::from(*p)] = 1);
    out
}

fn health(controller: &Controller, nsid: u32) -> Result<Vec<u8>, u16> {
    if nsid != 0 && nsid != ALL {
        // One page for the controller; LPA says so.
        return Err(status::INVALID_FIELD);
    }
    let own = controller.subsystem.as_ref().and_then(|s| s.health());
    let health = own.unwrap_or_else(|| counted(controller));
    let mut out = vec![0; 512];
    out[0] = health.critical_warning;
    out[1..3].copy_from_slice(&health.kelvins.to_le_bytes());
    (out[3], out[4], out[5]) = (health.spare, health.spare_threshold, health.used);
    // Data units are 1000 times 512 bytes, rounded up.
    let units = |bytes: u64| bytes.div_ceil(512_000);
    for (at, value) in [
        (32, units(health.bytes_read)),
        (48, units(health.bytes_written)),
        (64, health.reads),
        (80, health.writes),
        (96, health.busy_minutes),
        (112, health.power_cycles),
        (128, health.hours),
        (144, health.unsafe_shutdowns),
        (160, health.media_errors),
    ] {
        out[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    out[192..196].copy_from_slice(&health.warning_minutes.to_le_bytes());
    Ok(out)
}

/// What the controller has counted. Nobody has measured a temperature; available spare is 100 %, its threshold 0.
fn counted(controller: &Controller) -> Health {
    let c = &controller.use_counters;
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    Health {
        spare: 100,
        bytes_read: of(&c.bytes_read),
        bytes_written: of(&c.bytes_written),
        reads: of(&c.reads),
        writes: of(&c.writes),
        media_errors: of(&c.media_errors),
        ..Health::default()
    }
}

fn firmware() -> Vec<u8> {
    let mut out = vec![0; 512];
    out[0] = 1;
    let revision = env!("CARGO_PKG_VERSION").bytes().chain(std::iter::repeat(b' '));
    out[8..16].iter_mut().zip(revision).for_each(|(to, from)| *to = from);
    out
}

fn changed(controller: &Controller, keep: bool) -> Vec<u8> {
    let mut out: Vec<u8> = controller.changed(keep).into_iter().flat_map(u32::to_le_bytes).collect();
    out.resize(4096, 0);
    out
}

/// Commands that are supported, and their effects: admin commands, then I/O commands.
fn effects() -> Vec<u8> {
    use crate::command::{admin, io};
    let mut out = vec![0; 4096];
    let (supported, changes) = (1u32, 3u32);
    for (queue, opcode, effect) in [
        (0, admin::GET_LOG_PAGE, supported),
        (0, admin::IDENTIFY, supported),
        (0, admin::ABORT, supported),
        (0, admin::SET_FEATURES, supported),
        (0, admin::GET_FEATURES, supported),
        (0, admin::ASYNC_EVENT, supported),
        (0, admin::KEEP_ALIVE, supported),
        (1, io::FLUSH, supported),
        (1, io::WRITE, changes),
        (1, io::READ, supported),
        (1, io::COMPARE, supported),
        (1, io::WRITE_ZEROES, changes),
        (1, io::DATASET_MANAGEMENT, changes),
        (1, io::RESERVATION_REGISTER, supported),
        (1, io::RESERVATION_REPORT, supported),
        (1, io::RESERVATION_ACQUIRE, supported),
        (1, io::RESERVATION_RELEASE, supported),
    ] {
        let at = 1024 * queue + 4 * usize::from(opcode);
        out[at..at + 4].copy_from_slice(&effect.to_le_bytes());
    }
    out
}

/// Every group, with its state at the port of the controller, and its namespaces.
fn ana(controller: &Controller, groups_only: bool, keep: bool) -> Vec<u8> {
    let Some(subsystem) = &controller.subsystem else { return Vec::new() };
    let all = if groups_only { Vec::new() } else { subsystem.namespaces() };
    let (changes, groups) = controller.ana(keep);
    let mut out = vec![0; LOG_HEADER];
    out[..8].copy_from_slice(&changes.to_le_bytes());
    out[8..10].copy_from_slice(&(groups.len() as u16).to_le_bytes());
    for (group, (state, changes)) in (1u32..).zip(groups) {
        let named: Vec<u32> = all.iter().copied().filter(|n| subsystem.ana_group(*n) == group).collect();
        let at = out.len();
        out.resize(at + DESCRIPTOR, 0);
        out[at..at + 4].copy_from_slice(&group.to_le_bytes());
        out[at + 4..at + 8].copy_from_slice(&(named.len() as u32).to_le_bytes());
        out[at + 8..at + 16].copy_from_slice(&changes.to_le_bytes());
        out[at + 16] = state.code();
        out.extend(named.iter().flat_map(|n| n.to_le_bytes()));
    }
    // Hosts read it in pieces, up to the length that a full subsystem would have.
    let full = LOG_HEADER + DESCRIPTOR * subsystem.ana_groups() as usize + 4 * MAX_NAMESPACES as usize;
    out.resize(out.len().max(full), 0);
    out
}

/// An entry for each subsystem that the host may see at each port, and for the discovery subsystem itself.
fn discovery(core: &Core, host: &str, local: Option<SocketAddr>) -> Vec<u8> {
    let own: Vec<(u16, SocketAddr)> = (1..).zip(core.addresses.read().clone()).collect();
    let everywhere = || {
        let names: Vec<String> = core.subsystems.list().iter().map(|s| s.nqn()).collect();
        let at = |(port, address): &(u16, SocketAddr)| {
            let record = |nqn: &String| DiscoveryRecord { nqn: nqn.clone(), port: *port, address: *address };
            names.iter().map(record).collect::<Vec<_>>()
        };
        own.iter().flat_map(at).collect()
    };
    let known: Vec<DiscoveryRecord> = core.subsystems.discovery_records(host).unwrap_or_else(everywhere);
    // A host that has a key needs TLS, and so do all if it is required.
    let mode = core.subsystems.tls();
    let has_key =
        matches!(core.subsystems.admission(host), Admission::Authenticated(keys) if keys.tls.is_some());
    let secure = |kind| mode == TlsMode::Required || kind == SUBSYSTEM && mode == TlsMode::Allowed && has_key;
    // A host that has reached an address that stands for all of the machine knows one that works.
    let ip = |address: SocketAddr| match local {
        Some(local) if address.ip().is_unspecified() => local.ip(),
        _ => address.ip(),
    };
    // This subsystem itself, as the Base Specification 2.0 wants it.
    let itself = own.into_iter().map(|(port, address)| {
        let port = known.iter().find(|t| t.address == address).map_or(port, |t| t.port);
        (port, ITSELF, DISCOVERY, address)
    });
    let others = known.iter().map(|t| (t.port, SUBSYSTEM, t.nqn.as_str(), t.address));
    let mut entries: Vec<(u16, u8, &str, SocketAddr)> = others.chain(itself).collect();
    entries.sort_by_key(|e| e.0);
    let mut records = Vec::new();
    for (port, kind, nqn, address) in entries {
        records.extend_from_slice(&record(nqn, kind, port, ip(address), address.port(), secure(kind)));
    }
    let mut out = vec![0; 1024];
    // A number that changes with the content.
    let generation = u64::from(u32::from_le_bytes(crate::pdu::digest(&[&records])));
    out[..8].copy_from_slice(&generation.to_le_bytes());
    out[8..16].copy_from_slice(&(records.len() as u64 / 1024).to_le_bytes());
    out.extend(records);
    out
}

fn record(nqn: &str, kind: u8, port: u16, ip: IpAddr, service: u16, secure: bool) -> [u8; 1024] {
    let mut out = [0; 1024];
    // TRTYPE TCP, ADRFAM, SUBTYPE, TREQ: a secure channel is required, or not.
    out[..4].copy_from_slice(&[3, if ip.is_ipv4() { 1 } else { 2 }, kind, if secure { 1 } else { 2 }]);
    out[4..6].copy_from_slice(&port.to_le_bytes());
    out[6..8].copy_from_slice(&0xffffu16.to_le_bytes());
    out[8..10].copy_from_slice(&crate::controller::ENTRIES.to_le_bytes());
    let mut text = |at: usize, len: usize, value: &str, padding: u8| {
        let field = &mut out[at..at + len];
        field.fill(padding);
        field.iter_mut().zip(value.bytes()).for_each(|(to, from)| *to = from);
    };
    text(32, 32, &service.to_string(), b' ');
    text(256, 256, nqn, 0);
    text(512, 256, &ip.to_string(), b' ');
    // TSAS: TLS 1.3, or none.
    out[768] = if secure { 2 } else { 0 };
    out
}
