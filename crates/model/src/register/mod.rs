//! One register with everything that can happen to it (docs/protocol.md 2.2-2.4, 2.6, 2.7, 2.13).
//!
//! * [`state`]: the state of the drives and of the operations under way,
//! * [`actions`]: the possible actions, and their effects,
//! * [`faults`]: faults of drives,
//! * [`looks`]: what a writer finds out between its attempts,
//! * [`reads`]: the actions of readers,
//! * [`properties`]: the properties that must hold.
//!
//! Must not depend on: other worlds.

pub mod actions;
mod faults;
mod looks;
pub mod properties;
mod reads;
pub mod state;

pub use actions::Act;
pub use state::{Kind, Scope, World};
