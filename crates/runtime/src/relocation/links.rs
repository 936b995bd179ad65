//! Connections by number: what ties a message to one move besides its identity (RL-5, TR-92).

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spotlane_mesh::PeerLink;
use spotlane_relocation::identity::ConnectionId;

/// The connections that are there, each with a number that is never used again.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// A leaf lock.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// As many as there are peers; few enough to look through.
    links: Vec<(ConnectionId, PeerLink)>,
}

impl State {
    fn find(&self, link: &PeerLink) -> Option<ConnectionId> {
        let known = self.links.iter().find(|(_, known)| known == link);
        known.map(|(id, _)| *id)
    }

    fn add(&mut self, link: &PeerLink) -> ConnectionId {
        self.last = self.last.saturating_add(1);
        let id = ConnectionId::new(NonZeroU64::new(self.last).unwrap_or(NonZeroU64::MIN));
        self.links.push((id, link.clone()));
        id
    }
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a connection; a new one when it is met for the first time.
    pub(super) fn id(&self, link: &PeerLink) -> ConnectionId {
        let mut state = self.lock();
        if let Some(id) = state.find(link) {
            return id;
        }
        state.add(link)
    }

    /// The number of a connection that was not met before; `None` when somebody uses it already.
    pub(super) fn meet(&self, link: &PeerLink) -> Option<ConnectionId> {
        let mut state = self.lock();
        match state.find(link) {
            Some(_) => None,
            None => Some(state.add(link)),
        }
    }

    pub(super) fn link(&self, id: ConnectionId) -> Option<PeerLink> {
        let state = self.lock();
        let found = state.links.iter().find(|(known, _)| *known == id);
        found.map(|(_, link)| link.clone())
    }

    /// The connection is over.
    pub(super) fn forget(&self, link: &PeerLink) -> Option<ConnectionId> {
        let mut state = self.lock();
        let at = state.links.iter().position(|(_, known)| known == link)?;
        Some(state.links.swap_remove(at).0)
    }
}
