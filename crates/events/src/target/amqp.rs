//! AMQP 0-9-1 (RabbitMQ): publishing to an exchange, with confirms (the specification's class and method
//! numbers; rabbitmq.com, "Publisher Confirms").
//!
//! Invariant: with `mandatory` set, a message that the broker returns as unroutable does not count as
//! delivered.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Failure, Sent, Speak};
use crate::settings::{Settings, percent_decoded};
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "amqp";
/// The protocol header: the first bytes of a connection.
const HELLO: &[u8] = b"AMQP\0\0\x09\x01";
const END: u8 = 0xce;
/// Largest frame that is accepted or sent, unless the broker asks for smaller ones.
const FRAME: u32 = 128 * 1024;

/// An exchange.
pub struct Amqp {
    address: TargetAddress,
    user: String,
    password: String,
    vhost: String,
    exchange: String,
    kind: String,
    key: String,
    mandatory: bool,
    declare: u8,
    mode: u8,
}

/// A channel.
pub struct Conn {
    line: Line,
    frame: usize,
    /// Messages published so far. The broker counts them too and confirms them by number.
    tag: u64,
}

/// A method that the broker sends: class, method, arguments.
struct Method {
    what: (u16, u16),
    rest: Vec<u8>,
}

fn short(out: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(255)];
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn frame(out: &mut Vec<u8>, kind: u8, channel: u16, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    long(out, body);
    out.push(END);
}

fn method(out: &mut Vec<u8>, channel: u16, (class, id): (u16, u16), arguments: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::with_capacity(64);
    body.extend_from_slice(&class.to_be_bytes());
    body.extend_from_slice(&id.to_be_bytes());
    arguments(&mut body);
    frame(out, 1, channel, &body);
}

async fn write(line: &mut Line, out: &[u8]) -> Result<(), Failure> {
    let write = async {
        line.write_all(out).await?;
        line.flush().await
    };
    write.await.map_err(|e| retry(WHAT, e))
}

/// The next method. Skips heartbeats and the content of returned messages.
async fn read(line: &mut Line) -> Result<Method, Failure> {
    loop {
        let gone = |e| retry(WHAT, e);
        let kind = line.read_u8().await.map_err(gone)?;
        let _channel = line.read_u16().await.map_err(gone)?;
        let size = line.read_u32().await.map_err(gone)? as usize;
        let mut body = wire::bytes(line, size + 1).await.map_err(gone)?;
        if body.pop() != Some(END) {
            return Err(retry(WHAT, "an answer that is not understood"));
        }
        if kind != 1 || body.len() < 4 {
            continue;
        }
        let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let what = (number(0), number(2));
        let rest = body.split_off(4);
        // Connection.Close, Channel.Close: a code and a text.
        if matches!(what, (10, 50) | (20, 40)) && rest.len() > 3 {
            let text = &rest[3..rest.len().min(3 + usize::from(rest[2]))];
            return Err(retry(WHAT, String::from_utf8_lossy(text)));
        }
        return Ok(Method { what, rest });
    }
}

async fn expect(line: &mut Line, what: (u16, u16)) -> Result<Vec<u8>, Failure> {
    let got = read(line).await?;
    if got.what == what {
        Ok(got.rest)
    } else {
        Err(retry(WHAT, format_args!("unexpected method {:?}", got.what)))
    }
}

impl Amqp {
    pub fn open(s: &Settings<'_>) -> Result<Amqp, String> {
        let url = s.need("url")?;
        let (tls, rest) = match url.split_once("://") {
            Some(("amqp", rest)) => (false, rest),
            Some(("amqps", rest)) => (true, rest),
            _ => return Err("url must begin with amqp:// or amqps://".into()),
        };
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("guest:guest", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let rest = rest.split('?').next().unwrap_or_default();
        let vhost = match rest.split_once('/') {
            Some((_, path)) if !path.is_empty() => percent_decoded(path)?,
            _ => "/".to_owned(),
        };
        let mode = s.number("delivery_mode", 0)?;
        // passive is the first bit.
        let declare = u8::from(s.on("durable")) << 1
            | u8::from(s.on("auto_deleted")) << 2
            | u8::from(s.on("internal")) << 3;
        Ok(Amqp {
            address: TargetAddress::parse(rest, if tls { 5671 } else { 5672 }, s.tls_if(tls)?)?,
            user: percent_decoded(user)?,
            password: percent_decoded(password)?,
            vhost,
            exchange: s.get("exchange").unwrap_or_default().to_owned(),
            kind: s.get("exchange_type").unwrap_or("direct").to_owned(),
            key: s.get("routing_key").unwrap_or_default().to_owned(),
            mandatory: s.on("mandatory"),
            declare,
            mode: if mode == 2 { 2 } else { 1 },
        })
    }

    fn publish(&self, out: &mut Vec<u8>, body: &[u8], largest: usize) {
        method(out, 1, (60, 40), |a| {
            a.extend_from_slice(&[0, 0]);
            short(a, &self.exchange);
            short(a, &self.key);
            a.push(u8::from(self.mandatory));
        });
        // The content header: its length, then content type and delivery mode.
        let mut head = vec![0, 60, 0, 0];
        head.extend_from_slice(&(body.len() as u64).to_be_bytes());
        head.extend_from_slice(&0x9000u16.to_be_bytes());
        short(&mut head, "application/json");
        head.push(self.mode);
        frame(out, 2, 1, &head);
        for piece in body.chunks(largest) {
            frame(out, 3, 1, piece);
        }
    }
}

impl Speak for Amqp {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn, Failure> {
        let mut line = self.address.connect().await?;
        write(&mut line, HELLO).await?;
        expect(&mut line, (10, 10)).await?;
        let mut out = Vec::new();
        method(&mut out, 0, (10, 11), |a| {
            let (mut able, mut said) = (Vec::new(), Vec::new());
            for name in ["publisher_confirms", "basic.nack", "authentication_failure_close"] {
                short(&mut able, name);
                able.extend_from_slice(b"t\x01");
            }
            short(&mut said, "product");
            said.push(b'S');
            long(&mut said, b"Ashlar");
            short(&mut said, "capabilities");
            said.push(b'F');
            long(&mut said, &able);
            long(a, &said);
            short(a, "PLAIN");
            long(a, format!("\0{}\0{}", self.user, self.password).as_bytes());
            short(a, "en_US");
        });
        write(&mut line, &out).await?;
        let tune = expect(&mut line, (10, 30)).await?;
        let offered = tune.get(2..6).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let largest = if offered == 0 { FRAME } else { offered.clamp(4096, FRAME) };
        out.clear();
        method(&mut out, 0, (10, 31), |a| {
            a.extend_from_slice(&1u16.to_be_bytes());
            a.extend_from_slice(&largest.to_be_bytes());
            // No heartbeats: an unused connection is closed after a while.
            a.extend_from_slice(&[0, 0]);
        });
        method(&mut out, 0, (10, 40), |a| {
            short(a, &self.vhost);
            a.extend_from_slice(&[0, 0]);
        });
        write(&mut line, &out).await?;
        expect(&mut line, (10, 41)).await?;
        out.clear();
        method(&mut out, 1, (20, 10), |a| a.push(0));
        write(&mut line, &out).await?;
        expect(&mut line, (20, 11)).await?;
        if !self.exchange.is_empty() {
            out.clear();
            method(&mut out, 1, (40, 10), |a| {
                a.extend_from_slice(&[0, 0]);
                short(a, &self.exchange);
                short(a, &self.kind);
                a.push(self.declare);
                a.extend_from_slice(&[0; 4]);
            });
            write(&mut line, &out).await?;
            expect(&mut line, (40, 11)).await?;
        }
        out.clear();
        method(&mut out, 1, (85, 10), |a| a.push(0));
        write(&mut line, &out).await?;
        expect(&mut line, (85, 11)).await?;
        Ok(Conn { line, frame: largest as usize - 8, tag: 0 })
    }

    async fn send(&self, conn: &mut Conn, messages: &[Message], _: &Site) -> Sent {
        let first = conn.tag + 1;
        let mut done = 0;
        // A returned message can be identified only if it is the only one in flight.
        for group in messages.chunks(if self.mandatory { 1 } else { messages.len().max(1) }) {
            let mut out = Vec::new();
            group.iter().for_each(|m| self.publish(&mut out, &m.body, conn.frame));
            conn.tag += group.len() as u64;
            if let Err(failure) = write(&mut conn.line, &out).await {
                return Sent::until(done, failure);
            }
            let mut taken = vec![None; group.len()];
            let mut returned = false;
            while taken.iter().any(Option::is_none) {
                let got = match read(&mut conn.line).await {
                    Ok(got) => got,
                    Err(failure) => {
                        let good = taken.iter().take_while(|t| **t == Some(true)).count();
                        return Sent::until(done + good, failure);
                    }
                };
                let good = match got.what {
                    (60, 80) => !returned,
                    (60, 120) => false,
                    (60, 50) => {
                        returned = true;
                        continue;
                    }
                    _ => continue,
                };
                let Some((tag, rest)) = got.rest.split_first_chunk::<8>() else { continue };
                let multiple = rest.first().is_some_and(|b| b & 1 == 1);
                let at = u64::from_be_bytes(*tag).saturating_sub(first + done as u64) as usize;
                let from = if multiple { 0 } else { at };
                for slot in taken.iter_mut().take(at + 1).skip(from) {
                    slot.get_or_insert(good);
                }
            }
            let good = taken.iter().take_while(|t| **t == Some(true)).count();
            done += good;
            if good < group.len() {
                let why = if returned {
                    "no queue takes messages of this routing key"
                } else {
                    "the broker refused a message"
                };
                return Sent::until(done, retry(WHAT, why));
            }
        }
        Sent::all(messages)
    }
}
