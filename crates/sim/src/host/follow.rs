//! Message Follow at a host: what still comes to the old address goes on to the new owner (RL-150 to RL-153).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use spotlane_relocation::identity::AuthorityView;
use spotlane_types::id::RelocationId;
use spotlane_wire::frozen::FrozenRecord;

use super::Host;
use super::inbound::actor_of;
use crate::agenda::Packet;
use crate::cast::{address_of, message_of};
use crate::mutant::Mutant;
use crate::observation::{ActorIndex, Answer, Loss, MessageId, Observation};
use crate::shared::{Shared, Submit};

/// RL-152
const HOPS_MAX: u8 = 8;

#[derive(Debug)]
struct FollowRoute {
    relocation: RelocationId,
    row: AuthorityView,
    until: Duration,
}

/// One committed route for each object (RL-151).
#[derive(Debug, Default)]
pub(super) struct FollowRoutes {
    routes: BTreeMap<ActorIndex, FollowRoute>,
    /// How often a message was forwarded before it came here.
    hops: BTreeMap<MessageId, u8>,
}

/// What a route says of a message.
enum Way {
    To(AuthorityView),
    Refused(Answer),
}

impl FollowRoutes {
    pub(super) fn add(
        &mut self,
        actor: ActorIndex,
        relocation: RelocationId,
        row: AuthorityView,
        until: Duration,
    ) {
        let route = FollowRoute {
            relocation,
            row,
            until,
        };
        self.routes.insert(actor, route);
    }

    /// Removes the route of a move; that of a later move stays.
    pub(super) fn remove(&mut self, relocation: RelocationId) {
        self.routes.retain(|_, route| route.relocation != relocation);
    }

    pub(super) fn remember_hops(&mut self, message: MessageId, hops: u8) {
        if hops > 0 {
            self.hops.insert(message, hops);
        }
    }

    fn hops(&mut self, message: MessageId) -> u8 {
        self.hops.remove(&message).unwrap_or(0)
    }

    /// RL-152, RL-153
    fn way(&self, actor: ActorIndex, record: &FrozenRecord, hops: u8, now: Duration) -> Way {
        let (Some(route), Some(address)) = (self.routes.get(&actor), address_of(record)) else {
            return Way::Refused(Answer::Unavailable);
        };
        if address.actor.object_generation != route.row.object_generation {
            return Way::Refused(Answer::InvalidOperation);
        }
        let rising = route
            .row
            .authority_owner_generation
            .is_after(address.expected_authority_owner_generation);
        if !rising || hops >= HOPS_MAX || route.until <= now {
            return Way::Refused(Answer::Unavailable);
        }
        Way::To(route.row.clone())
    }

    /// Nothing here is due by time: the machines remove routes.
    #[expect(clippy::unused_self, reason = "asked like the other parts of a host")]
    pub(super) const fn next_at(&self) -> Option<Duration> {
        None
    }

    pub(super) fn residents(&self) -> Vec<String> {
        let routes = self.routes.iter();
        routes
            .map(|(actor, route)| format!("the follow route of {actor:?} for {}", route.relocation))
            .collect()
    }
}

impl Host {
    /// Sends a message on to the owner that the committed row names.
    pub(super) fn forward(
        &mut self,
        record: Box<FrozenRecord>,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(message) = message_of(&record) else {
            return Ok(());
        };
        let actor = actor_of(&record, shared)?;
        let hops = self.follow.hops(message);
        let row = match self.follow.way(actor, &record, hops, shared.now()) {
            Way::To(row) => row,
            Way::Refused(answer) => {
                self.refuse_with(&record, Loss::Refused, answer, shared);
                return Ok(());
            }
        };
        let to = shared.cast.host_of(&row.owner.node_rid).unwrap_or(self.index);
        shared.see(Observation::Forwarded {
            message,
            at: self.index,
            to,
        });
        if to == self.index {
            // It has come back meanwhile.
            return self.arrive(record, hops, shared);
        }
        let packet = Packet::Message {
            record: record.clone(),
            hops: hops + 1,
        };
        let link = self.links.get(&to).copied();
        if shared.has(Mutant::ForwardTwice) {
            let (Submit::Taken(_) | Submit::Failed) =
                shared.send(self.index, to, link, packet.clone());
        }
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            self.refuse(&record, Loss::Refused, shared);
        }
        Ok(())
    }

    /// Nothing is due by time here.
    #[expect(clippy::unused_self, reason = "asked like the other parts of a host")]
    pub(super) const fn wake_follow(&self, _shared: &Shared) {}

    /// A notice about a route (command 50).
    #[expect(clippy::unused_self, reason = "asked like the other parts of a host")]
    pub(super) fn notice(&self, _frames: &[Bytes]) -> Result<()> {
        Ok(())
    }
}
