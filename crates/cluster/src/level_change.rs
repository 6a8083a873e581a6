//! The feature level in the records of a cluster: who can do it, and how it is raised.
//!
//! Invariant: the level is raised only in an update that writes the record of the cluster, as every update does that changes
//! what a node can do ([`Registry::moved`]).
//!
//! Must not depend on: what a level adds.

use crate::levels::Levels;
use crate::registry::{Registry, State, json};
use crate::update::Update;
use crate::{Error, Result};

impl Registry {
    /// Checks that a release that can do these levels can do the one in force.
    ///
    /// # Errors
    /// `Refused`.
    pub fn check_level(&self, levels: Levels) -> Result<()> {
        let level = self.cluster.level;
        if levels.can(level) {
            return Ok(());
        }
        let which = if level > levels.newest { "a newer release" } else { "an older release" };
        Err(Error::Refused(format!(
            "the feature level {level} is in force in the cluster, and this release can do {levels} only: start {which} \
             on this node"
        )))
    }

    /// The newest level that any node can do, and the nodes that cannot do it, or that are of a release which no longer
    /// can. Those are to be upgraded before the level can be raised.
    #[must_use]
    pub fn next_level(&self) -> (u32, Vec<u16>) {
        let newest = self.nodes.values().map(|node| node.levels.newest).max();
        let next = newest.unwrap_or(self.cluster.level).max(self.cluster.level);
        let cannot = self.nodes.iter().filter(|(_, node)| !node.levels.can(next)).map(|(number, _)| *number);
        (next, cannot.collect())
    }

    /// Raises the level to the one of [`Registry::next_level`]; leaves the update empty if it is in force.
    ///
    /// # Errors
    /// `Refused`: the cluster is not formed, or the nodes that cannot do it, by name.
    pub fn raise_level(&self, update: &mut Update) -> Result<()> {
        let (level, cannot) = self.next_level();
        if self.cluster.state != State::Formed {
            return Err(Error::Refused("the cluster is not formed yet".to_owned()));
        }
        if !cannot.is_empty() {
            let said: Vec<String> = cannot.iter().filter_map(|number| self.cannot(*number, level)).collect();
            return Err(Error::Refused(said.join("; ")));
        }
        if level > self.cluster.level {
            update.set(&self.cluster_entry, json(&self.cluster.clone().at_level(level)));
        }
        Ok(())
    }

    /// That a node cannot do a level, for people.
    #[must_use]
    pub fn cannot(&self, number: u16, level: u32) -> Option<String> {
        let node = self.nodes.get(&number)?;
        Some(format!(
            "node {number} ({}) ran release {} last, which can do feature level {}, not {level}",
            node.host, node.version, node.levels
        ))
    }
}
