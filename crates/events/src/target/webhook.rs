//! Webhooks: one POST per event, several at a time.

use ashlar_outbound::{Outbound, Url, refuse_host};
use futures::future::join_all;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};

use super::{Failure, Sent};
use crate::Message;
use crate::settings::Settings;

/// Most requests in flight.
const WAVE: usize = 8;

/// Posts to a URL.
pub struct Webhook {
    outbound: Outbound,
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Webhook {
    pub fn open(s: &Settings<'_>) -> Result<Webhook, String> {
        let url = s.need("endpoint")?.to_owned();
        refuse_host(&Url::parse(&url).map_err(|e| e.to_string())?.host)?;
        let outbound = Outbound::new(s.rules()?).map_err(|e| e.to_string())?;
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        if let Some(token) = s.get("auth_token") {
            // As in MinIO, a token without a scheme is a bearer token.
            let text = if token.contains(' ') { token.to_owned() } else { format!("Bearer {token}") };
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| "auth_token contains characters that are not allowed in a header")?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
        Ok(Webhook { outbound, url, headers })
    }

    pub async fn send(&self, messages: &[Message]) -> Sent {
        let mut answers = Vec::with_capacity(messages.len());
        for wave in messages.chunks(WAVE) {
            answers.extend(join_all(wave.iter().map(|m| self.post(m))).await);
            if answers.iter().any(|a| matches!(a, Err(Failure::Retry(_)))) {
                break;
            }
        }
        Sent::of(answers)
    }

    async fn post(&self, message: &Message) -> Result<(), Failure> {
        let answer = self.outbound.post(&self.url, &self.headers, message.body.clone()).await;
        let answer = answer.map_err(|e| Failure::Retry(e.to_string()))?;
        let why = format!("the receiver answered {}", answer.status.as_u16());
        match answer.status.as_u16() {
            200..=299 => Ok(()),
            // An error in the message is permanent. Any other error can be corrected at the receiver.
            400 | 413 | 414 | 415 | 422 => Err(Failure::Refused(why)),
            _ => Err(Failure::Retry(why)),
        }
    }
}
