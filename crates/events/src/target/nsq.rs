//! NSQ: publishing to a topic of an nsqd (nsq.io, "TCP protocol spec").

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream};

use super::{Failure, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "nsq";

/// A topic.
pub struct Nsq {
    address: TargetAddress,
    topic: String,
}

impl Nsq {
    pub fn open(s: &Settings<'_>) -> Result<Nsq, String> {
        let topic = s.need("topic")?.to_owned();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '#');
        if topic.len() > 64 || !topic.chars().all(legal) {
            return Err("topic must be at most 64 characters of a-z, A-Z, 0-9, . _ and -".into());
        }
        Ok(Nsq {
            address: TargetAddress::parse(s.need("nsqd_address")?, 4150, s.tls_if(s.on("tls"))?)?,
            topic,
        })
    }
}

async fn write(conn: &mut Line, out: &[u8]) -> Result<(), Failure> {
    let write = async {
        conn.write_all(out).await?;
        conn.flush().await
    };
    write.await.map_err(|e| retry(WHAT, e))
}

/// The next answer that is not a heartbeat.
async fn answer(conn: &mut Line) -> Result<Vec<u8>, Failure> {
    loop {
        let size = conn.read_u32().await.map_err(|e| retry(WHAT, e))? as usize;
        let kind = conn.read_u32().await.map_err(|e| retry(WHAT, e))?;
        let body = wire::bytes(conn, size.saturating_sub(4)).await.map_err(|e| retry(WHAT, e))?;
        match kind {
            0 if body == b"_heartbeat_" => write(conn, b"NOP\n").await?,
            0 => return Ok(body),
            _ => {
                let why = String::from_utf8_lossy(&body).into_owned();
                return Err(if why.starts_with("E_BAD_MESSAGE") {
                    Failure::Refused(why)
                } else {
                    retry(WHAT, why)
                });
            }
        }
    }
}

impl Speak for Nsq {
    type Conn = Line;

    async fn connect(&self) -> Result<Line, Failure> {
        let mut conn = BufStream::new(self.address.tcp().await?);
        let hello = json!({
            "client_id": "ashlar", "user_agent": concat!("ashlar/", env!("CARGO_PKG_VERSION")),
            "feature_negotiation": true, "heartbeat_interval": -1, "tls_v1": self.address.tls.is_some(),
        })
        .to_string();
        let mut out = b"  V2IDENTIFY\n".to_vec();
        out.extend_from_slice(&(hello.len() as u32).to_be_bytes());
        out.extend_from_slice(hello.as_bytes());
        write(&mut conn, &out).await?;
        let said: Value = serde_json::from_slice(&answer(&mut conn).await?).unwrap_or_default();
        if self.address.tls.is_some() {
            if said["tls_v1"] != true {
                return Err(retry(WHAT, "the server does not speak TLS"));
            }
            conn = BufStream::new(self.address.secured(conn.into_inner()).await?);
            answer(&mut conn).await?;
        }
        Ok(conn)
    }

    async fn send(&self, conn: &mut Line, messages: &[Message], _: &Site) -> Sent {
        let mut out = Vec::new();
        for m in messages {
            out.extend_from_slice(format!("PUB {}\n", self.topic).as_bytes());
            out.extend_from_slice(&(m.body.len() as u32).to_be_bytes());
            out.extend_from_slice(&m.body);
        }
        if let Err(failure) = write(conn, &out).await {
            return Sent::until(0, failure);
        }
        for done in 0..messages.len() {
            if let Err(failure) = answer(conn).await {
                return Sent::until(done, failure);
            }
        }
        Sent::all(messages)
    }
}
