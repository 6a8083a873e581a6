//! Changes of lists of versions whose older ones are in pages (docs/protocol.md 2.16).
//!
//! A change decides on a *window*: the newest versions and those older ones that it names
//! (`ashlar_commit::version_list`). What it needs for that is fetched between two looks at the register: pages
//! that are to be read, and pages that are to be written before the record that names them.
//!
//! Invariants: the plan is made anew from each state that is looked at, and pages that were written are used
//! only if the new plan would write the same; pages of a change that does not happen are dropped; a list
//! without pages is none of this module's business until it becomes too long.
//!
//! Must not depend on: what a change is about.

use std::sync::Arc;

use ashlar_commit::version_list::{Bounds, Need, Pages, Plan, Window, Written, change, count};
use ashlar_format::{Body, Data, RegisterKey, Version, VersionId, WriteId};

use crate::backend::{Backend, Decision, Staged};
use crate::versions::{self, MAX_VERSIONS};
use crate::{Error, Result, paged};

/// What has to be done before a change can be proposed.
pub(crate) enum MissingInput {
    /// These pages are to be read.
    Read(Need),
    /// The pages of this plan are to be written.
    Write(Box<Plan>),
    /// It cannot be proposed.
    Never(Error),
}

/// Pages that were written, for a plan.
struct Prepared {
    plan: Plan,
    written: Vec<Written>,
    staged: Vec<Staged>,
}

/// A change on its way: the pages that it has read and written.
pub(crate) struct ListChange {
    bounds: Bounds,
    pages: Pages,
    prepared: Option<Prepared>,
}

/// The next state of a list with pages.
pub(crate) struct Next {
    pub body: Body,
    dropped: Vec<Data>,
    below: Vec<WriteId>,
}

impl Next {
    pub(crate) fn decide<R>(self, out: R) -> Decision<R> {
        let summary = versions::summary(&self.body);
        Decision::Rewrite { body: self.body, summary, dropped: self.dropped, below: self.below, out }
    }
}

/// The newest versions, and the older ones that were asked for.
pub(crate) enum View<'a> {
    /// The list has no pages.
    Whole(&'a [Version]),
    Part(&'a Body, Window<'a>),
}

impl View<'_> {
    /// Newest first.
    pub(crate) fn versions(&self) -> &[Version] {
        match self {
            View::Whole(list) => list,
            View::Part(_, window) => window.versions(),
        }
    }
}

impl ListChange {
    pub(crate) fn new(bounds: Bounds) -> ListChange {
        ListChange { bounds, pages: Pages::default(), prepared: None }
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What a change that names `ids` sees of a state; of a held key what it held before.
    pub(crate) fn view<'a>(
        &self,
        body: Option<&'a Body>,
        ids: &[VersionId],
    ) -> std::result::Result<View<'a>, MissingInput> {
        match body {
            Some(body) if body.below().is_some() => {
                Window::of(body, &self.pages, ids).map(|w| View::Part(body, w)).map_err(MissingInput::Read)
            }
            Some(body) => Ok(View::Whole(body.newest())),
            None => Ok(View::Whole(&[])),
        }
    }

    /// The decision by which what was seen becomes `new`; the answer may depend on the next state.
    pub(crate) fn decide<R>(
        &self,
        view: &View<'_>,
        new: Vec<Version>,
        out: impl FnOnce(&Body) -> R,
    ) -> std::result::Result<Decision<R>, MissingInput> {
        let (body, window) = match view {
            View::Whole(_) => {
                let (body, summary) = versions::body(new);
                let out = out(&body);
                return Ok(Decision::Write { body, summary, moved: false, out });
            }
            View::Part(body, window) => (body, window),
        };
        if new.len() > window.versions().len() && count(body) >= MAX_VERSIONS {
            return Err(MissingInput::Never(Error::TooManyVersions));
        }
        let plan = change(body, window, new, &self.pages, &self.bounds).map_err(MissingInput::Read)?;
        let next = self.carry_out(plan)?;
        let out = out(&next.body);
        Ok(next.decide(out))
    }

    /// The state that a plan leads to, if its pages are written.
    pub(crate) fn carry_out(&self, mut plan: Plan) -> std::result::Result<Next, MissingInput> {
        let written: &[Written] = match &self.prepared {
            _ if plan.pages() == 0 => &[],
            Some(p) if p.plan.writes_the_same(&plan) => &p.written,
            _ => return Err(MissingInput::Write(Box::new(plan))),
        };
        let below = written.iter().map(|(data, _)| data.write_id).collect();
        let dropped = std::mem::take(&mut plan.dropped);
        Ok(Next { body: plan.into_body(written), dropped, below })
    }

    /// Makes the pages that were written durable, so that the update need not.
    ///
    /// # Errors
    /// Of the drives.
    pub(crate) async fn stage(&mut self, backend: &Backend, key: &RegisterKey) -> Result<()> {
        match &mut self.prepared {
            Some(p) => backend.stage(key, &mut p.staged).await,
            None => Ok(()),
        }
    }

    /// The pages that were written, behind `body`: what the next state may name.
    pub(crate) fn staged<'a>(&'a self, body: Option<&'a Staged>) -> Vec<&'a Staged> {
        body.into_iter().chain(self.prepared.iter().flat_map(|p| &p.staged)).collect()
    }

    /// Does what is wanted. Then the register is to be looked at again.
    ///
    /// # Errors
    /// Of the drives, and why a change cannot be proposed.
    pub(crate) async fn provide(
        &mut self,
        backend: &Backend,
        key: &RegisterKey,
        wanted: MissingInput,
    ) -> Result<()> {
        match wanted {
            MissingInput::Never(e) => Err(e),
            MissingInput::Read(need) => match paged::read(backend, key, &mut self.pages, need).await {
                // The list has changed: it is looked at again in any case.
                Err(Error::Changed) => Ok(()),
                done => done,
            },
            MissingInput::Write(plan) => {
                let (mut written, mut staged) = (Vec::new(), Vec::new());
                for i in 0..plan.pages() {
                    let page = plan.page(i, &written);
                    let bytes = page.encode();
                    let mut writer = backend.write(key, bytes.len() as u64).await?;
                    writer.copy(&bytes).await?;
                    let made = writer.finish().await?;
                    let page = Arc::new(page);
                    backend.keep_page(&made.data(), page.clone(), bytes.len());
                    self.pages.insert(made.data().write_id, page);
                    written.push((made.data(), bytes.len() as u64));
                    staged.push(made);
                }
                self.prepared = Some(Prepared { plan: *plan, written, staged });
                Ok(())
            }
        }
    }
}
