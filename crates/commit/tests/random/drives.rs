//! The drives of the test: messages, flushes, restarts, and the filling of a blank drive.

use super::*;
use ashlar_commit::{AcceptAnswer, ConfirmAnswer, Copy, PrepareAnswer};

impl Sim {
    pub fn deliver(&mut self, msg: Msg) {
        if self.faults && self.rng.one_in(12) {
            return;
        }
        let rng = &mut self.rng;
        let drive = &mut self.drives[msg.slot as usize];
        let accepted = drive.index.get(&msg.key).map_or(Ballot::ZERO, |e| e.pair.0);
        let show = |drive: &Drive| {
            let entry = drive.index.get(&msg.key)?;
            let whole = entry.pair.1.log.last().is_some_and(|w| drive.shards.contains(w));
            Some((entry.pair.clone(), entry.hint, whole))
        };
        let reply = match &msg.ask {
            Ask::Prepare => {
                // Other registers fill the table.
                let noise = KEYS + rng.below(NOISE as usize) as u128;
                let low = Ballot { counter: msg.ballot.counter / 2, ..msg.ballot };
                if drive.acc.floor() > low {
                    let _ = drive.acc.prepare(noise, Ballot::ZERO, low);
                }
                let mut answer = drive.acc.prepare(msg.key, accepted, msg.ballot);
                if let PrepareAnswer::RaiseFloorFirst { to } = answer {
                    drive.acc.floor_raised(to);
                    answer = drive.acc.prepare(msg.key, accepted, msg.ballot);
                }
                match answer {
                    PrepareAnswer::Promised => {
                        let (pair, hint, whole) =
                            show(drive).map_or((None, false, false), |(p, h, w)| (Some(p), h, w));
                        Reply::Promised { pair, hint, whole }
                    }
                    PrepareAnswer::Refused { highest } => Reply::Refused { highest },
                    PrepareAnswer::NotVoter => Reply::Silent,
                    PrepareAnswer::RaiseFloorFirst { .. } => panic!("raised twice"),
                }
            }
            Ask::Stage { write, mends } => {
                if let ConfirmAnswer::RaiseFloorFirst { to } = drive.acc.confirm(msg.ballot) {
                    drive.acc.floor_raised(to);
                }
                drive.shards.insert(*write);
                Reply::Staged { mends: *mends }
            }
            Ask::Accept { rec, shard } => match drive.acc.accept(msg.key, accepted, msg.ballot) {
                AcceptAnswer::Refused { highest } => Reply::AcceptRefused { highest },
                AcceptAnswer::Already { counted } => Reply::Accepted { counted },
                go => {
                    let entry = Entry { pair: (msg.ballot, rec.clone()), hint: false };
                    drive.index.insert(msg.key, entry);
                    drive.shards.extend(*shard);
                    Reply::Accepted { counted: go == AcceptAnswer::Go }
                }
            },
            Ask::Read => {
                // Shown after the flush, like everything (the current state is returned).
                let voter = drive.acc.role() == Role::Voter;
                if !drive.acc.may_read(self.epoch) {
                    Reply::Silent
                } else {
                    let (pair, hint, whole) =
                        show(drive).map_or((None, false, false), |(p, h, w)| (Some(p), h, w));
                    Reply::Record { pair, hint, whole, voter }
                }
            }
            Ask::Hint => {
                if let Some(e) = drive.index.get_mut(&msg.key) {
                    e.hint |= e.pair.0 == msg.ballot;
                }
                return;
            }
        };
        drive.waiting.push((msg, reply));
    }

    pub fn flush(&mut self, i: usize) {
        let drive = &mut self.drives[i];
        for (key, e) in &drive.index {
            drive.durable.insert(*key, e.pair.clone());
            drive.acc.settled(*key, e.pair.0);
        }
        drive.durable_shards.clone_from(&drive.shards);
        let on_reply = std::mem::take(&mut drive.waiting);
        let lossy = self.faults;
        for t in on_reply {
            if !(lossy && self.rng.one_in(12)) {
                self.back.push(t);
            }
        }
    }

    pub fn crash(&mut self, i: usize) {
        let headroom = self.headroom;
        let drive = &mut self.drives[i];
        drive.waiting.clear();
        drive.shards.clone_from(&drive.durable_shards);
        let restored = drive.durable.iter();
        drive.index = restored.map(|(k, p)| (*k, Entry { pair: p.clone(), hint: false })).collect();
        drive.acc = new_acc(drive.acc.role(), drive.acc.epoch(), drive.acc.floor(), headroom);
    }

    pub fn replace(&mut self, i: usize) {
        self.epoch += 1;
        let slot = i as Slot;
        let joining = [slot].into_iter().collect();
        let (q, epoch) = (self.q, self.epoch);
        let copies = (0..KEYS).map(|k| (k, Resync::replaced(q, epoch, joining))).collect();
        self.joining = Some((slot, copies));
        self.drives[i] = Drive {
            acc: new_acc(Role::Joining, epoch, Ballot::ZERO, self.headroom),
            index: HashMap::new(),
            shards: HashSet::new(),
            durable: HashMap::new(),
            durable_shards: HashSet::new(),
            waiting: Vec::new(),
        };
    }

    /// One step of the resync: fence and read one drive, or finish.
    pub fn resync(&mut self) {
        let Some((slot, mut copies)) = self.joining.take() else { return };
        let i = self.rng.below(self.drives.len());
        if i != slot as usize {
            self.flush(i);
            let drive = &mut self.drives[i];
            drive.acc.fence(self.epoch);
            for (key, r) in &mut copies {
                r.on_fenced(i as Slot);
                let entry = drive.index.get(key);
                match entry.map(|e| (e.pair.clone(), e.hint, e.pair.1.one_sync)) {
                    Some((pair, false, Some(one_sync))) => {
                        let whole = pair.1.log.last().is_some_and(|w| drive.shards.contains(w));
                        r.on_record_one_sync(i as Slot, pair, one_sync, whole);
                    }
                    other => r.on_record(i as Slot, other.map(|o| o.0)),
                }
            }
        }
        if copies.values().any(|r| r.copy() == Copy::Wait) {
            self.joining = Some((slot, copies));
            return;
        }
        let drive = &mut self.drives[slot as usize];
        for (key, r) in &copies {
            let pair = match r.copy() {
                Copy::Record(pair) => Some(pair.clone()),
                Copy::Parent { of, maybe_lost } => {
                    assert!(!maybe_lost, "no drive was declared dead");
                    let as_ordinary = |(b, rec): &Pair| {
                        (*b, Rc::new(Rec { log: rec.log.clone(), one_sync: None, parent: None }))
                    };
                    of.1.parent.as_ref().map(as_ordinary)
                }
                _ => None,
            };
            let have = drive.index.get(key).map_or(Ballot::ZERO, |e| e.pair.0);
            if let Some(pair) = pair.filter(|p| p.0 > have) {
                drive.index.insert(*key, Entry { pair, hint: false });
            }
        }
        drive.acc.joined();
        self.flush(slot as usize);
    }
}
