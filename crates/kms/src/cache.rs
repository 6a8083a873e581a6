//! Data keys that a remote driver opened a moment ago: so that reading one object in many ranges asks the
//! key server once. At most [`MOST`] keys, each for [`KEPT`]; wiped when they go.

use ashlar_environment::time::Instant;
use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Secret;

/// Keys that are kept; all are forgotten when there are more.
const MOST: usize = 4096;
/// How long one is kept: a key that was taken away at the server is of no use after this.
const KEPT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Cache(Mutex<HashMap<[u8; 32], (Secret, Instant)>>);

impl Cache {
    /// The name under which a sealed key is kept.
    pub fn name(key_id: &str, sealed: &[u8], context: &[u8]) -> [u8; 32] {
        use aws_lc_rs::digest::{Context, SHA256};
        let mut hash = Context::new(&SHA256);
        for part in [key_id.as_bytes(), sealed, context] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut out = [0; 32];
        out.copy_from_slice(hash.finish().as_ref());
        out
    }

    pub fn get(&self, name: &[u8; 32]) -> Option<Secret> {
        let kept = self.0.lock();
        kept.get(name).filter(|(_, at)| at.elapsed() < KEPT).map(|(key, _)| key.clone())
    }

    pub fn put(&self, name: [u8; 32], key: &Secret) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(name, (key.clone(), Instant::now()));
    }
}
