//! Enclosure services: elements, pages of SES-3, documents of Redfish, and Redfish over HTTP.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::Path;

use ashlar_nvme_tcp::Statistics;
use serde_json::Value;

use super::served::{Served, until};
use super::setup;
use crate::api::{Call, Element, ElementKind, ElementStatus, FaultSpec, State};
use crate::enclosure::Enclosure;
use crate::redfish::{ROOT, Redfish, service::listen};
use crate::services::services;
use crate::{Kind, describe, sample};

/// An enclosure with a drive that is pulled, one that is hot and located, a lost namespace and a module whose ports are down.
fn state(folder: &Path, model: &str) -> State {
    let rest = "bays = 6\nsync = false\n[drive]\ncapacity = \"64MiB\"\nspare = 5\n[thermal]\nambient = 61";
    let enclosure = Enclosure::open(setup(folder, model, rest)).unwrap();
    for fault in [
        FaultSpec::DriveGone { bay: 3 },
        FaultSpec::NamespaceLost { bay: 2, namespace: 1 },
        FaultSpec::ModuleDown { module: "B".into() },
    ] {
        enclosure.inject(&fault, &|_| {}).unwrap();
    }
    enclosure.locate(2, true).unwrap();
    enclosure.locate(3, true).unwrap();
    assert_eq!(enclosure.locate(7, true).unwrap_err().kind, Kind::NotFound);
    assert_eq!(enclosure.locate(0, true).unwrap_err().kind, Kind::NotFound);
    let up = (0..6).map(|p| (p < 3).then(Statistics::default)).collect();
    let mut state = describe::state(&enclosure, up, None);
    // Too hot, enough spare.
    (state.drives[0].health, state.drives[0].predicted_failure) = ("CRITICAL".into(), false);
    (state.drives[5].health, state.drives[5].predicted_failure) = ("OK".into(), false);
    state
}

#[test]
fn elements_are_the_state_of_the_enclosure_and_say_what_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), "data24");
    let all = services(&state, &sample::of("data24").unwrap());
    let of = |kind| all.elements.iter().filter(move |e| e.kind == kind).collect::<Vec<&Element>>();
    let slots = of(ElementKind::Slot);
    use ElementStatus::{Critical, Noncritical, NotInstalled, Ok};
    assert_eq!(
        slots.iter().map(|s| s.status).collect::<Vec<_>>(),
        [Critical, Noncritical, NotInstalled, Noncritical, Noncritical, Ok]
    );
    assert_eq!(
        slots.iter().map(|s| s.identify).collect::<Vec<_>>(),
        [false, true, true, false, false, false]
    );
    assert_eq!(slots.iter().map(|s| s.fault).collect::<Vec<_>>(), [true, false, false, false, false, false]);
    assert!(slots[1].predicted_failure && !slots[2].predicted_failure && slots[2].value.is_none());
    assert_eq!(slots[3].value, Some(71.0));
    assert_eq!(of(ElementKind::Module).iter().map(|m| m.status).collect::<Vec<_>>(), [Ok, Critical]);
    assert_eq!(of(ElementKind::Enclosure)[0].status, Critical);
    for element in &all.elements {
        let of_sample = matches!(
            element.kind,
            ElementKind::PowerSupply
                | ElementKind::Cooling
                | ElementKind::TemperatureSensor
                | ElementKind::VoltageSensor
        );
        assert_eq!(element.recorded, of_sample, "{element:?}");
    }
}

#[test]
fn pages_list_the_elements_of_the_configuration_page() {
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), "data24");
    let all = services(&state, &sample::of("data24").unwrap());
    let page = |code: &str| hex::decode(&all.pages.iter().find(|p| p.code == code).unwrap().hex).unwrap();
    for (code, number) in [("01h", 1), ("02h", 2), ("07h", 7), ("0ah", 10)] {
        let bytes = page(code);
        let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        assert_eq!((bytes[0], len + 4, &bytes[4..8]), (number, bytes.len(), &[0; 4][..]), "{code}");
    }
    let configuration = page("01h");
    assert_eq!(&configuration[8..12], [0x11, 0, 7, 36]);
    assert_eq!(configuration[12] >> 4, 3);
    assert_eq!(&configuration[20..44], b"Ashlar  OpenFlex Data24 ");
    let headers: Vec<[u8; 2]> = configuration[48..76].chunks(4).map(|h| [h[0], h[1]]).collect();
    assert_eq!(headers, [[0x17, 6], [2, 2], [3, 6], [4, 4], [0x12, 4], [7, 2], [0x0e, 1]]);

    let status = page("02h");
    assert_eq!(status[1], 0b110, "critical and noncritical");
    assert_eq!(status.len(), 8 + 4 * headers.iter().map(|h| usize::from(h[1]) + 1).sum::<usize>());
    let element = |index: usize| -> [u8; 4] { status[8 + 4 * index..12 + 4 * index].try_into().unwrap() };
    // Overall; too hot; low spare, located; not there, located; low spare; the same; well.
    assert_eq!(
        [0, 1, 2, 3, 4, 6].map(element),
        [[2, 0, 0, 0], [2, 0, 0, 0x40], [0x43, 0, 2, 0], [5, 0, 2, 0], [0x43, 0, 0, 0], [1, 0, 0, 0]]
    );
    // 317.5 W have no field; 9840 turns; 25 C; 12.11 V; modules; the enclosure.
    assert_eq!(
        [8, 11, 18, 23, 28, 29, 31].map(element),
        [
            [1, 0, 0, 0x20],
            [1, 3, 0xd8, 0x24],
            [1, 0, 45, 0],
            [1, 0, 4, 0xbb],
            [1, 0, 0, 0],
            [2, 0x40, 0, 0],
            [2, 0, 2, 0]
        ]
    );

    let text = String::from_utf8_lossy(&page("07h")).into_owned();
    assert!(text.contains("Slot 06") && text.contains("Module B"));
    assert_eq!(text.matches("(recorded sample)").count(), 16);
    let additional = page("0ah");
    let first = &additional[8..8 + 2 + usize::from(additional[9])];
    assert_eq!((first[0], first[2], first[3], first[4], first[5], first[7]), (0x1b, 1, 1, 2, 0x20, 1));
    assert_eq!(std::str::from_utf8(&first[12..32]).unwrap().trim(), state.drives[0].serial);
    let third = additional[8..].windows(4).position(|w| w == [0x9b, 70, 1, 3]);
    assert!(third.is_some(), "the slot without a drive is marked as invalid");
}

/// Every link and source in a document.
fn links(document: &Value, out: &mut BTreeSet<String>) {
    match document {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value.as_str().filter(|_| field == "@odata.id" || field == "DataSourceUri") {
                    Some(path) => drop(out.insert(path.to_owned())),
                    None => links(value, out),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|v| links(v, out)),
        _ => {}
    }
}

#[test]
fn redfish_documents_have_what_schemas_require_and_their_links_resolve() {
    for model in ["data24", "data60"] {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path(), model);
        let sample = sample::of(model).unwrap();
        let redfish = Redfish { state: &state, sample: &sample };
        let get = |path: &str| redfish.document(path.strip_suffix('/').unwrap_or(path));
        assert_eq!(get("/redfish").unwrap()["v1"], "/redfish/v1/");
        let (mut seen, mut todo) = (BTreeSet::new(), BTreeSet::from(["/redfish/v1/".to_owned()]));
        let mut recorded = 0;
        while let Some(path) = todo.pop_first() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let document = get(&path).unwrap_or_else(|| panic!("{path} leads nowhere"));
            assert_eq!(document["@odata.id"], path.as_str());
            let kind = document["@odata.type"].as_str().unwrap();
            let collection = kind.ends_with("Collection");
            let (schema, _) = kind[1..].split_once('.').unwrap();
            assert!(kind.starts_with('#') && kind.ends_with(&format!(".{schema}")), "{kind}");
            assert!(redfish.metadata().contains(&format!("{schema}_v1.xml")), "{schema}");
            assert!(!document["Name"].as_str().unwrap().is_empty());
            if collection {
                let members = document["Members"].as_array().unwrap();
                assert_eq!(document["Members@odata.count"], members.len());
            } else {
                let last = path.trim_end_matches('/').rsplit('/').next().unwrap();
                let id = document["Id"].as_str().unwrap();
                assert!(id == last || id == "RootService", "{path}: {id}");
            }
            let label = &document["Oem"]["Ashlar"];
            assert_eq!(label["Simulated"], true, "{path}");
            let sampled = ["/Thermal", "/Power", "/Sensors/Temp", "/Sensors/Volt", "/Sensors/Fan"];
            let of_sample = sampled.iter().any(|part| path.contains(part));
            assert_eq!(label["Recorded"], of_sample, "{path}");
            assert_eq!(document["Description"].to_string().contains("not measured"), of_sample, "{path}");
            recorded += usize::from(of_sample);
            links(&document, &mut todo);
        }
        assert!(seen.len() > 60 && recorded > 20, "{} {recorded}", seen.len());
        assert!(get("/redfish/v1/odata").unwrap()["value"].as_array().unwrap().len() == 4);
        for nothing in [
            "/redfish/v2",
            "/redfish/v1x",
            "/redfish/v1/Chassis/y",
            "/redfish/v1/Chassis/x/Drives/0",
            "/redfish/v1/Chassis/x/Drives/01",
            "/redfish/v1/Chassis/x/Drives/7",
            "/redfish/v1/Chassis/x/Sensors/Drive3",
            "/redfish/v1/Storage/x/Volumes/3-1",
            "/redfish/v1/Storage/x/Volumes/2-1",
            "/redfish/v1/Storage/x/Controllers/A/Ports/B1",
            "/redfish/v1/Storage/x/Controllers/C",
        ] {
            assert!(get(nothing).is_none(), "{nothing}");
        }
    }
}

#[test]
fn redfish_shows_drives_namespaces_ports_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), "data24");
    let sample = sample::of("data24").unwrap();
    let redfish = Redfish { state: &state, sample: &sample };
    let get = |path: &str| redfish.document(&format!("{ROOT}{path}")).unwrap();
    let drive = get("/Chassis/x/Drives/2");
    assert_eq!(
        (&drive["SerialNumber"], &drive["CapacityBytes"]),
        (&state.drives[1].serial.clone().into(), &(64u64 << 20).into())
    );
    assert_eq!(
        (&drive["Status"]["Health"], &drive["LocationIndicatorActive"]),
        (&"Warning".into(), &true.into())
    );
    assert_eq!((&drive["FailurePredicted"], &drive["MediaType"]), (&true.into(), &"SSD".into()));
    assert_eq!(drive["Links"]["Volumes"].as_array().unwrap().len(), 1, "the other one is lost");
    let gone = get("/Chassis/x/Drives/3");
    assert_eq!((&gone["Status"]["State"], &gone["SerialNumber"]), (&"Absent".into(), &Value::Null));
    assert_eq!(gone["LocationIndicatorActive"], true);
    let sensor = get("/Chassis/x/Sensors/Drive2");
    assert_eq!(
        (&sensor["Reading"], &sensor["Thresholds"]["UpperCaution"]["Reading"]),
        (&71.0.into(), &70.0.into())
    );
    assert_eq!(get("/Chassis/x")["Status"]["HealthRollup"], "Critical");
    let port = |name: &str| get(&format!("/Storage/x/Controllers/{}/Ports/{name}", &name[..1]));
    assert_eq!(
        (&port("A1")["LinkStatus"], &port("B2")["LinkStatus"]),
        (&"LinkUp".into(), &"LinkDown".into())
    );
    let volume = get("/Storage/x/Volumes/2-2");
    assert_eq!(volume["Identifiers"][0]["DurableName"], state.drives[1].namespaces[1].uuid.as_str());
    let fan = get("/Chassis/x/ThermalSubsystem/Fans/1");
    assert_eq!(
        (&fan["SpeedPercent"]["SpeedRPM"], &fan["Oem"]["Ashlar"]["Recorded"]),
        (&9840.into(), &true.into())
    );
}

/// A request; the head and the body of the answer.
fn ask(address: &str, method: &str, path: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut out = String::new();
    stream.read_to_string(&mut out).unwrap();
    let (head, body) = out.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn redfish_is_served_over_http_and_only_reads() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::new(folder.path(), "bays = 2\n[drive]\ncapacity = \"16MiB\"");
    let address = served.state().redfish.unwrap();
    let (head, body) = ask(&address, "GET", "/redfish/v1");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.to_lowercase().contains("odata-version: 4.0"),
        "{head}"
    );
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["RedfishVersion"], "1.18.0");
    assert_eq!(ask(&address, "GET", "/redfish/v1/?only=1").0, ask(&address, "GET", "/redfish/v1/").0);
    let (head, body) = ask(&address, "HEAD", "/redfish/v1/Chassis");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty());
    let (head, body) = ask(&address, "GET", "/redfish/v1/$metadata");
    assert!(head.contains("application/xml") && body.contains("edmx:Reference"), "{head}");
    for (method, path, status, code) in [
        ("GET", "/redfish/v1/Nothing", "404", "ResourceMissingAtURI"),
        ("GET", "/", "404", "ResourceMissingAtURI"),
        ("GET", "/redfish/v1/Chassis?$expand=.", "501", "QueryNotSupported"),
        ("POST", "/redfish/v1/Chassis", "405", "OperationNotAllowed"),
        ("PATCH", "/redfish/v1/Chassis/s/Drives/1", "405", "OperationNotAllowed"),
        ("DELETE", "/redfish/v1", "405", "OperationNotAllowed"),
    ] {
        let (head, body) = ask(&address, method, path);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        let error = serde_json::from_str::<Value>(&body).unwrap();
        assert!(error["error"]["code"].as_str().unwrap().ends_with(code), "{body}");
    }
    // It follows the enclosure.
    served.call(Call::Locate { bay: 2, on: true }).unwrap();
    served.call(Call::Inject { fault: FaultSpec::DriveGone { bay: 1 } }).unwrap();
    let drive = |bay: u32| -> Value {
        serde_json::from_str(&ask(&address, "GET", &format!("/redfish/v1/Chassis/s/Drives/{bay}")).1).unwrap()
    };
    assert_eq!(
        (&drive(2)["LocationIndicatorActive"], &drive(1)["Status"]["State"]),
        (&true.into(), &"Absent".into())
    );
    served.call(Call::Locate { bay: 2, on: false }).unwrap();
    assert_eq!(drive(2)["LocationIndicatorActive"], false);
    assert_eq!(served.call(Call::Locate { bay: 3, on: true }).unwrap_err().kind, Kind::NotFound);
    let shown = served.services();
    assert_eq!(shown.elements[0].status, ElementStatus::NotInstalled);
    // Other machines only with permission.
    let open = served.run(listen("0.0.0.0:0", false)).map(drop).unwrap_err();
    assert!(open.kind == Kind::Invalid && open.message.contains("allow anyone"), "{open}");
    assert!(served.run(listen("0.0.0.0:0", true)).is_ok());
    assert_eq!(served.run(listen(&address, false)).map(drop).unwrap_err().kind, Kind::Conflict);
    // Connections that are idle do not keep others out for ever, and those that ended make room.
    let idle: Vec<_> = (0..16).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    assert!(ask(&address, "GET", "/redfish").1.contains("/redfish/v1/"));
    drop(idle);
    until(|| ask(&address, "GET", "/redfish").0.contains("200"));
}
