//! What the door tells of: listeners, and reads that somebody wants to hear of.
//!
//! Invariants: listeners are bounded, in all and for each identity, so that they cannot take all connections; each has the bounded queue that the feed's watch is; a
//! read costs nothing more than a look at a counter and a map unless somebody wants to hear of it; a stream ends
//! when the server stops.
//!
//! Must never know: targets, XML.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use ashlar_events::rules::DOCUMENT;
use ashlar_events::{Event, Hub, Names, Parsed, Site, store};
use ashlar_object::Object;
use ashlar_object::feed::{Change, Kind, Watch, Watched};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::body::{Broken, Pieces};
use crate::fault::{Code, Fault, Outcome};
use crate::ops::{Call, Context};

/// Listeners at a time, unless said otherwise, and of one identity.
const LISTENERS: usize = 512;
const LISTENERS_EACH: usize = 64;
/// How often something is sent to a listener who did not ask for pings.
const QUIET: Duration = Duration::from_secs(5);

/// What operations share about notifications.
pub struct Notices {
    hub: Option<Arc<Hub>>,
    parsed: Arc<Parsed>,
    listeners: Arc<Semaphore>,
    /// How many each identity has, and may have.
    each: Arc<Mutex<HashMap<String, usize>>>,
    most_each: usize,
    refused: AtomicU64,
    /// Listeners who want to hear of reads.
    reads: Arc<AtomicUsize>,
    /// True when the server stops.
    stopping: Option<watch::Receiver<bool>>,
}

impl Default for Notices {
    /// No targets; listeners are served.
    fn default() -> Notices {
        Notices {
            hub: None,
            parsed: Arc::new(Parsed::new("")),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            each: Arc::default(),
            most_each: LISTENERS_EACH,
            refused: AtomicU64::new(0),
            reads: Arc::default(),
            stopping: None,
        }
    }
}

impl Notices {
    /// With targets.
    #[must_use]
    pub fn new(hub: Arc<Hub>, parsed: Arc<Parsed>, stopping: watch::Receiver<bool>) -> Notices {
        Notices { hub: Some(hub), parsed, stopping: Some(stopping), ..Notices::default() }
    }

    /// With other bounds on listeners: in all, and of one identity.
    #[must_use]
    pub fn bounded(self, all: usize, each: usize) -> Notices {
        Notices { listeners: Arc::new(Semaphore::new(all)), most_each: each, ..self }
    }

    /// Listeners that were refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn place(&self, who: &str) -> Option<Place> {
        let place = self.listeners.clone().try_acquire_owned().ok()?;
        let mut each = self.each.lock();
        let mine = each.entry(who.to_owned()).or_default();
        if *mine >= self.most_each {
            return None;
        }
        *mine += 1;
        drop(each);
        Some(Place { each: self.each.clone(), who: who.to_owned(), _place: place })
    }

    /// The targets.
    #[must_use]
    pub fn hub(&self) -> Option<&Arc<Hub>> {
        self.hub.as_ref()
    }

    fn site(&self) -> Arc<Site> {
        self.hub.as_ref().map_or_else(Arc::default, |h| h.site().clone())
    }
}

/// Tells of a read, if somebody wants to hear of it.
pub fn accessed(cx: &Context, call: &Call, kind: Kind, object: &Object) {
    let Ok(bucket) = cx.store.bucket(&call.bucket) else { return };
    let feed = cx.store.feed();
    if !feed.wants(&bucket) {
        return;
    }
    let ruled = || {
        let text = bucket.documents.get(DOCUMENT)?;
        store::name(kind).map(|name| cx.notices.parsed.of(&bucket.name, text).want(name, &call.key))
    };
    if cx.notices.reads.load(Relaxed) == 0 && !ruled().unwrap_or(false) {
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
        cause: Arc::new(call.came().cause(kind)),
    };
    feed.tell(&bucket, change);
}

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

/// A listener's place among all, and among those of its identity.
struct Place {
    each: Arc<Mutex<HashMap<String, usize>>>,
    who: String,
    _place: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut each = self.each.lock();
        if let Some(mine) = each.get_mut(&self.who) {
            *mine -= 1;
            if *mine == 0 {
                each.remove(&self.who);
            }
        }
    }
}

/// Listeners that want to hear of reads are counted.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(of: &Arc<AtomicUsize>) -> Counted {
        of.fetch_add(1, Relaxed);
        Counted(of.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A listener.
pub struct Stream {
    filter: Filter,
    watch: Watch,
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
        let place = cx.notices.place(who).ok_or_else(|| {
            cx.notices.refused.fetch_add(1, Relaxed);
            Fault::new(Code::SLOW_DOWN).because("too many listeners")
        })?;
        let stopping = cx.notices.stopping.clone();
        let reads = Names::parse("s3:ObjectAccessed:*").is_some_and(|all| filter.names.meets(all));
        Ok(Stream {
            watch: cx.store.feed().watch(),
            site: cx.notices.site(),
            ping: ping.map(Duration::from_secs),
            stopping,
            _place: place,
            _reads: reads.then(|| Counted::new(&cx.notices.reads)),
            filter,
        })
    }
}

impl Pieces for Stream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let silence = tokio::time::sleep(self.ping.unwrap_or(QUIET));
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
                Watched::Change(change) => {
                    let Some(event) = store::event(&change).filter(|e| self.filter.fits(e)) else { continue };
                    return Some(Ok([&event.records("", &self.site)[..], b"\n"].concat().into()));
                }
                // A program that reads lines of events passes over it; somebody who looks sees it.
                Watched::Missed(missed) => {
                    return Some(Ok(format!("{{\"Records\":null,\"Missed\":{missed}}}\n").into()));
                }
                Watched::Closed => return None,
            }
        }
    }
}
