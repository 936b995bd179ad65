//! Message Follow at a host: what still comes to the old address goes on to the new owner (RL-150 to RL-163).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use spotlane_location::cache::Tenure;
use spotlane_relocation::follow::{FollowRefusal, FollowRegistry, Hop, RetainedRoute, route_to};
use spotlane_relocation::identity::AuthorityView;
use spotlane_relocation::notice::{Begin, NoticeJudgment, Queued, judge, notice};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::HopCount;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::{MeshOperationKind, TerminalResult};
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::follow::FollowRoute;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};

use super::Host;
use super::target::frames;
use crate::agenda::Packet;
use crate::cast::{address_of, message_of};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{Answer, Loss, MessageId, Observation};
use crate::shared::{Shared, Submit, monotonic, since_origin};

/// The follow routes of a host, and what belongs to them.
#[derive(Debug, Default)]
pub(super) struct Following {
    registry: FollowRegistry,
    /// How often a message was forwarded before it came here.
    hops: BTreeMap<MessageId, u8>,
    /// Whether routes are kept beyond their time: a mutant.
    keeps: bool,
    /// Notices that leave late.
    notices: Vec<(Duration, HostIndex, Vec<Bytes>)>,
}

impl Following {
    /// The next hop of a route, if it is live (SB-24).
    pub(super) fn hop(
        &mut self,
        now: Monotonic,
        addressed: &FollowRoute,
        hops: HopCount,
    ) -> Option<Hop> {
        self.registry.hop(now, addressed, hops).ok()
    }

    pub(super) fn remember_hops(&mut self, message: MessageId, hops: u8) {
        if hops > 0 {
            self.hops.insert(message, hops);
        }
    }

    /// When a route ends or a late notice leaves.
    pub(super) fn next_at(&self) -> Option<Duration> {
        let routes = self.registry.next_deadline().filter(|_| !self.keeps);
        let routes = routes.map(since_origin);
        let notices = self.notices.iter().map(|(at, _, _)| *at).min();
        [routes, notices].into_iter().flatten().min()
    }

    pub(super) fn residents(&self) -> Vec<String> {
        let routes = self.registry.len();
        let left = (routes > 0).then(|| format!("{routes} follow routes"));
        left.into_iter().collect()
    }
}

/// A tenure as routes of Message Follow name it.
pub(super) fn route_of(tenure: &Tenure) -> Option<FollowRoute> {
    let AuthorityKey::Actor(actor_id) = &tenure.object else {
        return None;
    };
    Some(FollowRoute::Actor {
        actor: ActorRouteFence {
            actor: ActorRef {
                actor_id: actor_id.clone(),
                object_generation: tenure.object_generation,
            },
            target_node_rid: tenure.node_rid.clone(),
            target_node_generation: tenure.node_generation,
            expected_authority_owner_generation: tenure.authority_owner_generation,
            expected_owner_lease_generation: tenure.owner_lease_generation,
        },
    })
}

/// The owner that a route leads to.
fn fence_of(route: &FollowRoute) -> Option<&ActorRouteFence> {
    match route {
        FollowRoute::Actor { actor } => Some(actor),
        FollowRoute::Spot { .. } => None,
    }
}

/// The same message with another address (RL-151 lists what stays).
fn readdressed(mut record: Box<FrozenRecord>, to: &ActorRouteFence) -> Box<FrozenRecord> {
    match &mut record.body {
        FrozenRecordBody::ActorSend { target_actor, .. }
        | FrozenRecordBody::ActorRequest { target_actor, .. } => *target_actor = to.clone(),
        _ => {}
    }
    record
}

impl Host {
    /// The commit of a move was seen: its route is kept.
    pub(super) fn follow_to(
        &mut self,
        relocation: RelocationId,
        row: &AuthorityView,
        until: Monotonic,
    ) -> Result<()> {
        let unit = self
            .sources
            .get(&relocation)
            .context("a move of this host")?;
        let tenure = unit.tenure.as_ref().and_then(route_of);
        let source = tenure.context("the tenure that a move ended")?;
        let target = route_to(&source, row);
        self.following.registry.retain(RetainedRoute {
            source,
            target,
            until,
        });
        Ok(())
    }

    /// A route has ended. Routes end by their own time, so that the end of an earlier move does not take the route of
    /// a later one away.
    pub(super) fn expire_follow(&mut self, shared: &Shared) {
        if shared.has(Mutant::KeepFollow) {
            self.following.keeps = true;
        } else {
            self.following.registry.expire(monotonic(shared.now()));
        }
    }

    /// The object has come back: nothing here leads away from it any more.
    pub(super) fn follow_no_more(&mut self, object: &AuthorityKey) {
        self.following.registry.remove(object);
    }

    /// Sends a message on to the owner that the committed row names.
    pub(super) fn forward(&mut self, record: Box<FrozenRecord>, shared: &mut Shared) -> Result<()> {
        let (Some(message), Some(address)) = (message_of(&record), address_of(&record)) else {
            return Ok(());
        };
        let hops = self.following.hops.remove(&message).unwrap_or(0);
        let addressed = FollowRoute::Actor {
            actor: address.clone(),
        };
        let now = monotonic(shared.now());
        let hop = self
            .following
            .registry
            .hop(now, &addressed, HopCount::new(hops)?);
        match hop {
            Ok(hop) => self.take_hop(record, message, &hop, shared),
            Err(refusal) => {
                self.refuse_with(&record, Loss::Refused, answer_of(refusal), shared);
                Ok(())
            }
        }
    }

    fn take_hop(
        &mut self,
        record: Box<FrozenRecord>,
        message: MessageId,
        hop: &Hop,
        shared: &mut Shared,
    ) -> Result<()> {
        let fence = fence_of(&hop.target).context("a route to an Actor")?;
        let to = shared
            .cast
            .host_of(&fence.target_node_rid)
            .unwrap_or(self.index);
        shared.see(Observation::Forwarded {
            message,
            at: self.index,
            to,
        });
        let hops = hop.hops.get();
        let record = readdressed(record, fence);
        if to == self.index {
            return self.arrive(record, hops, shared);
        }
        let packet = Packet::Message {
            record: record.clone(),
            hops,
        };
        let link = self.links.get(&to).copied();
        if shared.has(Mutant::ForwardTwice) {
            let (Submit::Taken(_) | Submit::Failed) =
                shared.send(self.index, to, link, packet.clone());
        }
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            self.refuse(&record, Loss::Refused, shared);
            return Ok(());
        }
        self.tell_sender(&record, hop, shared)
    }

    /// RL-160, RL-162: one notice for each route, to whoever took the detour.
    fn tell_sender(&mut self, record: &FrozenRecord, hop: &Hop, shared: &mut Shared) -> Result<()> {
        let (Some(sender), Some(operation)) =
            (shared.cast.sender_of(&record.source), record.operation_id)
        else {
            return Ok(());
        };
        let notices = self.following.registry.notices();
        let begun = notices.begin(&hop.source, &hop.target);
        let claim = match begun {
            Begin::Granted(claim) => claim,
            Begin::Suppressed if !shared.has(Mutant::NoticeEachTime) => return Ok(()),
            Begin::Suppressed => return self.send_notice(record, hop, sender, shared).map(|_| ()),
        };
        let sent = if operation.low() == 0 {
            Submit::Failed
        } else {
            self.send_notice(record, hop, sender, shared)?
        };
        let notices = self.following.registry.notices();
        match sent {
            Submit::Taken(_) => notices.mark_sent(&claim),
            Submit::Failed => notices.abort(&claim),
        };
        Ok(())
    }

    fn send_notice(
        &mut self,
        record: &FrozenRecord,
        hop: &Hop,
        to: HostIndex,
        shared: &mut Shared,
    ) -> Result<Submit> {
        let operation = record.operation_id.context("an operation")?;
        let notice = notice(hop, Queued::default(), operation, record.reply_route);
        let notice = notice.context("a notice about a hop")?;
        let frames = frames(&notice)?;
        let (from, target) = (fence_of(&hop.source), fence_of(&hop.target));
        if let (Some(from), Some(target)) = (from, target) {
            shared.see(Observation::Notice {
                at: self.index,
                to,
                source: from.expected_authority_owner_generation,
                target: target.expected_authority_owner_generation,
            });
        }
        if to == self.index {
            self.notice(&frames)?;
            return Ok(Submit::Taken(shared.now()));
        }
        if shared.random.percent(30) {
            let at = shared.now() + shared.random.micros(1_000, 400_000);
            self.following.notices.push((at, to, frames));
            return Ok(Submit::Taken(at));
        }
        let link = self.links.get(&to).copied();
        Ok(shared.send(self.index, to, link, Packet::Notice { frames }))
    }

    /// Late notices, and routes that are over.
    pub(super) fn wake_follow(&mut self, shared: &mut Shared) {
        let now = shared.now();
        self.expire_follow(shared);
        let notices = std::mem::take(&mut self.following.notices);
        for (at, to, frames) in notices {
            if at > now {
                self.following.notices.push((at, to, frames));
                continue;
            }
            let link = self.links.get(&to).copied();
            // Best effort (RL-160): a lost notice prolongs the detour and nothing else.
            let (Submit::Taken(_) | Submit::Failed) =
                shared.send(self.index, to, link, Packet::Notice { frames });
        }
    }

    /// A notice about a route (command 50): compare and remove (RL-161).
    pub(super) fn notice(&mut self, frames: &[Bytes]) -> Result<()> {
        let record = Record::decode(frames, MeshOperationKind::None);
        let Record::MessageFollow(follow) = record.context("a notice cannot be decoded")? else {
            anyhow::bail!("a notice is command 50");
        };
        let Some(fence) = fence_of(&follow.route.source) else {
            return Ok(());
        };
        let object = AuthorityKey::Actor(fence.actor.actor_id.clone());
        let now = self.location_now();
        let tenure = self
            .cache
            .get(&object, now)
            .map(|route| route.tenure.clone());
        let cached = tenure.as_ref().and_then(route_of);
        match (judge(&follow.route, cached.as_ref()), tenure) {
            (NoticeJudgment::Remove, Some(tenure)) => {
                self.cache.remove_exact(&tenure);
            }
            (NoticeJudgment::Violation, _) => anyhow::bail!("a notice about two objects"),
            (NoticeJudgment::Remove | NoticeJudgment::Keep, _) => {}
        }
        Ok(())
    }
}

/// RL-153
fn answer_of(refusal: FollowRefusal) -> Answer {
    match refusal.terminal().0 {
        TerminalResult::Conflict => Answer::InvalidOperation,
        _ => Answer::Unavailable,
    }
}
