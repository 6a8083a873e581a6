//! The file of a set-up: TOML, with sizes and rates as people write them.
//!
//! Invariants: a word that is not known is refused; bad input gives a message that names the field and changes nothing; what a
//! file makes in memory is bounded by the limits in `setup`.
//!
//! Must not depend on: files, time.

use std::net::SocketAddr;
use std::path::Path;

use ashlar_arguments::expand;
use serde::Deserialize;

use crate::ana;
use crate::api::{AnaSpec, FaultSpec};
use crate::design::{DESIGNS, Design, Drive as Kind};
use crate::error::Error;
use crate::faults;
use crate::quantity::{rate, size};
use crate::setup::{
    Caps, Curve, Disk, Flash, Heat, MOST_BAYS, MOST_NAMESPACES, MOST_PORTS, Media, Setup, Wear, WriteCache,
    Zone,
};

/// Bytes of a file, at most.
pub const MOST: usize = 1 << 20;
/// Zones, hosts of a zone and faults, at most.
const MANY: usize = 1024;
/// Namespaces of all zones, at most.
const SEEN: usize = 16_384;
/// Bytes of the cache of a drive, at most: they are in memory.
const CACHE: f64 = (64u64 << 20) as f64;
/// A namespace is a whole number of these bytes.
const STEP: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    model: String,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    seed: u64,
    data: Option<String>,
    #[serde(default = "block")]
    block: u32,
    #[serde(default = "yes")]
    sync: bool,
    #[serde(default = "connections")]
    connections: usize,
    bays: Option<usize>,
    ports: Vec<String>,
    #[serde(default)]
    drive: Drive,
    #[serde(default)]
    thermal: Thermal,
    #[serde(default)]
    port: Limits,
    #[serde(default)]
    module: Limits,
    zones: Option<Vec<ZoneTable>>,
    #[serde(default)]
    faults: Vec<FaultSpec>,
    #[serde(default)]
    ana: Vec<AnaSpec>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Drive {
    capacity: Option<String>,
    namespaces: Option<u32>,
    read: Option<String>,
    write: Option<String>,
    read_iops: Option<f64>,
    write_iops: Option<f64>,
    read_us: Option<Vec<(f64, f64)>>,
    write_us: Option<Vec<(f64, f64)>>,
    rpm: Option<f64>,
    seek_ms: Option<f64>,
    track_ms: Option<f64>,
    hours: Option<u64>,
    spare: Option<u8>,
    used: Option<u8>,
    writes_per_day: Option<f64>,
    cache: Option<String>,
    cache_lost: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Thermal {
    ambient: Option<f64>,
    idle: Option<f64>,
    rise: Option<f64>,
    seconds: Option<f64>,
    throttle: Option<f64>,
    critical: Option<f64>,
    factor: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    rate: Option<String>,
    iops: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneTable {
    name: String,
    hosts: Vec<String>,
    namespaces: Vec<String>,
    ports: Option<Vec<String>>,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn block() -> u32 {
    4096
}

fn connections() -> usize {
    512
}

/// Reads a set-up. `folder`: that of the file, from which the folder of the data is named.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid), with a message for people.
pub fn parse(text: &str, folder: &Path) -> Result<Setup, Error> {
    if text.len() > MOST {
        return Err(Error::invalid(format!("a set-up has at most {MOST} bytes")));
    }
    let document: Document = toml::from_str(text).map_err(|e| Error::invalid(e.to_string().trim_end()))?;
    let setup = build(document, folder).map_err(Error::invalid)?;
    for fault in &setup.faults {
        faults::check(&setup, fault)?;
    }
    for spec in &setup.ana {
        ana::choose(&setup, spec)?;
    }
    Ok(setup)
}

fn build(document: Document, folder: &Path) -> Result<Setup, String> {
    let design = DESIGNS.iter().find(|d| d.word == document.model).ok_or_else(|| {
        let words: Vec<&str> = DESIGNS.iter().map(|d| d.word).collect();
        format!("model = {:?}: there are {}", document.model, words.join(", "))
    })?;
    check_name(&document.name)?;
    let scale = within("scale", document.scale, 1.0, 1e6)?;
    if ![512, 4096].contains(&document.block) {
        return Err("block: 512 or 4096 bytes".into());
    }
    if !(1..=65_535).contains(&document.connections) {
        return Err("connections: 1 to 65535".into());
    }
    let bays = document.bays.unwrap_or(design.bays);
    if !(1..=MOST_BAYS).contains(&bays) {
        return Err(format!("bays: 1 to {MOST_BAYS}"));
    }
    let namespaces = document.drive.namespaces.unwrap_or(design.namespaces);
    if !(1..=MOST_NAMESPACES).contains(&namespaces) {
        return Err(format!("drive.namespaces: 1 to {MOST_NAMESPACES}"));
    }
    let capacity = optional("drive.capacity", &document.drive.capacity, size)?.unwrap_or(design.capacity);
    let size = (capacity / scale / f64::from(namespaces)) as u64 / STEP * STEP;
    if size == 0 || size > 1 << 56 {
        return Err("drive.capacity: at the scale, a namespace has 1 MiB to 64 PiB".into());
    }
    let ports = ports(&document.ports, design)?;
    let mut setup = Setup {
        media: media(&document.drive, design, scale, size * u64::from(namespaces))?,
        heat: heat(&document.thermal)?,
        wear: wear(&document.drive, design)?,
        cache: cache(&document.drive)?,
        port: caps("port", &document.port, design, 1, scale)?,
        module: caps("module", &document.module, design, design.ports_per_module, scale)?,
        data: folder.join(document.data.as_deref().unwrap_or(&document.name)),
        name: document.name,
        model: document.model,
        title: design.title.into(),
        scale,
        seed: document.seed,
        block: document.block,
        sync: document.sync,
        connections: document.connections,
        bays,
        namespaces,
        size,
        modules: design.modules,
        ports_per_module: design.ports_per_module,
        ports,
        zones: None,
        faults: document.faults,
        ana: document.ana,
    };
    if setup.faults.len() > MANY || setup.ana.len() > MANY {
        return Err(format!("faults and ana: at most {MANY} of each"));
    }
    setup.zones = document.zones.map(|zones| build_zones(zones, &setup)).transpose()?;
    Ok(setup)
}

fn check_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 32 || !name.chars().all(fine) {
        return Err("name: 1 to 32 letters, digits, - and _".into());
    }
    Ok(())
}

fn within(field: &str, value: f64, least: f64, most: f64) -> Result<f64, String> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(format!("{field}: {least} to {most}")) }
}

fn optional(
    field: &str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<f64, String>,
) -> Result<Option<f64>, String> {
    text.as_deref().map(|t| parse(t).map_err(|e| format!("{field}: {e}"))).transpose()
}

/// Addresses: each `HOST:PORT` of this machine's own network, no two the same.
fn ports(texts: &[String], design: &Design) -> Result<Vec<String>, String> {
    if texts.len() > MOST_PORTS {
        return Err(format!("ports: at most {MOST_PORTS}"));
    }
    let all = expand::expand(texts).map_err(|e| format!("ports: {e}"))?;
    let most = design.modules * design.ports_per_module;
    if all.is_empty() || all.len() > most {
        return Err(format!("ports: a {} has {most}; name the addresses of 1 to {most}", design.title));
    }
    for address in &all {
        // A numeric address is not looked up.
        if address.parse::<SocketAddr>().is_err() {
            return Err(format!("ports: {address:?} is not ADDRESS:PORT, for instance 127.0.0.1:4420"));
        }
    }
    Ok(all)
}

fn media(drive: &Drive, design: &Design, scale: f64, capacity: u64) -> Result<Media, String> {
    let read = optional("drive.read", &drive.read, rate)?;
    let write = optional("drive.write", &drive.write, rate)?;
    let iops = |field: &str, value: Option<f64>, default: f64| {
        within(field, value.unwrap_or(default), 1.0, 1e9).map(|v| v / scale)
    };
    match design.drive {
        Kind::Flash { read: r, write: w, read_iops, write_iops, read_us, write_us } => {
            if drive.rpm.or(drive.seek_ms).or(drive.track_ms).is_some() {
                return Err("drive: a flash drive has no rpm, seek_ms and track_ms".into());
            }
            let curve = |field: &str, points: &Option<Vec<(f64, f64)>>, default: f64| {
                let points = points.clone().unwrap_or_else(|| vec![(1.0, default)]);
                Curve::new(points).ok_or_else(|| {
                    format!("{field}: pairs of queue depth, from 1 on and ascending, and microseconds")
                })
            };
            Ok(Media::Flash(Flash {
                read: read.unwrap_or(r) / scale,
                write: write.unwrap_or(w) / scale,
                read_iops: iops("drive.read_iops", drive.read_iops, read_iops)?,
                write_iops: iops("drive.write_iops", drive.write_iops, write_iops)?,
                read_us: curve("drive.read_us", &drive.read_us, read_us)?,
                write_us: curve("drive.write_us", &drive.write_us, write_us)?,
            }))
        }
        Kind::Disk { rate, rpm, seek_ms, track_ms } => {
            let of_flash = drive.read_iops.or(drive.write_iops).is_some();
            if of_flash || drive.read_us.is_some() || drive.write_us.is_some() || write.is_some() {
                return Err("drive: a disk has one rate, `read`, and rpm, seek_ms and track_ms".into());
            }
            Ok(Media::Disk(Disk {
                capacity,
                rate: read.unwrap_or(rate) / scale,
                rpm: within("drive.rpm", drive.rpm.unwrap_or(rpm), 1.0, 1e6)?,
                seek_ms: within("drive.seek_ms", drive.seek_ms.unwrap_or(seek_ms), 0.0, 1e4)?,
                track_ms: within("drive.track_ms", drive.track_ms.unwrap_or(track_ms), 0.0, 1e4)?,
                scale,
            }))
        }
    }
}

/// Temperatures: assumed, as no enclosure has published them.
fn heat(thermal: &Thermal) -> Result<Heat, String> {
    let celsius = |field: &str, value: Option<f64>, default: f64| {
        within(&format!("thermal.{field}"), value.unwrap_or(default), -200.0, 1000.0)
    };
    Ok(Heat {
        ambient: celsius("ambient", thermal.ambient, 25.0)?,
        idle: celsius("idle", thermal.idle, 10.0)?,
        rise: celsius("rise", thermal.rise, 25.0)?,
        seconds: within("thermal.seconds", thermal.seconds.unwrap_or(120.0), 0.01, 1e6)?,
        throttle: celsius("throttle", thermal.throttle, 70.0)?,
        critical: celsius("critical", thermal.critical, 80.0)?,
        factor: within("thermal.factor", thermal.factor.unwrap_or(2.0), 1.0, 1e3)?,
    })
}

fn wear(drive: &Drive, design: &Design) -> Result<Wear, String> {
    // The drives of a Data24 are made for three drive writes per day; a disk does not wear with writes.
    let flash = matches!(design.drive, Kind::Flash { .. });
    let writes = drive.writes_per_day.unwrap_or(if flash { 3.0 } else { 0.0 });
    Ok(Wear {
        hours: drive.hours.unwrap_or(0),
        spare: within("drive.spare", f64::from(drive.spare.unwrap_or(100)), 0.0, 100.0)? as u8,
        spare_threshold: 10,
        used: drive.used.unwrap_or(0),
        writes_per_day: within("drive.writes_per_day", writes, 0.0, 1e3)?,
    })
}

/// Drives of both designs have caches that are protected, or turned off: a pull loses nothing unless the set-up says so.
fn cache(drive: &Drive) -> Result<WriteCache, String> {
    let bytes = optional("drive.cache", &drive.cache, size)?.unwrap_or(0.0);
    if drive.cache.is_none() && drive.cache_lost.is_some() {
        return Err("drive.cache_lost: name the size of the cache, too".into());
    }
    Ok(WriteCache {
        size: within("drive.cache", bytes, 0.0, CACHE)? as u64,
        lost: within("drive.cache_lost", drive.cache_lost.unwrap_or(1.0), 0.0, 1.0)?,
    })
}

fn caps(field: &str, limits: &Limits, design: &Design, ports: usize, scale: f64) -> Result<Caps, String> {
    let given = optional(&format!("{field}.rate"), &limits.rate, rate)?;
    let iops = limits.iops.unwrap_or(design.port_iops * ports as f64);
    Ok(Caps {
        rate: given.unwrap_or(design.port_rate * ports as f64) / scale,
        iops: within(&format!("{field}.iops"), iops, 1.0, 1e12)? / scale,
    })
}

fn build_zones(tables: Vec<ZoneTable>, setup: &Setup) -> Result<Vec<Zone>, String> {
    if tables.len() > MANY || tables.iter().any(|t| t.hosts.len() > MANY) {
        return Err(format!("zones: at most {MANY}, each with at most {MANY} hosts"));
    }
    let mut seen = 0;
    let one = |table: ZoneTable| {
        let wrong = |what: &dyn std::fmt::Display| format!("zone {:?}: {what}", table.name);
        let named = table.ports.as_ref().map(|ports| {
            let of = |name: &String| {
                setup.port_named(name).ok_or_else(|| wrong(&format!("there is no port {name:?}")))
            };
            ports.iter().map(of).collect::<Result<Vec<usize>, String>>()
        });
        let namespaces = namespaces(&table.namespaces, setup).map_err(|e| wrong(&e))?;
        seen += namespaces.len();
        if seen > SEEN {
            return Err(wrong(&format!("zones have at most {SEEN} namespaces, all together")));
        }
        Ok(Zone {
            namespaces,
            ports: named.transpose()?.unwrap_or_else(|| (0..setup.ports.len()).collect()),
            name: table.name,
            hosts: table.hosts,
        })
    };
    tables.into_iter().map(one).collect()
}

/// `BAY/NAMESPACE`, or `BAY` for all of a drive; ranges are as in drive arguments.
fn namespaces(texts: &[String], setup: &Setup) -> Result<Vec<(usize, u32)>, String> {
    let mut out = Vec::new();
    for text in expand::expand(texts)? {
        out.extend(setup.namespaces_named(&text)?);
    }
    Ok(out)
}

/// Whether all ports are addresses that only this machine reaches.
#[must_use]
pub fn is_local(setup: &Setup) -> bool {
    let local = |a: &String| a.parse().is_ok_and(|a: SocketAddr| a.ip().to_canonical().is_loopback());
    setup.ports.iter().all(local)
}
