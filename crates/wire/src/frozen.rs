//! Records that were accepted and not executed, in the form in which they travel with their object.

use spotlane_types::count::{ReplyRouteId, SessionSequence};
use spotlane_types::generation::{BindingGeneration, NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{
    ChannelName, DescriptorVersion, MeshName, NodeRid, OperationId, OwnerId, SessionRid, SpotId,
    StableType, Topic,
};
use spotlane_types::kind::{
    ActorLifecycleKind, FailureCode, FrozenSourceKind, InstanceOperationKind, InstanceRouteKind,
    MeshDestinationKind, MeshOperationKind, MeshRecordKind, TerminalResult,
};
use spotlane_types::time::DeadlineUnixMillis;

use crate::error::Breach;
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Members, Node, ObjectReader};
use crate::layout::{
    FlatLayout, Layout, read_flagged, standalone, wire_cases, wire_option, wire_struct, wire_union,
    write_flagged,
};
use crate::payload::{ApplicationPayload, MetadataFrame};
use crate::reader::{Read, Reader};
use crate::reference::{
    ActorRef, ActorRouteFence, AuthorityGenerationFence, SpotMembership, SpotRouteFence,
};
use crate::relocation::RelocationControlData;
use crate::terminal::{check_payload, check_terminal};
use crate::writer::{Writer, Written};

wire_union! {
    /// Who sent a frozen record. Always someone who holds an owner lease (WR-32).
    "frozen-source-identity" enum FrozenSource on "sourceKind" FrozenSourceKind len u16 {
        /// A node.
        Node {
            /// The node.
            source_node_rid: NodeRid = "sourceNodeRid",
            /// Its run.
            source_node_generation: NodeGeneration = "sourceNodeGeneration",
            /// Its owner id.
            source_owner_id: OwnerId = "sourceOwnerId",
            /// Its lease.
            source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
        }
        /// A Spot.
        Spot {
            /// The node that owned it.
            source_node_rid: NodeRid = "sourceNodeRid",
            /// The run of that node.
            source_node_generation: NodeGeneration = "sourceNodeGeneration",
            /// Its owner id.
            source_owner_id: OwnerId = "sourceOwnerId",
            /// Its lease.
            source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
            /// The Spot.
            source_spot_id: SpotId = "sourceSpotId",
        }
        /// An Actor.
        Actor {
            /// The node that owned it.
            source_node_rid: NodeRid = "sourceNodeRid",
            /// The run of that node.
            source_node_generation: NodeGeneration = "sourceNodeGeneration",
            /// Its owner id.
            source_owner_id: OwnerId = "sourceOwnerId",
            /// Its lease.
            source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
            /// The Actor.
            source_actor: ActorRef = "sourceActor",
        }
        /// A client session that is bound to an Actor.
        BoundSession {
            /// The session owner.
            source_node_rid: NodeRid = "sourceNodeRid",
            /// Its run.
            source_node_generation: NodeGeneration = "sourceNodeGeneration",
            /// Its owner id.
            source_owner_id: OwnerId = "sourceOwnerId",
            /// Its lease.
            source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
            /// The Actor that the session is bound to.
            source_actor: ActorRef = "sourceActor",
            /// The session.
            source_session_rid: SessionRid = "sourceSessionRid",
            /// The binding.
            source_binding_generation: BindingGeneration = "sourceBindingGeneration",
            /// The place of the message in the order of the session.
            source_session_sequence: SessionSequence = "sourceSessionSequence",
        }
    }

    /// Where a message to an Instance Spot goes.
    "instance-route-v1" enum InstanceRoute on "routeKind" InstanceRouteKind len u16 {
        /// To a Spot that is ready.
        Ready {
            /// The node that owns it.
            target_node_rid: NodeRid = "targetNodeRid",
            /// The run of that node.
            target_node_generation: NodeGeneration = "targetNodeGeneration",
            /// The Spot.
            target_spot_id: SpotId = "targetSpotId",
            /// The tenure.
            authority: AuthorityGenerationFence = "authority",
        }
        /// To a Spot that has to be activated first.
        ColdActivation {
            /// The node that is to own it.
            target_node_rid: NodeRid = "targetNodeRid",
            /// The run of that node.
            target_node_generation: NodeGeneration = "targetNodeGeneration",
            /// The Spot.
            target_spot_id: SpotId = "targetSpotId",
            /// The mesh of the node.
            target_mesh_name: MeshName = "targetMeshName",
            /// The type of the Spot.
            stable_type: StableType = "stableType",
            /// The descriptor by which the node was chosen.
            target_descriptor_version: DescriptorVersion = "targetDescriptorVersion",
            /// When the activation is given up.
            deadline_unix_ms: DeadlineUnixMillis = "deadlineUnixMs",
        }
    }

    /// What is ready to be sent to again.
    "send-ready-destination" enum SendReadyDestination on "destinationKind" MeshDestinationKind len u16 {
        /// A node.
        Node {
            /// The node.
            target_node_rid: NodeRid = "targetNodeRid",
        }
        /// A channel.
        Channel {
            /// The channel.
            channel_name: ChannelName = "channelName",
        }
        /// A Spot.
        Spot {
            /// The Spot in its tenure.
            target_spot: SpotRouteFence = "targetSpot",
        }
        /// An Actor.
        Actor {
            /// The Actor in its tenure.
            target_actor: ActorRouteFence = "targetActor",
        }
        /// A client session that is bound to an Actor.
        BoundSession {
            /// The Actor in its tenure.
            target_actor: ActorRouteFence = "targetActor",
            /// The binding.
            binding_generation: BindingGeneration = "bindingGeneration",
        }
    }

    /// What happened to an Actor, for the Spot it is or was a member of.
    "actor-control-data" enum ActorControlData on "lifecycleKind" ActorLifecycleKind len u16 {
        /// It was created.
        Created {
            /// Its membership.
            current: ActorMembershipSnapshot = "current",
        }
        /// It joined.
        Joined {
            /// The membership before, if there was one.
            previous: Option<ActorMembershipSnapshot> = "previous",
            /// The membership now.
            current: ActorMembershipSnapshot = "current",
        }
        /// It left.
        Left {
            /// The membership before.
            previous: ActorMembershipSnapshot = "previous",
            /// The membership now.
            current: ActorMembershipSnapshot = "current",
        }
        /// Its client is gone.
        Disconnected {
            /// Its membership.
            current: ActorMembershipSnapshot = "current",
        }
        /// It was destroyed.
        Destroyed {
            /// Its last membership.
            previous: ActorMembershipSnapshot = "previous",
        }
    }
}

wire_struct! {
    /// The membership of an Actor at one moment.
    "actor-membership-snapshot" struct ActorMembershipSnapshot {
        /// The Actor.
        actor: ActorRef = "actor",
        /// Its membership.
        membership: SpotMembership = "membership",
    }
}

wire_option! {
    "optional-actor-membership-snapshot" Option<ActorMembershipSnapshot>
        on "hasSnapshot" len u16, "snapshot";
}

wire_cases! {
    /// What a frozen record carries. The case is the record's kind.
    "frozen-record-body" enum FrozenRecordBody of MeshRecordKind {
        /// A message to a node.
        NodeSend {
            /// The message.
            payload: ApplicationPayload = "payload",
        }
        /// A request to a node.
        NodeRequest {
            /// The request.
            payload: ApplicationPayload = "payload",
        }
        /// A message on a channel.
        ChannelSend {
            /// The channel.
            channel_name: ChannelName = "channelName",
            /// The message.
            payload: ApplicationPayload = "payload",
        }
        /// A request on a channel.
        ChannelRequest {
            /// The channel.
            channel_name: ChannelName = "channelName",
            /// The request.
            payload: ApplicationPayload = "payload",
        }
        /// A message to a Spot.
        SpotSend {
            /// The Spot in its tenure.
            target_spot: SpotRouteFence = "targetSpot",
            /// The message.
            payload: ApplicationPayload = "payload",
        }
        /// A request to a Spot.
        SpotRequest {
            /// The Spot in its tenure.
            target_spot: SpotRouteFence = "targetSpot",
            /// The request.
            payload: ApplicationPayload = "payload",
        }
        /// A message to all subscribers of a topic.
        SpotMulticast {
            /// The channel.
            channel_name: ChannelName = "channelName",
            /// The topic.
            topic: Topic = "topic",
            /// The message.
            payload: ApplicationPayload = "payload",
        }
        /// News of a member.
        SpotControl {
            /// The news.
            control: Box<ActorControlData> = "control",
        }
        /// A message to an Actor.
        ActorSend {
            /// The Actor in its tenure.
            target_actor: ActorRouteFence = "targetActor",
            /// The message.
            payload: ApplicationPayload = "payload",
        }
        /// A request to an Actor.
        ActorRequest {
            /// The Actor in its tenure.
            target_actor: ActorRouteFence = "targetActor",
            /// The request.
            payload: ApplicationPayload = "payload",
        }
        /// The end of an operation.
        Completion {
            /// How it ended and what it gave.
            completion: Completion = (flat),
        }
        /// A destination that takes messages again.
        SendReady {
            /// The destination.
            destination: SendReadyDestination = "destination",
        }
        /// News of a move.
        RelocationControl {
            /// The news.
            control: Box<RelocationControlData> = "control",
        }
        /// A message that activates an Instance Spot.
        InstanceSpotActivation {
            /// Where it goes.
            route: Box<InstanceRoute> = "route",
            /// The run of the sending node.
            source_node_generation: NodeGeneration = "sourceNodeGeneration",
            /// Whether it wants an answer.
            operation_kind: InstanceOperationKind = "operationKind",
            /// The message.
            payload: ApplicationPayload = "payload",
        }
    }
}

fn completion_rule(completion: &Completion) -> Result<(), Breach> {
    check_terminal(completion.terminal_result, completion.failure_code)?;
    check_payload(
        completion.terminal_result,
        completion.payload.is_some(),
        "hasPayload",
    )
}

/// How an operation ended, as a frozen record carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a closed case of the contract"
)]
pub struct Completion {
    /// How it ended.
    pub terminal_result: TerminalResult,
    /// Why it failed.
    pub failure_code: FailureCode,
    /// What it gave; only with `ok`.
    pub payload: Option<ApplicationPayload>,
}

crate::layout::flat_layout!(Completion, completion_rule, {
    terminal_result: TerminalResult = "terminalResult",
    failure_code: FailureCode = "failureCode",
    payload: Option<ApplicationPayload> = (flag "hasPayload" "payload"),
});

/// A record that was accepted and not executed (WR-30).
///
/// Its kind is that of its body. What a kind may carry is checked when it is decoded and when it is
/// encoded.
///
/// Contract: `frozen-record`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a closed struct of the contract"
)]
pub struct FrozenRecord {
    /// Who sent it.
    pub source: FrozenSource,
    /// Its metadata, byte for byte as it came.
    pub metadata: Option<MetadataFrame>,
    /// What deduplicates it; on the wire both words are zero when there is none (WR-34).
    pub operation_id: Option<OperationId>,
    /// The pending operation that it belongs to.
    pub operation_kind: MeshOperationKind,
    /// The way back to its caller.
    pub reply_route: Option<ReplyRouteId>,
    /// What it carries.
    pub body: FrozenRecordBody,
}

/// Whether operations of this kind have a reply route in a frozen record.
const fn has_reply_route(kind: MeshOperationKind) -> bool {
    matches!(
        kind,
        MeshOperationKind::NodeRequest
            | MeshOperationKind::ChannelRequest
            | MeshOperationKind::SpotRequest
            | MeshOperationKind::ActorRequest
            | MeshOperationKind::InstanceSpotRequest
    )
}

/// What the table of WR-30 says of one record kind.
#[expect(clippy::struct_excessive_bools, reason = "the columns of a table")]
struct Allowed {
    application: bool,
    operation_kind: bool,
    operation_id: bool,
    metadata: bool,
}

impl FrozenRecord {
    /// What kind of record it is.
    pub const fn kind(&self) -> MeshRecordKind {
        self.body.kind()
    }

    /// WR-30 as data: what may stand in this record, given its kind and operation kind.
    fn allowed(&self) -> Allowed {
        use MeshOperationKind as Op;
        let op = self.operation_kind;
        let is = |only: Op| op == only;
        let infrastructure = |operation_kind: bool, operation_id: bool| Allowed {
            application: false,
            operation_kind,
            operation_id,
            metadata: false,
        };
        let application = |operation_kind: bool, operation_id: bool| Allowed {
            application: true,
            operation_kind,
            operation_id,
            metadata: true,
        };
        match &self.body {
            FrozenRecordBody::NodeSend { .. }
            | FrozenRecordBody::ChannelSend { .. }
            | FrozenRecordBody::SpotMulticast { .. } => application(is(Op::None), false),
            FrozenRecordBody::SpotSend { .. } | FrozenRecordBody::ActorSend { .. } => {
                application(is(Op::None), true)
            }
            FrozenRecordBody::NodeRequest { .. } => application(is(Op::NodeRequest), true),
            FrozenRecordBody::ChannelRequest { .. } => application(is(Op::ChannelRequest), true),
            FrozenRecordBody::SpotRequest { .. } => application(is(Op::SpotRequest), true),
            FrozenRecordBody::ActorRequest { .. } => application(is(Op::ActorRequest), true),
            FrozenRecordBody::SpotControl { .. } => infrastructure(
                is(Op::None) || is(Op::ActorJoin) || is(Op::ActorLeave) || is(Op::ActorDestroy),
                !is(Op::None),
            ),
            FrozenRecordBody::Completion { .. } => infrastructure(!is(Op::None), true),
            FrozenRecordBody::SendReady { .. } | FrozenRecordBody::RelocationControl { .. } => {
                infrastructure(is(Op::None), false)
            }
            FrozenRecordBody::InstanceSpotActivation { .. } => application(
                is(Op::None) || is(Op::InstanceSpotRequest),
                is(Op::InstanceSpotRequest),
            ),
        }
    }

    /// WR-30, WR-33: what a record of this kind may carry.
    fn check(&self) -> Result<(), Breach> {
        let allowed = self.allowed();
        if !allowed.application && self.source.kind() != FrozenSourceKind::Node {
            return Err(Breach::new(
                "source",
                "a record of the infrastructure comes from a node",
            ));
        }
        if !allowed.metadata && self.metadata.is_some() {
            return Err(Breach::new(
                "hasMetadata",
                "a record of this kind has no metadata",
            ));
        }
        if !allowed.operation_kind {
            let rule = "the operation kind does not go with the record kind";
            return Err(Breach::new("operationKind", rule));
        }
        if allowed.operation_id != self.operation_id.is_some() {
            let rule = "a record of this kind and operation has an operation id or has none";
            return Err(Breach::new("operationId", rule));
        }
        if has_reply_route(self.operation_kind) != self.reply_route.is_some() {
            return Err(Breach::new(
                "replyRoute",
                "requests have a reply route, others have none",
            ));
        }
        if let FrozenRecordBody::InstanceSpotActivation { operation_kind, .. } = &self.body {
            let request = *operation_kind == InstanceOperationKind::Request;
            if request != (self.operation_kind == MeshOperationKind::InstanceSpotRequest) {
                let rule = "the operation kinds of record and body differ";
                return Err(Breach::new("body", rule));
            }
        }
        Ok(())
    }
}

/// WR-31: the length of the case is always there, 0 when there is no route.
fn read_reply_route(r: &mut Reader<'_>, kind: MeshOperationKind) -> Read<Option<ReplyRouteId>> {
    let part = r.part_u16()?;
    let route = if has_reply_route(kind) {
        Some(ReplyRouteId::read(r).map_err(|e| e.within("replyRouteId"))?)
    } else {
        None
    };
    r.end_part(&part)?;
    Ok(route)
}

impl Layout for FrozenRecord {
    const MIN: usize = 1 + FrozenSource::MIN + 1 + 16 + 4 + 2 + FrozenRecordBody::CASE_MIN;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        let kind = MeshRecordKind::read(r).map_err(|e| e.within("recordKind"))?;
        let source = FrozenSource::read(r).map_err(|e| e.within("source"))?;
        let metadata = read_flagged(r, "hasMetadata", "metadata")?;
        let operation_id = Layout::read(r).map_err(|e| e.within("operationId"))?;
        let operation_kind = MeshOperationKind::read(r).map_err(|e| e.within("operationKind"))?;
        let reply_route =
            read_reply_route(r, operation_kind).map_err(|e| e.within("replyRoute"))?;
        let body = FrozenRecordBody::read_case(kind, r).map_err(|e| e.within("body"))?;
        let record = Self {
            source,
            metadata,
            operation_id,
            operation_kind,
            reply_route,
            body,
        };
        record.check().map_err(|breach| breach.into_decode(at))?;
        Ok(record)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        self.check().map_err(Breach::into_encode)?;
        self.kind().write(w)?;
        self.source.write(w)?;
        write_flagged(w, self.metadata.as_ref(), "metadata")?;
        self.operation_id.write(w)?;
        self.operation_kind.write(w)?;
        match self.reply_route {
            Some(route) => {
                w.u16(8);
                w.u64(route.get());
            }
            None => w.u16(0),
        }
        self.body.write_case(w).map_err(|e| e.within("body"))
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        json::object(|m| {
            m.push("recordKind", self.kind().to_json());
            m.push("source", self.source.to_json());
            m.flagged("hasMetadata", "metadata", self.metadata.as_ref());
            m.push("operationId", self.operation_id.to_json());
            m.push("operationKind", self.operation_kind.to_json());
            let route = |m: &mut Members| {
                if let Some(route) = &self.reply_route {
                    m.push("replyRouteId", route.to_json());
                }
            };
            m.push("replyRoute", json::object(route));
            m.push("body", json::object(|m| self.body.case_to_members(m)));
        })
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        json::read_object(node, |object| {
            let kind = object.take("recordKind")?;
            let record = Self {
                source: object.take("source")?,
                metadata: object.flagged("hasMetadata", "metadata")?,
                operation_id: object.take("operationId")?,
                operation_kind: object.take("operationKind")?,
                reply_route: object.nested("replyRoute", |route| route.optional("replyRouteId"))?,
                body: object.nested("body", |body| {
                    FrozenRecordBody::case_from_members(kind, body)
                })?,
            };
            record.check().map_err(JsonError::from)?;
            Ok(record)
        })
    }
}

standalone!("frozen-record", FrozenRecord);
#[cfg(feature = "serde")]
json::serde_form!(FrozenRecord);

/// A message to an Instance Spot: whether it wants an answer, what names it, and the way back.
///
/// Stands inside command 39 and inside `instance-activation-recovery-v1` as the three fields
/// `operationKind`, `operation` and `replyRoute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors three closed fields of the contract"
)]
pub struct InstanceCall {
    /// What names the message.
    pub operation: OperationId,
    /// The way back; exactly for a request.
    pub reply_route: Option<ReplyRouteId>,
}

impl InstanceCall {
    /// Whether it wants an answer.
    pub const fn operation_kind(&self) -> InstanceOperationKind {
        match self.reply_route {
            Some(_) => InstanceOperationKind::Request,
            None => InstanceOperationKind::Send,
        }
    }
}

impl FlatLayout for InstanceCall {
    const MIN: usize = 17;

    fn read_flat(r: &mut Reader<'_>) -> Read<Self> {
        let kind = InstanceOperationKind::read(r).map_err(|e| e.within("operationKind"))?;
        let operation = OperationId::read(r).map_err(|e| e.within("operation"))?;
        let reply_route = match kind {
            InstanceOperationKind::Send => None,
            InstanceOperationKind::Request => {
                let route = ReplyRouteId::read(r);
                Some(route.map_err(|e| e.within("replyRouteId").within("replyRoute"))?)
            }
        };
        Ok(Self {
            operation,
            reply_route,
        })
    }

    fn write_flat(&self, w: &mut Writer<'_>) -> Written {
        self.operation_kind().write(w)?;
        self.operation.write(w)?;
        if let Some(route) = self.reply_route {
            route.write(w)?;
        }
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_members(&self, members: &mut Members) {
        members.push("operationKind", self.operation_kind().to_json());
        members.push("operation", self.operation.to_json());
        let route = json::object(|m| {
            if let Some(route) = &self.reply_route {
                m.push("replyRouteId", route.to_json());
            }
        });
        members.push("replyRoute", route);
    }

    #[cfg(feature = "serde")]
    fn from_members(object: &mut ObjectReader) -> Result<Self, JsonError> {
        let kind = object.take::<InstanceOperationKind>("operationKind")?;
        let operation = object.take("operation")?;
        let reply_route = object.nested("replyRoute", |route| match kind {
            InstanceOperationKind::Send => Ok(None),
            InstanceOperationKind::Request => route.take("replyRouteId").map(Some),
        })?;
        Ok(Self {
            operation,
            reply_route,
        })
    }
}
