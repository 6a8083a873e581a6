//! The commands of the driver and their structures.
//!
//! Source: the kernel's `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst`.
//!
//! Must not depend on: exports, threads.

use std::io;

use ashlar_machine::{UblkChannel, UblkCommand, UblkControl, is_administrator};
use parking_lot::Mutex;

use crate::error::Error;

/// Bytes of `struct ublksrv_ctrl_dev_info`.
const INFO: usize = 64;
/// Bytes of `struct ublk_params` up to the end of what is set here.
const PARAMETERS: usize = 60;
/// What `struct ublk_params` has: basic values, and those of discards.
const BASIC_AND_DISCARD: u32 = 1 | 1 << 1;
/// The device stays when its process has ended.
const RECOVERY: u64 = 1 << 3;
/// Requests that were not answered then are sent again.
const REISSUE: u64 = 1 << 4;
/// Commands have the numbers that `ashlar-machine` uses.
const IOCTL_ENCODE: u64 = 1 << 6;
/// Data of requests is copied by `pread` and `pwrite`.
const USER_COPY: u64 = 1 << 7;
/// All that is needed, and what it is for.
const NEEDED: [(u64, &str); 4] = [
    (IOCTL_ENCODE, "the encoding of commands"),
    (USER_COPY, "copies of data by the process (USER_COPY)"),
    (RECOVERY, "recovery (USER_RECOVERY)"),
    (REISSUE, "the repetition of requests after recovery (USER_RECOVERY_REISSUE)"),
];
/// Any number for a new device.
const ANY: u32 = u32::MAX;
/// A device has a cache that flushes empty.
const VOLATILE_CACHE: u32 = 1 << 2;
/// And knows writes that bypass it.
const FUA: u32 = 1 << 3;
const READ_ONLY: u32 = 1;

/// What a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// There is no block device: not yet, or not any more.
    Dead,
    /// A process serves it, or the kernel has not noticed yet that it has ended.
    Live,
    /// It waits for a process.
    Quiesced,
    /// Its requests fail until a process takes it over; not used here.
    Failing,
}

/// What the driver knows about a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Info {
    pub(crate) id: u32,
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: State,
    /// Bytes of a request, at most.
    pub(crate) most: u32,
    /// The process that serves it, or did.
    pub(crate) pid: i32,
    pub(crate) flags: u64,
    /// What we call it: the driver keeps the number for whoever makes the device.
    pub(crate) mark: u64,
}

impl Info {
    /// A new device.
    pub(crate) fn new(mark: u64, queues: u16, depth: u16, most: u32) -> Info {
        let flags = NEEDED.iter().fold(0, |all, (flag, _)| all | flag);
        Info { id: ANY, queues, depth, state: State::Dead, most, pid: 0, flags, mark }
    }

    /// A feature that it lacks.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        lacks(self.flags)
    }

    pub(crate) fn encode(&self) -> [u8; INFO] {
        let mut out = [0; INFO];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.queues.to_le_bytes());
        put(2, &self.depth.to_le_bytes());
        put(8, &self.most.to_le_bytes());
        put(12, &self.id.to_le_bytes());
        put(16, &self.pid.to_le_bytes());
        put(24, &self.flags.to_le_bytes());
        put(32, &self.mark.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; INFO]) -> Info {
        let state = match word16(bytes, 4) {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            _ => State::Failing,
        };
        Info {
            id: word32(bytes, 12),
            queues: word16(bytes, 0),
            depth: word16(bytes, 2),
            state,
            most: word32(bytes, 8),
            pid: word32(bytes, 16).cast_signed(),
            flags: word64(bytes, 24),
            mark: word64(bytes, 32),
        }
    }
}

fn lacks(flags: u64) -> Option<&'static str> {
    NEEDED.iter().find(|(flag, _)| flags & flag == 0).map(|(_, what)| *what)
}

/// What users see of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parameters {
    /// Sectors of 512 bytes.
    pub(crate) sectors: u64,
    pub(crate) read_only: bool,
    /// Bytes of a physical block, a power of two of at least 512.
    pub(crate) physical: u32,
    /// Sectors of a request to read or write, at most.
    pub(crate) most: u32,
    /// Sectors of a request to discard or to write zeros, at most.
    pub(crate) most_cleared: u32,
}

impl Parameters {
    pub(crate) fn encode(&self) -> [u8; PARAMETERS] {
        let mut out = [0; PARAMETERS];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let exponent = self.physical.ilog2() as u8;
        put(0, &(PARAMETERS as u32).to_le_bytes());
        put(4, &BASIC_AND_DISCARD.to_le_bytes());
        let attributes = VOLATILE_CACHE | FUA | if self.read_only { READ_ONLY } else { 0 };
        put(8, &attributes.to_le_bytes());
        // Exponents: logical block, physical block, best and smallest request.
        put(12, &[9, exponent, exponent, exponent]);
        put(16, &self.most.to_le_bytes());
        put(24, &self.sectors.to_le_bytes());
        // Discards: any alignment, in physical blocks, one range each.
        put(44, &self.physical.to_le_bytes());
        put(48, &self.most_cleared.to_le_bytes());
        put(52, &self.most_cleared.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        out
    }

    /// The number of sectors in what the driver has filled.
    fn sectors_of(bytes: &[u8; PARAMETERS]) -> u64 {
        word64(bytes, 24)
    }
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from(bytes[at]) | u16::from(bytes[at + 1]) << 8
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from(word16(bytes, at)) | u32::from(word16(bytes, at + 2)) << 16
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from(word32(bytes, at)) | u64::from(word32(bytes, at + 4)) << 32
}

/// The driver.
pub(crate) struct Driver(Mutex<UblkControl>);

impl Driver {
    /// Opens it, and looks whether it can do what is needed.
    ///
    /// # Errors
    /// [`Error`]: what keeps this process from using it.
    pub(crate) fn open() -> Result<Driver, Error> {
        UblkControl::io_uring().map_err(Error::IoUring)?;
        let control = UblkControl::open().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied(error.to_string()),
            // The node may be there without the module.
            io::ErrorKind::NotFound => Error::NoDriver { path: UblkControl::PATH },
            _ if matches!(error.raw_os_error(), Some(ENXIO | ENODEV)) => {
                Error::NoDriver { path: UblkControl::PATH }
            }
            _ => Error::Device { what: UblkControl::PATH.to_owned(), error },
        })?;
        let driver = Driver(Mutex::new(control));
        let mut features = [0; 8];
        driver
            .ask(UblkCommand::Features, 0, 0, &mut features)
            .map_err(|_| Error::OldDriver { missing: "a way to ask for its features" })?;
        if let Some(missing) = lacks(u64::from_le_bytes(features) | IOCTL_ENCODE) {
            return Err(Error::OldDriver { missing });
        }
        if !is_administrator() {
            return Err(Error::Denied("this process has no CAP_SYS_ADMIN".into()));
        }
        Ok(driver)
    }

    fn ask(&self, command: UblkCommand, id: u32, data: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.lock().command(command, id, data, buffer)
    }

    fn tell(&self, command: UblkCommand, id: u32, data: u64) -> io::Result<()> {
        self.ask(command, id, data, &mut [])
    }

    /// Adds a device; what it was made as.
    pub(crate) fn add(&self, info: &Info) -> io::Result<Info> {
        let mut bytes = info.encode();
        self.ask(UblkCommand::Add, info.id, 0, &mut bytes)?;
        Ok(Info::decode(&bytes))
    }

    /// All devices, whoever made them, in the order of their numbers.
    pub(crate) fn all(&self) -> io::Result<Vec<Info>> {
        let mut ids: Vec<u32> = Vec::new();
        for entry in std::fs::read_dir("/dev")? {
            let name = entry?.file_name();
            ids.extend(
                name.to_str().and_then(|n| n.strip_prefix("ublkc")).and_then(|n| n.parse::<u32>().ok()),
            );
        }
        ids.sort_unstable();
        // One may be deleted meanwhile.
        Ok(ids.into_iter().filter_map(|id| self.info(id).ok()).collect())
    }

    pub(crate) fn info(&self, id: u32) -> io::Result<Info> {
        let mut bytes = [0; INFO];
        self.ask(UblkCommand::Info, id, 0, &mut bytes)?;
        Ok(Info::decode(&bytes))
    }

    pub(crate) fn set(&self, id: u32, parameters: &Parameters) -> io::Result<()> {
        self.ask(UblkCommand::SetParameters, id, 0, &mut parameters.encode())
    }

    /// The size of a device, in sectors.
    pub(crate) fn sectors(&self, id: u32) -> io::Result<u64> {
        let mut bytes = [0; PARAMETERS];
        bytes[..4].copy_from_slice(&(PARAMETERS as u32).to_le_bytes());
        self.ask(UblkCommand::Parameters, id, 0, &mut bytes)?;
        Ok(Parameters::sectors_of(&bytes))
    }

    /// The block device appears. Returns when the kernel has looked for partitions, with requests to its queues.
    pub(crate) fn start(&self, id: u32) -> io::Result<()> {
        self.tell(UblkCommand::Start, id, std::process::id().into())
    }

    /// The block device disappears; requests that were taken are waited for, others fail.
    pub(crate) fn stop(&self, id: u32) -> io::Result<()> {
        self.tell(UblkCommand::Stop, id, 0)
    }

    /// The device goes, when nobody has it open any more.
    pub(crate) fn delete(&self, id: u32) -> io::Result<()> {
        match self.tell(UblkCommand::DeleteLater, id, 0) {
            // Linux before 6.9 can only wait.
            Err(error) if error.raw_os_error() == Some(EOPNOTSUPP) => self.tell(UblkCommand::Delete, id, 0),
            done => done,
        }
    }

    pub(crate) fn start_recovery(&self, id: u32) -> io::Result<()> {
        self.tell(UblkCommand::StartRecovery, id, 0)
    }

    pub(crate) fn end_recovery(&self, id: u32) -> io::Result<()> {
        self.tell(UblkCommand::EndRecovery, id, std::process::id().into())
    }
}

/// Whether a process has the device open to serve it.
pub(crate) fn is_held(id: u32) -> bool {
    matches!(UblkChannel::open(id), Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
}

/// Error numbers of Linux, the same on x86-64 and AArch64.
pub(crate) const EIO: i32 = 5;
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EROFS: i32 = 30;
pub(crate) const EOPNOTSUPP: i32 = 95;
