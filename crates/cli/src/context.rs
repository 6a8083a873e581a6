//! What every command works with: where it prints, the aliases; and work on several targets.
//!
//! Must not depend on: the commands.

use super::aliases::Aliases;
use super::failure::{Failure, Kind, Outcome};
use super::output::Output;

/// What commands work with.
pub struct Context {
    /// Where it prints.
    pub output: Output,
    /// The endpoints by name.
    pub aliases: Aliases,
    /// The document of the administration API, for a path before its calls.
    pub api_document: Option<fn(&str) -> serde_json::Value>,
}

/// Runs `work` for each of several targets; failures of single ones are printed, and the command
/// fails in the end. With one target its failure is the command's.
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
