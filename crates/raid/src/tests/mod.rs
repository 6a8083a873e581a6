//! Tests of the crate, over simulated devices.

mod crash;
mod crash_at_once;
mod declustered;
mod declustered_crash;
mod directory;
mod domains;
mod faults;
mod format;
mod geometry;
mod growth;
mod growth_crash;
mod history;
mod overlap;
mod pipelined;
mod rebuild;
mod requests;
mod resync;
mod rig;
mod stopped;
mod thin;
mod thin_crash;
mod volumes;
mod waiting;
mod whole_rows;
