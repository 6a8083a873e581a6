//! Virtual drives as namespaces of the NVMe/TCP target: a group is a subsystem, a virtual drive is a namespace of it.
//!
//! Invariant: ranges that come are whole blocks inside of the virtual drive, or are refused by it.
//!
//! Must not depend on: the protocol.

use std::sync::Arc;

use ashlar_nvme_tcp::{
    Admission, Fault, Namespace, Registrant, ReservationStatus, Reservations, Subsystem, Subsystems, TlsMode,
};
use ashlar_raid::{BLOCK, Error, Id};

use crate::api;
use crate::export::Exported;
use crate::group::InService;
use crate::identity;
use crate::owner::Owner;

/// An error in the words of NVMe.
fn fault(error: Error) -> Fault {
    match error {
        Error::State(_) => Fault::Gone,
        Error::Range { .. } => Fault::Range,
        Error::NoSpace => Fault::NoSpace,
        Error::Lost { .. } | Error::Damaged(_) => Fault::Media,
        _ => Fault::Internal,
    }
}

impl Namespace for Exported {
    fn block(&self) -> u32 {
        BLOCK as u32
    }

    fn blocks(&self) -> u64 {
        self.bytes() / BLOCK as u64
    }

    fn id(&self) -> Id {
        self.id
    }

    fn used(&self) -> Option<u64> {
        self.given().map(|bytes| bytes / BLOCK as u64)
    }

    fn reservations(&self) -> Option<&Reservations> {
        Some(&self.reservations)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.load(at, out).map_err(fault)
    }

    fn write(&self, at: u64, data: Vec<u8>, durable: bool) -> Result<(), Fault> {
        self.store(at, data, durable).map_err(fault)
    }

    fn flush(&self) -> Result<(), Fault> {
        self.sync().map_err(fault)
    }

    fn zero(&self, at: u64, len: u64, keep: bool, durable: bool) -> Result<(), Fault> {
        self.clear(at, len, keep, durable).map_err(fault)
    }

    fn trim(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.clear(at, len, false, false).map_err(fault)
    }
}

/// What hosts have registered and reserved, for people. None: nothing.
pub(crate) fn describe(status: &ReservationStatus) -> Option<api::Reservation> {
    let of = |r: &Registrant| api::Registrant {
        nqn: r.nqn.clone(),
        host_id: identity::uuid(&r.host),
        key: format!("{:#x}", r.key),
        holder: r.holder,
    };
    (!status.registrants.is_empty()).then(|| api::Reservation {
        kind: status.kind.map(|k| k.to_string()),
        generation: status.generation,
        registrants: status.registrants.iter().map(of).collect(),
    })
}

impl Subsystem for InService {
    fn nqn(&self) -> String {
        identity::nqn(&self.id)
    }

    fn serial(&self) -> String {
        hex::encode(&self.id[..10])
    }

    fn model(&self) -> String {
        "Ashlar array".into()
    }

    fn namespaces(&self) -> Vec<u32> {
        let mut out: Vec<u32> = self.all_exported().iter().map(|e| e.nsid).filter(|n| *n > 0).collect();
        out.sort_unstable();
        out
    }

    fn namespace(&self, nsid: u32) -> Option<Arc<dyn Namespace>> {
        self.exported_as(nsid).map(|e| e as _)
    }

    fn in_service(&self) -> bool {
        self.is_open()
    }
}

impl Subsystems for Owner {
    fn list(&self) -> Vec<Arc<dyn Subsystem>> {
        self.groups().into_iter().map(|g| g as _).collect()
    }

    fn admission(&self, host: &str) -> Admission {
        self.hosts().map_or(Admission::Open, |hosts| hosts.admission(host))
    }

    fn tls(&self) -> TlsMode {
        self.nvme_tls()
    }
}
