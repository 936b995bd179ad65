//! The binding on its way to the target of a move (RL-357), and the route update from there (SB-81).

use bytes::Bytes;
use spotlane_types::count::SessionSequence;
use spotlane_types::generation::{AuthorityOwnerGeneration, BindingGeneration};
use spotlane_types::id::{OperationId, RelocationId};
use spotlane_types::kind::{MeshOperationKind, RelocationRole};
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::session::SessionRelocationRoute;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRouteFence, RelocationCoordinatorFence, SessionRouteUpdate};
use thiserror::Error;

use super::{ActorBinding, Registered, Stage, Tenure};
use crate::bound::{BOUND_SESSION_CONTENT, BOUND_SESSION_PACKET};
use crate::identity::{BindingIdentity, Peer, SessionIdentity, SessionOwner};

/// A binding as it travels: the first saved record of a bound Actor (RL-357).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedBinding {
    session: SessionIdentity,
    generation: BindingGeneration,
    next_sequence: SessionSequence,
    source: ActorRouteFence,
}

/// A record that claims to carry a binding and cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CarryError {
    /// Another Actor than the one it was saved with.
    #[error("the binding record names another actor than the one it was saved with")]
    OtherActor,
    /// It carries what a binding record has not.
    #[error("the binding record has metadata, a payload or another operation than its move")]
    Malformed,
}

pub(super) fn empty_payload(packet: &str) -> Option<ApplicationPayload> {
    Some(ApplicationPayload {
        packet_name: packet.parse().ok()?,
        content_type: BOUND_SESSION_CONTENT.parse().ok()?,
        payload: PayloadBytes::new(Bytes::new()).ok()?,
    })
}

impl ActorBinding {
    /// The record that carries the binding, to be put in front of the Actor's saved work.
    ///
    /// `None` when nobody is bound, or its binding is ending.
    pub fn carry(&self, relocation: RelocationId) -> Option<FrozenRecord> {
        let registered = self.registered.as_ref()?;
        match registered.stage {
            Stage::Bound => {}
            Stage::Leaving(_) => return None,
        }
        let SessionIdentity { owner, session_rid } = &registered.session;
        let sequence = SessionSequence::new(registered.next_sequence);
        Some(FrozenRecord {
            source: FrozenSource::BoundSession {
                source_node_rid: owner.node_rid.clone(),
                source_node_generation: owner.node_generation,
                source_owner_id: owner.owner_id.clone(),
                source_owner_lease_generation: owner.owner_lease_generation,
                source_actor: self.tenure.actor.clone(),
                source_session_rid: session_rid.clone(),
                source_binding_generation: registered.generation,
                source_session_sequence: sequence.unwrap_or(SessionSequence::MAX),
            },
            metadata: None,
            operation_id: OperationId::new(relocation.high(), relocation.low()).ok(),
            operation_kind: MeshOperationKind::None,
            reply_route: None,
            body: FrozenRecordBody::ActorSend {
                target_actor: self.tenure.fence(),
                payload: empty_payload(BOUND_SESSION_PACKET)?,
            },
        })
    }

    /// The Actor at the target of a move, with the binding that came with it.
    #[must_use]
    pub fn at_target(tenure: Tenure, carried: Option<CarriedBinding>) -> Self {
        let mut binding = Self::new(tenure);
        binding.registered = carried.map(|carried| Registered {
            session: carried.session,
            generation: carried.generation,
            next_sequence: carried.next_sequence.get(),
            stage: Stage::Bound,
        });
        binding
    }
}

impl CarriedBinding {
    /// Reads a saved record; `None` when it is ordinary work.
    ///
    /// # Errors
    /// It is a binding record and breaks RL-357: the move cannot be accepted.
    pub fn of_record(
        record: &FrozenRecord,
        relocation: RelocationId,
    ) -> Option<Result<Self, CarryError>> {
        let FrozenRecordBody::ActorSend {
            target_actor,
            payload,
        } = &record.body
        else {
            return None;
        };
        if payload.packet_name.as_bytes() != BOUND_SESSION_PACKET.as_bytes() {
            return None;
        }
        let operation = OperationId::new(relocation.high(), relocation.low()).ok();
        if record.operation_id != operation
            || record.metadata.is_some()
            || !payload.payload.as_bytes().is_empty()
        {
            return Some(Err(CarryError::Malformed));
        }
        Some(Self::of_source(&record.source, target_actor))
    }

    fn of_source(source: &FrozenSource, target: &ActorRouteFence) -> Result<Self, CarryError> {
        let FrozenSource::BoundSession {
            source_node_rid,
            source_node_generation,
            source_owner_id,
            source_owner_lease_generation,
            source_actor,
            source_session_rid,
            source_binding_generation,
            source_session_sequence,
        } = source
        else {
            return Err(CarryError::Malformed);
        };
        if *source_actor != target.actor {
            return Err(CarryError::OtherActor);
        }
        Ok(Self {
            session: SessionIdentity {
                owner: SessionOwner {
                    node_rid: source_node_rid.clone(),
                    node_generation: *source_node_generation,
                    owner_id: source_owner_id.clone(),
                    owner_lease_generation: *source_owner_lease_generation,
                },
                session_rid: source_session_rid.clone(),
            },
            generation: *source_binding_generation,
            next_sequence: *source_session_sequence,
            source: target.clone(),
        })
    }

    /// A binding that was read elsewhere.
    pub const fn new(
        session: SessionIdentity,
        generation: BindingGeneration,
        next_sequence: SessionSequence,
        source: ActorRouteFence,
    ) -> Self {
        Self {
            session,
            generation,
            next_sequence,
            source,
        }
    }

    /// The number of the binding.
    pub const fn generation(&self) -> BindingGeneration {
        self.generation
    }

    /// The identity of the binding.
    #[must_use]
    pub fn identity(&self) -> BindingIdentity {
        BindingIdentity {
            owner_rid: self.session.owner.node_rid.clone(),
            lifecycle: self.session.owner.node_generation,
            generation: self.generation,
        }
    }

    /// The next message that is expected of the session.
    pub const fn next_sequence(&self) -> SessionSequence {
        self.next_sequence
    }

    /// The session.
    pub const fn session(&self) -> &SessionIdentity {
        &self.session
    }

    /// The tenure that the Actor leaves.
    pub const fn source(&self) -> &ActorRouteFence {
        &self.source
    }

    /// Command 44 with a commit: to be sent once, when the owner change is confirmed and dispatch at the
    /// target is open (SB-81).
    pub fn commit(
        &self,
        relocation: RelocationId,
        coordinator: RelocationCoordinatorFence,
        target: &Tenure,
    ) -> (Peer, SessionRelocationRoute) {
        let owner = &self.session.owner;
        let previous: AuthorityOwnerGeneration = self.source.expected_authority_owner_generation;
        let to = Peer {
            node_rid: owner.node_rid.clone(),
            node_generation: owner.node_generation,
        };
        let update = SessionRelocationRoute {
            relocation,
            coordinator,
            sender_role: RelocationRole::Target,
            actor: target.actor.clone(),
            session_owner_node_rid: owner.node_rid.clone(),
            session_owner_node_generation: owner.node_generation,
            session_owner_id: owner.owner_id.clone(),
            session_owner_lease_generation: owner.owner_lease_generation,
            session_rid: self.session.session_rid.clone(),
            binding_generation: self.generation,
            route: SessionRouteUpdate::Commit {
                previous_authority_owner_generation: previous,
                target_authority_owner_generation: target.authority_owner_generation,
                target_node_rid: target.node_rid.clone(),
                target_node_generation: target.node_generation,
                target_owner_lease_generation: target.owner_lease_generation,
            },
        };
        (to, update)
    }
}
