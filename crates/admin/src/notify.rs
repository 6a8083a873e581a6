//! The settings of event targets: their names, which are MinIO's, and their sources.
//!
//! Invariants: settings of the environment override stored ones, and cannot be changed at run time; values
//! that contain passwords are secret as a whole.
//!
//! Must not depend on: how events are sent.

use std::sync::Arc;

use ashlar_events::settings::{Configured, from_environment};
use ashlar_events::{Kind, TargetId, TargetManager};
use ashlar_iam::Iam;
use futures::future::BoxFuture;

use super::settings::{COMMENT, ENABLE, Name, Subsystem, name, secret};

const QUEUE_DIR: Name = name("queue_dir", "of MinIO: events wait in the change feed, whatever this is");
const QUEUE_LIMIT: Name = name("queue_limit", "of MinIO: how much waits is the bound of the change feed");
const TLS: Name = name("tls", "\"on\": over TLS");
const SKIP: Name = name("tls_skip_verify", "\"on\": accept any certificate of the server");
const CLIENT_CERT: Name = name("client_cert", "file with the client's certificate, in PEM");
const CLIENT_KEY: Name = name("client_key", "file with its key");
const CERT_AUTHORITY: Name = name("cert_authority", "file with the authorities to trust, in PEM");
const FORMAT: Name = name("format", "\"namespace\": an entry per key, or \"access\": an entry per event");
const USERNAME: Name = name("username", "user name");
const PASSWORD: Name = secret("password", "password");
const OPEN: Name = name("max_open_connections", "of MinIO: one connection is used");

/// Subsystem, description, and names.
macro_rules! subsystems {
    ($($constant:ident $subsystem:literal $help:literal [$($name:expr,)*];)*) => {
        $(
            /// A type of target.
            pub(crate) const $constant: Subsystem = Subsystem {
                name: $subsystem,
                help: $help,
                several: true,
                names: &[ENABLE, $($name,)* QUEUE_DIR, QUEUE_LIMIT, COMMENT],
            };
        )*
    };
}

subsystems! {
    WEBHOOK "notify_webhook" "events to a webhook" [
        name("endpoint", "where to: http:// or https://"),
        secret("auth_token", "the value of the Authorization header; without a scheme, a bearer's token"),
        CLIENT_CERT, CLIENT_KEY,
    ];
    KAFKA "notify_kafka" "events to a topic of Kafka" [
        name("brokers", "HOST:PORT, separated by commas"),
        name("topic", "the topic"),
        name("sasl", "\"on\": with a password"),
        name("sasl_username", "user name"),
        secret("sasl_password", "password"),
        name("sasl_mechanism", "plain, sha256 or sha512"),
        TLS, SKIP,
        name("tls_client_auth", "of MinIO: a certificate is shown if there is one"),
        name("client_tls_cert", "file with the client's certificate, in PEM"),
        name("client_tls_key", "file with its key"),
        CERT_AUTHORITY,
        name("version", "of MinIO: the version is asked for"),
        name("batch_size", "of MinIO: what waits is sent together"),
        name("batch_commit_timeout", "of MinIO: nothing waits for more"),
        name("producer_compression_codec", "none"),
        name("producer_compression_level", "of MinIO"),
    ];
    NATS "notify_nats" "events to a subject of NATS" [
        name("address", "HOST:PORT"),
        name("subject", "the subject"),
        USERNAME, PASSWORD,
        secret("token", "the token that signs in"),
        secret("nkey_seed", "not implemented"),
        secret("user_credentials", "not implemented"),
        TLS, SKIP,
        name("tls_handshake_first", "\"on\": TLS before anything is said"),
        CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
        name("ping_interval", "of MinIO"),
        name("jetstream", "\"on\": to JetStream, which acknowledges"),
        name("streaming", "not implemented: NATS Streaming has ended"),
        name("streaming_async", "not implemented"),
        name("streaming_max_pub_acks_in_flight", "of MinIO"),
        name("streaming_cluster_id", "of MinIO"),
    ];
    AMQP "notify_amqp" "events to an exchange of AMQP 0-9-1 (RabbitMQ)" [
        secret("url", "amqp:// or amqps://USER:PASSWORD@HOST:PORT/VHOST"),
        name("exchange", "the exchange; it is made if it is not there"),
        name("exchange_type", "direct, fanout, topic or headers"),
        name("routing_key", "the routing key"),
        name("mandatory", "\"on\": a message that no queue takes is not delivered"),
        name("durable", "\"on\": the exchange is durable"),
        name("no_wait", "of MinIO: it is always waited for"),
        name("internal", "\"on\": the exchange is internal"),
        name("auto_deleted", "\"on\": the exchange goes with its last queue"),
        name("delivery_mode", "2: messages are persistent"),
        name("publisher_confirms", "of MinIO: confirms are always used"),
        name("immediate", "of MinIO: brokers no longer have it"),
        SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    MQTT "notify_mqtt" "events to a topic of MQTT" [
        name("broker", "tcp://HOST:PORT or ssl://HOST:PORT"),
        name("topic", "the topic"),
        USERNAME, PASSWORD,
        name("qos", "quality of service: 0, 1 or 2"),
        name("keep_alive_interval", "of MinIO"),
        name("reconnect_interval", "of MinIO"),
        SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    REDIS "notify_redis" "events to a hash or a list of Redis" [
        name("address", "HOST:PORT"),
        name("key", "the hash or list"),
        FORMAT,
        name("user", "who signs in, if not the default user"),
        PASSWORD, TLS, SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    POSTGRES "notify_postgres" "events to a table of PostgreSQL" [
        secret("connection_string", "host=... port=... user=... password=... dbname=... sslmode=..."),
        name("table", "the table; it is made if it is not there"),
        FORMAT, OPEN, SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    MYSQL "notify_mysql" "events to a table of MySQL or MariaDB" [
        secret("dsn_string", "USER:PASSWORD@tcp(HOST:PORT)/DATABASE"),
        name("table", "the table; it is made if it is not there"),
        FORMAT, OPEN, SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    ELASTICSEARCH "notify_elasticsearch" "events to an index of Elasticsearch" [
        name("url", "http:// or https://"),
        name("index", "the index"),
        FORMAT, USERNAME, PASSWORD, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
    NSQ "notify_nsq" "events to a topic of NSQ" [
        name("nsqd_address", "HOST:PORT"),
        name("topic", "the topic"),
        TLS, SKIP, CERT_AUTHORITY, CLIENT_CERT, CLIENT_KEY,
    ];
}

/// Targets that the environment configures.
///
/// # Errors
/// A message for the operator: an invalid variable.
pub fn environment() -> Result<Vec<Configured>, String> {
    let all = ashlar_environment::process::variables();
    from_environment(&all, |kind| {
        let of = Subsystem::find(kind.subsystem());
        of.into_iter().flat_map(|s| s.names.iter().map(|n| n.name)).collect()
    })
}

/// The stored targets, overridden by those of the environment.
fn configured(iam: &Iam, environment: &[Configured]) -> Vec<Configured> {
    let mut all = environment.to_vec();
    for (key, setting) in iam.settings("") {
        let Some((subsystem, target)) = key.split_once('/') else { continue };
        let Some(kind) = Kind::of_subsystem(subsystem) else { continue };
        let id = TargetId::new(target, kind);
        if !all.iter().any(|c| c.id == id) {
            all.push(Configured { id, values: setting.values.clone() });
        }
    }
    all
}

/// Applies the present configuration. Does not wait for targets.
pub fn apply<'a>(
    target_manager: &'a TargetManager,
    iam: &'a Iam,
    environment: &'a [Configured],
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        target_manager.configure(configured(iam, environment)).await;
    })
}

/// Applies every change of the settings; returns only if it is dropped.
pub fn follow(
    target_manager: Arc<TargetManager>,
    iam: Arc<Iam>,
    environment: Vec<Configured>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut news = iam.settings_changed();
        loop {
            apply(&target_manager, &iam, &environment).await;
            if news.changed().await.is_err() {
                return;
            }
        }
    })
}

/// Checks whether a subsystem accepts these values.
///
/// # Errors
/// A message for the administrator.
pub fn check(
    target_manager: &TargetManager,
    subsystem: &str,
    target: &str,
    values: &ashlar_iam::Values,
) -> Result<(), String> {
    let Some(kind) = Kind::of_subsystem(subsystem) else { return Ok(()) };
    let id = TargetId::parse(&format!("{target}:{}", kind.text()));
    let id = id.ok_or("a target's name is made of a-z, A-Z, 0-9, _ - and .")?;
    let on = values.get("enable").is_none_or(|v| v != "off");
    if on { target_manager.check(&id, values) } else { Ok(()) }
}
