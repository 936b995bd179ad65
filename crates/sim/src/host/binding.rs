//! The Actor's half of a binding: who is bound, what is refused, pushes, and the callback when the client is gone.

use anyhow::{Context as _, Result};
use spotlane_relocation::follow::Hop;
use spotlane_relocation::source::{BindingName, SourceEvent};
use spotlane_relocation::target::TargetEvent;
use spotlane_relocation::unit::{Binding, SessionOwner as MovedOwner};
use spotlane_session::actor::{ActorBinding, ActorEffect, ActorEvent, CarriedBinding, Tenure};
use spotlane_session::{
    ActorRoute, BindRefusal, BindingIdentity, Machine as _, SessionIdentity, SessionOwner,
};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{Correlation, HopCount};
use spotlane_types::id::RelocationId;
use spotlane_wire::Record;
use spotlane_wire::command::follow::FollowRoute;
use spotlane_wire::command::session::BoundSessionBind;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::reference::{ActorRef, BindingTransition};

use super::follow;
use super::inbound::Arrival;
use super::lane::{Gate, Item, Lane};
use super::target::frames;
use super::{Host, Job};
use crate::agenda::{BindReply, Packet};
use crate::cast::{disconnected_of, message_of, tail_of};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, BindingNumber, Loss, SessionSight};
use crate::shared::{Shared, Submit, monotonic};

/// Who waits for the answer to a command 38.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    owner: HostIndex,
    /// Whether the request came by Message Follow, so that the answer says from where (SB-24).
    followed: bool,
}

/// The tenure of a route, for the binding machine.
pub(super) fn tenure_of(route: &spotlane_location::cache::Route) -> Option<Tenure> {
    let tenure = &route.tenure;
    let AuthorityKey::Actor(actor_id) = &tenure.object else {
        return None;
    };
    Some(Tenure {
        actor: ActorRef {
            actor_id: actor_id.clone(),
            object_generation: tenure.object_generation,
        },
        node_rid: tenure.node_rid.clone(),
        node_generation: tenure.node_generation,
        authority_owner_generation: tenure.authority_owner_generation,
        owner_lease_generation: tenure.owner_lease_generation,
    })
}

/// An Actor in the tenure of a route that nobody is bound to.
///
/// # Errors
/// The route leads to a Spot.
pub(crate) fn unbound(route: &spotlane_location::cache::Route) -> Result<ActorBinding> {
    let tenure = tenure_of(route).context("a route to an Actor")?;
    Ok(ActorBinding::new(tenure))
}

/// The binding that came with an Actor.
pub(super) fn arrived(tenure: Tenure, bindings: &[Binding]) -> ActorBinding {
    let carried = bindings.first().map(|binding| {
        let owner = &binding.session_owner;
        let session = SessionIdentity {
            owner: SessionOwner {
                node_rid: owner.node_rid.clone(),
                node_generation: owner.node_generation,
                owner_id: owner.owner_id.clone(),
                owner_lease_generation: owner.owner_lease_generation,
            },
            session_rid: binding.session_rid.clone(),
        };
        CarriedBinding::new(
            session,
            binding.binding_generation,
            binding.next_sequence,
            binding.actor.clone(),
        )
    });
    ActorBinding::at_target(tenure, carried)
}

fn to_moved(carried: &CarriedBinding) -> Binding {
    let SessionIdentity { owner, session_rid } = carried.session();
    Binding {
        actor: carried.source().clone(),
        session_owner: MovedOwner {
            node_rid: owner.node_rid.clone(),
            node_generation: owner.node_generation,
            owner_id: owner.owner_id.clone(),
            owner_lease_generation: owner.owner_lease_generation,
        },
        session_rid: session_rid.clone(),
        binding_generation: carried.generation(),
        next_sequence: carried.next_sequence(),
    }
}

fn route_of(tenure: &Tenure, shared: &Shared) -> ActorRoute {
    ActorRoute {
        mesh_name: shared.cast.mesh.clone(),
        node_rid: tenure.node_rid.clone(),
        node_generation: tenure.node_generation,
        authority_owner_generation: tenure.authority_owner_generation,
        owner_lease_generation: tenure.owner_lease_generation,
    }
}

impl Host {
    /// Sends a record about a binding to a host, which may be this one; nothing repeats it (SB-56, SB-84).
    pub(super) fn send_record(
        &mut self,
        to: HostIndex,
        record: Record,
        shared: &mut Shared,
    ) -> Result<()> {
        if to == self.index {
            let job = Job::Binding(self.index, Box::new(record));
            self.jobs.push_back(job);
            return Ok(());
        }
        let packet = Packet::Binding {
            frames: frames(&record)?,
        };
        let link = self.links.get(&to).copied();
        let (Submit::Taken(_) | Submit::Failed) = shared.send(self.index, to, link, packet);
        Ok(())
    }

    /// Command 38 has come, from another host or from this one.
    pub(super) fn bind_wanted(
        &mut self,
        bind: BoundSessionBind,
        asker: (HostIndex, u8),
        shared: &mut Shared,
    ) -> Result<()> {
        let (owner, hops) = asker;
        let asker = Asker {
            owner,
            followed: hops > 0,
        };
        let actor = shared.cast.actor_of(&bind.actor.actor.actor_id);
        let actor = actor.context("a bind to an Actor of another world")?;
        let target = self.targets.get(&actor);
        if target.is_some_and(|unit| unit.queue_registered) {
            return self.bind_while_arriving(actor, &bind, asker, shared);
        }
        if self.lanes.contains_key(&actor) {
            let lease = *shared.leases.get(owner.0).context("a host of this world")?;
            let from = shared.cast.session_owner(owner, lease)?;
            self.askers.insert(bind.correlation, asker);
            let request = Box::new(bind);
            return self.binding_event(actor, ActorEvent::Bind { from, request }, shared);
        }
        // SB-24: once along a live route.
        let addressed = FollowRoute::Actor {
            actor: bind.actor.clone(),
        };
        let hop = self
            .following
            .hop(monotonic(shared.now()), &addressed, HopCount::new(hops)?);
        if let Some(hop) = hop.filter(|_| hops == 0) {
            return self.forward_bind(bind, &hop, owner, shared);
        }
        let refusal = Err(BindRefusal::StaleLocation);
        self.answer_bind(bind.correlation, asker, refusal, shared);
        Ok(())
    }

    fn forward_bind(
        &mut self,
        mut bind: BoundSessionBind,
        hop: &Hop,
        owner: HostIndex,
        shared: &mut Shared,
    ) -> Result<()> {
        let FollowRoute::Actor { actor } = &hop.target else {
            anyhow::bail!("a route to an Actor");
        };
        let to = shared.cast.host_of(&actor.target_node_rid);
        let to = to.context("a host of this world")?;
        bind.actor = actor.clone();
        let correlation = bind.correlation;
        if to == self.index {
            self.jobs.push_back(Job::Bind(Box::new(bind), owner, 1));
            return Ok(());
        }
        let packet = Packet::Bind {
            frames: frames(&Record::from(bind))?,
            owner,
            hops: 1,
        };
        let link = self.links.get(&to).copied();
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            let asker = Asker {
                owner,
                followed: true,
            };
            let refusal = Err(BindRefusal::StaleLocation);
            self.answer_bind(correlation, asker, refusal, shared);
        }
        Ok(())
    }

    /// The end of a binding that came to a source when its object had left.
    pub(super) fn forward_disconnected(
        &mut self,
        relocation: RelocationId,
        record: &FrozenRecord,
        shared: &mut Shared,
    ) -> Result<()> {
        let unit = self.sources.get(&relocation);
        let tenure = unit.and_then(|unit| unit.tenure.as_ref());
        let addressed = tenure.and_then(follow::route_of);
        let addressed = addressed.context("the tenure that a move ended")?;
        let ended = shared.cast.ended(record)?;
        let ended = ended.context("the end of a binding")?;
        let hop = self
            .following
            .hop(monotonic(shared.now()), &addressed, HopCount::MIN);
        let (Some(hop), FollowRoute::Actor { actor }) = (hop, addressed) else {
            return Ok(());
        };
        let bind = BoundSessionBind {
            correlation: shared.correlation(),
            actor,
            session_rid: ended.session_rid,
            binding: BindingTransition::Tombstone {
                retired_binding_generation: ended.identity.generation,
            },
        };
        self.forward_bind(bind, &hop, ended.binding.owner(), shared)
    }

    /// SB-72, SB-65: a bind has to wait for the owner to be; the end of a binding joins the queue.
    fn bind_while_arriving(
        &mut self,
        actor: ActorIndex,
        bind: &BoundSessionBind,
        asker: Asker,
        shared: &mut Shared,
    ) -> Result<()> {
        let BindingTransition::Tombstone {
            retired_binding_generation,
        } = bind.binding
        else {
            let refusal = Err(BindRefusal::Sealed);
            self.answer_bind(bind.correlation, asker, refusal, shared);
            return Ok(());
        };
        let lease = shared.leases.get(asker.owner.0);
        let lease = *lease.context("a host of this world")?;
        let session = SessionIdentity {
            owner: shared.cast.session_owner(asker.owner, lease)?,
            session_rid: bind.session_rid.clone(),
        };
        let binding = shared.cast.binding(asker.owner, retired_binding_generation);
        let reference = &bind.actor.actor;
        let record = shared
            .cast
            .disconnected(&session, binding, reference, self.index)?;
        let arrival = Arrival {
            record: Box::new(record),
            hops: 0,
        };
        let event = TargetEvent::Arrived(arrival);
        self.jobs.push_back(Job::Target(actor, event));
        self.answer_bind(bind.correlation, asker, Ok(None), shared);
        Ok(())
    }

    /// Answers command 38; a registration that came by Message Follow says where it is.
    fn answer_bind(
        &mut self,
        correlation: Correlation,
        asker: Asker,
        result: Result<Option<ActorRoute>, BindRefusal>,
        shared: &mut Shared,
    ) {
        let followed = result.as_ref().ok().cloned().flatten();
        let reply = BindReply {
            correlation,
            result: result.map(|_| ()),
            followed: followed.filter(|_| asker.followed).map(Box::new),
        };
        if asker.owner == self.index {
            self.jobs.push_back(Job::BindAnswered(reply));
            return;
        }
        let link = self.links.get(&asker.owner).copied();
        let packet = Packet::BindAnswer(reply);
        let (Submit::Taken(_) | Submit::Failed) =
            shared.send(self.index, asker.owner, link, packet);
    }

    /// One event for the binding of an Actor.
    pub(super) fn binding_event(
        &mut self,
        actor: ActorIndex,
        event: ActorEvent,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(&actor) else {
            return Ok(());
        };
        let before = lane.binding.session().cloned().zip(lane.binding.identity());
        let mut effects = Vec::new();
        let now = monotonic(shared.now());
        lane.binding.on_event(now, event, &mut effects);
        let after = lane.binding.identity();
        let route = route_of(lane.binding.tenure(), shared);
        self.binding_changed(actor, before.as_ref(), after.as_ref(), shared);
        for effect in effects {
            match effect {
                ActorEffect::Answer {
                    correlation,
                    result,
                } => {
                    if let Some(asker) = self.askers.remove(&correlation) {
                        let result = result.map(|()| Some(route.clone()));
                        self.answer_bind(correlation, asker, result, shared);
                    }
                }
                ActorEffect::SendReplaced { to, replaced } => {
                    let to = shared.cast.host_of(&to.node_rid);
                    if let (Some(to), false) = (to, shared.has(Mutant::NeverReplaced)) {
                        self.send_record(to, Record::from(*replaced), shared)?;
                    }
                }
                ActorEffect::RunDisconnected(_) => {
                    let record = self.disconnected_record(actor, before.as_ref(), shared)?;
                    let times = if shared.has(Mutant::DisconnectTwice) {
                        2
                    } else {
                        1
                    };
                    if let Some(lane) = self.lanes.get_mut(&actor) {
                        let item = Item::Message(Box::new(record));
                        lane.queue.extend(std::iter::repeat_n(item, times));
                    }
                    self.jobs.push_back(Job::Turn(actor));
                }
                ActorEffect::HoldDisconnected(_) => {
                    let record = self.disconnected_record(actor, before.as_ref(), shared)?;
                    self.hold_for_move(actor, Box::new(record));
                }
                // The coordinator of a move seals by itself (RL-125).
                _ => {}
            }
        }
        Ok(())
    }

    fn hold_for_move(&mut self, actor: ActorIndex, record: Box<FrozenRecord>) {
        if let Some(Gate::Sealed(relocation)) = self.lanes.get(&actor).map(|lane| lane.gate) {
            self.hold(actor, relocation, record);
        }
    }

    /// Notes what changed, and tells a source that nobody waits for the seal of a binding that has ended (RL-358).
    fn binding_changed(
        &mut self,
        actor: ActorIndex,
        before: Option<&(SessionIdentity, BindingIdentity)>,
        after: Option<&BindingIdentity>,
        shared: &mut Shared,
    ) {
        let at = self.index;
        if before.map(|(_, identity)| identity) == after {
            return;
        }
        if let Some((session, identity)) = before {
            if let Some(binding) = shared.cast.binding_of(identity) {
                shared.sight(SessionSight::Retired { actor, at, binding });
            }
            let relocation = self.latest.get(&actor).copied();
            if let (Some(relocation), Ok(actor_id)) = (relocation, shared.cast.actor(actor)) {
                let name = BindingName {
                    actor_id: actor_id.clone(),
                    session_rid: session.session_rid.clone(),
                    binding_generation: identity.generation,
                };
                let event = SourceEvent::BindingEnded(name);
                self.jobs.push_back(Job::Source(relocation, event));
            }
        }
        if let Some(binding) = after.and_then(|identity| shared.cast.binding_of(identity)) {
            shared.sight(SessionSight::Registered { actor, at, binding });
        }
    }

    fn disconnected_record(
        &self,
        actor: ActorIndex,
        bound: Option<&(SessionIdentity, BindingIdentity)>,
        shared: &Shared,
    ) -> Result<FrozenRecord> {
        let (session, identity) = bound.context("a binding that ends")?;
        let binding = shared.cast.binding_of(identity);
        let binding = binding.context("a binding of this world")?;
        let lane = self.lanes.get(&actor).context("an Actor of this host")?;
        let actor = &lane.binding.tenure().actor;
        shared
            .cast
            .disconnected(session, binding, actor, self.index)
    }

    /// RL-358: no new binds; the one there is moves with the Actor.
    pub(super) fn refuse_binds(&mut self, actor: ActorIndex) -> Vec<Binding> {
        let lane = self.lanes.get_mut(&actor);
        let carried = lane.and_then(|lane| lane.binding.refuse_binds());
        carried.as_ref().map(to_moved).into_iter().collect()
    }

    /// SB-33: whether a record may come into the queue: of no session, or of the one that is bound. A record that is
    /// refused is ended.
    pub(super) fn admit(
        &mut self,
        actor: ActorIndex,
        record: &FrozenRecord,
        shared: &mut Shared,
    ) -> bool {
        if let Some(ended) = disconnected_of(record) {
            // SB-61: a notice for a binding that is not current has no callback.
            return self.bound_to(actor, shared) == Some(ended);
        }
        let (Some((peer, tail)), Some(message)) = (tail_of(record), message_of(record)) else {
            return true;
        };
        let owner = shared.cast.host_of(&peer.node_rid);
        let (Some(lane), Some(owner)) = (self.lanes.get_mut(&actor), owner) else {
            return true;
        };
        let current = lane.binding.judge_relay(&peer, &tail).is_ok();
        if !current && !shared.has(Mutant::RetiredRelay) {
            self.refuse(record, Loss::Retired, shared);
            return false;
        }
        let binding = shared.cast.binding(owner, tail.source_binding_generation);
        shared.sight(SessionSight::Admitted {
            message,
            actor,
            at: self.index,
            binding,
        });
        true
    }

    fn bound_to(&self, actor: ActorIndex, shared: &Shared) -> Option<BindingNumber> {
        current_of(self.lanes.get(&actor)?, shared)
    }

    /// Puts accepted work into the queue of a lane. The callback of a binding that came here with its Actor, and that
    /// ended while it was on its way, ends that binding when it has run (SB-65).
    pub(super) fn enqueue(
        &mut self,
        actor: ActorIndex,
        record: Box<FrozenRecord>,
        shared: &mut Shared,
    ) {
        let Some(lane) = self.lanes.get_mut(&actor) else {
            return;
        };
        if let Some(ended) = disconnected_of(&record)
            && current_of(lane, shared) == Some(ended)
        {
            begin_leave(lane, shared);
        }
        if message_of(&record).is_some()
            && tail_of(&record).is_some()
            && shared.has(Mutant::RelayOvertakes)
        {
            lane.queue.push_front(Item::Message(record));
        } else {
            lane.queue.push_back(Item::Message(record));
        }
    }

    /// The callback of a binding has ended (SB-61).
    pub(super) fn disconnected_ended(
        &mut self,
        actor: ActorIndex,
        record: &FrozenRecord,
        shared: &mut Shared,
    ) -> Result<()> {
        let ended = shared.cast.ended(record)?;
        let ended = ended.context("the end of a binding")?;
        let event = ActorEvent::DisconnectedEnded(ended.identity);
        self.binding_event(actor, event, shared)
    }

    /// An Actor tells its client something, now and then, and closes its connection once in a while.
    pub(super) fn push_sometimes(
        &mut self,
        actor: ActorIndex,
        percent: u64,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(lane) = self.lanes.get(&actor) else {
            return Ok(());
        };
        let Some(identity) = lane.binding.identity() else {
            return Ok(());
        };
        if !shared.session_random.percent(percent) {
            return Ok(());
        }
        let closes = shared.session_random.below(400) == 0;
        let push = shared.push_id();
        let pushed = if closes {
            lane.binding.close()
        } else {
            lane.binding.push(shared.cast.push(push)?)
        };
        let tenure = lane.binding.tenure().authority_owner_generation;
        let (Ok(pushed), Some(binding)) = (pushed, shared.cast.binding_of(&identity)) else {
            return Ok(());
        };
        shared.sight(SessionSight::Pushed {
            push,
            actor,
            at: self.index,
            binding,
            tenure,
        });
        let to = shared.cast.host_of(&pushed.to.node_rid);
        let to = to.context("a session owner of this world")?;
        self.send_record(to, Record::from(pushed.record), shared)
    }
}

fn current_of(lane: &Lane, shared: &Shared) -> Option<BindingNumber> {
    let identity = lane.binding.identity()?;
    shared.cast.binding_of(&identity)
}

fn begin_leave(lane: &mut Lane, shared: &mut Shared) {
    let (Some(session), Some(identity)) =
        (lane.binding.session().cloned(), lane.binding.identity())
    else {
        return;
    };
    let request = Box::new(BoundSessionBind {
        correlation: shared.correlation(),
        actor: lane.binding.tenure().fence(),
        session_rid: session.session_rid,
        binding: BindingTransition::Tombstone {
            retired_binding_generation: identity.generation,
        },
    });
    let from = session.owner;
    // Its callback is the work that is being put into the queue, and nobody waits for its answer.
    let mut effects = Vec::new();
    let now = monotonic(shared.now());
    lane.binding
        .on_event(now, ActorEvent::Bind { from, request }, &mut effects);
}
