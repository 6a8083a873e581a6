//! A device and its compiled kernels.
//!
//! A fixed kernel is compiled for one matrix and is the fastest where the rows are in memory of the device; a table
//! kernel is compiled once per number of outputs and serves every matrix from then on. Over the bus both are as fast as
//! the bus, so there the table kernel is the one to use. [`Device::fixed`] and [`Device::table`] keep what was compiled, up
//! to [`KERNELS`] fixed kernels; what goes first is the least recently used. (The driver keeps its code until the device
//! is closed: a few KiB each.)
//!
//! Invariant: a kernel is launched only on buffers that hold the rows it accesses.
//!
//! Must not depend on: where batches come from.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::driver::{Context, Facts, Function};
use crate::text::{DEVICE, NAME, THREADS, VECTOR};
use crate::{Buffer, Error, Event, Matrix, Pinned, Program, Shape, Stream, compiler, library, table, text};

/// Most fixed kernels that a device keeps ready.
pub const KERNELS: usize = 256;

/// Most outputs of a table kernel: their sums are in registers.
pub const TABLE_OUTPUTS: usize = 16;

/// A GPU, ready to compile and run kernels. Cloning copies a reference.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    facts: Facts,
    compiler: (i32, i32),
    /// Most recently used last.
    fixed: Mutex<Vec<(Matrix, Kernel)>>,
    /// By the number of outputs.
    tables: Mutex<Vec<(usize, Arc<Function>)>>,
}

/// A compiled kernel with the matrix that it computes. Cloning copies a reference.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<Compiled>,
}

struct Compiled {
    function: Arc<Function>,
    inputs: usize,
    outputs: usize,
    tables: Option<Buffer>,
    /// Blocks of a launch, about: enough to fill the device.
    blocks: usize,
}

impl Device {
    /// Device number `ordinal`, from 0 on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is none, or no driver, or no run-time compiler.
    pub fn open(ordinal: usize) -> Result<Device, Error> {
        let (context, facts) = Context::open(ordinal)?;
        let compiler = compiler::version()?;
        let (fixed, tables) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        Ok(Device { inner: Arc::new(Inner { context, facts, compiler, fixed, tables }) })
    }

    /// Its name, as the driver has it.
    pub fn name(&self) -> &str {
        &self.inner.facts.name
    }

    /// Driver, compiler and device in words, with the files of the libraries.
    pub fn describe(&self) -> String {
        let facts = &self.inner.facts;
        let (major, minor) = self.inner.compiler;
        format!(
            "{}, compute capability {}.{}, {} multiprocessors, CUDA driver {}.{}, NVRTC {major}.{minor}, {}",
            facts.name,
            facts.architecture / 10,
            facts.architecture % 10,
            facts.multiprocessors,
            facts.driver / 1000,
            facts.driver % 1000 / 10,
            library::loaded().join(", "),
        )
    }

    /// A stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(&self.inner.context)
    }

    /// An event.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn event(&self) -> Result<Event, Error> {
        Event::new(&self.inner.context)
    }

    /// Memory of the device, with any content.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Driver`].
    pub fn buffer(&self, len: usize) -> Result<Buffer, Error> {
        Buffer::new(&self.inner.context, len)
    }

    /// Pinned memory of the host, zeroed.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Driver`].
    pub fn pinned(&self, len: usize) -> Result<Pinned, Error> {
        Pinned::new(&self.inner.context, len)
    }

    /// The kernel that is compiled for this matrix alone, compiled now if it is not there yet (some 100 ms).
    ///
    /// # Errors
    /// [`Error::Compile`], [`Error::Driver`].
    pub fn fixed(&self, matrix: &Matrix) -> Result<Kernel, Error> {
        if let Some(kernel) = self.known(matrix) {
            return Ok(kernel);
        }
        let program = Program::new(matrix);
        let function = self.compile(&text::fixed(&program))?;
        let kernel = self.kernel(matrix, Arc::new(function), None);
        let mut all = self.inner.fixed.lock();
        if all.len() >= KERNELS {
            all.remove(0);
        }
        all.push((matrix.clone(), kernel.clone()));
        Ok(kernel)
    }

    fn known(&self, matrix: &Matrix) -> Option<Kernel> {
        let mut all = self.inner.fixed.lock();
        let at = all.iter().position(|(m, _)| m == matrix)?;
        let entry = all.remove(at);
        let kernel = entry.1.clone();
        all.push(entry);
        Some(kernel)
    }

    /// The kernel that has the coefficients of this matrix as data. The first for a number of outputs is compiled
    /// now; after that it costs a copy of a few KiB to the device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the matrix has more than [`TABLE_OUTPUTS`] outputs; [`Error::Compile`],
    /// [`Error::Memory`], [`Error::Driver`].
    pub fn table(&self, matrix: &Matrix) -> Result<Kernel, Error> {
        let outputs = matrix.outputs();
        if outputs > TABLE_OUTPUTS {
            let why = format!("a table kernel has at most {TABLE_OUTPUTS} outputs, not {outputs}");
            return Err(Error::Shape(why));
        }
        let known = self.inner.tables.lock().iter().find(|(o, _)| *o == outputs).map(|(_, f)| f.clone());
        let function = match known {
            Some(function) => function,
            None => {
                let function = Arc::new(self.compile(&text::table(outputs))?);
                self.inner.tables.lock().push((outputs, function.clone()));
                function
            }
        };
        let bytes: Vec<u8> = table::tables(matrix).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut buffer = self.buffer(bytes.len())?;
        buffer.write(0, &bytes)?;
        Ok(self.kernel(matrix, function, Some(buffer)))
    }

    fn compile(&self, text: &str) -> Result<Function, Error> {
        let image = compiler::compile(&format!("{DEVICE}{text}"), self.inner.facts.architecture)?;
        Function::load(&self.inner.context, &image, NAME)
    }

    fn kernel(&self, matrix: &Matrix, function: Arc<Function>, tables: Option<Buffer>) -> Kernel {
        let blocks = self.inner.facts.multiprocessors as usize * 64;
        let (inputs, outputs) = (matrix.inputs(), matrix.outputs());
        Kernel { inner: Arc::new(Compiled { function, inputs, outputs, tables, blocks }) }
    }
}

impl Kernel {
    /// Input rows.
    pub fn inputs(&self) -> usize {
        self.inner.inputs
    }

    /// Output rows.
    pub fn outputs(&self) -> usize {
        self.inner.outputs
    }

    /// Asks `stream` to compute the output rows of all stripes. `from` holds, stripe by stripe, the input rows one
    /// after another; `to` gets the output rows in the same way.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape is impossible or a buffer too small, [`Error::Driver`].
    pub fn launch(&self, stream: &Stream, from: &Buffer, to: &mut Buffer, shape: Shape) -> Result<(), Error> {
        self.launch_at(stream, (from, 0), (to, 0), shape)
    }

    /// As [`Kernel::launch`], with rows that begin at these bytes of the buffers, which are multiples of 16.
    pub(crate) fn launch_at(
        &self,
        stream: &Stream,
        (from, from_at): (&Buffer, usize),
        (to, to_at): (&mut Buffer, usize),
        shape: Shape,
    ) -> Result<(), Error> {
        let this = &*self.inner;
        let (inputs, outputs) = (shape.bytes(this.inputs)?, shape.bytes(this.outputs)?);
        let (has, out) = (from.len().saturating_sub(from_at), to.len().saturating_sub(to_at));
        if !from_at.is_multiple_of(VECTOR) || !to_at.is_multiple_of(VECTOR) {
            return Err(Error::Shape(format!(
                "rows at {from_at} and {to_at} are not at multiples of {VECTOR}"
            )));
        }
        if has < inputs || out < outputs {
            let why = format!("buffers of {has} and {out} bytes for rows of {inputs} and {outputs} bytes");
            return Err(Error::Shape(why));
        }
        if inputs == 0 {
            return Ok(());
        }
        let row = shape.row as u64;
        let (mut from, mut to) = (from.address() + from_at as u64, to.address() + to_at as u64);
        let (mut in_stripe, mut out_stripe) = (row * this.inputs as u64, row * this.outputs as u64);
        let (mut in_row, mut out_row) = (row, row);
        let mut vectors = (shape.row / VECTOR) as u32;
        let mut stripes = shape.stripes as u32;
        let mut tables = this.tables.as_ref().map_or(0, Buffer::address);
        let mut columns = this.inputs as u32;
        let across = (vectors as usize).div_ceil(THREADS);
        let down = (this.blocks / across).clamp(1, shape.stripes.min(65_535));
        let entries = if this.tables.is_some() { this.inputs * this.outputs * table::ENTRY * 4 } else { 0 };
        let pointer = |value: &mut u64| std::ptr::from_mut(value).cast::<c_void>();
        let number = |value: &mut u32| std::ptr::from_mut(value).cast::<c_void>();
        let mut arguments = [
            pointer(&mut from),
            pointer(&mut to),
            pointer(&mut in_stripe),
            pointer(&mut in_row),
            pointer(&mut out_stripe),
            pointer(&mut out_row),
            number(&mut vectors),
            number(&mut stripes),
            pointer(&mut tables),
            number(&mut columns),
        ];
        let grid = (across as u32, down as u32);
        // SAFETY: the arguments are those of `text::head`, in order. The kernel reads `inputs` bytes from `from` and
        // the tables, which `self` keeps, and writes `outputs` bytes to `to`, all checked above; buffers are not
        // freed before the device has done its work.
        unsafe { stream.launch(&this.function, grid, THREADS as u32, entries as u32, &mut arguments) }
    }
}
