//! The etcd driver against real etcd processes: the contract of the control store, faults, and states of etcd.
//!
//! Needs `etcd` on PATH (Debian: etcd-server), which `cargo xtask ci` installs. Without it the tests fail.
//!
//! Must not depend on: how fast the machine is. Deadlines are only for what would hang.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")]

#[path = "../../../cluster/tests/conformance/contract.rs"]
mod contract;

mod access;
mod clock;
mod conformance;
mod faults;
mod nemesis;
mod proxy;
mod restoring;
mod resumption;
mod snapshots;
mod support;
