//! Options of TCP connections between the nodes of a cluster.
//!
//! The sizes of the socket buffers are left to the system, which adapts them to the path; a fixed size would
//! switch that off.
//!
//! Must not depend on: what is sent.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Time without data after which the system asks the other end whether it is there, and the time between
/// further questions.
const QUIET: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(3);
/// Questions without an answer after which the connection is broken.
const QUESTIONS: u32 = 3;
/// Time without an acknowledgement of sent data after which the connection is broken.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MS: u32 = 20_000;

/// Sets the options: what is written is sent at once, and a connection whose other end is gone breaks within
/// 20 seconds.
///
/// # Errors
/// The error of the system.
pub fn tune_socket(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, QUIET)?;
    sockopt::set_tcp_keepintvl(&socket, AGAIN)?;
    sockopt::set_tcp_keepcnt(&socket, QUESTIONS)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MS)?;
    Ok(())
}
