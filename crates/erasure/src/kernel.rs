//! The kernels: which exist, which of them this CPU can run, and which one is the default.
//!
//! The default is chosen once per process by a measurement of well under a millisecond, because the widest
//! instruction set is not the fastest on every CPU. [`KERNEL_VARIABLE`] in the environment selects one
//! instead.
//!
//! Invariant: no [`crate::plan::Plan`] is made for a kernel that [`Kernel::check`] has not accepted.
//!
//! Must not depend on: what the rows contain.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::Error;
use crate::lane::Pass;
use crate::matrix::parity_matrix;
use crate::plan::{Plan, Window};

/// Environment variable that names the kernel to use (`scalar`, `ssse3`, `avx2`, `gfni-avx2`,
/// `gfni-avx512`, `neon`). Read once. With a name that is unknown or that this CPU cannot run,
/// [`crate::Code::new`] fails.
pub const KERNEL_VARIABLE: &str = "ASHLAR_ERASURE_KERNEL";

/// One implementation of "coefficient matrix times rows". All give the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// The portable reference implementation, on any CPU.
    Scalar,
    /// x86-64: table look-ups by shuffle, 128 bits.
    Ssse3,
    /// x86-64: table look-ups by shuffle, 256 bits.
    Avx2,
    /// x86-64: bit matrices by GFNI, 256 bits.
    GfniAvx2,
    /// x86-64: bit matrices by GFNI, 512 bits.
    GfniAvx512,
    /// AArch64: table look-ups, 128 bits.
    Neon,
}

/// What a kernel keeps per coefficient.
pub(crate) enum Tables {
    /// Nothing: the kernel uses the coefficients themselves.
    None,
    /// An 8x8 bit matrix.
    Affine,
    /// Products of the 16 low and the 16 high nibbles.
    Nibbles,
}

impl Kernel {
    /// All kernels, of every CPU.
    pub const ALL: [Kernel; 6] =
        [Kernel::Scalar, Kernel::Ssse3, Kernel::Avx2, Kernel::GfniAvx2, Kernel::GfniAvx512, Kernel::Neon];

    /// Its name, as [`KERNEL_VARIABLE`] takes it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Scalar => "scalar",
            Kernel::Ssse3 => "ssse3",
            Kernel::Avx2 => "avx2",
            Kernel::GfniAvx2 => "gfni-avx2",
            Kernel::GfniAvx512 => "gfni-avx512",
            Kernel::Neon => "neon",
        }
    }

    /// Whether this CPU can run it.
    pub fn is_usable(self) -> bool {
        match self {
            Kernel::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::GfniAvx2 => is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::GfniAvx512 => {
                is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Refuses a kernel that this CPU cannot run.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_usable() {
            return Ok(());
        }
        Err(Error::KernelUnavailable { kernel: self, usable: names(&kernels()) })
    }

    /// The entry point of the kernel; none for the reference kernel, which is safe code.
    pub(crate) fn entry(self) -> Option<unsafe fn(&Pass)> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Ssse3 => Some(crate::ssse3::run),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => Some(crate::avx2::run),
            #[cfg(target_arch = "x86_64")]
            Kernel::GfniAvx2 => Some(crate::gfni::run_256),
            #[cfg(target_arch = "x86_64")]
            Kernel::GfniAvx512 => Some(crate::gfni::run_512),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => Some(crate::neon::run),
            _ => None,
        }
    }

    /// Most output rows that it computes in one pass, as in its `by_rows` list.
    pub(crate) fn group_rows(self) -> usize {
        match self {
            Kernel::GfniAvx512 => 6,
            _ => 4,
        }
    }

    /// What it stores per coefficient.
    pub(crate) fn tables(self) -> Tables {
        match self {
            Kernel::Scalar => Tables::None,
            Kernel::GfniAvx2 | Kernel::GfniAvx512 => Tables::Affine,
            Kernel::Ssse3 | Kernel::Avx2 | Kernel::Neon => Tables::Nibbles,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Kernel, Error> {
        let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
        found.ok_or_else(|| Error::KernelName { name: name.to_owned(), known: names(&Kernel::ALL) })
    }
}

/// The kernels that this CPU can run, the reference kernel first.
pub fn kernels() -> Vec<Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_usable()).collect()
}

/// The default kernel of codes: the one that the environment names, otherwise the one that was fastest in the
/// measurement.
pub(crate) fn default_kernel() -> Result<Kernel, Error> {
    static CHOICE: OnceLock<Result<Kernel, Error>> = OnceLock::new();
    // The choice of the kernel changes no byte, so it is not part of a simulation.
    #[expect(clippy::disallowed_methods, reason = "chosen once per process, whatever is simulated in it")]
    let choose = || match std::env::var_os(KERNEL_VARIABLE) {
        Some(name) => forced(&name.to_string_lossy()),
        None => Ok(race(&kernels())),
    };
    CHOICE.get_or_init(choose).clone()
}

fn forced(name: &str) -> Result<Kernel, Error> {
    let kernel: Kernel = name.parse()?;
    kernel.check()?;
    Ok(kernel)
}

fn names(kernels: &[Kernel]) -> String {
    kernels.iter().map(|kernel| kernel.name()).collect::<Vec<_>>().join(", ")
}

/// Encodes 8+4 rows of 4 KiB with each kernel in turn, several rounds, and returns the one with the shortest
/// single time: interference disturbs the minimum least. The first rounds also warm up caches and let the CPU
/// power its wide units. The reference kernel runs only if it is the only one.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the machine, in real time"
)]
fn race(usable: &[Kernel]) -> Kernel {
    const ROUNDS: usize = 12;
    const ROW: usize = 4096;
    let (k, m) = (8, 4);
    let bytes: Vec<u8> = (0..(k + m) * ROW).map(|i| (i * 31 / 8) as u8).collect();
    let mut parity = vec![0u8; m * ROW];
    let inputs: Vec<&[u8]> = bytes.chunks(ROW).take(k).collect();
    let mut outputs: Vec<&mut [u8]> = parity.chunks_mut(ROW).collect();

    let candidates = usable.iter().filter(|&&kernel| kernel != Kernel::Scalar);
    let mut runners: Vec<(Duration, Plan, Kernel)> = candidates
        .map(|&kernel| (Duration::MAX, Plan::new(kernel, parity_matrix(k, m), m, k, false), kernel))
        .collect();
    for _ in 0..ROUNDS {
        for (best, plan, _) in &mut runners {
            let start = std::time::Instant::now();
            plan.apply(|c| inputs[c], &mut outputs, |r| r, Window::whole(ROW));
            *best = start.elapsed().min(*best);
        }
    }
    let winner = runners.iter().min_by_key(|(best, _, _)| *best);
    winner.map_or(Kernel::Scalar, |(_, _, kernel)| *kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_names_are_parsed() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse(), Ok(kernel));
        }
        let refused = forced("avx9").unwrap_err().to_string();
        assert!(refused.contains("\"avx9\"") && refused.contains("gfni-avx512"), "{refused}");
        if let Some(foreign) = Kernel::ALL.into_iter().find(|kernel| !kernel.is_usable()) {
            let refused = forced(foreign.name()).unwrap_err().to_string();
            assert!(refused.contains("cannot run") && refused.contains("scalar"), "{refused}");
        }
        assert_eq!(forced("scalar"), Ok(Kernel::Scalar));
    }

    #[test]
    fn measurement_selects_a_usable_kernel() {
        assert!(race(&kernels()).is_usable());
        assert_eq!(race(&[Kernel::Scalar]), Kernel::Scalar);
        assert_eq!(race(&[]), Kernel::Scalar);
    }
}
