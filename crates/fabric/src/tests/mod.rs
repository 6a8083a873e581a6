//! Tests of the crate.

mod document;
mod enclosure;
mod model;
mod paths;
mod served;
mod services;

use std::path::Path;

use crate::setup::Setup;

/// A set-up from the lines behind its ports.
pub(crate) fn setup(folder: &Path, model: &str, rest: &str) -> Setup {
    let ports = "ports = [\"127.0.0.1:{4421...4426}\"]";
    let text = format!("name = \"x\"\nmodel = \"{model}\"\n{ports}\n{rest}");
    crate::parse(&text, folder).unwrap()
}
