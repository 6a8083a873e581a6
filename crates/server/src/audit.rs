//! The audit log of this server: its settings, and the trail of an administration call.
//!
//! Invariants: nothing is recorded unless it is configured, but for the last refusals, in memory; an
//! administration call is recorded, on stable storage, before its answer goes out; tokens come from the
//! environment, not from the command line, which others can see.

use ashlar_environment::time::Instant;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ashlar_audit::{ApiLayer, Audit, Config, FileConfig, Full, Record, Ticket, WebhookConfig, key_from};
use ashlar_iam::Identity;
use ashlar_outbound::{Class, Rules, is_allowed};
use ashlar_s3::Body;
use ashlar_s3::audit_context::{AuthzDecision, describe, identify};
use http::{HeaderMap, Method, Response, StatusCode, Uri};

use super::admin_request::unrecorded;
use super::clock::now_ms;
use super::connection::Peer;
use super::responses::refused;
use ashlar_arguments::size;

/// Time for a receiver to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where requests are recorded.
#[derive(clap::Args)]
pub struct Args {
    /// Record every request in this file, one line each, chained by hashes.
    #[arg(long, value_name = "PATH", env = "ASHLAR_AUDIT_FILE")]
    audit_file: Option<PathBuf>,
    /// Begin another audit file at this size.
    #[arg(long, value_name = "SIZE", default_value = "128MiB", env = "ASHLAR_AUDIT_FILE_SIZE")]
    audit_file_size: String,
    /// Send a record of every request to this URL, in MinIO's form. The value of its Authorization
    /// header is read from ASHLAR_AUDIT_WEBHOOK_TOKEN.
    #[arg(long, value_name = "URL", env = "ASHLAR_AUDIT_WEBHOOK")]
    audit_webhook: Option<String>,
    /// Folder of the records that wait to be sent; without it they wait in memory.
    #[arg(long, value_name = "DIR", env = "ASHLAR_AUDIT_WEBHOOK_QUEUE")]
    audit_webhook_queue: Option<PathBuf>,
    /// Most records that wait to be sent.
    #[arg(long, value_name = "N", default_value_t = 100_000, env = "ASHLAR_AUDIT_WEBHOOK_QUEUE_SIZE")]
    audit_webhook_queue_size: u64,
    /// Records per request to the receiver; with more than one, a line each.
    #[arg(long, value_name = "N", default_value_t = 1, env = "ASHLAR_AUDIT_WEBHOOK_BATCH")]
    audit_webhook_batch: usize,
    /// What happens when the queue is full: records are dropped and counted, or requests wait and are
    /// refused after 10 s.
    #[arg(long, value_enum, default_value = "drop", env = "ASHLAR_AUDIT_WEBHOOK_FULL")]
    audit_webhook_full: Policy,
    /// Certificate authorities of the receiver, in PEM, in place of the system's.
    #[arg(long, value_name = "FILE", env = "ASHLAR_AUDIT_WEBHOOK_CA")]
    audit_webhook_ca: Option<PathBuf>,
    /// Receivers may be on this machine.
    #[arg(long, env = "ASHLAR_AUDIT_WEBHOOK_ALLOW_LOOPBACK")]
    audit_webhook_allow_loopback: bool,
}

/// What happens when a queue is full.
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
    /// In words.
    pub fn open(&self, deployment: &str, root_secret: &str) -> Result<Arc<Audit>, String> {
        let max_size = size::parse(&self.audit_file_size).map_err(|e| format!("--audit-file-size: {e}"))?;
        let file = self.audit_file.clone().map(|path| FileConfig { path, max_size });
        let webhooks = self.webhooks(&ashlar_environment::process::variables())?;
        let config = Config { deployment: deployment.to_owned(), key: key_from(root_secret), file, webhooks };
        Audit::open(config).map(Arc::new).map_err(|e| format!("the audit log: {e}"))
    }

    /// Ours, then MinIO's: `MINIO_AUDIT_WEBHOOK_ENABLE=on` and `..._ENABLE_NAME=on`.
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

/// The trail of an administration call.
pub struct Trail {
    audit: Arc<Audit>,
    ticket: Ticket,
    began: Instant,
    record: Record,
    who: Option<Arc<Identity>>,
}

impl Trail {
    /// A call begins.
    ///
    /// # Errors
    /// It cannot be recorded, and must not be done.
    pub async fn begin(
        audit: &Arc<Audit>,
        id: &str,
        head: (&Method, &Uri, &HeaderMap),
        peer: &Peer,
    ) -> ashlar_audit::Result<Trail> {
        let ticket = audit.ticket().await?;
        let (method, uri, headers) = head;
        let mut record = Record::new(now_ms(), id, ApiLayer::Admin, peer.address.ip());
        record.method = method.as_str().to_owned();
        record.tls = peer.tls;
        describe(headers, uri, &mut record);
        Ok(Trail { audit: audit.clone(), ticket, began: Instant::now(), record, who: None })
    }

    /// It is known who asks.
    pub fn who(&mut self, who: &Arc<Identity>) {
        identify(who, &mut self.record);
        self.who = Some(who.clone());
    }

    /// It is known what for: a word, and a name.
    pub fn what(&mut self, operation: &'static str, name: &str, received: usize) {
        self.record.operation = operation;
        self.record.key = name.to_owned();
        self.record.bytes_in = received as u64;
    }

    /// It was decided.
    pub fn decided(&mut self, authz_decision: Option<AuthzDecision>, then: Option<&str>) {
        let Some(authz_decision) = authz_decision else { return };
        let allowed = !authz_decision.denies();
        authz_decision.fill(self.who.as_deref(), &mut self.record);
        if let Some(why) = then.filter(|_| allowed) {
            // A rule beyond policies: nobody gives what they have not.
            self.record.decided_by.push_str("; then refused: ");
            self.record.decided_by.push_str(why);
        }
    }

    /// It is answered: records it, then gives the answer that may go out.
    pub async fn end(mut self, response: Response<Body>, error: &'static str) -> Response<Body> {
        self.record.status = response.status().as_u16();
        self.record.error = error;
        self.record.bytes_out = response.body().len();
        self.record.micros = self.began.elapsed().as_micros() as u64;
        if matches!(response.status(), StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) {
            self.audit.refused(&self.record);
        }
        match self.audit.note_and_wait(self.ticket, self.record).await {
            Ok(()) => response,
            Err(error) => {
                tracing::error!(%error, "an administration call was done, and is not recorded yet");
                refused(&unrecorded())
            }
        }
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
    fn minios_names_are_understood() {
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
