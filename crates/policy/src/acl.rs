//! Access control lists, as far as AWS still supports them: canned lists, grants, ownership.
//!
//! Invariants: under [`Ownership::BucketOwnerEnforced`] lists grant nothing and cannot be set; the owner of a
//! list can always read and change it; unsigned requests never get more than what is granted to `AllUsers`,
//! and nothing when the public access block ignores public lists. The API layer parses and prints the XML.

use crate::action::Action;
use crate::public::PublicAccessBlock;

/// A permission of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// List a bucket; read an object.
    Read,
    /// Create, overwrite and delete objects of a bucket.
    Write,
    /// Read the list itself.
    ReadAcp,
    /// Change the list itself.
    WriteAcp,
    /// All of these.
    FullControl,
}

impl Permission {
    /// AWS's name.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Read => "READ",
            Permission::Write => "WRITE",
            Permission::ReadAcp => "READ_ACP",
            Permission::WriteAcp => "WRITE_ACP",
            Permission::FullControl => "FULL_CONTROL",
        }
    }

    /// The permission of that name.
    pub fn find(name: &str) -> Option<Permission> {
        use Permission::*;
        [Read, Write, ReadAcp, WriteAcp, FullControl].into_iter().find(|p| p.name() == name)
    }
}

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// The grantee.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Grantee {
    /// The identity with this canonical id.
    Id(String),
    /// All callers, including unsigned requests.
    AllUsers,
    /// All callers with an identity.
    AuthenticatedUsers,
    /// The service that writes access logs.
    LogDelivery,
}

impl Grantee {
    /// The URI of a group; `None` for an id.
    pub fn uri(&self) -> Option<&'static str> {
        match self {
            Grantee::Id(_) => None,
            Grantee::AllUsers => Some(ALL_USERS),
            Grantee::AuthenticatedUsers => Some(AUTHENTICATED_USERS),
            Grantee::LogDelivery => Some(LOG_DELIVERY),
        }
    }

    /// The group of that URI.
    pub fn from_uri(uri: &str) -> Option<Grantee> {
        [Grantee::AllUsers, Grantee::AuthenticatedUsers, Grantee::LogDelivery]
            .into_iter()
            .find(|g| g.uri() == Some(uri))
    }
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The grantee.
    pub grantee: Grantee,
    /// The permission.
    pub permission: Permission,
}

/// A list: who owns the thing and what is granted on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    /// Canonical id of the owner.
    pub owner: String,
    /// At most 100 ([`Acl::MAX_GRANTS`]); checked by [`check_put`].
    pub grants: Vec<Grant>,
}

/// A named list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canned {
    /// The owner alone.
    Private,
    /// All callers can read.
    PublicRead,
    /// All callers can read and write.
    PublicReadWrite,
    /// All callers with an identity can read.
    AuthenticatedRead,
    /// The bucket's owner reads the object.
    BucketOwnerRead,
    /// The bucket's owner has full control of the object.
    BucketOwnerFullControl,
    /// The log service writes into the bucket.
    LogDeliveryWrite,
}

impl Canned {
    /// The list of that name (`x-amz-acl`).
    pub fn find(name: &str) -> Option<Canned> {
        use Canned::*;
        [
            Private,
            PublicRead,
            PublicReadWrite,
            AuthenticatedRead,
            BucketOwnerRead,
            BucketOwnerFullControl,
            LogDeliveryWrite,
        ]
        .into_iter()
        .find(|c| c.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Canned::Private => "private",
            Canned::PublicRead => "public-read",
            Canned::PublicReadWrite => "public-read-write",
            Canned::AuthenticatedRead => "authenticated-read",
            Canned::BucketOwnerRead => "bucket-owner-read",
            Canned::BucketOwnerFullControl => "bucket-owner-full-control",
            Canned::LogDeliveryWrite => "log-delivery-write",
        }
    }

    /// The grants that it stands for. `bucket_owner`: for objects; `None` for buckets, where the two canned
    /// lists about the bucket's owner have no effect; `log-delivery-write` has none for objects.
    pub fn expand(self, owner: &str, bucket_owner: Option<&str>) -> Acl {
        let grant = |grantee, permission| Grant { grantee, permission };
        let mut grants = vec![grant(Grantee::Id(owner.to_owned()), Permission::FullControl)];
        match (self, bucket_owner) {
            (Canned::PublicRead, _) => grants.push(grant(Grantee::AllUsers, Permission::Read)),
            (Canned::PublicReadWrite, _) => {
                grants.push(grant(Grantee::AllUsers, Permission::Read));
                grants.push(grant(Grantee::AllUsers, Permission::Write));
            }
            (Canned::AuthenticatedRead, _) => {
                grants.push(grant(Grantee::AuthenticatedUsers, Permission::Read));
            }
            (Canned::BucketOwnerRead, Some(b)) if b != owner => {
                grants.push(grant(Grantee::Id(b.to_owned()), Permission::Read));
            }
            (Canned::BucketOwnerFullControl, Some(b)) if b != owner => {
                grants.push(grant(Grantee::Id(b.to_owned()), Permission::FullControl));
            }
            (Canned::LogDeliveryWrite, None) => {
                grants.push(grant(Grantee::LogDelivery, Permission::Write));
                grants.push(grant(Grantee::LogDelivery, Permission::ReadAcp));
            }
            _ => {}
        }
        Acl { owner: owner.to_owned(), grants }
    }
}

impl Acl {
    /// Most grants of one list, as AWS.
    pub const MAX_GRANTS: usize = 100;

    /// Whether it grants anything to `AllUsers` or `AuthenticatedUsers`.
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(|g| matches!(g.grantee, Grantee::AllUsers | Grantee::AuthenticatedUsers))
    }

    fn grants(&self, who: Requester, permission: Permission, ignore_public: bool) -> bool {
        let own = matches!(permission, Permission::ReadAcp | Permission::WriteAcp);
        if own && who == Requester::Id(&self.owner) {
            return true;
        }
        self.grants.iter().any(|g| {
            (g.permission == permission || g.permission == Permission::FullControl)
                && match (&g.grantee, who) {
                    (Grantee::Id(id), Requester::Id(w)) => id == w,
                    (Grantee::AllUsers, _) => !ignore_public,
                    (Grantee::AuthenticatedUsers, Requester::Id(_) | Requester::Authenticated) => {
                        !ignore_public
                    }
                    (Grantee::LogDelivery, Requester::LogDelivery) => true,
                    _ => false,
                }
        })
    }
}

/// The ownership setting: who owns new objects, and whether lists apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ownership {
    /// The bucket's owner owns everything; lists do not count. The default.
    #[default]
    BucketOwnerEnforced,
    /// The bucket's owner, when the writer gives full control; lists count.
    BucketOwnerPreferred,
    /// The writer; lists count.
    ObjectWriter,
}

impl Ownership {
    /// The setting of that name.
    pub fn find(name: &str) -> Option<Ownership> {
        use Ownership::*;
        [BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter].into_iter().find(|o| o.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Ownership::BucketOwnerEnforced => "BucketOwnerEnforced",
            Ownership::BucketOwnerPreferred => "BucketOwnerPreferred",
            Ownership::ObjectWriter => "ObjectWriter",
        }
    }
}

/// Who owns an object that `writer` puts with this canned list.
pub fn owner_of_new_object<'a>(
    ownership: Ownership,
    canned: Option<Canned>,
    writer: &'a str,
    bucket_owner: &'a str,
) -> &'a str {
    match ownership {
        Ownership::BucketOwnerEnforced => bucket_owner,
        Ownership::BucketOwnerPreferred if canned == Some(Canned::BucketOwnerFullControl) => bucket_owner,
        Ownership::BucketOwnerPreferred | Ownership::ObjectWriter => writer,
    }
}

/// Why a list is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// The bucket has lists switched off (`AccessControlListNotSupported`).
    #[error("the bucket does not allow ACLs; its ownership is BucketOwnerEnforced")]
    Disabled,
    /// `BlockPublicAcls` is on (`AccessDenied`).
    #[error("public ACLs are blocked by the BlockPublicAcls setting of the bucket's public access block")]
    Public,
    /// More than [`Acl::MAX_GRANTS`] (`MalformedACLError`).
    #[error("an ACL has at most 100 grants")]
    TooMany,
}

/// Checks whether a list may be set. With lists disabled, only a list is accepted that gives full control to
/// the bucket's owner and nothing to others, because it has no effect.
///
/// # Errors
/// See [`AclError`].
pub fn check_put(
    ownership: Ownership,
    block: PublicAccessBlock,
    acl: &Acl,
    bucket_owner: &str,
) -> Result<(), AclError> {
    if acl.grants.len() > Acl::MAX_GRANTS {
        return Err(AclError::TooMany);
    }
    if block.block_public_acls && acl.is_public() {
        return Err(AclError::Public);
    }
    let idle = |g: &Grant| {
        g.permission == Permission::FullControl && g.grantee == Grantee::Id(bucket_owner.to_owned())
    };
    if ownership == Ownership::BucketOwnerEnforced && !acl.grants.iter().all(idle) {
        return Err(AclError::Disabled);
    }
    Ok(())
}

/// The requester, as lists see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester<'a> {
    /// An unsigned request.
    Anonymous,
    /// An identity without its own canonical id. A user never has the owner's id: grants to the owner do not
    /// apply to users.
    Authenticated,
    /// An identity with this canonical id; also a member of the authenticated users.
    Id(&'a str),
    /// The service that writes access logs.
    LogDelivery,
}

/// The list that decides about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The bucket's.
    Bucket,
    /// The object's.
    Object,
}

/// The list and permission that an action needs; `None`: lists never grant it. (AWS: "Mapping of ACL
/// permissions and access policy permissions".)
pub fn needs(action: Action) -> Option<(Of, Permission)> {
    use Action::*;
    Some(match action {
        ListBucket | ListBucketVersions | ListBucketMultipartUploads | HeadBucket => {
            (Of::Bucket, Permission::Read)
        }
        PutObject | DeleteObject => (Of::Bucket, Permission::Write),
        GetBucketAcl => (Of::Bucket, Permission::ReadAcp),
        PutBucketAcl => (Of::Bucket, Permission::WriteAcp),
        GetObject | GetObjectVersion | GetObjectTorrent => (Of::Object, Permission::Read),
        GetObjectAcl | GetObjectVersionAcl => (Of::Object, Permission::ReadAcp),
        PutObjectAcl | PutObjectVersionAcl => (Of::Object, Permission::WriteAcp),
        _ => return None,
    })
}

/// The input of a decision by lists.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    /// The action.
    pub action: Action,
    /// The caller.
    pub requester: Requester<'a>,
    /// The bucket's setting.
    pub ownership: Ownership,
    /// The bucket's public access block, merged with the deployment's.
    pub block: PublicAccessBlock,
    /// The bucket's list.
    pub bucket: Option<&'a Acl>,
    /// The object's list.
    pub object: Option<&'a Acl>,
}

/// Whether a list grants the request.
pub fn allows(check: &Check) -> bool {
    if check.ownership == Ownership::BucketOwnerEnforced {
        return false;
    }
    let Some((of, permission)) = needs(check.action) else { return false };
    let acl = match of {
        Of::Bucket => check.bucket,
        Of::Object => check.object,
    };
    acl.is_some_and(|a| a.grants(check.requester, permission, check.block.ignore_public_acls))
}
