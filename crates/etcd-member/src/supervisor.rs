//! The etcd member of this node, as the rest of the program sees it: start, stop, the list of members, what they say.
//!
//! Invariant: the list that is in use is in the folder before it is used.
//!
//! Must not depend on: who uses the store; how the member is run (`run`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::task::JoinHandle;
use ashlar_environment::{spawn, spawn_blocking, time};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::access::{Access, Greeting, Status};
use crate::membership::Surplus;
use crate::state::{Folder, Origin, State};
use crate::{Address, Certificates, Error, Members, Program, Result, Secret, membership, run};

/// What the member of a node is run with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the cluster of nodes.
    pub cluster: String,
    /// The members, as the operator named them.
    pub members: Members,
    /// The host under which other nodes reach this one.
    pub host: String,
    /// The secret of the nodes; `None`: without TLS, on loopback only.
    pub secret: Option<Secret>,
    /// The folder of the member.
    pub folder: PathBuf,
    /// The program; `None`: that on PATH.
    pub program: Option<PathBuf>,
}

/// One member as seen from this node.
#[derive(Clone, Debug, Serialize)]
pub struct MemberState {
    /// `HOST` or `HOST:CLIENT:PEER`.
    pub address: String,
    /// What it says; `None`: it does not answer.
    pub status: Option<Status>,
    /// Whether it leads.
    pub leads: bool,
}

/// What the task that runs the member shares with who uses it.
pub struct Shared {
    pub settings: Settings,
    pub access: Access,
    pub certificates: Option<Certificates>,
    pub folder: Folder,
    pub state: Mutex<State>,
    pub members: watch::Sender<Members>,
    /// Whether etcd of this node answers and knows a leader.
    pub healthy: watch::Sender<bool>,
    pub stop: watch::Sender<bool>,
}

/// The member of this node. Its etcd is killed if this is dropped without [`Supervisor::stop`].
pub struct Supervisor {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Supervisor({:?})", self.shared.settings)
    }
}

impl Supervisor {
    /// Opens the folder and begins to run the member, if this node is to have one.
    ///
    /// # Errors
    /// `Settings`, `Program`, `Folder`, `Certificate`.
    pub fn start(settings: Settings) -> BoxFuture<'static, Result<Supervisor>> {
        Box::pin(async move {
            let folder = Folder::open(&settings.folder)?;
            let state = folder.load(&settings.cluster)?;
            let members = state.members.clone().unwrap_or_else(|| settings.members.clone());
            if members != settings.members {
                tracing::info!(%members, named = %settings.members, "the members of the control store are those that the cluster named last");
            }
            if settings.secret.is_none() && !members.are_loopback() {
                return Err(Error::Settings(
                    "members on other addresses than loopback need a secret, the same on all nodes: `ashlar cluster secret` \
                     makes one; set ASHLAR_CONTROL_SECRET, or name a file with --control-secret-file"
                        .to_owned(),
                ));
            }
            let own = members.of_host(&settings.host);
            let issue = |secret| {
                Certificates::issue(
                    secret,
                    &settings.cluster,
                    Some(&own.cloned().unwrap_or_else(|| nobody(&settings.host))),
                )
            };
            let certificates = settings.secret.as_ref().map(issue).transpose()?;
            let program = match own {
                Some(_) => Some(open(settings.program.clone()).await?),
                None => None,
            };
            let shared = Arc::new(Shared {
                access: Access::new(certificates.as_ref())?,
                certificates,
                folder,
                state: Mutex::new(state),
                members: watch::Sender::new(members),
                healthy: watch::Sender::new(false),
                stop: watch::Sender::new(false),
                settings,
            });
            let task = spawn("etcd-member", run::run(shared.clone(), program));
            Ok(Supervisor { shared, task: Mutex::new(Some(task)) })
        })
    }

    /// The URLs of all members for clients.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members().endpoints(self.shared.access.scheme, self.shared.own().as_ref())
    }

    /// The certificates of this node; `None`: without TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.shared.certificates.as_ref()
    }

    /// Waits until the member of this node answers and has a leader, if it was started before; no longer than `limit`.
    pub fn ready(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.shared.own().is_none() || !self.shared.state.lock().was_started() {
                return;
            }
            self.healthy(limit).await;
        })
    }

    /// Ends etcd, and waits for its end.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.stop.send_replace(true);
            let task = self.task.lock().take();
            if let Some(task) = task {
                let _ = task.await;
            }
        })
    }

    /// The members as they are known now.
    #[must_use]
    pub fn members(&self) -> Members {
        self.shared.members.borrow().clone()
    }

    /// The members are others from now on, as the control store says. They are remembered for the next start.
    ///
    /// # Errors
    /// `Folder`.
    pub fn follow(&self, members: &Members) -> Result<()> {
        let now = self.shared.state.lock().clone();
        if now.members.as_ref() != Some(members) {
            self.shared.change(|state| state.members = Some(members.clone()))?;
        }
        self.shared.members.send_if_modified(|known| {
            let changed = known != members;
            if changed {
                tracing::info!(%members, "the members of the control store");
                *known = members.clone();
            }
            changed
        });
        Ok(())
    }

    /// Refuses a list of members to which the present ones cannot be changed in one go.
    ///
    /// # Errors
    /// `Refused`; `Unavailable`: no member has a quorum.
    pub fn check_change<'a>(&'a self, wanted: &'a Members) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let known = self.members();
            let (_, list) = membership::listed(&self.shared.access, known.all()).await?;
            membership::check_change(&list, wanted.all(), self.shared.access.scheme)
        })
    }

    /// The folder of the member.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.folder.path()
    }

    /// All members, and what each says.
    pub fn overview(&self) -> BoxFuture<'_, Vec<MemberState>> {
        Box::pin(async move {
            let shared = &self.shared;
            let mut all = self.members().all().to_vec();
            // One that is to be removed still counts.
            if let Some(own) = shared.own().filter(|own| !all.contains(own)) {
                all.push(own);
            }
            let asked = all.iter().map(|address| async move {
                let status = shared.access.status(address).await.ok();
                let leads = status.as_ref().is_some_and(|s| s.has_leader() && s.leader == s.id);
                MemberState { address: address.to_string(), status, leads }
            });
            futures::future::join_all(asked).await
        })
    }

    /// Whether the member of this node leads.
    pub fn leads(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(own) = self.shared.own() else { return false };
            let status = self.shared.access.status(&own).await;
            status.is_ok_and(|status| status.has_leader() && status.leader == status.id)
        })
    }

    /// Waits until the member of this node answers and has a leader; false: not within `limit`, or there is none.
    pub fn healthy(&self, limit: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let mut healthy = self.shared.healthy.subscribe();
            let waited = time::timeout(limit, healthy.wait_for(|healthy| *healthy)).await;
            waited.is_ok_and(|healthy| healthy.is_ok())
        })
    }

    /// If the member of this node leads: removes one member that is not wanted, if that can be done now. The caller knows
    /// that these are the wanted ones at this moment. True: a member was removed.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`: again later.
    pub fn remove_surplus<'a>(&'a self, wanted: &'a Members) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let access = &self.shared.access;
            let Some(own) = self.shared.own() else { return Ok(false) };
            let status = access.status(&own).await?;
            if !status.has_leader() || status.leader != status.id {
                return Ok(false);
            }
            let list = access.members(&own).await?;
            let gone = match membership::surplus(&list, wanted.all(), access.scheme) {
                Surplus::None => return Ok(false),
                Surplus::Remove(extra) => extra,
                Surplus::IfSilent(extra) => {
                    if let Some(address) = extra.address()
                        && access.status(&address).await.is_ok()
                    {
                        return Ok(false);
                    }
                    extra
                }
            };
            tracing::info!(id = gone.id, name = gone.name, "a member of the control store is removed");
            access.remove(&own, &gone.id).await.map(|()| true)
        })
    }
}

/// A name for the certificate of a node without a member; it may get one later.
fn nobody(host: &str) -> Address {
    Address { host: host.to_ascii_lowercase(), client: 2379, peer: 2380 }
}

/// Opens the program.
pub async fn open(named: Option<PathBuf>) -> Result<Program> {
    let opened = spawn_blocking("etcd-program", move || Program::open(named.as_deref())).await;
    opened.map_err(|e| Error::Program(e.to_string()))?
}

impl Shared {
    /// The address of this node's member, if it has one. One that is no longer wanted goes on until the others have removed
    /// it.
    pub fn own(&self) -> Option<Address> {
        self.wanted().or_else(|| {
            let state = self.state.lock();
            state.own.clone().filter(|_| state.was_started())
        })
    }

    /// The address at which this node is to have a member.
    pub fn wanted(&self) -> Option<Address> {
        self.members.borrow().of_host(&self.settings.host).cloned()
    }

    /// Changes the state in the folder, then here.
    pub fn change(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = self.state.lock();
        let mut next = state.clone();
        change(&mut next);
        self.folder.store(&next)?;
        *state = next;
        Ok(())
    }

    /// The other members that are wanted.
    pub fn others(&self, own: &Address) -> Vec<Address> {
        self.members.borrow().all().iter().filter(|a| *a != own).cloned().collect()
    }

    /// Begins anew, under another incarnation.
    pub fn begin_anew(&self) -> Result<()> {
        let blank = self.state.lock().blank()?;
        self.change(|state| *state = blank)
    }

    pub fn greeting(&self) -> Greeting {
        let state = self.state.lock();
        let plan = match &state.origin {
            Origin::Planned(plan) => Some(plan.clone()),
            _ => None,
        };
        Greeting { cluster: state.cluster.clone(), incarnation: state.incarnation.clone(), plan }
    }

    /// Waits; false: the member is to end.
    pub fn pause(&self, length: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let mut stop = self.stop.subscribe();
            time::timeout(length, stop.wait_for(|stop| *stop)).await.is_err()
        })
    }
}
