//! What a host asks of its connections.
//!
//! Must not depend on: connections.

use std::time::Duration;

use ashlar_environment::random;

use crate::auth::Secret;
use crate::error::Error;
use crate::host::policy::IoPolicy;
use crate::tls::TlsKey;

/// How a host uses a namespace.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The name of this host (NQN).
    pub host_nqn: String,
    /// The identifier of this host.
    pub host_id: [u8; 16],
    /// The secret with which this host authenticates itself, if a target demands it.
    pub secret: Option<Secret>,
    /// The secret with which targets have to authenticate themselves to this host; none: they need not. Discovery controllers
    /// need not in any case.
    pub controller_secret: Option<Secret>,
    /// The key of TLS: every connection to a target then begins with TLS, also those to discovery controllers. None: none does.
    pub tls_key: Option<TlsKey>,
    /// Digests of headers.
    pub header_digest: bool,
    /// Digests of data.
    pub data_digest: bool,
    /// I/O queues, each a connection; the target may permit fewer. 1 to 64.
    pub queues: u16,
    /// Commands of a queue on their way, at most; the target may permit fewer. 1 to 1023.
    pub depth: u16,
    /// Time for the answer of a command. A command that is not answered ends its controller.
    pub command_timeout: Duration,
    /// Time for a connection.
    pub connect_timeout: Duration,
    /// The keep-alive time: the target may end the controller after so long without a command, so the host sends Keep Alive after half
    /// of it. One that is not answered in this time ends the controller too. Zero: none.
    pub keep_alive: Duration,
    /// Time after which requests fail when no path to the namespace can be used. It counts from the loss of the last one.
    pub fast_io_fail_timeout: Duration,
    /// Time before the first attempt to connect again; it doubles with each, up to `reconnect_delay`.
    pub first_delay: Duration,
    /// The longest time between two attempts.
    pub reconnect_delay: Duration,
    /// Time after which a path is given up for good, if it was not connected again. None: it never is.
    pub ctrl_loss_timeout: Option<Duration>,
    /// Time that a target may need to stop executing commands after it knows that their connection is lost, if it does not say (CQT).
    pub quiesce: Duration,
    /// Which of several paths a command takes.
    pub policy: IoPolicy,
}

impl HostOptions {
    /// The usual options, for a host with a random identity.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new() -> Result<HostOptions, Error> {
        let mut host_id = [0; 16];
        random::fill(&mut host_id).map_err(|e| Error::Connection(std::io::Error::other(e.to_string())))?;
        // Version 4 (RFC 9562).
        host_id[6] = host_id[6] & 0x0f | 0x40;
        host_id[8] = host_id[8] & 0x3f | 0x80;
        let hex: String = host_id.iter().map(|b| format!("{b:02x}")).collect();
        let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        Ok(HostOptions {
            host_nqn: format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}"),
            host_id,
            secret: None,
            controller_secret: None,
            tls_key: None,
            header_digest: true,
            data_digest: true,
            queues: 1,
            depth: 32,
            command_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(5),
            fast_io_fail_timeout: Duration::from_secs(30),
            first_delay: Duration::from_millis(100),
            reconnect_delay: Duration::from_secs(2),
            ctrl_loss_timeout: None,
            quiesce: Duration::from_secs(2),
            policy: IoPolicy::default(),
        })
    }
}
