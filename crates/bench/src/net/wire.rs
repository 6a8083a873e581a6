//! The protocol between nodes of a network test: a handshake with a shared token, then lines of JSON or raw
//! data.
//!
//! Invariants: both sides prove that they know the token before either does anything for the other, and the
//! token itself is never sent; lines, times and counts from the other side are bounded. The transferred data
//! is random and neither secret nor protected.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use ashlar_bench_report::result::{Histogram, Point};
use ashlar_checksum::{ct_eq, hmac_sha256};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Version of this protocol; only equal versions speak.
pub const VERSION: u32 = 1;
/// Longest line of a handshake.
const SHORT_LINE: usize = 4 << 10;
/// Longest line of a control connection: a report of many streams.
pub const LONG_LINE: usize = 64 << 20;
/// Patience with a peer outside a measurement.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Role {
    /// Lines of [`Ask`] and [`Answer`].
    Control,
    /// Data; the dialling side sends if `sends`.
    Stream {
        /// The session it belongs to.
        session: u64,
        /// The dialling node's name.
        from: String,
        /// The accepting node's name.
        to: String,
        /// Which way the data goes.
        sends: bool,
    },
    /// Small messages that come back as they are.
    Ping,
}

/// From the coordinator to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Take part in a session under this name.
    Join {
        /// Random number of the session.
        session: u64,
        /// What this node is called in it.
        name: String,
        /// Load and duration.
        shape: Shape,
    },
    /// Open streams to other nodes that have joined.
    Dial {
        /// The nodes to connect to.
        targets: Vec<Dial>,
    },
    /// Start now.
    Go,
}

/// Load and duration of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Seconds of load that do not count.
    pub warmup_s: f64,
    /// Seconds that count.
    pub duration_s: f64,
    /// Bytes per write.
    pub block: u64,
}

impl Shape {
    /// Whether a node takes part in it.
    ///
    /// # Errors
    /// [`Error::Usage`] with the bound that is broken.
    pub fn check(&self) -> Result<()> {
        let times =
            self.warmup_s >= 0.0 && self.duration_s > 0.0 && self.warmup_s + self.duration_s <= 3600.0;
        if !times {
            return Err(Error::usage("duration and warm-up must be above zero and at most one hour"));
        }
        if !(1024..=16 << 20).contains(&self.block) {
            return Err(Error::usage("the block size must be between 1 KiB and 16 MiB"));
        }
        Ok(())
    }
}

/// Streams from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dial {
    /// The other node's name.
    pub name: String,
    /// The address at which it listens.
    pub address: String,
    /// Streams that send to it.
    pub send: u32,
    /// Streams that receive from it.
    pub receive: u32,
}

/// From a node to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// Done.
    Ok,
    /// The request was not carried out.
    Error {
        /// The reason.
        text: String,
    },
    /// After the end.
    Report(Report),
}

/// What a node saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Streams it received.
    pub received: Vec<Received>,
    /// Nodes it pinged.
    pub pings: Vec<Pings>,
    /// What went wrong.
    pub errors: Vec<String>,
}

/// One stream, as its receiver saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Bytes within the receiver's interval.
    pub bytes: u64,
    /// Bytes by step from the start of the load, warm-up included.
    pub points: Vec<Point>,
}

/// Round trips of small messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pings {
    /// The node that sent the request.
    pub from: String,
    /// The node that answered.
    pub to: String,
    /// Before the load.
    pub idle: Histogram,
    /// Within the interval.
    pub loaded: Histogram,
}

#[derive(Serialize, Deserialize)]
struct Greeting {
    ashlar_bench_net: u32,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Hello {
    version: u32,
    nonce: String,
    proof: String,
    #[serde(flatten)]
    role: Role,
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The secret that all nodes of a test share.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// From what the user gave; at least eight bytes.
    ///
    /// # Errors
    /// [`Error::Usage`] when it is too short.
    pub fn new(text: &str) -> Result<Token> {
        if text.len() < 8 {
            return Err(Error::usage("the token must have at least 8 characters"));
        }
        Ok(Token(text.to_owned()))
    }

    /// A new one.
    ///
    /// # Errors
    /// [`Error::Setup`] when the system has no random numbers.
    pub fn random() -> Result<Token> {
        Ok(Token(random_hex(16)?))
    }

    /// To show it once.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn proof(&self, side: &str, accepting: &str, dialling: &str) -> String {
        let text = format!("ashlar bench net {VERSION} {side} {accepting} {dialling}");
        hex::encode(hmac_sha256(self.0.as_bytes(), text.as_bytes()))
    }
}

fn random_hex(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|e| Error::setup(format!("no random numbers: {e}")))?;
    Ok(hex::encode(random))
}

/// A random number for a session.
///
/// # Errors
/// [`Error::Setup`] when the system has no random numbers.
pub fn random_u64() -> Result<u64> {
    getrandom::u64().map_err(|e| Error::setup(format!("no random numbers: {e}")))
}

/// Connects to a node and proves the token both ways.
///
/// # Errors
/// [`Error::Setup`] when it cannot be reached, is no node, or does not know the token.
pub fn dial(address: &str, token: &Token, role: Role) -> Result<TcpStream> {
    let failed = |e: io::Error| Error::setup(format!("{address}: {e}"));
    let mut stream = connect(address).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let greeting: Greeting = receive(&mut stream, SHORT_LINE)
        .map_err(|e| Error::setup(format!("{address} is not an `ashlar bench net --listen`: {e}")))?;
    if greeting.ashlar_bench_net != VERSION {
        return Err(Error::setup(format!(
            "{address} speaks version {} of the protocol, this program speaks version {VERSION}",
            greeting.ashlar_bench_net
        )));
    }
    let nonce = random_hex(16)?;
    let hello = Hello {
        version: VERSION,
        proof: token.proof("dialling", &greeting.nonce, &nonce),
        nonce: nonce.clone(),
        role,
    };
    send(&mut stream, &hello).map_err(failed)?;
    let welcome: Welcome = receive(&mut stream, SHORT_LINE).map_err(failed)?;
    if let Some(error) = welcome.error {
        return Err(Error::setup(format!("{address}: {error}")));
    }
    let expected = token.proof("accepting", &greeting.nonce, &nonce);
    if !welcome.proof.is_some_and(|p| ct_eq(p.as_bytes(), expected.as_bytes())) {
        return Err(Error::setup(format!("{address} does not know the token")));
    }
    Ok(stream)
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The other side of [`dial`].
///
/// # Errors
/// [`Error::Setup`] when the peer does not know the token or speaks another version; the reason was sent to it.
pub fn accept(stream: &mut TcpStream, token: &Token) -> Result<Role> {
    let peer = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |a: SocketAddr| a.to_string());
    let failed = |e: io::Error| Error::setup(format!("{peer}: {e}"));
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let nonce = random_hex(16)?;
    send(stream, &Greeting { ashlar_bench_net: VERSION, nonce: nonce.clone() }).map_err(failed)?;
    let hello: Hello = receive(stream, SHORT_LINE).map_err(failed)?;
    let refuse = |stream: &mut TcpStream, text: &str| {
        // The reason is a courtesy; whether it arrives does not matter.
        let _ = send(stream, &Welcome { proof: None, error: Some(text.to_owned()) });
        Err(Error::setup(format!("{peer}: {text}")))
    };
    if hello.version != VERSION {
        return refuse(stream, &format!("this node speaks version {VERSION} of the protocol"));
    }
    let expected = token.proof("dialling", &nonce, &hello.nonce);
    if !ct_eq(hello.proof.as_bytes(), expected.as_bytes()) {
        return refuse(stream, "the token is wrong");
    }
    let proof = token.proof("accepting", &nonce, &hello.nonce);
    send(stream, &Welcome { proof: Some(proof), error: None }).map_err(failed)?;
    Ok(hello.role)
}

/// Sends a line.
///
/// # Errors
/// The error of the socket.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a line of at most `most` bytes. Reads byte by byte, so that nothing of what follows is
/// taken: give it a `BufReader` where lines are long and nothing but lines follows.
///
/// # Errors
/// `UnexpectedEof` when the peer went, `InvalidData` when it is not what was expected.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read, most: usize) -> io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() == most => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            Ok(_) => line.push(byte[0]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    serde_json::from_slice(&line).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}
