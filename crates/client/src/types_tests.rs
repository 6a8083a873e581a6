//! Tests with answers of AWS and MinIO.

use super::*;
use crate::xml;

#[test]
fn a_page_of_keys() {
    let page = ListPage::parse(
        &xml::parse(
            br#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
            <Prefix></Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys><EncodingType>url</EncodingType>
            <IsTruncated>true</IsTruncated><NextContinuationToken>t/+=</NextContinuationToken>
            <Contents><Key>a+b%2Bc%2F%C3%BC</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>
            <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>
            <StorageClass>GLACIER</StorageClass></Contents>
            <CommonPrefixes><Prefix>photos%2F</Prefix></CommonPrefixes></ListBucketResult>"#,
        )
        .unwrap(),
    )
    .unwrap();
    assert_eq!(page.next, Some(("t/+=".into(), None)));
    assert_eq!(page.prefixes, ["photos/"]);
    let entry = &page.entries[0];
    assert_eq!((entry.key.as_str(), entry.size), ("a b+c/ü", 434234));
    assert_eq!(entry.etag, "fba9dede5f27731c9771645a39863328");
    assert_eq!(entry.modified.unwrap().unix_timestamp(), 1255369830);
    assert_eq!(entry.storage_class, "GLACIER");
}

#[test]
fn versions_interleave_with_delete_markers() {
    let page = ListPage::parse(
        &xml::parse(
            b"<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
              <NextVersionIdMarker>v1</NextVersionIdMarker>\
              <DeleteMarker><Key>k</Key><VersionId>v3</VersionId><IsLatest>true</IsLatest></DeleteMarker>\
              <Version><Key>k</Key><VersionId>v2</VersionId><IsLatest>false</IsLatest><Size>3</Size></Version>\
              <DeleteMarker><Key>k</Key><VersionId>v1</VersionId><IsLatest>false</IsLatest></DeleteMarker>\
              </ListVersionsResult>",
        )
        .unwrap(),
    )
    .unwrap();
    let seen: Vec<_> = page
        .entries
        .iter()
        .map(|e| (e.version_id.clone().unwrap(), e.delete_marker, e.is_latest, e.size))
        .collect();
    assert_eq!(
        seen,
        [("v3".into(), true, true, 0), ("v2".into(), false, false, 3), ("v1".into(), true, false, 0)]
    );
    assert_eq!(page.next, Some(("k".into(), Some("v1".into()))));
}

#[test]
fn truncated_page_without_marker_is_an_error() {
    let root = xml::parse(b"<R><IsTruncated>true</IsTruncated></R>").unwrap();
    assert!(ListPage::parse(&root).is_err());
}

#[test]
fn heads() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("etag", "\"abc-2\""),
        ("content-length", "10"),
        ("content-range", "bytes 0-9/443"),
        ("last-modified", "Wed, 12 Oct 2009 17:50:00 GMT"),
        ("x-amz-meta-colour", "gr\u{fc}n"),
        ("x-amz-meta-word", "=?UTF-8?B?Z3LDvG4=?="),
        ("x-amz-meta-quoted", "=?UTF-8?Q?gr=C3=BCn_50%?="),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-request-id", "1"),
        ("x-amz-mp-parts-count", "2"),
        ("cache-control", "no-cache"),
    ] {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let head = Head::parse(&headers);
    assert_eq!((head.size, head.etag.as_str(), head.parts), (443, "abc-2", Some(2)));
    assert_eq!(head.metadata["colour"], "grün");
    assert_eq!(head.metadata["word"], "grün");
    assert_eq!(head.metadata["quoted"], "grün 50%");
    assert_eq!(head.headers.keys().collect::<Vec<_>>(), ["cache-control", "x-amz-storage-class"]);
}
