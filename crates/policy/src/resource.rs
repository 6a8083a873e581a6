//! Resources: ARNs of buckets, objects and keys as patterns.
//!
//! Invariants: only S3 and KMS names; the part before the name is checked when it is parsed and not used
//! afterwards; a pattern for objects never matches a key of the key service.

use crate::action::Level;
use crate::condition::bad_pattern;
use crate::pattern::Pattern;
use crate::request::Request;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    Everything,
    S3,
    Kms,
}

/// One compiled resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    space: Space,
    pub(crate) pattern: Pattern,
}

/// Partitions that are taken; they all mean this deployment.
const PARTITIONS: [&str; 5] = ["aws", "aws-cn", "aws-us-gov", "minio", "*"];

impl Resource {
    /// Reads `*`, `arn:aws:s3:::bucket/key` or `arn:aws:kms:::key`; `Err` says what to write.
    pub(crate) fn parse(text: &str, vars: bool) -> Result<Resource, String> {
        if text == "*" {
            return Ok(Resource { space: Space::Everything, pattern: Pattern::glob("*") });
        }
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let &["arn", partition, service, region, account, name] = &parts[..] else {
            return Err(format!("\"{text}\" is not a resource; write \"*\" or \"arn:aws:s3:::bucket/key*\""));
        };
        let empty = |t: &str| t.is_empty() || t == "*";
        if !PARTITIONS.contains(&partition) || !empty(region) || !empty(account) {
            return Err(format!(
                "\"{text}\": nothing goes between the colons before the name; write \"arn:aws:s3:::...\""
            ));
        }
        let space = match service {
            "s3" => Space::S3,
            "kms" => Space::Kms,
            other => return Err(format!("\"{text}\": the service {other} has no resources here")),
        };
        if name.is_empty() {
            return Err(format!("\"{text}\" names nothing; write \"{text}*\" for everything"));
        }
        if name.starts_with('/') {
            return Err(format!("\"{text}\": a bucket's name comes first, without a slash before it"));
        }
        let pattern = Pattern::parse(name, true, vars).map_err(|b| bad_pattern(&b))?;
        Ok(Resource { space, pattern })
    }

    /// Whether the request is about it.
    #[inline]
    pub(crate) fn matches(&self, request: &Request) -> bool {
        let good = match self.space {
            Space::Everything => return true,
            Space::S3 => request.action.level() != Level::Kms,
            Space::Kms => request.action.level() == Level::Kms,
        };
        good && self.pattern.matches(request.resource_bytes(), request)
    }

    /// Whether it stands for everything, and so also for actions about nothing in particular.
    pub(crate) fn is_everything(&self) -> bool {
        self.space == Space::Everything || (self.space == Space::S3 && self.pattern.matches_plain(""))
    }

    /// Whether it can only name this bucket, or things in it.
    pub(crate) fn is_within(&self, bucket: &str) -> bool {
        if self.space != Space::S3 {
            return false;
        }
        if self.pattern.fixed() == Some(bucket) {
            return true;
        }
        let head = self.pattern.literal_head();
        head.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('/'))
            // `bucket*` also names other buckets, but a bucket's policy is only asked about its own.
            || (head == bucket && self.pattern.fixed().is_none())
    }

    /// Whether actions of this level can be about it.
    pub(crate) fn can_be(&self, level: Level) -> bool {
        if self.space == Space::Everything {
            return true;
        }
        let head = self.pattern.literal_head();
        let fixed = self.pattern.fixed().is_some();
        match level {
            Level::Kms => self.space == Space::Kms,
            Level::Object => self.space == Space::S3 && (head.contains('/') || !fixed),
            Level::Bucket => self.space == Space::S3 && !head.contains('/'),
            Level::Service => self.is_everything(),
        }
    }
}
