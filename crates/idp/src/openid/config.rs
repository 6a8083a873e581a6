//! Settings of one provider, with MinIO's names.
//!
//! Invariants: an unsupported setting is refused with an error that names it; the issuer follows from
//! `config_url` (OpenID Connect Discovery 1.0, section 4.3), so that it is known before the provider is
//! asked.
//!
//! Must not depend on: answers of a provider.

use ashlar_iam::Values;
use ashlar_outbound::Url;
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::Error;
use crate::values::{filled, list, switch};

/// Names of values.
pub(crate) const NAMES: &[&str] = &[
    "enable",
    "comment",
    "display_name",
    "config_url",
    "client_id",
    "client_secret",
    "claim_name",
    "claim_prefix",
    "claim_userinfo",
    "role_policy",
    "scopes",
    "redirect_uri",
    "redirect_uri_dynamic",
    "post_logout_redirect_uri",
    // Not supported: see REFUSED.
    "vendor",
    "keycloak_realm",
    "keycloak_admin_url",
    "user_id_claim",
    "user_readable_claim",
    "jwks_url",
];

/// Names of values that are never shown.
pub(crate) const SECRETS: &[&str] = &["client_secret"];

/// Settings of MinIO that are not supported.
const REFUSED: [(&str, &str); 6] = [
    ("vendor", "the administration API of the provider is not used"),
    ("keycloak_realm", "Keycloak's administration API is not asked whether a user is still enabled"),
    ("keycloak_admin_url", "Keycloak's administration API is not asked whether a user is still enabled"),
    ("user_id_claim", "users are identified by sub"),
    ("user_readable_claim", "users are shown by sub"),
    ("jwks_url", "the address of the keys comes from the document at config_url"),
];

const DOCUMENT: &str = "/.well-known/openid-configuration";
const MAX: usize = 2048;

/// The settings of a provider.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config_url: String,
    /// `config_url` without the document's name and without a slash at the end.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// The claim with policies, the prefix in front of it.
    pub claim: String,
    pub userinfo: bool,
    /// Policies for all users; if set, claims give no policies.
    pub role_policies: Vec<String>,
    pub scopes: Vec<String>,
    pub redirect_uri: Option<String>,
    pub redirect_dynamic: bool,
    /// Where the provider sends a browser that signed out there.
    pub post_logout_redirect_uri: Option<String>,
    pub display_name: Option<String>,
}

fn wrong(why: impl Into<String>) -> Error {
    Error::Invalid(why.into())
}

impl Settings {
    /// Parses values whose names are known.
    ///
    /// # Errors
    /// A message about the first invalid value.
    pub fn parse(values: &Values) -> Result<Settings, Error> {
        for (name, why) in REFUSED {
            if filled(values, name).is_some() {
                return Err(wrong(format!("{name} is not supported: {why}")));
            }
        }
        if let Some((name, _)) = values.iter().find(|(_, v)| v.len() > MAX || v.chars().any(char::is_control))
        {
            return Err(wrong(format!("{name} is longer than {MAX} bytes or holds control characters")));
        }
        let config_url = filled(values, "config_url").ok_or_else(|| wrong("config_url is missing"))?;
        let url = Url::parse(config_url).map_err(|e| wrong(format!("config_url: {e}")))?;
        let base = config_url.strip_suffix(DOCUMENT).filter(|_| url.path.query().is_none());
        let base = base.ok_or_else(|| wrong(format!("config_url must end in {DOCUMENT}")))?;
        let client_id = filled(values, "client_id").ok_or_else(|| wrong("client_id is missing"))?;
        let role_policies = list(filled(values, "role_policy").unwrap_or_default());
        let claim_name = filled(values, "claim_name");
        if !role_policies.is_empty() && claim_name.is_some_and(|c| c != "policy") {
            return Err(wrong(
                "role_policy and claim_name exclude each other: policies come from one of them",
            ));
        }
        let prefix = filled(values, "claim_prefix").unwrap_or_default();
        let address = |name: &str| {
            let found = filled(values, name);
            let parsed = found.map_or(Ok(()), |uri| Url::parse(uri).map(|_| ()));
            parsed.map_err(|e| wrong(format!("{name}: {e}"))).map(|()| found.map(str::to_owned))
        };
        let redirect_uri = address("redirect_uri")?;
        let post_logout_redirect_uri = address("post_logout_redirect_uri")?;
        let scopes = list(filled(values, "scopes").unwrap_or_default());
        if !scopes.is_empty() && !scopes.iter().any(|s| s == "openid") {
            return Err(wrong("scopes must include openid"));
        }
        Ok(Settings {
            config_url: config_url.to_owned(),
            issuer: base.trim_end_matches('/').to_owned(),
            client_id: client_id.to_owned(),
            client_secret: filled(values, "client_secret").map(str::to_owned),
            claim: format!("{prefix}{}", claim_name.unwrap_or("policy")),
            userinfo: switch(values, "claim_userinfo", false)?,
            role_policies,
            scopes,
            redirect_uri,
            redirect_dynamic: switch(values, "redirect_uri_dynamic", false)?,
            post_logout_redirect_uri,
            display_name: filled(values, "display_name").map(str::to_owned),
        })
    }

    /// The id of the role of all users of this provider, if policies come from `role_policy`. It is derived
    /// from the client id as in MinIO, so that a `RoleArn` of MinIO still works.
    pub fn role(&self) -> Option<String> {
        if self.role_policies.is_empty() {
            return None;
        }
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, self.client_id.as_bytes());
        Some(URL_SAFE_NO_PAD.encode(hash))
    }

    /// Whether the provider may name an endpoint with this address.
    pub fn takes(&self, endpoint: &str) -> bool {
        Url::parse(endpoint).is_ok_and(|url| url.https || !self.config_url.starts_with("https:"))
    }
}

/// The role's id in `arn:minio:iam:REGION::role/ID`; other ARNs select no provider, as in MinIO.
pub fn role_of(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:minio:iam:")?;
    let (_region, rest) = rest.split_once(':')?;
    rest.strip_prefix(":role/").filter(|id| *id != "dummy-internal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let mut values: Values = [
            ("config_url", "https://id.example/realms/r/.well-known/openid-configuration"),
            ("client_id", "minio"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .into();
        values.extend(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        Settings::parse(&values).map_err(|e| e.to_string())
    }

    #[test]
    fn settings_are_parsed_and_give_the_role() {
        let s = parse(&[("claim_prefix", "https://x/"), ("claim_name", "p")]).unwrap();
        assert_eq!((s.issuer.as_str(), s.claim.as_str()), ("https://id.example/realms/r", "https://x/p"));
        assert!(s.role().is_none());
        assert!(s.takes("https://a/b") && !s.takes("http://a/b") && !s.takes("file:///etc/passwd"));
        let s = parse(&[("role_policy", "readonly, ,diagnostics"), ("claim_name", "policy")]).unwrap();
        assert_eq!(s.role_policies, ["readonly", "diagnostics"]);
        // printf minio | openssl sha1 -binary | basenc --base64url
        assert_eq!(s.role().as_deref(), Some("MHR2BeH2-q1dHO2yx5U9Mf-tP9Q"));
        for (arn, id) in [
            ("arn:minio:iam:::role/abc", Some("abc")),
            ("arn:minio:iam:eu::role/abc", Some("abc")),
            ("arn:minio:iam:::role/dummy-internal", None),
            ("arn:minio:iam::role/abc", None),
            ("arn:aws:iam::1:role/abc", None),
        ] {
            assert_eq!(role_of(arn), id, "{arn}");
        }
    }

    #[test]
    fn unsupported_settings_are_refused_with_their_name() {
        for (name, value) in [
            ("vendor", "keycloak"),
            ("keycloak_realm", "r"),
            ("keycloak_admin_url", "https://x/"),
            ("user_id_claim", "email"),
            ("jwks_url", "https://x/"),
            ("config_url", ""),
            ("config_url", "https://id.example/"),
            ("config_url", "https://u:p@id.example/.well-known/openid-configuration"),
            ("config_url", "ftp://id.example/.well-known/openid-configuration"),
            ("client_id", " "),
            ("claim_userinfo", "maybe"),
            ("redirect_uri", "nowhere"),
            ("scopes", "profile"),
        ] {
            let why = parse(&[(name, value)]).unwrap_err();
            assert!(why.contains(name), "{name}: {why}");
        }
        assert!(parse(&[("role_policy", "a"), ("claim_name", "b")]).is_err());
    }
}
