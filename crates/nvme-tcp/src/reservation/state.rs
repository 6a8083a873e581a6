//! Who is registered with a namespace, and who holds its reservation: the changes of Base 8.19, one after another.
//!
//! Invariants: a holder is registered; a host is registered once; a reservation of all registrants ends with the last of them; what is
//! refused changes nothing.
//!
//! Must not depend on: locks, bytes of commands.

use crate::reservation::kind::ReservationType;
use crate::reservation::notice::{Notice, NoticeKind};
use crate::reservation::rights::{HostId, Rights};

/// Hosts that are registered with a namespace, at most: Reservation Report has 64 bytes for each.
pub(crate) const MOST_REGISTRANTS: usize = 256;

/// A host that is registered, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registrant {
    /// The identifier of the host (HOSTID).
    pub host: [u8; 16],
    /// The name that the host had when it registered (NQN).
    pub nqn: String,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// Registrants and reservation of a namespace, for people.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ReservationStatus {
    /// How often registrations have changed (GEN of Reservation Report).
    pub generation: u32,
    /// The type of the reservation; none: there is no reservation.
    pub kind: Option<ReservationType>,
    /// The hosts that are registered, in the order of their registration.
    pub registrants: Vec<Registrant>,
}

/// Why a command is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Another host has reserved the namespace, or the host is not registered with this key.
    Conflict,
    /// What it asks for does not fit the reservation.
    Invalid,
    /// There are [`MOST_REGISTRANTS`].
    Full,
}

/// A host that is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Registered {
    host: HostId,
    nqn: String,
    key: u64,
}

/// The reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    kind: ReservationType,
    /// Who has acquired it. Of a reservation of all registrants it says nothing.
    by: HostId,
}

/// Registrants and reservation.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct State {
    generation: u32,
    registrants: Vec<Registered>,
    held: Option<Held>,
}

type Told = Result<Vec<Notice>, Refusal>;

impl State {
    /// The type of the reservation.
    pub(crate) fn kind(&self) -> Option<ReservationType> {
        self.held.map(|h| h.kind)
    }

    /// Nobody is registered, and nothing is reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.registrants.is_empty()
    }

    fn find(&self, host: &HostId) -> Option<&Registered> {
        self.registrants.iter().find(|r| r.host == *host)
    }

    /// Whether a host holds the reservation.
    pub(crate) fn holds(&self, host: &HostId) -> bool {
        self.held
            .is_some_and(|h| if h.kind.is_held_by_all() { self.find(host).is_some() } else { h.by == *host })
    }

    /// What hosts may do.
    pub(crate) fn rights(&self) -> Rights {
        let Some(held) = self.held else { return Rights::Open };
        let all = self.registrants.iter().map(|r| r.host);
        let hosts = all.filter(|h| held.kind.is_for_registrants() || held.by == *h).collect();
        Rights::Reserved { hosts, others_read: held.kind.lets_read() }
    }

    pub(crate) fn status(&self) -> ReservationStatus {
        let of = |r: &Registered| Registrant {
            host: r.host,
            nqn: r.nqn.clone(),
            key: r.key,
            holder: self.holds(&r.host),
        };
        let registrants = self.registrants.iter().map(of).collect();
        ReservationStatus { generation: self.generation, kind: self.kind(), registrants }
    }

    fn has_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The host has to be registered, with this key; none: with any.
    fn must_have(&self, host: &HostId, key: Option<u64>) -> Result<(), Refusal> {
        let known = self.find(host).ok_or(Refusal::Conflict)?;
        if key.is_none_or(|k| k == known.key) { Ok(()) } else { Err(Refusal::Conflict) }
    }

    /// All registrants but one.
    fn others(&self, host: &HostId, kind: NoticeKind) -> Vec<Notice> {
        let all = self.registrants.iter().map(|r| r.host);
        all.filter(|h| h != host).map(|host| Notice { host, kind }).collect()
    }

    /// Removes registrants. If one of them holds the reservation alone, or none is left, it is released.
    fn remove(&mut self, which: impl Fn(&HostId, u64) -> bool) -> Vec<HostId> {
        let (gone, kept) =
            std::mem::take(&mut self.registrants).into_iter().partition(|r| which(&r.host, r.key));
        self.registrants = kept;
        let gone: Vec<Registered> = gone;
        if let Some(held) = self.held {
            let released = if held.kind.is_held_by_all() {
                self.registrants.is_empty()
            } else {
                gone.iter().any(|r| r.host == held.by)
            };
            if released {
                self.held = None;
            }
        }
        gone.into_iter().map(|r| r.host).collect()
    }

    /// Registers a host. Again with the same key is no error.
    pub(crate) fn register(&mut self, host: &HostId, nqn: &str, key: u64) -> Told {
        match self.find(host) {
            Some(known) if known.key != key => return Err(Refusal::Conflict),
            Some(_) => {}
            None if self.registrants.len() >= MOST_REGISTRANTS => return Err(Refusal::Full),
            None => self.registrants.push(Registered { host: *host, nqn: nqn.to_owned(), key }),
        }
        self.has_changed();
        Ok(Vec::new())
    }

    /// Gives a registrant another key. `current`: the one that it has to have; none: it is not asked for.
    pub(crate) fn replace(&mut self, host: &HostId, current: Option<u64>, key: u64) -> Told {
        self.must_have(host, current)?;
        self.registrants.iter_mut().filter(|r| r.host == *host).for_each(|r| r.key = key);
        self.has_changed();
        Ok(Vec::new())
    }

    /// Removes a registrant. `current` as for [`State::replace`].
    pub(crate) fn unregister(&mut self, host: &HostId, current: Option<u64>) -> Told {
        self.must_have(host, current)?;
        let before = self.held;
        self.remove(|h, _| h == host);
        self.has_changed();
        // Under a reservation of the holder alone the others could not know of it, nor use it.
        let released = before.filter(|h| self.held.is_none() && h.kind.is_for_registrants());
        Ok(released.map_or_else(Vec::new, |_| self.others(host, NoticeKind::Released)))
    }

    /// Reserves the namespace.
    pub(crate) fn acquire(&mut self, host: &HostId, key: u64, kind: ReservationType) -> Told {
        self.must_have(host, Some(key))?;
        match self.held {
            None => self.held = Some(Held { kind, by: *host }),
            Some(held) if held.kind == kind && self.holds(host) => {}
            Some(_) => return Err(Refusal::Conflict),
        }
        Ok(Vec::new())
    }

    /// Removes the registrants that have a key; the reservation of one of them goes over to the host, with a new type. The key 0 means all
    /// other registrants if all of them hold the reservation.
    pub(crate) fn preempt(&mut self, host: &HostId, key: u64, of: u64, kind: ReservationType) -> Told {
        self.must_have(host, Some(key))?;
        let takes_over = match self.held {
            Some(held) if held.kind.is_held_by_all() => of == 0,
            Some(held) => self.find(&held.by).is_some_and(|h| h.key == of),
            None => false,
        };
        let (gone, other_type) = if takes_over {
            let before = self.held.take();
            let all = before.is_some_and(|h| h.kind.is_held_by_all());
            let gone = self.remove(|h, k| h != host && (all || k == of));
            self.held = Some(Held { kind, by: *host });
            (gone, before.is_some_and(|h| h.kind != kind))
        } else if of == 0 && self.held.is_some() {
            // It is not the key of the holder, and not meant as one.
            return Err(Refusal::Invalid);
        } else if self.registrants.iter().any(|r| r.key == of) {
            (self.remove(|_, k| k == of), false)
        } else {
            return Err(Refusal::Conflict);
        };
        self.has_changed();
        let preempted = gone.into_iter().filter(|h| h != host);
        let mut told: Vec<Notice> =
            preempted.map(|host| Notice { host, kind: NoticeKind::RegistrationPreempted }).collect();
        if other_type {
            told.extend(self.others(host, NoticeKind::Released));
        }
        Ok(told)
    }

    /// Gives the reservation up. That of another host stays.
    pub(crate) fn release(&mut self, host: &HostId, key: u64, kind: ReservationType) -> Told {
        self.must_have(host, Some(key))?;
        let Some(held) = self.held.filter(|_| self.holds(host)) else { return Ok(Vec::new()) };
        if held.kind != kind {
            return Err(Refusal::Invalid);
        }
        self.held = None;
        let tell = kind.is_for_registrants();
        Ok(if tell { self.others(host, NoticeKind::Released) } else { Vec::new() })
    }

    /// Removes the reservation and all registrants, for one of them.
    pub(crate) fn clear(&mut self, host: &HostId, key: u64) -> Told {
        self.must_have(host, Some(key))?;
        let told = self.clear_all();
        Ok(told.into_iter().filter(|n| n.host != *host).collect())
    }

    /// Removes the reservation and all registrants.
    pub(crate) fn clear_all(&mut self) -> Vec<Notice> {
        let all = std::mem::take(&mut self.registrants);
        self.held = None;
        self.has_changed();
        all.into_iter().map(|r| Notice { host: r.host, kind: NoticeKind::Preempted }).collect()
    }
}
