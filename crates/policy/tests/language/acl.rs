//! Access control lists and ownership.

use ashlar_policy::{
    Acl, AclError, Action, Canned, Check, Grant, Grantee, Ownership, Permission, PublicAccessBlock,
    Requester, allows, check_put, needs, owner_of_new_object,
};

const OFF: PublicAccessBlock = PublicAccessBlock {
    block_public_acls: false,
    ignore_public_acls: false,
    block_public_policy: false,
    restrict_public_buckets: false,
};

/// What a canned list of an object or bucket lets each requester do.
#[test]
fn canned_lists_grant_as_in_aws() {
    use Action::*;
    let who = [
        Requester::Anonymous,
        Requester::Authenticated,
        Requester::Id("writer"),
        Requester::Id("owner"),
        Requester::LogDelivery,
    ];
    let table: &[(Canned, Action, [bool; 5])] = &[
        (Canned::Private, GetObject, [false, false, true, false, false]),
        (Canned::PublicRead, GetObject, [true, true, true, true, true]),
        (Canned::PublicRead, GetObjectAcl, [false, false, true, false, false]),
        (Canned::PublicReadWrite, PutObjectAcl, [false, false, true, false, false]),
        (Canned::AuthenticatedRead, GetObject, [false, true, true, true, false]),
        (Canned::BucketOwnerRead, GetObject, [false, false, true, true, false]),
        (Canned::BucketOwnerRead, GetObjectAcl, [false, false, true, false, false]),
        (Canned::BucketOwnerFullControl, PutObjectAcl, [false, false, true, true, false]),
        (Canned::LogDeliveryWrite, GetObject, [false, false, true, false, false]),
    ];
    for (canned, action, want) in table {
        let acl = canned.expand("writer", Some("owner"));
        for (requester, want) in who.iter().zip(want) {
            let check = Check {
                action: *action,
                requester: *requester,
                ownership: Ownership::ObjectWriter,
                block: OFF,
                bucket: None,
                object: Some(&acl),
            };
            assert_eq!(allows(&check), *want, "{canned:?} {action:?} {requester:?}");
            assert!(!allows(&Check { ownership: Ownership::BucketOwnerEnforced, ..check }));
        }
    }
    let buckets: &[(Canned, Action, [bool; 5])] = &[
        (Canned::Private, ListBucket, [false, false, true, false, false]),
        (Canned::PublicRead, ListBucket, [true, true, true, true, true]),
        (Canned::PublicRead, PutObject, [false, false, true, false, false]),
        (Canned::PublicReadWrite, PutObject, [true, true, true, true, true]),
        (Canned::LogDeliveryWrite, PutObject, [false, false, true, false, true]),
        (Canned::LogDeliveryWrite, GetBucketAcl, [false, false, true, false, true]),
        (Canned::BucketOwnerFullControl, ListBucket, [false, false, true, false, false]),
    ];
    for (canned, action, want) in buckets {
        let acl = canned.expand("writer", None);
        for (requester, want) in who.iter().zip(want) {
            let check = Check {
                action: *action,
                requester: *requester,
                ownership: Ownership::BucketOwnerPreferred,
                block: OFF,
                bucket: Some(&acl),
                object: None,
            };
            assert_eq!(allows(&check), *want, "{canned:?} {action:?} {requester:?}");
        }
    }
}

#[test]
fn public_access_block_ignores_public_grants() {
    let acl = Canned::PublicReadWrite.expand("writer", None);
    let check = |requester, block| {
        allows(&Check {
            action: Action::PutObject,
            requester,
            ownership: Ownership::ObjectWriter,
            block,
            bucket: Some(&acl),
            object: None,
        })
    };
    let ignore = PublicAccessBlock { ignore_public_acls: true, ..OFF };
    assert!(check(Requester::Anonymous, OFF) && !check(Requester::Anonymous, ignore));
    assert!(!check(Requester::Authenticated, ignore) && check(Requester::Id("writer"), ignore));
}

#[test]
fn owners_can_always_change_their_list() {
    let acl = Acl { owner: "o".into(), grants: vec![] };
    let check = |action, requester| {
        allows(&Check {
            action,
            requester,
            ownership: Ownership::ObjectWriter,
            block: OFF,
            bucket: None,
            object: Some(&acl),
        })
    };
    assert!(
        check(Action::PutObjectAcl, Requester::Id("o")) && check(Action::GetObjectAcl, Requester::Id("o"))
    );
    assert!(
        !check(Action::GetObject, Requester::Id("o"))
            && !check(Action::PutObjectAcl, Requester::Authenticated)
    );
    assert_eq!(needs(Action::PutBucketPolicy), None);
}

#[test]
fn setting_lists_is_checked() {
    let full = |id: &str| Grant { grantee: Grantee::Id(id.into()), permission: Permission::FullControl };
    let private = Canned::Private.expand("owner", Some("owner"));
    let public = Canned::PublicRead.expand("owner", Some("owner"));
    let others = Canned::Private.expand("x", None);
    let put = |o, b, acl: &Acl| check_put(o, b, acl, "owner");
    assert_eq!(put(Ownership::BucketOwnerEnforced, OFF, &private), Ok(()));
    assert_eq!(put(Ownership::BucketOwnerEnforced, OFF, &public), Err(AclError::Disabled));
    assert_eq!(put(Ownership::BucketOwnerEnforced, OFF, &others), Err(AclError::Disabled));
    assert_eq!(put(Ownership::ObjectWriter, OFF, &public), Ok(()));
    assert_eq!(put(Ownership::ObjectWriter, PublicAccessBlock::ALL, &public), Err(AclError::Public));
    assert_eq!(put(Ownership::ObjectWriter, PublicAccessBlock::ALL, &private), Ok(()));
    let many = Acl { owner: "owner".into(), grants: (0..101).map(|i| full(&i.to_string())).collect() };
    assert_eq!(put(Ownership::ObjectWriter, OFF, &many), Err(AclError::TooMany));
}

#[test]
fn names_and_owners_are_parsed() {
    for name in [
        "private",
        "public-read",
        "public-read-write",
        "authenticated-read",
        "bucket-owner-read",
        "bucket-owner-full-control",
        "log-delivery-write",
    ] {
        assert_eq!(Canned::find(name).map(Canned::name), Some(name));
    }
    assert_eq!(Canned::find("aws-exec-read"), None);
    for name in ["READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL"] {
        assert_eq!(Permission::find(name).map(Permission::name), Some(name));
    }
    for name in ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"] {
        assert_eq!(Ownership::find(name).map(Ownership::name), Some(name));
    }
    for grantee in [Grantee::AllUsers, Grantee::AuthenticatedUsers, Grantee::LogDelivery] {
        assert_eq!(Grantee::from_uri(grantee.uri().unwrap()), Some(grantee));
    }
    let full = Some(Canned::BucketOwnerFullControl);
    assert_eq!(owner_of_new_object(Ownership::BucketOwnerEnforced, None, "w", "o"), "o");
    assert_eq!(owner_of_new_object(Ownership::BucketOwnerPreferred, None, "w", "o"), "w");
    assert_eq!(owner_of_new_object(Ownership::BucketOwnerPreferred, full, "w", "o"), "o");
    assert_eq!(owner_of_new_object(Ownership::ObjectWriter, full, "w", "o"), "w");
}
