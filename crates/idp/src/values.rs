//! Parsing of setting values: switches, lists, required values.
//!
//! Must not depend on: which values there are, what they mean.

use ashlar_iam::Values;

use crate::Error;

/// Whether a target is enabled: by `enable`; without it, if there is any value.
pub(crate) fn is_enabled(values: &Values) -> Result<bool, Error> {
    let any = values.iter().any(|(name, value)| name != "comment" && !value.is_empty());
    switch(values, "enable", any)
}

/// A value that is on or off.
pub(crate) fn switch(values: &Values, name: &str, default: bool) -> Result<bool, Error> {
    match values.get(name).map(|v| v.trim().to_ascii_lowercase()).unwrap_or_default().as_str() {
        "" => Ok(default),
        "on" | "true" | "1" | "yes" | "enable" | "enabled" => Ok(true),
        "off" | "false" | "0" | "no" | "disable" | "disabled" => Ok(false),
        _ => Err(Error::Invalid(format!("{name} must be on or off"))),
    }
}

/// A value that exists and is not empty.
pub(crate) fn filled<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
    values.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
}

/// A list separated by commas.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect()
}
