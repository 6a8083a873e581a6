//! `ashlar root-key`: generates the file for `--kms-root-key-file`.
//!
//! Invariants: an existing file is never overwritten; a key is never printed.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ashlar_kms::{Secret, passphrase_from, root_from, seal_root};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::failure::{Failure, Kind, Outcome};
use crate::{
    Globals,
    output::{Output, finish},
};

/// Actions on root keys.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Generate a root key in a new file
    New(NewOptions),
    /// Write a root key to another file, sealed under a passphrase
    Seal(SealOptions),
}

/// The file of a new root key.
#[derive(clap::Args, Debug)]
pub struct NewOptions {
    /// The file
    file: PathBuf,
    /// Seal it under the passphrase in ASHLAR_KMS_ROOT_KEY_PASSPHRASE, or in the file that
    /// ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE names
    #[arg(long)]
    sealed: bool,
}

/// The files of a root key to seal.
#[derive(clap::Args, Debug)]
pub struct SealOptions {
    /// The file with the root key
    from: PathBuf,
    /// The new, sealed file; the passphrase is read from ASHLAR_KMS_ROOT_KEY_PASSPHRASE, or from
    /// the file that ASHLAR_KMS_ROOT_KEY_PASSPHRASE_FILE names
    to: PathBuf,
}

fn variable(name: &str) -> Option<String> {
    ashlar_environment::process::variable(name)
}

fn usage(what: &str, why: impl ToString) -> Failure {
    Failure { kind: Kind::Usage, what: what.to_owned(), cause: why.to_string(), server: None }
}

/// Runs the command.
pub fn run(command: &Command, globals: &Globals) -> std::process::ExitCode {
    let output = Output::new(globals);
    finish(&output, make(command, &output))
}

fn make(command: &Command, output: &Output) -> Outcome {
    let (key, file, sealed) = match command {
        Command::New(o) => (Secret::generate(), &o.file, o.sealed),
        Command::Seal(o) => {
            let what = format!("cannot read {}", o.from.display());
            let root = root_from(Some(&o.from), |name| {
                name.starts_with("ASHLAR_KMS_ROOT_KEY_PASSPHRASE").then(|| variable(name)).flatten()
            });
            let root = root.map_err(|e| usage(&what, e))?;
            (root.ok_or_else(|| usage(&what, "there is no key in it"))?.key, &o.to, true)
        }
    };
    let text = if sealed {
        let passphrase = passphrase_from(variable).map_err(|e| usage("cannot seal", e))?;
        let passphrase = passphrase.ok_or_else(|| {
            usage("cannot seal", "there is no passphrase in ASHLAR_KMS_ROOT_KEY_PASSPHRASE")
        })?;
        seal_root(&key, &passphrase).map_err(|e| usage("cannot seal", e))?
    } else {
        format!("{}\n", STANDARD.encode(key.expose()))
    };
    write(file, &text)?;
    let said = format!(
        "{} holds a root key. Keep a copy: without it, nothing that it seals can be opened.",
        file.display()
    );
    output.done(|| serde_json::json!({"file": file.display().to_string(), "sealed": sealed}), || said);
    Ok(())
}

/// Writes a new file that only its owner can read; it is durable when this returns.
fn write(file: &Path, text: &str) -> Outcome {
    let cannot = |e: std::io::Error| Failure {
        kind: Kind::Failed,
        what: format!("cannot write {}", file.display()),
        cause: e.to_string(),
        server: None,
    };
    let mut to =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(cannot)?;
    to.write_all(text.as_bytes()).and_then(|()| to.sync_all()).map_err(cannot)
}
