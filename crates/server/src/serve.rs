//! `ashlar server` from its start to its end: reads the configuration, builds the node, puts the services together,
//! listens, and closes in order.
//!
//! Invariant: nothing is served before the node is whole; nothing is closed before what was in flight has ended or
//! its time is up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ashlar_arguments::{expand, size};
use ashlar_audit::Audit;
use ashlar_cluster::CodeSpec;
use ashlar_events::store::{Feeds, Letters};
use ashlar_events::{Parsed, Site, TargetManager};
use ashlar_iam::Iam;
use ashlar_idp::Idp;
use ashlar_s3::{Config, Context, Keys, Notifications, Origins, Service, Verifier};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::admin::{self, End};
use super::args::Args;
use super::background;
use super::banner::Banner;
use super::node::Node;
use super::node_start::{Plan, Started};
use super::region::Region;
use super::{
    clock, credentials, deployments, drive_discovery, drive_monitor, env_file, environment, kms, lifecycle,
    listen, logs, minio_environment, monitor, notify, providers, rollback, routes, settings, tls,
};

/// How long a stop waits for requests in flight.
const DRAIN: Duration = Duration::from_secs(30);
/// How long it waits for the drives after that.
const CLOSE: Duration = Duration::from_secs(30);
/// Where the server listens if nothing says otherwise.
const ADDRESS: &str = "127.0.0.1:9000";

/// Least memory that makes sense.
const MIN_MEMORY: u64 = 64 << 20;

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
    let paths = expand::drives(&args.drives)?.iter().map(|p| drive_discovery::absolute(p)).collect();
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
    environment::allow(&std::env::var("ASHLAR_OUTBOUND_ALLOW").unwrap_or_default())?;
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
    let (node, started, drives) = tokio::select! {
        opened = Node::open(&plan, environment, &mut keys) => opened?,
        _ = heard.0.recv() => return Ok(End::Stop),
        _ = heard.1.recv() => return Ok(End::Stop),
    };
    guard_weak(&started.root, &everywhere)?;
    let made = (started.origin == credentials::Origin::Generated).then(|| started.root.clone());
    let opened =
        Opened { node, started, drives, region, listener, administration, keys, certificates, heard };
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
    node: Arc<Node>,
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
    let Opened { node, started, drives, region, listener, administration, keys, certificates, heard } =
        opened;
    let deployment = node.map.load().deployment.to_hex();
    let audit = args.audit.open(&deployment, started.root.secret.expose())?;
    let iam = identities(&node, &started.root).await?;
    let encryption = kms::open(&args.kms, keys, &node).await?;
    let idp = Idp::new(environment::around(iam.clone(), args.certs.as_deref())?);
    let (stop, stopping) = watch::channel(false);
    let parsed = Arc::new(Parsed::new(&region.name));
    let target_manager = targets(&node, &args, &region.name, parsed.clone())?;
    let (listeners, each) = args.limits.listeners();
    let notifications =
        Notifications::new(target_manager.clone(), parsed, stopping.clone()).bounded(listeners, each);
    let service = Arc::new(service(
        &node,
        iam.clone(),
        idp.clone(),
        audit.clone(),
        (&args, &region),
        encryption.clone(),
        notifications,
    ));
    let door = providers::Door::new(iam.clone(), idp.clone());
    if let Some(certificates) = &certificates {
        certificates.ask_clients(idp.wants_certificates());
    }
    tokio::spawn(idp.clone().watch_directories());
    let check = checks(idp.clone(), target_manager.clone());
    tokio::spawn(idp.follow());
    tokio::spawn(iam.clone().follow());
    tokio::spawn(background::remember_uses(iam.clone()));
    tokio::spawn(clock::tick());
    tokio::spawn(drive_monitor::run(node.clone(), drives));
    tokio::spawn(rollback::run(node.clone()));
    background::open_feed(&node).await;
    let settings = notify::environment()?;
    // Before the first request: it may name a target.
    notify::apply(&target_manager, &iam, &settings).await;
    tokio::spawn(notify::follow(target_manager.clone(), iam.clone(), settings));
    tokio::spawn(background::sweep(node.clone()));
    tokio::spawn(background::count(node.clone()));
    tokio::spawn(background::keep_lock_time(node.clone()));
    tokio::spawn(node.lifecycle.clone().run());
    tokio::spawn(background::deliver_logs(service.clone(), Duration::from_secs(args.access_log_interval)));
    tokio::spawn(background::trim(node.clone()));
    if let Some(certificates) = &certificates {
        certificates.judge();
        tokio::spawn(certificates.clone().follow());
    }
    service.log_slower_than(Duration::from_secs(args.slow_request));
    let ending: admin::Ending = Arc::new(watch::Sender::new(End::Not));
    let public = args.public_metrics || public_by_environment();
    let keys = kms::Door::new(encryption, node.store.clone());
    let monitor = monitor::Monitor::new(service.tracer().clone(), stopping.clone());
    let admin = admin::Admin::new(service.clone(), node.clone(), door, ending.clone(), check, keys, monitor);
    let name = listener.addresses().first().map(ToString::to_string).unwrap_or_default();
    let routes = routes::Routes::new(service.clone(), node.clone(), public, admin, certificates, name);
    let routes = Arc::new(routes);
    let signals = tokio::spawn(signals(heard, stop, ending.subscribe()));
    for address in administration.addresses() {
        tracing::info!(%address, "administration has a port of its own");
    }
    args.limits.raise_open_files();
    let memory = size::parse(&args.memory).map_err(|e| format!("--memory: {e}"))?;
    let bounds = args.limits.connections(memory);
    announce(&node, &started, &listener, &region.name, json);
    let s3 = listener.serve(routes.clone(), bounds, stopping.clone(), DRAIN);
    tokio::join!(s3, administration.serve(routes, bounds, stopping, DRAIN));
    target_manager.stop().await;
    if let Err(error) = node.store.keep_lock_time().await {
        tracing::warn!(%error, "the time of locks is not stored; locks may last longer");
    }
    if tokio::time::timeout(CLOSE, service.access_logs().deliver(service.context())).await.is_err() {
        tracing::warn!("access logs could not be delivered in time");
    }
    if tokio::time::timeout(CLOSE, node.close()).await.is_err() {
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

fn announce(node: &Node, started: &Started, listener: &listen::Listener, region: &str, json: bool) {
    let map = node.map.load();
    let serving = node.slots.lock().iter().filter(|s| s.drive.is_some()).count();
    for slot in node.slots.lock().iter() {
        if let Some(why) = &slot.problem {
            tracing::warn!(drive = %slot.path.display(), why, "drive not in service");
        }
    }
    let warnings = node.warnings();
    for why in &warnings {
        tracing::warn!("{why}");
    }
    let addresses = listener.addresses();
    let tolerance = ashlar_erasure_set::tolerance(map.code().k, map.code().m);
    let banner = Banner {
        addresses: &addresses,
        tls: listener.is_tls(),
        region,
        root: &started.root,
        origin: started.origin,
        drives: (serving, map.members().len()),
        code: map.code().to_string(),
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
async fn identities(node: &Node, root: &ashlar_s3::Credential) -> Result<Arc<Iam>, String> {
    let old = std::env::var("ASHLAR_ROOT_PASSWORD_OLD").ok().map(ashlar_s3::Secret::new);
    let iam = Iam::open(node.control.clone(), root.clone(), old.as_ref(), Arc::new(clock::now_ms)).await;
    iam.map(Arc::new).map_err(|e| e.to_string())
}

/// Asks the room of a subsystem about its settings.
fn checks(idp: Arc<Idp>, target_manager: Arc<TargetManager>) -> settings::Check {
    Arc::new(move |subsystem, target, values| {
        let (idp, target_manager) = (idp.clone(), target_manager.clone());
        Box::pin(async move {
            match ashlar_idp::Subsystem::find(&subsystem) {
                None => notify::check(&target_manager, &subsystem, &target, &values),
                Some(of) => idp.check(of, &target, &values).await.map_err(|no| no.to_string()),
            }
        })
    })
}

/// Where events are sent, once it is configured.
fn targets(
    node: &Node,
    args: &Args,
    region: &str,
    parsed: Arc<Parsed>,
) -> Result<Arc<TargetManager>, String> {
    let deployment = node.map.load().deployment.to_hex();
    let site = Site { region: region.to_owned(), host_id: deployment.clone(), deployment };
    let source = Arc::new(Feeds::new(node.store.clone(), parsed));
    let dead_letters = Arc::new(Letters::new(node.store.clone(), &args.dead_letters, region));
    let authorities = environment::authorities(args.certs.as_deref())?;
    Ok(TargetManager::new(source, dead_letters, site, authorities, clock::now_ms))
}

fn service(
    node: &Node,
    iam: Arc<Iam>,
    idp: Arc<Idp>,
    audit: Arc<Audit>,
    (args, region): (&Args, &Region),
    encryption: ashlar_s3::sse::Encryption,
    notifications: Notifications,
) -> Service {
    let deployment = node.map.load().deployment;
    let hash = |what: &[u8]| ashlar_checksum::sha256(&[what, deployment.0.as_slice()].concat());
    let hex = |bytes: [u8; 32]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    Service::new(Config {
        context: Context {
            store: node.store.clone(),
            encryption,
            region: region.name.clone(),
            any_region: !region.configured,
            owner_id: hex(hash(b"owner")),
            owner_name: "root".to_owned(),
            clock: clock::now_ms,
            notifications,
            people: None,
        },
        verifier: Verifier {
            keys: Keys::over(iam),
            region: region.name.clone(),
            any_region: !region.configured,
            v2: !args.no_signature_v2,
        },
        authenticator: Some(idp),
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
