//! One event and its JSON record: AWS's version 2.1 with MinIO's additions.
//!
//! Invariants: the record of an event is the same each time it is made, so that a receiver can detect a
//! repeated event by its `sequencer`; of the events of two changes of one key the later has the greater `sequencer`.

use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::Name;

/// What records say about this server.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The region.
    pub region: String,
    /// Identifies the deployment.
    pub deployment: String,
    /// Identifies the server in answers (`x-amz-id-2`).
    pub host_id: String,
}

/// One thing that happened to one key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its position in the change feed.
    pub position: u64,
    /// The ballot of the change, 36 hexadecimal digits: its place in the order of the changes of the key. Empty: not known.
    #[serde(default)]
    pub ballot: String,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// The name of the event.
    pub name: Name,
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version id, if the bucket has versioning.
    pub version: Option<String>,
    /// Bytes.
    pub size: u64,
    /// The ETag without quotes.
    pub etag: Option<String>,
    /// `content-type`, `x-amz-meta-*`, ...
    pub meta: Vec<(String, String)>,
    /// The access key that sent the request.
    pub who: String,
    /// The address of the client.
    pub source: String,
    /// The id of the request.
    pub request_id: String,
    /// The `User-Agent` of the client.
    pub agent: String,
    /// `scheme://host` of this server in the request.
    pub endpoint: String,
}

impl Event {
    /// Whether the event removes the object.
    #[must_use]
    pub fn removes(&self) -> bool {
        matches!(self.name, Name::RemovedDelete | Name::ExpirationDelete)
    }

    /// `BUCKET/KEY`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.bucket, self.key)
    }

    /// The time in AWS's form.
    #[must_use]
    pub fn time(&self) -> String {
        time_text(self.time_ms)
    }

    /// `{"Records": [record]}`.
    #[must_use]
    pub fn records(&self, rule: &str, site: &Site) -> Bytes {
        json(&Log { name: None, key: None, records: [Record { event: self, rule, site }] })
    }

    /// `{"EventName": ..., "Key": ..., "Records": [record]}`.
    #[must_use]
    pub fn log(&self, rule: &str, site: &Site) -> Bytes {
        let path = self.path();
        json(&Log {
            name: Some(self.name.text()),
            key: Some(&path),
            records: [Record { event: self, rule, site }],
        })
    }

    /// `[{"Event": [record], "EventTime": ...}]`, as MinIO appends it to lists of Redis.
    #[must_use]
    pub fn access(&self, rule: &str, site: &Site) -> Bytes {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Access<'a> {
            event: [Record<'a>; 1],
            event_time: String,
        }
        json(&[Access { event: [Record { event: self, rule, site }], event_time: self.time() }])
    }
}

/// An event on its way to a target.
#[derive(Clone, Debug)]
pub struct Message {
    /// What happened; a test event has the name [`Name::Test`].
    pub event: Arc<Event>,
    /// The id of the rule that selected it.
    pub rule: Arc<str>,
    /// The document that is sent: [`Event::log`], or the document of a test event.
    pub body: Bytes,
}

impl Message {
    /// The message for an event.
    #[must_use]
    pub fn new(event: Event, rule: &str, site: &Site) -> Message {
        let body = event.log(rule, site);
        Message { event: Arc::new(event), rule: rule.into(), body }
    }

    /// AWS's test event.
    #[must_use]
    pub fn test(bucket: &str, request_id: &str, now_ms: i64, site: &Site) -> Message {
        let body = serde_json::json!({
            "Service": "Amazon S3", "Event": Name::Test.text(), "Time": time_text(now_ms),
            "Bucket": bucket, "RequestId": request_id, "HostId": site.host_id,
        });
        let event = Event {
            position: 0,
            ballot: String::new(),
            time_ms: now_ms,
            name: Name::Test,
            bucket: bucket.to_owned(),
            key: String::new(),
            version: None,
            size: 0,
            etag: None,
            meta: Vec::new(),
            who: String::new(),
            source: String::new(),
            request_id: request_id.to_owned(),
            agent: String::new(),
            endpoint: String::new(),
        };
        Message { event: Arc::new(event), rule: "".into(), body: body.to_string().into() }
    }
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("records are plain data").into()
}

fn time_text(ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    at.unwrap_or(OffsetDateTime::UNIX_EPOCH).format(form).unwrap_or_default()
}

/// What form encoding escapes: everything except letters, digits, `-_.*` and slashes. Spaces become `+`
/// elsewhere.
const FORM: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/').remove(b' ');

/// A key in the encoding of AWS's records: form-encoded, except for slashes.
fn encoded(key: &str) -> String {
    utf8_percent_encode(key, FORM).to_string().replace(' ', "+")
}

#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "EventName", skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(rename = "Key", skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(rename = "Records")]
    records: [Record<'a>; 1],
}

struct Record<'a> {
    event: &'a Event,
    rule: &'a str,
    site: &'a Site,
}

/// Serializes pairs as a JSON object, in order.
struct Object<'a, const N: usize>([(&'static str, &'a str); N]);

impl<const N: usize> Serialize for Object<'_, N> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0)
    }
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (e, site) = (self.event, self.site);
        let host = e.source.rsplit_once(':').map_or(e.source.as_str(), |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) && !host.contains(':') { host } else { &e.source }
        });
        let mut m = s.serialize_map(None)?;
        m.serialize_entry("eventVersion", "2.1")?;
        m.serialize_entry("eventSource", "aws:s3")?;
        m.serialize_entry("awsRegion", &site.region)?;
        m.serialize_entry("eventTime", &e.time())?;
        m.serialize_entry("eventName", e.name.text())?;
        m.serialize_entry("userIdentity", &Object([("principalId", e.who.as_str())]))?;
        let asked = [("principalId", e.who.as_str()), ("region", &site.region), ("sourceIPAddress", host)];
        m.serialize_entry("requestParameters", &Object(asked))?;
        let answered = [
            ("x-amz-id-2", site.host_id.as_str()),
            ("x-amz-request-id", &e.request_id),
            ("x-minio-deployment-id", &site.deployment),
            ("x-minio-origin-endpoint", &e.endpoint),
        ];
        m.serialize_entry("responseElements", &Object(answered))?;
        m.serialize_entry("s3", &About(self))?;
        m.serialize_entry("source", &Object([("host", host), ("port", ""), ("userAgent", &e.agent)]))?;
        m.end()
    }
}

struct About<'a>(&'a Record<'a>);

impl Serialize for About<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Bucket<'a> {
            name: &'a str,
            #[serde(rename = "ownerIdentity")]
            owner: Object<'a, 1>,
            arn: String,
        }
        let e = self.0.event;
        let mut m = s.serialize_map(Some(4))?;
        m.serialize_entry("s3SchemaVersion", "1.0")?;
        m.serialize_entry("configurationId", self.0.rule)?;
        let owner = Object([("principalId", e.who.as_str())]);
        m.serialize_entry(
            "bucket",
            &Bucket { name: &e.bucket, owner, arn: format!("arn:aws:s3:::{}", e.bucket) },
        )?;
        m.serialize_entry("object", &Thing(e))?;
        m.end()
    }
}

struct Thing<'a>(&'a Event);

impl Serialize for Thing<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let e = self.0;
        let mut m = s.serialize_map(None)?;
        m.serialize_entry("key", &encoded(&e.key))?;
        let gone = matches!(
            e.name,
            Name::RemovedDelete | Name::RemovedMarker | Name::ExpirationDelete | Name::ExpirationMarker
        );
        if !gone {
            m.serialize_entry("size", &e.size)?;
            m.serialize_entry("eTag", e.etag.as_deref().unwrap_or_default())?;
            let find = |name: &str| e.meta.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
            m.serialize_entry("contentType", find("content-type").unwrap_or("binary/octet-stream"))?;
            let of_user = |n: &str| n.starts_with("x-amz-meta-") || n == "content-type";
            let user: std::collections::BTreeMap<&str, &str> =
                e.meta.iter().filter(|(n, _)| of_user(n)).map(|(n, v)| (n.as_str(), v.as_str())).collect();
            if !user.is_empty() {
                m.serialize_entry("userMetadata", &user)?;
            }
        }
        if let Some(version) = &e.version {
            m.serialize_entry("versionId", version)?;
        }
        m.serialize_entry("sequencer", &sequencer(e))?;
        m.end()
    }
}

/// Digits whose order, as texts, is that of the changes of a key. Those of an event with a ballot begin with 2, and are so
/// behind all others until 2039: an event has none if it was recorded while nodes of an older release took part.
fn sequencer(e: &Event) -> String {
    // The time orders what different nodes did to a key, the position what one node did in a millisecond.
    let number = (e.time_ms.cast_unsigned() << 20) | (e.position & 0xf_ffff);
    match (e.ballot.is_empty(), e.name.is_read()) {
        (true, _) => format!("{number:016X}"),
        (false, false) => format!("2{}", e.ballot),
        // Reads are behind the change whose effect they saw, before the next one.
        (false, true) => format!("2{}{number:016X}", e.ballot),
    }
}

#[cfg(test)]
pub(crate) fn sample(position: u64, name: Name, key: &str) -> Event {
    Event {
        position,
        ballot: String::new(),
        time_ms: 1_700_000_000_123,
        name,
        bucket: "b".into(),
        key: key.into(),
        version: None,
        size: 5,
        etag: Some("e".into()),
        meta: vec![("content-type".into(), "text/plain".into()), ("x-amz-meta-a".into(), "1".into())],
        who: "root".into(),
        source: "127.0.0.1:99".into(),
        request_id: "RID".into(),
        agent: "test".into(),
        endpoint: "http://h".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_form_encoded() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-_.*/ ".contains(&byte);
            let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
            assert_eq!(percent_encoding::percent_encode(&[byte], FORM).to_string(), expected);
        }
        assert_eq!(encoded("a b+c/~ü"), "a+b%2Bc/%7E%C3%BC");
    }

    #[test]
    fn records_have_the_fields_of_aws_and_minio() {
        let site = Site { region: "r".into(), deployment: "d".into(), host_id: "h".into() };
        let event = sample(255, Name::CreatedPut, "a b/ü+.txt");
        let log: serde_json::Value = serde_json::from_slice(&event.log("rule", &site)).unwrap();
        assert_eq!(log["EventName"], "s3:ObjectCreated:Put");
        assert_eq!(log["Key"], "b/a b/ü+.txt");
        let r = &log["Records"][0];
        assert_eq!(r["eventTime"], "2023-11-14T22:13:20.123Z");
        assert_eq!(r["s3"]["object"]["key"], "a+b/%C3%BC%2B.txt");
        assert_eq!(r["s3"]["object"]["sequencer"], "18BCFE5687B000FF");
        let ballot = "00000001000000000000020300040506070A";
        let with_ballot = |name| {
            let event = Event { ballot: ballot.to_owned(), name, ..event.clone() };
            serde_json::from_slice::<serde_json::Value>(&event.log("rule", &site)).unwrap()
        };
        let of = |log: &serde_json::Value| {
            log["Records"][0]["s3"]["object"]["sequencer"].as_str().unwrap_or_default().to_owned()
        };
        let (ordered, read) = (with_ballot(Name::CreatedPut), with_ballot(Name::AccessedGet));
        assert_eq!(of(&ordered), format!("2{ballot}"));
        assert_eq!(of(&read), format!("2{ballot}18BCFE5687B000FF"));
        assert!(of(&read) > of(&ordered), "a read is behind the change that it saw");
        assert!(of(&ordered) > of(&log), "what is recorded with ballots is behind what was recorded before");
        assert_eq!(r["s3"]["object"]["userMetadata"]["x-amz-meta-a"], "1");
        assert_eq!(r["s3"]["bucket"]["arn"], "arn:aws:s3:::b");
        assert_eq!(r["s3"]["configurationId"], "rule");
        assert_eq!(r["requestParameters"]["sourceIPAddress"], "127.0.0.1");
        assert_eq!(r["responseElements"]["x-amz-request-id"], "RID");
        let gone = sample(256, Name::RemovedDelete, "k");
        let log: serde_json::Value = serde_json::from_slice(&gone.records("", &site)).unwrap();
        assert!(log.get("EventName").is_none());
        assert!(log["Records"][0]["s3"]["object"].get("size").is_none());
    }
}
