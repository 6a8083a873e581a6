//! Signing out at a provider with a browser (OpenID Connect RP-Initiated Logout 1.0, section 2).
//!
//! The session of a person here and their session at the provider are two: whoever ends only the first is signed in again
//! without a password. The browser ends the second one at the provider's `end_session_endpoint`. The request names the
//! client and not the ID token, which is not stored: the provider may ask the person before it ends the session.
//!
//! Must not depend on: sessions here.

use std::sync::Arc;

use ashlar_iam::Refused;

use super::sign_in::{form, joined};
use super::{Document, Provider};

impl Provider {
    /// The URL at which a browser ends its session at this provider; `None`: the provider has none, or has one that cannot
    /// be used.
    ///
    /// # Errors
    /// `Unavailable`: the provider does not answer.
    pub async fn sign_out_url(self: &Arc<Self>, now_ms: i64) -> Result<Option<String>, Refused> {
        let document = self.document(now_ms).await.map_err(Refused::Unavailable)?;
        Ok(self.url_to_sign_out(&document))
    }

    fn url_to_sign_out(&self, document: &Document) -> Option<String> {
        let endpoint = document.end_session_endpoint.as_ref().filter(|e| self.settings.takes(e))?;
        let mut fields = vec![("client_id", self.settings.client_id.as_str())];
        // Providers refuse an address that they were not told of, so none is made up.
        fields.extend(
            self.settings.post_logout_redirect_uri.as_deref().map(|u| ("post_logout_redirect_uri", u)),
        );
        Some(joined(endpoint, &form(&fields)))
    }
}
