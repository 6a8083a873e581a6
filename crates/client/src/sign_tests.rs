//! Tests with the examples of AWS's documentation, and two cases of its signature test suite.

use time::OffsetDateTime;

use super::*;
use crate::sigv4::EMPTY_SHA256;

fn date(text: &str) -> AmzDate {
    let format = time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    AmzDate::new(time::PrimitiveDateTime::parse(text, format).unwrap().assume_utc())
}

/// The signer and the time of the examples in the S3 API reference.
fn example() -> (Signer, AmzDate) {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    (Signer::new(Credentials::new("AKIAIOSFODNN7EXAMPLE", secret)), date("20130524T000000Z"))
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.insert(header::HOST, HeaderValue::from_static("examplebucket.s3.amazonaws.com"));
    for (name, value) in pairs {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    map
}

fn sign(method: Method, path: &str, query: &str, map: &mut HeaderMap, payload: &str) -> Signed {
    let (signer, date) = example();
    let payload = HeaderValue::from_str(payload).unwrap();
    signer.sign("us-east-1", date, &method, path, query, map, &payload)
}

#[test]
fn dates() {
    assert_eq!(date("20130524T235901Z").as_str(), "20130524T235901Z");
    assert_eq!(date("20130524T235901Z").day(), "20130524");
    assert_eq!(AmzDate::new(OffsetDateTime::UNIX_EPOCH).as_str(), "19700101T000000Z");
}

#[test]
fn s3_get_object_with_range() {
    let mut map = headers(&[("range", "bytes=0-9")]);
    let signed = sign(Method::GET, "/test.txt", "", &mut map, EMPTY_SHA256);
    assert_eq!(text(&signed.signature), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    assert_eq!(
        map[header::AUTHORIZATION].to_str().unwrap(),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}

#[test]
fn s3_put_object() {
    let mut map = headers(&[
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("user-agent", "is not signed"),
    ]);
    let path = format!("/{}", percent_encode("test$file.text", true));
    let payload = hex::encode(sha256(b"Welcome to Amazon S3."));
    let signed = sign(Method::PUT, &path, "", &mut map, &payload);
    assert_eq!(text(&signed.signature), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

#[test]
fn s3_bucket_queries() {
    let lifecycle = query_string(&[("lifecycle".into(), "".into())]);
    let signed = sign(Method::GET, "/", &lifecycle, &mut headers(&[]), EMPTY_SHA256);
    assert_eq!(text(&signed.signature), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    let list = query_string(&[("prefix".into(), "J".into()), ("max-keys".into(), "2".into())]);
    let signed = sign(Method::GET, "", &list, &mut headers(&[]), EMPTY_SHA256);
    assert_eq!(text(&signed.signature), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

#[test]
fn s3_presigned_get() {
    let (signer, date) = example();
    let host = "examplebucket.s3.amazonaws.com";
    let query = signer.presign("us-east-1", date, &Method::GET, host, "/test.txt", &[], 86400);
    assert_eq!(
        query,
        "X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn s3_signed_chunks() {
    let mut map = HeaderMap::new();
    for (name, value) in [
        ("host", "s3.amazonaws.com"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("content-length", "66824"),
    ] {
        map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let signed = sign(Method::PUT, "/examplebucket/chunkObject.txt", "", &mut map, mode);
    assert_eq!(text(&signed.signature), "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    let mut chain = ChunkSigner::new(signed);
    assert_eq!(
        chain.chunk(&[b'a'; 65536]),
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
    );
    assert_eq!(
        chain.chunk(&[b'a'; 1024]),
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
    );
    assert_eq!(chain.chunk(&[]), "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
}

#[test]
fn s3_signed_chunks_with_trailer() {
    let mut map = HeaderMap::new();
    for (name, value) in [
        ("host", "s3.amazonaws.com"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("x-amz-trailer", "x-amz-checksum-crc32c"),
    ] {
        map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
    let signed = sign(Method::PUT, "/examplebucket/chunkObject.txt", "", &mut map, mode);
    assert_eq!(text(&signed.signature), "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
    let mut chain = ChunkSigner::new(signed);
    assert_eq!(
        chain.chunk(&[b'a'; 65536]),
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"
    );
    assert_eq!(
        chain.chunk(&[b'a'; 1024]),
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"
    );
    assert_eq!(chain.chunk(&[]), "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992");
    assert_eq!(
        chain.trailer("x-amz-checksum-crc32c:sOO8/Q==\n"),
        "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
    );
}

/// `get-vanilla`, `get-header-value-trim` and `get-header-key-duplicate` of AWS's test suite, which
/// use a service called "service" and do not send the hash of the payload.
#[test]
fn suite() {
    let credentials = Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let signer = Signer { service: "service", ..Signer::new(credentials) };
    let at = date("20150830T123600Z");
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&[], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            &[("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")],
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
    ];
    for (pairs, expected) in cases {
        let mut map = HeaderMap::new();
        map.insert(header::HOST, HeaderValue::from_static("example.amazonaws.com"));
        map.insert(X_AMZ_DATE, HeaderValue::from_str(at.as_str()).unwrap());
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let empty = EMPTY_SHA256.as_bytes();
        let (signed, _) = signer.signature("us-east-1", at, &Method::GET, "/", "", &map, empty);
        assert_eq!(text(&signed.signature), expected, "{pairs:?}");
    }
}
