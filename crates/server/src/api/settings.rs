//! Settings, identity providers, and signing in with a browser. Secrets are never answered.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// What a subsystem's target is set to.
#[derive(Serialize, ToSchema)]
pub struct Setting {
    pub subsystem: String,
    /// `_` where there is only one.
    pub target: String,
    /// `*redacted*` stands for a secret.
    pub values: BTreeMap<String, String>,
    /// Milliseconds since 1970.
    pub changed_ms: i64,
}

/// What is set, and what can be.
#[derive(Serialize, ToSchema)]
pub struct SettingList {
    pub settings: Vec<Setting>,
    pub subsystems: Vec<Subsystem>,
}

/// Something that can be configured.
#[derive(Serialize, ToSchema)]
pub struct Subsystem {
    pub name: &'static str,
    pub help: &'static str,
    /// There can be several, each under a target of its own.
    pub several: bool,
    pub names: Vec<SettingName>,
}

/// A name that a subsystem has.
#[derive(Serialize, ToSchema)]
pub struct SettingName {
    pub name: &'static str,
    pub help: &'static str,
    /// It is never shown.
    pub secret: bool,
}

/// A setting is gone.
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
    /// `_` for the one without a name.
    pub name: String,
    /// It is in use.
    pub enabled: bool,
    /// Why it is not, although it should be.
    pub problem: Option<String>,
    /// `*redacted*` stands for a secret.
    pub values: BTreeMap<String, String>,
    /// Names of values that come from the server's environment and cannot be changed here.
    pub environment: Vec<String>,
    /// What follows from the values, for instance `role_arn`.
    pub facts: BTreeMap<String, String>,
}

/// All identity providers of a kind.
#[derive(Serialize, ToSchema)]
pub struct ProviderList {
    pub providers: Vec<Provider>,
}

/// An identity provider is gone.
#[derive(Serialize, ToSchema)]
pub struct ProviderRemoved {}

/// Where a browser's user can sign in.
#[derive(Serialize, ToSchema)]
pub struct SignInChoices {
    pub providers: Vec<SignInChoice>,
}

/// A provider that a browser's user can sign in with.
#[derive(Serialize, ToSchema)]
pub struct SignInChoice {
    pub name: String,
    pub display_name: String,
    /// Where to send the browser.
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
