//! Streams for listeners: their filters, the events they are sent, and events of reads.
//!
//! A listener hears of the changes of all nodes: of those that this one makes from the feed, of others through
//! `elsewhere`.
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
use ashlar_events::{Names, Site, store};
use ashlar_object::Object;
use ashlar_object::feed::{Change, Kind, WatchEvent, Watcher};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::elsewhere::{Filter, Heard};
use super::{Counted, Place};
use crate::body::{Broken, Pieces};
use crate::call::Call;
use crate::context::Context;
use crate::fault::{Code, Fault, Outcome};

/// How often something is sent to a listener who did not ask for pings.
const QUIET: Duration = Duration::from_secs(5);

/// Hears of the changes that this node makes, and of reads here.
pub struct Listener {
    filter: Filter,
    watch: Watcher,
    site: Arc<Site>,
    _reads: Option<Counted>,
}

impl Listener {
    /// Hears of what happens from now on. How many there are is limited by whoever calls this.
    #[must_use]
    pub fn new(cx: &Context, filter: Filter) -> Listener {
        let reads = Names::parse("s3:ObjectAccessed:*").is_some_and(|all| filter.names.meets(all));
        Listener {
            watch: cx.store.feed().watch(),
            site: cx.notifications.site(),
            _reads: reads.then(|| Counted::new(&cx.notifications.reads)),
            filter,
        }
    }

    /// The next line; `None`: the store is closed. What was received is not lost if this is given up.
    pub fn next_line(&mut self) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(async move {
            loop {
                match self.watch.next().await {
                    WatchEvent::Change(change) => {
                        let event = store::event(&change).filter(|e| self.filter.fits(e));
                        let Some(event) = event else { continue };
                        return Some([&event.records("", &self.site)[..], b"\n"].concat().into());
                    }
                    // Programs that read lines of events skip it; a person who watches sees it.
                    WatchEvent::Missed(missed) => {
                        return Some(format!("{{\"Records\":null,\"Missed\":{missed}}}\n").into());
                    }
                    WatchEvent::Closed => return None,
                }
            }
        })
    }
}

/// The answer to a listener.
pub struct Stream {
    here: Listener,
    elsewhere: Option<Box<dyn Heard>>,
    ping: Option<Duration>,
    stopping: Option<watch::Receiver<bool>>,
    _place: Place,
}

impl Stream {
    /// A new listener in the name of `who`; hears of what happens from now on.
    ///
    /// # Errors
    /// There are too many, in all or of that identity.
    pub async fn open(cx: &Context, filter: Filter, ping: Option<u64>, who: &str) -> Outcome<Stream> {
        let place = cx.notifications.place(who).ok_or_else(|| {
            cx.notifications.refused.fetch_add(1, Relaxed);
            Fault::new(Code::SLOW_DOWN).because("too many listeners")
        })?;
        let elsewhere = match cx.notifications.elsewhere.get() {
            Some(others) => Some(others.listen(&filter).await),
            None => None,
        };
        Ok(Stream {
            here: Listener::new(cx, filter),
            elsewhere,
            ping: ping.map(Duration::from_secs),
            stopping: cx.notifications.stopping.clone(),
            _place: place,
        })
    }
}

impl Pieces for Stream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let Stream { here, elsewhere, ping, stopping, .. } = self;
        let stop = async {
            match stopping {
                Some(stopping) => drop(stopping.wait_for(|s| *s).await),
                None => std::future::pending().await,
            }
        };
        let others = async {
            match elsewhere {
                Some(elsewhere) => elsewhere.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => None,
            line = here.next_line() => line.map(Ok),
            lines = others => Some(Ok(lines)),
            () = time::sleep(ping.unwrap_or(QUIET)) => Some(Ok(match ping {
                Some(_) => Bytes::from_static(b"{\"Records\":null}\n"),
                None => Bytes::from_static(b" "),
            })),
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
        ballot: object.ballot(),
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
