//! Values for tests.

use spotlane_types::count::{ApplicationVersion, CapacityLimit, PendingCapacityLimit, Weight};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    ChannelName, Endpoint, MeshName, NodeRid, ProtocolCapability, SecurityIdentity,
};
use spotlane_types::kind::{ObjectRole, RuntimeState};
use spotlane_wire::descriptor::{
    ChannelEntry, Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};

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
        key,
        lane,
        receive_limit: None,
    }
}
