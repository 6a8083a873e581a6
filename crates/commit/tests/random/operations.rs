//! The coordinators of the test: attempts, retries, reads.

use super::*;
use ashlar_commit::{Footing, ReadStep, Step, ballot_above};

impl Sim {
    pub fn begin(&mut self, i: usize) {
        let op = &mut self.ops[i];
        op.attempt += 1;
        if !op.started {
            op.started = true;
            op.min = self.seen.get(&op.key).cloned().unwrap_or_default();
        }
        let all = self.q.all();
        if op.write == 0 && !op.identity {
            op.doing = Doing::Read(Reader::new(self.q));
            self.send(i, Ballot::ZERO, all, &Ask::Read);
            return;
        }
        let ballot = ballot_above(op.above, self.epoch, i as u16 + 1, 7).expect("a ballot");
        op.above = ballot;
        let prop = Box::new(if op.attempt > 1 {
            Proposer::retry(self.q, ballot)
        } else {
            Proposer::new(self.q, ballot)
        });
        op.doing = Doing::Propose { prop, rec: None };
        let stage = (op.write > 0 && !op.one_sync).then_some(op.write);
        self.send(i, ballot, all, &Ask::Prepare);
        if let Some(write) = stage {
            self.send(i, ballot, all, &Ask::Stage { write, mends: false });
        }
    }

    pub fn on_reply(&mut self, msg: Msg, reply: Reply) {
        let (i, slot) = (msg.op, msg.slot);
        if self.ops[i].attempt != msg.attempt {
            return;
        }
        let step = match (&mut self.ops[i].doing, reply) {
            (Doing::Propose { prop, .. }, reply) => match reply {
                Reply::Promised { pair, hint, whole } => {
                    if let (Some(p), true) = (&pair, hint) {
                        prop.on_hint(p.0);
                    }
                    match pair {
                        Some(pair) if pair.1.one_sync.is_some() => {
                            let one_sync = pair.1.one_sync.expect("a one-sync record");
                            prop.on_promise_one_sync(slot, pair, one_sync, whole)
                        }
                        pair => prop.on_promise(slot, pair),
                    }
                }
                Reply::Refused { highest } => prop.on_refused(slot, highest),
                Reply::Silent => prop.on_silent(slot),
                Reply::Staged { mends: true } => {
                    prop.on_mended(slot);
                    Step::Wait
                }
                Reply::Staged { mends: false } => {
                    prop.on_stage_durable(slot);
                    Step::Wait
                }
                Reply::Accepted { counted: true } => prop.on_accepted(slot),
                Reply::Accepted { counted: false } => prop.on_accept_silent(slot),
                Reply::AcceptRefused { highest } => prop.on_accept_refused(slot, highest),
                Reply::Record { .. } => Step::Wait,
            },
            (Doing::Read(reader), Reply::Record { pair, hint, whole, voter }) => {
                let step = match &pair {
                    Some((b, rec)) if rec.one_sync.is_some() => {
                        let needed = rec.one_sync.expect("a one-sync record").needed;
                        reader.on_answer_one_sync(slot, *b, hint, voter, whole, needed)
                    }
                    _ => reader.on_answer(slot, pair.as_ref().map(|p| p.0), hint, voter),
                };
                return self.read_step(i, &step);
            }
            (Doing::Read(reader), Reply::Silent) => {
                let step = reader.on_silent(slot);
                return self.read_step(i, &step);
            }
            _ => Step::Wait,
        };
        self.step(i, step);
    }

    pub fn read_step(&mut self, i: usize, step: &ReadStep) {
        let (key, min) = (self.ops[i].key, self.ops[i].min.clone());
        match step {
            ReadStep::Wait => {}
            ReadStep::Serve { ballot, .. } => {
                let find =
                    |d: &Drive| d.index.get(&key).filter(|e| e.pair.0 == *ballot).map(|e| e.pair.1.clone());
                // The drives may have changed; then this coordinator does not have the record any more.
                self.ops[i].doing = Doing::Idle;
                if let Some(rec) = self.drives.iter().find_map(find) {
                    self.observe(key, &rec.log, &min);
                    self.ops[i].doing = Doing::Done;
                }
            }
            ReadStep::Absent { .. } => {
                self.observe(key, &[], &min);
                self.ops[i].doing = Doing::Done;
            }
            ReadStep::NeedIdentityRound => {
                self.ops[i].identity = true;
                self.ops[i].doing = Doing::Idle;
            }
            ReadStep::Unavailable => self.ops[i].doing = Doing::Idle,
        }
    }

    pub fn step(&mut self, i: usize, step: Step<Rc<Rec>>) {
        match step {
            Step::Wait => {}
            Step::Base(base, known) => self.based(i, base, known, None),
            Step::Recover(r) => match r.footing {
                Footing::Overtaken => {
                    let parent = r.value.parent.clone();
                    self.based(i, parent, false, None);
                }
                Footing::Mend { .. } => {
                    let newest = r.value.log.last().copied();
                    self.based(i, Some((r.ballot, r.value)), false, newest);
                }
            },
            Step::Chosen => {
                let op = &self.ops[i];
                let (key, min) = (op.key, op.min.clone());
                let Doing::Propose { prop, rec: Some(rec), .. } = &op.doing else { panic!("chosen") };
                let (ballot, rec) = (prop.ballot(), rec.clone());
                self.observe(key, &rec.log, &min);
                assert!(op_write_is_in(&self.ops[i], &rec));
                self.ops[i].doing = Doing::Done;
                self.send(i, ballot, self.q.all(), &Ask::Hint);
            }
            Step::Lost { retry_above } => {
                self.ops[i].above = self.ops[i].above.max(retry_above);
                self.ops[i].doing = Doing::Idle;
            }
            Step::Unavailable => self.ops[i].doing = Doing::Idle,
        }
        self.propose(i);
    }

    pub fn based(&mut self, i: usize, base: Option<Pair>, known: bool, mend: Option<u32>) {
        let spec = OneSync { k: self.k, needed: self.needed, targets: self.q.all() };
        let op = &mut self.ops[i];
        let (key, write, min) = (op.key, op.write, op.min.clone());
        let Doing::Propose { prop, rec } = &mut op.doing else { panic!("base") };
        let mut log = base.as_ref().map_or_else(Vec::new, |b| b.1.log.clone());
        let fresh = write > 0 && !log.contains(&write);
        if fresh {
            log.push(write);
        }
        if write == 0 && (known || base.is_none()) {
            op.doing = Doing::Done;
            return self.observe(key, &log, &min);
        }
        let one_sync = (fresh && op.one_sync).then_some(spec);
        let parent = one_sync.and(base);
        *rec = Some(Rc::new(Rec { log, one_sync, parent }));
        let ballot = prop.ballot();
        if let Some(write) = mend {
            self.send(i, ballot, self.q.all(), &Ask::Stage { write, mends: true });
        }
    }

    pub fn propose(&mut self, i: usize) {
        let op = &mut self.ops[i];
        let write = op.write;
        let Doing::Propose { prop, rec: Some(rec), .. } = &mut op.doing else { return };
        let fresh = write > 0 && rec.log.last() == Some(&write);
        // A base that contains the write already is only completed.
        let needed = if fresh && !op.one_sync { self.needed } else { 0 };
        if !prop.may_propose(needed) {
            return;
        }
        let shard = rec.one_sync.map(|_| write);
        match rec.one_sync {
            Some(one_sync) => prop.one_sync(one_sync),
            None => prop.propose(needed),
        }
        let (ballot, rec) = (prop.ballot(), rec.clone());
        self.send(i, ballot, self.q.all(), &Ask::Accept { rec, shard });
    }

    /// The coordinator stops waiting.
    pub fn timeout(&mut self, i: usize) {
        let all = self.q.all();
        match &mut self.ops[i].doing {
            Doing::Idle => self.begin(i),
            Doing::Done => {}
            Doing::Read(reader) => {
                let step = reader.on_deadline();
                self.read_step(i, &step);
            }
            Doing::Propose { prop, rec, .. } => {
                let rest = all.without(prop.promised_by());
                if rec.is_none() {
                    for slot in rest.iter() {
                        let Doing::Propose { prop, rec: None, .. } = &mut self.ops[i].doing else {
                            return;
                        };
                        let step = prop.on_silent(slot);
                        self.step(i, step);
                    }
                } else {
                    self.ops[i].doing = Doing::Idle;
                }
            }
        }
    }
}

fn op_write_is_in(op: &Op, rec: &Rec) -> bool {
    op.write == 0 || rec.log.contains(&op.write)
}
