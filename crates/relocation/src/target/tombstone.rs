//! Identities that are over, as long as something of them may still come (RL-353, RL-362).

use spotlane_types::kind::FailureCode;
use spotlane_types::time::Monotonic;

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
#[derive(Clone, Debug)]
struct Tombstone {
    identity: RelocationIdentity,
    epitaph: Epitaph,
    until: Monotonic,
    /// Connections that are older than the end and still open.
    open: Vec<ConnectionId>,
}

/// The terminal identities of one object. Their number is bounded by their time.
#[derive(Clone, Debug, Default)]
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
        });
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

    /// Forgets what has had its time and whose connections have closed.
    pub(super) fn on_deadline(&mut self, now: Monotonic) {
        self.0.retain(|one| one.until > now || !one.open.is_empty());
    }

    /// The next time at which something can be forgotten.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let closed = self.0.iter().filter(|one| one.open.is_empty());
        closed.map(|one| one.until).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
