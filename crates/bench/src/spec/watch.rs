//! Follows the rebuild of drives of an Ashlar server while phases run.
//!
//! Invariant: a count that the server does not report is unknown; if the server does not answer for long, the
//! watch ends with the reason.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_client::{Client, Method};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::Rebuild;
use crate::{Error, Result};

/// How often the server is asked for its rebuild.
pub const EVERY: Duration = Duration::from_millis(200);
/// A rebuild is over when it was seen so in this many answers: between joining and the first
/// shard nothing seems to be left either.
const SEEN: u32 = 3;
/// So many answers in a row may fail.
const FAILURES: u32 = 150;

/// Follows a rebuild while phases run.
pub struct Watch {
    /// How far it is, and why it can no longer be followed.
    pub state: Arc<Mutex<(Rebuild, Option<String>)>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    /// Begins to ask about the drives at `paths`, which began to be rebuilt at `began`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(runtime: Arc<Runtime>, admin: Client, paths: Vec<String>, began: Instant) -> Result<Watch> {
        let watch = Watch { state: Arc::default(), stop: Arc::default() };
        let (state, stop) = (watch.state.clone(), watch.stop.clone());
        let follow = move || {
            let (mut over, mut failures) = (None, 0);
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) {
                match runtime.block_on(admin.admin(Method::GET, "info", &[], None)) {
                    Ok(info) => {
                        failures = 0;
                        let (done, bytes, items) = progress(&info, &paths);
                        if done {
                            over.get_or_insert_with(|| began.elapsed().as_secs_f64());
                            seen += 1;
                        } else {
                            (over, seen) = (None, 0);
                        }
                        let mut state = state.lock();
                        // What the server does not count is not known: zero would be a claim.
                        state.0.bytes = state.0.bytes.max(Some(bytes).filter(|n| *n > 0));
                        state.0.items = state.0.items.max(Some(items).filter(|n| *n > 0));
                        state.0.seconds = over.unwrap_or_else(|| began.elapsed().as_secs_f64());
                        state.0.done = seen >= SEEN;
                        if state.0.done {
                            return;
                        }
                    }
                    Err(error) => {
                        failures += 1;
                        if failures > FAILURES {
                            state.lock().1 = Some(error.to_string());
                            return;
                        }
                    }
                }
                thread::sleep(EVERY);
            }
        };
        thread::Builder::new()
            .name("rebuild".into())
            .spawn(follow)
            .map_err(Error::io("cannot start a thread"))?;
        Ok(watch)
    }
}

/// Whether the drives at `paths` are whole, the bytes that were made for them, and the records that
/// were copied.
fn progress(info: &Value, paths: &[String]) -> (bool, u64, u64) {
    let drives: Vec<&Value> = info["drives"].as_array().into_iter().flatten().collect();
    let mine: Vec<&&Value> =
        drives.iter().filter(|d| paths.iter().any(|p| d["path"] == p.as_str())).collect();
    let ids: Vec<&str> = mine.iter().filter_map(|d| d["id"].as_str()).collect();
    let whole =
        mine.len() == paths.len() && mine.iter().all(|d| d["state"] == "online" && d["rebuild"].is_null());
    let rebuilds = info["heal"]["rebuilds"].as_array().into_iter().flatten();
    let rebuilds: Vec<&Value> =
        rebuilds.filter(|r| r["drive"].as_str().is_some_and(|id| ids.contains(&id))).collect();
    let running = rebuilds.iter().any(|r| r["phase"] != "done");
    let sum = |key: &str| rebuilds.iter().filter_map(|r| r[key].as_u64()).sum();
    let queued = info["heal"]["queued"].as_u64().unwrap_or(0);
    (whole && !running && queued == 0, sum("bytes"), sum("copied"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rebuild_ends_when_nothing_is_left() {
        let answer = |state: &str, rebuild: Value, phase: &str, queued: u64| {
            json!({
                "drives": [{"path": "/d/1", "id": "ab", "state": state, "rebuild": rebuild}, {"path": "/d/2", "id": "cd", "state": "online"}],
                "heal": {"queued": queued, "rebuilds": [{"drive": "ab", "phase": phase, "bytes": 77, "copied": 9}, {"drive": "old", "phase": "shards", "bytes": 5}]}
            })
        };
        let paths = ["/d/1".to_owned()];
        assert_eq!(progress(&answer("online", Value::Null, "done", 0), &paths), (true, 77, 9));
        assert_eq!(progress(&answer("joining", Value::Null, "records", 0), &paths), (false, 77, 9));
        assert_eq!(
            progress(&answer("online", json!({"phase": "shards"}), "shards", 0), &paths),
            (false, 77, 9)
        );
        assert_eq!(progress(&answer("online", Value::Null, "done", 3), &paths), (false, 77, 9));
        assert_eq!(progress(&json!({}), &paths), (false, 0, 0));
    }
}
