//! How [`Load`] is read: all fields of all its kinds, then those of the kind that `loop` names.
//!
//! Serde's own reading of a tagged enum first keeps every field in a form of serde's, and compiles the types of the fields for that
//! form again.
//!
//! Invariant: what is read is what is written; unknown fields are ignored. Must not depend on: files.

use serde::Deserialize;

use super::Load;

/// The kinds.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Loop {
    Closed,
    Open,
}

/// A load as it is written.
#[derive(Deserialize)]
pub(super) struct Fields {
    r#loop: Loop,
    concurrency: Option<u32>,
    rate_per_s: Option<f64>,
    arrivals: Option<String>,
    limit: Option<u32>,
}

impl TryFrom<Fields> for Load {
    type Error = &'static str;

    fn try_from(of: Fields) -> Result<Load, &'static str> {
        match of.r#loop {
            Loop::Closed => {
                let concurrency = of.concurrency.ok_or("a closed load without `concurrency`")?;
                Ok(Load::Closed { concurrency })
            }
            Loop::Open => Ok(Load::Open {
                rate_per_s: of.rate_per_s.ok_or("an open load without `rate_per_s`")?,
                arrivals: of.arrivals.ok_or("an open load without `arrivals`")?,
                limit: of.limit.ok_or("an open load without `limit`")?,
            }),
        }
    }
}
