//! `ashlar server` from start to stop: reads the configuration, builds the node, assembles the services,
//! listens, and closes everything.
//!
//! Invariant: nothing is served before the node is complete; nothing is closed before requests in flight have
//! ended or their time limit has passed.

use ashlar_environment::{process, spawn, time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ashlar_admin::{Admin, Shutdown, ShutdownSender, kms::KeyAdmin, monitor, notify, providers, settings};
use ashlar_arguments::{expand, size};
use ashlar_audit::Audit;
use ashlar_cluster::CodeSpec;
use ashlar_etcd_member::Supervisor;
use ashlar_events::store::{DeadLetterBucket, Feeds};
use ashlar_events::{Parsed, Site, TargetManager};
use ashlar_iam::Iam;
use ashlar_idp::Idp;
use ashlar_node::kms::Configured;
use ashlar_node::{
    Node, Plan, Ring, Started, background, clock, control_members, credentials, deployments, drive_discovery,
    drive_monitor, evacuation, heal_limits, let_go, level_follow, lifecycle, map_follow, rollback,
    start_ring,
};
use ashlar_s3::{Config, Context, Keys, Notifications, Origins, Service, Verifier};
use ashlar_server_options::args::{Args, IoUring, Switch};
use ashlar_server_options::banner::Banner;
use ashlar_server_options::region::Region;
use ashlar_server_options::{cluster, env_file, environment, logs, minio_environment, tls};
use tokio::sync::watch;

use super::routes::ConsoleAt;
use super::signals::{Orders, stop_at_order};
use super::{etcd_member, import, kms, listen, restore, routes, service_tasks};

/// Time limit for requests in flight at a stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Time limit for the drives after that.
const CLOSE: Duration = Duration::from_secs(30);
/// Time limit for each of the last writes: the clock of object locks, access logs, the audit log.
const LAST: Duration = Duration::from_secs(10);
/// Default address.
const ADDRESS: &str = "127.0.0.1:9000";

/// Minimum memory.
const MIN_MEMORY: u64 = 64 << 20;

/// Runs the server until a signal or an administrator ends it. `json`: print the banner as one JSON object;
/// `colour`: the log may be coloured if it goes to a terminal.
pub fn run(args: Args, json: bool, colour: bool) -> ExitCode {
    let file =
        args.env_file.clone().or_else(|| process::variable_os("MINIO_CONFIG_ENV_FILE").map(PathBuf::from));
    if let Err(why) = env_file::enter(file.as_deref()) {
        return fail(&why);
    }
    let colour = colour
        && process::variable_os("NO_COLOR").is_none()
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    logs::start(args.log, colour);
    ashlar_machine::return_free_memory_soon();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.clamp(1, 512));
    }
    let runtime = match builder.enable_all().thread_name("ashlar").build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    // On the heap: the runtime has several loops that poll a future, each of which would contain the whole of it.
    let result = runtime.block_on(Box::pin(async {
        let mut etcd_member = None;
        let result = Box::pin(serve(args, json, &mut etcd_member)).await;
        // After everything that uses it.
        if let Some(member) = etcd_member {
            member.stop().await;
        }
        result
    }));
    // The time limit of remaining tasks has passed.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(Shutdown::Restart) => fail(&env_file::restart()),
        Ok(Shutdown::No | Shutdown::Stop) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

/// What reads drives without threads that wait; the log says if nothing does, and why.
fn ring(wanted: IoUring) -> Option<Arc<Ring>> {
    if wanted == IoUring::Off {
        tracing::info!("io_uring is off: threads read the drives");
        return None;
    }
    match start_ring() {
        Ok(ring) => {
            tracing::info!("io_uring reads large shards of the drives");
            Some(ring)
        }
        Err(error) => {
            tracing::info!(%error, "no io_uring: threads read the drives");
            None
        }
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("ashlar server: {why}");
    ExitCode::FAILURE
}

async fn serve(
    mut args: Args,
    json: bool,
    etcd_member: &mut Option<Arc<Supervisor>>,
) -> Result<Shutdown, String> {
    configure(&mut args)?;
    let region = Region::choose(args.region.as_deref(), |name| process::variable(name))?;
    let paths: Vec<PathBuf> =
        expand::drives(&args.drives)?.iter().map(|p| drive_discovery::absolute(p)).collect();
    if args.cluster.restore || args.cluster.restore_dry_run {
        let address = args.address.as_deref().unwrap_or(ADDRESS);
        return restore::command(&args, address, paths, json, etcd_member).await.map(|()| Shutdown::Stop);
    }
    let memory = size::parse(&args.memory).map_err(|e| format!("--memory: {e}"))?;
    if memory < MIN_MEMORY {
        return Err(format!("--memory {}: at least {}", args.memory, size::show(MIN_MEMORY)));
    }
    let code = args.code.as_deref().map(CodeSpec::parse).transpose().map_err(|e| format!("--code: {e}"))?;
    let environment = credentials::from_environment(|name| process::variable(name))?;
    let addresses = listen::resolve(args.address.as_deref().unwrap_or(ADDRESS)).await?;
    let own = match &args.admin_address {
        None => Vec::new(),
        Some(text) => {
            listen::resolve(text).await.map_err(|e| e.replacen("--address", "--admin-address", 1))?
        }
    };
    let console = match (args.console, &args.console_address) {
        (Switch::On, Some(text)) => {
            listen::resolve(text).await.map_err(|e| e.replacen("--address", "--console-address", 1))?
        }
        _ => Vec::new(),
    };
    environment::apply_outbound_allow(&process::variable("ASHLAR_OUTBOUND_ALLOW").unwrap_or_default())?;
    let everywhere: Vec<SocketAddr> = addresses.iter().chain(&own).chain(&console).copied().collect();
    if let Some(root) = &environment {
        guard_weak(root, &everywhere)?;
    }
    let certificates = args.certs.as_deref().map(tls::Certificates::open).transpose()?;
    let config = certificates.as_ref().map(tls::Certificates::config).transpose()?;
    warn_without_tls(config.is_some(), &everywhere);
    // Before the banner, because a reader of the banner may send a signal at once.
    let mut orders = Orders::catch(args.end_with_input)?;
    // The port is bound first: a second server must not touch the drives.
    let listener = listen::Listener::bind(&addresses, config.clone())?;
    let administration = listen::Listener::bind(&own, config.clone())?.for_administration();
    let console = listen::Listener::bind(&console, config)?.for_console();
    let mut keys = args.kms.read(args.state_dir.as_deref())?;
    let given = cluster::Given {
        address: args.address.as_deref().unwrap_or(ADDRESS),
        tls: certificates.is_some(),
        settings: common_settings(&args, &region, environment.as_ref(), &keys),
    };
    let settings = args.cluster.managed(given.address, args.state_dir.as_deref(), &paths)?;
    if let Some(settings) = settings {
        *etcd_member = Some(etcd_member::start(settings).await?);
    }
    let cluster = args.cluster.plan(given, etcd_member.clone())?;
    let set = |name: &str| process::variable(name);
    let plan = Plan {
        paths,
        code,
        memory,
        drive_kind: args.drive_kind.kind(),
        ring: ring(args.io_uring),
        limits: args.limits.memory()?,
        heal_limits: args.heal.limits(),
        calendar: lifecycle::calendar(set)?,
        deployments: deployments::Deployments::new(args.state_dir.clone(), set),
        new_deployment: args.new_deployment,
        allow_shared_drive: args.allow_shared_drive,
        cluster,
    };
    if args.cluster.import || args.cluster.undo_import {
        let work = async {
            if let Some(member) = etcd_member {
                etcd_member::founded(member).await?;
            }
            import::run(&plan, environment, keys, (args.cluster.undo_import, json)).await
        };
        return tokio::select! {
            done = work => done.map(|()| Shutdown::Stop),
            () = orders.next() => Err("ended by a signal: repeat the import, or undo it (--undo)".to_owned()),
        };
    }
    // Drives may not answer: a signal must end the start too.
    let (node, started, drives) = tokio::select! {
        opened = Node::open(&plan, environment, &mut keys) => opened?,
        () = orders.next() => return Ok(Shutdown::Stop),
    };
    guard_weak(&started.root, &everywhere)?;
    let made = (started.origin == credentials::Origin::Generated).then(|| started.root.clone());
    let opened = Opened {
        node,
        started,
        drives,
        region,
        listener,
        administration,
        console,
        keys,
        certificates,
        orders,
    };
    let outcome = run_node(args, opened, json).await;
    if let (Err(_), Some(root)) = (&outcome, made) {
        // The banner was not printed, and these credentials are not shown at a later start.
        print(&format!(
            "the server did not start, but its drives are formatted and root's credentials are made:\naccess key  {}\nsecret key  {}\n            shown this once: keep it",
            root.access_key,
            root.secret.expose()
        ));
    }
    outcome
}

/// Everything that the start has opened.
struct Opened {
    node: Arc<Node>,
    started: Started,
    drives: drive_monitor::Start,
    region: Region,
    listener: listen::Listener,
    administration: listen::Listener,
    console: listen::Listener,
    keys: Configured,
    certificates: Option<Arc<tls::Certificates>>,
    orders: Orders,
}

/// Assembles the services over the opened store and serves until the end. Errors are returned before the
/// banner.
async fn run_node(args: Args, opened: Opened, json: bool) -> Result<Shutdown, String> {
    let Opened {
        node,
        started,
        drives,
        region,
        listener,
        administration,
        console,
        keys,
        certificates,
        orders,
    } = opened;
    let deployment = node.map.load().deployment.to_hex();
    let audit = args.audit.open(&deployment, started.root.secret.expose())?;
    let iam = identities(&node, &started.root).await?;
    // The work has begun under the limits of the options.
    node.apply_heal_limits(&iam);
    let encryption = kms::open(keys, &node).await?;
    let idp = Idp::new(environment::provider_context(iam.clone(), args.certs.as_deref())?);
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
    let provider_admin = providers::ProviderAdmin::new(iam.clone(), idp.clone());
    if let Some(certificates) = &certificates {
        certificates.ask_clients(idp.wants_certificates());
    }
    spawn("idp-directories", idp.clone().watch_directories());
    let check = checks(idp.clone(), target_manager.clone());
    spawn("idp-follow", idp.follow());
    spawn("iam-follow", iam.clone().follow());
    spawn("heal-limits", heal_limits::follow(node.clone(), iam.clone()));
    spawn("buckets-follow", node.store.follow_buckets());
    spawn("remember-uses", service_tasks::store_key_uses(iam.clone()));
    spawn("clock", clock::tick());
    spawn("drive-monitor", drive_monitor::run(node.clone(), drives));
    spawn("map", map_follow::run(node.clone()));
    spawn("evacuation", evacuation::run(node.clone()));
    spawn("let-go", let_go::run(node.clone()));
    spawn("sequences", rollback::run(node.clone()));
    background::open_feed(&node).await;
    let settings = notify::environment()?;
    // Before the first request, which may name a target.
    notify::apply(&target_manager, &iam, &settings).await;
    spawn("events-follow", notify::follow(target_manager.clone(), iam.clone(), settings));
    spawn("duties", background::divide_duties(node.clone()));
    if node.member.is_some() {
        spawn("feeds", background::take_over_feeds(node.clone()));
        spawn("control-members", control_members::run(node.clone()));
    }
    spawn("sweep", background::sweep(node.clone()));
    spawn("count", background::count(node.clone()));
    spawn("lock-time", background::store_lock_time(node.clone()));
    spawn("lifecycle", node.lifecycle.clone().run());
    spawn(
        "access-logs",
        service_tasks::deliver_logs(service.clone(), Duration::from_secs(args.access_log_interval)),
    );
    spawn("trim", background::trim(node.clone()));
    if let Some(certificates) = &certificates {
        certificates.log_problems();
        spawn("certificates", certificates.clone().follow());
    }
    service.log_slower_than(Duration::from_secs(args.slow_request));
    let shutdown: ShutdownSender = Arc::new(watch::Sender::new(Shutdown::No));
    let public = args.public_metrics || public_by_environment();
    let keys = KeyAdmin::new(encryption, node.store.clone());
    let monitor = monitor::Monitor::new(service.tracer().clone(), stopping.clone());
    let admin =
        Admin::new(service.clone(), node.clone(), provider_admin, shutdown.clone(), check, keys, monitor);
    // Nodes of a cluster may all listen on the same address, such as 0.0.0.0:9000.
    let name = ashlar_admin::own_address(&node);
    let listens = || listener.addresses().first().map(ToString::to_string).unwrap_or_default();
    let name = name.unwrap_or_else(listens);
    let at = console_at(&args, &listener, &console);
    let routes = routes::Routes::new(service.clone(), node.clone(), public, admin, certificates, name, at);
    let routes = Arc::new(routes);
    let unable = level_follow::run(node.clone());
    let ends = shutdown.clone();
    let (told, why_unable) = watch::channel(None);
    spawn("levels", async move {
        let why = unable.await;
        tracing::error!(why, "this node ends");
        told.send_replace(Some(why));
        ends.send_replace(Shutdown::Stop);
    });
    let signals = spawn("signals", stop_at_order(orders, stop, shutdown.subscribe()));
    for address in administration.addresses() {
        tracing::info!(%address, "administration has a separate port");
    }
    args.limits.raise_open_files();
    let memory = size::parse(&args.memory).map_err(|e| format!("--memory: {e}"))?;
    let bounds = args.limits.connections(memory);
    announce(&node, &started, (&listener, &console, at), &region.name, json);
    let s3 = listener.serve(routes.clone(), bounds, stopping.clone(), DRAIN);
    let console = console.serve(routes.clone(), bounds, stopping.clone(), DRAIN);
    tokio::join!(s3, console, administration.serve(routes, bounds, stopping, DRAIN));
    close(&node, &service, &target_manager, audit).await;
    signals.abort();
    if let Some(why) = why_unable.borrow().clone() {
        return Err(why);
    }
    Ok(*shutdown.borrow())
}

/// Closes the services and the node after the last request. Each step has a time limit, so that the process exits
/// even if drives, the control store or a target do not answer.
async fn close(node: &Node, service: &Service, target_manager: &TargetManager, audit: Arc<Audit>) {
    // Their tasks are cancelled.
    let _ = time::timeout(CLOSE, target_manager.stop()).await;
    match time::timeout(LAST, node.store.save_lock_time()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "the clock of object locks cannot be stored; locks may last longer");
        }
        Err(_) => tracing::warn!("the clock of object locks was not stored in time; locks may last longer"),
    }
    if time::timeout(LAST, service.access_logs().deliver(service.context())).await.is_err() {
        tracing::warn!("access logs could not be delivered in time");
    }
    if time::timeout(CLOSE, node.close()).await.is_err() {
        tracing::warn!("the drives did not close in time; the next start recovers them");
    }
    // The audit log is complete before the process exits, unless its drive hangs.
    let (done, closed) = tokio::sync::oneshot::channel();
    let closing = ashlar_environment::thread::run_apart("audit-close", move || {
        audit.close();
        // Nobody waits any more if it took too long.
        let _ = done.send(());
    });
    if closing.is_err() || time::timeout(LAST, closed).await.is_err() {
        tracing::warn!("the audit log was not closed in time; its last records may be missing");
    }
}

/// What must be equal on all nodes of a cluster, by the name that an operator knows.
fn common_settings(
    args: &Args,
    region: &Region,
    root: Option<&ashlar_s3::Credential>,
    keys: &Configured,
) -> BTreeMap<String, String> {
    let text = |text: String| Some(text).filter(|t| !t.is_empty());
    let all = [
        ("the region (--region)", region.configured.then(|| region.name.clone())),
        ("the domain (--domain)", text(args.domain.join(","))),
        ("the domain of websites (--website-domain)", text(args.website_domain.join(","))),
        ("root's access key (ASHLAR_ROOT_USER)", root.map(|r| r.access_key.clone())),
        ("the source of encryption keys (root key, Vault or KES)", text(keys.summary())),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.unwrap_or_default())).collect()
}

/// Completes the options from the environment, including MinIO's settings.
fn configure(args: &mut Args) -> Result<(), String> {
    if args.drives.is_empty()
        && let Some(drives) = process::variable("ASHLAR_DRIVES")
    {
        args.drives = drives.split_whitespace().map(str::to_owned).collect();
    }
    let environment = process::variables();
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

/// Whether MinIO's variable makes metrics public.
fn public_by_environment() -> bool {
    process::variable("MINIO_PROMETHEUS_AUTH_TYPE").is_some_and(|v| v == "public")
}

/// Refuses well-known credentials on addresses that other machines can reach.
fn guard_weak(root: &ashlar_s3::Credential, addresses: &[SocketAddr]) -> Result<(), String> {
    if !credentials::is_weak(root) {
        return Ok(());
    }
    match addresses.iter().find(|a| !a.ip().is_loopback()) {
        Some(address) => Err(format!(
            "the root credentials are well known, and other machines can reach {address}. Choose others (ASHLAR_ROOT_USER, ASHLAR_ROOT_PASSWORD), or listen on 127.0.0.1"
        )),
        None => {
            tracing::warn!("the root credentials are well known: use them for experiments only");
            Ok(())
        }
    }
}

/// Warns if other machines can connect without TLS.
fn warn_without_tls(tls: bool, addresses: &[SocketAddr]) {
    if let Some(address) = addresses.iter().find(|a| !tls && !a.ip().is_loopback()) {
        tracing::warn!(
            %address,
            "TLS is off for an address that others can reach: objects, session tokens and customers' keys can be \
             read and changed on the way. Give a certificate (--certs), or put a proxy that speaks TLS in front"
        );
    }
}

/// Where the web console is.
fn console_at(args: &Args, listener: &listen::Listener, console: &listen::Listener) -> ConsoleAt {
    let port = |l: &listen::Listener| l.addresses().first().map(SocketAddr::port);
    match (args.console, port(console), port(listener)) {
        (Switch::Off, ..) => ConsoleAt::Nowhere,
        (Switch::On, Some(port), Some(s3)) => ConsoleAt::Own { port, s3 },
        (Switch::On, ..) => ConsoleAt::S3Port,
    }
}

fn announce(
    node: &Node,
    started: &Started,
    (listener, console, at): (&listen::Listener, &listen::Listener, ConsoleAt),
    region: &str,
    json: bool,
) {
    let map = node.map.load();
    let serving = node.folders.lock().iter().filter(|s| s.drive.is_some()).count();
    for folder in node.folders.lock().iter() {
        if let Some(why) = &folder.problem {
            tracing::warn!(drive = %folder.path.display(), why, "drive not in service");
        }
    }
    let warnings = node.warnings();
    for why in &warnings {
        tracing::warn!("{why}");
    }
    let addresses = listener.addresses();
    let tolerance = ashlar_erasure_set::tolerance(map.code().k, map.code().m);
    let own_console = console.addresses();
    let banner = Banner {
        console: match at {
            ConsoleAt::Nowhere => None,
            ConsoleAt::S3Port => Some(&addresses),
            ConsoleAt::Own { .. } => Some(&own_console),
        },
        addresses: &addresses,
        tls: listener.is_tls(),
        region,
        root: &started.root,
        origin: started.origin,
        drives: (serving, map.members().len()),
        node: node.member.as_ref().map(|member| (member.cluster(), node.number())),
        code: map.code().to_string(),
        tolerance: (tolerance.reads, tolerance.writes),
        formatted: started.formatted,
        warnings,
    };
    print(&if json { banner.json() } else { banner.text() });
}

/// Prints the banner. A closed standard output (`ashlar server ... | true`) does not stop the server.
pub(super) fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Loads users and keys from the control store.
async fn identities(node: &Node, root: &ashlar_s3::Credential) -> Result<Arc<Iam>, String> {
    let old = process::variable("ASHLAR_ROOT_PASSWORD_OLD").map(ashlar_s3::Secret::new);
    let iam = Iam::open(node.control.clone(), root.clone(), old.as_ref(), Arc::new(clock::now_ms)).await;
    iam.map(Arc::new).map_err(|e| e.to_string())
}

/// The function that checks settings with their subsystem.
fn checks(idp: Arc<Idp>, target_manager: Arc<TargetManager>) -> settings::Check {
    Arc::new(move |subsystem, target, values| {
        let (idp, target_manager) = (idp.clone(), target_manager.clone());
        Box::pin(async move {
            match ashlar_idp::Subsystem::find(&subsystem) {
                None if subsystem == heal_limits::SUBSYSTEM => {
                    heal_limits::HealLimits::default().with(&values).map(drop)
                }
                None => notify::check(&target_manager, &subsystem, &target, &values),
                Some(of) => idp.check(of, &target, &values).await.map_err(|no| no.to_string()),
            }
        })
    })
}

/// The event targets.
fn targets(
    node: &Node,
    args: &Args,
    region: &str,
    parsed: Arc<Parsed>,
) -> Result<Arc<TargetManager>, String> {
    let deployment = node.map.load().deployment.to_hex();
    let site = Site { region: region.to_owned(), host_id: deployment.clone(), deployment };
    let source = Arc::new(Feeds::new(node.store.clone(), parsed));
    let dead_letters = Arc::new(DeadLetterBucket::new(node.store.clone(), &args.dead_letters, region));
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
            me: std::sync::Weak::new(),
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
