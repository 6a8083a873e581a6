//! MQTT 3.1.1 (OASIS standard): publishing to a topic.
//!
//! With a quality of service of 0 the broker does not acknowledge messages. It answers a `PINGREQ` that
//! follows them when it has read them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Failure, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "mqtt";

/// A topic.
pub struct Mqtt {
    address: TargetAddress,
    topic: String,
    qos: u8,
    user: Option<String>,
    password: Option<String>,
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

fn packet(out: &mut Vec<u8>, head: u8, body: &[&[u8]]) {
    out.push(head);
    let mut left: usize = body.iter().map(|b| b.len()).sum();
    loop {
        let low = (left % 128) as u8;
        left /= 128;
        out.push(if left > 0 { low | 0x80 } else { low });
        if left == 0 {
            break;
        }
    }
    body.iter().for_each(|b| out.extend_from_slice(b));
}

async fn read(conn: &mut Line) -> std::io::Result<(u8, Vec<u8>)> {
    let head = conn.read_u8().await?;
    let (mut size, mut shift) = (0usize, 0);
    loop {
        let byte = conn.read_u8().await?;
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
        if shift > 21 {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }
    Ok((head, wire::bytes(conn, size).await?))
}

async fn write(conn: &mut Line, out: &[u8]) -> std::io::Result<()> {
    conn.write_all(out).await?;
    conn.flush().await
}

impl Mqtt {
    pub fn open(s: &Settings<'_>) -> Result<Mqtt, String> {
        let broker = s.need("broker")?;
        let scheme = broker.split_once("://").map_or("tcp", |(s, _)| s);
        let tls = match scheme {
            "tcp" | "mqtt" => false,
            "ssl" | "tls" | "tcps" | "mqtts" => true,
            other => return Err(format!("broker: {other}:// is not implemented; tcp:// and ssl:// are")),
        };
        let topic = s.need("topic")?.to_owned();
        if topic.len() > 65_535 || topic.contains(['+', '#', '\0']) {
            return Err("topic holds characters that a topic cannot have".into());
        }
        let qos = s.number("qos", 0)?;
        if qos > 2 {
            return Err("qos must be 0, 1 or 2".into());
        }
        let default = if tls { 8883 } else { 1883 };
        Ok(Mqtt {
            address: TargetAddress::parse(broker, default, s.tls_if(tls)?)?,
            topic,
            qos: qos as u8,
            user: s.get("username").map(str::to_owned),
            password: s.get("password").map(str::to_owned),
        })
    }

    /// Sends all messages, then waits until the broker has each. `done`: how many it has, from the first on.
    async fn publish(&self, conn: &mut Line, messages: &[Message], done: &mut usize) -> std::io::Result<()> {
        let mut out = Vec::new();
        let mut topic = Vec::new();
        text(&mut topic, self.topic.as_bytes());
        for (at, m) in messages.iter().enumerate() {
            let id = (at as u16 + 1).to_be_bytes();
            let id: &[u8] = if self.qos > 0 { &id } else { &[] };
            packet(&mut out, 0x30 | self.qos << 1, &[&topic, id, &m.body]);
        }
        if self.qos == 0 {
            packet(&mut out, 0xc0, &[]);
        }
        write(conn, &out).await?;
        if self.qos == 0 {
            while read(conn).await?.0 & 0xf0 != 0xd0 {}
            *done = messages.len();
            return Ok(());
        }
        let mut taken = vec![false; messages.len()];
        while *done < messages.len() {
            let (head, body) = read(conn).await?;
            let id = body.get(..2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
            match head >> 4 {
                // PUBREC of quality of service 2 is answered by PUBREL; PUBCOMP ends it.
                5 => {
                    let mut out = Vec::new();
                    packet(&mut out, 0x62, &[&id.to_be_bytes()]);
                    write(conn, &out).await?;
                }
                4 | 7 => {
                    if let Some(slot) = usize::from(id).checked_sub(1).and_then(|at| taken.get_mut(at)) {
                        *slot = true;
                    }
                    *done = taken.iter().take_while(|t| **t).count();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Speak for Mqtt {
    type Conn = Line;

    async fn connect(&self) -> Result<Line, Failure> {
        let mut conn = self.address.connect().await?;
        let mut random = [0u8; 8];
        ashlar_environment::random::fill(&mut random).map_err(|e| retry(WHAT, e))?;
        // Level 4, a clean session, no keep-alive: an unused connection is closed after a while.
        let (user, password) = (self.user.as_deref(), self.password.as_deref());
        let flags = 2 | u8::from(user.is_some()) << 7 | u8::from(password.is_some()) << 6;
        let mut body = b"\0\x04MQTT\x04".to_vec();
        body.extend_from_slice(&[flags, 0, 0]);
        text(&mut body, format!("ashlar{}", hex::encode(random)).as_bytes());
        [user, password].into_iter().flatten().for_each(|t| text(&mut body, t.as_bytes()));
        let mut out = Vec::new();
        packet(&mut out, 0x10, &[&body]);
        write(&mut conn, &out).await.map_err(|e| retry(WHAT, e))?;
        match read(&mut conn).await.map_err(|e| retry(WHAT, e))? {
            (0x20, body) if body.get(1) == Some(&0) => Ok(conn),
            (0x20, body) => {
                let why = match body.get(1) {
                    Some(1) => "the broker does not speak MQTT 3.1.1",
                    Some(4 | 5) => "the broker does not accept these credentials",
                    _ => "the broker refuses the connection",
                };
                Err(retry(WHAT, why))
            }
            _ => Err(retry(WHAT, "an answer that is not understood")),
        }
    }

    async fn send(&self, conn: &mut Line, messages: &[Message], _: &Site) -> Sent {
        let mut done = 0;
        let failure = self.publish(conn, messages, &mut done).await.err().map(|e| retry(WHAT, e));
        Sent { done, refused: Vec::new(), failure }
    }
}
