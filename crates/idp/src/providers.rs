//! A snapshot of the configured providers.
//!
//! Every kind has a module with the same items: `NAMES` and `SECRETS` of its values, and a `Provider` with
//! `new(target, values, context)`, `trusted()`, `probe()`, `facts()`. Invariants: a target that cannot be
//! used is left out, and the reason is reported; a target with unchanged values keeps its provider with its
//! state (keys, connections).
//!
//! Must not depend on: how a provider is asked.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_iam::{Trusted, Values};

use crate::settings::known_names;
use crate::values::is_enabled;
use crate::{Error, ProviderContext, Shown, Subsystem, certificate, ldap, openid, targets};

/// A provider of any kind.
#[derive(Clone)]
pub(crate) enum Provider {
    OpenId(Arc<openid::Provider>),
    Ldap(Arc<ldap::Provider>),
    Certificate(Arc<certificate::Provider>),
}

impl Provider {
    /// A provider from values with known names that enable it.
    fn new(
        subsystem: Subsystem,
        target: &str,
        values: &Values,
        context: &Arc<ProviderContext>,
    ) -> Result<Provider, Error> {
        Ok(match subsystem {
            Subsystem::OpenId => Provider::OpenId(Arc::new(openid::Provider::new(target, values, context)?)),
            Subsystem::Ldap => Provider::Ldap(Arc::new(ldap::Provider::new(target, values, context)?)),
            Subsystem::Tls => {
                Provider::Certificate(Arc::new(certificate::Provider::new(target, values, context)?))
            }
        })
    }

    /// Its name in `Federated::provider`, and the policies that it gives to all users.
    fn trusted(&self) -> (String, Vec<String>) {
        match self {
            Provider::OpenId(p) => p.trusted(),
            Provider::Ldap(p) => p.trusted(),
            Provider::Certificate(p) => p.trusted(),
        }
    }

    /// Checks with a cheap request that the provider answers.
    pub fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match self {
                Provider::OpenId(p) => p.probe().await,
                Provider::Ldap(p) => p.probe().await,
                Provider::Certificate(p) => p.probe().await,
            }
        })
    }

    /// Information derived from its settings, for administrators.
    fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Provider::OpenId(p) => p.facts(),
            Provider::Ldap(p) => p.facts(),
            Provider::Certificate(p) => p.facts(),
        }
    }
}

/// A provider and the values it was made from.
struct Built {
    values: Values,
    provider: Provider,
}

/// A snapshot of the configured providers.
#[derive(Default)]
pub(crate) struct Providers {
    built: BTreeMap<(Subsystem, String), Built>,
    /// Why a target is not in use.
    problems: BTreeMap<(Subsystem, String), String>,
}

impl Providers {
    /// Loads the current configuration; `before`: the previous snapshot.
    pub fn load(context: &Arc<ProviderContext>, before: &Providers) -> Providers {
        let mut next = Providers::default();
        for subsystem in Subsystem::ALL {
            for target in targets(&context.iam, &context.environment, subsystem.name(), subsystem.names()) {
                let key = (subsystem, target.name.clone());
                let old = before.built.get(&key).filter(|b| b.values == target.values);
                let made = match old.map(|b| b.provider.clone()) {
                    Some(provider) => next.fits(subsystem, &target.name, &provider).map(|()| Some(provider)),
                    None => next.build(context, subsystem, &target.name, &target.values),
                };
                match made {
                    Ok(Some(provider)) => {
                        next.built.insert(key, Built { values: target.values, provider });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let (subsystem, target) = (subsystem.name(), &target.name);
                        tracing::warn!(subsystem, target, %error, "an identity provider cannot be used");
                        next.problems.insert(key, error.to_string());
                    }
                }
            }
        }
        next
    }

    /// A provider from values, if they enable it.
    fn build(
        &self,
        context: &Arc<ProviderContext>,
        subsystem: Subsystem,
        target: &str,
        values: &Values,
    ) -> Result<Option<Provider>, Error> {
        known_names(subsystem, values)?;
        if !is_enabled(values)? {
            return Ok(None);
        }
        let provider = Provider::new(subsystem, target, values, context)?;
        self.fits(subsystem, target, &provider)?;
        Ok(Some(provider))
    }

    /// As [`Providers::build`], for values that are not stored yet. Environment variables override them.
    pub fn build_one(
        &self,
        context: &Arc<ProviderContext>,
        subsystem: Subsystem,
        target: &str,
        values: &Values,
    ) -> Result<Option<Provider>, Error> {
        let mut values = values.clone();
        let all = targets(&context.iam, &context.environment, subsystem.name(), subsystem.names());
        if let Some(now) = all.iter().find(|t| t.name == target) {
            for name in &now.fixed {
                values.insert(name.clone(), now.values[name].clone());
            }
        }
        self.build(context, subsystem, target, &values)
    }

    /// Refuses a provider that could not be distinguished from another one.
    fn fits(&self, subsystem: Subsystem, target: &str, provider: &Provider) -> Result<(), Error> {
        let others = self.built.iter().filter(|((s, t), _)| *s == subsystem && t != target);
        for ((_, name), other) in others {
            if let (Provider::OpenId(a), Provider::OpenId(b)) = (provider, &other.provider) {
                a.apart_from(b).map_err(|why| Error::Invalid(format!("{why} as for \"{name}\"")))?;
            }
        }
        Ok(())
    }

    /// For [`ashlar_iam::Iam::trust`].
    pub fn trusted(&self) -> Trusted {
        self.built.values().map(|b| b.provider.trusted()).collect()
    }

    /// The providers of OpenID Connect, in order of names.
    pub fn openid(&self) -> Vec<Arc<openid::Provider>> {
        let of = |b: &Built| match &b.provider {
            Provider::OpenId(p) => Some(p.clone()),
            _ => None,
        };
        self.built.values().filter_map(of).collect()
    }

    /// The providers of LDAP, in order of names.
    pub fn ldap(&self) -> Vec<Arc<ldap::Provider>> {
        let of = |b: &Built| match &b.provider {
            Provider::Ldap(p) => Some(p.clone()),
            _ => None,
        };
        self.built.values().filter_map(of).collect()
    }

    /// The provider of client certificates.
    pub fn certificate(&self) -> Option<Arc<certificate::Provider>> {
        self.built.values().find_map(|b| match &b.provider {
            Provider::Certificate(p) => Some(p.clone()),
            _ => None,
        })
    }

    /// See [`crate::Idp::shown`].
    pub fn shown(&self, context: &ProviderContext, subsystem: Subsystem) -> Vec<Shown> {
        let all = targets(&context.iam, &context.environment, subsystem.name(), subsystem.names());
        all.into_iter()
            .map(|target| {
                let key = (subsystem, target.name.clone());
                let built = self.built.get(&key);
                Shown {
                    enabled: built.is_some(),
                    problem: self.problems.get(&key).cloned(),
                    facts: built.map(|b| b.provider.facts()).unwrap_or_default(),
                    target: target.redacted(subsystem),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, values};
    use crate::{Error, Subsystem};

    #[tokio::test]
    async fn environment_overrides_and_invalid_target_does_not_affect_others() {
        let variables = [
            ("MINIO_IDENTITY_OPENID_CONFIG_URL_A", "https://a.test/.well-known/openid-configuration"),
            ("ASHLAR_IDENTITY_OPENID_CLIENT_ID_A", "of-the-environment"),
            ("ASHLAR_IDENTITY_OPENID_CLIENT_SECRET_A", "planted-secret"),
            ("ASHLAR_IDENTITY_OPENID_VENDOR_B", "keycloak"),
        ];
        let world = World::with(Vec::new(), &variables).await;
        world.put("identity_openid", "a", &[("client_id", "stored"), ("role_policy", "readonly")]).await;
        world.put("identity_openid", "c", &[("nonsense", "1")]).await;
        let shown = world.idp.shown(Subsystem::OpenId);
        let of = |name: &str| shown.iter().find(|s| s.target.name == name).unwrap();
        let a = of("a");
        assert!(a.enabled && a.problem.is_none());
        assert_eq!(a.target.values["client_id"], "of-the-environment");
        assert_eq!(a.target.values["client_secret"], "*redacted*");
        assert_eq!(a.target.values["role_policy"], "readonly");
        assert_eq!(a.target.fixed, ["config_url", "client_id", "client_secret"]);
        for (name, why) in [("b", "vendor"), ("c", "nonsense")] {
            assert!(!of(name).enabled);
            assert!(of(name).problem.as_ref().unwrap().contains(why));
        }
        // The check uses the effective values: the address from the environment, which does not answer.
        let pairs = values(&[("config_url", "https://b.test/.well-known/openid-configuration")]);
        let why = world.idp.check(Subsystem::OpenId, "a", &pairs).await.unwrap_err();
        assert!(matches!(why, Error::Unreachable(_)), "{why}");
        assert_eq!(world.web.times("https://a.test/.well-known/openid-configuration"), 1);
        assert_eq!(world.web.times("https://b.test/.well-known/openid-configuration"), 0);
    }
}
