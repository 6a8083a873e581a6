//! The security token service over HTTP: signed operations, and sessions of federated users. The identity
//! providers are simulated here; tests/system uses real ones.

use std::sync::Arc;

use crate::common::*;
use ashlar_iam::{Authenticated, Authenticator, Entity, Federated, Iam, Later, Refused, Secret};
use ashlar_s3::Keys;

const READ: &[u8] = br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetObject","s3:ListBucket"],"Resource":"arn:aws:s3:::*","Condition":{"StringEquals":{"jwt:team":"red"}}}]}"#;
const DENY: &[u8] =
    br#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"sts:*","Resource":"*"}]}"#;

/// Vouches for whomever the token names; a few tokens fail.
struct Believer;

fn authenticated(provider: &str, id: String, subject: &str) -> Authenticated {
    let who = Federated {
        provider: provider.into(),
        id,
        groups: vec!["cn=staff,dc=x".into()],
        claims: vec![("team".into(), vec!["red".into()])],
        ..Federated::default()
    };
    let (audience, issuer) = ("ashlar".into(), "https://issuer.test".into());
    Authenticated { who, subject: subject.into(), audience, issuer, until_ms: None }
}

impl Authenticator for Believer {
    fn web_identity<'a>(
        &'a self,
        token: &'a str,
        _access_token: Option<&'a str>,
        role: Option<&'a str>,
    ) -> Later<'a> {
        Box::pin(async move {
            match (token, role) {
                ("old", _) => Err(Refused::Expired),
                ("forged", _) => Err(Refused::Denied("planted: the signature is wrong".into())),
                ("away", _) => Err(Refused::Unavailable("planted: connection refused".into())),
                (_, Some("arn:aws:iam::000000000000:role/none")) => Err(Refused::Unconfigured),
                _ => Ok(authenticated("openid/k", format!("openid/k/{token}"), token)),
            }
        })
    }

    fn ldap<'a>(&'a self, name: &'a str, password: &'a str) -> Later<'a> {
        Box::pin(async move {
            if password != "right" {
                return Err(Refused::Denied("planted: invalid credentials".into()));
            }
            Ok(authenticated("ldap/main", format!("uid={name},dc=x"), name))
        })
    }

    fn certificate<'a>(&'a self, chain: &'a [Vec<u8>]) -> Later<'a> {
        Box::pin(async move {
            assert!(chain.is_empty());
            Err(Refused::Denied("planted: no certificate".into()))
        })
    }
}

struct Vouching {
    server: Server,
    iam: Arc<Iam>,
    runtime: tokio::runtime::Runtime,
}

impl Vouching {
    fn new(authenticator: bool) -> Vouching {
        let (iam, runtime) = users();
        iam.trust([("openid/k".into(), Vec::new()), ("ldap/main".into(), Vec::new())].into());
        let for_server = iam.clone();
        let server = Server::with(move |config| {
            config.verifier.keys = Keys::over(for_server);
            config.authenticator = authenticator.then(|| Arc::new(Believer) as Arc<dyn Authenticator>);
        });
        server.make_bucket("b-1");
        server.put("/b-1/k", b"hello").expect(200);
        let world = Vouching { server, iam, runtime };
        world.wait(world.iam.put_policy("read", READ)).unwrap();
        world.wait(world.iam.put_policy("deny", DENY)).unwrap();
        world
    }

    fn wait<T>(&self, f: impl Future<Output = T>) -> T {
        self.runtime.block_on(f)
    }

    /// A request without a signature: a form.
    fn form(&self, fields: &[(&str, &str)]) -> Resp {
        let body: Vec<String> =
            fields.iter().map(|(n, v)| format!("{}={}", encode(n, false), encode(v, false))).collect();
        self.text(&format!("{}&Version=2011-06-15", body.join("&")))
    }

    fn text(&self, body: &str) -> Resp {
        let head = "Content-Type: application/x-www-form-urlencoded\r\n";
        let text =
            format!("POST / HTTP/1.1\r\nHost: h\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        raw(self.server.addr, text.as_bytes())
    }

    fn attach(&self, entity: Entity<'_>, policy: &str) {
        self.wait(self.iam.attach(entity, &[policy.to_owned()])).unwrap();
    }

    /// Reads `/b-1/k` with the credentials of an answer.
    fn read(&self, made: &Resp) -> Resp {
        let of = |name: &str| made.tag(name).unwrap_or_else(|| panic!("{name}: {}", made.text()));
        let (key, secret, token) = (of("AccessKeyId"), of("SecretAccessKey"), of("SessionToken"));
        let req = self.server.req("GET", "/b-1/k").set(|r| {
            r.key = key;
            r.secret = secret;
        });
        req.header("x-amz-security-token", token).send()
    }
}

#[test]
fn federated_user_with_a_policy_gets_a_session() {
    let w = Vouching::new(true);
    let web = |token: &str| {
        w.form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("WebIdentityToken", token),
            ("RoleArn", "arn:aws:iam::1:role/x"),
        ])
    };
    // Proven, but nothing is attached.
    web("alice").refused(403, "AccessDenied");
    w.attach(Entity::FederatedUser("openid/k/alice"), "read");
    let made = web("alice").expect(200);
    assert_eq!(made.tag("SubjectFromWebIdentityToken").as_deref(), Some("alice"));
    assert_eq!(made.tag("Provider").as_deref(), Some("https://issuer.test"));
    assert_eq!(w.read(&made).expect(200).body, b"hello");
    web("bob").refused(403, "AccessDenied");
    // A policy of the group; the claim decides.
    w.attach(Entity::FederatedGroup("cn=staff,dc=x"), "read");
    assert_eq!(w.read(&web("bob").expect(200)).expect(200).body, b"hello");
    // What is taken away counts for sessions that exist.
    let names = ["read".to_owned()];
    w.wait(w.iam.detach(Entity::FederatedUser("openid/k/alice"), &names)).unwrap();
    w.wait(w.iam.detach(Entity::FederatedGroup("cn=staff,dc=x"), &names)).unwrap();
    w.read(&made).refused(403, "AccessDenied");
    w.attach(Entity::FederatedUser("openid/k/alice"), "read");
    assert!(w.read(&made).status == 200);
    // A session policy bounds; a denied action of the service is denied.
    let none =
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:PutObject","Resource":"*"}]}"#;
    let bound =
        w.form(&[("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", "alice"), ("Policy", none)]);
    w.read(&bound.expect(200)).refused(403, "AccessDenied");
    w.attach(Entity::FederatedUser("openid/k/alice"), "deny");
    web("alice").refused(403, "AccessDenied");
    // The other two, and the older name; from the query too.
    w.attach(Entity::FederatedUser("uid=carol,dc=x"), "read");
    let q = "Action=AssumeRoleWithLDAPIdentity&LDAPUsername=carol&LDAPPassword=right&Version=2011-06-15";
    let ldap = |query: &str, body: &str| {
        let text =
            format!("POST /?{query} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        raw(w.server.addr, text.as_bytes())
    };
    assert_eq!(w.read(&ldap(q, "").expect(200)).expect(200).body, b"hello");
    ldap(q, "Action=AssumeRole").refused(400, "ValidationError");
    ldap(&q.replace("right", "wrong"), "").refused(403, "AccessDenied");
    assert!(
        w.form(&[
            ("Action", "AssumeRoleWithLDAPIdentity"),
            ("LDAPUsername", "carol"),
            ("LDAPPassword", "right")
        ])
        .status
            == 200
    );
    w.attach(Entity::FederatedUser("openid/k/dave"), "read");
    let old = w.form(&[("Action", "AssumeRoleWithClientGrants"), ("Token", "dave")]).expect(200);
    assert_eq!(old.tag("SubjectFromToken").as_deref(), Some("dave"));
}

#[test]
fn refused_callers_learn_no_reason() {
    let w = Vouching::new(true);
    w.attach(Entity::FederatedUser("openid/k/alice"), "read");
    let web = |token: &str, more: &[(&str, &str)]| {
        let fields =
            [&[("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", token)][..], more].concat();
        let answer = w.form(&fields);
        assert!(!answer.text().contains("planted"), "{}", answer.text());
        answer
    };
    web("forged", &[]).refused(403, "AccessDenied");
    web("old", &[]).refused(400, "ExpiredTokenException");
    web("away", &[]).refused(503, "IDPCommunicationError");
    web("alice", &[("RoleArn", "arn:aws:iam::000000000000:role/none")]).refused(400, "InvalidParameterValue");
    web("alice", &[("DurationSeconds", "1")]).refused(400, "ValidationError");
    web("alice", &[("DurationSeconds", "x")]).refused(400, "ValidationError");
    web("alice", &[("RoleArn", "a"), ("RoleArn", "b")]).refused(400, "ValidationError");
    w.form(&[("Action", "AssumeRoleWithWebIdentity")]).refused(400, "ValidationError");
    w.text("Action=AssumeRoleWithWebIdentity&WebIdentityToken=x&Version=1").refused(400, "ValidationError");
    w.form(&[("Action", "AssumeRoleWithCertificate")]).refused(403, "AccessDenied");
    // What needs a signature still needs it.
    for action in ["AssumeRole", "GetCallerIdentity", "AssumeRoleWithSAML", "", "assumerolewithwebidentity"] {
        w.form(&[("Action", action), ("WebIdentityToken", "alice")]).refused(403, "AccessDenied");
    }
    // A second Action does not choose another path.
    w.form(&[("Action", "AssumeRole"), ("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", "a")])
        .refused(403, "AccessDenied");
    let none = Vouching::new(false);
    let fields = [("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", "alice")];
    none.form(&fields).refused(400, "InvalidParameterValue");
}

#[test]
fn each_request_has_one_id() {
    let w = Vouching::new(true);
    let a = w.form(&[("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", "forged")]);
    assert_eq!(a.tag("RequestId").as_deref(), a.header("x-amz-request-id"));
    let b = w.server.get("/b-1/none");
    assert_eq!(b.tag("RequestId").as_deref(), b.header("x-amz-request-id"));
}

#[test]
fn federated_user_never_becomes_a_local_user() {
    let w = Vouching::new(true);
    w.wait(w.iam.put_user("carol", &Secret::new("secret-of-carol"), true)).unwrap();
    w.attach(Entity::User("carol"), "readwrite");
    let a = w.form(&[
        ("Action", "AssumeRoleWithLDAPIdentity"),
        ("LDAPUsername", "carol"),
        ("LDAPPassword", "right"),
    ]);
    a.refused(403, "AccessDenied");
}
