//! Records of the audit log that a search found.
//!
//! Must not depend on: how they are searched.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::state::RequestRecord;

/// A page of records, the last one written first.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct AuditRecords {
    pub records: Vec<RequestRecord>,
    /// With it the next page is asked for; null if nothing is left. There may be a next page after one without records:
    /// a request does a bounded amount of work.
    pub cursor: Option<String>,
    /// Whether the nodes that answer have nothing left. If there is a cursor nevertheless, it is for nodes that do not
    /// answer.
    pub complete: bool,
    /// How far the search is: every record of a request that ended later is in this page or in an earlier one, of the nodes
    /// that answer. Null if nothing is left, or nothing was looked at.
    pub searched_to: Option<String>,
    /// The nodes that were searched.
    pub nodes: Vec<SearchedNode>,
}

/// A node whose records were searched.
#[derive(Serialize, Deserialize, ToSchema, Debug, PartialEq, Eq)]
pub struct SearchedNode {
    /// 0 if the machine is alone.
    pub node: u16,
    /// True: it has no audit file, so that only its last refusals were searched. Null if it does not answer.
    pub refusals_only: Option<bool>,
    /// Why it does not answer. A later page has its records, if it answers then.
    pub problem: Option<String>,
}
