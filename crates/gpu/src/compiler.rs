//! The run-time compiler: texts of kernels become images that the driver loads.
//!
//! Invariant: a program of the compiler is destroyed on every path.
//!
//! Must not depend on: devices, what the texts compute.
//!
//! Source: NVIDIA, *NVRTC*.

use std::ffi::{CStr, CString};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use crate::{Error, library};

/// The version of the compiler.
///
/// # Errors
/// [`Error::Unavailable`] if there is none.
pub(crate) fn version() -> Result<(i32, i32), Error> {
    library::compiler()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are to integers of ours.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(|e| refused("version", e))?;
    Ok((major, minor))
}

/// The architectures that the compiler knows, ascending.
fn architectures() -> Result<Vec<i32>, Error> {
    let mut count = 0;
    // SAFETY: the pointer is to an integer of ours.
    unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }
        .result()
        .map_err(|e| refused("architectures", e))?;
    let mut all = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the compiler writes as many integers as it said.
    unsafe { sys::nvrtcGetSupportedArchs(all.as_mut_ptr()) }
        .result()
        .map_err(|e| refused("architectures", e))?;
    all.sort_unstable();
    Ok(all)
}

/// Compiles `text` for a device of `architecture` (90 for 9.0): machine code if the compiler knows it, else code
/// for the newest older one that it knows, which the driver translates.
///
/// # Errors
/// [`Error::Unavailable`] without a compiler, [`Error::Compile`] if it refuses the text.
pub(crate) fn compile(text: &str, architecture: i32) -> Result<Vec<u8>, Error> {
    library::compiler()?;
    let known = architectures()?;
    let machine_code = known.contains(&architecture);
    let nearest = known.iter().rfind(|&&a| a <= architecture);
    let Some(&target) = nearest else {
        return Err(Error::Unavailable(format!(
            "the CUDA compiler knows no device as old as {architecture}"
        )));
    };
    let kind = if machine_code { "sm" } else { "compute" };
    let options = [format!("--gpu-architecture={kind}_{target}"), "--std=c++17".to_owned()];
    let text = CString::new(text).map_err(|e| Error::Compile(e.to_string()))?;
    let program = Program(result::create_program(&text, None).map_err(|e| refused("create", e))?);
    // SAFETY: the program was created above and is destroyed when it is dropped.
    if let Err(e) = unsafe { result::compile_program(program.0, &options) } {
        let log: String = program.log().chars().take(2000).collect();
        return Err(Error::Compile(format!("{e:?}: {log}")));
    }
    if machine_code { program.machine_code() } else { program.ptx() }
}

struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program exists.
        match unsafe { result::get_program_log(self.0) } {
            Ok(log) => {
                let bytes: Vec<u8> = log.iter().map(|&c| c as u8).collect();
                CStr::from_bytes_until_nul(&bytes).map_or(String::new(), |l| l.to_string_lossy().into_owned())
            }
            Err(e) => format!("no log: {e:?}"),
        }
    }

    fn ptx(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: the program exists and was compiled.
        let text = unsafe { result::get_ptx(self.0) }.map_err(|e| refused("PTX", e))?;
        Ok(text.iter().map(|&c| c as u8).collect())
    }

    fn machine_code(&self) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program exists and was compiled; the pointer is to an integer of ours.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }.result().map_err(|e| refused("size", e))?;
        let mut image = vec![0u8; size];
        // SAFETY: the compiler writes as many bytes as it said.
        unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) }
            .result()
            .map_err(|e| refused("image", e))?;
        Ok(image)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `create_program`, destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn refused(call: &str, e: NvrtcError) -> Error {
    Error::Compile(format!("{call}: {e:?}"))
}
