//! Results of other tools as result documents, for comparison side by side.
//!
//! Invariants: no data is invented (a summary without a histogram stays one, and a caveat says so); input is
//! bounded by [`crate::result::file::LARGEST`].
//!
//! Must not depend on: how the other tool measured; caveats name what its files do not say.

pub mod fio;
pub mod warp_csv;
pub mod warp_json;

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use crate::{
    error::Error,
    result::{Caveat, FORMAT, Host, Run, Severity, VERSION, file},
};

/// Reads a file of warp (`.csv.zst`, `.json.zst`, plain or packed) or fio (`--output-format=json` or
/// `json+`); the content shows which one it is. `-` is the standard input.
pub fn load(path: &Path) -> Result<Run, Error> {
    let bytes = file::read(path)?;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    parse(&bytes, &name).map_err(|e| file::name(path, e))
}

/// Reads a result of any kind: our own document, or else one of the other tools.
pub fn open(path: &Path) -> Result<Run, Error> {
    let bytes = file::read(path)?;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let ours = file::parse(&bytes);
    // A file that is not a result document may be another tool's; a newer or damaged result document is an
    // error.
    let run = match ours {
        Err(Error::Format { .. }) if !file::is_ours(&bytes) => parse(&bytes, &name),
        ours => ours,
    };
    run.map_err(|e| file::name(path, e))
}

/// Understands such a file; `name` becomes the run's name.
pub fn parse(bytes: &[u8], name: &str) -> Result<Run, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::format("neither a result of warp nor of fio (not text)"))?;
    // fio writes warnings before its JSON when both go to one file.
    let start = text.find(['{', 'i', '#']).unwrap_or(0);
    let head = &text[start..];
    let mut run = if warp_csv::is(head) {
        warp_csv::parse(head)?
    } else {
        let json = text.find('{').map(|at| &text[at..]).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(e)) => return Err(Error::format(format!("neither a result of warp nor of fio: {e}"))),
            None => return Err(Error::format("neither a result of warp nor of fio")),
        };
        if value.get("fio version").is_some() {
            fio::parse(&value)?
        } else if value.get("by_op_type").is_some() || value.get("operations").is_some() {
            warp_json::parse(&value)?
        } else {
            return Err(Error::format("neither a result of warp nor of fio"));
        }
    };
    name.clone_into(&mut run.name);
    Ok(run)
}

/// An empty document of an import from `tool`.
fn document(tool: &str, version: &str) -> Run {
    let facts = BTreeMap::from([(format!("version {tool}"), version.to_owned())]);
    Run {
        format: FORMAT.to_owned(),
        version: VERSION,
        mode: "import".to_owned(),
        environment: vec![Host { role: "client".to_owned(), facts }],
        setup: BTreeMap::from([("tool".to_owned(), Value::from(tool))]),
        caveats: vec![note(
            "imported",
            format!("Imported from {tool}: measured and counted as {tool} does."),
        )],
        ..Run::default()
    }
}

fn note(code: &str, text: impl Into<String>) -> Caveat {
    Caveat { severity: Severity::Note, code: code.to_owned(), text: text.into() }
}

/// A number of JSON, 0 where it is missing.
fn num(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// RFC 3339 as seconds and nanoseconds since 1970.
pub(crate) fn instant(text: &str) -> Option<i128> {
    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339)
        .ok()
        .map(|t| t.unix_timestamp_nanos())
}

/// Nanoseconds since 1970 as RFC 3339 in UTC, to the millisecond.
fn rfc3339(ns: i128) -> String {
    time::OffsetDateTime::from_unix_timestamp_nanos(ns / 1_000_000 * 1_000_000)
        .ok()
        .and_then(|t| t.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_formats_are_refused() {
        for wrong in ["", "hello", "{}", "{\"a\":1}", "[1]", "idx\tthread\n", "\u{0}"] {
            assert!(parse(wrong.as_bytes(), "x").is_err(), "{wrong:?}");
        }
        assert!(parse(&[0xff, 0xfe, 0x00], "x").is_err());
    }

    #[test]
    fn every_kind_of_result_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let kind = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path).map(|r| r.setup.get("tool").cloned())
        };
        let packed = ruzstd::encoding::compress_to_vec(
            include_bytes!("../../tests/fixtures/warp-mixed.csv").as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        assert_eq!(kind(&packed).unwrap(), Some("warp".into()));
        let fio = ["note: both iodepth >= 1\n", include_str!("../../tests/fixtures/fio-seq.json")].concat();
        assert_eq!(kind(fio.as_bytes()).unwrap(), Some("fio".into()));
        let ours = crate::fixture::run("a", "2026-01-01T00:00:00Z", 1, 10);
        assert_eq!(kind(&serde_json::to_vec(&ours).unwrap()).unwrap(), None);
        let newer = Run { version: VERSION + 1, ..ours };
        assert!(matches!(kind(&serde_json::to_vec(&newer).unwrap()), Err(Error::Newer { .. })));
        let damaged = br#"{"format":"ashlar-bench","version":1,"operations":[]}"#;
        assert!(kind(damaged).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn instants_are_parsed() {
        assert_eq!(instant("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(instant("1970-01-01T01:00:01.000000001+01:00"), Some(1_000_000_001));
        assert_eq!(instant("yesterday"), None);
        assert_eq!(rfc3339(1_500_000_000), "1970-01-01T00:00:01.5Z");
    }
}
