//! # ashlar-iam: who there is, and what they may do
//!
//! Users, groups, access keys, policies and temporary credentials of a deployment, kept sealed in the
//! control store, and answered from memory.
//!
//! | module | what |
//! |---|---|
//! | `store` | [`Iam`]: opening, following, changing; the one writer of `iam/` in the control store |
//! | `users`, `groups`, `keys`, `policies` | the changes, one file per kind |
//! | `session`, `federation` | temporary credentials: made, opened, revoked; those of other directories' users |
//! | `authenticator` | what the doors ask of other directories |
//! | `settings` | configuration that is changed while the server runs |
//! | `export` | secrets, for those who take all identities elsewhere |
//! | `directory`, `identity` | the present state; who stands behind an access key |
//! | `record`, `federated` | what is stored; users of other directories |
//! | `seal`, `secret` | how it is sealed; keys and names |
//!
//! Layers, each of which uses only those before it: keys and what is stored (`error`, `secret`, `seal`,
//! `federated`, `record`, `identity`), the present state (`directory`), `store`, and the operations, which are
//! `impl` blocks of [`Iam`].
//!
//! Invariants: a change is durable before it is answered, and the next request sees it; a child
//! (access key, session) never may more than its parent, at every use; secrets are stored sealed only,
//! have no `Debug` and are handed out once; names of root and of users and access keys never collide.
//!
//! Must never know: HTTP, S3, buckets. Who may call what here is the door's business.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod authenticator;
mod directory;
mod error;
mod export;
mod federated;
mod federation;
mod groups;
mod identity;
mod keys;
mod policies;
mod record;
mod seal;
mod secret;
mod session;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod users;

pub use authenticator::{Authenticated, Authenticator, Later, Refused};
pub use error::{Error, Result};
pub use federated::{Facts, Federated, Trusted};
pub use federation::MappingInfo;
pub use groups::GroupInfo;
pub use identity::{ACCOUNT, Identity, Kind, Root};
pub use keys::{KeyChange, KeyInfo, NewKey};
pub use policies::{Entity, Holders};
pub use record::{AccessKey, Group, NamedPolicy, Setting, User, Values};
pub use seal::Sealer;
pub use secret::{ACCESS_KEY, SECRET_KEY, Secret, new_access_key, new_secret};
pub use session::{Assume, MAX_SESSION_S, MIN_SESSION_S, Session};
pub use settings::DEFAULT_TARGET;
pub use store::{Clock, Iam};
pub use users::UserInfo;

/// The bounds this room keeps.
pub mod limits {
    /// Policies attached to one user or group.
    pub const POLICIES: usize = 64;
    /// Longest name of a policy, in bytes (AWS: 128).
    pub const POLICY_NAME: usize = 128;
    /// Longest name of a group, in bytes: distinguished names are long.
    pub const GROUP_NAME: usize = 512;
    /// Access keys of one user.
    pub const KEYS: usize = 1000;
    /// Longest name and description of an access key, in bytes (MinIO: 32 and 256).
    pub const KEY_NAME: usize = 128;
    /// See [`KEY_NAME`].
    pub const KEY_DESCRIPTION: usize = 256;
    /// Longest name of a federated user or group, in bytes: distinguished names are long.
    pub const FEDERATED_NAME: usize = 1024;
    /// Sessions of directories' users that are noted as used until they are looked at.
    pub const SEEN: usize = 10_000;
    /// Configured targets of all subsystems.
    pub const SETTINGS: usize = 256;
    /// Names and values of one target together, in bytes: certificates are among them.
    pub const SETTING: usize = 64 << 10;
    /// Longest session token, in bytes.
    pub const TOKEN: usize = 16 << 10;
}
