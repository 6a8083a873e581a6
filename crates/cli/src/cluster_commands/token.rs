//! `ashlar cluster token`: a token with which one new node joins.
//!
//! Invariant: only the token goes to the standard output, so that a script can read it.

use ashlar_client::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::alias::alias_or_only;
use crate::admin_request::{ask_with, understand};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::find::age;

/// A new token.
#[derive(Args, Debug)]
pub struct TokenOptions {
    /// The alias of any node; may be left out if there is only one alias
    alias: Option<String>,
    /// How long it can be used: 90s, 15m, 1h; at most 24h
    #[arg(long, value_name = "TIME", default_value = "1h")]
    lifetime: String,
}

#[derive(Deserialize)]
struct Token {
    token: String,
    expires: String,
}

/// Makes a token and prints it.
pub async fn token(options: TokenOptions, context: &Context) -> Outcome {
    let lifetime = lifetime(&options.lifetime)?;
    let alias = alias_or_only(options.alias, &context.aliases)?;
    let order = json!({ "lifetime_s": lifetime });
    let answer = ask_with(context, &alias, Method::POST, "cluster/tokens", &[], Some(&order)).await?;
    let made: Token = understand(&answer)?;
    context.output.result(|| answer, || made.token.clone());
    context.output.note(&format!(
        "One node can join with it until {}:\n  ashlar server --join TOKEN --control etcd://... --cluster NAME --address HOST:PORT DRIVES",
        made.expires
    ));
    Ok(())
}

/// Seconds; 1 to 24 hours.
fn lifetime(text: &str) -> Outcome<i64> {
    let bad = |why: String| Failure::usage(format!("--lifetime {why}"));
    let seconds = age(text).map_err(|e| bad(e.cause))?.whole_seconds();
    if !(1..=86_400).contains(&seconds) {
        return Err(bad(format!("{text}: must be between 1s and 24h")));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_bounds() {
        assert_eq!(["1s", "90m", "24h", "1d"].map(|t| lifetime(t).unwrap()), [1, 5400, 86_400, 86_400]);
        for bad in ["", "0s", "25h", "1", "-1h", "h"] {
            assert!(lifetime(bad).unwrap_err().cause.starts_with("--lifetime"), "{bad}");
        }
    }
}
