//! The first message of both ends of a connection, and what follows from the two.
//!
//! Invariants: every release can read the fields of this release; a later one may add fields behind them. The
//! node number of the other end comes from its certificate. The one in its hello must be the same, and is
//! used for nothing else.
//!
//! Must not depend on: connections, certificates.

use ashlar_format::DeploymentId;

use crate::error::{Error, Result};
use crate::frame::{MAX_VERSION, MIN_VERSION};

/// Length of the fields that this release knows.
const LEN: usize = 48;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Messages without a large payload.
    Small = 0,
    /// Messages with a large payload, or with a large one in the answer.
    Bulk = 1,
}

/// The first message of either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster.
    pub cluster: DeploymentId,
    /// The node that says it.
    pub from: u16,
    /// The node that should hear it.
    pub to: u16,
    /// A number drawn at the start of the process.
    pub incarnation: u64,
    /// The oldest version that it speaks.
    pub min_version: u8,
    /// The newest version that it speaks.
    pub max_version: u8,
    /// What the connection is for; the server repeats it.
    pub purpose: Purpose,
    /// The newest feature level that the process can do.
    pub feature_level: u32,
    /// Of the server: bytes of bulk payload that may be in its buffers. Of the client: 0.
    pub window: u32,
    /// Of the server: requests that may be in flight. Of the client: 0.
    pub requests: u32,
    /// The oldest feature level that the process can do.
    pub oldest_level: u32,
}

impl Hello {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[..16].copy_from_slice(&self.cluster.0);
        b[16..18].copy_from_slice(&self.from.to_le_bytes());
        b[18..20].copy_from_slice(&self.to.to_le_bytes());
        b[20..28].copy_from_slice(&self.incarnation.to_le_bytes());
        b[28] = self.min_version;
        b[29] = self.max_version;
        b[30] = self.purpose as u8;
        b[32..36].copy_from_slice(&self.feature_level.to_le_bytes());
        b[36..40].copy_from_slice(&self.window.to_le_bytes());
        b[40..44].copy_from_slice(&self.requests.to_le_bytes());
        b[44..48].copy_from_slice(&self.oldest_level.to_le_bytes());
        b
    }

    /// The inverse of [`Hello::encode`]; ignores what follows.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Hello> {
        let Some((b, _)) = bytes.split_first_chunk::<LEN>() else {
            return Err(Error::malformed("a hello that is too short"));
        };
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let mut cluster = [0; 16];
        cluster.copy_from_slice(&b[..16]);
        let purpose = match b[30] {
            0 => Purpose::Small,
            1 => Purpose::Bulk,
            _ => return Err(Error::malformed("a connection for an unknown purpose")),
        };
        if b[31] != 0 || b[28] == 0 || b[28] > b[29] || word(44) > word(32) {
            return Err(Error::malformed("a hello with impossible fields"));
        }
        Ok(Hello {
            cluster: DeploymentId(cluster),
            from: u16::from_le_bytes([b[16], b[17]]),
            to: u16::from_le_bytes([b[18], b[19]]),
            incarnation: u64::from(word(20)) | u64::from(word(24)) << 32,
            min_version: b[28],
            max_version: b[29],
            purpose,
            feature_level: word(32),
            window: word(36),
            requests: word(40),
            oldest_level: word(44),
        })
    }

    /// The newest version that both ends speak.
    ///
    /// # Errors
    /// [`Error::Incompatible`].
    pub fn common_version(&self, other: &Hello) -> Result<u8> {
        let newest = self.max_version.min(other.max_version);
        if newest >= self.min_version.max(other.min_version) {
            return Ok(newest);
        }
        Err(Error::Incompatible(format!(
            "node {} speaks versions {} to {} of the protocol between nodes, node {} versions {} to {}",
            self.from, self.min_version, self.max_version, other.from, other.min_version, other.max_version
        )))
    }

    /// Checks that the two processes have a feature level in common: the one in force in the cluster is one that both can
    /// do, unless one of them is about to end.
    ///
    /// # Errors
    /// [`Error::Incompatible`].
    pub fn check_levels(&self, other: &Hello) -> Result<()> {
        let newest = self.feature_level.min(other.feature_level);
        if newest >= self.oldest_level.max(other.oldest_level) {
            return Ok(());
        }
        Err(Error::Incompatible(format!(
            "node {} can do feature levels {} to {}, node {} levels {} to {}",
            self.from,
            self.oldest_level,
            self.feature_level,
            other.from,
            other.oldest_level,
            other.feature_level
        )))
    }

    /// Checks that the other end, which has a certificate for `node`, is who it says it is and means us.
    ///
    /// # Errors
    /// [`Error::Unauthorized`].
    pub fn check_other(&self, other: &Hello, node: u16) -> Result<()> {
        let why = if other.cluster != self.cluster {
            format!("node {node} belongs to cluster {}, not {}", other.cluster, self.cluster)
        } else if other.from != node {
            format!("the certificate is of node {node}, the hello of node {}", other.from)
        } else if other.to != self.from {
            format!("node {node} expects node {}, but this is node {}", other.to, self.from)
        } else {
            return Ok(());
        };
        Err(Error::Unauthorized(why))
    }

    /// Some hello.
    #[must_use]
    pub(crate) fn example() -> Hello {
        Hello {
            cluster: DeploymentId([0xc1; 16]),
            from: 1,
            to: 2,
            incarnation: 3,
            min_version: MIN_VERSION,
            max_version: MAX_VERSION,
            purpose: Purpose::Small,
            feature_level: 4,
            window: 5,
            requests: 6,
            oldest_level: 4,
        }
    }
}
