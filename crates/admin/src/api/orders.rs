//! Request documents for actions on drives and on the process.
//!
//! Must not depend on: how the actions are carried out.

use serde::Deserialize;
use utoipa::ToSchema;

/// An action on a drive.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DriveOrder)]
pub struct Order {
    /// A path, an id, or the beginning of an id.
    #[serde(default)]
    pub drive: String,
    /// The node of a cluster that has the drive; needed if several have a folder of that name.
    #[serde(default)]
    pub node: Option<u16>,
    /// Read and verify all data too.
    #[serde(default)]
    pub deep: bool,
}

/// How to recover from distrusted drives.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoverOrder {
    /// Only finds out what would be uncertain.
    pub dry_run: bool,
}

/// How to end the process.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndOrder {
    /// Only says whether it would.
    pub dry_run: bool,
    /// The node of a cluster that is meant; if left out, the one that answers.
    pub node: Option<u16>,
}
