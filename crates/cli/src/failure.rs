//! Failures of commands, and the exit codes.
//!
//! Invariant: [`super::output::finish`] prints every error once.

use std::{fmt, io};

use ashlar_client::Error;

/// The exit codes, as the manual pages print them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    everything asked for was done
  1    it failed for another reason than those below
  2    the command line is wrong
  3    the bucket, key, version, alias or file does not exist
  4    access was denied: wrong credentials or missing permission
  5    the server cannot be reached or says that it cannot serve now: try again
  6    some of several items failed; the others were done
  7    bench compare: slower than the limit allows, and not by chance
  130  interrupted (Ctrl-C); running the command again continues where it stopped";

/// The kind of a failure, which defines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anything else.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A named object does not exist.
    NotFound = 3,
    /// Credentials or permission.
    Denied = 4,
    /// The server is not reachable or not ready.
    Unavailable = 5,
    /// Some of several items failed.
    Partly = 6,
    /// A comparison found a regression beyond its limit.
    Regression = 7,
    /// Interrupted by Ctrl-C.
    Interrupted = 130,
}

/// A failure of a command: the step that failed, and the cause.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub kind: Kind,
    /// What the command was doing, for instance "cannot read `it/bucket/key`"; may be empty.
    pub what: String,
    /// The cause.
    pub cause: String,
    /// The S3 error code and request id, if a server answered.
    pub server: Option<(String, String)>,
}

/// The result of commands.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, cause: impl Into<String>) -> Failure {
        Failure { kind, what: String::new(), cause: cause.into(), server: None }
    }

    /// An invalid command line.
    pub fn usage(cause: impl Into<String>) -> Failure {
        Failure::new(Kind::Usage, cause)
    }

    /// `n` of several items failed; each failure has been printed.
    pub fn partly(n: u64) -> Failure {
        Failure::new(Kind::Partly, format!("{n} failed; the rest was done"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what.is_empty() {
            write!(f, "{}", self.cause)
        } else {
            write!(f, "{}: {}", self.what, self.cause)
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let kind = if error.is_not_found() {
            Kind::NotFound
        } else if error.is_denied() {
            Kind::Denied
        } else if error.is_unavailable() {
            Kind::Unavailable
        } else {
            Kind::Failed
        };
        let server = error.service().map(|e| (e.code.clone(), e.request_id.clone()));
        // The same text, whether the server sent an error document (GET) or not (HEAD).
        let cause = match error.code() {
            Some("NoSuchKey" | "NotFound") if kind == Kind::NotFound => match &server {
                Some((_, id)) if !id.is_empty() => format!("{MISSING} [request {id}]"),
                _ => MISSING.to_owned(),
            },
            _ => explain_tls(error.to_string()),
        };
        Failure { kind, what: String::new(), cause, server }
    }
}

/// The text for an object that does not exist.
pub const MISSING: &str = "it does not exist";

/// Explains certificates that TLS refuses.
fn explain_tls(cause: String) -> String {
    if cause.contains("CaUsedAsEndEntity") {
        return "the server's certificate is that of an authority (CA:TRUE), as `openssl req -x509` makes it \
                unless it is told otherwise; make it with -addext basicConstraints=critical,CA:FALSE and \
                -addext subjectAltName=DNS:HOST"
            .to_owned();
    }
    cause
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Failed,
        };
        Failure::new(kind, error.to_string())
    }
}

/// Adds to a failure what the command was doing.
pub trait While<T> {
    /// `what` begins with "cannot".
    fn when(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: Into<Failure>> While<T> for Result<T, E> {
    fn when(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| {
            let mut failure: Failure = error.into();
            if failure.what.is_empty() {
                failure.what = what();
            }
            failure
        })
    }
}
