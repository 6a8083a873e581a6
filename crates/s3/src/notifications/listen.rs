//! Streams for listeners: their filters, the events they are sent, and events of reads.
//!
//! Invariants: the queue of a listener is the bounded queue of the feed's watcher; a stream ends when the
//! server stops.
//!
//! Must not depend on: targets, XML.

use ashlar_environment::time;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ashlar_events::rules::DOCUMENT;
use ashlar_events::{Event, Names, Site, store};
use ashlar_object::Object;
use ashlar_object::feed::{Change, Kind, WatchEvent, Watcher};
use bytes::Bytes;
use tokio::sync::watch;

use super::{Counted, Place};
use crate::body::{Broken, Pieces};
use crate::call::Call;
use crate::context::Context;
use crate::fault::{Code, Fault, Outcome};

/// How often something is sent to a listener who did not ask for pings.
const QUIET: Duration = Duration::from_secs(5);

/// What a listener wants to hear of.
pub struct Filter {
    /// The bucket; empty: all.
    pub bucket: String,
    /// Keys begin so.
    pub prefix: String,
    /// Keys end so.
    pub suffix: String,
    /// Which events.
    pub names: Names,
}

impl Filter {
    fn fits(&self, event: &Event) -> bool {
        self.names.has(event.name)
            && (self.bucket.is_empty() || self.bucket == event.bucket)
            && event.key.starts_with(&self.prefix)
            && event.key.ends_with(&self.suffix)
    }
}

/// A listener.
pub struct Stream {
    filter: Filter,
    watch: Watcher,
    site: Arc<Site>,
    ping: Option<Duration>,
    stopping: Option<watch::Receiver<bool>>,
    _place: Place,
    _reads: Option<Counted>,
}

impl Stream {
    /// A new listener in the name of `who`; hears of what happens from now on.
    ///
    /// # Errors
    /// There are too many, in all or of that identity.
    pub fn open(cx: &Context, filter: Filter, ping: Option<u64>, who: &str) -> Outcome<Stream> {
        let place = cx.notifications.place(who).ok_or_else(|| {
            cx.notifications.refused.fetch_add(1, Relaxed);
            Fault::new(Code::SLOW_DOWN).because("too many listeners")
        })?;
        let stopping = cx.notifications.stopping.clone();
        let reads = Names::parse("s3:ObjectAccessed:*").is_some_and(|all| filter.names.meets(all));
        Ok(Stream {
            watch: cx.store.feed().watch(),
            site: cx.notifications.site(),
            ping: ping.map(Duration::from_secs),
            stopping,
            _place: place,
            _reads: reads.then(|| Counted::new(&cx.notifications.reads)),
            filter,
        })
    }
}

impl Pieces for Stream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let silence = time::sleep(self.ping.unwrap_or(QUIET));
        tokio::pin!(silence);
        loop {
            let stop = async {
                match &mut self.stopping {
                    Some(stopping) => drop(stopping.wait_for(|s| *s).await),
                    None => std::future::pending().await,
                }
            };
            let seen = tokio::select! {
                () = stop => return None,
                seen = self.watch.next() => seen,
                () = &mut silence => return Some(Ok(match self.ping {
                    Some(_) => Bytes::from_static(b"{\"Records\":null}\n"),
                    None => Bytes::from_static(b" "),
                })),
            };
            match seen {
                WatchEvent::Change(change) => {
                    let Some(event) = store::event(&change).filter(|e| self.filter.fits(e)) else { continue };
                    return Some(Ok([&event.records("", &self.site)[..], b"\n"].concat().into()));
                }
                // Programs that read lines of events skip it; a person who watches sees it.
                WatchEvent::Missed(missed) => {
                    return Some(Ok(format!("{{\"Records\":null,\"Missed\":{missed}}}\n").into()));
                }
                WatchEvent::Closed => return None,
            }
        }
    }
}

/// Sends an event about a read to its subscribers.
pub fn accessed(cx: &Context, call: &Call, kind: Kind, object: &Object) {
    let bucket = object.bucket();
    let feed = cx.store.feed();
    if !feed.wants(bucket) {
        return;
    }
    let ruled = || {
        let text = bucket.documents.get(DOCUMENT)?;
        store::name(kind).map(|name| cx.notifications.parsed.of(&bucket.name, text).want(name, &call.key))
    };
    if cx.notifications.reads.load(Relaxed) == 0 && !ruled().unwrap_or(false) {
        return;
    }
    // Names that begin with a colon are the store's own.
    let meta = object.version().meta.iter().filter(|(n, _)| !n.starts_with(':')).cloned().collect();
    let change = Change {
        position: 0,
        time_ms: (cx.clock)(),
        bucket: call.bucket.clone(),
        key: call.key.clone(),
        kind,
        version_id: object.version_id(),
        size: object.size(),
        etag: Some(object.etag()),
        meta,
        cause: Arc::new(call.request_origin().cause(kind)),
    };
    feed.report(bucket, change);
}
