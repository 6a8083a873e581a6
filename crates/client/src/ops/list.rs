//! Listings of keys and versions, in pages.

use futures::future::BoxFuture;
use futures::{Stream, stream};
use http::Method;

use crate::{
    call::{Call, Client, Target},
    error::Result,
    types::ListPage,
};

/// Parameters of a listing of keys.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Keys with the same text between the prefix and this delimiter become one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this one.
    pub start_after: Option<String>,
    /// The token of the previous page.
    pub token: Option<String>,
    /// Maximum number of keys and prefixes; the server's limit is 1,000.
    pub max_keys: Option<u32>,
}

/// Parameters of a listing of versions.
#[derive(Debug, Clone, Default)]
pub struct ListVersionsOptions {
    /// Only keys with this prefix.
    pub prefix: String,
    /// As in [`ListOptions`].
    pub delimiter: Option<String>,
    /// The end of the previous page: its key and version.
    pub marker: Option<(String, Option<String>)>,
    /// As in [`ListOptions`].
    pub max_keys: Option<u32>,
}

impl Client {
    /// One page of keys (version 2 of the operation).
    pub fn list<'a>(&'a self, bucket: &'a str, options: &'a ListOptions) -> BoxFuture<'a, Result<ListPage>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket))
                .query("list-type", "2")
                .query("encoding-type", "url")
                .query("prefix", options.prefix.as_str())
                .maybe_query("delimiter", options.delimiter.as_deref())
                .maybe_query("start-after", options.start_after.as_deref())
                .maybe_query("continuation-token", options.token.as_deref())
                .maybe_query("max-keys", options.max_keys.map(|n| n.to_string()));
            ListPage::parse(&self.xml(call).await?.0)
        })
    }

    /// One page of versions and delete markers.
    pub fn list_versions<'a>(
        &'a self,
        bucket: &'a str,
        options: &'a ListVersionsOptions,
    ) -> BoxFuture<'a, Result<ListPage>> {
        Box::pin(async move {
            let (key, version) = match &options.marker {
                Some((key, version)) => (Some(key.as_str()), version.as_deref()),
                None => (None, None),
            };
            let call = Call::new(Method::GET, Target::Bucket(bucket))
                .query("versions", "")
                .query("encoding-type", "url")
                .query("prefix", options.prefix.as_str())
                .maybe_query("delimiter", options.delimiter.as_deref())
                .maybe_query("key-marker", key)
                .maybe_query("version-id-marker", version)
                .maybe_query("max-keys", options.max_keys.map(|n| n.to_string()));
            ListPage::parse(&self.xml(call).await?.0)
        })
    }

    /// All pages of keys; each is requested after the previous one was taken.
    pub fn pages(
        &self,
        bucket: &str,
        options: ListOptions,
    ) -> impl Stream<Item = Result<ListPage>> + Send + use<> {
        let start = Some((self.clone(), bucket.to_owned(), options));
        stream::try_unfold(start, |state| async move {
            let Some((client, bucket, mut options)) = state else { return Ok(None) };
            let page = client.list(&bucket, &options).await?;
            let next = page.next.clone().map(|(token, _)| {
                options.token = Some(token);
                (client, bucket, options)
            });
            Ok(Some((page, next)))
        })
    }

    /// All pages of versions; each is requested after the previous one was taken.
    pub fn version_pages(
        &self,
        bucket: &str,
        options: ListVersionsOptions,
    ) -> impl Stream<Item = Result<ListPage>> + Send + use<> {
        let start = Some((self.clone(), bucket.to_owned(), options));
        stream::try_unfold(start, |state| async move {
            let Some((client, bucket, mut options)) = state else { return Ok(None) };
            let page = client.list_versions(&bucket, &options).await?;
            let next = page.next.clone().map(|marker| {
                options.marker = Some(marker);
                (client, bucket, options)
            });
            Ok(Some((page, next)))
        })
    }
}
