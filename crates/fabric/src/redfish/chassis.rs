//! The chassis: drives, fans, power supplies, sensors. Fans, power supplies and sensors of the chassis are those of the recorded sample.
//!
//! Must not depend on: HTTP.

use serde_json::{Map, Value, json};

use super::document::{Document, collection, link, links, numbered, status};
use super::{Redfish, health};
use crate::api::Drive;
use crate::sample::{Fan, Supply};

impl Redfish<'_> {
    pub(super) fn chassis(&self, path: &str, parts: &[&str]) -> Option<Value> {
        let (state, sample) = (self.state, self.sample);
        let numbers = |prefix: &str, count: usize| (1..=count).map(|n| format!("{prefix}{n}")).collect();
        match *parts {
            [] => Some(self.chassis_itself(path)),
            ["Drives"] => {
                let members = state.drives.iter().map(|d| d.bay.to_string()).collect();
                Some(collection(path, "Drive", "Drives", false, members))
            }
            ["Drives", id] => numbered(&state.drives, id, "").map(|(_, drive)| self.drive(path, drive)),
            ["Drives", id, "EnvironmentMetrics"] => {
                numbered(&state.drives, id, "").map(|(_, drive)| self.environment(path, drive))
            }
            ["ThermalSubsystem"] => Some(
                Document::new(path, "ThermalSubsystem", "Thermal subsystem", true)
                    .id("ThermalSubsystem")
                    .with("Status", status("OK"))
                    .link("Fans", format!("{path}/Fans"))
                    .link("ThermalMetrics", format!("{path}/ThermalMetrics"))
                    .build(),
            ),
            ["ThermalSubsystem", "Fans"] => {
                Some(collection(path, "Fan", "Fans", true, numbers("", sample.fans.len())))
            }
            ["ThermalSubsystem", "Fans", id] => {
                numbered(&sample.fans, id, "").map(|(_, fan)| self.fan(path, id, fan))
            }
            ["ThermalSubsystem", "ThermalMetrics"] => Some(self.thermal_metrics(path)),
            ["PowerSubsystem"] => Some(
                Document::new(path, "PowerSubsystem", "Power subsystem", true)
                    .id("PowerSubsystem")
                    .with("Status", status("OK"))
                    .with("CapacityWatts", sample.supply_watts * sample.supplies.len() as f64)
                    .link("PowerSupplies", format!("{path}/PowerSupplies"))
                    .build(),
            ),
            ["PowerSubsystem", "PowerSupplies"] => {
                let members = numbers("", sample.supplies.len());
                Some(collection(path, "PowerSupply", "Power supplies", true, members))
            }
            ["PowerSubsystem", "PowerSupplies", id] => {
                numbered(&sample.supplies, id, "").map(|(_, supply)| self.supply(path, id, supply))
            }
            ["PowerSubsystem", "PowerSupplies", id, "Metrics"] => {
                numbered(&sample.supplies, id, "").map(|(_, supply)| supply_metrics(path, supply))
            }
            ["Sensors"] => {
                let mut members: Vec<String> = numbers("Temperature", sample.temperatures.len());
                members.extend::<Vec<String>>(numbers("Voltage", sample.voltages.len()));
                members.extend::<Vec<String>>(numbers("Fan", sample.fans.len()));
                let there = state.drives.iter().filter(|d| d.state != "GONE");
                members.extend(there.map(|d| format!("Drive{}", d.bay)));
                // Those of drives are the model's.
                Some(collection(path, "Sensor", "Sensors", false, members))
            }
            ["Sensors", id] => self.sensor(path, id),
            _ => None,
        }
    }

    fn chassis_itself(&self, path: &str) -> Value {
        let state = self.state;
        Document::new(path, "Chassis", &state.name, false)
            .id(&state.name)
            .with("ChassisType", "StorageEnclosure")
            .with("Manufacturer", "Ashlar")
            .with("Model", format!("{} 1:{}", state.title, state.scale))
            .with("UUID", self.uuid())
            .with("PowerState", "On")
            .with("Status", json!({ "State": "Enabled", "Health": "OK", "HealthRollup": self.rollup() }))
            .link("Drives", format!("{path}/Drives"))
            .link("ThermalSubsystem", format!("{path}/ThermalSubsystem"))
            .link("PowerSubsystem", format!("{path}/PowerSubsystem"))
            .link("Sensors", format!("{path}/Sensors"))
            .with(
                "Links",
                json!({
                    "Storage": [link(self.storage_at(""))],
                    "Drives": links(state.drives.iter().map(|d| self.at(&format!("/Drives/{}", d.bay)))),
                }),
            )
            .build()
    }

    fn drive(&self, path: &str, drive: &Drive) -> Value {
        let there = drive.state != "GONE";
        let disk = self.state.model == "data60";
        let state = if there {
            json!({ "State": "Enabled", "Health": health(&drive.health) })
        } else {
            json!({ "State": "Absent" })
        };
        let place = json!({
            "PartLocation": { "LocationType": "Bay", "LocationOrdinalValue": drive.bay, "ServiceLabel": format!("Slot {}", drive.bay) },
        });
        let document = Document::new(path, "Drive", &format!("Drive {}", drive.bay), false)
            .id(&drive.bay.to_string())
            .with("Status", state)
            .with("LocationIndicatorActive", drive.locate)
            .with("PhysicalLocation", place);
        if !there {
            return document.with("Links", json!({ "Chassis": link(self.at("")) })).build();
        }
        let volumes = drive.namespaces.iter().filter(|n| n.state == "ONLINE");
        let volumes = links(volumes.map(|n| self.storage_at(&format!("/Volumes/{}-{}", drive.bay, n.nsid))));
        document
            .with("Manufacturer", "Ashlar")
            .with("Model", drive.model.as_str())
            .with("SerialNumber", drive.serial.as_str())
            .with("Identifiers", json!([{ "DurableNameFormat": "NQN", "DurableName": drive.nqn }]))
            .with("MediaType", if disk { "HDD" } else { "SSD" })
            .with("Protocol", "NVMeOverFabrics")
            .with("CapacityBytes", drive.namespaces.iter().map(|n| n.size).sum::<u64>())
            .with("BlockSizeBytes", drive.namespaces.first().map(|n| n.block))
            .with("FailurePredicted", drive.predicted_failure)
            .with("PredictedMediaLifeLeftPercent", 100 - u64::from(drive.percentage_used.min(100)))
            .link("EnvironmentMetrics", format!("{path}/EnvironmentMetrics"))
            .with("Links", json!({ "Chassis": link(self.at("")), "Volumes": volumes, "Storage": [link(self.storage_at(""))] }))
            .build()
    }

    fn environment(&self, path: &str, drive: &Drive) -> Value {
        let name = format!("Environment of drive {}", drive.bay);
        let document = Document::new(path, "EnvironmentMetrics", &name, false).id("EnvironmentMetrics");
        if drive.state == "GONE" {
            return document.build();
        }
        let source = self.at(&format!("/Sensors/Drive{}", drive.bay));
        document
            .with("TemperatureCelsius", json!({ "DataSourceUri": source, "Reading": drive.celsius }))
            .build()
    }

    fn fan(&self, path: &str, id: &str, fan: &Fan) -> Value {
        let source = self.at(&format!("/Sensors/Fan{id}"));
        Document::new(path, "Fan", &fan.name, true)
            .id(id)
            .with("Status", status("OK"))
            .with("PhysicalContext", "Chassis")
            .with("HotPluggable", true)
            .with(
                "SpeedPercent",
                json!({ "DataSourceUri": source, "Reading": percent(fan), "SpeedRPM": fan.rpm }),
            )
            .build()
    }

    fn thermal_metrics(&self, path: &str) -> Value {
        let readings: Vec<Value> = (1..)
            .zip(&self.sample.temperatures)
            .map(|(number, sensor)| {
                let source = self.at(&format!("/Sensors/Temperature{number}"));
                json!({ "DataSourceUri": source, "DeviceName": sensor.name, "Reading": sensor.celsius,
                        "PhysicalContext": sensor.place })
            })
            .collect();
        let mut summary = Map::new();
        for (number, sensor) in (1..).zip(&self.sample.temperatures) {
            if ["Intake", "Exhaust"].contains(&sensor.place.as_str()) {
                let source = self.at(&format!("/Sensors/Temperature{number}"));
                let excerpt = json!({ "DataSourceUri": source, "Reading": sensor.celsius });
                summary.insert(sensor.place.clone(), excerpt);
            }
        }
        Document::new(path, "ThermalMetrics", "Thermal metrics", true)
            .id("ThermalMetrics")
            .with("TemperatureReadingsCelsius", readings)
            .with("TemperatureSummaryCelsius", Value::Object(summary))
            .build()
    }

    fn supply(&self, path: &str, id: &str, supply: &Supply) -> Value {
        Document::new(path, "PowerSupply", &supply.name, true)
            .id(id)
            .with("Status", status("OK"))
            .with("PowerSupplyType", "AC")
            .with("LineInputStatus", "Normal")
            .with("PowerCapacityWatts", self.sample.supply_watts)
            .with("HotPluggable", true)
            .link("Metrics", format!("{path}/Metrics"))
            .build()
    }

    fn sensor(&self, path: &str, id: &str) -> Option<Value> {
        let document = |name: &str, recorded, kind: &str, units: &str, reading: f64| {
            Document::new(path, "Sensor", name, recorded)
                .id(id)
                .with("Status", status("OK"))
                .with("ReadingType", kind)
                .with("ReadingUnits", units)
                .with("Reading", reading)
        };
        let upper = |caution: f64, critical: f64| json!({ "UpperCaution": { "Reading": caution }, "UpperCritical": { "Reading": critical } });
        let sample = self.sample;
        if let Some((_, sensor)) = numbered(&sample.temperatures, id, "Temperature") {
            let made = document(&sensor.name, true, "Temperature", "Cel", sensor.celsius)
                .with("PhysicalContext", sensor.place.as_str())
                .with("Thresholds", upper(sensor.warning, sensor.critical));
            return Some(made.build());
        }
        if let Some((_, sensor)) = numbered(&sample.voltages, id, "Voltage") {
            let limits = json!({ "LowerCritical": { "Reading": sensor.low }, "UpperCritical": { "Reading": sensor.high } });
            let made = document(&sensor.name, true, "Voltage", "V", sensor.volts);
            return Some(made.with("Thresholds", limits).build());
        }
        if let Some((_, fan)) = numbered(&sample.fans, id, "Fan") {
            let made = document(&format!("{} speed", fan.name), true, "Percent", "%", percent(fan));
            return Some(made.with("SpeedRPM", fan.rpm).with("PhysicalContext", "Fan").build());
        }
        let (_, drive) = numbered(&self.state.drives, id, "Drive").filter(|d| d.1.state != "GONE")?;
        let name = format!("Drive {} temperature", drive.bay);
        let made = document(&name, false, "Temperature", "Cel", drive.celsius)
            .with("Status", status(health(&drive.health)))
            .with("PhysicalContext", "StorageDevice")
            .with("Thresholds", upper(drive.warning_celsius, drive.critical_celsius));
        Some(made.build())
    }
}

fn percent(fan: &Fan) -> f64 {
    (100.0 * f64::from(fan.rpm) / f64::from(fan.most_rpm)).round()
}

fn supply_metrics(path: &str, supply: &Supply) -> Value {
    let reading = |value: f64| json!({ "Reading": value });
    let name = format!("Metrics of {}", supply.name);
    Document::new(path, "PowerSupplyMetrics", &name, true)
        .id("Metrics")
        .with("Status", status("OK"))
        .with("InputVoltage", reading(supply.input_volts))
        .with("InputPowerWatts", reading(supply.input_watts))
        .with("OutputPowerWatts", reading(supply.output_watts))
        .with("TemperatureCelsius", reading(supply.celsius))
        .build()
}
