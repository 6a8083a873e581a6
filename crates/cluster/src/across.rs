//! Placement groups where drives of several nodes fail together: disks on a network, of which nodes have a namespace each. Pure functions.
//!
//! The slots of each node, of each failure domain and of each part of a domain that is on one node are divided evenly over the groups: each has in
//! every group its share, rounded up or down. That works out for any numbers. Nodes with their parts and domains with their parts are two
//! ways to divide the same drives, so the shares of one group are a flow from nodes over parts to domains; the shares themselves are one, so there is
//! one of whole numbers (Hoffman, 1960), and what it leaves has such a one again for the groups after it (Baum and Trotter, 1978).
//! Within a part, the drives that have most slots left come first, as in `spread`.
//!
//! Invariants: as those of `spread`, and no domain has more slots of a group than its share, rounded up; a pure function of the drives, whatever their order.
//!
//! Must not depend on: devices, the control store.

use std::collections::{BTreeMap, VecDeque};

use ashlar_format::DriveId;

use crate::layout::score;
use crate::spread::{Placed, in_order, take};

/// Whether drives of several nodes are in one domain.
pub(crate) fn spans_nodes(drives: &[Placed<'_>]) -> bool {
    let mut node_of = BTreeMap::new();
    let on_network = drives.iter().filter(|d| d.on_network);
    on_network
        .into_iter()
        .any(|d| d.domain.is_some_and(|name| *node_of.entry(name).or_insert(d.node) != d.node))
}

/// What the groups have of some drives.
#[derive(Clone, Copy)]
struct Share {
    /// Slots that are left.
    left: usize,
    /// Of each group at least.
    least: usize,
    /// Of each group at most.
    most: usize,
}

impl Share {
    fn new(total: usize, groups: usize) -> Share {
        Share { left: total, least: total / groups, most: total.div_ceil(groups) }
    }

    /// How many the next group must have, and may have, so that those after it have their shares.
    fn bounds(self, after: usize) -> (usize, usize) {
        let least = self.least.max(self.left.saturating_sub(after * self.most));
        (least, self.most.min(self.left.saturating_sub(after * self.least)))
    }
}

/// The drives of a domain that are on one node.
struct Part {
    /// Places in the lists of shares.
    node: usize,
    domain: usize,
    share: Share,
    /// The drives, with the slots that they have left.
    drives: Vec<(DriveId, usize)>,
}

/// The state of the division.
struct Division {
    nodes: Vec<Share>,
    domains: Vec<Share>,
    parts: Vec<Part>,
}

/// Fills `groups` groups of `n` slots. `drives`: in order; `quotas`: the slots of each, over all groups.
pub(crate) fn assign(drives: &[Placed<'_>], quotas: &[usize], groups: usize, n: usize) -> Vec<Vec<DriveId>> {
    let mut division = Division::new(drives, quotas, groups);
    let group = |group| {
        let mut slots = division.next(group, groups - group - 1, n);
        in_order(group, &mut slots);
        slots
    };
    (0..groups).map(group).collect()
}

impl Division {
    fn new(drives: &[Placed<'_>], quotas: &[usize], groups: usize) -> Division {
        let (mut nodes, mut domains, mut parts) = (Vec::new(), Vec::new(), Vec::<Part>::new());
        let (mut node_at, mut domain_at, mut part_at) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (d, quota) in drives.iter().zip(quotas) {
            // A drive without a domain is one of its own.
            let alone = if d.domain.is_none() { Some(d.id) } else { None };
            let on_node = if d.on_network { None } else { Some(d.node) };
            let node = *node_at.entry(d.node).or_insert(nodes.len());
            let domain = *domain_at.entry((on_node, d.domain, alone)).or_insert(domains.len());
            let part = *part_at.entry((node, domain)).or_insert(parts.len());
            for (list, at) in [(&mut nodes, node), (&mut domains, domain)] {
                list.resize(list.len().max(at + 1), 0);
                list[at] += quota;
            }
            if part == parts.len() {
                parts.push(Part { node, domain, share: Share::new(0, groups), drives: Vec::new() });
            }
            parts[part].drives.push((d.id, *quota));
        }
        for part in &mut parts {
            part.share = Share::new(part.drives.iter().map(|(_, quota)| quota).sum(), groups);
        }
        let shares = |totals: Vec<usize>| totals.into_iter().map(|total| Share::new(total, groups)).collect();
        Division { nodes: shares(nodes), domains: shares(domains), parts }
    }

    /// The slots of the next group. `after`: how many groups are to follow.
    fn next(&mut self, group: usize, after: usize, n: usize) -> Vec<DriveId> {
        let more = self.with_more(group, after, n);
        let mut slots = Vec::with_capacity(n);
        for (part, more) in self.parts.iter_mut().zip(more) {
            let count = part.share.bounds(after).0 + usize::from(more);
            take(&mut part.drives, group, count, &mut slots);
            for share in [&mut part.share, &mut self.nodes[part.node], &mut self.domains[part.domain]] {
                share.left -= count;
            }
        }
        slots
    }

    /// Which parts have one slot more in the next group than they must have.
    fn with_more(&self, group: usize, after: usize, n: usize) -> Vec<bool> {
        let bounds: Vec<(usize, usize)> = self.parts.iter().map(|p| p.share.bounds(after)).collect();
        let (mut of_node, mut of_domain) = (vec![0; self.nodes.len()], vec![0; self.domains.len()]);
        for (part, (least, _)) in self.parts.iter().zip(&bounds) {
            of_node[part.node] += least;
            of_domain[part.domain] += least;
        }
        // What nodes and domains must and may have in addition to what their parts must have.
        let further = |shares: &[Share], sure: &[usize]| -> Vec<(usize, usize)> {
            let one = |(share, sure): (&Share, &usize)| {
                let (least, most) = share.bounds(after);
                (least.saturating_sub(*sure), most.saturating_sub(*sure))
            };
            shares.iter().zip(sure).map(one).collect()
        };
        let (nodes, domains) = (further(&self.nodes, &of_node), further(&self.domains, &of_domain));
        // Those with most slots left first, and equal ones in another order in every group: all drives get groups with all others.
        let able = (0..self.parts.len()).filter(|i| bounds[*i].0 < bounds[*i].1);
        let key = |i: usize| (self.parts[i].share.left, score(group, self.parts[i].drives[0].0, 1), i);
        let mut able: Vec<(usize, f64, usize)> = able.map(key).collect();
        able.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        let able: Vec<usize> = able.into_iter().map(|(_, _, i)| i).collect();
        let edges: Vec<(usize, usize)> =
            able.iter().map(|i| (self.parts[*i].node, self.parts[*i].domain)).collect();
        let count = n - of_node.iter().sum::<usize>();
        let chosen = Flow::new(&nodes, &domains, &edges, count).choose(count);
        let mut more = vec![false; self.parts.len()];
        able.iter().zip(chosen).for_each(|(i, chosen)| more[*i] = chosen);
        more
    }
}

/// A network from nodes to domains. An edge and its opposite are next to each other.
struct Flow {
    /// Where each edge leads.
    to: Vec<usize>,
    room: Vec<usize>,
    /// The edges of each place, those that come first are used first.
    from: Vec<Vec<usize>>,
    source: usize,
    sink: usize,
    /// The first of the edges that are chosen from.
    first: usize,
    edges: usize,
}

impl Flow {
    /// `nodes`, `domains`: how many of their edges must and may be chosen; `count`: how many are chosen.
    fn new(
        nodes: &[(usize, usize)],
        domains: &[(usize, usize)],
        edges: &[(usize, usize)],
        count: usize,
    ) -> Flow {
        let places = nodes.len() + domains.len();
        let [source, further_source, further_sink, sink] = [places, places + 1, places + 2, places + 3];
        let mut flow = Flow {
            to: Vec::new(),
            room: Vec::new(),
            from: vec![Vec::new(); places + 4],
            source,
            sink,
            first: 0,
            edges: edges.len(),
        };
        // What must be chosen has edges of its own: all of them are full if `count` gets through.
        for (i, (must, may)) in nodes.iter().enumerate() {
            flow.edge(source, i, *must);
            flow.edge(further_source, i, may - must);
        }
        for (i, (must, may)) in domains.iter().enumerate() {
            flow.edge(nodes.len() + i, sink, *must);
            flow.edge(nodes.len() + i, further_sink, may - must);
        }
        let sum = |list: &[(usize, usize)]| list.iter().map(|(must, _)| must).sum::<usize>();
        flow.edge(source, further_source, count - sum(nodes));
        flow.edge(further_sink, sink, count - sum(domains));
        flow.first = flow.to.len();
        edges.iter().for_each(|(node, domain)| flow.edge(*node, nodes.len() + domain, 1));
        flow
    }

    fn edge(&mut self, a: usize, b: usize, room: usize) {
        for (from, to, room) in [(a, b, room), (b, a, 0)] {
            self.from[from].push(self.to.len());
            self.to.push(to);
            self.room.push(room);
        }
    }

    /// Which edges are chosen.
    fn choose(mut self, count: usize) -> Vec<bool> {
        for _ in 0..count {
            assert!(self.one_more(), "shares that are divided evenly always work out");
        }
        (0..self.edges).map(|i| self.room[self.first + 2 * i] == 0).collect()
    }

    /// Sends one more along a shortest path that has room.
    fn one_more(&mut self) -> bool {
        let mut came_by = vec![None; self.from.len()];
        let mut queue = VecDeque::from([self.source]);
        while let Some(place) = queue.pop_front().filter(|_| came_by[self.sink].is_none()) {
            for edge in &self.from[place] {
                let to = self.to[*edge];
                if self.room[*edge] > 0 && to != self.source && came_by[to].is_none() {
                    came_by[to] = Some(*edge);
                    queue.push_back(to);
                }
            }
        }
        let mut place = self.sink;
        while let Some(edge) = came_by[place] {
            self.room[edge] -= 1;
            self.room[edge ^ 1] += 1;
            place = self.to[edge ^ 1];
        }
        place == self.source && came_by[self.sink].is_some()
    }
}

#[cfg(test)]
#[path = "across_tests.rs"]
mod tests;
