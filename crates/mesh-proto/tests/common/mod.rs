//! Values that the tests of the public interface share.

use spotlane_mesh_proto::admission::{Expected, Terms};
use spotlane_mesh_proto::link::LinkSettings;
use spotlane_mesh_proto::zmp::{Edition, Opening};
use spotlane_types::count::{
    ApplicationVersion, CapacityLimit, PendingCapacityLimit, ProbeId, Weight,
};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{Endpoint, MeshName, NodeRid, ProtocolCapability, SecurityIdentity};
use spotlane_types::kind::{ObjectRole, RuntimeState};
use spotlane_wire::descriptor::{
    Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};

pub(crate) const E1: Opening = Opening::Fixed(Edition::E1);
pub(crate) const E2: Opening = Opening::Fixed(Edition::E2);

fn descriptor(name: &str) -> RouteMeshAdmission {
    let capability = ProtocolCapability::new("framework-service-v13").unwrap();
    RouteMeshAdmission {
        mesh_name: MeshName::new("mesh").unwrap(),
        security_identity: SecurityIdentity::new("plaintext").unwrap(),
        lifecycle_generation: NodeGeneration::new(3).unwrap(),
        descriptor_revision: DescriptorRevision::new(1).unwrap(),
        advertised_endpoint: Endpoint::new(&format!("tcp://{name}:1")).unwrap(),
        channels: Channels::new(vec![]).unwrap(),
        extension: DescriptorExtension {
            runtime_state: RuntimeState::Serving,
            application_version: ApplicationVersion::new(1).unwrap(),
            protocol_capabilities: ProtocolCapabilities::new(vec![capability]).unwrap(),
            object_role: ObjectRole::Server,
            placement_weight: Weight::new(1).unwrap(),
            active_capacity_limit: CapacityLimit::new(1).unwrap(),
            pending_capacity_limit: PendingCapacityLimit::new(1).unwrap(),
            active_capacity_used: 0,
            pending_capacity_used: 0,
            spot_types: None,
            stateful_capabilities: None,
            maintenance_wave: None,
        },
    }
}

pub(crate) fn settings(name: &str, opening: Opening) -> LinkSettings {
    let terms = Terms {
        own_id: NodeRid::new(name.as_bytes()).unwrap(),
        own: descriptor(name),
        required: ProtocolCapability::new("framework-service-v13").unwrap(),
        expected: Expected::Anyone,
        authenticated: SecurityIdentity::new("plaintext").unwrap(),
    };
    let mut settings = LinkSettings::new(terms, ProbeId::new(1).unwrap());
    settings.opening = opening;
    settings
}
