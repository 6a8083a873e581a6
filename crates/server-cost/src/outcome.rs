//! How a task ends.
//!
//! Must not depend on: the tasks.

/// What a task returns; the text says what to do.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
