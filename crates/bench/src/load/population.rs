//! Which objects can be read or removed while others write and remove: a table of slots.
//!
//! Each slot holds an object's number and how many are reading it. Invariants: what is being read
//! is not removed; what is removed is found by nobody; the table's length is fixed, so memory is
//! bounded (an object that finds no free slot is written, but neither read nor removed before the
//! clean-up).

use std::sync::atomic::{AtomicU64, Ordering};

use super::keys::Rng;

/// A slot's low bits count readers; the rest is the object's number plus one, 0 if empty.
const READERS: u64 = (1 << 16) - 1;
/// How many slots are tried at random before one is looked for in order.
const TRIES: u32 = 32;

/// The objects that can be used now.
pub struct Population {
    slots: Box<[AtomicU64]>,
}

/// An object that is being used; give it back.
#[derive(Debug)]
pub struct Held {
    slot: usize,
    /// The object's number.
    pub number: u64,
}

impl Population {
    /// A table with room for `capacity` objects, holding those below `filled`.
    pub fn new(capacity: u64, filled: u64) -> Population {
        let slots = (0..capacity.max(1)).map(|i| AtomicU64::new(if i < filled { (i + 1) << 16 } else { 0 }));
        Population { slots: slots.collect() }
    }

    fn find(&self, rng: &mut Rng, mut change: impl FnMut(u64) -> Option<u64>) -> Option<(usize, u64)> {
        let len = self.slots.len();
        let mut try_one = |at: usize| {
            let slot = &self.slots[at];
            slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, &mut change).ok().map(|old| (at, old))
        };
        for _ in 0..TRIES {
            if let Some(found) = try_one(rng.below(len as u64) as usize) {
                return Some(found);
            }
        }
        let from = rng.below(len as u64) as usize;
        (0..len).find_map(|i| try_one((from + i) % len))
    }

    /// A random object to read; `None` if there is none.
    pub fn read(&self, rng: &mut Rng) -> Option<Held> {
        let change = |old: u64| (old >> 16 != 0 && old & READERS < READERS).then(|| old + 1);
        let (slot, old) = self.find(rng, change)?;
        Some(Held { slot, number: (old >> 16) - 1 })
    }

    /// Ends reading.
    pub fn done(&self, held: Held) {
        let old = self.slots[held.slot].fetch_sub(1, Ordering::AcqRel);
        assert!(old & READERS > 0 && (old >> 16) - 1 == held.number, "only what is held is given back");
    }

    /// Takes a random object that nobody reads out of the table, to remove it.
    pub fn remove(&self, rng: &mut Rng) -> Option<u64> {
        let (_, old) = self.find(rng, |old| (old >> 16 != 0 && old & READERS == 0).then_some(0))?;
        Some((old >> 16) - 1)
    }

    /// Adds an object that was written; `false` if no room was found (others may have taken it meanwhile).
    pub fn add(&self, rng: &mut Rng, number: u64) -> bool {
        self.find(rng, |old| (old == 0).then_some((number + 1) << 16)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn what_is_read_stays() {
        let mut rng = Rng::new(1);
        let population = Population::new(3, 1);
        let held = population.read(&mut rng).unwrap();
        assert_eq!(held.number, 0);
        assert_eq!(population.remove(&mut rng), None);
        population.done(held);
        assert_eq!(population.remove(&mut rng), Some(0));
        assert!(population.read(&mut rng).is_none());
        assert!((7..10).all(|n| population.add(&mut rng, n)));
        assert!(!population.add(&mut rng, 10));
    }

    /// Threads that read, remove and add: nothing that is held is ever removed, nothing twice.
    #[test]
    fn many_at_once() {
        let population = Population::new(64, 64);
        let state = Mutex::new(vec![(true, 0_u32); 1 << 16]);
        let next = AtomicU64::new(64);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (population, state, next) = (&population, &state, &next);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..3000 {
                        if let Some(held) = population.read(&mut rng) {
                            assert!(state.lock().unwrap()[held.number as usize].0, "seed {seed}");
                            state.lock().unwrap()[held.number as usize].1 += 1;
                            std::hint::spin_loop();
                            state.lock().unwrap()[held.number as usize].1 -= 1;
                            population.done(held);
                        }
                        if rng.below(4) == 0
                            && let Some(number) = population.remove(&mut rng)
                        {
                            let mut state = state.lock().unwrap();
                            let (alive, readers) = state[number as usize];
                            assert!(alive && readers == 0, "seed {seed}: {number}");
                            state[number as usize].0 = false;
                            drop(state);
                            // Others take and free slots while one is looked for.
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            assert!((0..1000).any(|_| population.add(&mut rng, number)));
                        }
                    }
                });
            }
        });
    }
}
