//! The documents of the Redfish service (DMTF DSP0266): a chassis with its drives, fans, power supplies and sensors, and its storage.
//!
//! Each document has `Oem.Ashlar`: `Simulated` is true, as nothing here is hardware, and `Recorded` says whether its values are those of a
//! recorded sample, measured on no enclosure, or the state of the virtual enclosure.
//!
//! Files: `document` (what all documents have), `chassis`, `storage`, `service` (HTTP). Pure, except for `service`: the state is an argument.
//!
//! Invariants: a document has `@odata.id`, which is its path, `@odata.type`, `Id` (except for collections) and `Name`; every link leads to a
//! document.
//!
//! Must not depend on: the management socket, NVMe.

mod chassis;
mod document;
pub(crate) mod service;
mod storage;

use serde_json::{Map, Value, json};

use self::document::{COLLECTIONS, Document, SCHEMAS, collection, link};
use crate::api::State;
use crate::sample::Sample;
use crate::services::modules;

/// Where the service begins.
pub(crate) const ROOT: &str = "/redfish/v1";

/// An enclosure, as documents show it.
pub(crate) struct Redfish<'a> {
    pub(crate) state: &'a State,
    pub(crate) sample: &'a Sample,
}

impl Redfish<'_> {
    /// The document at a path, which has no slash at its end. None: there is none.
    pub(crate) fn document(&self, path: &str) -> Option<Value> {
        if path == "/redfish" {
            return Some(json!({ "v1": format!("{ROOT}/") }));
        }
        let rest = path.strip_prefix(ROOT).filter(|r| r.is_empty() || r.starts_with('/'))?;
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        let name = self.state.name.as_str();
        match parts[..] {
            [] => Some(self.root()),
            ["odata"] => Some(self.service_document()),
            ["SessionService"] => Some(sessions(path)),
            ["SessionService", "Sessions"] => Some(collection(path, "Session", "Sessions", false, vec![])),
            ["Chassis"] => Some(collection(path, "Chassis", "Chassis", false, vec![name.into()])),
            ["Storage"] => Some(collection(path, "Storage", "Storage", false, vec![name.into()])),
            ["Chassis", id, ..] if id == name => self.chassis(path, &parts[2..]),
            ["Storage", id, ..] if id == name => self.storage(path, &parts[2..]),
            _ => None,
        }
    }

    fn at(&self, rest: &str) -> String {
        format!("{ROOT}/Chassis/{}{rest}", self.state.name)
    }

    fn storage_at(&self, rest: &str) -> String {
        format!("{ROOT}/Storage/{}{rest}", self.state.name)
    }

    /// An identifier of the enclosure, the same after every start.
    fn uuid(&self) -> String {
        let text = format!("redfish\n{}\n{}", self.state.name, self.state.seed);
        let sum = ashlar_checksum::sha256(text.as_bytes());
        crate::identity::uuid_text(&crate::identity::uuid_bytes(&sum))
    }

    fn root(&self) -> Value {
        let none = ["ExcerptQuery", "FilterQuery", "OnlyMemberQuery", "SelectQuery"];
        let features: Map<String, Value> = none.iter().map(|f| ((*f).to_owned(), false.into())).collect();
        Document::new(&format!("{ROOT}/"), "ServiceRoot", "Root Service", false)
            .id("RootService")
            .with("RedfishVersion", "1.18.0")
            .with("UUID", self.uuid())
            .with("Vendor", "Ashlar")
            .with("Product", format!("{} virtual enclosure", self.state.title))
            .with("ProtocolFeaturesSupported", Value::Object(features))
            .link("Chassis", format!("{ROOT}/Chassis"))
            .link("Storage", format!("{ROOT}/Storage"))
            .link("SessionService", format!("{ROOT}/SessionService"))
            .with("Links", json!({ "Sessions": link(format!("{ROOT}/SessionService/Sessions")) }))
            .build()
    }

    /// The OData service document (DSP0266, 8.4.3).
    fn service_document(&self) -> Value {
        let entry = |name: &str, url: String| json!({ "name": name, "kind": "Singleton", "url": url });
        let label = json!({ "Simulated": true, "Recorded": false });
        json!({
            "@odata.context": format!("{ROOT}/$metadata"),
            "Oem": { "Ashlar": label },
            "value": [
                entry("Service", format!("{ROOT}/")),
                entry("Chassis", format!("{ROOT}/Chassis")),
                entry("Storage", format!("{ROOT}/Storage")),
                entry("SessionService", format!("{ROOT}/SessionService")),
            ],
        })
    }

    /// The OData metadata document (DSP0266, 8.4.2): where the schemas are that documents have.
    pub(crate) fn metadata(&self) -> String {
        let mut out = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<edmx:Edmx xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\" Version=\"4.0\">\n",
        );
        let at = "http://redfish.dmtf.org/schemas/v1";
        let versioned = SCHEMAS.iter().map(|(name, version)| (*name, format!("{name}.{version}")));
        let collections = COLLECTIONS.iter().map(|name| (*name, (*name).to_owned()));
        for (name, space) in versioned.chain(collections) {
            out += &format!(
                "  <edmx:Reference Uri=\"{at}/{name}_v1.xml\"><edmx:Include Namespace=\"{space}\"/></edmx:Reference>\n"
            );
        }
        out += "  <edmx:DataServices>\n    <Schema xmlns=\"http://docs.oasis-open.org/odata/ns/edm\" Namespace=\"Service\">\n";
        out += "      <EntityContainer Name=\"Service\" Extends=\"ServiceRoot.v1_16_0.ServiceContainer\"/>\n";
        out + "    </Schema>\n  </edmx:DataServices>\n</edmx:Edmx>\n"
    }

    /// The worst health of drives that are there and of modules.
    fn rollup(&self) -> &'static str {
        let down = modules(self.state).iter().any(|m| !m.1);
        let there = || self.state.drives.iter().filter(|d| d.state != "GONE").map(|d| health(&d.health));
        match () {
            () if down || there().any(|h| h == "Critical") => "Critical",
            () if there().any(|h| h == "Warning") => "Warning",
            () => "OK",
        }
    }
}

/// As Redfish writes it.
fn health(word: &str) -> &'static str {
    match word {
        "OK" => "OK",
        "WARNING" => "Warning",
        _ => "Critical",
    }
}

fn sessions(path: &str) -> Value {
    Document::new(path, "SessionService", "Sessions", false)
        .id("SessionService")
        // Nobody has to authenticate, and nothing can be changed.
        .with("ServiceEnabled", false)
        .with("Status", json!({ "State": "Disabled" }))
        .link("Sessions", format!("{path}/Sessions"))
        .build()
}
