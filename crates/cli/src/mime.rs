//! The media type of a file by its extension: the ones that browsers and tools need.

/// Extensions in lower case with their media types.
const TYPES: [(&str, &str); 44] = [
    ("avif", "image/avif"),
    ("avro", "application/avro"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type for a file name; `None` if the extension is unknown.
pub fn of_name(name: &str) -> Option<&'static str> {
    let extension = name.rsplit('/').next()?.rsplit_once('.')?.1.to_ascii_lowercase();
    let at = TYPES.binary_search_by(|(e, _)| e.cmp(&extension.as_str())).ok()?;
    Some(TYPES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        assert!(TYPES.is_sorted_by_key(|(e, _)| *e));
        assert_eq!(of_name("a/b.JPG"), Some("image/jpeg"));
        assert_eq!(of_name("a.json/b"), None);
        assert_eq!(of_name("plain"), None);
    }
}
