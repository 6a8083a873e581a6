//! All targets: which there are, how they fare, dead letters.
//!
//! Invariants: one worker per target, with a reader of its own; a target whose settings did not change is left
//! alone; the reader of a target that is gone is forgotten, so that it does not hold the feed.

use ashlar_environment::time;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ashlar_environment::task::JoinHandle;
use parking_lot::Mutex;

use crate::settings::{Configured, Settings, Values};
use crate::target::Target;
use crate::worker::{self, Counters, PREFIX, Worker};
use crate::{DeadLetter, DeadLetterStore, Error, Message, Result, Site, Source, TargetId, dead_letter_store};

/// Time for a target to take a test event.
const PROBE: Duration = Duration::from_secs(10);

/// How a target fares.
#[derive(Clone, Debug)]
pub struct Status {
    /// Which.
    pub id: TargetId,
    /// Events acknowledged since the start.
    pub sent: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Events laid on the shelf since the start.
    pub dead: u64,
    /// Events that the feed had no room for.
    pub lost: u64,
    /// Changes that wait, of all buckets.
    pub lag: u64,
    /// What is wrong, if something is.
    pub problem: Option<String>,
}

struct Running {
    values: Values,
    counters: Arc<Counters>,
    /// Nothing where the settings cannot be used.
    task: Option<JoinHandle<()>>,
}

/// All targets.
pub struct TargetManager {
    source: Arc<dyn Source>,
    dead_letter_store: Arc<dyn DeadLetterStore>,
    site: Arc<Site>,
    authorities: Vec<Vec<u8>>,
    clock: fn() -> i64,
    running: Mutex<BTreeMap<TargetId, Running>>,
    /// One change at a time.
    turn: tokio::sync::Mutex<()>,
}

impl TargetManager {
    /// No targets yet. `authorities`: certificates in PEM that are trusted in place of the system's.
    #[must_use]
    pub fn new(
        source: Arc<dyn Source>,
        dead_letter_store: Arc<dyn DeadLetterStore>,
        site: Site,
        authorities: Vec<Vec<u8>>,
        clock: fn() -> i64,
    ) -> Arc<TargetManager> {
        let (site, running) = (Arc::new(site), Mutex::default());
        Arc::new(TargetManager {
            source,
            dead_letter_store,
            site,
            authorities,
            clock,
            running,
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Where this server is.
    #[must_use]
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Whether settings could be used.
    ///
    /// # Errors
    /// In words, without values.
    pub fn check(&self, id: &TargetId, values: &Values) -> std::result::Result<(), String> {
        self.open(id, values).map(drop)
    }

    fn open(&self, id: &TargetId, values: &Values) -> std::result::Result<Target, String> {
        Target::open(id.kind, &Settings { values, authorities: &self.authorities })
    }

    /// Takes up what is configured now. Targets whose settings are as before go on undisturbed.
    pub fn configure(&self, configured: Vec<Configured>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let wanted: BTreeMap<TargetId, Values> =
                configured.into_iter().filter(Configured::is_on).map(|c| (c.id, c.values)).collect();
            let mut ended = Vec::new();
            {
                let mut running = self.running.lock();
                running.retain(|id, r| {
                    if wanted.get(id) == Some(&r.values) {
                        return true;
                    }
                    ended.extend(r.task.take());
                    false
                });
            }
            for task in ended {
                // Its reader is let go before another one of the same name is opened.
                task.abort();
                let _ = task.await;
            }
            // Those of targets that went while the server was down, too.
            for name in self.source.readers() {
                let id = name.strip_prefix(PREFIX).and_then(TargetId::parse);
                if id.is_some_and(|id| !wanted.contains_key(&id)) {
                    self.source.forget(&name);
                }
            }
            for (id, values) in wanted {
                if !self.running.lock().contains_key(&id) {
                    let running = self.start(&id, values);
                    self.running.lock().insert(id, running);
                }
            }
        })
    }

    fn start(&self, id: &TargetId, values: Values) -> Running {
        let counters = Arc::new(Counters::default());
        let task = match self.open(id, &values) {
            Ok(target) => {
                let worker = Worker {
                    id: id.clone(),
                    target,
                    source: self.source.clone(),
                    dead_letter_store: self.dead_letter_store.clone(),
                    site: self.site.clone(),
                    counters: counters.clone(),
                    clock: self.clock,
                };
                Some(ashlar_environment::spawn("events-worker", worker.run()))
            }
            Err(why) => {
                tracing::error!(target_id = %id, why, "a target for events cannot be used");
                *counters.problem.lock() = Some(why);
                None
            }
        };
        Running { values, counters, task }
    }

    /// Whether events can be sent there.
    #[must_use]
    pub fn knows(&self, id: &TargetId) -> bool {
        self.running.lock().get(id).is_some_and(|r| r.task.is_some())
    }

    /// How all targets fare.
    #[must_use]
    pub fn statuses(&self) -> Vec<Status> {
        let running = self.running.lock();
        let of = |(id, r): (&TargetId, &Running)| Status {
            id: id.clone(),
            sent: r.counters.sent.load(Relaxed),
            failed: r.counters.failed.load(Relaxed),
            dead: r.counters.dead.load(Relaxed),
            lost: r.counters.lost.load(Relaxed),
            lag: r.counters.lag.load(Relaxed),
            problem: r.counters.problem.lock().clone(),
        };
        running.iter().map(of).collect()
    }

    fn fresh(&self, id: &TargetId) -> Result<Target> {
        let values = self.running.lock().get(id).map(|r| r.values.clone());
        let values = values.ok_or_else(|| Error::Invalid(format!("no target {id} is configured")))?;
        self.open(id, &values).map_err(Error::Invalid)
    }

    /// Sends a test event, over a connection of its own.
    ///
    /// # Errors
    /// `Unreachable`; `Invalid`: there is no such target.
    pub fn test<'a>(
        &'a self,
        id: &'a TargetId,
        bucket: &'a str,
        request_id: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut target = self.fresh(id)?;
            let test = Message::test(bucket, request_id, (self.clock)(), &self.site);
            let problem = match time::timeout(PROBE, target.probe(&test, &self.site)).await {
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(failure.why().to_owned()),
                Err(_) => Some(format!("no answer within {} s", PROBE.as_secs())),
            };
            // As an attempt to send: it is what is known of the target.
            if let Some(running) = self.running.lock().get(id) {
                running.counters.problem.lock().clone_from(&problem);
            }
            let Some(why) = problem else { return Ok(()) };
            Err(Error::Unreachable(format!("{} ({why})", id.arn(&self.site.region))))
        })
    }

    /// The oldest dead letters, of one target (`ID:TYPE`) or of all.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn letters<'a>(&'a self, target: Option<&'a str>) -> BoxFuture<'a, Result<Vec<DeadLetter>>> {
        Box::pin(async move { self.dead_letter_store.list(target, dead_letter_store::PAGE).await })
    }

    /// Sends dead letters again, oldest first, and takes those away that were delivered: how many were. It ends
    /// with the first that was not.
    ///
    /// # Errors
    /// `Unreachable`, with how many were delivered before; `Unavailable`.
    pub fn replay<'a>(&'a self, target: &'a TargetId) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            let mut to = self.fresh(target)?;
            let mut done = 0;
            for dead_letter in self.letters(Some(&target.to_string())).await? {
                if let Err(failure) = worker::again(&mut to, &dead_letter, &self.site).await {
                    return Err(Error::Unreachable(format!(
                        "{target} ({}); {done} were delivered before",
                        failure.why()
                    )));
                }
                self.dead_letter_store.remove(vec![dead_letter.id]).await?;
                done += 1;
            }
            Ok(done)
        })
    }

    /// Takes dead letters of a target away: all of the first page, or one. How many there were.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn discard<'a>(&'a self, target: &'a str, one: Option<&'a str>) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            let letters = self.letters(Some(target)).await?;
            let ids: Vec<String> =
                letters.into_iter().map(|l| l.id).filter(|id| one.is_none_or(|o| o == id)).collect();
            let count = ids.len();
            self.dead_letter_store.remove(ids).await?;
            Ok(count)
        })
    }

    /// Ends all workers. What is not acknowledged is sent again after the next start.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let tasks: Vec<_> = self.running.lock().values_mut().filter_map(|r| r.task.take()).collect();
            for task in tasks {
                task.abort();
                let _ = task.await;
            }
        })
    }
}
