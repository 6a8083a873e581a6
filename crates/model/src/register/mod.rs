//! One register with everything that can happen to it (docs/protocol.md 2.2-2.4, 2.6, 2.7, 2.13).
//!
//! * [`state`]: what the drives hold and what is under way,
//! * [`actions`]: what may happen next, and what it does,
//! * [`faults`]: what happens to drives,
//! * [`reads`]: what readers do,
//! * [`properties`]: what must always hold.

pub mod actions;
mod faults;
pub mod properties;
mod reads;
pub mod state;

pub use actions::Act;
pub use state::{Kind, Scope, World};
