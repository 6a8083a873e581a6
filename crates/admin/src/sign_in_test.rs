//! `POST idp/KIND/NAME/test`: a sign-in whose result is shown instead of given. Nobody is signed in by it.
//!
//! | KIND | document | answer |
//! |---|---|---|
//! | `openid` | `{"origin": "https://HOST"}` | `{"url"}`: where a browser has to go; it comes back to the console |
//! | `openid` | `{"code", "state"}`, which the browser brought back; or `{"token"}`, an id token | who it is |
//! | `ldap` | `{"username", "password"}` | who it is |
//!
//! Who it is: the name under which policies are attached, groups, claims or attributes, and the policies that would apply.
//! A refusal is an answer too, with its reason: unlike in a sign-in, where the reason is only in the log, because anybody
//! may try.
//!
//! Invariants: no credential is made; passwords, codes and tokens are neither logged nor returned; the provider is asked
//! as in a sign-in, with its limits.
//!
//! Must not depend on: how a provider is asked.

use ashlar_iam::{Authenticated, Authenticator as _, Refused};
use ashlar_idp::{SignIn, Subsystem};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, bad_request};
use super::api::{self, settings as shape};
use super::providers::{ProviderAdmin, named, no_such};

/// What to try. The members are those of one of the ways.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SignInTestOrder {
    /// The address of the console in the browser; the answer is where the browser has to go.
    origin: Option<String>,
    /// What the browser brought back.
    code: Option<String>,
    /// What the browser brought back.
    state: Option<String>,
    /// An id token.
    token: Option<String>,
    /// A name in the directory.
    username: Option<String>,
    /// Its password.
    password: Option<String>,
}

/// Answers a request. The caller has checked the permission.
pub(crate) async fn answer(providers: &ProviderAdmin, req: &AdminRequest) -> AdminResult {
    let (kind, name) = named(&req.name)?;
    let order: SignInTestOrder = req.document()?;
    let idp = providers.idp();
    if !idp.shown(kind).iter().any(|p| p.target.name == name) {
        return Err(no_such(kind, name));
    }
    let tried = match (kind, order) {
        (Subsystem::OpenId, SignInTestOrder { origin: Some(origin), .. }) => {
            return Ok(match idp.begin_sign_in(name, &origin).await {
                Ok(url) => answered(shape::SignInTest { url: Some(url), ..shape::SignInTest::default() }),
                Err(why) => refused(&why),
            });
        }
        (Subsystem::OpenId, SignInTestOrder { code: Some(code), state: Some(state), .. }) => {
            idp.sign_in(&SignIn { code, state }).await
        }
        (Subsystem::OpenId, SignInTestOrder { token: Some(token), .. }) => {
            idp.web_identity(&token, None, None).await
        }
        (Subsystem::Ldap, SignInTestOrder { username: Some(username), password: Some(password), .. }) => {
            idp.ldap(&username, &password).await
        }
        (Subsystem::OpenId, _) => {
            return Err(bad_request("send the origin of the console, a code with its state, or a token"));
        }
        (Subsystem::Ldap, _) => return Err(bad_request("send a username and its password")),
        (Subsystem::Tls, _) => {
            return Err(bad_request(
                "a certificate is tried by connecting with it: see docs/identity-certificates.md",
            ));
        }
    };
    Ok(match tried {
        Ok(found) => {
            let of = format!("{}/{name}", kind.name().trim_start_matches("identity_"));
            if found.who.provider != of {
                return Err(bad_request(format!("this is of {}, not of {of}", found.who.provider)));
            }
            answered(shape::SignInTest {
                identity: Some(shown(providers, found)),
                ..shape::SignInTest::default()
            })
        }
        Err(why) => refused(&why),
    })
}

fn answered(answer: shape::SignInTest) -> (StatusCode, serde_json::Value) {
    (StatusCode::OK, api::value(answer))
}

fn refused(why: &Refused) -> (StatusCode, serde_json::Value) {
    answered(shape::SignInTest { problem: Some(why.to_string()), ..shape::SignInTest::default() })
}

/// Who somebody is, and what they could do.
fn shown(providers: &ProviderAdmin, found: Authenticated) -> shape::TestedIdentity {
    let identity = providers.federated(&found.who);
    let policies = identity.map(|i| i.policy_names).unwrap_or_default();
    let facts = |facts: &ashlar_iam::Facts| facts.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
    shape::TestedIdentity {
        name: found.who.id.clone(),
        provider: found.who.provider.clone(),
        subject: found.subject,
        issuer: found.issuer,
        groups: found.who.groups.clone(),
        claims: facts(&found.who.claims),
        attributes: facts(&found.who.attributes),
        claimed_policies: found.who.policies.clone(),
        admitted: !policies.is_empty(),
        policies,
    }
}
