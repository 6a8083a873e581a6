//! Tests with raw bytes, over scripts and over sockets.

mod administration;
mod commands;
mod endings;
mod golden;
mod reconnects;
mod rig;
