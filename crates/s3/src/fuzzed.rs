//! For the fuzzer: documents from clients, and texts that are stored with buckets and versions.
//!
//! Invariant: the program does not call this file.

use std::fmt::Debug;

use crate::documents::{cors, lifecycle, logging, website};
use crate::fault::Outcome;
use crate::{acl, ops, sse};

/// What is read once is kept as it is printed, and must be read again as the same.
fn again<T: PartialEq + Debug>(
    read: impl Fn(&[u8]) -> Outcome<T>,
    print: impl Fn(&T) -> String,
    body: &[u8],
) {
    if let Ok(first) = read(body) {
        let text = print(&first);
        match read(text.as_bytes()) {
            Ok(second) => assert_eq!(second, first, "a document that is not itself"),
            Err(fault) => panic!("a document that is printed as none: {}", fault.message()),
        }
    }
}

/// A body, as each of the documents that buckets, uploads and deletions have.
///
/// # Panics
/// A document that was read is not the same after it was printed.
pub fn document(body: &[u8]) {
    again(cors::parse, cors::print, body);
    again(website::parse, website::print, body);
    again(
        logging::parse,
        |logging| logging.as_ref().map_or_else(|| "<BucketLoggingStatus/>".to_owned(), logging::print),
        body,
    );
    again(lifecycle::parse, |config| lifecycle::print(config).finish(), body);
    if let Ok(mut config) = lifecycle::parse(body)
        && config.check(|| "fresh".to_owned()).is_ok()
    {
        let kept = ashlar_lifecycle::Config::decode(&config.encode());
        assert_eq!(kept.as_ref(), Some(&config), "rules that are kept as others");
    }
    if let Ok(list) = acl::parse(body, "owner") {
        assert_eq!(acl::decode(&acl::text_of(&list)), Some(list), "a list that is kept as another");
    }
    let _ = ops::tagging::parse_form(&String::from_utf8_lossy(body));
    let _ = (ops::multipart::parse_complete(body), ops::delete::fuzzed(body));
    ops::lock::fuzzed(body);
    sse::bucket::fuzzed(body);
}

/// One document of each kind.
#[must_use]
pub fn documents() -> Vec<Vec<u8>> {
    [
        "<CORSConfiguration><CORSRule><ID>a</ID><AllowedMethod>GET</AllowedMethod><AllowedOrigin>https://*.b</AllowedOrigin><AllowedHeader>x-*</AllowedHeader><ExposeHeader>etag</ExposeHeader><MaxAgeSeconds>5</MaxAgeSeconds></CORSRule></CORSConfiguration>",
        "<WebsiteConfiguration><IndexDocument><Suffix>i.html</Suffix></IndexDocument><ErrorDocument><Key>e &amp; f</Key></ErrorDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>a/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><HostName>h</HostName><Protocol>https</Protocol><ReplaceKeyPrefixWith>b/</ReplaceKeyPrefixWith><HttpRedirectCode>302</HttpRedirectCode></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>",
        "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>h</HostName><Protocol>http</Protocol></RedirectAllRequestsTo></WebsiteConfiguration>",
        "<BucketLoggingStatus><LoggingEnabled><TargetBucket>bucket</TargetBucket><TargetPrefix>p/</TargetPrefix><TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>",
        "<LifecycleConfiguration><Rule><ID>a</ID><Filter><And><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And></Filter><Status>Enabled</Status><Expiration><Date>2026-11-21T00:00:00Z</Date></Expiration><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>",
        "<LifecycleConfiguration><Rule><Prefix>p</Prefix><Status>Disabled</Status><Expiration><Days>3</Days></Expiration><AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule></LifecycleConfiguration>",
        "<AccessControlPolicy xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><Owner><ID>owner</ID></Owner><AccessControlList><Grant><Grantee xsi:type=\"CanonicalUser\"><ID>a</ID></Grantee><Permission>READ</Permission></Grant><Grant><Grantee xsi:type=\"Group\"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>",
        "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"0123456789abcdef0123456789abcdef\"</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>",
        "<Delete><Object><Key>k</Key><VersionId>null</VersionId><ETag>*</ETag><Size>5</Size></Object><Quiet>true</Quiet></Delete>",
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>",
        "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2026-11-21T00:00:00Z</RetainUntilDate></Retention>",
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>k</KMSMasterKeyID></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// A text that is kept: what is read has one spelling.
///
/// # Panics
/// It has two.
pub fn kept(text: &str) {
    if let Some(envelope) = sse::Envelope::parse(text) {
        assert_eq!(sse::Envelope::parse(&envelope.text()), Some(envelope));
    }
    if let Some(list) = acl::decode(text) {
        assert_eq!(acl::decode(&acl::text_of(&list)), Some(list));
    }
    if let Ok(key) = ops::list::decode_token(text) {
        assert_eq!(ops::list::encode_token(&key), text);
    }
    ops::lock::fuzzed(text.as_bytes());
    sse::bucket::fuzzed(text.as_bytes());
    if let Some(config) = ashlar_lifecycle::Config::decode(text) {
        assert_eq!(ashlar_lifecycle::Config::decode(&config.encode()), Some(config));
    }
}

/// Texts of each kind.
#[must_use]
pub fn kept_texts() -> Vec<Vec<u8>> {
    let mut config = lifecycle::parse(documents()[4].as_slice()).unwrap_or_default();
    config.set_ms = 5;
    let rules = config.encode();
    let all: [&str; 9] = [
        "s3 k AQI",
        "kms a.b Aw e30= 1",
        "kms a Aw - 0",
        "c BAQE",
        "owner\nREAD id:a\nFULL_CONTROL uri:http://acs.amazonaws.com/groups/global/AllUsers",
        "GOVERNANCE DAYS 30",
        "kms key 1",
        "a2V5",
        &rules,
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}
