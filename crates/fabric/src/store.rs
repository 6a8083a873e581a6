//! The backing files of namespaces: one sparse file each, in a folder that one process uses at a time.
//!
//! Invariants: the folder belongs to one set-up, by name, seed and sizes; a set-up that differs is refused and nothing is changed.
//!
//! Must not depend on: hosts, faults, time.

use std::io::ErrorKind;

use ashlar_machine::{DiskFile, Folder, Lock};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::error::Error;
use crate::selection::Selection;
use crate::setup::Setup;

/// What the folder is.
const MARK: &str = "enclosure";
/// Bytes of zeros that are written at once.
const ZEROS: usize = 1 << 20;

/// The files of an enclosure.
pub(crate) struct Store {
    files: Vec<Vec<DiskFile>>,
    sync: bool,
    block: u64,
    /// The write caches of drives, and how many blocks each has room for.
    caches: Vec<Mutex<Cache>>,
    room: usize,
    /// As long as it is held, no other process has the folder.
    _lock: Lock,
}

impl Store {
    /// Opens the files of a set-up; makes them if the folder is new.
    ///
    /// # Errors
    /// [`Kind::Conflict`](crate::Kind::Conflict) if another process has the folder, or it belongs to another set-up.
    pub(crate) fn open(setup: &Setup) -> Result<Store, Error> {
        let shown = setup.data.display().to_string();
        let failed = |e: std::io::Error| Error::io(&shown, &e);
        std::fs::create_dir_all(&setup.data).map_err(failed)?;
        let folder = Folder::real(&setup.data, None);
        let mark = mark(setup);
        match folder.write_new(MARK, mark.as_bytes()) {
            Ok(()) => folder.sync().map_err(failed)?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(e)),
        }
        let lock = folder.lock(MARK).map_err(failed)?;
        let lock = lock.ok_or_else(|| Error::conflict(format!("{shown} is in use by another process")))?;
        if folder.read(MARK, 4096).map_err(failed)? != mark.as_bytes() {
            return Err(Error::conflict(format!(
                "{shown} holds the data of another set-up; name another folder, or remove this one"
            )));
        }
        let bays = 1..=setup.bays;
        let files = bays.map(|bay| {
            let numbers = 1..=setup.namespaces;
            numbers.map(|nsid| open(&folder, bay, nsid, setup.size).map_err(failed)).collect()
        });
        let files = files.collect::<Result<Vec<Vec<DiskFile>>, Error>>()?;
        let block = u64::from(setup.block);
        let caches = (0..setup.bays).map(|_| Mutex::default()).collect();
        let room = (setup.cache.size / block) as usize;
        Ok(Store { files, sync: setup.sync, block, caches, room, _lock: lock })
    }

    fn file(&self, bay: usize, nsid: u32) -> &DiskFile {
        &self.files[bay - 1][nsid as usize - 1]
    }

    pub(crate) fn read(&self, bay: usize, nsid: u32, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.file(bay, nsid).read_at(out, at)
    }

    /// Keeps what a range of whole blocks has on the medium, before it is written.
    fn keep(&self, bay: usize, nsid: u32, at: u64, len: u64) -> std::io::Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        let mut cache = self.caches[bay - 1].lock();
        for block in at / self.block..(at + len) / self.block {
            if cache.is_clean(nsid, block) {
                let mut content = vec![0; self.block as usize];
                self.read(bay, nsid, block * self.block, &mut content)?;
                cache.keep(nsid, block, content, self.room);
            }
        }
        Ok(())
    }

    /// A drive loses power: blocks of its cache that the seed chooses have again what is on the medium. Returns how many.
    pub(crate) fn lose_cache(&self, setup: &Setup, bay: usize) -> std::io::Result<u64> {
        let mut lost = 0;
        for ((nsid, block), content) in self.caches[bay - 1].lock().take() {
            let place = (bay as u64, u64::from(nsid));
            let chosen = Selection::new(setup.seed, place, setup.cache.lost, (0, u64::MAX), (0, u64::MAX));
            if chosen.chosen(block) {
                self.file(bay, nsid).write_at(&content, block * self.block)?;
                lost += 1;
            }
        }
        Ok(lost)
    }

    pub(crate) fn write(&self, bay: usize, nsid: u32, at: u64, data: &[u8]) -> std::io::Result<()> {
        self.keep(bay, nsid, at, data.len() as u64)?;
        self.file(bay, nsid).write_at(data, at)
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(&self, bay: usize, nsid: u32, at: u64, len: u64) -> std::io::Result<()> {
        self.keep(bay, nsid, at, len)?;
        let file = self.file(bay, nsid);
        if file.punch_hole(at, len)? {
            return Ok(());
        }
        let zeros = vec![0; ZEROS.min(len as usize)];
        let mut done = 0;
        while done < len {
            let n = zeros.len().min((len - done) as usize);
            file.write_at(&zeros[..n], at + done)?;
            done += n as u64;
        }
        Ok(())
    }

    /// Makes a range of whole blocks durable.
    pub(crate) fn settle(&self, bay: usize, nsid: u32, at: u64, len: u64) -> std::io::Result<()> {
        self.sync(bay, nsid, Some(at / self.block..(at + len) / self.block))
    }

    pub(crate) fn flush(&self, bay: usize, nsid: u32) -> std::io::Result<()> {
        self.sync(bay, nsid, None)
    }

    fn sync(&self, bay: usize, nsid: u32, range: Option<std::ops::Range<u64>>) -> std::io::Result<()> {
        if self.room > 0 {
            self.caches[bay - 1].lock().settle(nsid, range);
        }
        if self.sync { self.file(bay, nsid).sync_data() } else { Ok(()) }
    }
}

/// What decides the bytes of the files and the identities under which hosts know them.
fn mark(setup: &Setup) -> String {
    format!(
        "ashlar virtual enclosure, version 1\nname {}\nseed {}\nbays {}\nnamespaces {}\nsize {}\nblock {}\n",
        setup.name, setup.seed, setup.bays, setup.namespaces, setup.size, setup.block
    )
}

fn open(folder: &Folder, bay: usize, nsid: u32, size: u64) -> std::io::Result<DiskFile> {
    let name = format!("bay{bay:02}-namespace{nsid}");
    let file = match folder.open(&name, false) {
        Err(e) if e.kind() == ErrorKind::NotFound => folder.create(&name, false)?,
        other => other?,
    };
    // It is shorter if the first start did not end.
    if file.len()? < size {
        file.set_len(size)?;
    }
    Ok(file)
}
