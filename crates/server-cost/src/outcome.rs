//! The result type of tasks.
//!
//! Must not depend on: the tasks.

/// The result of a task. The text of an error says what to do.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
