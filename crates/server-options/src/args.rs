//! The options of `ashlar server`, and the environment variables with the same effect.
//!
//! Must not depend on: the code that uses the options.

use std::path::PathBuf;

use ashlar_node::DriveKind;

use super::{audit, cluster, kms, limits, logs};

/// Serve S3 from drives.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders, one per drive; `data/drive{1...4}` names four. Blank folders are formatted. Without this
    /// argument, ASHLAR_DRIVES or MINIO_VOLUMES names the folders, separated by spaces.
    #[arg(value_name = "DRIVES")]
    pub drives: Vec<String>,
    /// Erasure code as data plus parity shards, for instance 12+4. By default it depends on the number of
    /// drives. It is fixed at the first start.
    #[arg(long, value_name = "K+M", env = "ASHLAR_CODE")]
    pub code: Option<String>,
    /// Create a new deployment in folders that held one and are empty now. Without this option such a start
    /// is refused, because the drives may only be unmounted.
    #[arg(long)]
    pub new_deployment: bool,
    /// Create a deployment, form a cluster, or let a blank drive replace another one, although the loss of a disk, of which
    /// several drives are parts (namespaces, partitions), loses objects.
    #[arg(long, env = "ASHLAR_ALLOW_SHARED_DRIVE")]
    pub allow_shared_drive: bool,
    /// Folder for the generated root key and for notes about which folders hold a deployment. It must not be
    /// on a drive. By default it is systemd's state directory, /var/lib/ashlar for root, else
    /// ~/.local/state/ashlar.
    #[arg(long, value_name = "DIR", env = "ASHLAR_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// File with NAME=VALUE lines. Each sets an environment variable, unless it is set already.
    /// MINIO_CONFIG_ENV_FILE names such a file too.
    #[arg(long, value_name = "FILE", env = "ASHLAR_ENV_FILE")]
    pub env_file: Option<PathBuf>,
    /// Address to listen on: HOST:PORT, or :PORT for every address of this machine [default: 127.0.0.1:9000].
    #[arg(long, env = "ASHLAR_ADDRESS", help_heading = NETWORK)]
    pub address: Option<String>,
    /// Separate address for the administration API: HOST:PORT. The S3 port answers it too.
    #[arg(long, value_name = "ADDRESS", env = "ASHLAR_ADMIN_ADDRESS", help_heading = NETWORK)]
    pub admin_address: Option<String>,
    /// Whether the web console is served: at /console/ of the S3 port, or at --console-address.
    #[arg(long, value_enum, default_value = "on", env = "ASHLAR_CONSOLE", help_heading = NETWORK)]
    pub console: Switch,
    /// Separate address for the web console: HOST:PORT. The S3 port then sends browsers there.
    #[arg(long, value_name = "ADDRESS", env = "ASHLAR_CONSOLE_ADDRESS", help_heading = NETWORK)]
    pub console_address: Option<String>,
    /// Folder with public.crt and private.key; turns TLS on.
    #[arg(long, visible_alias = "certs-dir", value_name = "DIR", env = "ASHLAR_CERTS", help_heading = NETWORK)]
    pub certs: Option<PathBuf>,
    /// Domain for virtual-host style requests (BUCKET.DOMAIN); may be given several times.
    #[arg(long, value_name = "DOMAIN", env = "ASHLAR_DOMAIN", value_delimiter = ',', help_heading = NETWORK)]
    pub domain: Vec<String>,
    /// Domain of websites: BUCKET.DOMAIN serves the website of a bucket; may be given several times.
    #[arg(long, value_name = "DOMAIN", env = "ASHLAR_WEBSITE_DOMAIN", value_delimiter = ',', help_heading = NETWORK)]
    pub website_domain: Vec<String>,
    /// Origins that browsers may send requests from; all by default.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', env = "ASHLAR_CORS_ORIGIN", help_heading = NETWORK)]
    pub cors_origin: Vec<String>,
    /// Region of this server, the only one that clients may sign for; MINIO_SITE_REGION sets it too. By
    /// default the region is us-east-1 and clients may sign for any region.
    #[arg(long, env = "ASHLAR_REGION", help_heading = NETWORK)]
    pub region: Option<String>,
    /// Refuse Signature Version 2, which does not cover bodies and uses SHA-1.
    #[arg(long, env = "ASHLAR_NO_SIGNATURE_V2", help_heading = NETWORK)]
    pub no_signature_v2: bool,
    /// Memory for buffers and caches.
    #[arg(long, value_name = "SIZE", default_value = "320MiB", env = "ASHLAR_MEMORY", help_heading = RESOURCES)]
    pub memory: String,
    /// What the drives are: hard disks are read and written in longer pieces, in the order of their places. auto: a drive that
    /// the kernel says rotates is a hard disk if its flushes, or reads at other places, take milliseconds.
    #[arg(long, value_enum, default_value = "auto", env = "ASHLAR_DRIVE_KIND", help_heading = RESOURCES)]
    pub drive_kind: DriveKindName,
    /// Whether shards of large objects are read by io_uring, without threads that wait, where the kernel permits it.
    #[arg(long, value_enum, default_value = "auto", env = "ASHLAR_IO_URING", help_heading = RESOURCES)]
    pub io_uring: IoUring,
    /// Worker threads; one per processor by default.
    #[arg(long, value_name = "N", env = "ASHLAR_THREADS", help_heading = RESOURCES)]
    pub threads: Option<usize>,
    /// Format of the log on standard error; ASHLAR_LOG=debug logs every request.
    #[arg(long, value_enum, default_value = "text", env = "ASHLAR_LOG_FORMAT", help_heading = LOGS)]
    pub log: logs::Form,
    /// Log requests that take longer than this many seconds; 0 logs none.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_SLOW_REQUEST", default_value_t = ashlar_s3_protocol::trace::SLOW.as_secs(), help_heading = LOGS)]
    pub slow_request: u64,
    /// Serve metrics without a token.
    #[arg(long, env = "ASHLAR_PUBLIC_METRICS", help_heading = LOGS)]
    pub public_metrics: bool,
    /// Seconds between deliveries of access logs of buckets.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_ACCESS_LOG_INTERVAL", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=86400), help_heading = LOGS)]
    pub access_log_interval: u64,
    /// Bucket for events that could not be delivered; it is created when the first event is stored.
    #[arg(long, value_name = "BUCKET", default_value = "ashlar-dead-letters", env = "ASHLAR_DEAD_LETTERS", help_heading = LOGS)]
    pub dead_letters: String,
    /// End when the standard input ends: for a program that starts servers and must not leave them behind.
    #[arg(long, hide = true)]
    pub end_with_input: bool,
    /// Of a node of a cluster.
    #[command(flatten, next_help_heading = "Cluster")]
    pub cluster: cluster::Args,
    /// Of the audit log.
    #[command(flatten, next_help_heading = "Audit log")]
    pub audit: audit::Args,
    /// Of encryption keys.
    #[command(flatten, next_help_heading = "Encryption keys")]
    pub kms: kms::Args,
    /// Of what clients share.
    #[command(flatten, next_help_heading = "Sharing between clients")]
    pub limits: limits::Args,
    /// Of healing and scrub.
    #[command(flatten, next_help_heading = "Healing and scrub")]
    pub heal: limits::HealArgs,
}

/// What the drives are.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a comment would make the help a list of the three words")]
pub enum DriveKindName {
    Auto,
    Ssd,
    Hdd,
}

impl DriveKindName {
    /// As the drives are told.
    #[must_use]
    pub fn kind(self) -> DriveKind {
        match self {
            DriveKindName::Auto => DriveKind::Auto,
            DriveKindName::Ssd => DriveKind::Ssd,
            DriveKindName::Hdd => DriveKind::Hdd,
        }
    }
}

/// Whether io_uring is used.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a comment would make the help a list of the two words")]
pub enum IoUring {
    Auto,
    Off,
}

/// On or off.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a comment would make the help a list of the two words")]
pub enum Switch {
    On,
    Off,
}

const NETWORK: &str = "Network";
const RESOURCES: &str = "Resources";
const LOGS: &str = "Logs, metrics and events";
const EXAMPLES: &str = "\
Examples:
  Four folders on this machine, for trying out:
    ashlar server data/drive{1...4}
  Sixteen drives, any four of which may be lost, for everybody on the network over TLS:
    ashlar server /mnt/disk{1...16} --code 12+4 --address :9000 --certs /etc/ashlar/certs
  Settings of a MinIO installation:
    ashlar server --env-file /etc/default/minio
  One of four nodes of a cluster, the same command on each with its own address:
    ashlar server --control etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 --cluster prod --nodes 4 \
                  --address 10.0.0.4:9000 /mnt/disk{1...4}

Root's credentials are read from ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD (or MINIO_ROOT_USER and
MINIO_ROOT_PASSWORD, or files named by these names with _FILE). Without them the first start makes a pair and prints it.";
