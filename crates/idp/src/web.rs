//! How providers are asked over HTTP.
//!
//! A trait, so that tests need no network. Invariants of the real one are `ashlar_outbound`'s: the address
//! that was checked is the one that is connected to, redirects are not followed, an end in time and bytes.
//!
//! Must never know: what is asked.

use std::future::Future;
use std::pin::Pin;

use ashlar_outbound::Outbound;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};

/// A question.
#[derive(Clone, Debug, Default)]
pub struct WebAsk {
    /// Where.
    pub url: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// A form to send; without one it is a GET.
    pub form: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct WebAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The document.
    pub body: Bytes,
}

/// What comes later; an error is for the log, without secrets.
pub type Within<'a> = Pin<Box<dyn Future<Output = Result<WebAnswer, String>> + Send + 'a>>;

/// Asks over HTTP.
pub trait Web: Send + Sync {
    /// Asks once.
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
