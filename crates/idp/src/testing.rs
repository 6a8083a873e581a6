//! For tests: users in memory, a settable clock, providers that answer from a table, signing keys.

use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_cluster::{Control, Embedded, MemoryMedium};
use ashlar_format::DeploymentId;
use ashlar_iam::{Iam, Root, Secret, Values};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Environment, Idp, ProviderContext, Web, WebAnswer, WebAsk, Within};

pub const START_S: i64 = 1_800_000_000;

pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Answers from a table and records the requests.
#[derive(Default)]
pub struct Table {
    pub answers: Mutex<HashMap<String, (u16, String)>>,
    pub asked: Mutex<Vec<WebAsk>>,
}

impl Table {
    pub fn say(&self, url: &str, status: u16, body: impl ToString) {
        self.answers.lock().insert(url.to_owned(), (status, body.to_string()));
    }

    pub fn times(&self, url: &str) -> usize {
        self.asked.lock().iter().filter(|a| a.url == url).count()
    }
}

impl Web for Table {
    fn ask(&self, ask: WebAsk) -> Within<'_> {
        let answer = self.answers.lock().get(&ask.url).cloned();
        self.asked.lock().push(ask);
        Box::pin(async move {
            let (status, body) = answer.ok_or("connection refused")?;
            Ok(WebAnswer { status, body: body.into() })
        })
    }
}

/// A deployment in which providers can be configured.
pub struct World {
    pub iam: Arc<Iam>,
    pub web: Arc<Table>,
    pub now_ms: Arc<AtomicI64>,
    pub idp: Arc<Idp>,
    control: Control,
    context: ProviderContext,
}

impl World {
    pub fn new(authorities: Vec<Vec<u8>>) -> BoxFuture<'static, World> {
        Box::pin(async move { World::with(authorities, &[]).await })
    }

    pub fn with<'a>(authorities: Vec<Vec<u8>>, variables: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, World> {
        Box::pin(async move {
            let control = Embedded::create(DeploymentId([3; 16]), MemoryMedium::one_drive(), Vec::new())
                .await
                .unwrap()
                .control();
            let root = root();
            let now_ms = Arc::new(AtomicI64::new(START_S * 1000));
            let shown = now_ms.clone();
            let clock: crate::Clock = Arc::new(move || shown.load(Ordering::SeqCst));
            let iam = Arc::new(Iam::open(control.clone(), root, None, clock.clone()).await.unwrap());
            let web = Arc::new(Table::default());
            let environment = Environment::new(values(variables));
            let context =
                ProviderContext { iam: iam.clone(), environment, web: web.clone(), clock, authorities };
            World { iam, web, now_ms, idp: Idp::new(context.clone()), control, context }
        })
    }

    /// Another process of the same deployment, whose clock is so many seconds ahead.
    pub fn other_process(&self, ahead_s: i64) -> BoxFuture<'_, Arc<Idp>> {
        Box::pin(async move {
            let (root, shown) = (root(), self.now_ms.clone());
            let clock: crate::Clock = Arc::new(move || shown.load(Ordering::SeqCst) + ahead_s * 1000);
            let iam = Iam::open(self.control.clone(), root, None, clock.clone()).await.unwrap();
            Idp::new(ProviderContext { iam: Arc::new(iam), clock, ..self.context.clone() })
        })
    }

    pub fn put<'a>(
        &'a self,
        subsystem: &'a str,
        target: &'a str,
        pairs: &'a [(&'a str, &'a str)],
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.iam.put_setting(subsystem, target, &values(pairs)).await.unwrap();
            self.idp.reload();
        })
    }

    pub fn now_s(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst) / 1000
    }

    pub fn pass(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

fn root() -> Root {
    Root { access_key: "root".into(), secret: Secret::new("root-secret-of-the-test") }
}

pub fn values(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

enum Secrets {
    Rsa(Box<RsaKey>, &'static dyn signature::RsaEncoding),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key of a provider.
pub struct Signer {
    pub id: String,
    pub algorithm: &'static str,
    secrets: Secrets,
    /// The public key as the provider publishes it.
    pub jwk: Value,
}

impl Signer {
    pub fn new(algorithm: &'static str, id: &str) -> Signer {
        use signature::*;
        let rsa = |encoding: &'static dyn RsaEncoding| {
            let pair = RsaKey::generate(KeySize::Rsa2048).unwrap();
            // RSAPublicKey (RFC 8017, A.1.1): two lengths of 4 bytes, a zero, then the modulus.
            let modulus = b64(&pair.public_key().as_ref()[9..9 + 256]);
            (Secrets::Rsa(Box::new(pair), encoding), json!({"kty": "RSA", "n": modulus, "e": "AQAB"}))
        };
        let ec = |how: &'static EcdsaSigningAlgorithm, curve: &str, len: usize| {
            let pair = EcdsaKeyPair::generate(how).unwrap();
            let point = pair.public_key().as_ref().to_vec();
            let (x, y) = (b64(&point[1..=len]), b64(&point[1 + len..]));
            (Secrets::Ec(pair), json!({"kty": "EC", "crv": curve, "x": x, "y": y}))
        };
        let (secrets, mut jwk) = match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS384" => rsa(&RSA_PKCS1_SHA384),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "PS384" => rsa(&RSA_PSS_SHA384),
            "PS512" => rsa(&RSA_PSS_SHA512),
            "ES256" => ec(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256", 32),
            "ES384" => ec(&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384", 48),
            "EdDSA" => {
                let pair = Ed25519KeyPair::generate().unwrap();
                let x = b64(pair.public_key().as_ref());
                (Secrets::Ed(pair), json!({"kty": "OKP", "crv": "Ed25519", "x": x}))
            }
            other => panic!("{other}"),
        };
        jwk["kid"] = json!(id);
        jwk["use"] = json!("sig");
        Signer { id: id.to_owned(), algorithm, secrets, jwk }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.secrets {
            Secrets::Rsa(pair, encoding) => {
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message, &mut out).unwrap();
                out
            }
            Secrets::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Secrets::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    pub fn header(&self) -> Value {
        json!({"alg": self.algorithm, "kid": self.id, "typ": "JWT"})
    }

    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", b64(signature))
    }
}
