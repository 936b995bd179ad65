//! What the benches of the mesh have in common: a node, and records with a payload.
#![expect(dead_code, reason = "each bench uses a part")]

use bytes::Bytes;
use spotlane_mesh::NodeIdentity;
use spotlane_types::count::{
    ApplicationVersion, CapacityLimit, Correlation, PendingCapacityLimit, Weight,
};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    ContentType, Endpoint, MeshName, NodeRid, PacketName, ProtocolCapability, SecurityIdentity,
};
use spotlane_types::kind::{FailureCode, ObjectRole, RuntimeState, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::message::{NodeRequest, NodeSend};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::descriptor::{
    Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};
use spotlane_wire::payload::ApplicationPayload;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn identity(name: &str) -> NodeIdentity {
    let capability = ProtocolCapability::new("framework-service-v13").unwrap();
    NodeIdentity {
        rid: NodeRid::new(name.as_bytes()).unwrap(),
        descriptor: RouteMeshAdmission {
            mesh_name: MeshName::new("bench").unwrap(),
            security_identity: SecurityIdentity::new("plaintext").unwrap(),
            lifecycle_generation: NodeGeneration::new(7).unwrap(),
            descriptor_revision: DescriptorRevision::new(1).unwrap(),
            advertised_endpoint: Endpoint::new("tcp://127.0.0.1:1").unwrap(),
            channels: Channels::new(vec![]).unwrap(),
            extension: DescriptorExtension {
                runtime_state: RuntimeState::Serving,
                application_version: ApplicationVersion::new(1).unwrap(),
                protocol_capabilities: ProtocolCapabilities::new(vec![capability]).unwrap(),
                object_role: ObjectRole::Server,
                placement_weight: Weight::new(1).unwrap(),
                active_capacity_limit: CapacityLimit::new(10).unwrap(),
                pending_capacity_limit: PendingCapacityLimit::new(10).unwrap(),
                active_capacity_used: 0,
                pending_capacity_used: 0,
                spot_types: None,
                stateful_capabilities: None,
                maintenance_wave: None,
            },
        },
    }
}

/// What a message carries.
#[derive(Clone)]
pub(crate) struct Load(pub(crate) ApplicationPayload);

impl Load {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(ApplicationPayload {
            packet_name: PacketName::new("p").unwrap(),
            content_type: ContentType::new("c").unwrap(),
            payload: PayloadBytes::new(bytes).unwrap(),
        })
    }

    pub(crate) fn send(&self) -> Record {
        NodeSend {
            metadata: None,
            payload: self.0.clone(),
        }
        .into()
    }

    pub(crate) fn request(&self, correlation: u64) -> Record {
        NodeRequest {
            correlation: Correlation::new(correlation).unwrap(),
            metadata: None,
            payload: self.0.clone(),
        }
        .into()
    }

    pub(crate) fn reply(&self, correlation: Correlation) -> Reply {
        answer(correlation, self.0.clone())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.payload.as_bytes()
    }
}

/// A reply with a payload.
pub(crate) fn answer(correlation: Correlation, payload: ApplicationPayload) -> Reply {
    Reply {
        correlation,
        outcome: ReplyOutcome {
            terminal_result: TerminalResult::Ok,
            failure_code: FailureCode::None,
            tail: ReplyTail::None,
        },
        payload: Some(payload),
    }
}
