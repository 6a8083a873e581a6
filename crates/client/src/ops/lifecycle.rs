//! Lifecycle rules of buckets, as XML on the wire and as JSON in files (with mc's names).

use futures::future::BoxFuture;
use http::{HeaderName, Method};
use serde::{Deserialize, Serialize};

use super::bucket::content_md5;
use crate::{
    call::{Call, Client, Target},
    error::Result,
    xml::{Element, Writer},
};

/// The rules of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    /// In their order.
    #[serde(rename = "Rules")]
    pub rules: Vec<LifecycleRule>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleRule {
    /// Its name.
    #[serde(rename = "ID")]
    pub id: String,
    /// `Enabled` or `Disabled`.
    pub status: String,
    /// Which versions; empty: all.
    #[serde(skip_serializing_if = "is_default")]
    pub filter: LifecycleFilter,
    /// As [`LifecycleFilter::prefix`], in rules of the older format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// When current versions expire.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: LifecycleExpiration,
    /// When noncurrent versions are removed.
    #[serde(rename = "NoncurrentVersionExpiration", skip_serializing_if = "is_default")]
    pub noncurrent: LifecycleNoncurrent,
    /// When incomplete uploads are aborted.
    #[serde(rename = "AbortIncompleteMultipartUpload", skip_serializing_if = "is_default")]
    pub abort: LifecycleAbort,
}

/// The versions that a rule applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleFilter {
    /// Keys with this prefix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Versions with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<LifecycleTag>,
    /// Versions larger than this, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_size_greater_than: Option<u64>,
    /// Versions smaller than this, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_size_less_than: Option<u64>,
    /// A conjunction of several conditions.
    #[serde(skip_serializing_if = "is_default")]
    pub and: LifecycleAnd,
}

/// A conjunction of several conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleAnd {
    /// As in [`LifecycleFilter`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Versions that have all these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<LifecycleTag>,
    /// As in [`LifecycleFilter`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_size_greater_than: Option<u64>,
    /// As in [`LifecycleFilter`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_size_less_than: Option<u64>,
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleTag {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// When current versions expire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleExpiration {
    /// After this many days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u64>,
    /// From this midnight on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Whether delete markers without older versions are removed.
    #[serde(skip_serializing_if = "is_default")]
    pub delete_marker: bool,
}

/// When noncurrent versions are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleNoncurrent {
    /// After this many days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noncurrent_days: Option<u64>,
    /// Number of newer noncurrent versions to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_noncurrent_versions: Option<u64>,
}

/// When incomplete uploads are aborted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase", default)]
pub struct LifecycleAbort {
    /// After this many days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_after_initiation: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl LifecycleFilter {
    /// All conditions, from both forms.
    #[must_use]
    pub fn conditions(&self) -> LifecycleAnd {
        let mut all = self.and.clone();
        if all.prefix.is_empty() {
            all.prefix.clone_from(&self.prefix);
        }
        all.tags.extend(self.tag.clone());
        all.object_size_greater_than = all.object_size_greater_than.or(self.object_size_greater_than);
        all.object_size_less_than = all.object_size_less_than.or(self.object_size_less_than);
        all
    }

    /// The same conditions in the form of the protocol: a single one directly, several within `And`.
    #[must_use]
    pub fn of(mut all: LifecycleAnd) -> LifecycleFilter {
        let sizes = [all.object_size_greater_than, all.object_size_less_than];
        let count = usize::from(!all.prefix.is_empty()) + all.tags.len() + sizes.iter().flatten().count();
        if count > 1 {
            return LifecycleFilter { and: all, ..LifecycleFilter::default() };
        }
        LifecycleFilter {
            tag: all.tags.pop(),
            prefix: all.prefix,
            object_size_greater_than: all.object_size_greater_than,
            object_size_less_than: all.object_size_less_than,
            and: LifecycleAnd::default(),
        }
    }
}

fn tag(e: &Element) -> LifecycleTag {
    LifecycleTag { key: e.text_of("Key").into(), value: e.text_of("Value").into() }
}

fn rule(e: &Element) -> LifecycleRule {
    let mut rule = LifecycleRule {
        id: e.text_of("ID").into(),
        status: e.text_of("Status").trim().into(),
        prefix: e.child("Prefix").map(|p| p.text.clone()),
        ..LifecycleRule::default()
    };
    if let Some(f) = e.child("Filter") {
        rule.filter = LifecycleFilter {
            prefix: f.text_of("Prefix").into(),
            tag: f.child("Tag").map(tag),
            object_size_greater_than: f.number("ObjectSizeGreaterThan"),
            object_size_less_than: f.number("ObjectSizeLessThan"),
            and: f
                .child("And")
                .map(|a| LifecycleAnd {
                    prefix: a.text_of("Prefix").into(),
                    tags: a.all("Tag").map(tag).collect(),
                    object_size_greater_than: a.number("ObjectSizeGreaterThan"),
                    object_size_less_than: a.number("ObjectSizeLessThan"),
                })
                .unwrap_or_default(),
        };
    }
    if let Some(x) = e.child("Expiration") {
        rule.expiration = LifecycleExpiration {
            days: x.number("Days"),
            date: x.some_text("Date"),
            delete_marker: x.is_true("ExpiredObjectDeleteMarker"),
        };
    }
    if let Some(n) = e.child("NoncurrentVersionExpiration") {
        rule.noncurrent = LifecycleNoncurrent {
            noncurrent_days: n.number("NoncurrentDays"),
            newer_noncurrent_versions: n.number("NewerNoncurrentVersions"),
        };
    }
    rule.abort.days_after_initiation =
        e.child("AbortIncompleteMultipartUpload").and_then(|a| a.number("DaysAfterInitiation"));
    rule
}

fn number(w: &mut Writer, name: &str, value: Option<u64>) {
    if let Some(n) = value {
        w.leaf(name, &n.to_string());
    }
}

fn conditions(
    w: &mut Writer,
    prefix: Option<&str>,
    tags: &[LifecycleTag],
    greater: Option<u64>,
    less: Option<u64>,
) {
    if let Some(prefix) = prefix {
        w.leaf("Prefix", prefix);
    }
    for t in tags {
        w.open("Tag").leaf("Key", &t.key).leaf("Value", &t.value).close("Tag");
    }
    number(w, "ObjectSizeGreaterThan", greater);
    number(w, "ObjectSizeLessThan", less);
}

fn write_filter(w: &mut Writer, f: &LifecycleFilter) {
    w.open("Filter");
    if is_default(&f.and) {
        let other =
            f.tag.is_some() || f.object_size_greater_than.is_some() || f.object_size_less_than.is_some();
        let prefix = (!other || !f.prefix.is_empty()).then_some(f.prefix.as_str());
        let (greater, less) = (f.object_size_greater_than, f.object_size_less_than);
        conditions(w, prefix, f.tag.as_slice(), greater, less);
    } else {
        let a = &f.and;
        w.open("And");
        let prefix = Some(a.prefix.as_str()).filter(|p| !p.is_empty());
        conditions(w, prefix, &a.tags, a.object_size_greater_than, a.object_size_less_than);
        w.close("And");
    }
    w.close("Filter");
}

fn write(rules: &Lifecycle) -> String {
    let mut w = Writer::new("LifecycleConfiguration");
    for r in &rules.rules {
        w.open("Rule");
        if !r.id.is_empty() {
            w.leaf("ID", &r.id);
        }
        match &r.prefix {
            Some(prefix) => {
                w.leaf("Prefix", prefix);
            }
            None => write_filter(&mut w, &r.filter),
        }
        w.leaf("Status", &r.status);
        if !is_default(&r.expiration) {
            w.open("Expiration");
            number(&mut w, "Days", r.expiration.days);
            if let Some(date) = &r.expiration.date {
                w.leaf("Date", date);
            }
            if r.expiration.delete_marker {
                w.leaf("ExpiredObjectDeleteMarker", "true");
            }
            w.close("Expiration");
        }
        if !is_default(&r.noncurrent) {
            w.open("NoncurrentVersionExpiration");
            number(&mut w, "NoncurrentDays", r.noncurrent.noncurrent_days);
            number(&mut w, "NewerNoncurrentVersions", r.noncurrent.newer_noncurrent_versions);
            w.close("NoncurrentVersionExpiration");
        }
        if r.abort.days_after_initiation.is_some() {
            w.open("AbortIncompleteMultipartUpload");
            number(&mut w, "DaysAfterInitiation", r.abort.days_after_initiation);
            w.close("AbortIncompleteMultipartUpload");
        }
        w.close("Rule");
    }
    w.finish("LifecycleConfiguration")
}

impl Client {
    /// The lifecycle rules of a bucket; without rules the list is empty.
    ///
    /// # Errors
    /// The error answer of the server.
    pub fn lifecycle<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<Lifecycle>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query("lifecycle", "");
            match self.xml(call).await {
                Ok((root, _)) => Ok(Lifecycle { rules: root.all("Rule").map(rule).collect() }),
                Err(error) if error.code() == Some("NoSuchLifecycleConfiguration") => {
                    Ok(Lifecycle::default())
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Replaces all lifecycle rules of a bucket; an empty list removes them.
    ///
    /// # Errors
    /// The error answer of the server.
    pub fn set_lifecycle<'a>(&'a self, bucket: &'a str, rules: &'a Lifecycle) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if rules.rules.is_empty() {
                let call = Call::new(Method::DELETE, Target::Bucket(bucket)).query("lifecycle", "");
                return self.done(call).await.map(drop);
            }
            let body = write(rules);
            let md5 = content_md5(body.as_bytes());
            let call = Call::new(Method::PUT, Target::Bucket(bucket))
                .query("lifecycle", "")
                .header(HeaderName::from_static("content-md5"), &md5)?
                .body(body);
            self.done(call).await.map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifecycle_rules_round_trip() {
        let text = r#"{"Rules":[
            {"ID":"a","Status":"Enabled","Filter":{"Prefix":"p/"},"Expiration":{"Days":3}},
            {"ID":"b","Status":"Disabled","Filter":{"And":{"Prefix":"q","Tags":[{"Key":"k","Value":"<v>"}],"ObjectSizeLessThan":5}},
             "NoncurrentVersionExpiration":{"NoncurrentDays":1,"NewerNoncurrentVersions":2},"Expiration":{"DeleteMarker":true}},
            {"ID":"c","Status":"Enabled","Prefix":"old/","AbortIncompleteMultipartUpload":{"DaysAfterInitiation":7}}]}"#;
        let rules: Lifecycle = serde_json::from_str(text).unwrap();
        let root = crate::xml::parse(write(&rules).as_bytes()).unwrap();
        assert_eq!(Lifecycle { rules: root.all("Rule").map(rule).collect() }, rules);
        assert_eq!(
            serde_json::from_str::<Lifecycle>(&serde_json::to_string(&rules).unwrap()).unwrap(),
            rules
        );
        for r in &rules.rules {
            assert_eq!(LifecycleFilter::of(r.filter.conditions()), r.filter);
        }
        assert!(
            serde_json::from_str::<Lifecycle>(r#"{"Rules":[{"ID":"a","Transition":{"Days":1}}]}"#).is_err()
        );
    }
}
