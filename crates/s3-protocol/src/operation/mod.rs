//! Routing: determines the operation of a request from method, resource and query, by the [`table`].
//!
//! Invariants: an operation that is not implemented is named and refused, never taken for another one. A
//! sub-resource without a row for the method and resource is refused by name, two sub-resources at once are
//! refused, and a `PUT`, `POST` or `DELETE` accepts no query parameter that its row does not name, so that a
//! new sub-resource of AWS cannot become an overwrite or a deletion.

#[cfg(test)]
mod document;
mod table;

use http::Method;

pub use table::{
    Known, MISSING, Operation, Permission, ROWS, Resource, Row, SIGNED, When, known, subresources,
};

use crate::fault::{Code, Fault, Outcome};
use crate::target::Target;

/// Finds the operation. `copy`: the request has `x-amz-copy-source`; `form`: the body is a form.
///
/// # Errors
/// `NotImplemented` for what the table does not know or lists as missing, `MethodNotAllowed` for a known
/// sub-resource without an operation here, `InvalidArgument` for names that contradict each other.
pub fn classify(method: &Method, target: &Target, copy: bool, form: bool) -> Outcome<Operation> {
    let resource = match (&target.bucket, &target.key) {
        (None, _) => Resource::Service,
        (Some(_), None) => Resource::Bucket,
        (Some(_), Some(_)) => Resource::Object,
    };
    let reads = method == Method::GET || method == Method::HEAD;
    let sub = subresource(target, resource, reads)?;
    let holds = |when: When| match when {
        When::Always => true,
        When::Copy => copy,
        When::ListType2 => target.query.get("list-type") == Some("2"),
        When::Form => form,
    };
    let here =
        |row: &&Row| row.resource == resource && row.method == *method && row.sub == sub && holds(row.when);
    // The more special one first: it stands after the usual one.
    let Some(row) = ROWS.iter().rfind(here) else {
        return Err(no_such(method, resource, sub));
    };
    for (name, _) in target.query.iter().filter(|_| !reads) {
        let taken = name == row.sub || known(name) == Some(Known::Anywhere) || row.parameters.contains(&name);
        if !taken {
            let (name, operation): (String, _) = (shown(name), row.operation.name());
            let text = format!("The query parameter {name} is not one of {operation}. Nothing was changed.");
            return Err(Fault::with(Code::METHOD_NOT_ALLOWED, text)
                .element("Method", method.as_str())
                .element("ResourceType", name));
        }
    }
    if row.operation == Operation::ListObjects
        && let Some(other) = target.query.filled("list-type").filter(|t| *t != "1")
    {
        return Err(Fault::argument("list-type", other, "list-type must be 2, or be left out."));
    }
    // A listener names several events.
    if let Some(name) = target.query.duplicate().filter(|name| !(*name == "events" && sub == "events")) {
        let name = shown(name);
        return Err(Fault::with(
            Code::INVALID_ARGUMENT,
            format!("The query parameter {name} was given more than once."),
        ));
    }
    Ok(row.operation)
}

/// The sub-resource that the query names; empty: none.
fn subresource(target: &Target, resource: Resource, reads: bool) -> Outcome<&str> {
    let mut sub = "";
    for (name, value) in target.query.iter() {
        match known(name) {
            Some(Known::Sub) if sub.is_empty() || sub == name => sub = name,
            Some(Known::Sub) => {
                return Err(Fault::argument(
                    "ResourceType",
                    sub,
                    format!("Conflicting query string parameters: {sub}, {name}"),
                ));
            }
            Some(Known::Parameter | Known::Anywhere) => {}
            // A reading request may carry parameters with values that mean nothing to S3.
            None if reads && !value.is_empty() => {}
            None => return Err(Fault::not_implemented(&format!("The query parameter {}", shown(name)))),
        }
    }
    // The endpoint has no missing sub-resources of its own; those of buckets are not allowed there.
    debug_assert!(resource != Resource::Elsewhere);
    Ok(sub)
}

/// Why there is no row.
fn no_such(method: &Method, resource: Resource, sub: &str) -> Fault {
    if let Some((.., what)) = MISSING.iter().find(|(r, name, _)| *r == resource && *name == sub) {
        return Fault::not_implemented(what);
    }
    let fault = match sub {
        "" => Fault::new(Code::METHOD_NOT_ALLOWED),
        sub if ROWS.iter().any(|row| row.resource == resource && row.sub == sub) => Fault::with(
            Code::METHOD_NOT_ALLOWED,
            format!("The method {method} is not allowed against the sub-resource ?{sub}."),
        ),
        sub => Fault::with(
            Code::METHOD_NOT_ALLOWED,
            format!("The sub-resource ?{sub} does not exist for this resource."),
        ),
    };
    fault.element("Method", method.as_str()).element("ResourceType", resource.name())
}

/// A client's own name, bounded.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn op(method: &Method, path: &str, query: &str) -> Result<Operation, &'static str> {
        let target = Target::parse(path, Some(query), None).unwrap();
        classify(method, &target, false, false).map_err(|f| f.code().name)
    }

    const METHODS: [Method; 8] = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::POST,
        Method::DELETE,
        Method::PATCH,
        Method::TRACE,
        Method::CONNECT,
    ];
    const PATHS: [(Resource, &str); 3] =
        [(Resource::Service, "/"), (Resource::Bucket, "/b"), (Resource::Object, "/b/k")];

    #[test]
    fn requests_are_routed_to_operations() {
        use Operation as Op;
        let (get, put, delete) = (Method::GET, Method::PUT, Method::DELETE);
        assert_eq!(op(&get, "/", ""), Ok(Op::ListBuckets));
        assert_eq!(op(&get, "/b", "list-type=2"), Ok(Op::ListObjectsV2));
        assert_eq!(op(&get, "/b", "list-type=1&prefix=&marker="), Ok(Op::ListObjects));
        assert_eq!(op(&get, "/b", "list-type=3"), Err("InvalidArgument"));
        assert_eq!(op(&get, "/b/", "versions"), Ok(Op::ListObjectVersions));
        assert_eq!(op(&get, "/", "events=a&events=b&ping=10"), Ok(Op::ListenNotification));
        assert_eq!(op(&get, "/b", "events=a&suffix=&prefix="), Ok(Op::ListenBucketNotification));
        assert_eq!(op(&put, "/b", "notification"), Ok(Op::PutBucketNotificationConfiguration));
        assert_eq!(op(&delete, "/b", "notification"), Err("MethodNotAllowed"));
        assert_eq!(op(&put, "/b/k", "events"), Err("MethodNotAllowed"));
        assert_eq!(op(&get, "/b/k", "x-id=GetObject"), Ok(Op::GetObject));
        assert_eq!(op(&put, "/b/k", "partNumber=1&uploadId=x"), Ok(Op::UploadPart));
        assert_eq!(op(&put, "/b/k", "partNumber=1"), Err("MethodNotAllowed"));
        assert_eq!(op(&delete, "/b/k", "versionId=null"), Ok(Op::DeleteObject));
        assert_eq!(op(&get, "/b/k", "foo=bar"), Ok(Op::GetObject));
        assert_eq!(op(&get, "/b/k", "foo"), Err("NotImplemented"));
        assert_eq!(op(&Method::PATCH, "/b/k", ""), Err("MethodNotAllowed"));
        assert_eq!(op(&Method::POST, "/b/k", ""), Err("MethodNotAllowed"));
        assert_eq!(op(&put, "/b/k", "versionId=null"), Err("MethodNotAllowed"));
        assert_eq!(op(&get, "/b", "prefix=a&prefix=b"), Err("InvalidArgument"));
        assert_eq!(op(&get, "/b", "acl&policy"), Err("InvalidArgument"));
        let select = Target::parse("/b/k", Some("select&select-type=2"), None).unwrap();
        let refused = classify(&Method::POST, &select, false, false).unwrap_err();
        assert!(refused.message().contains("SelectObjectContent"), "{}", refused.message());
        let target = Target::parse("/b/k", Some("partNumber=1&uploadId=x"), None).unwrap();
        assert_eq!(classify(&put, &target, true, false).unwrap(), Op::UploadPartCopy);
        let target = Target::parse("/b/k", None, None).unwrap();
        assert_eq!(classify(&put, &target, true, false).unwrap(), Op::CopyObject);
        assert_eq!(classify(&put, &target, false, false).unwrap(), Op::PutObject);
        let target = Target::parse("/b", None, None).unwrap();
        assert_eq!(classify(&Method::POST, &target, false, true).unwrap(), Op::PostObject);
        assert_eq!(op(&Method::POST, "/b", ""), Err("MethodNotAllowed"));
    }

    /// Every known sub-resource, and an unknown one, by every method on every resource: either the operation
    /// whose row has exactly this, or a refusal. Never an operation without that sub-resource.
    #[test]
    fn every_subresource_with_every_method_is_its_own_operation_or_refused() {
        let subs: BTreeSet<&str> = subresources().chain(["somethingNew"]).collect();
        assert!(subs.len() > 40, "{}", subs.len());
        let mut reached = BTreeSet::new();
        for sub in subs {
            for method in &METHODS {
                for (resource, path) in PATHS {
                    let at = format!("{method} {path}?{sub}");
                    let row = ROWS
                        .iter()
                        .find(|r| r.sub == sub && r.method == *method && r.resource == resource)
                        .map(|r| r.operation);
                    for query in [sub.to_owned(), format!("{sub}=x")] {
                        match (op(method, path, &query), row) {
                            (Ok(found), Some(row)) => {
                                assert_eq!(found, row, "{at}");
                                reached.insert(found.name());
                            }
                            (Err("NotImplemented" | "MethodNotAllowed"), None) => {}
                            // A reading request with an unknown value.
                            (Ok(_), None) if sub == "somethingNew" && query.ends_with("=x") => {
                                assert!(matches!(*method, Method::GET | Method::HEAD), "{at}");
                            }
                            (other, row) => panic!("{at}: {other:?}, the table says {row:?}"),
                        }
                        if matches!(*method, Method::GET | Method::HEAD) || row.is_none() {
                            continue;
                        }
                        // A parameter of other operations does not slip through.
                        let other = op(method, path, &format!("{query}&fetch-owner=1"));
                        assert_eq!(other, Err("MethodNotAllowed"), "{at}&fetch-owner=1");
                    }
                }
            }
        }
        for row in ROWS.iter().filter(|r| !r.sub.is_empty() && r.when == When::Always) {
            assert!(reached.contains(row.operation.name()), "{} is not reached", row.operation.name());
        }
    }

    #[test]
    fn missing_subresources_are_refused_by_name() {
        for (resource, name, what) in MISSING {
            let path = PATHS.iter().find(|(r, _)| r == resource).unwrap().1;
            for method in METHODS {
                let served =
                    ROWS.iter().any(|r| r.resource == *resource && r.sub == *name && r.method == method);
                if served {
                    continue;
                }
                let target = Target::parse(path, Some(name), None).unwrap();
                let fault = classify(&method, &target, false, false).unwrap_err();
                assert_eq!(fault.code(), Code::NOT_IMPLEMENTED, "{method} {path}?{name}");
                assert!(fault.message().contains(what), "{}", fault.message());
            }
        }
    }

    #[test]
    fn table_rows_are_ordered_and_distinct() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.operation as usize, i);
            let same = |r: &&Row| {
                let route = r.resource == row.resource && r.method == row.method;
                route && r.sub == row.sub && r.when == row.when && r.resource != Resource::Elsewhere
            };
            assert!(ROWS[i + 1..].iter().find(same).is_none(), "{}", row.operation.name());
            // A parameter is never a sub-resource as well.
            for name in row.parameters {
                assert_eq!(known(name), Some(Known::Parameter), "{name}");
            }
        }
    }

    #[test]
    fn signature_v2_covers_every_subresource() {
        for sub in subresources() {
            assert!(SIGNED.contains(&sub), "{sub}");
        }
        for name in ["versionId", "partNumber", "response-content-type", "events", "policyStatus"] {
            assert!(SIGNED.contains(&name), "{name}");
        }
        assert!(SIGNED.is_sorted());
    }

    /// A version is never read, changed or removed under the action for the latest.
    #[test]
    fn versions_have_their_own_actions() {
        for row in ROWS.iter().filter(|row| row.parameters.contains(&"versionId")) {
            let name = row.operation.name();
            match row.permission {
                Permission::Versioned(_, versioned) => {
                    assert!(versioned.name().contains("Version"), "{name}")
                }
                // AWS has one action for both here.
                Permission::One(_) | Permission::Own => {
                    assert!(name.ends_with("Retention") || name.ends_with("LegalHold"), "{name}");
                }
            }
        }
    }

    #[test]
    fn operations_that_check_permissions_themselves_are_listed() {
        let own: Vec<&str> = ROWS
            .iter()
            .filter(|r| r.permission == Permission::Own && r.resource != Resource::Elsewhere)
            .map(|r| r.operation.name())
            .collect();
        let want = ["ListBuckets", "DeleteObjects", "PostObject", "PutObjectRetention", "PutObjectLegalHold"];
        assert_eq!(own, want);
    }
}
