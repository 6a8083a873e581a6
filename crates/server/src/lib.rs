//! # ashlar-server: `ashlar server`
//!
//! Reads the configuration, builds the house, listens, and closes in order.
//!
//! | file | what it holds |
//! |---|---|
//! | `credentials`, `places`, `env_file`, `minio_environment` | the configuration, parsed once |
//! | `house`, `drive_monitor` | drives, control store, sets, store; looking after drives |
//! | `deployments` | which folders held a deployment, noted outside of them |
//! | `recovery` | distrusted drives in numbers, brought back by an operator |
//! | `listen`, `connection`, `tls`, `limits` | sockets; what clients share |
//! | `routes`, `admin` | what is not S3: health, administration |
//! | `metrics`, `machine` | metrics of the deployment; of the process and the machine |
//! | `monitor` | live streams: trace, log; what runs; what buckets hold |
//! | `audit` | where requests are recorded; the trail of an administration call |
//! | `table`, `identities`, `reach` | who may administer what; users, groups, keys, policies |
//! | `settings`, `transfer` | configuration that is changed at run time; identities exported and imported |
//! | `kms`, `kms_remote`, `own_key` | keys for encryption at rest; what is configured of key servers; the server's own root key |
//! | `minio` | MinIO's administration API, translated to ours |
//! | `notify`, `events` | the settings of targets for events; how they fare, dead letters |
//! | `quotas` | limits of buckets |
//! | `lifecycle` | carries out lifecycle rules |
//! | `banner`, `logs`, `clock` | what is printed; time |
//!
//! Invariant: nothing is served before the house is whole; nothing is closed before what was in
//! flight has ended or its time is up.
//!
//! Must never know: how a command line of a client looks, how a result of the benchmark is shown.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

mod admin;
mod api;
mod audit;
mod banner;
mod clock;
mod connection;
mod credentials;
mod deployments;
mod drive_monitor;
mod env_file;
mod events;
mod house;
mod identities;
mod kms;
mod kms_remote;
#[cfg(test)]
mod lattice;
mod lifecycle;
mod limits;
mod listen;
mod logs;
mod machine;
mod metrics;
mod minio;
mod minio_environment;
mod monitor;
mod notify;
mod own_key;
mod places;
mod providers;
mod quotas;
mod reach;
mod recovery;
mod region;
mod rollback;
mod routes;
mod settings;
mod surroundings;
mod table;
mod tls;
mod transfer;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ashlar_arguments::{expand, size};
use ashlar_audit::Audit;
use ashlar_cluster::CodeSpec;
use ashlar_events::store::{Feeds, Letters};
use ashlar_events::{Hub, Parsed, Site};
use ashlar_iam::Iam;
use ashlar_idp::Idp;
use ashlar_s3::{Config, Context, Keys, Notices, Origins, Service, Verifier};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use admin::End;
use banner::Banner;
use house::{House, Plan, Started};
use region::Region;

/// How long a stop waits for requests in flight.
const DRAIN: Duration = Duration::from_secs(30);
/// How long it waits for the drives after that.
const CLOSE: Duration = Duration::from_secs(30);
/// How often leftovers of multipart uploads are collected.
const SWEEP: Duration = Duration::from_secs(300);
/// How often the time that locks go by is stored.
const LOCK_TIME: Duration = Duration::from_secs(300);
/// How often it is looked whether buckets have to be counted.
const COUNT: Duration = Duration::from_secs(2);
/// How often all buckets are counted anew.
const COUNT_ALL: Duration = Duration::from_secs(24 * 3600);
/// How often it is stored when access keys were last used.
const USES: Duration = Duration::from_secs(600);
/// Least memory that makes sense.
const MIN_MEMORY: u64 = 64 << 20;

/// Serve S3 from drives.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders, one per drive; `data/drive{1...4}` names four. Blank folders are formatted. Without any,
    /// ASHLAR_DRIVES or MINIO_VOLUMES names them, separated by spaces.
    #[arg(value_name = "DRIVES")]
    drives: Vec<String>,
    /// Erasure code, data plus parity shards, for instance 12+4. Chosen by the number of drives if
    /// left out; fixed for life at the first start.
    #[arg(long, value_name = "K+M", env = "ASHLAR_CODE")]
    code: Option<String>,
    /// Make a new deployment in folders that held one and are empty now; without it such a start is refused,
    /// because the drives may just not be mounted.
    #[arg(long)]
    new_deployment: bool,
    /// Folder, on none of the drives, for the root key that the server makes where none is configured, and for notes of
    /// which folders hold a deployment. Left out: systemd's state directory, /var/lib/ashlar for root, else
    /// ~/.local/state/ashlar.
    #[arg(long, value_name = "DIR", env = "ASHLAR_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// File with NAME=VALUE lines that are taken as environment variables, unless they are set already.
    /// MINIO_CONFIG_ENV_FILE names one too.
    #[arg(long, value_name = "FILE", env = "ASHLAR_ENV_FILE")]
    env_file: Option<PathBuf>,
    /// Where to listen: HOST:PORT, or :PORT for every address of this machine [default: 127.0.0.1:9000].
    #[arg(long, env = "ASHLAR_ADDRESS", help_heading = NETWORK)]
    address: Option<String>,
    /// Where to listen for administration alone: HOST:PORT. It is on the S3 port too.
    #[arg(long, value_name = "ADDRESS", env = "ASHLAR_ADMIN_ADDRESS", help_heading = NETWORK)]
    admin_address: Option<String>,
    /// Taken for compatibility with MinIO; has no effect, because there is no web console yet.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    console_address: Option<String>,
    /// Folder with public.crt and private.key; the server speaks TLS then.
    #[arg(long, visible_alias = "certs-dir", value_name = "DIR", env = "ASHLAR_CERTS", help_heading = NETWORK)]
    certs: Option<PathBuf>,
    /// Domain for virtual-host style requests (BUCKET.DOMAIN); may be given several times.
    #[arg(long, value_name = "DOMAIN", env = "ASHLAR_DOMAIN", value_delimiter = ',', help_heading = NETWORK)]
    domain: Vec<String>,
    /// Domain of websites: BUCKET.DOMAIN shows the website of a bucket; may be given several times.
    #[arg(long, value_name = "DOMAIN", env = "ASHLAR_WEBSITE_DOMAIN", value_delimiter = ',', help_heading = NETWORK)]
    website_domain: Vec<String>,
    /// Origins that browsers may ask from; all, unless given.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', env = "ASHLAR_CORS_ORIGIN", help_heading = NETWORK)]
    cors_origin: Vec<String>,
    /// Region of this server, the only one that clients may sign for (MINIO_SITE_REGION too). Left out: it is
    /// us-east-1, and clients may sign for any.
    #[arg(long, env = "ASHLAR_REGION", help_heading = NETWORK)]
    region: Option<String>,
    /// Refuse Signature Version 2, which covers no body and uses SHA-1.
    #[arg(long, env = "ASHLAR_NO_SIGNATURE_V2", help_heading = NETWORK)]
    no_signature_v2: bool,
    /// Memory for buffers and caches.
    #[arg(long, value_name = "SIZE", default_value = "320MiB", env = "ASHLAR_MEMORY", help_heading = RESOURCES)]
    memory: String,
    /// Worker threads; one per processor if left out.
    #[arg(long, value_name = "N", env = "ASHLAR_THREADS", help_heading = RESOURCES)]
    threads: Option<usize>,
    /// Form of the log on standard error; ASHLAR_LOG=debug logs every request.
    #[arg(long, value_enum, default_value = "text", env = "ASHLAR_LOG_FORMAT", help_heading = LOGS)]
    log: logs::Form,
    /// Log requests that take longer than this many seconds; 0: none.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_SLOW_REQUEST", default_value_t = ashlar_s3::service::SLOW.as_secs(), help_heading = LOGS)]
    slow_request: u64,
    /// Serve metrics to everybody, without a token.
    #[arg(long, env = "ASHLAR_PUBLIC_METRICS", help_heading = LOGS)]
    public_metrics: bool,
    /// How often access logs of buckets are delivered, in seconds.
    #[arg(long, value_name = "SECONDS", env = "ASHLAR_ACCESS_LOG_INTERVAL", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=86400), help_heading = LOGS)]
    access_log_interval: u64,
    /// Bucket of events that could not be delivered; it is made when there is one.
    #[arg(long, value_name = "BUCKET", default_value = "ashlar-dead-letters", env = "ASHLAR_DEAD_LETTERS", help_heading = LOGS)]
    dead_letters: String,
    #[command(flatten, next_help_heading = "Audit log")]
    audit: audit::Args,
    #[command(flatten, next_help_heading = "Encryption keys")]
    kms: kms::Args,
    #[command(flatten, next_help_heading = "Sharing between clients")]
    limits: limits::Args,
}

const NETWORK: &str = "Network";
const RESOURCES: &str = "Resources";
const LOGS: &str = "Logs, metrics and events";
/// Where the server listens if nothing says otherwise.
const ADDRESS: &str = "127.0.0.1:9000";

const EXAMPLES: &str = "\
Examples:
  Four folders on this machine, for trying out:
    ashlar server data/drive{1...4}
  Sixteen drives, any four of which may be lost, for everybody on the network over TLS:
    ashlar server /mnt/disk{1...16} --code 12+4 --address :9000 --certs /etc/ashlar/certs
  Settings of a MinIO installation:
    ashlar server --env-file /etc/default/minio

Root's credentials are read from ASHLAR_ROOT_USER and ASHLAR_ROOT_PASSWORD (or MINIO_ROOT_USER and
MINIO_ROOT_PASSWORD, or files named by these names with _FILE). Without them the first start makes a pair and prints it.";

/// The OpenAPI document of the administration API, for the path before its calls.
pub fn api_document(path: &str) -> serde_json::Value {
    api::document::document(path)
}

/// Runs the server until a signal ends it. `json`: what it prints for people is one JSON object; `colour`: the
/// log may be coloured where it goes to a terminal.
pub fn run(args: Args, json: bool, colour: bool) -> ExitCode {
    let file = args.env_file.clone().or_else(|| std::env::var_os("MINIO_CONFIG_ENV_FILE").map(PathBuf::from));
    if let Err(why) = env_file::enter(file.as_deref()) {
        return fail(&why);
    }
    let colour = colour
        && std::env::var_os("NO_COLOR").is_none()
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    logs::start(args.log, colour);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.clamp(1, 512));
    }
    let runtime = match builder.enable_all().thread_name("ashlar").build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let result = runtime.block_on(serve(args, json));
    // Whatever still runs has had its time.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(End::Restart) => fail(&env_file::restart()),
        Ok(End::Not | End::Stop) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("ashlar server: {why}");
    ExitCode::FAILURE
}

async fn serve(mut args: Args, json: bool) -> Result<End, String> {
    configure(&mut args)?;
    let region = Region::choose(args.region.as_deref(), |name| std::env::var(name).ok())?;
    let paths = expand::drives(&args.drives)?.iter().map(|p| places::absolute(p)).collect();
    let memory = size::parse(&args.memory).map_err(|e| format!("--memory: {e}"))?;
    if memory < MIN_MEMORY {
        return Err(format!("--memory {}: at least {}", args.memory, size::show(MIN_MEMORY)));
    }
    let code = args.code.as_deref().map(CodeSpec::parse).transpose().map_err(|e| format!("--code: {e}"))?;
    let environment = credentials::from_environment(|name| std::env::var(name).ok())?;
    let addresses = listen::resolve(args.address.as_deref().unwrap_or(ADDRESS)).await?;
    let own = match &args.admin_address {
        None => Vec::new(),
        Some(text) => {
            listen::resolve(text).await.map_err(|e| e.replacen("--address", "--admin-address", 1))?
        }
    };
    surroundings::allow(&std::env::var("ASHLAR_OUTBOUND_ALLOW").unwrap_or_default())?;
    let everywhere: Vec<SocketAddr> = addresses.iter().chain(&own).copied().collect();
    if let Some(root) = &environment {
        guard_weak(root, &everywhere)?;
    }
    let certificates = args.certs.as_deref().map(tls::Certificates::open).transpose()?;
    let config = certificates.as_ref().map(tls::Certificates::config).transpose()?;
    warn_without_tls(config.is_some(), &everywhere);
    // Before anything is announced: who reads the banner may already send a signal.
    let mut heard = hear()?;
    // The port is taken first: a second server must not touch the drives.
    let listener = listen::Listener::bind(&addresses, config.clone())?;
    let administration = listen::Listener::bind(&own, config)?.for_administration();
    let mut keys = kms::Configured::read(&args.kms, args.state_dir.as_deref())?;
    let set = |name: &str| std::env::var(name).ok();
    let plan = Plan {
        paths,
        code,
        memory,
        limits: args.limits.memory()?,
        calendar: lifecycle::calendar(set)?,
        deployments: deployments::Deployments::new(args.state_dir.clone(), set),
        new_deployment: args.new_deployment,
    };
    // Drives may not answer: a signal ends the start too.
    let (house, started, drives) = tokio::select! {
        opened = House::open(&plan, environment, &mut keys) => opened?,
        _ = heard.0.recv() => return Ok(End::Stop),
        _ = heard.1.recv() => return Ok(End::Stop),
    };
    guard_weak(&started.root, &everywhere)?;
    let made = (started.origin == credentials::Origin::Generated).then(|| started.root.clone());
    let opened =
        Opened { house, started, drives, region, listener, administration, keys, certificates, heard };
    let outcome = run_node(args, opened, json).await;
    if let (Err(_), Some(root)) = (&outcome, made) {
        // The banner was not printed, and this pair is shown at no later start.
        print(&format!(
            "the server did not start, but its drives are formatted and root's credentials are made:\naccess key  {}\nsecret key  {}\n            shown this once: keep it",
            root.access_key,
            root.secret.expose()
        ));
    }
    outcome
}

/// What a start has opened before it serves.
struct Opened {
    house: Arc<House>,
    started: Started,
    drives: drive_monitor::Start,
    region: Region,
    listener: listen::Listener,
    administration: listen::Listener,
    keys: kms::Configured,
    certificates: Option<Arc<tls::Certificates>>,
    heard: (Signal, Signal),
}

/// Assembles the services over the opened store and serves until the end. Errors come before the banner.
async fn run_node(args: Args, opened: Opened, json: bool) -> Result<End, String> {
    let Opened { house, started, drives, region, listener, administration, keys, certificates, heard } =
        opened;
    let deployment = house.map.load().deployment.to_hex();
    let audit = args.audit.open(&deployment, started.root.secret.expose())?;
    let iam = identities(&house, &started.root).await?;
    let encryption = kms::open(&args.kms, keys, &house).await?;
    let idp = Idp::new(surroundings::around(iam.clone(), args.certs.as_deref())?);
    let (stop, stopping) = watch::channel(false);
    let parsed = Arc::new(Parsed::new(&region.name));
    let hub = targets(&house, &args, &region.name, parsed.clone())?;
    let (listeners, each) = args.limits.listeners();
    let notices = Notices::new(hub.clone(), parsed, stopping.clone()).bounded(listeners, each);
    let service = Arc::new(service(
        &house,
        iam.clone(),
        idp.clone(),
        audit.clone(),
        (&args, &region),
        encryption.clone(),
        notices,
    ));
    let door = providers::Door::new(iam.clone(), idp.clone());
    if let Some(certificates) = &certificates {
        certificates.ask_clients(idp.wants_certificates());
    }
    tokio::spawn(idp.clone().watch_directories());
    let check = checks(idp.clone(), hub.clone());
    tokio::spawn(idp.follow());
    tokio::spawn(iam.clone().follow());
    tokio::spawn(remember_uses(iam.clone()));
    tokio::spawn(clock::tick());
    tokio::spawn(drive_monitor::run(house.clone(), drives));
    tokio::spawn(rollback::run(house.clone()));
    open_feed(&house).await;
    tokio::spawn(notify::follow(hub.clone(), iam.clone(), notify::environment()?));
    tokio::spawn(sweep(house.clone()));
    tokio::spawn(count(house.clone()));
    tokio::spawn(keep_lock_time(house.clone()));
    tokio::spawn(house.lifecycle.clone().run());
    tokio::spawn(deliver_logs(service.clone(), Duration::from_secs(args.access_log_interval)));
    tokio::spawn(trim(house.clone()));
    if let Some(certificates) = &certificates {
        certificates.judge();
        tokio::spawn(certificates.clone().follow());
    }
    service.log_slower_than(Duration::from_secs(args.slow_request));
    let ending: admin::Ending = Arc::new(watch::Sender::new(End::Not));
    let public = args.public_metrics || public_by_environment();
    let keys = kms::Door::new(encryption, house.store.clone());
    let monitor = monitor::Monitor::new(service.tracer().clone(), stopping.clone());
    let admin = admin::Admin::new(service.clone(), house.clone(), door, ending.clone(), check, keys, monitor);
    let name = listener.addresses().first().map(ToString::to_string).unwrap_or_default();
    let routes = routes::Routes::new(service.clone(), house.clone(), public, admin, certificates, name);
    let routes = Arc::new(routes);
    let signals = tokio::spawn(signals(heard, stop, ending.subscribe()));
    for address in administration.addresses() {
        tracing::info!(%address, "administration has a port of its own");
    }
    args.limits.raise_open_files();
    let memory = size::parse(&args.memory).map_err(|e| format!("--memory: {e}"))?;
    let bounds = args.limits.connections(memory);
    announce(&house, &started, &listener, &region.name, json);
    let s3 = listener.serve(routes.clone(), bounds, stopping.clone(), DRAIN);
    tokio::join!(s3, administration.serve(routes, bounds, stopping, DRAIN));
    hub.stop().await;
    if let Err(error) = house.store.keep_lock_time().await {
        tracing::warn!(%error, "the time of locks is not stored; locks may last longer");
    }
    if tokio::time::timeout(CLOSE, service.access_logs().deliver(service.context())).await.is_err() {
        tracing::warn!("access logs could not be delivered in time");
    }
    if tokio::time::timeout(CLOSE, house.close()).await.is_err() {
        tracing::warn!("the drives did not close in time; the next start recovers them");
    }
    // What is recorded is written to its end before anybody hears that the server has stopped.
    tokio::task::block_in_place(|| audit.close());
    signals.abort();
    Ok(*ending.borrow())
}

/// Fills what the command line left open from the environment, MinIO's settings included.
fn configure(args: &mut Args) -> Result<(), String> {
    if args.drives.is_empty()
        && let Ok(drives) = std::env::var("ASHLAR_DRIVES")
    {
        args.drives = drives.split_whitespace().map(str::to_owned).collect();
    }
    let environment: Vec<(String, String)> = std::env::vars().collect();
    for ignored in minio_environment::apply(args, &environment)? {
        tracing::warn!(
            setting = ignored.name,
            instead = ignored.instead,
            "this setting of MinIO has no effect here"
        );
    }
    if args.drives.is_empty() {
        return Err(
            "no drive is named: give folders, for instance data/drive{1...4}, or set ASHLAR_DRIVES".into()
        );
    }
    Ok(())
}

/// MinIO's way to say that metrics are public.
fn public_by_environment() -> bool {
    std::env::var("MINIO_PROMETHEUS_AUTH_TYPE").is_ok_and(|v| v == "public")
}

/// Known pairs serve this machine only.
fn guard_weak(root: &ashlar_s3::Credential, addresses: &[SocketAddr]) -> Result<(), String> {
    if !credentials::is_weak(root) {
        return Ok(());
    }
    match addresses.iter().find(|a| !a.ip().is_loopback()) {
        Some(address) => Err(format!(
            "the root credentials are among those that everybody tries first, and {address} can be reached by others. Choose others (ASHLAR_ROOT_USER, ASHLAR_ROOT_PASSWORD), or listen on 127.0.0.1"
        )),
        None => {
            tracing::warn!(
                "the root credentials are among those that everybody tries first: good for trying things out only"
            );
            Ok(())
        }
    }
}

/// Says what everybody on the way can read and change where others are served without TLS.
fn warn_without_tls(tls: bool, addresses: &[SocketAddr]) {
    if let Some(address) = addresses.iter().find(|a| !tls && !a.ip().is_loopback()) {
        tracing::warn!(
            %address,
            "TLS is off for an address that others can reach: objects, session tokens and customers' keys can be \
             read and changed on the way. Give a certificate (--certs), or put a proxy that speaks TLS in front"
        );
    }
}

fn announce(house: &House, started: &Started, listener: &listen::Listener, region: &str, json: bool) {
    let map = house.map.load();
    let serving = house.slots.lock().iter().filter(|s| s.drive.is_some()).count();
    for slot in house.slots.lock().iter() {
        if let Some(why) = &slot.problem {
            tracing::warn!(drive = %slot.path.display(), why, "drive not in service");
        }
    }
    let warnings = house.warnings();
    for why in &warnings {
        tracing::warn!("{why}");
    }
    let addresses = listener.addresses();
    let tolerance = ashlar_erasure_set::tolerance(map.code.k, map.code.m);
    let banner = Banner {
        addresses: &addresses,
        tls: listener.is_tls(),
        region,
        root: &started.root,
        origin: started.origin,
        drives: (serving, map.members().len()),
        code: map.code.to_string(),
        tolerance: (tolerance.reads, tolerance.writes),
        formatted: started.formatted,
        warnings,
    };
    print(&if json { banner.json() } else { banner.text() });
}

/// Prints for whoever started the server. Nobody may read it (`ashlar server ... | true`): the server goes on.
fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Users and keys, from the control store.
async fn identities(house: &House, root: &ashlar_s3::Credential) -> Result<Arc<Iam>, String> {
    let old = std::env::var("ASHLAR_ROOT_PASSWORD_OLD").ok().map(ashlar_s3::Secret::new);
    let iam = Iam::open(house.control.clone(), root.clone(), old.as_ref(), Arc::new(clock::now_ms)).await;
    iam.map(Arc::new).map_err(|e| e.to_string())
}

/// Asks the room of a subsystem about its settings.
fn checks(idp: Arc<Idp>, hub: Arc<Hub>) -> settings::Check {
    Arc::new(move |subsystem, target, values| {
        let (idp, hub) = (idp.clone(), hub.clone());
        Box::pin(async move {
            match ashlar_idp::Subsystem::find(&subsystem) {
                None => notify::check(&hub, &subsystem, &target, &values),
                Some(of) => idp.check(of, &target, &values).await.map_err(|no| no.to_string()),
            }
        })
    })
}

/// Stores now and then when access keys were last used.
async fn remember_uses(iam: Arc<Iam>) {
    loop {
        tokio::time::sleep(USES).await;
        if let Err(error) = iam.store_uses().await {
            tracing::debug!(%error, "when keys were last used is not stored");
        }
    }
}

/// Where events are sent, once it is configured.
fn targets(house: &House, args: &Args, region: &str, parsed: Arc<Parsed>) -> Result<Arc<Hub>, String> {
    let deployment = house.map.load().deployment.to_hex();
    let site = Site { region: region.to_owned(), host_id: deployment.clone(), deployment };
    let source = Arc::new(Feeds::new(house.store.clone(), parsed));
    let shelf = Arc::new(Letters::new(house.store.clone(), &args.dead_letters, region));
    let authorities = surroundings::authorities(args.certs.as_deref())?;
    Ok(Hub::new(source, shelf, site, authorities, clock::now_ms))
}

fn service(
    house: &House,
    iam: Arc<Iam>,
    idp: Arc<Idp>,
    audit: Arc<Audit>,
    (args, region): (&Args, &Region),
    encryption: ashlar_s3::sse::Encryption,
    notices: Notices,
) -> Service {
    let deployment = house.map.load().deployment;
    let hash = |what: &[u8]| ashlar_checksum::sha256(&[what, deployment.0.as_slice()].concat());
    let hex = |bytes: [u8; 32]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    Service::new(Config {
        context: Context {
            store: house.store.clone(),
            encryption,
            region: region.name.clone(),
            any_region: !region.configured,
            owner_id: hex(hash(b"owner")),
            owner_name: "root".to_owned(),
            clock: clock::now_ms,
            notices,
            people: None,
        },
        verifier: Verifier {
            keys: Keys::over(iam),
            region: region.name.clone(),
            any_region: !region.configured,
            v2: !args.no_signature_v2,
        },
        vouch: Some(idp),
        domains: args.domain.clone(),
        websites: args.website_domain.clone(),
        origins: if args.cors_origin.is_empty() {
            Origins::default()
        } else {
            Origins::new(args.cors_origin.clone())
        },
        audit: Some(audit),
        host_id: hex(hash(b"host")),
    })
}

/// Delivers access logs of buckets now and then, and early when much waits.
async fn deliver_logs(service: Arc<Service>, interval: Duration) {
    let logs = service.access_logs();
    logs.look_again(&service.context().store);
    let mut last = std::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if last.elapsed() >= interval || logs.is_pressing() {
            logs.deliver(service.context()).await;
            last = std::time::Instant::now();
        }
    }
}

/// Opens the change feed; with too few drives, again and again. Until then what is followed is not changed.
async fn open_feed(house: &Arc<House>) {
    let Err(error) = house.store.open_feed().await else { return };
    tracing::warn!(%error, "the change feed is not open yet; tried again until it is");
    let house = house.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if house.store.open_feed().await.is_ok() {
                tracing::info!("the change feed is open");
                return;
            }
        }
    });
}

/// Collects leftovers of uploads, at the start and every few minutes.
async fn sweep(house: Arc<House>) {
    loop {
        match house.store.sweep(clock::now_ms()).await {
            Ok(swept) => tracing::debug!(?swept, "leftovers collected"),
            Err(error) => tracing::debug!(%error, "leftovers not collected"),
        }
        tokio::time::sleep(SWEEP).await;
    }
}

/// Counts buckets: all at the start, and those again whose count cannot be trusted. What happens between is
/// added; now and then all are counted anew all the same.
async fn count(house: Arc<House>) {
    let mut last = std::time::Instant::now();
    let mut failing = false;
    loop {
        let all = last.elapsed() >= COUNT_ALL;
        let counted = house.store.count_uncounted(all).await;
        if all {
            last = std::time::Instant::now();
        }
        if let (Err(error), false) = (&counted, failing) {
            tracing::warn!(%error, "a bucket could not be counted; tried again until it can");
        }
        failing = counted.is_err();
        tokio::time::sleep(COUNT).await;
    }
}

/// Stores the time that locks go by.
async fn keep_lock_time(house: Arc<House>) {
    loop {
        if let Err(error) = house.store.keep_lock_time().await {
            tracing::warn!(%error, "the time of locks is not stored; locks may last longer");
        }
        tokio::time::sleep(LOCK_TIME).await;
    }
}

/// Gives memory back that has been idle.
async fn trim(house: Arc<House>) {
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        house.pool.trim_older(Duration::from_secs(30));
        // The allocator gives pages back only when it frees others: a large block that comes and
        // goes makes it look.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
    }
}

/// Catches Ctrl-C and SIGTERM from now on.
fn hear() -> Result<(Signal, Signal), String> {
    let catch = |kind| signal(kind).map_err(|e| format!("signals cannot be caught: {e}"));
    Ok((catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?))
}

/// The first signal, or an administrator, stops in order; the second signal at once.
async fn signals(
    (mut interrupt, mut terminate): (Signal, Signal),
    stop: watch::Sender<bool>,
    mut ending: watch::Receiver<End>,
) {
    let mut first = true;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Ok(_) = ending.wait_for(|e| *e != End::Not), if first => {}
        }
        if !first {
            std::process::exit(130);
        }
        first = false;
        tracing::info!("stopping: requests in flight may end; a second signal stops at once");
        let _ = stop.send(true);
    }
}
