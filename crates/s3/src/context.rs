//! [`Context`]: what all operations share.
//!
//! Must not depend on: requests, answers, operations.

use std::sync::{Arc, Weak};

use ashlar_iam::Iam;
use ashlar_object::Store;

use crate::notifications::Notifications;
use crate::sse::Encryption;

/// What operations share.
pub struct Context {
    /// Where objects are.
    pub store: Store,
    /// The key service and the cipher.
    pub encryption: Encryption,
    /// The region of this endpoint.
    pub region: String,
    /// Buckets may be asked for in any region: they are made here.
    pub any_region: bool,
    /// Canonical id of the owner of everything, 64 hexadecimal digits.
    pub owner_id: String,
    /// Name of the owner.
    pub owner_name: String,
    /// Milliseconds since 1970.
    pub clock: fn() -> i64,
    /// Receivers of events.
    pub notifications: Notifications,
    /// The users, for their canonical ids; [`crate::Service::new`] takes those that its keys are of.
    pub people: Option<Arc<Iam>>,
    /// This context, for answers that outlive their requests; [`crate::Service::new`] sets it.
    pub me: Weak<Context>,
}
