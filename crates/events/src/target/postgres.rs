//! PostgreSQL: rows of a table, by the library `tokio-postgres`.
//!
//! This file connects and does TLS itself, not the library, so that only checked addresses are connected to.

use ashlar_outbound::Io;
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::{Failure, Format, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "postgresql";
/// The message with which a client asks for TLS (`SSLRequest`).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A table.
pub struct Postgres {
    address: TargetAddress,
    config: Config,
    needs_tls: bool,
    table: String,
    format: Format,
}

/// A session.
pub struct Conn {
    client: Client,
    put: Statement,
    remove: Option<Statement>,
}

/// The name of the table, which must not need quotes.
pub fn table(s: &Settings<'_>) -> Result<String, String> {
    let table = s.need("table")?;
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    let begins = |c: char| c.is_alphabetic() || c == '_';
    match table.split('.').all(|part| part.starts_with(begins))
        && table.chars().all(legal)
        && table.len() <= 120
    {
        true => Ok(table.to_owned()),
        false => Err("table must consist of letters, digits, _ and $, with a dot after a schema".into()),
    }
}

fn failed(e: &tokio_postgres::Error) -> Failure {
    let why = e.as_db_error().map_or_else(|| e.to_string(), |db| db.message().to_owned());
    // Class 22: this data can never be stored. Any other error can be corrected at the server.
    match e.code().is_some_and(|c| c.code().starts_with("22")) {
        true => Failure::Refused(format!("{WHAT}: {why}")),
        false => retry(WHAT, why),
    }
}

impl Postgres {
    pub fn open(s: &Settings<'_>) -> Result<Postgres, String> {
        // The library knows fewer words; a certificate is always verified here, unless that is switched off.
        let text =
            s.need("connection_string")?.replace("verify-full", "require").replace("verify-ca", "require");
        let config: Config = text.parse().map_err(|_| "connection_string is not understood")?;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            _ => return Err("connection_string names no host".into()),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let mode = config.get_ssl_mode();
        let tls = s.tls_if(mode != SslMode::Disable)?;
        let mut config = config;
        // Messages after the start of TLS must not request TLS again.
        config.ssl_mode(SslMode::Disable);
        Ok(Postgres {
            address: TargetAddress { host, port, tls },
            config,
            needs_tls: mode == SslMode::Require,
            table: table(s)?,
            format: s.format()?,
        })
    }

    async fn stream(&self) -> Result<Box<dyn Io>, Failure> {
        let mut stream = self.address.tcp().await?;
        if self.address.tls.is_none() {
            return Ok(stream);
        }
        let asked = async {
            stream.write_all(&SSL_REQUEST).await?;
            stream.flush().await?;
            stream.read_u8().await
        };
        match asked.await.map_err(|e| retry(WHAT, e))? {
            b'S' => self.address.secured(stream).await,
            _ if self.needs_tls => Err(retry(WHAT, "the server does not speak TLS")),
            _ => Ok(stream),
        }
    }
}

impl Speak for Postgres {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn, Failure> {
        let made = self.config.connect_raw(self.stream().await?, NoTls).await;
        let (client, connection) = made.map_err(|e| failed(&e))?;
        // Ends when the client is let go.
        ashlar_environment::spawn("postgres-connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        let table = &self.table;
        let (make, put) = match self.format {
            Format::Namespace => (
                format!("CREATE TABLE IF NOT EXISTS {table} (key VARCHAR PRIMARY KEY, value JSONB)"),
                format!(
                    "INSERT INTO {table} (key, value) VALUES ($1, $2::text::jsonb) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
                ),
            ),
            Format::Access => (
                format!(
                    "CREATE TABLE IF NOT EXISTS {table} (event_time TIMESTAMP WITH TIME ZONE NOT NULL, event_data JSONB)"
                ),
                format!(
                    "INSERT INTO {table} (event_time, event_data) VALUES ($1::text::timestamptz, $2::text::jsonb)"
                ),
            ),
        };
        client.batch_execute(&make).await.map_err(|e| failed(&e))?;
        let put = client.prepare(&put).await.map_err(|e| failed(&e))?;
        let remove = match self.format {
            Format::Access => None,
            Format::Namespace => {
                let text = format!("DELETE FROM {table} WHERE key = $1");
                Some(client.prepare(&text).await.map_err(|e| failed(&e))?)
            }
        };
        Ok(Conn { client, put, remove })
    }

    async fn send(&self, conn: &mut Conn, messages: &[Message], site: &Site) -> Sent {
        let conn = &*conn;
        // Asked together, these travel together; the server does them in order.
        let all = messages.iter().map(|m| async move {
            let (event, path) = (&m.event, m.event.path());
            let done = match &conn.remove {
                Some(remove) if event.removes() => conn.client.execute(remove, &[&path]).await,
                of => {
                    let first = if of.is_some() { path } else { event.time() };
                    let body = event.records(&m.rule, site);
                    let body = std::str::from_utf8(&body).unwrap_or_default();
                    conn.client.execute(&conn.put, &[&first, &body]).await
                }
            };
            done.map(drop).map_err(|e| failed(&e))
        });
        Sent::of(join_all(all).await)
    }

    async fn probe(&self, conn: &mut Conn, test: &Message, _: &Site) -> Sent {
        match conn.client.batch_execute("SELECT 1").await {
            Ok(()) => Sent::all(std::slice::from_ref(test)),
            Err(e) => Sent::until(0, failed(&e)),
        }
    }
}
