//! The kernel's ublk driver: block devices whose requests this process executes.
//!
//! Commands go to the driver over io_uring, which is why they are here and not where their meaning is: [`UblkControl`] asks for
//! devices, [`UblkChannel`] is the other side of one device, [`UblkQueue`] takes the requests of one of its queues and answers them.
//! Numbers and structures are those of the kernel's `include/uapi/linux/ublk_cmd.h`; only devices that copy the data of requests with
//! `pread` and `pwrite` (`UBLK_F_USER_COPY`) are supported, so that the driver is given no address of a buffer.
//!
//! Invariants: the driver knows an address of this process only while [`UblkControl::command`] runs; a queue is used by the thread that
//! made it, as the driver demands; descriptors are read only between a request's arrival and its answer.
//!
//! Must not depend on: what devices and requests are for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};

/// Where the driver takes commands.
const CONTROL: &str = "/dev/ublk-control";
/// Bytes of a request's descriptor.
const DESCRIPTOR: usize = 24;
/// Requests of a queue, at most: by this the places of queues in the mapped file are known.
const MAX_DEPTH: u64 = 4096;
/// Where the data of requests begins in the file, and the places of its parts: bytes, request, queue.
const DATA: u64 = 0x8000_0000;
const TAG_BITS: u32 = 25;
const QUEUE_BITS: u32 = 25 + 16;
/// What the ring says about the event by which a queue is woken; requests have their number.
const WOKEN: u64 = u64::MAX;
/// Requests and answers of one queue, by their numbers.
const FETCH: u32 = number(3, 16, 0x20);
const COMMIT: u32 = number(3, 16, 0x21);

/// A command number as `_IOR` (2) and `_IOWR` (3) make it.
const fn number(direction: u32, bytes: u32, of: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | of
}

/// What the driver can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkCommand {
    /// Which features it has: fills 8 bytes.
    Features,
    /// Adds a device: `struct ublksrv_ctrl_dev_info`, which comes back as it was made.
    Add,
    /// Fills `struct ublksrv_ctrl_dev_info`.
    Info,
    /// Sets `struct ublk_params`.
    SetParameters,
    /// Fills `struct ublk_params`.
    Parameters,
    /// The block device appears; the data is the number of this process.
    Start,
    /// The block device disappears; its requests fail.
    Stop,
    /// The device is deleted, when nobody has it open any more.
    Delete,
    /// As [`UblkCommand::Delete`], and waits for nobody.
    DeleteLater,
    /// This process takes the place of one that has ended.
    StartRecovery,
    /// It has; the data is its number.
    EndRecovery,
}

impl UblkCommand {
    const fn number(self) -> u32 {
        use UblkCommand as C;
        let (direction, of) = match self {
            C::Info => (2, 0x02),
            C::Add => (3, 0x04),
            C::Delete => (3, 0x05),
            C::Start => (3, 0x06),
            C::Stop => (3, 0x07),
            C::SetParameters => (3, 0x08),
            C::Parameters => (2, 0x09),
            C::StartRecovery => (3, 0x10),
            C::EndRecovery => (3, 0x11),
            C::Features => (2, 0x13),
            C::DeleteLater => (2, 0x14),
        };
        number(direction, 32, of)
    }
}

/// Asks the driver, one command after the other.
pub struct UblkControl {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    broken: bool,
}

impl UblkControl {
    /// Where the driver takes commands.
    pub const PATH: &str = CONTROL;

    /// Opens the driver.
    ///
    /// # Errors
    /// Those of opening [`UblkControl::PATH`], `NotFound` for one: there is no driver.
    pub fn open() -> io::Result<UblkControl> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        Ok(UblkControl { file, ring: UblkControl::ring()?, broken: false })
    }

    /// Whether this process may use io_uring.
    ///
    /// # Errors
    /// That of the system: `Unsupported` or `PermissionDenied`.
    pub fn io_uring() -> io::Result<()> {
        UblkControl::ring().map(drop)
    }

    fn ring() -> io::Result<IoUring<squeue::Entry128, cqueue::Entry>> {
        IoUring::builder().build(2)
    }

    /// Executes a command and waits for its end. `buffer` is what the command reads and fills; it is at most 65535 bytes long.
    ///
    /// # Errors
    /// That of the driver; `InvalidInput` if the buffer is too long; any, if the ring itself failed: it then executes nothing more.
    pub fn command(
        &mut self,
        command: UblkCommand,
        device: u32,
        data: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let len = u16::try_from(buffer.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        if self.broken {
            return Err(io::Error::other("the ring of commands has failed"));
        }
        // Apart from the caller's memory: should waiting fail, the driver may still write here.
        let mut memory: Box<[u8]> = buffer.into();
        let address = if len == 0 { 0 } else { memory.as_mut_ptr() as u64 };
        let mut header = [0; 80];
        header[..4].copy_from_slice(&device.to_le_bytes());
        header[4..6].copy_from_slice(&u16::MAX.to_le_bytes());
        header[6..8].copy_from_slice(&len.to_le_bytes());
        header[8..16].copy_from_slice(&address.to_le_bytes());
        header[16..24].copy_from_slice(&data.to_le_bytes());
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, command.number()).cmd(header).build();
        // SAFETY: the entry names `memory`, which is freed below only after the command has ended, and otherwise never.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("the ring of commands is full"))?;
        match self.wait() {
            Ok(0..) => {
                buffer.copy_from_slice(&memory);
                Ok(())
            }
            Ok(error) => Err(io::Error::from_raw_os_error(-error)),
            Err(error) => {
                self.broken = true;
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    fn wait(&mut self) -> io::Result<i32> {
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(ended) = self.ring.completion().next() {
                return Ok(ended.result());
            }
        }
    }
}

/// The side of a device on which its requests are executed. The driver opens it for one process at a time.
pub struct UblkChannel {
    file: File,
}

impl UblkChannel {
    /// Where that of a device is.
    #[must_use]
    pub fn path(device: u32) -> PathBuf {
        format!("/dev/ublkc{device}").into()
    }

    /// Opens that of a device.
    ///
    /// # Errors
    /// That of the system; `ResourceBusy`: another process has it.
    pub fn open(device: u32) -> io::Result<Arc<UblkChannel>> {
        let file = OpenOptions::new().read(true).write(true).open(UblkChannel::path(device))?;
        Ok(Arc::new(UblkChannel { file }))
    }

    fn place(queue: u16, tag: u16, from: u32) -> u64 {
        DATA + (u64::from(queue) << QUEUE_BITS | u64::from(tag) << TAG_BITS | u64::from(from))
    }

    /// Fills `out` with the data of a write request, from a byte of it on.
    ///
    /// # Errors
    /// That of the driver; `UnexpectedEof` if the request has less data.
    pub fn data_of(&self, queue: u16, tag: u16, from: u32, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, UblkChannel::place(queue, tag, from))
    }

    /// Gives a read request its data, from a byte of it on.
    ///
    /// # Errors
    /// That of the driver.
    pub fn give_data(&self, queue: u16, tag: u16, from: u32, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, UblkChannel::place(queue, tag, from))
    }
}

/// A request, as the driver describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkDescriptor {
    /// What it is, in the lowest 8 bits, and its flags.
    pub operation: u32,
    /// Its sectors of 512 bytes.
    pub sectors: u32,
    /// Its first sector.
    pub start: u64,
}

/// What a queue has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkEvent {
    /// A request has arrived.
    Request(u16),
    /// The driver does not use this request number any more: the device was stopped, or refused what it was told.
    Ended(u16, i32),
}

/// Wakes a [`UblkQueue`] that waits.
#[derive(Clone)]
pub struct UblkWaker(Arc<OwnedFd>);

impl UblkWaker {
    /// # Errors
    /// That of the system: too many open files.
    pub fn new() -> io::Result<UblkWaker> {
        // SAFETY: takes numbers only.
        let event = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made above, and nobody else has it.
        Ok(UblkWaker(Arc::new(unsafe { OwnedFd::from_raw_fd(event) })))
    }

    /// Lets [`UblkQueue::wait`] return.
    pub fn wake(&self) {
        // It can only fail if it was woken 2^64 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The descriptors of a queue, which the driver writes.
struct Mapped {
    at: NonNull<u8>,
    len: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `UblkQueue::new` with this length; nobody else has the address.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// A queue of a device.
pub struct UblkQueue {
    ring: IoUring,
    channel: Arc<UblkChannel>,
    waker: UblkWaker,
    descriptors: Mapped,
    queue: u16,
    depth: u16,
    listening: bool,
}

impl UblkQueue {
    /// Of `depth` requests, as many as the device was made with. Only the thread that calls this may use it.
    ///
    /// # Errors
    /// That of the system.
    pub fn new(channel: Arc<UblkChannel>, queue: u16, depth: u16, waker: UblkWaker) -> io::Result<UblkQueue> {
        let page = rustix::param::page_size();
        let len = (usize::from(depth) * DESCRIPTOR).next_multiple_of(page);
        let offset = u64::from(queue) * (MAX_DEPTH * DESCRIPTOR as u64).next_multiple_of(page as u64);
        // SAFETY: a new mapping at an address that the kernel chooses; it is unmapped by `Mapped`.
        let at = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                &channel.file,
                offset,
            )?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let descriptors = Mapped { at, len };
        // Room for a command of each request and for the event.
        let entries = (u32::from(depth) + 1).next_power_of_two();
        let ring = IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(entries)?;
        Ok(UblkQueue { ring, channel, waker, descriptors, queue, depth, listening: false })
    }

    /// Takes a request with this number, when there is one. For each number once, before the device is started.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such number; that of the system.
    pub fn fetch(&mut self, tag: u16) -> io::Result<()> {
        self.send(FETCH, tag, 0)
    }

    /// Answers a request: the number of bytes, 0, or an error number below it; and takes the next one with its number.
    ///
    /// # Errors
    /// As [`UblkQueue::fetch`].
    pub fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.send(COMMIT, tag, result)
    }

    fn send(&mut self, operation: u32, tag: u16, result: i32) -> io::Result<()> {
        if tag >= self.depth {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut command = [0; 16];
        command[..2].copy_from_slice(&self.queue.to_le_bytes());
        command[2..4].copy_from_slice(&tag.to_le_bytes());
        command[4..8].copy_from_slice(&result.to_le_bytes());
        let fd = types::Fd(self.channel.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, operation).cmd(command).build();
        self.push(&entry.user_data(tag.into()))
    }

    /// Entries name no memory: see [`UblkQueue::send`], [`UblkQueue::wait`].
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry has no address of this process, and its file is open as long as the ring exists.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        self.submit()?;
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::Error::other("the ring is full"))
    }

    /// Lets the driver see what was sent.
    ///
    /// # Errors
    /// That of the system.
    pub fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map(drop),
            }
        }
    }

    /// Lets the driver see what was sent, and waits until something has happened, or the queue is woken. Fills `events`.
    ///
    /// # Errors
    /// That of the system.
    pub fn wait(&mut self, events: &mut Vec<UblkEvent>) -> io::Result<()> {
        events.clear();
        if !self.listening {
            let poll = opcode::PollAdd::new(types::Fd(self.waker.0.as_raw_fd()), libc::POLLIN as u32);
            self.push(&poll.build().user_data(WOKEN))?;
            self.listening = true;
        }
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        self.take(events);
        Ok(())
    }

    /// What has happened, without waiting. Adds to `events`.
    pub fn take(&mut self, events: &mut Vec<UblkEvent>) {
        for ended in self.ring.completion() {
            let result = ended.result();
            match (u16::try_from(ended.user_data()), result) {
                (Ok(tag), 0) => events.push(UblkEvent::Request(tag)),
                (Ok(tag), _) => events.push(UblkEvent::Ended(tag, result)),
                (Err(_), _) => {
                    self.listening = false;
                    let _ = rustix::io::read(&self.waker.0, &mut [0; 8]);
                }
            }
        }
    }

    /// The request of a number, after it has arrived and before it is answered.
    #[must_use]
    pub fn descriptor(&self, tag: u16) -> UblkDescriptor {
        assert!(tag < self.depth, "a request number of another queue");
        let at = usize::from(tag) * DESCRIPTOR;
        let word = |offset: usize| -> u32 {
            // SAFETY: inside of the mapping by the assertion, aligned to 4; the driver does not write it now, and any bytes are a number.
            unsafe { self.descriptors.at.as_ptr().add(at + offset).cast::<u32>().read_volatile() }
        };
        let start = u64::from(word(8)) | u64::from(word(12)) << 32;
        UblkDescriptor { operation: word(0), sectors: word(4), start }
    }
}

/// Tells the kernel that this thread, and those that it starts, write for others: it then lets them have memory without waiting for
/// writes that might be theirs to execute. Needs `CAP_SYS_RESOURCE`; without, memory pressure can make requests wait for each other.
///
/// # Errors
/// That of the system.
pub fn become_io_flusher() -> io::Result<()> {
    /// The number of the kernel's `include/uapi/linux/prctl.h`.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: takes numbers only.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this process may administer the system (`CAP_SYS_ADMIN`).
#[must_use]
pub fn is_administrator() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_IOWR('u', 0x04, struct ublksrv_ctrl_cmd)` and others as the C compiler makes them, on architectures with the usual encoding.
    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!(UblkCommand::Add.number(), 0xc020_7504);
        assert_eq!(UblkCommand::Info.number(), 0x8020_7502);
        assert_eq!(UblkCommand::EndRecovery.number(), 0xc020_7511);
        assert_eq!(UblkCommand::Features.number(), 0x8020_7513);
        assert_eq!((FETCH, COMMIT), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn data_of_requests_do_not_overlap() {
        assert_eq!(UblkChannel::place(0, 0, 0), 0x8000_0000);
        assert_eq!(UblkChannel::place(0, 1, 512), 0x8000_0000 + (32 << 20) + 512);
        assert_eq!(UblkChannel::place(3, 4095, 0), 0x8000_0000 + (3 << 41) + (4095 << 25));
    }

    #[test]
    fn a_queue_of_what_is_no_device_is_refused() {
        let file = File::open("/dev/null").unwrap();
        let waker = UblkWaker::new().unwrap();
        waker.wake();
        assert!(UblkQueue::new(Arc::new(UblkChannel { file }), 0, 64, waker).is_err());
    }
}
