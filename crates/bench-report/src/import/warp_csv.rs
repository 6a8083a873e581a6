//! warp's request log: tab-separated, one line per request, `.csv.zst`.
//!
//! Columns are found by their names in the first line, so that files of older releases without
//! `last_byte` or `cat` are read too. Lines that begin with `#` are remarks (the command line).

use std::{borrow::Cow, collections::BTreeMap};

use hdrhistogram::Histogram as Recorder;

use crate::{
    error::Error,
    result::{Histogram, Load, Operation, Phase, Point, Run, Share, Timeline, hist::MOST_NS},
    stat,
};

use super::{document, instant, note, rfc3339};

/// Most distinct error texts; the rest are counted as `other`.
const ERROR_KINDS: usize = 50;
/// Longest error text that is kept.
const ERROR_TEXT: usize = 100;

/// Whether the text begins like one.
pub fn is(text: &str) -> bool {
    let first = text.lines().find(|l| !l.starts_with('#')).unwrap_or_default();
    first.starts_with("idx\t") && first.contains("\tduration_ns")
}

struct Request<'a> {
    thread: &'a str,
    client: &'a str,
    op: &'a str,
    host: &'a str,
    error: &'a str,
    bytes: u64,
    start: i128,
    first_byte: Option<i128>,
    end: i128,
}

/// Understands a request log.
pub fn parse(text: &str) -> Result<Run, Error> {
    let mut records = Records { rest: text, line: 0 };
    let mut remarks = Vec::new();
    let names = loop {
        match records.next() {
            Some((_, fields)) if fields[0].starts_with('#') => remarks.push(fields.join(" ")),
            Some((_, fields)) => break fields,
            None => return Err(Error::format("the request log is empty")),
        }
    };
    let column = |name: &str| names.iter().position(|n| n == name);
    let need = |name: &str| {
        column(name).ok_or_else(|| Error::format(format!("the request log has no column `{name}`")))
    };
    let (op, bytes, start, end) = (need("op")?, need("bytes")?, need("start")?, need("end")?);
    let optional = ["thread", "client_id", "endpoint", "error", "first_byte"].map(column);

    let mut rows = Vec::new();
    for (line, fields) in records {
        if fields[0].starts_with('#') {
            remarks.push(fields.join(" "));
            continue;
        }
        let field = |at: usize| fields.get(at).map_or("", |f| f.as_ref());
        let time = |at: usize| {
            instant(field(at))
                .ok_or_else(|| Error::format(format!("line {line}: `{}` is not a time", field(at))))
        };
        rows.push((
            fields.iter().map(|f| f.to_string()).collect::<Vec<_>>(),
            field(bytes).parse::<u64>().map_err(|_| {
                Error::format(format!("line {line}: `{}` is not a number of bytes", field(bytes)))
            })?,
            time(start)?,
            optional[4].and_then(|at| instant(field(at))),
            time(end)?,
        ));
    }
    let requests = rows.iter().map(|(fields, bytes, start, first_byte, end)| {
        let at = |i: usize| optional[i].and_then(|c| fields.get(c)).map_or("", String::as_str);
        Request {
            op: fields.get(op).map_or("", String::as_str),
            thread: at(0),
            client: at(1),
            host: at(2),
            error: at(3),
            bytes: *bytes,
            start: *start,
            first_byte: *first_byte,
            end: *end,
        }
    });
    gather(&requests.collect::<Vec<_>>(), remarks)
}

fn gather(requests: &[Request], remarks: Vec<String>) -> Result<Run, Error> {
    let (Some(began), Some(ended)) =
        (requests.iter().map(|r| r.start).min(), requests.iter().map(|r| r.end).max())
    else {
        return Err(Error::format("the request log contains no requests"));
    };
    let mut threads: Vec<(&str, &str)> = requests.iter().map(|r| (r.client, r.thread)).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut ops: BTreeMap<&str, Gathered> = BTreeMap::new();
    let seconds = (ended - began) as f64 / 1e9;
    for request in requests {
        ops.entry(request.op).or_insert_with(|| Gathered::new(seconds)).add(request, began);
    }
    let name = match ops.keys().collect::<Vec<_>>()[..] {
        [one] => one.to_lowercase(),
        _ => "mixed".to_owned(),
    };
    let mut run = document("warp", "");
    run.started = rfc3339(began);
    run.command = remarks.iter().map(|r| r.trim_start_matches(['#', ' ']).to_owned()).collect();
    run.caveats.push(note(
        "whole-log",
        "Every request of the log counts; warp's own analysis leaves out the start and the end of a run.",
    ));
    run.phases = vec![Phase {
        name,
        state: None,
        repetition: 1,
        load: Load::Closed { concurrency: threads.len() as u32 },
        at_s: 0.0,
        warmup_s: 0.0,
        seconds,
        stopped_by: "time".to_owned(),
        operations: ops.into_iter().map(|(name, g)| g.finish(name)).collect(),
        cost: None,
        values: BTreeMap::new(),
    }];
    Ok(run)
}

struct Gathered {
    operation: Operation,
    service: Recorder<u64>,
    first_byte: Recorder<u64>,
    hosts: BTreeMap<String, (Share, Recorder<u64>)>,
}

/// A recorder that grows with its values (if recorded with [`put`]): many hosts need many.
fn small() -> Recorder<u64> {
    Recorder::new(3).unwrap_or_else(|e| unreachable!("three digits: {e}"))
}

fn put(recorder: &mut Recorder<u64>, ns: u64) {
    recorder.record(ns.min(MOST_NS)).unwrap_or_else(|e| unreachable!("it grows: {e}"));
}

impl Gathered {
    fn new(seconds: f64) -> Gathered {
        let mut step_s = 1.0;
        while seconds / step_s >= Timeline::MAX as f64 {
            step_s *= 2.0;
        }
        let points = vec![Point::default(); (seconds / step_s) as usize + 1];
        let operation = Operation { timeline: Timeline { step_s, points }, ..Operation::default() };
        Gathered { operation, service: small(), first_byte: small(), hosts: BTreeMap::new() }
    }

    fn add(&mut self, r: &Request, began: i128) {
        let step = (r.end - began) as f64 / 1e9 / self.operation.timeline.step_s;
        let service = (r.end - r.start).max(0) as u64;
        let (share, by_host) =
            self.hosts.entry(format!("host {}", r.host)).or_insert_with(|| (Share::default(), small()));
        let last = self.operation.timeline.points.len() - 1;
        let point = &mut self.operation.timeline.points[(step as usize).min(last)];
        if !r.error.is_empty() {
            point.errors += 1;
            share.errors += 1;
            let mut kind: String = r.error.chars().take(ERROR_TEXT).collect();
            if self.operation.errors.len() >= ERROR_KINDS && !self.operation.errors.contains_key(&kind) {
                "other".clone_into(&mut kind);
            }
            *self.operation.errors.entry(kind).or_insert(0) += 1;
            return;
        }
        point.count += 1;
        point.bytes += r.bytes;
        point.max_ns = point.max_ns.max(service);
        share.count += 1;
        share.bytes += r.bytes;
        self.operation.count += 1;
        self.operation.bytes += r.bytes;
        put(&mut self.service, service);
        put(by_host, service);
        if let Some(at) = r.first_byte {
            put(&mut self.first_byte, (at - r.start).max(0) as u64);
        }
    }

    fn finish(self, name: &str) -> Operation {
        let Gathered { mut operation, service, first_byte, hosts } = self;
        operation.name = name.to_owned();
        operation.rate_per_s = stat::batched(&operation.timeline.rates_per_s(0.0), 20);
        operation.bytes_per_s = stat::batched(&operation.timeline.bytes_per_s(0.0), 20);
        operation.service = Histogram::from(&service);
        operation.first_byte = (!first_byte.is_empty()).then(|| Histogram::from(&first_byte));
        operation.by = hosts
            .into_iter()
            .map(|(host, (share, times))| (host, Share { service: Histogram::from(&times), ..share }))
            .collect();
        operation
    }
}

/// Records of tab-separated text; a field in double quotes may hold tabs and line ends, and a
/// quote written twice.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Vec<Cow<'a, str>>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.line += 1;
            let at = self.line;
            if self.rest.is_empty() {
                return None;
            }
            if self.rest.starts_with('#') {
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                return Some((at, vec![Cow::Borrowed(line.trim_end())]));
            }
            let fields = self.record();
            if fields.len() > 1 || !fields[0].is_empty() {
                return Some((at, fields));
            }
        }
    }
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Vec<Cow<'a, str>> {
        let mut fields = Vec::new();
        loop {
            let field = if self.rest.starts_with('"') { self.quoted() } else { self.plain() };
            fields.push(field);
            let end = self.rest.chars().next();
            self.rest = self.rest.get(1..).unwrap_or_default();
            if end != Some('\t') {
                return fields;
            }
        }
    }

    fn plain(&mut self) -> Cow<'a, str> {
        let end = self.rest.find(['\t', '\n']).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Cow::Borrowed(field.trim_end_matches('\r'))
    }

    fn quoted(&mut self) -> Cow<'a, str> {
        let mut field = String::new();
        let mut inner = &self.rest[1..];
        while let Some(end) = inner.find('"') {
            self.line += inner[..end].matches('\n').count();
            field.push_str(&inner[..end]);
            inner = &inner[end + 1..];
            match inner.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    inner = more;
                }
                None => break,
            }
        }
        // What follows a closing quote up to the next tab is no field of its own.
        let end = inner.find(['\t', '\n']).unwrap_or(inner.len());
        self.rest = &inner[end..];
        Cow::Owned(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = include_str!("../../tests/fixtures/warp-mixed.csv");

    #[test]
    fn request_log_is_imported() {
        let run = parse(LOG).unwrap();
        assert_eq!((run.mode.as_str(), run.started.as_str()), ("import", "2026-03-01T10:00:00Z"));
        let phase = &run.phases[0];
        assert_eq!((phase.name.as_str(), phase.load.text()), ("mixed", "2 in flight".to_owned()));
        assert!((phase.seconds - 8.1).abs() < 1e-9, "{}", phase.seconds);
        let names: Vec<_> = phase.operations.iter().map(|o| (o.name.as_str(), o.count, o.failed())).collect();
        assert_eq!(names, [("GET", 16, 1), ("PUT", 8, 0)]);
        let get = &phase.operations[0];
        assert_eq!(get.bytes, 16 * 1048576);
        assert_eq!(get.service.count, 16);
        assert_eq!(get.timeline.points.iter().map(|p| p.count).sum::<u64>(), 16);
        assert_eq!(get.timeline.points.iter().map(|p| p.errors).sum::<u64>(), 1);
        // Service times are 100 ms, first bytes 20 ms.
        assert!((get.service.quantile(0.5) as f64 / 100e6 - 1.0).abs() < 1e-3);
        assert!((get.first_byte.as_ref().unwrap().quantile(0.99) as f64 / 20e6 - 1.0).abs() < 1e-3);
        assert!((get.rate_per_s.mean - 2.0).abs() < 1e-9, "{:?}", get.rate_per_s);
        assert_eq!(get.errors.keys().next().unwrap(), "read \"tcp\":\tconnection reset");
        assert_eq!(
            get.by.iter().map(|(h, s)| (h.as_str(), s.count)).collect::<Vec<_>>(),
            [("host http://10.0.0.1:9000", 8), ("host http://10.0.0.2:9000", 8),]
        );
        assert!(phase.operations[1].first_byte.is_none());
        assert_eq!(run.command, ["warp mixed --duration=8s"]);
    }

    #[test]
    fn damaged_logs_are_refused() {
        let (head, _) = LOG.split_once('\n').unwrap();
        assert!(parse(head).is_err(), "no request");
        assert!(parse(&LOG.replace("\tbytes\t", "\tbites\t")).unwrap_err().to_string().contains("`bytes`"));
        let broken = LOG.replacen("2026-03-01", "2026-13-01", 1);
        assert!(parse(&broken).unwrap_err().to_string().contains("line 2"), "{:?}", parse(&broken));
        // Cut anywhere: an error or fewer requests, never a panic.
        for cut in (0..LOG.len()).step_by(7) {
            let _ = LOG.get(..cut).map(parse);
        }
    }
}
