//! One computation, for the CPU and for a device: encoding with a code, or the reconstruction of certain rows.
//!
//! Invariant: [`Computation::on_cpu`] and every kernel of [`Computation::matrix`] make the same bytes from the same
//! batch.
//!
//! Must not depend on: devices.

use ashlar_erasure::{Code, MAX_ROWS};

use crate::{Error, Matrix, Shape};

/// See the module. Input rows of a batch are those of [`Computation::inputs`], in this order, stripe by stripe.
#[derive(Debug, Clone)]
pub struct Computation {
    code: Code,
    matrix: Matrix,
    inputs: Vec<usize>,
    /// The rows to reconstruct; empty for encoding.
    wanted: Vec<usize>,
}

impl Computation {
    /// All parity rows out of all data rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if the code has no parity rows.
    pub fn encode(code: &Code) -> Result<Computation, Error> {
        let (matrix, inputs) = (Matrix::encode(code)?, (0..code.k()).collect());
        Ok(Computation { code: code.clone(), matrix, inputs, wanted: Vec::new() })
    }

    /// The rows `wanted` out of `k` of the rows `present`.
    ///
    /// # Errors
    /// [`Error::Shape`] as [`Matrix::decode`].
    pub fn reconstruct(code: &Code, present: &[usize], wanted: &[usize]) -> Result<Computation, Error> {
        let (inputs, matrix) = Matrix::decode(code, present, wanted)?;
        Ok(Computation { code: code.clone(), matrix, inputs, wanted: wanted.to_vec() })
    }

    /// The matrix, for a kernel.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// The rows of the code that are the inputs, in their order.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Computes a batch with the kernel of the code, on the calling thread.
    ///
    /// # Errors
    /// [`Error::Shape`] if the buffers are not as long as the shape says.
    pub fn on_cpu(&self, input: &[u8], output: &mut [u8], shape: Shape) -> Result<(), Error> {
        let (inputs, outputs) = (self.matrix.inputs(), self.matrix.outputs());
        let (from, to) = (shape.bytes(inputs)?, shape.bytes(outputs)?);
        if input.len() < from || output.len() < to {
            return Err(Error::Shape(format!("buffers for {from} and {to} bytes are too short")));
        }
        if from == 0 {
            return Ok(());
        }
        let wrong = |e: ashlar_erasure::Error| Error::Shape(e.to_string());
        let stripes = input[..from].chunks_exact(inputs * shape.row);
        for (input, output) in stripes.zip(output[..to].chunks_exact_mut(outputs * shape.row)) {
            let mut rows: [(usize, &[u8]); MAX_ROWS] = [(0, &[]); MAX_ROWS];
            for ((slot, row), &index) in rows.iter_mut().zip(input.chunks_exact(shape.row)).zip(&self.inputs)
            {
                *slot = (index, row);
            }
            let mut made: [&mut [u8]; MAX_ROWS] = std::array::from_fn(|_| &mut [][..]);
            for (slot, row) in made.iter_mut().zip(output.chunks_exact_mut(shape.row)) {
                *slot = row;
            }
            let (rows, made) = (&rows[..inputs], &mut made[..outputs]);
            if self.wanted.is_empty() {
                let data: [&[u8]; MAX_ROWS] = std::array::from_fn(|i| rows.get(i).map_or(&[][..], |r| r.1));
                self.code.encode(&data[..inputs], made).map_err(wrong)?;
            } else {
                self.code.reconstruct(rows, &self.wanted, made).map_err(wrong)?;
            }
        }
        Ok(())
    }
}
