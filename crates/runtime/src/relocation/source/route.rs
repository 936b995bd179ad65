//! What a source does with messages that come to the old address once the commit was seen (RL-150 to RL-153).

use std::sync::Arc;

use spotlane_relocation::identity::AuthorityView;
use spotlane_types::time::Monotonic;
use spotlane_wire::frozen::FrozenRecord;

use super::super::replies::Place;
use super::super::{follow, freeze};
use super::Driver;
use crate::message::Message;
use crate::slots::Slot;

/// Whether messages at the old address go along a route of this move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    No,
    /// There is a route, and the lane still has what it held: that goes along it first.
    BehindTheHold,
    Yes,
}

impl Driver {
    /// RL-150: from here on messages are forwarded without this driver.
    pub(super) fn follow_to(&mut self, row: &AuthorityView, until: Monotonic) {
        let (core, live) = (&self.core, &self.live);
        let id = live.unit.id();
        core.slots.change(id, |slot| {
            // An object that is here again, in a tenure of its own, needs no route to itself.
            let is_back = matches!(&slot, Some(Slot::Live(found)) if !Arc::ptr_eq(found, live));
            if !is_back && !follow::leads_here(core, row) {
                let moves = &core.moves;
                moves.following.retain(&live.unit.tenure(), row, until);
            }
            (slot, ())
        });
        if self.guard.is_some() {
            self.follows = Follows::BehindTheHold;
        } else {
            self.switch_to_follow();
        }
    }

    /// Takes no message any more; what waits goes on. The switch is one step (EX-212).
    pub(super) fn switch_to_follow(&mut self) {
        self.follows = Follows::Yes;
        let (core, unit, id) = (&self.core, &self.unit, self.live.unit.id());
        let arrived = core.slots.change(id, |slot| {
            let arrived = unit.inbox.close_arrivals();
            match slot {
                Some(Slot::Leaving(found)) if Arc::ptr_eq(&found, unit) => {
                    let follow = core.moves.following.target(id).map(|_| Slot::Follow);
                    (follow, arrived)
                }
                other => (other, arrived),
            }
        });
        for message in arrived {
            self.send_on(message);
        }
    }

    pub(super) fn forward(&self, record: FrozenRecord) {
        let context = self.context();
        if let Some(message) = freeze::thaw(&self.core, &context, Place::Relayed, record) {
            self.send_on(message);
        }
    }

    /// Along the route, if there is one, and else to whatever stands in the object's place.
    pub(super) fn send_on(&self, message: Box<Message>) {
        let id = self.live.unit.id();
        if let Err(message) = follow::forward(&self.core, id, message, None) {
            crate::inbound::redispatch(&self.core, id, message);
        }
    }

    /// Takes what stands here in the object's place away, if it is this move's.
    pub(super) fn remove_slot(&self) {
        let (core, unit, id) = (&self.core, &self.unit, self.live.unit.id());
        let (now, tenure) = (self.now(), self.live.unit.tenure());
        let arrived = core.slots.change(id, |slot| {
            core.moves.following.end(id, &tenure, now);
            let slot = match slot {
                Some(Slot::Leaving(found)) if Arc::ptr_eq(&found, unit) => None,
                // The route of a later move keeps its place.
                Some(Slot::Follow) if core.moves.following.target(id).is_none() => None,
                other => other,
            };
            (slot, unit.inbox.close_arrivals())
        });
        for message in arrived {
            crate::inbound::refuse_stale(message);
        }
    }
}
