//! Delivery of access logs, as objects.
//!
//! Invariant: a log object is made like any object of its bucket: the bucket's settings for encryption, locks
//! and notifications apply. Must not depend on: the content of lines.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ashlar_object::feed::{Cause, Kind};
use ashlar_object::{Class, Conditions, PutSpec, VersionSpec};
use bytes::Bytes;
use http::HeaderMap;

use super::{Logs, Waiting};
use crate::buckets::Buckets;
use crate::context::Context;
use crate::date;
use crate::documents::logging::Logging;
use crate::ops::lock;
use crate::sse;

impl Logs {
    /// Delivers the waiting lines: an object for each bucket. Lines that cannot be delivered are dropped and
    /// logged.
    pub async fn deliver(&self, cx: &Context) {
        self.look_again(&cx.store);
        self.pressing.store(false, Relaxed);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (bucket, of) in waiting {
            let bytes = of.lines.len();
            match put(cx, &bucket, of).await {
                Ok(()) => {
                    self.delivered.fetch_add(1, Relaxed);
                }
                Err(error) => {
                    self.dropped.fetch_add(1, Relaxed);
                    tracing::warn!(bucket, error, "an access log could not be delivered and is lost");
                }
            }
            self.held.fetch_sub(bytes, Relaxed);
        }
    }
}

async fn put(cx: &Context, bucket: &str, of: Waiting) -> Result<(), String> {
    let mut unique = [0u8; 8];
    ashlar_environment::random::fill(&mut unique).map_err(|e| e.to_string())?;
    let now_ms = (cx.clock)();
    let key = key(&of.logging, cx, bucket, now_ms, of.since_ms, &hex::encode_upper(unique));
    let buckets = Buckets::new(&cx.store);
    let target = buckets.find(&of.logging.target).map_err(|e| e.to_string())?;
    let (retention, legal_hold) =
        lock::for_new_object(cx, &target, &HeaderMap::new()).map_err(|fault| fault.message().to_owned())?;
    let spec =
        PutSpec { size: of.lines.len() as u64, checksum: None, want_md5: true, class: Class::Standard };
    let words = |e: ashlar_object::Error| e.to_string();
    // Like any object there: the bucket's default encryption applies, and its followers get an event.
    let made = sse::for_new(cx, buckets.named(&of.logging.target), &key, &HeaderMap::new(), true).await;
    let made = made.map_err(|fault| fault.message().to_owned())?;
    let cause = Cause { kind: Kind::Put, who: "logging".to_owned(), ..Cause::default() };
    let store = cx.store.by(Arc::new(cause));
    let seal = made.as_ref().map(|m| m.seal.clone());
    let mut put = store.put_sealed(&target, &key, spec, seal).await.map_err(words)?;
    put.write(Bytes::from(of.lines)).await.map_err(words)?;
    put.end().await.map_err(words)?;
    let meta = vec![("content-type".to_owned(), "text/plain".to_owned())];
    let spec = VersionSpec { meta, retention, legal_hold, ..VersionSpec::default() };
    put.commit(spec, &Conditions::NONE).await.map_err(words)?;
    Ok(())
}

/// The key of a log object.
fn key(logging: &Logging, cx: &Context, bucket: &str, now_ms: i64, since_ms: i64, unique: &str) -> String {
    let stamp = date::format_iso_secs(now_ms.div_euclid(1000));
    let stamp = stamp.trim_end_matches('Z').replace(['T', ':'], "-");
    let prefix = &logging.prefix;
    match logging.partitioned {
        None => format!("{prefix}{stamp}-{unique}"),
        Some(of_events) => {
            let at = date::format_iso_secs(if of_events { since_ms } else { now_ms }.div_euclid(1000));
            let day = at[..10].replace('-', "/");
            let (owner, region) = (&cx.owner_id, &cx.region);
            let stamp = match of_events {
                // As in AWS the time of day is not used there.
                true => format!("{}-00-00-00", &at[..10]),
                false => stamp,
            };
            format!("{prefix}{owner}/{region}/{bucket}/{day}/{stamp}-{unique}")
        }
    }
}
