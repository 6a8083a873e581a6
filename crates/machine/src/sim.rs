//! A disk in memory that logs every write and flush, for crash tests.
//!
//! A crash keeps everything that was flushed and an arbitrary part of the rest: each 512-byte sector of an
//! unflushed write is kept or lost independently, writes are reordered, names of files appear, disappear or
//! stay. This is harsher than any real file system.
//!
//! Invariant: an image depends only on the log and the given random numbers.
//!
//! Must not depend on: the content of files.

use ashlar_environment::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::space::Space;

const SECTOR: usize = 512;

type Content = Arc<Mutex<Arc<Vec<u8>>>>;

#[derive(Clone, Debug)]
enum Event {
    Write { file: u64, at: u64, data: Arc<[u8]> },
    SetLen { file: u64, len: u64 },
    Punch { file: u64, at: u64, len: u64 },
    Sync { file: u64 },
    Name { name: String, file: Option<u64> },
    Rename { from: String, to: String, file: u64 },
    SyncNames { prefix: String },
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, u64>,
    files: HashMap<u64, Content>,
    next: u64,
    log: Vec<Event>,
    /// False for an image made by a crash, which is only read.
    logging: bool,
    limit: u64,
}

/// A disk in memory. Cloning gives another handle.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimDisk`].
pub(crate) struct SimFile {
    disk: SimDisk,
    file: u64,
    content: Content,
}

impl SimDisk {
    /// An empty disk of `bytes` bytes that logs.
    #[must_use]
    pub fn new(bytes: u64) -> SimDisk {
        let d = SimDisk::default();
        {
            let mut s = d.state.lock();
            s.logging = true;
            s.limit = bytes;
        }
        d
    }

    /// Number of logged events: a position for [`Crash::advance`].
    #[must_use]
    pub fn position(&self) -> usize {
        self.state.lock().log.len()
    }

    /// Logs from now on, with what is here as flushed: for an image (see [`Crash::image`]) that goes back into
    /// service and may lose power again.
    pub fn resume(&self) {
        let s = &mut *self.state.lock();
        (s.logging, s.log) = (true, Vec::new());
        let mut folders: Vec<String> = vec![String::new()];
        for (name, file) in &s.names {
            let data: Arc<[u8]> = s.files[file].lock().as_slice().into();
            s.log.push(Event::Name { name: name.clone(), file: Some(*file) });
            s.log.push(Event::Write { file: *file, at: 0, data });
            s.log.push(Event::Sync { file: *file });
            folders.extend(name.rfind('/').map(|end| name[..=end].to_owned()));
        }
        folders.sort();
        folders.dedup();
        s.log.extend(folders.into_iter().map(|prefix| Event::SyncNames { prefix }));
    }

    /// Sets how many bytes fit from now on. What is there stays, also if it is more.
    pub fn set_limit(&self, bytes: u64) {
        self.state.lock().limit = bytes;
    }

    /// The bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        let s = self.state.lock();
        s.names.values().map(|f| s.files[f].lock().len() as u64).sum()
    }

    /// Flips one bit of a file.
    ///
    /// # Panics
    /// If there is no such file or bit.
    pub fn flip(&self, name: &str, at: u64, bit: u8) {
        let f = self.open(name).expect("the file of a test");
        let mut c = f.content.lock();
        Arc::make_mut(&mut c)[at as usize] ^= 1 << bit;
    }

    /// All files with their contents.
    #[must_use]
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let s = self.state.lock();
        s.names.iter().map(|(n, f)| (n.clone(), s.files[f].lock().to_vec())).collect()
    }

    /// Replaces (or with `None` removes) a file without the knowledge of the disk's users.
    pub fn put(&self, name: &str, content: Option<Vec<u8>>) {
        let mut s = self.state.lock();
        match content {
            None => {
                s.names.remove(name);
            }
            Some(c) => {
                let id = s.next;
                s.next += 1;
                s.files.insert(id, Arc::new(Mutex::new(Arc::new(c))));
                s.names.insert(name.to_owned(), id);
            }
        }
    }

    pub(crate) fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut s = self.state.lock();
        if s.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = s.next;
        s.next += 1;
        let content = Content::default();
        s.files.insert(file, content.clone());
        s.names.insert(name.to_owned(), file);
        s.note(Event::Name { name: name.to_owned(), file: Some(file) });
        drop(s);
        Ok(SimFile { disk: self.clone(), file, content })
    }

    pub(crate) fn open(&self, name: &str) -> io::Result<SimFile> {
        let s = self.state.lock();
        let file = *s.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let content = s.files[&file].clone();
        drop(s);
        Ok(SimFile { disk: self.clone(), file, content })
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut s = self.state.lock();
        s.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        s.note(Event::Name { name: name.to_owned(), file: None });
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut s = self.state.lock();
        let file = s.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        s.names.insert(to.to_owned(), file);
        s.note(Event::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    pub(crate) fn list(&self, prefix: &str) -> Vec<String> {
        let s = self.state.lock();
        let mut out: Vec<String> = s
            .names
            .keys()
            .filter_map(|n| n.strip_prefix(prefix))
            .map(|n| n.split('/').next().unwrap_or(n).to_owned())
            .collect();
        out.dedup();
        out
    }

    pub(crate) fn sync_names(&self, prefix: &str) {
        self.state.lock().note(Event::SyncNames { prefix: prefix.to_owned() });
    }

    pub(crate) fn space(&self) -> Space {
        let used = self.used();
        let s = self.state.lock();
        Space {
            total: s.limit,
            free: s.limit.saturating_sub(used),
            read_only: false,
            inodes: 0,
            inodes_free: 0,
        }
    }
}

impl State {
    fn note(&mut self, e: Event) {
        if self.logging {
            self.log.push(e);
        }
    }
}

fn write(content: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at as usize..end].copy_from_slice(data);
}

impl SimFile {
    pub(crate) fn number(&self) -> u64 {
        self.file
    }
    pub(crate) fn linked(&self) -> bool {
        self.disk.state.lock().names.values().any(|f| *f == self.file)
    }
    pub(crate) fn len(&self) -> u64 {
        self.content.lock().len() as u64
    }
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let c = self.content.lock();
        let at = at as usize;
        match c.get(at..at + buf.len()) {
            Some(s) => buf.copy_from_slice(s),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
    pub(crate) fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        write(Arc::make_mut(&mut self.content.lock()), at, data);
        let mut s = self.disk.state.lock();
        if s.logging {
            s.log.push(Event::Write { file: self.file, at, data: data.into() });
        }
        Ok(())
    }
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        let have = self.len();
        if len > have && len - have > self.disk.space().free {
            // With its number, as of a real disk.
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Arc::make_mut(&mut self.content.lock()).resize(len as usize, 0);
        self.disk.state.lock().note(Event::SetLen { file: self.file, len });
        Ok(())
    }
    pub(crate) fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        {
            let mut c = self.content.lock();
            punch(Arc::make_mut(&mut c).as_mut_slice(), at, len);
        }
        self.disk.state.lock().note(Event::Punch { file: self.file, at, len });
        Ok(())
    }
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.state.lock().note(Event::Sync { file: self.file });
        Ok(())
    }
}

fn punch(content: &mut [u8], at: u64, len: u64) {
    let end = (at + len).min(content.len() as u64) as usize;
    if let Some(s) = content.get_mut(at as usize..end) {
        s.fill(0);
    }
}

/// Reads the log of a [`SimDisk`] and makes images of possible states after a crash at a position.
pub struct Crash {
    log: Vec<Event>,
    at: usize,
    files: HashMap<u64, Arc<Vec<u8>>>,
    pending: BTreeMap<u64, Vec<usize>>,
    names: BTreeMap<String, u64>,
    pending_names: Vec<usize>,
}

impl Crash {
    /// Starts before the first event that `disk` has logged.
    #[must_use]
    pub fn new(disk: &SimDisk) -> Crash {
        Crash {
            log: disk.state.lock().log.clone(),
            at: 0,
            files: HashMap::default(),
            pending: BTreeMap::new(),
            names: BTreeMap::new(),
            pending_names: Vec::new(),
        }
    }

    /// Moves to `position`; only forward.
    pub fn advance(&mut self, position: usize) {
        while self.at < position.min(self.log.len()) {
            self.step();
        }
    }

    fn step(&mut self) {
        let i = self.at;
        self.at += 1;
        match &self.log[i] {
            Event::Write { file, .. } | Event::SetLen { file, .. } | Event::Punch { file, .. } => {
                self.pending.entry(*file).or_default().push(i);
            }
            Event::Sync { file } => {
                let content = self.files.entry(*file).or_default();
                for p in self.pending.remove(file).unwrap_or_default() {
                    apply(Arc::make_mut(content), &self.log[p]);
                }
            }
            Event::Name { .. } | Event::Rename { .. } => self.pending_names.push(i),
            Event::SyncNames { prefix } => {
                let log = &self.log;
                let names = &mut self.names;
                self.pending_names.retain(|p| {
                    let name = match &log[*p] {
                        Event::Name { name, .. } => name,
                        Event::Rename { to, .. } => to,
                        _ => return false,
                    };
                    let here = name.strip_prefix(prefix).is_some_and(|n| !n.contains('/'));
                    if here {
                        set_name(names, &log[*p]);
                    }
                    !here
                });
            }
        }
    }

    /// An image: `random` gives uniform 64-bit numbers.
    pub fn image(&self, mut random: impl FnMut() -> u64) -> SimDisk {
        let mut files = self.files.clone();
        // Choose how much of the unflushed data survives: nothing, everything, or a part.
        let keep = [0, 256, 128, 20, 236][(random() % 5) as usize];
        for (file, events) in &self.pending {
            let content = Arc::make_mut(files.entry(*file).or_default());
            for e in events {
                survive(content, &self.log[*e], keep, &mut random);
            }
        }
        let mut names = self.names.clone();
        for p in &self.pending_names {
            if random() % 256 < keep {
                set_name(&mut names, &self.log[*p]);
            }
        }
        let image = SimDisk::new(1 << 40);
        {
            let mut s = image.state.lock();
            s.logging = false;
            s.next = 1 + self.files.keys().chain(names.values()).max().copied().unwrap_or(0);
            for file in names.values() {
                let content = files.get(file).cloned().unwrap_or_default();
                s.files.insert(*file, Arc::new(Mutex::new(content)));
            }
            s.names = names;
        }
        image
    }
}

fn set_name(names: &mut BTreeMap<String, u64>, e: &Event) {
    match e {
        Event::Name { name, file: Some(f) } => {
            names.insert(name.clone(), *f);
        }
        Event::Name { name, file: None } => {
            names.remove(name);
        }
        Event::Rename { from, to, file } => {
            names.remove(from);
            names.insert(to.clone(), *file);
        }
        _ => {}
    }
}

fn apply(content: &mut Vec<u8>, e: &Event) {
    match e {
        Event::Write { at, data, .. } => write(content, *at, data),
        Event::SetLen { len, .. } => content.resize(*len as usize, 0),
        Event::Punch { at, len, .. } => punch(content.as_mut_slice(), *at, *len),
        _ => {}
    }
}

/// Applies a part of an unflushed change: sectors survive with probability `keep` / 256 each.
fn survive(content: &mut Vec<u8>, e: &Event, keep: u64, random: &mut impl FnMut() -> u64) {
    match e {
        Event::Write { at, data, .. } => {
            let mut pos = 0;
            while pos < data.len() {
                let to_boundary = SECTOR - (*at as usize + pos) % SECTOR;
                let end = (pos + to_boundary).min(data.len());
                if random() % 256 < keep {
                    write(content, *at + pos as u64, &data[pos..end]);
                }
                pos = end;
            }
        }
        e => {
            if random() % 256 < keep {
                apply(content, e);
            }
        }
    }
}
