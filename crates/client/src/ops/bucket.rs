//! Buckets: create, delete, list, location, versioning, tags (tags of objects too: same messages).

use futures::future::BoxFuture;
use http::{HeaderName, Method, StatusCode};

use crate::{
    call::{Call, Client, Target},
    error::{Error, Result},
    types::{Bucket, Tags, Versioning, iso_time},
    xml::Writer,
};

impl Client {
    /// All buckets of the account.
    pub fn list_buckets(&self) -> BoxFuture<'_, Result<Vec<Bucket>>> {
        Box::pin(async move {
            let (root, _) = self.xml(Call::new(Method::GET, Target::Service)).await?;
            let buckets = root.child("Buckets");
            Ok(buckets
                .iter()
                .flat_map(|b| b.all("Bucket"))
                .map(|b| Bucket {
                    name: b.text_of("Name").to_owned(),
                    created: iso_time(b.text_of("CreationDate")),
                })
                .collect())
        })
    }

    /// Creates a bucket in the configured region; with `lock`, one whose versions can be locked.
    pub fn create_bucket<'a>(&'a self, bucket: &'a str, lock: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut call = Call::new(Method::PUT, Target::Bucket(bucket));
            if lock {
                call = call.header(HeaderName::from_static("x-amz-bucket-object-lock-enabled"), "true")?;
            }
            let region = &self.config().region;
            if region != "us-east-1" {
                let mut body = Writer::new("CreateBucketConfiguration");
                body.leaf("LocationConstraint", region);
                call = call.body(body.finish("CreateBucketConfiguration"));
            }
            self.done(call).await.map(drop)
        })
    }

    /// Whether the bucket exists and may be used.
    pub fn bucket_exists<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            match self.done(Call::new(Method::HEAD, Target::Bucket(bucket))).await {
                Ok(_) => Ok(true),
                Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Deletes an empty bucket.
    pub fn delete_bucket<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.done(Call::new(Method::DELETE, Target::Bucket(bucket))).await.map(drop) })
    }

    /// The region of a bucket; empty answers mean `us-east-1`.
    pub fn bucket_location<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query("location", "");
            let (root, _) = self.xml(call).await?;
            Ok(if root.text.trim().is_empty() { "us-east-1".into() } else { root.text.trim().into() })
        })
    }

    /// Whether the bucket keeps versions.
    pub fn versioning<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<Versioning>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query("versioning", "");
            let (root, _) = self.xml(call).await?;
            Ok(match root.text_of("Status") {
                "Enabled" => Versioning::Enabled,
                "Suspended" => Versioning::Suspended,
                _ => Versioning::Off,
            })
        })
    }

    /// Enables or suspends versioning; it cannot be switched off again.
    pub fn set_versioning<'a>(
        &'a self,
        bucket: &'a str,
        versioning: Versioning,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let status = match versioning {
                Versioning::Enabled => "Enabled",
                Versioning::Suspended => "Suspended",
                Versioning::Off => {
                    return Err(Error::Invalid("versioning can be suspended, not removed".into()));
                }
            };
            let mut body = Writer::new("VersioningConfiguration");
            body.leaf("Status", status);
            let call = Call::new(Method::PUT, Target::Bucket(bucket))
                .query("versioning", "")
                .body(body.finish("VersioningConfiguration"));
            self.done(call).await.map(drop)
        })
    }

    /// The tags of a bucket or of (a version of) an object; none is an empty set, not an error.
    pub fn tags<'a>(&'a self, target: Target<'a>, version: Option<&'a str>) -> BoxFuture<'a, Result<Tags>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, target).query("tagging", "");
            match self.xml(call.maybe_query("versionId", version)).await {
                Ok((root, _)) => {
                    let set = root.child("TagSet");
                    let tags = set.iter().flat_map(|s| s.all("Tag"));
                    Ok(tags.map(|t| (t.text_of("Key").into(), t.text_of("Value").into())).collect())
                }
                Err(error) if error.code() == Some("NoSuchTagSet") => Ok(Tags::new()),
                Err(error) => Err(error),
            }
        })
    }

    /// Replaces all tags of a bucket or of (a version of) an object.
    pub fn set_tags<'a>(
        &'a self,
        target: Target<'a>,
        version: Option<&'a str>,
        tags: &'a Tags,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut body = Writer::new("Tagging");
            body.open("TagSet");
            for (name, value) in tags {
                body.open("Tag").leaf("Key", name).leaf("Value", value).close("Tag");
            }
            body.close("TagSet");
            let body = body.finish("Tagging");
            let md5 = content_md5(body.as_bytes());
            let call = Call::new(Method::PUT, target)
                .query("tagging", "")
                .maybe_query("versionId", version)
                .header(HeaderName::from_static("content-md5"), &md5)?
                .body(body);
            self.done(call).await.map(drop)
        })
    }

    /// Removes all tags of a bucket or of (a version of) an object.
    pub fn delete_tags<'a>(
        &'a self,
        target: Target<'a>,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = Call::new(Method::DELETE, target).query("tagging", "");
            self.done(call.maybe_query("versionId", version)).await.map(drop)
        })
    }
}

/// The value of a `content-md5` header.
pub(crate) fn content_md5(body: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(ashlar_checksum::md5_once(body))
}
