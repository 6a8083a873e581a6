//! What a kernel computes: output rows as sums of input rows times coefficients.
//!
//! Invariant: `coefficients` has `outputs * inputs` entries, row by row, and `1 <= inputs <= 64`,
//! `1 <= outputs <= 64`.
//!
//! Must not depend on: devices, texts of kernels.

use ashlar_erasure::{Code, MAX_ROWS};

use crate::Error;

/// A matrix of coefficients over GF(2^8), polynomial 0x11D, as `ashlar_erasure` uses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Matrix {
    outputs: usize,
    inputs: usize,
    coefficients: Vec<u8>,
}

impl Matrix {
    /// The matrix with these coefficients, `outputs` rows of `inputs`, row by row.
    ///
    /// # Errors
    /// [`Error::Shape`] if a number is 0 or more than 64, or the coefficients are not `outputs * inputs`.
    pub fn new(outputs: usize, inputs: usize, coefficients: Vec<u8>) -> Result<Matrix, Error> {
        let range = 1..=MAX_ROWS;
        if !range.contains(&outputs) || !range.contains(&inputs) || coefficients.len() != outputs * inputs {
            let count = coefficients.len();
            return Err(Error::Shape(format!("{count} coefficients for {outputs} x {inputs} rows")));
        }
        Ok(Matrix { outputs, inputs, coefficients })
    }

    /// What [`Code::encode`] computes: the parity rows out of the data rows. There must be a parity row.
    ///
    /// # Errors
    /// [`Error::Shape`] if the code has no parity rows.
    pub fn encode(code: &Code) -> Result<Matrix, Error> {
        Matrix::new(code.m(), code.k(), code.parity_coefficients())
    }

    /// What [`Code::reconstruct`] computes: the rows `wanted` out of `present`. Also returns the `k` rows that
    /// are the inputs, in their order.
    ///
    /// # Errors
    /// [`Error::Shape`] if the indices are wrong, fewer than `k` rows are present, or nothing is wanted.
    pub fn decode(code: &Code, present: &[usize], wanted: &[usize]) -> Result<(Vec<usize>, Matrix), Error> {
        let found = code.decode_coefficients(present, wanted);
        let (used, coefficients) = found.map_err(|e| Error::Shape(e.to_string()))?;
        Ok((used, Matrix::new(wanted.len(), code.k(), coefficients)?))
    }

    /// Output rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Input rows.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The coefficient of an input row in an output row.
    pub(crate) fn at(&self, output: usize, input: usize) -> u8 {
        self.coefficients[output * self.inputs + input]
    }
}
