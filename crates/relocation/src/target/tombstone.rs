//! Identities that are over, as long as something of them may still come (RL-353, RL-362).

use spotlane_types::kind::FailureCode;
use spotlane_types::time::Monotonic;

use super::span::{Late, Released};
use crate::identity::{ConnectionId, RelocationIdentity};

/// What a terminal identity still answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epitaph {
    /// Command 53 was sent: a command 40 gets the same one again.
    Failed(FailureCode),
    /// The ready reply was sent, but this node did not become owner.
    Removed,
    /// This node became owner, and the object has moved on.
    MovedOn,
}

/// One terminal identity.
#[derive(Debug)]
struct Tombstone {
    identity: RelocationIdentity,
    epitaph: Epitaph,
    until: Monotonic,
    /// Connections that are older than the end and still open; none for an object that has moved on.
    open: Vec<ConnectionId>,
    /// What is known of the records of a move that this node completed: its batch may come again (RL-109).
    late: Option<Late>,
}

impl Tombstone {
    /// Whether records wait for a cutover here.
    fn waits(&self) -> bool {
        self.late
            .as_ref()
            .is_some_and(|late| late.staged_until().is_some())
    }
}

/// The terminal identities of one object. What bounds them is their time, and the connection for moves that failed here
/// (RL-353).
#[derive(Debug, Default)]
pub(super) struct Tombstones(Vec<Tombstone>);

impl Tombstones {
    pub(super) fn bury(
        &mut self,
        identity: RelocationIdentity,
        epitaph: Epitaph,
        until: Monotonic,
        open: Vec<ConnectionId>,
    ) {
        self.0.retain(|one| one.identity != identity);
        self.0.push(Tombstone {
            identity,
            epitaph,
            until,
            open,
            late: None,
        });
    }

    /// Keeps what is known of the records of an object that has moved on.
    pub(super) fn remember(&mut self, identity: &RelocationIdentity, late: Late) {
        if let Some(one) = self.0.iter_mut().find(|one| one.identity == *identity) {
            one.late = Some(late);
        }
    }

    /// What is known of the records of this identity, if its object was here and has moved on.
    pub(super) fn moved_on(&mut self, identity: &RelocationIdentity) -> Option<&mut Late> {
        let one = self.0.iter_mut().find(|one| one.identity == *identity)?;
        one.late.as_mut()
    }

    pub(super) fn find(&self, identity: &RelocationIdentity) -> Option<Epitaph> {
        let found = self.0.iter().find(|one| one.identity == *identity);
        found.map(|one| one.epitaph)
    }

    /// Something of this connection can come no more.
    pub(super) fn connection_lost(&mut self, lost: ConnectionId) {
        for one in &mut self.0 {
            one.open.retain(|open| *open != lost);
        }
    }

    /// Forgets what has had its time and whose connections have closed, and gives back the records whose wait for a
    /// cutover is over.
    pub(super) fn on_deadline(&mut self, now: Monotonic) -> Released {
        let mut released = Released::default();
        for late in self.0.iter_mut().filter_map(|one| one.late.as_mut()) {
            released.add(late.on_deadline(now));
        }
        self.0
            .retain(|one| one.until > now || !one.open.is_empty() || one.waits());
        released
    }

    /// The next time at which something can be forgotten or given back.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let closed = self.0.iter().filter(|one| one.open.is_empty());
        let late = self.0.iter().filter_map(|one| one.late.as_ref());
        let waits = late.filter_map(Late::staged_until);
        closed.map(|one| one.until).chain(waits).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
