//! Verification of audit files, without a server.
//!
//! With root's secret, a clean report means: a server that knew the secret wrote every line up to the last
//! checkpoint, in this order, and none is missing. Without the secret it means only that the hashes match: a
//! person who changed a line must have computed all later hashes again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use ashlar_checksum::{ct_eq, hmac_sha256};
use serde_json::Value;

use crate::chain::{self, MAC};
use crate::file::{Head, RECORDS, number};
use crate::{Error, Result};

/// The result of a verification.
#[derive(Debug, Default, serde::Serialize)]
pub struct Report {
    /// Lines that were read.
    pub lines: u64,
    /// Records among them.
    pub records: u64,
    /// Checkpoints among them.
    pub checkpoints: u64,
    /// Checkpoints whose signature was checked.
    pub signed: u64,
    /// Lines after the last checkpoint: no signature covers them yet.
    pub uncovered: u64,
    /// Number of the first line.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// Notes of the server about its starts: lines that were cut or missing.
    pub notes: Vec<String>,
    /// The first problem: file, line, description.
    pub problem: Option<(PathBuf, u64, String)>,
}

struct Verifier<'a> {
    keys: &'a [[u8; 32]],
    report: Report,
    hash: Option<[u8; 32]>,
    next: u64,
    records: u64,
    heads: Vec<(PathBuf, Head)>,
}

/// Checks the files of one chain, given in any order. `keys`: the keys that may sign checkpoints; without
/// any, signatures are not checked.
///
/// # Errors
/// A file cannot be read. Problems in its content are in the report.
pub fn verify(files: &[PathBuf], keys: &[[u8; 32]]) -> Result<Report> {
    let mut order = Vec::new();
    for file in files {
        order.push((first_number(file)?, file));
    }
    order.sort();
    let heads = files.iter().filter_map(|f| Some((f.clone(), Head::read(f)?))).collect();
    let mut verifier = Verifier { keys, report: Report::default(), hash: None, next: 0, records: 0, heads };
    for (i, (_, file)) in order.iter().enumerate() {
        verifier.file(file, i + 1 == order.len())?;
        if verifier.report.problem.is_some() {
            return Ok(verifier.report);
        }
    }
    verifier.heads_at_the_end();
    Ok(verifier.report)
}

fn first_number(file: &Path) -> Result<Option<u64>> {
    let mut line = Vec::new();
    let opened = fs::File::open(file).map_err(|e| Error::io(file, e))?;
    BufReader::new(opened).read_until(b'\n', &mut line).map_err(|e| Error::io(file, e))?;
    Ok(number(&line))
}

impl Verifier<'_> {
    fn file(&mut self, file: &Path, last: bool) -> Result<()> {
        let opened = fs::File::open(file).map_err(|e| Error::io(file, e))?;
        let mut lines = BufReader::with_capacity(1 << 20, opened);
        let (mut line, mut at) = (Vec::new(), 0);
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(|e| Error::io(file, e))? == 0 {
                break;
            }
            at += 1;
            let Some(whole) = line.strip_suffix(b"\n") else {
                if last {
                    self.report.notes.push(format!("{} line {at} is not finished", file.display()));
                    break;
                }
                self.report.problem = Some((file.to_owned(), at, "the line is cut short".into()));
                return Ok(());
            };
            if let Err(what) = self.line(whole, at == 1) {
                self.report.problem = Some((file.to_owned(), at, what));
                return Ok(());
            }
        }
        if at == 0 {
            self.report.notes.push(format!("{} is empty", file.display()));
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], first_of_file: bool) -> std::result::Result<(), String> {
        let parts = chain::split(line).ok_or("this is not a line of an audit log")?;
        let seq = number(parts.content).ok_or("the line has no number")?;
        let mark = mark_of(parts.content);
        let kind = mark.as_ref().and_then(|m| m["kind"].as_str()).unwrap_or_default();
        let missing = mark.as_ref().and_then(|m| m["missing"].as_u64()).unwrap_or(0);
        if first_of_file {
            let prev = mark.as_ref().and_then(|m| m["prev"].as_str()).filter(|_| kind == "start");
            let prev = prev.ok_or("a file must begin with a line of kind start: its beginning is missing")?;
            let mut stated = [0; 32];
            hex::decode_to_slice(prev, &mut stated)
                .map_err(|_| "the hash of the previous line (prev) is not a SHA-256 in hexadecimal digits")?;
            match self.hash {
                None => {
                    self.report.first = seq;
                    (self.hash, self.next) = (Some(stated), seq);
                }
                Some(hash) if hash == stated => {}
                Some(_) => return Err("this file does not continue the one before: lines are missing".into()),
            }
        }
        let next = seq.checked_add(1).ok_or("the number of the line is too large")?;
        if self.next.checked_add(missing) != Some(seq) {
            return Err(format!("this is line {seq} of the log, but line {} was expected", self.next));
        }
        let before = self.hash.unwrap_or_default();
        if chain::hash_of(&before, parts.content) != parts.hash {
            return Err(format!(
                "the hash does not match: line {seq} of the log, or a line before it, was changed"
            ));
        }
        (self.hash, self.next) = (Some(parts.hash), next);
        self.report.lines += 1;
        self.report.last = seq;
        match mark {
            None => {
                self.report.records += 1;
                self.report.uncovered += 1;
                self.records += 1;
                if self.records > RECORDS {
                    return Err(format!("more than {RECORDS} records without a checkpoint"));
                }
            }
            Some(mark) => {
                for what in ["cut", "missing"] {
                    if let Some(n) = mark[what].as_u64() {
                        let unit = if what == "cut" { "bytes of an unfinished line" } else { "lines" };
                        self.report.notes.push(format!("line {seq}: at this start {n} {unit} were {what}"));
                    }
                }
                self.signature(parts.content, &mark, &before)?;
                (self.report.uncovered, self.records) = (0, 0);
            }
        }
        self.head_here()
    }

    fn signature(
        &mut self,
        content: &[u8],
        mark: &Value,
        before: &[u8; 32],
    ) -> std::result::Result<(), String> {
        self.report.checkpoints += 1;
        if self.keys.is_empty() {
            return Ok(());
        }
        let name = mark["key"].as_str().unwrap_or_default();
        let key = self.keys.iter().find(|k| chain::key_name(k) == name);
        let key = key.ok_or("the checkpoint was signed with another root secret than those given")?;
        let at = memchr::memmem::rfind(content, MAC).ok_or("the checkpoint has no signature")?;
        let code = hex::encode(hmac_sha256(key, &[&before[..], &content[..at]].concat()));
        let stated = &content[at + MAC.len()..];
        if !ct_eq(format!("{code}\"").as_bytes(), stated) {
            return Err(
                "the checkpoint's signature does not match: the checkpoint was not written with root's secret".into()
            );
        }
        self.report.signed += 1;
        Ok(())
    }

    /// Compares this line with the `PATH.head` of its file.
    fn head_here(&self) -> std::result::Result<(), String> {
        let hash = hex::encode(self.hash.unwrap_or_default());
        match self.heads.iter().find(|(_, h)| h.next == self.next && h.hash != hash) {
            Some((file, _)) => Err(format!("{}.head has another hash for this line", file.display())),
            None => Ok(()),
        }
    }

    fn heads_at_the_end(&mut self) {
        for (file, head) in &self.heads {
            if !self.keys.is_empty() && !self.keys.iter().any(|k| head.is_by(k)) {
                let what = format!("{}.head is not signed with root's secret", file.display());
                self.report.problem = Some((file.clone(), 0, what));
                return;
            }
            if head.next > self.next {
                let missing = head.next - self.next;
                let what = format!("the last {missing} lines that were written are missing");
                self.report.problem = Some((file.clone(), self.report.lines, what));
                return;
            }
        }
    }
}

/// The content of a checkpoint; `None` for records.
fn mark_of(content: &[u8]) -> Option<Value> {
    let digits = content.strip_prefix(b"{\"seq\":")?;
    let rest = &digits[digits.iter().position(|b| *b == b',')? + 1..];
    if !rest.starts_with(b"\"kind\":\"start\"")
        && !rest.starts_with(b"\"kind\":\"checkpoint\"")
        && !rest.starts_with(b"\"kind\":\"rotate\"")
        && !rest.starts_with(b"\"kind\":\"stop\"")
    {
        return None;
    }
    serde_json::from_slice(&[content, b"}"].concat()).ok()
}

/// For the fuzzer: `bytes` has the content of one audit line per line. Each gets its correct hash and is
/// verified as a line of a file.
///
/// # Panics
/// A line is counted that is neither a record nor a checkpoint, or a record counts as signed.
#[doc(hidden)]
pub fn fuzzed_lines(bytes: &[u8]) {
    let key = chain::key_from("root");
    for keys in [&[][..], &[key]] {
        let mut verifier =
            Verifier { keys, report: Report::default(), hash: None, next: 0, records: 0, heads: Vec::new() };
        for (i, content) in bytes.split(|b| *b == b'\n').enumerate() {
            let _ = verifier.line(content, false);
            let stated = mark_of(content).and_then(|m| hex::decode(m["prev"].as_str()?).ok());
            let before = verifier.hash.or(stated.and_then(|h| h.try_into().ok())).unwrap_or_default();
            let mut line = content.to_vec();
            line.extend_from_slice(chain::HASH);
            line.extend_from_slice(hex::encode(chain::hash_of(&before, content)).as_bytes());
            line.extend_from_slice(b"\"}");
            if verifier.line(&line, i == 0).is_err() {
                break;
            }
        }
        let r = &verifier.report;
        assert_eq!(r.lines, r.records + r.checkpoints, "a line that is neither a record nor a checkpoint");
        assert!(r.signed <= r.checkpoints && (r.lines == 0 || r.first <= r.last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_number_overflow_is_refused() {
        let verify_line = |content: &[u8], next| {
            let mut verifier = Verifier {
                keys: &[],
                report: Report::default(),
                hash: Some([1; 32]),
                next,
                records: 0,
                heads: Vec::new(),
            };
            let hash = hex::encode(chain::hash_of(&[1; 32], content));
            verifier.line(&[content, chain::HASH, hash.as_bytes(), b"\"}"].concat(), false)
        };
        let last = b"{\"seq\":18446744073709551615,\"a\":1";
        assert_eq!(verify_line(last, u64::MAX).unwrap_err(), "the number of the line is too large");
        let missing = b"{\"seq\":4,\"kind\":\"start\",\"missing\":18446744073709551615";
        assert_eq!(
            verify_line(missing, 5).unwrap_err(),
            "this is line 4 of the log, but line 5 was expected"
        );
        assert_eq!(verify_line(b"{\"seq\":4,\"a\":1", 4), Ok(()));
    }
}
