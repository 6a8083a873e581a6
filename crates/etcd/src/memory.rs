//! The content of the store in memory, from which all reads are served.
//!
//! Invariants: it changes from one revision of etcd to a later one, never back, and all changes of one
//! revision together. The announced revision of a reader ([`Memory::reached`]) grows only after the content
//! has it.
//!
//! Must not depend on: how changes arrive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_cluster::{Change, History, MAX_BYTES, Value};
use ashlar_environment::HashMap;
use ashlar_format::DeploymentId;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::{Error, Result};

/// Largest content: its encoding as a snapshot fits into [`MAX_BYTES`].
pub const MAX_CONTENT: usize = MAX_BYTES - (64 << 10);
/// What a key counts in addition to its own bytes and those of its value.
const PER_KEY: usize = 32;

/// The content as of one revision of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The identity as etcd holds it. It never changes while the store exists.
    pub identity: Bytes,
    /// The id that etcd gave itself.
    pub etcd: u64,
    /// Up to this revision all changes are in `entries`.
    pub known: u64,
    /// The revision of the last change of an entry.
    pub revision: u64,
    /// The revision of the last change that this program made, and its mark.
    pub head: (u64, Bytes),
    /// The entries.
    pub entries: BTreeMap<String, Value>,
    /// What the entries count.
    pub bytes: usize,
}

/// What one entry counts.
pub fn cost(key: &str, value: usize) -> usize {
    key.len() + value + PER_KEY
}

impl Content {
    fn set(&mut self, key: String, value: Value) {
        self.bytes += cost(&key, value.bytes.len());
        let name = key.len();
        if let Some(old) = self.entries.insert(key, value) {
            self.bytes -= name + old.bytes.len() + PER_KEY;
        }
    }

    /// Sets an entry while the content is read.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn fill(&mut self, key: String, value: Value) -> Result<()> {
        self.revision = self.revision.max(value.revision);
        self.set(key, value);
        if self.bytes > MAX_CONTENT { Err(Error::TooLarge("its content")) } else { Ok(()) }
    }

    /// The same without its entries.
    pub fn without_entries(&self) -> Content {
        Content {
            deployment: self.deployment,
            identity: self.identity.clone(),
            etcd: self.etcd,
            known: self.known,
            revision: self.revision,
            head: self.head.clone(),
            entries: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Whether `later` can have come from this content: what was not written since is the same.
    ///
    /// # Errors
    /// `Replaced`.
    pub fn precedes(&self, later: &Content) -> Result<()> {
        if later.head.0 < self.head.0 {
            return Err(Error::Replaced(format!(
                "it is at revision {}, this node at {}",
                later.head.0, self.head.0
            )));
        }
        let same = |key: &String, value: &Value| self.entries.get(key) == Some(value);
        if let Some((key, _)) =
            later.entries.iter().find(|(key, v)| v.revision <= self.known && !same(key, v))
        {
            return Err(Error::Replaced(format!("{key} has another history")));
        }
        Ok(())
    }
}

/// The changes of one revision of etcd.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The revision.
    pub revision: u64,
    /// Keys and their new values.
    pub changes: Vec<(String, Option<Bytes>)>,
    /// The mark of the change.
    pub head: Option<Bytes>,
}

/// The content, and who waits for it.
pub struct Memory {
    content: RwLock<Arc<Content>>,
    history: History,
    /// The revision of the last change of this program that the content has.
    reached: watch::Sender<u64>,
    /// Marks of changes whose outcome a task waits for, and the revisions at which they were made.
    marks: Mutex<HashMap<Bytes, Option<u64>>>,
    /// How often everything was read again: marks of changes may have been missed.
    gaps: AtomicU64,
}

impl Memory {
    /// Begins with this content.
    pub fn new(content: Content) -> Memory {
        Memory {
            history: History::new(content.revision),
            reached: watch::Sender::new(content.head.0),
            content: RwLock::new(Arc::new(content)),
            marks: Mutex::default(),
            gaps: AtomicU64::new(0),
        }
    }

    /// The content.
    pub fn content(&self) -> Arc<Content> {
        self.content.read().clone()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.content.read().entries.get(key).cloned()
    }

    /// The history, for watchers.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The revision of the last change of this program that the content has.
    pub fn reached(&self) -> watch::Receiver<u64> {
        self.reached.subscribe()
    }

    /// How often everything was read again.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// Waits for the outcome of the change with this mark, until [`Memory::take`].
    pub fn expect(&self, mark: Bytes) {
        self.marks.lock().insert(mark, None);
    }

    /// The revision at which the change with this mark was made, if the content has it.
    pub fn made(&self, mark: &Bytes) -> Option<u64> {
        self.marks.lock().get(mark).copied().flatten()
    }

    /// Waits no more.
    pub fn take(&self, mark: &Bytes) {
        self.marks.lock().remove(mark);
    }

    /// The changes of one revision.
    pub fn apply(&self, group: Group) {
        let Group { revision, changes, head } = group;
        let news: Vec<Change>;
        {
            let mut content = self.content.write();
            if revision <= content.revision {
                return;
            }
            let content = Arc::make_mut(&mut content);
            content.known = content.known.max(revision);
            for (key, value) in &changes {
                match value {
                    Some(bytes) => content.set(key.clone(), Value { revision, bytes: bytes.clone() }),
                    None => {
                        if let Some(old) = content.entries.remove(key) {
                            content.bytes -= cost(key, old.bytes.len());
                        }
                    }
                }
            }
            if !changes.is_empty() || head.is_some() {
                content.revision = revision;
            }
            if let Some(mark) = &head {
                content.head = (revision, mark.clone());
            }
            news = changes.into_iter().map(|(key, value)| Change { revision, key, value }).collect();
        }
        if !news.is_empty() || head.is_some() {
            self.history.add(news, revision);
        }
        if let Some(mark) = head {
            self.note(&mark, revision);
            self.reached.send_replace(revision);
        }
    }

    /// Everything was read again.
    pub fn replace(&self, content: Content) {
        let (revision, head) = (content.revision, content.head.clone());
        self.gaps.fetch_add(1, Ordering::AcqRel);
        *self.content.write() = Arc::new(content);
        self.history.jump(revision);
        self.note(&head.1, head.0);
        self.reached.send_replace(head.0);
    }

    /// All changes up to a revision are in the content.
    pub fn confirm(&self, revision: u64) {
        let mut content = self.content.write();
        if content.known < revision {
            Arc::make_mut(&mut content).known = revision;
        }
    }

    fn note(&self, mark: &Bytes, revision: u64) {
        if let Some(made) = self.marks.lock().get_mut(mark) {
            *made = Some(revision);
        }
    }
}
