//! Runs the etcd member of this node, if it has one: from the first greeting to the stop.
//!
//! Invariants: one task decides, and etcd runs only while it does; what is started was written to the folder before. etcd
//! that ends is started again, after a pause that grows to the longest of [`PAUSES`].
//!
//! Must not depend on: who uses the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::thread;
use ashlar_environment::time::{self, Instant};

use crate::access::{Listed, Peer};
use crate::child::{Child, GRACE};
use crate::founding::{self, Step};
use crate::greeting::{Server, check_client_port};
use crate::start::Start;
use crate::state::{Origin, State};
use crate::supervisor::{Shared, open};
use crate::{Address, Error, Program, Result, log_lines, membership};

/// Pause between looks at other members before etcd runs.
const LOOK: Duration = Duration::from_millis(300);
/// Pause between looks at etcd's process.
const TICK: Duration = Duration::from_millis(100);
/// Pause between looks at what etcd says.
const TEND: Duration = Duration::from_secs(2);
/// Shortest and longest pause before etcd is started again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// After so long without an end, the pause begins with the shortest again.
const STEADY: Duration = Duration::from_secs(60);
/// A file is given back to the file system if it is larger than this, in bytes, and less than half of it is in use; and
/// the shortest time between two attempts. The default quota is 2 GiB.
const DEFRAGMENT: (u64, Duration) = (256 << 20, Duration::from_secs(3600));
/// How often is said what is waited for.
const TELL: Duration = Duration::from_secs(30);

/// Runs the member until it is told to end.
pub async fn run(shared: Arc<Shared>, mut program: Option<Program>) {
    let mut pause = PAUSES.0;
    let (mut told, mut ended) = (Told::default(), false);
    loop {
        let began = Instant::now();
        if *shared.stop.borrow() {
            return;
        }
        match round(&shared, &mut program, std::mem::take(&mut ended), &mut told).await {
            Ok(Round::Again) => {}
            Ok(Round::Ended(how)) => {
                ended = true;
                if began.elapsed() > STEADY {
                    pause = PAUSES.0;
                }
                tracing::warn!(
                    how,
                    seconds = pause.as_secs_f64(),
                    "etcd of this node ended; it is started again"
                );
                if !shared.pause(pause).await {
                    return;
                }
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(error) => {
                told.fails(&error);
                if !shared.pause(PAUSES.0 * 2).await {
                    return;
                }
            }
        }
    }
}

/// How a round ended.
enum Round {
    /// Something changed.
    Again,
    /// etcd ended by itself: how.
    Ended(String),
}

/// One step from the present state: towards a started etcd, or a run of it. `ended`: etcd ended by itself before.
async fn round(
    shared: &Arc<Shared>,
    program: &mut Option<Program>,
    ended: bool,
    told: &mut Told,
) -> Result<Round> {
    let mut members = shared.members.subscribe();
    let Some(own) = shared.own() else {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            _ = members.changed() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        return Ok(Round::Again);
    };
    let program = match program {
        Some(program) => program,
        None => program.insert(open(shared.settings.program.clone()).await?),
    };
    let state = shared.state.lock().clone();
    if state.was_started() && !shared.folder.has_data()? {
        tracing::error!(
            folder = %shared.folder.path().display(),
            "the data of this node's etcd is gone: it begins anew, under another number"
        );
        shared.begin_anew()?;
        return Ok(Round::Ended("it has no data".to_owned()));
    }
    if !state.was_started() {
        agree(shared, &own, told).await?;
        // It has no data yet, so this is the only moment for its first start.
        let may_start = shared.state.lock().was_started();
        return match may_start {
            true => supervise(shared, &own, program).await,
            false => Ok(Round::Again),
        };
    }
    // One that was removed ends by itself.
    if ended && was_removed(shared, &own, &state).await {
        tracing::warn!("this node's etcd was removed by the others; its data is dropped");
        shared.folder.remove_data()?;
        shared.begin_anew()?;
        return Ok(Round::Again);
    }
    supervise(shared, &own, program).await
}

/// Whether a majority of the others no longer has this member.
async fn was_removed(shared: &Shared, own: &Address, state: &State) -> bool {
    let url = own.peer_url(shared.access.scheme);
    let is_own = |listed: &Listed| match &state.id {
        Some(id) => listed.id == *id,
        // It never had a leader, so it does not know its number.
        None => listed.peer_urls.contains(&url),
    };
    match membership::listed(&shared.access, &shared.others(own)).await {
        Ok((_, list)) => !list.iter().any(is_own),
        Err(_) => false,
    }
}

/// Greets the other members until etcd may be started. When this returns, nothing listens at its ports.
async fn agree(shared: &Arc<Shared>, own: &Address, told: &mut Told) -> Result<()> {
    // What an etcd left that was not started completely.
    shared.folder.remove_data()?;
    check_client_port(own).await?;
    let server = Server::start(own, shared.certificates.as_ref(), shared.greeting()).await?;
    let agreed = meet(shared, own, &server, told).await;
    server.close().await;
    agreed
}

/// Tells the others what this member has, and does what follows from what they tell, until etcd may be started.
async fn meet(shared: &Shared, own: &Address, server: &Server, told: &mut Told) -> Result<()> {
    loop {
        let others = shared.others(own);
        let asked = futures::future::join_all(others.iter().map(|other| shared.access.peer(other))).await;
        let seen: BTreeMap<String, Peer> = others.iter().map(Address::name).zip(asked).collect();
        let state = shared.state.lock().clone();
        match founding::next(&state, &own.name(), &seen) {
            Step::Wait(why) => told.waits(&format!("waiting for other members: {why}")),
            Step::Plan(plan) => shared.change(|state| state.origin = Origin::Planned(plan))?,
            Step::GiveUp(why) => {
                tracing::info!(why, "the members of the control store agree anew");
                shared.begin_anew()?;
            }
            Step::Found { plan, if_alone } => {
                if if_alone && membership::listed(&shared.access, &others).await.is_ok() {
                    shared.begin_anew()?;
                    continue;
                }
                tracing::info!("this node's etcd founds the control store with the other members");
                return shared
                    .change(|state| (state.origin, state.own) = (Origin::Founded(plan), Some(own.clone())));
            }
            Step::Join => match membership::add(&shared.access, own, &others).await {
                Ok(added) => {
                    tracing::info!(id = added.id, "this node's etcd was added to the members");
                    return shared.change(|state| {
                        state.origin = Origin::Added { initial: added.initial };
                        (state.id, state.own) = (Some(added.id), Some(own.clone()));
                    });
                }
                Err(error) => told.waits(&format!("not added to the other members yet: {error}")),
            },
        }
        server.tell(shared.greeting());
        if !shared.pause(LOOK).await || shared.own().as_ref() != Some(own) {
            return Ok(());
        }
    }
}

/// Runs etcd until it ends, the member is to end, or the list of members has it no longer.
async fn supervise(shared: &Arc<Shared>, own: &Address, program: &Program) -> Result<Round> {
    let files = shared.certificates.as_ref().map(|all| shared.folder.certificates(all)).transpose()?;
    let command = Start {
        program,
        own,
        scheme: shared.access.scheme,
        data: shared.folder.data(),
        certificates: files.as_ref(),
        state: &shared.state.lock().clone(),
        verbose: tracing::enabled!(target: "etcd", tracing::Level::DEBUG),
    }
    .command();
    let started = Child::start(command).and_then(|(child, errors)| {
        thread::run_apart("etcd-log", move || log_lines::log(errors))?;
        Ok(child)
    });
    let mut child = started.map_err(|e| Error::Program(format!("{}: {e}", program.path.display())))?;
    let healthy = Healthy(shared);
    let (mut next, mut defragmented) = (Instant::now(), None);
    let how = loop {
        if let Some(status) = child.ended() {
            break Round::Ended(status.to_string());
        }
        if !shared.pause(TICK).await || shared.own().as_ref() != Some(own) {
            end(&mut child).await;
            break Round::Again;
        }
        if Instant::now() >= next {
            tend(shared, own, &mut defragmented).await;
            next = Instant::now() + if *shared.healthy.borrow() { TEND } else { TICK };
        }
    };
    drop(healthy);
    Ok(how)
}

/// Says that etcd is not healthy when it is dropped.
struct Healthy<'a>(&'a Shared);

impl Drop for Healthy<'_> {
    fn drop(&mut self) {
        self.0.healthy.send_replace(false);
    }
}

/// Ends etcd: the guard kills it if it does not obey.
async fn end(child: &mut Child) {
    child.end();
    let until = Instant::now() + Duration::from_secs(u64::from(GRACE) + 2);
    while child.ended().is_none() && Instant::now() < until {
        time::sleep(TICK).await;
    }
    child.kill();
}

/// Looks at what etcd says; promotes it when it has everything; gives back space that compaction left.
async fn tend(shared: &Shared, own: &Address, defragmented: &mut Option<Instant>) {
    let Ok(status) = shared.access.status(own).await else {
        shared.healthy.send_replace(false);
        return;
    };
    let known = shared.state.lock().id.clone();
    if known.as_ref() != Some(&status.id)
        && !status.id.is_empty()
        && status.has_leader()
        && let Err(error) = shared.change(|state| state.id = Some(status.id.clone()))
    {
        tracing::warn!(%error, "the number of this node's etcd is not remembered");
    }
    if status.is_learner {
        for other in shared.others(own) {
            match shared.access.promote(&other, &status.id).await {
                Ok(()) => {
                    tracing::info!("this node's etcd votes");
                    break;
                }
                Err(error) => tracing::debug!(%error, "this node's etcd does not vote yet"),
            }
        }
    }
    let wasteful = status.size > DEFRAGMENT.0 && status.in_use < status.size / 2;
    // Not the leader, which would not lead meanwhile.
    if wasteful && status.leader != status.id && defragmented.is_none_or(|at| at.elapsed() > DEFRAGMENT.1) {
        *defragmented = Some(Instant::now());
        if let Err(error) = shared.access.defragment(own).await {
            tracing::debug!(%error, "this node's etcd was not defragmented");
        }
    }
    let healthy = status.has_leader();
    shared.healthy.send_if_modified(|now| std::mem::replace(now, healthy) != healthy);
}

/// What was said that is waited for, so that it is not said too often.
#[derive(Default)]
struct Told(Option<(String, Instant)>);

impl Told {
    fn waits(&mut self, why: &str) {
        if self.is_new(why) {
            tracing::info!("etcd of this node: {why}");
        }
    }

    fn fails(&mut self, error: &Error) {
        if self.is_new(&error.to_string()) {
            tracing::warn!(%error, "etcd of this node cannot run; trying again");
        }
    }

    fn is_new(&mut self, why: &str) -> bool {
        let now = Instant::now();
        let known = self.0.as_ref().is_some_and(|(said, at)| said == why && now.duration_since(*at) < TELL);
        if !known {
            self.0 = Some((why.to_owned(), now));
        }
        !known
    }
}
