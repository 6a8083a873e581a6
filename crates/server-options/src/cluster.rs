//! Options of a node of a cluster, and what they mean for the node.
//!
//! Invariant: an option of a cluster without `--control` is an error, never ignored.
//!
//! Must not depend on: how a cluster is formed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_arguments::time;
use ashlar_cluster::Levels;
use ashlar_environment::process;
use ashlar_etcd::{ClientCertificate, Options};
use ashlar_etcd_member::Supervisor;
use ashlar_node::ClusterPlan;

mod managed;

/// Default of `--rebuild-after`: longer than a restart of a machine takes.
const REBUILD_AFTER: Duration = Duration::from_secs(15 * 60);

/// Makes a process claim other feature levels, for tests.
const TEST_LEVELS: &str = "ASHLAR_TEST_FEATURE_LEVELS";

/// Options of a node of a cluster.
#[derive(clap::Args, Default)]
#[group(skip)]
pub struct Args {
    /// Control store of the cluster: etcd://HOST:PORT,HOST:PORT,... or, with TLS, etcds://...; `managed`: some of the nodes
    /// run etcd themselves (--control-members). Without it, this machine is alone.
    #[arg(long, value_name = "URL", env = "ASHLAR_CONTROL")]
    control: Option<String>,
    /// Name of the cluster; several may share one etcd.
    #[arg(long, value_name = "NAME", env = "ASHLAR_CLUSTER")]
    cluster: Option<String>,
    /// How many nodes form the cluster; needed at its first start, the same on all.
    #[arg(long, value_name = "N", env = "ASHLAR_NODES", value_parser = clap::value_parser!(u16).range(1..))]
    nodes: Option<u16>,
    /// Address for messages between nodes, as the other nodes reach it. By default the host of --address and the port
    /// after it.
    #[arg(long, value_name = "HOST:PORT", env = "ASHLAR_NODE_ADDRESS")]
    node_address: Option<String>,
    /// Token with which this node joins a cluster that is formed (`ashlar cluster token`).
    #[arg(long, value_name = "TOKEN", env = "ASHLAR_JOIN")]
    join: Option<String>,
    /// Form a cluster although the loss of one node loses objects.
    #[arg(long, env = "ASHLAR_ACCEPT_NODE_LOSS")]
    accept_node_loss: bool,
    /// Move the control store of this machine, which was alone, into etcd, and end: `ashlar cluster import`.
    #[arg(long, hide = true)]
    pub import: bool,
    /// Undo an import that did not complete, and end.
    #[arg(long, hide = true, conflicts_with = "import")]
    pub undo_import: bool,
    /// Make the control store of the cluster anew in etcd from what the folders keep of it, and end: `ashlar cluster
    /// restore`.
    #[arg(long, hide = true, conflicts_with = "import")]
    pub restore: bool,
    /// Show what `--restore` would restore, and end.
    #[arg(long, hide = true, conflicts_with = "import")]
    pub restore_dry_run: bool,
    /// How long a node must be away until what it holds is made again on the drives of the others (90s, 15m, 2h); `off`
    /// or 0: never. [default: 15m]
    #[arg(long, value_name = "DURATION", env = "ASHLAR_REBUILD_AFTER")]
    rebuild_after: Option<String>,
    /// File with the certificate authorities of etcd, in PEM; by default those of the system.
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONTROL_CA")]
    control_ca: Option<PathBuf>,
    /// File with the client certificate for etcd, in PEM.
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONTROL_CERT", requires = "control_key")]
    control_cert: Option<PathBuf>,
    /// File with the private key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONTROL_KEY", requires = "control_cert")]
    control_key: Option<PathBuf>,
    /// With --control managed: the nodes that run etcd, one, three or five, the same list on every node: HOST,HOST,... or
    /// HOST:CLIENT-PORT:PEER-PORT. Each HOST is that of the node address of a node. It counts until the cluster is formed;
    /// then the cluster keeps the list.
    #[arg(long, value_name = "LIST", env = "ASHLAR_CONTROL_MEMBERS")]
    control_members: Option<String>,
    /// With --control managed: file with the secret of the cluster (`ashlar cluster secret`), the same on every node.
    /// ASHLAR_CONTROL_SECRET may have the secret itself.
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONTROL_SECRET_FILE")]
    control_secret_file: Option<PathBuf>,
    /// With --control managed: folder for etcd of this node. It must not be on a drive of the store. [default:
    /// etcd-NAME in the folder of --state-dir]
    #[arg(long, value_name = "DIR", env = "ASHLAR_CONTROL_DIR")]
    control_dir: Option<PathBuf>,
    /// With --control managed: the program etcd, 3.4 or later. [default: `etcd` on PATH]
    #[arg(long, value_name = "FILE", env = "ASHLAR_CONTROL_PROGRAM")]
    control_program: Option<PathBuf>,
    /// User of etcd; the password is in ASHLAR_CONTROL_PASSWORD.
    #[arg(long, value_name = "NAME", env = "ASHLAR_CONTROL_USER")]
    control_user: Option<String>,
}

/// What the other options say that a node of a cluster needs.
pub struct Given<'a> {
    /// `--address`.
    pub address: &'a str,
    /// Whether S3 is served over TLS.
    pub tls: bool,
    /// What must be equal on all nodes, by name.
    pub settings: BTreeMap<String, String>,
}

impl Args {
    /// The cluster; `None`: this machine is alone.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn plan(
        &self,
        given: Given<'_>,
        managed: Option<Arc<Supervisor>>,
    ) -> Result<Option<ClusterPlan>, String> {
        let etcd = match &managed {
            Some(managed) => self.managed_etcd(managed)?,
            None => match self.etcd()? {
                Some(etcd) => etcd,
                None => return Ok(None),
            },
        };
        let address = self.node_address(given.address)?;
        let scheme = if given.tls { "https" } else { "http" };
        Ok(Some(ClusterPlan {
            etcd,
            etcd_member: managed,
            nodes: self.nodes,
            endpoint: format!("{scheme}://{}", reached(given.address, &address)),
            address,
            host: host_name(),
            token: self.join.clone(),
            accept_node_loss: self.accept_node_loss,
            rebuild_after: self.rebuild_after()?,
            levels: levels()?,
            settings: given.settings,
            old_secret: process::variable("ASHLAR_ROOT_PASSWORD_OLD").map(ashlar_iam::Secret::new),
        }))
    }

    /// Where etcd is; `None`: this machine is alone.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn etcd(&self) -> Result<Option<Options>, String> {
        let Some(control) = &self.control else { return self.check_alone().map(|()| None) };
        if control == managed::MANAGED {
            return Err("--control managed: etcd of this node does not run".to_owned());
        }
        self.check_unmanaged()?;
        let etcd = Options::parse(control, self.name("--control")?).map_err(|e| format!("--control: {e}"))?;
        self.protected(etcd).map(Some)
    }

    /// The name of the cluster, which `what` needs.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn name(&self, what: &str) -> Result<&str, String> {
        let name = self.cluster.as_deref();
        name.ok_or_else(|| format!("{what} needs the name of the cluster: --cluster NAME"))
    }

    fn check_alone(&self) -> Result<(), String> {
        let given = [
            ("--cluster", self.cluster.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--node-address", self.node_address.is_some()),
            ("--join", self.join.is_some()),
            ("--accept-node-loss", self.accept_node_loss),
            ("cluster import", self.import || self.undo_import),
            ("cluster restore", self.restore),
            ("--rebuild-after", self.rebuild_after.is_some()),
            ("--control-ca", self.control_ca.is_some()),
            ("--control-cert", self.control_cert.is_some()),
            ("--control-user", self.control_user.is_some()),
        ];
        match given.iter().find(|(_, set)| *set) {
            Some((option, _)) => {
                Err(format!("{option} is for a node of a cluster, which needs --control etcd://..."))
            }
            None => self.check_unmanaged(),
        }
    }

    /// `--rebuild-after`; `None`: never.
    fn rebuild_after(&self) -> Result<Option<Duration>, String> {
        match self.rebuild_after.as_deref() {
            None => Ok(Some(REBUILD_AFTER)),
            Some("off") => Ok(None),
            Some(text) => {
                let time = time::parse(text).map_err(|e| format!("--rebuild-after: {e}"))?;
                Ok(Some(time).filter(|time| !time.is_zero()))
            }
        }
    }

    /// Adds certificates and the user.
    fn protected(&self, mut etcd: Options) -> Result<Options, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        if let Some(path) = &self.control_ca {
            etcd.authorities = vec![read(path)?];
        }
        if let (Some(certificate), Some(key)) = (&self.control_cert, &self.control_key) {
            etcd.certificate = Some(ClientCertificate { certificates: read(certificate)?, key: read(key)? });
        }
        if let Some(user) = &self.control_user {
            let password = process::variable("ASHLAR_CONTROL_PASSWORD");
            let password = password.ok_or("--control-user: set the password in ASHLAR_CONTROL_PASSWORD")?;
            etcd.user = Some((user.clone(), password));
        }
        etcd.check().map_err(|e| e.to_string())?;
        Ok(etcd)
    }

    fn node_address(&self, address: &str) -> Result<String, String> {
        if let Some(address) = &self.node_address {
            return match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0) => {
                    Ok(address.clone())
                }
                _ => Err(format!(
                    "--node-address {address}: expected HOST:PORT, as the other nodes reach this one"
                )),
            };
        }
        let unknown = || {
            format!(
                "--address {address} does not say how other nodes reach this one: give --node-address HOST:PORT"
            )
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(unknown)?;
        let port: u16 = port.parse().map_err(|_| unknown())?;
        if matches!(host, "" | "0.0.0.0" | "[::]") || port == 0 || port == u16::MAX {
            return Err(unknown());
        }
        Ok(format!("{host}:{}", port + 1))
    }
}

/// The feature levels of this release. A test can make a process claim others, of which this release knows nothing.
fn levels() -> Result<Levels, String> {
    let Some(text) = process::variable(TEST_LEVELS) else { return Ok(Levels::OURS) };
    let levels = Levels::parse(&text).map_err(|why| format!("{TEST_LEVELS}: {why}"))?;
    tracing::warn!(%levels, "{TEST_LEVELS} is set: this process claims feature levels that are not those of its release");
    Ok(levels)
}

/// Host and port of S3: those of `--address`, whose host may be that of the node.
fn reached(address: &str, node: &str) -> String {
    let host = |text: &str| text.rsplit_once(':').map_or(String::new(), |(host, _)| host.to_owned());
    let port = address.rsplit_once(':').map_or(address, |(_, port)| port);
    match host(address).as_str() {
        "" | "0.0.0.0" | "[::]" => format!("{}:{port}", host(node)),
        own => format!("{own}:{port}"),
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(address: &str) -> Given<'_> {
        Given { address, tls: false, settings: BTreeMap::new() }
    }

    pub(super) fn args() -> Args {
        Args {
            control: Some("etcd://127.0.0.1:2379".into()),
            cluster: Some("prod".into()),
            nodes: Some(4),
            ..Args::default()
        }
    }

    #[test]
    fn addresses_are_those_that_other_nodes_reach() {
        let plan = |args: &Args, address: &str| args.plan(given(address), None).map(Option::unwrap);
        let of = plan(&args(), "10.0.0.4:9000").unwrap();
        assert_eq!((of.address.as_str(), of.endpoint.as_str()), ("10.0.0.4:9001", "http://10.0.0.4:9000"));
        for address in [":9000", "0.0.0.0:9000", "[::]:9000", "9000", "10.0.0.4:0"] {
            let why = plan(&args(), address).unwrap_err();
            assert!(why.contains("--node-address"), "{why}");
        }
        let named = Args { node_address: Some("node4:7000".into()), ..args() };
        let of = plan(&named, ":9000").unwrap();
        assert_eq!((of.address.as_str(), of.endpoint.as_str()), ("node4:7000", "http://node4:9000"));
        for bad in ["node4", ":7000", "node4:", "node4:0"] {
            let named = Args { node_address: Some(bad.into()), ..args() };
            assert!(plan(&named, ":9000").is_err(), "{bad}");
        }
    }

    #[test]
    fn nodes_that_are_away_are_rebuilt_after_the_given_time_or_never() {
        let of = |text: Option<&str>| {
            let given_time = Args { rebuild_after: text.map(str::to_owned), ..args() };
            given_time.plan(given("10.0.0.4:9000"), None).map(|plan| plan.unwrap().rebuild_after)
        };
        assert_eq!(of(None).unwrap(), Some(Duration::from_secs(900)));
        assert_eq!(of(Some("5s")).unwrap(), Some(Duration::from_secs(5)));
        assert_eq!((of(Some("off")).unwrap(), of(Some("0")).unwrap()), (None, None));
        assert!(of(Some("soon")).unwrap_err().contains("--rebuild-after"));
        let alone = Args { rebuild_after: Some("5s".into()), ..Args::default() };
        assert!(alone.plan(given("127.0.0.1:9000"), None).unwrap_err().contains("--rebuild-after"));
    }

    #[test]
    fn options_of_a_cluster_need_a_control_store() {
        assert!(Args::default().plan(given("127.0.0.1:9000"), None).unwrap().is_none());
        let alone = Args { nodes: Some(4), ..Args::default() };
        assert!(alone.plan(given("127.0.0.1:9000"), None).unwrap_err().contains("--nodes"));
        let unnamed = Args { cluster: None, ..args() };
        assert!(unnamed.plan(given("127.0.0.1:9000"), None).unwrap_err().contains("--cluster"));
        let restores = Args { restore: true, ..Args::default() };
        assert!(restores.etcd().err().unwrap().contains("cluster restore"));
        let wrong = Args { control: Some("http://x".into()), ..args() };
        assert!(wrong.plan(given("127.0.0.1:9000"), None).unwrap_err().contains("etcd://"));
    }
}
