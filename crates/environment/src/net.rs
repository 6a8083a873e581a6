//! TCP connections and listeners.
//!
//! Invariant: a simulation has no network, and these calls fail there. Simulated components communicate
//! through an interface above sockets.
//!
//! Must not depend on: what is sent.

use std::io;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

/// Opens a connection.
///
/// # Errors
/// The error of the system; `Unsupported` in a simulation.
pub async fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    refuse_in_simulation()?;
    TcpStream::connect(address).await
}

/// Listens at an address.
///
/// # Errors
/// The error of the system; `Unsupported` in a simulation.
pub async fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    refuse_in_simulation()?;
    TcpListener::bind(address).await
}

/// Listens at an address, for threads that accept connections without a runtime.
///
/// # Errors
/// The error of the system; `Unsupported` in a simulation.
pub fn bind_blocking(address: impl std::net::ToSocketAddrs) -> io::Result<std::net::TcpListener> {
    refuse_in_simulation()?;
    std::net::TcpListener::bind(address)
}

/// Opens a connection to one address, for threads without a runtime. It fails with `TimedOut` after `limit`.
///
/// # Errors
/// The error of the system; `Unsupported` in a simulation.
pub fn connect_blocking(
    address: &std::net::SocketAddr,
    limit: std::time::Duration,
) -> io::Result<std::net::TcpStream> {
    refuse_in_simulation()?;
    std::net::TcpStream::connect_timeout(address, limit)
}

fn refuse_in_simulation() -> io::Result<()> {
    if crate::world::active() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulation has no network"));
    }
    Ok(())
}
