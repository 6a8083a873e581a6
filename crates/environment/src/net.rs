//! TCP connections and listeners.
//!
//! Invariant: in a simulation there is no network, and the calls fail. What is simulated speaks through an
//! interface above sockets.

use std::io;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

/// Opens a connection.
///
/// # Errors
/// What the system says; `Unsupported` in a simulation.
pub async fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    refuse_in_simulation()?;
    TcpStream::connect(address).await
}

/// Listens at an address.
///
/// # Errors
/// What the system says; `Unsupported` in a simulation.
pub async fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    refuse_in_simulation()?;
    TcpListener::bind(address).await
}

/// Listens at an address, for threads that wait for connections without a runtime.
///
/// # Errors
/// What the system says; `Unsupported` in a simulation.
pub fn bind_blocking(address: impl std::net::ToSocketAddrs) -> io::Result<std::net::TcpListener> {
    refuse_in_simulation()?;
    std::net::TcpListener::bind(address)
}

fn refuse_in_simulation() -> io::Result<()> {
    if crate::world::active() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a simulation has no network"));
    }
    Ok(())
}
