//! The storage: modules as controllers with their ports, namespaces as volumes.
//!
//! Must not depend on: HTTP.

use serde_json::{Value, json};

use super::document::{Document, collection, link, links, status};
use super::{Redfish, health};
use crate::api::{Drive, Namespace, Port};
use crate::services::modules;

impl Redfish<'_> {
    pub(super) fn storage(&self, path: &str, parts: &[&str]) -> Option<Value> {
        let state = self.state;
        let modules = modules(state);
        let module = |id: &str| modules.iter().find(|m| m.0 == id);
        let of = |id: &str| -> Vec<&Port> { state.ports.iter().filter(|p| p.name.starts_with(id)).collect() };
        match *parts {
            [] => Some(self.storage_itself(path)),
            ["Controllers"] => {
                let members = modules.iter().map(|m| m.0.clone()).collect();
                Some(collection(path, "StorageController", "Modules", false, members))
            }
            ["Controllers", id] => module(id).map(|(id, up)| self.controller(path, id, *up)),
            ["Controllers", id, "Ports"] => {
                module(id)?;
                let members = of(id).iter().map(|p| p.name.clone()).collect();
                Some(collection(path, "Port", "Ports", false, members))
            }
            ["Controllers", id, "Ports", name] => {
                module(id)?;
                of(id).iter().find(|p| p.name == name).map(|p| port(path, p))
            }
            ["Volumes"] => {
                let members = self.volumes().map(|(d, n)| format!("{}-{}", d.bay, n.nsid)).collect();
                Some(collection(path, "Volume", "Namespaces", false, members))
            }
            ["Volumes", id] => {
                let found = self.volumes().find(|(d, n)| format!("{}-{}", d.bay, n.nsid) == id);
                found.map(|(drive, namespace)| self.volume(path, id, drive, namespace))
            }
            _ => None,
        }
    }

    /// Namespaces that are there.
    fn volumes(&self) -> impl Iterator<Item = (&Drive, &Namespace)> {
        let there = self.state.drives.iter().filter(|d| d.state != "GONE");
        there.flat_map(|d| d.namespaces.iter().filter(|n| n.state == "ONLINE").map(move |n| (d, n)))
    }

    fn storage_itself(&self, path: &str) -> Value {
        let drives = self.state.drives.iter().map(|d| self.at(&format!("/Drives/{}", d.bay)));
        Document::new(path, "Storage", &self.state.name, false)
            .id(&self.state.name)
            .with("Status", json!({ "State": "Enabled", "Health": "OK", "HealthRollup": self.rollup() }))
            .with("Drives@odata.count", self.state.drives.len())
            .with("Drives", links(drives))
            .link("Controllers", format!("{path}/Controllers"))
            .link("Volumes", format!("{path}/Volumes"))
            .with("Links", json!({ "Enclosures": [link(self.at(""))] }))
            .build()
    }

    fn controller(&self, path: &str, id: &str, up: bool) -> Value {
        Document::new(path, "StorageController", &format!("Module {id}"), false)
            .id(id)
            .with("Status", status(if up { "OK" } else { "Critical" }))
            .with("Manufacturer", "Ashlar")
            .with("Model", format!("{} module", self.state.title))
            .with("FirmwareVersion", self.state.version.as_str())
            .with("SupportedControllerProtocols", json!(["NVMeOverFabrics"]))
            .with("SupportedDeviceProtocols", json!(["NVMe"]))
            .link("Ports", format!("{path}/Ports"))
            .build()
    }

    fn volume(&self, path: &str, id: &str, drive: &Drive, namespace: &Namespace) -> Value {
        let identifier =
            |format: &str, name: &str| json!({ "DurableNameFormat": format, "DurableName": name });
        let name = format!("Namespace {} of drive {}", namespace.nsid, drive.bay);
        Document::new(path, "Volume", &name, false)
            .id(id)
            .with("Status", status(health(&drive.health)))
            .with("CapacityBytes", namespace.size)
            .with("BlockSizeBytes", namespace.block)
            .with(
                "Identifiers",
                json!([identifier("UUID", &namespace.uuid), identifier("EUI", &namespace.eui64)]),
            )
            .with("NVMeNamespaceProperties", json!({ "NamespaceId": format!("0x{:x}", namespace.nsid) }))
            .with("Links", json!({ "Drives": [link(self.at(&format!("/Drives/{}", drive.bay)))] }))
            .build()
    }
}

fn port(path: &str, port: &Port) -> Value {
    let up = port.state == "UP";
    let state =
        if up { status("OK") } else { json!({ "State": "UnavailableOffline", "Health": "Critical" }) };
    Document::new(path, "Port", &format!("Port {}", port.name), false)
        .id(&port.name)
        .with("PortId", port.name.as_str())
        .with("PortProtocol", "NVMeOverFabrics")
        .with("LinkStatus", if up { "LinkUp" } else { "LinkDown" })
        .with("Status", state)
        .build()
}
