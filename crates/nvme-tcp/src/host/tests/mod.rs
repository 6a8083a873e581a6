//! The host against the target of this crate, also through a proxy that damages, cuts and delays.

mod authentication;
mod faults;
mod format;
mod parts;
mod paths;
mod pending;
mod reservations;
mod rig;
mod tls;
mod use_of;
