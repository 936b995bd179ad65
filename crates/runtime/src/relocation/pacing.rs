//! Who may put a chunk on its way: the budget of the host, shared by all units that leave (RL-131, RL-194).
//!
//! The pure [`Budget`] decides; here are the lock around it, the units that wait, and the charges.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_relocation::budget::{Budget, Grant, UnitId};
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::settings::RelocationSettings;

/// Takes what the budget grants to one unit.
pub(super) trait Granted: Send + Sync {
    /// The unit may start.
    fn start(&self);
    /// The unit may submit its next chunk, which is charged already.
    fn chunk(&self, charge: Charge);
}

/// The budget of a host.
pub(super) struct Pacing {
    /// Nothing is dropped, pushed or awaited under it.
    state: Mutex<State>,
}

struct State {
    budget: Budget,
    last: u64,
    /// Who waits; one wish for each unit, as the machine has it.
    wishes: BTreeMap<UnitId, Wish>,
}

struct Wish {
    unit: Arc<dyn Granted>,
    connection: ConnectionId,
    bytes: u64,
}

/// A chunk that is charged: from its grant until this is dropped, once.
///
/// A grant that leads to no chunk goes back the same way, wherever it is dropped.
#[must_use]
pub(super) struct Charge {
    pacing: Arc<Pacing>,
    connection: ConnectionId,
    bytes: u64,
}

impl Charge {
    /// The connection that it counts against.
    pub(super) const fn connection(&self) -> ConnectionId {
        self.connection
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let (connection, bytes) = (self.connection, self.bytes);
        self.pacing
            .act(|budget, grants| budget.released(connection, bytes, grants));
    }
}

impl Pacing {
    pub(super) fn new(settings: &RelocationSettings) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                budget: Budget::new(settings),
                last: 0,
                wishes: BTreeMap::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that no other unit has.
    pub(super) fn unit(&self) -> UnitId {
        let mut state = self.lock();
        state.last = state.last.saturating_add(1);
        UnitId::new(state.last)
    }

    /// A unit wants to start, which needs room for something (RL-125).
    pub(super) fn want_start(
        self: &Arc<Self>,
        id: UnitId,
        unit: Arc<dyn Granted>,
        to: ConnectionId,
    ) {
        self.wish(id, unit, to, 0);
        self.act(|budget, grants| budget.want_start(id, to, grants));
    }

    /// A unit wants to submit a chunk with this charge.
    pub(super) fn want_chunk(
        self: &Arc<Self>,
        id: UnitId,
        unit: Arc<dyn Granted>,
        to: ConnectionId,
        bytes: u64,
    ) {
        self.wish(id, unit, to, bytes);
        self.act(|budget, grants| budget.want_chunk(id, to, bytes, grants));
    }

    fn wish(&self, id: UnitId, unit: Arc<dyn Granted>, connection: ConnectionId, bytes: u64) {
        let wish = Wish {
            unit,
            connection,
            bytes,
        };
        let old = self.lock().wishes.insert(id, wish);
        drop(old);
    }

    /// A connection ended: what was in flight there is not any more, and nobody waits for it.
    pub(super) fn connection_lost(self: &Arc<Self>, lost: ConnectionId) {
        self.act(|budget, grants| budget.connection_lost(lost, grants));
    }

    /// A unit waits for nothing any more.
    pub(super) fn unit_ended(self: &Arc<Self>, id: UnitId) {
        let wish = self.lock().wishes.remove(&id);
        drop(wish);
        self.act(|budget, grants| budget.unit_ended(id, grants));
    }

    /// The bytes that are charged now, over all connections.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> u64 {
        self.lock().budget.in_flight()
    }

    /// One step of the budget; what it grants is handed out when the lock is free again.
    fn act(self: &Arc<Self>, step: impl FnOnce(&mut Budget, &mut Vec<Grant>)) {
        let mut grants = Vec::new();
        let mut state = self.lock();
        step(&mut state.budget, &mut grants);
        let granted: Vec<_> = grants
            .into_iter()
            .map(|grant| {
                let (Grant::Start(id) | Grant::Chunk(id)) = grant;
                (grant, state.wishes.remove(&id))
            })
            .collect();
        drop(state);
        for (grant, wish) in granted {
            let Some(wish) = wish else {
                debug_assert!(false, "a grant without a wish");
                continue;
            };
            match grant {
                Grant::Start(_) => wish.unit.start(),
                Grant::Chunk(_) => wish.unit.chunk(Charge {
                    pacing: Arc::clone(self),
                    connection: wish.connection,
                    bytes: wish.bytes,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
