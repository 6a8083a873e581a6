//! A document of the Redfish service in the making, and the schemas that documents have.
//!
//! Must not depend on: what documents say.

use serde_json::{Map, Value, json};

/// The schemas of the documents: name and version, as the types of documents have them. The CSDL document refers to each.
pub(super) const SCHEMAS: [(&str, &str); 16] = [
    ("ServiceRoot", "v1_16_0"),
    ("SessionService", "v1_1_9"),
    ("Chassis", "v1_25_0"),
    ("Drive", "v1_19_0"),
    ("EnvironmentMetrics", "v1_3_0"),
    ("ThermalSubsystem", "v1_3_0"),
    ("Fan", "v1_5_0"),
    ("ThermalMetrics", "v1_3_0"),
    ("PowerSubsystem", "v1_1_0"),
    ("PowerSupply", "v1_6_0"),
    ("PowerSupplyMetrics", "v1_1_0"),
    ("Sensor", "v1_10_0"),
    ("Storage", "v1_17_0"),
    ("StorageController", "v1_8_0"),
    ("Port", "v1_13_0"),
    ("Volume", "v1_10_0"),
];
/// Collections have no version.
pub(super) const COLLECTIONS: [&str; 10] = [
    "ChassisCollection",
    "DriveCollection",
    "FanCollection",
    "PowerSupplyCollection",
    "SensorCollection",
    "SessionCollection",
    "StorageCollection",
    "StorageControllerCollection",
    "PortCollection",
    "VolumeCollection",
];

/// A document in the making.
pub(super) struct Document(Map<String, Value>);

impl Document {
    /// `kind`: one of [`SCHEMAS`] or [`COLLECTIONS`]. `recorded`: whether its values are those of a sample.
    pub(super) fn new(path: &str, kind: &str, name: &str, recorded: bool) -> Document {
        let version = SCHEMAS.iter().find(|s| s.0 == kind).map_or(String::new(), |s| format!("{}.", s.1));
        let mut map = Map::new();
        map.insert("@odata.id".into(), path.into());
        map.insert("@odata.type".into(), format!("#{kind}.{version}{kind}").into());
        map.insert("Name".into(), name.into());
        let label =
            json!({ "@odata.type": "#Ashlar.v1_0_0.Source", "Simulated": true, "Recorded": recorded });
        map.insert("Oem".into(), json!({ "Ashlar": label }));
        if recorded {
            let text = format!("{name}: recorded sample, not measured");
            map.insert("Description".into(), text.into());
        }
        Document(map)
    }

    pub(super) fn id(self, id: &str) -> Document {
        self.with("Id", id)
    }

    pub(super) fn with(mut self, field: &str, value: impl Into<Value>) -> Document {
        self.0.insert(field.into(), value.into());
        self
    }

    pub(super) fn link(self, field: &str, path: String) -> Document {
        self.with(field, link(path))
    }

    pub(super) fn build(self) -> Value {
        Value::Object(self.0)
    }
}

pub(super) fn link(path: String) -> Value {
    json!({ "@odata.id": path })
}

pub(super) fn links(paths: impl IntoIterator<Item = String>) -> Value {
    paths.into_iter().map(link).collect()
}

pub(super) fn collection(path: &str, kind: &str, name: &str, recorded: bool, members: Vec<String>) -> Value {
    Document::new(path, &format!("{kind}Collection"), name, recorded)
        .with("Members@odata.count", members.len())
        .with("Members", links(members.iter().map(|m| format!("{path}/{m}"))))
        .build()
}

pub(super) fn status(health: &str) -> Value {
    json!({ "State": "Enabled", "Health": health })
}

/// The number of a member, from 1: `F7` has 7 with the prefix `F`.
pub(super) fn numbered<'a, T>(all: &'a [T], id: &str, prefix: &str) -> Option<(usize, &'a T)> {
    let number: usize = id.strip_prefix(prefix)?.parse().ok()?;
    // A second spelling of a number is no identifier.
    (format!("{prefix}{number}") == id).then_some(())?;
    Some((number, all.get(number.checked_sub(1)?)?))
}
