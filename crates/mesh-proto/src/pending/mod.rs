//! The requests of one link that wait for their reply.

mod window;

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use spotlane_types::count::Correlation;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use thiserror::Error;

pub use window::Window;

use crate::zmp::Sequence;

/// Names one submit for its driver; never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubmitId(u64);

impl SubmitId {
    /// Takes a number that no open submit of the link has.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Request {
    /// Who waits.
    pub id: SubmitId,
    /// What the reply record repeats (TR-69).
    pub correlation: Correlation,
    /// What the tail of the reply is read by (WR-21).
    pub kind: MeshOperationKind,
    /// When it ends without a reply (TR-41).
    pub deadline: Monotonic,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The table is full.
    #[error("{max} requests wait already")]
    Full {
        /// Its bound.
        max: usize,
    },
    /// The id waits already.
    #[error("the id of the request is in use")]
    IdInUse,
}

/// Why a sequence names no waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-41")]
pub enum Unmatched {
    /// Its request has ended. Nothing is kept of it (EX-270), so an equal answer is not told from
    /// another one.
    #[error("duplicateOrLate")]
    Finished,
    /// No request had it.
    #[error("unknownOrLate")]
    NeverIssued,
}

/// The table. A request leaves it by value, so it cannot end twice (TR-90, EX-270).
///
/// It belongs to one pair and generation, and a reply of another one finds no table (TR-61).
///
/// Nearly every request ends by its reply and long before its deadline, so deadlines are put in order
/// only when the first of them has come.
#[derive(Debug)]
pub struct Pending {
    requests: Window<Request>,
    /// Ids that are not the number of their sequence.
    ids: BTreeMap<SubmitId, Sequence>,
    /// Deadlines in order, of requests from before `unordered_from`; some may have ended.
    ordered: BinaryHeap<Reverse<(Monotonic, Sequence)>>,
    unordered_from: Sequence,
    /// No deadline of the requests from there on is earlier.
    unordered_first: Option<Monotonic>,
    max: usize,
}

/// Deadlines of requests that have ended are given up when there are this many more than requests.
const STALE_MAX: usize = 4096;

impl Pending {
    /// An empty table with room for `max` requests.
    pub const fn new(max: usize) -> Self {
        Self {
            requests: Window::new(),
            ids: BTreeMap::new(),
            ordered: BinaryHeap::new(),
            unordered_from: Sequence::FIRST,
            unordered_first: None,
            max,
        }
    }

    /// Whether [`Self::insert`] would take this request.
    ///
    /// # Errors
    /// The table is full, or the id waits already.
    pub fn check(&self, id: SubmitId) -> Result<(), NotTaken> {
        if self.sequence_of(id).is_some() {
            return Err(NotTaken::IdInUse);
        }
        if self.requests.len() >= self.max {
            return Err(NotTaken::Full { max: self.max });
        }
        Ok(())
    }

    fn sequence_of(&self, id: SubmitId) -> Option<Sequence> {
        if let Some(sequence) = self.ids.get(&id) {
            return Some(*sequence);
        }
        let sequence = Sequence::new(id.get())?;
        let request = self.requests.get(sequence)?;
        (request.id == id).then_some(sequence)
    }

    /// The sequence of the next request (TR-40).
    pub const fn next_sequence(&self) -> Sequence {
        self.requests.next()
    }

    /// Takes a request and gives the sequence that it is sent with. An id that is the number of the
    /// sequence takes the least effort.
    ///
    /// # Errors
    /// As [`Self::check`]; nothing has changed.
    pub fn insert(&mut self, request: Request) -> Result<Sequence, NotTaken> {
        self.check(request.id)?;
        let first = self.unordered_first;
        self.unordered_first =
            Some(first.map_or(request.deadline, |first| first.min(request.deadline)));
        let sequence = self.requests.push(request);
        if request.id.get() != sequence.get() {
            self.ids.insert(request.id, sequence);
        }
        Ok(sequence)
    }

    /// Takes out the request that a reply names.
    ///
    /// # Errors
    /// No request waits for it.
    pub fn take(&mut self, sequence: Sequence) -> Result<Request, Unmatched> {
        let Some(request) = self.requests.take(sequence) else {
            return Err(if sequence < self.requests.next() {
                Unmatched::Finished
            } else {
                Unmatched::NeverIssued
            });
        };
        if request.id.get() != sequence.get() {
            self.ids.remove(&request.id);
        }
        if self.requests.is_empty() {
            self.ordered.clear();
            self.unordered_from = self.requests.next();
            self.unordered_first = None;
        }
        Ok(request)
    }

    /// Takes out a request that its caller gives up.
    pub fn cancel(&mut self, id: SubmitId) -> Option<Request> {
        let sequence = self.sequence_of(id)?;
        self.take(sequence).ok()
    }

    /// Takes out the request whose deadline passed first, if one has passed.
    pub fn expire(&mut self, now: Monotonic) -> Option<Request> {
        if self.unordered_first.is_some_and(|first| first <= now) {
            self.order();
        }
        while let Some(Reverse((deadline, sequence))) = self.ordered.peek() {
            if *deadline > now {
                return None;
            }
            let sequence = *sequence;
            self.ordered.pop();
            if let Ok(request) = self.take(sequence) {
                return Some(request);
            }
        }
        None
    }

    /// Puts all deadlines in order.
    fn order(&mut self) {
        if self.ordered.len() > self.requests.len().saturating_add(STALE_MAX) {
            let requests = &self.requests;
            self.ordered
                .retain(|Reverse((_, sequence))| requests.get(*sequence).is_some());
        }
        let new = self.requests.from(self.unordered_from);
        self.ordered
            .extend(new.map(|(sequence, request)| Reverse((request.deadline, sequence))));
        self.unordered_from = self.requests.next();
        self.unordered_first = None;
    }

    /// Takes out the oldest request; called until none is left when the link ends.
    pub fn pop(&mut self) -> Option<Request> {
        let (sequence, _) = self.requests.from(Sequence::FIRST).next()?;
        self.take(sequence).ok()
    }

    /// When to call [`Self::expire`]: at the first deadline, or before it when the request that it
    /// belonged to has ended.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let ordered = self.ordered.peek().map(|Reverse((deadline, _))| *deadline);
        ordered.into_iter().chain(self.unordered_first).min()
    }

    /// How many requests wait.
    pub const fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::ORIGIN.after(Duration::from_secs(seconds))
    }

    fn request(id: u64, seconds: u64) -> Request {
        Request {
            id: SubmitId::new(id),
            correlation: Correlation::new(id + 1000).unwrap(),
            kind: MeshOperationKind::NodeRequest,
            deadline: at(seconds),
        }
    }

    /// TR-40
    #[test]
    fn sequences_count_from_one() {
        let mut pending = Pending::new(8);
        assert_eq!(pending.insert(request(1, 9)).unwrap().get(), 1);
        assert_eq!(pending.insert(request(2, 9)).unwrap().get(), 2);
    }

    /// TR-41
    #[test]
    fn the_first_reply_ends_a_request_and_a_second_one_finds_nothing() {
        let mut pending = Pending::new(8);
        let sequence = pending.insert(request(1, 9)).unwrap();
        assert_eq!(pending.take(sequence), Ok(request(1, 9)));
        assert_eq!(pending.take(sequence), Err(Unmatched::Finished));
        assert_eq!(pending.take(sequence.next()), Err(Unmatched::NeverIssued));
        assert_eq!(pending.next_deadline(), None);
    }

    /// EX-270, TR-41, TR-90
    #[test]
    fn each_request_leaves_exactly_once_by_whatever_comes_first() {
        let mut pending = Pending::new(8);
        for id in 1..=4 {
            pending.insert(request(id, 10 + id)).unwrap();
        }
        assert_eq!(pending.cancel(SubmitId::new(2)), Some(request(2, 12)));
        assert_eq!(pending.cancel(SubmitId::new(2)), None);
        assert_eq!(pending.expire(at(10)), None);
        assert_eq!(pending.expire(at(20)), Some(request(1, 11)));
        assert_eq!(pending.expire(at(20)), Some(request(3, 13)));
        assert_eq!(pending.pop(), Some(request(4, 14)));
        assert_eq!(pending.pop(), None);
        assert!(pending.is_empty());
    }

    /// TR-90
    #[test]
    fn the_table_has_a_bound_and_one_entry_for_an_id() {
        let mut pending = Pending::new(1);
        pending.insert(request(1, 9)).unwrap();
        assert_eq!(pending.insert(request(1, 9)), Err(NotTaken::IdInUse));
        assert_eq!(
            pending.insert(request(2, 9)),
            Err(NotTaken::Full { max: 1 })
        );
        assert_eq!(pending.len(), 1);
    }

    /// TR-41, TR-90: every request ends at its deadline, whatever the order of the deadlines and
    /// whatever ended before; none ends early.
    #[test]
    fn deadlines_in_any_order_end_their_requests_in_time() {
        let mut pending = Pending::new(100_000);
        let mut model = BTreeMap::new();
        let mut random = 3_u64;
        for now in 0..3000_u64 {
            for _ in 0..20 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let seconds = now + 1 + (random >> 40) % 500;
                let sequence = pending.next_sequence();
                // Some ids are the number of their sequence, some are not.
                let id = sequence.get() + (random >> 63) * 1_000_000;
                pending.insert(request(id, seconds)).unwrap();
                model.insert(sequence, seconds);
            }
            for _ in 0..10 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = 1 + (random >> 33) % pending.next_sequence().get();
                let sequence = Sequence::new(at).unwrap();
                assert_eq!(
                    pending.take(sequence).is_ok(),
                    model.remove(&sequence).is_some()
                );
            }
            let next = pending.next_deadline();
            assert!(next.is_none_or(|next| model.values().all(|it| at(*it) >= next)));
            while let Some(expired) = pending.expire(at(now)) {
                let due = at(now);
                assert!(expired.deadline <= due);
            }
            model.retain(|_, seconds| *seconds > now);
            assert_eq!(pending.len(), model.len());
            assert!(pending.ordered.len() <= 2 * pending.len() + STALE_MAX + 20);
        }
    }
}
