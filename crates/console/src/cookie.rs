//! Cookies of the console.
//!
//! Invariants: scripts cannot read them, and other sites cannot have them sent; they name no path, so that they are sent
//! only below the path at which the browser signed in, whatever a proxy puts in front.
//!
//! Must not depend on: what cookies hold.

use http::header::{self, HeaderMap};

/// The value of a cookie of a request.
pub(crate) fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut lines = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    lines.find_map(|line| line.split(';').find_map(|c| c.trim().strip_prefix(name)?.strip_prefix('=')))
}

/// The header that gives a cookie to the browser for some seconds. `secure`: it came over TLS.
pub(crate) fn given(name: &str, value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// The header that takes a cookie from the browser.
pub(crate) fn taken(name: &str, secure: bool) -> String {
    given(name, "", 0, secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "other=1; ab=2".parse().unwrap());
        headers.append(header::COOKIE, "a=3; abc=4".parse().unwrap());
        assert_eq!(find(&headers, "a"), Some("3"));
        assert_eq!(find(&headers, "ab"), Some("2"));
        assert_eq!(find(&headers, "b"), None);
        assert_eq!(taken("a", true), "a=; Max-Age=0; HttpOnly; SameSite=Strict; Secure");
    }
}
