//! Whether a descriptor may be admitted, and what may change in one.

use bytes::Bytes;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{Endpoint, NodeRid, ProtocolCapability, SecurityIdentity};
use spotlane_types::kind::{ObjectRole, RejectReason};
use spotlane_wire::descriptor::{RouteMeshAdmission, ServiceAdmission};

/// The recorded use of reason 4: there is no need for a link, so do not try again (TR-73).
pub const NOT_REQUIRED: RejectReason = RejectReason::SecurityIdentityMismatch;

/// What the peer of a link has to be (TR-78).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by TR-78: nothing, an id, or everything"
)]
pub enum Expected {
    /// Whoever it is: an accepted link of a peer that is not connected as the directory shows it, or a manual one without an id.
    Anyone,
    /// A node, from the configuration.
    Node(NodeRid),
    /// One run of a node, from the directory.
    Discovered {
        /// The node.
        node: NodeRid,
        /// Where it listens.
        endpoint: Endpoint,
        /// Its run.
        generation: NodeGeneration,
        /// Its identity to the security layer.
        security_identity: SecurityIdentity,
    },
}

impl Expected {
    fn node(&self) -> Option<&NodeRid> {
        match self {
            Self::Anyone => None,
            Self::Node(node) | Self::Discovered { node, .. } => Some(node),
        }
    }

    fn fits(&self, offered: &RouteMeshAdmission) -> bool {
        match self {
            Self::Anyone | Self::Node(_) => true,
            Self::Discovered {
                endpoint,
                generation,
                security_identity,
                ..
            } => {
                *endpoint == offered.advertised_endpoint
                    && *generation == offered.lifecycle_generation
                    && *security_identity == offered.security_identity
            }
        }
    }
}

/// What this node knows when it judges a peer.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Terms {
    /// Our id.
    pub own_id: NodeRid,
    /// Our descriptor.
    pub own: RouteMeshAdmission,
    /// The capability that a peer must have (TR-81).
    pub required: ProtocolCapability,
    /// What the peer has to be.
    pub expected: Expected,
    /// What the security layer says the peer is.
    pub authenticated: SecurityIdentity,
}

/// A descriptor as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what a frame of an admission can be"
)]
pub enum Offered {
    /// A node of a mesh.
    Node(Box<Offer>),
    /// A member of something else than a mesh.
    OtherTopology,
    /// Bytes that are no descriptor.
    Malformed,
}

/// A descriptor of a node and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The descriptor.
    pub descriptor: RouteMeshAdmission,
    /// The bytes behind the head of the record: entries that we do not know are in them alone.
    bytes: Bytes,
}

impl Offered {
    /// Takes the admission of a record and the frame that it came in, of which a copy is kept.
    pub fn of(admission: ServiceAdmission, frame: &[u8]) -> Self {
        match admission {
            ServiceAdmission::RouteMesh { route_mesh } => Self::Node(Box::new(Offer {
                descriptor: route_mesh,
                bytes: Bytes::copy_from_slice(frame.get(HEAD_BYTES..).unwrap_or_default()),
            })),
            ServiceAdmission::ClientServer { .. } => Self::OtherTopology,
        }
    }
}

/// The head of a record, which tells hello from admit.
const HEAD_BYTES: usize = 5;

impl Terms {
    /// TR-72: judges a descriptor of `peer`, except for its revision.
    ///
    /// # Errors
    /// The reason for the reject.
    pub fn judge(&self, peer: &NodeRid, offered: &RouteMeshAdmission) -> Result<(), RejectReason> {
        if offered.mesh_name != self.own.mesh_name {
            return Err(RejectReason::TopologyMismatch);
        }
        if self.expected.node().is_some_and(|node| node != peer) {
            return Err(RejectReason::IdentityMismatch);
        }
        let capabilities = offered.extension.protocol_capabilities.as_slice();
        let fits = self.expected.fits(offered)
            && offered.security_identity == self.authenticated
            && *peer != self.own_id
            && capabilities.contains(&self.required);
        if !fits {
            return Err(RejectReason::InvalidDescriptor);
        }
        if !is_connection_needed(&self.own, offered) {
            return Err(NOT_REQUIRED);
        }
        Ok(())
    }
}

/// TR-73: two object clients without a server channel have nothing to say to each other.
pub fn is_connection_needed(a: &RouteMeshAdmission, b: &RouteMeshAdmission) -> bool {
    let only_client = |node: &RouteMeshAdmission| {
        node.extension.object_role == ObjectRole::Client && node.channels.as_slice().is_empty()
    };
    !(only_client(a) && only_client(b))
}

/// What a second descriptor of an admitted peer is (TR-75, TR-76).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-75 and TR-76")]
pub enum Change {
    /// The same bytes.
    Repeated,
    /// A higher revision in which only what may change has changed.
    Allowed,
    /// A higher revision with another fixed field.
    Fixed,
    /// A lower revision, or the same one with other bytes.
    Stale,
    /// Another run of the node.
    NewRun,
}

impl Offer {
    /// Compares with the descriptor that is admitted.
    pub fn change_from(&self, admitted: &Self) -> Change {
        let (new, old) = (&self.descriptor, &admitted.descriptor);
        if new.lifecycle_generation != old.lifecycle_generation {
            return Change::NewRun;
        }
        if new.descriptor_revision.is_after(old.descriptor_revision) {
            return if has_same_fixed_fields(new, old) {
                Change::Allowed
            } else {
                Change::Fixed
            };
        }
        if self.bytes == admitted.bytes {
            Change::Repeated
        } else {
            Change::Stale
        }
    }
}

/// The fields that no update may change, in the order of the descriptor.
fn has_same_fixed_fields(new: &RouteMeshAdmission, old: &RouteMeshAdmission) -> bool {
    let names = |node: &RouteMeshAdmission| -> Vec<_> {
        let channels = node.channels.as_slice().iter();
        channels
            .map(|channel| channel.channel_name.clone())
            .collect()
    };
    let (new_more, old_more) = (&new.extension, &old.extension);
    new.mesh_name == old.mesh_name
        && new.security_identity == old.security_identity
        && new.advertised_endpoint == old.advertised_endpoint
        && names(new) == names(old)
        && new_more.application_version == old_more.application_version
        && new_more.spot_types == old_more.spot_types
        && new_more.stateful_capabilities == old_more.stateful_capabilities
        && new_more.protocol_capabilities == old_more.protocol_capabilities
        && new_more.object_role == old_more.object_role
}
