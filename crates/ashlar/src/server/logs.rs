//! Where the server's log goes, and how.

use tracing_subscriber::EnvFilter;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging to standard error. `ASHLAR_LOG` chooses what: `debug` shows every request,
/// `ashlar::request=debug` only those.
pub fn start(form: Form, colour: bool) {
    let filter = EnvFilter::try_from_env("ASHLAR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = match form {
        Form::Text => builder.with_ansi(colour).with_target(false).try_init(),
        Form::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
}
