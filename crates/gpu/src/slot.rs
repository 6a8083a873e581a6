//! A batch of stripes that goes to the device and back.
//!
//! A slot has pinned memory for the input and the output rows, as much memory on the device, and a stream. The
//! caller fills [`Slot::input`], calls [`Slot::start`], and later reads [`Slot::output`]. Several slots in turn keep the
//! bus busy in both directions while the device computes and the caller fills the next.
//!
//! Invariant: while a batch is in flight, nobody can reach the host memory of the slot: both accessors wait first.
//!
//! Must not depend on: which kernel runs.

use crate::text::VECTOR;
use crate::{Buffer, Device, Error, Event, Kernel, Pinned, Stream};

/// How a batch is divided: `stripes` stripes, each of rows of `row` bytes.
///
/// Row `r` of stripe `s` of a kernel with `n` input rows begins at byte `(s * n + r) * row`; outputs likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a row, a multiple of 16. Rows of less than 2 KiB leave threads idle.
    pub row: usize,
    /// Stripes, at most 2^31.
    pub stripes: usize,
}

impl Shape {
    /// Bytes of a batch with `rows` rows per stripe.
    ///
    /// # Errors
    /// [`Error::Shape`] if the rows are not whole vectors, or there are too many bytes or stripes.
    pub fn bytes(self, rows: usize) -> Result<usize, Error> {
        let Shape { row, stripes } = self;
        if !row.is_multiple_of(VECTOR) || row > 1 << 31 || stripes > 1 << 31 {
            return Err(Error::Shape(format!(
                "{stripes} rows of {row} bytes: rows are multiples of {VECTOR} bytes, at most 2 GiB and 2^31 of them"
            )));
        }
        let bytes = row.checked_mul(stripes).and_then(|bytes| bytes.checked_mul(rows));
        bytes.ok_or_else(|| Error::Shape(format!("{stripes} stripes of {rows} rows of {row} bytes")))
    }
}

/// See the module.
pub struct Slot {
    stream: Stream,
    done: Event,
    /// Whether a batch may be in flight.
    busy: bool,
    input: Pinned,
    output: Pinned,
    device_input: Buffer,
    device_output: Buffer,
}

impl Slot {
    /// A slot for batches of up to so many bytes of input and output rows.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Driver`].
    pub fn new(device: &Device, input: usize, output: usize) -> Result<Slot, Error> {
        Ok(Slot {
            stream: device.stream()?,
            done: device.event()?,
            busy: false,
            input: device.pinned(input)?,
            output: device.pinned(output)?,
            device_input: device.buffer(input)?,
            device_output: device.buffer(output)?,
        })
    }

    /// The memory for the input rows. Waits for the batch in flight.
    ///
    /// # Errors
    /// [`Error::Driver`] if that batch failed.
    pub fn input(&mut self) -> Result<&mut [u8], Error> {
        self.wait()?;
        Ok(self.input.bytes_mut())
    }

    /// The output rows of the last batch, after waiting for it. Before the first batch they are zero.
    ///
    /// # Errors
    /// [`Error::Driver`] if that batch failed; there are no output rows then.
    pub fn output(&mut self) -> Result<&[u8], Error> {
        self.wait()?;
        Ok(self.output.bytes())
    }

    /// Asks the device to compute the output rows of the input rows, and returns at once.
    ///
    /// # Errors
    /// [`Error::Shape`] if the batch does not fit into the slot; [`Error::Driver`], also of the batch before.
    pub fn start(&mut self, kernel: &Kernel, shape: Shape) -> Result<(), Error> {
        self.start_parts(&[(kernel, shape)])
    }

    /// As [`Slot::start`], for a batch of several parts: the rows of a part follow those of the parts before, in the input and
    /// in the output. All of them take one copy in each direction.
    ///
    /// # Errors
    /// As [`Slot::start`].
    pub fn start_parts(&mut self, parts: &[(&Kernel, Shape)]) -> Result<(), Error> {
        self.wait()?;
        let (mut inputs, mut outputs) = (0usize, 0usize);
        for (kernel, shape) in parts {
            inputs = inputs.saturating_add(shape.bytes(kernel.inputs())?);
            outputs = outputs.saturating_add(shape.bytes(kernel.outputs())?);
        }
        if inputs > self.device_input.len() || outputs > self.device_output.len() {
            let why = format!("a batch of {inputs} and {outputs} bytes is larger than its slot");
            return Err(Error::Shape(why));
        }
        self.busy = true;
        // SAFETY: the host memory is reached only through `input` and `output`, which wait for `done`.
        unsafe { self.stream.upload(&self.input, &mut self.device_input, inputs) }?;
        let (mut from, mut to) = (0, 0);
        for (kernel, shape) in parts {
            let buffers = ((&self.device_input, from), (&mut self.device_output, to));
            kernel.launch_at(&self.stream, buffers.0, buffers.1, *shape)?;
            from += shape.bytes(kernel.inputs())?;
            to += shape.bytes(kernel.outputs())?;
        }
        // SAFETY: as above.
        unsafe { self.stream.download(&self.device_output, &mut self.output, outputs) }?;
        self.stream.record(&self.done)
    }

    /// Waits until no batch is in flight. The thread sleeps meanwhile.
    ///
    /// # Errors
    /// [`Error::Driver`] if the batch failed.
    pub fn wait(&mut self) -> Result<(), Error> {
        if self.busy {
            // If `start` failed half way, `done` was not recorded for this batch: then the stream says when it is done.
            self.done.wait()?;
            self.stream.wait()?;
            self.busy = false;
        }
        Ok(())
    }
}
