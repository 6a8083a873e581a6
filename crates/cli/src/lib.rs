//! # ashlar-cli: the commands of `ashlar` but for `server`
//!
//! The everyday commands, in the verbs people know from `mc`: a client of any S3 endpoint, and the
//! administration of Ashlar's own.
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | files |
//! |---|---|
//! | types | `failure`, `globals`, `output`, `progress`, `mime`, `examples`, `root_key` |
//! | places | `aliases`, `place` (an endpoint, bucket or file), `tree` (what is below it), `plan` |
//! | shared work | `context`, `admin_request`, `admin_records`, `transfer` |
//! | commands of S3 | `ls`, `cp`, `rm`, `find`, `mirror`, `bucket`, `lock`, `ilm` and the like, a file for each subject |
//! | commands of administration | `admin`, `recover`, `idp`, `kms`, `config`, `cluster`, `monitor` and the like; `iam`, which is `ashlar admin` |
//! | benchmark | `bench`, which imports only types |
//! | entry | `commands`, `manual` |
//!
//! Invariants: every command prints through [`output::Output`] and ends with an exit code of
//! [`failure::EXIT_CODES`]; nothing here knows how the server works, it only asks.
//!
//! Must never know: drives, shards, the server's code. What it shows of those (the command line of the whole
//! program, the document of the administration API) is handed to it in [`Globals`].
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod admin;
mod admin_records;
mod admin_request;
mod alias;
mod aliases;
mod audit;
pub mod bench;
mod bucket;
mod cat;
mod change;
mod cluster;
mod commands;
mod config;
mod context;
mod cp;
mod event;
pub mod examples;
mod failure;
mod find;
mod globals;
mod iam;
mod idp;
mod ilm;
mod kms;
mod lock;
mod ls;
mod manual;
mod mime;
mod mirror;
mod monitor;
mod output;
mod place;
mod plan;
mod progress;
mod quota;
mod reach;
mod recover;
mod rm;
pub mod root_key;
mod service;
mod settings;
mod stat;
mod transfer;
mod tree;

pub use commands::{Command, run};
pub use failure::EXIT_CODES;
pub use globals::{ALL, Globals};
