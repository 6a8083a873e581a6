//! The coder that uses a GPU (feature `gpu`).
//!
//! A part of a batch is one launch of the table kernel; all parts of a batch take one copy to the device and one back. Rows
//! are read straight into pinned memory: copied there by the CPU, they would be coded faster by the CPU
//! (docs/benchmarks/gpu.md).
//!
//! Invariant: an error of the device is an [`Error::Coder`], never wrong bytes: rows are verified before they get here, and
//! what a member gets has a checksum of these bytes, so a device that computes wrongly is **not** noticed here. The check
//! of `ashlar bench gpu` is for that.
//!
//! Must not depend on: members, files.

use std::sync::Arc;

use ashlar_erasure::Code;
use ashlar_gpu::{Device, Kernel, Matrix, Shape, Slot};
use parking_lot::Mutex;

use crate::Error;
use crate::coder::{Coder, Memory, Part};

/// Batches under way: so many of 4 MiB and more keep the bus busy.
const UNDER_WAY: usize = 3;
/// Kernels kept, at most: one for each matrix, with some KiB of tables.
const KERNELS: usize = 256;

/// See the module.
pub struct Gpu {
    device: Device,
    kernels: Arc<Mutex<Vec<(Matrix, Kernel)>>>,
}

impl Gpu {
    /// GPU number `ordinal`, from 0 on.
    ///
    /// # Errors
    /// [`Error::Coder`] if there is none that can be used.
    pub fn open(ordinal: usize) -> Result<Gpu, Error> {
        let device = Device::open(ordinal).map_err(coder)?;
        Ok(Gpu { device, kernels: Arc::default() })
    }
}

fn coder(e: ashlar_gpu::Error) -> Error {
    Error::Coder(e.to_string())
}

impl Coder for Gpu {
    fn name(&self) -> String {
        format!("GPU ({})", self.device.name())
    }

    fn under_way(&self) -> usize {
        UNDER_WAY
    }

    fn memory(&self, code: &Code, input: usize, output: usize) -> Result<Box<dyn Memory>, Error> {
        let slot = Slot::new(&self.device, input, output).map_err(coder)?;
        let (device, kernels) = (self.device.clone(), self.kernels.clone());
        Ok(Box::new(GpuMemory { slot, device, kernels, code: code.clone() }))
    }
}

struct GpuMemory {
    slot: Slot,
    device: Device,
    kernels: Arc<Mutex<Vec<(Matrix, Kernel)>>>,
    code: Code,
}

impl GpuMemory {
    fn kernel(&self, part: &Part) -> Result<Kernel, Error> {
        let (used, matrix) = Matrix::decode(&self.code, &part.present, &[part.wanted]).map_err(coder)?;
        if used != part.present {
            return Err(Error::Coder("a part does not have the k rows of its code".into()));
        }
        let mut kernels = self.kernels.lock();
        if let Some((_, kernel)) = kernels.iter().find(|(m, _)| *m == matrix) {
            return Ok(kernel.clone());
        }
        if kernels.len() >= KERNELS {
            kernels.clear();
        }
        let kernel = self.device.table(&matrix).map_err(coder)?;
        kernels.push((matrix, kernel.clone()));
        Ok(kernel)
    }
}

impl Memory for GpuMemory {
    fn input(&mut self) -> Result<&mut [u8], Error> {
        self.slot.input().map_err(coder)
    }

    fn start(&mut self, parts: &[Part]) -> Result<(), Error> {
        let kernels: Vec<Kernel> = parts.iter().map(|p| self.kernel(p)).collect::<Result<_, _>>()?;
        let shapes = parts.iter().map(|p| Shape { row: p.row, stripes: p.stripes });
        let parts: Vec<(&Kernel, Shape)> = kernels.iter().zip(shapes).collect();
        self.slot.start_parts(&parts).map_err(coder)
    }

    fn output(&mut self) -> Result<&[u8], Error> {
        self.slot.output().map_err(coder)
    }
}
