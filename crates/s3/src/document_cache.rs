//! Shared parts of authorization: compiled policies, settings from documents of buckets, the origin of a
//! request.
//!
//! Invariant: a document that cannot be read denies. Must not depend on: identities, operations.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ashlar_object::{Bucket, BucketId};
use ashlar_policy::{Ownership, Policy, PublicAccessBlock};
use parking_lot::RwLock;

use crate::access_log::Logs;
use crate::acl;
use crate::documents::POLICY;
use crate::documents::public_access_block::{BLOCK, block_from};
use crate::parsed::Features;

/// Buckets whose policies are kept compiled; all are forgotten when there are more.
const COMPILED: usize = 4096;

/// A bucket's policy, public access block and ownership, as compiled from its documents.
pub(crate) struct Rules {
    /// What they were made from: the same allocation, the same text.
    made_from: [Option<Arc<str>>; 3],
    /// `Err`: it cannot be read.
    pub policy: Result<Option<Policy>, ()>,
    pub block: PublicAccessBlock,
    pub ownership: Ownership,
}

/// What decisions share.
#[derive(Default)]
pub struct DocumentCache {
    rules: RwLock<HashMap<BucketId, Arc<Rules>>>,
    /// What buckets' documents say.
    pub features: Features,
    /// Access logs of buckets.
    pub logs: Logs,
    /// Every decision is written down, so it is looked up which statement made it.
    pub(crate) recorded: bool,
}

/// Where a request came from.
#[derive(Clone)]
pub struct Origin {
    /// The other end of the connection.
    pub ip: IpAddr,
    /// What decisions share.
    pub document_cache: Arc<DocumentCache>,
}

impl DocumentCache {
    /// Nothing is compiled yet.
    pub fn new(recorded: bool) -> DocumentCache {
        DocumentCache { recorded, ..DocumentCache::default() }
    }

    /// The rules of a bucket that has any.
    pub(crate) fn rules(&self, bucket: &Bucket) -> Option<Arc<Rules>> {
        let documents = [POLICY, BLOCK, acl::OWNERSHIP].map(|d| bucket.documents.get(d).cloned());
        if documents.iter().all(Option::is_none) {
            return None;
        }
        let same = |r: &&Arc<Rules>| {
            let both = r.made_from.iter().zip(&documents);
            both.into_iter().all(|pair| match pair {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            })
        };
        if let Some(rules) = self.rules.read().get(&bucket.id).filter(same) {
            return Some(rules.clone());
        }
        let policy = documents[0].as_deref().map(|d| Policy::parse_for_bucket(&bucket.name, d.as_bytes()));
        let policy = policy.transpose().map_err(|e| {
            tracing::error!(bucket = bucket.name, error = %e, "the bucket's policy cannot be read; all requests are denied");
        });
        let block = match documents[1].as_deref().map(block_from) {
            None => PublicAccessBlock::default(),
            // What cannot be read blocks everything.
            Some(block) => block.unwrap_or(PublicAccessBlock::ALL),
        };
        let rules =
            Arc::new(Rules { made_from: documents, policy, block, ownership: acl::ownership(bucket) });
        let mut all = self.rules.write();
        if all.len() >= COMPILED {
            all.clear();
        }
        all.insert(bucket.id, rules.clone());
        Some(rules)
    }
}
