//! The faults in force, and what they mean for drives, ports and blocks.
//!
//! Invariants: numbers of faults are never used again; a fault that names something that is not there is refused.
//!
//! Must not depend on: hosts, time.

use crate::api::{Blocks, Fault, FaultSpec};
use crate::error::Error;
use crate::selection::Selection;
use crate::setup::Setup;

/// Faults at once, at most.
const MOST: usize = 4096;

/// A fault in force.
struct Active {
    id: u32,
    spec: FaultSpec,
    /// Of a fault that concerns blocks.
    selection: Option<Selection>,
}

/// All faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    last: u32,
    active: Vec<Active>,
}

/// That a bay is not there.
pub(crate) fn no_bay(setup: &Setup, bay: usize) -> Error {
    Error::not_found(format!("there is no bay {bay}; bays are 1 to {}", setup.bays))
}

/// Refuses a fault of something that is not there.
///
/// # Errors
/// [`Kind::NotFound`](crate::Kind::NotFound), [`Kind::Invalid`](crate::Kind::Invalid).
pub(crate) fn check(setup: &Setup, spec: &FaultSpec) -> Result<(), Error> {
    let bay_there = |bay: usize| match (1..=setup.bays).contains(&bay) {
        true => Ok(()),
        false => Err(no_bay(setup, bay)),
    };
    let there = |bay: usize, namespace: u32| {
        bay_there(bay)?;
        match (1..=setup.namespaces).contains(&namespace) {
            true => Ok(()),
            false => Err(Error::not_found(format!("drives have no namespace {namespace}"))),
        }
    };
    match spec {
        FaultSpec::DriveGone { bay } => bay_there(*bay),
        FaultSpec::SlowDrive { bay, factor } => {
            bay_there(*bay)?;
            match (1.0..=1e6).contains(factor) {
                true => Ok(()),
                false => Err(Error::invalid("the factor of a slow drive is 1 to 1000000")),
            }
        }
        FaultSpec::NamespaceLost { bay, namespace } => there(*bay, *namespace),
        FaultSpec::PortDown { port } => {
            let found = setup.port_named(port).map(|_| ());
            found.ok_or_else(|| Error::not_found(format!("there is no port {port:?}")))
        }
        FaultSpec::ModuleDown { module } => {
            let found = setup.module_named(module).map(|_| ());
            found.ok_or_else(|| Error::not_found(format!("there is no module {module:?}")))
        }
        FaultSpec::EnclosureDown {} => Ok(()),
        FaultSpec::CorruptRead { bay, namespace, blocks }
        | FaultSpec::LostWrite { bay, namespace, blocks } => {
            there(*bay, *namespace)?;
            check_blocks(setup, blocks)
        }
    }
}

fn check_blocks(setup: &Setup, blocks: &Blocks) -> Result<(), Error> {
    let last = blocks.last.unwrap_or(setup.blocks() - 1);
    if blocks.first > last || last >= setup.blocks() {
        let end = setup.blocks() - 1;
        return Err(Error::invalid(format!("blocks {} to {last} are not within 0 to {end}", blocks.first)));
    }
    if blocks.limit == Some(0) {
        return Err(Error::invalid("the limit of hits is at least 1"));
    }
    match blocks.rate > 0.0 && blocks.rate <= 1.0 {
        true => Ok(()),
        false => Err(Error::invalid("the rate is a share of the blocks, above 0 and at most 1")),
    }
}

/// The blocks that a fault concerns.
fn selection(setup: &Setup, spec: &FaultSpec) -> Option<Selection> {
    let (bay, namespace, blocks, times) = match spec {
        FaultSpec::CorruptRead { bay, namespace, blocks } => (bay, namespace, blocks, 0),
        FaultSpec::LostWrite { bay, namespace, blocks } => (bay, namespace, blocks, 1),
        _ => return None,
    };
    let last = blocks.last.unwrap_or(setup.blocks() - 1);
    Some(Selection::new(
        blocks.seed.unwrap_or(setup.seed),
        (*bay as u64, u64::from(*namespace)),
        blocks.rate,
        (blocks.first, last),
        (blocks.times.unwrap_or(times), blocks.limit.unwrap_or(u64::MAX)),
    ))
}

impl Faults {
    /// Adds a fault.
    ///
    /// # Errors
    /// As [`check`]; there are too many.
    pub(crate) fn inject(&mut self, setup: &Setup, spec: FaultSpec) -> Result<Fault, Error> {
        check(setup, &spec)?;
        if self.active.len() >= MOST {
            return Err(Error::conflict(format!("there are {MOST} faults already: clear some")));
        }
        self.last += 1;
        let selection = selection(setup, &spec);
        let active = Active { id: self.last, spec, selection };
        let fault = active.describe();
        self.active.push(active);
        Ok(fault)
    }

    /// Ends faults; none named: all.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound): one is not there; then none is ended.
    pub(crate) fn clear(&mut self, ids: &[u32]) -> Result<Vec<Fault>, Error> {
        if let Some(id) = ids.iter().find(|id| self.active.iter().all(|a| a.id != **id)) {
            return Err(Error::not_found(format!("there is no fault {id}")));
        }
        let ends = |a: &Active| ids.is_empty() || ids.contains(&a.id);
        let ended = self.active.iter().filter(|a| ends(a)).map(Active::describe).collect();
        self.active.retain(|a| !ends(a));
        Ok(ended)
    }

    /// All, the oldest first.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.active.iter().map(Active::describe).collect()
    }

    fn any(&self, is: impl Fn(&FaultSpec) -> bool) -> bool {
        self.active.iter().any(|a| is(&a.spec))
    }

    /// Whether the drive was pulled.
    pub(crate) fn gone(&self, at: usize) -> bool {
        self.any(|f| matches!(f, FaultSpec::DriveGone { bay } if *bay == at))
    }

    /// How many times longer the drive takes.
    pub(crate) fn slowness(&self, at: usize) -> f64 {
        let of = |a: &Active| match a.spec {
            FaultSpec::SlowDrive { bay, factor } if bay == at => factor,
            _ => 1.0,
        };
        self.active.iter().map(of).product()
    }

    /// Whether the namespace is lost.
    pub(crate) fn lost(&self, at: usize, nsid: u32) -> bool {
        self.any(
            |f| matches!(f, FaultSpec::NamespaceLost { bay, namespace } if (*bay, *namespace) == (at, nsid)),
        )
    }

    /// Whether the drive returns wrong data, or loses writes.
    pub(crate) fn lies(&self, at: usize) -> bool {
        let is = |f: &FaultSpec| matches!(f, FaultSpec::CorruptRead { bay, .. } | FaultSpec::LostWrite { bay, .. } if *bay == at);
        self.any(is)
    }

    /// Whether the port has no link.
    pub(crate) fn down(&self, setup: &Setup, port: usize) -> bool {
        self.any(|f| match f {
            FaultSpec::EnclosureDown {} => true,
            FaultSpec::ModuleDown { module } => {
                setup.module_named(module) == Some(port / setup.ports_per_module)
            }
            FaultSpec::PortDown { port: name } => setup.port_named(name) == Some(port),
            _ => false,
        })
    }

    /// Damages what was read of a namespace, from a block on. Returns how many blocks.
    pub(crate) fn corrupt(&self, at: usize, nsid: u32, first: u64, block: usize, out: &mut [u8]) -> u64 {
        let mut damaged = 0;
        for active in &self.active {
            let FaultSpec::CorruptRead { bay, namespace, .. } = &active.spec else { continue };
            let Some(selection) = active.selection.as_ref().filter(|_| (*bay, *namespace) == (at, nsid))
            else {
                continue;
            };
            for (number, bytes) in (first..).zip(out.chunks_mut(block)) {
                if selection.hit(number) {
                    let bit = selection.bit(number, bytes.len());
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    damaged += 1;
                }
            }
        }
        damaged
    }

    /// Which of `count` blocks of a namespace, from a block on, are written; the others are lost. A block that is written is no
    /// longer corrupt.
    pub(crate) fn written(&self, at: usize, nsid: u32, first: u64, count: u64) -> Vec<bool> {
        let mut kept = vec![true; count as usize];
        let here = |bay: usize, namespace: u32| (bay, namespace) == (at, nsid);
        for active in &self.active {
            let FaultSpec::LostWrite { bay, namespace, .. } = active.spec else { continue };
            if let Some(selection) = active.selection.as_ref().filter(|_| here(bay, namespace)) {
                // A write that is lost already does not count again.
                (first..).zip(&mut kept).for_each(|(number, kept)| *kept = *kept && !selection.hit(number));
            }
        }
        for active in &self.active {
            let FaultSpec::CorruptRead { bay, namespace, .. } = active.spec else { continue };
            if let Some(selection) = active.selection.as_ref().filter(|_| here(bay, namespace)) {
                (first..)
                    .zip(&kept)
                    .filter(|(_, kept)| **kept)
                    .for_each(|(number, _)| selection.spare(number));
            }
        }
        kept
    }
}

impl Active {
    fn describe(&self) -> Fault {
        let (hits, blocks_hit) = self.selection.as_ref().map(Selection::hits).unwrap_or_default();
        Fault { id: self.id, spec: self.spec.clone(), hits, blocks_hit }
    }
}
