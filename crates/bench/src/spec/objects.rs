//! The life cycle of an Ashlar server at the level of objects: large objects for sequential work,
//! small ones for random work, drives taken down and replaced through its administration.
//!
//! Invariants: data is under prefixes of this run and is removed at the end; a drive's folder is emptied only
//! if that was requested, and then moved aside first, so that it can be restored if its replacement does not
//! begin; drives that were taken down and not replaced are put back into service.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use ashlar_bench_report::{
    check::Facts,
    result::{Caveat, Phase},
    units,
};
use ashlar_client::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    Driver, Rebuild,
    watch::{EVERY, Watch},
};
use crate::{
    Error, Result,
    load::{
        self, Console, Delta, Ended, Job, Mode, Offer, Op, Order, RunContext, Runner, Session, Sizes, Stop,
        Warmup,
    },
};

/// How the folder of a drive that was taken down becomes blank.
#[derive(Clone, Debug, PartialEq)]
pub enum Blank {
    /// It does not: there is no rebuild.
    Never,
    /// The folder is on this machine: it is moved aside, and removed when the rebuild is over.
    Aside,
    /// This command does it; the drive's path is in `DRIVE`.
    Command(String),
}

/// What to do with a server.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What all jobs share: target, bucket, prefix, run, seed, concurrency, seconds, data. Its mode,
    /// sizes, objects and mix are set for each phase.
    pub job: Job,
    /// Bytes of a large object, and how many are prepared to be read.
    pub large: (u64, u64),
    /// The same of small objects.
    pub small: (u64, u64),
    /// Drives to take down, by path or id; empty: the first ones that can be spared.
    pub drives: Vec<String>,
    /// How many, if `drives` does not say: as many as the code survives and the server can spare.
    pub down: Option<u32>,
    /// How they become blank.
    pub blank: Blank,
    /// Memory of the server's machine, if it is known.
    pub memory_bytes: Option<u64>,
}

/// A drive that was taken down.
struct Taken {
    path: String,
    aside: Option<PathBuf>,
    replaced: bool,
}

/// An Ashlar server as a [`Driver`].
pub struct Objects<'a> {
    setup: Setup,
    admin: Client,
    /// Has a thread of its own, so that the watch of a rebuild can share the client's connections.
    runtime: Arc<Runtime>,
    console: &'a mut dyn Console,
    around: RunContext<'a>,
    begun: Instant,
    /// Sessions whose data is read again and again, and whether it is there yet.
    kept: BTreeMap<String, (Job, Session, bool)>,
    taken: Vec<Taken>,
    watch: Option<Watch>,
    /// What the loads had to say that [`super::check`] does not, each once.
    caveats: Vec<Caveat>,
    phases: u64,
}

impl<'a> Objects<'a> {
    /// Asks the server who it is; touches nothing.
    ///
    /// # Errors
    /// When it cannot be asked or is no Ashlar server.
    pub fn new(
        setup: Setup,
        admin: Client,
        console: &'a mut dyn Console,
        around: RunContext<'a>,
    ) -> Result<Objects<'a>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let objects = Objects {
            setup,
            admin,
            runtime: Arc::new(runtime.map_err(Error::io("cannot start"))?),
            console,
            around,
            begun: Instant::now(),
            kept: BTreeMap::new(),
            taken: Vec::new(),
            watch: None,
            caveats: Vec::new(),
            phases: 0,
        };
        let info = objects.info()?;
        if !info["drives"].is_array() {
            return Err(Error::setup("this is not an Ashlar server"));
        }
        Ok(objects)
    }

    /// The facts that the server reports.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn info(&self) -> Result<Value> {
        self.ask(Method::GET, "info", None)
    }

    /// What the loads had to say, beyond the checks of a life cycle.
    pub fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.runtime.block_on(self.admin.admin(method, path, &[], body));
        answer.map_err(|e| Error::setup(format!("administration `{path}`: {e}")))
    }

    fn order(&self, verb: &str, drive: &str) -> Result<Value> {
        self.ask(Method::POST, &format!("drives/{verb}"), Some(&json!({ "drive": drive })))
    }

    /// Bytes that are written before anything is read: what is read large, and twice what is read small.
    pub fn prepared_bytes(&self) -> u64 {
        let of = |(size, objects): (u64, u64)| size.saturating_mul(objects);
        of(self.setup.large).saturating_add(of(self.setup.small).saturating_mul(2))
    }

    /// Removes the data, and what was moved aside if its rebuild is over.
    ///
    /// # Errors
    /// When something stays behind, which is then named.
    pub fn clean(&mut self) -> Result<()> {
        let mut left: Vec<String> = Vec::new();
        for (name, (_, mut session, _)) in std::mem::take(&mut self.kept) {
            if let Err(error) = session.clean(self.console) {
                left.push(format!("objects of {name}: {error}"));
            }
        }
        let done = self.watch.as_ref().is_some_and(|w| w.state.lock().0.done);
        for taken in &mut self.taken {
            let Some(aside) = taken.aside.take() else { continue };
            if !done {
                left.push(format!("{}, because the rebuild has not finished", aside.display()));
            } else if let Err(error) = fs::remove_dir_all(&aside) {
                left.push(format!("{}: {error}", aside.display()));
            }
        }
        if left.is_empty() { Ok(()) } else { Err(Error::setup(format!("left behind: {}", left.join("; ")))) }
    }

    /// The job of a phase.
    fn job(&self, name: &str) -> Job {
        let mut job = self.setup.job.clone();
        let large = name.starts_with("seq");
        let (size, objects) = if large { self.setup.large } else { self.setup.small };
        job.sizes = Sizes::Fixed(size);
        job.objects = objects;
        job.order = if large { Order::Sequential } else { Order::Random };
        (job.mode, job.mix) = match () {
            () if name.contains("-put-") => (Mode::Put, vec![(Op::Put, 1)]),
            () if name.contains("-mixed-") => (Mode::Mixed, vec![(Op::Get, 70), (Op::Put, 30)]),
            () => (Mode::Get, vec![(Op::Get, 1)]),
        };
        job.run = format!("{}-{name}-{}", job.run, self.phases);
        job
    }
}

/// A session whose data stays for the next phase.
struct Kept<'a> {
    session: &'a mut Session,
    ready: &'a mut bool,
}

impl Runner for Kept<'_> {
    fn prepare(&mut self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()> {
        if !*self.ready {
            self.session.prepare(console, interrupt)?;
            *self.ready = true;
        }
        Ok(())
    }

    fn run(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        interrupt: &AtomicBool,
        sink: &mut dyn FnMut(Option<u32>, Delta) -> Option<load::Reason>,
    ) -> Result<Ended> {
        self.session.run(offer, stop, interrupt, sink)
    }

    fn clean(&mut self, _: &mut dyn Console) -> Result<()> {
        Ok(())
    }
}

impl Driver for Objects<'_> {
    type Error = Error;

    fn phases(&self) -> Vec<String> {
        let text = |bytes: u64| units::size(bytes as f64).replace(' ', "");
        let (large, small) = (text(self.setup.large.0), text(self.setup.small.0));
        let large = ["get", "put"].map(|op| format!("seq-{op}-{large}"));
        let small = ["get", "mixed", "put"].map(|op| format!("rand-{op}-{small}"));
        large.into_iter().chain(small).collect()
    }

    fn phase(&mut self, name: &str) -> Result<Phase> {
        self.phases += 1;
        let at_s = self.begun.elapsed().as_secs_f64();
        let run = if name.contains("-put-") {
            // What is written is removed after each phase: it would fill the drives.
            let job = self.job(name);
            let mut session = Session::new(job.clone())?;
            load::drive(&job, &mut session, self.console, &self.around)?
        } else {
            if !self.kept.contains_key(name) {
                let job = self.job(name);
                self.kept.insert(name.to_owned(), (job.clone(), Session::new(job)?, false));
            }
            let Some((job, session, ready)) = self.kept.get_mut(name) else { unreachable!("just inserted") };
            load::drive(job, &mut Kept { session, ready }, self.console, &self.around)?
        };
        // These are judged over the whole life cycle.
        let judged = ["errors", "cached-data", "client-throttled", "units", "interrupted"];
        for caveat in run.caveats.into_iter().filter(|c| !judged.contains(&c.code.as_str())) {
            if !self.caveats.iter().any(|c| c.code == caveat.code) {
                self.caveats.push(Caveat { text: format!("{name}: {}", caveat.text), ..caveat });
            }
        }
        let none = || match self.around.interrupt.load(Ordering::Relaxed) {
            true => Error::setup("interrupted"),
            false => Error::setup(format!("{name}: nothing was measured")),
        };
        let mut phase = run.phases.into_iter().next().ok_or_else(none)?;
        if self.around.interrupt.load(Ordering::Relaxed) {
            "interrupted".clone_into(&mut phase.stopped_by);
        }
        name.clone_into(&mut phase.name);
        phase.at_s = at_s;
        Ok(phase)
    }

    fn take_down(&mut self) -> Result<()> {
        let info = self.info()?;
        let parity = info["parity_shards"].as_u64().unwrap_or(1) as u32;
        let online = info["drives"].as_array().into_iter().flatten().filter(|d| d["state"] == "online");
        let online: Vec<String> = online.filter_map(|d| d["path"].as_str().map(str::to_owned)).collect();
        let named = !self.setup.drives.is_empty();
        let (names, wanted) = if named {
            (self.setup.drives.clone(), self.setup.drives.len())
        } else {
            (online, self.setup.down.unwrap_or(parity) as usize)
        };
        for name in names.into_iter().take(wanted) {
            match self.order("offline", &name) {
                Ok(answer) => {
                    let path = path_of(&answer, &name).unwrap_or(name);
                    self.console.note(&format!("{path} is out of service"));
                    self.taken.push(Taken { path, aside: None, replaced: false });
                }
                // The server refuses to lose what it needs to go on writing.
                Err(error) if !self.taken.is_empty() && !named && self.setup.down.is_none() => {
                    self.console.note(&format!("{} of {wanted} drives are down: {error}", self.taken.len()));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if self.taken.is_empty() { Err(Error::setup("there is no drive to take down")) } else { Ok(()) }
    }

    fn start_rebuild(&mut self) -> Result<()> {
        let began = Instant::now();
        for i in 0..self.taken.len() {
            let path = self.taken[i].path.clone();
            self.taken[i].aside = blank(&self.setup.blank, &path, &self.setup.job.run)?;
            self.order("replace", &path)?;
            self.taken[i].replaced = true;
            self.console.note(&format!("{path} was replaced by a blank drive and is rebuilt"));
        }
        let paths = self.taken.iter().map(|t| t.path.clone()).collect();
        self.watch = Some(Watch::start(self.runtime.clone(), self.admin.clone(), paths, began)?);
        Ok(())
    }

    fn rebuild(&mut self) -> Result<Rebuild> {
        if self.around.interrupt.load(Ordering::Relaxed) {
            return Err(Error::setup("interrupted"));
        }
        let Some(watch) = &self.watch else { return Err(Error::setup("no rebuild was started")) };
        let state = watch.state.lock();
        match &state.1 {
            Some(why) => Err(Error::setup(format!("the progress of the rebuild cannot be read: {why}"))),
            None => Ok(state.0),
        }
    }

    fn wait(&mut self) {
        thread::sleep(EVERY);
    }

    fn restore(&mut self) {
        for i in 0..self.taken.len() {
            let Taken { path, aside, replaced } = &mut self.taken[i];
            if *replaced {
                continue;
            }
            let mut done = Ok(());
            if let Some(aside) = aside.take() {
                done = fs::remove_dir(&*path).and_then(|()| fs::rename(aside, &*path));
            }
            let path = path.clone();
            let done = done.map_err(Error::io(path.clone())).and_then(|()| self.order("online", &path));
            let said = match done {
                Ok(_) => format!("{path} is back in service"),
                Err(error) => format!("{path} could not be put back into service: {error}"),
            };
            self.console.note(&said);
        }
        self.taken.retain(|t| t.replaced);
    }

    fn facts(&self) -> Facts {
        let of = |(size, objects): (u64, u64)| size * objects;
        Facts {
            data_bytes: Some(of(self.setup.large).min(of(self.setup.small))),
            memory_bytes: self.setup.memory_bytes,
            caches_bypassed: None,
        }
    }
}

/// The path of the drive that `name` means, in an answer that lists drives.
fn path_of(answer: &Value, name: &str) -> Option<String> {
    let drives = answer["drives"].as_array()?;
    let found = drives
        .iter()
        .find(|d| d["path"] == name || d["id"].as_str().is_some_and(|id| id.starts_with(name)))?;
    found["path"].as_str().map(str::to_owned)
}

/// Makes a drive's folder blank; returns where its content went.
fn blank(how: &Blank, path: &str, run: &str) -> Result<Option<PathBuf>> {
    match how {
        Blank::Never => Err(Error::usage("a rebuild needs blank drives: --blank or --blank-command")),
        Blank::Aside => {
            let aside = PathBuf::from(format!("{path}.before-{run}"));
            let moved = fs::rename(path, &aside).and_then(|()| {
                let made = fs::create_dir(path).and_then(|()| same_mode(&aside, Path::new(path)));
                made.inspect_err(|_| {
                    // Put it back; only the first failure is reported.
                    let _ = fs::remove_dir(path);
                    let _ = fs::rename(&aside, path);
                })
            });
            moved.map_err(Error::io(format!(
                "cannot move {path} aside (a mount point needs --blank-command)"
            )))?;
            Ok(Some(aside))
        }
        Blank::Command(command) => {
            let status = Command::new("sh").arg("-c").arg(command).env("DRIVE", path).status();
            let status = status.map_err(Error::io("--blank-command"))?;
            if status.success() {
                Ok(None)
            } else {
                Err(Error::setup(format!("--blank-command for {path} ended with {status}")))
            }
        }
    }
}

fn same_mode(from: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// What every phase shares, with the parts that differ left at harmless values.
pub fn job(
    target: load::Target,
    bucket: String,
    prefix: String,
    run: String,
    seed: u64,
    concurrency: u32,
    seconds: f64,
) -> Job {
    Job {
        mode: Mode::Get,
        target,
        bucket,
        buckets: 1,
        prefix,
        run,
        depth: 0,
        fanout: 16,
        order: Order::Random,
        existing: false,
        objects: 1,
        sizes: Sizes::Fixed(1),
        shape: crate::wire::Shape::Random,
        seed,
        verify: false,
        range: None,
        mix: vec![(Op::Get, 1)],
        versions: 1,
        part_size: 5 << 20,
        parts: 1,
        batch: 1,
        list_keys: 1000,
        keep: false,
        offer: Offer { concurrency, rate: None, poisson: false, limit: 0 },
        stop: Stop { seconds: Some(seconds), ..Stop::default() },
        warmup: Warmup::Auto,
        repetitions: 1,
        max_error_rate: 0.5,
        sweep: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_moved_aside_before_replacement() {
        let home = tempfile::tempdir().unwrap();
        let drive = home.path().join("drive1");
        fs::create_dir(&drive).unwrap();
        fs::write(drive.join("label"), "x").unwrap();
        let path = drive.display().to_string();
        assert!(blank(&Blank::Never, &path, "r").is_err());
        let aside = blank(&Blank::Aside, &path, "r").unwrap().unwrap();
        assert_eq!(fs::read_dir(&drive).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(aside.join("label")).unwrap(), "x");
        assert!(blank(&Blank::Aside, "/nowhere/at/all", "r").is_err());
        assert_eq!(blank(&Blank::Command("test -d \"$DRIVE\"".into()), &path, "r").unwrap(), None);
        assert!(blank(&Blank::Command("false".into()), &path, "r").is_err());
    }

    #[test]
    fn drives_are_found_by_path_and_id() {
        let answer = json!({"drives": [{"path": "/d/1", "id": "abcdef"}]});
        assert_eq!(path_of(&answer, "abcd").as_deref(), Some("/d/1"));
        assert_eq!(path_of(&answer, "/d/1").as_deref(), Some("/d/1"));
        assert_eq!(path_of(&answer, "/d/2"), None);
    }
}
