//! Refuses calls that a page of another origin made a browser send.
//!
//! The cookie is `SameSite=Strict`, and every call has a header that other origins cannot set without asking
//! first. This is the third check: what the browser says about the origin must be this one.
//!
//! Must not depend on: sessions.

use http::header::{self, HeaderMap};

/// Whether the headers show a call of the console's own page, as far as the browser says.
pub(crate) fn is_own(headers: &HeaderMap, download: bool) -> bool {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    // Browsers set it, and no page can: it needs no knowledge of the names of this server.
    match text("sec-fetch-site") {
        Some("same-origin") => return true,
        Some("none") if download => return true,
        Some(_) => return false,
        None => {}
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else { return true };
    let Some((_, host)) = origin.split_once("://") else { return false };
    let hosts = [text(header::HOST.as_str()), text("x-forwarded-host")];
    hosts.into_iter().flatten().any(|own| own.trim().eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        is_own(&headers, false)
    }

    #[test]
    fn other_origins_are_refused() {
        let host = ("host", "s3.example.com");
        assert!(own(&[host]), "a program");
        assert!(own(&[host, ("origin", "https://s3.example.com")]));
        assert!(own(&[
            host,
            ("x-forwarded-host", "files.example.com"),
            ("origin", "https://files.example.com")
        ]));
        assert!(own(&[host, ("origin", "https://proxy.example.com"), ("sec-fetch-site", "same-origin")]));
        assert!(!own(&[host, ("origin", "https://evil.example.com")]));
        assert!(!own(&[host, ("origin", "null")]));
        assert!(!own(&[host, ("sec-fetch-site", "same-site")]));
        assert!(!own(&[host, ("sec-fetch-site", "cross-site"), ("origin", "https://s3.example.com")]));
        assert!(!own(&[host, ("sec-fetch-site", "none")]));
    }
}
