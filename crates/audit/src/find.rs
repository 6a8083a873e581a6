//! Finds the record of a request: searches the audit files from the newest line backwards.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Most bytes that one search reads.
const LOOK: u64 = 512 << 20;

/// The last record of a request in a file and its rotated predecessors.
pub fn find(path: &Path, id: &str) -> Option<Value> {
    if id.is_empty() || id.len() > 64 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return None;
    }
    let needle = format!("\"request_id\":\"{id}\"");
    let mut left = LOOK;
    for file in files(path) {
        let length = fs::metadata(&file).map(|m| m.len()).unwrap_or(0);
        left = left.checked_sub(length)?;
        if let Some(found) = in_file(&file, needle.as_bytes()) {
            return Some(found);
        }
    }
    None
}

/// The file, then the rotated ones, newest first.
fn files(path: &Path) -> Vec<PathBuf> {
    let rotated = rotated(path).into_iter().map(|(_, path)| path);
    std::iter::once(path.to_owned()).chain(rotated).collect()
}

/// The rotated files, newest first, each with the number of the line after its last one.
pub(crate) fn rotated(path: &Path) -> Vec<(u64, PathBuf)> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let numbered = |n: String| {
        let digits = n.strip_prefix(&name)?.strip_prefix('.')?;
        let good = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_digit());
        Some((digits.parse::<u64>().ok().filter(|_| good)?, folder.join(n)))
    };
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<_> = names.filter_map(|e| numbered(e.file_name().into_string().ok()?)).collect();
    all.sort();
    all.reverse();
    all
}

fn in_file(file: &Path, needle: &[u8]) -> Option<Value> {
    let mut lines = BufReader::with_capacity(1 << 20, fs::File::open(file).ok()?);
    let finder = memchr::memmem::Finder::new(needle);
    let (mut line, mut found) = (Vec::new(), None);
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            return found;
        }
        if finder.find(&line).is_some()
            && let Ok(value) = serde_json::from_slice::<Value>(&line)
        {
            found = Some(value);
        }
    }
}
