//! Public access: which policies count as public, and the settings that block public access.
//!
//! Invariants: a policy counts as public until each of its `Allow` statements is tied to fixed
//! principals or to fixed values of a trusted condition key, as AWS defines it ("The meaning of
//! public", S3 User Guide).

use crate::document::Effect;
use crate::policy::Policy;
use crate::{Error, Result};

/// The four settings of AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicAccessBlock {
    /// Refuse new public access control lists.
    pub block_public_acls: bool,
    /// Ignore public access control lists that are there.
    pub ignore_public_acls: bool,
    /// Refuse new public bucket policies.
    pub block_public_policy: bool,
    /// Deny anonymous requests that a public bucket policy would allow.
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlock {
    /// All four on.
    pub const ALL: PublicAccessBlock = PublicAccessBlock {
        block_public_acls: true,
        ignore_public_acls: true,
        block_public_policy: true,
        restrict_public_buckets: true,
    };

    /// What holds when both are set, for a bucket and for the whole deployment: the stricter of each.
    pub fn or(self, other: PublicAccessBlock) -> PublicAccessBlock {
        PublicAccessBlock {
            block_public_acls: self.block_public_acls || other.block_public_acls,
            ignore_public_acls: self.ignore_public_acls || other.ignore_public_acls,
            block_public_policy: self.block_public_policy || other.block_public_policy,
            restrict_public_buckets: self.restrict_public_buckets || other.restrict_public_buckets,
        }
    }
}

impl Policy {
    /// Whether it lets the public in.
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(|s| {
            s.effect == Effect::Allow
                && s.principal.as_ref().is_some_and(|p| p.is_open())
                && !s.conditions.iter().any(|c| c.confines())
        })
    }
}

/// Whether the settings take this policy for a bucket.
///
/// # Errors
/// [`Error::PublicPolicy`].
pub fn check_put_policy(block: PublicAccessBlock, policy: &Policy) -> Result<()> {
    if block.block_public_policy && policy.is_public() { Err(Error::PublicPolicy) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attached;

    fn public(principal: &str, condition: &str) -> bool {
        let json = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{principal},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"{condition}}}]}}"#
        );
        let policy = Policy::parse(Attached::Bucket, json.as_bytes()).unwrap();
        assert_eq!(check_put_policy(PublicAccessBlock::ALL, &policy).is_err(), policy.is_public());
        assert!(check_put_policy(PublicAccessBlock::default(), &policy).is_ok());
        policy.is_public()
    }

    #[test]
    fn public_policies_are_recognized() {
        let when = |c: &str| format!(r#","Condition":{c}"#);
        assert!(public(r#""*""#, ""));
        assert!(public(r#"{"AWS":"*"}"#, ""));
        assert!(public(r#"{"AWS":["arn:aws:iam:::user/a","*"]}"#, ""));
        assert!(public(r#"{"Federated":"graph.facebook.com"}"#, ""));
        assert!(!public(r#"{"AWS":"arn:aws:iam:::user/a"}"#, ""));
        assert!(!public(r#"{"Service":"replication"}"#, ""));
        for (condition, want) in [
            (r#"{"StringLike":{"aws:SourceVpc":"vpc-*"}}"#, true),
            (r#"{"StringEquals":{"aws:SourceVpc":"vpc-91237329"}}"#, false),
            (r#"{"IpAddress":{"aws:SourceIp":"192.0.2.0/24"}}"#, false),
            (r#"{"IpAddress":{"aws:SourceIp":"0.0.0.0/1"}}"#, true),
            (r#"{"IpAddress":{"aws:SourceIp":["192.0.2.0/24","0.0.0.0/0"]}}"#, true),
            (r#"{"IpAddress":{"aws:SourceIp":"2001::/16"}}"#, true),
            (r#"{"IpAddressIfExists":{"aws:SourceIp":"192.0.2.0/24"}}"#, true),
            (r#"{"NotIpAddress":{"aws:SourceIp":"192.0.2.0/24"}}"#, true),
            (r#"{"StringEquals":{"aws:userid":"AIDA"}}"#, false),
            (r#"{"StringLike":{"aws:userid":"AROLEID:*"}}"#, true),
            (r#"{"StringEquals":{"aws:userid":"${aws:userid}"}}"#, true),
            (r#"{"ForAllValues:StringEquals":{"aws:userid":"AIDA"}}"#, true),
            (r#"{"StringEquals":{"aws:Referer":"https://example.com"}}"#, true),
            (r#"{"Bool":{"aws:SecureTransport":"true"}}"#, true),
            (r#"{"StringEquals":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"k"}}"#, false),
        ] {
            assert_eq!(public(r#""*""#, &when(condition)), want, "{condition}");
        }
    }

    #[test]
    fn settings_of_bucket_and_deployment_are_combined() {
        let one = PublicAccessBlock { block_public_acls: true, ..PublicAccessBlock::default() };
        assert_eq!(one.or(PublicAccessBlock::default()), one);
        assert_eq!(one.or(PublicAccessBlock::ALL), PublicAccessBlock::ALL);
    }
}
