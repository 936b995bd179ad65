//! Whom a node wants to be connected to.

use spotlane_mesh_proto::admission::Expected;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{Endpoint, NodeRid, SecurityIdentity};
use spotlane_types::kind::ObjectRole;
use spotlane_wire::descriptor::RouteMeshAdmission;

use crate::config::parse_endpoint;
use crate::error::ConfigError;

/// A node as the directory shows it (TR-78).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct DiscoveredNode {
    /// Its id.
    pub node: NodeRid,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its run.
    pub generation: NodeGeneration,
    /// Its identity to the security layer.
    pub security_identity: SecurityIdentity,
    /// Whether it hosts objects.
    pub object_role: ObjectRole,
    /// How many channels it serves.
    pub server_channels: usize,
}

impl DiscoveredNode {
    /// TR-73: two object clients without a server channel have nothing to say to each other.
    pub(crate) fn is_needed_by(&self, own: &RouteMeshAdmission) -> bool {
        let client = |role, channels| role == ObjectRole::Client && channels == 0;
        let own_role = own.extension.object_role;
        !(client(own_role, own.channels.as_slice().len())
            && client(self.object_role, self.server_channels))
    }
}

/// A wish to be connected to one endpoint; the mesh dials it until the wish is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIntent {
    pub(crate) endpoint: Endpoint,
    pub(crate) origin: Origin,
}

/// Where an intent comes from, with what it knows of the peer (TR-78).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration: dialled by whoever has it.
    Manual { expected: Option<NodeRid> },
    /// The directory: dialled by the node with the smaller id alone (TR-36).
    Discovered(Box<DiscoveredNode>),
}

impl PeerIntent {
    /// An intent of the configuration. Without an expected id the peer may be anyone (TR-78).
    ///
    /// # Errors
    /// The endpoint is not of the form `tcp://host:port` or `tls://host:port` (TR-62).
    pub fn manual(endpoint: &str, expected: Option<NodeRid>) -> Result<Self, ConfigError> {
        Ok(Self {
            endpoint: parse_endpoint(endpoint)?.0,
            origin: Origin::Manual { expected },
        })
    }

    /// An intent of the directory: the node must be exactly the one that is shown there.
    pub fn discovered(node: DiscoveredNode) -> Self {
        Self {
            endpoint: node.endpoint.clone(),
            origin: Origin::Discovered(Box::new(node)),
        }
    }

    /// Where the peer listens.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The node, if the intent names it.
    pub(crate) fn node(&self) -> Option<&NodeRid> {
        match &self.origin {
            Origin::Manual { expected } => expected.as_ref(),
            Origin::Discovered(it) => Some(&it.node),
        }
    }

    pub(crate) fn expected(&self) -> Expected {
        match &self.origin {
            Origin::Manual { expected: None } => Expected::Anyone,
            Origin::Manual {
                expected: Some(node),
            } => Expected::Node(node.clone()),
            Origin::Discovered(it) => Expected::Discovered {
                node: it.node.clone(),
                endpoint: it.endpoint.clone(),
                generation: it.generation,
                security_identity: it.security_identity.clone(),
            },
        }
    }
}
