//! Reads the whole content from etcd, and checks that what etcd holds follows what this node knows.
//!
//! Invariant: a content is as of one revision. A node that knows a content never continues with one that
//! cannot have come from it: an emptied, restored or different etcd is refused.
//!
//! Must not depend on: watches, changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ashlar_cluster::{Nodes, Value};
use ashlar_environment::time::Instant;
use bytes::Bytes;

use crate::gateway::{Fault, Gateway};
use crate::identity::Identity;
use crate::memory::Content;
use crate::wire::{self, Done, Header, Keys, Pair, Ranged};
use crate::{Error, Result};

/// Keys of the first page; later pages depend on the size of the page before.
const FIRST_PAGE: usize = 64;
/// Most keys of a page.
const MAX_PAGE: usize = 4096;
/// Size of a page that is aimed at, in bytes: etcd's gateway answers with at most 4 MiB.
const PAGE_BYTES: usize = 1 << 20;

/// What etcd holds beside the content.
#[derive(Debug)]
pub struct Greeting {
    /// When it was asked.
    pub start: Instant,
    pub header: Header,
    pub identity: Bytes,
    pub head: (u64, Bytes),
    pub fence: u64,
    pub nodes: Nodes,
}

/// A linearizable read of everything but the content.
pub async fn greet(gateway: &Gateway, keys: &Keys, at: usize) -> std::result::Result<Greeting, Greet> {
    let start = Instant::now();
    let reads = [
        wire::range(&keys.identity()),
        wire::range(&keys.head()),
        wire::range(&keys.fence()),
        wire::range_all(&keys.nodes()),
    ];
    let ask = wire::txn(Vec::new(), reads.into_iter().map(wire::read).collect(), Vec::new());
    let done: Done = gateway.call_at(at, "/v3/kv/txn", ask).await.map_err(Greet::Fault)?;
    let one = |place: usize| done.found(place).first().cloned();
    let (identity, head, fence) = match (one(0), one(1), one(2)) {
        (Some(identity), Some(head), Some(fence)) => (identity, head, fence),
        (Some(identity), ..) => return Err(Greet::Incomplete(identity.value)),
        _ => return Err(Greet::Absent),
    };
    let nodes = done.found(3).iter().filter_map(|p| node(keys, p)).collect::<BTreeSet<u16>>();
    Ok(Greeting {
        start,
        header: done.header,
        identity: identity.value,
        head: (head.mod_revision, head.value),
        fence: fence.mod_revision,
        nodes: Arc::new(nodes),
    })
}

/// Why there is no greeting.
#[derive(Debug)]
pub enum Greet {
    Fault(Fault),
    /// The store is not there.
    Absent,
    /// The store is being made or restored; its identity.
    Incomplete(Bytes),
}

fn node(keys: &Keys, pair: &Pair) -> Option<u16> {
    number(keys, &pair.key)
}

/// The number in the key of an announcement.
pub fn number(keys: &Keys, key: &[u8]) -> Option<u16> {
    std::str::from_utf8(key).ok()?.strip_prefix(&keys.nodes())?.parse().ok()
}

/// Refuses an etcd that is not the one this node knows. `None`: it may have forgotten too much to tell, so
/// everything has to be read. Only the start of a process goes on with a store that was restored meanwhile: what this
/// one has read carries revisions of the old store.
pub async fn follows(
    gateway: &Gateway,
    keys: &Keys,
    at: usize,
    known: &Content,
    found: &Greeting,
) -> Result<Option<()>> {
    if found.identity != known.identity
        && let Some(continues) = Identity::decode(&found.identity)?.continues(known)
    {
        return Err(continues.err().unwrap_or(Error::Restored));
    }
    if found.header.cluster_id != known.etcd {
        let (a, b) = (found.header.cluster_id, known.etcd);
        return Err(Error::Replaced(format!("its id is {a:016x}, and was {b:016x}")));
    }
    if found.identity != known.identity {
        return Err(Error::Replaced("the cluster in it was made anew".to_owned()));
    }
    if found.head.0 < known.head.0 || found.header.revision < known.known {
        return Err(Error::Replaced(format!(
            "it is at revision {}, this node at {}",
            found.header.revision, known.known
        )));
    }
    let ask = wire::body(&wire::range_at(&keys.head(), known.known));
    match gateway.call_at::<Ranged>(at, "/v3/kv/range", ask).await {
        Ok(then) => {
            let then = then.kvs.first().map(|p| (p.mod_revision, p.value.clone()));
            if then.as_ref() != Some(&known.head) {
                return Err(Error::Replaced(format!("revision {} had another change", known.head.0)));
            }
            Ok(Some(()))
        }
        Err(Fault::Compacted) => Ok(None),
        Err(fault) => Err(fault.into_error(&keys.root)),
    }
}

/// Reads the content as of the revision of the greeting. `None`: that revision was compacted meanwhile.
pub async fn everything(
    gateway: &Gateway,
    keys: &Keys,
    at: usize,
    found: &Greeting,
) -> Result<Option<Content>> {
    let mut content = Content {
        deployment: Identity::decode(&found.identity)?.deployment()?,
        identity: found.identity.clone(),
        etcd: found.header.cluster_id,
        known: found.header.revision,
        revision: found.head.0,
        head: found.head.clone(),
        entries: BTreeMap::new(),
        bytes: 0,
    };
    let data = keys.data();
    let (mut from, mut limit) = (data.clone().into_bytes(), FIRST_PAGE);
    loop {
        let ask = wire::body(&wire::range_page(&from, &data, found.header.revision, limit));
        let page: Ranged = match gateway.call_at(at, "/v3/kv/range", ask).await {
            Ok(page) => page,
            Err(Fault::TooLarge(_)) if limit > 1 => {
                limit = (limit / 8).max(1);
                continue;
            }
            Err(Fault::Compacted) => return Ok(None),
            Err(fault) => return Err(fault.into_error(&keys.root)),
        };
        let Some(last) = page.kvs.last() else { return Ok(Some(content)) };
        from = [&last.key[..], &[0]].concat();
        let (count, more) = (page.kvs.len(), page.more);
        let mut size = 0;
        for pair in page.kvs {
            size += pair.key.len() + pair.value.len();
            let key = std::str::from_utf8(&pair.key).ok().and_then(|k| k.strip_prefix(&data));
            let Some(key) = key else {
                return Err(Error::Corrupt(format!("a key under {data} that this program did not write")));
            };
            content.fill(key.to_owned(), Value { revision: pair.mod_revision, bytes: pair.value })?;
        }
        if !more {
            return Ok(Some(content));
        }
        limit = (PAGE_BYTES * count / size.max(1)).clamp(1, MAX_PAGE.min(count * 8));
    }
}
