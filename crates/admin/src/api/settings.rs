//! Settings, identity providers, and sign-in with a browser. No answer contains a secret.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// The stored values of a target.
#[derive(Serialize, ToSchema)]
pub struct Setting {
    pub subsystem: String,
    /// `_` for a subsystem with one target.
    pub target: String,
    /// Values; `*redacted*` replaces a secret.
    pub values: BTreeMap<String, String>,
    /// When it was changed, in milliseconds since 1970.
    pub changed_ms: i64,
}

/// The stored settings, and all subsystems.
#[derive(Serialize, ToSchema)]
pub struct SettingList {
    pub settings: Vec<Setting>,
    /// Values that the environment of the answering node sets. They override stored values and cannot be changed here.
    pub environment: Vec<EnvironmentSetting>,
    pub subsystems: Vec<Subsystem>,
}

/// Values of a target that the server's environment sets.
#[derive(Serialize, ToSchema)]
pub struct EnvironmentSetting {
    pub subsystem: String,
    /// `_` for a subsystem with one target.
    pub target: String,
    /// Values; `*redacted*` replaces a secret.
    pub values: BTreeMap<String, String>,
}

/// A subsystem with settings.
#[derive(Serialize, ToSchema)]
pub struct Subsystem {
    pub name: &'static str,
    pub help: &'static str,
    /// Whether there can be several targets.
    pub several: bool,
    pub names: Vec<SettingName>,
}

/// A setting of a subsystem.
#[derive(Serialize, ToSchema)]
pub struct SettingName {
    pub name: &'static str,
    pub help: &'static str,
    /// Whether its value is never returned.
    pub secret: bool,
}

/// A removed setting.
#[derive(Serialize, ToSchema)]
pub struct SettingRemoved {
    pub subsystem: String,
    pub target: String,
    pub removed: bool,
}

/// An identity provider.
#[derive(Serialize, ToSchema)]
pub struct Provider {
    /// `openid`, `ldap` or `tls`.
    pub kind: String,
    /// `_` for the provider without a name.
    pub name: String,
    /// Whether it is in use.
    pub enabled: bool,
    /// Why it is not in use although it is enabled.
    pub problem: Option<String>,
    /// Values; `*redacted*` replaces a secret.
    pub values: BTreeMap<String, String>,
    /// Names of values that the server's environment sets and that cannot be changed here.
    pub environment: Vec<String>,
    /// Values derived from the settings, for instance `role_arn`.
    pub facts: BTreeMap<String, String>,
}

/// All identity providers of a kind.
#[derive(Serialize, ToSchema)]
pub struct ProviderList {
    pub providers: Vec<Provider>,
}

/// A removed identity provider.
#[derive(Serialize, ToSchema)]
pub struct ProviderRemoved {}

/// The providers for sign-in with a browser.
#[derive(Serialize, ToSchema)]
pub struct SignInChoices {
    pub providers: Vec<SignInChoice>,
}

/// A provider for sign-in with a browser.
#[derive(Serialize, ToSchema)]
pub struct SignInChoice {
    pub name: String,
    pub display_name: String,
    /// The address to send the browser to.
    pub url: String,
}

/// Temporary credentials.
#[derive(Serialize, ToSchema)]
pub struct Session {
    pub access_key: String,
    pub secret: String,
    pub token: String,
    /// Milliseconds since 1970.
    pub expires_ms: i64,
    pub user: String,
}

/// The result of a sign-in that was only tried: one of the three is there.
#[derive(Serialize, ToSchema, Default)]
pub struct SignInTest {
    /// Where a browser has to go.
    pub url: Option<String>,
    /// Who it is.
    pub identity: Option<TestedIdentity>,
    /// Why it was refused.
    pub problem: Option<String>,
}

/// Somebody whose identity a provider has confirmed, and what they could do here.
#[derive(Serialize, ToSchema)]
pub struct TestedIdentity {
    /// The name under which policies are attached.
    pub name: String,
    /// `openid/NAME` or `ldap/NAME`.
    pub provider: String,
    /// The provider's name for them.
    pub subject: String,
    pub issuer: String,
    pub groups: Vec<String>,
    /// Claims that policies can test as `jwt:*`.
    pub claims: BTreeMap<String, Vec<String>>,
    /// Attributes that policies can test as `ldap:*`.
    pub attributes: BTreeMap<String, Vec<String>>,
    /// Policies that the claims name, whether they exist or not.
    pub claimed_policies: Vec<String>,
    /// The policies that would apply.
    pub policies: Vec<String>,
    /// Whether they could sign in: only with a policy.
    pub admitted: bool,
}
