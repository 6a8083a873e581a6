//! OpenID Connect: not here yet.

use std::sync::Arc;

use ashlar_iam::{Refused, Values, Vouched};

use crate::{Around, Error};

pub(crate) const NAMES: &[&str] = &["enable"];
pub(crate) const SECRETS: &[&str] = &["client_secret"];

/// One provider.
pub(crate) struct Provider {}

impl Provider {
    pub fn new(_target: &str, _values: &Values, _around: &Arc<Around>) -> Result<Provider, Error> {
        Err(Error::Invalid("not here yet".into()))
    }
    pub fn trusted(&self) -> (String, Vec<String>) {
        ("openid/_".into(), Vec::new())
    }
    pub async fn probe(&self) -> Result<(), Error> {
        Ok(())
    }
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    pub fn apart_from(&self, _other: &Provider) -> Result<(), String> {
        Ok(())
    }
}

/// A way to sign in.
pub struct Choice {}
/// What came back.
pub struct SignIn {}

/// Signing in.
pub(crate) struct Desk {}

impl Desk {
    pub fn new() -> Desk {
        Desk {}
    }
    pub async fn choices(&self, _providers: &[Arc<Provider>], _origin: &str, _now_ms: i64) -> Vec<Choice> {
        Vec::new()
    }
    pub async fn sign_in(
        &self,
        _providers: &[Arc<Provider>],
        _back: &SignIn,
        _now_ms: i64,
    ) -> Result<Vouched, Refused> {
        Err(Refused::Unconfigured)
    }
}

pub(crate) async fn vouch(
    _providers: &[Arc<Provider>],
    _token: &str,
    _access_token: Option<&str>,
    _role: Option<&str>,
) -> Result<Vouched, Refused> {
    Err(Refused::Unconfigured)
}
