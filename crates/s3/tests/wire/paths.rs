//! Path traversal (docs/proof.md 2.4): some 500 forms of paths, in every request part that names a key or a
//! bucket. A path is either the name that it decodes to, or it is refused; it never reaches another object.

use crate::common::*;

const CANARY: &[u8] = b"the canary sings";

/// Ways to write "one folder up", and other things that some software takes for a path.
const UP: [&str; 22] = [
    "../",
    "..\\",
    "./",
    "//",
    "%2e%2e/",
    "%2E%2E%2F",
    "..%2f",
    "..%5c",
    "%252e%252e%252f",
    "....//",
    "..././",
    "..;/",
    "..%00/",
    "%c0%ae%c0%ae/",
    "%e0%80%ae%e0%80%ae/",
    "%c0%2e%c0%2e%c0%af",
    "%uff0e%uff0e/",
    "..%ef%bc%8f",
    "%ef%bc%8e%ef%bc%8e/",
    "..%09/",
    "..%0d%0a/",
    "~/",
];
const TAILS: [&str; 6] = [
    "etc/passwd",
    "b-1/canary",
    "canary",
    ".minio.sys/config/config.json",
    "control.0",
    "%2fproc%2fself%2fenviron",
];

fn forms() -> Vec<String> {
    let mut all = Vec::new();
    for up in UP {
        for depth in 1..=4 {
            for tail in TAILS {
                all.push(format!("{}{tail}", up.repeat(depth)));
            }
        }
    }
    for whole in [
        "/etc/passwd",
        "//etc/passwd",
        "C:\\windows\\win.ini",
        "C%3A%5Cwindows",
        "\\\\host\\share",
        "file:///etc/passwd",
        "con",
        "nul",
        "aux.txt",
        "a%00",
        "%00",
        "a/..",
        "..",
        ".",
        "...",
        "a/./b",
        "a/../canary",
        "canary/",
        "canary/.",
        "canary/../canary",
        "canary%2f",
        "canary%00.txt",
        "canary;x=1",
        "canary%3fversions",
        "canary%23",
        "%25",
        "a%",
        "a%2",
        "a%zz",
        "canary ",
        " canary",
        "%20canary",
        "canary%20",
        "canary+",
        "CANARY",
        "canary%0a",
    ] {
        all.push(whole.to_owned());
    }
    all
}

/// What a path decodes to; `None`: it is no UTF-8, or no encoding.
fn decoded(raw: &str) -> Option<String> {
    let (b, mut out, mut i) = (raw.as_bytes(), Vec::new(), 0);
    while i < b.len() {
        if b[i] == b'%' {
            out.push(u8::from_str_radix(raw.get(i + 1..i + 3)?, 16).ok()?);
            i += 3;
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    String::from_utf8(out).ok()
}

fn keys(s: &Server, bucket: &str) -> Vec<String> {
    let r =
        s.req("GET", &format!("/{bucket}")).q("list-type", "2").q("encoding-type", "url").send().expect(200);
    r.tags("Key").iter().map(|k| decoded(&k.replace('+', "%20")).unwrap()).collect()
}

#[test]
fn every_form_of_a_path_is_a_name_or_refused() {
    let s = Server::start();
    for bucket in ["b-1", "b-2"] {
        s.make_bucket(bucket);
        s.put(&format!("/{bucket}/canary"), CANARY).expect(200);
    }
    let forms = forms();
    assert!(forms.len() >= 500, "{}", forms.len());
    let mut stored = 0;
    for (i, form) in forms.iter().enumerate() {
        let raw = format!("/b-1/{}", form.replace(' ', "%20").replace('\\', "%5C"));
        let body = format!("body {i}");
        let name = decoded(&raw["/b-1/".len()..]);
        let r = s.req("PUT", "/").raw_path(&raw).body(&body).send();
        assert!(r.status < 500, "{form}: {}", r.status);
        if r.status == 200 {
            stored += 1;
            let name = name.clone().unwrap_or_else(|| panic!("{form} was taken"));
            assert_eq!(s.req("GET", "/").raw_path(&raw).send().expect(200).text(), body, "{form}");
            let mut want = vec!["canary".to_owned(), name.clone()];
            want.sort();
            want.dedup();
            assert_eq!(keys(&s, "b-1"), want, "{form}");
            s.req("DELETE", "/").raw_path(&raw).send().expect(204);
            if name == "canary" {
                s.put("/b-1/canary", CANARY).expect(200);
            }
        }
        // As a source of a copy, in the list of a deletion, as a bucket.
        let source = format!("/b-2/{}", form.replace(['\r', '\n'], ""));
        let r = s.req("PUT", "/b-1/copy").header("x-amz-copy-source", source.replace(' ', "%20")).send();
        assert!(r.status < 500, "copy of {form}: {}", r.status);
        if r.status == 200 {
            assert_eq!(s.get("/b-1/copy").expect(200).body, CANARY);
            assert_eq!(name.as_deref(), Some("canary"), "copy of {form}");
        }
        s.req("DELETE", "/b-1/copy").send().expect(204);
        let r =
            s.req("PUT", "/").raw_path(&format!("/{}", form.replace(' ', "%20").replace('\\', "%5C"))).send();
        if r.status == 200 {
            // Clients write `/bucket/` too, and may encode the slash.
            let bucket = name.as_deref().unwrap_or_else(|| panic!("{form} was taken"));
            let bucket = bucket.strip_suffix('/').unwrap_or(bucket);
            assert!(
                bucket.bytes().all(|b| b.is_ascii_lowercase() || b == b'.') && !bucket.contains(".."),
                "bucket {form}"
            );
            s.req("DELETE", &format!("/{bucket}")).send().expect(204);
        } else {
            assert!(r.status >= 400 && r.status < 500, "bucket {form}: {}", r.status);
        }
        assert_eq!(keys(&s, "b-1"), ["canary"], "{form}");
    }
    assert!(stored > 200, "most forms are legal keys: {stored}");
    for bucket in ["b-1", "b-2"] {
        assert_eq!(s.get(&format!("/{bucket}/canary")).expect(200).body, CANARY);
    }
    let buckets = s.req("GET", "/").send().expect(200);
    assert_eq!(buckets.tags("Name"), ["b-1", "b-2"]);
}

/// No parameter makes an answer longer than a page, nor work without bounds.
#[test]
fn pages_are_bounded_for_any_requested_size() {
    let s = Server::start();
    s.make_bucket("b-1");
    let store = s.service.context().store.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bucket = store.bucket("b-1").unwrap();
    runtime.block_on(async {
        for i in 0..1_010 {
            let put = store.put(&bucket, &format!("k{i:05}"), ashlar_object::PutSpec::new(0)).await.unwrap();
            put.commit(ashlar_object::VersionSpec::default(), &ashlar_object::Conditions::NONE)
                .await
                .unwrap();
        }
    });
    for most in ["1001", "5000", "2147483647"] {
        for extra in [&[][..], &[("list-type", "2")], &[("versions", "")]] {
            let r = extra.iter().fold(s.req("GET", "/b-1").q("max-keys", most), |r, (n, v)| r.q(n, v));
            let r = r.send().expect(200);
            let shown = r.tags("Key").len();
            assert_eq!((shown, r.tag("IsTruncated").as_deref()), (1000, Some("true")), "{most} {extra:?}");
        }
        s.req("GET", "/b-1").q("uploads", "").q("max-uploads", most).send().expect(200);
    }
    for (name, with) in [("max-keys", "list-type"), ("max-uploads", "uploads")] {
        for bad in ["2147483648", "99999999999999999999", "-1", "1e3", "0x10"] {
            let value = if with == "list-type" { "2" } else { "" };
            let r = s.req("GET", "/b-1").q(with, value).q(name, bad).send();
            assert_eq!((r.status, r.code().as_str()), (400, "InvalidArgument"), "{name}={bad}");
        }
    }
}

/// hyper lets the same length pass twice; a proxy in front may count otherwise.
#[test]
fn repeated_content_length_is_refused() {
    let s = Server::start();
    s.make_bucket("b-1");
    for more in ["content-length: 1\r\n", "Content-Length: 1\r\n", "content-length: 2\r\n"] {
        let (head, body) = s.req("PUT", "/b-1/k").body("x").wire();
        let bytes = [format!("{head}{more}connection: close\r\n\r\n").as_bytes(), &body].concat();
        let r = raw(s.addr, &bytes);
        assert_eq!(r.status, 400, "{more}");
        s.get("/b-1/k").expect(404);
    }
}

#[test]
fn answers_forbid_content_sniffing() {
    let s = Server::start();
    s.make_bucket("b-1");
    s.req("PUT", "/b-1/k").header("content-type", "text/plain").body("<script>").send().expect(200);
    for r in [s.get("/b-1/k"), s.get("/b-1/none"), s.get("/b-1"), s.req("GET", "/b-1/k").anonymous().send()] {
        assert_eq!(r.header("x-content-type-options"), Some("nosniff"), "{}", r.status);
    }
}
