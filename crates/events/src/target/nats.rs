//! NATS: publishing to a subject, or to JetStream. The protocol is docs.nats.io, "NATS protocol".
//!
//! Core NATS does not acknowledge messages. The server answers a `PING` when it has read all messages before
//! it. JetStream acknowledges messages, and detects a repeated message by its id.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{Failure, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};
use tokio::io::BufStream;

const WHAT: &str = "nats";

/// A subject.
pub struct Nats {
    address: TargetAddress,
    first: bool,
    subject: String,
    stream: bool,
    user: Option<(String, String)>,
    token: Option<String>,
}

/// A connection and the content of the server's `INFO`.
pub struct Conn {
    line: Line,
    most: usize,
    inbox: String,
}

impl Nats {
    pub fn open(s: &Settings<'_>) -> Result<Nats, String> {
        s.refuse(&["streaming", "streaming_async", "nkey_seed", "user_credentials"])?;
        let address = s.need("address")?;
        let first = s.on("tls_handshake_first");
        let tls = address.starts_with("tls://") || s.on("tls") || first;
        let subject = s.need("subject")?.to_owned();
        if subject.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>')) {
            return Err("subject holds characters that a subject cannot have".into());
        }
        let user =
            s.get("username").map(|u| (u.to_owned(), s.get("password").unwrap_or_default().to_owned()));
        Ok(Nats {
            address: TargetAddress::parse(address, 4222, s.tls_if(tls)?)?,
            first,
            subject,
            stream: s.on("jetstream"),
            user,
            token: s.get("token").map(str::to_owned),
        })
    }

    /// Reads up to the next `PONG` or head of a message.
    async fn next(line: &mut Line) -> Result<String, Failure> {
        loop {
            let text = wire::line(line).await.map_err(|e| retry(WHAT, e))?;
            let word = text.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
            match word.as_str() {
                "+OK" | "INFO" => {}
                "PING" => say(line, b"PONG\r\n").await?,
                "-ERR" => return Err(retry(WHAT, text.trim_start_matches("-ERR "))),
                _ => return Ok(text),
            }
        }
    }

    /// Reads an acknowledgement of JetStream: `MSG subject sid [reply] bytes`, or `HMSG` with headers before
    /// the document.
    async fn ack(line: &mut Line) -> Result<(String, Result<(), Failure>), Failure> {
        let head = Nats::next(line).await?;
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let size: usize = words.last().and_then(|n| n.parse().ok()).unwrap_or(0);
        let headers = match words.first() {
            Some(&"HMSG") if words.len() >= 5 => words[words.len() - 2].parse().unwrap_or(0),
            Some(&"MSG") if words.len() >= 4 => 0,
            _ => return Err(retry(WHAT, "an answer that is not understood")),
        };
        let body = wire::bytes(line, size.saturating_add(2)).await.map_err(|e| retry(WHAT, e))?;
        let reply = words[1].to_owned();
        if headers > 0 {
            return Ok((reply, Err(retry(WHAT, "no stream takes messages of this subject"))));
        }
        let answer: Value = serde_json::from_slice(&body[..size]).unwrap_or_default();
        let verdict = match &answer["error"] {
            Value::Null if answer["stream"].is_string() => Ok(()),
            Value::Null => Err(retry(WHAT, "no stream takes messages of this subject")),
            error => Err(retry(WHAT, error["description"].as_str().unwrap_or("refused"))),
        };
        Ok((reply, verdict))
    }
}

async fn say(line: &mut Line, what: &[u8]) -> Result<(), Failure> {
    let write = async {
        line.write_all(what).await?;
        line.flush().await
    };
    write.await.map_err(|e| retry(WHAT, e))
}

impl Speak for Nats {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn, Failure> {
        let mut raw = self.address.tcp().await?;
        if self.first {
            raw = self.address.secured(raw).await?;
        }
        let mut line = BufStream::new(raw);
        let info = wire::line(&mut line).await.map_err(|e| retry(WHAT, e))?;
        let info: Value =
            info.strip_prefix("INFO ").and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
        if self.address.tls.is_some() && !self.first {
            // The server sends nothing more before TLS: nothing is left in the buffer.
            line = BufStream::new(self.address.secured(line.into_inner()).await?);
        }
        let mut hello = json!({
            "verbose": false, "pedantic": false, "tls_required": self.address.tls.is_some(), "name": "ashlar",
            "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "protocol": 1, "headers": true, "no_responders": true,
        });
        if let Some((user, password)) = &self.user {
            hello["user"] = json!(user);
            hello["pass"] = json!(password);
        }
        if let Some(token) = &self.token {
            hello["auth_token"] = json!(token);
        }
        let mut random = [0u8; 8];
        ashlar_environment::random::fill(&mut random).map_err(|e| retry(WHAT, e))?;
        let inbox = format!("_INBOX.{}", hex::encode(random));
        let listen = if self.stream { format!("SUB {inbox}.* 1\r\n") } else { String::new() };
        say(&mut line, format!("CONNECT {hello}\r\n{listen}PING\r\n").as_bytes()).await?;
        if Nats::next(&mut line).await? != "PONG" {
            return Err(retry(WHAT, "an answer that is not understood"));
        }
        let most = info["max_payload"].as_u64().unwrap_or(1 << 20) as usize;
        Ok(Conn { line, most, inbox })
    }

    async fn send(&self, conn: &mut Conn, messages: &[Message], _: &Site) -> Sent {
        let fits = messages.iter().take_while(|m| m.body.len() + 256 <= conn.most).count();
        let too_large = || Failure::Refused("the message is larger than the server takes".into());
        let mut out = Vec::new();
        for (at, m) in messages[..fits].iter().enumerate() {
            if self.stream {
                let id = format!(
                    "NATS/1.0\r\nNats-Msg-Id: {:016X}-{}\r\n\r\n",
                    m.event.position, m.event.request_id
                );
                let (head, whole) = (id.len(), id.len() + m.body.len());
                out.extend_from_slice(
                    format!("HPUB {} {}.{at} {head} {whole}\r\n{id}", self.subject, conn.inbox).as_bytes(),
                );
            } else {
                out.extend_from_slice(format!("PUB {} {}\r\n", self.subject, m.body.len()).as_bytes());
            }
            out.extend_from_slice(&m.body);
            out.extend_from_slice(b"\r\n");
        }
        if !self.stream {
            out.extend_from_slice(b"PING\r\n");
        }
        if let Err(failure) = say(&mut conn.line, &out).await {
            return Sent::until(0, failure);
        }
        if !self.stream {
            match Nats::next(&mut conn.line).await {
                Ok(_) if fits < messages.len() => return Sent::until(fits, too_large()),
                Ok(_) => return Sent::all(messages),
                Err(failure) => return Sent::until(0, failure),
            }
        }
        let mut verdicts: Vec<Option<Result<(), Failure>>> = vec![None; fits];
        for _ in 0..fits {
            match Nats::ack(&mut conn.line).await {
                Ok((reply, verdict)) => {
                    let at = reply.rsplit('.').next().and_then(|n| n.parse::<usize>().ok());
                    if let Some(slot) = at.and_then(|at| verdicts.get_mut(at)) {
                        *slot = Some(verdict);
                    }
                }
                Err(failure) => {
                    let done = verdicts.iter().take_while(|v| matches!(v, Some(Ok(())))).count();
                    return Sent::until(done, failure);
                }
            }
        }
        let done = verdicts.iter().take_while(|v| matches!(v, Some(Ok(())))).count();
        match verdicts.into_iter().nth(done) {
            Some(Some(Err(failure))) => Sent::until(done, failure),
            Some(_) => Sent::until(done, retry(WHAT, "a message was not acknowledged")),
            None if fits < messages.len() => Sent::until(fits, too_large()),
            None => Sent::all(messages),
        }
    }
}
