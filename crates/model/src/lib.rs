//! The executable specification of the commit protocol: small worlds in which the *very code* of
//! `ashlar-commit` runs under every order of messages, crashes and replaced drives that a scope allows,
//! checked with `stateright`.
//!
//! | Module | World |
//! |---|---|
//! | [`register`] | writers, conditional writes, deletes, crashes, replaced and dead drives, readers, purging |
//! | [`staging`] | data staged before the record, the collector of orphans |
//! | [`onesync`] | shards inside ACCEPT: overtaken, mended and unknown records |
//! | [`multipart`] | upload, key and one part as compare-and-set registers; orphans |
//! | [`pages`] | a list of versions in pages: writers, spills, a reader, the collector |
//! | [`rename`] | source, destination and the register of a rename |
//! | [`bucket`] | the deletion of a bucket: fences on drives, registry, late messages, a replaced drive |
//! | [`quota`] | shares of a quota: two nodes, the control store, counts, crashes |
//! | [`renames`] | no decision record: n renames and counting (a design that fails) |
//!
//! Layers: what all worlds share (`bad`, `log`, `mix`, `mutants`, `check`), the worlds, [`scopes`]. Only
//! [`staging`] uses another world: the drives of [`register`].
//!
//! The properties concern what clients can observe: an acknowledged, served or answered state is never lost,
//! contradicted or hidden later, and its data exists. Every rule has a [`Mutant`] that removes it and that
//! the checker must find. [`scopes`] lists the settings; `cargo run --release -p ashlar-model` prints the
//! table of the README.
//!
//! Abstractions, all conservative: a message is delivered as a whole, at any later time or never; a drive's
//! answer is processed at once (an answer that arrives too late is equivalent to one that is never
//! delivered); refusals, which change no drive, are not delivered; proposers may start a new attempt at any
//! time.
//!
//! This crate is never shipped. A change of the protocol is made here first.
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
pub mod pages;
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
