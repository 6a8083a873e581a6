//! The driver behind safe types: context, streams, events, memory, functions.
//!
//! Invariants: every object keeps its context alive; memory is freed only after all work of the context is done,
//! so nothing in flight can refer to freed memory; ranges are checked before the driver is called.
//!
//! Must not depend on: kernels, codes.
//!
//! Source: NVIDIA, *CUDA Driver API*.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::{Error, library};

/// What the driver returned, with the call.
fn told(call: &'static str) -> impl Fn(DriverError) -> Error {
    move |e| Error::Driver(format!("{call}: {:?}", e.0))
}

/// The primary context of a device.
pub(crate) struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: the driver may be called by any thread at any time; the handle is only passed on to it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What is known of a device.
pub(crate) struct Facts {
    pub name: String,
    /// Compute capability: 90 for 9.0.
    pub architecture: i32,
    pub multiprocessors: u32,
    pub driver: i32,
}

impl Context {
    /// The context of device number `ordinal`.
    pub fn open(ordinal: usize) -> Result<(Arc<Context>, Facts), Error> {
        library::driver()?;
        let none = |e: DriverError| Error::Unavailable(format!("the CUDA driver reports {:?}", e.0));
        result::init().map_err(none)?;
        let count = result::device::get_count().map_err(none)?;
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if number >= count {
            return Err(Error::Unavailable(format!(
                "there are {count} devices, number {ordinal} is not one"
            )));
        }
        let device = result::device::get(number).map_err(none)?;
        use sys::CUdevice_attribute as Attribute;
        let attribute = |which| {
            // SAFETY: `device` was returned by the driver.
            unsafe { result::device::get_attribute(device, which) }.map_err(told("cuDeviceGetAttribute"))
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let mut driver = 0;
        // SAFETY: the pointer is to an integer of ours.
        let _ = unsafe { sys::cuDriverGetVersion(&mut driver) };
        let name = result::device::get_name(device).map_err(told("cuDeviceGetName"))?;
        // SAFETY: `device` was returned by the driver. The context is released once, when it is dropped.
        let raw = unsafe { result::primary_ctx::retain(device) }.map_err(none)?;
        let multiprocessors = u32::try_from(processors).unwrap_or(1);
        let facts = Facts { name, architecture: major * 10 + minor, multiprocessors, driver };
        Ok((Arc::new(Context { device, raw }), facts))
    }

    /// Makes this the context of the calling thread, as most calls need it.
    fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context was retained and is not released before `self` is dropped.
        unsafe { result::ctx::set_current(self.raw) }.map_err(told("cuCtxSetCurrent"))
    }

    /// Waits for everything that was asked of the device.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.enter()?;
        result::ctx::synchronize().map_err(told("cuCtxSynchronize"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`; every object of the context holds a reference to it, so none is left.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A queue of work for the device, done in order.
pub struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: as for `Context`.
unsafe impl Send for Stream {}
// SAFETY: as for `Context`.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream, Error> {
        context.enter()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Stream { context: context.clone(), raw: raw.map_err(told("cuStreamCreate"))? })
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// [`Error::Driver`] if any of it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the stream exists until `self` is dropped.
        unsafe { result::stream::synchronize(self.raw) }.map_err(told("cuStreamSynchronize"))
    }

    /// Asks for a copy of the first `len` bytes from one buffer to another.
    ///
    /// # Errors
    /// [`Error::Shape`] if a buffer is shorter; [`Error::Driver`].
    pub fn copy(&self, from: &Buffer, to: &mut Buffer, len: usize) -> Result<(), Error> {
        range(from.len, 0, len)?;
        range(to.len, 0, len)?;
        self.context.enter()?;
        // SAFETY: both buffers have `len` bytes and are not freed before this is done (see `Buffer::drop`).
        unsafe { result::memcpy_dtod_async(to.raw, from.raw, len, self.raw) }.map_err(told("cuMemcpyDtoD"))
    }

    /// Asks for a copy of the first `len` bytes to the device.
    ///
    /// # Safety
    /// `from` must not be written before the stream has done this.
    pub(crate) unsafe fn upload(&self, from: &Pinned, to: &mut Buffer, len: usize) -> Result<(), Error> {
        range(from.len, 0, len)?;
        range(to.len, 0, len)?;
        self.context.enter()?;
        // SAFETY: both have `len` bytes, are not freed before this is done (see `drop`), and the caller does not
        // write to `from` meanwhile.
        unsafe { result::memcpy_htod_async(to.raw, &from.bytes()[..len], self.raw) }
            .map_err(told("cuMemcpyHtoDAsync"))
    }

    /// Asks for a copy of the first `len` bytes from the device.
    ///
    /// # Safety
    /// `to` must not be read or written before the stream has done this.
    pub(crate) unsafe fn download(&self, from: &Buffer, to: &mut Pinned, len: usize) -> Result<(), Error> {
        range(from.len, 0, len)?;
        range(to.len, 0, len)?;
        self.context.enter()?;
        // SAFETY: as for `upload`.
        unsafe { result::memcpy_dtoh_async(&mut to.bytes_mut()[..len], from.raw, self.raw) }
            .map_err(told("cuMemcpyDtoHAsync"))
    }

    /// Asks for `function` to be run on `grid` blocks of `threads` threads.
    ///
    /// # Safety
    /// `arguments` must be what the function takes, and it must access only memory of buffers that exist until
    /// it is done, none of it written by other work at the same time.
    pub(crate) unsafe fn launch(
        &self,
        function: &Function,
        grid: (u32, u32),
        threads: u32,
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Error> {
        self.context.enter()?;
        let (grid, block) = ((grid.0, grid.1, 1), (threads, 1, 1));
        // SAFETY: the module of the function is never unloaded while the context exists; the rest is this
        // function's contract.
        unsafe { result::launch_kernel(function.raw, grid, block, shared, self.raw, arguments) }
            .map_err(told("cuLaunchKernel"))
    }

    /// Asks for `event` to be recorded when all earlier work of the stream is done.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: both exist.
        unsafe { result::event::record(event.raw, self.raw) }.map_err(told("cuEventRecord"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: created by `new`, destroyed once; the driver finishes what is in the queue.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A moment in a stream.
pub struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: as for `Context`.
unsafe impl Send for Event {}
// SAFETY: as for `Context`.
unsafe impl Sync for Event {}

impl Event {
    /// An event. A thread that waits for it sleeps.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event, Error> {
        context.enter()?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC);
        Ok(Event { context: context.clone(), raw: raw.map_err(told("cuEventCreate"))? })
    }

    /// Waits, without using the CPU, until the event has been recorded.
    ///
    /// # Errors
    /// [`Error::Driver`] if work before it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.context.enter()?;
        // SAFETY: the event exists until `self` is dropped.
        unsafe { result::event::synchronize(self.raw) }.map_err(told("cuEventSynchronize"))
    }

    /// Seconds between an earlier event of the same stream and this one; both have been waited for.
    ///
    /// # Errors
    /// [`Error::Driver`] if one was not recorded.
    pub fn since(&self, earlier: &Event) -> Result<f64, Error> {
        self.context.enter()?;
        // SAFETY: both events exist.
        let milliseconds = unsafe { result::event::elapsed(earlier.raw, self.raw) };
        Ok(f64::from(milliseconds.map_err(told("cuEventElapsedTime"))?) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: created by `new`, destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}

/// Memory of the device.
pub struct Buffer {
    context: Arc<Context>,
    raw: sys::CUdeviceptr,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Buffer, Error> {
        context.enter()?;
        // SAFETY: plain memory without a type; what it holds at first is never looked at as anything but bytes.
        let raw = unsafe { result::malloc_sync(len.max(1)) };
        let raw = raw.map_err(|e| memory("device", len, e))?;
        Ok(Buffer { context: context.clone(), raw, len })
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a buffer without bytes is of no use")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.raw
    }

    /// Copies bytes to the device, beginning at byte `at`, and waits.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fit; [`Error::Driver`].
    pub fn write(&mut self, at: usize, from: &[u8]) -> Result<(), Error> {
        range(self.len, at, from.len())?;
        let stream = Stream::new(&self.context)?;
        // SAFETY: the range was checked, and `from` is borrowed until the stream has been waited for.
        unsafe { result::memcpy_htod_async(self.raw + at as u64, from, stream.raw) }
            .map_err(told("cuMemcpyHtoDAsync"))?;
        stream.wait()
    }

    /// Copies bytes from the device, beginning at byte `at`, and waits. Work of other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are fewer; [`Error::Driver`].
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        range(self.len, at, to.len())?;
        let stream = Stream::new(&self.context)?;
        // SAFETY: the range was checked, and `to` is borrowed until the stream has been waited for.
        unsafe { result::memcpy_dtoh_async(to, self.raw + at as u64, stream.raw) }
            .map_err(told("cuMemcpyDtoHAsync"))?;
        stream.wait()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.context.synchronize().is_ok() {
            // SAFETY: allocated by `new`, freed once, and nothing is in flight that could use it.
            let _ = unsafe { result::free_sync(self.raw) };
        }
    }
}

/// Memory of the host that the device can read and write by itself, at the full speed of the bus.
pub struct Pinned {
    context: Arc<Context>,
    raw: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory that `self` owns alone.
unsafe impl Send for Pinned {}
// SAFETY: shared borrows only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Zeroed memory.
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Pinned, Error> {
        context.enter()?;
        // SAFETY: what it holds at first is overwritten below before it is read. Flags 0: ordinary cached memory.
        let raw = unsafe { result::malloc_host(len.max(1), 0) };
        let raw = raw.map_err(|e| memory("pinned host", len, e))?;
        let raw = NonNull::new(raw.cast::<u8>()).ok_or(Error::Memory { what: "pinned host", bytes: len })?;
        // SAFETY: `len` bytes were allocated.
        unsafe { raw.as_ptr().write_bytes(0, len) };
        Ok(Pinned { context: context.clone(), raw, len })
    }

    /// Its bytes. No copy of the device to it may be in flight; `Slot` sees to that.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes were allocated and initialised, and are freed when `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr(), self.len) }
    }

    /// Its bytes. No copy of the device from or to it may be in flight; `Slot` sees to that.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.raw.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.synchronize().is_ok() {
            // SAFETY: allocated by `new`, freed once, and nothing is in flight that could use it.
            let _ = unsafe { result::free_host(self.raw.as_ptr().cast()) };
        }
    }
}

/// A compiled kernel. Its module stays loaded as long as the context exists.
pub(crate) struct Function {
    raw: sys::CUfunction,
}

// SAFETY: as for `Context`.
unsafe impl Send for Function {}
// SAFETY: as for `Context`.
unsafe impl Sync for Function {}

impl Function {
    /// Loads a module, as the compiler made it, and finds the function `name`.
    pub fn load(context: &Context, image: &[u8], name: &str) -> Result<Function, Error> {
        context.enter()?;
        let mut image = image.to_vec();
        image.push(0);
        // SAFETY: the image was made by the compiler; text images need the zero at the end. The driver copies it.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
        let module = module.map_err(told("cuModuleLoadData"))?;
        let name = CString::new(name).map_err(|e| Error::Driver(e.to_string()))?;
        // SAFETY: the module was loaded just now and is never unloaded.
        let raw = unsafe { result::module::get_function(module, name) };
        Ok(Function { raw: raw.map_err(told("cuModuleGetFunction"))? })
    }
}

fn memory(what: &'static str, bytes: usize, e: DriverError) -> Error {
    match e.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::Memory { what, bytes },
        other => Error::Driver(format!("allocation of {bytes} bytes of {what} memory: {other:?}")),
    }
}

fn range(have: usize, at: usize, len: usize) -> Result<(), Error> {
    if at.checked_add(len).is_some_and(|end| end <= have) {
        return Ok(());
    }
    Err(Error::Shape(format!("{len} bytes at {at} are not within a buffer of {have}")))
}
