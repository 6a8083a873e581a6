//! A TCP proxy before a member: a network that can be cut.
//!
//! Invariant: while it is cut, no byte passes in either direction, and no connection is closed.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Passes,
    /// Nothing passes, and nobody is told.
    Cut,
    /// Connections are closed.
    Refuses,
}

/// A proxy before one address.
#[derive(Clone)]
pub struct Proxy {
    pub url: String,
    state: Arc<watch::Sender<Network>>,
}

impl Proxy {
    /// Begins to accept connections for the endpoint `url`.
    pub async fn before(url: &str) -> Proxy {
        let to: SocketAddr = url.rsplit('/').next().unwrap().parse().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(watch::Sender::new(Network::Passes));
        let own = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, to, own.subscribe()));
            }
        });
        Proxy { url, state }
    }

    pub fn set(&self, state: Network) {
        self.state.send_replace(state);
    }
}

async fn connection(client: TcpStream, to: SocketAddr, mut state: watch::Receiver<Network>) {
    if state.wait_for(|s| *s != Network::Cut).await.is_err() || *state.borrow() == Network::Refuses {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let mut refused = state.clone();
    tokio::select! {
        () = pump(client_read, server_write, state.clone()) => {}
        () = pump(server_read, client_write, state.clone()) => {}
        _ = async { refused.wait_for(|s| *s == Network::Refuses).await.is_ok() } => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<Network>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        if state.wait_for(|s| *s != Network::Cut).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
