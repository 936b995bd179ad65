//! The names of everybody in a world, made once.

mod session;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use spotlane_location::cache::Route;
use spotlane_location::lease::LiveLease;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::ReplyRouteId;
use spotlane_types::generation::{NodeGeneration, ObjectGeneration};
use spotlane_types::id::{
    ActorId, HandlerType, MeshName, NodeRid, OperationId, OwnerId, SpotId, StableType, TimerName,
};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRef, ActorRouteFence, SpotRef};

use crate::network::HostIndex;
use crate::observation::{ActorIndex, Kind, MessageId};
use crate::plan::Plan;

pub use session::{Ended, Sender, disconnected_of, push_of, session_of, session_rid, tail_of};

/// The first word of the operation of a message; its second word is the number of the message.
const MESSAGE: u64 = 1;

/// The names of hosts, Actors and types.
#[derive(Clone, Debug)]
pub struct Cast {
    actors: Vec<ActorId>,
    nodes: Vec<NodeRid>,
    owners: Vec<OwnerId>,
    entries: Vec<SpotId>,
    /// The one mesh.
    pub mesh: MeshName,
    /// The type of every Actor.
    pub actor_type: StableType,
    /// The run of every node: processes of a world do not come back.
    pub run: NodeGeneration,
    /// The timer of every Actor that has one.
    pub timer: TimerName,
    /// Its handler.
    pub timer_handler: HandlerType,
    payload: ApplicationPayload,
}

impl Cast {
    /// Names everybody in a plan.
    ///
    /// # Errors
    /// A name breaks its bounds: a defect of this file.
    pub fn of(plan: &Plan) -> Result<Arc<Self>> {
        let hosts = 0..plan.hosts;
        Ok(Arc::new(Self {
            actors: (0..plan.actors.len())
                .map(|place| ActorId::new(&format!("actor-{place}")))
                .collect::<Result<_, _>>()?,
            nodes: hosts
                .clone()
                .map(|place| NodeRid::new(format!("node-{place}").as_bytes()))
                .collect::<Result<_, _>>()?,
            owners: hosts
                .clone()
                .map(|place| OwnerId::new(&format!("owner-{place}")))
                .collect::<Result<_, _>>()?,
            entries: hosts
                .map(|place| SpotId::new(&format!("entry-{place}")))
                .collect::<Result<_, _>>()?,
            mesh: MeshName::new("main")?,
            actor_type: StableType::new("counter")?,
            run: NodeGeneration::new(1)?,
            timer: TimerName::new("tick")?,
            timer_handler: HandlerType::new("tick")?,
            payload: ApplicationPayload {
                packet_name: "note".parse()?,
                content_type: "text/plain".parse()?,
                payload: PayloadBytes::new(Bytes::from_static(b"n"))?,
            },
        }))
    }

    /// The id of an Actor.
    ///
    /// # Errors
    /// There is no such Actor.
    pub fn actor(&self, actor: ActorIndex) -> Result<&ActorId> {
        self.actors.get(actor.0).context("an Actor of this world")
    }

    /// The Actor with this id.
    pub fn actor_of(&self, id: &ActorId) -> Option<ActorIndex> {
        self.actors.iter().position(|one| one == id).map(ActorIndex)
    }

    /// The authority key of an Actor.
    ///
    /// # Errors
    /// There is no such Actor.
    pub fn key(&self, actor: ActorIndex) -> Result<AuthorityKey> {
        Ok(AuthorityKey::Actor(self.actor(actor)?.clone()))
    }

    /// The node of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn node(&self, host: HostIndex) -> Result<&NodeRid> {
        self.nodes.get(host.0).context("a host of this world")
    }

    /// The host of a node.
    pub fn host_of(&self, node: &NodeRid) -> Option<HostIndex> {
        self.nodes.iter().position(|one| one == node).map(HostIndex)
    }

    /// The owner id of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn owner(&self, host: HostIndex) -> Result<&OwnerId> {
        self.owners.get(host.0).context("a host of this world")
    }

    /// The Entry Spot of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn entry(&self, host: HostIndex) -> Result<SpotRef> {
        let spot_id = self.entries.get(host.0).context("a host of this world")?;
        Ok(SpotRef {
            spot_id: spot_id.clone(),
            object_generation: ObjectGeneration::new(1)?,
        })
    }

    /// A message as it stands in a queue and in a relocation stream.
    ///
    /// # Errors
    /// A number is outside its range: a defect of this file.
    pub fn record(
        &self,
        from: HostIndex,
        lease: &LiveLease,
        message: MessageId,
        kind: Kind,
        route: &Route,
    ) -> Result<FrozenRecord> {
        let AuthorityKey::Actor(actor_id) = &route.tenure.object else {
            anyhow::bail!("messages go to Actors");
        };
        let target_actor = ActorRouteFence {
            actor: ActorRef {
                actor_id: actor_id.clone(),
                object_generation: route.tenure.object_generation,
            },
            target_node_rid: route.tenure.node_rid.clone(),
            target_node_generation: route.tenure.node_generation,
            expected_authority_owner_generation: route.tenure.authority_owner_generation,
            expected_owner_lease_generation: route.tenure.owner_lease_generation,
        };
        let payload = self.payload.clone();
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
            source: FrozenSource::Node {
                source_node_rid: self.node(from)?.clone(),
                source_node_generation: self.run,
                source_owner_id: lease.owner().clone(),
                source_owner_lease_generation: lease.generation(),
            },
            metadata: None,
            operation_id: Some(OperationId::new(MESSAGE, message.0)?),
            operation_kind,
            reply_route,
            body,
        })
    }

    /// The host that sent a record.
    pub fn sender_of(&self, source: &FrozenSource) -> Option<HostIndex> {
        match source {
            FrozenSource::Node {
                source_node_rid, ..
            }
            | FrozenSource::Spot {
                source_node_rid, ..
            }
            | FrozenSource::Actor {
                source_node_rid, ..
            }
            | FrozenSource::BoundSession {
                source_node_rid, ..
            } => self.host_of(source_node_rid),
        }
    }
}

/// The message in a record.
pub fn message_of(record: &FrozenRecord) -> Option<MessageId> {
    let operation = record.operation_id?;
    (operation.high() == MESSAGE).then(|| MessageId(operation.low()))
}

/// Whether the message in a record wants an answer.
pub fn kind_of(record: &FrozenRecord) -> Kind {
    match record.reply_route {
        Some(_) => Kind::Request,
        None => Kind::Send,
    }
}

/// The Actor and the tenure that a record is addressed to.
pub fn address_of(record: &FrozenRecord) -> Option<&ActorRouteFence> {
    match &record.body {
        FrozenRecordBody::ActorSend { target_actor, .. }
        | FrozenRecordBody::ActorRequest { target_actor, .. } => Some(target_actor),
        _ => None,
    }
}
