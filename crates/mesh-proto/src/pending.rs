//! The requests of one link that wait for their reply.

use std::collections::{BTreeMap, BTreeSet};

use spotlane_types::count::Correlation;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use thiserror::Error;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-41")]
pub enum Unmatched {
    /// Its request has ended.
    Finished,
    /// No request had it.
    NeverIssued,
}

/// The table. A request leaves it by value, so it cannot end twice (TR-90).
///
/// It belongs to one pair and generation, and a reply of another one finds no table (TR-61).
#[derive(Debug)]
pub struct Pending {
    requests: BTreeMap<Sequence, Request>,
    deadlines: BTreeSet<(Monotonic, Sequence)>,
    ids: BTreeMap<SubmitId, Sequence>,
    next: Sequence,
    max: usize,
}

impl Pending {
    /// An empty table with room for `max` requests.
    pub const fn new(max: usize) -> Self {
        Self {
            requests: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ids: BTreeMap::new(),
            next: Sequence::FIRST,
            max,
        }
    }

    /// Whether [`Self::insert`] would take this request.
    ///
    /// # Errors
    /// The table is full, or the id waits already.
    pub fn check(&self, id: SubmitId) -> Result<(), NotTaken> {
        if self.ids.contains_key(&id) {
            return Err(NotTaken::IdInUse);
        }
        if self.requests.len() >= self.max {
            return Err(NotTaken::Full { max: self.max });
        }
        Ok(())
    }

    /// The sequence of the next request (TR-40).
    pub const fn next_sequence(&self) -> Sequence {
        self.next
    }

    /// Takes a request and gives the sequence that it is sent with.
    ///
    /// # Errors
    /// As [`Self::check`]; nothing has changed.
    pub fn insert(&mut self, request: Request) -> Result<Sequence, NotTaken> {
        self.check(request.id)?;
        let sequence = self.next;
        self.next = sequence.next();
        self.deadlines.insert((request.deadline, sequence));
        self.ids.insert(request.id, sequence);
        self.requests.insert(sequence, request);
        Ok(sequence)
    }

    /// Takes out the request that a reply names.
    ///
    /// # Errors
    /// No request waits for it.
    pub fn take(&mut self, sequence: Sequence) -> Result<Request, Unmatched> {
        let Some(request) = self.requests.remove(&sequence) else {
            return Err(if sequence < self.next {
                Unmatched::Finished
            } else {
                Unmatched::NeverIssued
            });
        };
        self.deadlines.remove(&(request.deadline, sequence));
        self.ids.remove(&request.id);
        Ok(request)
    }

    /// Takes out a request that its caller gives up.
    pub fn cancel(&mut self, id: SubmitId) -> Option<Request> {
        let sequence = *self.ids.get(&id)?;
        self.take(sequence).ok()
    }

    /// Takes out the request whose deadline passed first, if one has passed.
    pub fn expire(&mut self, now: Monotonic) -> Option<Request> {
        let (deadline, sequence) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.take(sequence).ok()
    }

    /// Takes out the oldest request; called until none is left when the link ends.
    pub fn pop(&mut self) -> Option<Request> {
        let (sequence, _) = self.requests.first_key_value()?;
        let sequence = *sequence;
        self.take(sequence).ok()
    }

    /// The first deadline.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
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

    /// TR-41, TR-90
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
}
