//! Tokens that are accepted and tokens that must not be, with generated keys and a provider that answers from
//! a table.

use ashlar_iam::{Authenticated, Authenticator as _, Refused};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::SignIn;
use crate::testing::{START_S, Signer, World, b64, values};
use crate::{Error, Subsystem};

const ISSUER: &str = "https://id.test/realms/r";
const CONFIG: &str = "https://id.test/realms/r/.well-known/openid-configuration";
const JWKS: &str = "https://id.test/realms/r/keys";
const POLICY: &[u8] =
    br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::*"}]}"#;

fn publish(world: &World, keys: &[&Signer]) {
    let keys: Vec<&Value> = keys.iter().map(|k| &k.jwk).collect();
    world.web.say(JWKS, 200, json!({ "keys": keys }));
}

fn document() -> Value {
    json!({
        "issuer": ISSUER, "jwks_uri": JWKS,
        "authorization_endpoint": "https://id.test/auth", "token_endpoint": "https://id.test/token",
        "userinfo_endpoint": "https://id.test/me", "scopes_supported": ["openid", "offline_access", "email"],
    })
}

async fn world(keys: &[&Signer], more: &[(&str, &str)]) -> World {
    let world = World::new(Vec::new()).await;
    world.web.say(CONFIG, 200, document());
    publish(&world, keys);
    for name in ["a", "b"] {
        world.iam.put_policy(name, POLICY).await.unwrap();
    }
    let mut pairs =
        vec![("config_url", CONFIG), ("client_id", "ashlar"), ("client_secret", "planted-secret")];
    pairs.extend(more);
    world.put("identity_openid", "k", &pairs).await;
    world
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": "ashlar", "sub": "u-1", "exp": START_S + 300, "iat": START_S,
        "policy": "a,b,none", "groups": ["staff", "x y"], "email": "u@x.test",
    })
}

/// The claims with some of them changed; null removes one.
fn with(changes: Value) -> Value {
    let mut all = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => all.as_object_mut().unwrap().remove(name),
            other => all.as_object_mut().unwrap().insert(name.clone(), other.clone()),
        };
    }
    all
}

async fn ask(world: &World, token: &str) -> Result<Authenticated, Refused> {
    world.idp.web_identity(token, None, None).await
}

async fn denied(world: &World, what: &str, token: &str) {
    let got = ask(world, token).await;
    assert!(matches!(got, Err(Refused::Denied(_))), "{what}: {got:?}");
}

#[tokio::test]
async fn tokens_of_every_algorithm_are_accepted() {
    let names = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    let signers: Vec<Signer> = names.into_iter().map(|a| Signer::new(a, &format!("key-{a}"))).collect();
    let world = world(&signers.iter().collect::<Vec<_>>(), &[]).await;
    for signer in &signers {
        let got = ask(&world, &signer.token(&claims())).await;
        let who = got.unwrap_or_else(|e| panic!("{}: {e}", signer.algorithm)).who;
        assert_eq!((who.provider.as_str(), who.id.as_str()), ("openid/k", "openid/k/u-1"));
        assert_eq!(who.policies, ["a", "b"], "what does not exist is left out");
        assert_eq!(who.groups, ["openid/k/staff", "openid/k/x y"]);
        assert!(who.claims.contains(&("email".into(), vec!["u@x.test".into()])));
    }
    assert_eq!((world.web.times(CONFIG), world.web.times(JWKS)), (1, 1));
    let got = ask(&world, &signers[0].token(&claims())).await.unwrap();
    assert_eq!((got.subject.as_str(), got.audience.as_str(), got.issuer.as_str()), ("u-1", "ashlar", ISSUER));
}

#[tokio::test]
async fn mutated_tokens_are_refused() {
    let signer = Signer::new("RS256", "one");
    let ec = Signer::new("ES256", "two");
    let world = world(&[&signer, &ec], &[]).await;
    let header = signer.header();
    let head = |changes: Value| {
        let mut all = header.clone();
        for (name, value) in changes.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    };
    for (what, changes) in [
        ("no exp", json!({"exp": null})),
        ("exp as text", json!({"exp": "never"})),
        ("exp beyond numbers", json!({"exp": 1e300})),
        ("negative exp", json!({"exp": -1})),
        ("no iss", json!({"iss": null})),
        ("other iss", json!({"iss": "https://id.test/realms/s"})),
        ("iss with a slash more", json!({"iss": format!("{ISSUER}/")})),
        ("no aud", json!({"aud": null})),
        ("other aud", json!({"aud": "ashlar2"})),
        ("aud as object", json!({"aud": {"ashlar": 1}})),
        ("other azp among several", json!({"aud": ["ashlar", "b"], "azp": "b"})),
        ("no sub", json!({"sub": null})),
        ("empty sub", json!({"sub": ""})),
        ("sub as number", json!({"sub": 5})),
        ("long sub", json!({"sub": "x".repeat(256)})),
        ("sub with control characters", json!({"sub": "a\nb"})),
        ("not yet (nbf)", json!({"nbf": START_S + 60})),
        ("not yet (iat)", json!({"iat": START_S + 60})),
        ("claims without end", json!({"more": vec!["x".repeat(50); 200]})),
    ] {
        denied(&world, what, &signer.token(&with(changes))).await;
    }
    for (what, token) in [
        (
            "alg none",
            format!("{}.{}.", b64(head(json!({"alg": "none"})).to_string()), b64(claims().to_string())),
        ),
        ("another algorithm of RSA", signer.token_with(&head(json!({"alg": "RS512"})), &claims())),
        ("an algorithm of another kind", signer.token_with(&head(json!({"alg": "ES256"})), &claims())),
        ("unknown algorithm", signer.token_with(&head(json!({"alg": "XS256"})), &claims())),
        ("the key of another", signer.token_with(&head(json!({"kid": "two"})), &claims())),
        ("no such key", signer.token_with(&head(json!({"kid": "three"})), &claims())),
        ("critical extension", signer.token_with(&head(json!({"crit": ["b64"], "b64": false})), &claims())),
        ("empty", String::new()),
        ("two parts", "e30.e30".into()),
        ("four parts", format!("{}.x", signer.token(&claims()))),
        ("too long", signer.token(&with(json!({"more": "x".repeat(20_000)})))),
    ] {
        denied(&world, what, &token).await;
    }
    // HMAC with public data as the secret: the public key, in its common forms.
    let n = signer.jwk["n"].as_str().unwrap().to_owned();
    for secret in [n.clone(), signer.jwk.to_string(), "planted-secret".into()] {
        for kid in ["one", "ashlar"] {
            let head = head(json!({"alg": "HS256", "kid": kid}));
            let message = format!("{}.{}", b64(head.to_string()), b64(claims().to_string()));
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let token = format!("{message}.{}", b64(hmac::sign(&key, message.as_bytes())));
            denied(&world, "HS256", &token).await;
        }
    }
    // A key inside the token is ignored.
    let stranger = Signer::new("RS256", "one");
    let brought =
        head(json!({"jku": "https://evil.test/k", "x5u": "https://evil.test/c", "jwk": stranger.jwk}));
    denied(&world, "own key", &stranger.token_with(&brought, &claims())).await;
    assert!(!world.web.asked.lock().iter().any(|a| a.url.contains("evil")));
    ask(&world, &signer.token_with(&brought, &claims())).await.unwrap();
    // Several audiences are accepted if the authorized party is this client or is missing.
    ask(&world, &signer.token(&with(json!({"aud": ["x", "ashlar"]})))).await.unwrap();
    ask(&world, &signer.token(&with(json!({"aud": ["x", "ashlar"], "azp": "ashlar"})))).await.unwrap();
}

#[tokio::test]
async fn every_changed_byte_of_a_token_is_detected() {
    let signer = Signer::new("ES256", "one");
    let world = world(&[&signer], &[]).await;
    let token = signer.token(&claims());
    ask(&world, &token).await.unwrap();
    for at in 0..token.len() {
        let mut bad = token.clone().into_bytes();
        bad[at] = if bad[at] == b'A' { b'B' } else { b'A' };
        let got = ask(&world, std::str::from_utf8(&bad).unwrap()).await;
        assert!(matches!(got, Err(Refused::Denied(_))), "byte {at}: {got:?}");
        assert!(ask(&world, &token[..at]).await.is_err(), "cut at {at}");
    }
}

#[tokio::test]
async fn expired_tokens_are_refused() {
    let signer = Signer::new("EdDSA", "one");
    let world = world(&[&signer], &[]).await;
    let token = signer.token(&claims());
    world.pass(300 + super::token::LEEWAY_S - 1);
    ask(&world, &token).await.unwrap();
    world.pass(1);
    assert_eq!(ask(&world, &token).await.unwrap_err(), Refused::Expired);
    // An expired forged token is refused as forged, not as expired.
    let stranger = Signer::new("EdDSA", "one");
    denied(&world, "forged and expired", &stranger.token(&claims())).await;
}

#[tokio::test]
async fn key_rotation_is_followed_with_few_requests() {
    let (old, new) = (Signer::new("ES256", "old"), Signer::new("ES256", "new"));
    let world = world(&[&old], &[]).await;
    let fresh = |s: &Signer, w: &World| {
        let now = w.now_ms.load(std::sync::atomic::Ordering::SeqCst) / 1000;
        s.token(&with(json!({"exp": now + 300, "iat": now})))
    };
    ask(&world, &fresh(&old, &world)).await.unwrap();
    world.pass(20);
    for i in 0..500 {
        let forged = Signer::token_with(&old, &json!({"alg": "ES256", "kid": format!("k{i}")}), &claims());
        denied(&world, "forged key id", &forged).await;
    }
    assert_eq!(world.web.times(JWKS), 2, "asked once more, not 500 times");
    // The provider replaces its key.
    publish(&world, &[&new]);
    world.pass(20);
    ask(&world, &fresh(&new, &world)).await.unwrap();
    denied(&world, "a dropped key", &fresh(&old, &world)).await;
    // A removed key without a new one is noticed when the keys are requested again.
    publish(&world, &[&old]);
    world.pass(16 * 60);
    denied(&world, "a dropped key", &fresh(&new, &world)).await;
    // While the provider does not answer, its last keys are valid for a day.
    world.web.answers.lock().clear();
    world.pass(3600);
    ask(&world, &fresh(&old, &world)).await.unwrap();
    world.pass(25 * 3600);
    let got = ask(&world, &fresh(&old, &world)).await;
    assert!(matches!(got, Err(Refused::Unavailable(_))), "{got:?}");
}

#[tokio::test]
async fn tokens_are_assigned_to_their_provider() {
    let (one, two) = (Signer::new("ES256", "same"), Signer::new("ES256", "same"));
    let world = world(&[&one], &[]).await;
    let other = "https://other.test";
    let config = format!("{other}/.well-known/openid-configuration");
    world.web.say(&config, 200, json!({"issuer": other, "jwks_uri": "https://other.test/k"}));
    world.web.say("https://other.test/k", 200, json!({"keys": [two.jwk]}));
    let pairs = [("config_url", config.as_str()), ("client_id", "minio"), ("role_policy", "a")];
    world.put("identity_openid", "roles", &pairs).await;
    let at_other = with(json!({"iss": other, "aud": "minio", "policy": "b"}));
    // By issuer and audience; a token signed with the other provider's key is refused.
    let who = ask(&world, &two.token(&at_other)).await.unwrap().who;
    assert_eq!((who.id.as_str(), who.policies.len()), ("openid/roles/u-1", 0), "the role alone counts");
    assert_eq!(world.iam.federated(&who).unwrap().policies.len(), 1);
    denied(&world, "the key of the other", &one.token(&at_other)).await;
    denied(&world, "the key of the other", &two.token(&claims())).await;
    // By role.
    let role = "arn:minio:iam:::role/MHR2BeH2-q1dHO2yx5U9Mf-tP9Q";
    let (here, there) = (one.token(&claims()), two.token(&at_other));
    assert!(world.idp.web_identity(&there, None, Some(role)).await.is_ok());
    let nobody = world.idp.web_identity(&here, None, Some(role)).await.unwrap_err();
    let nowhere = world.idp.web_identity(&here, None, Some("arn:minio:iam:::role/x")).await.unwrap_err();
    assert_eq!(nobody, nowhere, "alike, whether there is such a role or not");
    assert!(world.idp.web_identity(&here, None, Some("arn:aws:iam::1:role/any")).await.is_ok());
    let shown = world.idp.shown(Subsystem::OpenId);
    assert_eq!(shown[1].facts[1], ("role_arn", role.to_owned()));
    assert_eq!(shown[0].target.values["client_secret"], "*redacted*");
    // Two providers with the same client and issuer are refused, because tokens do not distinguish them.
    let twice = values(&[("config_url", CONFIG), ("client_id", "ashlar")]);
    let why = world.idp.check(Subsystem::OpenId, "k2", &twice);
    assert!(matches!(why.await, Err(Error::Invalid(_))));
    // Disabling a provider revokes its users immediately, and does not affect others.
    world.put("identity_openid", "roles", &[("enable", "off")]).await;
    denied(&world, "a provider that is off", &there).await;
    assert!(world.iam.federated(&who).is_none());
    ask(&world, &here).await.unwrap();
    world.put("identity_openid", "k", &[("enable", "off")]).await;
    assert_eq!(ask(&world, &here).await.unwrap_err(), Refused::Unconfigured);
}

#[tokio::test]
async fn check_of_settings_asks_the_provider() {
    let signer = Signer::new("ES256", "one");
    let world = world(&[&signer], &[]).await;
    let good = values(&[("config_url", CONFIG), ("client_id", "other")]);
    world.idp.check(Subsystem::OpenId, "n", &good).await.unwrap();
    let check = async |document: Value| {
        world.web.say(CONFIG, 200, document);
        world.idp.check(Subsystem::OpenId, "n", &good).await.unwrap_err().to_string()
    };
    let mut other = document();
    other["issuer"] = json!("https://evil.test");
    assert!(check(other).await.contains("must be from"));
    let mut plain = document();
    plain["jwks_uri"] = json!("http://id.test/keys");
    assert!(check(plain).await.contains("cannot be used"), "no keys without TLS");
    assert!(check(json!([])).await.contains("not understood"));
    world.web.answers.lock().clear();
    assert!(matches!(world.idp.check(Subsystem::OpenId, "n", &good).await, Err(Error::Unreachable(_))));
    let unknown = values(&[("config_ur", CONFIG)]);
    assert!(matches!(world.idp.check(Subsystem::OpenId, "n", &unknown).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn access_token_adds_claims_of_the_userinfo_endpoint() {
    let signer = Signer::new("ES256", "one");
    let world = world(&[&signer], &[("claim_userinfo", "on"), ("claim_name", "realm.roles")]).await;
    let token = signer.token(&with(json!({"policy": null})));
    world.web.say(
        "https://id.test/me",
        200,
        json!({"sub": "u-1", "realm": {"roles": ["b"]}, "email": "evil"}),
    );
    denied(&world, "no access token", &token).await;
    let who = world.idp.web_identity(&token, Some("opens"), None).await.unwrap().who;
    assert_eq!(who.policies, ["b"]);
    assert!(who.claims.contains(&("email".into(), vec!["u@x.test".into()])), "the token goes first");
    assert_eq!(world.web.asked.lock().last().unwrap().authorization.as_deref(), Some("Bearer opens"));
    world.web.say("https://id.test/me", 200, json!({"sub": "u-2", "realm": {"roles": ["a"]}}));
    let got = world.idp.web_identity(&token, Some("opens"), None).await;
    assert!(matches!(got, Err(Refused::Denied(_))), "somebody else's access token: {got:?}");
    world.web.say("https://id.test/me", 503, "");
    let got = world.idp.web_identity(&token, Some("opens"), None).await;
    assert!(matches!(got, Err(Refused::Unavailable(_))), "{got:?}");
}

fn parameter(url: &str, name: &str) -> String {
    let query = url.split_once('?').unwrap().1;
    query.split('&').find_map(|p| p.strip_prefix(&format!("{name}="))).unwrap().to_owned()
}

#[tokio::test]
async fn signing_out_at_the_provider() {
    let signer = Signer::new("ES256", "one");
    let after = "https://console.test/console/";
    let ends_at = |endpoint: Value| {
        let mut document = document();
        document["end_session_endpoint"] = endpoint;
        document
    };
    // A provider that has no such endpoint, or one without TLS, which is not used: tokens of it are accepted all the same.
    for no in [document(), ends_at(Value::Null), ends_at(json!("http://id.test/end"))] {
        let world = world(&[&signer], &[]).await;
        world.web.say(CONFIG, 200, no);
        assert_eq!(world.idp.sign_out_url("k").await.unwrap(), None);
        ask(&world, &signer.token(&claims())).await.unwrap();
    }
    let at_provider = async |more: &[(&str, &str)]| {
        let world = world(&[&signer], more).await;
        world.web.say(CONFIG, 200, ends_at(json!("https://id.test/end?realm=r")));
        assert!(matches!(world.idp.sign_out_url("other").await, Err(Refused::Unconfigured)));
        world.idp.sign_out_url("k").await.unwrap().unwrap()
    };
    assert_eq!(at_provider(&[]).await, "https://id.test/end?realm=r&client_id=ashlar");
    let url = at_provider(&[("post_logout_redirect_uri", after)]).await;
    assert_eq!(parameter(&url, "post_logout_redirect_uri"), "https%3A%2F%2Fconsole.test%2Fconsole%2F");
}

#[tokio::test]
async fn signing_in_with_a_browser() {
    let signer = Signer::new("ES256", "one");
    let world = world(&[&signer], &[("redirect_uri_dynamic", "on"), ("display_name", "The House")]).await;
    let choice = world.idp.choices("https://console.test").await.remove(0);
    assert_eq!((choice.name.as_str(), choice.display_name.as_str()), ("k", "The House"));
    let of = |name: &str| parameter(&choice.url, name);
    assert!(choice.url.starts_with("https://id.test/auth?response_type=code&client_id=ashlar&"));
    assert_eq!(of("redirect_uri"), "https%3A%2F%2Fconsole.test%2Foauth_callback");
    assert_eq!((of("scope").as_str(), of("code_challenge_method").as_str()), ("openid%20email", "S256"));
    let answer = |nonce: &str| {
        let id = signer.token(&with(json!({ "nonce": nonce })));
        world.web.say("https://id.test/token", 200, json!({"id_token": id, "access_token": "x"}));
    };
    answer(&of("nonce"));
    let back = SignIn { code: "c/1".into(), state: of("state") };
    assert_eq!(world.idp.sign_in(&back).await.unwrap().subject, "u-1");
    let sent = world.web.asked.lock().iter().find(|a| a.form.is_some()).unwrap().clone();
    let sent_form = sent.form.unwrap();
    let verifier = sent_form.split("code_verifier=").nth(1).unwrap();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, verifier.as_bytes());
    assert_eq!(b64(digest), of("code_challenge"));
    assert!(
        sent_form.starts_with("grant_type=authorization_code&code=c%2F1&redirect_uri=https%3A%2F%2Fconsole")
    );
    assert_eq!(sent.authorization.as_deref(), Some("Basic YXNobGFyOnBsYW50ZWQtc2VjcmV0"));
    // Another nonce, another state, a state that is too old, a code that is not taken.
    answer("another");
    assert!(matches!(world.idp.sign_in(&back).await, Err(Refused::Denied(_))));
    answer(&of("nonce"));
    for state in [String::new(), "x".into(), b64([1; 99]), of("state").replace('a', "b").replace('A', "B")] {
        let got = world.idp.sign_in(&SignIn { code: "c".into(), state }).await;
        assert!(matches!(got, Err(Refused::Denied(_))));
    }
    world.web.say("https://id.test/token", 400, json!({"error": "invalid_grant"}));
    assert!(matches!(world.idp.sign_in(&back).await, Err(Refused::Denied(_))));
    answer(&of("nonce"));
    world.pass(600);
    assert!(matches!(world.idp.sign_in(&back).await, Err(Refused::Denied(_))));
}

/// The second node is a process of its own, whose clock may differ.
#[tokio::test]
async fn a_sign_in_begun_at_one_node_is_completed_at_another() {
    let signer = Signer::new("ES256", "one");
    let world = world(&[&signer], &[("redirect_uri_dynamic", "on")]).await;
    // Seconds of the hour at which it begins: keys are those of an hour.
    for (begun_s, ahead_s) in [(1800, 0), (3599, 1), (3599, 50), (0, -50), (3300, 301)] {
        world.pass((begun_s - world.now_s()).rem_euclid(3600));
        let other = world.other_process(ahead_s).await;
        let choice = world.idp.choices("https://console.test").await.remove(0);
        let of = |name: &str| parameter(&choice.url, name);
        let lives = json!({ "nonce": of("nonce"), "iat": world.now_s() - 100, "exp": world.now_s() + 900 });
        world.web.say("https://id.test/token", 200, json!({ "id_token": signer.token(&with(lives)) }));
        let back = SignIn { code: "c".into(), state: of("state") };
        assert_eq!(other.sign_in(&back).await.unwrap().subject, "u-1", "{begun_s} {ahead_s}");
        world.pass(600 - ahead_s);
        let late = other.sign_in(&back).await;
        assert!(matches!(&late, Err(Refused::Denied(why)) if why.contains("too old")), "{late:?}");
    }
}
