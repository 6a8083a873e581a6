//! `multipart/form-data` from browsers: fields, then one file, read as a stream.
//!
//! Invariants: the fields before the file have at most [`MAX_FIELDS_BYTES`] together; the file is passed on
//! in pieces, never held in memory; a repeated field is refused. Must not depend on: policies.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use memchr::memmem;

use crate::fault::{Code, Fault, Outcome};
pub use crate::fields::Fields;
use crate::request_body::RequestBody;

/// Most bytes of all fields together, names included.
pub const MAX_FIELDS_BYTES: usize = 64 * 1024;
/// Most fields.
pub const MAX_FIELDS: usize = 128;
/// Longest header block of a part.
const MAX_PART_HEAD: usize = 4 * 1024;

/// A form whose fields have been read; the file follows.
pub struct Form {
    /// The fields.
    pub fields: Fields,
    /// Name of the file as the client gave it, without directories.
    pub file_name: String,
    /// Bytes of the file if, as every client does it, it is the last field.
    pub expected: u64,
    request_body: RequestBody,
    buffer: BytesMut,
    delimiter: Vec<u8>,
    ended: bool,
}

fn malformed(why: &'static str) -> Fault {
    Fault::with(
        Code::MALFORMED_POST,
        format!("The body of your POST request is not well-formed multipart/form-data: {why}."),
    )
    .closing()
}

/// The boundary, if the content type is that of a form.
pub fn boundary(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("content-type")?.to_str().ok()?;
    let (kind, parameters) = value.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let text = parameters.split(';').find_map(|p| {
        let (name, value) = p.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    let text = text.trim().trim_matches('"');
    let legal = (1..=70).contains(&text.len()) && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    legal.then(|| text.to_owned())
}

impl Form {
    /// Reads the fields up to the file.
    ///
    /// # Errors
    /// What is wrong, and the body back.
    #[allow(clippy::result_large_err)]
    pub async fn read(mut request_body: RequestBody, boundary: &str) -> Result<Form, (Fault, RequestBody)> {
        match Form::fields(&mut request_body, boundary).await {
            Ok((fields, head, expected, buffer, delimiter)) => Ok(Form {
                fields,
                file_name: head.file_name.unwrap_or_default(),
                expected,
                request_body,
                buffer,
                delimiter,
                ended: false,
            }),
            Err(fault) => Err((fault, request_body)),
        }
    }

    async fn fields(
        request_body: &mut RequestBody,
        boundary: &str,
    ) -> Outcome<(Fields, Head, u64, BytesMut, Vec<u8>)> {
        let total = request_body.size().ok_or_else(|| Fault::new(Code::MISSING_CONTENT_LENGTH).closing())?;
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // A line end before the first boundary makes it like all others.
        let mut buffer = BytesMut::from(&b"\r\n"[..]);
        let mut fields = Fields::default();
        let mut used = 0;
        let mut consumed = 0u64;
        let mut field = Vec::new();
        skip_to_boundary(request_body, &mut buffer, &delimiter, &mut consumed, &mut field).await?;
        loop {
            let head = part_head(request_body, &mut buffer, &mut consumed).await?;
            if head.name.eq_ignore_ascii_case("file") {
                let tail = delimiter.len() as u64 + 4;
                // The two bytes put in front are in `consumed`.
                let expected =
                    (total + 2).checked_sub(consumed + tail).ok_or_else(|| malformed("it ends too early"))?;
                return Ok((fields, head, expected, buffer, delimiter));
            }
            field.clear();
            skip_to_boundary(request_body, &mut buffer, &delimiter, &mut consumed, &mut field).await?;
            used += head.name.len() + field.len();
            if used > MAX_FIELDS_BYTES || fields.0.len() == MAX_FIELDS {
                return Err(Fault::with(
                    Code::MESSAGE_TOO_LARGE,
                    "The fields of the form are too large or too many.",
                )
                .closing());
            }
            let value = String::from_utf8(std::mem::take(&mut field))
                .map_err(|_| malformed("a field is not UTF-8"))?;
            let name = head.name.to_ascii_lowercase();
            if fields.get(&name).is_some() {
                return Err(Fault::with(
                    Code::INVALID_ARGUMENT,
                    format!("The form field {name} was sent more than once."),
                ));
            }
            fields.0.push((name, value));
        }
    }

    /// The next bytes of the file; `None` at its end.
    pub async fn next(&mut self) -> Outcome<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        loop {
            if let Some(at) = memmem::find(&self.buffer, &self.delimiter) {
                let rest = self.buffer.split_to(at).freeze();
                self.ended = true;
                return Ok((!rest.is_empty()).then_some(rest));
            }
            // The last bytes may be the beginning of a boundary.
            let keep = self.delimiter.len() - 1;
            if self.buffer.len() > keep {
                let n = self.buffer.len() - keep;
                return Ok(Some(self.buffer.split_to(n).freeze()));
            }
            match self.request_body.next().await? {
                Some(data) => self.buffer.extend_from_slice(&data),
                None => return Err(malformed("the file has no end")),
            }
        }
    }

    /// Reads on to the end of the body, which must hold nothing more of substance.
    pub async fn finish(&mut self) -> Outcome<()> {
        let mut rest = self.buffer.len();
        while let Some(data) = self.request_body.next().await? {
            rest += data.len();
            if rest > MAX_FIELDS_BYTES {
                return Err(malformed("too much follows the file"));
            }
        }
        Ok(())
    }

    /// The body, to be drained after a fault.
    pub fn into_request_body(self) -> RequestBody {
        self.request_body
    }
}

struct Head {
    name: String,
    file_name: Option<String>,
}

/// Reads up to and over the next boundary; the bytes before it go to `out`.
async fn skip_to_boundary(
    request_body: &mut RequestBody,
    buffer: &mut BytesMut,
    delimiter: &[u8],
    consumed: &mut u64,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    loop {
        if let Some(at) = memmem::find(buffer, delimiter) {
            out.extend_from_slice(&buffer[..at]);
            buffer.advance(at + delimiter.len());
            *consumed += (at + delimiter.len()) as u64;
            break;
        }
        if buffer.len() > MAX_FIELDS_BYTES {
            return Err(Fault::with(
                Code::MESSAGE_TOO_LARGE,
                "A field of the form is too large, or the boundary is missing.",
            )
            .closing());
        }
        more(request_body, buffer).await?;
    }
    while buffer.len() < 2 {
        more(request_body, buffer).await?;
    }
    match &buffer[..2] {
        b"\r\n" => {
            buffer.advance(2);
            *consumed += 2;
            Ok(())
        }
        b"--" => {
            Err(Fault::with(Code::INVALID_ARGUMENT, "POST requires exactly one file upload per request.")
                .element("ArgumentName", "file"))
        }
        _ => Err(malformed("a boundary is not followed by a line end")),
    }
}

async fn part_head(
    request_body: &mut RequestBody,
    buffer: &mut BytesMut,
    consumed: &mut u64,
) -> Outcome<Head> {
    let end = loop {
        if let Some(at) = memmem::find(buffer, b"\r\n\r\n") {
            break at;
        }
        if buffer.len() > MAX_PART_HEAD {
            return Err(malformed("the header of a part is too long"));
        }
        more(request_body, buffer).await?;
    };
    if end > MAX_PART_HEAD {
        return Err(malformed("the header of a part is too long"));
    }
    let head = buffer.split_to(end + 4);
    *consumed += head.len() as u64;
    let text =
        std::str::from_utf8(&head[..end]).map_err(|_| malformed("the header of a part is not UTF-8"))?;
    let mut out = Head { name: String::new(), file_name: None };
    for line in text.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-disposition") {
            out.name = parameter(value, "name").ok_or_else(|| malformed("a part has no name"))?;
            out.file_name = parameter(value, "filename").map(|f| base_name(&f).to_owned());
        }
    }
    if out.name.is_empty() {
        return Err(malformed("a part has no name"));
    }
    Ok(out)
}

async fn more(request_body: &mut RequestBody, buffer: &mut BytesMut) -> Outcome<()> {
    match request_body.next().await? {
        Some(data) => {
            buffer.extend_from_slice(&data);
            Ok(())
        }
        None => Err(malformed("it ends too early")),
    }
}

/// A quoted or bare parameter of a header.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut rest = value;
    while let Some(at) = rest.find(';') {
        rest = rest[at + 1..].trim_start();
        let (found, after) = rest.split_once('=')?;
        let quoted = after.trim_start().strip_prefix('"');
        let text = match quoted {
            Some(q) => unquote(q),
            None => after.split(';').next().unwrap_or_default().trim().to_owned(),
        };
        if found.trim().eq_ignore_ascii_case(name) {
            return Some(text);
        }
        if let Some(q) = quoted {
            rest = &q[q.find('"').map_or(q.len(), |i| i + 1)..];
        }
    }
    None
}

fn unquote(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => out.push(escaped),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => break,
            },
            c => out.push(c),
        }
    }
    out
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_body::Source;

    async fn read(body: &[u8], step: usize) -> Outcome<(Fields, String, Vec<u8>, u64)> {
        let mut headers = HeaderMap::new();
        headers.insert("content-length", body.len().into());
        let pieces = body.chunks(step).map(Bytes::copy_from_slice).collect();
        let request_body = RequestBody::unchecked(Source::Memory(pieces), &headers).map_err(|(f, _)| f)?;
        let mut form = Form::read(request_body, "XyZ").await.map_err(|(f, _)| f)?;
        let mut file = Vec::new();
        while let Some(data) = form.next().await? {
            file.extend_from_slice(&data);
        }
        form.finish().await?;
        Ok((std::mem::take(&mut form.fields), form.file_name.clone(), file, form.expected))
    }

    const GOOD: &[u8] = b"--XyZ\r\nContent-Disposition: form-data; name=\"Key\"\r\n\r\na/${filename}\r\n--XyZ\r\ncontent-disposition: form-data; name=\"file\"; filename=\"C:\\dir\\f.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--Xy\r\nworld\r\n--XyZ--\r\n";

    #[tokio::test]
    async fn forms_are_read_from_pieces_of_any_size() {
        for step in 1..GOOD.len() {
            let (fields, name, file, expected) = read(GOOD, step).await.unwrap();
            assert_eq!(fields.get("key"), Some("a/${filename}"));
            assert_eq!(name, "f.txt");
            assert_eq!(file, b"hello\r\n--Xy\r\nworld");
            assert_eq!(expected, file.len() as u64);
        }
    }

    #[tokio::test]
    async fn invalid_forms_are_refused() {
        let twice = b"--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--XyZ\r\nContent-Disposition: form-data; name=A\r\n\r\n1\r\n--XyZ--\r\n";
        let mut huge = b"--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n".to_vec();
        huge.extend(vec![b'x'; 200_000]);
        for bad in [&b""[..], b"--XyZ", b"--XyZ--\r\n", b"hello", &GOOD[..GOOD.len() - 12], twice, &huge] {
            assert!(read(bad, 1000).await.is_err(), "{}", String::from_utf8_lossy(&bad[..bad.len().min(80)]));
        }
    }
}
