//! Which alias a command about a cluster means.
//!
//! Must not depend on: the commands.

use crate::aliases::Aliases;
use crate::failure::{Failure, Outcome};

/// The named alias, or the only one.
pub fn alias_or_only(alias: Option<String>, aliases: &Aliases) -> Outcome<String> {
    if let Some(alias) = alias {
        return Ok(alias);
    }
    let mut all: Vec<&str> = aliases.all().map(|(name, ..)| name).collect();
    match all[..] {
        [only] => Ok(only.to_owned()),
        [] => Err(Failure::usage("there is no alias yet: add one with `ashlar alias set`")),
        _ => {
            all.sort_unstable();
            Err(Failure::usage(format!("name one of the aliases: {}", all.join(", "))))
        }
    }
}
