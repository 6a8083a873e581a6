//! Decides what a server does about its drives: when a drive is opened, distrusted, replaced or left alone.
//!
//! A pure state machine: [`Monitor::step`] takes an event and returns the actions that follow. The server
//! executes the actions independently of each other and reports their outcome as further events; tests do the
//! same without a server.
//!
//! | event | action |
//! |---|---|
//! | a drive fenced itself, or failed | out of service; distrusted, in the map too; opened again after a pause |
//! | the folder of a drive is gone or empty | out of service; probed on every tick |
//! | a folder holds a drive of the map | opened; made joining first if it is distrusted or went back in time |
//! | one folder is blank for some time | formatted; it replaces the drive that was there |
//! | several folders are blank | nothing, until an operator orders a replacement |
//! | a blank folder on another file system than its drive was | nothing: the drive is not mounted |
//! | a folder holds a drive of another node | nothing: the map says that the other node serves it |
//! | an open or a probe does not return | reported; no other folder waits for it |
//!
//! Invariants:
//! - A drive that fenced itself, failed or went back in time never votes again without joining. Its distrust
//!   ends only when the drive itself durably records that it joins, or when it leaves the map.
//! - Without an operator, at most one drive at a time is replaced, of all nodes: while the map shows that one
//!   joins, no other is replaced.
//! - The drives of other nodes are never missing here: no folder of this node replaces one, opens one, or is
//!   taken for one because it has the same path.
//! - A folder never joins without an operator if its file system is not the one that its drive was on (the
//!   drive is then not mounted, and the folder is on the file system below).
//! - A folder has at most one action under way, so that an action that hangs blocks only its own folder.
//!
//! Must not depend on: devices, threads, requests.

mod types;
mod vacancy;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ashlar_format::{DriveId, GroupId};

pub use types::{Action, Condition, Event, Found, Opened, Settings};
use vacancy::Blank;

use crate::map::{DriveState, FoundAt, Map};

/// A drive in service, as input of [`updated_map`].
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where it was found.
    pub at: FoundAt,
    /// The groups in which it votes, in order.
    pub votes: Vec<GroupId>,
}

/// What the monitor is doing with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing: the folder is probed on the next tick.
    Idle,
    /// A probe has been under way since then.
    Probing(Duration),
    /// An open has been under way since then.
    Opening(Duration),
    /// Its drive is being made joining.
    MakingJoining,
    /// It is being formatted.
    Formatting,
    /// The map in which its drive replaces another one is being written.
    Replacing,
    /// Its drive has been in service since then.
    Serving(Duration),
    /// Its drive is being closed.
    Closing,
}

/// One folder named on the command line.
#[derive(Clone, Debug)]
struct Folder {
    path: String,
    phase: Phase,
    /// An operator took it out of service.
    held: bool,
    /// The drive that is in service, being opened or being closed.
    drive: Option<DriveId>,
    /// The drive that must join before it votes, and why; until the drive durably records that itself.
    distrusted: Option<(DriveId, String)>,
    /// The drive that is being replaced.
    replaces: Option<DriveId>,
    /// It is blank, or holds a drive that never entered the map.
    blank: Option<Blank>,
    /// An operator ordered its replacement.
    ordered: bool,
    /// It was blank at the same time as others: only an operator may replace it.
    needs_operator: bool,
    /// A probe has returned at least once.
    seen: bool,
    /// When a drive that failed is opened again, and the pause after that.
    again: Duration,
    pause: Duration,
    problem: Option<String>,
}

/// The state of all folders.
#[derive(Clone, Debug)]
pub struct Monitor {
    settings: Settings,
    now: Duration,
    map: Arc<Map>,
    folders: Vec<Folder>,
    out: Vec<Action>,
}

impl Monitor {
    /// A monitor for the named folders, none of which was probed yet.
    #[must_use]
    pub fn new(paths: &[String], map: Arc<Map>, settings: Settings) -> Monitor {
        let folders = paths.iter().map(|path| Folder {
            path: path.clone(),
            phase: Phase::Idle,
            held: false,
            drive: None,
            distrusted: None,
            replaces: None,
            blank: None,
            ordered: false,
            needs_operator: false,
            seen: false,
            again: Duration::ZERO,
            pause: settings.first_pause,
            problem: None,
        });
        Monitor { settings, now: Duration::ZERO, map, folders: folders.collect(), out: Vec::new() }
    }

    /// The start has started to probe this folder, or to open its drive (`open`): the result is still to come.
    pub fn started(&mut self, i: usize, open: bool) {
        let phase = if open { Phase::Opening(self.now) } else { Phase::Probing(self.now) };
        if let Some(f) = self.folders.get_mut(i) {
            f.phase = phase;
        }
    }

    /// Processes one event; returns the actions that follow.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Tick(now) => self.tick(now),
            Event::Probed(i, found) => self.probed(i, found),
            Event::Opened(i, outcome) => self.opened(i, outcome),
            Event::MadeJoining(i, done) => self.made_joining(i, done),
            Event::Formatted(i, done) => self.formatted(i, done),
            Event::Replaced(i, done) => self.replaced(i, done),
            Event::Closed(i) => self.closed(i),
            Event::Condition(i, condition) => self.condition(i, condition),
            Event::Map(map) => self.map = map,
        }
        std::mem::take(&mut self.out)
    }

    /// An operator takes a folder out of service until [`Monitor::release`].
    pub fn hold(&mut self, i: usize) -> Vec<Action> {
        if let Some(f) = self.folders.get_mut(i) {
            f.held = true;
            f.ordered = false;
        }
        if matches!(self.phase(i), Some(Phase::Serving(_))) {
            self.withdraw(i, "taken offline by an operator");
        } else {
            self.note(i, "taken offline by an operator");
        }
        std::mem::take(&mut self.out)
    }

    /// Undoes [`Monitor::hold`].
    pub fn release(&mut self, i: usize) {
        if let Some(f) = self.folders.get_mut(i) {
            f.held = false;
            f.again = Duration::ZERO;
        }
    }

    /// An operator orders that the blank folder `i` replaces the drive that was there, regardless of its file
    /// system and of how many others are blank. `found`: the result of a probe made just now.
    ///
    /// # Errors
    /// A message for the operator: the folder is not blank, no drive is missing there, or the folder is busy.
    pub fn replace(&mut self, i: usize, found: Found) -> Result<Vec<Action>, String> {
        let path = self.folders.get(i).map(|f| f.path.clone()).ok_or("no such folder")?;
        let unknown = |id: &DriveId| self.map.drive(*id).is_none();
        match &found {
            Found::Blank { .. } => {}
            Found::Drive(id) if unknown(id) => {}
            _ => return Err(format!("{path} is not blank: put an empty drive there first")),
        }
        match self.folders[i].phase {
            Phase::Serving(_) => self.withdraw(i, "replaced by an operator"),
            Phase::Idle | Phase::Probing(_) | Phase::Closing => {
                self.vacancy(i).ok_or("no drive is missing there")?;
            }
            _ => return Err(format!("{path} is busy; try again in a moment")),
        }
        let f = &mut self.folders[i];
        (f.ordered, f.held) = (true, false);
        if f.phase == Phase::Idle {
            f.phase = Phase::Probing(self.now);
            self.probed(i, found);
        }
        Ok(std::mem::take(&mut self.out))
    }

    /// The drive that a blank folder `i` replaces, or would replace if an operator ordered it now.
    #[must_use]
    pub fn replaced_by(&self, i: usize) -> Option<DriveId> {
        let f = self.folders.get(i)?;
        let serving = f.drive.filter(|_| matches!(f.phase, Phase::Serving(_)));
        f.replaces.or(serving).or_else(|| self.vacancy(i))
    }

    /// Whether an operator's order to replace folder `i` is still being executed.
    #[must_use]
    pub fn is_ordered(&self, i: usize) -> bool {
        self.folders.get(i).is_some_and(|f| f.ordered)
    }

    /// Why a folder is out of service.
    #[must_use]
    pub fn problem(&self, i: usize) -> Option<&str> {
        self.folders.get(i)?.problem.as_deref()
    }

    /// The drive in service in a folder.
    #[must_use]
    pub fn serving(&self, i: usize) -> Option<DriveId> {
        let f = self.folders.get(i)?;
        matches!(f.phase, Phase::Serving(_)).then_some(f.drive).flatten()
    }

    fn phase(&self, i: usize) -> Option<Phase> {
        self.folders.get(i).map(|f| f.phase)
    }

    fn tick(&mut self, now: Duration) {
        self.now = now;
        for i in 0..self.folders.len() {
            let f = &mut self.folders[i];
            match f.phase {
                Phase::Idle if !f.held => {
                    f.phase = Phase::Probing(now);
                    self.out.push(Action::Probe(i));
                }
                Phase::Probing(since) if now - since >= self.settings.patience => {
                    self.note(i, "it does not answer");
                }
                Phase::Opening(since) if now - since >= self.settings.patience => {
                    self.note(i, "it is being opened: it recovers, or does not answer");
                }
                _ => {}
            }
            self.remember(i);
        }
        self.fill();
    }

    /// Asks for an entry in the map about a distrust that only this process has recorded.
    fn remember(&mut self, i: usize) {
        let Some((id, why)) = &self.folders[i].distrusted else { return };
        let lacks = |d: &&crate::Drive| d.state != DriveState::Dead && d.distrusted.is_none();
        if self.map.drive(*id).filter(lacks).is_some() {
            self.out.push(Action::Distrust(*id, why.clone()));
        }
    }

    fn probed(&mut self, i: usize, found: Found) {
        if !matches!(self.phase(i), Some(Phase::Probing(_))) {
            return;
        }
        let f = &mut self.folders[i];
        (f.phase, f.seen) = (Phase::Idle, true);
        if f.held {
            return;
        }
        let now = self.now;
        let state = |id: DriveId| self.map.drive(id).map(|d| d.state);
        let blank = match found {
            Found::Blank { mount } => Some((mount, None)),
            Found::Drive(id) if state(id).is_none() => Some((None, Some(id))),
            Found::Drive(id) => {
                self.forget_blank(i);
                self.found_drive(i, id);
                None
            }
            Found::Other(why) => {
                self.forget_blank(i);
                self.note(i, &why);
                None
            }
        };
        if let Some((mount, unknown)) = blank {
            let f = &mut self.folders[i];
            let since = f.blank.as_ref().map_or(now, |b| b.since);
            f.blank = Some(Blank { since, mount, unknown });
            self.fill();
        }
    }

    fn forget_blank(&mut self, i: usize) {
        let f = &mut self.folders[i];
        (f.blank, f.needs_operator, f.ordered) = (None, false, false);
    }

    /// A drive of the map is in a folder and is not in service.
    fn found_drive(&mut self, i: usize, id: DriveId) {
        if self.map.drive(id).is_some_and(|d| d.state == DriveState::Dead) {
            return self.note(i, "it was replaced; empty the folder to use it again");
        }
        if let Some(why) = self.is_of_another(id) {
            return self.note(i, &why);
        }
        if self.is_elsewhere(i, id) {
            return self.note(i, "the same drive is in service at another path");
        }
        let f = &mut self.folders[i];
        if self.now < f.again {
            return;
        }
        (f.phase, f.drive) = (Phase::Opening(self.now), Some(id));
        self.out.push(Action::Open(i));
    }

    fn is_elsewhere(&self, i: usize, id: DriveId) -> bool {
        self.folders.iter().enumerate().any(|(j, f)| j != i && f.drive == Some(id))
    }

    fn opened(&mut self, i: usize, outcome: Result<Opened, String>) {
        if !matches!(self.phase(i), Some(Phase::Opening(_))) {
            return;
        }
        self.folders[i].seen = true;
        let opened = match outcome {
            Ok(opened) => opened,
            Err(why) => return self.fail_action(i, &why),
        };
        let id = opened.id;
        let known = self.map.drive(id).map(|d| (d.state, d.distrusted.clone()));
        let f = &mut self.folders[i];
        f.drive = Some(id);
        if let Some(why) = opened.distrust {
            f.distrusted = Some((id, why));
        }
        let here = f.distrusted.as_ref().is_some_and(|(d, _)| *d == id);
        let (held, replaces) = (f.held, f.replaces);
        let foreign = self.is_of_another(id);
        match known {
            _ if held => self.discard(i, "taken offline by an operator"),
            Some((DriveState::Dead, _)) => {
                self.discard(i, "it was replaced; empty the folder to use it again");
            }
            Some(_) if foreign.is_some() => self.discard(i, &foreign.unwrap_or_default()),
            Some(_) if self.is_elsewhere(i, id) => {
                self.discard(i, "the same drive is in service at another path");
            }
            Some((_, noted)) => {
                self.folders[i].replaces = None;
                if opened.voter && (here || noted.is_some()) {
                    self.folders[i].phase = Phase::MakingJoining;
                    self.out.push(Action::MakeJoining(i));
                } else {
                    self.attach(i);
                }
            }
            None => match replaces.filter(|old| self.may_take(i, *old)) {
                // Whatever the reason was: other drives have what this drive does not hold.
                Some(_) if opened.voter => {
                    self.folders[i].phase = Phase::MakingJoining;
                    self.out.push(Action::MakeJoining(i));
                }
                Some(old) => self.begin_replace(i, old),
                None => self.discard(i, "it is not in the map of this deployment yet"),
            },
        }
        self.remember(i);
    }

    fn made_joining(&mut self, i: usize, done: Result<(), String>) {
        if self.phase(i) != Some(Phase::MakingJoining) {
            return;
        }
        match (done, self.folders[i].replaces) {
            (Err(why), _) => {
                self.delay_open(i);
                self.discard(i, &format!("it cannot be made joining: {why}"));
            }
            (Ok(()), Some(old)) => self.begin_replace(i, old),
            (Ok(()), None) => self.attach(i),
        }
    }

    /// The drive itself records that it joins, or it was never distrusted.
    fn attach(&mut self, i: usize) {
        let f = &mut self.folders[i];
        (f.phase, f.problem, f.distrusted) = (Phase::Serving(self.now), None, None);
        self.forget_blank(i);
        self.out.push(Action::Note(i, None));
        self.out.push(Action::Attach(i));
    }

    fn begin_replace(&mut self, i: usize, old: DriveId) {
        self.folders[i].phase = Phase::Replacing;
        self.out.push(Action::Replace(i, old));
    }

    fn formatted(&mut self, i: usize, done: Result<(), String>) {
        if self.phase(i) != Some(Phase::Formatting) {
            return;
        }
        match done {
            Ok(()) => {
                self.folders[i].phase = Phase::Opening(self.now);
                self.out.push(Action::Open(i));
            }
            Err(why) => self.fail_action(i, &why),
        }
    }

    fn replaced(&mut self, i: usize, done: Result<(), String>) {
        if self.phase(i) != Some(Phase::Replacing) {
            return;
        }
        match done {
            Ok(()) => {
                let f = &mut self.folders[i];
                (f.phase, f.problem, f.distrusted) = (Phase::Serving(self.now), None, None);
                f.replaces = None;
                self.forget_blank(i);
                self.out.push(Action::Note(i, None));
                if self.folders[i].held {
                    self.withdraw(i, "taken offline by an operator");
                }
            }
            Err(why) => self.discard(i, &why),
        }
    }

    fn closed(&mut self, i: usize) {
        if self.phase(i) == Some(Phase::Closing) {
            let f = &mut self.folders[i];
            (f.phase, f.drive, f.replaces) = (Phase::Idle, None, None);
        }
    }

    fn condition(&mut self, i: usize, condition: Condition) {
        let Some(Phase::Serving(since)) = self.phase(i) else { return };
        match condition {
            Condition::Works => {
                if self.folders[i].problem.take().is_some() {
                    self.out.push(Action::Note(i, None));
                }
            }
            Condition::ReadOnly => self.note(i, "it can be read but not written"),
            Condition::Closed => self.withdraw(i, "closed"),
            Condition::Gone => {
                self.withdraw(i, "the folder no longer holds the drive: emptied, or not mounted")
            }
            Condition::Failed(why) => {
                if self.now - since > self.settings.longest_pause {
                    self.folders[i].pause = self.settings.first_pause;
                }
                self.delay_open(i);
                let f = &mut self.folders[i];
                f.distrusted = f.drive.map(|id| (id, why.clone()));
                self.withdraw(i, &format!("out of service: {why}; it will join again"));
                self.remember(i);
            }
        }
    }

    /// Delays opening the drive again until its pause has passed.
    fn delay_open(&mut self, i: usize) {
        let f = &mut self.folders[i];
        f.again = self.now + f.pause;
        f.pause = (f.pause * 2).min(self.settings.longest_pause);
    }

    fn withdraw(&mut self, i: usize, why: &str) {
        self.note(i, why);
        self.folders[i].phase = Phase::Closing;
        self.out.push(Action::Withdraw(i, why.to_owned()));
    }

    fn discard(&mut self, i: usize, why: &str) {
        self.note(i, why);
        self.folders[i].phase = Phase::Closing;
        self.out.push(Action::Discard(i));
    }

    /// An action failed and left no open drive.
    fn fail_action(&mut self, i: usize, why: &str) {
        self.note(i, why);
        let f = &mut self.folders[i];
        (f.phase, f.drive, f.replaces) = (Phase::Idle, None, None);
        self.delay_shortly(i);
    }

    /// An open requires a recovery, so it is not repeated every second.
    fn delay_shortly(&mut self, i: usize) {
        let f = &mut self.folders[i];
        f.again = f.again.max(self.now + Duration::from_secs(5));
    }

    fn note(&mut self, i: usize, why: &str) {
        let Some(f) = self.folders.get_mut(i) else { return };
        if f.problem.as_deref() != Some(why) {
            f.problem = Some(why.to_owned());
            self.out.push(Action::Note(i, Some(why.to_owned())));
        }
    }
}

/// The map after the reports of the drives in service: which drives have joined which groups, which must join
/// again, and where they were found. Returns the same map if nothing changes.
#[must_use]
pub fn updated_map(map: &Map, serving: &[Serving]) -> Map {
    let mut map = map.clone();
    for s in serving {
        let id = s.at.id;
        let votes = |g: &GroupId| s.votes.binary_search(g).is_ok();
        let of = |map: &Map, joining: bool| -> Vec<GroupId> {
            let mine = |g: &&crate::Group| g.slot_of(id).is_some_and(|s| s.joining == joining);
            map.groups.iter().filter(mine).map(|g| g.id).collect()
        };
        let done: Vec<GroupId> = of(&map, true).into_iter().filter(votes).collect();
        if !done.is_empty() {
            map = map.joined(id, &done).unwrap_or(map);
        }
        // Away for too long, damaged, or fenced: new epochs, so that its earlier promises count no more.
        let lost: Vec<GroupId> = of(&map, false).into_iter().filter(|g| !votes(g)).collect();
        if !lost.is_empty() {
            map = map.rejoin(id, |g| lost.binary_search(&g).is_ok()).unwrap_or(map);
        } else if !of(&map, true).is_empty() {
            // It is in service, so it records itself that it joins.
            map = map.joins_by_itself(id).unwrap_or(map);
        }
    }
    let found: Vec<FoundAt> = serving.iter().map(|s| s.at.clone()).collect();
    map.found_at(&found).unwrap_or(map)
}
