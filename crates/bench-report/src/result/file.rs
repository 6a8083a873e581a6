//! Result files: validated when read, written atomically.
//!
//! Invariants: neither a file nor a result that is read contains a secret ([`redact`]); a file of a newer
//! version is refused, not read in part; Zstandard is recognized by its first bytes; no file is read beyond
//! [`LARGEST`].

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use serde::Deserialize;

use super::{FORMAT, Run, VERSION, redact};
use crate::error::Error;

/// Most bytes of a file after decompression: one GiB.
pub const LARGEST: u64 = 1 << 30;

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads a result. `-` is the standard input.
pub fn load(path: &Path) -> Result<Run, Error> {
    parse(&read(path)?).map_err(|e| name(path, e))
}

/// What every version begins with.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

/// Whether bytes claim to be a result of `ashlar bench`, of any version, damaged or not.
pub fn is_ours(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Head>(bytes).is_ok_and(|head| head.format == FORMAT)
}

/// Understands a result.
pub fn parse(bytes: &[u8]) -> Result<Run, Error> {
    let head: Head = serde_json::from_slice(bytes)
        .map_err(|e| Error::format(format!("this is not a result of ashlar bench: {e}")))?;
    if head.format != FORMAT {
        return Err(Error::format(
            "this is not a result of ashlar bench (`ashlar bench import` reads those of warp and fio)",
        ));
    }
    if head.version > VERSION {
        return Err(Error::Newer { found: head.version, known: VERSION });
    }
    if head.version == 0 {
        return Err(Error::format("the result has no version"));
    }
    let mut run =
        serde_json::from_slice(bytes).map_err(|e| Error::format(format!("the result is damaged: {e}")))?;
    redact::run(&mut run);
    Ok(run)
}

/// Writes a result beside its place and moves it there. `-` is the standard output.
pub fn store(path: &Path, run: &Run) -> Result<(), Error> {
    let mut run = run.clone();
    redact::run(&mut run);
    let mut bytes = serde_json::to_vec(&run).map_err(|e| Error::format(e.to_string()))?;
    bytes.push(b'\n');
    write(path, &bytes)
}

/// Writes bytes beside their place and moves them there. `-` is the standard output.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if path == Path::new("-") {
        return io::stdout().write_all(bytes).map_err(failed);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let done = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    done.map_err(|source| {
        // A file that could not be renamed is of no use. It may not exist, so an error is ignored.
        let _ = fs::remove_file(&beside);
        failed(source)
    })
}

/// Reads a file, decompressed if it is Zstandard. `-` is the standard input.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let raw =
        if path == Path::new("-") { limited(io::stdin().lock()) } else { File::open(path).and_then(limited) };
    let raw = raw.map_err(failed)?;
    if !raw.starts_with(&ZSTD) {
        return Ok(raw);
    }
    let mut rest = raw.as_slice();
    let mut all = Vec::new();
    // Several frames may follow each other (parallel compressors write such files).
    while !rest.is_empty() {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|e| Error::format(format!("{}: {e}", path.display())))?;
        let room = LARGEST - all.len() as u64;
        let got = decoder.take(room + 1).read_to_end(&mut all).map_err(failed)?;
        if got as u64 > room {
            return Err(failed(too_large()));
        }
    }
    Ok(all)
}

fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {LARGEST} bytes"))
}

/// Puts the file's name before what is wrong with it.
pub(crate) fn name(path: &Path, error: Error) -> Error {
    match error {
        Error::Format { what } => Error::format(format!("{}: {what}", path.display())),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Load;

    fn run() -> Run {
        Run { format: FORMAT.into(), version: VERSION, mode: "s3".into(), name: "x".into(), ..Run::default() }
    }

    /// Every field and every kind of load, as version 1 of the document has them.
    const GOLDEN: &str = include_str!("../../tests/fixtures/result.json");

    #[test]
    fn format_stays_the_same() {
        let run = parse(GOLDEN.as_bytes()).unwrap();
        assert_eq!(run.phases[0].load, Load::Closed { concurrency: 8 });
        let open = Load::Open { rate_per_s: 500.5, arrivals: "poisson".into(), limit: 4096 };
        assert_eq!(run.phases[1].load, open);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again.json");
        store(&path, &run).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), GOLDEN);
    }

    #[test]
    fn invalid_loads_are_refused() {
        let closed = r#"{"loop":"closed","concurrency":8}"#;
        assert!(GOLDEN.contains(closed));
        for wrong in [
            "{}",
            r#"{"concurrency":8}"#,
            r#"{"loop":"closed"}"#,
            r#"{"loop":"closed","concurrency":"8"}"#,
            r#"{"loop":"open","rate_per_s":1.0,"arrivals":"fixed"}"#,
            r#"{"loop":"round","concurrency":8}"#,
        ] {
            let error = parse(GOLDEN.replace(closed, wrong).as_bytes()).unwrap_err();
            assert!(error.to_string().contains("the result is damaged"), "{wrong}: {error}");
        }
        // Fields that a later program may add are ignored.
        let more = r#"{"later":[1],"concurrency":8,"loop":"closed"}"#;
        assert!(parse(GOLDEN.replace(closed, more).as_bytes()).is_ok());
    }

    #[test]
    fn files_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        store(&path, &run()).unwrap();
        assert_eq!(load(&path).unwrap(), run());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        let packed = ruzstd::encoding::compress_to_vec(
            fs::read(&path).unwrap().as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        // Two frames, split anywhere.
        fs::write(&path, &packed).unwrap();
        assert_eq!(load(&path).unwrap(), run());
        let text = serde_json::to_vec(&run()).unwrap();
        let (a, b) = text.split_at(20);
        let pack = |b| ruzstd::encoding::compress_to_vec(b, ruzstd::encoding::CompressionLevel::Fastest);
        fs::write(&path, [pack(a), pack(b)].concat()).unwrap();
        assert_eq!(load(&path).unwrap(), run());
    }

    #[test]
    fn invalid_files_are_refused() {
        let newer = Run { version: VERSION + 1, ..run() };
        let error = parse(&serde_json::to_vec(&newer).unwrap()).unwrap_err();
        assert!(
            matches!(error, Error::Newer { .. }) && error.to_string().contains("newer ashlar"),
            "{error}"
        );
        for wrong in
            ["", "{}", "[]", "{\"format\":\"ashlar-bench\"}", "{\"format\":\"ashlar-bench\",\"version\":1}"]
        {
            assert!(matches!(parse(wrong.as_bytes()), Err(Error::Format { .. })), "{wrong}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(load(&folder.path().join("none")), Err(Error::File { .. })));
        let path = folder.path().join("cut.zst");
        fs::write(&path, [0x28, 0xb5, 0x2f, 0xfd, 1, 2]).unwrap();
        assert!(load(&path).is_err());
    }

    #[test]
    fn files_of_a_newer_version_are_refused() {
        let text = r#"{"format":"ashlar-bench","version":9,"phases":{"all":"different"}}"#;
        assert!(matches!(parse(text.as_bytes()), Err(Error::Newer { found: 9, .. })));
    }
}
