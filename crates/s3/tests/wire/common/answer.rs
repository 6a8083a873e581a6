//! Answers, parsed without an HTTP library.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug, Clone)]
pub struct Resp {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Resp {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    /// `<Code>` of an error document.
    pub fn code(&self) -> String {
        self.tag("Code").unwrap_or_default()
    }
    /// Text of the first element of this name.
    pub fn tag(&self, name: &str) -> Option<String> {
        let text = self.text();
        let from = text.find(&format!("<{name}>"))? + name.len() + 2;
        let to = text[from..].find(&format!("</{name}>"))? + from;
        Some(text[from..to].to_owned())
    }
    /// Texts of all elements of this name.
    pub fn tags(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let mut out = Vec::new();
        let mut rest = text.as_str();
        while let Some(from) = rest.find(&open) {
            rest = &rest[from + open.len()..];
            let Some(to) = rest.find(&close) else { break };
            out.push(rest[..to].to_owned());
            rest = &rest[to..];
        }
        out
    }
    #[track_caller]
    pub fn expect(self, status: u16) -> Resp {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Resp {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        assert!(self.header("x-amz-request-id").is_some());
        self
    }
}

/// Sends bytes as they are and reads the answer to its end.
pub fn raw(addr: SocketAddr, bytes: &[u8]) -> Resp {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may answer and close before everything is sent.
    let _ = stream.write_all(bytes);
    let method = String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned();
    read_response(&mut stream, method.starts_with("HEAD"))
}

/// Reads one answer.
pub fn read_response(stream: &mut impl Read, head: bool) -> Resp {
    let mut data = Vec::new();
    let mut buf = [0u8; 65536];
    let end = loop {
        if let Some(i) = data.windows(4).position(|w| w == b"\r\n\r\n") {
            // Interim answers are passed over.
            if data.starts_with(b"HTTP/1.1 100") {
                data.drain(..i + 4);
                continue;
            }
            break i;
        }
        match stream.read(&mut buf) {
            Ok(0) => panic!("no answer, only {:?}", String::from_utf8_lossy(&data)),
            Ok(n) => data.extend_from_slice(&buf[..n]),
            Err(e) => panic!("no answer ({e}), only {:?}", String::from_utf8_lossy(&data)),
        }
    };
    let text = String::from_utf8_lossy(&data[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned()))).collect();
    let mut body = data[end + 4..].to_vec();
    let length = headers
        .iter()
        .find(|(n, _)| n.eq_ignore_ascii_case("content-length"))
        .map(|(_, v)| v.parse::<usize>().unwrap());
    let none = head || status == 204 || status == 304;
    let want = if none { 0 } else { length.unwrap_or(usize::MAX) };
    while body.len() < want {
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => break,
            Ok(n) => body.extend_from_slice(&buf[..n]),
        }
    }
    Resp { status, headers, body }
}
