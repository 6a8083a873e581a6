//! The flags that every command understands.

use std::path::PathBuf;

use clap::Args;

/// The heading of what every command understands.
pub const ALL: &str = "Options of every command";

/// How commands speak and whom they trust.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// One JSON object per line instead of text
    #[arg(long, global = true, help_heading = ALL)]
    pub json: bool,
    /// No progress bars, no notes; results and errors only
    #[arg(long, short, global = true, help_heading = ALL)]
    pub quiet: bool,
    /// No colours (so does the environment variable NO_COLOR)
    #[arg(long, global = true, help_heading = ALL)]
    pub no_color: bool,
    /// The file with the aliases [default: ~/.config/ashlar/config.toml]
    #[arg(long, global = true, help_heading = ALL, value_name = "FILE", env = "ASHLAR_CONFIG")]
    pub config: Option<PathBuf>,
    /// Accept any TLS certificate: for tests only
    #[arg(long, global = true, help_heading = ALL)]
    pub insecure: bool,
    /// Trust this certificate authority (PEM) instead of the system's
    #[arg(long, global = true, help_heading = ALL, value_name = "FILE", env = "ASHLAR_CA")]
    pub ca: Option<PathBuf>,
    /// The whole program's command line, for completions and manual pages; set by `main`.
    #[arg(skip)]
    pub root: Option<fn() -> clap::Command>,
    /// The OpenAPI document of the administration API of this version, for the path before its calls; set by
    /// `main`.
    #[arg(skip)]
    pub api_document: Option<fn(&str) -> serde_json::Value>,
}
