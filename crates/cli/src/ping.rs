//! `ashlar ping`, `ashlar ready`, `ashlar share`: health of a server, and links that work without
//! credentials.

use ashlar_environment::time::Instant;
use std::time::Duration;

use ashlar_client::{GetOptions, Method, Target};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    context::Context,
    failure::{Failure, Kind, Outcome, While},
    location::Location,
};

/// Which server to ping, and how often.
#[derive(Args, Debug)]
pub struct PingOptions {
    /// The server's alias
    alias: String,
    /// Number of requests; without it until interrupted
    #[arg(long, short, value_name = "N")]
    count: Option<u64>,
    /// Pause between requests, in seconds
    #[arg(long, short, default_value_t = 1.0, value_name = "SECONDS")]
    interval: f64,
}

/// Which server to check.
#[derive(Args, Debug)]
pub struct ReadyOptions {
    /// The server's alias
    alias: String,
    /// Wait until it is ready, at most this many seconds
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Ready means that every placement group can serve writes
    #[arg(long)]
    cluster_write: bool,
}

/// Links that work without credentials for a limited time.
#[derive(Subcommand, Debug)]
pub enum ShareCommand {
    /// A link to read an object
    Download(ShareOptions),
    /// A link, and a curl command, to write an object
    Upload(ShareOptions),
}

/// What to share.
#[derive(Args, Debug)]
pub struct ShareOptions {
    /// ALIAS/BUCKET/KEY
    target: String,
    /// How long the link works, for instance 12h; at most 7d
    #[arg(long, short = 'E', default_value = "7d", value_name = "AGE")]
    expire: String,
    /// This version
    #[arg(long, visible_alias = "vid")]
    version_id: Option<String>,
}

/// Sends requests and prints the response times.
pub async fn ping(options: &PingOptions, context: &Context) -> Outcome {
    let client = Location::remote(options.alias.trim_end_matches('/'), &context.aliases)?.client;
    if !(0.0..=3600.0).contains(&options.interval) {
        return Err(Failure::usage("--interval must be between 0 and 3600 seconds"));
    }
    let (mut sent, mut failed) = (0u64, 0u64);
    while options.count.is_none_or(|n| sent < n) {
        if sent > 0 {
            ashlar_environment::time::sleep(Duration::from_secs_f64(options.interval)).await;
        }
        sent += 1;
        let begin = Instant::now();
        let answer = client.probe("/minio/health/live").await;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        match answer {
            Ok(()) => context.output.result(
                || json!({ "endpoint": client.config().endpoint, "count": sent, "timeMs": ms }),
                || format!("{:>4}: {}  {ms:.2} ms", sent, client.config().endpoint),
            ),
            Err(error) => {
                failed += 1;
                context.output.failure(&Failure::from(error));
            }
        }
        context.output.flush();
    }
    match failed {
        0 => Ok(()),
        n if n == sent => Err(Failure::new(Kind::Unavailable, "the server did not answer")),
        n => Err(Failure::partly(n)),
    }
}

/// Reports whether a server is ready.
pub async fn ready(options: &ReadyOptions, context: &Context) -> Outcome {
    let client = Location::remote(options.alias.trim_end_matches('/'), &context.aliases)?.client;
    let path = if options.cluster_write { "/minio/health/cluster" } else { "/minio/health/ready" };
    let end = Instant::now() + Duration::from_secs(options.wait.unwrap_or(0));
    loop {
        match client.probe(path).await {
            Ok(()) => break,
            Err(_) if Instant::now() < end => {
                ashlar_environment::time::sleep(Duration::from_millis(250)).await
            }
            Err(error) => {
                let mut failure = Failure::from(error);
                failure.kind = Kind::Unavailable;
                failure.what = format!("`{}` is not ready", options.alias);
                return Err(failure);
            }
        }
    }
    context.output.done(|| json!({ "healthy": true }), || format!("`{}` is ready.", options.alias));
    Ok(())
}

/// Prints a presigned link.
pub async fn share(command: ShareCommand, context: &Context) -> Outcome {
    let (options, method) = match &command {
        ShareCommand::Download(options) => (options, Method::GET),
        ShareCommand::Upload(options) => (options, Method::PUT),
    };
    let remote = Location::remote(&options.target, &context.aliases)?;
    remote.need_key()?;
    let seconds = super::find::age(&options.expire)?.whole_seconds();
    let seconds = u32::try_from(seconds).ok().filter(|s| (1..=604_800).contains(s));
    let seconds = seconds.ok_or_else(|| Failure::usage("--expire must be between 1s and 7d"))?;
    if method == Method::GET {
        // Otherwise only the receiver would notice that the object does not exist.
        let get = GetOptions { version_id: options.version_id.clone(), ..GetOptions::default() };
        let head = remote.client.head_object(&remote.bucket, &remote.key, &get).await;
        head.when(|| format!("cannot share `{remote}`"))?;
    } else if options.version_id.is_some() {
        return Err(Failure::usage("an upload has no version yet"));
    }
    let version: Vec<_> = options.version_id.iter().map(|v| ("versionId", v.as_str())).collect();
    let target = Target::Object(&remote.bucket, &remote.key);
    let url = remote.client.presign(&method, target, &version, seconds)?;
    let curl = format!("curl --upload-file FILE '{url}'");
    context.output.result(
        || json!({ "url": remote.to_string(), "share": url, "timeLeft": seconds, "curl": (method == Method::PUT).then_some(&curl) }),
        || match method == Method::PUT {
            true => format!("{url}\n{curl}"),
            false => url.clone(),
        },
    );
    Ok(())
}
