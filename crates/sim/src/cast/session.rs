//! Names and records of sessions.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use spotlane_session::{BindingIdentity, Peer, SessionIdentity, SessionOwner};
use spotlane_types::count::ReplyRouteId;
use spotlane_types::generation::{BindingGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{OperationId, SessionRid, SpotId};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::frozen::{
    ActorControlData, ActorMembershipSnapshot, FrozenRecord, FrozenRecordBody, FrozenSource,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRef, ActorRouteFence, SpotMembership};

use super::Cast;
use crate::network::HostIndex;
use crate::observation::{BindingNumber, Kind, MessageId, PushId, SessionIndex};

/// A binding that has ended, as its callback carries it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// The binding.
    pub binding: BindingNumber,
    /// The same as the machines name it.
    pub identity: BindingIdentity,
    /// Its session.
    pub session_rid: SessionRid,
}

/// Where records of one session come from.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Sender<'a> {
    /// The session owner.
    pub owner: &'a SessionOwner,
    /// The session and its binding.
    pub tail: BoundSessionTail,
    /// The Actor.
    pub actor: &'a ActorRef,
}

impl Cast {
    /// A host in its run, as its peers know it.
    ///
    /// # Errors
    /// There is no such host.
    pub fn peer(&self, host: HostIndex) -> Result<Peer> {
        Ok(Peer {
            node_rid: self.node(host)?.clone(),
            node_generation: self.run,
        })
    }

    /// A host as session owner.
    ///
    /// # Errors
    /// There is no such host.
    pub fn session_owner(
        &self,
        host: HostIndex,
        lease: OwnerLeaseGeneration,
    ) -> Result<SessionOwner> {
        Ok(SessionOwner {
            node_rid: self.node(host)?.clone(),
            node_generation: self.run,
            owner_id: self.owner(host)?.clone(),
            owner_lease_generation: lease,
        })
    }

    /// A binding of a host.
    pub fn binding(&self, host: HostIndex, generation: BindingGeneration) -> BindingNumber {
        BindingNumber::new(host, generation.get())
    }

    /// The binding with this identity.
    pub fn binding_of(&self, identity: &BindingIdentity) -> Option<BindingNumber> {
        let owner = self.host_of(&identity.owner_rid)?;
        Some(self.binding(owner, identity.generation))
    }

    /// A message that a session relays, as it stands in a queue and in a relocation stream.
    ///
    /// # Errors
    /// A number is outside its range: a defect of this file.
    pub fn relayed(
        &self,
        from: Sender<'_>,
        target: ActorRouteFence,
        message: MessageId,
        kind: Kind,
    ) -> Result<FrozenRecord> {
        let payload = self.payload.clone();
        let target_actor = target;
        let (operation_kind, reply_route, body) = match kind {
            Kind::Send => (
                MeshOperationKind::None,
                None,
                FrozenRecordBody::ActorSend {
                    target_actor,
                    payload,
                },
            ),
            Kind::Request => (
                MeshOperationKind::ActorRequest,
                Some(ReplyRouteId::new(message.0)?),
                FrozenRecordBody::ActorRequest {
                    target_actor,
                    payload,
                },
            ),
        };
        Ok(FrozenRecord {
            source: source(from),
            metadata: None,
            operation_id: Some(OperationId::new(super::MESSAGE, message.0)?),
            operation_kind,
            reply_route,
            body,
        })
    }

    /// The callback of a binding that has ended, as work of the Actor (SB-61, SB-65).
    ///
    /// # Errors
    /// A number is outside its range: a defect of this file.
    pub fn disconnected(
        &self,
        session: &SessionIdentity,
        binding: BindingNumber,
        actor: &ActorRef,
        at: HostIndex,
    ) -> Result<FrozenRecord> {
        // The record names the Actor and its Spot and nothing else, so the name of the Spot says whose callback it is.
        let mut spot = self.entry(at)?;
        let SessionIndex(number) = session_of(&session.session_rid).context("a session")?;
        let name = format!("{}/{number}/{}", spot.spot_id.as_str(), binding.get());
        spot.spot_id = SpotId::new(&name)?;
        let membership = SpotMembership { spot };
        let current = ActorMembershipSnapshot {
            actor: actor.clone(),
            membership,
        };
        Ok(FrozenRecord {
            source: FrozenSource::Node {
                source_node_rid: session.owner.node_rid.clone(),
                source_node_generation: session.owner.node_generation,
                source_owner_id: session.owner.owner_id.clone(),
                source_owner_lease_generation: session.owner.owner_lease_generation,
            },
            metadata: None,
            operation_id: None,
            operation_kind: MeshOperationKind::None,
            reply_route: None,
            body: FrozenRecordBody::SpotControl {
                control: Box::new(ActorControlData::Disconnected { current }),
            },
        })
    }

    /// The binding whose disconnect callback a record is.
    ///
    /// # Errors
    /// It is of another world.
    pub fn ended(&self, record: &FrozenRecord) -> Result<Option<Ended>> {
        let Some((session, binding)) = ended_in(record) else {
            return Ok(None);
        };
        let identity = BindingIdentity {
            owner_rid: self.node(binding.owner())?.clone(),
            lifecycle: self.run,
            generation: BindingGeneration::new(binding.count())?,
        };
        let session_rid = session_rid(session)?;
        Ok(Some(Ended {
            binding,
            identity,
            session_rid,
        }))
    }

    /// What every message carries.
    pub fn note(&self) -> ApplicationPayload {
        self.payload.clone()
    }

    /// What an Actor pushes.
    ///
    /// # Errors
    /// A text breaks its bounds: a defect of this file.
    pub fn push(&self, push: PushId) -> Result<ApplicationPayload> {
        let bytes = Bytes::copy_from_slice(&push.0.to_be_bytes());
        Ok(ApplicationPayload {
            packet_name: "told".parse()?,
            content_type: "application/octet-stream".parse()?,
            payload: PayloadBytes::new(bytes)?,
        })
    }
}

fn source(from: Sender<'_>) -> FrozenSource {
    FrozenSource::BoundSession {
        source_node_rid: from.owner.node_rid.clone(),
        source_node_generation: from.owner.node_generation,
        source_owner_id: from.owner.owner_id.clone(),
        source_owner_lease_generation: from.owner.owner_lease_generation,
        source_actor: from.actor.clone(),
        source_session_rid: from.tail.source_session_rid,
        source_binding_generation: from.tail.source_binding_generation,
        source_session_sequence: from.tail.source_session_sequence,
    }
}

/// The id of a session on records.
///
/// # Errors
/// Never: eight bytes are an id.
pub fn session_rid(session: SessionIndex) -> Result<SessionRid> {
    Ok(SessionRid::new(&session.0.to_be_bytes())?)
}

/// The session with an id.
pub fn session_of(rid: &SessionRid) -> Option<SessionIndex> {
    let bytes: [u8; 8] = rid.as_bytes().try_into().ok()?;
    Some(SessionIndex(u64::from_be_bytes(bytes)))
}

/// The number in a push.
///
/// # Errors
/// It is no push of a world.
pub fn push_of(payload: &ApplicationPayload) -> Result<PushId> {
    let bytes: [u8; 8] = payload.payload.as_bytes()[..]
        .try_into()
        .context("the number of a push")?;
    Ok(PushId(u64::from_be_bytes(bytes)))
}

/// The binding whose disconnect callback a record is.
pub fn disconnected_of(record: &FrozenRecord) -> Option<BindingNumber> {
    ended_in(record).map(|(_, binding)| binding)
}

fn ended_in(record: &FrozenRecord) -> Option<(SessionIndex, BindingNumber)> {
    let FrozenRecordBody::SpotControl { control } = &record.body else {
        return None;
    };
    let ActorControlData::Disconnected { current } = &**control else {
        return None;
    };
    let name = current.membership.spot.spot_id.as_str();
    let mut parts = name.rsplit('/').map(str::parse);
    let (Some(Ok(binding)), Some(Ok(session))) = (parts.next(), parts.next()) else {
        return None;
    };
    Some((SessionIndex(session), BindingNumber::from_number(binding)))
}

/// The session, binding and place of a relayed message, and who sent it.
pub fn tail_of(record: &FrozenRecord) -> Option<(Peer, BoundSessionTail)> {
    let FrozenSource::BoundSession {
        source_node_rid,
        source_node_generation,
        source_session_rid,
        source_binding_generation,
        source_session_sequence,
        ..
    } = &record.source
    else {
        return None;
    };
    let peer = Peer {
        node_rid: source_node_rid.clone(),
        node_generation: *source_node_generation,
    };
    let tail = BoundSessionTail {
        source_session_rid: source_session_rid.clone(),
        source_binding_generation: *source_binding_generation,
        source_session_sequence: *source_session_sequence,
    };
    Some((peer, tail))
}
