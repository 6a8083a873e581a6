//! The worker: delivers events to one target.
//!
//! Invariants: events are sent in the order of the feed, and several are in flight only if their keys differ;
//! an event that the target did not acknowledge is sent again without end, with growing pauses up to
//! [`SLOWEST`]; the reader advances only after an event was acknowledged or stored as a dead letter.

use ashlar_environment::time;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::target::{CONCURRENCY, Failure, Target};
use crate::{DeadLetter, DeadLetterStore, Event, Message, Name, Reader, Site, Source, TargetId};

/// First pause after a failure.
const SOON: Duration = Duration::from_millis(100);
/// Longest pause after a failure.
const SLOWEST: Duration = Duration::from_secs(20);
/// Most events that are read in one batch.
const BATCH: usize = 256;

/// Counters of one target.
#[derive(Default)]
pub struct Counters {
    /// Events acknowledged.
    pub sent: AtomicU64,
    /// Attempts that failed.
    pub failed: AtomicU64,
    /// Events stored as dead letters.
    pub dead: AtomicU64,
    /// Events that the full feed dropped.
    pub lost: AtomicU64,
    /// Changes of all buckets that the worker has not read.
    pub lag: AtomicU64,
    /// Why the last attempt failed; `None` if it succeeded.
    pub problem: Mutex<Option<String>>,
}

/// The state of a worker.
pub struct Worker {
    pub id: TargetId,
    pub target: Target,
    pub source: Arc<dyn Source>,
    pub dead_letter_store: Arc<dyn DeadLetterStore>,
    pub site: Arc<Site>,
    pub counters: Arc<Counters>,
    pub clock: fn() -> i64,
}

/// Prefix of the names of targets' readers.
pub const PREFIX: &str = "events/";

/// A pause changed at random by up to a quarter, so that workers do not try again at the same time.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0u8; 1];
    let _ = ashlar_environment::random::fill(&mut random);
    pause.mul_f64(0.75 + f64::from(random[0]) / 512.0)
}

impl Worker {
    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let name = format!("{PREFIX}{}", self.id);
        let mut reader = loop {
            match self.source.reader(&name).await {
                Ok(reader) => break reader,
                Err(error) => {
                    tracing::warn!(target_id = %self.id, %error, "the change feed cannot be read yet");
                    *self.counters.problem.lock() = Some(error.to_string());
                    time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        loop {
            self.counters.lag.store(reader.lag(), Relaxed);
            let batch = match reader.next(BATCH).await {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(target_id = %self.id, %error, "the change feed cannot be read");
                    time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            self.counters.lag.store(reader.lag(), Relaxed);
            if batch.lost > 0 {
                self.counters.lost.fetch_add(batch.lost, Relaxed);
                let why = format!(
                    "the change feed had no room for {} changes that this target had not read",
                    batch.lost
                );
                self.store_dead_letter(why, None, batch.lost).await;
            }
            let messages: Vec<Message> = batch.events.iter().filter_map(|e| self.wanted(e)).collect();
            self.deliver(&messages, &*reader).await;
            reader.done(batch.upto);
        }
    }

    /// The message for an event, if a rule of this target matches it.
    fn wanted(&self, event: &Arc<Event>) -> Option<Message> {
        let rules = self.source.rules(&event.bucket)?;
        let rule = rules.of(&self.id, event.name, &event.key)?;
        let body = event.log(&rule.id, &self.site);
        Some(Message { event: event.clone(), rule: rule.id.as_str().into(), body })
    }

    async fn deliver(&mut self, messages: &[Message], reader: &dyn Reader) {
        let mut at = 0;
        let mut pause = SOON;
        while at < messages.len() {
            let group = &messages[at..at + different(&messages[at..])];
            let sent = self.target.send(group, &self.site).await;
            for (which, why) in &sent.refused {
                self.store_dead_letter(why.clone(), Some(&group[*which]), 0).await;
            }
            at += sent.done;
            if sent.done > 0 {
                self.counters.sent.fetch_add((sent.done - sent.refused.len()) as u64, Relaxed);
                reader.done(messages[at - 1].event.position);
                pause = SOON;
            }
            match sent.failure {
                None => *self.counters.problem.lock() = None,
                Some(Failure::Refused(why)) => {
                    let message = &messages[at];
                    self.store_dead_letter(why, Some(message), 0).await;
                    at += 1;
                    reader.done(message.event.position);
                }
                Some(Failure::Retry(why)) => {
                    self.counters.failed.fetch_add(1, Relaxed);
                    self.counters.lag.store(reader.lag(), Relaxed);
                    let news = self.counters.problem.lock().replace(why.clone()).is_none_or(|old| old != why);
                    if news {
                        tracing::warn!(target_id = %self.id, why, "events were not delivered; they are sent again later");
                    }
                    time::sleep(jittered(pause)).await;
                    pause = (pause * 2).min(SLOWEST);
                }
            }
        }
    }

    /// Stores a dead letter. Tries until it is stored, so that no event is lost.
    async fn store_dead_letter(&self, why: String, message: Option<&Message>, lost: u64) {
        let at_ms = (self.clock)();
        let position = message.map_or(0, |m| m.event.position);
        tracing::error!(target_id = %self.id, why, position, lost, "events are moved to the dead letters");
        let dead_letter = DeadLetter {
            id: format!("{}/{at_ms:016x}-{position:016x}-{:04x}", self.id, chance() & 0xffff),
            target: self.id.to_string(),
            at_ms,
            why,
            rule: message.map(|m| m.rule.to_string()).unwrap_or_default(),
            event: message.map(|m| (*m.event).clone()),
            lost,
        };
        let mut pause = SOON;
        while let Err(error) = self.dead_letter_store.put(dead_letter.clone()).await {
            tracing::error!(target_id = %self.id, %error, "a dead letter cannot be stored yet");
            time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(SLOWEST);
        }
        self.counters.dead.fetch_add(1, Relaxed);
    }
}

/// The number of messages, from the first on, that are about different keys; at most [`CONCURRENCY`].
fn different(messages: &[Message]) -> usize {
    let mut seen = HashSet::new();
    let fresh = |m: &&Message| seen.insert((m.event.bucket.clone(), m.event.key.clone()));
    messages.iter().take(CONCURRENCY).take_while(fresh).count()
}

/// Sends a dead letter again.
pub async fn resend(target: &mut Target, dead_letter: &DeadLetter, site: &Site) -> Result<(), Failure> {
    let Some(event) = &dead_letter.event else { return Ok(()) };
    if event.name == Name::Test {
        return Ok(());
    }
    let message = Message::new(event.clone(), &dead_letter.rule, site);
    let sent = target.send(std::slice::from_ref(&message), site).await;
    match (sent.failure, sent.refused.into_iter().next()) {
        (Some(failure), _) => Err(failure),
        (None, Some((_, why))) => Err(Failure::Refused(why)),
        (None, None) => Ok(()),
    }
}

/// Tells apart dead letters of several nodes, which may have the same time and position.
fn chance() -> u64 {
    // Without random bytes, they are as likely apart as their times are.
    ashlar_environment::random::u64().unwrap_or(0)
}
