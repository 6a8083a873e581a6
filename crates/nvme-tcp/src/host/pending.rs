//! Requests that are under way without a thread of their own: the caller submits several, to several namespaces, and then waits for them.
//!
//! Only requests of one command that needs nothing more from the caller until it is answered: reads, writes whose data fits the capsule,
//! and Flush. So a namespace that does not answer holds up no other one.
//!
//! Invariants: what follows an answer that is no success is what [`RemoteNamespace`] does in the same case; the range of a write is held
//! until its command cannot be executed any more, also if nobody waits for it.
//!
//! Must not depend on: sockets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_environment::time::Instant;

use crate::error::Error;
use crate::host::call::{Answer, Call, Event, Failure};
use crate::host::controller::Controller;
use crate::host::device::Device;
use crate::host::facts::Facts;
use crate::host::pieces;
use crate::host::remote::{Kind, RemoteNamespace};
use crate::host::request::{self, Request};
use crate::host::unflushed::Change;

/// A command that was sent.
pub(crate) struct Begun {
    index: usize,
    controller: Arc<Controller>,
    call: Arc<Call>,
    since: Instant,
}

impl Begun {
    /// Sends a command by this path. None: it cannot be sent now.
    fn submit(
        device: &Device,
        index: usize,
        controller: Arc<Controller>,
        request: &Request<'_>,
    ) -> Option<Begun> {
        let (call, since) = (Arc::new(Call::default()), Instant::now());
        let load = &device.paths[index].load;
        load.begin(1);
        if controller.submit(request, &call) {
            return Some(Begun { index, controller, call, since });
        }
        load.end(1, 0, since.elapsed());
        None
    }

    /// The path and the controller that it was sent to.
    pub(crate) fn by(&self) -> (usize, Arc<Controller>) {
        (self.index, self.controller.clone())
    }

    /// Waits for its answer.
    pub(crate) fn wait(&self, device: &Device) -> Answer {
        let answer = loop {
            // The target cannot ask for data of a command that has all of it in its capsule.
            if let (_, Event::Done(answer)) = self.call.wait() {
                break answer;
            }
        };
        let answered = !matches!(answer, Err(Failure::Lost | Failure::Unsent));
        device.paths[self.index].load.end(1, answered.into(), self.since.elapsed());
        answer
    }
}

enum What {
    Read { at: u64, len: u64 },
    Write { change: Change, held: u64 },
    Flush(Flushed),
}

/// What a Flush covers.
enum Flushed {
    /// The changes of a controller up to this one.
    Changes(u64, u64),
    /// What was written before the namespace was attached.
    Earlier,
}

/// A request that is under way. Whoever has several waits for all of them before anything else is asked of their namespaces: a range
/// that one of them holds could be what the other request waits for.
#[must_use = "it is waited for"]
pub struct Pending {
    device: Arc<Device>,
    what: What,
    /// None: there is nothing to wait for.
    begun: Option<Begun>,
}

impl RemoteNamespace {
    /// Submits a read. None: not now, or not in one command; [`RemoteNamespace::read`] can always.
    #[must_use]
    pub fn submit_read(&self, at: u64, len: usize) -> Option<Pending> {
        let device = self.device();
        if len == 0 || len > device.most || self.check(at, len as u64).is_err() {
            return None;
        }
        let request = pieces::of_read(device, at, len as u64).pop()?;
        let (index, controller) = device.choose_now()?;
        // As a read that waits: after what must be written again.
        if device.must_restore.load(Ordering::Acquire) {
            return None;
        }
        let begun = Begun::submit(device, index, controller, &request)?;
        let what = What::Read { at, len: len as u64 };
        Some(Pending { device: device.clone(), what, begun: Some(begun) })
    }

    /// Submits a write of parts that follow one another. None: not now, or not in one capsule; [`RemoteNamespace::write`] can always.
    #[must_use]
    pub fn submit_write(&self, at: u64, parts: &[&[u8]]) -> Option<Pending> {
        let device = self.device();
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let (index, controller) = device.choose_now()?;
        let fits = len > 0 && len <= controller.facts.in_capsule.min(device.most);
        if !fits || device.facts.read_only || self.check(at, len as u64).is_err() {
            return None;
        }
        let change = Change::Write { at, data: parts.concat().into() };
        if device.write_cache && !device.unflushed.lock().has_room(&change) {
            return None;
        }
        let held = device.ranges.try_begin(at, at + len as u64)?;
        let request = pieces::of_change(&change, device, &controller.facts).pop();
        let begun = request.and_then(|r| Begun::submit(device, index, controller, &r));
        if begun.is_none() {
            device.ranges.end(held, None);
        }
        Some(Pending { device: device.clone(), what: What::Write { change, held }, begun: Some(begun?) })
    }

    /// Submits what makes every write that has returned durable. None: not now, or not with one command; [`RemoteNamespace::flush`] can
    /// always.
    #[must_use]
    pub fn submit_flush(&self) -> Option<Pending> {
        let device = self.device();
        if !device.write_cache {
            return Some(Pending {
                device: device.clone(),
                what: What::Flush(Flushed::Earlier),
                begun: None,
            });
        }
        if device.must_restore.load(Ordering::Acquire) {
            return None;
        }
        // Before it is sent: it covers what was completed until then.
        let marks = device.unflushed.lock().marks();
        let (index, controller, covers) = match marks.first_key_value() {
            None => {
                let (index, controller) = device.choose_now()?;
                (index, controller, Flushed::Earlier)
            }
            Some((serial, last)) if marks.len() == 1 => {
                let (index, controller) = device.path_of(*serial)?;
                (index, controller, Flushed::Changes(*serial, *last))
            }
            // Several controllers have to.
            Some(_) => return None,
        };
        let begun = Begun::submit(device, index, controller, &request::flush(device.address.nsid))?;
        Some(Pending { device: device.clone(), what: What::Flush(covers), begun: Some(begun) })
    }
}

impl Pending {
    /// Waits for its end; the data of a read. What could not be done is repeated, as by the functions that wait.
    ///
    /// # Errors
    /// Those of [`RemoteNamespace::read`], [`RemoteNamespace::write`] and [`RemoteNamespace::flush`].
    pub fn wait(mut self) -> Result<Vec<u8>, Error> {
        let Some(begun) = self.begun.take() else { return Ok(Vec::new()) };
        let device = self.device.clone();
        match &self.what {
            What::Read { at, len } => {
                let requests = |_: &Facts| pieces::of_read(&device, *at, *len);
                let done = device.run_begun("read", Kind::Read, &mut None, requests, Some(begun))?;
                Ok(done.data.concat())
            }
            What::Write { change, held } => {
                device.change_held("write", change, *held, Some(begun)).map(|()| Vec::new())
            }
            What::Flush(covers) => {
                let flushed = begun.wait(&device).is_ok();
                match covers {
                    Flushed::Changes(controller, last) if flushed => {
                        device.unflushed.lock().flushed(*controller, *last);
                    }
                    Flushed::Earlier if flushed => {}
                    _ => device.flush()?,
                }
                Ok(Vec::new())
            }
        }
    }
}

impl Drop for Pending {
    /// Waits for the answer, and repeats nothing.
    fn drop(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        let lost = matches!(begun.wait(&self.device), Err(Failure::Lost));
        if let What::Write { held, .. } = &self.what {
            let doubt = lost.then(|| begun.controller.quiet_at(&self.device.options));
            self.device.ranges.end(*held, doubt);
        }
    }
}
