//! The libraries of CUDA: whether they can be loaded, have what is used here, and where they are.
//!
//! Invariant: [`driver`] or [`compiler`] is asked before any function of the library is called, because the bindings
//! panic if the library or a function is missing.
//!
//! Must not depend on: other files of this crate, except the error type.

use cudarc::driver::sys as cuda;
use cudarc::nvrtc::sys as nvrtc;

use crate::Error;

/// The functions of the driver that this crate calls, through the bindings too.
const DRIVER: [&str; 28] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
];

/// The functions of the run-time compiler that this crate calls.
const COMPILER: [&str; 11] = [
    "nvrtcVersion",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetPTXSize",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
];

/// Loads the driver.
///
/// # Errors
/// [`Error::Unavailable`] if it is missing or too old.
pub(crate) fn driver() -> Result<(), Error> {
    // SAFETY: loading a library runs its constructors; that of the driver is made to be loaded by any process.
    if !unsafe { cuda::is_culib_present() } {
        return Err(Error::Unavailable("the CUDA driver (libcuda.so.1) is not installed".to_owned()));
    }
    // SAFETY: as above, and it is there, so this does not panic.
    let library = unsafe { cuda::culib() };
    // SAFETY: the symbol is only looked up, not called.
    let has = |name: &str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    match DRIVER.iter().find(|name| !has(name)) {
        Some(name) => {
            Err(Error::Unavailable(format!("the CUDA driver has no {name}: release 570 or later is needed")))
        }
        None => Ok(()),
    }
}

/// Loads the run-time compiler.
///
/// # Errors
/// [`Error::Unavailable`] if it is missing or too old.
pub(crate) fn compiler() -> Result<(), Error> {
    // SAFETY: loading a library runs its constructors; that of the compiler is made to be loaded by any process.
    if !unsafe { nvrtc::is_culib_present() } {
        let why = "the CUDA compiler (libnvrtc.so, .13 or .12) is not installed, or not in a folder of LD_LIBRARY_PATH";
        return Err(Error::Unavailable(why.to_owned()));
    }
    // SAFETY: as above, and it is there, so this does not panic.
    let library = unsafe { nvrtc::culib() };
    // SAFETY: the symbol is only looked up, not called.
    let has = |name: &str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    match COMPILER.iter().find(|name| !has(name)) {
        Some(name) => Err(Error::Unavailable(format!("the CUDA compiler has no {name}: it is too old"))),
        None => Ok(()),
    }
}

/// The files of CUDA that this process has loaded, from the kernel's list of its mappings; empty where there is
/// no such list.
pub(crate) fn loaded() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mut found: Vec<String> =
        paths.filter(|p| p.contains("libcuda.so") || p.contains("libnvrtc.so")).map(str::to_owned).collect();
    found.dedup();
    found
}
