//! Cache of parsed documents of buckets.
//!
//! Invariant: a cached value is used only if it was parsed from the same allocation that the bucket has now.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_object::{Bucket, BucketId};
use parking_lot::RwLock;

use crate::documents;

/// Buckets whose documents are kept parsed; all are forgotten when there are more.
const KEPT: usize = 4096;

/// What documents of one kind say. `None` within: it cannot be read.
pub struct Parsed<T> {
    kind: &'static str,
    parse: fn(&str) -> Option<T>,
    #[allow(clippy::type_complexity)] // a text and what it says, of each bucket
    made: RwLock<HashMap<BucketId, (Arc<str>, Option<Arc<T>>)>>,
}

impl<T> Parsed<T> {
    /// Nothing is parsed yet.
    pub fn new(kind: &'static str, parse: fn(&str) -> Option<T>) -> Parsed<T> {
        Parsed { kind, parse, made: RwLock::default() }
    }

    /// The parsed document of a bucket; `None` if it has none, or one that cannot be read.
    pub fn of(&self, bucket: &Bucket) -> Option<Arc<T>> {
        let text = bucket.documents.get(self.kind)?;
        let same = |made: &&(Arc<str>, Option<Arc<T>>)| Arc::ptr_eq(&made.0, text);
        if let Some((_, found)) = self.made.read().get(&bucket.id).filter(same) {
            return found.clone();
        }
        let parsed = (self.parse)(text).map(Arc::new);
        if parsed.is_none() {
            tracing::error!(bucket = bucket.name, kind = self.kind, "a bucket's document cannot be read");
        }
        let mut made = self.made.write();
        if made.len() >= KEPT {
            made.clear();
        }
        made.insert(bucket.id, (text.clone(), parsed.clone()));
        parsed
    }
}

/// What buckets' documents say, by feature.
pub struct Features {
    /// Lifecycle rules.
    pub lifecycle: Parsed<ashlar_lifecycle::Config>,
    /// Origins that browsers may send requests from.
    pub cors: Parsed<crate::cors_rules::Rules>,
    /// Websites.
    pub website: Parsed<crate::website::Website>,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            lifecycle: Parsed::new(ashlar_lifecycle::DOCUMENT, ashlar_lifecycle::Config::decode),
            cors: Parsed::new(documents::cors::DOCUMENT, documents::cors::decode),
            website: Parsed::new(documents::website::DOCUMENT, documents::website::decode),
        }
    }
}
