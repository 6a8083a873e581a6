//! Options of a node of a cluster whose nodes run etcd themselves: `--control managed`.
//!
//! Must not depend on: how etcd is run.

use std::path::{Path, PathBuf};

use ashlar_environment::process;
use ashlar_etcd::{ClientCertificate, Options};
use ashlar_etcd_member::{Members, Secret, Settings, Supervisor};
use ashlar_machine::is_superuser;
use ashlar_node::own_key::KeyFolders;

use super::Args;

/// The value of `--control` with which nodes run etcd themselves.
pub(super) const MANAGED: &str = "managed";
/// The variable with the secret of such a cluster.
const SECRET: &str = "ASHLAR_CONTROL_SECRET";

impl Args {
    /// The member of etcd that this node runs, if nodes run it themselves. `address`: `--address`; `state`: `--state-dir`;
    /// `drives`: the folders of the store.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn managed(
        &self,
        address: &str,
        state: Option<&Path>,
        drives: &[PathBuf],
    ) -> Result<Option<Settings>, String> {
        if self.control.as_deref() != Some(MANAGED) {
            return Ok(None);
        }
        let cluster = self.name("--control managed")?;
        // Names are checked where URLs and keys are made of them.
        Options::parse("etcd://checked", cluster).map_err(|e| format!("--cluster: {e}"))?;
        let others = [
            ("--control-ca", self.control_ca.is_some()),
            ("--control-cert", self.control_cert.is_some()),
            ("--control-user", self.control_user.is_some()),
        ];
        if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
            return Err(format!("{option} is for an etcd of yours; with --control managed there is none"));
        }
        let list = self.control_members.as_deref();
        let list =
            list.ok_or("--control managed needs the nodes that run etcd: --control-members HOST,HOST,HOST")?;
        let members = Members::parse(list).map_err(|e| format!("--control-members: {e}"))?;
        let node = self.node_address(address)?;
        let host = node.rsplit_once(':').map_or(node.as_str(), |(host, _)| host).to_owned();
        let alone = self.import || self.undo_import || self.restore;
        if alone && (members.all().len() != 1 || members.of_host(&host).is_none()) {
            return Err(format!(
                "no other node runs meanwhile, so only this one can run etcd: --control-members {host}; others are added later \
                 (docs/cluster.md)"
            ));
        }
        let folder = match &self.control_dir {
            Some(folder) => folder.clone(),
            None => state_folder(state)?.join(format!("etcd-{cluster}")),
        };
        let folder = std::path::absolute(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        if let Some(drive) = drives.iter().find(|d| folder.starts_with(d) || d.starts_with(&folder)) {
            return Err(format!(
                "--control-dir: {} and the drive {} must not contain each other",
                folder.display(),
                drive.display()
            ));
        }
        Ok(Some(Settings {
            cluster: cluster.to_owned(),
            members,
            host,
            secret: self.secret()?,
            folder,
            program: self.control_program.clone(),
        }))
    }

    /// The secret: from the file that an option or a variable names, or a variable has it.
    fn secret(&self) -> Result<Option<Secret>, String> {
        let (text, from) = match &self.control_secret_file {
            Some(file) => {
                let bytes = ashlar_outbound::tls::read_file(file)
                    .map_err(|e| format!("--control-secret-file: {e}"))?;
                let text = String::from_utf8(bytes).unwrap_or_default();
                (text, format!("--control-secret-file: {}", file.display()))
            }
            None => match process::variable(SECRET) {
                Some(text) => (text, SECRET.to_owned()),
                None => return Ok(None),
            },
        };
        Secret::parse(&text).map(Some).map_err(|e| format!("{from}: {e}"))
    }

    /// How this node speaks to an etcd that nodes run.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn managed_etcd(&self, managed: &Supervisor) -> Result<Options, String> {
        let certificates = managed.certificates();
        let etcd = Options {
            endpoints: managed.endpoints(),
            cluster: self.name("--control managed")?.to_owned(),
            authorities: certificates.map(|all| all.authority.clone().into_bytes()).into_iter().collect(),
            certificate: certificates.map(|all| ClientCertificate {
                certificates: all.own.clone().into_bytes(),
                key: all.key.as_bytes().to_vec(),
            }),
            user: None,
        };
        etcd.check().map_err(|e| e.to_string())?;
        Ok(etcd)
    }

    /// Refuses options that are for `--control managed`.
    pub(super) fn check_unmanaged(&self) -> Result<(), String> {
        let given = [
            ("--control-members", self.control_members.is_some()),
            ("--control-secret-file", self.control_secret_file.is_some()),
            ("--control-dir", self.control_dir.is_some()),
            ("--control-program", self.control_program.is_some()),
        ];
        match given.iter().find(|(_, set)| *set) {
            Some((option, _)) => {
                Err(format!("{option} is for nodes that run etcd themselves, which needs --control managed"))
            }
            None => Ok(()),
        }
    }
}

/// The folder for what must outlive the process and is on no drive: the first of those for keys that the server makes.
fn state_folder(named: Option<&Path>) -> Result<PathBuf, String> {
    let found = KeyFolders::find(named, is_superuser(), |name| process::variable(name));
    let found = found.preferred().map(Path::to_owned);
    found.ok_or_else(|| "--control managed needs a folder for etcd: --control-dir".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;

    fn managed() -> Args {
        Args {
            control: Some("managed".into()),
            control_members: Some("10.0.0.4,10.0.0.5,10.0.0.6".into()),
            control_dir: Some("/var/etcd".into()),
            ..args()
        }
    }

    #[test]
    fn nodes_that_run_etcd_are_named_by_the_hosts_of_their_addresses() {
        let of = |args: &Args| args.managed("10.0.0.4:9000", None, &["/mnt/disk1".into()]);
        let found = of(&managed()).unwrap().unwrap();
        assert_eq!((found.host.as_str(), found.cluster.as_str()), ("10.0.0.4", "prod"));
        assert_eq!(found.members.to_string(), "10.0.0.4,10.0.0.5,10.0.0.6");
        assert_eq!(found.folder, Path::new("/var/etcd"));
        let named = Args { node_address: Some("node4:7000".into()), ..managed() };
        assert_eq!(of(&named).unwrap().unwrap().host, "node4");
        let in_state = Args { control_dir: None, ..managed() };
        let found = in_state.managed("10.0.0.4:9000", Some(Path::new("/state")), &[]).unwrap().unwrap();
        assert_eq!(found.folder, Path::new("/state/etcd-prod"));
        assert!(of(&args()).unwrap().is_none());
    }

    #[test]
    fn options_of_nodes_that_run_etcd_are_checked() {
        let of = |args: Args| args.managed("10.0.0.4:9000", None, &["/mnt/disk1".into()]).unwrap_err();
        for (args, why) in [
            (Args { control_members: None, ..managed() }, "--control-members HOST"),
            (Args { control_members: Some("a,b".into()), ..managed() }, "--control-members: 2 members"),
            (Args { cluster: None, ..managed() }, "--cluster NAME"),
            (Args { cluster: Some("a/b".into()), ..managed() }, "--cluster:"),
            (Args { control_user: Some("x".into()), ..managed() }, "--control-user is for an etcd of yours"),
            (Args { import: true, ..managed() }, "--control-members 10.0.0.4; others are added later"),
            (
                Args { restore: true, control_members: Some("10.0.0.5".into()), ..managed() },
                "others are added later",
            ),
            (
                Args { control_dir: Some("/mnt/disk1/etcd".into()), ..managed() },
                "must not contain each other",
            ),
            (Args { control_dir: Some("/mnt".into()), ..managed() }, "must not contain each other"),
            (Args { control_secret_file: Some("/none".into()), ..managed() }, "--control-secret-file: /none"),
        ] {
            let said = of(args);
            assert!(said.contains(why), "{why}: {said}");
        }
        assert!(managed().etcd().err().unwrap().contains("does not run"));
        let other = Args { control_members: Some("a".into()), ..args() };
        assert!(other.etcd().err().unwrap().contains("--control managed"));
        let alone = Args { control_dir: Some("/x".into()), ..Args::default() };
        assert!(alone.etcd().err().unwrap().contains("--control-dir"));
    }
}
