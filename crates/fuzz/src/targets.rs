//! The decoders under test, their seeds and the tokens of their languages.
//!
//! Invariant: a target calls only public functions, as the program does. Where a decoder has an inverse,
//! accepted input must encode to itself.

use crate::target::Target;
use ashlar_format::{Data, DriveId, Part, Record, Version, WriteId};
use ashlar_s3::{auth, chunked, date, form, headers, policy, target, xml};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

const KEY: [u64; 4] = [1, 2, 3, 4];

/// Every target.
pub fn all() -> Vec<Target> {
    let mut out = drives();
    out.extend(kept());
    out.extend(wire());
    out.push(access_policy());
    out.push(sealed());
    out.push(archive());
    out.extend(crate::journal::all());
    out.extend(crate::documents::all());
    out.extend(crate::network::all());
    out.extend(crate::blocks::all());
    out
}

/// Documents as MinIO's administration clients seal them. Does not derive keys, which is slow by design.
fn sealed() -> Target {
    use ashlar_s3::madmin::{Key, Kind, Sealed};
    let kinds = [Kind::Aes, Kind::ChaCha, Kind::Fips];
    let key = |kind| Key::of([3; 32], [7; 32], kind);
    let long = vec![5; 40_000];
    Target {
        name: "sealed",
        seeds: kinds
            .iter()
            .flat_map(|k| [key(*k).seal([1; 8], b"{}"), key(*k).seal([1; 8], &long)])
            .chain([Vec::new(), vec![0; 57]])
            .collect(),
        tokens: &[&[0x80], &[0; 16], &[7; 32]],
        run: |b| {
            let Ok(sealed) = Sealed::parse(b) else { return };
            for kind in [Kind::Aes, Kind::ChaCha, Kind::Fips] {
                let key = Key::of([3; 32], [7; 32], kind);
                if let Ok(text) = sealed.open(&key) {
                    let mut nonce = [0; 8];
                    nonce.copy_from_slice(&b[33..41]);
                    assert_eq!(key.seal(nonce, &text), b);
                }
            }
        },
    }
}

/// Archives: unpacking gives the same result for one piece and for small pieces.
fn archive() -> Target {
    use ashlar_s3::archive::fuzzed;
    fn both_ways(b: &[u8]) {
        let whole = fuzzed::unpack([Bytes::copy_from_slice(b)]).ok();
        let pieces = fuzzed::unpack(b.chunks(97).map(Bytes::copy_from_slice)).ok();
        assert_eq!(whole, pieces);
    }
    Target {
        name: "archive",
        seeds: fuzzed::seeds(),
        tokens: &[
            b"ustar\0",
            b"00",
            b"ustar  \0",
            b"0",
            b"1",
            b"2",
            b"5",
            b"x",
            b"g",
            b"L",
            b"K",
            b"S",
            b"path=",
            b"size=",
            b"7777777",
        ],
        run: |b| {
            both_ways(b);
            both_ways(&fuzzed::with_checksums(b));
        },
    }
}

/// Values that drives store beside records, after the hash that protects them.
fn kept() -> Vec<Target> {
    use ashlar_drive::fuzzed as drive;
    use ashlar_object::fuzzed as object;
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    // Without its hash.
    let golden = |hex: &str| -> Vec<u8> {
        let digits = hex.trim().as_bytes();
        let body = &digits[..digits.len() - 64];
        body.chunks(2).map(|c| digit(c[0]) << 4 | digit(c[1])).collect()
    };
    let copy = golden(include_str!("../../cluster/tests/control-copy-2.hex"));
    let log = golden(include_str!("../../cluster/tests/control-log-1.hex"));
    let snapshot = golden(include_str!("../../etcd/tests/snapshot-1.hex"));
    let tokens: &[&[u8]] = &[&[0xff; 9], &[0x80; 8], &[0], &[1], &[0xff, 0xff]];
    vec![
        Target { name: "feed-segment", seeds: object::feed_segments(), tokens, run: object::feed_segment },
        Target {
            name: "summary",
            seeds: (1..5u8).map(|kind| [&[1, kind], &[3; 60][..]].concat()).collect(),
            tokens,
            run: object::summary,
        },
        Target { name: "control-copy", seeds: vec![copy], tokens, run: ashlar_cluster::fuzzed_copy },
        Target {
            name: "control-log",
            seeds: vec![log[4..].to_vec()],
            tokens,
            run: ashlar_cluster::fuzzed_log_record,
        },
        Target { name: "etcd-snapshot", seeds: vec![snapshot], tokens, run: ashlar_etcd::fuzzed_snapshot },
        Target { name: "index-manifest", seeds: drive::manifests(), tokens, run: drive::manifest },
        Target { name: "index-run", seeds: drive::runs(), tokens, run: drive::run },
    ]
}

fn text(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|s| s.as_bytes().to_vec()).collect()
}

/// Version pages, and records with pages below them.
fn version_page(part: &Part) -> Target {
    use ashlar_format::{Below, Body, Entry, Page, Paged};
    let version = Version { parts: vec![part.clone()], size: 9, ..Version::default() };
    let entry = |position| Entry { position, version: version.clone() };
    let leaf = Page::Leaf(vec![entry(7), entry(3)]);
    let row = Page::Row(vec![leaf.reference(1, part.data, 200)]);
    let root = row.reference(0, part.data, 90);
    let below = Below { next: 8, null: Some(3), root };
    let body = Body::Paged(Box::new(Paged { head: vec![version.clone()], below }));
    Target {
        name: "version-page",
        seeds: vec![leaf.encode(), row.encode(), Record { seq: 3, parent: 9, nonce: 0, body }.encode()],
        tokens: &[&[0xff; 9], &[0x80; 8], &[0]],
        run: |b| {
            if let Ok(page) = Page::decode(b) {
                assert_eq!(page.encode(), b);
                let of = page.reference(0, EMPTY, b.len() as u64);
                assert!(of.oldest <= of.newest);
            }
            if let Ok(r) = Record::decode(b) {
                assert_eq!(r.encode(), b);
            }
        },
    }
}

/// What a piece of data may be.
const EMPTY: Data =
    Data { write_id: WriteId([0; 16]), k: 1, m: 0, rotate: 0, stripe: 1, durable: 0, inline: true };

fn drives() -> Vec<Target> {
    let data = Data {
        write_id: WriteId([1; 16]),
        k: 2,
        m: 2,
        rotate: 1,
        stripe: 1 << 20,
        durable: 15,
        inline: true,
    };
    let part = Part { number: 1, size: 9, md5: [1; 16], checksum: None, modified_ms: 5, data };
    let version = Version {
        parts: vec![part.clone(); 3],
        size: 27,
        meta: vec![("a".into(), "b".into())],
        ..Version::default()
    };
    let record = |body| Record { seq: 3, parent: 9, nonce: 0, body }.encode();
    let label = ashlar_format::label::Label {
        deployment: ashlar_format::DeploymentId([3; 16]),
        drive: DriveId([4; 16]),
        created_ms: 1,
    };
    vec![
        Target {
            name: "record",
            seeds: vec![
                record(ashlar_format::Body::Tombstone),
                record(ashlar_format::Body::Versions(vec![version; 2])),
                record(ashlar_format::Body::Part(vec![part.clone(); 2])),
                record(ashlar_format::Body::Part(vec![part.clone()])),
                record(ashlar_format::Body::HeldKey(Box::new(ashlar_format::HeldKey {
                    versions: Vec::new(),
                    below: None,
                    attempt: [3; 16],
                    upload: [4; 16],
                    to: Some(b"key".to_vec()),
                }))),
            ],
            tokens: &[&[0xff; 9], &[0x80; 8], &[0]],
            run: |b| {
                if let Ok(r) = Record::decode(b) {
                    assert_eq!(r.encode(), b);
                }
            },
        },
        version_page(&part),
        Target {
            name: "label",
            seeds: vec![label.encode(), vec![0; 4096]],
            tokens: &[],
            run: |b| {
                if let Ok(l) = ashlar_format::label::Label::decode(b) {
                    assert_eq!(ashlar_format::label::Label::decode(&l.encode()), Ok(l));
                }
            },
        },
        Target {
            name: "journal-head",
            seeds: vec![vec![0; 4096], vec![1; 512]],
            tokens: &[b"ASHJRN01"],
            run: |b| {
                let _ = ashlar_format::journal::SegmentHeader::decode(b, &KEY, 1);
                if b.len() >= 512 {
                    let _ = ashlar_format::journal::batch_header(&b[..512], &KEY, 1, 0);
                }
            },
        },
        Target {
            name: "shard-head",
            seeds: vec![vec![0; 4096]],
            tokens: &[],
            run: |b| {
                let _ = ashlar_format::frame::decode_header(b, &KEY);
            },
        },
    ]
}

const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn wire() -> Vec<Target> {
    vec![
        Target {
            name: "target",
            seeds: text(&[
                "/b/k?list-type=2&prefix=a%2Fb",
                "/b/%2e%2e//x+y%20z",
                "/",
                "/b?uploads&uploads=",
                "/b/%C3%A9?a=%",
            ]),
            tokens: &[b"%", b"%00", b"%2F", b"&", b"=", b"+", b"%ff", b"/../"],
            run: |b| {
                let s = String::from_utf8_lossy(b);
                let (path, query) = s.split_once('?').map_or((&*s, None), |(p, q)| (p, Some(q)));
                if let Ok(t) = target::Target::parse(path, query, None) {
                    assert!(t.key.as_deref().is_none_or(|k| !k.is_empty() && k.len() <= 1024));
                }
                let _ = target::is_bucket_name(&s);
            },
        },
        Target {
            name: "signature",
            seeds: text(&[
                "authorization: AWS4-HMAC-SHA256 Credential=AK/20261121/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=00\nhost: h\nx-amz-date: 20261121T000000Z\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n\n/b/k",
                "authorization: AWS AK:c2lnbmF0dXJl\ndate: Sat, 21 Nov 2026 00:00:00 GMT\nhost: h\n\n/b/k?acl",
                "host: h\n\n/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20261121%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00",
                "host: h\n\n/b/k?AWSAccessKeyId=AK&Expires=1795219200&Signature=a%3D",
            ]),
            tokens: &[
                b"Credential=",
                b"SignedHeaders=",
                b"Signature=",
                b"/",
                b",",
                b";",
                b"x-amz-security-token: t\n",
                b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            ],
            run: signature,
        },
        Target {
            name: "chunked",
            seeds: text(&[
                "4\r\nWiki\r\n0\r\n\r\n",
                "3\r\nabc\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
                "400;chunk-signature=00\r\n",
            ]),
            tokens: &[b"\r\n", b"0\r\n", b"ffffffffffffffff", b";chunk-signature=", b"x-amz-checksum-crc32:"],
            run: |b| {
                for declared in [None, Some(vec!["x-amz-checksum-crc32".to_owned()])] {
                    let mut c = chunked::Chunked::new(4, None, declared);
                    for piece in b.chunks(7) {
                        let mut input = Bytes::copy_from_slice(piece);
                        while let Ok(Some(_)) = c.take(&mut input) {}
                    }
                    let _ = c.end();
                }
            },
        },
        Target {
            name: "policy",
            seeds: text(&[
                r#"{"expiration":"2026-12-01T12:00:00.000Z","conditions":[{"bucket":"b"},["starts-with","$key","u/"],["content-length-range",1,10]]}"#,
                "{}",
            ]),
            tokens: &[b"[", b"{", b"\"conditions\":", b"\"$key\"", b"null", b"1e99"],
            run: |b| {
                if let Ok(p) = policy::Policy::parse(&String::from_utf8_lossy(b)) {
                    let _ = p.check(&form::Fields::default(), "b", 0);
                }
            },
        },
        Target {
            name: "xml",
            seeds: text(&[
                "<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object><Quiet>true</Quiet></Delete>",
                "<?xml version=\"1.0\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>&#x41;&amp;</Key></Object></Delete>",
                "<!DOCTYPE d [<!ENTITY a \"b\">]><Delete>&a;</Delete>",
                "<Delete><![CDATA[x]]></Delete>",
            ]),
            tokens: &[
                b"<Object>",
                b"</Object>",
                b"<",
                b">",
                b"&",
                b"&#0;",
                b"<![CDATA[",
                b"]]>",
                b"<!--",
                b"/>",
            ],
            run: |b| {
                let Ok(mut doc) = xml::Doc::open(b, "Delete") else { return };
                while let Ok(Some(name)) = doc.child() {
                    let step = if name == "Object" { doc.skip() } else { doc.text().map(|_| ()) };
                    if step.is_err() {
                        return;
                    }
                }
            },
        },
        Target {
            name: "head",
            seeds: text(&[
                "PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
                "GET / HTTP/1.1\nTransfer-Encoding: chunked\n\n",
            ]),
            tokens: &[b"\r\n", b"\r", b"\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b" "],
            run: |b| {
                let watch = ashlar_s3::Watch::default();
                watch.arm();
                let mut s = ashlar_s3::HeadScanner::new(watch);
                for piece in b.chunks(5) {
                    s.feed(piece);
                }
            },
        },
        Target {
            name: "headers",
            seeds: text(&[
                "x-amz-meta-a: b\nif-match: \"x\"\nrange: bytes=0-1\nx-amz-tagging: a=b&c=d",
                "x-amz-checksum-crc32: AAAAAA==\nx-amz-sdk-checksum-algorithm: CRC32\ncontent-md5: 1B2M2Y8AsgTpgAmY7PhCfg==",
                "if-modified-since: Sat, 21 Nov 2026 00:00:00 GMT\nx-amz-storage-class: STANDARD",
            ]),
            tokens: &[b"x-amz-", b"bytes=", b"-", b",", b"\"", b"*", b"%", b"=?utf-8?B?"],
            run: all_headers,
        },
        Target {
            name: "dates",
            seeds: text(&["20261121T000000Z", "Sat, 21 Nov 2026 00:00:00 GMT", "2026-11-21T00:00:00.000Z"]),
            tokens: &[b"99999999999999999999", b"-", b"T", b"Z", b":"],
            run: |b| {
                let s = String::from_utf8_lossy(b);
                let _ = (date::parse_basic(&s), date::parse_http(&s), date::parse_iso(&s));
            },
        },
        Target {
            name: "names",
            seeds: text(&["\"0123456789abcdef0123456789abcdef-12\"", "*", "\"a\", W/\"b\"", "null", HEX]),
            tokens: &[b"\"", b",", b"W/", b"-", b"*"],
            run: |b| {
                let s = String::from_utf8_lossy(b);
                let _ = ashlar_object::Match::parse(&s);
                let _ = ashlar_object::ETag::parse(&s);
                let _ = ashlar_object::UploadId::parse(&s);
                let _ = ashlar_object::parse_version(&s);
            },
        },
    ]
}

/// Access policies of every kind: an accepted policy is written, reads the same and can be evaluated.
fn access_policy() -> Target {
    let mut seeds = text(&[
        r#"{"Version":"2012-10-17","Id":"i","Statement":[{"Sid":"a","Effect":"Allow","Principal":{"AWS":["arn:aws:iam::123456789012:user/u","*"]},"Action":["s3:Get*","s3:PutObject"],"Resource":["arn:aws:s3:::b/${aws:username, 'x'}/*","arn:aws:s3:::b"],"Condition":{"StringLike":{"s3:prefix":["a*","?"]},"ForAnyValue:NumericLessThanIfExists":{"s3:max-keys":10}}}]}"#,
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","NotPrincipal":{"AWS":"u"},"NotAction":"s3:*","NotResource":"*","Condition":{"NotIpAddress":{"aws:SourceIp":["10.0.0.0/8","2001:db8::/32"]},"DateLessThan":{"aws:CurrentTime":"2026-11-21T00:00:00Z"},"Bool":{"aws:SecureTransport":false},"Null":{"jwt:sub":"true"}}}}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"admin:*"},{"Effect":"Allow","Action":"kms:*","Resource":"arn:aws:kms:::k*","Condition":{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/*"},"BinaryEquals":{"ldap:user":"QQ=="}}}]}"#,
    ]);
    seeds.extend(ashlar_policy::BUILTIN.iter().map(|(_, json)| json.as_bytes().to_vec()));
    Target {
        name: "access-policy",
        seeds,
        tokens: &[
            b"\"Condition\":{",
            b"\"ForAllValues:StringNotLike\"",
            b"IfExists",
            b"\"Null\"",
            b"${aws:username}",
            b"${*}",
            b"${",
            b"*",
            b"?",
            b"\"NotResource\"",
            b"arn:aws:s3:::",
            b"[",
            b"{",
            b"\\ud800",
            b"99999999999999999999",
        ],
        run: |b| {
            use ashlar_policy::{
                Action, Attached, Authority, BucketRules, Context, Policy, Principal, Request, Who,
            };
            let principal = Principal { who: Who::User, name: "u", ..Principal::default() };
            let context = Context::default();
            for attached in [Attached::Identity, Attached::Bucket] {
                let Ok(policy) = Policy::parse(attached, b) else { continue };
                // Writing may lengthen a document: a control character becomes an escape.
                let json = policy.to_json();
                if json.len() <= attached.limit() {
                    assert_eq!(Policy::parse(attached, json.as_bytes()).as_ref(), Ok(&policy));
                }
                let _ = policy.is_public();
                let policy = [std::sync::Arc::new(policy)];
                for (action, key) in
                    [(Action::GetObject, "u/k"), (Action::ListBucket, ""), (Action::KmsEncrypt, "k")]
                {
                    let request = Request::new(action, "b", key, &principal, &context);
                    let authority = Authority {
                        identity: &policy,
                        sessions: &policy,
                        bucket: BucketRules { policy: Some(&policy[0]), ..BucketRules::default() },
                        own: false,
                    };
                    let explained = ashlar_policy::explain(&request, &authority);
                    assert_eq!(explained.decision, ashlar_policy::decide(&request, &authority));
                }
            }
        },
    }
}

/// `name: value` lines as a header map; lines that no HTTP parser would pass on are left out.
fn header_map(text: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            map.append(name, value);
        }
    }
    map
}

fn all_headers(b: &[u8]) {
    let s = String::from_utf8_lossy(b);
    let map = header_map(&s);
    let _ = headers::conditions(&map, "");
    let _ = headers::conditions(&map, "x-amz-copy-source-");
    let _ = headers::metadata(&map);
    let _ = headers::class(&map);
    let _ = headers::content_md5(&map);
    let _ = headers::tagging(&map);
    let _ = headers::DeclaredChecksums::read(&map);
    for line in s.lines() {
        let _ = headers::range(line.strip_prefix("range: ").unwrap_or(line), 1000);
    }
}

fn signature(b: &[u8]) {
    let s = String::from_utf8_lossy(b);
    let (head, line) = s.split_once("\n\n").unwrap_or((&*s, "/"));
    let Ok(uri) = line.parse::<Uri>() else { return };
    let headers = header_map(head);
    let Ok(target) = target::Target::parse(uri.path(), uri.query(), None) else { return };
    let root = auth::Credential { access_key: "AK".into(), secret: auth::Secret::new("SK") };
    let verifier = auth::Verifier {
        keys: auth::Keys::new(root),
        region: "us-east-1".into(),
        any_region: false,
        v2: true,
    };
    let request = auth::Request { method: &Method::PUT, uri: &uri, target: &target, headers: &headers };
    let verified = verifier.verify(&request, 1_795_219_200);
    let nobody = |v: auth::Verified| v.scheme() == auth::Scheme::Anonymous && v.access_key().is_empty();
    assert!(verified.is_err() || verified.is_ok_and(nobody), "nobody can sign without the key");
}
