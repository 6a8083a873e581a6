//! Access control lists: their forms in headers and documents, their stored form, and ownership.
//!
//! Stored form: the owner's canonical id on the first line, then one line per grant: the permission, a
//! space, `id:` or `uri:` and the grantee. An empty text stands for the private list of the bucket's
//! owner, so that an object in a bucket without lists stores nothing.
//!
//! The deployment is one account: its owner has the canonical id of [`Context::owner_id`], every user one
//! that was made with the user. Invariants: the grantee of a new grant exists, by id or by name, and is
//! stored by id, so that a later user of that name does not get the grant; with `BucketOwnerEnforced`, which
//! is the default, lists are refused and grant nothing; a list that cannot be read grants nothing; an
//! unsigned request gets only what is granted to `AllUsers`.
//!
//! Must not depend on: how decisions are made.

use ashlar_object::Bucket;
use ashlar_policy::{
    Acl, AclError, Canned, Grant, Grantee, Ownership, Permission, PublicAccessBlock, check_put,
    owner_of_new_object,
};
use http::HeaderMap;

use crate::auth::Identity;
use crate::context::Context;
use crate::documents::public_access_block;
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::xml::{Doc, Xml};

/// The bucket's document that holds its list.
pub const ACL: &str = "acl";
/// The bucket's document that holds its ownership setting.
pub const OWNERSHIP: &str = "ownership";
/// The content of that document after its deletion: the default applies, and none is returned.
pub const DELETED: &str = "none";
/// Longest canonical id, in bytes: distinguished names are long.
const MAX_ID: usize = 1024;

const XSI: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=";

/// Headers that grant, and what.
const GRANTS: [(&str, Permission); 5] = [
    ("x-amz-grant-full-control", Permission::FullControl),
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
];

/// The canonical id of the caller; the owner's for root, and for an anonymous caller, who owns nothing.
pub fn canonical_id<'a>(cx: &'a Context, who: &'a Identity) -> &'a str {
    if who.root || who.user.is_empty() { &cx.owner_id } else { &who.canonical_id }
}

/// The setting of a bucket.
pub fn ownership(bucket: &Bucket) -> Ownership {
    // What cannot be read is the strictest.
    bucket.documents.get(OWNERSHIP).and_then(|name| Ownership::find(name)).unwrap_or_default()
}

/// The public access block of a bucket; one that cannot be read blocks everything.
fn block(bucket: &Bucket) -> PublicAccessBlock {
    let text = bucket.documents.get(public_access_block::BLOCK);
    text.map_or_else(PublicAccessBlock::default, |t| {
        public_access_block::block_from(t).unwrap_or(PublicAccessBlock::ALL)
    })
}

/// Parses the text stored for a bucket or an object; one that cannot be read grants nothing.
pub fn stored(cx: &Context, text: &str) -> Acl {
    if text.is_empty() {
        return Canned::Private.expand(&cx.owner_id, None);
    }
    decode(text).unwrap_or_else(|| {
        tracing::error!("a stored access control list cannot be read; it grants nothing");
        Acl { owner: cx.owner_id.clone(), grants: Vec::new() }
    })
}

pub(crate) fn decode(text: &str) -> Option<Acl> {
    let mut lines = text.lines();
    let owner = lines.next().filter(|o| !o.is_empty())?.to_owned();
    let grant = |line: &str| {
        let (permission, to) = line.split_once(' ')?;
        let grantee = match to.split_once(':')? {
            ("id", id) => Grantee::Id(id.to_owned()),
            ("uri", uri) => Grantee::from_uri(uri)?,
            _ => return None,
        };
        Some(Grant { grantee, permission: Permission::find(permission)? })
    };
    let grants = lines.map(grant).collect::<Option<Vec<_>>>()?;
    Some(Acl { owner, grants })
}

/// The text to store; empty for what an empty text stands for.
pub fn encode(cx: &Context, acl: &Acl) -> String {
    if *acl == Canned::Private.expand(&cx.owner_id, None) {
        return String::new();
    }
    text_of(acl)
}

pub(crate) fn text_of(acl: &Acl) -> String {
    let mut out = acl.owner.clone();
    for g in &acl.grants {
        let to = match (&g.grantee, g.grantee.uri()) {
            (_, Some(uri)) => format!("uri:{uri}"),
            (Grantee::Id(id), _) => format!("id:{id}"),
            _ => continue,
        };
        out.push_str(&format!("\n{} {to}", g.permission.name()));
    }
    out
}

fn checked_id(id: &str) -> Outcome<String> {
    if id.is_empty() || id.len() > MAX_ID || id.chars().any(char::is_control) {
        return Err(unknown_id(id));
    }
    Ok(id.to_owned())
}

fn unknown_id(id: &str) -> Fault {
    Fault::argument("CanonicalUser/ID", &id.chars().take(64).collect::<String>(), "Invalid id")
}

fn group(uri: &str) -> Outcome<Grantee> {
    Grantee::from_uri(uri).ok_or_else(|| {
        Fault::argument("Group/URI", &uri.chars().take(128).collect::<String>(), "Invalid group uri")
    })
}

fn no_email() -> Fault {
    Fault::new(Code::UNRESOLVABLE_GRANT)
}

/// `id="...", uri="..."` of one grant header.
fn grantees(value: &str, permission: Permission, out: &mut Vec<Grant>) -> Outcome<()> {
    let bad = || {
        Fault::argument(
            "x-amz-grant",
            "",
            "A grant header holds id=\"...\" or uri=\"...\", separated by commas.",
        )
    };
    for part in value.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (kind, value) = part.split_once('=').ok_or_else(bad)?;
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        let grantee = match kind.trim() {
            "id" => Grantee::Id(checked_id(value)?),
            "uri" => group(value)?,
            "emailAddress" => return Err(no_email()),
            _ => return Err(bad()),
        };
        out.push(Grant { grantee, permission });
    }
    Ok(())
}

/// What the headers of a request ask for.
#[derive(Default)]
pub struct Asked {
    canned: Option<Canned>,
    grants: Vec<Grant>,
}

impl Asked {
    /// Reads `x-amz-acl` and `x-amz-grant-*`.
    ///
    /// # Errors
    /// Unknown lists or grantees; both kinds of headers at once.
    pub fn read(headers: &HeaderMap) -> Outcome<Asked> {
        let canned = match headers::ascii(headers, "x-amz-acl") {
            None | Some("") => None,
            Some(name) => Some(Canned::find(name).ok_or_else(|| {
                Fault::argument("x-amz-acl", &name.chars().take(64).collect::<String>(), "")
            })?),
        };
        let mut grants = Vec::new();
        for (name, permission) in GRANTS {
            if let Some(value) = headers::ascii(headers, name).filter(|v| !v.is_empty()) {
                grantees(value, permission, &mut grants)?;
            }
        }
        if canned.is_some() && !grants.is_empty() {
            return Err(Fault::with(
                Code::INVALID_REQUEST,
                "Specifying both Canned ACLs and Header Grants is not allowed",
            ));
        }
        Ok(Asked { canned, grants })
    }

    /// Nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.canned.is_none() && self.grants.is_empty()
    }

    fn list(&self, owner: &str, bucket_owner: Option<&str>) -> Acl {
        match (self.canned, self.grants.is_empty()) {
            (Some(canned), _) => canned.expand(owner, bucket_owner),
            (None, true) => Canned::Private.expand(owner, bucket_owner),
            (None, false) => Acl { owner: owner.to_owned(), grants: self.grants.clone() },
        }
    }

    /// The list of a new bucket.
    ///
    /// # Errors
    /// The ownership has no lists; the list is too long.
    pub fn for_new_bucket(&self, cx: &Context, ownership: Ownership) -> Outcome<Acl> {
        let acl = resolved(cx, self.list(&cx.owner_id, None))?;
        let fine = check_put(ownership, PublicAccessBlock::default(), &acl, &cx.owner_id);
        fine.map_err(|e| match e {
            AclError::Disabled => Fault::new(Code::INVALID_BUCKET_ACL),
            e => refused(e),
        })?;
        Ok(acl)
    }

    /// The list that replaces the one of a bucket or object (`bucket_owner`: of an object).
    ///
    /// # Errors
    /// As [`checked`].
    pub fn replacing(&self, cx: &Context, bucket: &Bucket, before: &Acl, object: bool) -> Outcome<Acl> {
        let acl = self.list(&before.owner, object.then_some(cx.owner_id.as_str()));
        checked(cx, bucket, acl)
    }
}

/// The same list with the canonical ids of those whom it grants something.
///
/// # Errors
/// A grantee does not exist. Users of other directories are not looked up: their ids cannot be those of
/// users.
fn resolved(cx: &Context, mut acl: Acl) -> Outcome<Acl> {
    let Some(people) = &cx.people else { return Ok(acl) };
    for grant in &mut acl.grants {
        let Grantee::Id(id) = &mut grant.grantee else { continue };
        if *id == cx.owner_id || *id == acl.owner || id.contains(['/', '=']) {
            continue;
        }
        match people.canonical_id(id) {
            Some(canonical) => *id = canonical,
            None if people.user_by_canonical_id(id).is_some() => {}
            None => return Err(unknown_id(id)),
        }
    }
    Ok(acl)
}

fn refused(e: AclError) -> Fault {
    match e {
        AclError::Disabled => Fault::new(Code::ACL_NOT_SUPPORTED),
        AclError::Public => Fault::with(
            Code::ACCESS_DENIED,
            "Access Denied: the list is public, and the bucket's public access block (BlockPublicAcls) refuses such lists.",
        ),
        AclError::TooMany => {
            Fault::with(Code::MALFORMED_ACL, "An access control list has at most 100 grants.")
        }
    }
}

/// Refuses a list that the bucket does not take.
///
/// # Errors
/// Lists are switched off; it is public and that is blocked; it is too long.
pub fn checked(cx: &Context, bucket: &Bucket, acl: Acl) -> Outcome<Acl> {
    let acl = resolved(cx, acl)?;
    check_put(ownership(bucket), block(bucket), &acl, &cx.owner_id).map_err(refused)?;
    Ok(acl)
}

/// The stored form of the list of a new object that `who` writes and asks for this.
///
/// # Errors
/// As [`checked`].
pub fn for_new_object(cx: &Context, bucket: &Bucket, who: &Identity, asked: &Asked) -> Outcome<String> {
    let ownership = ownership(bucket);
    if asked.is_empty() && ownership == Ownership::BucketOwnerEnforced {
        return Ok(String::new());
    }
    let owner = owner_of_new_object(ownership, asked.canned, canonical_id(cx, who), &cx.owner_id);
    let acl = checked(cx, bucket, asked.list(owner, Some(&cx.owner_id)))?;
    // With lists switched off, only a list that changes nothing is accepted.
    Ok(if ownership == Ownership::BucketOwnerEnforced { String::new() } else { encode(cx, &acl) })
}

/// Reads an `AccessControlPolicy`. The owner cannot be changed.
///
/// # Errors
/// The document is not one, names an unknown grantee, or another owner.
pub fn parse(body: &[u8], owner: &str) -> Outcome<Acl> {
    let mut doc = Doc::open(body, "AccessControlPolicy")?;
    let mut acl = Acl { owner: owner.to_owned(), grants: Vec::new() };
    let mut listed = false;
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Owner" => check_owner(&mut doc, owner)?,
            "AccessControlList" if !listed => {
                listed = true;
                while let Some(name) = doc.child()? {
                    if name != "Grant" {
                        return doc.unexpected(&name);
                    }
                    acl.grants.push(grant(&mut doc)?);
                    if acl.grants.len() > Acl::MAX_GRANTS {
                        return Err(refused(AclError::TooMany));
                    }
                }
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    if listed { Ok(acl) } else { Err(Fault::new(Code::MALFORMED_ACL)) }
}

fn check_owner(doc: &mut Doc<'_>, owner: &str) -> Outcome<()> {
    while let Some(name) = doc.child()? {
        if name == "ID" {
            if doc.text()? != owner {
                return Err(Fault::with(
                    Code::ACCESS_DENIED,
                    "Access Denied: an access control list cannot change the owner.",
                ));
            }
        } else {
            doc.skip()?;
        }
    }
    Ok(())
}

fn grant(doc: &mut Doc<'_>) -> Outcome<Grant> {
    let (mut grantee, mut permission) = (None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Permission" => {
                let text = doc.text()?;
                permission = Some(Permission::find(&text).ok_or_else(|| Fault::new(Code::MALFORMED_ACL))?);
            }
            "Grantee" => {
                while let Some(name) = doc.child()? {
                    match name.as_str() {
                        "ID" => grantee = Some(Grantee::Id(checked_id(&doc.text()?)?)),
                        "URI" => grantee = Some(group(&doc.text()?)?),
                        "EmailAddress" => return Err(no_email()),
                        "DisplayName" => doc.skip()?,
                        other => return doc.unexpected(other),
                    }
                }
            }
            other => return doc.unexpected(other),
        }
    }
    match (grantee, permission) {
        (Some(grantee), Some(permission)) => Ok(Grant { grantee, permission }),
        _ => Err(Fault::new(Code::MALFORMED_ACL)),
    }
}

/// Prints an owner or grantee.
pub fn print_id(cx: &Context, xml: &mut Xml, id: &str) {
    let named = || cx.people.as_ref()?.user_by_canonical_id(id);
    let name = if id == cx.owner_id { Some(cx.owner_name.clone()) } else { named() };
    xml.leaf("ID", id).leaf("DisplayName", name.as_deref().unwrap_or(id));
}

/// Prints who owns an object: the owner of everything, unless it has one of its own.
pub fn object_owner(cx: &Context, xml: &mut Xml, id: &str) {
    xml.open("Owner");
    print_id(cx, xml, if id.is_empty() { &cx.owner_id } else { id });
    xml.close();
}

/// Prints the owner of everything.
pub fn owner(cx: &Context, xml: &mut Xml, element: &'static str) {
    xml.open(element).leaf("ID", &cx.owner_id).leaf("DisplayName", &cx.owner_name).close();
}

/// Prints an `AccessControlPolicy`.
pub fn print(cx: &Context, acl: &Acl) -> Xml {
    let mut xml = Xml::new();
    xml.root("AccessControlPolicy").open("Owner");
    print_id(cx, &mut xml, &acl.owner);
    xml.close().open("AccessControlList");
    for g in &acl.grants {
        xml.open("Grant");
        match (&g.grantee, g.grantee.uri()) {
            (Grantee::Id(id), _) => {
                xml.open_with("Grantee", &format!("{XSI}\"CanonicalUser\""));
                print_id(cx, &mut xml, id);
            }
            (_, uri) => {
                xml.open_with("Grantee", &format!("{XSI}\"Group\""));
                xml.leaf("URI", uri.unwrap_or_default());
            }
        }
        xml.close().leaf("Permission", g.permission.name()).close();
    }
    xml.close().close();
    xml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_lists_round_trip() {
        let acl = Acl {
            owner: "uid=a,dc=b".into(),
            grants: vec![
                Grant { grantee: Grantee::Id("uid=a,dc=b".into()), permission: Permission::FullControl },
                Grant { grantee: Grantee::AllUsers, permission: Permission::Read },
            ],
        };
        let text = "uid=a,dc=b\nFULL_CONTROL id:uid=a,dc=b\nREAD uri:http://acs.amazonaws.com/groups/global/AllUsers";
        assert_eq!(text_of(&acl), text);
        assert_eq!(decode(text).as_ref(), Some(&acl));
        for bad in ["", "o\nREAD", "o\nREAD id", "o\nEAT id:x", "o\nREAD uri:x", "o\nREAD who:x"] {
            assert!(decode(bad).is_none(), "{bad:?}");
        }
    }
}
