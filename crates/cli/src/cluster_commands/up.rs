//! `ashlar cluster up`: a whole cluster on this machine, for trying out: etcd and the nodes as child processes.
//!
//! Invariants: nothing is created before the command line, the folder, etcd's program and the ports are
//! checked; the children end before this process does, nodes first, and also when it is killed ([`Process`]).
//!
//! Must not depend on: how a cluster is formed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_arguments::size;
use ashlar_client::{Client, Config};
use ashlar_environment::net;
use ashlar_environment::time::{Instant, sleep};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::etcd::{self, Etcd};
use super::home::{self, Home, Settings};
use super::plan::Plan;
use super::process::Process;
use crate::failure::{Failure, Kind, Outcome, While as _};
use crate::output::Output;

/// How long the nodes may take until they serve.
const START: Duration = Duration::from_secs(300);
/// How long the nodes may take to end, and etcd after them.
const STOP: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));
/// How long a node may take to enrol before the next one is started; and what it logs then.
const ENROL: Duration = Duration::from_secs(20);
const ENROLLED: [&str; 2] = ["nodes are here", "all nodes are here"];
/// Time between looks at the processes.
const LOOK: Duration = Duration::from_millis(100);
/// Time between notes while the nodes start.
const TELL: Duration = Duration::from_secs(10);
/// Most nodes, and most drives of each.
const MOST: i64 = 64;
/// Format of the settings.
const FORMAT: u32 = 1;
/// Least memory of a node.
const MIN_MEMORY: u64 = 64 << 20;

/// The help text after the options.
pub const HELP: &str = "\
Starts etcd and the nodes as processes of this machine, each node with folders instead of drives, and stops them with \
Ctrl-C. Node N serves S3 at 127.0.0.N. Everything is in one folder; starting it again with the same folder starts the same \
cluster. It is for trying out: one machine and one disk protect nothing. Variables of the environment for the server \
(ASHLAR_..., MINIO_...) are not passed on, except root's credentials, ASHLAR_LOG and ASHLAR_CONTROL_...

Examples:
  ashlar cluster up
  ashlar cluster up /tmp/try --nodes 3 --drives 2 --port 9100
  ashlar cluster up big --nodes 8 --drives 4 --code 12+4 --memory 256MiB";

/// A cluster on this machine.
#[derive(Args, Debug)]
pub struct UpOptions {
    /// Folder for drives, logs, credentials and etcd's data
    #[arg(default_value = "ashlar-cluster", value_name = "DIR")]
    folder: PathBuf,
    /// Number of nodes [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST))]
    nodes: Option<u16>,
    /// Number of drives of each node [default: 4]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u16).range(1..=MOST))]
    drives: Option<u16>,
    /// Erasure code as data plus parity shards [default: by the number of drives]
    #[arg(long, value_name = "K+M")]
    code: Option<String>,
    /// Port of S3 at every node; messages between nodes use the next one [default: 9000, or as at the last start]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65534))]
    port: Option<u16>,
    /// Use this etcd instead of starting one: etcd://HOST:PORT,...
    #[arg(long, value_name = "URL")]
    control: Option<String>,
    /// Memory of each node for buffers and caches
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    memory: String,
    /// Form the cluster although the loss of one node loses objects
    #[arg(long)]
    accept_node_loss: bool,
}

/// Runs a cluster until a signal ends it.
///
/// # Errors
/// It cannot be started, or all its nodes have ended.
pub async fn up(options: &UpOptions, output: &Output) -> Outcome {
    let folder = std::path::absolute(&options.folder).when(|| "cannot find the folder".to_owned())?;
    let memory = size::parse(&options.memory).map_err(|e| Failure::usage(format!("--memory: {e}")))?;
    if memory < MIN_MEMORY {
        let least = size::show(MIN_MEMORY);
        return Err(Failure::usage(format!("--memory {}: must be at least {least}", options.memory)));
    }
    let settings = options.settings(home::settings(&folder)?, &folder)?;
    let program = settings.control.is_none().then(etcd::find).transpose()?;
    check_ports(&settings)?;
    let mut orders = Orders::catch()?;
    let home = Home::open(&folder)?;
    let mut running = Running { etcd: None, nodes: Vec::new() };
    let started = async {
        let root = home.root()?;
        home.root_key()?;
        home.remember(&settings)?;
        let plan = Plan { settings: &settings, home: &home, root: &root, memory: &options.memory };
        tokio::select! {
            started = running.start(&plan, program.as_deref(), output) => started.map(|url| Some((url, root))),
            () = orders.next() => Ok(None),
        }
    };
    let outcome = match started.await {
        Ok(Some((control, root))) => {
            let plan = Plan { settings: &settings, home: &home, root: &root, memory: &options.memory };
            match plan.announce(&control, &running.nodes, output).await {
                Ok(()) => running.watch(&plan, &control, &mut orders, output).await,
                Err(failure) => Err(failure),
            }
        }
        Ok(None) => Ok(()),
        Err(failure) => {
            running.stop(&mut orders, output).await;
            home.forget(settings.nodes);
            return Err(failure);
        }
    };
    running.stop(&mut orders, output).await;
    outcome
}

impl UpOptions {
    /// The settings: those of the cluster that is there, or of a new one.
    fn settings(&self, there: Option<Settings>, folder: &Path) -> Outcome<Settings> {
        if let Some(mut settings) = there {
            self.check_same(&settings, folder)?;
            settings.port = self.port.unwrap_or(settings.port);
            return Ok(settings);
        }
        if folder.to_str().is_none_or(|f| f.contains(['{', '}', '\n'])) {
            return Err(Failure::usage(format!(
                "{}: the name must be UTF-8, without braces and line ends",
                folder.display()
            )));
        }
        let settings = Settings {
            format: FORMAT,
            cluster: format!("up-{}", home::letters(8, b"abcdefghjkmnpqrstuvwxyz234567890")?),
            nodes: self.nodes.unwrap_or(4),
            drives: self.drives.unwrap_or(4),
            code: self.code.clone(),
            port: self.port.unwrap_or(9000),
            control: self.control.clone(),
            accept_node_loss: self.accept_node_loss,
        };
        let drives = u32::from(settings.nodes) * u32::from(settings.drives);
        if let Some(code) = &self.code {
            check_code(code, drives)?;
        }
        Ok(settings)
    }

    /// Refuses options that contradict the cluster that is there.
    fn check_same(&self, there: &Settings, folder: &Path) -> Outcome {
        if there.format != FORMAT {
            let why = format!("{} is of another release (format {})", folder.display(), there.format);
            return Err(Failure::new(Kind::Failed, why));
        }
        let shown = |n: u16| n.to_string();
        let all = [
            ("--nodes", self.nodes.map(shown), Some(shown(there.nodes))),
            ("--drives", self.drives.map(shown), Some(shown(there.drives))),
            ("--code", self.code.clone(), there.code.clone()),
            ("--control", self.control.clone(), there.control.clone()),
        ];
        match all.into_iter().find(|(_, given, there)| given.is_some() && given != there) {
            None => Ok(()),
            Some((option, _, there)) => Err(Failure::usage(format!(
                "{option}: the cluster in {} was made with {}; leave the option out, or name another folder",
                folder.display(),
                there.map_or("its default".to_owned(), |there| format!("{option} {there}"))
            ))),
        }
    }
}

/// Refuses what is no code for so many drives. The server checks the rest.
fn check_code(code: &str, drives: u32) -> Outcome {
    let bad = |why: String| Err(Failure::usage(format!("--code {code}: {why}")));
    let parts = code.split_once('+').and_then(|(k, m)| Some((k.parse::<u8>().ok()?, m.parse::<u8>().ok()?)));
    match parts {
        Some((k, m)) if k > 0 && u32::from(k) + u32::from(m) > drives => {
            bad(format!("needs {} drives; there are {drives}", u32::from(k) + u32::from(m)))
        }
        Some((k, _)) if k > 0 => Ok(()),
        _ => bad("expected K+M, for instance 12+4".to_owned()),
    }
}

/// Finds ports in use before anything is started.
fn check_ports(settings: &Settings) -> Outcome {
    for node in 1..=settings.nodes {
        for port in [settings.port, settings.port + 1] {
            let address = format!("127.0.0.{node}:{port}");
            net::bind_blocking(&*address).map_err(|e| {
                let why = format!("{address} cannot be used: {e}; choose another --port");
                Failure::new(Kind::Failed, why)
            })?;
        }
    }
    Ok(())
}

/// The processes.
struct Running {
    etcd: Option<Process>,
    nodes: Vec<Process>,
}

impl Running {
    /// Starts etcd and the nodes; returns the URL of etcd when all nodes serve.
    async fn start(&mut self, plan: &Plan<'_>, program: Option<&Path>, output: &Output) -> Outcome<String> {
        let home = plan.home;
        let control = match (program, &plan.settings.control) {
            (Some(program), _) => {
                let etcd = Etcd::start(program, &home.folder.join("etcd"), &home.log("etcd")).await?;
                self.etcd = Some(etcd.process);
                format!("etcd://{}", etcd.address)
            }
            (None, control) => control.clone().unwrap_or_default(),
        };
        for node in 1..=plan.settings.nodes {
            let (name, command) = (format!("node{node}"), plan.command(node, &control)?);
            self.nodes.push(Process::start(&format!("node {node}"), command, &home.log(&name))?);
            if home.fresh {
                self.wait_for_enrolment().await?;
            }
        }
        self.wait(plan, output).await?;
        Ok(control)
    }

    /// Waits a while until the last node has a number, so that nodes are numbered as they are started. Without it only
    /// the numbers would differ.
    async fn wait_for_enrolment(&mut self) -> Outcome {
        let began = Instant::now();
        let Some(last) = self.nodes.last_mut() else { return Ok(()) };
        while began.elapsed() < ENROL && !ENROLLED.iter().any(|text| last.said(text)) {
            if last.ended().is_some() {
                return Err(last.report());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until all nodes serve.
    async fn wait(&mut self, plan: &Plan<'_>, output: &Output) -> Outcome {
        let began = Instant::now();
        let mut told = began;
        for node in 1..=plan.settings.nodes {
            let client = Client::new(Config { attempts: 1, ..Config::new(plan.endpoint(node), None) })?;
            while client.probe("/minio/health/cluster").await.is_err() {
                if let Some(ended) = self.etcd.iter_mut().chain(&mut self.nodes).find_map(ended) {
                    return Err(ended.report());
                }
                if began.elapsed() > START {
                    return Err(self.nodes[usize::from(node) - 1].report());
                }
                if told.elapsed() > TELL {
                    output.note(&format!("waiting for node {node} ..."));
                    told = Instant::now();
                }
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Reports processes that end; returns when an order to end comes or no node is left.
    async fn watch(
        &mut self,
        plan: &Plan<'_>,
        control: &str,
        orders: &mut Orders,
        output: &Output,
    ) -> Outcome {
        let mut reported = vec![false; self.nodes.len() + 1];
        loop {
            tokio::select! {
                () = orders.next() => return Ok(()),
                () = sleep(LOOK) => {}
            }
            let nodes = self.nodes.len();
            for (i, process) in self.nodes.iter_mut().chain(&mut self.etcd).enumerate() {
                if reported[i] || process.ended().is_none() {
                    continue;
                }
                reported[i] = true;
                output.failure(&process.report());
                if i < nodes {
                    let line = plan.line(i as u16 + 1, control);
                    output.note(&format!("The others keep running. To start it again by hand:\n  {line}"));
                } else {
                    output.note("The nodes keep running, but the control store cannot be changed.");
                }
                output.flush();
            }
            if reported[..nodes].iter().all(|r| *r) {
                return Err(Failure::new(Kind::Failed, "all nodes have ended"));
            }
        }
    }

    /// Ends the nodes, then etcd. Another order kills what is left.
    async fn stop(&mut self, orders: &mut Orders, output: &Output) {
        if self.nodes.iter_mut().any(|node| node.ended().is_none()) {
            output.note("stopping; a second Ctrl-C kills all");
        }
        end(&mut self.nodes, STOP.0, orders).await;
        end(self.etcd.as_mut_slice(), STOP.1, orders).await;
    }
}

fn ended(process: &mut Process) -> Option<&mut Process> {
    process.ended().is_some().then_some(process)
}

/// Tells processes to end, and kills those that do not in time, or at another order.
async fn end(processes: &mut [Process], limit: Duration, orders: &mut Orders) {
    processes.iter_mut().for_each(Process::end);
    let began = Instant::now();
    while processes.iter_mut().any(|p| p.ended().is_none()) {
        tokio::select! {
            () = orders.next() => break,
            () = sleep(LOOK) => {}
        }
        if began.elapsed() > limit {
            break;
        }
    }
    processes.iter_mut().for_each(Process::kill);
}

/// The signals that end the cluster.
struct Orders([Signal; 3]);

impl Orders {
    fn catch() -> Outcome<Orders> {
        let catch = |kind| signal(kind).when(|| "cannot catch signals".to_owned());
        let [a, b, c] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Ok(Orders([catch(a)?, catch(b)?, catch(c)?]))
    }

    async fn next(&mut self) {
        let [a, b, c] = &mut self.0;
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> UpOptions {
        UpOptions {
            folder: "x".into(),
            nodes: None,
            drives: None,
            code: None,
            port: None,
            control: None,
            memory: "128MiB".into(),
            accept_node_loss: false,
        }
    }

    #[test]
    fn later_start_keeps_the_cluster_and_refuses_contradictions() {
        let folder = Path::new("/tmp/c");
        let given = UpOptions { nodes: Some(3), drives: Some(2), code: Some("4+2".into()), ..options() };
        let first = given.settings(None, folder).unwrap();
        assert_eq!((first.nodes, first.drives, first.port), (3, 2, 9000));
        assert!(first.cluster.starts_with("up-"));
        let settings = |options: UpOptions| options.settings(Some(first.clone()), folder);
        assert_eq!(settings(options()).unwrap(), first);
        let moved = settings(UpOptions { port: Some(9100), nodes: Some(3), ..options() }).unwrap();
        assert_eq!(moved, Settings { port: 9100, ..first.clone() });
        for wrong in [
            UpOptions { nodes: Some(4), ..options() },
            UpOptions { drives: Some(1), ..options() },
            UpOptions { code: Some("3+3".into()), ..options() },
            UpOptions { control: Some("etcd://10.0.0.1:2379".into()), ..options() },
        ] {
            let why = settings(wrong).unwrap_err();
            assert!(why.kind == Kind::Usage && why.cause.contains("/tmp/c was made with"), "{why}");
        }
        let why = options().settings(Some(Settings { format: 2, ..first.clone() }), folder).unwrap_err();
        assert!(why.cause.contains("another release"), "{why}");
    }

    #[test]
    fn codes_that_cannot_be_are_refused() {
        for (code, drives) in [("12+4", 16), ("4+2", 6), ("1+0", 1)] {
            check_code(code, drives).unwrap();
        }
        for (code, drives) in [("12+4", 15), ("0+2", 9), ("4", 9), ("4+", 9), ("a+b", 9), ("300+100", 999)] {
            assert_eq!(check_code(code, drives).unwrap_err().kind, Kind::Usage, "{code}");
        }
    }

    #[test]
    fn ports_in_use_are_found() {
        let mut causes = (0..100).map(|_| {
            let taken = net::bind_blocking("127.0.0.2:0").unwrap();
            let port = taken.local_addr().unwrap().port();
            let given = UpOptions { nodes: Some(2), port: Some(port), ..options() };
            check_ports(&given.settings(None, Path::new("/x")).unwrap()).unwrap_err().cause
        });
        // Another program may use the same port of the first node's address, 127.0.0.1, which is looked at before.
        let cause = causes.find(|cause| !cause.contains("127.0.0.1:")).unwrap();
        assert!(cause.contains("127.0.0.2") && cause.contains("--port"), "{cause}");
    }
}
