//! Tests with raw bytes, over scripts and over sockets.

mod access;
mod administration;
mod authentication;
mod commands;
mod endings;
mod golden;
mod ports;
mod reconnects;
mod reservations;
mod rig;
mod tls;
