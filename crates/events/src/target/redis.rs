//! Redis: a hash of keys, or a list of events. The protocol is RESP2 (redis.io, "Redis serialization protocol").

use tokio::io::AsyncWriteExt as _;

use super::{Failure, Format, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "redis";

/// A key of Redis.
pub struct Redis {
    address: TargetAddress,
    key: String,
    format: Format,
    user: Option<String>,
    password: Option<String>,
}

/// A command, as bytes.
fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A simple answer: text, a number, or an error. Others do not come for what is asked here.
async fn answer(conn: &mut Line) -> Result<String, Failure> {
    let line = wire::line(conn).await.map_err(|e| retry(WHAT, e))?;
    match line.split_at_checked(1) {
        Some(("+" | ":", rest)) => Ok(rest.to_owned()),
        Some(("-", why)) => Err(retry(WHAT, why)),
        _ => Err(retry(WHAT, "an answer that is not understood")),
    }
}

impl Redis {
    pub fn open(s: &Settings<'_>) -> Result<Redis, String> {
        let address = s.need("address")?;
        let tls = address.starts_with("rediss://") || s.on("tls");
        Ok(Redis {
            address: TargetAddress::parse(address, 6379, s.tls_if(tls)?)?,
            key: s.need("key")?.to_owned(),
            format: s.format()?,
            user: s.get("user").map(str::to_owned),
            password: s.get("password").map(str::to_owned),
        })
    }

    async fn pipeline(&self, conn: &mut Line, out: &[u8], count: usize) -> (usize, Option<Failure>) {
        let write = async {
            conn.write_all(out).await?;
            conn.flush().await
        };
        if let Err(e) = write.await {
            return (0, Some(retry(WHAT, e)));
        }
        for done in 0..count {
            if let Err(failure) = answer(conn).await {
                return (done, Some(failure));
            }
        }
        (count, None)
    }
}

impl Speak for Redis {
    type Conn = Line;

    async fn connect(&self) -> Result<Line, Failure> {
        let mut conn = self.address.connect().await?;
        if let Some(password) = &self.password {
            let mut out = Vec::new();
            match &self.user {
                Some(user) => command(&mut out, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
                None => command(&mut out, &[b"AUTH", password.as_bytes()]),
            }
            if let (_, Some(failure)) = self.pipeline(&mut conn, &out, 1).await {
                return Err(failure);
            }
        }
        Ok(conn)
    }

    async fn send(&self, conn: &mut Line, messages: &[Message], site: &Site) -> Sent {
        let mut out = Vec::new();
        for m in messages {
            let (event, path) = (&m.event, m.event.path());
            let key = self.key.as_bytes();
            match self.format {
                Format::Access => command(&mut out, &[b"RPUSH", key, &event.access(&m.rule, site)]),
                Format::Namespace if event.removes() => command(&mut out, &[b"HDEL", key, path.as_bytes()]),
                Format::Namespace => {
                    command(&mut out, &[b"HSET", key, path.as_bytes(), &event.records(&m.rule, site)]);
                }
            }
        }
        let (done, failure) = self.pipeline(conn, &out, messages.len()).await;
        Sent { done, refused: Vec::new(), failure }
    }

    async fn probe(&self, conn: &mut Line, _: &Message, _: &Site) -> Sent {
        let mut out = Vec::new();
        command(&mut out, &[b"PING"]);
        let (done, failure) = self.pipeline(conn, &out, 1).await;
        Sent { done, refused: Vec::new(), failure }
    }
}
