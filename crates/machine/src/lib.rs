//! Files, devices, buffers: all system calls of the program except those of `ashlar-environment`.
//!
//! * [`BufferPool`], [`Buf`]: aligned, reusable memory with one ceiling for the whole process.
//! * [`BlockDevice`]: a block device of the kernel, which this process has alone.
//! * [`DiskFile`]: positioned reads and writes, direct I/O where the file system has it.
//! * [`Folder`]: the directory operations, and where files come from.
//! * [`RawDevice`]: a device that files are kept on without a file system.
//! * [`SimDisk`], [`Crash`]: a disk in memory that logs every write, for crash tests.
//! * [`IoPool`]: the few threads of one drive, so that a hung drive never blocks another.
//! * [`Ring`]: reads without a thread that waits.
//! * [`Watch`]: how long the calls of a drive have been in progress.
//! * [`tune_socket`]: options of connections between nodes.
//! * [`UblkControl`], [`UblkChannel`], [`UblkQueue`]: block devices of the kernel whose requests this process executes.
//! * [`Faults`]: failures injected by tests; one relaxed atomic load when off.
//!
//! Invariants: no function here retries a failed sync; every queue is bounded; a buffer is never shared while
//! it can be written. Must not depend on: the meaning of bytes, requests.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run in real time")
)]

mod block;
mod buffer;
mod dir;
mod faults;
mod file;
mod folder;
mod pool;
mod process;
mod raw;
mod ring;
mod sim;
mod socket;
mod space;
mod sysfs;
mod ublk;
mod watch;
mod whole;

pub use block::{Access, BlockDevice, failure_domain, has_holders, is_block_device};
pub use buffer::{ALIGN, Buf, BufferPool};
pub use dir::is_superuser;
pub use faults::{Fault, Faults, Operation};
pub use file::DiskFile;
pub use folder::{Folder, Lock};
pub use pool::{Busy, IoPool};
pub use process::{raise_open_files, return_free_memory_soon};
#[doc(hidden)]
pub use raw::fuzzed as fuzzed_store;
pub use raw::{OtherDevices, RawDevice, is_other_device, use_other_devices};
pub use ring::{AtEnd, Ended, NotBegun, Ring};
pub use sim::{Crash, SimDisk};
pub use socket::tune_socket;
pub use space::{FileSystem, Space};
pub use sysfs::FailureDomain;
pub use ublk::{
    UblkChannel, UblkCommand, UblkControl, UblkDescriptor, UblkEvent, UblkQueue, UblkWaker,
    become_io_flusher, is_administrator,
};
pub use watch::{Call, Watch};
