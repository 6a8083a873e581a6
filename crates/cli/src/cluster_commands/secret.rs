//! `ashlar cluster secret`: a secret for nodes that run etcd themselves.
//!
//! Invariant: only the secret goes to the standard output, so that a script can read it. It is kept nowhere.

use ashlar_etcd_member::Secret;
use serde_json::json;

use crate::failure::{Failure, Kind, Outcome};
use crate::output::Output;

/// What `--help` adds.
pub const HELP: &str = "\
The secret is random and is kept nowhere. Every node of the cluster needs the same: in a file that only the user of the server \
can read (`ashlar server --control-secret-file FILE`), or in ASHLAR_CONTROL_SECRET. With it the nodes recognise each other's \
etcd. Whoever has it can read and change the control store.

Examples:
  ashlar cluster secret > control-secret
  ashlar --json cluster secret";

/// Makes a secret and prints it.
pub fn secret(output: &Output) -> Outcome {
    let secret = Secret::generate().map_err(|e| Failure::new(Kind::Failed, e.to_string()))?.to_hex();
    output.result(|| json!({ "secret": secret.as_str() }), || secret.to_string());
    output.note("Give it to every node: --control-secret-file FILE, or ASHLAR_CONTROL_SECRET.");
    Ok(())
}
