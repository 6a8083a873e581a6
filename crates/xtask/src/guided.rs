//! Builds the program by a profile: once so that it counts which code runs often, then, after loads that users have
//! (`tests/speed/train.py`), optimised by the counts (docs/decisions/0084-profile-guided-builds.md).
//!
//! Counts belong to one target: functions of another one have other names. So only programs that this machine can run
//! are built by a profile.
//!
//! Invariant: everything but the program is written below `target/packaging`.
//!
//! Must not depend on: which cargo builds, and for which target.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::programs;
use crate::shell::{Outcome, cargo, read, root, show};

/// The profile of released programs: what everybody builds, optimised across crates.
const PROFILE: &str = "dist";

/// `cargo xtask build`: the program of a release, for this machine.
pub fn run() -> Outcome {
    let host = read(Command::new("rustc").current_dir(root()).args(["--print", "host-tuple"]))?;
    let program = build(cargo, "build", &host, true)?;
    println!("{}", program.display());
    Ok(())
}

/// Builds the program for `target` with a subcommand of a cargo; `guided`: by a profile.
///
/// # Errors
/// A build or a load fails; the output of it says why.
pub fn build(cargo: impl Fn() -> Command, subcommand: &str, target: &str, guided: bool) -> Outcome<PathBuf> {
    let with = |flags: &str, folder: &Path| {
        let arguments = [subcommand, "--profile", PROFILE, "--locked", "--package", "ashlar"];
        let mut command = cargo();
        command.args(arguments).args(["--target", target, "--target-dir"]).arg(folder);
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        command.env("RUSTFLAGS", format!("{given} {flags}").trim());
        show(command.env("CARGO_PROFILE_DIST_STRIP", "symbols"))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(folder.join(target).join(PROFILE).join("ashlar"))
    };
    let out = root().join("target");
    if !guided {
        return with("", &out);
    }
    let folder = out.join("packaging").join(format!("profile-{target}"));
    let counts = folder.join("counts");
    if counts.exists() {
        fs::remove_dir_all(&counts)?;
    }
    let counting = with(&format!("-Cprofile-generate={}", counts.display()), &folder)?;
    programs::install()?;
    show(Command::new("python3").arg(root().join("tests/speed/train.py")).env("ASHLAR_BIN", counting))?;
    let profile = folder.join("ashlar.profdata");
    show(Command::new(profdata()?).args(["merge", "--output"]).args([&profile, &counts]))?;
    with(&format!("-Cprofile-use={}", profile.display()), &out)
}

/// The program that merges counts, of the same LLVM as the compiler.
fn profdata() -> Outcome<PathBuf> {
    show(Command::new("rustup").current_dir(root()).args(["component", "add", "llvm-tools"]))?;
    let libraries = read(Command::new("rustc").current_dir(root()).args(["--print", "target-libdir"]))?;
    let host = Path::new(&libraries).parent().ok_or("rustc has no folder of libraries")?;
    Ok(host.join("bin/llvm-profdata"))
}
