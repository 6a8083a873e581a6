//! The administration API for settings that are changed while the server runs.
//!
//! | request | document |
//! |---|---|
//! | `GET settings` | the stored settings, those of the environment, and all subsystems with their names |
//! | `GET settings/SUBSYSTEM/TARGET` | |
//! | `PUT settings/SUBSYSTEM/TARGET` | `{"values": {"name": "value"}}`: other values stay; an empty value is removed |
//! | `DELETE settings/SUBSYSTEM/TARGET` | |
//!
//! Subsystems and names are MinIO's. A subsystem that has only one target calls it `_`.
//!
//! Invariants: settings that affect authentication or audit are changed only by callers who can do
//! everything; a secret value is never returned: [`HIDDEN`] is returned instead, and a change with this value
//! keeps the secret; an unknown name is refused, and values that the subsystem cannot use are not stored.
//!
//! Must not depend on: the effect of values.

use std::pin::Pin;
use std::sync::Arc;

use ashlar_iam::{DEFAULT_TARGET, Error, Iam, Setting, Values};
use ashlar_idp::{Idp, Subsystem as Provider};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::admin_request::{AdminRequest, AdminResult, Refusal, bad_request};
use super::api::{self, settings as shape};
use super::heal_limits;
use super::identities::require_full;
use super::notify;
use super::table::Route;

/// Asks a subsystem whether it accepts these values for a target; the error says why not.
pub type Check = Arc<dyn Fn(String, String, Values) -> Later + Send + Sync>;

/// The answer, after the provider was asked.
pub type Later = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Replaces a secret in answers.
pub(crate) const HIDDEN: &str = ashlar_idp::REDACTED;

/// A name of a setting.
pub(crate) struct Name {
    /// As in MinIO.
    pub(crate) name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Whether its value is never returned.
    pub(crate) secret: bool,
}

/// A subsystem with settings.
pub(crate) struct Subsystem {
    /// As in MinIO.
    pub(crate) name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Whether there can be several targets.
    pub several: bool,
    /// Its settings.
    pub names: &'static [Name],
}

/// A setting whose value is returned.
pub(crate) const fn name(name: &'static str, help: &'static str) -> Name {
    Name { name, help, secret: false }
}

/// A setting whose value is secret.
pub(crate) const fn secret(name: &'static str, help: &'static str) -> Name {
    Name { name, help, secret: true }
}

/// Whether the target is in use.
pub(crate) const ENABLE: Name = name("enable", "\"off\" keeps the settings without using them");
/// A comment for administrators.
pub(crate) const COMMENT: Name = name("comment", "a comment");

/// All subsystems.
pub(crate) const SUBSYSTEMS: &[Subsystem] = &[
    Subsystem {
        name: "identity_openid",
        help: "users of an OpenID Connect provider",
        several: true,
        names: &[
            ENABLE,
            name("display_name", "display name of the provider"),
            name("config_url", "address of the provider's discovery document"),
            name("client_id", "this server's identifier at the provider"),
            secret("client_secret", "this server's secret at the provider"),
            name("claim_name", "the claim that names policies"),
            name("claim_userinfo", "\"on\": also read claims from the provider's userinfo endpoint"),
            name("role_policy", "policies of all users of this provider, separated by commas"),
            name("claim_prefix", "prefix of the claim's name"),
            name("redirect_uri", "where the provider sends browsers back to"),
            name("redirect_uri_dynamic", "\"on\": derive that address from the request"),
            name(
                "post_logout_redirect_uri",
                "where the provider sends browsers after a sign-out there; it has to allow this address",
            ),
            name("scopes", "scopes to request, separated by commas"),
            name("vendor", "vendor of the provider, for its extensions"),
            name("keycloak_realm", "Keycloak's realm"),
            name("keycloak_admin_url", "Keycloak's administration address"),
            name("user_readable_claim", "the claim with a name for people"),
            name("user_id_claim", "the claim that identifies a user"),
            name("jwks_url", "of MinIO's earlier releases"),
            COMMENT,
        ],
    },
    Subsystem {
        name: "identity_ldap",
        help: "users of an LDAP directory",
        several: false,
        names: &[
            ENABLE,
            name("server_addr", "HOST:PORT of the directory"),
            name("srv_record_name", "the name of the DNS record that has the directory's addresses"),
            name("lookup_bind_dn", "the account for lookups"),
            secret("lookup_bind_password", "password"),
            name("user_dn_search_base_dn", "base DNs of users, separated by semicolons"),
            name("user_dn_search_filter", "filter for a user; %s is the login name"),
            name("user_dn_attributes", "attributes of users for policies, separated by commas"),
            name(
                "group_search_filter",
                "filter for the groups of a user; %s is the login name, %d the distinguished name",
            ),
            name("group_search_base_dn", "base DNs of groups, separated by semicolons"),
            name("tls_skip_verify", "\"on\": accept any certificate of the directory"),
            name("server_insecure", "\"on\": without TLS"),
            name("server_starttls", "\"on\": TLS after StartTLS"),
            COMMENT,
            name("username_format", "of MinIO's earlier releases"),
            name("sts_expiry", "of MinIO's earlier releases"),
            name("tls_ca", "file with the certificate authorities of the directory"),
            name("group_search_nested", "\"on\": also use groups of groups"),
            name("check_interval", "time between checks whether users still exist"),
        ],
    },
    Subsystem {
        name: "identity_tls",
        help: "users with a certificate",
        several: false,
        names: &[ENABLE, name("skip_verify", "\"on\": accept certificates of any authority"), COMMENT],
    },
    heal_limits::HEAL,
    notify::WEBHOOK,
    notify::KAFKA,
    notify::NATS,
    notify::AMQP,
    notify::MQTT,
    notify::REDIS,
    notify::POSTGRES,
    notify::MYSQL,
    notify::ELASTICSEARCH,
    notify::NSQ,
];

impl Subsystem {
    /// The subsystem with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Subsystem> {
        SUBSYSTEMS.iter().find(|s| s.name == name)
    }

    /// The description of a setting.
    pub(crate) fn known(&self, name: &str) -> Option<&'static Name> {
        self.names.iter().find(|n| n.name == name)
    }
}

/// Names and values. Other values stay; an empty value is removed.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = SettingOrder)]
pub(crate) struct Order {
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    values: Values,
}

/// Answers a request about settings.
pub(crate) async fn answer(
    iam: Option<&Arc<Iam>>,
    idp: &Idp,
    check: &Check,
    req: &AdminRequest,
) -> AdminResult {
    let Some(iam) = iam else {
        return Err(Error::Unavailable("this server has no settings".into()).into());
    };
    req.need(req.route.actions(), false)?;
    if req.route == Route::SettingList {
        let settings = iam
            .settings("")
            .iter()
            .filter_map(|(key, s)| key.split_once('/').map(|(subsystem, target)| shown(subsystem, target, s)))
            .collect();
        let subsystems = SUBSYSTEMS.iter().map(described).collect();
        let environment = of_environment(idp);
        return Ok((StatusCode::OK, api::value(shape::SettingList { settings, environment, subsystems })));
    }
    let (subsystem, target) = req.name.split_once('/').unwrap_or((&req.name, DEFAULT_TARGET));
    let known = Subsystem::find(subsystem).ok_or_else(|| unknown(subsystem))?;
    if !known.several && target != DEFAULT_TARGET {
        return Err(bad_request(format!("{subsystem} exists once: its target is {DEFAULT_TARGET}")));
    }
    let before = iam.setting(subsystem, target);
    let missing = || Refusal::from(Error::Missing { what: "setting", name: format!("{subsystem}:{target}") });
    match req.route {
        Route::SettingPut => {
            require_full(req, "Changing settings")?;
            let order: Order = req.document()?;
            let values = merged(known, before.map(|b| b.values.clone()).unwrap_or_default(), order.values)?;
            check(subsystem.to_owned(), target.to_owned(), values.clone()).await.map_err(bad_request)?;
            iam.put_setting(subsystem, target, &values).await?;
        }
        Route::SettingRemove => {
            require_full(req, "Changing settings")?;
            iam.remove_setting(subsystem, target).await?;
            let (subsystem, target) = (subsystem.to_owned(), target.to_owned());
            let gone = shape::SettingRemoved { subsystem, target, removed: true };
            return Ok((StatusCode::OK, api::value(gone)));
        }
        _ => {}
    }
    let setting = iam.setting(subsystem, target).ok_or_else(missing)?;
    Ok((StatusCode::OK, api::value(shown(subsystem, target, &setting))))
}

/// What the environment sets, in order.
fn of_environment(idp: &Idp) -> Vec<shape::EnvironmentSetting> {
    let mut all = Vec::new();
    for kind in Provider::ALL {
        for found in idp.shown(kind).into_iter().map(|shown| shown.target).filter(|t| !t.fixed.is_empty()) {
            let fixed = found.values.iter().filter(|(name, _)| found.fixed.contains(name));
            let values = fixed.map(|(n, v)| (n.clone(), v.clone())).collect();
            all.push((kind.name().to_owned(), found.name, values));
        }
    }
    // A variable that cannot be read stopped the start of the server.
    for configured in notify::environment().unwrap_or_default() {
        let subsystem = configured.id.kind.subsystem().to_owned();
        all.push((subsystem, configured.id.id, configured.values));
    }
    let shown = |(subsystem, target, values): (String, String, Values)| {
        let values = redacted(&subsystem, &values);
        shape::EnvironmentSetting { subsystem, target, values }
    };
    all.into_iter().map(shown).collect()
}

fn unknown(subsystem: &str) -> Refusal {
    let all: Vec<_> = SUBSYSTEMS.iter().map(|s| s.name).collect();
    bad_request(format!("\"{subsystem}\" cannot be configured here; there are {}", all.join(", ")))
}

/// The values after a change.
fn merged(subsystem: &Subsystem, mut values: Values, change: Values) -> Result<Values, Refusal> {
    for (name, value) in change {
        let known = subsystem.known(&name).ok_or_else(|| {
            let all: Vec<_> = subsystem.names.iter().map(|n| n.name).collect();
            bad_request(format!("{} has no setting \"{name}\"; it has {}", subsystem.name, all.join(", ")))
        })?;
        if value.chars().any(|c| c.is_control() && c != '\n') {
            return Err(bad_request(format!("{name} holds control characters")));
        }
        if name == "enable" && !matches!(value.as_str(), "" | "on" | "off") {
            return Err(bad_request("enable is \"on\" or \"off\""));
        }
        if known.secret && value == HIDDEN {
            continue;
        }
        match value.is_empty() {
            true => values.remove(&name),
            false => values.insert(name, value),
        };
    }
    Ok(values)
}

/// A setting with its secrets redacted.
fn shown(subsystem: &str, target: &str, setting: &Setting) -> shape::Setting {
    let values = redacted(subsystem, &setting.values);
    let (subsystem, target) = (subsystem.to_owned(), target.to_owned());
    shape::Setting { subsystem, target, values, changed_ms: setting.changed_ms }
}

fn redacted(subsystem: &str, values: &Values) -> Values {
    let known = Subsystem::find(subsystem);
    // A name that the subsystem no longer has may have been a secret.
    let hidden = |n: &str| known.and_then(|s| s.known(n)).is_none_or(|n| n.secret);
    let one = |(n, v): (&String, &String)| (n.clone(), if hidden(n) { HIDDEN.to_owned() } else { v.clone() });
    values.iter().map(one).collect()
}

fn described(s: &Subsystem) -> shape::Subsystem {
    let names = s.names.iter().map(|n| shape::SettingName { name: n.name, help: n.help, secret: n.secret });
    shape::Subsystem { name: s.name, help: s.help, several: s.several, names: names.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn setting_change_keeps_other_values_and_redacted_secrets() {
        let s = Subsystem::find("identity_openid").unwrap();
        let before = values(&[("client_secret", "x"), ("client_id", "c"), ("vendor", "v")]);
        let change =
            values(&[("client_secret", HIDDEN), ("client_id", "d"), ("vendor", ""), ("enable", "off")]);
        let after = merged(s, before, change).unwrap();
        assert_eq!(after, values(&[("client_secret", "x"), ("client_id", "d"), ("enable", "off")]));
        assert!(merged(s, Values::new(), values(&[("client_secret", HIDDEN)])).unwrap().is_empty());
        for bad in [("nosuch", "x"), ("enable", "yes"), ("scopes", "a\0b")] {
            assert!(merged(s, Values::new(), values(&[bad])).is_err(), "{bad:?}");
        }
        let setting = Setting { values: after, changed_ms: 1 };
        let text = api::value(shown("identity_openid", "_", &setting)).to_string();
        assert!(text.contains(HIDDEN) && !text.contains("\"x\""), "{text}");
        let setting = Setting { values: values(&[("a", "secret")]), changed_ms: 1 };
        let text = api::value(shown("gone", "_", &setting)).to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}
