//! MySQL and MariaDB: rows of a table. Implements the part of the client protocol that this needs
//! (dev.mysql.com, "MySQL Internals, Client/Server Protocol"): the handshake with two authentication plugins,
//! and text queries.
//!
//! Invariant: values are in queries only as hexadecimal literals, so that no setting of the server can change
//! their meaning.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject as _};
use tokio::io::{AsyncWriteExt as _, BufStream};

use super::postgres::table;
use super::{Failure, Format, Sent, Speak};
use crate::settings::Settings;
use crate::wire::{self, Line, TargetAddress, retry};
use crate::{Message, Site};

const WHAT: &str = "mysql";
/// Long passwords, connect with a database, protocol 4.1, transactions, secure connections, plugins.
const ABLE: u32 = 0x0000_0001 | 0x0000_0008 | 0x0000_0200 | 0x0000_2000 | 0x0000_8000 | 0x0008_0000;
/// TLS.
const ABLE_TLS: u32 = 0x0000_0800;
/// utf8mb4_general_ci.
const CHARSET: u8 = 45;
const NATIVE: &str = "mysql_native_password";
const CACHING: &str = "caching_sha2_password";

/// A table.
pub struct Mysql {
    address: TargetAddress,
    /// TLS is preferred, but not required.
    prefers: bool,
    user: String,
    password: String,
    database: String,
    table: String,
    format: Format,
}

/// A session, with the number of its next packet.
pub struct Conn {
    line: Line,
    next: u8,
}

impl Conn {
    async fn read(&mut self) -> Result<Vec<u8>, Failure> {
        let head = wire::bytes(&mut self.line, 4).await.map_err(|e| retry(WHAT, e))?;
        let size = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        self.next = head[3].wrapping_add(1);
        wire::bytes(&mut self.line, size).await.map_err(|e| retry(WHAT, e))
    }

    async fn write(&mut self, body: &[u8]) -> Result<(), Failure> {
        if body.len() >= 0xff_ffff {
            return Err(Failure::Refused("mysql: the event is too large for one packet".into()));
        }
        let size = (body.len() as u32).to_le_bytes();
        let head = [size[0], size[1], size[2], self.next];
        self.next = self.next.wrapping_add(1);
        let write = async {
            self.line.write_all(&head).await?;
            self.line.write_all(body).await?;
            self.line.flush().await
        };
        write.await.map_err(|e| retry(WHAT, e))
    }

    async fn query(&mut self, text: &str) -> Result<(), Failure> {
        self.next = 0;
        let mut out = vec![3];
        out.extend_from_slice(text.as_bytes());
        self.write(&out).await?;
        let answer = self.read().await?;
        match answer.first() {
            Some(0) => Ok(()),
            Some(0xff) => Err(said(&answer)),
            _ => Err(retry(WHAT, "an answer that is not understood")),
        }
    }
}

/// The failure that an error packet reports.
fn said(packet: &[u8]) -> Failure {
    let code = packet.get(1..3).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    let why = format!("{WHAT}: {}", String::from_utf8_lossy(text));
    match code {
        // Data too long, incorrect value, invalid JSON, and constraints: this row can never be stored.
        1406 | 1366 | 1292 | 3140 | 4025 => Failure::Refused(why),
        _ => Failure::Retry(why),
    }
}

/// A text that ends with a zero byte, and what follows.
fn zero_ended(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|b| *b == 0)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// The answer to the password challenge of an authentication plugin.
fn proof(plugin: &str, password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    if password.is_empty() {
        return Some(Vec::new());
    }
    let algorithm = match plugin {
        NATIVE => &SHA1_FOR_LEGACY_USE_ONLY,
        CACHING => &SHA256,
        _ => return None,
    };
    let hash = |parts: &[&[u8]]| {
        let mut context = Context::new(algorithm);
        parts.iter().for_each(|p| context.update(p));
        context.finish()
    };
    let once = hash(&[password.as_bytes()]);
    let twice = hash(&[once.as_ref()]);
    let mixed = match plugin {
        NATIVE => hash(&[nonce, twice.as_ref()]),
        _ => hash(&[twice.as_ref(), nonce]),
    };
    Some(xor(once.as_ref(), mixed.as_ref()))
}

/// The password, encrypted with the server's public key. It is sent so on connections without TLS.
fn sealed(key: &[u8], password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(key).ok()?;
    let key = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&der).ok()?).ok()?;
    let mut plain = password.as_bytes().to_vec();
    plain.push(0);
    let mut out = vec![0; key.ciphertext_size()];
    let plain = xor(&plain, nonce);
    key.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut out, None).ok().map(|sealed| sealed.to_vec())
}

impl Mysql {
    pub fn open(s: &Settings<'_>) -> Result<Mysql, String> {
        let dsn = s.need("dsn_string")?;
        let bad = || "dsn_string must be USER:PASSWORD@tcp(HOST:PORT)/DATABASE".to_owned();
        let (login, rest) = dsn.rsplit_once('@').ok_or_else(bad)?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (address, rest) = rest.split_once('/').ok_or_else(bad)?;
        let address = address.strip_prefix("tcp(").and_then(|a| a.strip_suffix(')')).ok_or_else(bad)?;
        let (database, options) = rest.split_once('?').unwrap_or((rest, ""));
        if database.is_empty() {
            return Err(bad());
        }
        let tls = options.split('&').find_map(|o| o.strip_prefix("tls="));
        let mut values = s.values.clone();
        if tls == Some("skip-verify") {
            values.insert("tls_skip_verify".into(), "on".into());
        }
        let s = &Settings { values: &values, authorities: s.authorities };
        let wanted = match tls {
            None | Some("false") => false,
            Some("true" | "skip-verify" | "preferred") => true,
            Some(_) => return Err("dsn_string: tls must be true, false, skip-verify or preferred".into()),
        };
        Ok(Mysql {
            address: TargetAddress::parse(address, 3306, s.tls_if(wanted)?)?,
            prefers: tls == Some("preferred"),
            user: user.to_owned(),
            password: password.to_owned(),
            database: database.to_owned(),
            table: table(s)?,
            format: s.format()?,
        })
    }

    /// The handshake, until the server accepts the authentication.
    async fn sign_in(&self) -> Result<Conn, Failure> {
        let unclear = || retry(WHAT, "a greeting that is not understood");
        let line = BufStream::new(self.address.tcp().await?);
        let mut conn = Conn { line, next: 0 };
        let hello = conn.read().await?;
        if hello.first() == Some(&0xff) {
            return Err(said(&hello));
        }
        let (_, rest) = hello.get(1..).and_then(zero_ended).ok_or_else(unclear)?;
        // Thread, 8 bytes of the nonce, a filler, abilities, charset, status, abilities, length, 10 reserved.
        let mut nonce = rest.get(4..12).ok_or_else(unclear)?.to_vec();
        let able = rest.get(13..15).ok_or_else(unclear)?;
        let more = rest.get(18..20).ok_or_else(unclear)?;
        let able = u32::from_le_bytes([able[0], able[1], more[0], more[1]]);
        let after = rest.get(31..).ok_or_else(unclear)?;
        nonce.extend_from_slice(after.get(..12).ok_or_else(unclear)?);
        let plugin = after
            .get(13..)
            .and_then(zero_ended)
            .map_or(NATIVE.to_owned(), |(p, _)| String::from_utf8_lossy(p).into_owned());
        let secure = self.address.tls.is_some() && able & ABLE_TLS != 0;
        if self.address.tls.is_some() && !secure && !self.prefers {
            return Err(retry(WHAT, "the server does not speak TLS"));
        }
        let mut head = (ABLE | if secure { ABLE_TLS } else { 0 }).to_le_bytes().to_vec();
        head.extend_from_slice(&(16u32 << 20).to_le_bytes());
        head.push(CHARSET);
        head.extend_from_slice(&[0; 23]);
        if secure {
            conn.write(&head).await?;
            let next = conn.next;
            let line = BufStream::new(self.address.secured(conn.line.into_inner()).await?);
            conn = Conn { line, next };
        }
        // For an unknown plugin, answer with a known one. The server then asks to switch to the one it wants.
        let plugin = if plugin == CACHING { CACHING } else { NATIVE };
        let shown = proof(plugin, &self.password, &nonce).ok_or_else(unclear)?;
        head.extend_from_slice(self.user.as_bytes());
        head.push(0);
        head.push(shown.len() as u8);
        head.extend_from_slice(&shown);
        head.extend_from_slice(self.database.as_bytes());
        head.push(0);
        head.extend_from_slice(plugin.as_bytes());
        head.push(0);
        conn.write(&head).await?;
        self.prove(conn, nonce, secure).await
    }

    async fn prove(&self, mut conn: Conn, mut nonce: Vec<u8>, secure: bool) -> Result<Conn, Failure> {
        // Few exchanges are ever needed: another plugin, its second step, the server's key.
        for _ in 0..6 {
            let answer = conn.read().await?;
            match answer.split_first() {
                Some((0, _)) => return Ok(conn),
                Some((0xff, _)) => return Err(said(&answer)),
                Some((0xfe, rest)) => {
                    let (plugin, data) = zero_ended(rest).ok_or_else(|| {
                        retry(WHAT, "the server asks for an authentication method that is too old")
                    })?;
                    nonce = data.strip_suffix(&[0]).unwrap_or(data).to_vec();
                    let plugin = String::from_utf8_lossy(plugin).into_owned();
                    let shown = proof(&plugin, &self.password, &nonce).ok_or_else(|| {
                        retry(WHAT, format_args!("the authentication method {plugin} is not implemented"))
                    })?;
                    conn.write(&shown).await?;
                }
                // The fast authentication succeeded; the OK packet follows.
                Some((1, [3])) => {}
                Some((1, [4])) if secure => {
                    let mut plain = self.password.as_bytes().to_vec();
                    plain.push(0);
                    conn.write(&plain).await?;
                }
                Some((1, [4])) => conn.write(&[2]).await?,
                Some((1, key)) => {
                    let sealed = sealed(key, &self.password, &nonce);
                    conn.write(&sealed.ok_or_else(|| retry(WHAT, "the server's key is not understood"))?)
                        .await?;
                }
                _ => break,
            }
        }
        Err(retry(WHAT, "an answer that is not understood"))
    }

    fn statement(&self, m: &Message, site: &Site) -> String {
        let (event, table) = (&m.event, &self.table);
        let literal = |bytes: &[u8]| format!("CONVERT(X'{}' USING utf8mb4)", hex::encode(bytes));
        let path = literal(event.path().as_bytes());
        match self.format {
            Format::Namespace if event.removes() => {
                format!("DELETE FROM {table} WHERE key_hash = SHA2({path}, 256)")
            }
            Format::Namespace => format!(
                "INSERT INTO {table} (key_name, value) VALUES ({path}, {}) ON DUPLICATE KEY UPDATE value = VALUES(value)",
                literal(&event.records(&m.rule, site))
            ),
            Format::Access => {
                // DATETIME has no zone: the time is UTC.
                let time = event.time().replace('T', " ");
                format!(
                    "INSERT INTO {table} (event_time, event_data) VALUES ({}, {})",
                    literal(time.trim_end_matches('Z').as_bytes()),
                    literal(&event.records(&m.rule, site))
                )
            }
        }
    }
}

impl Speak for Mysql {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn, Failure> {
        let mut conn = self.sign_in().await?;
        let table = &self.table;
        // The same tables as MinIO's, so that existing tables can be used.
        let make = match self.format {
            Format::Namespace => format!(
                "CREATE TABLE IF NOT EXISTS {table} (key_name VARCHAR(3072) NOT NULL, key_hash CHAR(64) GENERATED ALWAYS AS (SHA2(key_name, 256)) STORED NOT NULL PRIMARY KEY, value JSON) CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin ROW_FORMAT = Dynamic"
            ),
            Format::Access => format!(
                "CREATE TABLE IF NOT EXISTS {table} (event_time DATETIME NOT NULL, event_data JSON) ROW_FORMAT = Dynamic"
            ),
        };
        match conn.query(&make).await {
            Ok(()) => Ok(conn),
            // MariaDB allows neither NOT NULL nor a primary key on computed columns.
            Err(_) if self.format == Format::Namespace => {
                let make = format!(
                    "CREATE TABLE IF NOT EXISTS {table} (key_name VARCHAR(3072) NOT NULL, key_hash CHAR(64) AS (SHA2(key_name, 256)) STORED UNIQUE, value JSON) CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin ROW_FORMAT = Dynamic"
                );
                conn.query(&make).await.map(|()| conn)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn send(&self, conn: &mut Conn, messages: &[Message], site: &Site) -> Sent {
        let mut answers = Vec::with_capacity(messages.len());
        for m in messages {
            let answer = conn.query(&self.statement(m, site)).await;
            let stops = matches!(answer, Err(Failure::Retry(_)));
            answers.push(answer);
            if stops {
                break;
            }
        }
        Sent::of(answers)
    }

    async fn probe(&self, conn: &mut Conn, test: &Message, _: &Site) -> Sent {
        match conn.query("DO 1").await {
            Ok(()) => Sent::all(std::slice::from_ref(test)),
            Err(failure) => Sent::until(0, failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_proofs_match_the_protocol() {
        // Native: SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))); an empty password has an empty proof.
        let nonce = [7u8; 20];
        let shown = proof(NATIVE, "secret", &nonce).unwrap();
        assert_eq!(shown.len(), 20);
        assert_eq!(proof(CACHING, "secret", &nonce).unwrap().len(), 32);
        assert_eq!(proof(NATIVE, "", &nonce), Some(Vec::new()));
        assert_eq!(proof("dialog", "x", &nonce), None);
        assert_eq!(xor(&[1, 2, 3], &[1]), [0, 3, 2]);
    }
}
