//! Who codes the batches of a rebuild: the seam between a group and a CPU or a GPU.
//!
//! A [`Coder`] hands out [`Memory`]. The rebuild reads rows of members straight into [`Memory::input`], says with
//! [`Memory::start`] what is to be computed of them, and later takes what was made from [`Memory::output`]. A GPU
//! computes meanwhile, and the rebuild fills the next memory; [`Coder::under_way`] says how many it should fill.
//!
//! # Layout of a batch
//! The input has one [`Part`] after another; a part has `stripes` stripes, each of k rows of `row` bytes in the order of
//! [`Part::present`]. The output has the parts in the same order, with one row for each stripe.
//!
//! Invariants: every coder makes the same bytes, those of `ashlar_erasure`; a coder that fails changes nothing but its
//! own memory, and the CPU can do the work instead.
//!
//! Must not depend on: members, rows of a group, how long coding takes.

use std::sync::Arc;

use ashlar_erasure::Code;

use crate::Error;

/// Stripes of a batch with rows of one length, of which the same is computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The k roles that the input rows have, ascending.
    pub present: Vec<usize>,
    /// The role that is made.
    pub wanted: usize,
    /// Bytes of a row, a multiple of 4096.
    pub row: usize,
    /// Stripes, at least 1.
    pub stripes: usize,
}

/// A way to code batches.
pub trait Coder: Send + Sync {
    /// What it is, for people and logs: `CPU (gfni-avx512)`.
    fn name(&self) -> String;

    /// How many batches a thread should have under way at once, at least 1.
    fn under_way(&self) -> usize;

    /// Memory for batches of `code` with up to so many bytes of input and output.
    ///
    /// # Errors
    /// [`Error::Coder`] if there is not so much.
    fn memory(&self, code: &Code, input: usize, output: usize) -> Result<Box<dyn Memory>, Error>;
}

/// The memory of one batch. See the module for its layout.
pub trait Memory: Send {
    /// The input rows, after the batch before is done.
    ///
    /// # Errors
    /// [`Error::Coder`] if that batch failed.
    fn input(&mut self) -> Result<&mut [u8], Error>;

    /// Computes the output rows of all parts, or begins to.
    ///
    /// # Errors
    /// [`Error::Coder`] if it cannot, or the parts are larger than the memory.
    fn start(&mut self, parts: &[Part]) -> Result<(), Error>;

    /// The output rows, when they are made.
    ///
    /// # Errors
    /// [`Error::Coder`] if they could not be made.
    fn output(&mut self) -> Result<&[u8], Error>;
}

/// How a group rebuilds and checks. The default suits a group beside which other work goes on.
#[derive(Clone)]
pub struct Batching {
    /// Bytes that are read for a batch of a rebuild or a check, about. At least one row is read.
    pub bytes: usize,
    /// Threads that read, verify, code and write at the same time.
    pub threads: usize,
    /// Who codes.
    pub coder: Arc<dyn Coder>,
}

impl Default for Batching {
    fn default() -> Batching {
        Batching { bytes: 4 << 20, threads: 1, coder: Arc::new(Cpu::default()) }
    }
}

/// Codes on the thread that calls, with the fastest kernel of this CPU.
#[derive(Clone, Default, Debug)]
pub struct Cpu {
    /// What it stands in for, and why.
    instead_of: Option<String>,
}

impl Cpu {
    /// One that says why another coder is not used.
    #[must_use]
    pub fn instead_of(why: String) -> Cpu {
        Cpu { instead_of: Some(why) }
    }
}

impl Coder for Cpu {
    fn name(&self) -> String {
        let kernel = Code::new(2, 1).map(|code| code.kernel().to_string());
        let kernel = kernel.unwrap_or_else(|e| e.to_string());
        match &self.instead_of {
            None => format!("CPU ({kernel})"),
            Some(why) => format!("CPU ({kernel}); {why}"),
        }
    }

    fn under_way(&self) -> usize {
        1
    }

    fn memory(&self, code: &Code, input: usize, output: usize) -> Result<Box<dyn Memory>, Error> {
        Ok(Box::new(CpuMemory { code: code.clone(), input: vec![0; input], output: vec![0; output] }))
    }
}

struct CpuMemory {
    code: Code,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Memory for CpuMemory {
    fn input(&mut self) -> Result<&mut [u8], Error> {
        Ok(&mut self.input)
    }

    fn start(&mut self, parts: &[Part]) -> Result<(), Error> {
        let k = self.code.k();
        let stripes = |p: &Part| p.stripes * p.row;
        let all: usize = parts.iter().map(stripes).sum();
        if all * k > self.input.len() || all > self.output.len() {
            return Err(Error::Coder("a batch is larger than its memory".into()));
        }
        let (mut input, mut output) = (&self.input[..], &mut self.output[..]);
        for part in parts {
            let (rows, rest) = input.split_at(stripes(part) * k);
            let (made, rest_made) = output.split_at_mut(stripes(part));
            (input, output) = (rest, rest_made);
            for (rows, made) in rows.chunks_exact(part.row * k).zip(made.chunks_exact_mut(part.row)) {
                let present: Vec<(usize, &[u8])> =
                    part.present.iter().copied().zip(rows.chunks_exact(part.row)).collect();
                self.code
                    .reconstruct(&present, &[part.wanted], &mut [made])
                    .map_err(|e| Error::Coder(e.to_string()))?;
            }
        }
        Ok(())
    }

    fn output(&mut self) -> Result<&[u8], Error> {
        Ok(&self.output)
    }
}
