//! What reaches the sessions of a host: their clients, and the records about bindings (commands 36, 42 to 44 and 51).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_location::cache::Tenure;
use spotlane_location::{LiveRoute, LocationError};
use spotlane_relocation::source::SourceEvent;
use spotlane_session::{
    ActorRoute, BindCall, RelayForm, RelayMessage, SessionBindingAggregate, SessionEvent,
    SessionIdentity,
};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{NodeRid, RelocationId};
use spotlane_wire::Record;
use spotlane_wire::command::session::{
    BoundSessionSend, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::{ActorRef, SessionRouteUpdate};

use super::{Call, RelayCall, SessionUnit, Wire};
use crate::cast::{push_of, session_of, session_rid};
use crate::client::{ClientAct, Reference};
use crate::host::{Host, Job, StoreAnswer};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{
    ActorIndex, ClientIndex, Ending, Kind, Observation, Origin, SessionIndex, SessionSight, Verdict,
};
use crate::shared::{Shared, monotonic};

/// How long after its answer the mutant installs a seal.
const LATE_SEAL: Duration = Duration::from_millis(3);

fn route_of(tenure: &Tenure, shared: &Shared) -> Option<(ActorRef, ActorRoute)> {
    let AuthorityKey::Actor(actor_id) = &tenure.object else {
        return None;
    };
    let reference = ActorRef {
        actor_id: actor_id.clone(),
        object_generation: tenure.object_generation,
    };
    let route = ActorRoute {
        mesh_name: shared.cast.mesh.clone(),
        node_rid: tenure.node_rid.clone(),
        node_generation: tenure.node_generation,
        authority_owner_generation: tenure.authority_owner_generation,
        owner_lease_generation: tenure.owner_lease_generation,
    };
    Some((reference, route))
}

impl Host {
    /// A client of this host does something.
    pub(in crate::host) fn client_acts(
        &mut self,
        act: ClientAct,
        shared: &mut Shared,
    ) -> Result<()> {
        match act {
            ClientAct::Connect { client, session } => self.connected(client, session, shared),
            ClientAct::Bind {
                session,
                actor,
                reference,
            } => self.bind_for(session, actor, reference, shared),
            ClientAct::Relay {
                session,
                actor,
                kind,
                patience,
            } => self.relay_for(session, actor, kind, patience, shared),
            ClientAct::Notify { session, actor } => {
                let Some(unit) = self.open_session(session) else {
                    return Ok(());
                };
                let Some(token) = unit.tokens.get(&actor).cloned() else {
                    return Ok(());
                };
                let call = unit.call(Call::Notify);
                let event = SessionEvent::NotifyDisconnected { call, token };
                self.drive_session(session, event, shared)
            }
            ClientAct::Disconnect { session } => {
                self.close_wire(session, Ending::Client, shared);
                self.drive_session(session, SessionEvent::ConnectionLost, shared)
            }
        }
    }

    /// A session whose client is heard.
    fn open_session(&mut self, session: SessionIndex) -> Option<&mut SessionUnit> {
        let unit = self.sessions.units.get_mut(&session);
        unit.filter(|unit| unit.wire == Wire::Open)
    }

    fn connected(
        &mut self,
        client: ClientIndex,
        session: SessionIndex,
        shared: &mut Shared,
    ) -> Result<()> {
        if self.shutting_down {
            // RL-229: no new session.
            if let Some(client) = shared.clients.get_mut(client.0) {
                client.cut_off();
            }
            return Ok(());
        }
        let lease = self.held.lease().generation();
        let identity = SessionIdentity {
            owner: shared.cast.session_owner(self.index, lease)?,
            session_rid: session_rid(session)?,
        };
        let machine = SessionBindingAggregate::new(identity, shared.plan.session_times);
        let unit = SessionUnit::new(machine, client);
        self.sessions.units.insert(session, unit);
        shared.sight(SessionSight::Opened {
            session,
            client,
            at: self.index,
        });
        self.drive_session(session, self.admission(shared), shared)
    }

    /// SB-15: how long routes may be used, as long as the lease is not renewed.
    fn admission(&self, shared: &Shared) -> SessionEvent {
        let left = self.held.deadline().since(self.location_now());
        SessionEvent::AdmissionUntil(monotonic(shared.now().saturating_add(left)))
    }

    /// The lease was renewed.
    pub(in crate::host) fn admit_sessions(&mut self, shared: &Shared) {
        for session in self.sessions.all() {
            let event = Box::new(self.admission(shared));
            self.jobs.push_back(Job::Session(session, event));
        }
    }

    /// The session's handler finds the Actor and binds it.
    fn bind_for(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        reference: Reference,
        shared: &mut Shared,
    ) -> Result<()> {
        if self.open_session(session).is_none() {
            return Ok(());
        }
        let object = shared.cast.key(actor)?;
        if reference == Reference::Old
            && let Some(route) = self.sessions.first.get(&actor)
        {
            let (reference, route) = route.clone();
            return self.bind_along(session, actor, reference, route, shared);
        }
        let here = self.lanes.get(&actor).filter(|lane| lane.serves());
        let here = here.map(|lane| lane.route.tenure.clone());
        let now = self.location_now();
        let known = here.or_else(|| {
            let cached = self.cache.get(&object, now)?;
            Some(cached.tenure.clone())
        });
        if let Some((reference, route)) = known.and_then(|tenure| route_of(&tenure, shared)) {
            return self.bind_along(session, actor, reference, route, shared);
        }
        let margin = shared.plan.lease.fencing_margin();
        let until = now.after(Duration::from_millis(200));
        let repository = Arc::clone(&self.repository);
        self.ask(shared, async move {
            let found = repository.live_route(&object, margin, until).await;
            StoreAnswer::BindRoute {
                session,
                actor,
                found,
            }
        });
        Ok(())
    }

    /// The look-up for a bind was answered.
    pub(in crate::host) fn bind_route_found(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        found: Result<Option<LiveRoute>, LocationError>,
        shared: &mut Shared,
    ) -> Result<()> {
        let Ok(Some(live)) = found else {
            if let Some(unit) = self.sessions.units.get(&session)
                && let Some(client) = shared.clients.get_mut(unit.client.0)
            {
                client.not_bound(session, actor);
            }
            return Ok(());
        };
        match route_of(&live.route.tenure, shared) {
            Some((reference, route)) => self.bind_along(session, actor, reference, route, shared),
            None => Ok(()),
        }
    }

    fn bind_along(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        reference: ActorRef,
        route: ActorRoute,
        shared: &mut Shared,
    ) -> Result<()> {
        let first = self.sessions.first.entry(actor);
        first.or_insert_with(|| (reference.clone(), route.clone()));
        let generation = self.sessions.last_generation.saturating_add(1);
        let Some(unit) = self.open_session(session) else {
            return Ok(());
        };
        let call = unit.call(Call::Bind(actor));
        self.sessions.last_generation = generation;
        let event = SessionEvent::Bind(BindCall {
            call,
            actor: reference,
            route,
            generation: BindingGeneration::new(generation)?,
        });
        self.drive_session(session, event, shared)
    }

    fn relay_for(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        kind: Kind,
        patience: Option<Duration>,
        shared: &mut Shared,
    ) -> Result<()> {
        let at = self.index;
        let Some(unit) = self.open_session(session) else {
            return Ok(());
        };
        let Some(token) = unit.tokens.get(&actor).cloned() else {
            return Ok(());
        };
        let message = shared.message_id();
        let call = unit.call(Call::Relay(RelayCall {
            message,
            actor,
            kind,
        }));
        shared.see(Observation::Issued {
            message,
            kind,
            origin: Origin::Session(session),
            actor,
            at,
        });
        if kind == Kind::Request {
            let patience = patience.unwrap_or(shared.plan.request_timeout);
            self.callers.insert(message, shared.now() + patience);
        }
        let message = RelayMessage {
            form: match kind {
                Kind::Send => RelayForm::Send,
                Kind::Request => RelayForm::Request,
            },
            metadata: None,
            payload: shared.cast.note(),
        };
        let event = SessionEvent::Relay {
            call,
            token,
            message,
        };
        self.drive_session(session, event, shared)
    }

    /// A record about a binding, from another host or from this one.
    pub(in crate::host) fn binding_record(
        &mut self,
        from: HostIndex,
        record: Record,
        shared: &mut Shared,
    ) -> Result<()> {
        match record {
            Record::BoundSessionSend(push) => self.pushed(push, shared),
            Record::BoundSessionReplaced(replaced) => {
                let session = session_of(&replaced.retired_session.session_rid);
                let session = session.context("a session of this world")?;
                let generation = replaced.retired_session.retired_binding_generation;
                let made = |unit: &SessionUnit| {
                    unit.known
                        .values()
                        .any(|known| known.generation == generation)
                };
                if shared.has(Mutant::LoseEarly)
                    && !self.sessions.units.get(&session).is_some_and(made)
                {
                    return Ok(());
                }
                let peer = shared.cast.peer(from)?;
                let replaced = *replaced;
                let event = SessionEvent::Replaced { peer, replaced };
                self.drive_session(session, event, shared)
            }
            Record::SessionRelocationSeal(seal) => self.seal_wanted(*seal, shared),
            Record::SessionRelocationSealed(sealed) => {
                let relocation = sealed.relocation;
                let event = SourceEvent::BindingSealed(sealed);
                self.jobs.push_back(Job::Source(relocation, event));
                Ok(())
            }
            Record::SessionRelocationRoute(update) => {
                let session = session_of(&update.session_rid).context("a session")?;
                let actor = shared.cast.actor_of(&update.actor.actor_id);
                let actor = actor.context("an Actor of this world")?;
                self.unsealed(session, actor, update.relocation, shared);
                let mesh_name = shared.cast.mesh.clone();
                let update = *update;
                let event = SessionEvent::Route { mesh_name, update };
                self.drive_session(session, event, shared)
            }
            other => anyhow::bail!("{} is not about a binding", other.name()),
        }
    }

    /// Command 36: the binding says for which session it is, and its aggregate whether it may have it (SB-38).
    fn pushed(&mut self, push: BoundSessionSend, shared: &mut Shared) -> Result<()> {
        let binding = shared
            .cast
            .binding(self.index, push.expected_binding_generation);
        let Some(session) = self.sessions.bound.get(&binding).copied() else {
            return Ok(());
        };
        if shared.has(Mutant::DeliverStalePush)
            && let Ok(push) = push_of(&push.payload)
        {
            shared.sight(SessionSight::Delivered { session, push });
            return Ok(());
        }
        self.drive_session(session, SessionEvent::Push(push), shared)
    }

    fn seal_wanted(&mut self, seal: SessionRelocationSeal, shared: &mut Shared) -> Result<()> {
        let session = session_of(&seal.session_rid).context("a session of this world")?;
        if shared.has(Mutant::SealedTooEarly) && !self.sessions.is_closed(session) {
            let at = shared.now() + LATE_SEAL;
            self.sessions.late_seals.push((at, session, seal.clone()));
            let sealed = SessionRelocationSealed {
                relocation: seal.relocation,
                coordinator: seal.coordinator,
                actor: seal.actor,
                session_owner_node_rid: seal.session_owner_node_rid,
                session_owner_node_generation: seal.session_owner_node_generation,
                session_owner_id: seal.session_owner_id,
                session_owner_lease_generation: seal.session_owner_lease_generation,
                session_rid: seal.session_rid,
                binding_generation: seal.binding_generation,
            };
            return self.send_sealed(session, sealed, shared);
        }
        self.drive_session(session, SessionEvent::Seal(seal), shared)
    }

    /// Commands 42 and 44, from source and target to a session owner.
    pub(in crate::host) fn send_route(
        &mut self,
        relocation: RelocationId,
        node: &NodeRid,
        record: Record,
        shared: &mut Shared,
    ) -> Result<()> {
        let to = shared.cast.host_of(node).context("a host of this world")?;
        match &record {
            Record::SessionRelocationSeal(seal) => {
                let binding = shared.cast.binding(to, seal.binding_generation);
                shared.sight(SessionSight::SealSent {
                    relocation,
                    binding,
                });
            }
            Record::SessionRelocationRoute(update) => {
                let verdict = match update.route {
                    SessionRouteUpdate::Commit { .. } => Verdict::Commit,
                    SessionRouteUpdate::Abort { .. } => Verdict::Abort,
                };
                if verdict == Verdict::Abort && shared.has(Mutant::KeepSeal) {
                    return Ok(());
                }
                let binding = shared.cast.binding(to, update.binding_generation);
                shared.sight(SessionSight::RouteSent {
                    relocation,
                    binding,
                    verdict,
                });
            }
            _ => {}
        }
        self.send_record(to, record, shared)
    }
}
