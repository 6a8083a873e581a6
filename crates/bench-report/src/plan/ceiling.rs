//! Ceilings from a profile: the highest rate of each resource, the limiting one, the efficiency of a run.
//!
//! Invariants: a ceiling is an upper bound of useful bytes; the binding one is the lowest; only what
//! the profile knows gives a ceiling.

use serde::{Deserialize, Serialize};

use super::{
    model::{self, Amplification},
    profile::Profile,
};

/// What one resource allows, in useful bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// `drives`, `enclosure ports`, `server network` ...
    pub resource: String,
    /// Useful bytes per second.
    pub bytes_per_s: f64,
    /// The formula's number, `M1` to `M12`.
    pub formula: String,
    /// How it was computed, with the numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
}

/// All ceilings of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// The resource with the lowest ceiling.
    pub binding: String,
    /// Lowest first.
    pub ceilings: Vec<Ceiling>,
    /// What was measured, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bytes_per_s: Option<f64>,
    /// Measured over the lowest ceiling, per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency_percent: Option<f64>,
}

/// What random 4 KiB can reach in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Random4k {
    /// `no parity`, `nominal` or `one down`.
    pub state: String,
    /// `read`, `mixed` or `write`.
    pub pattern: String,
    /// Operations per second.
    pub per_s: f64,
    /// `drives` or `enclosure ports`.
    pub binding: String,
}

/// The plan of a profile; what [`crate::result::Run::ceilings`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The profile's name.
    pub profile: String,
    /// GET, or sequential reading.
    pub get: Direction,
    /// PUT, or sequential writing.
    pub put: Direction,
    /// Random 4 KiB through the code, where the profile has the drives' times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub random_4k: Vec<Random4k>,
    /// What was assumed, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

impl Plan {
    /// Computes all ceilings.
    pub fn of(profile: &Profile) -> Plan {
        let mut plan = Plan {
            profile: profile.name.clone(),
            get: direction(ceilings(profile, true)),
            put: direction(ceilings(profile, false)),
            random_4k: random(profile),
            assumptions: profile.assumptions.iter().map(|(k, v)| format!("{k}: {v}")).collect(),
        };
        plan.measured(profile.published.get, profile.published.put);
        plan
    }

    /// Sets what was measured; `None` leaves what is there.
    pub fn measured(&mut self, get: Option<f64>, put: Option<f64>) {
        for (side, value) in [(&mut self.get, get), (&mut self.put, put)] {
            if let (Some(value), Some(lowest)) = (value, side.ceilings.first()) {
                side.measured_bytes_per_s = Some(value);
                side.efficiency_percent = Some(value / lowest.bytes_per_s * 100.0);
            }
        }
    }

    /// As JSON for [`crate::result::Run::ceilings`].
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn direction(mut ceilings: Vec<Ceiling>) -> Direction {
    ceilings.sort_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    Direction {
        binding: ceilings.first().map(|c| c.resource.clone()).unwrap_or_default(),
        ceilings,
        measured_bytes_per_s: None,
        efficiency_percent: None,
    }
}

/// One resource after the other; `get` or put.
fn ceilings(p: &Profile, get: bool) -> Vec<Ceiling> {
    let (k, m) = (f64::from(p.code.k), f64::from(p.code.m));
    let servers = f64::from(p.servers.count);
    let drives = f64::from(p.drives.count);
    // Bytes on drives per useful byte.
    let amplified = if get { 1.0 } else { (k + m) / k };
    let mut all = Vec::new();
    let mut add = |resource: &str, bytes_per_s: f64, formula: &str, how: String| {
        all.push(Ceiling { resource: resource.into(), bytes_per_s, formula: formula.into(), how });
    };
    let per_drive = if get { p.drives.read } else { p.drives.write };
    let raw = model::drives(1.0, drives, per_drive, 1.0);
    match p.code.write_efficiency.filter(|_| !get) {
        Some(eta) => add(
            "drives",
            model::sequential_write(raw, k, m, eta),
            "M4",
            format!("{drives} x {:.2} GB/s x {k}/{} x {eta}", per_drive / 1e9, k + m),
        ),
        None => add(
            "drives",
            raw / amplified,
            "M6",
            format!("{drives} x {:.3} GB/s / {amplified:.3}", per_drive / 1e9),
        ),
    }
    if let Some(ports) = &p.ports {
        let each = model::port_payload(ports.rate * 8.0, ports.payload, ports.header);
        let how = format!("{} x {:.2} GB/s / {amplified:.3}", ports.count, each / 1e9);
        add("enclosure ports", f64::from(ports.count) * each / amplified, "M1", how);
    }
    if let Some(hba) = &p.servers.hba {
        let each = model::sas(hba.lanes, hba.pcie, f64::INFINITY);
        let how = format!("{servers} x {:.2} GB/s / {amplified:.3}", each / 1e9);
        add("host bus adapters", servers * each / amplified, "M8", how);
    }
    if let Some(nic) = p.servers.nic {
        let local = p.local_share();
        let payload = match (p.servers.payload, p.servers.header) {
            (Some(payload), Some(header)) => model::port_payload(nic * 8.0, payload, header),
            _ => nic,
        };
        let traffic = if get { model::get_traffic(local) } else { model::put_traffic(k, m, local) };
        let between = if get { 1.0 - local } else { (k + m) / k * (1.0 - local) };
        let factor = if p.servers.separate_networks {
            model::separate_networks(between)
        } else {
            traffic.full_duplex()
        };
        let how = format!("{servers} x {:.3} GB/s / {factor:.3} (re-dispatch)", payload / 1e9);
        add("server network", servers * payload / factor, "M7", how);
    }
    if let Some(clients) = &p.clients {
        let how = format!("{} x {:.2} GB/s", clients.count, clients.nic / 1e9);
        add("client network", f64::from(clients.count) * clients.nic, "M1", how);
    }
    if let Some(memory) = p.servers.memory {
        let per_byte = model::dram_bytes_per_byte(k);
        let how = format!("{servers} x {:.1} GB/s / {per_byte:.2}", memory / 1e9);
        add("server memory", servers * memory / per_byte, "M10", how);
    }
    if let (Some(parity), true) = (p.servers.parity, m > 0.0) {
        add("parity", servers * parity, "M9", format!("{servers} x {:.1} GB/s", parity / 1e9));
    }
    if let (Some(a), false) = (&p.servers.accelerator, get) {
        let each = model::staging(a.pcie_down, a.pcie_up, a.memory, k, m);
        add("accelerator", servers * each, "M9", format!("{servers} x {:.1} GB/s", each / 1e9));
    }
    if p.code.pipeline_4k
        && get
        && let Some(iops) = read_4k(p)
    {
        add("4 KiB pipeline", model::pipeline_4k(iops), "M5", format!("{:.2} M/s x 4 KiB", iops / 1e6));
    }
    all
}

/// (operations per second, what binds) of 4 KiB with so much amplification and share of reads.
fn random_ceiling(p: &Profile, amp: Amplification, read: f64) -> Option<(f64, &'static str)> {
    let r = p.drives.random.as_ref()?;
    let (reads, writes) = amp.mix(read);
    let devices = f64::from(p.drives.count) * amp.devices;
    let drives = model::device_iops(devices, reads, writes, r.read_us / 1e6, r.write_us / 1e6);
    let cap = p.ports.as_ref().and_then(|ports| Some((ports, ports.iops?)));
    let ports = cap
        .map_or(f64::INFINITY, |(ports, cap)| model::port_iops(f64::from(ports.count), cap, reads + writes));
    Some(if ports < drives { (ports, "enclosure ports") } else { (drives, "drives") })
}

fn read_4k(p: &Profile) -> Option<f64> {
    random_ceiling(p, Amplification::nominal(f64::from(p.code.m)), 1.0).map(|(iops, _)| iops)
}

fn random(p: &Profile) -> Vec<Random4k> {
    let Some(r) = &p.drives.random else { return Vec::new() };
    let mut states = vec![("no parity", Amplification::NONE)];
    if p.code.m > 0 {
        states.push(("nominal", Amplification::nominal(f64::from(p.code.m))));
    }
    if p.code.m == 1 {
        states.push(("one down", Amplification::one_down(f64::from(p.code.k))));
    }
    let mut all = Vec::new();
    for (state, amp) in states {
        for (pattern, read) in [("read", 1.0), ("mixed", r.read_share), ("write", 0.0)] {
            if let Some((per_s, binding)) = random_ceiling(p, amp, read) {
                all.push(Random4k {
                    state: state.into(),
                    pattern: pattern.into(),
                    per_s,
                    binding: binding.into(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str) -> Plan {
        Plan::of(&Profile::parse(Profile::embedded_text(name).unwrap()).unwrap())
    }

    fn lowest(side: &Direction) -> (&str, f64) {
        (&side.binding, side.ceilings[0].bytes_per_s / 1e9)
    }

    #[track_caller]
    fn close(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 0.005, "{got} {want}");
    }

    #[test]
    fn minio_on_data24_matches() {
        let p = plan("data24-minio");
        let (resource, rate) = lowest(&p.get);
        assert_eq!(resource, "drives");
        close(rate, 51.36);
        close(p.get.efficiency_percent.unwrap(), 106.6);
        let (resource, rate) = lowest(&p.put);
        assert_eq!(resource, "drives");
        close(rate, 33.3);
        close(p.put.efficiency_percent.unwrap(), 70.9);
    }

    #[test]
    fn minio_on_data60_matches() {
        let p = plan("data60-minio");
        let (resource, rate) = lowest(&p.put);
        assert_eq!(resource, "drives");
        close(rate, 20.0);
        close(p.put.efficiency_percent.unwrap(), 63.3);
    }

    #[test]
    fn openio_matches() {
        let p = plan("openio-352");
        let (resource, rate) = lowest(&p.put);
        assert_eq!(resource, "server network");
        close(rate * 8.0 / 1000.0, 1.497);
        close(p.put.efficiency_percent.unwrap(), 91.7);
    }

    #[test]
    fn supremeraid_matches() {
        let p = plan("data24-supremeraid");
        let (resource, rate) = lowest(&p.get);
        assert_eq!(resource, "4 KiB pipeline");
        close(rate, 62.7);
        close(lowest(&p.put).1, 31.2);
        let random = |state: &str, pattern: &str| {
            let row = p.random_4k.iter().find(|r| r.state == state && r.pattern == pattern).unwrap();
            (row.per_s / 1e6, row.binding.as_str())
        };
        for (state, pattern, want, binding) in [
            ("no parity", "read", 15.3, "enclosure ports"),
            ("no parity", "mixed", 12.0, "drives"),
            ("no parity", "write", 6.26, "drives"),
            ("nominal", "read", 15.3, "enclosure ports"),
            ("nominal", "mixed", 6.19, "drives"),
            ("nominal", "write", 2.38, "drives"),
            ("one down", "read", 8.74, "enclosure ports"),
            ("one down", "mixed", 4.86, "drives"),
            ("one down", "write", 2.22, "drives"),
        ] {
            let (got, by) = random(state, pattern);
            close(got, want);
            assert_eq!(by, binding, "{state} {pattern}");
        }
    }

    #[test]
    fn json_form_is_stable() {
        let json = plan("openio-352").json();
        assert_eq!(json["put"]["binding"], "server network");
        let first = &json["put"]["ceilings"][0];
        assert_eq!(first["resource"], "server network");
        assert_eq!(first["formula"], "M7");
        assert!(first["bytes_per_s"].as_f64().unwrap() > 1e11);
        assert!(json["get"]["ceilings"].as_array().unwrap().len() >= 2);
    }
}
