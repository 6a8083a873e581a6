//! Kafka: producing to a topic. Four requests of the protocol (kafka.apache.org, "Kafka Protocol Guide"):
//! Metadata 4, Produce 3, SaslHandshake 1, SaslAuthenticate 0; all of them are in every broker since 1.0.
//!
//! A key's events go to one partition, found by FNV-1a as the client library of MinIO does, so that their
//! order is kept. Invariant: a batch is acknowledged by all replicas that are in sync.

use std::collections::BTreeMap;

use ashlar_checksum::{Algorithm, Hasher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::scram::{Hash, Scram};
use super::{Failure, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "kafka";
const PRODUCE: (i16, i16) = (0, 3);
const METADATA: (i16, i16) = (3, 4);
const HANDSHAKE: (i16, i16) = (17, 1);
const AUTHENTICATE: (i16, i16) = (36, 0);
/// Time for the replicas to acknowledge a batch, in milliseconds.
const PATIENCE_MS: i32 = 15_000;

/// The mechanism of authentication.
#[derive(Clone, Copy)]
enum Mechanism {
    Plain,
    Scram(Hash),
}

/// A topic.
pub struct Kafka {
    brokers: Vec<TargetAddress>,
    topic: String,
    login: Option<(Mechanism, String, String)>,
}

/// Connections to the leaders of partitions.
pub struct Conn {
    /// The broker that leads each partition.
    leaders: Vec<i32>,
    brokers: BTreeMap<i32, TargetAddress>,
    lines: BTreeMap<i32, Line>,
}

/// A decoder of answers; values beyond the end of the answer are `None`.
struct Answer(Vec<u8>, usize);

impl Answer {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.0.get(self.1..self.1 + N)?.try_into().ok();
        self.1 += N;
        bytes
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn bytes(&mut self, length: i32) -> Option<Vec<u8>> {
        let length = usize::try_from(length).unwrap_or(0);
        let bytes = self.0.get(self.1..self.1.checked_add(length)?)?.to_vec();
        self.1 += length;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.i16()?;
        String::from_utf8(self.bytes(i32::from(length))?).ok()
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Answer) -> Option<T>) -> Option<Vec<T>> {
        let count = self.i32()?;
        (0..count.max(0)).map(|_| one(self)).collect()
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a number as a zigzag varint.
fn varint(out: &mut Vec<u8>, n: i64) {
    let mut n = (n << 1 ^ n >> 63) as u64;
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Sends one request and reads its answer.
async fn ask(line: &mut Line, (api, version): (i16, i16), body: &[u8]) -> Result<Answer, Failure> {
    let mut out = Vec::with_capacity(body.len() + 32);
    out.extend_from_slice(&api.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    // There is one request at a time on a connection, so the correlation id is not needed.
    out.extend_from_slice(&1i32.to_be_bytes());
    text(&mut out, "ashlar");
    out.extend_from_slice(body);
    let talk = async {
        line.write_i32(out.len() as i32).await?;
        line.write_all(&out).await?;
        line.flush().await?;
        let size = line.read_i32().await?;
        wire::bytes(line, usize::try_from(size).unwrap_or(usize::MAX)).await
    };
    let answer = talk.await.map_err(|e| retry(WHAT, e))?;
    Ok(Answer(answer, 4))
}

fn unclear() -> Failure {
    retry(WHAT, "an answer that is not understood")
}

/// Maps the error codes of Kafka that matter here.
fn error(code: i16) -> Failure {
    let why = match code {
        2 => return Failure::Refused("kafka: the broker says that the message is corrupt".into()),
        10 => return Failure::Refused("kafka: the message is larger than the broker takes".into()),
        87 => return Failure::Refused("kafka: the broker refuses the record".into()),
        3 => "the topic is not known",
        5 | 6 => "the partition has no leader here",
        19 | 20 => "there are not enough replicas in sync",
        29 => "not permitted to write to the topic",
        33 => "the broker does not support this SASL mechanism",
        58 => "the broker does not accept these credentials",
        code => return retry(WHAT, format_args!("error {code}")),
    };
    retry(WHAT, why)
}

/// Messages as one record batch (version 2).
fn batch(messages: &[&Message]) -> Vec<u8> {
    let first = messages.first().map_or(0, |m| m.event.time_ms);
    let last = messages.iter().map(|m| m.event.time_ms).max().unwrap_or(first);
    let mut records = Vec::new();
    for (at, m) in messages.iter().enumerate() {
        let path = m.event.path();
        let mut record = vec![0];
        varint(&mut record, m.event.time_ms - first);
        varint(&mut record, at as i64);
        varint(&mut record, path.len() as i64);
        record.extend_from_slice(path.as_bytes());
        varint(&mut record, m.body.len() as i64);
        record.extend_from_slice(&m.body);
        varint(&mut record, 0);
        varint(&mut records, record.len() as i64);
        records.extend_from_slice(&record);
    }
    let mut checked = Vec::with_capacity(records.len() + 64);
    checked.extend_from_slice(&0i16.to_be_bytes());
    checked.extend_from_slice(&(messages.len() as i32 - 1).to_be_bytes());
    checked.extend_from_slice(&first.to_be_bytes());
    checked.extend_from_slice(&last.to_be_bytes());
    // No producer id, no epoch, no sequence: this producer is not idempotent.
    checked.extend_from_slice(&(-1i64).to_be_bytes());
    checked.extend_from_slice(&(-1i16).to_be_bytes());
    checked.extend_from_slice(&(-1i32).to_be_bytes());
    checked.extend_from_slice(&(messages.len() as i32).to_be_bytes());
    checked.extend_from_slice(&records);
    let mut crc = Hasher::new(Algorithm::Crc32c);
    crc.update(&checked);
    let crc = crc.finish();
    let mut out = Vec::with_capacity(checked.len() + 32);
    out.extend_from_slice(&0i64.to_be_bytes());
    out.extend_from_slice(&(checked.len() as i32 + 9).to_be_bytes());
    out.extend_from_slice(&(-1i32).to_be_bytes());
    out.push(2);
    out.extend_from_slice(crc.as_bytes());
    out.extend_from_slice(&checked);
    out
}

/// FNV-1a, 32 bits.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

impl Kafka {
    pub fn open(s: &Settings<'_>) -> Result<Kafka, String> {
        let codec = s.get("producer_compression_codec");
        if codec.is_some_and(|c| c != "none") {
            return Err("producer_compression_codec is not implemented by this release".into());
        }
        let tls = s.tls_if(s.on("tls"))?;
        let brokers: Result<Vec<TargetAddress>, String> = s
            .need("brokers")?
            .split(',')
            .map(|b| TargetAddress::parse(b.trim(), 9092, tls.clone()))
            .collect();
        let login = match s.on("sasl") {
            false => None,
            true => {
                let mechanism = match s.get("sasl_mechanism").unwrap_or("plain").to_ascii_lowercase().as_str()
                {
                    "plain" => Mechanism::Plain,
                    "sha256" | "scram-sha-256" => Mechanism::Scram(Hash::Sha256),
                    "sha512" | "scram-sha-512" => Mechanism::Scram(Hash::Sha512),
                    _ => return Err("sasl_mechanism must be plain, sha256 or sha512".into()),
                };
                let password = s.get("sasl_password").unwrap_or_default();
                Some((mechanism, s.need("sasl_username")?.to_owned(), password.to_owned()))
            }
        };
        let topic = s.need("topic")?.to_owned();
        if topic.len() > 249 {
            return Err("topic is too long".into());
        }
        Ok(Kafka { brokers: brokers?, topic, login })
    }

    async fn dial(&self, address: &TargetAddress) -> Result<Line, Failure> {
        let mut line = address.connect().await?;
        let Some((mechanism, user, password)) = &self.login else { return Ok(line) };
        let mut out = Vec::new();
        text(
            &mut out,
            match mechanism {
                Mechanism::Plain => "PLAIN",
                Mechanism::Scram(Hash::Sha256) => "SCRAM-SHA-256",
                Mechanism::Scram(Hash::Sha512) => "SCRAM-SHA-512",
            },
        );
        match ask(&mut line, HANDSHAKE, &out).await?.i16() {
            Some(0) => {}
            Some(code) => return Err(error(code)),
            None => return Err(unclear()),
        }
        match mechanism {
            Mechanism::Plain => drop(say(&mut line, format!("\0{user}\0{password}").as_bytes()).await?),
            Mechanism::Scram(hash) => {
                let mut random = [0u8; 18];
                ashlar_environment::random::fill(&mut random).map_err(|e| retry(WHAT, e))?;
                let mut scram = Scram::new(*hash, user, &hex::encode(random));
                let answer = say(&mut line, scram.first().as_bytes()).await?;
                let second = scram.second(&answer, password).ok_or_else(unclear)?;
                let last = say(&mut line, second.as_bytes()).await?;
                if !scram.ends(&last) {
                    return Err(retry(WHAT, "the broker does not prove that it knows the password"));
                }
            }
        }
        Ok(line)
    }

    /// Asks a broker for all brokers and the leader of each partition.
    async fn metadata(&self, address: &TargetAddress) -> Result<Conn, Failure> {
        let mut line = self.dial(address).await?;
        let mut out = 1i32.to_be_bytes().to_vec();
        text(&mut out, &self.topic);
        // Allow the broker to create the topic, if it is configured to do so.
        out.push(1);
        let mut answer = ask(&mut line, METADATA, &out).await?;
        let read = |a: &mut Answer| {
            a.i32()?;
            let brokers = a.list(|a| {
                let (id, host, port) = (a.i32()?, a.text()?, a.i32()?);
                a.text()?;
                Some((id, TargetAddress { host, port: u16::try_from(port).ok()?, tls: address.tls.clone() }))
            })?;
            a.text()?;
            a.i32()?;
            let topics = a.list(|a| {
                let code = a.i16()?;
                a.text()?;
                a.take::<1>()?;
                let partitions = a.list(|a| {
                    let (_, index, leader) = (a.i16()?, a.i32()?, a.i32()?);
                    a.list(Answer::i32)?;
                    a.list(Answer::i32)?;
                    Some((index, leader))
                })?;
                Some((code, partitions))
            })?;
            Some((brokers, topics))
        };
        let (brokers, mut topics) = read(&mut answer).ok_or_else(unclear)?;
        let (code, mut partitions) = topics.pop().ok_or_else(unclear)?;
        if code != 0 || partitions.is_empty() {
            return Err(error(if code == 0 { 3 } else { code }));
        }
        partitions.sort_unstable();
        let leaders = partitions.into_iter().map(|(_, leader)| leader).collect();
        Ok(Conn { leaders, brokers: brokers.into_iter().collect(), lines: BTreeMap::new() })
    }

    /// Produces one batch for one partition.
    async fn produce(&self, conn: &mut Conn, partition: i32, messages: &[&Message]) -> Result<(), Failure> {
        let leader = conn.leaders[partition as usize];
        if !conn.lines.contains_key(&leader) {
            let address = conn.brokers.get(&leader).ok_or_else(|| error(5))?;
            let line = self.dial(address).await?;
            conn.lines.insert(leader, line);
        }
        let line = conn.lines.get_mut(&leader).ok_or_else(unclear)?;
        // No transaction; all replicas in sync.
        let mut out = (-1i16).to_be_bytes().to_vec();
        out.extend_from_slice(&(-1i16).to_be_bytes());
        out.extend_from_slice(&PATIENCE_MS.to_be_bytes());
        out.extend_from_slice(&1i32.to_be_bytes());
        text(&mut out, &self.topic);
        out.extend_from_slice(&1i32.to_be_bytes());
        out.extend_from_slice(&partition.to_be_bytes());
        blob(&mut out, &batch(messages));
        let mut answer = ask(line, PRODUCE, &out).await?;
        let codes = answer.list(|a| {
            a.text()?;
            a.list(|a| {
                let (_, code) = (a.i32()?, a.i16()?);
                a.take::<16>()?;
                Some(code)
            })
        });
        match codes.and_then(|c| c.into_iter().flatten().next()) {
            Some(0) => Ok(()),
            Some(code) => Err(error(code)),
            None => Err(unclear()),
        }
    }
}

/// Sends one message of the authentication and returns its answer.
async fn say(line: &mut Line, word: &[u8]) -> Result<String, Failure> {
    let mut out = Vec::new();
    blob(&mut out, word);
    let mut answer = ask(line, AUTHENTICATE, &out).await?;
    let code = answer.i16().ok_or_else(unclear)?;
    answer.text();
    if code != 0 {
        return Err(error(code));
    }
    let length = answer.i32().unwrap_or(0);
    String::from_utf8(answer.bytes(length).unwrap_or_default()).map_err(|_| unclear())
}

impl Speak for Kafka {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn, Failure> {
        let mut last = unclear();
        for address in &self.brokers {
            match self.metadata(address).await {
                Ok(conn) => return Ok(conn),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn send(&self, conn: &mut Conn, messages: &[Message], _: &Site) -> Sent {
        let partitions = conn.leaders.len() as u32;
        let mut by: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (at, m) in messages.iter().enumerate() {
            by.entry((fnv(m.event.path().as_bytes()) % partitions) as i32).or_default().push(at);
        }
        let mut answers: Vec<Result<(), Failure>> = vec![Err(retry(WHAT, "not sent yet")); messages.len()];
        for (partition, which) in by {
            let group: Vec<&Message> = which.iter().map(|at| &messages[*at]).collect();
            let result = self.produce(conn, partition, &group).await;
            if matches!(result, Err(Failure::Refused(_))) && group.len() > 1 {
                // A broker refuses a batch as a whole. Send its messages one by one to find the refused ones.
                for at in which {
                    answers[at] = self.produce(conn, partition, &[&messages[at]]).await;
                }
                continue;
            }
            for at in which {
                answers[at] = result.clone();
            }
            if matches!(result, Err(Failure::Retry(_))) {
                break;
            }
        }
        Sent::of(answers)
    }
}
