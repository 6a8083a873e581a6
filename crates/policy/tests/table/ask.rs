//! Requests: random, and as each of the two evaluators sees them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ashlar_policy::{Action, Authority, BucketRules, Context, Principal, PublicAccessBlock, Request, Who};

use crate::generate::{ACCOUNT, Compiled, Random};
use crate::oracle;

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
            ip: {
                let all = ["", "10.1.2.3", "192.0.2.77", "2001:db8::1", "::ffff:10.1.2.3"];
                random.pick(&all).parse().ok()
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
        // An IPv4 address inside IPv6 is the IPv4 address.
        put("aws:sourceip", self.ip.map(|ip| ip.to_string().trim_start_matches("::ffff:").to_owned()));
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
