//! `drives/recover`: starts a recovery of distrusted drives, and reports it.
//!
//! Invariants: a recovery never starts by itself; it runs in the background, one at a time; its report stays
//! until the next one. Must not depend on: how a recovery is carried out (`ashlar_node::recovery`).

use std::sync::Arc;

use ashlar_erasure_set::{MAX_NAMED, Salvaged, Showing, Uncertain};
use ashlar_format::Space;
use ashlar_node::Node;
use ashlar_node::recovery::recover;
use parking_lot::Mutex;

use super::api::state as shape;

/// The state of the last recovery.
#[derive(Default, Clone)]
pub struct Recovery {
    last: Arc<Mutex<shape::Recovery>>,
}

impl Recovery {
    /// The state of the last recovery, and its findings.
    pub fn report(&self) -> shape::Recovery {
        self.last.lock().clone()
    }

    /// Starts a recovery in the background; `dry_run` only reports what it would find.
    ///
    /// # Errors
    /// A message for the operator: a recovery is running, or none is needed.
    pub fn start(&self, node: &Arc<Node>, dry_run: bool) -> Result<shape::Recovery, String> {
        if !node.sets.needs_salvage() {
            return Err("no placement group needs a recovery: either enough of its drives vote, or some are not in service; see `ashlar drive list`".into());
        }
        {
            let mut last = self.last.lock();
            if last.state == "running" {
                return Err("a recovery is running".into());
            }
            *last = shape::Recovery { state: "running", dry_run, ..shape::Recovery::default() };
        }
        let (node, last) = (node.clone(), self.last.clone());
        ashlar_environment::spawn("recovery", async move {
            let done = recover(&node, dry_run).await;
            let report = match done {
                Ok(salvaged) => report(&node, dry_run, &salvaged),
                Err(why) => {
                    tracing::error!(why, "the recovery failed; it can be started again");
                    shape::Recovery { state: "failed", dry_run, why: Some(why), ..shape::Recovery::default() }
                }
            };
            *last.lock() = report;
        });
        Ok(self.report())
    }
}

fn report(node: &Node, dry_run: bool, done: &Salvaged) -> shape::Recovery {
    let buckets = node.store.buckets();
    let bucket = |id| {
        let known = buckets.iter().find(|b| b.id == id);
        known.map_or_else(|| format!("a deleted bucket ({id})"), |b| b.name.clone())
    };
    let drive_folders = node.folders.lock().clone();
    let path = |id| {
        let folder = drive_folders.iter().find(|s| s.drive.as_ref().is_some_and(|d| d.label().drive == id));
        folder.map_or_else(String::new, |s| s.path.display().to_string())
    };
    let name = |u: &Uncertain| shape::UncertainKey {
        bucket: bucket(u.key.bucket()),
        key: String::from_utf8_lossy(u.key.key()).into_owned(),
        kind: match u.key.space() {
            s if s == Space::Object as u8 => "object",
            s if s == Space::Upload as u8 => "upload",
            _ => "part",
        },
        kept: u.kept.is_some(),
        shown: u
            .shown
            .iter()
            .map(|(drive, showing)| shape::Shown {
                drive: drive.to_hex(),
                path: path(*drive),
                shows: match showing {
                    Showing::Record(b) if Some(*b) == u.kept => "what is kept",
                    Showing::Record(_) => "another record",
                    Showing::Nothing => "nothing",
                    Showing::Unreadable => "damage",
                },
            })
            .collect(),
    };
    for u in &done.named {
        let named = name(u);
        tracing::warn!(
            bucket = named.bucket,
            key = named.key,
            kind = named.kind,
            kept = named.kept,
            "not certain after the recovery"
        );
    }
    if done.uncertain > MAX_NAMED as u64 {
        tracing::warn!(
            uncertain = done.uncertain,
            named = MAX_NAMED,
            "more keys are uncertain than are listed"
        );
    }
    shape::Recovery {
        state: "done",
        dry_run,
        why: None,
        registers: done.registers,
        copied: done.copied,
        uncertain: done.uncertain,
        drives: done.drives.iter().map(|d| d.to_hex()).collect(),
        named: done.named.iter().map(name).collect(),
    }
}
