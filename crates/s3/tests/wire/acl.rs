//! Access control lists and ownership: refused under `BucketOwnerEnforced`, effective under the other
//! settings.

use crate::common::*;

fn ownership(name: &str) -> String {
    format!("<OwnershipControls><Rule><ObjectOwnership>{name}</ObjectOwnership></Rule></OwnershipControls>")
}

fn set_ownership(w: &World, name: &str) -> Resp {
    w.root("PUT", "/b-1").q("ownershipControls", "").body(ownership(name)).send()
}

fn acl(w: &World, path: &str) -> String {
    w.root("GET", path).q("acl", "").send().expect(200).text()
}

/// The canonical id of a user.
fn canonical(w: &World, user: &str) -> String {
    let id = w.iam.canonical_id(user).unwrap();
    assert!(id.len() == 64 && id != user);
    id
}

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";

/// Alice may write and change lists in `b-1`, bob and carol may nothing.
fn world() -> World {
    let w = World::new();
    w.user("alice", &allow("\"s3:PutObject\",\"s3:PutObjectAcl\"", "arn:aws:s3:::b-1/*"));
    w.user("bobby", "");
    w.user("carol", "");
    w
}

#[test]
fn owner_enforced_accepts_only_lists_without_effect() {
    let w = world();
    let get = w.root("GET", "/b-1").q("ownershipControls", "").send().expect(200);
    assert_eq!(get.tag("ObjectOwnership").as_deref(), Some("BucketOwnerEnforced"));
    for canned in ["private", "bucket-owner-full-control", "bucket-owner-read"] {
        w.root("PUT", "/b-1/k").header("x-amz-acl", canned).body("x").send().expect(200);
    }
    for (name, value) in [
        ("x-amz-acl", "public-read"),
        ("x-amz-acl", "authenticated-read"),
        ("x-amz-grant-read", "id=\"bobby\""),
    ] {
        for (method, path, query) in [
            ("PUT", "/b-1/k", None),
            ("POST", "/b-1/k", Some("uploads")),
            ("PUT", "/b-1", Some("acl")),
            ("PUT", "/b-1/k", Some("acl")),
        ] {
            let r = w.root(method, path).header(name, value);
            let r = query.iter().fold(r, |r, q| r.q(q, ""));
            r.send().refused(400, "AccessControlListNotSupported");
        }
        let copy = w.root("PUT", "/b-1/copy").header("x-amz-copy-source", "b-2/k").header(name, value);
        copy.send().refused(400, "AccessControlListNotSupported");
        let new = w.root("PUT", "/b-3").header(name, value);
        new.send().refused(400, "InvalidBucketAclWithObjectOwnership");
    }
    for (name, value, code) in [
        ("x-amz-acl", "nonsense", "InvalidArgument"),
        ("x-amz-grant-read", "emailAddress=\"a@b\"", "UnresolvableGrantByEmailAddress"),
        ("x-amz-grant-read", "uri=\"http://nobody\"", "InvalidArgument"),
        ("x-amz-grant-read", "bobby", "InvalidArgument"),
    ] {
        w.root("PUT", "/b-1/k").header(name, value).send().refused(400, code);
    }
    let both = w.root("PUT", "/b-1/k").header("x-amz-acl", "private").header("x-amz-grant-read", "id=a");
    both.send().refused(400, "InvalidRequest");
    assert_eq!(w.root("GET", "/b-1/k").send().expect(200).body, b"x", "nothing was changed");
}

#[test]
fn object_writer_owns_and_grants() {
    let w = world();
    let read = |user: &str| w.by(user, "GET", "/b-1/k").send().status;
    set_ownership(&w, "ObjectWriter").expect(200);
    // What is there already is the bucket owner's, and private.
    assert_eq!(read("bobby"), 403);
    w.by("alice", "PUT", "/b-1/k").body("hers").send().expect(200);
    // The owner reads although no policy says so; others do not, and root may everything.
    assert_eq!([read("alice"), read("bobby")], [200, 403]);
    assert_eq!(w.root("GET", "/b-1/k").send().expect(200).body, b"hers");
    let text = acl(&w, "/b-1/k");
    assert!(
        text.contains(&format!(
            "<Owner><ID>{}</ID><DisplayName>alice</DisplayName></Owner>",
            canonical(&w, "alice")
        )),
        "{text}"
    );
    let listed = w.root("GET", "/b-1").q("list-type", "2").q("fetch-owner", "true").send().expect(200).text();
    assert!(listed.contains(&format!("<ID>{}</ID>", canonical(&w, "alice"))), "{listed}");
    // Grants by header, to one user and to everybody with an identity.
    let put = |header: (&str, &str)| {
        w.by("alice", "PUT", "/b-1/k").header(header.0, header.1).body("x").send().expect(200)
    };
    put(("x-amz-grant-read", "id=\"bobby\""));
    assert_eq!([read("alice"), read("bobby"), read("carol")], [403, 200, 403], "grants replace the default");
    put(("x-amz-acl", "authenticated-read"));
    assert_eq!([read("alice"), read("bobby"), read("carol")], [200, 200, 200]);
    // Everybody, without identity too, and reading alone.
    put(("x-amz-acl", "public-read"));
    assert_eq!([read("bobby"), read("carol")], [200, 200]);
    let nobody = |method: &str, path: &str| w.root(method, path).anonymous().send();
    assert_eq!(nobody("GET", "/b-1/k").expect(200).body, b"x");
    nobody("HEAD", "/b-1/k").expect(200);
    nobody("PUT", "/b-1/k").refused(403, "AccessDenied");
    nobody("DELETE", "/b-1/k").refused(403, "AccessDenied");
    nobody("GET", "/b-1").refused(403, "AccessDenied");
    nobody("GET", "/b-1/nothing").refused(403, "AccessDenied");
    w.root("GET", "/b-1/k").q("acl", "").anonymous().send().refused(403, "AccessDenied");
    put(("x-amz-acl", "authenticated-read"));
    nobody("GET", "/b-1/k").refused(403, "AccessDenied");
    put(("x-amz-acl", "public-read"));
    // The list itself: its owner reads and changes it, others do not.
    w.by("alice", "GET", "/b-1/k").q("acl", "").send().expect(200);
    w.by("bobby", "GET", "/b-1/k").q("acl", "").send().refused(403, "AccessDenied");
    w.by("bobby", "PUT", "/b-1/k")
        .q("acl", "")
        .header("x-amz-acl", "private")
        .send()
        .refused(403, "AccessDenied");
    let document = w.by("alice", "GET", "/b-1/k").q("acl", "").send().expect(200).text();
    let changed =
        document.replace(&format!("<URI>{ALL_USERS}</URI>"), &format!("<URI>{AUTHENTICATED}</URI>"));
    assert_ne!(changed, document);
    w.by("alice", "PUT", "/b-1/k").q("acl", "").body(&changed).send().expect(200);
    assert!(acl(&w, "/b-1/k").contains(AUTHENTICATED));
    let stolen = document.replace(&canonical(&w, "alice"), &canonical(&w, "bobby"));
    w.by("alice", "PUT", "/b-1/k").q("acl", "").body(&stolen).send().refused(403, "AccessDenied");
    let many = "<Grant><Grantee><ID>a</ID></Grantee><Permission>READ</Permission></Grant>".repeat(101);
    let many =
        format!("<AccessControlPolicy><AccessControlList>{many}</AccessControlList></AccessControlPolicy>");
    w.root("PUT", "/b-1/k").q("acl", "").body(&many).send().refused(400, "MalformedACLError");
    // A deny anywhere is stronger; so is a setting that ignores public lists.
    assert_eq!(read("carol"), 200);
    w.user("carol", r#"{"Effect":"Deny","Action":"s3:GetObject","Resource":"*"}"#);
    assert_eq!([read("carol"), read("bobby")], [403, 200]);
    let block = |name: &str| {
        let text =
            format!("<PublicAccessBlockConfiguration><{name}>true</{name}></PublicAccessBlockConfiguration>");
        w.root("PUT", "/b-1").q("publicAccessBlock", "").body(text).send().expect(200);
    };
    block("IgnorePublicAcls");
    assert_eq!(read("bobby"), 403);
    block("BlockPublicAcls");
    w.by("alice", "PUT", "/b-1/k").header("x-amz-acl", "public-read").send().refused(403, "AccessDenied");
    // Switched off, lists grant nothing; switched on again, they are still there.
    set_ownership(&w, "BucketOwnerEnforced").expect(200);
    assert_eq!(read("bobby"), 403);
    assert!(!acl(&w, "/b-1/k").contains(AUTHENTICATED));
    w.root("DELETE", "/b-1").q("ownershipControls", "").send().expect(204);
    assert_eq!(read("bobby"), 403);
    set_ownership(&w, "ObjectWriter").expect(200);
    assert_eq!(read("bobby"), 200);
}

#[test]
fn bucket_owner_preferred_requires_full_control() {
    let w = world();
    set_ownership(&w, "BucketOwnerPreferred").expect(200);
    w.by("alice", "PUT", "/b-1/hers").body("x").send().expect(200);
    w.by("alice", "PUT", "/b-1/given")
        .header("x-amz-acl", "bucket-owner-full-control")
        .body("x")
        .send()
        .expect(200);
    assert_eq!(w.by("alice", "GET", "/b-1/hers").send().status, 200);
    assert_eq!(w.by("alice", "GET", "/b-1/given").send().status, 403);
    assert!(!acl(&w, "/b-1/given").contains("alice"));
    // An upload and a copy belong to their creators.
    let made = w.by("alice", "POST", "/b-1/up").q("uploads", "").send().expect(200);
    let id = made.tag("UploadId").unwrap();
    let part =
        w.by("alice", "PUT", "/b-1/up").q("partNumber", "1").q("uploadId", &id).body("x").send().expect(200);
    let etag = part.header("etag").unwrap().to_owned();
    let done = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    w.by("alice", "POST", "/b-1/up").q("uploadId", &id).body(done).send().expect(200);
    assert!(acl(&w, "/b-1/up").contains(&canonical(&w, "alice")));
    let copy = w.by("alice", "PUT", "/b-1/copy").header("x-amz-copy-source", "b-1/hers");
    copy.send().expect(200);
    assert!(acl(&w, "/b-1/copy").contains(&canonical(&w, "alice")));
}

#[test]
fn list_of_a_bucket_grants_access() {
    let w = world();
    let made = w.root("PUT", "/b-3").header("x-amz-object-ownership", "ObjectWriter");
    made.header("x-amz-grant-read", "id=\"bobby\"")
        .header("x-amz-grant-write", "id=carol")
        .send()
        .expect(200);
    w.by("bobby", "GET", "/b-3").send().expect(200);
    w.by("bobby", "PUT", "/b-3/k").body("x").send().refused(403, "AccessDenied");
    w.by("carol", "PUT", "/b-3/k").body("x").send().expect(200);
    w.by("carol", "GET", "/b-3").send().refused(403, "AccessDenied");
    // Carol owns what she wrote: bob, who may list, may not read; the bucket's list does not apply to
    // objects.
    w.by("bobby", "GET", "/b-3/k").send().refused(403, "AccessDenied");
    w.by("carol", "GET", "/b-3/k").send().expect(200);
    w.by("bobby", "GET", "/b-3/none").send().refused(403, "AccessDenied");
    w.by("carol", "DELETE", "/b-3/k").send().expect(204);
    // Not while others have something.
    let off = w.root("PUT", "/b-3").q("ownershipControls", "").body(ownership("BucketOwnerEnforced"));
    off.send().refused(400, "InvalidBucketAclWithObjectOwnership");
    w.root("PUT", "/b-3").q("acl", "").header("x-amz-acl", "private").send().expect(200);
    off.send().expect(200);
    w.by("bobby", "GET", "/b-3").send().refused(403, "AccessDenied");
    for bad in ["<OwnershipControls/>", "<OwnershipControls><Rule/></OwnershipControls>", "<X/>"] {
        w.root("PUT", "/b-3").q("ownershipControls", "").body(bad).send().refused(400, "MalformedXML");
    }
    w.root("PUT", "/b-3")
        .q("ownershipControls", "")
        .body(ownership("Nobody"))
        .send()
        .refused(400, "MalformedXML");
    w.root("PUT", "/b-4").header("x-amz-object-ownership", "Nobody").send().refused(400, "InvalidArgument");
}

/// Names are chosen by who makes users; what they are granted is not.
#[test]
fn grants_are_not_given_by_user_name() {
    let w = world();
    set_ownership(&w, "ObjectWriter").expect(200);
    let put =
        |who: &str| w.by("alice", "PUT", "/b-1/k").header("x-amz-grant-read", format!("id={who}")).body("x");
    let make =
        |name: &str| w.runtime.block_on(w.iam.put_user(name, &ashlar_iam::Secret::new(USERS_SECRET), true));
    let read = |user: &str| w.by(user, "GET", "/b-1/k").send().status;
    // A grant to a missing grantee is refused.
    for nobody in ["later", &"ab".repeat(32)] {
        put(nobody).send().refused(400, "InvalidArgument");
    }
    // Another user of the same name is another one.
    put("bobby").send().expect(200);
    assert_eq!(read("bobby"), 200);
    w.runtime.block_on(w.iam.remove_user("bobby")).unwrap();
    make("bobby").unwrap();
    assert_eq!(read("bobby"), 403);
    put(&canonical(&w, "bobby")).send().expect(200);
    assert_eq!(read("bobby"), 200);
    // The owner's id, and what looks like one, is no name.
    for name in ["0".repeat(64), "Ab".repeat(32)] {
        assert!(make(&name).is_err(), "{name}");
    }
    assert!(make(&"0".repeat(63)).is_ok());
}
