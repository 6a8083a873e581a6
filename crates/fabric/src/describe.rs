//! What is said about an enclosure.
//!
//! Must not depend on: who asks.

use std::sync::atomic::Ordering;

use ashlar_nvme_tcp::{Known, Statistics};

use crate::api::{Drive, Namespace, Port, State, Zone};
use crate::enclosure::Enclosure;
use crate::{identity, target};

/// The state. `connected`: what the servers of ports have counted; none: the port is down. `hosts`: those that may connect; none: all.
pub(crate) fn state(
    enclosure: &Enclosure,
    connected: Vec<Option<Statistics>>,
    hosts: Option<Vec<Known>>,
) -> State {
    let setup = &enclosure.setup;
    let faults = enclosure.faults().list();
    let ports: Vec<Port> =
        connected.into_iter().enumerate().map(|(port, counted)| of_port(enclosure, port, counted)).collect();
    let state = match (ports.iter().any(|p| p.state == "UP"), faults.is_empty()) {
        (false, _) => "DOWN",
        (true, true) => "ONLINE",
        (true, false) => "DEGRADED",
    };
    let zone = |zone: &crate::setup::Zone| Zone {
        name: zone.name.clone(),
        hosts: zone.hosts.clone(),
        namespaces: zone.namespaces.iter().map(|(bay, nsid)| format!("{bay}/{nsid}")).collect(),
        ports: zone.ports.iter().map(|p| setup.port_name(*p)).collect(),
    };
    State {
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_s: enclosure.now().as_secs(),
        name: setup.name.clone(),
        model: setup.model.clone(),
        title: setup.title.clone(),
        scale: setup.scale,
        seed: setup.seed,
        state: state.into(),
        ports,
        drives: (1..=setup.bays).map(|bay| of_drive(enclosure, bay)).collect(),
        zones: setup.zones.as_ref().map(|zones| zones.iter().map(zone).collect()),
        hosts,
        faults,
        ana: enclosure.ana.list(setup),
        redfish: None,
    }
}

fn of_port(enclosure: &Enclosure, port: usize, counted: Option<Statistics>) -> Port {
    let state = if counted.is_some() { "UP" } else { "DOWN" };
    let counted = counted.unwrap_or_default();
    Port {
        name: enclosure.setup.port_name(port),
        address: enclosure.setup.ports[port].clone(),
        state: state.into(),
        connections: counted.connections,
        controllers: counted.controllers,
        unauthenticated: counted.unauthenticated,
        used: enclosure.port(port).usage.describe(),
    }
}

fn of_drive(enclosure: &Enclosure, bay: usize) -> Drive {
    let setup = &enclosure.setup;
    let (celsius, throttled, depth) = {
        let now = enclosure.now();
        let mut model = enclosure.model.lock();
        let drive = &mut model.drives[bay - 1];
        (drive.thermal.celsius(), drive.thermal.throttled(), drive.depth(now))
    };
    let health = target::health(enclosure, bay);
    let faults = enclosure.faults();
    let state = match () {
        () if faults.gone(bay) => "GONE",
        () if faults.lies(bay) => "FAULTY",
        () if faults.slowness(bay) > 1.0 => "SLOW",
        () if throttled => "THROTTLED",
        () => "ONLINE",
    };
    let namespace = |nsid| {
        let id = identity::namespace(setup, bay, nsid);
        Namespace {
            nsid,
            state: if faults.lost(bay, nsid) { "LOST" } else { "ONLINE" }.into(),
            size: setup.size,
            block: setup.block,
            uuid: identity::uuid_text(&id),
            eui64: hex::encode(identity::eui64(setup, bay, nsid)),
        }
    };
    Drive {
        bay,
        state: state.into(),
        serial: identity::serial(setup, bay),
        model: identity::model(setup),
        nqn: identity::nqn(setup, bay),
        celsius: (celsius * 10.0).round() / 10.0,
        warning_celsius: setup.heat.throttle,
        critical_celsius: setup.heat.critical,
        health: match (celsius >= setup.heat.critical, health.critical_warning) {
            (true, _) => "CRITICAL",
            (false, 0) => "OK",
            (false, _) => "WARNING",
        }
        .into(),
        predicted_failure: health.spare < health.spare_threshold,
        locate: enclosure.drive(bay).locate.load(Ordering::Relaxed),
        depth: depth as u64,
        percentage_used: health.used,
        spare: health.spare,
        corrupt_blocks: enclosure.drive(bay).corrupt.load(Ordering::Relaxed),
        lost_blocks: enclosure.drive(bay).lost.load(Ordering::Relaxed),
        unflushed_blocks: enclosure.drive(bay).unflushed.load(Ordering::Relaxed),
        namespaces: (1..=setup.namespaces).map(namespace).collect(),
        used: enclosure.drive(bay).usage.describe(),
    }
}
