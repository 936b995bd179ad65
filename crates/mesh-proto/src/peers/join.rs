//! Two accepted connections become a pair (TR-24).

use std::collections::BTreeMap;

use spotlane_types::id::NodeRid;
use thiserror::Error;

use crate::bound::CONNECTIONS_MAX;
use crate::zmp::{Lane, PairKey, PeerReady};

/// Names one accepted connection for its driver; never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Takes a number that no open connection of the node has.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What becomes of a connection that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-24")]
pub enum Join {
    /// It is the first one of its pair; a link starts with it.
    First,
    /// It completes the pair of this connection; it goes to that one's link.
    Sister(ConnectionId),
    /// It cannot be joined: close these, itself included.
    Refused {
        /// Why.
        why: RefusedJoin,
        /// What to close.
        close: Vec<ConnectionId>,
    },
}

/// Why a connection is not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RefusedJoin {
    /// The two connections of a pair name different identities.
    #[error("the lanes of a pair name different identities")]
    OtherIdentity,
    /// The lane has a connection already.
    #[error("the lane is taken")]
    LaneTaken,
    /// There are too many connections.
    #[error("too many connections")]
    Full,
}

/// The accepted connections of a node, by pair and generation.
///
/// E2 names no pairs: there a connection joins the one of the same identity that waits for a sister.
#[derive(Debug)]
pub struct Joins {
    pairs: BTreeMap<Key, Pair>,
    keys: BTreeMap<ConnectionId, Key>,
    max: usize,
}

/// What joins two connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Named(PairKey),
    /// E2, while one lane waits for the other.
    Waiting(NodeRid),
    /// E2, by its second connection.
    Complete(ConnectionId),
}

#[derive(Debug)]
struct Pair {
    peer: NodeRid,
    lanes: Vec<(Lane, ConnectionId)>,
}

impl Default for Joins {
    fn default() -> Self {
        Self::new(CONNECTIONS_MAX)
    }
}

impl Joins {
    /// Nothing is connected; at most `max` connections will be.
    pub const fn new(max: usize) -> Self {
        Self {
            pairs: BTreeMap::new(),
            keys: BTreeMap::new(),
            max,
        }
    }

    /// Takes a connection whose handshake is done.
    pub fn on_ready(&mut self, id: ConnectionId, ready: &PeerReady) -> Join {
        if self.keys.len() >= self.max {
            return Join::Refused {
                why: RefusedJoin::Full,
                close: vec![id],
            };
        }
        let key = match ready.key {
            Some(key) => Key::Named(key),
            None => Key::Waiting(ready.id.clone()),
        };
        let Some(pair) = self.pairs.get_mut(&key) else {
            let pair = Pair {
                peer: ready.id.clone(),
                lanes: vec![(ready.lane, id)],
            };
            self.pairs.insert(key.clone(), pair);
            self.keys.insert(id, key);
            return Join::First;
        };
        let taken = pair.lanes.iter().any(|(lane, _)| *lane == ready.lane);
        let why = if pair.peer != ready.id {
            Some(RefusedJoin::OtherIdentity)
        } else if taken {
            Some(RefusedJoin::LaneTaken)
        } else {
            None
        };
        if let Some(why) = why {
            let mut close: Vec<_> = pair.lanes.iter().map(|(_, other)| *other).collect();
            for other in &close {
                self.keys.remove(other);
            }
            self.pairs.remove(&key);
            close.push(id);
            return Join::Refused { why, close };
        }
        let first = pair.lanes.first().map(|(_, first)| *first);
        pair.lanes.push((ready.lane, id));
        self.keys.insert(id, key.clone());
        if let Key::Waiting(_) = key {
            self.complete(&key, id);
        }
        first.map_or(Join::First, Join::Sister)
    }

    /// A pair of E2 is complete: the next connection of its peer belongs to another one.
    fn complete(&mut self, waiting: &Key, second: ConnectionId) {
        let Some(pair) = self.pairs.remove(waiting) else {
            return;
        };
        for (_, id) in &pair.lanes {
            self.keys.insert(*id, Key::Complete(second));
        }
        self.pairs.insert(Key::Complete(second), pair);
    }

    /// Forgets a connection that is closed. Unknown ids change nothing.
    pub fn on_closed(&mut self, id: ConnectionId) {
        let Some(key) = self.keys.remove(&id) else {
            return;
        };
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.lanes.retain(|(_, other)| *other != id);
            if pair.lanes.is_empty() {
                self.pairs.remove(&key);
            }
        }
    }

    /// How many connections are known.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use super::*;
    use crate::sample::{ready, rid};
    use crate::zmp::{Generation, PairId};

    fn key(pair: u64, generation: u64) -> PairKey {
        PairKey {
            pair: PairId::new(NonZeroU64::new(pair).unwrap()),
            generation: Generation::new(NonZeroU64::new(generation).unwrap()),
        }
    }

    const ONE: ConnectionId = ConnectionId::new(1);
    const TWO: ConnectionId = ConnectionId::new(2);
    const THREE: ConnectionId = ConnectionId::new(3);

    /// TR-22, TR-24, TR-59
    #[test]
    fn lanes_join_by_pair_and_generation_in_any_order() {
        let mut joins = Joins::default();
        let completion = ready(rid("a"), key(7, 9), Lane::Completion);
        assert_eq!(joins.on_ready(ONE, &completion), Join::First);
        let next = ready(rid("a"), key(7, 10), Lane::Application);
        assert_eq!(joins.on_ready(THREE, &next), Join::First);
        let sister = ready(rid("a"), key(7, 9), Lane::Application);
        assert_eq!(joins.on_ready(TWO, &sister), Join::Sister(ONE));
        for id in [ONE, TWO, THREE, THREE] {
            joins.on_closed(id);
        }
        assert!(joins.is_empty() && joins.pairs.is_empty());
    }

    /// TR-24
    #[test]
    fn another_identity_closes_both_and_a_taken_lane_closes_all_three() {
        let mut joins = Joins::default();
        let application = ready(rid("a"), key(7, 1), Lane::Application);
        let completion = ready(rid("a"), key(7, 1), Lane::Completion);
        joins.on_ready(ONE, &application);
        let foreign = ready(rid("x"), key(7, 1), Lane::Completion);
        let refused = Join::Refused {
            why: RefusedJoin::OtherIdentity,
            close: vec![ONE, TWO],
        };
        assert_eq!(joins.on_ready(TWO, &foreign), refused);
        assert!(joins.is_empty());

        joins.on_ready(ONE, &application);
        joins.on_ready(TWO, &completion);
        let refused = Join::Refused {
            why: RefusedJoin::LaneTaken,
            close: vec![ONE, TWO, THREE],
        };
        assert_eq!(joins.on_ready(THREE, &completion), refused);
        assert!(joins.is_empty() && joins.pairs.is_empty());
    }

    fn unnamed(lane: Lane) -> PeerReady {
        PeerReady {
            key: None,
            ..ready(rid("a"), key(1, 1), lane)
        }
    }

    /// TR-24: without names, lanes of one identity join as they come, and a pair is complete with two.
    #[test]
    fn lanes_of_the_second_edition_join_by_identity() {
        let mut joins = Joins::default();
        let (application, completion) = (unnamed(Lane::Application), unnamed(Lane::Completion));
        assert_eq!(joins.on_ready(ONE, &completion), Join::First);
        let mut other = completion.clone();
        other.id = rid("x");
        assert_eq!(joins.on_ready(THREE, &other), Join::First);
        assert_eq!(joins.on_ready(TWO, &application), Join::Sister(ONE));
        let [four, five] = [4, 5].map(ConnectionId::new);
        assert_eq!(joins.on_ready(four, &application), Join::First);
        assert_eq!(joins.on_ready(five, &completion), Join::Sister(four));
        for id in [ONE, TWO, THREE, four, five] {
            joins.on_closed(id);
        }
        assert!(joins.is_empty() && joins.pairs.is_empty());
    }

    /// TR-24
    #[test]
    fn a_taken_lane_of_the_second_edition_closes_the_one_that_waits() {
        let mut joins = Joins::default();
        joins.on_ready(ONE, &unnamed(Lane::Application));
        let refused = Join::Refused {
            why: RefusedJoin::LaneTaken,
            close: vec![ONE, TWO],
        };
        assert_eq!(joins.on_ready(TWO, &unnamed(Lane::Application)), refused);
        assert!(joins.is_empty() && joins.pairs.is_empty());
        joins.on_ready(ONE, &unnamed(Lane::Application));
        joins.on_closed(ONE);
        assert_eq!(joins.on_ready(TWO, &unnamed(Lane::Completion)), Join::First);
    }

    /// TR-24
    #[test]
    fn connections_are_bounded() {
        let mut joins = Joins::new(1);
        joins.on_ready(ONE, &ready(rid("a"), key(1, 1), Lane::Application));
        let refused = joins.on_ready(TWO, &ready(rid("a"), key(2, 1), Lane::Application));
        assert!(
            matches!(refused, Join::Refused { why: RefusedJoin::Full, close } if close == [TWO])
        );
    }
}
