//! # ashlar-cli: the commands of `ashlar` except `server`
//!
//! A client of any S3 endpoint with the commands that people know from `mc`, and the administration of Ashlar
//! servers.
//!
//! Layers; a file imports only files of its own layer and of those above it in this table:
//!
//! | layer | files |
//! |---|---|
//! | types | `failure`, `globals`, `output`, `progress`, `mime`, `examples`, `root_key` |
//! | locations | `aliases`, `location` (an endpoint, bucket or file), `tree` (the files below it), `plan` |
//! | shared work | `context`, `admin_request`, `admin_records`, `document`, `transfer` |
//! | commands of S3 | `ls`, `cp`, `rm`, `find`, `mirror`, `bucket`, `lock`, `ilm` and others, one file per subject |
//! | commands of administration | `admin`, `recover`, `idp`, `kms`, `config`, `cluster`, `monitor` and others; `iam` is `ashlar admin` |
//! | commands of clusters | `cluster_commands`: `ashlar cluster` |
//! | commands of arrays and enclosures | `array`, `fabric`: `ashlar array` and `ashlar fabric`, which import only types |
//! | benchmark | `bench`, which imports only types |
//! | entry | `commands`, `manual` |
//!
//! Invariants: every command prints through [`output::Output`] and ends with an exit code of
//! [`failure::EXIT_CODES`]; nothing here depends on the implementation of the server.
//!
//! Must not depend on: drives, shards, the server's code. What it prints of those (the command line of the
//! whole program, the OpenAPI document of the administration API) is passed to it in [`Globals`].
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
mod array;
mod audit;
mod audit_search;
pub mod bench;
mod bucket;
mod cat;
mod change;
mod cluster;
mod cluster_commands;
mod commands;
mod config;
mod context;
mod cp;
mod document;
mod event;
pub mod examples;
mod fabric;
mod failure;
mod find;
mod globals;
mod heal_limits;
mod history;
mod iam;
mod idp;
mod ilm;
mod ilm_simulate;
mod kms;
mod location;
mod lock;
mod ls;
mod manual;
mod mime;
mod mirror;
mod monitor;
mod output;
mod ping;
mod placement;
mod plan;
mod progress;
mod quota;

mod recover;
mod rm;
mod rolling;
pub mod root_key;
mod service;
mod settings;
mod stat;
mod transfer;
mod tree;
mod website;

pub use commands::{Command, run};
pub use failure::EXIT_CODES;
pub use globals::{ALL, Globals};
