//! What the administration API takes and gives, as types; and its description (OpenAPI 3.1), made from them.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | the server's state: drives, groups, healing, records of requests |
//! | `people` | users, groups, policies, access keys |
//! | `document` | the description |
//!
//! Invariant: an answer is made from the type that describes it. Must never know: how anything is done.

pub mod document;
pub mod people;
pub mod state;

use serde::Serialize;
use serde_json::Value;

/// An answer as JSON. Types here have names as keys and no values that JSON has not, so this cannot fail.
pub fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
