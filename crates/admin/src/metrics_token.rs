//! Bearer tokens with which metrics are read.
//!
//! Invariant: a token is accepted only if it is the server's own, or signed with the secret of a key whose owner may read
//! metrics.
//!
//! Must not depend on: what metrics there are.

use ashlar_node::clock::now_ms;
use ashlar_policy::{Action, BucketRules, Context as Facts, Request as Question, decide};
use ashlar_s3::Service;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{self, HeaderMap};
use serde::Deserialize;

/// The server's own token.
pub struct MetricsToken(String);

impl MetricsToken {
    /// Derived from root's secret: the same on all nodes.
    pub fn new(service: &Service) -> MetricsToken {
        let secret = service.verifier().keys.root_derived(b"ashlar metrics token 1");
        MetricsToken(secret.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// The token.
    pub fn text(&self) -> String {
        self.0.clone()
    }

    /// Whether a request carries a token that may read metrics.
    pub fn permits(&self, service: &Service, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.strip_prefix("Bearer ")).map(str::trim);
        given.is_some_and(|t| {
            ashlar_checksum::ct_eq(t.as_bytes(), self.0.as_bytes()) || is_prometheus_token(service, t)
        })
    }
}

/// Whether a token is one that `mc admin prometheus generate` makes: a JWT (HS512) that names an access key and is signed
/// with its secret. The owner of the key must have permission to read metrics.
fn is_prometheus_token(service: &Service, token: &str) -> bool {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    // Not verified yet: the claim only says which secret has to verify the token.
    let claims = token.split('.').nth(1).and_then(|c| URL_SAFE_NO_PAD.decode(c).ok());
    let named = claims.and_then(|c| serde_json::from_slice::<Claims>(&c).ok());
    let Some(Claims { sub }) = named else { return false };
    let keys = &service.verifier().keys;
    let root = keys.root();
    let caller = match keys.iam() {
        _ if sub == root.access_key => Some(root),
        Some(iam) => iam.find(&sub),
        None => None,
    };
    let Some(caller) = caller.filter(|w| !w.access_key.is_empty()) else { return false };
    let secret = jsonwebtoken::DecodingKey::from_secret(caller.secret.expose().as_bytes());
    let proved = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS512);
    if jsonwebtoken::decode::<Claims>(token, &secret, &proved).is_err() {
        return false;
    }
    let (principal, facts) = (caller.principal(), Facts { now_ms: now_ms(), ..Facts::default() });
    let question = Question::new(Action::AdminPrometheus, "", "", &principal, &facts);
    decide(&question, &caller.authority(BucketRules::default(), false)).allowed
}
