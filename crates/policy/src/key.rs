//! Condition keys: the names a condition or a policy variable may ask about.
//!
//! Invariants: names are matched without regard to case, except what follows the slash of an object
//! tag (S3's tags are case-sensitive); a name that is not in this table is refused when a policy is
//! read. Keys that the server derives (`aws:SourceIp`, `aws:username`, ...) are answered from typed
//! fields of [`crate::Context`] and [`crate::Principal`]; only the closed list of [`KeyId::is_header`]
//! is answered from headers, so that no header can stand in for a derived key.

macro_rules! keys {
    (exact { $($id:ident = $name:literal,)* } headers { $($hid:ident = $hname:literal,)* }
     named { $($nid:ident = $nname:literal,)* } absent { $($aname:literal,)* }) => {
        /// Which condition key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum KeyId { $($id,)* $($hid,)* $($nid,)*
            /// A key of AWS that no request to this server ever has, such as `aws:SourceVpc`.
            Never,
        }

        /// Name in canonical spelling, and key.
        const EXACT: &[(&str, KeyId)] = &[$(($name, KeyId::$id),)* $(($hname, KeyId::$hid),)*];
        /// Keys with a name of the writer's choice after the prefix.
        const NAMED: &[(&str, KeyId)] = &[$(($nname, KeyId::$nid),)*];
        const ABSENT: &[&str] = &[$($aname,)*];

        impl KeyId {
            /// Whether a request header of the same name (after `s3:`) is its value.
            pub fn is_header(self) -> bool {
                matches!(self, $(KeyId::$hid)|*)
            }
        }
    };
}

keys! {
    exact {
        CurrentTime = "aws:CurrentTime",
        EpochTime = "aws:EpochTime",
        FederatedProvider = "aws:FederatedProvider",
        Groups = "aws:groups",
        MfaPresent = "aws:MultiFactorAuthPresent",
        PrincipalAccount = "aws:PrincipalAccount",
        PrincipalArn = "aws:PrincipalArn",
        PrincipalType = "aws:PrincipalType",
        Referer = "aws:Referer",
        RequestedRegion = "aws:RequestedRegion",
        SecureTransport = "aws:SecureTransport",
        SourceIp = "aws:SourceIp",
        TokenIssueTime = "aws:TokenIssueTime",
        UserAgent = "aws:UserAgent",
        UserId = "aws:userid",
        Username = "aws:username",
        AuthType = "s3:authType",
        Delimiter = "s3:delimiter",
        LocationConstraint = "s3:LocationConstraint",
        MaxKeys = "s3:max-keys",
        LockLegalHold = "s3:object-lock-legal-hold",
        LockMode = "s3:object-lock-mode",
        LockRemainingDays = "s3:object-lock-remaining-retention-days",
        LockRetainUntil = "s3:object-lock-retain-until-date",
        Prefix = "s3:prefix",
        RequestObjectTagKeys = "s3:RequestObjectTagKeys",
        SignatureAge = "s3:signatureAge",
        SignatureVersion = "s3:signatureversion",
        TlsVersion = "s3:TlsVersion",
        VersionId = "s3:versionid",
    }
    headers {
        HeaderIfMatch = "s3:if-match",
        HeaderIfNoneMatch = "s3:if-none-match",
        HeaderAcl = "s3:x-amz-acl",
        HeaderContentSha256 = "s3:x-amz-content-sha256",
        HeaderCopySource = "s3:x-amz-copy-source",
        HeaderGrantFullControl = "s3:x-amz-grant-full-control",
        HeaderGrantRead = "s3:x-amz-grant-read",
        HeaderGrantReadAcp = "s3:x-amz-grant-read-acp",
        HeaderGrantWrite = "s3:x-amz-grant-write",
        HeaderGrantWriteAcp = "s3:x-amz-grant-write-acp",
        HeaderMetadataDirective = "s3:x-amz-metadata-directive",
        HeaderObjectOwnership = "s3:x-amz-object-ownership",
        HeaderEncryption = "s3:x-amz-server-side-encryption",
        HeaderEncryptionKey = "s3:x-amz-server-side-encryption-aws-kms-key-id",
        HeaderEncryptionCustomer = "s3:x-amz-server-side-encryption-customer-algorithm",
        HeaderStorageClass = "s3:x-amz-storage-class",
        HeaderWebsiteRedirect = "s3:x-amz-website-redirect-location",
    }
    named {
        ExistingObjectTag = "s3:ExistingObjectTag/",
        RequestObjectTag = "s3:RequestObjectTag/",
        PrincipalTag = "aws:PrincipalTag/",
        Jwt = "jwt:",
        Ldap = "ldap:",
        Sts = "sts:",
        Svc = "svc:",
    }
    absent {
        "aws:CalledViaFirst", "aws:CalledViaLast", "aws:MultiFactorAuthAge", "aws:PrincipalIsAWSService",
        "aws:PrincipalOrgID", "aws:PrincipalServiceName", "aws:ResourceAccount", "aws:ResourceOrgID",
        "aws:SourceAccount", "aws:SourceArn", "aws:SourceIdentity", "aws:SourceOrgID", "aws:SourceOwner",
        "aws:SourceVpc", "aws:SourceVpce", "aws:ViaAWSService", "aws:VpcSourceIp",
        "s3:AccessPointNetworkOrigin", "s3:DataAccessPointAccount", "s3:DataAccessPointArn",
        "s3:ResourceAccount",
    }
}

/// A condition key as a policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Which one.
    pub id: KeyId,
    /// The tag, claim or attribute after the prefix; the whole name for keys that are never there;
    /// the header name for headers; otherwise empty.
    pub name: Box<str>,
}

impl Key {
    /// Finds a key by its full name, such as `aws:SourceIp` or `s3:ExistingObjectTag/class`. `None`:
    /// not a condition key.
    pub fn find(name: &str) -> Option<Key> {
        if let Some((known, id)) = EXACT.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
            let header = if id.is_header() { &known[3..] } else { "" };
            return Some(Key { id: *id, name: header.into() });
        }
        for (prefix, id) in NAMED {
            let Some((head, rest)) = name.split_at_checked(prefix.len()) else { continue };
            if head.eq_ignore_ascii_case(prefix) && !rest.is_empty() && !rest.contains("${") {
                let lower = matches!(id, KeyId::Jwt | KeyId::Ldap | KeyId::Sts | KeyId::Svc);
                let name = if lower { rest.to_ascii_lowercase() } else { rest.to_owned() };
                return Some(Key { id: *id, name: name.into() });
            }
        }
        let known = ABSENT.iter().find(|n| n.eq_ignore_ascii_case(name))?;
        Some(Key { id: KeyId::Never, name: (*known).into() })
    }

    /// Its name in canonical spelling.
    pub fn full_name(&self) -> String {
        if self.id == KeyId::Never {
            return self.name.to_string();
        }
        if let Some((name, _)) = EXACT.iter().find(|(_, id)| *id == self.id) {
            return (*name).to_owned();
        }
        let prefix = NAMED.iter().find(|(_, id)| *id == self.id).map_or("", |(p, _)| p);
        format!("{prefix}{}", self.name)
    }
}

/// The known key whose name is nearest to a wrong one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let low = name.to_ascii_lowercase();
    let all = EXACT.iter().chain(NAMED).map(|(n, _)| *n).chain(ABSENT.iter().copied());
    all.map(|n| (crate::action::distance(&low, &n.to_ascii_lowercase()), n))
        .min()
        .filter(|(d, _)| *d <= 3)
        .map(|(_, n)| n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_any_case() {
        assert_eq!(Key::find("AWS:sourceip").unwrap().id, KeyId::SourceIp);
        assert_eq!(&*Key::find("s3:X-Amz-Acl").unwrap().name, "x-amz-acl");
        assert_eq!(&*Key::find("s3:existingobjecttag/Class").unwrap().name, "Class");
        assert_eq!(&*Key::find("JWT:Sub").unwrap().name, "sub");
        assert_eq!(Key::find("aws:sourcevpc").unwrap().full_name(), "aws:SourceVpc");
        assert_eq!(Key::find("jwt:x").unwrap().full_name(), "jwt:x");
        for bad in
            ["", "aws:", "jwt:", "s3:ExistingObjectTag/", "x-amz-acl", "aws:Nothing", "s3:x-amz-meta-a"]
        {
            assert_eq!(Key::find(bad), None, "{bad}");
        }
        assert_eq!(nearest("aws:SourceIP4"), Some("aws:SourceIp"));
    }
}
