//! Options of the audit log, and its opening.
//!
//! Invariants: nothing is recorded unless it is configured, except the last refusals, which are kept in
//! memory; tokens come from the environment, not from the command line, which other users of the machine can
//! see.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ashlar_arguments::size;
use ashlar_audit::{Audit, Config, FileConfig, Full, WebhookConfig, key_from};
use ashlar_outbound::{Class, Rules, is_allowed};

/// Time limit for the answer of a receiver.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Destinations of audit records.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Record every request in this file, one line each, with a hash chain over the lines.
    #[arg(long, value_name = "PATH", env = "ASHLAR_AUDIT_FILE")]
    audit_file: Option<PathBuf>,
    /// Begin a new audit file when the file reaches this size.
    #[arg(long, value_name = "SIZE", default_value = "128MiB", env = "ASHLAR_AUDIT_FILE_SIZE")]
    audit_file_size: String,
    /// Send a record of every request to this URL, in MinIO's form. The value of its Authorization
    /// header is read from ASHLAR_AUDIT_WEBHOOK_TOKEN.
    #[arg(long, value_name = "URL", env = "ASHLAR_AUDIT_WEBHOOK")]
    audit_webhook: Option<String>,
    /// Folder for records that wait to be sent; by default they wait in memory.
    #[arg(long, value_name = "DIR", env = "ASHLAR_AUDIT_WEBHOOK_QUEUE")]
    audit_webhook_queue: Option<PathBuf>,
    /// Maximum number of records that wait to be sent.
    #[arg(long, value_name = "N", default_value_t = 100_000, env = "ASHLAR_AUDIT_WEBHOOK_QUEUE_SIZE")]
    audit_webhook_queue_size: u64,
    /// Records per request to the receiver; more than one are sent as one JSON object per line.
    #[arg(long, value_name = "N", default_value_t = 1, env = "ASHLAR_AUDIT_WEBHOOK_BATCH")]
    audit_webhook_batch: usize,
    /// What happens when the queue is full: `drop` drops and counts records; `wait` delays requests and
    /// refuses them after 10 s.
    #[arg(long, value_enum, default_value = "drop", env = "ASHLAR_AUDIT_WEBHOOK_FULL")]
    audit_webhook_full: Policy,
    /// Certificate authorities that may sign the receiver's certificate, in PEM, instead of the system's.
    #[arg(long, value_name = "FILE", env = "ASHLAR_AUDIT_WEBHOOK_CA")]
    audit_webhook_ca: Option<PathBuf>,
    /// Allow receivers on this machine.
    #[arg(long, env = "ASHLAR_AUDIT_WEBHOOK_ALLOW_LOOPBACK")]
    audit_webhook_allow_loopback: bool,
}

/// What happens when the queue of records is full.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Policy {
    /// Records are dropped.
    Drop,
    /// Requests wait.
    Wait,
}

impl Args {
    /// Opens the audit log.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn open(&self, deployment: &str, root_secret: &str) -> Result<Arc<Audit>, String> {
        let max_size = size::parse(&self.audit_file_size).map_err(|e| format!("--audit-file-size: {e}"))?;
        let file = self.audit_file.clone().map(|path| FileConfig { path, max_size });
        let webhooks = self.webhooks(&ashlar_environment::process::variables())?;
        let config = Config { deployment: deployment.to_owned(), key: key_from(root_secret), file, webhooks };
        Audit::open(config).map(Arc::new).map_err(|e| format!("the audit log: {e}"))
    }

    /// The webhook of our options, then MinIO's: `MINIO_AUDIT_WEBHOOK_ENABLE=on` and `..._ENABLE_NAME=on`.
    fn webhooks(&self, environment: &[(String, String)]) -> Result<Vec<WebhookConfig>, String> {
        let get = |name: &str| environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let authorities = match &self.audit_webhook_ca {
            None => Vec::new(),
            Some(path) => {
                vec![std::fs::read(path).map_err(|e| format!("--audit-webhook-ca {}: {e}", path.display()))?]
            }
        };
        let rules = Rules {
            allow_loopback: self.audit_webhook_allow_loopback || is_allowed(Class::Loopback),
            allow_link_local: is_allowed(Class::LinkLocal),
            authorities,
            timeout: TIMEOUT,
            max_body: 64 * 1024,
            ..Rules::default()
        };
        let full = match self.audit_webhook_full {
            Policy::Drop => Full::Drop,
            Policy::Wait => Full::Wait,
        };
        let mut all = Vec::new();
        if let Some(url) = self.audit_webhook.clone().filter(|u| !u.is_empty()) {
            all.push(WebhookConfig {
                name: "ashlar".into(),
                url,
                token: get("ASHLAR_AUDIT_WEBHOOK_TOKEN"),
                queue_dir: self.audit_webhook_queue.clone(),
                queue_size: self.audit_webhook_queue_size,
                batch: self.audit_webhook_batch,
                full,
                rules: rules.clone(),
            });
        }
        for (name, value) in environment {
            let Some(of) = name.strip_prefix("MINIO_AUDIT_WEBHOOK_ENABLE") else { continue };
            if !["on", "true", "1", "yes", "enable", "enabled"].contains(&value.to_ascii_lowercase().as_str())
            {
                continue;
            }
            let setting =
                |what: &str| get(&format!("MINIO_AUDIT_WEBHOOK_{what}{of}")).filter(|v| !v.is_empty());
            let url = setting("ENDPOINT")
                .ok_or_else(|| format!("{name} is on, MINIO_AUDIT_WEBHOOK_ENDPOINT{of} is missing"))?;
            for what in ["CLIENT_CERT", "CLIENT_KEY", "PROXY"] {
                if setting(what).is_some() {
                    return Err(format!("MINIO_AUDIT_WEBHOOK_{what}{of} is not implemented by this server"));
                }
            }
            let number = |what: &str, default: u64| match setting(what) {
                None => Ok(default),
                Some(text) => text.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(|| {
                    format!("MINIO_AUDIT_WEBHOOK_{what}{of}={text}: a number above 0 is expected")
                }),
            };
            let label = of.trim_start_matches('_');
            all.push(WebhookConfig {
                name: if label.is_empty() { "audit-_".into() } else { format!("audit-{label}") },
                url,
                token: setting("AUTH_TOKEN"),
                queue_dir: setting("QUEUE_DIR").map(PathBuf::from),
                queue_size: number("QUEUE_SIZE", 100_000)?,
                batch: number("BATCH_SIZE", 1)? as usize,
                full,
                rules: rules.clone(),
            });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn minio_audit_variables_parse() {
        let args = Cli::parse_from(["x", "--audit-webhook-full", "wait"]).args;
        let environment = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
        };
        let all = args
            .webhooks(&environment(&[
                ("MINIO_AUDIT_WEBHOOK_ENABLE", "on"),
                ("MINIO_AUDIT_WEBHOOK_ENDPOINT", "https://a/"),
                ("MINIO_AUDIT_WEBHOOK_ENABLE_two", "true"),
                ("MINIO_AUDIT_WEBHOOK_ENDPOINT_two", "https://b/"),
                ("MINIO_AUDIT_WEBHOOK_AUTH_TOKEN_two", "Bearer x"),
                ("MINIO_AUDIT_WEBHOOK_QUEUE_DIR_two", "/q"),
                ("MINIO_AUDIT_WEBHOOK_BATCH_SIZE_two", "10"),
                ("MINIO_AUDIT_WEBHOOK_ENABLE_three", "off"),
            ]))
            .unwrap();
        let urls: Vec<_> = all.iter().map(|w| (w.name.as_str(), w.url.as_str(), w.batch)).collect();
        assert_eq!(urls, [("audit-_", "https://a/", 1), ("audit-two", "https://b/", 10)]);
        assert_eq!(all[1].token.as_deref(), Some("Bearer x"));
        assert_eq!((all[1].queue_dir.clone(), all[1].full), (Some("/q".into()), Full::Wait));
        for bad in [
            &[("MINIO_AUDIT_WEBHOOK_ENABLE", "on")][..],
            &[
                ("MINIO_AUDIT_WEBHOOK_ENABLE", "on"),
                ("MINIO_AUDIT_WEBHOOK_ENDPOINT", "https://a/"),
                ("MINIO_AUDIT_WEBHOOK_QUEUE_SIZE", "many"),
            ],
            &[
                ("MINIO_AUDIT_WEBHOOK_ENABLE", "on"),
                ("MINIO_AUDIT_WEBHOOK_ENDPOINT", "https://a/"),
                ("MINIO_AUDIT_WEBHOOK_PROXY", "http://p/"),
            ],
        ] {
            assert!(args.webhooks(&environment(bad)).is_err(), "{bad:?}");
        }
    }
}
