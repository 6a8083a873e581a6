//! Replaces the certificate authority of the cluster while all nodes go on.
//!
//! | phase | authorities, the first signs | goes on when |
//! |---|---|---|
//! | none | old | an operator orders it |
//! | introducing | old, new | every node that runs trusts the new one |
//! | renewing | new, old | every node that runs has a certificate of the new one |
//! | none | new | |
//!
//! Each step is one update of the control store, derived from the state that the nodes were compared with; whoever is
//! interrupted leaves a phase in which all nodes trust each other, and the next order goes on from there. A node that is
//! away is not waited for: it takes the authorities from the control store when it starts, or when it reaches it again.
//!
//! Invariants: an authority signs only when every node that runs trusts it, and is dropped only when no node that runs has
//! a certificate of it. A node that may run and does not answer is waited for.
//!
//! Must not depend on: how nodes are asked, who may order it.

use std::collections::BTreeMap;

use ashlar_cluster::{Control, Entry, Error, Update};
use ashlar_iam::Iam;

use super::authority::{One, Phase, Standing, Stored};

/// What is known of a node during a replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeStanding {
    /// What it trusts, and who signed its certificate.
    Said(Standing),
    /// It may run, and does not say: the reason.
    Silent(String),
    /// It is neither announced nor reached.
    Away,
}

/// The authorities of the cluster at one moment.
pub struct Authorities {
    stored: Stored,
    entry: Entry,
    /// The fingerprints of the authorities, the signing one first.
    pub trusted: Vec<String>,
    /// The phase of a replacement.
    pub phase: Option<Phase>,
}

impl Authorities {
    /// Reads them from the control store.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn read(control: &Control) -> Result<Authorities, String> {
        let (stored, entry) = Stored::read(control)?;
        let trusted = stored.fingerprints()?;
        if trusted.len() != if stored.rotation.is_some() { 2 } else { 1 } {
            return Err(format!(
                "the control store has {} authorities, which does not fit the phase {:?} of a replacement",
                trusted.len(),
                stored.rotation
            ));
        }
        Ok(Authorities { phase: stored.rotation, stored, entry, trusted })
    }

    /// The authority that signs.
    #[must_use]
    pub fn signer(&self) -> &str {
        self.trusted.first().map_or("", |one| one)
    }

    /// The authority that is being replaced, or, without a replacement, the only one.
    #[must_use]
    pub fn old(&self) -> &str {
        match self.phase {
            Some(Phase::Renewing) => self.trusted.get(1).map_or("", |one| one),
            _ => self.signer(),
        }
    }

    /// The authority that replaces the other one.
    fn next_signer(&self) -> &str {
        match self.phase {
            Some(Phase::Introducing) => self.trusted.get(1).map_or("", |one| one),
            _ => self.signer(),
        }
    }

    /// Why the next step of a replacement cannot be made yet; empty if it can.
    #[must_use]
    pub fn waits(&self, nodes: &BTreeMap<u16, NodeStanding>) -> Vec<String> {
        let why = |standing: &NodeStanding| match (standing, self.phase) {
            (NodeStanding::Away, _) => None,
            (NodeStanding::Silent(why), _) => Some(why.clone()),
            (NodeStanding::Said(said), Some(Phase::Introducing)) => {
                let trusts = said.trusted.iter().any(|one| one == self.next_signer());
                (!trusts).then(|| "does not trust the new authority yet".to_owned())
            }
            (NodeStanding::Said(said), _) => {
                let renewed = said.signer == self.next_signer();
                (!renewed).then(|| "has no certificate of the new authority yet".to_owned())
            }
        };
        nodes.iter().filter_map(|(number, said)| Some(format!("node {number} {}", why(said)?))).collect()
    }

    /// The state after the next step.
    fn next(&self, control: &Control, iam: &Iam) -> Result<Stored, String> {
        let mut next = self.stored.clone();
        match self.phase {
            None => {
                next.authorities.push(One::create(control, iam)?);
                next.rotation = Some(Phase::Introducing);
            }
            Some(Phase::Introducing) => {
                next.authorities.reverse();
                next.rotation = Some(Phase::Renewing);
            }
            Some(Phase::Renewing) => {
                next.authorities.truncate(1);
                next.rotation = None;
            }
        }
        Ok(next)
    }

    /// Makes the next step. The caller has seen that nothing waits. False: another one was faster.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn advance(&self, control: &Control, iam: &Iam) -> Result<bool, String> {
        let mut update = Update::new();
        update.set(&self.entry, self.next(control, iam)?.encode()?);
        match control.update(update).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict(_)) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;
