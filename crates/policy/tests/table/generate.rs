//! Random policies and requests, from one seed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ashlar_policy::{
    Action, Attached, Authority, BucketRules, Context, Error, Policy, Principal, PublicAccessBlock, Request,
    Who,
};
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

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True this many times in a hundred.
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One to `most` of the list, as a string or an array.
    fn some(&mut self, list: &[&str], most: usize) -> Value {
        let count = 1 + self.below(most);
        let all: Vec<&str> = (0..count).map(|_| self.pick(list)).collect();
        if count == 1 && self.chance(50) { json!(all[0]) } else { json!(all) }
    }
}

const ACCOUNT: &str = "123456789012";
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
    if random.chance(60) {
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
    bucket: Option<Policy>,
    identity: Vec<Arc<Policy>>,
    sessions: Vec<Arc<Policy>>,
    restrict: bool,
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

/// One request, from which both evaluators get their own view.
#[derive(Debug, Clone)]
pub struct Ask {
    action: Action,
    bucket: &'static str,
    key: &'static str,
    who: Who,
    name: &'static str,
    groups: Vec<String>,
    claims: Vec<(String, Vec<String>)>,
    issued: Option<&'static str>,
    mfa: Option<bool>,
    now: &'static str,
    ip: Option<IpAddr>,
    secure: bool,
    agent: Option<&'static str>,
    prefix: Option<&'static str>,
    delimiter: Option<&'static str>,
    max_keys: Option<i64>,
    version: Option<&'static str>,
    age: Option<i64>,
    acl_header: Option<&'static str>,
    tags: Vec<(&'static str, &'static str)>,
    request_tags: Vec<(&'static str, &'static str)>,
    until: Option<&'static str>,
    own: bool,
    acl: bool,
}

/// Moments that requests use, and their milliseconds.
const MOMENTS: &[(&str, i64)] = &[
    ("2026-11-21T15:04:05Z", 1_795_273_445_000),
    ("2026-11-21T00:00:00Z", 1_795_219_200_000),
    ("2030-01-01T00:00:00Z", 1_893_456_000_000),
    ("2024-02-29T12:00:00Z", 1_709_208_000_000),
];

fn ms(text: &str) -> i64 {
    MOMENTS.iter().find(|(t, _)| *t == text).map(|(_, m)| *m).expect("a moment of the table")
}

impl Ask {
    pub fn random(random: &mut Random) -> Ask {
        use Action::*;
        let action = random.pick(&[
            GetObject,
            GetObject,
            PutObject,
            DeleteObject,
            ListBucket,
            GetBucketPolicy,
            PutBucketPolicy,
            ListAllMyBuckets,
            AdminCreateUser,
        ]);
        let about = action.level();
        let bucket =
            if about == ashlar_policy::Level::Service { "" } else { random.pick(&["b", "b", "home"]) };
        let keys = ["alice/x", "bob/x", "a*", "é", "x", "alice/y/z", "ab"];
        let key = if about == ashlar_policy::Level::Object { random.pick(&keys) } else { "" };
        let who = random.pick(&[
            Who::User,
            Who::User,
            Who::User,
            Who::Session,
            Who::Federated,
            Who::Root,
            Who::Anonymous,
        ]);
        let moment = |r: &mut Random| MOMENTS[r.below(MOMENTS.len())].0;
        let words = |r: &mut Random, list: &[&str]| {
            (0..r.below(3)).map(|_| r.pick(list).to_owned()).collect::<Vec<_>>()
        };
        let mut claims = Vec::new();
        if who == Who::Federated || random.chance(20) {
            claims.push((
                "sub".to_owned(),
                vec![random.pick(&["alice", "bob", "true", "10.1.2.3", "a*", ""]).to_owned()],
            ));
            let groups = words(random, &["staff", "dev", ""]);
            claims.push(("groups".to_owned(), groups));
        }
        let tag = |r: &mut Random| {
            let all = [("class", "red"), ("class", "10"), ("Class", "blue"), ("other", "red"), ("class", "")];
            if r.chance(50) { vec![all[r.below(5)]] } else { vec![] }
        };
        let maybe =
            |r: &mut Random, list: &[&'static str]| if r.chance(50) { Some(r.pick(list)) } else { None };
        Ask {
            action,
            bucket,
            key,
            who,
            name: match who {
                Who::Anonymous | Who::Federated => "",
                _ => random.pick(&["alice", "bob", "a*", "al?ce"]),
            },
            groups: if who == Who::Anonymous {
                vec![]
            } else {
                words(random, &["staff", "dev", "alice", ""])
            },
            claims,
            issued: if who == Who::Session { Some(moment(random)) } else { None },
            mfa: if who == Who::Session { Some(random.chance(50)) } else { None },
            now: moment(random),
            ip: match random.below(4) {
                0 => None,
                1 => Some("10.1.2.3".parse().expect("an address")),
                2 => Some("192.0.2.77".parse().expect("an address")),
                _ => Some("2001:db8::1".parse().expect("an address")),
            },
            secure: random.chance(50),
            agent: maybe(random, &["alice", "red", "aws-cli"]),
            prefix: maybe(random, &["home/", "home/alice", "", "alice/", "class"]),
            delimiter: maybe(random, &["/", "$"]),
            max_keys: if random.chance(50) { Some([0, 10, 100, 1000][random.below(4)]) } else { None },
            version: maybe(random, &["10", "none"]),
            age: if random.chance(50) { Some([0, 10, 99][random.below(3)]) } else { None },
            acl_header: maybe(random, &["public-read", "private", ""]),
            tags: tag(random),
            request_tags: tag(random),
            until: maybe(random, &["2030-01-01T00:00:00Z", "2024-02-29T12:00:00Z"]),
            own: action == AdminCreateUser && random.chance(30),
            acl: random.chance(15),
        }
    }

    fn arn(&self) -> String {
        if self.name.is_empty() {
            String::new()
        } else {
            format!("arn:aws:iam::{ACCOUNT}:user/{}", self.name)
        }
    }

    /// The crate's view.
    pub fn with<T>(&self, world: &Compiled, run: impl FnOnce(&Request, &Authority) -> T) -> T {
        let arn = self.arn();
        let headers: Vec<(&str, &str)> = self.acl_header.iter().map(|v| ("x-amz-acl", *v)).collect();
        let (headers, tags) = (&headers[..], &self.tags[..]);
        let principal = Principal {
            who: self.who,
            name: self.name,
            id: self.name,
            arn: &arn,
            account: ACCOUNT,
            groups: &self.groups,
            token_issued_ms: self.issued.map(ms),
            mfa: self.mfa,
            claims: Some(&self.claims),
            ..Principal::default()
        };
        let context = Context {
            now_ms: ms(self.now),
            source_ip: self.ip,
            secure: self.secure,
            user_agent: self.agent,
            prefix: self.prefix,
            delimiter: self.delimiter,
            max_keys: self.max_keys,
            version_id: self.version,
            signature_age_ms: self.age,
            headers: Some(&headers),
            object_tags: Some(&tags),
            request_tags: &self.request_tags,
            lock_until_ms: self.until.map(ms),
            ..Context::default()
        };
        let authority = Authority {
            identity: &world.identity,
            sessions: &world.sessions,
            bucket: BucketRules {
                policy: world.bucket.as_ref(),
                block: PublicAccessBlock { restrict_public_buckets: world.restrict, ..Default::default() },
                acl: self.acl,
            },
            own: self.own,
        };
        run(&Request::new(self.action, self.bucket, self.key, &principal, &context), &authority)
    }

    /// The oracle's view.
    pub fn facts(&self) -> oracle::Facts {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(v) = value {
                keys.insert(name.to_owned(), vec![v]);
            }
        };
        let text = |t: Option<&str>| t.map(str::to_owned);
        let name = (!self.name.is_empty()).then(|| self.name.to_owned());
        put("aws:username", name.clone());
        put("aws:userid", name.clone());
        put("aws:principalarn", name.map(|_| self.arn()));
        let kinds = [
            (Who::Anonymous, "Anonymous"),
            (Who::Root, "Account"),
            (Who::User, "User"),
            (Who::Session, "AssumedRole"),
            (Who::Federated, "FederatedUser"),
        ];
        let kind = kinds.iter().find(|(w, _)| *w == self.who).expect("a kind").1;
        put("aws:principaltype", Some(kind.to_owned()));
        put("aws:currenttime", text(Some(self.now)));
        put("aws:epochtime", Some((ms(self.now) / 1000).to_string()));
        put("aws:tokenissuetime", text(self.issued));
        put("aws:multifactorauthpresent", self.mfa.map(|b| b.to_string()));
        put("aws:securetransport", Some(self.secure.to_string()));
        put("aws:sourceip", self.ip.map(|ip| ip.to_string()));
        put("aws:useragent", text(self.agent));
        put("s3:prefix", text(self.prefix));
        put("s3:delimiter", text(self.delimiter));
        put("s3:max-keys", self.max_keys.map(|n| n.to_string()));
        put("s3:versionid", text(self.version));
        put("s3:signatureage", self.age.map(|n| n.to_string()));
        put("s3:x-amz-acl", text(self.acl_header));
        put("s3:object-lock-retain-until-date", text(self.until));
        for (tag, value) in &self.tags {
            put(&format!("s3:existingobjecttag/{tag}"), text(Some(value)));
        }
        for (tag, value) in &self.request_tags {
            put(&format!("s3:requestobjecttag/{tag}"), text(Some(value)));
            put("s3:requestobjecttagkeys", text(Some(tag)));
        }
        let mut multivalued = vec!["aws:groups".to_owned(), "s3:requestobjecttagkeys".to_owned()];
        if !self.groups.is_empty() {
            keys.insert("aws:groups".into(), self.groups.clone());
        }
        for (claim, values) in &self.claims {
            let name = format!("jwt:{claim}");
            if values.len() > 1 {
                multivalued.push(name.clone());
            }
            if !values.is_empty() {
                keys.insert(name, values.clone());
            }
        }
        let resource = if self.key.is_empty() {
            self.bucket.to_owned()
        } else {
            format!("{}/{}", self.bucket, self.key)
        };
        oracle::Facts {
            action: self.action.name().to_owned(),
            resource,
            who: match self.who {
                Who::Anonymous => "anonymous",
                Who::Root => "root",
                Who::User => "user",
                Who::Session => "session",
                _ => "federated",
            }
            .to_owned(),
            name: self.name.to_owned(),
            account: ACCOUNT.to_owned(),
            keys,
            multivalued,
            own: self.own,
            acl: self.acl,
        }
    }
}
