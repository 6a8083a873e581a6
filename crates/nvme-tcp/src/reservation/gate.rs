//! The admission of I/O commands: each is judged by the rights of the moment at which it begins, and a change of rights can wait for
//! those that began before.
//!
//! A command keeps the rights that admitted it, by reference, until it ends; a change puts others in their place, and waits until
//! nobody has the old ones. So a command costs a reference count and a lock that nobody holds for long, and neither waits for
//! the other unless a host asks for it.
//!
//! Invariant: [`Gate::wait`] returns after every command has ended that was admitted under rights which had been replaced before the call.
//!
//! Must not depend on: how rights come about.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::reservation::rights::{Class, HostId, Rights};

/// Rights, as long as they are in force or a command is executed that they have admitted.
struct View {
    rights: Rights,
    ended: Arc<Ended>,
}

impl Drop for View {
    fn drop(&mut self) {
        *self.ended.over.lock() = true;
        self.ended.changed.notify_all();
    }
}

/// The end of the last command under some rights.
#[derive(Default)]
struct Ended {
    over: Mutex<bool>,
    changed: Condvar,
}

/// Kept while a command is executed.
pub(crate) struct Admitted {
    _view: Arc<View>,
}

/// The admission to one namespace.
pub(crate) struct Gate {
    now: RwLock<Arc<View>>,
    /// Rights that were replaced, as long as commands have them.
    earlier: Mutex<Vec<Arc<Ended>>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { now: RwLock::new(Gate::view(Rights::Open)), earlier: Mutex::default() }
    }
}

impl Gate {
    fn view(rights: Rights) -> Arc<View> {
        Arc::new(View { rights, ended: Arc::default() })
    }

    /// Admits a command until the result is dropped. None: it is forbidden.
    pub(crate) fn admit(&self, host: &HostId, class: Class) -> Option<Admitted> {
        let view = self.now.read().clone();
        view.rights.allow(host, class).then_some(Admitted { _view: view })
    }

    /// Puts rights in force.
    pub(crate) fn change(&self, rights: Rights) {
        // Before they are out of force: who waits finds them.
        let mut earlier = self.earlier.lock();
        earlier.retain(|e| !*e.over.lock());
        let mut now = self.now.write();
        if now.rights == rights {
            return;
        }
        earlier.push(now.ended.clone());
        let old = std::mem::replace(&mut *now, Gate::view(rights));
        drop(now);
        drop(earlier);
        drop(old);
    }

    /// Waits for all commands that were admitted under rights which are not in force any more.
    pub(crate) fn wait(&self) {
        let earlier = self.earlier.lock().clone();
        for ended in earlier {
            let mut over = ended.over.lock();
            while !*over {
                ended.changed.wait(&mut over);
            }
        }
    }
}
