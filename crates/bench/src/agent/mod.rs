//! Loads from several machines: agents run what [`crate::load::Session`] runs, and a coordinator sends them
//! the jobs and start times and merges their measurements.
//!
//! Protocol, version [`PROTOCOL`]: frames of a 4-byte big-endian length and JSON ([`Message`]) over
//! one TCP connection per agent. The agent speaks first with a random challenge; the coordinator
//! proves that it knows the shared token by its HMAC-SHA-256, and the agent answers with the HMAC of
//! the coordinator's own challenge. Then: `job` -> `ready`; `start` -> `delta`... -> `done`, as often
//! as there are phases; `clean` -> `cleaned`. Nothing is encrypted: credentials of the server travel
//! to the agents, so the network between them must be trusted.
//!
//! Clocks are not trusted: a phase begins when the `start` message arrives, and every time in a delta counts
//! from there. Invariants: histograms are merged bucket by bucket, so that the sum equals what one recorder
//! would have; an agent that sends nothing for [`SILENCE`] is lost, which is reported, and the others
//! continue; at most [`QUEUE`] deltas wait to be merged.

mod coordinator;
mod frame;
mod listen;

pub use coordinator::Coordinator;
pub use frame::{FRAME, read, write};
pub use listen::{Listener, serve};

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    load::{Delta, Job, Offer, Reason, Stop},
    stall::Stalls,
};

/// The version of the protocol; both sides must speak the same.
pub const PROTOCOL: u32 = 1;
/// The port agents listen on (warp's).
pub const PORT: u16 = 7761;
/// How long an agent may be silent; it sends a message every second.
pub const SILENCE: Duration = Duration::from_secs(15);
/// Deltas that wait to be merged.
pub const QUEUE: usize = 256;

/// Messages of the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Message {
    /// Agent, first: its version and a challenge.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The program's version.
        version: String,
        /// Random, hexadecimal.
        challenge: String,
    },
    /// Coordinator: the proof for the agent's challenge, and its own challenge.
    Prove {
        /// [`PROTOCOL`].
        protocol: u32,
        /// HMAC-SHA-256 of the challenge under the token, hexadecimal.
        proof: String,
        /// Random, hexadecimal.
        challenge: String,
    },
    /// Agent: the proof for the coordinator's challenge, and facts of its machine.
    Welcome {
        /// HMAC-SHA-256 of the challenge under the token, hexadecimal.
        proof: String,
        /// As in [`ashlar_bench_report::result::Host::facts`].
        facts: BTreeMap<String, String>,
    },
    /// Coordinator: what to prepare.
    Job(Box<Job>),
    /// Agent: prepared.
    Ready,
    /// Coordinator: begin a phase, now.
    Start {
        /// The load of this agent.
        offer: Offer,
        /// Its end.
        stop: Stop,
    },
    /// Agent: what was measured since the last one.
    Delta(Box<Delta>),
    /// Coordinator: end the phase.
    Stop,
    /// Agent: the phase has ended.
    Done {
        /// The reason of the end.
        reason: Reason,
        /// Seconds from its start.
        seconds: f64,
        /// Requests due and not sent.
        unsent: u64,
        /// Whether its machine stood still; an older agent does not say.
        #[serde(default)]
        stalls: Option<Stalls>,
    },
    /// Coordinator: remove what was written.
    Clean,
    /// Agent: removed.
    Cleaned,
    /// Agent: still there, with progress of preparing or cleaning up.
    Alive {
        /// Steps done.
        done: u64,
    },
    /// Agent: it cannot go on, in words.
    Failed {
        /// The reason.
        text: String,
    },
}

/// The proof that one side knows the token.
pub(crate) fn proof(token: &str, side: &str, challenge: &str) -> String {
    let tag =
        ashlar_checksum::hmac_sha256(token.as_bytes(), format!("ashlar-bench {side} {challenge}").as_bytes());
    let mut out = Vec::with_capacity(64);
    crate::wire::hex_into(&mut out, &tag);
    String::from_utf8(out).expect("hexadecimal digits")
}

/// A random challenge or token.
///
/// # Errors
/// If the system has no randomness.
pub fn random_text() -> crate::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| crate::Error::setup(format!("no random numbers: {e}")))?;
    let mut out = Vec::with_capacity(32);
    crate::wire::hex_into(&mut out, &bytes);
    Ok(String::from_utf8(out).expect("hexadecimal digits"))
}
