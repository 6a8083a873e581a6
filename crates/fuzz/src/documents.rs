//! Documents and texts: documents of buckets from clients, stored documents of buckets and versions, lines of
//! the audit log, sealed keys, tokens and keys of providers.
//!
//! Invariant: a document that is read, written and read again is the same; only sealed bytes open.

use std::sync::OnceLock;

use ashlar_idp::openid_script as openid;
use ashlar_kms::Secret;

use crate::target::Target;

/// Every target of this file.
pub fn all() -> Vec<Target> {
    assert!(openid::token(openid::TOKEN) && openid::keys(openid::KEYS.as_bytes()), "the seeds are the RFC's");
    vec![
        Target {
            name: "documents",
            seeds: ashlar_s3::fuzzed::documents(),
            tokens: &[b"&#13;", b"&#xD;", b" ", b"\r\n", b"<![CDATA[", b"]]>", b"&amp;", b"-1", b"99999999999999999999"],
            run: ashlar_s3::fuzzed::document,
        },
        Target {
            name: "kept-texts",
            seeds: [ashlar_s3::fuzzed::kept_texts(), ashlar_object::fuzzed::kept_texts()].concat(),
            tokens: &[b" ", b"-", b"+", b"\n", b"\r", b"id:", b"uri:", b"null", b"99999999999999999999"],
            run: |b| {
                ashlar_object::fuzzed::kept(b);
                if let Ok(text) = std::str::from_utf8(b) {
                    ashlar_s3::fuzzed::kept(text);
                }
            },
        },
        Target {
            name: "event-rules",
            seeds: [
                r#"{"rules":[{"id":"a","shape":"queue","arn":"arn:minio:sqs::1:webhook","events":["s3:ObjectCreated:*","s3:ObjectRemoved:Delete"],"prefix":"p/","suffix":".jpg"}]}"#,
                r#"{"rules":[{"id":"","shape":"topic","arn":"arn:minio:sqs:r:2:redis","events":["s3:none"]}]}"#,
            ]
            .map(|t| t.as_bytes().to_vec())
            .to_vec(),
            tokens: &[b"s3:", b"*", b":", b"\"\"", b"null", b"[", b"arn:aws:sqs:"],
            run: |b| {
                let Ok(text) = std::str::from_utf8(b) else { return };
                if let Ok(rules) = ashlar_events::Rules::parse(text, "r") {
                    assert_eq!(ashlar_events::Rules::parse(&rules.text(), "r").ok(), Some(rules));
                }
                let _ = (ashlar_events::Names::parse(text), ashlar_events::TargetId::parse(text));
            },
        },
        Target {
            name: "audit-lines",
            seeds: vec![AUDIT.to_vec(), AUDIT[AUDIT.iter().position(|b| *b == b'\n').unwrap_or(0) + 1..].to_vec()],
            tokens: &[
                b"18446744073709551615",
                b"\"missing\":",
                b"\"cut\":",
                b"\"kind\":\"stop\"",
                b",\"mac\":\"",
                b"\n",
                b"{\"seq\":",
            ],
            run: audit_lines,
        },
        Target { name: "sealed-keys", seeds: seals().clone(), tokens: &[&[0; 16], &[1], &[2]], run: opens },
        Target {
            name: "token",
            seeds: vec![openid::TOKEN.as_bytes().to_vec(), b"eyJhbGciOiJub25lIn0.e30.".to_vec()],
            tokens: &[b".", b"e30", b"eyJhbGciOiJub25lIn0", b"="],
            run: |b| {
                if let Ok(text) = std::str::from_utf8(b) {
                    let _ = openid::token(text);
                }
            },
        },
        Target {
            name: "key-set",
            seeds: vec![
                openid::KEYS.as_bytes().to_vec(),
                br#"{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"RSA","n":"AQ","e":"AQAB"}]}"#
                    .to_vec(),
            ],
            tokens: &[b"\"kty\":", b"\"RSA\"", b"\"n\":", b"AQAB", b"null", b"[", b"{"],
            run: |b| {
                let _ = openid::keys(b);
            },
        },
    ]
}

/// Contents of audit lines: a start, two records, a checkpoint without its signature.
const AUDIT: &[u8] = br#"{"seq":0,"kind":"start","time":"2026-11-21T00:00:00.000Z","key":"00","prev":"0000000000000000000000000000000000000000000000000000000000000000"
{"seq":1,"time":"2026-11-21T00:00:01.000Z","requestID":"00AB","api":{"name":"GetObject"}
{"seq":2,"time":"2026-11-21T00:00:02.000Z"
{"seq":3,"kind":"checkpoint","time":"2026-11-21T00:00:03.000Z","key":"00","mac":"00"
{"seq":6,"kind":"start","time":"2026-11-21T00:00:04.000Z","missing":2,"cut":9,"prev":"00""#;

const TEXT: &[u8; 32] = b"32 bytes of a key that is sealed";

/// A key sealed for the key service's key, bytes sealed as the same, and a document sealed for one context.
fn seals() -> &'static Vec<Vec<u8>> {
    static SEALS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEALS.get_or_init(|| {
        let key = Secret::new([7; 32]);
        vec![
            ashlar_kms::seal(&key, &Secret::new(*TEXT), b"context"),
            ashlar_kms::seal_bytes(&key, TEXT, b"context"),
            ashlar_kms::seal_bytes(&key, b"", b"context"),
            ashlar_iam::Sealer::new(&[7; 32]).seal("place", TEXT),
        ]
    })
}

/// Only sealed bytes open.
fn opens(b: &[u8]) {
    let key = Secret::new([7; 32]);
    let opened = [
        ashlar_kms::open(&key, b, b"context").is_ok(),
        ashlar_kms::open_bytes(&key, b, b"context").is_ok(),
        ashlar_iam::Sealer::new(&[7; 32]).open("place", b).is_some(),
    ];
    assert!(opened == [false; 3] || seals().iter().any(|s| s == b), "something opens that nobody sealed");
}

/// Lines of the audit log, as `verify` and a search read them.
fn audit_lines(bytes: &[u8]) {
    ashlar_audit::fuzzed_lines(bytes);
    bytes.split(|b| *b == b'\n').for_each(ashlar_audit::fuzzed_search);
}
