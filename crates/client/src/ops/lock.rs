//! Object lock: retention and legal hold of versions, defaults of buckets.

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method};

use crate::{
    call::{Call, Client, Target},
    error::{Error, Result},
    ops::bucket::content_md5,
    xml::Writer,
};

/// The retention of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// `GOVERNANCE` or `COMPLIANCE`.
    pub mode: String,
    /// End of the retention, in the server's format (ISO 8601).
    pub until: String,
}

/// The default retention of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRetention {
    /// `GOVERNANCE` or `COMPLIANCE`.
    pub mode: String,
    /// Number of days or years.
    pub count: u32,
    /// Whether `count` is in years.
    pub years: bool,
}

/// `None` for errors that mean that the setting does not exist.
fn unless_missing<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.code(),
                Some("NoSuchObjectLockConfiguration" | "ObjectLockConfigurationNotFoundError")
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Client {
    /// The retention of (a version of) an object; `None` if it has none.
    pub fn retention<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<Retention>>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Object(bucket, key)).query("retention", "");
            let found = unless_missing(self.xml(call.maybe_query("versionId", version)).await)?;
            Ok(found.and_then(|(root, _)| {
                let (mode, until) =
                    (root.text_of("Mode").to_owned(), root.text_of("RetainUntilDate").to_owned());
                (!mode.is_empty()).then_some(Retention { mode, until })
            }))
        })
    }

    /// Sets the retention of (a version of) an object; `None` removes it. `bypass`: allow to shorten a
    /// GOVERNANCE retention.
    pub fn set_retention<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        version: Option<&'a str>,
        retention: Option<&'a Retention>,
        bypass: bool,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut body = Writer::new("Retention");
            if let Some(retention) = retention {
                body.leaf("Mode", &retention.mode).leaf("RetainUntilDate", &retention.until);
            }
            let mut call = Call::new(Method::PUT, Target::Object(bucket, key)).query("retention", "");
            if bypass {
                let name = HeaderName::from_static("x-amz-bypass-governance-retention");
                call.headers.insert(name, HeaderValue::from_static("true"));
            }
            self.put_document(call.maybe_query("versionId", version), body.finish("Retention")).await
        })
    }

    /// Whether (a version of) an object is under legal hold.
    pub fn legal_hold<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Object(bucket, key)).query("legal-hold", "");
            let found = unless_missing(self.xml(call.maybe_query("versionId", version)).await)?;
            Ok(found.is_some_and(|(root, _)| root.text_of("Status") == "ON"))
        })
    }

    /// Sets or removes the legal hold of (a version of) an object.
    pub fn set_legal_hold<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        version: Option<&'a str>,
        on: bool,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut body = Writer::new("LegalHold");
            body.leaf("Status", if on { "ON" } else { "OFF" });
            let call = Call::new(Method::PUT, Target::Object(bucket, key)).query("legal-hold", "");
            self.put_document(call.maybe_query("versionId", version), body.finish("LegalHold")).await
        })
    }

    /// The default retention of a bucket; `None` if it has none.
    pub fn default_retention<'a>(
        &'a self,
        bucket: &'a str,
    ) -> BoxFuture<'a, Result<Option<DefaultRetention>>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query("object-lock", "");
            let Some((root, _)) = unless_missing(self.xml(call).await)? else { return Ok(None) };
            let rule = root.child("Rule").and_then(|r| r.child("DefaultRetention"));
            let Some(rule) = rule else { return Ok(None) };
            let years = !rule.text_of("Years").is_empty();
            let count = if years { rule.text_of("Years") } else { rule.text_of("Days") };
            let count =
                count.parse().map_err(|_| Error::Invalid("the answer has neither days nor years".into()))?;
            Ok(Some(DefaultRetention { mode: rule.text_of("Mode").to_owned(), count, years }))
        })
    }

    /// Sets the default retention of a bucket; `None` removes it.
    pub fn set_default_retention<'a>(
        &'a self,
        bucket: &'a str,
        default: Option<&'a DefaultRetention>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut body = Writer::new("ObjectLockConfiguration");
            body.leaf("ObjectLockEnabled", "Enabled");
            if let Some(default) = default {
                body.open("Rule").open("DefaultRetention").leaf("Mode", &default.mode);
                body.leaf(if default.years { "Years" } else { "Days" }, &default.count.to_string());
                body.close("DefaultRetention").close("Rule");
            }
            let call = Call::new(Method::PUT, Target::Bucket(bucket)).query("object-lock", "");
            self.put_document(call, body.finish("ObjectLockConfiguration")).await
        })
    }

    async fn put_document(&self, call: Call<'_>, body: String) -> Result<()> {
        let md5 = content_md5(body.as_bytes());
        let call = call.header(HeaderName::from_static("content-md5"), &md5)?.body(body);
        self.done(call).await.map(drop)
    }
}
