//! Random schedules of a few drives under a monitor, and tests of single cases.

use super::*;
use ashlar_format::DeploymentId;
use std::collections::BTreeMap;

fn id(n: u64) -> DriveId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    DriveId(bytes)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What a folder holds, as the test itself sees it.
#[derive(Clone, Debug, PartialEq)]
enum Disk {
    Blank,
    Drive {
        id: DriveId,
        /// The role that the drive durably records.
        voter: bool,
        /// It fenced itself and could record that.
        marked: bool,
        /// The ground truth: this drive must not vote.
        unsound: bool,
        /// The distrust is recorded outside the drive, or will be.
        remembered: bool,
    },
}

/// Four folders, a control store, one server. With an odd seed it is one node of several: the map has drives of
/// another one, which that node has under the same paths.
struct World {
    settings: Settings,
    seed: u64,
    now: Duration,
    map: Arc<Map>,
    control: bool,
    disks: Vec<Disk>,
    mounted: Vec<bool>,
    hung: Vec<bool>,
    /// The drive open in each folder.
    open: Vec<Option<DriveId>>,
    attached: Vec<bool>,
    monitor: Monitor,
    /// Actions that were started.
    pending: Vec<Action>,
    next_id: u64,
    ordered: Vec<bool>,
    /// Drives that replaced others without an operator.
    automatic: Vec<DriveId>,
    replaced: u64,
    votes_again: u64,
    trail: Vec<String>,
}

const N: usize = 4;
/// The number of the node under test, and the first of the ids of another node's drives.
const OWN: u16 = 3;
const FOREIGN: u64 = 50;

fn path(i: usize) -> String {
    format!("/mnt/d{i}/drive")
}

impl World {
    fn new(seed: u64) -> World {
        let node = (seed % 2 == 1).then_some(OWN);
        let mut drives: Vec<_> = (0..N).map(|i| (id(i as u64 + 1), path(i), 1000)).collect();
        if node.is_some() {
            drives.extend((0..2).map(|i| (id(i as u64 + FOREIGN), path(i), 1000)));
        }
        let mut map = Map::first(DeploymentId([7; 16]), &drives, None, Some(3)).unwrap();
        for (i, drive) in map.drives.iter_mut().enumerate() {
            drive.node = if i < N { OWN } else { OWN + 1 };
        }
        let settings = Settings { node, ..Settings::default() };
        let found: Vec<_> = (0..N)
            .map(|i| FoundAt { id: id(i as u64 + 1), path: path(i), mount: Some(format!("/mnt/d{i}")) })
            .collect();
        let map = Arc::new(map.found_at(&found).unwrap());
        let disks = (0..N).map(|i| Disk::Drive {
            id: id(i as u64 + 1),
            voter: true,
            marked: false,
            unsound: false,
            remembered: false,
        });
        let paths: Vec<String> = (0..N).map(path).collect();
        let mut world = World {
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: Duration::ZERO,
            monitor: Monitor::new(&paths, map.clone(), settings),
            settings,
            map,
            control: true,
            disks: disks.collect(),
            mounted: vec![true; N],
            hung: vec![false; N],
            open: vec![None; N],
            attached: vec![false; N],
            pending: Vec::new(),
            next_id: 100,
            ordered: vec![false; N],
            automatic: Vec::new(),
            replaced: 0,
            votes_again: 0,
            trail: Vec::new(),
        };
        world.settle_down();
        world
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % sides
    }

    fn note(&mut self, what: String) {
        self.trail.push(what);
    }

    fn fail(&self, why: &str) -> ! {
        let from = self.trail.len().saturating_sub(40);
        panic!("{why}\n{}\n{:#?}", self.trail[from..].join("\n"), self.monitor.folders)
    }

    fn give(&mut self, event: Event) {
        let actions = self.monitor.step(event);
        self.take(actions);
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            let (Action::Probe(i)
            | Action::Open(i)
            | Action::MakeJoining(i)
            | Action::Attach(i)
            | Action::Format(i, _)
            | Action::Replace(i, _)
            | Action::Withdraw(i, _)
            | Action::Discard(i)) = action
            else {
                if !self.pending.contains(&action) {
                    self.pending.push(action);
                }
                continue;
            };
            if matches!(action, Action::Attach(_)) {
                self.attach(i);
                continue;
            }
            if matches!(action, Action::Withdraw(..)) {
                self.attached[i] = false;
            }
            let busy = self.pending.iter().any(|p| match p {
                Action::Distrust(..) | Action::Note(..) => false,
                Action::Probe(j)
                | Action::Open(j)
                | Action::MakeJoining(j)
                | Action::Attach(j)
                | Action::Discard(j)
                | Action::Format(j, _)
                | Action::Replace(j, _)
                | Action::Withdraw(j, _) => *j == i,
            });
            if busy {
                self.fail(&format!("two actions for folder {i}: {action:?} beside {:?}", self.pending));
            }
            self.pending.push(action);
        }
    }

    /// The drive that is open in folder `i`.
    fn drive(&mut self, i: usize) -> Option<&mut Disk> {
        let open = self.open[i]?;
        self.disks.iter_mut().find(|d| matches!(d, Disk::Drive { id, .. } if *id == open))
    }

    fn attach(&mut self, i: usize) {
        self.note(format!("  attach {i}"));
        if let Some(Disk::Drive { voter: true, unsound: true, .. }) = self.drive(i).cloned() {
            self.fail("a drive that fenced itself is put in service as a voter");
        }
        self.attached[i] = true;
    }

    fn write_map(&mut self, map: Map) {
        self.map = Arc::new(map);
        self.give(Event::Map(self.map.clone()));
    }

    /// Executes an action.
    fn perform(&mut self, action: Action) {
        self.note(format!("  {action:?}"));
        match action {
            Action::Probe(i) => {
                let mount = if self.mounted[i] { format!("/mnt/d{i}") } else { "/".to_owned() };
                let found = match &self.disks[i] {
                    _ if !self.mounted[i] => Found::Blank { mount: Some(mount) },
                    Disk::Blank => Found::Blank { mount: Some(mount) },
                    Disk::Drive { id, .. } => Found::Drive(*id),
                };
                self.give(Event::Probed(i, found));
            }
            Action::Open(i) => {
                let Disk::Drive { id, voter, marked, unsound: _, remembered } = &mut self.disks[i] else {
                    return self.give(Event::Opened(i, Err("no drive".to_owned())));
                };
                if !self.mounted[i] {
                    return self.give(Event::Opened(i, Err("no drive".to_owned())));
                }
                if *marked {
                    (*voter, *marked) = (false, false);
                }
                let _ = remembered;
                let opened = Opened { id: *id, voter: *voter, distrust: None };
                self.open[i] = Some(*id);
                self.give(Event::Opened(i, Ok(opened)));
            }
            Action::MakeJoining(i) => {
                let works = self.roll(8) > 0;
                if works && let Some(Disk::Drive { voter, .. }) = self.drive(i) {
                    *voter = false;
                }
                let done = if works { Ok(()) } else { Err("EIO".to_owned()) };
                self.give(Event::MadeJoining(i, done));
            }
            Action::Attach(_) => unreachable!("done at once"),
            Action::Format(i, mount) => {
                let here = if self.mounted[i] { format!("/mnt/d{i}") } else { "/".to_owned() };
                if !self.ordered[i] && here == "/" && mount.as_ref().is_none_or(|m| *m == here) {
                    self.fail("a folder whose drive is not mounted is formatted");
                }
                let fits = mount.is_none_or(|m| m == here);
                if !fits || self.disks[i] != Disk::Blank || !self.mounted[i] {
                    return self.give(Event::Formatted(i, Err("not blank any more".to_owned())));
                }
                self.next_id += 1;
                let id = id(self.next_id);
                self.disks[i] =
                    Disk::Drive { id, voter: false, marked: false, unsound: true, remembered: true };
                self.give(Event::Formatted(i, Ok(())));
            }
            Action::Replace(i, old) => {
                let Some(new) = self.open[i] else { self.fail("replace without a drive") };
                if self.map.drive(old).is_some_and(|d| d.node != OWN) {
                    self.fail("the drive of another node is replaced");
                }
                if let Some(Disk::Drive { voter: true, .. }) = self.drive(i) {
                    self.fail("a replacement votes");
                }
                let others = self.map.drives.iter().filter(|d| d.id != old && self.map.is_joining(d.id));
                if !self.ordered[i] && others.clone().any(|d| self.automatic.contains(&d.id)) {
                    self.fail("a second drive is replaced without an operator while one joins");
                }
                if !self.control {
                    return self.give(Event::Replaced(i, Err("no majority".to_owned())));
                }
                let Ok(map) = self.map.replace(old, new, &path(i), 1000) else {
                    return self.give(Event::Replaced(i, Err("the map changed".to_owned())));
                };
                let mount = Some(if self.mounted[i] { format!("/mnt/d{i}") } else { "/".to_owned() });
                let map = map.found_at(&[FoundAt { id: new, path: path(i), mount }]).unwrap_or(map);
                if !self.ordered[i] {
                    self.replaced += 1;
                    self.automatic.push(new);
                }
                self.ordered[i] = false;
                self.write_map(map);
                self.attached[i] = true;
                self.give(Event::Replaced(i, Ok(())));
            }
            Action::Withdraw(i, _) | Action::Discard(i) => {
                self.attached[i] = false;
                self.open[i] = None;
                self.give(Event::Closed(i));
            }
            Action::Distrust(id, why) => {
                if self.control
                    && self.map.drive(id).is_some_and(|d| d.distrusted.is_none())
                    && let Ok(map) = self.map.distrust(id, &why)
                {
                    self.write_map(map);
                }
            }
            Action::Note(..) => {}
        }
    }

    /// What the server does at each check of its drives.
    fn look(&mut self, by: u64) {
        self.now += secs(by);
        self.give(Event::Tick(self.now));
        if !self.control {
            return;
        }
        let mut serving = Vec::new();
        for i in 0..N {
            if !self.attached[i] {
                continue;
            }
            let mount = Some(format!("/mnt/d{i}"));
            if let Some(Disk::Drive { id, voter, .. }) = self.drive(i).cloned() {
                let votes = if voter { self.map.groups_of(id) } else { Vec::new() };
                serving.push(Serving { at: FoundAt { id, path: path(i), mount }, votes });
            }
        }
        let map = updated_map(&self.map, &serving);
        if map != *self.map {
            self.write_map(map);
        }
    }

    fn step_pending(&mut self) {
        let free: Vec<usize> = (0..self.pending.len())
            .filter(|n| match &self.pending[*n] {
                Action::Distrust(..) | Action::Note(..) => true,
                Action::Probe(i)
                | Action::Open(i)
                | Action::MakeJoining(i)
                | Action::Attach(i)
                | Action::Discard(i)
                | Action::Format(i, _)
                | Action::Replace(i, _)
                | Action::Withdraw(i, _) => !self.hung[*i],
            })
            .collect();
        if !free.is_empty() {
            let n = free[self.roll(free.len() as u64) as usize];
            let action = self.pending.swap_remove(n);
            self.perform(action);
        }
    }

    /// A drive that joins now has every record.
    fn rebuilt(&mut self, i: usize) {
        if self.attached[i]
            && let Some(Disk::Drive { voter, marked: false, unsound, remembered, .. }) = self.drive(i)
            && !*voter
        {
            (*voter, *unsound, *remembered) = (true, false, false);
            self.votes_again += 1;
        }
    }

    /// A flush fails: the drive fences itself.
    fn fence(&mut self, i: usize) {
        if !self.attached[i] {
            return;
        }
        let writes_mark = self.roll(2) == 0;
        if let Some(Disk::Drive { unsound, marked, remembered, .. }) = self.drive(i) {
            *unsound = true;
            *marked = writes_mark;
            *remembered = true;
        }
        self.give(Event::Condition(i, Condition::Failed("flush failed".to_owned())));
    }

    /// The process ends and a new one starts: the monitor has only the map.
    fn restart(&mut self) {
        self.pending.clear();
        (self.open, self.attached) = (vec![None; N], vec![false; N]);
        for n in 0..N {
            // What could not be recorded is lost. Not survived: drive and control store fail together and the
            // process crashes too.
            let Disk::Drive { id, marked, voter, unsound, .. } = &mut self.disks[n] else { continue };
            let noted = self.map.drive(*id).is_some_and(|d| d.distrusted.is_some());
            if *unsound && *voter && !*marked && !noted {
                *unsound = false;
            }
        }
        let paths: Vec<String> = (0..N).map(path).collect();
        self.monitor = Monitor::new(&paths, self.map.clone(), self.settings);
        self.now = Duration::ZERO;
    }

    fn event(&mut self) {
        let i = self.roll(N as u64) as usize;
        match self.roll(40) {
            0 => {
                self.note(format!("fence {i}"));
                self.fence(i);
            }
            1 => {
                self.note(format!("blank {i}"));
                self.disks[i] = Disk::Blank;
                if self.attached[i] {
                    self.give(Event::Condition(i, Condition::Gone));
                }
            }
            2 => {
                self.note(format!("unmount {i}"));
                self.mounted[i] = false;
                if self.attached[i] {
                    self.give(Event::Condition(i, Condition::Gone));
                }
            }
            3 | 4 => {
                self.note(format!("mount {i}"));
                self.mounted[i] = true;
            }
            5 => self.hung[i] = !self.hung[i],
            6 => self.control = !self.control,
            7 => {
                self.note("restart".to_owned());
                self.restart();
            }
            8 => {
                let found = if !self.mounted[i] || self.disks[i] == Disk::Blank {
                    Found::Blank { mount: None }
                } else {
                    Found::Other("not blank".to_owned())
                };
                self.note(format!("operator replaces {i}"));
                if let Ok(actions) = self.monitor.replace(i, found) {
                    self.ordered[i] = true;
                    self.take(actions);
                }
            }
            9 => {
                self.note(format!("hold {i}"));
                let actions = self.monitor.hold(i);
                self.take(actions);
            }
            10 | 11 => self.monitor.release(i),
            12..=16 => self.rebuilt(i),
            17 => {
                let by = 60 + self.roll(60);
                self.look(by);
            }
            18..=24 => self.look(1),
            _ => self.step_pending(),
        }
        for i in 0..N {
            self.ordered[i] &= self.monitor.is_ordered(i) || self.monitor.folders[i].replaces.is_some();
            if self.attached[i]
                && let Some(Disk::Drive { voter: true, unsound: true, .. }) = self.drive(i).cloned()
            {
                self.fail("a drive that fenced itself votes");
            }
        }
        let automatic = (0..N).filter(|i| self.monitor.folders[*i].replaces.is_some() && !self.ordered[*i]);
        if automatic.count() > 1 {
            self.fail("two drives are replaced without an operator");
        }
    }

    /// No more faults happen.
    fn settle_down(&mut self) {
        for _ in 0..400 {
            while self.pending.iter().any(|_| true) {
                let before = self.pending.len();
                self.step_pending();
                if self.pending.len() >= before && self.hung.iter().any(|h| *h) {
                    break;
                }
            }
            for i in 0..N {
                self.rebuilt(i);
            }
            self.look(30);
        }
    }
}

/// The invariants hold in any order of events, and in the end every intact drive is in service again.
#[test]
fn random_schedules_keep_invariants() {
    let times: u64 = std::env::var("ASHLAR_TIMES").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut replaced, mut votes) = (0, 0);
    for seed in 0..600 * times {
        let mut world = World::new(seed);
        assert!(world.attached.iter().all(|a| *a), "seed {seed}: a plain start");
        for _ in 0..400 {
            world.event();
        }
        // The faults end: an operator handles the blank folders, one after another.
        (world.control, world.hung, world.mounted) = (true, vec![false; N], vec![true; N]);
        for i in 0..N {
            world.monitor.release(i);
        }
        for _ in 0..N {
            world.settle_down();
            for i in 0..N {
                let found = match &world.disks[i] {
                    Disk::Blank => Found::Blank { mount: None },
                    // Formatted by a replacement that was interrupted.
                    Disk::Drive { id, .. } if world.map.drive(*id).is_none() => Found::Drive(*id),
                    _ => continue,
                };
                if let Ok(actions) = world.monitor.replace(i, found) {
                    world.ordered[i] = true;
                    world.take(actions);
                }
            }
        }
        world.settle_down();
        if !world.attached.iter().all(|a| *a) {
            world.fail(&format!("seed {seed}: a good drive stays out of service"));
        }
        assert!(world.map.drives.iter().all(|d| !world.map.is_joining(d.id)), "seed {seed}");
        let foreign = world.map.drives.iter().filter(|d| d.node != OWN);
        assert!(
            foreign.clone().all(|d| d.state == DriveState::Active && d.distrusted.is_none()),
            "seed {seed}"
        );
        assert_eq!(foreign.count() as u64, seed % 2 * 2, "seed {seed}");
        replaced += world.replaced;
        votes += world.votes_again;
    }
    assert!(replaced > 100 * times && votes > 1000 * times, "{replaced} replaced, {votes} joined");
}

/// One folder hangs: the others are probed, opened and served as usual.
#[test]
fn hung_folder_blocks_no_other_folder() {
    let mut world = World::new(1);
    world.restart();
    world.hung[2] = true;
    for _ in 0..3 {
        world.look(1);
        while world.pending.iter().any(|p| !matches!(p, Action::Probe(2) | Action::Open(2))) {
            world.step_pending();
        }
    }
    assert_eq!(world.attached, [true, true, false, true]);
    world.look(10);
    assert_eq!(world.monitor.problem(2), Some("it does not answer"));
    // The drive is put in service once its folder answers.
    world.hung[2] = false;
    world.settle_down();
    assert_eq!(world.attached, [true; 4]);
}

/// The drives are unmounted while the server runs; the mount points below are blank.
#[test]
fn unmounted_drives_are_not_replaced() {
    for count in 1..=3 {
        let mut world = World::new(count as u64);
        for i in 0..count {
            world.mounted[i] = false;
            world.give(Event::Condition(i, Condition::Gone));
        }
        let before = world.map.clone();
        world.settle_down();
        assert_eq!(world.map, before, "no drive is replaced");
        assert!(
            world.monitor.problem(0).unwrap().contains("mounted at /mnt/d0"),
            "{:?}",
            world.monitor.problem(0)
        );
        world.mounted = vec![true; N];
        world.settle_down();
        assert_eq!(world.attached, [true; 4]);
        assert_eq!(world.map.epoch, before.epoch, "they were never distrusted");
    }
}

/// A single blank folder is used automatically, several wait for an operator.
#[test]
fn several_blank_folders_wait_for_an_operator() {
    let blank = |world: &mut World, i: usize| {
        world.disks[i] = Disk::Blank;
        world.give(Event::Condition(i, Condition::Gone));
    };
    let mut world = World::new(5);
    blank(&mut world, 1);
    world.settle_down();
    assert_eq!((world.attached.clone(), world.replaced), (vec![true; 4], 1));
    let epoch = world.map.epoch;
    blank(&mut world, 0);
    blank(&mut world, 3);
    world.settle_down();
    assert_eq!((world.attached.clone(), world.map.epoch), (vec![false, true, true, false], epoch));
    assert!(world.monitor.problem(0).unwrap().contains("2 folders are blank at once"));
    let actions = world.monitor.replace(3, Found::Blank { mount: None }).unwrap();
    world.ordered[3] = true;
    world.take(actions);
    world.settle_down();
    // The other one also needs the operator: both were lost together.
    assert_eq!(world.attached, [false, true, true, true]);
    let actions = world.monitor.replace(0, Found::Blank { mount: None }).unwrap();
    world.ordered[0] = true;
    world.take(actions);
    world.settle_down();
    assert_eq!(world.attached, [true; 4]);
    assert!(world.monitor.replace(0, Found::Drive(id(101))).unwrap_err().contains("not blank"));
}

/// Two nodes with two folders each, under the same paths: the map names both.
fn two_nodes() -> (Arc<Map>, Vec<String>) {
    let paths: Vec<String> = (0..2).map(path).collect();
    let drives: Vec<_> = (0..4).map(|i| (id(i as u64 + 1), path(i % 2), 1000)).collect();
    let mut map = Map::first(DeploymentId([7; 16]), &drives, None, Some(3)).unwrap();
    for (i, drive) in map.drives.iter_mut().enumerate() {
        drive.node = i as u16 / 2;
    }
    (Arc::new(map), paths)
}

/// Probes the folders again and again for a minute; returns what was asked for besides probes.
fn watched(monitor: &mut Monitor, found: &[Found]) -> Vec<Action> {
    let mut asked = Vec::new();
    for second in 1..=60 {
        for action in monitor.step(Event::Tick(secs(second))) {
            let Action::Probe(i) = action else {
                asked.push(action);
                continue;
            };
            asked.extend(monitor.step(Event::Probed(i, found[i].clone())));
        }
    }
    asked.retain(|a| !matches!(a, Action::Note(..)));
    asked
}

/// The drives of the other node are not served by this process, and they are not missing for that.
#[test]
fn a_blank_folder_of_one_node_does_not_replace_the_drive_of_another() {
    let (map, mut paths) = two_nodes();
    let blank = || Found::Blank { mount: None };
    for node in 0..2 {
        let own = 2 * u64::from(node);
        let settings = Settings { node: Some(node), ..Settings::default() };
        // Both own drives are there, and a further folder is blank: at a path of its own, or of the other node.
        for further in ["/new", "/mnt/d1/drive"] {
            paths.truncate(1);
            paths.extend(["/moved".to_owned(), further.to_owned()]);
            let mut monitor = Monitor::new(&paths, map.clone(), settings);
            for i in 0..2 {
                monitor.started(i, true);
                let opened = Opened { id: id(own + 1 + i as u64), voter: true, distrust: None };
                assert_eq!(monitor.step(Event::Opened(i, Ok(opened)))[1..], [Action::Attach(i)]);
            }
            let found = [blank(), blank(), blank()];
            assert_eq!(watched(&mut monitor, &found), [], "node {node}, {further}");
            assert_eq!(monitor.problem(2), Some("blank, and no drive is missing"));
            assert_eq!(monitor.replaced_by(2), None);
            assert!(monitor.replace(2, blank()).unwrap_err().contains("no drive is missing"));
        }
        // Its own drive is gone: that one is replaced, not the one with the same path on the other node.
        paths.truncate(1);
        paths.push(path(1));
        let mut monitor = Monitor::new(&paths, map.clone(), settings);
        monitor.started(0, true);
        let opened = Opened { id: id(own + 1), voter: true, distrust: None };
        monitor.step(Event::Opened(0, Ok(opened)));
        assert_eq!(watched(&mut monitor, &[blank(), blank()]), [Action::Format(1, None)], "node {node}");
        assert_eq!(monitor.folders[1].replaces, Some(id(own + 2)));
        assert_eq!([0, 1, 2].map(|i| monitor.replaced_by(i)), [Some(id(own + 1)), Some(id(own + 2)), None]);
    }
}

/// A drive that was carried to another node is not opened there, and does not replace what belongs there.
#[test]
fn the_drive_of_another_node_is_left_alone() {
    let (map, paths) = two_nodes();
    let settings = Settings { node: Some(0), ..Settings::default() };
    let mut monitor = Monitor::new(&paths, map.clone(), settings);
    let found = [Found::Drive(id(3)), Found::Drive(id(4))];
    assert_eq!(watched(&mut monitor, &found), []);
    assert!(monitor.problem(0).unwrap().starts_with("it is a drive of node 1"), "{:?}", monitor.problem(0));
    // Opened before its label was compared with the map: it is closed; what was noticed is not lost.
    let mut monitor = Monitor::new(&paths, map, settings);
    monitor.started(0, true);
    let why = "it went back in time".to_owned();
    let opened = Opened { id: id(3), voter: true, distrust: Some(why.clone()) };
    let mut actions = monitor.step(Event::Opened(0, Ok(opened)));
    actions.retain(|a| !matches!(a, Action::Note(..)));
    assert_eq!(actions, [Action::Discard(0), Action::Distrust(id(3), why)]);
    monitor.step(Event::Closed(0));
    assert_eq!((monitor.serving(0), monitor.folders[0].drive), (None, None));
}

/// A fence survives a restart by the drive's own mark or, if that cannot be written, by the map.
#[test]
fn fence_survives_restart() {
    for marked in [true, false] {
        let mut world = World::new(9);
        world.give(Event::Condition(1, Condition::Failed("flush failed".to_owned())));
        if let Disk::Drive { unsound, marked: m, .. } = &mut world.disks[1] {
            (*unsound, *m) = (true, marked);
        }
        let mut kept = Vec::new();
        for action in std::mem::take(&mut world.pending) {
            // The drive's mark and the map: either one is enough.
            let note = matches!(action, Action::Distrust(..));
            if note && !marked { world.perform(action) } else { kept.push(action) }
        }
        assert!(kept.iter().any(|a| matches!(a, Action::Withdraw(1, _))), "{kept:?}");
        world.restart();
        world.look(1);
        while !world.pending.is_empty() {
            world.step_pending();
        }
        // `attach` panics if it votes.
        for _ in 0..100 {
            world.look(60);
            while !world.pending.is_empty() {
                world.step_pending();
            }
        }
        assert!(world.attached[1], "marked {marked}");
        assert!(matches!(world.disks[1], Disk::Drive { voter: false, .. }));
        world.settle_down();
        assert!(matches!(world.disks[1], Disk::Drive { voter: true, unsound: false, .. }));
        assert_eq!(
            world.map.drive(id(2)).map(|d| (world.map.is_joining(d.id), d.distrusted.clone())),
            Some((false, None))
        );
    }
}

/// A drive that failed is opened again after a growing pause; a blank disk in its place is detected at once.
#[test]
fn failed_drive_is_reopened_with_growing_pause() {
    let mut world = World::new(3);
    let mut tried = BTreeMap::new();
    for pause in [30, 60, 120, 240] {
        world.give(Event::Condition(0, Condition::Failed("flush failed".to_owned())));
        let began = world.now;
        let mut opened = false;
        while !opened {
            world.look(1);
            while let Some(action) = world.pending.pop() {
                opened |= action == Action::Open(0);
                if action == Action::MakeJoining(0) {
                    if let Some(Disk::Drive { voter, .. }) = world.drive(0) {
                        *voter = false;
                    }
                    world.give(Event::MadeJoining(0, Ok(())));
                } else {
                    world.perform(action);
                }
            }
        }
        tried.insert(pause, (world.now - began).as_secs());
    }
    assert!(tried.iter().all(|(pause, took)| (*pause..*pause + 5).contains(took)), "{tried:?}");
    world.give(Event::Condition(0, Condition::Failed("flush failed".to_owned())));
    world.disks[0] = Disk::Blank;
    for _ in 0..12 {
        world.look(1);
        while !world.pending.is_empty() {
            world.step_pending();
        }
    }
    assert!(world.attached[0] && world.replaced == 1, "{:?}", world.monitor.problem(0));
}

/// A drive that shows that it went back in time joins, like one that failed.
#[test]
fn drive_joins_after_rollback() {
    let mut world = World::new(4);
    world.restart();
    world.monitor.started(1, true);
    let why = Some("it went back in time".to_owned());
    world.open[1] = Some(id(2));
    let actions = world.monitor.step(Event::Opened(1, Ok(Opened { id: id(2), voter: true, distrust: why })));
    assert!(actions.contains(&Action::MakeJoining(1)), "{actions:?}");
    assert!(
        actions.iter().any(|a| matches!(a, Action::Distrust(..))) && !actions.contains(&Action::Attach(1))
    );
    assert_eq!(world.monitor.serving(1), None);
}

/// A replaced drive joins group by group; damage to the state of one group removes its vote in this group
/// only.
#[test]
fn map_follows_drives_group_by_group() {
    let drives: Vec<_> = (0..N).map(|i| (id(i as u64 + 1), path(i), 1000)).collect();
    let map = Map::first(DeploymentId([7; 16]), &drives, None, Some(4)).unwrap();
    let all = map.groups_of(id(1));
    assert_eq!(all.len(), 4);
    let at = || FoundAt { id: id(1), path: path(0), mount: None };
    let settled =
        |map: &Map, votes: &[GroupId]| updated_map(map, &[Serving { at: at(), votes: votes.to_vec() }]);
    let joining = |map: &Map| -> Vec<GroupId> {
        let joins = |g: &&crate::Group| g.slot_of(id(1)).is_some_and(|s| s.joining);
        map.groups.iter().filter(joins).map(|g| g.id).collect()
    };
    assert_eq!(settled(&map, &all), map);
    let one = settled(&map, &all[1..]);
    assert_eq!((joining(&one), one.epoch), (vec![all[0]], 2));
    assert_eq!(one.groups.iter().map(|g| g.epoch).collect::<Vec<_>>(), [2, 1, 1, 1]);
    assert_eq!(joining(&settled(&one, &all)), []);
    let none = settled(&map.distrust(id(1), "failed").unwrap(), &[]);
    assert_eq!((joining(&none), none.drive(id(1)).unwrap().distrusted.clone()), (all.clone(), None));
    let some = settled(&none, &all[..2]);
    assert_eq!((joining(&some), some.epoch), (all[2..].to_vec(), none.epoch));
}

/// What a drive still holds of groups that moved away from it, or did not get yet, changes nothing.
#[test]
fn votes_without_a_slot_change_nothing() {
    let drives: Vec<_> = (0..N).map(|i| (id(i as u64 + 1), path(i), 1000)).collect();
    let code = crate::CodeSpec { k: 1, m: 1 };
    let map = Map::first(DeploymentId([7; 16]), &drives, Some(code), Some(4)).unwrap();
    let group = map.groups[0].clone();
    let (from, stays) = (group.slots[0].drive, group.slots[1].drive);
    let to = map.drives.iter().find(|d| group.slot_of(d.id).is_none()).unwrap().id;
    let moved = map.move_slots(&[crate::SlotMove { group: group.id, from, to }]).unwrap();
    let settled = |map: &Map, id: DriveId, votes: Vec<GroupId>| {
        let path = map.drive(id).unwrap().path.clone();
        updated_map(map, &[Serving { at: FoundAt { id, path, mount: None }, votes }])
    };
    // It is back, and believes that it votes as before; or has lost that vote.
    assert_eq!(settled(&moved, from, map.groups_of(from)), moved);
    assert_eq!(settled(&moved, from, moved.groups_of(from)), moved);
    assert_eq!(settled(&moved, stays, map.groups_of(stays)), moved);
    // The new drive votes in its other groups until it has joined.
    assert_eq!(settled(&moved, to, map.groups_of(to)), moved);
    let joined = settled(&moved, to, moved.groups_of(to));
    assert_eq!((joined.epoch, joined.is_joining(to), joined.left_by(from).len()), (moved.epoch, false, 1));
}
