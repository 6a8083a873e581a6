//! Targets: one file per protocol, one way to use them.
//!
//! Invariants: [`Target::send`] says how many of the messages, from the first on, the other end has
//! acknowledged; a connection is thrown away after any failure; no failure's text holds a secret. The messages of
//! one call are about different keys, so their order among each other means nothing.

mod amqp;
mod elastic;
mod kafka;
mod mqtt;
mod mysql;
mod nats;
mod nsq;
mod postgres;
mod redis;
mod scram;
mod webhook;

use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Settings;
use crate::{Kind, Message, Site};

/// Messages per call, at most.
pub const AT_ONCE: usize = 64;
/// A connection that was not used for so long is made anew: who knows whether it still is one.
const STALE: Duration = Duration::from_secs(20);
/// Time for one call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The target is away, or does not want it now.
    Retry(String),
    /// It will never take this message.
    Refused(String),
}

impl Failure {
    /// In words.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Failure::Retry(why) | Failure::Refused(why) => why,
        }
    }
}

/// What became of messages.
#[derive(Debug)]
pub struct Sent {
    /// How many of them, from the first on, are settled: acknowledged, or refused for good.
    pub done: usize,
    /// Which of the settled ones were refused, and why.
    pub refused: Vec<(usize, String)>,
    /// Why the next was not.
    pub failure: Option<Failure>,
}

impl Sent {
    fn all(messages: &[Message]) -> Sent {
        Sent { done: messages.len(), refused: Vec::new(), failure: None }
    }

    /// From answers to messages that were under way together, as far as those before them are settled.
    fn of(answers: impl IntoIterator<Item = Result<(), Failure>>) -> Sent {
        let mut sent = Sent { done: 0, refused: Vec::new(), failure: None };
        for answer in answers {
            match answer {
                Ok(()) => {}
                Err(Failure::Refused(why)) => sent.refused.push((sent.done, why)),
                Err(failure) => {
                    sent.failure = Some(failure);
                    break;
                }
            }
            sent.done += 1;
        }
        sent
    }

    fn until(done: usize, failure: Failure) -> Sent {
        Sent { done, refused: Vec::new(), failure: Some(failure) }
    }
}

/// How documents are laid down where they can be looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One entry per key, as it is now.
    Namespace,
    /// One entry per event.
    Access,
}

impl Format {
    /// As it is written in settings.
    pub fn parse(text: &str) -> Result<Format, String> {
        match text {
            "namespace" => Ok(Format::Namespace),
            "access" => Ok(Format::Access),
            _ => Err("format is \"namespace\" or \"access\"".into()),
        }
    }
}

/// A protocol with a connection that is kept.
trait Speak {
    /// What a connection is.
    type Conn: Send + Sync;

    /// Connects and signs in.
    fn connect(&self) -> impl Future<Output = Result<Self::Conn, Failure>> + Send;

    /// Sends messages about different keys.
    fn send(
        &self,
        conn: &mut Self::Conn,
        messages: &[Message],
        site: &Site,
    ) -> impl Future<Output = Sent> + Send;

    /// Shows that messages would arrive, by sending a test event where those are understood.
    fn probe(&self, conn: &mut Self::Conn, test: &Message, site: &Site) -> impl Future<Output = Sent> + Send {
        self.send(conn, std::slice::from_ref(test), site)
    }
}

/// A protocol with its connection, if there is one.
struct Kept<S: Speak> {
    speak: S,
    conn: Option<(S::Conn, Instant)>,
}

impl<S: Speak> Kept<S> {
    fn new(speak: S) -> Kept<S> {
        Kept { speak, conn: None }
    }

    async fn send(&mut self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        let mut conn = match self.conn.take().filter(|(_, used)| used.elapsed() < STALE) {
            Some((conn, _)) => conn,
            None => match self.speak.connect().await {
                Ok(conn) => conn,
                Err(failure) => return Sent::until(0, failure),
            },
        };
        let sent = match probe {
            true => self.speak.probe(&mut conn, &messages[0], site).await,
            false => self.speak.send(&mut conn, messages, site).await,
        };
        if sent.failure.is_none() {
            self.conn = Some((conn, Instant::now()));
        }
        sent
    }
}

/// A target that can be sent to.
pub struct Target(Protocol);

enum Protocol {
    Webhook(webhook::Webhook),
    Elastic(elastic::Elastic),
    Nats(Kept<nats::Nats>),
    Amqp(Kept<amqp::Amqp>),
    Mqtt(Kept<mqtt::Mqtt>),
    Redis(Kept<redis::Redis>),
    Nsq(Kept<nsq::Nsq>),
    Kafka(Kept<kafka::Kafka>),
    Postgres(Kept<postgres::Postgres>),
    Mysql(Kept<mysql::Mysql>),
}

impl Target {
    /// Reads its settings. Nothing is connected to.
    ///
    /// # Errors
    /// In words: what is missing or not understood.
    pub fn open(kind: Kind, settings: &Settings<'_>) -> Result<Target, String> {
        Ok(Target(match kind {
            Kind::Webhook => Protocol::Webhook(webhook::Webhook::open(settings)?),
            Kind::Elasticsearch => Protocol::Elastic(elastic::Elastic::open(settings)?),
            Kind::Nats => Protocol::Nats(Kept::new(nats::Nats::open(settings)?)),
            Kind::Amqp => Protocol::Amqp(Kept::new(amqp::Amqp::open(settings)?)),
            Kind::Mqtt => Protocol::Mqtt(Kept::new(mqtt::Mqtt::open(settings)?)),
            Kind::Redis => Protocol::Redis(Kept::new(redis::Redis::open(settings)?)),
            Kind::Nsq => Protocol::Nsq(Kept::new(nsq::Nsq::open(settings)?)),
            Kind::Kafka => Protocol::Kafka(Kept::new(kafka::Kafka::open(settings)?)),
            Kind::Postgres => Protocol::Postgres(Kept::new(postgres::Postgres::open(settings)?)),
            Kind::Mysql => Protocol::Mysql(Kept::new(mysql::Mysql::open(settings)?)),
        }))
    }

    /// Sends at most [`AT_ONCE`] messages about different keys.
    pub async fn send(&mut self, messages: &[Message], site: &Site) -> Sent {
        self.within(messages, site, false).await
    }

    /// Shows that the target is there: sends it a test event, or asks whether it would take one where events
    /// are entries of a database.
    ///
    /// # Errors
    /// It is not.
    pub async fn probe(&mut self, test: &Message, site: &Site) -> Result<(), Failure> {
        let sent = self.within(std::slice::from_ref(test), site, true).await;
        match (sent.failure, sent.refused.into_iter().next()) {
            (Some(failure), _) => Err(failure),
            (None, Some((_, why))) => Err(Failure::Refused(why)),
            (None, None) => Ok(()),
        }
    }

    async fn within(&mut self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        match tokio::time::timeout(PATIENCE, self.run(messages, site, probe)).await {
            Ok(sent) => sent,
            Err(_) => {
                let why = format!("no answer within {} s", PATIENCE.as_secs());
                Sent::until(0, Failure::Retry(why))
            }
        }
    }

    async fn run(&mut self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        match &mut self.0 {
            Protocol::Webhook(t) => t.send(messages).await,
            Protocol::Elastic(t) => t.send(messages, site, probe).await,
            Protocol::Nats(t) => t.send(messages, site, probe).await,
            Protocol::Amqp(t) => t.send(messages, site, probe).await,
            Protocol::Mqtt(t) => t.send(messages, site, probe).await,
            Protocol::Redis(t) => t.send(messages, site, probe).await,
            Protocol::Nsq(t) => t.send(messages, site, probe).await,
            Protocol::Kafka(t) => t.send(messages, site, probe).await,
            Protocol::Postgres(t) => t.send(messages, site, probe).await,
            Protocol::Mysql(t) => t.send(messages, site, probe).await,
        }
    }
}
