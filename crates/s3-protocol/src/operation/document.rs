//! `docs/s3-operations.md`, generated from the table; the test fails while the file is not current.

use std::fmt::Write as _;

use super::{MISSING, Permission, ROWS, Resource, When};

const HEAD: &str = "# S3 operations

<!-- Made from crates/s3-protocol/src/operation/table.rs. To write it again: `UPDATE=1 cargo test --release -p ashlar-s3 operations_document`. -->

Each operation of the S3 API that this server has, with its route and the IAM action that the caller needs. A request with a
sub-resource that is not here, or with another method, is refused by name (`NotImplemented`, `MethodNotAllowed`), and nothing is
changed. Signature V2 covers every sub-resource below.

";

fn render() -> String {
    let mut out = HEAD.to_owned();
    for (resource, title) in
        [(Resource::Service, "The endpoint"), (Resource::Bucket, "Buckets"), (Resource::Object, "Objects")]
    {
        let _ = write!(out, "## {title}\n\n| Operation | Request | Action |\n|---|---|---|\n");
        let path = match resource {
            Resource::Service => "/",
            Resource::Bucket => "/BUCKET",
            _ => "/BUCKET/KEY",
        };
        let mut rows: Vec<_> = ROWS.iter().filter(|row| row.resource == resource).collect();
        rows.sort_by_key(|row| row.operation.name());
        for row in rows {
            let sub = if row.sub.is_empty() { String::new() } else { format!("?{}", row.sub) };
            let when = match row.when {
                When::Always => "",
                When::Copy => " with `x-amz-copy-source`",
                When::ListType2 => " with `list-type=2`",
                When::Form => " with a form",
            };
            let action = match row.permission {
                Permission::Own => "decided by what is in it".to_owned(),
                Permission::One(action) => format!("`{}`", action.name()),
                Permission::Versioned(action, versioned) => {
                    format!("`{}`, with `versionId` `{}`", action.name(), versioned.name())
                }
            };
            let _ =
                writeln!(out, "| {} | `{} {path}{sub}`{when} | {action} |", row.operation.name(), row.method);
        }
        out.push('\n');
    }
    out.push_str("The security token service (`POST /`): AssumeRole, AssumeRoleWithCertificate, AssumeRoleWithLDAPIdentity,\nAssumeRoleWithWebIdentity, GetCallerIdentity.\n\n");
    out.push_str("## Not implemented\n\n`GET` of some of these answers as AWS does where nothing was ever set; everything else answers 501 `NotImplemented`.\n\n| Sub-resource | Of | |\n|---|---|---|\n");
    for (resource, name, what) in MISSING {
        let of = if *resource == Resource::Bucket { "buckets" } else { "objects" };
        let what = what.rsplit_once(" (").map_or(*what, |(what, _)| what);
        let _ = writeln!(out, "| `?{name}` | {of} | {what} |");
    }
    out
}

#[test]
fn operations_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/s3-operations.md");
    let want = render();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &want).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == want, "docs/s3-operations.md is not what the table says; see its first lines");
}
