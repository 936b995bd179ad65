//! Actors come into being: look-up, reservation, and the answer (RL-80 to RL-95).

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use spotlane_location::authority::{Authority, Reservation, ReservedObject};
use spotlane_location::cache::Tenure;
use spotlane_location::directory::Candidate;
use spotlane_location::record::{MeshNodeDescriptor, PendingCreation};
use spotlane_location::{Conflict, LocationError};
use spotlane_types::count::PendingCapacityDelta;
use spotlane_types::generation::ObjectGeneration;
use spotlane_types::id::{ActorId, NodeRid, ReservationId, SpotId, StableType, StoreVersion};
use spotlane_types::kind::{
    ActorAuthorityState, ActorSpotKind, AuthorityOperationKind, FailureCode, ObjectRole,
    RuntimeState, StatefulObjectKind,
};
use spotlane_types::time::DeadlineUnixMillis;
use spotlane_wire::Record;
use spotlane_wire::authority::{ActorAuthorityIdentity, AuthorityObject, AuthorityPayload};
use spotlane_wire::command::creation::ActorCreate;
use spotlane_wire::command::reply::{ActorCreateTail, Reply, ReplyTail};
use spotlane_wire::creation::{ActorCreateTerminal, ObjectReservationFence};
use spotlane_wire::reference::SpotRef;

use crate::activate::{self, Activated};
use crate::actor::ActorRef;
use crate::capacity::Full;
use crate::clock::Deadline;
use crate::core::{Core, actor_key};
use crate::error::{Error, ErrorKind};
use crate::handlers::BoxFuture;
use crate::payload::{IntoPayload, Payload};
use crate::{remote, resolve};

/// The largest request of a creation (RL-80). One that another node runs stands in the row of the Actor, which holds
/// less.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// How a creation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-85 and RL-92")]
pub enum Creation {
    /// It is new.
    Created {
        /// The Actor.
        actor: ActorRef,
        /// What [`Actor::on_create`](crate::Actor::on_create) answered.
        reply: Option<Payload>,
    },
    /// It was there already; only from `get_or_create`.
    Existing {
        /// The Actor.
        actor: ActorRef,
    },
    /// [`Actor::on_create`](crate::Actor::on_create) refused; the address is free.
    Rejected {
        /// What it answered.
        reply: Option<Payload>,
    },
}

impl Creation {
    /// The Actor, unless it was refused.
    pub fn actor(&self) -> Option<&ActorRef> {
        match self {
            Self::Created { actor, .. } | Self::Existing { actor } => Some(actor),
            Self::Rejected { .. } => None,
        }
    }

    /// Whether it is new.
    pub const fn is_created(&self) -> bool {
        matches!(self, Self::Created { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    GetOrCreate,
}

/// A creation that was not asked for yet; await it. Every option is set once (RL-80).
#[must_use = "a call does nothing until it is awaited"]
pub struct CreateCall {
    core: Arc<Core>,
    mode: Mode,
    names: Result<(ActorId, StableType), Error>,
    request: Option<Payload>,
    timeout: Option<Duration>,
}

impl CreateCall {
    pub(crate) fn new(core: Arc<Core>, mode: Mode, id: &str, stable_type: &str) -> Self {
        let names = ActorId::new(id)
            .and_then(|id| Ok((id, StableType::new(stable_type)?)))
            .map_err(Error::from);
        Self {
            core,
            mode,
            names,
            request: None,
            timeout: None,
        }
    }

    fn refuse(&mut self, error: Error) {
        if self.names.is_ok() {
            self.names = Err(error);
        }
    }

    /// What the new Actor is told (RL-43).
    pub fn request(mut self, request: impl IntoPayload) -> Self {
        match request.into_payload() {
            Ok(request) if request.len() > REQUEST_BYTES_MAX => {
                let bytes = request.len();
                let text = format!("the request is {bytes} bytes, at most {REQUEST_BYTES_MAX}");
                self.refuse(Error::invalid(text));
            }
            Ok(request) => {
                if self.request.replace(request).is_some() {
                    self.refuse(Error::invalid("the request is set twice"));
                }
            }
            Err(error) => self.refuse(error),
        }
        self
    }

    /// How long everything together may take (RL-81); the host's `default_request_timeout` otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if self.timeout.replace(timeout).is_some() {
            self.refuse(Error::invalid("the timeout is set twice"));
        }
        if timeout.is_zero() {
            self.refuse(Error::invalid("the timeout is 0, must be above 0"));
        }
        self
    }

    /// Makes the call.
    ///
    /// # Errors
    /// `AlreadyExists` (`create` only), `TypeMismatch`, `Unavailable` (no node can take it), `DeadlineExceeded` (for this
    /// caller; the creation may go on, RL-81), `ShuttingDown`, or what the factory or `on_create` reported.
    ///
    /// # Cancel safety
    /// Dropped early, the Actor may come into being all the same.
    pub async fn submit(self) -> Result<Creation, Error> {
        let (id, stable_type) = self.names?;
        let timeout = self.timeout;
        let timeout = timeout.unwrap_or(self.core.settings.all.default_request_timeout);
        let attempt = Attempt {
            deadline: self.core.deadline(timeout),
            core: self.core,
            mode: self.mode,
            id,
            stable_type,
            request: self.request,
        };
        // The attempt goes on when its caller gives up, so that no reservation is left behind.
        let (sender, answer) = tokio::sync::oneshot::channel();
        let core = Arc::clone(&attempt.core);
        core.tasks.spawn(async move {
            // A caller that went away does not want it.
            drop(sender.send(attempt.run().await));
        });
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::shutting_down()),
            Err(_) => Err(Error::deadline(format!(
                "the actor was not ready within {timeout:?}"
            ))),
        }
    }
}

impl IntoFuture for CreateCall {
    type Output = Result<Creation, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.submit())
    }
}

impl fmt::Debug for CreateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateCall")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// One creation under its one deadline.
struct Attempt {
    core: Arc<Core>,
    mode: Mode,
    id: ActorId,
    stable_type: StableType,
    request: Option<Payload>,
    deadline: Deadline,
}

impl Attempt {
    async fn run(&self) -> Result<Creation, Error> {
        self.core.must_take_objects()?;
        let mut round = 0;
        loop {
            if let Some(done) = self.look().await? {
                return Ok(done);
            }
            if let Some(done) = self.compete().await? {
                return Ok(done);
            }
            resolve::pause(&self.deadline, round).await?;
            round = round.saturating_add(1);
        }
    }

    /// What the row says (RL-90 to RL-95); `None` when it is missing or worth waiting for.
    async fn look(&self) -> Result<Option<Creation>, Error> {
        let until = self.deadline.location();
        let found = self
            .core
            .repository
            .read(&actor_key(&self.id), until)
            .await?;
        match found {
            Authority::Missing => Ok(None),
            Authority::Reserved(reserved) => {
                self.must_be_of_type(&reserved.row().allocation.stable_type)?;
                if self
                    .core
                    .repository
                    .release_if_ended(&reserved, until)
                    .await?
                {
                    return Ok(None);
                }
                match self.mode {
                    Mode::Create => Err(self.exists()),
                    Mode::GetOrCreate => Ok(None),
                }
            }
            Authority::Active(active) => {
                let row = active.row();
                self.must_be_of_type(&row.allocation.stable_type)?;
                match self.mode {
                    Mode::Create => Err(self.exists()),
                    Mode::GetOrCreate => Ok(Some(Creation::Existing {
                        actor: ActorRef {
                            id: self.id.clone(),
                            generation: row.object_generation,
                            mesh: row.allocation.descriptor.mesh_name.clone(),
                            node: row.allocation.descriptor.routing_id.clone(),
                        },
                    })),
                }
            }
        }
    }

    fn must_be_of_type(&self, found: &StableType) -> Result<(), Error> {
        if *found == self.stable_type {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TypeMismatch,
            format!("actor {} is a {found}, not a {}", self.id, self.stable_type),
        ))
    }

    fn exists(&self) -> Error {
        Error::new(
            ErrorKind::AlreadyExists,
            format!("actor {} exists", self.id),
        )
    }

    /// Reserves on a candidate and runs the creation there; `None` when somebody else was first (RL-88).
    async fn compete(&self) -> Result<Option<Creation>, Error> {
        let key = actor_key(&self.id);
        let found = self
            .core
            .repository
            .read(&key, self.deadline.location())
            .await?;
        if !matches!(found, Authority::Missing) {
            return Ok(None);
        }
        let candidate = self.choose().await?;
        let here = candidate.descriptor().row.descriptor.routing_id == self.core.identity.rid;
        let request = encode_request(self.request.clone())?;
        let pending = pending_creation(&request, here)?;
        let reservation = Reservation::new(self.creating(&candidate)?, Some(pending.clone()));
        let held = self.core.held()?;
        let until = self.deadline.location();
        let reserved = self
            .core
            .repository
            .reserve(&held, &candidate, reservation, until)
            .await;
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(LocationError::Conflict { reason }) => {
                if reason != Conflict::Exists {
                    crate::directory::refresh(&self.core).await?;
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if here {
            self.create_here(&candidate, reserved).await
        } else {
            self.create_there(&candidate, &reserved, &pending).await
        }
    }

    /// RL-83: who may take it, by weight.
    async fn choose(&self) -> Result<Candidate, Error> {
        if let Some(candidate) = pick(&self.core, &self.stable_type) {
            return Ok(candidate);
        }
        crate::directory::refresh(&self.core).await?;
        pick(&self.core, &self.stable_type).ok_or_else(|| none_takes(&self.core, &self.stable_type))
    }

    fn creating(&self, candidate: &Candidate) -> Result<AuthorityPayload, Error> {
        let node = &candidate.descriptor().row.descriptor;
        let entry_spot = entry_spot_of(node)?;
        Ok(payload_of(
            node,
            ActorAuthorityIdentity {
                actor_type: self.stable_type.clone(),
                actor_id: self.id.clone(),
                state: ActorAuthorityState::Creating,
                current_spot: entry_spot,
                current_spot_kind: ActorSpotKind::Entry,
            },
        ))
    }

    async fn create_here(
        &self,
        candidate: &Candidate,
        reserved: ReservedObject,
    ) -> Result<Option<Creation>, Error> {
        let request = self.request.clone();
        let done = activate::activate(
            &self.core,
            candidate,
            reserved,
            request,
            None,
            &self.deadline,
        );
        Ok(match done.await? {
            Activated::Created { actor, reply } => Some(Creation::Created { actor, reply }),
            Activated::Rejected { reply } => Some(Creation::Rejected { reply }),
            // RL-83: another node, if there is one.
            Activated::Full(_) => None,
        })
    }

    /// RL-84, EX-156: the winner is on another node and is told by command 49.
    async fn create_there(
        &self,
        candidate: &Candidate,
        reserved: &ReservedObject,
        pending: &PendingCreation,
    ) -> Result<Option<Creation>, Error> {
        let node = &candidate.descriptor().row.descriptor;
        let row = reserved.row();
        let create = ActorCreate {
            correlation: self.core.ids.correlation(),
            operation: self.core.ids.operation(),
            source_node_rid: self.core.identity.rid.clone(),
            source_node_generation: self.core.identity.generation,
            actor_id: self.id.clone(),
            stable_type: self.stable_type.clone(),
            reservation: ObjectReservationFence {
                reservation_id: pending.reservation_id.clone(),
                expected_store_version: StoreVersion::new(reserved.version().as_str())?,
                object_generation: row.object_generation,
                authority_owner_generation: row.authority_owner_generation,
                target_node_rid: node.routing_id.clone(),
                target_node_generation: node.lifecycle_generation,
                target_owner_id: row.owner_id.clone(),
                target_owner_lease_generation: row.owner_lease_generation,
                pending_capacity_delta: PendingCapacityDelta::MIN,
            },
            deadline_unix_ms: DeadlineUnixMillis::new(self.deadline.unix().get())?,
        };
        let reply = match self.replay(&node.routing_id, create).await {
            Ok(reply) => reply,
            // The node is gone; the row says what became of it.
            Err(error) => return self.settle(row.object_generation, error).await.map(Some),
        };
        if reply.outcome.failure_code == FailureCode::WorkerQueueFull {
            // It is full, and its row is missing again: nothing was accepted (RL-237).
            crate::directory::refresh(&self.core).await?;
            return Ok(None);
        }
        let (tail, payload) = remote::tail(reply)?;
        let ReplyTail::ActorCreate(tail) = tail else {
            return Err(Error::new(
                ErrorKind::ProtocolError,
                "the reply is of another operation",
            ));
        };
        let ActorCreateTail { creation } = *tail;
        let at = |actor: spotlane_wire::reference::ActorRef| ActorRef {
            id: actor.actor_id,
            generation: actor.object_generation,
            mesh: node.mesh_name.clone(),
            node: node.routing_id.clone(),
        };
        Ok(Some(match creation {
            ActorCreateTerminal::Created { actor } => Creation::Created {
                actor: at(actor),
                reply: payload,
            },
            ActorCreateTerminal::Existing { actor } => Creation::Existing { actor: at(actor) },
            ActorCreateTerminal::Rejected {} => Creation::Rejected { reply: payload },
        }))
    }

    /// RL-89: the same operation again while its answer is lost; the loss of a connection alone does not end it. Nobody is
    /// asked any more when the node has left the directory or the time is over.
    async fn replay(&self, node: &NodeRid, mut create: ActorCreate) -> Result<Reply, Error> {
        let mut round = 0;
        loop {
            let record = Record::from(create.clone());
            let lost = match remote::exchange(&self.core, node, record, &self.deadline).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let gone = self.core.directory.node(node).is_none();
            if gone || lost.kind() != ErrorKind::Unavailable {
                return Err(lost);
            }
            resolve::pause(&self.deadline, round).await?;
            round = round.saturating_add(1);
            create.correlation = self.core.ids.correlation();
        }
    }

    async fn settle(&self, ours: ObjectGeneration, error: Error) -> Result<Creation, Error> {
        let mut round = 0;
        loop {
            let until = self.deadline.location();
            let found = self
                .core
                .repository
                .read(&actor_key(&self.id), until)
                .await?;
            match found {
                Authority::Active(active) if active.row().object_generation == ours => {
                    let name = &active.row().allocation.descriptor;
                    return Ok(Creation::Created {
                        actor: ActorRef {
                            id: self.id.clone(),
                            generation: ours,
                            mesh: name.mesh_name.clone(),
                            node: name.routing_id.clone(),
                        },
                        reply: None,
                    });
                }
                Authority::Reserved(found) if found.row().object_generation == ours => {
                    if self.core.repository.release_if_ended(&found, until).await? {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            }
            resolve::pause(&self.deadline, round).await?;
            round = round.saturating_add(1);
        }
    }
}

/// The row of an Actor that this node owns or is to own, in steady state.
pub(crate) fn payload_of(
    node: &MeshNodeDescriptor,
    actor: ActorAuthorityIdentity,
) -> AuthorityPayload {
    AuthorityPayload {
        operation_kind: AuthorityOperationKind::Steady,
        object: AuthorityObject::Actor { actor },
        owner_id: node.owner_id.clone(),
        owner_lease_generation: node.lease_generation,
        owner_mesh_name: node.mesh_name.clone(),
        owner_node_rid: node.routing_id.clone(),
        owner_node_generation: node.lifecycle_generation,
        relocation_state: None,
        activation_recovery_state: None,
    }
}

/// RL-30: the Entry Spot of a node; its incarnation is that of its node's run.
pub(crate) fn entry_spot_of(node: &MeshNodeDescriptor) -> Result<SpotRef, Error> {
    let spot_id: SpotId = node
        .entry_spot_id
        .clone()
        .ok_or_else(|| Error::unavailable(format!("node {} has no entry spot", node.routing_id)))?;
    Ok(SpotRef {
        spot_id,
        object_generation: ObjectGeneration::MIN,
    })
}

/// RL-80, RL-84: the request stands in the row that is reserved, for whoever runs the factory.
fn pending_creation(request: &[u8], here: bool) -> Result<PendingCreation, Error> {
    let id = ReservationId::new(&crate::random::uuid())?;
    // The own node has the request at hand; only what another one has to read goes into the row.
    let written = if here { &[][..] } else { request };
    PendingCreation::inline(id, written).map_err(|error| {
        Error::invalid(format!(
            "a request of {} bytes is too long for a creation on another node",
            request.len()
        ))
        .with_source(error)
    })
}

/// The request as it stands in a row: the payload envelope, or nothing.
fn encode_request(request: Option<Payload>) -> Result<bytes::Bytes, Error> {
    let Some(request) = request else {
        return Ok(bytes::Bytes::new());
    };
    let payload = request.into_wire(activate::request_name())?;
    spotlane_wire::encode(&payload).map_err(|error| {
        Error::invalid(format!("the request cannot be encoded: {error}")).with_source(error)
    })
}

/// RL-83: role, state, type and weight; a share in proportion to the weight. Capacity is judged by the reservation.
fn pick(core: &Core, stable_type: &StableType) -> Option<Candidate> {
    pick_among(core, stable_type, |_| true)
}

/// As for a creation, among the nodes that `fits` lets through.
pub(crate) fn pick_among(
    core: &Core,
    stable_type: &StableType,
    fits: impl Fn(&MeshNodeDescriptor) -> bool,
) -> Option<Candidate> {
    let nodes = core.directory.nodes();
    let connected = |rid: &NodeRid| {
        *rid == core.identity.rid || core.mesh.get().is_some_and(|mesh| mesh.link(rid).is_some())
    };
    let fitting = nodes.iter().filter_map(|node| {
        let descriptor = &node.descriptor().row.descriptor;
        let fits = takes(core, descriptor, stable_type)
            && fits(descriptor)
            && connected(&descriptor.routing_id);
        fits.then(|| (u64::from(descriptor.placement_weight.get()), node))
    });
    let fitting: Vec<(u64, &Candidate)> = fitting.collect();
    weighted(&fitting, crate::random::u64()).cloned()
}

fn takes(core: &Core, node: &MeshNodeDescriptor, stable_type: &StableType) -> bool {
    node.object_role == ObjectRole::Server
        && node.state == RuntimeState::Serving
        && node.placement_weight.get() > 0
        && full(core, node).is_none()
        && node.object_capabilities.iter().any(|found| {
            found.object_kind == StatefulObjectKind::Actor && found.stable_type == *stable_type
        })
}

/// RL-83: what a node counts of itself is a hint; of this one it is known.
pub(crate) fn full(core: &Core, node: &MeshNodeDescriptor) -> Option<Full> {
    if node.routing_id == core.identity.rid {
        return core.capacity.full();
    }
    let slots = &node.capacity.actors;
    let count = slots.active.saturating_add(slots.reserved);
    (slots.limit != 0 && count >= slots.limit).then_some(Full {
        count,
        limit: slots.limit,
    })
}

/// Why there is no candidate: nobody serves the type, or those who do have no room.
fn none_takes(core: &Core, stable_type: &StableType) -> Error {
    let nodes = core.directory.nodes();
    let full = nodes.iter().filter_map(|node| {
        let node = &node.descriptor().row.descriptor;
        full(core, node).map(|full| format!("; node {}: {full}", node.routing_id))
    });
    let full: String = full.collect();
    Error::unavailable(format!(
        "no node can take an actor of type {stable_type}{full}"
    ))
}

/// One of them, in proportion to its weight.
fn weighted<'a, T>(all: &[(u64, &'a T)], chance: u64) -> Option<&'a T> {
    let total: u64 = all.iter().map(|(weight, _)| weight).sum();
    let mut at = chance.checked_rem(total)?;
    for (weight, one) in all {
        match at.checked_sub(*weight) {
            None => return Some(one),
            Some(left) => at = left,
        }
    }
    None
}

/// Whose tenure a reserved row is.
pub(crate) fn tenure_of(reserved: &ReservedObject) -> Tenure {
    let row = reserved.row();
    let node = &row.allocation.descriptor;
    Tenure {
        object: reserved.object().clone(),
        object_generation: row.object_generation,
        node_rid: node.routing_id.clone(),
        node_generation: row.allocation.descriptor_lifecycle_generation,
        authority_owner_generation: row.authority_owner_generation,
        owner_lease_generation: row.owner_lease_generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-83, RL-312
    #[test]
    fn a_choice_is_in_proportion_to_the_weights() {
        let (a, b) = ("a", "b");
        let all = [(1, &a), (3, &b)];
        let chosen: Vec<&str> = (0..4)
            .filter_map(|at| weighted(&all, at).copied())
            .collect();
        assert_eq!(chosen, ["a", "b", "b", "b"]);
        assert_eq!(weighted::<&str>(&[], 7), None);
    }
}
