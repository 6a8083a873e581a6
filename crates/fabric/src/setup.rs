//! A set-up: what an enclosure is, at its scale, with everything decided.
//!
//! Invariant: a set-up that exists is whole: every port, bay, namespace and module that something names is there, and every
//! rate is above zero.
//!
//! Must not depend on: the form of the file, which `document` knows.

use std::path::PathBuf;

use crate::api::{AnaSpec, FaultSpec};

/// Bays, namespaces of a drive and ports of an enclosure, at most.
pub(crate) const MOST_BAYS: usize = 256;
pub(crate) const MOST_NAMESPACES: u32 = 16;
pub(crate) const MOST_PORTS: usize = 64;

/// What an enclosure is.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name: identities of drives and namespaces come from it and from the seed.
    pub name: String,
    /// The word of its design.
    pub model: String,
    /// What it says that it is.
    pub title: String,
    /// N of the scale 1:N.
    pub scale: f64,
    /// Decides identities, and the blocks that faults concern.
    pub seed: u64,
    /// The folder of the backing files.
    pub data: PathBuf,
    /// Bytes of a block.
    pub block: u32,
    /// Whether flushes reach the disk of this machine.
    pub sync: bool,
    /// Connections of a port, at most.
    pub connections: usize,
    /// Drives.
    pub bays: usize,
    /// Namespaces of a drive.
    pub namespaces: u32,
    /// Bytes of a namespace.
    pub size: u64,
    /// Modules.
    pub modules: usize,
    /// Ports of a module.
    pub ports_per_module: usize,
    /// Addresses of ports, `HOST:PORT`: those of the first module first.
    pub ports: Vec<String>,
    /// What a drive is made of.
    pub(crate) media: Media,
    pub(crate) heat: Heat,
    pub(crate) wear: Wear,
    pub(crate) cache: WriteCache,
    pub(crate) port: Caps,
    pub(crate) module: Caps,
    /// Who sees what. None: every host sees everything at every port.
    pub zones: Option<Vec<Zone>>,
    /// Faults from the start on.
    pub faults: Vec<FaultSpec>,
    /// How namespaces are accessed through ports from the start on, one after the other. What none names is optimized.
    pub ana: Vec<AnaSpec>,
}

/// Who sees what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// NQNs of its hosts; `*`: every host.
    pub hosts: Vec<String>,
    /// Bay and number of its namespaces.
    pub namespaces: Vec<(usize, u32)>,
    /// Indexes of the ports at which they are seen.
    pub ports: Vec<usize>,
}

/// What a drive is made of.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Media {
    Flash(Flash),
    Disk(Disk),
}

/// A flash drive. Rates are those at the scale, times are not scaled.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Flash {
    /// Bytes per second.
    pub(crate) read: f64,
    pub(crate) write: f64,
    pub(crate) read_iops: f64,
    pub(crate) write_iops: f64,
    /// Microseconds against queue depth.
    pub(crate) read_us: Curve,
    pub(crate) write_us: Curve,
}

/// Service time against queue depth.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// Points of (queue depth, microseconds), the depth ascending. None: they are no curve.
    pub(crate) fn new(points: Vec<(f64, f64)>) -> Option<Curve> {
        let fine = |p: &(f64, f64)| p.0.is_finite() && p.0 >= 1.0 && (0.0..=1e9).contains(&p.1);
        let ascending = points.windows(2).all(|w| w[0].0 < w[1].0);
        (!points.is_empty() && ascending && points.iter().all(fine)).then_some(Curve(points))
    }

    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.0
    }
}

/// A hard disk: everything takes `scale` times as long as at 1:1.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Disk {
    /// Bytes, at the scale.
    pub(crate) capacity: u64,
    /// Bytes per second, at the scale.
    pub(crate) rate: f64,
    pub(crate) rpm: f64,
    /// The average seek (a third of the way), and that to the next track, in milliseconds at 1:1.
    pub(crate) seek_ms: f64,
    pub(crate) track_ms: f64,
    pub(crate) scale: f64,
}

/// Temperatures in degrees Celsius.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Heat {
    pub(crate) ambient: f64,
    /// How much warmer an idle drive is.
    pub(crate) idle: f64,
    /// How much warmer than idle one is that always works.
    pub(crate) rise: f64,
    /// The time constant.
    pub(crate) seconds: f64,
    /// From here on it is slower.
    pub(crate) throttle: f64,
    /// The limit that SMART tells.
    pub(crate) critical: f64,
    /// How many times longer a hot drive takes.
    pub(crate) factor: f64,
}

/// The life of a drive before the start, for SMART.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Wear {
    /// Hours under power.
    pub(crate) hours: u64,
    /// Spare in percent, and the threshold below which it warns.
    pub(crate) spare: u8,
    pub(crate) spare_threshold: u8,
    /// Percentage used.
    pub(crate) used: u8,
    /// Drive writes per day for five years, from which the percentage grows; 0: it does not.
    pub(crate) writes_per_day: f64,
}

/// The volatile write cache of a drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WriteCache {
    /// Bytes; 0: a pull loses nothing.
    pub(crate) size: u64,
    /// The share of the blocks in it that a pull loses.
    pub(crate) lost: f64,
}

/// Caps of a port or a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Caps {
    /// Bytes per second, in each direction.
    pub(crate) rate: f64,
    /// Commands per second.
    pub(crate) iops: f64,
}

impl Setup {
    /// The name of a port: the letter of its module, and its number in it from 1.
    #[must_use]
    pub fn port_name(&self, port: usize) -> String {
        let module = port / self.ports_per_module;
        format!("{}{}", module_name(module), port % self.ports_per_module + 1)
    }

    /// The port of a name.
    #[must_use]
    pub fn port_named(&self, name: &str) -> Option<usize> {
        (0..self.ports.len()).find(|p| self.port_name(*p).eq_ignore_ascii_case(name))
    }

    /// The module of a name.
    #[must_use]
    pub fn module_named(&self, name: &str) -> Option<usize> {
        (0..self.modules).find(|m| module_name(*m).eq_ignore_ascii_case(name))
    }

    /// Bay and number of the namespaces that `BAY/NAMESPACE` names, or `BAY`: all of a drive.
    ///
    /// # Errors
    /// The text names none, as a message.
    pub(crate) fn namespaces_named(&self, text: &str) -> Result<Vec<(usize, u32)>, String> {
        let (bay, number) = match text.split_once('/') {
            Some((bay, number)) => (bay.parse().ok(), number.parse().ok().map(|n: u32| n..=n)),
            None => (text.parse().ok(), Some(1..=self.namespaces)),
        };
        let bay = bay.filter(|b| (1..=self.bays).contains(b));
        let numbers = number.filter(|n| *n.start() >= 1 && *n.end() <= self.namespaces);
        match (bay, numbers) {
            (Some(bay), Some(numbers)) => Ok(numbers.map(|n| (bay, n)).collect()),
            _ => Err(format!("{text:?} is no BAY or BAY/NAMESPACE of this enclosure")),
        }
    }

    /// Blocks of a namespace.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size / u64::from(self.block)
    }

    /// Numbers of the namespaces of a bay that a host sees at a port.
    #[must_use]
    pub fn visible(&self, host: &str, port: usize, bay: usize) -> Vec<u32> {
        let Some(zones) = &self.zones else { return (1..=self.namespaces).collect() };
        let mut out: Vec<u32> = zones
            .iter()
            .filter(|z| z.ports.contains(&port) && z.hosts.iter().any(|h| h == "*" || h == host))
            .flat_map(|z| z.namespaces.iter().filter(|n| n.0 == bay).map(|n| n.1))
            .collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// The letter of a module.
pub(crate) fn module_name(module: usize) -> String {
    // There are at most 26.
    char::from(b'A' + module as u8 % 26).to_string()
}
