//! The context of every command: output and aliases; and a loop over several targets.
//!
//! Must not depend on: the commands.

use super::aliases::Aliases;
use super::failure::{Failure, Kind, Outcome};
use super::output::Output;

/// The context of a command.
pub struct Context {
    /// The output.
    pub output: Output,
    /// The endpoints by name.
    pub aliases: Aliases,
    /// Generates the OpenAPI document of the administration API, for a path prefix.
    pub api_document: Option<fn(&str) -> serde_json::Value>,
}

/// Runs `work` for each of several targets. Failures of single targets are printed, and the command fails in
/// the end; with one target, its failure is that of the command.
pub async fn each<'a, F: Future<Output = Outcome>>(
    context: &Context,
    targets: &'a [String],
    work: impl Fn(&'a str) -> F,
) -> Outcome {
    if let [only] = targets {
        return work(only).await;
    }
    let mut failed = 0;
    for target in targets {
        if let Err(failure) = work(target).await {
            if failure.kind == Kind::Usage {
                return Err(failure);
            }
            context.output.failure(&failure);
            failed += 1;
        }
    }
    if failed == 0 { Ok(()) } else { Err(Failure::partly(failed)) }
}
