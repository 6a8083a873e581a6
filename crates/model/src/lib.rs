//! The executable specification of the commit protocol: small worlds in which the *very code* of
//! `ashlar-commit` runs under every order of messages, crashes and replaced drives that a scope
//! allows, checked with `stateright`.
//!
//! | Module | World |
//! |---|---|
//! | [`register`] | writers, conditional writes, deletes, crashes, replaced and dead drives, readers, purging |
//! | [`staging`] | data staged before the record, the collector of orphans |
//! | [`onesync`] | shards inside ACCEPT: overtaken, mended and unknown records |
//! | [`multipart`] | upload, key and one part as compare-and-set registers; orphans |
//! | [`rename`] | source, destination and the register of a rename |
//! | [`bucket`] | the deletion of a bucket: fences on drives, registry, late messages, a replaced drive |
//! | [`quota`] | shares of a quota: two nodes, the control store, counts, crashes |
//! | [`renames`] | no decision record: n renames and counting (what not to do) |
//!
//! Layers: what all worlds share (`bad`, `log`, `mix`, `mutants`, `check`), the worlds, [`scopes`]. Only
//! [`staging`] uses another world: the drives of [`register`].
//!
//! What is checked is what clients can see: an acknowledged, served or answered state is never
//! lost, contradicted or hidden later, and its data is there. Every rule has a [`Mutant`] that
//! takes it away and must be found. [`scopes`] lists the settings; `cargo run --release -p
//! ashlar-model` prints the table of the README.
//!
//! Abstractions, all on the safe side: a message is delivered whole, at any later time or never; a
//! drive's answer is processed when it is given (an answer that arrives too late is one that was
//! never delivered); refusals, which change no drive, are not delivered; proposers may start a new
//! attempt at any time.
//!
//! It must never be shipped, and never be changed after the protocol: before.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

mod bad;
pub mod bucket;
mod check;
mod log;
mod mix;
pub mod multipart;
mod mutants;
pub mod onesync;
pub mod quota;
pub mod register;
pub mod rename;
pub mod renames;
pub mod scopes;
pub mod staging;

pub use bad::Bad;
pub use check::{Limits, Report, check};
pub use log::{Log, Seen};
pub use mix::{Mix, hash_slots};
pub use mutants::Mutant;
