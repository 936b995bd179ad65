//! Whom a node wants to be connected to.

use spotlane_mesh_proto::admission::Expected;
use spotlane_types::id::{Endpoint, NodeRid};
use spotlane_wire::descriptor::RouteMeshAdmission;

use crate::config::parse_endpoint;
use crate::error::ConfigError;

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
    Discovered {
        node: NodeRid,
        descriptor: Box<RouteMeshAdmission>,
    },
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

    /// An intent of the directory: the node must be exactly the one that its descriptor shows.
    pub fn discovered(node: NodeRid, descriptor: RouteMeshAdmission) -> Self {
        Self {
            endpoint: descriptor.advertised_endpoint.clone(),
            origin: Origin::Discovered {
                node,
                descriptor: Box::new(descriptor),
            },
        }
    }

    /// Where the peer listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The node, if the intent names it.
    pub(crate) const fn node(&self) -> Option<&NodeRid> {
        match &self.origin {
            Origin::Manual { expected } => expected.as_ref(),
            Origin::Discovered { node, .. } => Some(node),
        }
    }

    pub(crate) fn expected(&self) -> Expected {
        match &self.origin {
            Origin::Manual { expected: None } => Expected::Anyone,
            Origin::Manual {
                expected: Some(node),
            } => Expected::Node(node.clone()),
            Origin::Discovered { node, descriptor } => Expected::Discovered {
                node: node.clone(),
                endpoint: descriptor.advertised_endpoint.clone(),
                generation: descriptor.lifecycle_generation,
                security_identity: descriptor.security_identity.clone(),
            },
        }
    }
}
