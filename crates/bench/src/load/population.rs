//! The objects that can be read or removed while others write and remove: a table of slots.
//!
//! Each slot has an object's number and the count of its readers. Invariants: an object is not removed while
//! it is read; a removed object is not found again; the length of the table is fixed, so memory is bounded
//! (an object that finds no free slot is written, but neither read nor removed before the clean-up).

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
pub struct ObjectGuard {
    slot: usize,
    /// The object's number.
    pub number: u64,
}

impl Population {
    /// A table for `capacity` objects, with those below `filled`.
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
    pub fn read(&self, rng: &mut Rng) -> Option<ObjectGuard> {
        let change = |old: u64| (old >> 16 != 0 && old & READERS < READERS).then(|| old + 1);
        let (slot, old) = self.find(rng, change)?;
        Some(ObjectGuard { slot, number: (old >> 16) - 1 })
    }

    /// Ends reading.
    pub fn done(&self, guard: ObjectGuard) {
        let old = self.slots[guard.slot].fetch_sub(1, Ordering::AcqRel);
        assert!(
            old & READERS > 0 && (old >> 16) - 1 == guard.number,
            "only an object in use can be given back"
        );
    }

    /// Removes a random object that has no readers from the table, so that the caller can delete it.
    pub fn remove(&self, rng: &mut Rng) -> Option<u64> {
        let (_, old) = self.find(rng, |old| (old >> 16 != 0 && old & READERS == 0).then_some(0))?;
        Some((old >> 16) - 1)
    }

    /// Adds an object that was written; `false` if there was no free slot.
    pub fn add(&self, rng: &mut Rng, number: u64) -> bool {
        self.find(rng, |old| (old == 0).then_some((number + 1) << 16)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn objects_being_read_are_not_removed() {
        let mut rng = Rng::new(1);
        let population = Population::new(3, 1);
        let guard = population.read(&mut rng).unwrap();
        assert_eq!(guard.number, 0);
        assert_eq!(population.remove(&mut rng), None);
        population.done(guard);
        assert_eq!(population.remove(&mut rng), Some(0));
        assert!(population.read(&mut rng).is_none());
        assert!((7..10).all(|n| population.add(&mut rng, n)));
        assert!(!population.add(&mut rng, 10));
    }

    /// Threads that read, remove and add: an object in use is never removed, and none twice.
    #[test]
    fn concurrent_use_keeps_the_invariants() {
        let population = Population::new(64, 64);
        let state = Mutex::new(vec![(true, 0_u32); 1 << 16]);
        let next = AtomicU64::new(64);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (population, state, next) = (&population, &state, &next);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..3000 {
                        if let Some(guard) = population.read(&mut rng) {
                            assert!(state.lock().unwrap()[guard.number as usize].0, "seed {seed}");
                            state.lock().unwrap()[guard.number as usize].1 += 1;
                            std::hint::spin_loop();
                            state.lock().unwrap()[guard.number as usize].1 -= 1;
                            population.done(guard);
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
