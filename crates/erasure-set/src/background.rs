//! Starts and stops the background work: tails of writes, heal, rebuild, scrub.
//!
//! Invariant: one task of each kind per [`Sets`]. This is the top layer of the crate: it may use everything,
//! and nothing uses it.
//!
//! Must not depend on: how the work is done.

use crate::sets::Sets;
use crate::{heal, rebuild, scrub_pass, tail};
use futures::future::BoxFuture;
use std::sync::Arc;

impl Sets {
    /// Starts the background work (tails of writes, heal, rebuild, scrub) on this tokio runtime.
    pub fn start(&self) {
        let mut tasks = self.inner.tasks.lock();
        if !tasks.is_empty() {
            return;
        }
        tasks.push(ashlar_environment::spawn("tail", tail::run(Arc::downgrade(&self.inner))));
        tasks.push(ashlar_environment::spawn("heal", heal::run(Arc::downgrade(&self.inner))));
        tasks.push(ashlar_environment::spawn("rebuild", rebuild::run(Arc::downgrade(&self.inner))));
        tasks.push(ashlar_environment::spawn("scrub", scrub_pass::run(Arc::downgrade(&self.inner))));
    }

    /// Stops the background work and waits for its end. The caller closes the drives.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let tasks = std::mem::take(&mut *self.inner.tasks.lock());
            for t in &tasks {
                t.abort();
            }
            for t in tasks {
                // An error means that the task was aborted, which is the intention.
                let _ = t.await;
            }
        })
    }
}
