//! Targets: one file per protocol, with one interface, [`Target`].
//!
//! Invariants: [`Target::send`] returns how many of the messages, from the first on, the target has
//! acknowledged; a connection is closed after any failure; the text of a failure contains no secret. The
//! messages of one call are about different keys, so their order does not matter.

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
mod sent;
mod speak;
mod webhook;

use ashlar_environment::time;
use std::time::Duration;

use crate::settings::Settings;
use crate::{Kind, Message, Site};
use speak::{Kept, Speak};

pub use crate::settings::Format;
pub use sent::{Failure, Sent};

/// Messages per call, at most.
pub const CONCURRENCY: usize = 64;
/// Time for one call.
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Reads the settings of a target. Does not connect.
    ///
    /// # Errors
    /// A message about a setting that is missing or invalid.
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

    /// Sends at most [`CONCURRENCY`] messages about different keys.
    pub async fn send(&mut self, messages: &[Message], site: &Site) -> Sent {
        self.within(messages, site, false).await
    }

    /// Checks that the target accepts events: sends a test event, or, for a database, only checks that it
    /// could store one.
    ///
    /// # Errors
    /// It does not accept events.
    pub async fn probe(&mut self, test: &Message, site: &Site) -> Result<(), Failure> {
        let sent = self.within(std::slice::from_ref(test), site, true).await;
        match (sent.failure, sent.refused.into_iter().next()) {
            (Some(failure), _) => Err(failure),
            (None, Some((_, why))) => Err(Failure::Refused(why)),
            (None, None) => Ok(()),
        }
    }

    async fn within(&mut self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        match time::timeout(PATIENCE, self.run(messages, site, probe)).await {
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
