//! Connections by number: what ties a message to one move besides its identity (RL-5, TR-92).

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spotlane_mesh::PeerLink;
use spotlane_relocation::identity::ConnectionId;
use spotlane_types::id::NodeRid;

/// A connection, as far as its number goes.
pub(super) trait Connection: Clone + PartialEq {
    fn peer(&self) -> &NodeRid;
}

impl Connection for PeerLink {
    fn peer(&self) -> &NodeRid {
        self.peer()
    }
}

/// The connections that are there, each with a number that is never used again.
#[derive(Debug)]
pub(super) struct Links<L = PeerLink> {
    /// A leaf lock.
    state: Mutex<State<L>>,
}

impl<L> Default for Links<L> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                last: 0,
                links: Vec::new(),
            }),
        }
    }
}

/// A peer has one connection in use, and may have one whose loss was not told yet or whose last record came after it.
const LINKS_PER_PEER: usize = 2;

#[derive(Debug)]
struct State<L> {
    last: u64,
    /// A few for each peer; few enough to look through.
    links: Vec<(ConnectionId, L)>,
}

impl<L: Connection> State<L> {
    fn find(&self, link: &L) -> Option<ConnectionId> {
        let known = self.links.iter().find(|(_, known)| known == link);
        known.map(|(id, _)| *id)
    }

    fn add(&mut self, link: &L) -> ConnectionId {
        let of_peer = |(_, known): &(_, L)| known.peer() == link.peer();
        if self.links.iter().filter(|known| of_peer(known)).count() >= LINKS_PER_PEER {
            // The oldest is over: nobody will say so again.
            let oldest = self.links.iter().position(|known| of_peer(known));
            oldest.map(|at| self.links.remove(at));
        }
        self.last = self.last.saturating_add(1);
        let id = ConnectionId::new(NonZeroU64::new(self.last).unwrap_or(NonZeroU64::MIN));
        self.links.push((id, link.clone()));
        id
    }
}

impl<L: Connection> Links<L> {
    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a connection; a new one when it is met for the first time.
    pub(super) fn id(&self, link: &L) -> ConnectionId {
        let mut state = self.lock();
        if let Some(id) = state.find(link) {
            return id;
        }
        state.add(link)
    }

    /// The number of a connection that was not met before; `None` when somebody uses it already.
    pub(super) fn meet(&self, link: &L) -> Option<ConnectionId> {
        let mut state = self.lock();
        match state.find(link) {
            Some(_) => None,
            None => Some(state.add(link)),
        }
    }

    pub(super) fn link(&self, id: ConnectionId) -> Option<L> {
        let state = self.lock();
        let found = state.links.iter().find(|(known, _)| *known == id);
        found.map(|(_, link)| link.clone())
    }

    /// The connection is over.
    pub(super) fn forget(&self, link: &L) -> Option<ConnectionId> {
        let mut state = self.lock();
        let at = state.links.iter().position(|(_, known)| known == link)?;
        Some(state.links.remove(at).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Fake(NodeRid, u32);

    impl Connection for Fake {
        fn peer(&self) -> &NodeRid {
            &self.0
        }
    }

    /// TR-92: a record that comes after the loss of its connection gets a number, which does not stay for ever.
    #[test]
    fn late_records_of_lost_connections_leave_nothing_behind() {
        let links = Links::default();
        let rid = |text: &str| NodeRid::new(text.as_bytes()).unwrap();
        let other = links.id(&Fake(rid("other"), 0));
        let mut numbers = Vec::new();
        for run in 0..100 {
            let link = Fake(rid("peer"), run);
            numbers.push(links.meet(&link).unwrap());
            assert_eq!(links.id(&link), *numbers.last().unwrap());
            assert_eq!(links.forget(&link), numbers.last().copied());
            // Too late; it is never forgotten by name.
            numbers.push(links.id(&link));
        }
        assert!(links.lock().links.len() <= 1 + LINKS_PER_PEER);
        assert_eq!(links.link(other), Some(Fake(rid("other"), 0)));
        let numbers: std::collections::HashSet<_> = numbers.into_iter().collect();
        assert_eq!(numbers.len(), 200);
        // The connection in use stays known while late records of the one before it come.
        let (now, before) = (Fake(rid("peer"), 100), Fake(rid("peer"), 99));
        let number = links.id(&now);
        links.id(&before);
        assert_eq!(links.id(&now), number);
    }
}
