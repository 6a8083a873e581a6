//! Drives that fail together: what a plan for placement groups may lose with them. Pure functions.
//!
//! Two namespaces of one NVMe drive, or two partitions of one disk, are two drives of the map and one failure domain. A domain is below its node, and equal names
//! on two nodes are two domains, because names of disks need not be unique. A domain that nodes reach over a network is the same on all of them: its text in
//! the map (`enclosure`) begins with [`ON_NETWORK`].
//!
//! Invariant: where no two drives share a domain, nothing is refused.
//!
//! Must not depend on: what a domain is made of.

use std::collections::{BTreeMap, HashMap, HashSet};

use ashlar_format::DriveId;

use crate::layout::Plan;
use crate::map::{Drive, DriveState, Map, NewDrive};
use crate::{Error, Result};

/// How the text of a domain begins that is the same on all nodes.
const ON_NETWORK: &str = "fabric: ";

/// What an operator accepts of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accept {
    /// The loss of a node may cost a group more shards than its code can lose.
    pub node_loss: bool,
    /// So may the loss of a disk of which several drives are parts.
    pub shared_drive: bool,
}

/// What the map says of a domain with this name. `on_network`: nodes reach it over a network, so that it is the same on all of them.
#[must_use]
pub fn domain_text(name: &str, on_network: bool) -> String {
    format!("{}{name}", if on_network { ON_NETWORK } else { "" })
}

/// The name of the domain of which the map says this.
#[must_use]
pub fn domain_name(text: &str) -> &str {
    text.strip_prefix(ON_NETWORK).unwrap_or(text)
}

/// A failure domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Domain<'a> {
    /// The node that it is on; `None`: it is on the network.
    pub(crate) node: Option<u16>,
    pub(crate) name: &'a str,
}

/// The domains of drives, of which the node and the text are given. A drive without a text has none.
///
/// If a node reaches one over a network, so do all its drives of that name: releases from before did not say it.
pub(crate) fn domains<'a>(
    drives: impl Iterator<Item = (DriveId, u16, Option<&'a str>)> + Clone,
) -> HashMap<DriveId, Domain<'a>> {
    let texts = drives.filter_map(|(id, node, text)| Some((id, node, text?)));
    let reached = texts.clone().filter_map(|(_, node, text)| Some((node, text.strip_prefix(ON_NETWORK)?)));
    let reached: HashSet<(u16, &str)> = reached.collect();
    let domain = |(id, node, text)| {
        let name = domain_name(text);
        (id, Domain { node: (!reached.contains(&(node, name))).then_some(node), name })
    };
    texts.map(domain).collect()
}

/// The domains of drives that form the first map.
pub(crate) fn of_new(drives: &[NewDrive]) -> HashMap<DriveId, Domain<'_>> {
    domains(drives.iter().map(|d| (d.id, d.node, d.enclosure.as_deref())))
}

/// The domains of drives of a map that are not dead.
pub(crate) fn of_map(map: &Map) -> HashMap<DriveId, Domain<'_>> {
    domains(alive(map).map(|d| (d.id, d.node, d.enclosure.as_deref())))
}

fn alive(map: &Map) -> impl Iterator<Item = &Drive> + Clone {
    map.drives.iter().filter(|d| d.state != DriveState::Dead)
}

/// The domains that several drives share, with the drives.
fn shared(drives: &[NewDrive]) -> BTreeMap<Domain<'_>, Vec<&NewDrive>> {
    let domains = of_new(drives);
    let mut of: BTreeMap<_, Vec<&NewDrive>> = BTreeMap::new();
    for drive in drives {
        if let Some(domain) = domains.get(&drive.id) {
            of.entry(*domain).or_default().push(drive);
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
    for (domain, drives) in shared(drives) {
        let ids: HashSet<DriveId> = drives.iter().map(|d| d.id).collect();
        let slots = plan.groups.iter().map(|group| group.iter().filter(|d| ids.contains(*d)).count());
        let most = slots.max().unwrap_or(0);
        if most > m {
            return Err(Error::Layout(format!(
                "code {}: {} are parts of one drive ({}), which has up to {most} shards of an object, and {m} may be lost: \
                 the loss of this drive would lose objects. Choose a code with more parity, or more drives that fail \
                 independently of each other, or accept it with --allow-shared-drive",
                plan.code,
                named(drives.iter().map(|d| (d.node, d.path.as_str()))),
                domain.name,
            )));
        }
    }
    Ok(())
}

/// Drives in a message: `/d0, /d1 of node 1, /d0 of node 2`. Node 0 is a machine that is alone.
fn named<'a>(drives: impl Iterator<Item = (u16, &'a str)>) -> String {
    let mut of: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    drives.for_each(|(node, path)| of.entry(node).or_default().push(path));
    let on_node = |(node, paths): (u16, Vec<&str>)| match node {
        0 => paths.join(", "),
        node => format!("{} of node {node}", paths.join(", ")),
    };
    of.into_iter().map(on_node).collect::<Vec<_>>().join(", ")
}

impl Map {
    /// The same where a drive has this text for its failure domain, see [`domain_text`]; `None`: not told.
    #[must_use]
    pub fn in_domain(mut self, id: DriveId, domain: Option<String>) -> Map {
        if let Some(drive) = self.drives.iter_mut().find(|d| d.id == id) {
            drive.enclosure = domain;
        }
        self
    }

    /// Refuses that a drive in the domain with this text takes all slots of `old`, if the loss of that domain would then cost a group more
    /// shards than its code can lose. The domain that `old` is in may have them: it has as many already.
    ///
    /// # Errors
    /// `Layout`, with a message for the operator.
    pub fn check_replacement<'a>(&'a self, old: DriveId, text: Option<&'a str>) -> Result<()> {
        let text_of = |d: &'a Drive| if d.id == old { text } else { d.enclosure.as_deref() };
        let then = domains(alive(self).map(|d| (d.id, d.node, text_of(d))));
        // On one node the name tells whether it is the same disk, whichever release found it.
        let was = self.drive(old).and_then(|d| d.enclosure.as_deref()).map(domain_name);
        let Some(domain) = then.get(&old).filter(|domain| was != Some(domain.name)) else { return Ok(()) };
        let there = |id: DriveId| then.get(&id) == Some(domain);
        for group in self.groups.iter().filter(|g| g.slot_of(old).is_some()) {
            let code = self.pools.iter().find(|p| p.id == group.id.pool).map_or(self.code(), |p| p.code);
            let (slots, m) = (group.slots.iter().filter(|s| there(s.drive)).count(), usize::from(code.m));
            if slots > m && m > 0 {
                let others = alive(self).filter(|d| d.id != old && there(d.id));
                return Err(Error::Layout(format!(
                    "it is a part of the same drive ({}) as {}, which would have {slots} shards of an object, and {m} may be \
                     lost: the loss of this drive would lose objects. Put it on another drive, or accept it with \
                     --allow-shared-drive",
                    domain.name,
                    named(others.map(|d| (d.node, d.path.as_str()))),
                )));
            }
        }
        Ok(())
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
        let domains = of_map(map);
        let of = |g: &crate::Group, a: &Drive| {
            let same = |id| id == a.id || domains.contains_key(&id) && domains.get(&id) == domains.get(&a.id);
            g.slots.iter().filter(|s| same(s.drive)).count()
        };
        map.groups.iter().flat_map(|g| map.drives.iter().map(|d| of(g, d)).collect::<Vec<_>>()).max().unwrap()
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

    /// Nodes that have one namespace each of as many disks.
    fn halves(nodes: u16, disks: u8) -> Vec<NewDrive> {
        let on_network = |mut d: NewDrive| {
            d.enclosure = Some(domain_text(&format!("the subsystem {}", d.path), true));
            d
        };
        (1..=nodes).flat_map(|node| pairs(disks, node)).map(on_network).collect()
    }

    #[test]
    fn disks_on_the_network_are_one_domain_on_all_nodes() {
        let form = |drives: &[NewDrive], text, accept| {
            Map::first_over_nodes(DEPLOYMENT, drives, CodeSpec::parse(text).ok(), None, accept)
        };
        // Four nodes with a namespace each of the same four disks: disks have as many slots as a quarter of a group.
        let drives = halves(4, 4);
        assert_eq!(most(&form(&drives, "2+2", Accept::default()).unwrap()), 1);
        assert_eq!(most(&form(&drives, "6+2", Accept::default()).unwrap()), 2);
        assert_eq!(most(&form(&drives, "12+4", Accept::default()).unwrap()), 4);
        // Three disks, of which each has two slots of a group or three.
        let (drives, node_loss) = (halves(4, 3), Accept { node_loss: true, shared_drive: false });
        assert_eq!(most(&form(&drives, "4+2", Accept::default()).unwrap()), 2);
        let why = form(&drives, "6+2", node_loss).unwrap_err().to_string();
        let want = "code 6+2: /d0 of node 1, /d0 of node 2, /d0 of node 3, /d0 of node 4 are parts of one drive (the subsystem /d0), \
                    which has up to 3 shards of an object, and 2 may be lost";
        assert!(why.contains(want) && why.contains("--allow-shared-drive"), "{why}");
        assert_eq!(most(&form(&drives, "6+2", Accept { shared_drive: true, ..node_loss }).unwrap()), 3);
        // What an earlier release found does not say that it is on the network: four disks of each node.
        let mut before = halves(4, 3);
        before.iter_mut().for_each(|d| d.enclosure = Some(domain_name(d.enclosure.as_ref().unwrap()).into()));
        assert_eq!(most(&form(&before, "6+2", node_loss).unwrap()), 1);
    }

    #[test]
    fn what_a_release_from_before_found_on_a_node_is_the_same_disk_there() {
        let text = |name: &str| Some(domain_text(name, true));
        let (old, new) = (Some("x".to_owned()), text("x"));
        let drives = [(1, &old), (1, &new), (2, &new), (2, &old), (3, &old)];
        let drives = (0u8..).zip(drives).map(|(n, (node, text))| (DriveId([n; 16]), node, text.as_deref()));
        let domains = domains(drives);
        let nodes: Vec<_> = (0..5).map(|n| domains[&DriveId([n; 16])].node).collect();
        assert_eq!(nodes, [None, None, None, None, Some(3)]);
        assert!(domains.values().all(|d| d.name == "x"));
    }

    #[test]
    fn a_map_from_before_is_read_and_its_disks_are_those_of_one_node() {
        let drives: Vec<NewDrive> = (1..=2).flat_map(|node| pairs(4, node)).collect();
        let accept = Accept { node_loss: true, shared_drive: false };
        let map =
            Map::first_over_nodes(DEPLOYMENT, &drives, CodeSpec::parse("2+1").ok(), None, accept).unwrap();
        let again = |map: &Map| {
            let entries = map.entries();
            Map::from_entries(entries.iter().map(|(k, v)| (k.as_str(), &v[..]))).unwrap()
        };
        assert_eq!(again(&map), map);
        assert!(of_map(&again(&map)).values().all(|d| d.node.is_some()));
        // A drive that is replaced by this release is found to be on the network, and so is what is on the same disk there.
        let (old, new) = (map.drives[0].id, DriveId([99; 16]));
        let text = domain_text("the disk 0", true);
        let next = map.replace(old, new, "/d0", 1000).unwrap().in_domain(new, Some(text.clone()));
        assert!(
            again(&next).entries()[&format!("map/drive/{new}")]
                .ends_with(br#","enclosure":"fabric: the disk 0"}"#)
        );
        let (next, on_node) = (again(&next), |d: &Drive| (d.node, d.path.clone()));
        let there = Domain { node: None, name: "the disk 0" };
        let same = next.drives.iter().filter(|d| of_map(&next).get(&d.id) == Some(&there)).map(on_node);
        assert_eq!(same.collect::<Vec<_>>(), [(1, "/d1".to_owned()), (1, "/d0".to_owned())]);
    }

    #[test]
    fn a_replacement_that_one_disk_could_lose_is_refused() {
        let map = form_halves();
        let old = map.drives.iter().find(|d| (d.node, d.path.as_str()) == (1, "/d0")).unwrap().id;
        let on = |name: &str| Some(domain_text(name, true));
        // Itself again, as an earlier release had named it too, another one, and one of which nothing is known.
        for same in [on("the subsystem /d0"), on("the subsystem /new"), Some("the disk 7".to_owned()), None] {
            map.check_replacement(old, same.as_deref()).unwrap();
        }
        let why = map.check_replacement(old, on("the subsystem /d1").as_deref()).unwrap_err().to_string();
        assert!(
            why.contains(
                "the same drive (the subsystem /d1) as /d1 of node 1, /d1 of node 2, which would have 2"
            ),
            "{why}"
        );
        // On this node a domain of its own, which is not that of the network: only its own drives count.
        map.check_replacement(old, Some("the subsystem /d9")).unwrap();
        assert!(
            map.check_replacement(old, Some("the subsystem /d1")).is_err(),
            "the same name on the same node"
        );
        // Where a disk has more already: no worse than it was.
        let accepted = Accept { node_loss: true, shared_drive: true };
        let map =
            Map::first_over_nodes(DEPLOYMENT, &halves(2, 4), CodeSpec::parse("5+1").ok(), None, accepted);
        let map = map.unwrap();
        map.check_replacement(map.drives[0].id, on("the subsystem /d0").as_deref()).unwrap();
        assert!(map.check_replacement(map.drives[0].id, on("the subsystem /d1").as_deref()).is_err());
        map.check_replacement(map.drives[0].id, on("the subsystem /d9").as_deref()).unwrap();
        // In a map from before both namespaces are on one disk of the machine: it is that one that is blank again.
        let map = alone(&pairs(4, 0), "3+1", true).unwrap();
        map.check_replacement(map.drives[0].id, on("the disk 0").as_deref()).unwrap();
        assert!(map.check_replacement(map.drives[0].id, on("the disk 1").as_deref()).is_err());
    }

    /// Two nodes with a namespace each of four disks, of which a group of 2+1 has one at most.
    fn form_halves() -> Map {
        let accept = Accept { node_loss: true, shared_drive: false };
        let map = Map::first_over_nodes(DEPLOYMENT, &halves(2, 4), CodeSpec::parse("2+1").ok(), None, accept)
            .unwrap();
        assert_eq!(most(&map), 1);
        map
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
