//! The enclosure as hosts see it over NVMe: at each port, each drive is a subsystem.
//!
//! Invariant: a host sees the namespaces of its zones and no others, in discovery, in lists and by number; a drive of which it
//! sees none does not exist for it.
//!
//! Must not depend on: connections, the management interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_nvme_tcp::{
    Admission, AnaState, DiscoveryRecord, Fault, Health, Hosts, Namespace, Reservations, Subsystem,
    Subsystems, TlsMode,
};
use parking_lot::RwLock;

use crate::enclosure::{DrivePath, Enclosure, Refusal};
use crate::identity;
use crate::setup::Media;

/// Critical Warning: the spare is below its threshold; the temperature is too high.
const SPARE: u8 = 1;
const TEMPERATURE: u8 = 1 << 1;

/// What is served at one port.
pub(crate) struct Target {
    pub(crate) enclosure: Arc<Enclosure>,
    pub(crate) port: usize,
    /// Addresses of the ports that are up, with their numbers, from 1.
    pub(crate) addresses: Arc<RwLock<Vec<(u16, SocketAddr)>>>,
    /// The hosts that may connect. None: all may.
    pub(crate) hosts: Option<Arc<Hosts>>,
}

impl Subsystems for Target {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        Vec::new()
    }

    fn open(&self, _nqn: &str) -> Option<Arc<dyn Subsystem>> {
        None
    }

    fn open_for(&self, nqn: &str, host: &str) -> Option<Arc<dyn Subsystem>> {
        let setup = &self.enclosure.setup;
        let bay = (1..=setup.bays).find(|bay| identity::nqn(setup, *bay) == nqn)?;
        self.drive(bay, host).map(|d| Arc::new(d) as Arc<dyn Subsystem>)
    }

    fn admission(&self, host: &str) -> Admission {
        self.hosts.as_ref().map_or(Admission::Open, |hosts| hosts.admission(host))
    }

    /// Hosts that have a key need it.
    fn tls(&self) -> TlsMode {
        if self.hosts.is_some() { TlsMode::Allowed } else { TlsMode::Off }
    }

    fn discovery_records(&self, host: &str) -> Option<Vec<DiscoveryRecord>> {
        let setup = &self.enclosure.setup;
        let addresses = self.addresses.read().clone();
        let at = |(number, address): (u16, SocketAddr)| {
            let port = usize::from(number) - 1;
            let seen = (1..=setup.bays).filter(move |bay| {
                self.enclosure.drive(*bay).generation().is_some()
                    && !setup.visible(host, port, *bay).is_empty()
            });
            seen.map(move |bay| DiscoveryRecord { nqn: identity::nqn(setup, bay), port: number, address })
        };
        Some(addresses.into_iter().flat_map(at).collect())
    }
}

impl Target {
    fn drive(&self, bay: usize, host: &str) -> Option<Drive> {
        let seen = self.enclosure.setup.visible(host, self.port, bay);
        let path = self.enclosure.path(self.port, bay).filter(|_| !seen.is_empty())?;
        let of = |nsid: u32| -> (u32, Arc<dyn Namespace>) {
            (nsid, Arc::new(NamespacePath { enclosure: self.enclosure.clone(), path, nsid }))
        };
        let namespaces = seen.into_iter().map(of).collect();
        Some(Drive { enclosure: self.enclosure.clone(), path, namespaces })
    }
}

/// A drive, as one host sees it at one port.
struct Drive {
    enclosure: Arc<Enclosure>,
    path: DrivePath,
    namespaces: Vec<(u32, Arc<dyn Namespace>)>,
}

impl Subsystem for Drive {
    fn nqn(&self) -> String {
        identity::nqn(&self.enclosure.setup, self.path.bay)
    }

    fn serial(&self) -> String {
        identity::serial(&self.enclosure.setup, self.path.bay)
    }

    fn model(&self) -> String {
        identity::model(&self.enclosure.setup)
    }

    fn namespaces(&self) -> Vec<u32> {
        let numbers = self.namespaces.iter().map(|n| n.0);
        numbers.filter(|n| !self.enclosure.is_lost(self.path.bay, *n)).collect()
    }

    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        let found = self.namespaces.iter().find(|n| n.0 == nsid)?;
        (!self.enclosure.is_lost(self.path.bay, nsid)).then(|| found.1.clone())
    }

    fn health(&self) -> Option<Health> {
        Some(health(&self.enclosure, self.path.bay))
    }

    fn in_service(&self) -> bool {
        self.enclosure.open_still(&self.path)
    }

    fn ana_groups(&self) -> u32 {
        self.enclosure.setup.namespaces
    }

    /// Each namespace is a group of its own.
    fn ana_group(&self, nsid: u32) -> u32 {
        nsid.clamp(1, self.enclosure.setup.namespaces)
    }

    /// The server has the one address of the port.
    fn ana_state(&self, _address: SocketAddr, group: u32) -> AnaState {
        self.enclosure.ana.get(&self.enclosure.setup, self.path.port, self.path.bay, group)
    }
}

/// A namespace, as one host sees it at one port.
struct NamespacePath {
    enclosure: Arc<Enclosure>,
    path: DrivePath,
    nsid: u32,
}

fn fault(refusal: Refusal) -> Fault {
    match refusal {
        // The host may try again, or take another path.
        Refusal::Gone => Fault::Internal,
        Refusal::NoNamespace => Fault::Gone,
        Refusal::Store { full: true } => Fault::NoSpace,
        Refusal::Store { full: false } => Fault::Internal,
    }
}

impl Namespace for NamespacePath {
    fn block(&self) -> u32 {
        self.enclosure.setup.block
    }

    fn blocks(&self) -> u64 {
        self.enclosure.setup.blocks()
    }

    fn id(&self) -> [u8; 16] {
        identity::namespace(&self.enclosure.setup, self.path.bay, self.nsid)
    }

    fn eui64(&self) -> Option<[u8; 8]> {
        Some(identity::eui64(&self.enclosure.setup, self.path.bay, self.nsid))
    }

    fn reservations(&self) -> Option<&Reservations> {
        self.enclosure.reservations(self.path.bay, self.nsid)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.enclosure.read(&self.path, self.nsid, at, out).map_err(fault)
    }

    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.enclosure.write(&self.path, self.nsid, at, &data, durable).map_err(fault)
    }

    fn flush(&self) -> Result<(), Fault> {
        self.enclosure.flush(&self.path, self.nsid).map_err(fault)
    }

    fn zero(&self, at: u64, len: u64, _keep: bool, durable: bool) -> Result<(), Fault> {
        self.enclosure.zero(&self.path, self.nsid, (at, len), durable).map_err(fault)
    }

    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.enclosure.zero(&self.path, self.nsid, (at, len), false).map_err(fault)
    }
}

/// The SMART data of a drive. Counters begin at the start of the process.
pub(crate) fn health(enclosure: &Enclosure, bay: usize) -> Health {
    let setup = &enclosure.setup;
    let part = enclosure.drive(bay);
    let used = part.usage.describe();
    let (celsius, warned, busy) = {
        let now = enclosure.now();
        let mut model = enclosure.model.lock();
        let drive = &mut model.drives[bay - 1];
        let worked = drive.worked();
        drive.thermal.advance(now, worked);
        (drive.thermal.celsius(), drive.thermal.warned(), drive.thermal.busy())
    };
    let kelvins = |celsius: f64| (celsius + 273.15).round().clamp(0.0, 65_535.0) as u16;
    let wear = &setup.wear;
    let low = wear.spare < wear.spare_threshold;
    let hot = celsius >= setup.heat.throttle;
    let losses = part.losses.load(Ordering::Relaxed);
    Health {
        critical_warning: (u8::from(low) * SPARE) | (u8::from(hot) * TEMPERATURE),
        kelvins: kelvins(celsius),
        spare: wear.spare,
        spare_threshold: wear.spare_threshold,
        used: percentage_used(enclosure, used.bytes_written),
        bytes_read: used.bytes_read,
        bytes_written: used.bytes_written,
        reads: used.reads,
        writes: used.writes,
        busy_minutes: busy.as_secs() / 60,
        power_cycles: 1 + losses,
        hours: wear.hours + enclosure.now().as_secs() / 3600,
        unsafe_shutdowns: losses,
        media_errors: 0,
        warning_kelvins: kelvins(setup.heat.throttle),
        critical_kelvins: kelvins(setup.heat.critical),
        warning_minutes: (warned.as_secs() / 60) as u32,
    }
}

/// The share of the writes that a drive is made for, with what it had at the start.
fn percentage_used(enclosure: &Enclosure, written: u64) -> u8 {
    let setup = &enclosure.setup;
    let capacity = setup.size as f64 * f64::from(setup.namespaces);
    let endurance = capacity * setup.wear.writes_per_day * 5.0 * 365.0;
    let flash = matches!(setup.media, Media::Flash(_));
    let now = if flash && endurance > 0.0 { 100.0 * written as f64 / endurance } else { 0.0 };
    (f64::from(setup.wear.used) + now).min(255.0) as u8
}
