//! Shares of a quota: how several nodes keep one limit together without asking each other for every change
//! (docs/protocol.md 2.17).
//!
//! The control store keeps one [`QuotaRecord`] per bucket with a quota, changed by compare only. It holds what is
//! *charged* (an upper bound of everything that is stored, but for what follows) and what is *granted* to each node. A
//! node admits new bytes only out of its share; its [`Holder`] says whether there is room. From time to time it
//! *settles*: what its changes added since the last time moves from its share to what is charged, and the share
//! becomes larger or smaller. A *count* of the bucket lowers what is charged, where bytes were charged that are not
//! there.
//!
//! Invariant: what is stored, what is on its way and what all holders may still admit is together at most what is
//! charged and granted; and that exceeds the limit never by a grant.
//!
//! Rules that are easy to break, each with a mutant of the model:
//! * What a node gives back it does not admit on from the moment when it sends the settlement, whatever the
//!   answer; what it asks for, only after the answer (`QuotaReturnInUse`).
//! * A change with an unknown outcome keeps its bytes until it can no longer take effect (`QuotaLostIsFree`).
//! * A count adds all that nodes have added since before its first read, and each of them says so after its
//!   last (`QuotaCountUnanswered`). What they removed is not subtracted: the scan may have seen it
//!   (`QuotaCountNet`). For the same reason a removal that began before the last count ended is never subtracted,
//!   although its node learns of it only afterwards, or had no share until then (`QuotaOldRemoval`). When a node's life ended meanwhile, nobody knows what it added: the count is void
//!   (`QuotaCountAcrossLives`).
//! * The share of a node that does not answer is charged as a whole, and only when its owner no longer admits on
//!   it (`QuotaTakenAlive`).
//!
//! Must not depend on: how the record is stored, time, what the bytes are.

use std::collections::BTreeMap;

/// Number of a node.
pub type NodeNumber = u16;

/// The share of one node, as of its last settlement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Share {
    /// Which life of the node holds it. A process that starts begins another.
    pub life: u64,
    /// Bytes that it may add beyond what it has settled.
    pub granted: u64,
    /// What all its changes have added and removed in this life, as far as it is in what is charged.
    pub net: i64,
    /// What its changes have added, without what they removed.
    pub gross: u64,
    /// Number of the last call for shares that it has answered.
    pub answered: u64,
    /// Somebody takes the node for gone: the number of that suspicion. Any settlement clears it.
    pub suspected: Option<u64>,
}

/// A count that waits for the nodes to say what they added meanwhile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PendingCount {
    /// What was found, with what was added meanwhile as far as it is known.
    pub bytes: u64,
    /// Nodes that have to answer, and what each had added ([`Share::gross`]) before the count began.
    pub waits: BTreeMap<NodeNumber, u64>,
}

/// What the control store keeps of a bucket with a quota.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct QuotaRecord {
    /// Bytes that no share covers; `None`: the bucket was not counted yet, and nothing is granted.
    pub charged: Option<u64>,
    /// By node.
    pub shares: BTreeMap<NodeNumber, Share>,
    /// Number of the last call for shares.
    pub asked: u64,
    /// How many lives of nodes have ended.
    pub ended: u64,
    /// Number of the last suspicion.
    pub suspicions: u64,
    /// Number of the last count whose scan has ended.
    pub counts: u64,
    /// A count that is not in what is charged yet.
    pub count: Option<PendingCount>,
}

/// What a settlement makes of the share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// What is left of it.
    Rest,
    /// Only what changes on their way need.
    InUse,
    /// Enough for so many new bytes. `ask`: the call for shares that was made for them.
    More {
        /// Bytes.
        need: u64,
        /// Number of the call.
        ask: Option<u64>,
    },
}

/// What a settlement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// To be written, and told to the holder before and after ([`Holder::sent`]).
    Write(Settlement),
    /// The share was taken back: the holder begins a new life.
    TakenBack,
    /// The bucket was not counted yet.
    NotCounted,
    /// There is no room for what is needed.
    Short {
        /// What is charged, and what others are granted.
        used: u64,
        /// Of these, what others are granted.
        granted: u64,
        /// So it is even though all other nodes have given back what they do not need since the call was made.
        certain: bool,
    },
}

/// A state of the share that the record has, or may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settlement {
    granted: u64,
    net: i64,
    /// The last count of the record that it was made from.
    counts: u64,
}

/// When a change began, for its node: in which life, and after which count. A removal that began before the last
/// count that its node knows is not subtracted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Began {
    life: u64,
    counts: u64,
}

fn add(bytes: u64, difference: i64) -> u64 {
    bytes.saturating_add_signed(difference)
}

impl QuotaRecord {
    /// Bytes granted to others than `node`.
    fn granted_but(&self, node: NodeNumber) -> u64 {
        let others = self.shares.iter().filter(|(n, _)| **n != node);
        others.fold(0, |sum, (_, share)| sum.saturating_add(share.granted))
    }

    /// Whether `node` is called upon: for what it does not need, or by a count.
    #[must_use]
    pub fn calls(&self, node: NodeNumber) -> bool {
        self.share_is_asked(node) || self.count.as_ref().is_some_and(|c| c.waits.contains_key(&node))
    }

    /// Whether `node` is asked to give back what it does not need.
    #[must_use]
    pub fn share_is_asked(&self, node: NodeNumber) -> bool {
        self.shares.get(&node).is_some_and(|s| s.answered < self.asked)
    }

    /// Whether nothing would be gained by waiting for the others, after this call. Those that seem to be gone
    /// do not answer; `missing` bytes are not had from them either.
    fn is_certain(&self, node: NodeNumber, ask: Option<u64>, missing: u64) -> bool {
        let mut others = self.shares.iter().filter(|(n, _)| **n != node).map(|(_, share)| share);
        let answered = |s: &Share| ask.is_some_and(|ask| s.answered >= ask);
        let held = |s: &Share| if answered(s) { 0 } else { s.granted };
        let gone = others.clone().fold(0u64, |sum, s| sum.saturating_add(held(s)));
        others.all(|s| answered(s) || s.suspected.is_some()) && missing > gone
    }

    /// Calls for what nodes do not need; answers the number of the call.
    pub fn ask(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Somebody takes a life of a node for gone. Answers the number of the suspicion, if the life is there.
    pub fn suspect(&mut self, node: NodeNumber, life: u64) -> Option<u64> {
        let share = self.shares.get_mut(&node).filter(|s| s.life == life)?;
        self.suspicions += 1;
        share.suspected = Some(self.suspicions);
        share.suspected
    }

    /// Takes the share of a life back whose owner has not admitted on it since this suspicion, and will not: all of it
    /// is charged. Answers whether it was there.
    pub fn take_back(&mut self, node: NodeNumber, life: u64, suspicion: u64) -> bool {
        let there = self.shares.get(&node).is_some_and(|s| s.life == life && s.suspected == Some(suspicion));
        if there {
            self.end(node);
        }
        there
    }

    /// A life has ended: what it was granted is charged, since nobody knows how much of it was used.
    fn end(&mut self, node: NodeNumber) {
        if let Some(share) = self.shares.remove(&node) {
            self.charged = self.charged.map(|c| c.saturating_add(share.granted));
            self.ended += 1;
            self.count = None;
        }
    }

    /// A scan of the bucket has found `bytes`; `before` is the record as it was before the first read. What is
    /// charged becomes that, as soon as all nodes have said what they added meanwhile. Answers false if the count
    /// is void.
    pub fn counted(&mut self, before: &QuotaRecord, bytes: u64) -> bool {
        if before.ended != self.ended {
            return false;
        }
        let base = |node: &NodeNumber, share: &Share| {
            before.shares.get(node).filter(|b| b.life == share.life).map_or(0, |b| b.gross)
        };
        let waits = self.shares.iter().map(|(node, share)| (*node, base(node, share))).collect();
        self.count = Some(PendingCount { bytes, waits });
        self.counts += 1;
        self.apply();
        true
    }

    /// Takes a count up that all have answered.
    fn apply(&mut self) {
        if let Some(count) = self.count.take_if(|c| c.waits.is_empty()) {
            self.charged = Some(self.charged.map_or(count.bytes, |c| c.min(count.bytes)));
        }
    }

    /// What a node added and removed since its last settlement.
    fn fold(&mut self, node: NodeNumber, difference: i64, gross: u64) {
        self.charged = self.charged.map(|c| add(c, difference));
        if let Some(count) = &mut self.count {
            count.bytes = match count.waits.remove(&node) {
                Some(before) => count.bytes.saturating_add(gross.saturating_sub(before)),
                None => add(count.bytes, difference),
            };
        }
    }
}

/// A node's side of its share: what it may still admit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    node: NodeNumber,
    life: u64,
    net: i64,
    gross: u64,
    /// Bytes of changes on their way.
    reserved: u64,
    /// Bytes of changes that may have taken effect, or may yet.
    unsure: u64,
    /// What the record may say; more than one while the outcome of a settlement is not known.
    states: Vec<Settlement>,
    /// A settlement is known to be in the record. Before, there may be no share, and then no count asks.
    joined: bool,
    /// Number of the last count that it knows.
    counts: u64,
}

impl Holder {
    /// Of a node whose life begins: without a share.
    #[must_use]
    pub fn new(node: NodeNumber, life: u64) -> Holder {
        let states = Vec::new();
        Holder { node, life, net: 0, gross: 0, reserved: 0, unsure: 0, states, joined: false, counts: 0 }
    }

    /// Which life it is.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// For a change that begins now, to be kept until [`Holder::landed`].
    #[must_use]
    pub fn began(&self) -> Began {
        Began { life: self.life, counts: self.counts }
    }

    /// A record with this number of counts was read. To be called for a node without a share, so that the removals that
    /// it begins from now on can be subtracted.
    pub fn saw(&mut self, counts: u64) {
        if !self.has_share() {
            self.net = self.net_in(counts);
            self.counts = counts;
        }
    }

    /// What its changes have added and removed, in a record with this number of counts. What a node without a share
    /// removed before a count ended stays charged.
    fn net_in(&self, counts: u64) -> i64 {
        if self.has_share() || counts == self.counts { self.net } else { self.net.max(0) }
    }

    /// It may have a share in the record.
    #[must_use]
    pub fn has_share(&self) -> bool {
        !self.states.is_empty()
    }

    /// Bytes that changes on their way need, those with an unknown outcome included.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.reserved.saturating_add(self.unsure)
    }

    /// Bytes that it may still admit, whatever the outcome of settlements that it sent.
    #[must_use]
    pub fn free(&self) -> u64 {
        if !self.joined {
            return 0;
        }
        let left =
            |s: &Settlement| i128::from(s.granted) - i128::from(self.net - s.net) - i128::from(self.in_use());
        let least = self.states.iter().map(left).min().unwrap_or(0);
        u64::try_from(least.max(0)).unwrap_or(u64::MAX)
    }

    /// Changes that it has not settled.
    #[must_use]
    pub fn unsettled(&self) -> bool {
        self.states.iter().any(|s| s.net != self.net)
    }

    /// Admits a change that may add so many bytes, if there is room.
    #[must_use]
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let there = bytes <= self.free();
        if there {
            self.reserved += bytes;
        }
        there
    }

    /// A change that was admitted in this life is over; what it did was told with [`Holder::landed`] or
    /// [`Holder::lost`] before.
    pub fn release(&mut self, life: u64, bytes: u64) {
        if life == self.life {
            self.reserved = self.reserved.saturating_sub(bytes);
        }
    }

    /// A change took effect, with this difference. What it removed counts if it `began` after the last count that this
    /// node knows: otherwise the count may have seen it.
    pub fn landed(&mut self, difference: i64, began: Began) {
        let difference = if began == self.began() { difference } else { difference.max(0) };
        self.net = self.net.saturating_add(difference);
        self.gross = self.gross.saturating_add(u64::try_from(difference).unwrap_or(0));
    }

    /// Whether a change takes effect that would add so many bytes is not known.
    pub fn lost(&mut self, bytes: u64) {
        self.unsure = self.unsure.saturating_add(bytes);
    }

    /// What was lost in this life cannot take effect any more, if it did not. It is charged as if it had: a count
    /// finds out.
    pub fn sure(&mut self, life: u64, bytes: u64) {
        if life == self.life {
            self.unsure = self.unsure.saturating_sub(bytes);
            self.landed(i64::try_from(bytes).unwrap_or(i64::MAX), self.began());
        }
    }

    /// Settles in `record`. What is answered as [`Settled::Write`] is to be written with the record as the only
    /// thing that is changed, if it is as it was read. In the other cases the record is not to be written.
    #[must_use]
    pub fn settle(&self, record: &mut QuotaRecord, limit: u64, keep: Keep) -> Settled {
        let present = record.shares.get(&self.node).copied().filter(|s| s.life == self.life);
        let present = match present {
            Some(share) => share,
            None if self.has_share() => return Settled::TakenBack,
            None => {
                record.end(self.node);
                Share { life: self.life, ..Share::default() }
            }
        };
        let net = self.net_in(record.counts);
        let difference = net - present.net;
        record.fold(self.node, difference, self.gross);
        record.apply();
        let left = present.granted.saturating_add_signed(difference.saturating_neg());
        let charged = record.charged;
        let taken = charged.map(|c| c.saturating_add(record.granted_but(self.node)));
        let room = taken.map_or(0, |taken| limit.saturating_sub(taken));
        let in_use = self.in_use();
        let granted = match keep {
            // A limit may have become lower.
            Keep::Rest => left.min(room.max(in_use)),
            Keep::InUse => left.min(in_use),
            Keep::More { need, .. } if in_use.saturating_add(need) <= left.min(room) => left,
            Keep::More { need, ask } => {
                let Some(used) = taken else { return Settled::NotCounted };
                let spare = room.saturating_sub(in_use);
                if need > spare {
                    let certain = record.is_certain(self.node, ask, need - spare);
                    return Settled::Short { used, granted: record.granted_but(self.node), certain };
                }
                let others = record.shares.keys().filter(|n| **n != self.node).count() as u64;
                // Alone: everything. Else less and less as the bucket gets full, and nothing in advance while
                // somebody waits for what others do not need.
                let give = match others {
                    0 => spare,
                    _ if record.shares.values().any(|s| s.answered < record.asked) => need,
                    _ => spare / (2 * (others + 1)),
                };
                in_use.saturating_add(give.max(need))
            }
        };
        let Holder { node, life, gross, .. } = *self;
        let share = Share { life, granted, net, gross, answered: record.asked, suspected: None };
        record.shares.insert(node, share);
        Settled::Write(Settlement { granted, net, counts: record.counts })
    }

    /// The record is known to have this settlement, and nothing else is on its way.
    #[must_use]
    pub fn is_at(&self, settlement: Settlement) -> bool {
        self.joined && self.states == [settlement]
    }

    /// The settlement is sent: from now on the record may say so. To be called before it is.
    pub fn sent(&mut self, settlement: Settlement) {
        self.saw(settlement.counts);
        self.counts = settlement.counts;
        self.states.push(settlement);
    }

    /// The record has the settlement: nothing that was sent before can take effect any more.
    pub fn written(&mut self, settlement: Settlement) {
        self.states = vec![settlement];
        self.joined = true;
    }

    /// The settlement was refused and will never take effect.
    pub fn refused(&mut self, settlement: Settlement) {
        if let Some(at) = self.states.iter().rposition(|s| *s == settlement) {
            self.states.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settles as if nobody else did meanwhile.
    fn settle(holder: &mut Holder, record: &mut QuotaRecord, limit: u64, keep: Keep) -> Settled {
        let mut next = record.clone();
        let settled = holder.settle(&mut next, limit, keep);
        if let Settled::Write(settlement) = settled {
            holder.sent(settlement);
            *record = next;
            holder.written(settlement);
        }
        settled
    }

    fn more(need: u64, ask: Option<u64>) -> Keep {
        Keep::More { need, ask }
    }

    fn counted(bytes: u64) -> QuotaRecord {
        let mut record = QuotaRecord::default();
        assert!(record.counted(&QuotaRecord::default(), bytes));
        record
    }

    #[test]
    fn no_share_is_granted_before_first_count() {
        let (mut holder, mut record) = (Holder::new(1, 7), QuotaRecord::default());
        assert_eq!(settle(&mut holder, &mut record, 100, more(1, None)), Settled::NotCounted);
        assert!(!holder.reserve(1));
    }

    #[test]
    fn single_node_gets_whole_quota_and_shares_shrink_with_more_nodes() {
        let mut record = counted(100);
        let (mut one, mut two) = (Holder::new(1, 7), Holder::new(2, 8));
        settle(&mut one, &mut record, 1100, more(1, None));
        assert_eq!(one.free(), 1000);
        settle(&mut one, &mut record, 1100, Keep::InUse);
        settle(&mut two, &mut record, 1100, more(1, None));
        assert_eq!(two.free(), 250);
        settle(&mut one, &mut record, 1100, more(1, None));
        assert_eq!(one.free(), 187);
        // While somebody waits for what is not needed, only what is.
        record.ask();
        settle(&mut one, &mut record, 1100, more(200, None));
        assert_eq!(one.free(), 200);
    }

    #[test]
    fn lower_quota_takes_back_unused_shares() {
        let (mut one, mut record) = (Holder::new(1, 7), counted(100));
        settle(&mut one, &mut record, 1000, more(1, None));
        assert!(one.reserve(50));
        settle(&mut one, &mut record, 200, Keep::Rest);
        assert_eq!((one.free(), one.in_use()), (50, 50));
        settle(&mut one, &mut record, 10, Keep::Rest);
        assert_eq!((one.free(), one.in_use()), (0, 50));
    }

    #[test]
    fn bucket_is_full_only_after_all_nodes_answered() {
        let mut record = counted(0);
        let (mut one, mut two) = (Holder::new(1, 7), Holder::new(2, 8));
        settle(&mut two, &mut record, 100, more(60, None));
        assert!(two.reserve(60));
        settle(&mut two, &mut record, 100, Keep::Rest);
        let certain = |settled| match settled {
            Settled::Short { certain, .. } => certain,
            other => panic!("{other:?}"),
        };
        assert!(!certain(settle(&mut one, &mut record, 100, more(50, None))));
        let ask = Some(record.ask());
        assert!(!certain(settle(&mut one, &mut record, 100, more(50, ask))));
        settle(&mut two, &mut record, 100, Keep::InUse);
        assert!(certain(settle(&mut one, &mut record, 100, more(50, ask))));
        settle(&mut one, &mut record, 100, more(40, ask));
        assert!(one.reserve(40) && !one.reserve(1));
        // Who is gone does not answer. What it holds is not to be had, and not known to be used.
        let ask = Some(record.ask());
        let suspicion = record.suspect(2, 8).unwrap();
        assert!(!certain(settle(&mut one, &mut record, 100, more(60, ask))));
        assert!(certain(settle(&mut one, &mut record, 100, more(61, ask))));
        assert!(!record.take_back(2, 8, suspicion + 1) && record.take_back(2, 8, suspicion));
        assert_eq!(settle(&mut two, &mut record, 100, Keep::Rest), Settled::TakenBack);
        assert!(certain(settle(&mut one, &mut record, 100, more(1, None))));
    }

    #[test]
    fn removed_bytes_can_be_added_again_without_request() {
        let (mut one, mut record) = (Holder::new(1, 7), counted(100));
        settle(&mut one, &mut record, 100, Keep::Rest);
        assert!(!one.reserve(1));
        one.landed(-30, one.began());
        assert!(one.reserve(30) && !one.reserve(1));
    }

    #[test]
    fn removals_that_a_count_may_have_seen_are_not_subtracted() {
        // One without a share.
        let (mut one, mut record) = (Holder::new(1, 7), counted(100));
        one.saw(record.counts);
        one.landed(-30, one.began());
        let before = record.clone();
        assert!(record.counted(&before, 70));
        settle(&mut one, &mut record, 100, Keep::Rest);
        assert_eq!((record.charged, one.free()), (Some(70), 0));
        // One that answers the count before it learns that its removal took effect.
        let (began, before) = (one.began(), record.clone());
        assert!(record.counted(&before, 50));
        settle(&mut one, &mut record, 100, Keep::Rest);
        one.landed(-20, began);
        settle(&mut one, &mut record, 100, Keep::Rest);
        assert_eq!((record.charged, one.free()), (Some(50), 0));
        // What begins after the count is subtracted.
        one.landed(-10, one.began());
        settle(&mut one, &mut record, 100, Keep::Rest);
        assert_eq!(record.charged, Some(40));
    }
}
