//! The ordered backlog of a unit that is not open yet (R§4.6, RL-74).

use spotlane_types::count::{ParticipantId, WorkOrder};
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::relocation::{PendingTimerTick, SavedWorkEntry};

use super::commit::OwnerCommitted;

/// One item of a backlog, in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by R§4.6")]
pub enum BacklogItem<M> {
    /// Work that the source had accepted before S0.
    Saved(Box<SavedWorkEntry>),
    /// A tick that was queued before S0.
    Tick(Box<PendingTimerTick>),
    /// A record that the source relayed.
    Relay(Box<FrozenRecord>),
    /// A message that arrived here directly.
    Direct(M),
}

/// What waits for a unit: saved work, then the relay before the boundary, then the rest.
///
/// Nothing limits it, and it holds no job permit (R§5.3, RL-129): its records are owned by the unit until they are merged, and what bounds
/// each message bounds it here too.
///
/// It opens for the proof that the store names this node as owner, and for nothing else:
///
/// ```compile_fail,E0061
/// use spotlane_relocation::target::Backlog;
/// fn open(backlog: Backlog<u32>) {
///     backlog.merge();
/// }
/// ```
///
/// Nobody but the judge of the store's answer makes that proof:
///
/// ```compile_fail,E0423
/// use spotlane_relocation::target::{Backlog, OwnerCommitted};
/// fn open(backlog: Backlog<u32>) {
///     backlog.merge(&OwnerCommitted(()));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog<M> {
    saved: Vec<BacklogItem<M>>,
    relay: Vec<FrozenRecord>,
    rest: Vec<BacklogItem<M>>,
}

impl<M> Default for Backlog<M> {
    fn default() -> Self {
        Self {
            saved: Vec::new(),
            relay: Vec::new(),
            rest: Vec::new(),
        }
    }
}

/// Where an item stands in the order of its participant (WR-42).
type Place = (ParticipantId, WorkOrder);

impl<M> Backlog<M> {
    /// Fixes the saved-work span: records and ticks in the one order of their participants.
    pub(super) fn stage(&mut self, work: Vec<SavedWorkEntry>, ticks: Vec<PendingTimerTick>) {
        let work = work.into_iter().map(|entry| {
            let place: Place = (entry.participant_id, entry.order);
            (place, BacklogItem::Saved(Box::new(entry)))
        });
        let ticks = ticks.into_iter().map(|tick| {
            let place: Place = (tick.participant_id, tick.order);
            (place, BacklogItem::Tick(Box::new(tick)))
        });
        let mut saved: Vec<(Place, BacklogItem<M>)> = work.chain(ticks).collect();
        saved.sort_by_key(|(place, _)| *place);
        self.saved = saved.into_iter().map(|(_, item)| item).collect();
    }

    /// Fixes the relay before the boundary.
    pub(super) fn close_relay(&mut self, records: Vec<FrozenRecord>) {
        self.relay = records;
    }

    /// Takes a message that arrived directly.
    pub(super) fn push_direct(&mut self, message: M) {
        self.rest.push(BacklogItem::Direct(message));
    }

    /// Takes a record that was relayed behind the boundary.
    pub(super) fn push_late(&mut self, record: FrozenRecord) {
        self.rest.push(BacklogItem::Relay(Box::new(record)));
    }

    /// What arrived directly; everything else is dropped.
    pub(super) fn into_direct(self) -> Vec<M> {
        let direct = self.rest.into_iter().filter_map(|item| match item {
            BacklogItem::Direct(message) => Some(message),
            BacklogItem::Saved(_) | BacklogItem::Tick(_) | BacklogItem::Relay(_) => None,
        });
        direct.collect()
    }

    /// All items in their final order; the store has named this node as owner.
    pub fn merge(self, _proof: &OwnerCommitted) -> Vec<BacklogItem<M>> {
        let relay = self.relay.into_iter().map(Box::new).map(BacklogItem::Relay);
        self.saved
            .into_iter()
            .chain(relay)
            .chain(self.rest)
            .collect()
    }
}
