//! Conditions of requests (`If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`) as a pure
//! function of the current version: RFC 9110, section 13.
//!
//! Dates have a resolution of one second in HTTP, so times are compared in whole seconds.
//!
//! Must not depend on: the store.

use std::fmt::Write as _;

use crate::types::ETag;

/// One entity tag of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntityTag {
    /// Written with `W/`: equal only in the weak comparison.
    pub weak: bool,
    /// The opaque text without quotes.
    pub tag: String,
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Match {
    /// `*`: any current version.
    Any,
    /// One of these.
    Tags(Vec<EntityTag>),
}

impl Match {
    /// Parses a header value: `*`, or a list of tags. Tags without quotes are accepted like in S3. `None` if
    /// it contains no tag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Match> {
        let text = text.trim();
        if text == "*" || text == "\"*\"" {
            return Some(Match::Any);
        }
        let mut tags = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (weak, body) = match rest.strip_prefix("W/") {
                Some(r) => (true, r),
                None => (false, rest),
            };
            let (tag, after) = match body.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => {
                    let end = body.find(',').unwrap_or(body.len());
                    (body[..end].trim_end(), &body[end..])
                }
            };
            if !tag.is_empty() {
                tags.push(EntityTag { weak, tag: tag.to_owned() });
            }
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(r) => r.trim_start(),
                None if after.is_empty() => "",
                None => return None,
            };
        }
        (!tags.is_empty()).then_some(Match::Tags(tags))
    }

    /// Whether `etag` matches; `strong`: weak tags never match.
    #[must_use]
    pub fn holds(&self, etag: &ETag, strong: bool) -> bool {
        match self {
            Match::Any => true,
            Match::Tags(tags) => {
                let mut text = String::with_capacity(40);
                let _ = write!(text, "{etag}");
                tags.iter().any(|t| !(strong && t.weak) && t.tag.eq_ignore_ascii_case(&text))
            }
        }
    }
}

/// The conditions of one request; the default has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<Match>,
    /// `If-None-Match`.
    pub if_none_match: Option<Match>,
    /// `If-Modified-Since`, seconds since 1970.
    pub if_modified_since: Option<i64>,
    /// `If-Unmodified-Since`, seconds since 1970.
    pub if_unmodified_since: Option<i64>,
}

impl Conditions {
    /// No condition: always holds.
    pub const NONE: Conditions = Conditions {
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
    };

    /// Whether there is no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Conditions::NONE
    }
}

/// The result of the evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Execute the request.
    Proceed,
    /// Reads only: 304.
    NotModified,
    /// 412.
    Failed,
    /// Writes only: `If-Match` although there is no current version (404 for PUT and COPY).
    Absent,
}

/// Evaluates `conditions` against the current version (`None`: no key, or a delete marker is current), in the
/// order of RFC 9110, 13.2.2, with the additional rules of S3: a true `If-Match` makes `If-Unmodified-Since`
/// irrelevant, a false `If-None-Match` takes precedence over a true `If-Modified-Since`. `for_read`: GET,
/// HEAD and the source of a COPY; dates are ignored for writes without a current version.
#[must_use]
pub fn evaluate(conditions: &Conditions, current: Option<(&ETag, i64)>, for_read: bool) -> Verdict {
    let seconds = current.map(|(_, ms)| ms.div_euclid(1000));
    match (&conditions.if_match, current) {
        (Some(_), None) => return if for_read { Verdict::Failed } else { Verdict::Absent },
        (Some(m), Some((etag, _))) if !m.holds(etag, true) => return Verdict::Failed,
        (Some(_), Some(_)) => {}
        (None, _) => {
            if let (Some(limit), Some(seconds)) = (conditions.if_unmodified_since, seconds)
                && seconds > limit
            {
                return Verdict::Failed;
            }
        }
    }
    match (&conditions.if_none_match, current) {
        (Some(m), Some((etag, _))) => {
            if m.holds(etag, false) {
                return if for_read { Verdict::NotModified } else { Verdict::Failed };
            }
        }
        (Some(_), None) => {}
        (None, _) => {
            if let (Some(limit), Some(seconds), true) = (conditions.if_modified_since, seconds, for_read)
                && seconds <= limit
            {
                return Verdict::NotModified;
            }
        }
    }
    Verdict::Proceed
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Absent, Failed, NotModified, Proceed};

    const ETAG: ETag = ETag { md5: [0xab; 16], parts: 0 };
    /// Modified at 100.999 s: on the wire that is 100.
    const NOW: Option<(&ETag, i64)> = Some((&ETAG, 100_999));

    fn tag(text: &str) -> Option<Match> {
        Match::parse(text)
    }

    fn mine() -> String {
        format!("\"{ETAG}\"")
    }

    #[test]
    fn reads() {
        let judge = |c: &Conditions, now| evaluate(c, now, true);
        let match_ = |m: &str| Conditions { if_match: tag(m), ..Conditions::NONE };
        let none = |m: &str| Conditions { if_none_match: tag(m), ..Conditions::NONE };
        let since = |t| Conditions { if_modified_since: Some(t), ..Conditions::NONE };
        let unmodified = |t| Conditions { if_unmodified_since: Some(t), ..Conditions::NONE };
        assert_eq!(judge(&match_("*"), NOW), Proceed);
        assert_eq!(judge(&match_(&mine()), NOW), Proceed);
        assert_eq!(judge(&match_("\"x\""), NOW), Failed);
        assert_eq!(judge(&match_(&format!("\"x\", {}", mine())), NOW), Proceed);
        assert_eq!(judge(&match_(&format!("W/{}", mine())), NOW), Failed, "strong comparison");
        assert_eq!(judge(&none(&format!("W/{}", mine())), NOW), NotModified, "weak comparison");
        assert_eq!(judge(&none("*"), NOW), NotModified);
        assert_eq!(judge(&none("\"x\""), NOW), Proceed);
        assert_eq!(judge(&since(99), NOW), Proceed);
        assert_eq!(judge(&since(100), NOW), NotModified);
        assert_eq!(judge(&unmodified(100), NOW), Proceed);
        assert_eq!(judge(&unmodified(99), NOW), Failed);
        // Combined: the tag beats the date.
        let both = Conditions { if_unmodified_since: Some(1), ..match_(&mine()) };
        assert_eq!(judge(&both, NOW), Proceed);
        let both = Conditions { if_modified_since: Some(1), ..none(&mine()) };
        assert_eq!(judge(&both, NOW), NotModified);
        let both = Conditions { if_modified_since: Some(1000), ..none("\"x\"") };
        assert_eq!(judge(&both, NOW), Proceed);
        let both = Conditions { if_none_match: tag(&mine()), ..match_("\"x\"") };
        assert_eq!(judge(&both, NOW), Failed, "412 before 304");
    }

    #[test]
    fn writes() {
        let judge = |c: &Conditions, now| evaluate(c, now, false);
        let none = Conditions { if_none_match: Some(Match::Any), ..Conditions::NONE };
        let match_ = Conditions { if_match: Some(Match::Any), ..Conditions::NONE };
        assert_eq!((judge(&none, NOW), judge(&none, None)), (Failed, Proceed));
        assert_eq!((judge(&match_, NOW), judge(&match_, None)), (Proceed, Absent));
        let dates =
            Conditions { if_modified_since: Some(1_000), if_unmodified_since: Some(99), ..Conditions::NONE };
        assert_eq!((judge(&dates, NOW), judge(&dates, None)), (Failed, Proceed));
        assert_eq!(judge(&Conditions::NONE, None), Proceed);
    }

    #[test]
    fn header_values() {
        let tags = |t: &str| match Match::parse(t) {
            Some(Match::Tags(v)) => v.into_iter().map(|t| (t.weak, t.tag)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(Match::parse(" * "), Some(Match::Any));
        assert_eq!(tags("\"a\""), [(false, "a".to_owned())]);
        assert_eq!(tags("abc"), [(false, "abc".to_owned())]);
        assert_eq!(
            tags("\"a,b\" , W/\"c\",d"),
            [(false, "a,b".to_owned()), (true, "c".to_owned()), (false, "d".to_owned())]
        );
        for bad in ["", " ", ",", "\"open", "\"a\" \"b\"", "\"\""] {
            assert_eq!(Match::parse(bad), None, "{bad:?}");
        }
    }
}
