//! Values for tests.

use bytes::Bytes;
use spotlane_types::count::{
    ApplicationVersion, CapacityLimit, Correlation, PendingCapacityLimit, Weight,
};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    ChannelName, ContentType, Endpoint, MeshName, NodeRid, PacketName, ProtocolCapability,
    SecurityIdentity,
};
use spotlane_types::kind::{FailureCode, ObjectRole, RuntimeState, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::message::{NodeRequest, NodeSend};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::descriptor::{
    ChannelEntry, Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};
use spotlane_wire::payload::ApplicationPayload;

use crate::zmp::{Lane, PairKey, PeerReady};

pub(crate) fn rid(text: &str) -> NodeRid {
    NodeRid::new(text.as_bytes()).unwrap()
}

pub(crate) fn capability() -> ProtocolCapability {
    ProtocolCapability::new("framework-service-v13").unwrap()
}

/// A serving node with one channel, in revision 5 of its only run.
pub(crate) fn descriptor(name: &str) -> RouteMeshAdmission {
    RouteMeshAdmission {
        mesh_name: MeshName::new("mesh").unwrap(),
        security_identity: SecurityIdentity::new("plaintext").unwrap(),
        lifecycle_generation: NodeGeneration::new(41).unwrap(),
        descriptor_revision: DescriptorRevision::new(5).unwrap(),
        advertised_endpoint: Endpoint::new(&format!("tcp://{name}:7000")).unwrap(),
        channels: Channels::new(vec![ChannelEntry {
            channel_name: ChannelName::new("lobby").unwrap(),
            weight: Weight::new(1).unwrap(),
        }])
        .unwrap(),
        extension: DescriptorExtension {
            runtime_state: RuntimeState::Serving,
            application_version: ApplicationVersion::new(1).unwrap(),
            protocol_capabilities: ProtocolCapabilities::new(vec![capability()]).unwrap(),
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
    }
}

pub(crate) fn ready(id: NodeRid, key: PairKey, lane: Lane) -> PeerReady {
    PeerReady {
        id,
        key: Some(key),
        lane,
        receive_limit: None,
    }
}

fn payload() -> ApplicationPayload {
    ApplicationPayload {
        packet_name: PacketName::new("p").unwrap(),
        content_type: ContentType::new("c").unwrap(),
        payload: PayloadBytes::new(Bytes::from_static(b"hi")).unwrap(),
    }
}

pub(crate) fn node_send() -> Record {
    NodeSend {
        metadata: None,
        payload: payload(),
    }
    .into()
}

pub(crate) fn node_request(correlation: u64) -> Record {
    NodeRequest {
        correlation: Correlation::new(correlation).unwrap(),
        metadata: None,
        payload: payload(),
    }
    .into()
}

pub(crate) fn reply(correlation: u64) -> Record {
    Reply {
        correlation: Correlation::new(correlation).unwrap(),
        outcome: ReplyOutcome {
            terminal_result: TerminalResult::Ok,
            failure_code: FailureCode::None,
            tail: ReplyTail::None,
        },
        payload: Some(payload()),
    }
    .into()
}
