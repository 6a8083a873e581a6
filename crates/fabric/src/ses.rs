//! The diagnostic pages of SCSI Enclosure Services (SES-3): configuration (01h), enclosure status (02h), element descriptor (07h) and additional
//! element status (0Ah), as an enclosure would return them. Nothing here carries them to a host: the command line prints them, and
//! `sg_ses --inhex` reads what it prints.
//!
//! Pure: the elements are arguments.
//!
//! Invariants: every page lists the types and elements of the configuration page in its order; numbers that a field cannot have are
//! cut to its range.
//!
//! Must not depend on: the process, samples.

use crate::api::{Element, ElementKind, ElementStatus, SesPage, State};

/// The types of elements, in the order of the pages. Slots are first: the additional element status counts from them.
const KINDS: [ElementKind; 7] = [
    ElementKind::Slot,
    ElementKind::PowerSupply,
    ElementKind::Cooling,
    ElementKind::TemperatureSensor,
    ElementKind::VoltageSensor,
    ElementKind::Module,
    ElementKind::Enclosure,
];
/// Elements of a type, at most.
const MOST: usize = 255;
/// A page never changes its elements while the process runs.
const GENERATION: u32 = 0;
/// Additional element status: the protocol is PCI Express, and that NVMe.
const PCIE: u8 = 0xb;
const NVME: u8 = 1 << 5;
/// The element index of a descriptor counts overall elements, too (EIIOE).
const WITH_OVERALL: u8 = 1;
/// A port descriptor of NVMe.
const PORT_LEN: usize = 8;

/// All pages.
pub(crate) fn pages(state: &State, elements: &[Element]) -> Vec<SesPage> {
    // A type has at most 255 elements.
    let elements: Vec<Element> = elements.iter().filter(|e| e.number <= MOST).cloned().collect();
    let elements = &elements[..];
    let page = |code: u8, name: &str, flags: u8, body: Vec<u8>| {
        let mut out = vec![code, flags];
        let len = body.len() + 4;
        out.extend_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(&GENERATION.to_be_bytes());
        out.extend(body);
        SesPage { code: format!("{code:02x}h"), name: name.to_owned(), hex: hex::encode(out) }
    };
    vec![
        // The number of secondary subenclosures is none.
        page(0x01, "configuration", 0, configuration(state, elements)),
        page(0x02, "enclosure status", conditions(elements), statuses(elements)),
        page(0x07, "element descriptor", 0, descriptors(elements)),
        page(0x0a, "additional element status", 0, additional(state, elements)),
    ]
}

fn of(elements: &[Element], kind: ElementKind) -> impl Iterator<Item = &Element> {
    elements.iter().filter(move |e| e.kind == kind)
}

fn text<const N: usize>(value: &str) -> [u8; N] {
    let mut out = [b' '; N];
    let printable = value.bytes().filter(|b| (0x20..0x7f).contains(b));
    out.iter_mut().zip(printable).for_each(|(to, from)| *to = from);
    out
}

fn configuration(state: &State, elements: &[Element]) -> Vec<u8> {
    // One enclosure services process of one; the primary subenclosure; 36 bytes follow.
    let mut out = vec![1 << 4 | 1, 0, KINDS.len() as u8, 36];
    // A locally assigned identifier (NAA 3h) that comes from the name and the seed.
    let id =
        ashlar_checksum::sha256(format!("enclosure services\n{}\n{}", state.name, state.seed).as_bytes());
    out.push(0x30 | id[0] & 0x0f);
    out.extend_from_slice(&id[1..8]);
    out.extend(text::<8>("Ashlar"));
    out.extend(text::<16>(&state.title));
    out.extend(text::<4>(&state.version));
    for kind in KINDS {
        let name = kind.name();
        let count = of(elements, kind).count();
        out.extend_from_slice(&[kind.code(), count as u8, 0, name.len() as u8]);
    }
    KINDS.iter().for_each(|kind| out.extend_from_slice(kind.name().as_bytes()));
    out
}

/// The conditions of the enclosure: critical, noncritical.
fn conditions(elements: &[Element]) -> u8 {
    let any = |status| u8::from(elements.iter().any(|e| e.status == status));
    any(ElementStatus::Critical) << 1 | any(ElementStatus::Noncritical) << 2
}

fn statuses(elements: &[Element]) -> Vec<u8> {
    let mut out = Vec::new();
    for kind in KINDS {
        let there = || of(elements, kind).map(|e| e.status).filter(|s| *s != ElementStatus::NotInstalled);
        // The overall status has the worst code and nothing else.
        out.extend_from_slice(&[there().max().unwrap_or(ElementStatus::Ok).code(), 0, 0, 0]);
        of(elements, kind).for_each(|e| out.extend_from_slice(&status(e)));
    }
    out
}

/// An element's status, as its type has it.
fn status(element: &Element) -> [u8; 4] {
    let code = element.status.code() | u8::from(element.predicted_failure) << 6;
    let (ident, fail) = (u8::from(element.identify), u8::from(element.fault));
    let value = element.value.unwrap_or_default();
    match element.kind {
        // IDENT; FAULT SENSED.
        ElementKind::Slot => [code, 0, ident << 1, fail << 6],
        // RQSTED ON.
        ElementKind::PowerSupply => [code, ident << 7, 0, fail << 6 | 1 << 5],
        ElementKind::Cooling => {
            let speed = (value / 10.0).round().clamp(0.0, 2047.0) as u16;
            // The speed code is that of an intermediate speed.
            [code, ident << 7 | (speed >> 8) as u8, speed as u8, fail << 6 | 1 << 5 | 4]
        }
        ElementKind::TemperatureSensor => {
            // From -19 degrees on; 0 is reserved.
            [code, ident << 7 | fail << 6, (value.round() + 20.0).clamp(1.0, 255.0) as u8, 0]
        }
        ElementKind::VoltageSensor => {
            let volts = ((value * 100.0).round().clamp(-32_768.0, 32_767.0) as i16).to_be_bytes();
            [code, ident << 7 | fail << 6, volts[0], volts[1]]
        }
        ElementKind::Module => [code, ident << 7 | fail << 6, 0, 0],
        // FAILURE INDICATION, WARNING INDICATION.
        ElementKind::Enclosure => {
            let (failure, warning) = match element.status {
                ElementStatus::Critical => (1, 0),
                ElementStatus::Noncritical => (0, 1),
                _ => (0, 0),
            };
            [code, ident << 7, failure << 1 | warning, 0]
        }
    }
}

fn descriptors(elements: &[Element]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |name: &str| {
        let name = name.as_bytes();
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(name);
    };
    for kind in KINDS {
        add(kind.name());
        for element in of(elements, kind) {
            // What is recorded says so here, too: pages have no other place for it.
            let mark = if element.recorded { " (recorded sample)" } else { "" };
            add(&format!("{}{mark}", element.name));
        }
    }
    out
}

/// What is in each slot: an NVMe drive with a port for each module.
fn additional(state: &State, elements: &[Element]) -> Vec<u8> {
    let mut out = Vec::new();
    let modules = crate::services::modules(state).len();
    for (slot, drive) in of(elements, ElementKind::Slot).zip(&state.drives) {
        let there = slot.status != ElementStatus::NotInstalled;
        let ports = if there { modules } else { 0 };
        let len = 70 + PORT_LEN * ports;
        // INVALID: nothing is there; EIP.
        out.extend_from_slice(&[u8::from(!there) << 7 | 1 << 4 | PCIE, len as u8, WITH_OVERALL]);
        // Element index: the overall element of the slots is 0.
        out.push(slot.number as u8);
        out.extend_from_slice(&[ports as u8, NVME, 0, slot.number as u8, 0, 0]);
        // The PCI vendor: not reported.
        out.extend_from_slice(&[0xff, 0xff]);
        out.extend(text::<20>(if there { &drive.serial } else { "" }));
        out.extend(text::<40>(if there { &drive.model } else { "" }));
        // No physical slot, bus address or controller of a port is known.
        out.extend(vec![0; PORT_LEN * ports]);
    }
    out
}
