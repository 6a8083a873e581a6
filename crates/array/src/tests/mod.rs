//! Tests of groups in service: over the socket, as commands do.

mod declustered;
mod exports;
mod groups;
mod hosts;
mod namespaces;
mod remote;
mod rig;
