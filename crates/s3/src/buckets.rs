//! The buckets that a request is about, each looked up by its name once.
//!
//! Permission, rules for browsers, encryption, retention, the operation and the access log of a request thus
//! see one revision of a bucket, and of two buckets with one name, one after the other, the same one.
//!
//! Invariants: this is the only place in this crate that looks a bucket up (`cargo xtask tidy` checks this);
//! a request sees the bucket of a name, or its absence, as it was at the first look-up, until the request
//! ends. Only a caller with permission learns that a bucket does not exist: the code that calls this module
//! has checked the permission, or checks it with the result.
//!
//! Must not depend on: operations.

use std::sync::Arc;

use ashlar_object::{Error, OpenBucket, Store};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::fault::Outcome;
use crate::store_fault::fault;

/// The buckets of one request.
pub struct Buckets {
    store: Store,
    /// Its own; that of a copy's source; rarely another.
    found: Mutex<SmallVec<[Found; 2]>>,
}

enum Found {
    There(OpenBucket),
    Missing(String),
}

impl Buckets {
    /// Nothing is looked up yet.
    #[must_use]
    pub fn new(store: &Store) -> Arc<Buckets> {
        Arc::new(Buckets { store: store.clone(), found: Mutex::default() })
    }

    /// The bucket of this name.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Internal` when what is stored cannot be understood.
    pub fn find(&self, name: &str) -> Result<OpenBucket, Error> {
        let mut found = self.found.lock();
        for f in &*found {
            match f {
                Found::There(bucket) if bucket.name == name => return Ok(bucket.clone()),
                Found::Missing(missing) if missing == name => return Err(Error::NoSuchBucket),
                _ => {}
            }
        }
        let bucket = self.store.bucket(name);
        match &bucket {
            Ok(bucket) => found.push(Found::There(bucket.clone())),
            Err(Error::NoSuchBucket) => found.push(Found::Missing(name.to_owned())),
            Err(_) => {}
        }
        bucket
    }

    /// A name, to be looked up here where it is needed.
    pub fn named<'a>(&'a self, name: &'a str) -> Named<'a> {
        Named { buckets: self, name }
    }
}

/// A bucket by its name among those of a request.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    buckets: &'a Buckets,
    name: &'a str,
}

impl Named<'_> {
    /// The bucket, or that there is none.
    pub fn open(self) -> Outcome<OpenBucket> {
        self.buckets.find(self.name).map_err(|e| fault(e, self.name, ""))
    }
}
