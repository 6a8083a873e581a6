//! Where a bucket may be looked up by its name.
//!
//! A request of the S3 service looks each of its buckets up once, so that all decisions about it use one
//! revision. The operations of the store take the bucket that was found, and only one file looks buckets up.
//!
//! Invariant: the rule checks the text of the sources: it does not find code that calls the store by another
//! name than `store`. Must not depend on: other rules.

use super::tree::{Findings, Tree};

/// Below this folder, only this file looks buckets up.
const WHERE: &str = "crates/s3/src/";
const ONLY: &str = "crates/s3/src/buckets.rs";
/// How a lookup is written.
const LOOKUP: &str = "store.bucket(";

/// Checks the sources of the S3 service.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (file, text) in tree.texts("rs") {
        let name = file.to_string_lossy().replace('\\', "/");
        findings.errors.extend(lookups(&name, &text));
    }
}

fn lookups(name: &str, text: &str) -> Vec<String> {
    if !name.starts_with(WHERE) || name == ONLY {
        return Vec::new();
    }
    let found = text.lines().enumerate().filter(|(_, line)| line.contains(LOOKUP));
    let say = |(number, _): (usize, &str)| {
        format!("{name}:{}: {LOOKUP}...) is for {ONLY} alone; take the bucket from the call", number + 1)
    };
    found.map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_resolved_in_one_file() {
        let text = "let a = 1;\nlet b = self.context.store.bucket(&name)?;\n";
        let found = lookups("crates/s3/src/ops/get.rs", text);
        assert!(found.len() == 1 && found[0].contains("get.rs:2:"), "{found:?}");
        assert!(lookups(ONLY, text).is_empty());
        assert!(lookups("crates/admin/src/quotas.rs", text).is_empty());
        assert!(
            lookups("crates/s3/src/ops/get.rs", "call.open()?; call.store(cx, kind); store.buckets()")
                .is_empty()
        );
    }
}
