//! The open files of a drive, a bounded number of them.
//!
//! Invariants: at most [`MAX_OPEN`] files are kept open here; a file stays readable for a reader that holds
//! it, even if it is closed here or unlinked.
//!
//! Must not depend on: what files contain.

use ashlar_environment::HashMap;
use ashlar_machine::{DiskFile, Folder};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// Files kept open per drive (two descriptors each).
const MAX_OPEN: usize = 48;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Journal,
    Extent,
}

struct Slot {
    file: Arc<DiskFile>,
    used: u64,
}

#[derive(Default)]
struct Table {
    open: HashMap<(Kind, u32), Slot>,
    tick: u64,
}

pub(crate) struct FileCache {
    table: Mutex<Table>,
    direct: bool,
}

/// The name of segment `number`.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:08}.seg")
}

/// The inverse of [`segment_name`].
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

impl FileCache {
    pub fn new(direct: bool) -> FileCache {
        FileCache { table: Mutex::default(), direct }
    }

    /// The file, if it is already open.
    pub fn peek(&self, kind: Kind, number: u32) -> Option<Arc<DiskFile>> {
        let mut t = self.table.lock();
        t.tick += 1;
        let tick = t.tick;
        let slot = t.open.get_mut(&(kind, number))?;
        slot.used = tick;
        Some(slot.file.clone())
    }

    /// The file, opened if necessary.
    pub fn get(&self, kind: Kind, number: u32, folder: &Folder) -> io::Result<Arc<DiskFile>> {
        if let Some(f) = self.peek(kind, number) {
            return Ok(f);
        }
        let f = Arc::new(folder.open(&segment_name(number), self.direct)?);
        self.put(kind, number, f.clone());
        Ok(f)
    }

    pub fn put(&self, kind: Kind, number: u32, file: Arc<DiskFile>) {
        let mut t = self.table.lock();
        t.tick += 1;
        let used = t.tick;
        t.open.insert((kind, number), Slot { file, used });
        if t.open.len() > MAX_OPEN
            && let Some(oldest) = t.open.iter().min_by_key(|(_, s)| s.used).map(|(k, _)| *k)
        {
            t.open.remove(&oldest);
        }
    }

    pub fn forget(&self, kind: Kind, number: u32) {
        self.table.lock().open.remove(&(kind, number));
    }
}
