//! What the commands on enclosures share.
//!
//! Must not depend on: the commands.

use std::path::PathBuf;

use ashlar_fabric::Client;

use crate::output::Output;

/// What a command needs.
pub struct Context<'a> {
    /// Where results go.
    pub output: &'a Output,
    /// The socket of the process.
    pub socket: PathBuf,
}

impl Context<'_> {
    /// Who asks the process.
    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }
}
