//! HTTP requests to providers.
//!
//! A trait, so that tests need no network. The implementation has the invariants of `ashlar_outbound`: it
//! connects to the address that was checked, does not follow redirects, and limits time and bytes.
//!
//! Must not depend on: the content of requests.

use std::future::Future;
use std::pin::Pin;

use ashlar_outbound::Outbound;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};

/// A request.
#[derive(Clone, Debug, Default)]
pub struct WebAsk {
    /// The URL.
    pub url: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// A form for a POST; without one the request is a GET.
    pub form: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct WebAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

/// A future with the answer. An error is for the log and contains no secrets.
pub type Within<'a> = Pin<Box<dyn Future<Output = Result<WebAnswer, String>> + Send + 'a>>;

/// Sends HTTP requests.
pub trait Web: Send + Sync {
    /// Sends one request.
    fn ask(&self, ask: WebAsk) -> Within<'_>;
}

impl Web for Outbound {
    fn ask(&self, ask: WebAsk) -> Within<'_> {
        Box::pin(async move {
            let mut headers = vec![(ACCEPT, HeaderValue::from_static("application/json"))];
            if let Some(text) = &ask.authorization {
                let mut value = HeaderValue::from_str(text).map_err(|_| "a token cannot be sent")?;
                value.set_sensitive(true);
                headers.push((AUTHORIZATION, value));
            }
            let answer = match ask.form {
                None => self.get(&ask.url, &headers).await,
                Some(form) => {
                    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                    headers.push((CONTENT_TYPE, kind));
                    self.post(&ask.url, &headers, form.into()).await
                }
            };
            let answer = answer.map_err(|e| e.to_string())?;
            Ok(WebAnswer { status: answer.status.as_u16(), body: answer.body })
        })
    }
}
