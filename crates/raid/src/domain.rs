//! Failure domains: which members fail together, and members that are known to be gone.
//!
//! A drive with several namespaces is one failure domain: when it is pulled, all of them are lost. A set that has two of them
//! has lost two members then. So members of one set are of different domains, unless whoever makes the group permits it; in a declustered group
//! all members are.
//!
//! Invariants: a medium that does not know its domain shares none; members that are gone are taken out of service only as long as
//! every set goes on without them.
//!
//! Must not depend on: what a domain is made of.

use crate::Error;
use crate::geometry::Geometry;
use crate::group::Group;
use crate::member::Device;

/// A device, and what it fails with if that is known.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) domain: Option<String>,
}

impl Named {
    pub(crate) fn of(device: &Device) -> Named {
        Named { name: device.name.clone(), domain: device.medium.domain() }
    }
}

/// Refuses devices, by position, of which two in one set fail together. Without redundancy each loss is one of data anyway.
pub(crate) fn all_apart(geometry: &Geometry, devices: &[Named]) -> Result<(), Error> {
    if geometry.m == 0 {
        return Ok(());
    }
    for (slot, Named { name, domain }) in devices.iter().enumerate() {
        let Some(domain) = domain else { continue };
        // Any two members of a declustered group have stripes together.
        let first = geometry.members_of(geometry.part(slot)).start;
        if let Some(other) = devices[first..slot].iter().find(|o| o.domain.as_ref() == Some(domain)) {
            return Err(Error::Domain {
                device: name.clone(),
                other: other.name.clone(),
                domain: domain.clone(),
            });
        }
    }
    Ok(())
}

impl Group {
    /// The member of the set of a position, beside the one at the position itself, that is of a domain.
    fn shares(&self, slot: usize, domain: Option<String>) -> Option<(usize, String)> {
        let domain = domain?;
        let same = |o: &usize| self.members[*o].as_ref().and_then(|m| m.domain()).as_ref() == Some(&domain);
        let beside = |g: Geometry| g.members_of(g.part(slot)).filter(|o| *o != slot).find(same);
        // A group that grows has two shapes.
        let other = self.shapes().filter(|g| g.m > 0 && slot < g.members()).find_map(beside)?;
        Some((other, domain))
    }

    /// Whether a device at a position would fail together with no other member of the set that is attached.
    ///
    /// # Errors
    /// [`Error::Domain`].
    pub fn apart(&self, slot: usize, device: &Device) -> Result<(), Error> {
        match self.shares(slot, device.medium.domain()) {
            None => Ok(()),
            Some((other, domain)) => Err(Error::Domain {
                device: device.name.clone(),
                other: self.members[other].as_ref().map(|m| m.name.clone()).unwrap_or_default(),
                domain,
            }),
        }
    }

    /// The hot spare for a position: its place in the list. Of equal ones it is the last.
    pub(crate) fn best_spare(&self, slot: usize) -> Option<usize> {
        let there = (0..self.spares.len()).filter(|place| self.spares[*place].gone().is_none());
        there.max_by_key(|place| (self.shares(slot, self.spares[*place].domain()).is_none(), *place))
    }

    /// Takes members out of service that are known to be gone: their positions. Requests would find it out, but a group without
    /// requests would not. If a set could not go on without its members that are gone, they stay: without a request nothing is lost, and they may
    /// come back.
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::State`]: the group has stopped.
    pub fn drop_gone(&mut self) -> Result<Vec<usize>, Error> {
        self.running()?;
        let why = |member: &Option<crate::member::Member>| member.as_ref().and_then(|m| m.gone());
        let gone: Vec<Option<String>> = self.members.iter().map(why).collect();
        let mut dropped: Vec<usize> = (0..gone.len()).filter(|s| gone[*s].is_some()).collect();
        for g in self.shapes() {
            for part in 0..g.parts() {
                let slots = g.members_of(part);
                // One that is being rebuilt counts as out of service already, unless a spare has the rest of its blocks.
                let more = |s: &usize| gone[*s].is_some() && self.is_whole(*s) && !self.is_whole_without(*s);
                if self.down(&g, part) + slots.clone().filter(more).count() > g.m {
                    dropped.retain(|s| !slots.contains(s));
                }
            }
        }
        for slot in &dropped {
            let why = gone[*slot].clone().unwrap_or_default();
            self.fail(*slot, "it is gone", &std::io::Error::other(why));
        }
        self.settle()?;
        Ok(dropped)
    }
}
