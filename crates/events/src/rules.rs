//! Notification rules: the notification configuration of one bucket, in the neutral form in which it is
//! stored.
//!
//! Invariants: a stored configuration matches the same events as when it was checked; a configuration that
//! cannot be read matches nothing and is reported. Must not depend on XML.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{Error, Name, Names, Result, TargetId};

/// The name of the bucket document that stores the configuration.
pub const DOCUMENT: &str = "notification";
/// Most rules of one bucket, as in AWS.
pub const MOST: usize = 100;
/// Longest prefix or suffix, in bytes.
const LONGEST: usize = 1024;
/// Most buckets whose parsed rules are cached. The cache is cleared when there are more.
const PARSED: usize = 4096;

/// The XML element that a rule was given as. It matters only when the configuration is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// `QueueConfiguration`
    Queue,
    /// `TopicConfiguration`
    Topic,
    /// `CloudFunctionConfiguration`
    Function,
}

/// A rule: which events of which keys are sent to which target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// The XML element that it was given as.
    pub shape: Shape,
    /// The ARN of the target, as given.
    pub arn: String,
    /// Names of events, as given.
    pub events: Vec<String>,
    /// Prefix of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Suffix of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// The parsed `events`.
    #[serde(skip)]
    pub names: Names,
    /// The parsed `arn`.
    #[serde(skip)]
    pub target: Option<TargetId>,
}

impl Rule {
    /// Whether the rule matches this event of this key.
    #[must_use]
    pub fn fits(&self, name: Name, key: &str) -> bool {
        self.names.has(name)
            && self.prefix.as_deref().is_none_or(|p| key.starts_with(p))
            && self.suffix.as_deref().is_none_or(|s| key.ends_with(s))
    }

    fn overlaps(&self, other: &Rule) -> bool {
        let (p, q) = (self.prefix.as_deref().unwrap_or(""), other.prefix.as_deref().unwrap_or(""));
        let (s, t) = (self.suffix.as_deref().unwrap_or(""), other.suffix.as_deref().unwrap_or(""));
        self.target == other.target
            && self.names.meets(other.names)
            && (p.starts_with(q) || q.starts_with(p))
            && (s.ends_with(t) || t.ends_with(s))
    }
}

/// The rules of one bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rules {
    /// In the order in which they were given.
    pub rules: Vec<Rule>,
    /// All events of any rule.
    #[serde(skip)]
    pub names: Names,
}

impl Rules {
    /// Checks rules as S3 does and parses them. Rules without an id get one from `fresh`.
    ///
    /// # Errors
    /// `Invalid`, `UnknownTarget`, `Overlap`.
    pub fn new(
        rules: Vec<Rule>,
        region: &str,
        knows: impl Fn(&TargetId) -> bool,
        mut fresh: impl FnMut() -> String,
    ) -> Result<Rules> {
        let invalid = |why: String| Err(Error::Invalid(why));
        let mut all = Rules { rules, names: Names::default() };
        if all.rules.len() > MOST {
            return invalid(format!("There are more than {MOST} notification configurations."));
        }
        for at in 0..all.rules.len() {
            let (before, rest) = all.rules.split_at_mut(at);
            let rule = &mut rest[0];
            if rule.id.is_empty() {
                rule.id = fresh();
            }
            if rule.id.len() > 255 {
                return invalid("ID must not be longer than 255 characters".into());
            }
            if before.iter().any(|b| b.id == rule.id) {
                return invalid("Same ID used for multiple configurations. IDs must be unique".into());
            }
            if rule.events.is_empty() {
                return invalid("At least one event must be specified.".into());
            }
            for (what, value) in [("prefix", &rule.prefix), ("suffix", &rule.suffix)] {
                if value.as_ref().is_some_and(|v| v.len() > LONGEST) {
                    return invalid(format!(
                        "Size of filter rule value ({what}) cannot exceed {LONGEST} bytes in UTF-8 representation"
                    ));
                }
            }
            if let Some(bad) = rule.understand(region) {
                return invalid(format!("A specified event is not supported for notifications: {bad}"));
            }
            if rule.target.as_ref().is_none_or(|t| !knows(t)) {
                return Err(Error::UnknownTarget(rule.arn.clone()));
            }
            if before.iter().any(|b| b.overlaps(rule)) {
                return Err(Error::Overlap);
            }
            all.names = all.names.and(rule.names);
        }
        Ok(all)
    }

    /// Parses the document of a bucket.
    ///
    /// # Errors
    /// `Invalid`: it is not a notification document.
    pub fn parse(text: &str, region: &str) -> Result<Rules> {
        let mut all: Rules = serde_json::from_str(text).map_err(|e| Error::Invalid(e.to_string()))?;
        for rule in &mut all.rules {
            // A name or target that this release does not know is kept. It matches nothing.
            rule.understand(region);
            all.names = all.names.and(rule.names);
        }
        Ok(all)
    }

    /// The rules as the document of a bucket.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("rules are plain data")
    }

    /// The first rule of a target that matches this event of this key.
    #[must_use]
    pub fn of(&self, target: &TargetId, name: Name, key: &str) -> Option<&Rule> {
        if !self.names.has(name) {
            return None;
        }
        self.rules.iter().find(|r| r.target.as_ref() == Some(target) && r.fits(name, key))
    }

    /// Whether any rule matches this event of this key.
    #[must_use]
    pub fn want(&self, name: Name, key: &str) -> bool {
        self.names.has(name) && self.rules.iter().any(|r| r.fits(name, key))
    }
}

impl Rule {
    /// Parses names and target. Returns the first name that is not the name of an event.
    fn understand(&mut self, region: &str) -> Option<&str> {
        self.target = TargetId::of_arn(&self.arn, region);
        let mut bad = None;
        for event in &self.events {
            match Names::parse(event) {
                Some(names) => self.names = self.names.and(names),
                None => bad = bad.or(Some(event.as_str())),
            }
        }
        bad
    }
}

type Kept = (Arc<str>, Arc<Rules>);

/// A cache of parsed rules. An entry is valid while the bucket's document is the same allocation.
pub struct Parsed {
    region: String,
    all: RwLock<HashMap<String, Kept>>,
}

impl Parsed {
    /// An empty cache.
    #[must_use]
    pub fn new(region: &str) -> Parsed {
        Parsed { region: region.to_owned(), all: RwLock::default() }
    }

    /// The rules of a bucket whose document is `text`.
    #[must_use]
    pub fn of(&self, bucket: &str, text: &Arc<str>) -> Arc<Rules> {
        if let Some((_, rules)) = self.all.read().get(bucket).filter(|(from, _)| Arc::ptr_eq(from, text)) {
            return rules.clone();
        }
        let rules = Rules::parse(text, &self.region).unwrap_or_else(|error| {
            tracing::error!(bucket, %error, "the bucket's notification rules cannot be read; no events are sent for this bucket");
            Rules::default()
        });
        let rules = Arc::new(rules);
        let mut all = self.all.write();
        if all.len() >= PARSED {
            all.clear();
        }
        all.insert(bucket.to_owned(), (text.clone(), rules.clone()));
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: &str, arn: &str, events: &[&str], prefix: &str, suffix: &str) -> Rule {
        let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
        Rule {
            id: id.into(),
            shape: Shape::Queue,
            arn: arn.into(),
            events: events.iter().map(|e| (*e).to_owned()).collect(),
            prefix: some(prefix),
            suffix: some(suffix),
            names: Names::default(),
            target: None,
        }
    }

    fn make(rules: Vec<Rule>) -> Result<Rules> {
        let mut n = 0;
        Rules::new(
            rules,
            "r",
            |t| t.id != "nosuch",
            || {
                n += 1;
                format!("fresh{n}")
            },
        )
    }

    const ONE: &str = "arn:minio:sqs::1:webhook";
    const TWO: &str = "arn:minio:sqs:r:2:redis";

    #[test]
    fn rules_are_checked_as_s3_does() {
        let put = &["s3:ObjectCreated:*"][..];
        let good = make(vec![
            rule("", ONE, put, "a/", ".jpg"),
            rule("", ONE, put, "a/", ".png"),
            rule("x", ONE, put, "b/", ""),
            rule("", ONE, &["s3:ObjectRemoved:*"], "a/", ".jpg"),
            // Another target may receive the same events.
            rule("", TWO, put, "", ""),
        ])
        .unwrap();
        assert_eq!(good.rules[0].id, "fresh1");
        let again = Rules::parse(&good.text(), "r").unwrap();
        assert_eq!(again, good);
        let (one, two) = (TargetId::parse("1:webhook").unwrap(), TargetId::parse("2:redis").unwrap());
        assert!(good.of(&one, Name::CreatedPut, "a/x.jpg").is_some());
        assert!(good.of(&one, Name::CreatedPut, "a/x.gif").is_none());
        assert!(good.of(&two, Name::CreatedPut, "a/x.gif").is_some());
        assert!(good.of(&two, Name::RemovedDelete, "a/x.jpg").is_none());
        assert!(good.want(Name::RemovedDelete, "a/x.jpg") && !good.want(Name::AccessedGet, "a/x.jpg"));
        for (bad, why) in [
            (vec![rule("", ONE, put, "a", ""), rule("", ONE, put, "ab", "")], "ambig"),
            (
                vec![rule("", ONE, put, "", ".jpg"), rule("", ONE, &["s3:ObjectCreated:Put"], "x", "g")],
                "ambig",
            ),
            (vec![rule("i", ONE, put, "a", ""), rule("i", ONE, put, "b", "")], "Same ID"),
            (vec![rule("", ONE, &[], "", "")], "At least one"),
            (vec![rule("", ONE, &["s3:Nothing:*"], "", "")], "not supported"),
            (vec![rule("", "arn:minio:sqs::nosuch:webhook", put, "", "")], "ARN"),
            (vec![rule("", "arn:aws:sqs:us:1:q", put, "", "")], "ARN"),
            (vec![rule("", ONE, put, &"p".repeat(1025), "")], "1024"),
        ] {
            let error = make(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
