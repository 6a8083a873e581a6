//! The last refusals, in memory, whether the audit log is on or off.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::Record;

/// How many refusals are kept. They take at most about 4,096 times 4 KiB.
const KEPT: usize = 4096;

/// The last refusals, and how many there were.
#[derive(Default)]
pub struct Ring(Mutex<(u64, VecDeque<Record>)>);

impl Ring {
    /// Adds a refusal; removes the oldest when there are too many.
    pub fn push(&self, record: Record) {
        let (count, all) = &mut *self.0.lock();
        if all.len() >= KEPT {
            all.pop_front();
        }
        *count += 1;
        all.push_back(record);
    }

    /// The refusal of a request.
    pub fn find(&self, id: &str) -> Option<Record> {
        self.0.lock().1.iter().rev().find(|r| r.request_id == id).cloned()
    }

    /// All that are kept, oldest first, and the number of the last one; they are counted from 1.
    pub fn all(&self) -> (u64, Vec<Record>) {
        let (count, all) = &*self.0.lock();
        (*count, all.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiLayer;

    #[test]
    fn full_ring_drops_the_oldest_refusal() {
        let ring = Ring::default();
        for i in 0..KEPT + 2 {
            ring.push(Record::new(0, &format!("{i}"), ApiLayer::S3, [127, 0, 0, 1].into()));
        }
        assert!(ring.find("0").is_none() && ring.find("1").is_none());
        assert!(ring.find("2").is_some() && ring.find(&format!("{}", KEPT + 1)).is_some());
        let (count, all) = ring.all();
        assert_eq!((count, all.len()), (KEPT as u64 + 2, KEPT));
        assert_eq!(all.last().unwrap().request_id, format!("{}", KEPT + 1));
    }
}
