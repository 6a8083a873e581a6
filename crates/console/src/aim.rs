//! Which requests are for the console.
//!
//! The console is at `/console/` of the S3 port, where S3 has the bucket `console`. Invariant: a request that an
//! S3 client makes is never taken: not one that is signed, and not an anonymous one either, unless it asks for
//! the page `/console/` as a browser does, names a built file, or has what only the console's own code sends.
//!
//! Must not depend on: sessions, the services.

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Method, Request};

use crate::HEADER;
use crate::assets::{self, Asset};
use crate::links::TICKET;

/// Where providers of identities send browsers back to (MinIO's path). No bucket can have this name. A provider may also
/// be configured with this path below `/console`.
const CALLBACK: &str = "/oauth_callback";

/// What a request wants of the console.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The page.
    Page,
    /// A built file.
    File(&'static Asset),
    /// To be sent to the page, whose address is this, relative to the request.
    Redirect(&'static str),
    /// To be sent to the page with what a provider said, which is in the query; the address is relative.
    Back(&'static str),
    /// A call of the page's code; the path below `/console/`.
    Call(String),
}

/// Whether a request is for the console when it shares the port with S3.
pub fn is_console<B>(request: &Request<B>) -> bool {
    find(request.method(), request.uri(), request.headers()).is_some()
}

/// Whether a browser asks for the front page, from where it is sent to the console.
pub fn wants_console<B>(request: &Request<B>) -> bool {
    let read = request.method() == Method::GET;
    let plain = request.uri().path() == "/" && request.uri().query().is_none();
    read && plain && is_browser(request.headers()) && !is_signed(request.uri(), request.headers())
}

pub(crate) fn aim(parts: &Parts) -> Option<Aim> {
    find(&parts.method, &parts.uri, &parts.headers)
}

fn find(method: &Method, uri: &http::Uri, headers: &HeaderMap) -> Option<Aim> {
    let read = matches!(*method, Method::GET | Method::HEAD);
    if uri.path() == CALLBACK {
        return (read && is_return(uri, headers)).then_some(Aim::Back("console/"));
    }
    let below = uri.path().strip_prefix("/console")?;
    if is_signed(uri, headers) {
        return None;
    }
    if headers.contains_key(HEADER) {
        return Some(Aim::Call(below.strip_prefix('/')?.to_owned()));
    }
    match below {
        "" if read && is_browser(headers) => Some(Aim::Redirect("console/")),
        "/" if read && is_browser(headers) => Some(Aim::Page),
        CALLBACK if read && is_return(uri, headers) => Some(Aim::Back("./")),
        _ if !read => None,
        _ => match below.strip_prefix("/assets/") {
            Some(name) => assets::find(name).map(Aim::File),
            None if below.starts_with("/s3/") && has(uri, &[TICKET]) => {
                Some(Aim::Call(below.strip_prefix('/')?.to_owned()))
            }
            None => None,
        },
    }
}

/// Whether a provider of identities sent a browser back.
fn is_return(uri: &http::Uri, headers: &HeaderMap) -> bool {
    is_browser(headers) && has(uri, &["state"]) && !is_signed(uri, headers)
}

/// Whether a request has credentials of an S3 client.
fn is_signed(uri: &http::Uri, headers: &HeaderMap) -> bool {
    const SIGNED: [&str; 4] = ["X-Amz-Signature", "X-Amz-Algorithm", "Signature", "AWSAccessKeyId"];
    headers.contains_key(header::AUTHORIZATION) || has(uri, &SIGNED)
}

fn has(uri: &http::Uri, names: &[&str]) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| names.contains(&pair.split('=').next().unwrap_or_default()))
}

/// Whether it is a browser that opens a page: no S3 client asks for HTML.
fn is_browser(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aimed(method: &str, uri: &str, headers: &[(&str, &str)]) -> Option<Aim> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        aim(&request.body(()).unwrap().into_parts().0)
    }

    const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml");

    #[test]
    fn requests_of_s3_clients_to_a_bucket_named_console_are_not_taken() {
        let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=...");
        for (method, uri, headers) in [
            ("GET", "/console", &[][..]),
            ("GET", "/console/", &[]),
            ("GET", "/console?list-type=2", &[]),
            ("GET", "/console/", &[signed, HTML]),
            ("GET", "/console/?X-Amz-Signature=00&X-Amz-Algorithm=AWS4-HMAC-SHA256", &[HTML]),
            ("GET", "/console/?AWSAccessKeyId=a&Signature=b&Expires=1", &[HTML]),
            ("PUT", "/console/", &[HTML]),
            ("PUT", "/console/admin/info", &[signed]),
            ("PUT", "/console/admin/info", &[signed, (HEADER, "1")]),
            ("GET", "/console/page.html", &[HTML]),
            ("GET", "/console/assets/no-such-file.js", &[]),
            ("GET", "/console/s3/bucket/key", &[HTML]),
            ("GET", "/console2/", &[HTML]),
            ("GET", "/consoles", &[(HEADER, "1")]),
            ("GET", "/bucket/console/", &[HTML, (HEADER, "1")]),
            ("GET", "/oauth_callback", &[HTML]),
            ("GET", "/oauth_callback?state=1&code=2", &[]),
            ("POST", "/oauth_callback?state=1&code=2", &[HTML]),
            ("GET", "/oauth_callback?state=1&X-Amz-Signature=00", &[HTML]),
            ("GET", "//oauth_callback?state=1&code=2", &[HTML]),
            ("GET", "/bucket/oauth_callback?state=1&code=2", &[HTML]),
        ] {
            assert_eq!(aimed(method, uri, headers), None, "{method} {uri}");
        }
    }

    #[test]
    fn browsers_and_the_pages_own_calls_are_taken() {
        assert_eq!(aimed("GET", "/console/", &[HTML]), Some(Aim::Page));
        assert_eq!(aimed("GET", "/console/?code=1&state=2", &[HTML]), Some(Aim::Page));
        assert_eq!(aimed("GET", "/console", &[HTML]), Some(Aim::Redirect("console/")));
        assert_eq!(aimed("GET", "/oauth_callback?code=1&state=2", &[HTML]), Some(Aim::Back("console/")));
        assert_eq!(aimed("GET", "/console/oauth_callback?error=e&state=2", &[HTML]), Some(Aim::Back("./")));
        let call = |path: &str| Some(Aim::Call(path.to_owned()));
        assert_eq!(aimed("PUT", "/console/s3/b/k", &[(HEADER, "1")]), call("s3/b/k"));
        assert_eq!(aimed("GET", "/console/s3/b/k?ashlar-ticket=t", &[HTML]), call("s3/b/k"));
        assert_eq!(aimed("PUT", "/console/s3/b/k?ashlar-ticket=t", &[]), None);
        let file = &assets::all()[0];
        assert_eq!(aimed("GET", &format!("/console/assets/{}", file.name), &[]), Some(Aim::File(file)));
    }

    #[test]
    fn only_a_browser_at_the_front_page_is_sent_to_the_console() {
        let wants = |uri: &str, headers: &[(&str, &str)]| {
            let mut request = Request::get(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            wants_console(&request.body(()).unwrap())
        };
        assert!(wants("/", &[HTML]));
        assert!(!wants("/", &[]));
        assert!(!wants("/", &[HTML, ("authorization", "AWS a:b")]));
        assert!(!wants("/?list-type=2", &[HTML]));
        assert!(!wants("/bucket", &[HTML]));
    }
}
