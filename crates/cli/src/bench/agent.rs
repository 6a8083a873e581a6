//! `ashlar bench agent`: parses, listens, prints what happens.

use std::process::ExitCode;

use ashlar_bench::agent::{Listener, PORT, random_text, serve};

use super::s3::{ended, failed, interrupt};
use crate::Globals;

/// Where an agent listens.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to listen; credentials of the server arrive here unencrypted, so only on a trusted network
    #[arg(long, default_value_t = format!("127.0.0.1:{PORT}"), value_name = "HOST:PORT")]
    listen: String,
    /// What coordinators must know; made and printed if it is not given
    #[arg(long, env = "ASHLAR_BENCH_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Listens until it is interrupted.
pub fn run(args: &Args, globals: &Globals) -> ExitCode {
    let interrupt = interrupt(None);
    let served = (|| {
        let token = match &args.token {
            Some(token) if token.is_empty() => {
                return Err(ashlar_bench::Error::usage("the token must not be empty"));
            }
            Some(token) => token.clone(),
            None => random_text()?,
        };
        let listener = Listener::bind(&args.listen, &token)?;
        eprintln!("agent listens on {}", listener.address()?);
        if args.token.is_none() {
            eprintln!("token: {token}   (give it to the coordinator with --token or ASHLAR_BENCH_TOKEN)");
        }
        serve(&listener, interrupt, &mut |line| eprintln!("{line}"))
    })();
    match served {
        Ok(()) => ended(),
        Err(error) => failed(&error, globals),
    }
}
