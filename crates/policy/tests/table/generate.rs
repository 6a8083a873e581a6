//! Random policies, from one seed.

use std::fmt;
use std::sync::Arc;

use ashlar_policy::{Attached, Error, Policy};
use serde_json::{Map, Value, json};

use crate::oracle;

/// Numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True this many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One to `most` of the list, as a string or an array.
    fn some(&mut self, list: &[&str], most: usize) -> Value {
        let count = 1 + self.below(most);
        let all: Vec<&str> = (0..count).map(|_| self.pick(list)).collect();
        if count == 1 && self.chance(50) { json!(all[0]) } else { json!(all) }
    }
}

pub const ACCOUNT: &str = "123456789012";
const ACTIONS: &[&str] = &[
    "s3:GetObject",
    "s3:Get*",
    "s3:*",
    "*",
    "S3:PUTOBJECT",
    "s3:ListBucket",
    "s3:*Bucket*",
    "s3:DeleteObject",
    "s3:List*",
    "s3:?utObject",
    "s3:*",
    "s3:GetBucketPolicy",
    "s3:*Object",
];
const RESOURCES: &[&str] = &[
    "*",
    "arn:aws:s3:::*",
    "arn:aws:s3:::b",
    "arn:aws:s3:::b/*",
    "arn:aws:s3:::b*",
    "arn:aws:s3:::b/${aws:username}/*",
    "arn:aws:s3:::${aws:username}/*",
    "arn:aws:s3:::*/x",
    "arn:aws:s3:::b/a${*}",
    "arn:aws:s3:::?ome/*",
    "arn:aws:s3:::b/${jwt:sub, 'bob'}/x",
    "arn:aws:s3:::b/${aws:groups}/*",
    "arn:aws:s3:::home/?",
    "arn:aws:s3:::*/*",
];
const TEXTS: &[&str] = &[
    "alice",
    "bob",
    "ALICE",
    "a*",
    "al?ce",
    "*",
    "",
    "${aws:username}",
    "${aws:username}/*",
    "${jwt:sub, 'none'}",
    "home/*",
    "home/",
    "HOME/",
    "public",
    "class",
    "Class",
    "red",
    "blue",
    "r?d",
    "${*}",
    "${aws:groups}",
    "true",
    "10",
    "AssumedRole",
    "User",
    "staff",
    "dev",
    "${s3:prefix}x",
    "none",
    "public-read",
    "$",
    "é",
    "?",
];
const TEXT_KEYS: &[&str] = &[
    "aws:username",
    "aws:userid",
    "s3:prefix",
    "AWS:Groups",
    "jwt:sub",
    "jwt:groups",
    "s3:ExistingObjectTag/class",
    "s3:ExistingObjectTag/Class",
    "s3:RequestObjectTag/class",
    "s3:RequestObjectTagKeys",
    "s3:X-Amz-Acl",
    "aws:PrincipalType",
    "aws:UserAgent",
    "s3:versionid",
    "s3:max-keys",
    "aws:securetransport",
    "aws:SourceVpc",
    "s3:delimiter",
    "aws:groups",
];
const DATES: &[&str] = &[
    "2026-11-21T15:04:05Z",
    "2026-11-21",
    "1795273445",
    "2030-01-01T00:00:00Z",
    "0",
    "1999-12-31T23:59:59Z",
    "2024-02-29T12:00:00Z",
];
const NETS: &[&str] = &[
    "10.0.0.0/8",
    "10.1.2.3",
    "10.1.0.0/16",
    "0.0.0.0/0",
    "192.0.2.0/24",
    "2001:db8::/32",
    "::/0",
    "2001:db8::1",
    "128.0.0.0/1",
    "10.1.2.3/32",
];
const ARNS: &[&str] = &[
    "arn:aws:iam::123456789012:user/alice",
    "arn:aws:iam::*:user/*",
    "arn:*:*:*:*:*",
    "arn:aws:iam::123456789012:user/${aws:username}",
    "arn:aws:iam::123456789012:*",
    "arn:aws:iam::12345678901?:user/bob",
    "arn:aws:iam:::user/*",
];

/// One operator with its keys.
fn condition(random: &mut Random) -> (String, Value) {
    let (base, key, values): (&str, &str, Value) = match random.below(12) {
        0..=3 => {
            let base = random.pick(&[
                "StringEquals",
                "StringNotEquals",
                "StringEqualsIgnoreCase",
                "StringNotEqualsIgnoreCase",
                "StringLike",
                "StringNotLike",
            ]);
            (base, random.pick(TEXT_KEYS), random.some(TEXTS, 3))
        }
        4 => {
            let base = random.pick(&[
                "NumericEquals",
                "NumericNotEquals",
                "NumericLessThan",
                "NumericLessThanEquals",
                "NumericGreaterThan",
                "NumericGreaterThanEquals",
            ]);
            let key = random.pick(&[
                "s3:max-keys",
                "s3:signatureAge",
                "s3:ExistingObjectTag/class",
                "aws:EpochTime",
            ]);
            let list: &[Value] = &[json!("10"), json!(10), json!(100), json!("0"), json!("10.5"), json!(-1)];
            (base, key, json!([list[random.below(6)], list[random.below(6)]]))
        }
        5 => {
            let base = random.pick(&[
                "DateEquals",
                "DateNotEquals",
                "DateLessThan",
                "DateLessThanEquals",
                "DateGreaterThan",
                "DateGreaterThanEquals",
            ]);
            let key = random.pick(&[
                "aws:CurrentTime",
                "aws:TokenIssueTime",
                "aws:EpochTime",
                "s3:object-lock-retain-until-date",
                "jwt:sub",
            ]);
            (base, key, random.some(DATES, 2))
        }
        6 => {
            let key = random.pick(&["aws:SecureTransport", "aws:MultiFactorAuthPresent", "jwt:sub"]);
            let value = random.pick(&["true", "false", "True"]);
            ("Bool", key, if random.chance(50) { json!(value == "true") } else { json!(value) })
        }
        7 => (
            "BinaryEquals",
            random.pick(&["aws:username", "jwt:sub"]),
            random.some(&["YWxpY2U=", "Ym9i", "cmVk"], 2),
        ),
        8 | 9 => {
            let base = random.pick(&["IpAddress", "NotIpAddress"]);
            (base, random.pick(&["aws:SourceIp", "aws:sourceip", "jwt:sub"]), random.some(NETS, 2))
        }
        10 => {
            let base = random.pick(&["ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike"]);
            (base, random.pick(&["aws:PrincipalArn", "jwt:sub"]), random.some(ARNS, 2))
        }
        _ => {
            let key = random.pick(TEXT_KEYS);
            let values = [json!("true"), json!(false), json!("false"), json!([true, false])];
            return ("Null".into(), json!({ key: values[random.below(4)] }));
        }
    };
    let quantifier = random.pick(&["", "", "ForAllValues:", "ForAnyValue:"]);
    let exists = random.pick(&["", "", "", "IfExists"]);
    (format!("{quantifier}{base}{exists}"), json!({ key: values }))
}

fn statement(random: &mut Random, bucket: bool, number: usize) -> Value {
    let mut s = Map::new();
    let deny = random.chance(if bucket { 25 } else { 15 });
    s.insert("Sid".into(), json!(format!("S{number}")));
    s.insert("Effect".into(), json!(if deny { "Deny" } else { "Allow" }));
    if bucket {
        let principals = [
            json!("*"),
            json!({"AWS": "*"}),
            json!("*"),
            json!({"AWS": "alice"}),
            json!({"AWS": ["arn:aws:iam::123456789012:user/alice", "arn:aws:iam:::user/bob"]}),
            json!({"AWS": ACCOUNT}),
            json!({"AWS": ["arn:aws:iam::123456789012:root", "bob"]}),
            json!({"AWS": "arn:aws:iam::999999999999:user/alice"}),
        ];
        let not = deny && random.chance(40);
        s.insert(if not { "NotPrincipal" } else { "Principal" }.into(), principals[random.below(8)].clone());
    }
    let admin = !bucket && random.chance(8);
    let action = if admin { json!("admin:*") } else { random.some(ACTIONS, 3) };
    let not = !admin && random.chance(15);
    s.insert(if not { "NotAction" } else { "Action" }.into(), action);
    if admin {
        if random.chance(50) {
            s.insert("Resource".into(), json!("*"));
        }
    } else {
        let name = if random.chance(12) { "NotResource" } else { "Resource" };
        s.insert(name.into(), random.some(RESOURCES, 3));
    }
    if bucket && random.chance(15) {
        // What makes a policy not public.
        let confined = [
            json!({"IpAddress": {"aws:SourceIp": "10.1.0.0/16"}}),
            json!({"IpAddress": {"aws:SourceIp": ["10.1.0.0/16", "2001:db8::/32"]}}),
            json!({"StringEquals": {"aws:username": ["alice", "bob"]}}),
        ];
        s.insert("Condition".into(), confined[random.below(3)].clone());
    } else if random.chance(60) {
        let count = 1 + random.below(2);
        let block: Map<String, Value> = (0..count).map(|_| condition(random)).collect();
        s.insert("Condition".into(), block.into());
    }
    s.into()
}

fn policy(random: &mut Random, bucket: bool, most: usize) -> Value {
    let count = 1 + random.below(most);
    let list: Vec<Value> = (0..count).map(|i| statement(random, bucket, i)).collect();
    let statements = if count == 1 && random.chance(30) { list[0].clone() } else { json!(list) };
    let mut p = json!({"Version": "2012-10-17", "Statement": statements});
    if random.chance(20) && !p.to_string().contains("${") {
        p["Version"] = json!("2008-10-17");
    }
    p
}

/// Everything attached, as JSON.
#[derive(Clone)]
pub struct World {
    bucket: Option<Value>,
    identity: Vec<Value>,
    sessions: Vec<Value>,
    restrict: bool,
}

/// Everything attached, compiled.
pub struct Compiled {
    pub bucket: Option<Policy>,
    pub identity: Vec<Arc<Policy>>,
    pub sessions: Vec<Arc<Policy>>,
    pub restrict: bool,
}

impl World {
    pub fn random(random: &mut Random) -> World {
        let bucket = random.chance(60).then(|| policy(random, true, 3));
        let identity = (0..random.below(4)).map(|_| policy(random, false, 3)).collect();
        let sessions = if random.chance(35) {
            (0..1 + random.below(2)).map(|_| policy(random, false, 2)).collect()
        } else {
            vec![]
        };
        World { bucket, identity, sessions, restrict: random.chance(40) }
    }

    pub fn compile(&self) -> Result<Compiled, Error> {
        let all = |list: &[Value], attached: Attached| {
            list.iter()
                .map(|p| Policy::parse(attached, p.to_string().as_bytes()).map(Arc::new))
                .collect::<Result<Vec<_>, Error>>()
        };
        Ok(Compiled {
            bucket: match &self.bucket {
                Some(p) => Some(Policy::parse(Attached::Bucket, p.to_string().as_bytes())?),
                None => None,
            },
            identity: all(&self.identity, Attached::Identity)?,
            sessions: all(&self.sessions, Attached::AccessKey)?,
            restrict: self.restrict,
        })
    }

    pub fn for_oracle(&self) -> oracle::Attached {
        oracle::Attached {
            bucket: self.bucket.clone(),
            identity: self.identity.clone(),
            sessions: self.sessions.clone(),
            restrict_public: self.restrict,
        }
    }

    /// Every world with one thing less.
    pub fn smaller(&self) -> Vec<World> {
        let mut out = Vec::new();
        if let Some(p) = &self.bucket {
            out.push(World { bucket: None, ..self.clone() });
            out.extend(less(p).into_iter().map(|p| World { bucket: Some(p), ..self.clone() }));
        }
        for i in 0..self.identity.len() {
            let mut w = self.clone();
            w.identity.remove(i);
            out.push(w);
            for p in less(&self.identity[i]) {
                let mut w = self.clone();
                w.identity[i] = p;
                out.push(w);
            }
        }
        for i in 0..self.sessions.len() {
            let mut w = self.clone();
            w.sessions.remove(i);
            out.push(w);
            for p in less(&self.sessions[i]) {
                let mut w = self.clone();
                w.sessions[i] = p;
                out.push(w);
            }
        }
        out
    }
}

/// Every value with one member or item less, at any depth.
fn less(value: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    match value {
        Value::Array(list) => {
            for i in 0..list.len() {
                if list.len() > 1 {
                    let mut shorter = list.clone();
                    shorter.remove(i);
                    out.push(json!(shorter));
                }
                for item in less(&list[i]) {
                    let mut changed = list.clone();
                    changed[i] = item;
                    out.push(json!(changed));
                }
            }
        }
        Value::Object(members) => {
            for (name, inner) in members {
                let mut shorter = members.clone();
                shorter.remove(name);
                out.push(shorter.into());
                for item in less(inner) {
                    let mut changed = members.clone();
                    changed.insert(name.clone(), item);
                    out.push(changed.into());
                }
            }
        }
        _ => {}
    }
    out
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(p) = &self.bucket {
            writeln!(f, "bucket: {p}")?;
        }
        for p in &self.identity {
            writeln!(f, "identity: {p}")?;
        }
        for p in &self.sessions {
            writeln!(f, "session: {p}")?;
        }
        write!(f, "public buckets restricted: {}", self.restrict)
    }
}
