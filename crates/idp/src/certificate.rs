//! Client certificates: not here yet.

use std::sync::Arc;

use ashlar_iam::{Refused, Values, Vouched};

use crate::{Around, Error};

pub(crate) const NAMES: &[&str] = &["enable"];
pub(crate) const SECRETS: &[&str] = &[];

/// The authorities that vouch.
pub(crate) struct Provider {}

impl Provider {
    pub fn new(_target: &str, _values: &Values, _around: &Arc<Around>) -> Result<Provider, Error> {
        Err(Error::Invalid("not here yet".into()))
    }
    pub fn trusted(&self) -> (String, Vec<String>) {
        ("certificate/_".into(), Vec::new())
    }
    pub async fn probe(&self) -> Result<(), Error> {
        Ok(())
    }
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    pub fn vouch(&self, _chain: &[Vec<u8>], _now_ms: i64) -> Result<Vouched, Refused> {
        Err(Refused::Unconfigured)
    }
}
