//! What the framework itself adds to saved work: the binding of an Actor and its Join (RL-357, RL-360).
//!
//! Neither command 40 nor the envelope has a field for them, so they travel as the first records of
//! their participant. The target takes them out again while it stages: they are neither queued nor
//! delivered nor counted.

use bytes::Bytes;
use spotlane_types::ValueError;
use spotlane_types::id::{OperationId, RelocationId};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::blob::{BlobError, PayloadBytes};
use spotlane_wire::frozen::{
    ActorControlData, ActorMembershipSnapshot, FrozenRecord, FrozenRecordBody, FrozenSource,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRef, SpotMembership};
use thiserror::Error;

use crate::unit::{Binding, SessionOwner};

/// The packet name of the record that carries a binding.
const BOUND_SESSION: &str = "$zlink.bound-session";
/// Its content type.
const OCTETS: &str = "application/octet-stream";

/// A record of ours that cannot be built: a defect, because the contract fixes all its parts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A name or id of the contract is refused.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The empty payload is refused.
    #[error(transparent)]
    Payload(#[from] BlobError),
}

/// The record that carries a binding; it comes first in the saved work of its participant (RL-357).
///
/// # Errors
/// A defect of ours; no binding causes one.
pub fn binding_record(
    relocation: RelocationId,
    binding: &Binding,
) -> Result<FrozenRecord, RecordError> {
    let owner = binding.session_owner.clone();
    Ok(FrozenRecord {
        source: FrozenSource::BoundSession {
            source_node_rid: owner.node_rid,
            source_node_generation: owner.node_generation,
            source_owner_id: owner.owner_id,
            source_owner_lease_generation: owner.owner_lease_generation,
            source_actor: binding.actor.actor.clone(),
            source_session_rid: binding.session_rid.clone(),
            source_binding_generation: binding.binding_generation,
            source_session_sequence: binding.next_sequence,
        },
        metadata: None,
        operation_id: Some(OperationId::new(relocation.high(), relocation.low())?),
        operation_kind: MeshOperationKind::None,
        reply_route: None,
        body: FrozenRecordBody::ActorSend {
            target_actor: binding.actor.clone(),
            payload: ApplicationPayload {
                packet_name: BOUND_SESSION.parse()?,
                content_type: OCTETS.parse()?,
                payload: PayloadBytes::new(Bytes::new())?,
            },
        },
    })
}

/// The binding in a record; `None` when the record is ordinary work.
pub(crate) fn binding_of(relocation: RelocationId, record: &FrozenRecord) -> Option<Binding> {
    let FrozenRecordBody::ActorSend {
        target_actor,
        payload,
    } = &record.body
    else {
        return None;
    };
    let operation = record.operation_id?;
    let ours = (operation.high(), operation.low()) == (relocation.high(), relocation.low());
    if !ours || payload.packet_name.as_str() != BOUND_SESSION {
        return None;
    }
    let FrozenSource::BoundSession {
        source_node_rid,
        source_node_generation,
        source_owner_id,
        source_owner_lease_generation,
        source_actor: _,
        source_session_rid,
        source_binding_generation,
        source_session_sequence,
    } = &record.source
    else {
        return None;
    };
    Some(Binding {
        actor: target_actor.clone(),
        session_owner: SessionOwner {
            node_rid: source_node_rid.clone(),
            node_generation: *source_node_generation,
            owner_id: source_owner_id.clone(),
            owner_lease_generation: *source_owner_lease_generation,
        },
        session_rid: source_session_rid.clone(),
        binding_generation: *source_binding_generation,
        next_sequence: *source_session_sequence,
    })
}

/// A Join to another node: what tells it from a move of its host (RL-360).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts of RL-360")]
pub struct JoinData {
    /// The Actor.
    pub actor: ActorRef,
    /// Where it was a member.
    pub previous: Option<SpotMembership>,
    /// Where it is one after the commit.
    pub current: SpotMembership,
    /// The Join.
    pub operation: OperationId,
}

/// The record that carries a Join; it comes right behind that of the binding. Its source is a node.
pub fn join_record(source: FrozenSource, join: &JoinData) -> FrozenRecord {
    let snapshot = |membership: &SpotMembership| ActorMembershipSnapshot {
        actor: join.actor.clone(),
        membership: membership.clone(),
    };
    FrozenRecord {
        source,
        metadata: None,
        operation_id: Some(join.operation),
        operation_kind: MeshOperationKind::ActorJoin,
        reply_route: None,
        body: FrozenRecordBody::SpotControl {
            control: Box::new(ActorControlData::Joined {
                previous: join.previous.as_ref().map(snapshot),
                current: snapshot(&join.current),
            }),
        },
    }
}

/// The Join in a record; `None` when the record is ordinary work.
pub(crate) fn join_of(record: &FrozenRecord) -> Option<JoinData> {
    if record.operation_kind != MeshOperationKind::ActorJoin {
        return None;
    }
    let FrozenRecordBody::SpotControl { control } = &record.body else {
        return None;
    };
    let ActorControlData::Joined { previous, current } = &**control else {
        return None;
    };
    Some(JoinData {
        actor: current.actor.clone(),
        previous: previous
            .as_ref()
            .map(|snapshot| snapshot.membership.clone()),
        current: current.membership.clone(),
        operation: record.operation_id?,
    })
}

/// The record of a disconnect callback that has not run: it comes in the order of the work that it was accepted with
/// (SB-65). Its source is a node.
pub fn disconnected_record(
    source: FrozenSource,
    actor: ActorRef,
    membership: SpotMembership,
) -> FrozenRecord {
    FrozenRecord {
        source,
        metadata: None,
        operation_id: None,
        operation_kind: MeshOperationKind::None,
        reply_route: None,
        body: FrozenRecordBody::SpotControl {
            control: Box::new(ActorControlData::Disconnected {
                current: ActorMembershipSnapshot { actor, membership },
            }),
        },
    }
}

/// Whether a record is that of a disconnect callback.
pub fn is_disconnected(record: &FrozenRecord) -> bool {
    let FrozenRecordBody::SpotControl { control } = &record.body else {
        return false;
    };
    matches!(**control, ActorControlData::Disconnected { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::sample::{binding, identity, note};

    /// RL-357
    #[test]
    fn a_binding_survives_as_a_record_of_its_own() {
        let relocation = identity(1).relocation;
        let record = binding_record(relocation, &binding(7)).unwrap();
        let bytes = spotlane_wire::encode(&record).unwrap();
        let read: FrozenRecord = spotlane_wire::decode(&bytes).unwrap();
        assert_eq!(binding_of(relocation, &read), Some(binding(7)));
    }

    /// SB-65, WR-30
    #[test]
    fn a_disconnect_travels_as_lifecycle_work() {
        let binding = binding_record(identity(1).relocation, &binding(7)).unwrap();
        let FrozenRecordBody::ActorSend { target_actor, .. } = binding.body else {
            panic!("a binding is carried by a send");
        };
        let source = note("hello").source;
        let spot = spotlane_wire::reference::SpotRef {
            spot_id: "entry".parse().unwrap(),
            object_generation: spotlane_types::generation::ObjectGeneration::MIN,
        };
        let record = disconnected_record(source, target_actor.actor, SpotMembership { spot });
        let bytes = spotlane_wire::encode(&record).unwrap();
        let read: FrozenRecord = spotlane_wire::decode(&bytes).unwrap();
        assert!(is_disconnected(&read) && join_of(&read).is_none());
        assert!(!is_disconnected(&note("hello")));
    }

    /// RL-357
    #[test]
    fn ordinary_work_and_the_record_of_another_move_carry_no_binding() {
        let relocation = identity(1).relocation;
        assert_eq!(binding_of(relocation, &note("hello")), None);
        let foreign = binding_record(identity(2).relocation, &binding(7)).unwrap();
        assert_eq!(binding_of(relocation, &foreign), None);
    }
}
