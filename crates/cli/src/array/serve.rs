//! `ashlar array serve`: the process that owns groups, until a signal ends it.
//!
//! Must not depend on: the other verbs.

use std::path::PathBuf;
use std::time::Duration;

use ashlar_arguments::{expand, size};
use ashlar_array::{Endpoint, IoPolicy, Options, Process, RemoteOptions, Wanted, api};
use ashlar_nvme_tcp::TlsMode;
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use super::show::{state_tone, volume_addresses};
use crate::fabric::secrets::Secrets;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, Tone, size_text};

/// The help text after the options.
pub const HELP: &str = "\
Opens the groups that the drives belong to, recovers them if they were not closed, lets hot spares take the place of failed \
drives, rebuilds and checks in the background, and exports every virtual drive over NBD as GROUP/NAME, over NVMe/TCP as a \
namespace of a subsystem for each group, to virtual machines of this host (vhost-user-blk) as DIR/GROUP/NAME.sock, and as block \
devices of this machine (ublk) with links DIR/GROUP/NAME. All other commands of `ashlar array` ask this process over its socket; whoever can open the socket may do everything. SIGTERM and Ctrl-C answer \
the requests that have arrived and close the groups.

With --ublk the block devices stay when the process ends or is killed: their requests wait, and the next process with the same drives \
and --ublk goes on with them. `delete vd`, `delete dg` and `stop dg` delete them. It needs root and the kernel's module ublk_drv.

NBD has no passwords. An address of other machines therefore needs --certs and --client-ca, or --allow-anyone. With --nvme-hosts \
only hosts in that file may connect over NVMe/TCP, with TLS if they have a key of it, and after they have authenticated themselves \
(DH-HMAC-CHAP) if they have a secret; `create host` and `delete host` change the file. An address of other machines needs --nvme-hosts, \
or --allow-anyone. With --nvme-tls required no host connects without TLS, nor asks for subsystems.

Examples:
  ashlar array serve /mnt/disk{1...8}/member --nbd 127.0.0.1:10809
  ashlar array serve /var/lib/members --nbd unix:/run/ashlar/nbd.sock --nbd-mode 660
  ashlar array serve /var/lib/members --nvme 127.0.0.1:4420
  ashlar array serve /var/lib/members --vhost-user /run/ashlar/vm
  ashlar array serve /var/lib/members --ublk /dev/ashlar
  ashlar array serve /var/lib/members --nbd 0.0.0.0:10809 --certs /etc/ashlar/certs --client-ca /etc/ashlar/clients.crt";

/// The process.
#[derive(Args, Debug)]
pub struct ServeOptions {
    /// Drives, or folders with drives; {1...8} works. Without any, groups are created or imported later
    #[arg(value_name = "DRIVE|DIR")]
    drives: Vec<String>,
    /// Export virtual drives here: HOST:PORT or unix:PATH; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    nbd: Vec<Endpoint>,
    /// Export virtual drives over NVMe/TCP here; may be repeated
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    nvme: Vec<String>,
    /// The file of the hosts that may connect over NVMe/TCP, with their secrets and keys of TLS; it is made when the first is added
    #[arg(long, value_name = "FILE", env = "ASHLAR_NVME_HOSTS")]
    nvme_hosts: Option<PathBuf>,
    /// TLS of NVMe/TCP: required; allowed, and then hosts that have a key need it; or off [default: allowed with --nvme-hosts, else off]
    #[arg(long, value_name = "MODE", env = "ASHLAR_NVME_TLS")]
    nvme_tls: Option<TlsMode>,
    /// Export each virtual drive to virtual machines (vhost-user-blk), at DIR/GROUP/NAME.sock
    #[arg(long, value_name = "DIR")]
    vhost_user: Option<PathBuf>,
    /// The file mode of those sockets, octal
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    vhost_user_mode: u32,
    /// Make each virtual drive a block device of this machine (ublk), with a link DIR/GROUP/NAME to it
    #[arg(long, value_name = "DIR")]
    ublk: Option<PathBuf>,
    /// Queues of each of those devices, each with a thread; no more than there are processors
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    ublk_queues: u16,
    /// The file mode of Unix sockets of NBD, octal
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    nbd_mode: u32,
    /// Open groups although drives are missing: they count as failed from then on
    #[arg(long)]
    without_missing: bool,
    /// The folder with public.crt and private.key: NBD then requires TLS
    #[arg(long, value_name = "DIR", env = "ASHLAR_CERTS")]
    certs: Option<PathBuf>,
    /// The authority (PEM) whose certificates NBD clients must have
    #[arg(long, value_name = "FILE", requires = "certs")]
    client_ca: Option<PathBuf>,
    /// Let everybody who reaches an NBD or NVMe address read and write
    #[arg(long)]
    allow_anyone: bool,
    /// Serve Prometheus metrics here, at /metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// NBD connections at once, and as many of NVMe
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Memory of NBD requests, at most, and as much of NVMe commands
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: String,
    /// A group without a hot spare of its own gets one of another group of this process
    #[arg(long)]
    shared_spares: bool,
    /// Who codes rebuilds; auto measures at the first one who codes faster
    #[arg(long, value_name = "CODER", default_value = "cpu")]
    coder: Coder,
    /// Threads of each group's rebuild or check; half of the cores, at most 8, unless named
    #[arg(long, value_name = "N")]
    rebuild_threads: Option<usize>,
    /// What a thread of a rebuild or a check reads at once, about: 64KiB to 64MiB
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    rebuild_batch: String,
    /// The name of this process as a host of NVMe, by which zones of enclosures know it [default: a random one]
    #[arg(long, value_name = "NQN", value_parser = crate::fabric::nqn, help_heading = "Drives at NVMe/TCP targets")]
    host_nqn: Option<String>,
    /// Which path a command to a drive at an NVMe/TCP target takes: round-robin, queue-depth or latency
    #[arg(long, value_name = "POLICY", default_value_t, help_heading = "Drives at NVMe/TCP targets")]
    iopolicy: IoPolicy,
    /// Seconds without a usable path after which requests fail, and the drive in its group
    #[arg(long, value_name = "S", default_value_t = 30, help_heading = "Drives at NVMe/TCP targets")]
    fast_io_fail_timeout: u64,
    /// Seconds between two attempts to connect again, at most; the first comes after 0.1 s, and each waits longer
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(i64).range(1..), help_heading = "Drives at NVMe/TCP targets")]
    reconnect_delay: i64,
    /// Seconds after which a path that is not connected is given up for good; -1: it never is
    #[arg(long, value_name = "S", default_value_t = -1, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..), help_heading = "Drives at NVMe/TCP targets")]
    ctrl_loss_timeout: i64,
    /// Seconds of silence after which a connection is given up; 0: only a command that is not answered for 30 s ends it
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(i64).range(0..=3600), help_heading = "Drives at NVMe/TCP targets")]
    keep_alive_timeout: i64,
    #[command(flatten)]
    secrets: Secrets,
}

/// Who codes rebuilds.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Coder {
    Auto,
    Cpu,
    Gpu,
}

impl ServeOptions {
    fn remote(&self) -> Outcome<RemoteOptions> {
        let seconds = |n: i64| Duration::from_secs(n.unsigned_abs());
        let (secret, controller_secret) = (self.secrets.host()?, self.secrets.target()?);
        let tls_key = self.secrets.tls()?;
        if (secret.is_some() || tls_key.is_some()) && self.host_nqn.is_none() {
            return Err(Failure::usage(
                "a secret or a key of TLS belongs to a host: name this one with --host-nqn",
            ));
        }
        Ok(RemoteOptions {
            host_nqn: self.host_nqn.clone(),
            policy: self.iopolicy,
            fast_io_fail_timeout: Duration::from_secs(self.fast_io_fail_timeout),
            reconnect_delay: seconds(self.reconnect_delay),
            ctrl_loss_timeout: Some(self.ctrl_loss_timeout).filter(|n| *n >= 0).map(seconds),
            keep_alive: seconds(self.keep_alive_timeout),
            secret,
            controller_secret,
            tls_key,
        })
    }
}

fn address(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Endpoint::Tcp(address)) => Ok(address),
        _ => Err(format!("{text:?} is not HOST:PORT")),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|m| *m <= 0o777)
        .ok_or_else(|| format!("{text:?} is no file mode"))
}

/// Serves until a signal.
pub async fn serve(options: ServeOptions, context: &Context<'_>) -> Outcome {
    let output = context.output;
    logs(output);
    let drives = expand::expand(&options.drives).map_err(Failure::usage)?;
    let memory = size::parse(&options.memory).map_err(|e| Failure::usage(format!("--memory: {e}")))?;
    let batch = size::parse(&options.rebuild_batch)
        .and_then(|bytes| usize::try_from(bytes).map_err(|e| e.to_string()))
        .map_err(|e| Failure::usage(format!("--rebuild-batch: {e}")))?;
    let catch = |kind| signal(kind).map_err(|e| Failure::new(Kind::Failed, e.to_string()));
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let certs = options.certs.is_some();
    let remote = options.remote()?;
    let process = Process::start(Options {
        drives: drives.iter().map(PathBuf::from).collect(),
        without_missing: options.without_missing,
        socket: context.socket.clone(),
        nbd: options.nbd,
        nvme: options.nvme,
        nvme_hosts: options.nvme_hosts,
        nvme_tls: options.nvme_tls,
        certificates: options.certs,
        client_authority: options.client_ca,
        allow_anyone: options.allow_anyone,
        metrics: options.metrics,
        connections: options.connections.max(1),
        memory,
        socket_mode: options.nbd_mode,
        vhost_user: options.vhost_user,
        vhost_user_mode: options.vhost_user_mode,
        ublk: options.ublk,
        ublk_queues: options.ublk_queues,
        shared_spares: options.shared_spares,
        coder: match options.coder {
            Coder::Auto => Wanted::Auto,
            Coder::Cpu => Wanted::Cpu,
            Coder::Gpu => Wanted::Gpu,
        },
        rebuild_threads: options.rebuild_threads.unwrap_or_else(|| Options::default().rebuild_threads),
        rebuild_batch: batch,
        remote,
    })
    .await?;
    let state = process.state();
    let socket = context.socket.display().to_string();
    let metrics = process.metrics_address().map(str::to_owned);
    output.result(
        || json!({ "socket": socket, "metrics": metrics, "state": state }),
        || banner(output, &socket, metrics.as_deref(), &state, certs),
    );
    output.flush();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    output.note("closing the groups");
    let errors = process.stop().await;
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

/// The log goes to the standard error.
fn logs(output: &Output) {
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    let subscriber = subscriber.with_max_level(tracing::Level::INFO);
    // Tests start several in one process.
    let _ = if output.json { subscriber.json().try_init() } else { subscriber.try_init() };
}

fn banner(output: &Output, socket: &str, metrics: Option<&str>, state: &api::State, tls: bool) -> String {
    let mut lines = vec![format!("{}  socket {socket}", output.paint(Tone::Folder, "Ashlar array"))];
    for endpoint in &state.nbd.endpoints {
        let tls = if tls { ", TLS" } else { "" };
        lines.push(format!("NBD      {endpoint}{tls}"));
    }
    lines.extend(state.nvme.endpoints.iter().map(|e| format!("NVMe     {e}")));
    lines.extend(state.vhost_user.iter().map(|v| format!("vhost    {}/GROUP/NAME.sock", v.folder)));
    lines.extend(state.ublk.iter().map(|u| format!("ublk     {}/GROUP/NAME", u.folder)));
    lines.extend(metrics.map(|m| format!("Metrics  http://{m}/metrics")));
    for group in &state.groups {
        lines.push(format!(
            "Group    {}  {}  RAID {}, {} drives, {} free of {}",
            output.paint(Tone::Folder, &group.name),
            output.paint(state_tone(&group.state), &group.state),
            group.level,
            group.drives.len(),
            size_text(group.free),
            size_text(group.size)
        ));
        for volume in &group.volumes {
            let addresses = volume_addresses(volume, state.nbd.endpoints.first(), tls);
            lines.push(format!(
                "  {}  {}  {}",
                volume.export,
                size_text(volume.size),
                if addresses.is_empty() { "not exported: --nbd".into() } else { addresses.join("  ") }
            ));
        }
    }
    for out in &state.out_of_service {
        lines.push(format!(
            "Group    {}  {}: {}",
            output.printable(&out.name),
            output.paint(Tone::Bad, "not in service"),
            output.printable(&out.why)
        ));
    }
    if state.groups.is_empty() {
        lines.push(
            "No group is in service: ashlar array create dg LEVEL DRIVE..., or import dg DRIVE...".into(),
        );
    }
    lines.join("\n")
}
