//! Options that every command has.

use std::path::PathBuf;

use clap::Args;

/// The heading of these options in help texts.
pub const ALL: &str = "Options of every command";

/// The options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// Print one JSON object per line instead of text
    #[arg(long, global = true, help_heading = ALL)]
    pub json: bool,
    /// Print no progress bars and notes, only results and errors
    #[arg(long, short, global = true, help_heading = ALL)]
    pub quiet: bool,
    /// Print no colours (as the environment variable NO_COLOR does)
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
    /// The command line of the whole program, for completions and manual pages; set by `main`.
    #[arg(skip)]
    pub root: Option<fn() -> clap::Command>,
    /// Generates the OpenAPI document of the administration API of this version, for a path prefix; set by
    /// `main`.
    #[arg(skip)]
    pub api_document: Option<fn(&str) -> serde_json::Value>,
}
