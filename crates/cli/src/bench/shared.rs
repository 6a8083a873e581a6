//! Shared functions of the commands about drives, networks and plans: result files, failures, tables.

use std::path::Path;

use ashlar_bench::{
    Error,
    load::{Select, Target},
    wire::{Keys, Payload},
};
use ashlar_bench_report::{
    quantity,
    result::{Run, file, redact},
};
use comfy_table::{CellAlignment, Table};

use super::{results, s3};
use crate::{
    Globals,
    aliases::Aliases,
    failure::{Failure, Kind, Outcome},
    output::{Output, empty_table},
};

/// The failure for an error of the crate `bench`.
pub fn failed(error: Error) -> Failure {
    let kind = match &error {
        Error::Usage(_) => Kind::Usage,
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Kind::NotFound,
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => Kind::Denied,
        _ => Kind::Failed,
    };
    Failure::new(kind, error.to_string())
}

/// Writes a result to the file of `--out`.
pub fn store(out: Option<&Path>, run: &Run) -> Outcome {
    let Some(path) = out else { return Ok(()) };
    file::store(path, run).map_err(results::failed)
}

/// The command line for the result, without secrets.
pub fn command() -> Vec<String> {
    redact::command(
        ashlar_environment::process::arguments().into_iter().map(|a| a.to_string_lossy().into_owned()),
    )
}

/// The connection settings of an alias, for a load.
pub fn target(globals: &Globals, aliases: &Aliases, name: &str) -> Outcome<Target> {
    // The client of the alias reports errors in its settings.
    aliases.client(name)?;
    let known = aliases.get(name);
    let known = known.ok_or_else(|| Failure::new(Kind::NotFound, format!("no alias `{name}`")))?;
    let keys = Keys {
        access: known.access_key.clone(),
        secret: known.secret_key.clone(),
        token: known.session_token.clone(),
        region: known.region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
    };
    Ok(Target {
        endpoints: vec![known.url.clone()],
        keys: (!known.access_key.is_empty()).then_some(keys),
        insecure: globals.insecure,
        authority: globals.ca.as_ref().map(std::fs::read_to_string).transpose()?,
        virtual_host: matches!(known.path.as_deref(), Some("off" | "dns")),
        select: Select::RoundRobin,
        timeout_s: 60.0,
        payload: Payload::Signed,
        checksum: None,
    })
}

/// A table; the first `left` columns are text, the others numbers.
pub fn table(header: &[&str], left: usize) -> Table {
    let mut table = empty_table();
    table.set_header(header.iter().copied());
    for (i, column) in table.column_iter_mut().enumerate() {
        if i >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints the caveats of a result.
pub fn caveats(output: &Output, run: &Run) {
    for caveat in run.caveats.iter().filter(|_| !output.json) {
        output.result(|| serde_json::Value::Null, || results::caveat_text(output, caveat));
    }
}

/// Parses a size on the command line.
pub fn size(text: &str) -> Result<u64, String> {
    quantity::parse_size(text).map_err(|e| e.to_string())
}

/// Parses a rate on the command line.
pub fn rate(text: &str) -> Result<f64, String> {
    quantity::parse_rate(text).map_err(|e| e.to_string())
}

/// Parses a time on the command line, at most a day, in seconds: `10`, `10s`, `2m`, `500ms`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let value = s3::duration(text)?.as_secs_f64();
    if value <= 86_400.0 { Ok(value) } else { Err("at most a day".to_owned()) }
}
