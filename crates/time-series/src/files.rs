//! The segments as files of a folder: `STEP-START`, both in seconds.
//!
//! Invariants: a file that cannot be read as a segment is renamed to `NAME.damaged` and never read again; bytes that were
//! not written completely before a crash are cut off; a file of a newer release stays as it is.
//!
//! Must not depend on: what is measured, when files are written.

use std::collections::BTreeMap;
use std::io;

use ashlar_machine::{DiskFile, Folder};

use crate::Error;
use crate::history::{Change, History};
use crate::point::Kind;
use crate::ring::LONGEST;

/// What is at the end of the name of a file that was set aside.
const DAMAGED: &str = ".damaged";
/// The name of a file that is being written.
const NEW: &str = "new";
/// More bytes at the end of a file than a crash leaves: records of some minutes.
const TORN: usize = 4096;

/// A history from files.
pub struct Loaded {
    /// The history.
    pub history: History,
    /// Its files.
    pub files: Files,
    /// What was set aside or cut off, for the log.
    pub problems: Vec<String>,
}

/// The files of a history in a folder.
pub struct Files {
    folder: Folder,
    /// The file that grows, of each step, with its beginning.
    open: BTreeMap<i64, (i64, DiskFile)>,
}

fn name(step_s: i64, start_s: i64) -> String {
    format!("{step_s}-{start_s:012}")
}

fn parse(name: &str) -> Option<(i64, i64)> {
    let (step, start) = name.split_once('-')?;
    let place = (step.parse().ok()?, start.parse().ok()?);
    (self::name(place.0, place.1) == name).then_some(place)
}

impl Files {
    /// Reads the files in `folder`, which must exist.
    ///
    /// # Errors
    /// The folder cannot be read or written, or a newer release wrote into it. A bad file is no error.
    pub fn load(folder: Folder, kinds: &'static [Kind]) -> io::Result<Loaded> {
        let mut history = History::new(kinds);
        let mut files = Files { folder, open: BTreeMap::new() };
        let mut problems = Vec::new();
        let mut places: Vec<(i64, i64)> = files.folder.list()?.iter().filter_map(|n| parse(n)).collect();
        places.sort_unstable();
        for (step_s, start_s) in places {
            files.load_one(&mut history, step_s, start_s, &mut problems)?;
        }
        let changes = history.complete();
        files.apply(&changes)?;
        Ok(Loaded { history, files, problems })
    }

    fn load_one(
        &mut self,
        history: &mut History,
        step_s: i64,
        start_s: i64,
        problems: &mut Vec<String>,
    ) -> io::Result<()> {
        let name = name(step_s, start_s);
        let read = self.folder.read(&name, LONGEST as u64);
        let loaded = match &read {
            Ok(bytes) => history.load(step_s, start_s, bytes).map(|good| (good, bytes.len())),
            Err(_) => Err(Error::Damaged("it cannot be read")),
        };
        let path = self.folder.path().join(&name);
        match loaded {
            Ok((good, all)) if good == all && all > 0 => {}
            Ok((good, all)) => {
                let kept = read.map(|mut bytes| {
                    bytes.truncate(good);
                    bytes
                })?;
                if all - good > TORN {
                    self.set_aside(&name)?;
                    problems.push(format!(
                        "{}: {} of {all} bytes of the history of metrics are damaged; what is before them is kept, the file is set aside as {name}{DAMAGED}",
                        path.display(), all - good
                    ));
                }
                if good == 0 {
                    self.folder.remove(&name)?;
                } else {
                    self.replace(&name, &kept)?;
                }
            }
            Err(Error::Newer(format)) => {
                return Err(io::Error::other(format!(
                    "{}: a newer release wrote it (format {format}), and it stays as it is",
                    path.display()
                )));
            }
            Err(Error::Damaged(why)) => {
                self.set_aside(&name)?;
                problems.push(format!(
                    "{}: not a history of metrics: {why}; the file is set aside as {name}{DAMAGED}",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    fn set_aside(&self, name: &str) -> io::Result<()> {
        self.folder.rename(name, &format!("{name}{DAMAGED}"))?;
        self.folder.sync()
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.folder.remove(NEW)?;
        self.folder.write_new(NEW, bytes)?;
        self.folder.rename(NEW, name)?;
        self.folder.sync()
    }

    /// Makes changes, in their order, and flushes them.
    ///
    /// # Errors
    /// The folder or a file cannot be written. The files are to be loaded again, or written whole to another folder.
    pub fn apply(&mut self, changes: &[Change]) -> io::Result<()> {
        let mut names_changed = false;
        let mut grown = BTreeMap::new();
        for change in changes {
            match change {
                Change::Append { step_s, start_s, at, bytes } => {
                    names_changed |= *at == 0;
                    self.append(*step_s, *start_s, *at, bytes)?;
                    grown.insert(*step_s, *start_s);
                }
                Change::Replace { step_s, start_s, bytes } => {
                    self.open.remove(step_s);
                    grown.remove(step_s);
                    self.replace(&name(*step_s, *start_s), bytes)?;
                }
                Change::Remove { step_s, start_s } => {
                    names_changed = true;
                    self.folder.remove(&name(*step_s, *start_s))?;
                }
            }
        }
        for step_s in grown.keys() {
            if let Some((_, file)) = self.open.get(step_s) {
                file.sync_data()?;
            }
        }
        if names_changed {
            self.folder.sync()?;
        }
        Ok(())
    }

    fn append(&mut self, step_s: i64, start_s: i64, at: usize, bytes: &[u8]) -> io::Result<()> {
        if self.open.get(&step_s).is_none_or(|(start, _)| *start != start_s) {
            if let Some((_, before)) = self.open.remove(&step_s) {
                before.sync_data()?;
            }
            let name = name(step_s, start_s);
            let file = match at {
                // A file of this name has nothing that was loaded.
                0 => {
                    self.folder.remove(&name)?;
                    self.folder.create(&name, false)?
                }
                _ => self.folder.open(&name, false)?,
            };
            self.open.insert(step_s, (start_s, file));
        }
        let Some((_, file)) = self.open.get(&step_s) else { return Ok(()) };
        // The folder may have been emptied, for a blank drive: what is written now would be lost.
        if !file.linked()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed"));
        }
        file.write_at(bytes, at as u64)
    }
}
