//! Moving versions from the record of a key to pages, once the record has become long (docs/protocol.md 2.16).
//!
//! Invariants: a spill leaves the list as it is, so nobody has to know of it, and one that fails or is given up
//! is made by a later change; one spill of a key at a time in this process; a version that carries the mark of
//! its upload stays in the record, where whoever takes the mark off looks for it.
//!
//! Must not depend on: what made the record long.

use std::sync::Arc;

use ashlar_commit::version_list::{is_long, newest_to_spill, spill_from};
use ashlar_format::{Body, RegisterKey, VersionId};

use crate::backend::{Decision, Failed, Stopped};
use crate::list_change::{ListChange, MissingInput, Next};
use crate::marks;
use crate::store::Inner;
use crate::{Error, Result};

/// Times that a spill is planned before it is left to a later change.
const TRIES: usize = 8;
/// A record that is so many times too long makes its writer wait for the spill.
const WAIT_AT: usize = 4;

/// What of a record is to be moved: the newest version that goes.
fn due(change: &ListChange, body: &Body) -> Option<VersionId> {
    let marked = || body.newest().iter().any(|v| marks::upload(v).is_some());
    newest_to_spill(body, change.bounds()).filter(|_| !marked())
}

impl Inner {
    /// After a change that made a record long, of this many versions: it is made short in the background. A
    /// writer that is far ahead of that waits.
    pub(crate) async fn spill_after(self: &Arc<Self>, key: &RegisterKey, head: usize) {
        if head > WAIT_AT * self.version_bounds.head {
            self.spill(key).await;
            return;
        }
        if self.spilling.lock().contains(key) {
            return;
        }
        let (inner, key) = (self.clone(), key.clone());
        ashlar_environment::spawn("spill-versions", async move { inner.spill(&key).await });
    }

    /// The number of versions in a record that is long.
    pub(crate) fn long_head(&self, body: &Body) -> Option<usize> {
        is_long(body, &self.version_bounds).then(|| body.newest().len())
    }

    /// Makes the record of a key short, unless that is being done.
    pub(crate) async fn spill(&self, key: &RegisterKey) {
        if !self.spilling.lock().insert(key.clone()) {
            return;
        }
        let _turn = SpillGuard { inner: self, key };
        if let Err(error) = self.spill_now(key).await {
            tracing::debug!(?key, %error, "versions stay in the record for now");
        }
    }

    async fn spill_now(&self, key: &RegisterKey) -> Result<()> {
        let mut change = ListChange::new(self.version_bounds);
        let Some(record) = self.backend.read_register(key).await? else { return Ok(()) };
        let Some(newest) = due(&change, &record.body) else { return Ok(()) };
        let step = |change: &ListChange, body: &Body| -> Option<std::result::Result<Next, MissingInput>> {
            match spill_from(body, change.pages(), change.bounds(), newest) {
                Ok(None) => None,
                Ok(Some(plan)) => Some(change.carry_out(plan)),
                Err(need) => Some(Err(MissingInput::Read(need))),
            }
        };
        // What can be done without the register's turn is done before.
        for _ in 0..TRIES {
            match step(&change, &record.body) {
                Some(Err(wanted)) => {
                    let written = matches!(wanted, MissingInput::Write(_));
                    change.provide(&self.backend, key, wanted).await?;
                    if written {
                        change.stage(&self.backend, key).await?;
                        break;
                    }
                }
                Some(Ok(_)) => break,
                None => return Ok(()),
            }
        }
        for _ in 0..TRIES {
            let mut wanted = None;
            let staged = change.staged(None);
            let done = self
                .backend
                .update(key, &staged, |old| match old.and_then(|r| step(&change, &r.body)) {
                    None => Decision::Refuse(Error::Changed),
                    Some(Ok(next)) => next.decide(()),
                    Some(Err(w)) => {
                        wanted = Some(w);
                        Decision::Refuse(Error::Busy)
                    }
                })
                .await;
            match (done, wanted) {
                (Err(Stopped::Failed(Failed::Refused(_))), Some(wanted)) => {
                    change.provide(&self.backend, key, wanted).await?;
                }
                // The versions have gone meanwhile.
                (Err(Stopped::Failed(Failed::Refused(Error::Changed))), None) => return Ok(()),
                (done, _) => return Ok(done?),
            }
        }
        Err(Error::Busy)
    }

    /// Nothing is being moved.
    #[cfg(test)]
    pub(crate) fn spills_idle(&self) -> bool {
        self.spilling.lock().is_empty()
    }
}

/// A spill of a key on its way.
struct SpillGuard<'a> {
    inner: &'a Inner,
    key: &'a RegisterKey,
}

impl Drop for SpillGuard<'_> {
    fn drop(&mut self) {
        self.inner.spilling.lock().remove(self.key);
    }
}
