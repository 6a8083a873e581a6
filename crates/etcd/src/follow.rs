//! Keeps memory up to date: greets etcd, reads what is missing, watches, and asks now and then.
//!
//! A watch says nothing while nothing changes, so a member that hangs looks like one that has no news. The
//! heartbeat asks the same member for the last change, in a read that needs a quorum: it bounds the age of
//! memory, and a member that does not answer, or whose watch is behind, is left.
//!
//! Invariant: a watch continues after the last revision that memory knows; if etcd has forgotten what is in
//! between, everything is read again, and watchers are told.
//!
//! Must not depend on: changes, announcements of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_cluster::Nodes;
use ashlar_environment::time::{self, Instant};
use bytes::Bytes;

use crate::gateway::Fault;
use crate::lines::Lines;
use crate::memory::{Content, Group};
use crate::read::{self, Greet, Greeting};
use crate::shared::{Members, STALL, Shared};
use crate::wire::{self, Event, Line, Ranged, Watched};
use crate::{Error, Result};

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(2);
/// The states of all members are asked for with every so many heartbeats.
const STATES: u32 = 5;
/// Pause after a failure, doubled with each up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A watch that brought nothing for so long is made anew: its connection may be lost without a word.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes of snapshots that are written to each drive per second, at most.
const SAVED_PER_SECOND: u64 = 4 << 20;
/// How often everything is read anew because etcd was compacted meanwhile.
const READS: usize = 5;

/// Follows etcd until the driver is closed.
pub async fn run(shared: Arc<Shared>) {
    let mut closed = shared.closed.subscribe();
    let mut pause = PAUSE;
    loop {
        let at = *shared.gateway.current().borrow();
        let attempt = async {
            match once(&shared, at, &mut pause).await {
                Ok(()) => {}
                Err(error) => {
                    shared.gateway.leave(at);
                    shared.failed(error);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            time::sleep(pause).await;
        };
        tokio::select! {
            _ = async { closed.wait_for(|closed| *closed).await.is_ok() } => return,
            () = attempt => {}
        }
    }
}

/// Follows one member until it fails or is left.
async fn once(shared: &Shared, at: usize, pause: &mut Duration) -> Result<()> {
    let mut current = shared.gateway.current();
    shared.gateway.check_version(at).await?;
    let found = greet(shared, at).await?;
    catch_up(shared, at, &found).await?;
    shared.fence.fetch_max(found.fence, Ordering::AcqRel);
    shared.nodes.send_if_modified(|nodes| {
        *nodes != found.nodes && {
            *nodes = found.nodes.clone();
            true
        }
    });
    let from = shared.memory.content().known + 1;
    let ask = wire::watch(&shared.keys.root, from);
    let mut stream = shared.gateway.watch(at, ask).await.map_err(|f| f.into_error(&shared.keys.root))?;
    let mut watch = Reader { shared, at, listed: found.header.revision, part: Vec::new() };
    let mut lines = Lines::default();
    loop {
        let piece = tokio::select! {
            () = shared.kick.notified() => return Ok(()),
            _ = async { current.wait_for(|now| *now != at).await.is_ok() } => return Ok(()),
            piece = time::timeout(SILENCE, stream.piece()) => match piece {
                Ok(piece) => piece,
                Err(_) => return Ok(()),
            },
        };
        let Some(piece) = piece.map_err(|e| Error::Unreachable(e.to_string()))? else {
            return Err(Error::Unreachable("the watch ended".to_owned()));
        };
        lines.push(&piece);
        while let Some(line) =
            lines.next().map_err(|_| Error::Corrupt("a watch with too long a line".into()))?
        {
            match watch.line(&line)? {
                News::Created => {
                    *pause = PAUSE;
                    shared.recovered();
                }
                News::Applied => {}
                News::Compacted => {
                    let found = greet(shared, at).await?;
                    read_again(shared, at, found).await?;
                    return Ok(());
                }
            }
        }
        if *shared.memory.reached().borrow() >= found.head.0 {
            shared.confirm(found.start, &found.header);
        }
    }
}

async fn greet(shared: &Shared, at: usize) -> Result<Greeting> {
    match read::greet(&shared.gateway, &shared.keys, at).await {
        Ok(found) => Ok(found),
        Err(Greet::Fault(Fault::Silent(why))) => Err(shared.gateway.silence(at, why).await),
        Err(Greet::Fault(fault)) => Err(fault.into_error(&shared.keys.root)),
        Err(Greet::Absent) => {
            let root = &shared.keys.root;
            Err(Error::Replaced(format!("there is nothing under {root}: it was emptied, or is another etcd")))
        }
        Err(Greet::Incomplete(_)) => Err(Error::Incomplete(shared.keys.name().to_owned())),
    }
}

/// Makes sure that a watch can continue where memory is.
async fn catch_up(shared: &Shared, at: usize, found: &Greeting) -> Result<()> {
    let known = shared.memory.content();
    if read::follows(&shared.gateway, &shared.keys, at, &known, found).await?.is_none() {
        let found = greet(shared, at).await?;
        return read_again(shared, at, found).await;
    }
    Ok(())
}

/// Reads everything again: etcd has forgotten what changed since.
async fn read_again(shared: &Shared, at: usize, mut found: Greeting) -> Result<()> {
    for _ in 0..READS {
        if let Some(content) = read::everything(&shared.gateway, &shared.keys, at, &found).await? {
            let known: Arc<Content> = shared.memory.content();
            known.precedes(&content)?;
            tracing::info!(revision = content.known, "control store: read again, because etcd was compacted");
            shared.memory.replace(content);
            return Ok(());
        }
        found = greet(shared, at).await?;
    }
    Err(Error::Refused("it is compacted faster than it can be read".to_owned()))
}

enum News {
    Created,
    Applied,
    Compacted,
}

struct Reader<'a> {
    shared: &'a Shared,
    at: usize,
    /// The list of nodes is of this revision.
    listed: u64,
    /// Events of a revision of which more are to come.
    part: Vec<Event>,
}

impl Reader<'_> {
    fn line(&mut self, line: &Bytes) -> Result<News> {
        let root = &self.shared.keys.root;
        let line: Line = serde_json::from_slice(line)
            .map_err(|e| Error::Corrupt(format!("a message of a watch is not understood: {e}")))?;
        if let Some(refusal) = line.error {
            return Err(self.shared.gateway.judge(self.at, &refusal).into_error(root));
        }
        let Some(message) = line.result else { return Ok(News::Applied) };
        if message.canceled {
            if message.compact_revision > 0 {
                return Ok(News::Compacted);
            }
            let refusal = wire::Refusal { code: 0, message: message.cancel_reason };
            let fault = match refusal.message.contains("permission denied") {
                true => Fault::Denied(refusal.message),
                false => self.shared.gateway.judge(self.at, &refusal),
            };
            return Err(fault.into_error(root));
        }
        let created = message.created;
        self.events(message);
        Ok(if created { News::Created } else { News::Applied })
    }

    fn events(&mut self, message: Watched) {
        self.part.extend(message.events);
        // Only the last revision can go on in the next fragment.
        let last = self.part.last().map(|e| e.kv.mod_revision);
        let whole = match message.fragment {
            true => self.part.partition_point(|e| Some(e.kv.mod_revision) < last),
            false => self.part.len(),
        };
        let rest = self.part.split_off(whole);
        let mut groups: Vec<Group> = Vec::new();
        let mut nodes: Option<Nodes> = None;
        for event in std::mem::replace(&mut self.part, rest) {
            let revision = event.kv.mod_revision;
            if groups.last().is_none_or(|g| g.revision != revision) {
                groups.push(Group { revision, ..Group::default() });
            }
            let Some(group) = groups.last_mut() else { unreachable!("one was added") };
            self.event(event, group, &mut nodes);
        }
        for group in groups {
            self.shared.memory.apply(group);
        }
        if let Some(nodes) = nodes {
            self.shared.nodes.send_replace(nodes);
        }
    }

    fn event(&self, event: Event, group: &mut Group, nodes: &mut Option<Nodes>) {
        let keys = &self.shared.keys;
        let gone = event.kind == "DELETE";
        let Ok(key) = std::str::from_utf8(&event.kv.key) else { return };
        if let Some(key) = key.strip_prefix(&keys.data()) {
            group.changes.push((key.to_owned(), (!gone).then_some(event.kv.value)));
        } else if key == keys.head() && !gone {
            group.head = Some(event.kv.value);
        } else if key == keys.fence() && !gone {
            self.shared.fence.fetch_max(group.revision, Ordering::AcqRel);
        } else if let Some(number) = read::number(keys, key.as_bytes())
            && group.revision > self.listed
        {
            let list = nodes.get_or_insert_with(|| self.shared.nodes.borrow().clone());
            let list = Arc::make_mut(list);
            if gone {
                list.remove(&number)
            } else {
                list.insert(number)
            };
        }
    }
}

/// Asks for the last change and the states of the members, until the driver is closed.
pub async fn beat(shared: Arc<Shared>) {
    let mut closed = shared.closed.subscribe();
    for turn in 0_u32.. {
        let one = async {
            if turn % STATES == 0 {
                states(&shared).await;
            }
            heartbeat(&shared).await;
            time::sleep(BEAT).await;
        };
        tokio::select! {
            _ = async { closed.wait_for(|closed| *closed).await.is_ok() } => return,
            () = one => {}
        }
    }
}

/// Asks for the states of the members.
pub async fn states(shared: &Shared) {
    let states = shared.gateway.states().await;
    let good = states.iter().flatten().filter(|s| s.leader != 0).count();
    let full = states.iter().flatten().any(|s| s.errors.iter().any(|e| e.contains("NOSPACE")));
    *shared.members.lock() = Members { good, full };
}

async fn heartbeat(shared: &Shared) {
    if shared.trouble().is_some() {
        return;
    }
    if last_change(shared, Instant::now() + STALL).await.is_err() {
        // The watch may hang as well, and with one endpoint there is no other to turn to: whoever follows
        // finds out what is wrong, and says so.
        shared.kick.notify_one();
    }
}

/// The revision of the last change, in a linearizable read, once memory has it.
///
/// # Errors
/// etcd does not answer, or not as one that this node knows.
pub async fn last_change(shared: &Shared, until: Instant) -> Result<u64> {
    let root = &shared.keys.root;
    let (start, before) = (Instant::now(), shared.memory.content());
    let ask = wire::body(&wire::range(&shared.keys.head()));
    let answer: Ranged = match shared.gateway.patient("/v3/kv/range", ask, until).await {
        Ok(answer) => answer,
        Err(fault) => return Err(fault.into_error(root)),
    };
    let head = answer.kvs.first().map_or(0, |p| p.mod_revision);
    if answer.header.cluster_id != before.etcd || head < before.head.0 {
        // The one who follows finds out what is wrong, and says so.
        shared.kick.notify_one();
        return Err(Error::Replaced(format!("its last change is {head}, this node knows {}", before.head.0)));
    }
    if !shared.reach(head, until).await {
        return Err(Error::Unreachable("the watch does not keep up".to_owned()));
    }
    shared.confirm(start, &answer.header);
    Ok(head)
}

/// Writes snapshots: when something has changed or a drive was attached, at most once per second, and large
/// ones less often. It waits for no drive.
pub async fn keep(shared: Arc<Shared>) {
    let (mut closed, mut reached) = (shared.closed.subscribe(), shared.memory.reached());
    reached.mark_changed();
    loop {
        tokio::select! {
            _ = async { closed.wait_for(|closed| *closed).await.is_ok() } => return,
            _ = reached.changed() => {}
            () = shared.snapshots.attached() => {}
        }
        let size = shared.save().await;
        time::sleep(Duration::from_secs(1 + size as u64 / SAVED_PER_SECOND)).await;
    }
}
