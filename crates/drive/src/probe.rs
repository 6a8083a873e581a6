//! Probes what a path holds, formats a blank folder as a drive, and opens a drive.
//!
//! Invariants: only blank folders are formatted (docs/protocol.md 1); the label is written last, so a folder
//! with a label is a complete drive; a drive is opened at most once at a time.
//!
//! Must not depend on: other drives.

use crate::core::{EXTENTS, FENCED, INDEX, JOURNAL, Shared};
use crate::entry::Region;
use crate::fence_table::Fences;
use crate::files::{segment_name, segment_number};
use crate::head::Writer;
use crate::index::{MANIFEST, Manifest, RunSet};
use crate::op::{Op, StateChange, states_len};
use crate::run::{Run, file_name};
use crate::segment::fill_segment;
use crate::space::Freed;
use crate::types::{Options, Probe, Role};
use crate::unnamed::{Replayed, Unnamed};
use crate::{Error, Label, Result};
use ashlar_format::GroupId;
use ashlar_format::codec;
use ashlar_format::journal::{self, BATCH_HEADER, BatchWriter, GroupState, PAGE, kind};
use ashlar_machine::{BufferPool, FileSystem, Folder, is_other_device};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const LABEL: &str = "label";
/// The label of a format under way.
const LABEL_NEW: &str = "label.new";
/// The first journal segment of a new drive.
const FIRST_BYTES: u64 = 1 << 20;

/// Finds out what `path` holds. Never changes anything.
#[must_use]
pub fn probe(path: &Path) -> Probe {
    if is_other_device(path) {
        return probe_folder(&Folder::real(path, None));
    }
    match std::fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Probe::Missing,
        Err(e) => return Probe::Unreadable(e.to_string()),
        Ok(m) if !m.is_dir() && !m.file_type().is_block_device() => {
            return Probe::Foreign("not a folder, and not a block device".into());
        }
        Ok(_) => {}
    }
    probe_folder(&Folder::real(path, None))
}

/// Like [`probe`], for any existing folder.
#[must_use]
pub fn probe_folder(folder: &Folder) -> Probe {
    let names = match folder.list() {
        Ok(n) => n,
        // A device with something else on it.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Probe::Foreign(e.to_string()),
        Err(e) => return Probe::Unreadable(e.to_string()),
    };
    let has = |n: &str| names.iter().any(|x| x == n);
    if has(LABEL) {
        return match folder.read(LABEL, Label::LEN as u64) {
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                Probe::Foreign("a file named label that is not a label of a drive".into())
            }
            Err(e) => Probe::Unreadable(format!("label: {e}")),
            Ok(b) => match Label::decode(&b) {
                Ok(l) => Probe::Ours(l),
                Err(e) => Probe::Unreadable(format!("label: {e}")),
            },
        };
    }
    let ours = |n: &str| [LABEL_NEW, JOURNAL, EXTENTS, INDEX].contains(&n);
    let other: Vec<&String> = names.iter().filter(|n| *n != "lost+found" && !ours(n)).collect();
    if !other.is_empty() {
        return Probe::Foreign(format!("holds {}", other[0]));
    }
    if has(LABEL_NEW) || !names.iter().any(|n| ours(n)) {
        // Empty, or a format that did not finish.
        return Probe::Blank;
    }
    match folder.sub(JOURNAL).list() {
        Ok(n) if n.is_empty() => Probe::Blank,
        Err(e) if e.kind() == ErrorKind::NotFound => Probe::Blank,
        Ok(_) => Probe::Unreadable("a journal without a label".into()),
        Err(e) => Probe::Unreadable(e.to_string()),
    }
}

/// Formats a blank folder as a drive (`lost+found` is allowed); refuses anything not blank. `groups`: the
/// placement groups that it holds from the beginning. A drive of a deployment holds none before the map
/// assigns some ([`crate::Drive::found`], [`crate::Drive::join`]).
///
/// # Errors
/// `Unsuitable` if the folder is not blank, otherwise the error of the file system.
pub fn format(path: &Path, label: &Label, groups: &[(GroupId, Role)]) -> Result<()> {
    match probe(path) {
        Probe::Blank => {}
        Probe::Missing => return Err(Error::Unsuitable(format!("{}: not a folder", path.display()))),
        p => return Err(Error::Unsuitable(format!("{}: not blank: {p:?}", path.display()))),
    }
    format_folder(&Folder::real(path, None), label, groups, FIRST_BYTES)?;
    // The folder itself may be new too.
    if let Some(parent) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
        let parent = Folder::real(parent, None);
        if let Err(e) = parent.sync() {
            tracing::debug!(error = %e, "the parent folder cannot be synced");
        }
    }
    Ok(())
}

/// Like [`format`], for any folder; `first` is the size of the first journal segment.
#[doc(hidden)]
pub fn format_folder(root: &Folder, label: &Label, groups: &[(GroupId, Role)], first: u64) -> Result<()> {
    if probe_folder(root) != Probe::Blank {
        return Err(Error::Unsuitable("the folder is not blank".into()));
    }
    let io = |e: std::io::Error| Error::io(format!("formatting {}", root.path().display()), &e);
    root.remove(LABEL_NEW).map_err(io)?;
    root.write_new(LABEL_NEW, &label.encode()).map_err(io)?;
    root.sync().map_err(io)?;
    for name in [JOURNAL, EXTENTS, INDEX] {
        let sub = root.sub(name);
        sub.make().map_err(io)?;
        if name == JOURNAL {
            sub.remove(&segment_name(1)).map_err(io)?;
            first_segment(&sub, label, groups, first).map_err(io)?;
        }
        sub.sync().map_err(io)?;
    }
    root.sync().map_err(io)?;
    root.rename(LABEL_NEW, LABEL).map_err(io)?;
    root.sync().map_err(io)
}

/// The first segment, with one batch that contains the roles.
fn first_segment(
    folder: &Folder,
    label: &Label,
    groups: &[(GroupId, Role)],
    bytes: u64,
) -> std::io::Result<()> {
    let key = label.hash_key();
    let pool = BufferPool::new(0);
    let medium = folder.file_system().unwrap_or(FileSystem::Disk);
    let zeros = pool.get_reserved((bytes as usize).min(256 << 10));
    folder.create(&segment_name(1), false)?;
    let file = fill_segment(folder, medium, &key, 1, bytes, false, zeros)?;
    let room = BATCH_HEADER + 2 * states_len(groups.len());
    let mut buf = pool.get_reserved(room.next_multiple_of(PAGE));
    let mut out = BatchWriter::new(key, 1, PAGE as u32, PAGE);
    let mut list = codec::Writer::default();
    journal::segments(&mut list, &[]);
    out.push(&mut buf, kind::SEGMENTS, &[&list.into_vec()]);
    let state = |role: Role| GroupState {
        voter: role == Role::Voter,
        distrusted: role == Role::Distrusted,
        ..GroupState::default()
    };
    let states: BTreeMap<_, _> = groups.iter().map(|(id, role)| (*id, state(*role))).collect();
    if !states.is_empty() {
        let mut w = codec::Writer::default();
        journal::states(&mut w, &states.into_iter().collect::<Vec<_>>());
        out.push(&mut buf, kind::STATE, &[&w.into_vec()]);
    }
    let batch = out.close(&mut buf, 1, &[0; 16]);
    file.write_at(&buf[..batch.len as usize], PAGE as u64)?;
    file.sync_all()
}

fn check_options(o: &Options) -> Result<()> {
    let ok = (64 << 10..=1 << 30).contains(&o.journal_segment_bytes)
        && (32 << 10..=1 << 36).contains(&o.segment_bytes)
        && o.journal_segment_bytes.is_multiple_of(PAGE as u64)
        && o.io_threads > 0
        && !o.tick.is_zero();
    if ok { Ok(()) } else { Err(Error::Malformed("drive options")) }
}

/// Opens a drive: recovers, then is ready (without threads yet).
pub(crate) fn open_shared(root: &Folder, options: &Options, threads: bool) -> Result<Arc<Shared>> {
    check_options(options)?;
    let label = match probe_folder(root) {
        Probe::Ours(l) => l,
        Probe::Unreadable(e) => return Err(Error::Corrupt(e)),
        p => return Err(Error::Unsuitable(format!("{}: {p:?}", root.path().display()))),
    };
    let io = |e: std::io::Error| Error::io(format!("opening {}", root.path().display()), &e);
    let lock = lock(root)?;
    let identity = root.identity(LABEL).map_err(io)?;
    let medium = root.file_system().map_err(io)?;
    let space = root.space().map_err(io)?;
    let shared = Arc::new(Shared::new(label, root.clone(), options.clone(), medium, threads, identity, lock));
    {
        let mut core = shared.core.lock();
        core.free = space.free;
        core.capacity = space.total;
    }
    if space.read_only {
        shared.set_read_only();
    } else {
        // Made by an older release with permissions from the umask.
        for name in [JOURNAL, EXTENTS, INDEX] {
            match root.sub(name).narrow() {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                r => r.map_err(io)?,
            }
        }
    }
    let bytes = root.read(LABEL, Label::LEN as u64).map_err(io)?;
    if !Label::is_whole(&bytes) {
        tracing::warn!(drive = %label.drive, "one copy of the label is damaged");
        shared.counters.read_errors.fetch_add(1, Ordering::Relaxed);
    }
    shared.recover()?;
    shared.measure_reads();
    Ok(shared)
}

fn lock(root: &Folder) -> Result<ashlar_machine::Lock> {
    // A drive that was dropped a moment ago may still be closing.
    for _ in 0..100 {
        match root.lock(LABEL) {
            Ok(Some(l)) => return Ok(l),
            Ok(None) => ashlar_environment::thread::sleep(std::time::Duration::from_millis(10)),
            Err(e) => return Err(Error::io("locking the drive", &e)),
        }
    }
    Err(Error::Unsuitable(format!("{} is in use", root.path().display())))
}

impl Shared {
    /// Recovers the drive. The index is a cache: if a part of it proves damaged, recovery starts again
    /// without it.
    fn recover(self: &Arc<Self>) -> Result<()> {
        match self.recover_with(self.load_index()) {
            Err(e) if self.counters.index_broken.swap(false, Ordering::SeqCst) => {
                self.counters.journal_damage.store(0, Ordering::Relaxed);
                self.counters.damage.lock().clear();
                self.core.lock().spare = None;
                self.recover_with(Err(e))
            }
            r => r,
        }
    }

    fn recover_with(self: &Arc<Self>, index: Result<()>) -> Result<()> {
        {
            let mut core = self.core.lock();
            let recovery = Some(core.unnamed.recovery.take().unwrap_or_default());
            core.unnamed = Unnamed { recovery, ..Unnamed::default() };
            core.extents.values_mut().for_each(|e| e.writers = 0);
        }
        if let Err(e) = &index {
            let blank = self.index_folder.list().is_ok_and(|l| l.is_empty());
            if !blank || self.core.lock().applied.segment != 0 {
                tracing::warn!(drive = %self.label.drive, error = %e, "index is rebuilt");
            }
            self.forget_index()?;
            self.counters.index_rebuilt.store(1, Ordering::Relaxed);
        }
        self.list_extents(index.is_err())?;
        let fenced = self.fence_mark()?;
        let found = self.replay_journal()?;
        let unnamed = self.search_unnamed(fenced)?;
        self.drop_unused_extents()?;
        let joins = found.damage > 0 || fenced;
        if joins {
            // In memory at once: a drive that cannot be written must not vote either.
            let mut core = self.core.lock();
            core.groups.distrust();
        }
        if self.writable().is_err() {
            return self.name_found(unnamed);
        }
        self.resume(&found, fenced)?;
        self.name_found(unnamed)?;
        self.core.lock().raise_floors(None, &self.journal_work);
        if joins {
            let held: Vec<_> = self.core.lock().groups.iter().map(|(id, _)| id).collect();
            let changes = held.into_iter().map(|id| (id, StateChange::Voter(false, u32::MAX))).collect();
            self.commit_now(|done| Op::State { changes, done })?;
        }
        if found.damage > 0 {
            // The checkpoint is then after the damage.
            self.drain()?;
        }
        if fenced {
            // The journal contains it now.
            let gone = self.root.remove(FENCED).and_then(|()| self.root.sync());
            gone.map_err(|e| Error::io("removing the mark of the fence", &e))?;
        }
        Ok(())
    }

    /// Whether the drive fenced itself and has not been made joining since.
    fn fence_mark(&self) -> Result<bool> {
        let names = self.root.list().map_err(|e| Error::io("the folder", &e))?;
        if !names.iter().any(|n| n == FENCED) {
            return Ok(false);
        }
        let why = self.root.read(FENCED, 64 << 10).unwrap_or_default();
        let why = String::from_utf8_lossy(&why).into_owned();
        tracing::warn!(drive = %self.label.drive, why, "the drive fenced itself: it must join again before it votes");
        self.counters.damage.lock().push(format!("fenced: {why}"));
        Ok(true)
    }

    /// Loads manifest and runs.
    fn load_index(&self) -> Result<()> {
        let m = Manifest::load(&self.index_folder, &self.key)?;
        if m.extents.iter().any(|(_, e)| e.suspect) {
            return Err(Error::Corrupt("bytes in use were miscounted".into()));
        }
        let mut runs = Vec::with_capacity(m.runs.len());
        for (id, bytes) in &m.runs {
            let r = Run::open(&self.index_folder, *id, *bytes, &self.key, &self.counters)?;
            runs.push(Arc::new(r));
        }
        let mut core = self.core.lock();
        core.runs = Arc::new(RunSet { runs });
        core.applied = m.position;
        core.groups.restore(&m.states);
        core.state_segment = m.state_segment;
        core.journal = m.journal.iter().copied().collect();
        core.extents = m.extents.iter().copied().collect();
        core.next_extent = m.next_extent.max(1);
        core.fences.restore(m.fences.iter().copied());
        core.unnamed.recovery = Some(Replayed { note: m.unnamed.clone(), ..Replayed::default() });
        drop(core);
        let wanted: Vec<String> = m.runs.iter().map(|(id, _)| file_name(*id)).collect();
        let mut k = self.maintenance.lock();
        k.next_run = m.next_run;
        k.manifest = m;
        k.last_drain = Some(ashlar_environment::time::Instant::now());
        drop(k);
        if self.writable().is_ok() {
            self.clean_index(&wanted)?;
        }
        Ok(())
    }

    fn clean_index(&self, wanted: &[String]) -> Result<()> {
        let io = |e: std::io::Error| Error::io("index folder", &e);
        for name in self.index_folder.list().map_err(io)? {
            if name != MANIFEST && !wanted.contains(&name) {
                self.index_folder.remove(&name).map_err(io)?;
            }
        }
        Ok(())
    }

    /// Starts with an empty index: everything comes from the journal.
    fn forget_index(&self) -> Result<()> {
        let io = |e: std::io::Error| Error::io("index folder", &e);
        if self.writable().is_ok() {
            self.index_folder.make().map_err(io)?;
            self.index_folder.remove(MANIFEST).map_err(io)?;
            self.index_folder.sync().map_err(io)?;
            self.clean_index(&[])?;
        }
        let mut core = self.core.lock();
        core.runs = Arc::new(RunSet::default());
        core.generation += 1;
        core.overlay = Default::default();
        core.applied = Default::default();
        core.groups.forget_states();
        core.fences = Fences::default();
        core.unnamed.recovery = core.unnamed.recovery.take().map(|_| Replayed::default());
        core.state_segment = 0;
        core.journal.clear();
        core.extents.retain(|_, e| !e.lost);
        for e in core.extents.values_mut() {
            (e.live, e.suspect) = (0, false);
        }
        drop(core);
        let mut k = self.maintenance.lock();
        k.freeze = None;
        k.manifest = Manifest::default();
        Ok(())
    }

    /// Lists the extent segments. `sealed`: nothing is known about them, so nothing is added to them.
    fn list_extents(&self, sealed: bool) -> Result<()> {
        let io = |e: std::io::Error| Error::io("extent folder", &e);
        let names = match self.extent_folder.list() {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            r => r.map_err(io)?,
        };
        let mut core = self.core.lock();
        for n in names.iter().filter_map(|n| segment_number(n)) {
            let bytes = self.extent_folder.open_read(&segment_name(n)).and_then(|f| f.len()).map_err(io)?;
            let e = core.extents.entry(n).or_default();
            // A segment that the manifest does not contain was made after it, and may be added to.
            e.bytes = bytes;
            e.sealed |= sealed;
            core.next_extent = core.next_extent.max(n + 1);
        }
        for (n, e) in &mut core.extents {
            if !names.contains(&segment_name(*n)) {
                (e.lost, e.sealed) = (true, true);
            }
        }
        Ok(())
    }

    /// After the replay: removes empty extent segments; the newest one takes regions again.
    fn drop_unused_extents(&self) -> Result<()> {
        let mut gone = Vec::new();
        {
            let mut core = self.core.lock();
            core.extents.retain(|n, e| {
                let keep = e.live > 0 || e.writers > 0;
                if !keep {
                    gone.push(*n);
                }
                keep
            });
            let last = core.extents.iter().rfind(|(_, e)| !e.lost).map_or(0, |(n, _)| *n);
            let open: Vec<u32> = core.extents.keys().copied().filter(|n| *n != last).collect();
            for n in open {
                core.seal_extent(n);
            }
            core.active_extent = last;
        }
        if self.writable().is_err() {
            return Ok(());
        }
        for n in gone {
            self.extent_folder
                .remove(&segment_name(n))
                .map_err(|e| Error::io("removing an extent segment", &e))?;
        }
        Ok(())
    }

    /// While running: an index file did not verify. Commits and lookups wait until the index is rebuilt. If
    /// it cannot be rebuilt, the drive is fenced: an incomplete index must neither answer nor be stored.
    pub fn rebuild_index(self: &Arc<Self>) -> Result<()> {
        tracing::warn!(drive = %self.label.drive, "index is rebuilt");
        let mut w = self.writer.lock();
        self.core.lock().rebuilding = true;
        self.index_from_journal(&mut w)
            .inspect_err(|e| self.fence(&format!("the index cannot be rebuilt: {e}")))
    }

    fn index_from_journal(self: &Arc<Self>, w: &mut Writer) -> Result<()> {
        self.forget_index()?;
        self.counters.index_broken.store(false, Ordering::SeqCst);
        self.counters.index_rebuilt.fetch_add(1, Ordering::Relaxed);
        let found = self.replay_journal()?;
        if found.damage > 0 {
            return Err(Error::Corrupt("the journal does not verify".into()));
        }
        assert!(found.position == w.position, "a rebuild ends where the journal does");
        w.buf = None;
        let mut core = self.core.lock();
        core.rebuilding = false;
        core.generation += 1;
        // What was freed and not given back yet has been recounted: empty segments are checked again.
        let empty = core.extents.iter().filter(|(_, e)| e.sealed && e.live == 0).map(|(n, _)| *n);
        let nothing = |segment| Freed { region: Region { segment, offset: 0, frame: 0 }, bytes: 0 };
        let again: Vec<Freed> = empty.map(nothing).collect();
        core.freed.extend(again);
        Ok(())
    }
}
