//! Enclosure services: the elements of an enclosure, with their states.
//!
//! Slots and modules have the state of the virtual enclosure; fans, power supplies and sensors are those of a recorded sample, and say so.
//!
//! Must not depend on: the forms in which it is shown (`ses`, `redfish`).

use crate::api::{Drive, Element, ElementKind, ElementStatus, Services, State};
use crate::sample::Sample;
use crate::ses;

/// What is said about enclosure services.
pub(crate) fn services(state: &State, sample: &Sample) -> Services {
    let elements = elements(state, sample);
    let pages = ses::pages(state, &elements);
    Services { name: state.name.clone(), title: state.title.clone(), elements, pages }
}

/// All elements: by kind, in the order of their numbers.
pub(crate) fn elements(state: &State, sample: &Sample) -> Vec<Element> {
    let mut out: Vec<Element> = state.drives.iter().map(slot).collect();
    out.extend(sample.supplies.iter().zip(1..).map(|(supply, number)| Element {
        value: Some(supply.output_watts),
        ..recorded(ElementKind::PowerSupply, number, &supply.name)
    }));
    out.extend(sample.fans.iter().zip(1..).map(|(fan, number)| Element {
        value: Some(f64::from(fan.rpm)),
        ..recorded(ElementKind::Cooling, number, &fan.name)
    }));
    out.extend(sample.temperatures.iter().zip(1..).map(|(sensor, number)| Element {
        value: Some(sensor.celsius),
        ..recorded(ElementKind::TemperatureSensor, number, &sensor.name)
    }));
    out.extend(sample.voltages.iter().zip(1..).map(|(sensor, number)| Element {
        value: Some(sensor.volts),
        ..recorded(ElementKind::VoltageSensor, number, &sensor.name)
    }));
    out.extend(modules(state).into_iter().zip(1..).map(|((name, up), number)| Element {
        status: if up { ElementStatus::Ok } else { ElementStatus::Critical },
        fault: !up,
        recorded: false,
        ..recorded(ElementKind::Module, number, &format!("Module {name}"))
    }));
    let worst = out.iter().map(|e| e.status).filter(|s| *s != ElementStatus::NotInstalled).max();
    out.push(Element {
        status: worst.unwrap_or(ElementStatus::Ok),
        recorded: false,
        ..recorded(ElementKind::Enclosure, 1, &state.name)
    });
    out
}

fn recorded(kind: ElementKind, number: usize, name: &str) -> Element {
    Element {
        kind,
        number,
        name: name.to_owned(),
        status: ElementStatus::Ok,
        value: None,
        unit: kind.unit().map(str::to_owned),
        identify: false,
        fault: false,
        predicted_failure: false,
        recorded: true,
    }
}

fn slot(drive: &Drive) -> Element {
    let status = slot_status(drive);
    let there = status != ElementStatus::NotInstalled;
    Element {
        status,
        value: there.then_some(drive.celsius),
        identify: drive.locate,
        fault: status == ElementStatus::Critical,
        predicted_failure: there && drive.predicted_failure,
        recorded: false,
        ..recorded(ElementKind::Slot, drive.bay, &format!("Slot {:02}", drive.bay))
    }
}

/// What an enclosure can know of a drive: whether it is there, and what its SMART data says. Damage of blocks and slowness are
/// nothing that it sees.
fn slot_status(drive: &Drive) -> ElementStatus {
    match (drive.state.as_str(), drive.health.as_str()) {
        ("GONE", _) => ElementStatus::NotInstalled,
        (_, "OK") => ElementStatus::Ok,
        (_, "WARNING") => ElementStatus::Noncritical,
        _ => ElementStatus::Critical,
    }
}

/// The modules that have ports, and whether one of these is up.
pub(crate) fn modules(state: &State) -> Vec<(String, bool)> {
    let mut out: Vec<(String, bool)> = Vec::new();
    for port in &state.ports {
        let name: String = port.name.chars().take(1).collect();
        let up = port.state == "UP";
        match out.iter_mut().find(|m| m.0 == name) {
            Some(module) => module.1 |= up,
            None => out.push((name, up)),
        }
    }
    out
}
