//! CORS rules of a bucket: which rule applies to a request, and the headers of the answer.
//!
//! Semantics: Amazon S3 User Guide, "Using cross-origin resource sharing": the first rule applies whose
//! origins, methods and headers all match. Invariants: credentials are allowed only for origins that a rule
//! names, never for `*`; only an origin that a rule names and header names of token characters are reflected;
//! no value contains CR or LF.
//!
//! Must not depend on: how rules are stored.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use crate::answer::Answer;
use crate::fault::{Code, Fault, Outcome};

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// A name for people.
    pub id: Option<String>,
    /// Origins, each with at most one `*`.
    pub origins: Vec<String>,
    /// Of GET, PUT, POST, DELETE, HEAD.
    pub methods: Vec<String>,
    /// Header names that may be sent, each with at most one `*`.
    pub headers: Vec<String>,
    /// Header names that a page may read.
    pub expose: Vec<String>,
    /// Seconds for which a browser may keep the answer.
    pub max_age: Option<u32>,
}

/// The rules of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// Whether `text` matches a pattern with at most one `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            text.len() >= before.len() + after.len() && text.starts_with(before) && text.ends_with(after)
        }
    }
}

impl Rule {
    fn meets(&self, origin: &str, method: &str, asked: &[String]) -> bool {
        let header = |name: &String| self.headers.iter().any(|p| fits(&p.to_ascii_lowercase(), name));
        self.methods.iter().any(|m| m == method)
            && self.origins.iter().any(|p| fits(p, origin))
            && asked.iter().all(header)
    }

    /// The headers of an answer to `origin`.
    fn write(&self, origin: &HeaderValue, out: &mut HeaderMap) {
        let all = self.origins.iter().any(|o| o == "*");
        let allowed = if all { HeaderValue::from_static("*") } else { origin.clone() };
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if !all {
            // As AWS: for origins that the rule names. Requests are signed, so it opens nothing by itself.
            out.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        list(out, header::ACCESS_CONTROL_ALLOW_METHODS, &self.methods);
        list(out, header::ACCESS_CONTROL_EXPOSE_HEADERS, &self.expose);
        if let Some(seconds) = self.max_age {
            out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(seconds));
        }
    }
}

fn list(out: &mut HeaderMap, name: header::HeaderName, values: &[String]) {
    if !values.is_empty()
        && let Ok(value) = HeaderValue::from_str(&values.join(", "))
    {
        out.insert(name, value);
    }
}

const VARY: HeaderValue =
    HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method");

impl Rules {
    /// Answers `OPTIONS`.
    pub fn preflight(&self, request: &HeaderMap) -> Outcome<Answer> {
        let missing = |what: &str| {
            Err(Fault::with(
                Code::INVALID_REQUEST,
                format!("Insufficient information. {what} request header needed."),
            ))
        };
        let Some(origin) = request.get(header::ORIGIN) else { return missing("Origin") };
        let Some(method) = request.get(header::ACCESS_CONTROL_REQUEST_METHOD).and_then(|m| m.to_str().ok())
        else {
            return missing("Access-Control-Request-Method");
        };
        let asked = match request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).map(HeaderValue::to_str) {
            None => Vec::new(),
            Some(Ok(names)) => {
                let names = names.split(',').map(|n| n.trim().to_ascii_lowercase());
                names.filter(|n| !n.is_empty()).collect::<Vec<_>>()
            }
            Some(Err(_)) => return Err(Fault::new(Code::CORS_FORBIDDEN)),
        };
        let text = origin.to_str().unwrap_or_default();
        let rule = self.0.iter().find(|r| asked.iter().all(|n| is_token(n)) && r.meets(text, method, &asked));
        let Some(rule) = rule else { return Err(Fault::new(Code::CORS_FORBIDDEN)) };
        let mut answer = Answer::new(StatusCode::OK);
        rule.write(origin, &mut answer.headers);
        list(&mut answer.headers, header::ACCESS_CONTROL_ALLOW_HEADERS, &asked);
        answer.headers.insert(header::VARY, VARY);
        Ok(answer)
    }

    /// Adds the headers that let a page read an answer, if a rule matches.
    pub fn decorate(&self, origin: &HeaderValue, method: &str, answer: &mut HeaderMap) {
        let text = origin.to_str().unwrap_or_default();
        if answer.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        if let Some(rule) = self.0.iter().find(|r| r.meets(text, method, &[])) {
            rule.write(origin, answer);
        }
        // A cache must not give the answer for one origin to another, whether it met a rule or not.
        answer.append(header::VARY, VARY);
    }
}

/// A header name, which can be reflected.
pub fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str], methods: &[&str], headers: &[&str]) -> Rule {
        let own = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect();
        Rule { origins: own(origins), methods: own(methods), headers: own(headers), ..Rule::default() }
    }

    fn ask(rules: &Rules, origin: &str, method: &str, headers: &str) -> Option<HeaderMap> {
        let mut request = HeaderMap::new();
        request.insert(header::ORIGIN, origin.parse().unwrap());
        request.insert(header::ACCESS_CONTROL_REQUEST_METHOD, method.parse().unwrap());
        if !headers.is_empty() {
            request.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, headers.parse().unwrap());
        }
        rules.preflight(&request).ok().map(|a| a.headers)
    }

    #[test]
    fn first_matching_rule_applies() {
        let mut second = rule(&["*"], &["GET"], &["*"]);
        second.expose = vec!["ETag".into()];
        second.max_age = Some(5);
        let rules = Rules(vec![
            rule(&["https://*.a.example"], &["GET", "PUT"], &["x-amz-*", "Content-Type"]),
            second,
        ]);
        let got = ask(&rules, "https://b.a.example", "PUT", "X-Amz-Date, content-type").unwrap();
        assert_eq!(got[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://b.a.example");
        assert_eq!(got[header::ACCESS_CONTROL_ALLOW_METHODS], "GET, PUT");
        assert_eq!(got[header::ACCESS_CONTROL_ALLOW_HEADERS], "x-amz-date, content-type");
        assert!(!got.contains_key(header::ACCESS_CONTROL_MAX_AGE));
        // The headers do not match the first rule, so the second applies.
        let got = ask(&rules, "https://b.a.example", "GET", "authorization").unwrap();
        assert_eq!(got[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(got[header::ACCESS_CONTROL_MAX_AGE], "5");
        assert_eq!(got[header::ACCESS_CONTROL_EXPOSE_HEADERS], "ETag");
        for (origin, method, headers) in [
            ("https://b.a.example", "PUT", "authorization"),
            ("https://other.example", "PUT", ""),
            ("http://b.a.example", "DELETE", ""),
            ("https://b.a.example", "PUT", "bad name"),
        ] {
            assert!(ask(&rules, origin, method, headers).is_none(), "{origin} {method} {headers}");
        }
        let mut answer = HeaderMap::new();
        rules.decorate(&HeaderValue::from_static("https://c.a.example"), "PUT", &mut answer);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://c.a.example");
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        let got = ask(&rules, "https://other.example", "GET", "").unwrap();
        assert_eq!(got[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(!got.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
        let mut answer = HeaderMap::new();
        rules.decorate(&HeaderValue::from_static("https://evil.example"), "PUT", &mut answer);
        assert!(
            !answer.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) && answer.contains_key(header::VARY)
        );
    }

    #[test]
    fn origins_may_have_one_wildcard() {
        assert!(fits("*", "") && fits("a*b", "ab") && fits("a*b", "a-b") && fits("a", "a"));
        assert!(!fits("a*a", "a") && !fits("a", "aa") && !fits("https://*.x", "https://x"));
    }
}
