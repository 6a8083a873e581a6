//! Drives of one node that fail together: what a plan for placement groups may lose with them. Pure functions.
//!
//! Two namespaces of one NVMe drive, or two partitions of one disk, are two drives of the map and one failure domain. A domain
//! is below its node: equal names on two nodes are two domains, because names of disks need not be unique.
//!
//! Invariant: where no two drives share a domain, nothing is refused.
//!
//! Must not depend on: what a domain is made of.

use std::collections::{BTreeMap, HashSet};

use ashlar_format::DriveId;

use crate::layout::Plan;
use crate::map::{Drive, Map, NewDrive};
use crate::{Error, Result};

/// What an operator accepts of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accept {
    /// The loss of a node may cost a group more shards than its code can lose.
    pub node_loss: bool,
    /// So may the loss of a disk of which several drives are parts.
    pub shared_drive: bool,
}

/// The domains that several drives share, with the drives.
fn shared(drives: &[NewDrive]) -> BTreeMap<(u16, &str), Vec<&NewDrive>> {
    let mut of: BTreeMap<_, Vec<&NewDrive>> = BTreeMap::new();
    for drive in drives {
        if let Some(domain) = &drive.enclosure {
            of.entry((drive.node, domain.as_str())).or_default().push(drive);
        }
    }
    of.retain(|_, drives| drives.len() > 1);
    of
}

/// Whether some drives share a domain.
pub(crate) fn any_shared(drives: &[NewDrive]) -> bool {
    !shared(drives).is_empty()
}

/// Refuses a plan in which the loss of one domain costs a group more shards than its code can lose. Without parity, the loss of
/// any drive is one of data anyway.
pub(crate) fn check(drives: &[NewDrive], plan: &Plan) -> Result<()> {
    let m = usize::from(plan.code.m);
    if m == 0 {
        return Ok(());
    }
    for ((node, domain), drives) in shared(drives) {
        let ids: HashSet<DriveId> = drives.iter().map(|d| d.id).collect();
        let slots = plan.groups.iter().map(|group| group.iter().filter(|d| ids.contains(*d)).count());
        let most = slots.max().unwrap_or(0);
        if most > m {
            let paths: Vec<&str> = drives.iter().map(|d| d.path.as_str()).collect();
            let of_node = if node == 0 { String::new() } else { format!(" of node {node}") };
            return Err(Error::Layout(format!(
                "code {}: {}{of_node} are parts of one drive ({domain}), which has up to {most} shards of an object, and {m} \
                 may be lost: the loss of this drive would lose objects. Choose a code with more parity, or more drives that \
                 fail independently of each other, or accept it with --allow-shared-drive",
                plan.code,
                paths.join(", "),
            )));
        }
    }
    Ok(())
}

impl Drive {
    /// Whether it fails together with another drive, as a part of the same disk.
    pub(crate) fn fails_with(&self, other: &Drive) -> bool {
        self.node == other.node && self.enclosure.is_some() && self.enclosure == other.enclosure
    }
}

impl Map {
    /// The same where a drive is in this failure domain below its node; `None`: not told.
    #[must_use]
    pub fn in_domain(mut self, id: DriveId, domain: Option<String>) -> Map {
        if let Some(drive) = self.drives.iter_mut().find(|d| d.id == id) {
            drive.enclosure = domain;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use ashlar_format::DeploymentId;

    use super::*;
    use crate::CodeSpec;

    const DEPLOYMENT: DeploymentId = DeploymentId([7; 16]);

    /// Drives of a node; two are parts of each disk.
    fn pairs(count: u8, node: u16) -> Vec<NewDrive> {
        let drive = |n: u8| NewDrive {
            id: DriveId([16 * node as u8 + n; 16]),
            path: format!("/d{n}"),
            weight: 1000,
            node,
            rack: None,
            enclosure: Some(format!("the disk {}", n / 2)),
        };
        (0..count).map(drive).collect()
    }

    fn alone(drives: &[NewDrive], code: &str, shared_drive: bool) -> Result<Map> {
        Map::first_alone(DEPLOYMENT, drives, CodeSpec::parse(code).ok(), None, shared_drive)
    }

    /// The most slots of a group on one disk.
    fn most(map: &Map) -> usize {
        let of = |g: &crate::Group, a: &Drive| {
            let same = |d: &Drive| d.id == a.id || d.fails_with(a);
            g.slots.iter().filter(|s| same(map.drive(s.drive).unwrap())).count()
        };
        map.groups.iter().flat_map(|g| map.drives.iter().map(move |d| of(g, d))).max().unwrap()
    }

    #[test]
    fn loss_of_a_disk_is_survived_or_accepted_by_name() {
        for (count, code, on_disk) in
            [(8, "6+2", 2), (8, "4+4", 2), (8, "3+1", 1), (8, "2+1", 1), (4, "2+2", 2), (16, "7+1", 1)]
        {
            let map = alone(&pairs(count, 0), code, false).unwrap();
            assert_eq!(most(&map), on_disk, "{count} {code}");
            assert_eq!(map.drives[0].enclosure.as_deref(), Some("the disk 0"), "it is stored");
        }
        for (count, code) in [(8, "7+1"), (8, "4+1"), (2, "1+1"), (3, "2+1")] {
            let why = alone(&pairs(count, 0), code, false).unwrap_err().to_string();
            assert!(
                why.contains("/d0, /d1 are parts of one drive (the disk 0)")
                    && why.contains("--allow-shared-drive"),
                "{why}"
            );
            assert_eq!(most(&alone(&pairs(count, 0), code, true).unwrap()), 2);
        }
        // Without parity there is nothing to protect.
        alone(&pairs(4, 0), "4+0", false).unwrap();
    }

    #[test]
    fn disks_of_two_nodes_are_two_domains() {
        let drives: Vec<NewDrive> = (1..=4).flat_map(|node| pairs(4, node)).collect();
        let code = |text| CodeSpec::parse(text).ok();
        let form = |text, accept| Map::first_over_nodes(DEPLOYMENT, &drives, code(text), None, accept);
        assert_eq!(most(&form("6+2", Accept::default()).unwrap()), 1);
        assert_eq!(most(&form("7+1", Accept { node_loss: true, shared_drive: false }).unwrap()), 1);
        assert_eq!(most(&form("12+4", Accept::default()).unwrap()), 2);
        let node_loss = Accept { node_loss: true, shared_drive: false };
        let why = form("15+1", node_loss).unwrap_err().to_string();
        assert!(
            why.contains("/d0, /d1 of node 1 are parts of one drive") && why.contains("2 shards"),
            "{why}"
        );
        form("15+1", Accept { shared_drive: true, ..node_loss }).unwrap();
    }

    #[test]
    fn a_machine_whose_drives_share_nothing_is_planned_as_before() {
        let mut drives = pairs(20, 0);
        let plain: Vec<_> = drives.iter().map(|d| (d.id, d.path.clone(), d.weight)).collect();
        let was = Map::first(DEPLOYMENT, &plain, None, None).unwrap();
        for (n, drive) in drives.iter_mut().enumerate() {
            drive.enclosure = Some(format!("the disk {n}"));
        }
        let map = Map::first_alone(DEPLOYMENT, &drives, None, None, false).unwrap();
        assert_eq!(map.groups, was.groups);
    }

    #[test]
    fn a_replacement_is_in_its_own_domain() {
        let map = alone(&pairs(4, 0), "2+2", false).unwrap();
        let (old, new) = (map.drives[0].id, DriveId([99; 16]));
        let next = map.replace(old, new, "/new", 1000).unwrap().in_domain(new, Some("the disk 9".into()));
        assert_eq!(next.drive(new).unwrap().enclosure.as_deref(), Some("the disk 9"));
        assert_eq!(next.drive(old).unwrap().enclosure.as_deref(), Some("the disk 0"));
    }
}
