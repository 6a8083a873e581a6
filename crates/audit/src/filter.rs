//! Which records a search is for.
//!
//! Invariant: what [`Filter::may_match`] rejects by the bytes of a line, [`Filter::matches`] rejects too. Must not depend
//! on: where records are.

use std::net::IpAddr;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::time_text;

/// Conditions on records; a record has to meet all of them. What is empty is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// The request came at this time or later, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// The request came before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// The user, or the user that the credential acts for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The access key that signed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub access_key: String,
    /// The bucket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// The beginning of the key; of an administration call, of the name that it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// The operation, `GetObject` for example.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// `s3`, `sts` or `admin`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// The first and the last HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<(u16, u16)>,
    /// The error code, `AccessDenied` for example.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The network of the client: an address, and how many of its bits count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<(IpAddr, u8)>,
    /// The request id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

/// An address, or a network such as `10.0.0.0/8`; `None`: it is neither.
#[must_use]
pub fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

/// A status such as `403`, a class such as `4xx`, or a range such as `400-499`; `None`: it is none of them.
#[must_use]
pub fn parse_status(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| (100..=999).contains(n));
    if let Some(class) = text.strip_suffix("xx") {
        let class = class.parse::<u16>().ok().filter(|n| (1..=5).contains(n))?;
        return Some((class * 100, class * 100 + 99));
    }
    match text.split_once('-') {
        Some((first, last)) => {
            let range = (number(first)?, number(last)?);
            (range.0 <= range.1).then_some(range)
        }
        None => number(text).map(|n| (n, n)),
    }
}

/// Whether an address is in a network.
fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let wide = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    };
    let ((a, a4), (b, b4)) = (wide(network), wide(address));
    let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
    a4 == b4 && a & mask == b & mask
}

/// A text as it is written in a line, without the quotes.
fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// The conditions in the form in which lines are compared with them.
pub struct Needles {
    since: Option<String>,
    until: Option<String>,
    all: Vec<Finder<'static>>,
    status: Option<(u16, u16)>,
    source: Option<(IpAddr, u8)>,
    status_name: Finder<'static>,
    source_name: Finder<'static>,
}

impl Filter {
    /// The conditions on the bytes of a line.
    pub(crate) fn needles(&self) -> Needles {
        let mut texts = Vec::new();
        for (name, value) in [
            ("access_key", &self.access_key),
            ("bucket", &self.bucket),
            ("operation", &self.operation),
            ("api", &self.api),
            ("error", &self.error),
            ("request_id", &self.request_id),
        ] {
            if !value.is_empty() {
                texts.push(format!("\"{name}\":\"{}\"", escaped(value)));
            }
        }
        if !self.prefix.is_empty() {
            texts.push(format!("\"key\":\"{}", escaped(&self.prefix)));
        }
        if !self.user.is_empty() {
            texts.push(format!("\"{}\"", escaped(&self.user)));
        }
        let finder = |text: String| Finder::new(text.as_bytes()).into_owned();
        Needles {
            since: self.since_ms.map(time_text),
            until: self.until_ms.map(time_text),
            all: texts.into_iter().map(finder).collect(),
            status: self.status,
            source: self.source,
            status_name: Finder::new("\"status\":"),
            source_name: Finder::new("\"ip\":\""),
        }
    }

    /// Whether a record meets all conditions.
    pub(crate) fn matches(&self, record: &Value) -> bool {
        let of = |name: &str| record[name].as_str().unwrap_or_default();
        let equal = |wanted: &str, name: &str| wanted.is_empty() || of(name) == wanted;
        let time = of("time");
        let in_time = self.since_ms.is_none_or(|ms| time >= time_text(ms).as_str())
            && self.until_ms.is_none_or(|ms| time < time_text(ms).as_str());
        let status = record["status"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
        in_time
            && (self.user.is_empty() || of("user") == self.user || of("parent") == self.user)
            && equal(&self.access_key, "access_key")
            && equal(&self.bucket, "bucket")
            && of("key").starts_with(&self.prefix)
            && equal(&self.operation, "operation")
            && equal(&self.api, "api")
            && self.status.is_none_or(|(first, last)| (first..=last).contains(&status))
            && equal(&self.error, "error")
            && self.source.is_none_or(|network| of("ip").parse().is_ok_and(|ip| contains(network, ip)))
            && equal(&self.request_id, "request_id")
    }
}

/// The text behind a name in a line. No text within the values of a record can look like a name: its quotes are escaped.
fn value<'a>(name: &Finder<'_>, line: &'a [u8], ends: impl Fn(&u8) -> bool) -> Option<&'a str> {
    let rest = &line[name.find(line)? + name.needle().len()..];
    std::str::from_utf8(&rest[..rest.iter().position(ends)?]).ok()
}

impl Needles {
    /// False: the record of a line does not meet the conditions. `time`: that of the line.
    pub(crate) fn may_match(&self, time: &str, line: &[u8]) -> bool {
        self.since.as_deref().is_none_or(|since| time >= since)
            && self.until.as_deref().is_none_or(|until| time < until)
            && self.all.iter().all(|needle| needle.find(line).is_some())
            && self.status.is_none_or(|(first, last)| {
                let status = value(&self.status_name, line, |b| !b.is_ascii_digit());
                status.and_then(|text| text.parse().ok()).is_some_and(|n: u16| (first..=last).contains(&n))
            })
            && self.source.is_none_or(|network| {
                let source = value(&self.source_name, line, |b| *b == b'"');
                source.and_then(|text| text.parse().ok()).is_some_and(|ip| contains(network, ip))
            })
    }

    /// Whether a time is before the earliest one that is asked for.
    pub(crate) fn is_before(&self, time: &str) -> bool {
        self.since.as_deref().is_some_and(|since| time < since)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn networks_and_statuses() {
        let inside = |network: &str, ip: &str| contains(parse_network(network).unwrap(), ip.parse().unwrap());
        assert!(inside("10.0.0.0/8", "10.1.2.3") && !inside("10.0.0.0/8", "11.1.2.3"));
        assert!(inside("10.1.2.3", "10.1.2.3") && inside("10.1.2.3", "::ffff:10.1.2.3"));
        assert!(!inside("10.1.2.3", "10.1.2.4") && inside("0.0.0.0/0", "1.2.3.4"));
        assert!(
            inside("fd00::/8", "fd12::1") && !inside("fd00::/8", "10.0.0.1") && !inside("::/0", "10.0.0.1")
        );
        for bad in ["", "10.0.0", "10.0.0.0/33", "::1/129", "10.0.0.0/", "a/8"] {
            assert_eq!(parse_network(bad), None, "{bad}");
        }
        assert_eq!(parse_status("403"), Some((403, 403)));
        assert_eq!(parse_status("4xx"), Some((400, 499)));
        assert_eq!(parse_status("200-299"), Some((200, 299)));
        for bad in ["", "4", "6xx", "0xx", "499-400", "99", "abc", "400-"] {
            assert_eq!(parse_status(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_condition_selects_by_its_field_and_the_bytes_of_the_line_agree() {
        let record = json!({ "time": "2023-11-14T22:13:20.123Z", "request_id": "ID1", "api": "s3",
            "operation": "GetObject", "bucket": "b", "key": "a\"b\n/\u{e9}x", "status": 403, "error": "AccessDenied",
            "access_key": "K", "user": "alice", "parent": "boss", "ip": "192.0.2.7" });
        let line = record.to_string();
        let judge = |filter: &Filter| {
            let (by_record, by_bytes) = (
                filter.matches(&record),
                filter.needles().may_match("2023-11-14T22:13:20.123Z", line.as_bytes()),
            );
            assert!(by_bytes || !by_record, "{filter:?}");
            by_record
        };
        let at = 1_700_000_000_123;
        let good = [
            Filter::default(),
            Filter { since_ms: Some(at), until_ms: Some(at + 1), ..Filter::default() },
            Filter { user: "alice".into(), ..Filter::default() },
            Filter { user: "boss".into(), ..Filter::default() },
            Filter { access_key: "K".into(), bucket: "b".into(), ..Filter::default() },
            Filter { prefix: "a\"b\n/\u{e9}".into(), ..Filter::default() },
            Filter { operation: "GetObject".into(), api: "s3".into(), ..Filter::default() },
            Filter { status: Some((400, 499)), error: "AccessDenied".into(), ..Filter::default() },
            Filter { source: parse_network("192.0.2.0/24"), request_id: "ID1".into(), ..Filter::default() },
        ];
        assert!(good.iter().all(judge));
        let bad = [
            Filter { since_ms: Some(at + 1), ..Filter::default() },
            Filter { until_ms: Some(at), ..Filter::default() },
            Filter { user: "ali".into(), ..Filter::default() },
            Filter { access_key: "alice".into(), ..Filter::default() },
            Filter { bucket: "B".into(), ..Filter::default() },
            Filter { prefix: "b".into(), ..Filter::default() },
            Filter { operation: "Get".into(), ..Filter::default() },
            Filter { api: "admin".into(), ..Filter::default() },
            Filter { status: Some((200, 299)), ..Filter::default() },
            Filter { error: "NoSuchKey".into(), ..Filter::default() },
            Filter { source: parse_network("192.0.3.0/24"), ..Filter::default() },
            Filter { request_id: "ID".into(), ..Filter::default() },
        ];
        assert!(!bad.iter().any(judge));
        for filter in good.iter().chain(&bad) {
            let text = serde_json::to_string(filter).unwrap();
            assert_eq!(serde_json::from_str::<Filter>(&text).unwrap(), *filter, "{text}");
        }
    }
}
