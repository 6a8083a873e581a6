//! Configuration documents of buckets: policy, CORS rules, default encryption.
//!
//! Documents are passed unchanged, without parsing.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderName, Method, header};

use crate::{
    call::{Call, Client, Target},
    error::Result,
    limits,
    ops::bucket::content_md5,
};

impl Client {
    /// The document of a bucket's sub-resource (`policy`, `cors`, `encryption`); `None` if there is none.
    ///
    /// # Errors
    /// The error answer of the server, except that the document does not exist.
    pub fn document<'a>(&'a self, bucket: &'a str, name: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query(name, "");
            match self.execute(call).await {
                Ok(mut answer) => {
                    let body = answer.collect(limits::ANSWER).await?;
                    Ok(Some(String::from_utf8_lossy(&body).into_owned()))
                }
                Err(error) if error.is_not_found() && error.code() != Some("NoSuchBucket") => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Replaces the document of a bucket's sub-resource.
    ///
    /// # Errors
    /// The error answer of the server.
    pub fn set_document<'a>(
        &'a self,
        bucket: &'a str,
        name: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let kind =
                if text.trim_start().starts_with('{') { "application/json" } else { "application/xml" };
            let call = Call::new(Method::PUT, Target::Bucket(bucket))
                .query(name, "")
                .header(HeaderName::from_static("content-md5"), &content_md5(text.as_bytes()))?
                .header(header::CONTENT_TYPE, kind)?
                .body(Bytes::from(text.to_owned()));
            self.execute(call).await?.drain().await.map(drop)
        })
    }

    /// Removes the document of a bucket's sub-resource.
    ///
    /// # Errors
    /// The error answer of the server.
    pub fn delete_document<'a>(&'a self, bucket: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = Call::new(Method::DELETE, Target::Bucket(bucket)).query(name, "");
            self.execute(call).await?.drain().await.map(drop)
        })
    }

    /// Sends one request to a path of the endpoint that needs no permission, such as `/minio/health/ready`.
    ///
    /// # Errors
    /// The server cannot be reached, or answers with another status than 2xx.
    pub fn probe<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut call = Call::new(Method::GET, Target::Path(path));
            call.patience = Some(std::time::Duration::from_secs(5));
            self.execute(call).await?.drain().await.map(drop)
        })
    }
}
