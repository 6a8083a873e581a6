//! Rules as stored in a bucket's document, and their validation.
//!
//! The document is JSON, format 1 (docs/formats.md). A document that cannot be decoded expires nothing.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::calendar::DAY_MS;

/// The bucket's document that holds its rules.
pub const DOCUMENT: &str = "lifecycle";

/// Most rules of a bucket.
pub const MAX_RULES: usize = 1000;
/// Longest id of a rule, in characters.
pub const MAX_ID: usize = 255;
/// Most newer noncurrent versions that a rule may keep.
const MAX_NEWER: u32 = 100;
/// Longest time in days: i32::MAX, as AWS.
const MAX_DAYS: u32 = i32::MAX as u32;

/// Why rules are refused, by the error code of the answer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    /// They violate the schema (400 MalformedXML): why.
    #[error("{0}")]
    Malformed(&'static str),
    /// A value is out of range (400 InvalidArgument): why.
    #[error("{0}")]
    Argument(&'static str),
    /// They contradict each other (400 InvalidRequest): why.
    #[error("{0}")]
    Request(&'static str),
}

/// The versions that a rule applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Keys that begin with this.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Versions that have all of these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
    /// Versions of more bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greater: Option<u64>,
    /// Versions of fewer bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub less: Option<u64>,
}

impl Filter {
    /// Whether the filter tests anything besides the key.
    #[must_use]
    pub fn looks_inside(&self) -> bool {
        !self.tags.is_empty() || self.sizes()
    }

    pub(crate) fn sizes(&self) -> bool {
        self.greater.is_some() || self.less.is_some()
    }

    pub(crate) fn fits_size(&self, size: u64) -> bool {
        self.greater.is_none_or(|g| size > g) && self.less.is_none_or(|l| size < l)
    }
}

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expiration {
    /// This many days after they were made.
    Days(u32),
    /// From this midnight on, in milliseconds since 1970.
    Date(i64),
    /// Never; only delete markers that hide nothing are removed.
    Markers,
}

/// When noncurrent versions are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noncurrent {
    /// This many days after their successor was made.
    pub days: u32,
    /// Only those with at least this many newer noncurrent versions.
    #[serde(default)]
    pub newer: u32,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Unique in its bucket.
    pub id: String,
    /// Disabled rules are stored and have no effect.
    pub enabled: bool,
    /// The prefix was in the rule itself, as in the first version of the API.
    #[serde(skip_serializing_if = "is_false")]
    pub legacy: bool,
    /// The filter.
    pub filter: Filter,
    /// When current versions expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Expiration>,
    /// When noncurrent versions are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noncurrent: Option<Noncurrent>,
    /// Uploads are aborted this many days after they began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_days: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_false(b: &bool) -> bool {
    !b
}

/// `x-amz-transition-default-minimum-object-size`: stored and returned; this server has no transitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Minimum {
    /// `all_storage_classes_128K`.
    #[default]
    #[serde(rename = "all_storage_classes_128K")]
    All128K,
    /// `varies_by_storage_class`.
    #[serde(rename = "varies_by_storage_class")]
    Varies,
}

impl Minimum {
    /// By AWS's name.
    #[must_use]
    pub fn find(name: &str) -> Option<Minimum> {
        [Minimum::All128K, Minimum::Varies].into_iter().find(|m| m.name() == name)
    }

    /// AWS's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Minimum::All128K => "all_storage_classes_128K",
            Minimum::Varies => "varies_by_storage_class",
        }
    }
}

/// The rules of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// In the order in which they were given.
    pub rules: Vec<Rule>,
    /// See [`Minimum`].
    #[serde(default)]
    pub minimum: Minimum,
    /// When these rules were set, in milliseconds since 1970.
    #[serde(default)]
    pub set_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    #[serde(flatten)]
    config: Config,
}

impl Config {
    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> String {
        let stored = Stored { format: 1, config: self.clone() };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Decodes the stored form; `None`: it is invalid or of a newer release.
    #[must_use]
    pub fn decode(text: &str) -> Option<Config> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        let mut config = (stored.format == 1).then_some(stored.config)?;
        config.check(|| String::from("x")).ok()?;
        Some(config)
    }

    /// Checks the rules and gives ids to those that have none.
    ///
    /// # Errors
    /// The refusal of AWS, with its message.
    pub fn check(&mut self, mut fresh_id: impl FnMut() -> String) -> Result<(), Invalid> {
        if self.rules.is_empty() {
            return Err(Invalid::Malformed("there must be at least one rule"));
        }
        if self.rules.len() > MAX_RULES {
            return Err(Invalid::Request("Lifecycle configuration allows a maximum of 1000 rules."));
        }
        let legacy = self.rules.iter().any(|r| r.legacy);
        if legacy && self.rules.iter().any(|r| !r.legacy) {
            return Err(Invalid::Request(
                "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.",
            ));
        }
        let mut ids = std::collections::HashSet::new();
        for rule in &mut self.rules {
            if rule.id.is_empty() {
                rule.id = fresh_id();
            }
            if rule.id.chars().count() > MAX_ID {
                return Err(Invalid::Argument("ID length should not exceed allowed limit of 255"));
            }
            rule.check()?;
        }
        if self.rules.iter().any(|r| !ids.insert(r.id.as_str())) {
            return Err(Invalid::Argument("Rule ID must be unique. Found same ID for more than one rule"));
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self) -> Result<(), Invalid> {
        self.filter.check()?;
        if self.expiration.is_none() && self.noncurrent.is_none() && self.abort_days.is_none() {
            return Err(Invalid::Request("At least one action needs to be specified in a rule"));
        }
        match self.expiration {
            Some(Expiration::Days(n)) if !(1..=MAX_DAYS).contains(&n) => {
                return Err(Invalid::Argument("'Days' for Expiration action must be a positive integer"));
            }
            Some(Expiration::Date(ms)) if ms.rem_euclid(DAY_MS) != 0 => {
                return Err(Invalid::Argument("'Date' must be at midnight GMT"));
            }
            Some(Expiration::Markers) if !self.filter.tags.is_empty() => {
                return Err(Invalid::Request("ExpiredObjectDeleteMarker cannot be specified with Tags."));
            }
            Some(Expiration::Markers) if self.filter.sizes() => {
                return Err(Invalid::Request(
                    "ExpiredObjectDeleteMarker cannot be specified with Object Size.",
                ));
            }
            _ => {}
        }
        if let Some(n) = self.noncurrent {
            // Days may be omitted if versions are counted, as in MinIO.
            if n.days > MAX_DAYS || (n.days == 0 && n.newer == 0) {
                return Err(Invalid::Argument(
                    "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer",
                ));
            }
            if n.newer > MAX_NEWER {
                return Err(Invalid::Argument(
                    "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must be between 1 and 100",
                ));
            }
        }
        if let Some(days) = self.abort_days {
            if !(1..=MAX_DAYS).contains(&days) {
                return Err(Invalid::Argument(
                    "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
                ));
            }
            if !self.filter.tags.is_empty() {
                return Err(Invalid::Request(
                    "AbortIncompleteMultipartUpload cannot be specified with Tags.",
                ));
            }
            if self.filter.sizes() {
                return Err(Invalid::Request(
                    "AbortIncompleteMultipartUpload cannot be specified with Object Size.",
                ));
            }
        }
        Ok(())
    }
}

impl Filter {
    fn check(&self) -> Result<(), Invalid> {
        if self.prefix.len() > 1024 {
            return Err(Invalid::Request("The maximum size of a prefix is 1024."));
        }
        for (i, (name, value)) in self.tags.iter().enumerate() {
            if name.is_empty() || name.chars().count() > 128 {
                return Err(Invalid::Malformed("The TagKey you have provided is invalid"));
            }
            if value.chars().count() > 256 {
                return Err(Invalid::Malformed("The TagValue you have provided is invalid"));
            }
            if self.tags[..i].iter().any(|(n, _)| n == name) {
                return Err(Invalid::Request("Duplicate Tag Keys are not allowed."));
            }
        }
        if let (Some(greater), Some(less)) = (self.greater, self.less)
            && less <= greater.saturating_add(1)
        {
            return Err(Invalid::Request(
                "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.",
            ));
        }
        Ok(())
    }
}
