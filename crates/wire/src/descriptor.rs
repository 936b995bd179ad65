//! What a node says of itself when it is admitted to a mesh.

use core::cmp::Ordering;

use spotlane_types::bound::{DESCRIPTOR_ENVELOPE_BYTES, DESCRIPTOR_LIST_ENTRIES};
use spotlane_types::count::{
    ApplicationVersion, AvailableCapacity, CapacityLimit, MaxMessageBytes, PendingCapacityLimit,
    Weight,
};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    ChannelName, Endpoint, MaintenanceWave, MeshName, ProtocolCapability, SecurityIdentity,
    ServerRid, StableType,
};
use spotlane_types::kind::{
    ClientServerDirection, ClientServerRole, ObjectRole, RelocationPolicyKind, RuntimeState,
    ServiceTopologyKind, StatefulObjectKind,
};
use spotlane_types::text::Text8;

use crate::error::{DecodeError, ErrorKind, Reason};
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{Layout, standalone, wire_struct, wire_union, wire_vector};
use crate::reader::{Part, Read, Reader};
use crate::width::narrow;
use crate::writer::{Writer, Written};

wire_struct! {
    /// A channel that a node serves.
    "channel-entry" struct ChannelEntry {
        /// The channel.
        channel_name: ChannelName = "channelName",
        /// Its share of the traffic.
        weight: Weight = "weight",
    }

    /// A type of object that a node can host.
    "stateful-capability-entry" struct StatefulCapability {
        /// The kind.
        object_kind: StatefulObjectKind = "objectKind",
        /// The type.
        stable_type: StableType = "type",
        /// What happens to its state when it moves.
        relocation_policy: RelocationPolicyKind = "relocationPolicy",
        /// How many may be active.
        active_capacity_limit: CapacityLimit = "activeCapacityLimit",
        /// How many may be in creation.
        pending_capacity_limit: PendingCapacityLimit = "pendingCapacityLimit",
        /// Whether its state can be captured.
        has_snapshot_adapter: bool = "hasSnapshotAdapter",
        /// How many more the node takes.
        available: AvailableCapacity = "available",
    }

    /// A node of a route mesh.
    "route-mesh-admission" struct RouteMeshAdmission {
        /// The mesh.
        mesh_name: MeshName = "meshName",
        /// Its identity to the security layer.
        security_identity: SecurityIdentity = "securityIdentity",
        /// Its run.
        lifecycle_generation: NodeGeneration = "lifecycleGeneration",
        /// The revision of this description.
        descriptor_revision: DescriptorRevision = "descriptorRevision",
        /// Where it listens.
        advertised_endpoint: Endpoint = "advertisedEndpoint",
        /// The channels it serves.
        channels: Channels = "channels",
        /// Everything else.
        extension: DescriptorExtension = "extension",
    }
}

fn by_channel(a: &ChannelEntry, b: &ChannelEntry) -> Ordering {
    a.channel_name.cmp(&b.channel_name)
}

fn by_capability(a: &StatefulCapability, b: &StatefulCapability) -> Ordering {
    (a.object_kind.wire(), &a.stable_type).cmp(&(b.object_kind.wire(), &b.stable_type))
}

wire_vector! {
    /// Channels by name.
    "channel-vector" vector Channels of ChannelEntry, u16 max 65_535, by by_channel;
    /// Texts without a narrower meaning.
    "sorted-text8-vector" vector SortedTexts of Text8,
        u16 max DESCRIPTOR_LIST_ENTRIES, by Text8::cmp;
    /// Object types by kind and name.
    "stateful-capability-vector" vector StatefulCapabilities of StatefulCapability,
        u16 max DESCRIPTOR_LIST_ENTRIES, by by_capability;
}

macro_rules! text_lists {
    ($($(#[$meta:meta])* $name:ident of $ty:ident, by $order:expr;)+) => {
        wire_vector! {
            $($(#[$meta])* "sorted-text8-vector" vector $name of $ty,
                u16 max DESCRIPTOR_LIST_ENTRIES, by $order;)+
        }
    };
}

text_lists! {
    /// Types of Spots that a node hosts.
    SpotTypes of StableType, by StableType::cmp;
    /// Capabilities of the protocol that a node has.
    ProtocolCapabilities of ProtocolCapability, by ProtocolCapability::cmp;
}

wire_union! {
    /// A member of a client-server channel.
    "client-server-admission" enum ClientServerAdmission on "role" ClientServerRole len u16 {
        /// Who calls.
        Client {
            /// The channel.
            channel_name: ChannelName = "channelName",
            /// Who may start a message.
            direction: ClientServerDirection = "direction",
            /// Its identity to the security layer.
            security_identity: SecurityIdentity = "securityIdentity",
            /// The largest message it accepts, in bytes.
            normalized_effective_max_message_bytes: MaxMessageBytes =
                "normalizedEffectiveMaxMessageBytes",
        }
        /// Who answers.
        Server {
            /// The channel.
            channel_name: ChannelName = "channelName",
            /// Who may start a message.
            direction: ClientServerDirection = "direction",
            /// Its routing id.
            server_rid: ServerRid = "serverRid",
            /// Its run.
            lifecycle_generation: NodeGeneration = "lifecycleGeneration",
            /// The revision of this description.
            descriptor_revision: DescriptorRevision = "descriptorRevision",
            /// Its share of the traffic.
            weight: Weight = "weight",
            /// Whether it serves.
            runtime_state: RuntimeState = "runtimeState",
            /// Its identity to the security layer.
            security_identity: SecurityIdentity = "securityIdentity",
            /// The largest message it accepts, in bytes.
            normalized_effective_max_message_bytes: MaxMessageBytes =
                "normalizedEffectiveMaxMessageBytes",
            /// Where it listens.
            advertised_endpoint: Endpoint = "advertisedEndpoint",
        }
    }

    /// Who asks to be admitted, or is.
    "service-admission" enum ServiceAdmission on "topologyKind" ServiceTopologyKind len u32 {
        /// A node of a route mesh.
        RouteMesh {
            /// The node.
            route_mesh: RouteMeshAdmission = "routeMesh",
        }
        /// A member of a client-server channel.
        ClientServer {
            /// The member.
            client_server: ClientServerAdmission = "clientServer",
        }
    }
}

/// Declares a list of typed entries with ascending ids, of which some are required.
macro_rules! tlv {
    (
        $(#[$meta:meta])*
        $contract:literal tlv $name:ident {
            required {
                $($(#[$required_meta:meta])* $rid:literal $rfield:ident: $rty:ty = $rname:literal,)+
            }
            optional {
                $($(#[$optional_meta:meta])* $oid:literal $ofield:ident: $oty:ty = $oname:literal,)+
            }
            order [$($order:literal $okind:ident $ofield2:ident,)+]
        }
    ) => {
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "mirrors the known ids of the contract")]
        pub struct $name {
            $($(#[$required_meta])* pub $rfield: $rty,)+
            $($(#[$optional_meta])* pub $ofield: Option<$oty>,)+
        }

        /// What was read so far.
        #[derive(Default)]
        struct Entries {
            $($rfield: Option<$rty>,)+
            $($ofield: Option<$oty>,)+
        }

        impl Entries {
            /// Reads the value of a known id; an unknown one is passed over.
            fn read(&mut self, id: u8, r: &mut Reader<'_>) -> Read<()> {
                match id {
                    $($rid => self.$rfield = Some(read_value(r, $rname)?),)+
                    $($oid => self.$ofield = Some(read_value(r, $oname)?),)+
                    _ => skip_value(r)?,
                }
                Ok(())
            }

            fn missing(&self) -> Option<&'static str> {
                $(if self.$rfield.is_none() {
                    return Some($rname);
                })+
                None
            }

            fn finish(self) -> Option<$name> {
                Some($name {
                    $($rfield: self.$rfield?,)+
                    $($ofield: self.$ofield,)+
                })
            }
        }

        impl $name {
            fn write_entries(&self, w: &mut Writer<'_>) -> Written {
                $(tlv!(@write self, w, $order, $okind, $ofield2);)+
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn entries_to_json(&self) -> Node {
                json::object(|m| {
                    $(m.push($rname, self.$rfield.to_json());)+
                    $(if let Some(value) = &self.$ofield {
                        m.push($oname, value.to_json());
                    })+
                })
            }

            #[cfg(feature = "serde")]
            fn entries_from_json(node: Node) -> Result<Self, JsonError> {
                json::read_object(node, |object| {
                    Ok(Self {
                        $($rfield: object.take($rname)?,)+
                        $($ofield: object.optional($oname)?,)+
                    })
                })
            }
        }
    };
    (@write $self:ident, $w:ident, $id:literal, required, $field:ident) => {
        write_value($w, $id, &$self.$field)?;
    };
    (@write $self:ident, $w:ident, $id:literal, optional, $field:ident) => {
        if let Some(value) = &$self.$field {
            write_value($w, $id, value)?;
        }
    };
}

tlv! {
    /// Everything that was added to a node's description after its first version.
    ///
    /// Ids that this version does not know are passed over and not kept.
    "descriptor-extension" tlv DescriptorExtension {
        required {
            /// Whether the node serves.
            1 runtime_state: RuntimeState = "runtimeState",
            /// The version of its application.
            2 application_version: ApplicationVersion = "applicationVersion",
            /// What of the protocol it can do.
            6 protocol_capabilities: ProtocolCapabilities = "protocolCapabilities",
            /// Whether it hosts objects.
            7 object_role: ObjectRole = "objectRole",
            /// Its share of new objects.
            8 placement_weight: Weight = "placementWeight",
            /// How many objects may be active.
            9 active_capacity_limit: CapacityLimit = "activeCapacityLimit",
            /// How many objects may be in creation.
            10 pending_capacity_limit: PendingCapacityLimit = "pendingCapacityLimit",
            /// How many objects are active.
            11 active_capacity_used: u32 = "activeCapacityUsed",
            /// How many objects are in creation.
            12 pending_capacity_used: u32 = "pendingCapacityUsed",
        }
        optional {
            /// The types of Spots it hosts.
            3 spot_types: SpotTypes = "spotTypes",
            /// The types of objects it can host, with their limits.
            4 stateful_capabilities: StatefulCapabilities = "statefulCapabilities",
            /// The maintenance wave; `Some(None)` is an entry with an empty name.
            5 maintenance_wave: Option<MaintenanceWave> = "maintenanceWave",
        }
        order [
            1 required runtime_state,
            2 required application_version,
            3 optional spot_types,
            4 optional stateful_capabilities,
            5 optional maintenance_wave,
            6 required protocol_capabilities,
            7 required object_role,
            8 required placement_weight,
            9 required active_capacity_limit,
            10 required pending_capacity_limit,
            11 required active_capacity_used,
            12 required pending_capacity_used,
        ]
    }
}

/// The length of an entry and its value, which takes exactly that length.
fn read_value<T: Layout>(r: &mut Reader<'_>, name: &'static str) -> Read<T> {
    let mut value = || {
        let part = r.part_u32(u32::MAX)?;
        let value = T::read(r)?;
        r.end_part(&part)?;
        Ok(value)
    };
    value().map_err(|e: DecodeError| e.within(name))
}

fn skip_value(r: &mut Reader<'_>) -> Read<()> {
    let at = r.offset();
    let len = r.u32()?;
    let len = r.length(at, u64::from(len))?;
    r.skip(at, len)
}

fn write_value<T: Layout>(w: &mut Writer<'_>, id: u8, value: &T) -> Written {
    w.u8(id);
    let part = w.open_u32();
    value.write(w)?;
    w.close_u32(part, u32::MAX)
}

impl Layout for DescriptorExtension {
    const MIN: usize = 4;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        let part = r.part_u32(DESCRIPTOR_ENVELOPE_BYTES)?;
        let mut entries = Entries::default();
        let mut last = None;
        while r.left_in(&part) > 0 {
            if r.remaining() == 0 {
                return Err(ended_early(r, &part, entries.missing().is_some()));
            }
            let at = r.offset();
            let id = r.u8()?;
            if last.is_some_and(|last| id <= last) {
                let reason = Reason::Text("the id is not above the one before it");
                return Err(Reader::invalid(at, reason).within("id"));
            }
            last = Some(id);
            entries.read(id, r)?;
        }
        r.end_part(&part)?;
        let missing = entries.missing();
        entries.finish().ok_or_else(|| {
            Reader::invalid(at, Reason::Text("a required entry is missing"))
                .within(missing.unwrap_or_default())
        })
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        let part = w.open_u32();
        self.write_entries(w)?;
        w.close_u32(part, DESCRIPTOR_ENVELOPE_BYTES)
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        self.entries_to_json()
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        Self::entries_from_json(node)
    }
}

/// WR-5: the frame ends between two entries although the length asks for more. When every required
/// entry was there, only the length disagrees; otherwise fields are missing.
fn ended_early(r: &Reader<'_>, part: &Part, incomplete: bool) -> DecodeError {
    if incomplete {
        let missing = narrow(r.left_in(part));
        return DecodeError::new(
            ErrorKind::TruncatedField,
            r.offset(),
            Reason::Missing(missing),
        );
    }
    match r.end_part(part) {
        Err(error) => error,
        Ok(()) => Reader::invalid(r.offset(), Reason::Text("the length disagrees")),
    }
}

standalone!("descriptor-extension", DescriptorExtension);
#[cfg(feature = "serde")]
json::serde_form!(DescriptorExtension);
