//! Starts and ends the work that nobody waits for: tails of writes, heal, rebuild, scrub.
//!
//! Invariant: one task of each kind per [`Sets`]. This is the top of the crate: it may use everything, and
//! nothing uses it.

use crate::sets::Sets;
use crate::{heal, rebuild, scrub, tail};
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
        tasks.push(ashlar_environment::spawn("scrub", scrub::run(Arc::downgrade(&self.inner))));
    }

    /// Ends the background work and waits for it. Drives are the caller's to close.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let tasks = std::mem::take(&mut *self.inner.tasks.lock());
            for t in &tasks {
                t.abort();
            }
            for t in tasks {
                // Aborted or ended: both are what is wanted.
                let _ = t.await;
            }
        })
    }
}
