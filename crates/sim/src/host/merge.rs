//! The lane of an object that has come here: everything in its order, with dispatch closed (RL-69).

use anyhow::{Context as _, Result};
use spotlane_relocation::target::BacklogItem;
use spotlane_types::id::RelocationId;

use super::Host;
use super::binding::{arrived, tenure_of};
use super::inbound::Arrival;
use super::lane::{Gate, Item, Lane, Tick};
use super::target::route_of;
use crate::mutant::Mutant;
use crate::observation::{ActorIndex, Place, SessionSight};
use crate::shared::Shared;

/// How many of a hundred Actors push from a callback that runs before dispatch opens (RL-350).
const EARLY_PUSHES: u64 = 40;

impl Host {
    /// The lane of the object, closed, with everything in its order.
    pub(super) fn merge(
        &mut self,
        actor: ActorIndex,
        relocation: RelocationId,
        items: Vec<BacklogItem<Arrival>>,
        shared: &mut Shared,
    ) -> Result<()> {
        let unit = self.targets.get_mut(&actor).context("a unit")?;
        let staged = unit.staged.take().context("a restored unit")?;
        let row = unit.row.as_ref().context("the row of a committed unit")?;
        let route = route_of(row, shared);
        unit.queue_registered = false;
        let tenure = tenure_of(&route).context("the tenure of an Actor")?;
        let binding = arrived(tenure, &staged.bindings);
        let identity = binding.identity();
        let mut lane = Lane::new(route, staged.state, staged.timer, binding);
        lane.gate = Gate::Merged;
        // A lane that an earlier move has sealed may still be here, and hold what only that move can send on.
        if let Some(Lane {
            gate: Gate::Sealed(earlier),
            hold,
            ..
        }) = self.lanes.insert(actor, lane)
        {
            self.hand_over(earlier, hold);
        }
        if let Some(binding) = identity.and_then(|identity| shared.cast.binding_of(&identity)) {
            shared.sight(SessionSight::Carried {
                relocation,
                actor,
                at: self.index,
                binding,
            });
        }
        let mut items = items;
        if shared.has(Mutant::MergeBackwards) {
            items.sort_by_key(|item| !matches!(item, BacklogItem::Relay(_)));
        }
        for item in items {
            self.merge_one(actor, item, shared);
        }
        self.follow_no_more(&shared.cast.key(actor)?);
        self.give_up_copy(actor, relocation, shared);
        self.push_sometimes(actor, EARLY_PUSHES, shared)
    }

    fn merge_one(&mut self, actor: ActorIndex, item: BacklogItem<Arrival>, shared: &mut Shared) {
        match item {
            BacklogItem::Saved(entry) => {
                self.accept(&entry.record, Place::Saved, shared);
                self.enqueue(actor, Box::new(entry.record), shared);
            }
            BacklogItem::Tick(tick) => {
                if let Some(lane) = self.lanes.get_mut(&actor) {
                    lane.queue.push_back(Item::Tick(Tick {
                        scheduled: tick.scheduled_index.get(),
                        at_millis: tick.scheduled_at_unix_milliseconds.get(),
                    }));
                }
            }
            BacklogItem::Relay(record) => {
                self.accept(&record, Place::Temporary, shared);
                self.enqueue(actor, record, shared);
            }
            // What came directly was judged by nobody yet.
            BacklogItem::Direct(arrival) => {
                if self.admit(actor, &arrival.record, shared) {
                    self.enqueue(actor, arrival.record, shared);
                }
            }
        }
    }
}
