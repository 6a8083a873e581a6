//! A profile: a description of hardware as TOML, from which a plan is computed.
//!
//! Invariants: an unknown value is absent and gives no ceiling; every value that is neither published nor
//! measured is explained under `assumptions`.
//!
//! Must not depend on: formulas.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    error::{Error, Result},
    quantity::{parse_rate, parse_size},
};

/// The profiles that ship with the program, by file.
const EMBEDDED: [&str; 4] = [
    include_str!("../../profiles/data24-minio.toml"),
    include_str!("../../profiles/data24-supremeraid.toml"),
    include_str!("../../profiles/data60-minio.toml"),
    include_str!("../../profiles/openio-352.toml"),
];

/// Hardware and what it is used for. Rates are written with their unit (`"1.07GB/s"`, `"100Gb/s"`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// All drives.
    pub drives: Drives,
    /// Ports of the enclosures the drives sit in, when they are not in the servers.
    #[serde(default)]
    pub ports: Option<Ports>,
    /// The servers.
    pub servers: Servers,
    /// The code.
    pub code: Code,
    /// Machines that offer the load; absent: never the limit.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// What was measured on it.
    #[serde(default)]
    pub published: Published,
    /// What is neither published nor measured, by what it concerns.
    #[serde(default)]
    pub assumptions: BTreeMap<String, String>,
}

/// What a server sees as drives: disks, devices or namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drives {
    /// All servers together.
    pub count: u32,
    /// Sequential reading of one, bytes per second.
    #[serde(deserialize_with = "rate")]
    pub read: f64,
    /// Sequential writing of one, bytes per second.
    #[serde(deserialize_with = "rate")]
    pub write: f64,
    /// Bytes of one.
    #[serde(default, deserialize_with = "some_size")]
    pub capacity: Option<u64>,
    /// Random 4 KiB.
    #[serde(default)]
    pub random: Option<Random>,
}

/// Random 4 KiB of one drive: the additive service-time model M2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Microseconds of the device per read at full queue.
    pub read_us: f64,
    /// Microseconds per write.
    pub write_us: f64,
    /// Share of reads in the mixed pattern.
    pub read_share: f64,
}

/// Ports of all enclosures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// The number of them.
    pub count: u32,
    /// Bytes per second of one, raw.
    #[serde(deserialize_with = "rate")]
    pub rate: f64,
    /// Payload bytes per packet.
    pub payload: f64,
    /// Bytes of overhead per packet on the wire.
    pub header: f64,
    /// I/Os per second of one.
    #[serde(default)]
    pub iops: Option<f64>,
}

/// The servers, all alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// The number of them.
    pub count: u32,
    /// Bytes per second of one's network interface, each way.
    #[serde(default, deserialize_with = "some_rate")]
    pub nic: Option<f64>,
    /// Payload bytes per packet; absent: the rate counts as payload.
    #[serde(default)]
    pub payload: Option<f64>,
    /// Overhead bytes per packet.
    #[serde(default)]
    pub header: Option<f64>,
    /// Clients and other nodes are reached through different interfaces of that rate.
    #[serde(default)]
    pub separate_networks: bool,
    /// Bytes per second of one's memory.
    #[serde(default, deserialize_with = "some_rate")]
    pub memory: Option<f64>,
    /// Bytes of data per second that one's CPU can encode or check.
    #[serde(default, deserialize_with = "some_rate")]
    pub parity: Option<f64>,
    /// SAS host bus adapter.
    #[serde(default)]
    pub hba: Option<Hba>,
    /// A device that computes parity from staged data.
    #[serde(default)]
    pub accelerator: Option<Accelerator>,
}

/// The SAS host bus adapter of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hba {
    /// SAS lanes of 12 Gb/s.
    pub lanes: f64,
    /// Bytes per second of its slot.
    #[serde(deserialize_with = "rate")]
    pub pcie: f64,
}

/// The accelerator of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Bytes per second to it.
    #[serde(deserialize_with = "rate")]
    pub pcie_down: f64,
    /// Bytes per second from it.
    #[serde(deserialize_with = "rate")]
    pub pcie_up: f64,
    /// Bytes per second of its memory.
    #[serde(deserialize_with = "rate")]
    pub memory: f64,
}

/// The code and how its engine works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// Data shards.
    pub k: u32,
    /// Parity shards.
    pub m: u32,
    /// Shards stay within one server: nothing is re-dispatched between nodes.
    #[serde(default)]
    pub within_server: bool,
    /// Share of the shards that stays on the node a client talks to; absent: the larger of 1/servers
    /// and 1/(k+m).
    #[serde(default)]
    pub local_share: Option<f64>,
    /// The engine moves 4 KiB at a time (M5).
    #[serde(default)]
    pub pipeline_4k: bool,
    /// Efficiency of sequential writing (M4); absent: 1.
    #[serde(default)]
    pub write_efficiency: Option<f64>,
}

/// Machines that offer the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// The number of them.
    pub count: u32,
    /// Bytes per second of one's interface, each way.
    #[serde(deserialize_with = "rate")]
    pub nic: f64,
}

/// Results that were published or measured, in bytes per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// GET, or sequential reading.
    #[serde(default, deserialize_with = "some_rate")]
    pub get: Option<f64>,
    /// PUT, or sequential writing.
    #[serde(default, deserialize_with = "some_rate")]
    pub put: Option<f64>,
}

impl Profile {
    /// Reads and checks a profile.
    ///
    /// # Errors
    /// [`Error::Usage`] with the line or the field that is wrong.
    pub fn parse(text: &str) -> Result<Profile> {
        let profile: Profile = toml::from_str(text).map_err(|e| Error::Usage(format!("profile: {e}")))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profiles that ship with the program.
    pub fn embedded() -> Vec<Profile> {
        // A test parses them all: what does not parse cannot ship.
        EMBEDDED.iter().filter_map(|text| Profile::parse(text).ok()).collect()
    }

    /// The text of a shipped profile, to start one's own from.
    pub fn embedded_text(name: &str) -> Option<&'static str> {
        EMBEDDED.into_iter().find(|text| Profile::parse(text).is_ok_and(|p| p.name == name))
    }

    /// Share of an object's shards that never leaves the node a client talks to.
    pub fn local_share(&self) -> f64 {
        if self.code.within_server {
            return 1.0;
        }
        let shards = f64::from(self.code.k + self.code.m);
        self.code.local_share.unwrap_or((1.0 / f64::from(self.servers.count)).max(1.0 / shards))
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Usage(format!("profile `{}`: {what}", self.name)));
        if self.drives.count == 0 || self.servers.count == 0 {
            return wrong("needs at least one drive and one server");
        }
        if self.code.k == 0 || self.code.k + self.code.m > 64 {
            return wrong("the code needs k >= 1 and k+m <= 64");
        }
        let positive = |v: f64| v.is_finite() && v > 0.0;
        if !positive(self.drives.read) || !positive(self.drives.write) {
            return wrong("drives.read and drives.write must be above zero");
        }
        if self.servers.payload.is_some() != self.servers.header.is_some() {
            return wrong("servers.payload and servers.header must be given together");
        }
        let packets = [
            self.ports.as_ref().map(|p| (p.payload, p.header)),
            self.servers.payload.zip(self.servers.header),
        ];
        if packets.into_iter().flatten().any(|(p, h)| !(positive(p) && h.is_finite() && h >= 0.0)) {
            return wrong("payload must be above zero and header at least zero");
        }
        if self.code.local_share.is_some_and(|l| !(0.0..=1.0).contains(&l)) {
            return wrong("code.local_share must be between 0 and 1");
        }
        if let Some(r) = &self.drives.random
            && !(positive(r.read_us) && positive(r.write_us) && (0.0..=1.0).contains(&r.read_share))
        {
            return wrong("drives.random needs times above zero and a read_share between 0 and 1");
        }
        Ok(())
    }
}

/// A rate with its unit, or a bare number of bytes per second.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Number(f64),
}

impl Number {
    fn rate(self) -> Result<f64> {
        match self {
            Number::Text(text) => parse_rate(&text),
            Number::Number(value) => Ok(value),
        }
    }
}

fn rate<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Number::deserialize(d)?.rate().map_err(serde::de::Error::custom)
}

fn some_rate<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    Option::<Number>::deserialize(d)?.map(Number::rate).transpose().map_err(serde::de::Error::custom)
}

fn some_size<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    match Option::<Number>::deserialize(d)? {
        None => Ok(None),
        Some(Number::Text(text)) => parse_size(&text).map(Some).map_err(serde::de::Error::custom),
        Some(Number::Number(value)) => Ok(Some(value as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_valid() {
        for text in EMBEDDED {
            let profile = Profile::parse(text).unwrap();
            assert_eq!(Profile::embedded_text(&profile.name), Some(text));
            assert!(!profile.assumptions.is_empty(), "{}: says what it assumes", profile.name);
            let again = toml::to_string(&profile).unwrap();
            assert_eq!(Profile::parse(&again).unwrap(), profile);
        }
        assert_eq!(Profile::embedded().len(), EMBEDDED.len());
    }

    #[test]
    fn invalid_profiles_are_refused() {
        let good = EMBEDDED[0];
        for (from, to, word) in [
            ("count = 48", "count = 0", "at least one drive"),
            ("k = 12", "k = 62", "k+m"),
            ("read = \"1.07GB/s\"", "read = \"fast\"", "not a rate"),
            ("read = \"1.07GB/s\"", "read = 0", "above zero"),
            ("[code]", "[code]\ncolour = 3", "unknown field"),
            ("[code]", "[code]\nlocal_share = 2.0", "between 0 and 1"),
            ("payload = 2048", "payload = 0", "payload"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            let error = Profile::parse(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{to}: {error}");
        }
    }
}
