//! What a protocol with a connection has to be able to do, and the connection that is kept for it.
//!
//! Invariant: a connection is thrown away after any failure. Must not depend on: any protocol.

use std::time::Duration;

use ashlar_environment::time::Instant;

use super::{Failure, Sent};
use crate::{Message, Site};

/// A connection that was not used for so long is made anew: who knows whether it still is one.
const STALE: Duration = Duration::from_secs(20);

/// A protocol with a connection that is kept.
pub(super) trait Speak {
    /// What a connection is.
    type Conn: Send + Sync;

    /// Connects and signs in.
    fn connect(&self) -> impl Future<Output = Result<Self::Conn, Failure>> + Send;

    /// Sends messages about different keys.
    fn send(
        &self,
        conn: &mut Self::Conn,
        messages: &[Message],
        site: &Site,
    ) -> impl Future<Output = Sent> + Send;

    /// Shows that messages would arrive, by sending a test event where those are understood.
    fn probe(&self, conn: &mut Self::Conn, test: &Message, site: &Site) -> impl Future<Output = Sent> + Send {
        self.send(conn, std::slice::from_ref(test), site)
    }
}

/// A protocol with its connection, if there is one.
pub(super) struct Kept<S: Speak> {
    speak: S,
    conn: Option<(S::Conn, Instant)>,
}

impl<S: Speak> Kept<S> {
    pub(super) fn new(speak: S) -> Kept<S> {
        Kept { speak, conn: None }
    }

    pub(super) async fn send(&mut self, messages: &[Message], site: &Site, probe: bool) -> Sent {
        let mut conn = match self.conn.take().filter(|(_, used)| used.elapsed() < STALE) {
            Some((conn, _)) => conn,
            None => match self.speak.connect().await {
                Ok(conn) => conn,
                Err(failure) => return Sent::until(0, failure),
            },
        };
        let sent = match probe {
            true => self.speak.probe(&mut conn, &messages[0], site).await,
            false => self.speak.send(&mut conn, messages, site).await,
        };
        if sent.failure.is_none() {
            self.conn = Some((conn, Instant::now()));
        }
        sent
    }
}
