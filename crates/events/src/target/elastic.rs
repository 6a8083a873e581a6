//! Elasticsearch (and OpenSearch): documents of an index, over HTTP.

use ashlar_outbound::{Outbound, Url, refuse_host};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::join_all;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Failure, Format, Sent};
use crate::settings::Settings;
use crate::{Message, Site};

/// Most requests in flight.
const WAVE: usize = 8;
/// Longest id of a document, in bytes.
const LONGEST_ID: usize = 512;

/// What is escaped in the id of a document: everything but `A-Za-z0-9-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An index.
pub struct Elastic {
    outbound: Outbound,
    base: String,
    format: Format,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Elastic {
    pub fn open(s: &Settings<'_>) -> Result<Elastic, String> {
        let url = s.need("url")?.trim_end_matches('/');
        refuse_host(&Url::parse(url).map_err(|e| e.to_string())?.host)?;
        let index = s.need("index")?;
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
        if !index.chars().all(legal) {
            return Err("index contains other characters than a-z, 0-9, _ - and .".into());
        }
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        if let Some(user) = s.get("username") {
            let pair = format!("{user}:{}", s.get("password").unwrap_or_default());
            let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
            let mut value = value
                .map_err(|_| "username or password contains characters that are not allowed in a header")?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
        let outbound = Outbound::new(s.rules()?).map_err(|e| e.to_string())?;
        Ok(Elastic { outbound, base: format!("{url}/{index}"), format: s.format()?, headers })
    }

    pub async fn send(&self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        if probe {
            // The first document creates the index. Any answer shows that the server is there.
            return match self.ask(Method::HEAD, &self.base, Bytes::new(), true).await {
                Ok(()) => Sent::all(messages),
                Err(failure) => Sent::until(0, failure),
            };
        }
        let mut answers = Vec::with_capacity(messages.len());
        for wave in messages.chunks(WAVE) {
            answers.extend(join_all(wave.iter().map(|m| self.one(m, site))).await);
            if answers.iter().any(|a| matches!(a, Err(Failure::Retry(_)))) {
                break;
            }
        }
        Sent::of(answers)
    }

    async fn one(&self, m: &Message, site: &Site) -> Result<(), Failure> {
        let event = &m.event;
        if self.format == Format::Access {
            return self
                .ask(Method::POST, &format!("{}/_doc", self.base), event.records(&m.rule, site), false)
                .await;
        }
        let path = event.path();
        let mut id = utf8_percent_encode(&path, RESERVED).to_string();
        if path.len() > LONGEST_ID {
            id = hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, path.as_bytes()));
        }
        let url = format!("{}/_doc/{id}", self.base);
        match event.removes() {
            true => self.ask(Method::DELETE, &url, Bytes::new(), true).await,
            false => self.ask(Method::PUT, &url, event.records(&m.rule, site), false).await,
        }
    }

    async fn ask(&self, method: Method, url: &str, body: Bytes, absent: bool) -> Result<(), Failure> {
        let answer = self.outbound.ask(method, url, &self.headers, body).await;
        let answer = answer.map_err(|e| Failure::Retry(e.to_string()))?;
        let why = format!("the server answered {}", answer.status.as_u16());
        match answer.status {
            s if s.is_success() => Ok(()),
            StatusCode::NOT_FOUND if absent => Ok(()),
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Err(Failure::Refused(why)),
            _ => Err(Failure::Retry(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_ids_are_percent_encoded() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let expected = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
            assert_eq!(percent_encoding::percent_encode(&[byte], RESERVED).to_string(), expected);
        }
    }
}
