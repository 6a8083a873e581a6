//! The flags that every command understands.

use std::path::PathBuf;

use clap::Args;

/// The heading of what every command understands.
const ALL: &str = "Options of every command";

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
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn options_of_the_server_are_in_groups_and_those_of_every_command_apart() {
        let mut root = crate::Cli::command();
        root.build();
        let server = root.find_subcommand("server").expect("the server is a command");
        let mut alone = Vec::new();
        for option in server.get_arguments().filter(|o| !o.is_positional() && !o.is_hide_set()) {
            let name = option.get_long().unwrap_or_default();
            if super::Globals::augments(name) {
                assert_eq!(option.get_help_heading(), Some(super::ALL), "{name}");
            } else if option.get_help_heading().is_none() {
                alone.push(name);
            }
        }
        // What one needs to begin with.
        alone.retain(|name| !["help", "version"].contains(name));
        assert_eq!(alone, ["code", "new-deployment", "state-dir", "env-file"]);
    }

    impl super::Globals {
        fn augments(name: &str) -> bool {
            let own = <super::Globals as clap::Args>::augment_args(clap::Command::new("x"));
            own.get_arguments().any(|o| o.get_long() == Some(name))
        }
    }
}
