//! Logins and checks against a small directory on loopback that knows two filters: `(uid=...)` and
//! `(member=...)`. The system tests use real directories.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use ashlar_cluster::{Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_iam::{Assume, Entity, Iam, NewKey, Root, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::ber::{Reader, Writer, head, number};
use super::*;
use crate::{Environment, Web, WebAsk, Within};

const ALICE: &str = "UID=Alice,ou=People,dc=X";

/// The content of the directory.
#[derive(Default)]
struct State {
    /// Names, as spelled, and passwords.
    people: BTreeMap<String, String>,
    /// Names of groups, as spelled, and their members' normal forms.
    groups: BTreeMap<String, Vec<String>>,
    /// Whether the directory shows no entries.
    empty: bool,
}

#[derive(Clone)]
struct Fake {
    state: Arc<Mutex<State>>,
    /// Connections so far.
    asked: Arc<AtomicUsize>,
    port: u16,
}

fn uid(dn: &str) -> &str {
    dn.split_once('=').unwrap().1.split(',').next().unwrap()
}

impl Fake {
    async fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let fake = Fake { state: Arc::default(), asked: Arc::default(), port };
        {
            let mut s = fake.state.lock();
            s.people.insert("cn=lookup,dc=x".into(), "lookup-password".into());
            s.people.insert(ALICE.into(), "planted-alice".into());
            s.groups.insert("CN=Readers,ou=groups,dc=x".into(), vec!["uid=alice,ou=people,dc=x".into()]);
            s.groups.insert("cn=all,ou=groups,dc=x".into(), vec!["cn=readers,ou=groups,dc=x".into()]);
        }
        let it = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                it.asked.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(it.clone().serve(stream));
            }
        });
        fake
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut read = Vec::new();
        loop {
            while let Some(Some((_, length, skip))) = head(&read) {
                if read.len() < skip + length {
                    break;
                }
                let answer = self.answer(&read[skip..skip + length]);
                read.drain(..skip + length);
                if answer.is_empty() || stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(n) if n > 0 => read.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        }
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut r = Reader(question);
        let id = number(r.expect(2).unwrap()).unwrap();
        let (tag, body) = r.next().unwrap();
        let mut r = Reader(body);
        let mut out = Writer::default();
        let said = |out: &mut Writer, tag: u8, code: u32| {
            out.nest(0x30, |w| {
                w.number(2, id);
                w.nest(tag, |w| {
                    w.number(10, code);
                    w.bytes(4, b"");
                    w.bytes(4, b"");
                });
            });
        };
        let state = self.state.lock();
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        match tag {
            0x60 => {
                r.expect(2).unwrap();
                let (dn, password) = (text(r.expect(4).unwrap()), text(r.expect(0x80).unwrap()));
                said(&mut out, 0x61, if state.people.get(&dn) == Some(&password) { 0 } else { 49 });
            }
            0x63 => {
                let base = text(r.expect(4).unwrap());
                let scope = number(r.expect(10).unwrap()).unwrap();
                for tag in [10, 2, 2, 1] {
                    r.expect(tag).unwrap();
                }
                let (kind, filter) = r.next().unwrap();
                for dn in found(&state, &base, scope, kind, filter) {
                    out.nest(0x30, |w| {
                        w.number(2, id);
                        w.nest(0x64, |w| {
                            w.bytes(4, dn.as_bytes());
                            w.nest(0x30, |w| {
                                for (name, value) in [("uid", uid(&dn)), ("mail", "a@x")] {
                                    w.nest(0x30, |w| {
                                        w.bytes(4, name.as_bytes());
                                        w.nest(0x31, |w| w.bytes(4, value.as_bytes()));
                                    });
                                }
                            });
                        });
                    });
                }
                said(&mut out, 0x65, 0);
            }
            _ => return Vec::new(),
        }
        out.done()
    }
}

fn found(state: &State, base: &str, scope: u32, kind: u8, filter: &[u8]) -> Vec<String> {
    let base = dn::normal(base).unwrap();
    let fits = |dn: &&String| scope == 2 || dn::normal(dn).unwrap() == base;
    let all = state.people.keys().chain(state.groups.keys()).filter(fits).cloned();
    if kind == 0x87 {
        let places = ["ou=people,dc=x".to_owned(), "ou=groups,dc=x".to_owned()];
        let places = places.into_iter().filter(|p| *p == base && !state.empty);
        return all.chain(places).collect();
    }
    let mut r = Reader(filter);
    let attribute = std::str::from_utf8(r.expect(4).unwrap()).unwrap().to_owned();
    let value = std::str::from_utf8(r.expect(4).unwrap()).unwrap().to_owned();
    all.filter(|dn| match attribute.as_str() {
        "uid" => dn.starts_with("UID=") && uid(dn).eq_ignore_ascii_case(&value),
        "member" => {
            let value = dn::normal(&value).unwrap();
            state.groups.get(dn).is_some_and(|m| m.contains(&value))
        }
        other => panic!("{other}"),
    })
    .collect()
}

/// LDAP sends no HTTP requests.
struct NoWeb;

impl Web for NoWeb {
    fn ask(&self, _: WebAsk) -> Within<'_> {
        Box::pin(async { Err("not here".to_owned()) })
    }
}

async fn context(now: &Arc<AtomicI64>) -> Arc<ProviderContext> {
    // The directory is on this machine.
    ashlar_outbound::allow(true, false);
    let control = Embedded::create(DeploymentId([1; 16]), MemoryMedium::one_drive(), Vec::new())
        .await
        .unwrap()
        .control();
    let root = Root { access_key: "root".into(), secret: Secret::new("root-secret") };
    let now = now.clone();
    let clock: Clock = Arc::new(move || now.load(Ordering::SeqCst));
    let iam = Arc::new(Iam::open(control, root, None, clock.clone()).await.unwrap());
    iam.trust([("ldap/_".to_owned(), Vec::new())].into());
    Arc::new(ProviderContext {
        iam,
        environment: Environment::default(),
        web: Arc::new(NoWeb),
        clock,
        authorities: Vec::new(),
    })
}

fn values(port: u16, more: &[(&str, &str)]) -> Values {
    let address = format!("127.0.0.1:{port}");
    let all = [
        ("server_addr", address.as_str()),
        ("server_insecure", "on"),
        ("lookup_bind_dn", "cn=lookup,dc=x"),
        ("lookup_bind_password", "lookup-password"),
        ("user_dn_search_base_dn", "OU=people,dc=x; dc=x"),
        ("user_dn_search_filter", "(uid=%s)"),
        ("user_dn_attributes", "mail, nothing"),
        ("group_search_base_dn", "ou=groups,dc=x"),
        ("group_search_filter", "(member=%d)"),
    ];
    // The later value applies, and an empty one counts as missing.
    let mut all: Values = all.iter().chain(more).map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    all.retain(|_, v| !v.is_empty());
    all
}

struct World {
    fake: Fake,
    context: Arc<ProviderContext>,
    provider: Provider,
    now: Arc<AtomicI64>,
}

impl World {
    async fn new(more: &[(&str, &str)]) -> World {
        let now = Arc::new(AtomicI64::new(1_800_000_000_000));
        let (fake, context) = (Fake::start().await, context(&now).await);
        let values = [more, &[("user_dn_search_base_dn", "ou=people,dc=x")]].concat();
        let provider = Provider::new("_", &self::values(fake.port, &values), &context).unwrap();
        World { fake, context, provider, now }
    }
}

#[tokio::test]
async fn login_returns_names_groups_and_attributes() {
    let w = World::new(&[]).await;
    let authenticated = w.provider.login("alice", "planted-alice").await.unwrap();
    assert_eq!(authenticated.who.id, "uid=alice,ou=people,dc=x");
    assert_eq!(authenticated.who.provider, "ldap/_");
    assert_eq!(authenticated.who.groups, ["cn=readers,ou=groups,dc=x"]);
    let one = |v: &str| vec![v.to_owned()];
    let want = [
        ("user".to_owned(), one("uid=Alice,ou=People,dc=X")),
        // In the directory's spelling, whatever the user typed.
        ("username".to_owned(), one("Alice")),
        ("mail".to_owned(), one("a@x")),
    ];
    assert_eq!(authenticated.who.attributes, want);
    assert_eq!(w.fake.asked.load(Ordering::SeqCst), 2, "one connection to look up, one to prove");
    let nested = World::new(&[("group_search_nested", "on")]).await;
    let authenticated = nested.provider.login("ALICE", "planted-alice").await.unwrap();
    assert_eq!(authenticated.who.groups, ["cn=all,ou=groups,dc=x", "cn=readers,ou=groups,dc=x"]);
    assert!(nested.provider.probe().await.is_ok());
}

#[tokio::test]
async fn wrong_name_and_wrong_password_get_the_same_answer() {
    let w = World::new(&[]).await;
    for (name, password) in [
        ("alice", ""),
        ("", "x"),
        ("  ", "x"),
        ("a\0", "x"),
        ("a\nb", "x"),
        (&"a".repeat(300), "x"),
        ("alice", &"x".repeat(2000)),
        ("alice", "a\0"),
    ] {
        assert!(matches!(w.provider.try_login(name, password).await, Err(Refused::Denied(_))));
    }
    assert_eq!(w.fake.asked.load(Ordering::SeqCst), 0, "nothing of that is worth a question");
    let timed = async |name: &str, password: &str| {
        let began = Instant::now();
        let answer = w.provider.login(name, password).await;
        assert!(matches!(answer, Err(Refused::Denied(_))), "{answer:?}");
        began.elapsed()
    };
    let (a, b, c, d) = tokio::join!(
        timed("alice", "wrong"),
        timed("nobody", "wrong"),
        timed("*", "planted-alice"),
        timed("alice", "")
    );
    for took in [a, b, c, d] {
        assert!(took >= FLOOR && took < FLOOR * 3, "{took:?}");
    }
    // A login name that matches two users is refused.
    w.fake.state.lock().people.insert("UID=alice,ou=b,ou=people,dc=x".into(), "other".into());
    for password in ["planted-alice", "other"] {
        assert!(matches!(w.provider.try_login("alice", password).await, Err(Refused::Denied(_))));
    }
}

#[tokio::test]
async fn repeated_failures_delay_the_name() {
    let w = World::new(&[]).await;
    for _ in 0..6 {
        assert!(matches!(w.provider.try_login("alice", "wrong").await, Err(Refused::Denied(_))));
    }
    assert_eq!(w.provider.try_login("Alice", "planted-alice").await.unwrap_err(), Refused::Busy);
    w.now.fetch_add(1000, Ordering::SeqCst);
    assert!(w.provider.try_login("alice", "planted-alice").await.is_ok());
    assert!(matches!(w.provider.try_login("alice", "wrong").await, Err(Refused::Denied(_))));
    assert!(w.provider.try_login("alice", "planted-alice").await.is_ok(), "a right one starts anew");
    let _room = w.provider.room.try_acquire_many(LOGINS as u32).unwrap();
    assert_eq!(w.provider.try_login("alice", "planted-alice").await.unwrap_err(), Refused::Busy);
}

#[tokio::test]
async fn unreachable_directory_does_not_count_as_wrong_password() {
    let w = World::new(&[]).await;
    w.fake.state.lock().people.remove("cn=lookup,dc=x");
    let refused = w.provider.login("alice", "planted-alice").await.unwrap_err();
    assert!(matches!(&refused, Refused::Unavailable(why) if why.contains("lookup bind")), "{refused:?}");
    assert!(matches!(w.provider.probe().await, Err(Error::Unreachable(_))));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let away = Provider::new("_", &values(closed, &[]), &w.context).unwrap();
    assert!(matches!(away.login("alice", "planted-alice").await, Err(Refused::Unavailable(_))));
    // Then a DN is accepted without lookup, a login name is not.
    assert_eq!(away.user("UID=B, ou=People, dc=X").await.unwrap(), "uid=b,ou=people,dc=x");
    assert!(matches!(away.user("b").await, Err(Error::Unreachable(_))));
}

#[tokio::test]
async fn names_for_attached_policies_are_normalized() {
    let w = World::new(&[]).await;
    let p = &w.provider;
    for text in ["alice", "ALICE", "uid=alice,ou=people,dc=x", "UID = alice , OU=People,dc=x"] {
        assert_eq!(p.user(text).await.unwrap(), "uid=alice,ou=people,dc=x", "{text}");
    }
    assert_eq!(p.group("CN=readers, OU=Groups,DC=x").await.unwrap(), "cn=readers,ou=groups,dc=x");
    for text in ["bob", "*", "uid=bob,ou=people,dc=x", "uid=alice,ou=people,dc=y", "uid=a;b"] {
        assert!(matches!(p.user(text).await, Err(Error::Invalid(_))), "{text}");
    }
    for text in ["readers", "cn=none,ou=groups,dc=x", "uid=alice,ou=people,dc=x"] {
        assert!(matches!(p.group(text).await, Err(Error::Invalid(_))), "{text}");
    }
}

#[tokio::test]
async fn check_updates_groups_and_removes_lost_users() {
    let w = World::new(&[]).await;
    let iam = &w.context.iam;
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked::default());
    iam.attach(Entity::FederatedGroup("cn=readers,ou=groups,dc=x"), &["readonly".into()]).await.unwrap();
    let who = w.provider.login("alice", "planted-alice").await.unwrap().who;
    let ask = Assume { duration_s: 3600, policy: None };
    let session = iam.assume_federated(who.clone(), &ask, None).unwrap();
    let open = || iam.session(&session.access_key, &session.token);
    let new = NewKey { parent: who.id.clone(), federated: Some(who.clone()), ..NewKey::default() };
    let (key, _) = iam.add_key(new).await.unwrap();
    assert!(open().is_ok());
    let nothing = Checked { people: 1, ..Checked::default() };
    assert_eq!(w.provider.check(iam).await.unwrap(), nothing, "all is as it was");
    assert!(open().is_ok() && !iam.find(&key).unwrap().policies.is_empty());

    // An empty or unreachable directory changes nothing, and the next check looks up all users.
    w.fake.state.lock().empty = true;
    let alices = w.fake.state.lock().people.remove(ALICE).unwrap();
    assert!(matches!(w.provider.check(iam).await, Err(Error::Unreachable(_))));
    assert!(open().is_ok() && iam.find(&key).is_some());
    w.fake.state.lock().people.insert(ALICE.into(), alices.clone());
    w.fake.state.lock().empty = false;

    // An added group: the key gets it, and the session stays.
    let (readers, all) = ("CN=Readers,ou=groups,dc=x", "cn=all,ou=groups,dc=x");
    w.fake.state.lock().groups.get_mut(all).unwrap().push(who.id.clone());
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked { changed: 1, ..nothing });
    assert!(open().is_ok() && iam.find(&key).unwrap().groups.len() == 2);
    // A removed group: the key loses it, and the session that claims it ends once it was used.
    w.fake.state.lock().groups.get_mut(readers).unwrap().clear();
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked { changed: 1, ..nothing });
    assert!(open().is_err() && iam.find(&key).unwrap().policies.is_empty());

    // A failure about one user leaves that user unchanged and does not stop the check of others.
    let many = (0..=people::GROUPS)
        .map(|i| (format!("cn=g{i},ou=groups,dc=x"), vec!["uid=alice,ou=people,dc=x".to_owned()]));
    let before: Vec<String> = many.clone().map(|(n, _)| n).collect();
    w.fake.state.lock().groups.extend(many);
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked::default());
    assert!(iam.find(&key).is_some());
    w.fake.state.lock().groups.retain(|n, _| !before.contains(n));

    // The user is removed from the directory.
    w.now.fetch_add(1, Ordering::SeqCst);
    let who = w.provider.login("alice", "planted-alice").await.unwrap().who;
    let session = iam.assume_federated(who, &ask, None).unwrap();
    let open = || iam.session(&session.access_key, &session.token);
    assert!(open().is_ok() && iam.find(&key).is_some());
    w.fake.state.lock().people.remove(ALICE);
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked { gone: 1, ..nothing });
    assert!(open().is_err() && iam.find(&key).is_none() && !iam.key(&key).unwrap().enabled);
    assert_eq!(w.provider.check(iam).await.unwrap(), Checked::default());
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let context = context(&Arc::new(AtomicI64::new(1))).await;
    let told = |more: &[(&str, &str)]| {
        let made = Provider::new("_", &values(1, more), &context);
        made.err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(told(&[]), "");
    for (name, value) in [
        ("server_addr", ""),
        ("server_addr", "ldap://h"),
        ("server_addr", "h:x"),
        ("server_addr", "[::1"),
        ("server_addr", ":1"),
        ("srv_record_name", "ldap"),
        ("username_format", "uid=%s"),
        ("sts_expiry", "1h"),
        ("tls_skip_verify", "on"),
        ("server_starttls", "on"),
        ("server_insecure", "maybe"),
        ("lookup_bind_dn", ""),
        ("lookup_bind_dn", "admin"),
        ("lookup_bind_password", ""),
        ("user_dn_search_base_dn", ""),
        ("user_dn_search_base_dn", "x"),
        ("user_dn_search_filter", ""),
        ("user_dn_search_filter", "(uid=a)"),
        ("user_dn_search_filter", "(uid=%s)(a=b)"),
        ("user_dn_search_filter", "(&(uid=%s)(member=%d))"),
        ("user_dn_attributes", "groups"),
        ("user_dn_attributes", "a b"),
        ("group_search_base_dn", ""),
        ("group_search_filter", ""),
        ("group_search_filter", "(cn=x)"),
        ("check_interval", "0s"),
        ("check_interval", "2d"),
    ] {
        let why = told(&[(name, value)]);
        let hint = ["server_", "filter", "base", "lookup", "user_dn", "missing"];
        assert!(why.contains(name) || hint.iter().any(|h| why.contains(h)), "{name}={value}: {why}");
    }
    let nested = [("group_search_nested", "on"), ("group_search_filter", "(memberUid=%s)")];
    assert!(told(&nested).contains("group_search_nested"));
    assert!(told(&[("server_insecure", ""), ("tls_ca", "/nowhere/ca.pem")]).contains("tls_ca"));
    assert!(told(&[("server_insecure", ""), ("tls_ca", "-----BEGIN nothing")]).contains("tls_ca"));
    for address in ["h", "h:1", "[::1]:1", "[::1]", "10.0.0.1"] {
        assert_eq!(told(&[("server_addr", address)]), "", "{address}");
    }
    assert_eq!(told(&[("lookup_bind_dn", "svc@example.com")]), "", "Active Directory's other form");
    assert_eq!(told(&[("group_search_base_dn", ""), ("group_search_filter", "")]), "", "no groups");
    let named = Provider::new("other", &values(1, &[]), &context).err().unwrap().to_string();
    assert!(named.contains("other"));
}
