//! Tests of the whole crate over a control store in memory: one for each invariant in `lib.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_cluster::{Control, Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_policy::{Action, BucketRules, Context, Request, decide};

use crate::{Assume, Entity, Error, Iam, Identity, KeyChange, NewKey, Root, Secret};

const READ: &[u8] = br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}]}"#;
const DENY: &[u8] =
    br#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:*","Resource":"*"}]}"#;
const ALL: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#;

struct World {
    slots: Arc<MemoryMedium>,
    control: Control,
    now: Arc<AtomicI64>,
}

impl World {
    async fn new(deployment: u8) -> World {
        let slots = Arc::new(MemoryMedium::default());
        let media = slots.as_only_drive();
        let control =
            Embedded::create(DeploymentId([deployment; 16]), media, Vec::new()).await.unwrap().control();
        World { slots, control, now: Arc::new(AtomicI64::new(1_800_000_000_000)) }
    }

    async fn iam(&self, secret: &str, old: Option<&str>) -> crate::Result<Iam> {
        let now = self.now.clone();
        let clock = Arc::new(move || now.load(Ordering::SeqCst));
        let root = Root { access_key: "root".into(), secret: Secret::new(secret) };
        Iam::open(self.control.clone(), root, old.map(Secret::new).as_ref(), clock).await
    }

    fn pass(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }
}

fn run<T>(f: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f)
}

fn may(who: &Identity, action: Action, bucket: &str, key: &str) -> bool {
    let (principal, context) = (who.principal(), Context::default());
    let request = Request::new(action, bucket, key, &principal, &context);
    decide(&request, &who.authority(BucketRules::default(), false)).allowed
}

fn reads(who: &Identity) -> bool {
    may(who, Action::GetObject, "b", "k")
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

async fn user(iam: &Iam, name: &str, policies: &[&str]) {
    iam.put_user(name, &Secret::new("secret-of-user"), true).await.unwrap();
    if !policies.is_empty() {
        iam.attach(Entity::User(name), &names(policies)).await.unwrap();
    }
}

#[test]
fn change_applies_to_the_next_request() {
    run(async {
        let iam = World::new(1).await.iam("root-secret", None).await.unwrap();
        assert!(iam.find("alice").is_none());
        user(&iam, "alice", &[]).await;
        let alice = || iam.find("alice").unwrap();
        assert!(!reads(&alice()), "without a policy nothing is allowed");
        iam.put_policy("reader", READ).await.unwrap();
        iam.attach(Entity::User("alice"), &names(&["reader"])).await.unwrap();
        assert!(reads(&alice()) && !may(&alice(), Action::PutObject, "b", "k"));
        iam.put_policy("reader", DENY).await.unwrap();
        assert!(!reads(&alice()), "the policy says something else now");
        iam.put_policy("reader", READ).await.unwrap();
        iam.put_policy("no", DENY).await.unwrap();
        iam.add_members("staff", &names(&["alice"])).await.unwrap();
        assert!(reads(&alice()));
        iam.attach(Entity::Group("staff"), &names(&["no"])).await.unwrap();
        assert!(!reads(&alice()), "a group's deny");
        assert_eq!(alice().groups, ["staff"]);
        iam.enable_group("staff", false).await.unwrap();
        assert!(reads(&alice()), "the policies of a disabled group do not count");
        iam.enable_user("alice", false).await.unwrap();
        assert!(iam.find("alice").is_none(), "a disabled user is unknown");
        iam.enable_user("alice", true).await.unwrap();
        iam.detach(Entity::User("alice"), &names(&["reader"])).await.unwrap();
        assert!(!reads(&alice()));
        assert!(may(&iam.root(), Action::AdminCreateUser, "", ""), "root may everything");
    });
}

#[test]
fn names_never_collide_and_policies_in_use_cannot_be_removed() {
    run(async {
        let iam = World::new(1).await.iam("root-secret", None).await.unwrap();
        let s = Secret::new("long enough".replace(' ', "-"));
        assert!(matches!(iam.put_user("root", &s, true).await, Err(Error::Exists { .. })));
        user(&iam, "alice", &["readonly"]).await;
        let new = |parent: &str, key: &str| NewKey {
            parent: parent.into(),
            access_key: Some(key.into()),
            ..NewKey::default()
        };
        assert!(matches!(iam.add_key(new("alice", "root")).await, Err(Error::Exists { .. })));
        assert!(matches!(iam.add_key(new("alice", "alice")).await, Err(Error::Exists { .. })));
        assert!(matches!(iam.add_key(new("nobody", "key1")).await, Err(Error::Missing { .. })));
        iam.add_key(new("alice", "key1")).await.unwrap();
        assert!(matches!(iam.add_key(new("root", "key1")).await, Err(Error::Exists { .. })));
        assert!(matches!(iam.put_user("key1", &s, true).await, Err(Error::Exists { .. })));
        for bad in ["", "ab", "a b c", "a=bc", "a,bc", "a/bc", "a\"bc", "\u{e9}t\u{e9}s", &"x".repeat(129)] {
            assert!(matches!(iam.put_user(bad, &s, true).await, Err(Error::Invalid(_))), "{bad:?}");
        }
        assert!(matches!(iam.put_user("bob", &Secret::new("short"), true).await, Err(Error::Invalid(_))));
        assert!(matches!(iam.put_policy("p", b"{}").await, Err(Error::Policy(_))));
        assert!(matches!(iam.put_policy("p,q", READ).await, Err(Error::Invalid(_))));
        let none = iam.attach(Entity::User("alice"), &names(&["nothing"])).await;
        assert!(matches!(none, Err(Error::Missing { what: "policy", .. })));
        iam.put_policy("mine", READ).await.unwrap();
        iam.attach(Entity::User("alice"), &names(&["mine"])).await.unwrap();
        assert!(matches!(iam.remove_policy("mine").await, Err(Error::InUse { .. })));
        assert!(matches!(iam.remove_policy("readonly").await, Err(Error::Invalid(_))));
        iam.add_members("g", &names(&["alice"])).await.unwrap();
        assert!(matches!(iam.remove_group("g").await, Err(Error::InUse { .. })));
        assert!(matches!(iam.add_members("g", &names(&["nobody"])).await, Err(Error::Missing { .. })));
        // Removing the user removes its access keys and memberships.
        iam.remove_user("alice").await.unwrap();
        assert!(iam.find("key1").is_none() && iam.key("key1").is_none());
        assert_eq!(iam.group("g").unwrap().members, BTreeSet::new());
        iam.remove_group("g").await.unwrap();
        iam.remove_policy("mine").await.unwrap();
        assert!(iam.users().is_empty() && iam.groups().is_empty());
    });
}

#[test]
fn access_key_never_has_more_permissions_than_its_user() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("reader", READ).await.unwrap();
        user(&iam, "alice", &["reader"]).await;
        let new = |parent: &str, policy: Option<&str>| NewKey {
            parent: parent.into(),
            policy: policy.map(str::to_owned),
            expires_ms: Some(world.now.load(Ordering::SeqCst) + 60_000),
            ..NewKey::default()
        };
        let (plain, secret) = iam.add_key(new("alice", None)).await.unwrap();
        let (wide, _) = iam.add_key(new("alice", Some(ALL))).await.unwrap();
        let (narrow, _) = iam.add_key(new("alice", Some(std::str::from_utf8(DENY).unwrap()))).await.unwrap();
        let (roots, _) = iam.add_key(new("root", Some(std::str::from_utf8(READ).unwrap()))).await.unwrap();
        let at = |key: &str| iam.find(key).unwrap();
        assert!(at(&plain).secret == secret && plain.len() == 20);
        assert!(reads(&at(&plain)) && reads(&at(&wide)) && !reads(&at(&narrow)) && reads(&at(&roots)));
        assert!(!may(&at(&wide), Action::PutObject, "b", "k"), "its user may not");
        assert!(!may(&at(&roots), Action::PutObject, "b", "k"), "its own policy does not allow it");
        assert!(!may(&at(&roots), Action::AdminCreateUser, "", ""), "root's key is bounded too");
        iam.change_key(&plain, &KeyChange { enabled: Some(false), ..KeyChange::default() }).await.unwrap();
        assert!(iam.find(&plain).is_none());
        // Rotation: a new secret, or a second key beside the old one.
        let other = Secret::new("another-secret-key");
        let change = KeyChange { enabled: Some(true), secret: Some(other.clone()), ..KeyChange::default() };
        iam.change_key(&plain, &change).await.unwrap();
        assert!(at(&plain).secret == other);
        iam.detach(Entity::User("alice"), &names(&["reader"])).await.unwrap();
        assert!(!reads(&at(&plain)), "what the user lost, its keys lost");
        iam.enable_user("alice", false).await.unwrap();
        assert!(iam.find(&plain).is_none(), "a disabled user's keys are unknown");
        iam.enable_user("alice", true).await.unwrap();
        assert!(iam.find(&plain).is_some());
        world.pass(60_000);
        assert!(iam.find(&plain).is_none() && iam.find(&roots).is_none(), "they have ended");
        let past = NewKey { expires_ms: Some(1), ..new("alice", None) };
        assert!(matches!(iam.add_key(past).await, Err(Error::Invalid(_))));
    });
}

#[test]
fn session_ends_with_its_user_and_access_key() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("reader", READ).await.unwrap();
        user(&iam, "alice", &["reader"]).await;
        let hour = |policy: Option<&str>| Assume { duration_s: 3600, policy: policy.map(str::to_owned) };
        world.pass(1);
        let alice = iam.find("alice").unwrap();
        let s = iam.assume(&alice, &hour(None)).unwrap();
        let open = |s: &crate::Session| iam.session(&s.access_key, &s.token);
        let who = open(&s).unwrap();
        assert!(reads(&who) && who.secret == s.secret && who.user == "alice");
        assert!(matches!(iam.assume(&who, &hour(None)), Err(Error::Invalid(_))), "no session of a session");
        assert!(!may(
            &open(&iam.assume(&alice, &hour(Some(ALL))).unwrap()).unwrap(),
            Action::PutObject,
            "b",
            "k"
        ));
        let none = iam.assume(&alice, &hour(Some(std::str::from_utf8(DENY).unwrap()))).unwrap();
        assert!(!reads(&open(&none).unwrap()));
        let root = iam.assume(&iam.root(), &hour(Some(std::str::from_utf8(READ).unwrap()))).unwrap();
        assert!(reads(&open(&root).unwrap()) && !may(&open(&root).unwrap(), Action::AdminCreateUser, "", ""));
        for bad in [0, 899, 365 * 24 * 3600 + 1, i64::MAX, -1] {
            assert!(iam.assume(&alice, &Assume { duration_s: bad, policy: None }).is_err(), "{bad}");
        }
        assert!(matches!(iam.session("alice", &s.token), Err(Error::Token(_))), "a token has its own key");
        assert!(matches!(iam.session(&s.access_key, &none.token), Err(Error::Token(_))));
        // No byte of a token can be changed or left out.
        for at in 0..s.token.len() {
            let mut bad = s.token.clone().into_bytes();
            bad[at] = if bad[at] == b'A' { b'B' } else { b'A' };
            let bad = String::from_utf8(bad).unwrap();
            assert!(iam.session(&s.access_key, &bad).is_err(), "byte {at}");
            assert!(iam.session(&s.access_key, &s.token[..at]).is_err(), "cut at {at}");
        }
        // The policy and expiry of a key apply to its sessions; they end with the key.
        let new = NewKey {
            parent: "alice".into(),
            access_key: Some("key1".into()),
            policy: Some(std::str::from_utf8(DENY).unwrap().into()),
            expires_ms: Some(world.now.load(Ordering::SeqCst) + 1_000_000),
            ..NewKey::default()
        };
        iam.add_key(new.clone()).await.unwrap();
        let of_key = iam.assume(&iam.find("key1").unwrap(), &hour(None)).unwrap();
        assert_eq!(of_key.expires_ms, new.expires_ms.unwrap());
        assert!(!reads(&open(&of_key).unwrap()));
        iam.remove_key("key1").await.unwrap();
        assert!(open(&of_key).is_err());
        world.pass(1);
        iam.add_key(new).await.unwrap();
        assert!(open(&of_key).is_err(), "another key of that name");
        // Disabled, revoked, removed and made again, expired.
        iam.enable_user("alice", false).await.unwrap();
        assert!(open(&s).is_err());
        iam.enable_user("alice", true).await.unwrap();
        assert!(open(&s).is_ok());
        iam.revoke_sessions("alice").await.unwrap();
        assert!(open(&s).is_err());
        world.pass(1);
        let s = iam.assume(&iam.find("alice").unwrap(), &hour(None)).unwrap();
        iam.remove_user("alice").await.unwrap();
        assert!(open(&s).is_err());
        user(&iam, "alice", &["readwrite"]).await;
        assert!(open(&s).is_err(), "the user of that name is another one");
        assert!(open(&root).is_ok());
        iam.revoke_sessions("root").await.unwrap();
        assert!(open(&root).is_err());
        world.pass(1);
        let last = iam.assume(&iam.root(), &hour(None)).unwrap();
        world.pass(3_600_000);
        assert!(matches!(open(&last), Err(Error::Expired)));
    });
}

#[test]
fn records_are_sealed_under_the_root_secret() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        user(&iam, "alice", &["readonly"]).await;
        let key = NewKey { parent: "alice".into(), description: "planted words".into(), ..NewKey::default() };
        let (key, secret) = iam.add_key(key).await.unwrap();
        let token = iam.assume(&iam.root(), &Assume { duration_s: 900, policy: None }).unwrap();
        let everything = world.slots.bytes();
        for plain in
            ["root-secret", "secret-of-user", secret.expose(), "planted words", token.secret.expose()]
        {
            let found = everything.windows(plain.len()).any(|w| w == plain.as_bytes());
            assert!(!found, "{plain} is stored in clear");
        }
        assert!(!format!("{:?}", iam.find(&key)).contains(secret.expose()));
        // The same secret opens it, another does not, unless the old one is given once.
        let again = world.iam("root-secret", None).await.unwrap();
        assert!(again.find(&key).unwrap().secret == secret);
        assert!(again.session(&token.access_key, &token.token).is_ok(), "sessions outlive a restart");
        assert!(matches!(world.iam("other-secret", None).await, Err(Error::OtherSeal)));
        assert!(matches!(world.iam("other-secret", Some("wrong")).await, Err(Error::OtherSeal)));
        assert!(world.iam("other-secret", Some("root-secret")).await.unwrap().find(&key).is_some());
        assert!(world.iam("other-secret", None).await.unwrap().find(&key).is_some());
        assert!(matches!(world.iam("root-secret", None).await, Err(Error::OtherSeal)));
        // Without stored users, a new root secret works without the old one.
        let fresh = World::new(4).await;
        fresh.iam("one-secret", None).await.unwrap();
        let other = fresh.iam("two-secret", None).await.unwrap();
        user(&other, "alice", &[]).await;
        assert!(matches!(fresh.iam("one-secret", None).await, Err(Error::OtherSeal)));
        // Another deployment with the same root secret accepts none of its tokens.
        let other = World::new(2).await.iam("root-secret", None).await.unwrap();
        assert!(other.session(&token.access_key, &token.token).is_err());
    });
}

#[test]
fn two_servers_never_undo_each_other() {
    run(async {
        let world = World::new(1).await;
        let a = Arc::new(world.iam("root-secret", None).await.unwrap());
        let b = Arc::new(world.iam("root-secret", None).await.unwrap());
        for n in 0..10 {
            user(if n % 2 == 0 { &a } else { &b }, &format!("user{n}"), &[]).await;
        }
        // Neither server follows the other's changes; each change is made from the stored records.
        for n in 0..10 {
            let iam = if n % 3 == 0 { &a } else { &b };
            iam.add_members("all", &names(&[&format!("user{n}")]))
                .await
                .or_else(|e| match e {
                    // This server does not know that user yet.
                    Error::Missing { .. } => Ok(()),
                    e => Err(e),
                })
                .unwrap();
        }
        let follow = (tokio::spawn(a.clone().follow()), tokio::spawn(b.clone().follow()));
        user(&a, "last", &[]).await;
        a.add_members("all", &names(&["last"])).await.unwrap();
        for _ in 0..200 {
            if b.find("last").is_some() && b.group("all") == a.group("all") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(b.find("last").is_some(), "it follows");
        assert_eq!(a.group("all"), b.group("all"));
        assert!(b.group("all").unwrap().members.len() >= 5, "{:?}", b.group("all"));
        assert_eq!(world.iam("root-secret", None).await.unwrap().users(), a.users());
        follow.0.abort();
        follow.1.abort();
    });
}

#[test]
fn last_use_is_stored() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        user(&iam, "alice", &[]).await;
        user(&iam, "bob", &[]).await;
        assert_eq!(iam.user("alice").unwrap().used_ms, None);
        iam.find("alice").unwrap().used(1_800_000_000_500);
        user(&iam, "carol", &[]).await;
        assert_eq!(iam.user("alice").unwrap().used_ms, Some(1_800_000_000_500), "another change keeps it");
        iam.store_uses().await.unwrap();
        let again = world.iam("root-secret", None).await.unwrap();
        assert_eq!(again.user("alice").unwrap().used_ms, Some(1_800_000_000_500));
        assert_eq!(again.user("bob").unwrap().used_ms, None);
        iam.remove_user("alice").await.unwrap();
        iam.find("bob").unwrap().used(1_800_000_000_700);
        iam.store_uses().await.unwrap();
        user(&iam, "alice", &[]).await;
        let again = world.iam("root-secret", None).await.unwrap();
        assert_eq!(again.user("alice").unwrap().used_ms, None, "that was another alice");
    });
}

/// A store that an earlier release sealed under root's secret without Argon2id is sealed again.
#[test]
fn sealing_key_of_an_earlier_release_is_sealed_again() {
    run(async {
        let world = World::new(1).await;
        user(&world.iam("root-secret", None).await.unwrap(), "alice", &[]).await;
        let stored = world.control.get("iam/seal").unwrap();
        let now = crate::seal::RootSealer::new(Secret::new("root-secret"), [1; 16]);
        let key = now.open("iam/seal", &stored.bytes).unwrap();
        let fast = crate::Sealer::new(&crate::Sealer::derive(b"root-secret", &[1; 16], "iam/seal"));
        let mut update = ashlar_cluster::Update::new();
        update.set(&world.control.read("iam/seal"), fast.seal("iam/seal", &key));
        world.control.update(update).await.unwrap();
        assert!(world.iam("root-secret", None).await.unwrap().user("alice").is_some());
        let stored = world.control.get("iam/seal").unwrap();
        assert_eq!(stored.bytes[0], 2);
        assert!(matches!(world.iam("other-secret", None).await, Err(Error::OtherSeal)));
        assert!(world.iam("root-secret", None).await.unwrap().user("alice").is_some());
    });
}

/// Two servers whose first starts coincide have the same keys, and see each other's changes.
#[test]
fn concurrent_first_starts_share_their_keys() {
    run(async {
        let world = World::new(1).await;
        let (one, two) = tokio::join!(world.iam("root-secret", None), world.iam("root-secret", None));
        let (one, two) = (Arc::new(one.unwrap()), Arc::new(two.unwrap()));
        let followers = [tokio::spawn(one.clone().follow()), tokio::spawn(two.clone().follow())];
        tokio::task::yield_now().await;
        // Both make changes in turn, each from the other's.
        for name in ["a-one", "a-two", "a-three", "a-four"] {
            let (iam, other) = if name.len() == 5 { (&one, &two) } else { (&two, &one) };
            user(iam, name, &[]).await;
            user(other, &format!("{name}-2"), &[]).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        for iam in [&one, &two, &Arc::new(world.iam("root-secret", None).await.unwrap())] {
            for name in ["a-one", "a-two", "a-three", "a-four"] {
                assert!(iam.user(name).is_some() && iam.user(&format!("{name}-2")).is_some(), "{name}");
            }
        }
        followers.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// Of two servers that store when a key was last used, the later time is kept.
#[test]
fn later_use_is_kept() {
    run(async {
        let world = World::new(1).await;
        let one = world.iam("root-secret", None).await.unwrap();
        user(&one, "alice", &[]).await;
        let two = world.iam("root-secret", None).await.unwrap();
        for (iam, at) in [(&one, 2_000), (&two, 1_000)] {
            iam.find("alice").unwrap().used_ms.store(at, Ordering::Relaxed);
        }
        let (a, b) = tokio::join!(one.store_uses(), two.store_uses());
        a.unwrap();
        b.unwrap();
        let three = world.iam("root-secret", None).await.unwrap();
        assert_eq!(three.find("alice").unwrap().used_ms.load(Ordering::Relaxed), 2_000);
    });
}

/// docs/formats.md, "Sealed": every later release must open these bytes.
#[test]
fn golden_bytes() {
    use crate::{AccessKey, Group, Sealer, User};
    let key = Sealer::derive(b"root-secret", &[5; 16], "iam/seal");
    assert_eq!(hex::encode(key), "856f2e9c1064f01a10069b25d3935d0602aa355bc033a3be47a72a42fa7a7a8a");
    let sealed = hex::decode("01000102030405060708090a0bb5387f6e73fc159d827a6ebcd3713331f1b67e712e").unwrap();
    assert_eq!(Sealer::new(&key).open("iam/users/alice", &sealed).unwrap(), b"plain");
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let user = User {
        secret: "s".into(),
        enabled: true,
        policies: set(&["p"]),
        changed_ms: 5,
        revoked_ms: 6,
        id: String::new(),
    };
    let text = r#"{"secret":"s","enabled":true,"policies":["p"],"changed_ms":5,"revoked_ms":6}"#;
    assert_eq!(serde_json::to_string(&user).unwrap(), text);
    assert_eq!(serde_json::from_str::<User>(text).unwrap(), user);
    let group = Group { enabled: true, members: set(&["a"]), policies: set(&[]), changed_ms: 5 };
    let text = r#"{"enabled":true,"members":["a"],"policies":[],"changed_ms":5}"#;
    assert_eq!(serde_json::to_string(&group).unwrap(), text);
    let key = AccessKey {
        secret: "s".into(),
        parent: "a".into(),
        enabled: true,
        made_ms: 1,
        ..AccessKey::default()
    };
    let text = r#"{"secret":"s","parent":"a","enabled":true,"policy":null,"expires_ms":null,"name":"","description":"","made_ms":1,"changed_ms":0}"#;
    assert_eq!(serde_json::to_string(&key).unwrap(), text);
    assert!(serde_json::from_str::<User>(r#"{"secret":"s","enabled":true,"changed_ms":1,"new":1}"#).is_err());
}

fn authenticated(id: &str, groups: &[&str], policies: &[&str]) -> crate::Federated {
    crate::Federated {
        provider: "openid/k".into(),
        id: id.into(),
        groups: names(groups),
        policies: names(policies),
        claims: vec![("sub".into(), names(&["s"]))],
        attributes: Vec::new(),
    }
}

#[test]
fn caller_of_a_long_answer_is_renewed_until_the_credential_ends() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("reader", READ).await.unwrap();
        user(&iam, "alice", &[]).await;
        let hour = Assume { duration_s: 3600, policy: None };
        let session = |of: &str| {
            let s = iam.assume(&iam.find(of).unwrap(), &hour).unwrap();
            iam.session(&s.access_key, &s.token).unwrap()
        };
        world.pass(1);
        let (own, temporary) = (iam.find("alice").unwrap(), session("alice"));
        for who in [&own, &temporary] {
            assert!(!reads(&iam.renewed(who).unwrap()));
        }
        // Policies of now; everything else stays.
        iam.attach(Entity::User("alice"), &names(&["reader"])).await.unwrap();
        for who in [&own, &temporary] {
            let now = iam.renewed(who).unwrap();
            assert!(reads(&now) && now.access_key == who.access_key && now.kind == who.kind);
            assert_eq!(now.expires_ms, who.expires_ms);
        }
        iam.revoke_sessions("alice").await.unwrap();
        assert!(iam.renewed(&temporary).is_none() && iam.renewed(&own).is_some());
        world.pass(1);
        let temporary = session("alice");
        iam.enable_user("alice", false).await.unwrap();
        assert!(iam.renewed(&temporary).is_none() && iam.renewed(&own).is_none());
        iam.enable_user("alice", true).await.unwrap();
        // Sessions of an access key end with it; another secret ends what the old one began.
        let new = NewKey { parent: "alice".into(), access_key: Some("key1".into()), ..NewKey::default() };
        iam.add_key(new).await.unwrap();
        let (key, of_key) = (iam.find("key1").unwrap(), session("key1"));
        assert!(iam.renewed(&key).is_some() && iam.renewed(&of_key).is_some());
        iam.remove_key("key1").await.unwrap();
        assert!(iam.renewed(&key).is_none() && iam.renewed(&of_key).is_none());
        iam.remove_user("alice").await.unwrap();
        iam.put_user("alice", &Secret::new("another-secret"), true).await.unwrap();
        assert!(iam.renewed(&own).is_none(), "the user of that name has another secret");
        let last = session("root");
        world.pass(3_600_000);
        assert!(iam.renewed(&last).is_none() && iam.renewed(&iam.root()).is_some());
    });
}

#[test]
fn federated_session_has_policies_of_claims_provider_and_mappings() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("read", READ).await.unwrap();
        let ask = Assume { duration_s: 3600, policy: None };
        let who = authenticated("openid/k/s", &["cn=g,dc=x"], &["read"]);
        let none = iam.assume_federated(who.clone(), &ask, None).unwrap_err();
        assert!(matches!(none, Error::Token(_)), "nobody is trusted yet");
        let trust = |names: &[&str]| {
            iam.trust(names.iter().map(|n| ((*n).to_owned(), Vec::new())).collect());
        };
        trust(&["openid/k"]);
        let open = |s: &crate::Session| iam.session(&s.access_key, &s.token);
        let s = iam.assume_federated(who.clone(), &ask, None).unwrap();
        let identity = open(&s).unwrap();
        assert!(reads(&identity) && identity.user == "openid/k/s" && !identity.root);
        assert_eq!(identity.principal().who.name(), "FederatedUser");
        trust(&["openid/other"]);
        assert!(open(&s).is_err(), "its provider is no longer configured");
        trust(&["openid/k"]);

        // Mappings of the user and of a group apply immediately.
        let bare =
            iam.assume_federated(authenticated("openid/k/t", &["cn=g,dc=x"], &[]), &ask, None).unwrap();
        assert!(!reads(&open(&bare).unwrap()));
        for entity in [Entity::FederatedUser("openid/k/t"), Entity::FederatedGroup("cn=g,dc=x")] {
            iam.attach(entity, &names(&["read"])).await.unwrap();
            assert!(reads(&open(&bare).unwrap()));
            assert!(matches!(iam.remove_policy("read").await, Err(Error::InUse { .. })));
            iam.detach(entity, &names(&["read"])).await.unwrap();
            assert!(!reads(&open(&bare).unwrap()));
        }
        assert!(iam.mappings().is_empty(), "a record that says nothing is removed");
        iam.trust([("openid/k".to_owned(), names(&["read"]))].into());
        assert!(reads(&open(&bare).unwrap()), "what the provider gives to everybody");
        iam.trust([("openid/k".to_owned(), Vec::new())].into());

        // The same holds for an access key of the user.
        let new = NewKey { parent: "openid/k/s".into(), federated: Some(who.clone()), ..NewKey::default() };
        let (key, _) = iam.add_key(new.clone()).await.unwrap();
        assert!(reads(&iam.find(&key).unwrap()));
        trust(&[]);
        assert!(iam.find(&key).is_none() && open(&s).is_err());
        trust(&["openid/k"]);
        assert!(iam.find(&key).is_some());
        let other = NewKey { parent: "openid/k/t".into(), ..new };
        assert!(matches!(iam.add_key(other).await, Err(Error::Invalid(_))));

        // After a revocation, earlier sessions are refused and later ones are not.
        iam.revoke_sessions("openid/k/s").await.unwrap();
        assert!(open(&s).is_err() && open(&bare).is_ok());
        world.pass(1);
        let again = iam.assume_federated(who.clone(), &ask, Some(1_800_000_010_000)).unwrap();
        assert_eq!(again.expires_ms, 1_800_000_010_000, "not longer than what vouches");
        assert!(open(&again).is_ok());

        // A federated user is never taken for a stored user.
        for id in ["root", "alice", "", "a b"] {
            let e = iam.assume_federated(authenticated(id, &[], &[]), &ask, None).unwrap_err();
            assert!(matches!(e, Error::Invalid(_)), "{id}");
        }
        for (group, name) in [(false, "alice"), (true, ""), (false, "root")] {
            let entity = if group { Entity::FederatedGroup(name) } else { Entity::FederatedUser(name) };
            assert!(iam.attach(entity, &names(&["read"])).await.is_err(), "{name}");
        }

        // Everything survives a restart.
        iam.attach(Entity::FederatedGroup("cn=g,dc=x"), &names(&["read"])).await.unwrap();
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.trust([("openid/k".to_owned(), Vec::new())].into());
        assert!(reads(&iam.session(&bare.access_key, &bare.token).unwrap()) && iam.find(&key).is_some());
        assert!(iam.session(&s.access_key, &s.token).is_err());
    });
}

#[test]
fn users_removed_from_a_directory_lose_keys_and_sessions() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("read", READ).await.unwrap();
        iam.attach(Entity::FederatedGroup("cn=g,dc=x"), &names(&["read"])).await.unwrap();
        iam.trust([("ldap/_".to_owned(), Vec::new()), ("openid/k".to_owned(), Vec::new())].into());
        let ask = Assume { duration_s: 3600, policy: None };
        let who = |id: &str| crate::Federated {
            provider: "ldap/_".into(),
            attributes: vec![("username".into(), names(&["a"]))],
            ..authenticated(id, &["cn=g,dc=x", "cn=h,dc=x"], &[])
        };
        let make = |who| iam.assume_federated(who, &ask, None).unwrap();
        let open = |s: &crate::Session| iam.session(&s.access_key, &s.token);
        let (a, b) = (make(who("uid=a,dc=x")), make(who("uid=b,dc=x")));
        let other = make(authenticated("openid/k/s", &[], &[]));
        let new = |id: &str| NewKey { parent: id.into(), federated: Some(who(id)), ..NewKey::default() };
        let (key_a, _) = iam.add_key(new("uid=a,dc=x")).await.unwrap();
        let (key_b, _) = iam.add_key(new("uid=b,dc=x")).await.unwrap();

        // Each used session is reported once; only sessions of directories are reported.
        assert!(iam.take_seen("ldap/_").is_empty());
        for _ in 0..2 {
            assert!(open(&a).is_ok() && open(&other).is_ok());
        }
        let seen = iam.take_seen("ldap/_");
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0.as_str(), seen[0].1.id.as_str()), (a.access_key.as_str(), "uid=a,dc=x"));
        assert!(iam.take_seen("ldap/_").is_empty() && iam.take_seen("openid/k").is_empty());
        iam.see(&seen[0].0, &seen[0].1);
        assert!(iam.take_seen("ldap/other").is_empty());
        assert_eq!(iam.take_seen("ldap/_").len(), 1);
        let identity = open(&a).unwrap();
        let groups = identity.federated.as_ref().unwrap().attributes.iter().find(|(n, _)| n == "groups");
        assert_eq!(groups.unwrap().1, ["cn=g,dc=x", "cn=h,dc=x"], "ldap:groups");

        // A session's token does not contain the groups twice.
        let mine = NewKey { federated: identity.federated.as_deref().cloned(), ..new("uid=a,dc=x") };
        let (key_c, _) = iam.add_key(mine).await.unwrap();
        let kept = iam.federated_keys("ldap/_").into_iter().find(|(n, _)| *n == key_c).unwrap().1;
        assert_eq!(kept, who("uid=a,dc=x"));
        iam.remove_key(&key_c).await.unwrap();

        // The groups of a key are updated.
        assert_eq!(iam.federated_keys("ldap/_").len(), 2);
        assert!(iam.federated_keys("openid/k").is_empty());
        assert!(reads(&iam.find(&key_a).unwrap()));
        let facts = vec![("mail".to_owned(), names(&["m"]))];
        iam.set_federated_facts(&key_a, &names(&["cn=h,dc=x"]), &facts).await.unwrap();
        assert_eq!(iam.find(&key_a).unwrap().federated.as_ref().unwrap().attributes[0], facts[0]);
        assert!(!reads(&iam.find(&key_a).unwrap()) && reads(&iam.find(&key_b).unwrap()));
        assert!(matches!(iam.set_federated_facts("none", &[], &facts).await, Err(Error::Missing { .. })));

        // A user is removed: their keys and sessions end, those of others do not, and a later session is
        // valid.
        assert_eq!(iam.end_federated("ldap/_", "uid=b,dc=x").await.unwrap(), 1);
        assert!(iam.find(&key_b).is_none() && open(&b).is_err());
        assert!(iam.find(&key_a).is_some() && open(&a).is_ok());
        assert!(!iam.key(&key_b).unwrap().enabled, "it can be enabled again");
        assert_eq!(iam.federated_keys("ldap/_").len(), 1);
        assert_eq!(iam.end_federated("ldap/_", "uid=b,dc=x").await.unwrap(), 0);
        world.pass(1);
        assert!(open(&make(who("uid=b,dc=x"))).is_ok());
    });
}

#[test]
fn settings_are_sealed_bounded_and_announced() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        let mut news = iam.settings_changed();
        let values: crate::Values = [("client_secret".to_owned(), "planted-secret".to_owned())].into();
        iam.put_setting("identity_openid", "k", &values).await.unwrap();
        assert!(news.has_changed().unwrap());
        news.mark_unchanged();
        user(&iam, "alice", &[]).await;
        assert!(!news.has_changed().unwrap(), "users are no settings");
        let bytes = world.slots.bytes();
        assert!(!bytes.windows(14).any(|w| w == b"planted-secret"));
        let iam = world.iam("root-secret", None).await.unwrap();
        assert_eq!(iam.setting("identity_openid", "k").unwrap().values, values);
        assert_eq!(iam.settings("identity_openid").len(), 1);
        assert_eq!(iam.settings("")[0].0, "identity_openid/k");
        assert!(iam.settings("identity").is_empty());
        for (s, t) in [("", "_"), ("a/b", "_"), ("a", ""), ("a", "b c")] {
            assert!(matches!(iam.put_setting(s, t, &values).await, Err(Error::Invalid(_))), "{s} {t}");
        }
        let large = [("k".to_owned(), "v".repeat(crate::limits::SETTING + 1))].into();
        assert!(matches!(iam.put_setting("a", "_", &large).await, Err(Error::Invalid(_))));
        iam.remove_setting("identity_openid", "k").await.unwrap();
        assert!(matches!(iam.remove_setting("identity_openid", "k").await, Err(Error::Missing { .. })));
    });
}

/// The holders of a policy include mappings, roles and claims.
#[test]
fn holders_include_identity_providers() {
    run(async {
        let world = World::new(1).await;
        let iam = world.iam("root-secret", None).await.unwrap();
        iam.put_policy("deny", DENY).await.unwrap();
        assert_eq!(iam.holders("deny"), crate::Holders::default());
        user(&iam, "alice", &["deny"]).await;
        iam.attach(Entity::FederatedUser("openid/k/s"), &names(&["deny"])).await.unwrap();
        iam.attach(Entity::FederatedGroup("cn=g,dc=x"), &names(&["deny"])).await.unwrap();
        let trusted = [
            ("openid/claims".to_owned(), Vec::new()),
            ("openid/role".to_owned(), names(&["deny"])),
            ("certificate/_".to_owned(), Vec::new()),
            ("ldap/_".to_owned(), Vec::new()),
        ];
        iam.trust(trusted.into());
        let holders = iam.holders("deny");
        assert!(holders.is_attached());
        assert_eq!(holders.users, ["alice"]);
        assert_eq!(holders.federated_users, ["openid/k/s"]);
        assert_eq!(holders.federated_groups, ["cn=g,dc=x"]);
        assert_eq!(holders.roles, ["openid/role"]);
        assert_eq!(holders.claims, ["certificate/_", "openid/claims"], "a directory names no policies");
        // Only the role is left: the policy is still in use.
        iam.detach(Entity::User("alice"), &names(&["deny"])).await.unwrap();
        iam.detach(Entity::FederatedUser("openid/k/s"), &names(&["deny"])).await.unwrap();
        iam.detach(Entity::FederatedGroup("cn=g,dc=x"), &names(&["deny"])).await.unwrap();
        assert!(matches!(iam.remove_policy("deny").await, Err(Error::InUse { .. })));
        iam.trust([("ldap/_".to_owned(), Vec::new())].into());
        assert!(!iam.holders("deny").is_attached() && iam.holders("deny").claims.is_empty());
        iam.remove_policy("deny").await.unwrap();
    });
}

/// A key for a purpose is the same in every process of a deployment, and with another root secret.
#[test]
fn keys_for_purposes_are_those_of_the_deployment() {
    run(async {
        let (world, other) = (World::new(1).await, World::new(1).await);
        let sealed = world.iam("root-secret", None).await.unwrap().sealer_for("a").seal("place", b"text");
        let again = world.iam("new-secret", Some("root-secret")).await.unwrap();
        assert_eq!(again.sealer_for("a").open("place", &sealed).as_deref(), Some(&b"text"[..]));
        assert!(again.sealer_for("b").open("place", &sealed).is_none(), "another purpose");
        assert!(again.unseal("place", &sealed).is_none(), "the key of the store is another one");
        let stranger = other.iam("root-secret", None).await.unwrap();
        assert!(stranger.sealer_for("a").open("place", &sealed).is_none(), "another deployment");
    });
}
