//! What goes to etcd and comes from it, as JSON: bytes are base64, numbers of 64 bits are text.
//!
//! Invariants: an answer decodes whatever fields of later releases are in it; what etcd leaves out is zero or
//! empty, as in its protocol. Requests name keys by [`Keys`] only.
//!
//! Must not depend on: how requests are sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    /// What all keys begin with.
    pub root: String,
}

impl Keys {
    /// The keys of the cluster with this name.
    pub fn new(cluster: &str) -> Keys {
        Keys { root: format!("/ashlar/{cluster}/") }
    }
    /// The name of the cluster.
    pub fn name(&self) -> &str {
        self.root.trim_start_matches("/ashlar/").trim_end_matches('/')
    }
    /// Which deployment this is.
    pub fn identity(&self) -> String {
        format!("{}identity", self.root)
    }
    /// Written by every change.
    pub fn head(&self) -> String {
        format!("{}head", self.root)
    }
    /// Written to decide whether a change was made.
    pub fn fence(&self) -> String {
        format!("{}fence", self.root)
    }
    /// What the keys of the content begin with.
    pub fn data(&self) -> String {
        format!("{}data/", self.root)
    }
    /// What the keys of announcements begin with.
    pub fn nodes(&self) -> String {
        format!("{}nodes/", self.root)
    }
    /// The announcement of a node.
    pub fn node(&self, number: u16) -> String {
        format!("{}{number:05}", self.nodes())
    }
}

fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The smallest key that is greater than all that begin with `prefix`, whose last byte is ASCII.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// A read of one key.
pub fn range(key: &str) -> Value {
    json!({ "key": text(key.as_bytes()) })
}

/// A read of one key as of a revision.
pub fn range_at(key: &str, revision: u64) -> Value {
    json!({ "key": text(key.as_bytes()), "revision": revision.to_string() })
}

/// A read of the keys that begin with `prefix`.
pub fn range_all(prefix: &str) -> Value {
    json!({ "key": text(prefix.as_bytes()), "range_end": text(&after(prefix)) })
}

/// A read of the names of at most `limit` keys that begin with `prefix`, without their values.
pub fn range_names(prefix: &str, limit: usize) -> Value {
    json!({ "key": text(prefix.as_bytes()), "range_end": text(&after(prefix)), "keys_only": true,
            "limit": limit.to_string() })
}

/// A read of at most `limit` keys from `from` on that begin with `prefix`, as of a revision.
pub fn range_page(from: &[u8], prefix: &str, revision: u64, limit: usize) -> Value {
    json!({ "key": text(from), "range_end": text(&after(prefix)), "revision": revision.to_string(),
            "limit": limit.to_string() })
}

/// A put in a transaction.
pub fn put(key: &str, value: &[u8]) -> Value {
    json!({ "request_put": { "key": text(key.as_bytes()), "value": text(value) } })
}

/// A put of a key that is removed with a lease.
pub fn put_leased(key: &str, value: &[u8], lease: u64) -> Value {
    let (key, value) = (text(key.as_bytes()), text(value));
    json!({ "request_put": { "key": key, "value": value, "lease": lease.to_string() } })
}

/// A removal in a transaction.
pub fn delete(key: &str) -> Value {
    json!({ "request_delete_range": { "key": text(key.as_bytes()) } })
}

/// A removal of all keys that begin with `prefix`, in a transaction.
pub fn delete_all(prefix: &str) -> Value {
    json!({ "request_delete_range": range_all(prefix) })
}

/// A read in a transaction.
pub fn read(range: Value) -> Value {
    json!({ "request_range": range })
}

/// The key was last written at this revision; 0: it is absent.
pub fn written_at(key: &str, revision: u64) -> Value {
    json!({ "key": text(key.as_bytes()), "target": "MOD", "result": "EQUAL",
            "mod_revision": revision.to_string() })
}

/// The key was last written at this revision or later. The revision is not 0.
pub fn written_since(key: &str, revision: u64) -> Value {
    json!({ "key": text(key.as_bytes()), "target": "MOD", "result": "GREATER",
            "mod_revision": (revision - 1).to_string() })
}

/// The key has this value.
pub fn has_value(key: &str, value: &[u8]) -> Value {
    json!({ "key": text(key.as_bytes()), "target": "VALUE", "result": "EQUAL", "value": text(value) })
}

/// There is no key that begins with `prefix`.
pub fn nothing_under(prefix: &str) -> Value {
    json!({ "key": text(prefix.as_bytes()), "range_end": text(&after(prefix)), "target": "MOD", "result": "EQUAL",
            "mod_revision": "0" })
}

/// A transaction.
pub fn txn(compare: Vec<Value>, success: Vec<Value>, failure: Vec<Value>) -> Bytes {
    body(&json!({ "compare": compare, "success": success, "failure": failure }))
}

/// The start of a watch of all keys that begin with `prefix`, from a revision on.
pub fn watch(prefix: &str, from: u64) -> Bytes {
    let (key, end) = (text(prefix.as_bytes()), text(&after(prefix)));
    body(&json!({ "create_request": { "key": key, "range_end": end, "start_revision": from.to_string(),
                                      "fragment": true } }))
}

/// A request as bytes.
pub fn body(request: &Value) -> Bytes {
    Bytes::from(request.to_string())
}

/// The head of every answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Header {
    #[serde(deserialize_with = "number")]
    pub cluster_id: u64,
    #[serde(deserialize_with = "number")]
    pub revision: u64,
    #[serde(deserialize_with = "number")]
    pub raft_term: u64,
}

/// A key and its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pair {
    #[serde(deserialize_with = "bytes")]
    pub key: Bytes,
    #[serde(deserialize_with = "bytes")]
    pub value: Bytes,
    #[serde(deserialize_with = "number")]
    pub mod_revision: u64,
}

/// The answer to a read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ranged {
    pub header: Header,
    pub kvs: Vec<Pair>,
    pub more: bool,
}

/// The answer to a transaction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Done {
    pub header: Header,
    pub succeeded: bool,
    pub responses: Vec<Step>,
}

impl Done {
    /// The keys that the read in this place found.
    pub fn found(&self, place: usize) -> &[Pair] {
        let range = self.responses.get(place).and_then(|s| s.response_range.as_ref());
        range.map_or(&[], |r| &r.kvs)
    }
}

/// The answer to one step of a transaction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    pub response_range: Option<Ranged>,
}

/// The answer to a request for a lease, or to its renewal. Both zero: there is no such lease.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: u64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl: u64,
}

/// The answer to a renewal: the first of a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Renewed {
    pub result: Lease,
}

/// The state of one member.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    #[serde(deserialize_with = "number")]
    pub leader: u64,
    pub errors: Vec<String>,
}

/// The version of one member.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Versions {
    pub etcdserver: String,
}

/// The token of a user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Token {
    pub token: String,
}

/// One line of the answer to a watch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    pub result: Option<Watched>,
    pub error: Option<Refusal>,
}

/// A message of a watch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Watched {
    pub header: Header,
    pub created: bool,
    pub canceled: bool,
    #[serde(deserialize_with = "number")]
    pub compact_revision: u64,
    pub cancel_reason: String,
    /// More events of the same revision follow.
    pub fragment: bool,
    pub events: Vec<Event>,
}

/// A change of one key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    pub kv: Pair,
}

/// Why etcd refused a request. Releases before 3.6 name the code of a stream `grpc_code`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Refusal {
    #[serde(alias = "grpc_code")]
    pub code: u32,
    pub message: String,
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    match Either::deserialize(from)? {
        Either::Number(n) => Ok(n),
        Either::Text(text) => text.parse().map_err(|_| D::Error::custom("a number was expected")),
    }
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(from)?;
    STANDARD.decode(text.as_bytes()).map(Bytes::from).map_err(|_| D::Error::custom("base64 was expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_releases() {
        let done: Done = serde_json::from_str(
            r#"{"header":{"cluster_id":"15000439598554556940","revision":"2","raft_term":2,"new":{}},
                "responses":[{"response_put":{}},{"response_range":{"kvs":[{"key":"YQ==","mod_revision":"7"}]}}]}"#,
        )
        .unwrap();
        assert_eq!((done.header.cluster_id, done.succeeded), (15_000_439_598_554_556_940, false));
        assert_eq!((&done.found(1)[0].key[..], done.found(1)[0].mod_revision), (&b"a"[..], 7));
        assert!(done.found(0).is_empty() && done.found(9).is_empty());
        for old_or_new in [
            r#"{"error":{"grpc_code":14,"http_code":503,"message":"m"}}"#,
            r#"{"error":{"code":14,"message":"m","details":[]}}"#,
        ] {
            let line: Line = serde_json::from_str(old_or_new).unwrap();
            assert_eq!(line.error.map(|e| (e.code, e.message)), Some((14, "m".to_owned())));
        }
        for bad in [r#"{"header":{"revision":"-1"}}"#, r#"{"header":{"revision":"x"}}"#] {
            assert!(serde_json::from_str::<Done>(bad).is_err());
        }
        assert!(serde_json::from_str::<Pair>(r#"{"key":"%"}"#).is_err());
    }

    #[test]
    fn prefixes_end_where_they_end() {
        assert_eq!(after("/ashlar/a/"), b"/ashlar/a0");
        assert!(b"/ashlar/a/\xff\xff"[..] < after("/ashlar/a/")[..]);
    }
}
