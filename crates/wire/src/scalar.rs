//! Layouts of numbers, texts, ids and enums.

use spotlane_types::count::{
    ApplicationVersion, AvailableCapacity, BoundaryRecordCount, CapacityLimit, ChunkLength,
    Correlation, CreationRequestSize, DeliveryIndex, HopCount, InboxSequence, MaxCatchUpTicks,
    MaxMessageBytes, Ordinal, ParticipantId, PendingCapacityDelta, PendingCapacityLimit,
    PeriodMillis, Positive, PositiveU32, ProbeId, ReceiveChunkLimit, RelaySequence,
    RelocationChunkCount, RelocationLogicalLength, ReplayCursor, ReplyRouteId, ScheduledIndex,
    SessionSequence, SkippedTicks, Weight, WorkOrder,
};
use spotlane_types::generation::{
    AggregateGeneration, AuthorityOwnerGeneration, BindingGeneration, DescriptorRevision,
    MembershipEpoch, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
    TargetAttemptGeneration,
};
use spotlane_types::id::{
    ActorId, AggregateId, ChannelName, ContentType, CreationContentReference, DescriptorVersion,
    Endpoint, HandlerType, MaintenanceWave, MeshName, MetadataKey, NodeRid, OperationId, OwnerId,
    PacketName, ProtocolCapability, RecoveryReference, RelocationId, RelocationReference,
    ReservationId, SecurityIdentity, ServerRid, SessionRid, Sha256, SpotId, StableType,
    StoreVersion, TimerName, Topic,
};
use spotlane_types::kind::{
    ActorAuthorityState, ActorCreateResult, ActorJoinResult, ActorLifecycleKind, ActorSpotKind,
    AuthorityObjectKind, AuthorityOperationKind, BindingState, ClientServerDirection,
    ClientServerRole, ColdActivationCompletionKind, FailureCode, FrozenSourceKind,
    InstanceAuthorityState, InstanceOperationKind, InstanceRouteKind, MeshDestinationKind,
    MeshOperationKind, MeshRecordKind, ObjectRole, RejectReason, RelocationPhase,
    RelocationPolicyKind, RelocationRole, ReplyRelayAckStatus, ReplyRelayContextKind,
    ReservationOperationKind, RuntimeState, ServiceTopologyKind, SessionRouteAction,
    SourceCleanupState, SpotAuthorityState, SpotKind, StatefulObjectKind, TerminalResult,
    TimerOverrunPolicyKind, UserSpotCreateResult,
};
use spotlane_types::text::{Borrowed, MetadataValue, NonEmptyText16, Text8, Text16};
use spotlane_types::time::{DeadlineUnixMillis, UnixMillis};

use crate::error::Reason;
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{Layout, standalone};
use crate::reader::{Read, Reader};
use crate::view::Viewed;
use crate::writer::{Writer, Written};

/// Plain numbers.
macro_rules! plain_numbers {
    ($($contract:literal $ty:ident $bytes:literal $to:ident $from:expr;)+) => {$(
        impl Layout for $ty {
            const MIN: usize = $bytes;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                r.$ty()
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                w.$ty(*self);
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::$to(*self)
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                $from(node)
            }
        }

        standalone!($contract, $ty);
    )+};
}

#[cfg(feature = "serde")]
fn small<T: TryFrom<u32>>(node: Node) -> Result<T, JsonError> {
    let number = node.number()?;
    T::try_from(number).map_err(|_| JsonError::new(format!("{number} is out of range")))
}

plain_numbers! {
    "u8" u8 1 number small;
    "u16" u16 2 number small;
    "u32" u32 4 number small;
    "u64" u64 8 decimal Node::decimal;
}

impl Layout for bool {
    const MIN: usize = 1;

    #[inline]
    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        match r.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Reader::invalid(at, Reason::Text("not 0 or 1"))),
        }
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.u8(u8::from(*self));
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        Node::Bool(*self)
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        node.bool()
    }
}

standalone!("bool8", bool);

/// Newtypes over a number.
macro_rules! numbers {
    ($($ty:ident: $repr:ident $bytes:literal $to:ident $from:expr;)+) => {$(
        impl Viewed for $ty {
            type View<'a> = Self;

            #[inline]
            fn view(r: &mut Reader<'_>) -> Read<Self> {
                Self::read(r)
            }

            #[inline(always)]
            fn from_view(view: &Self) -> Self {
                *view
            }
        }

        impl Layout for $ty {
            const MIN: usize = $bytes;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let at = r.offset();
                Self::new(r.$repr()?).map_err(|e| Reader::invalid(at, Reason::Value(e)))
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                w.$repr(self.get());
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::$to(self.get())
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                Self::new($from(node)?).map_err(|e| JsonError::new(e.to_string()))
            }
        }
    )+};
}

numbers! {
    Positive: u64 8 decimal Node::decimal;
    Ordinal: u64 8 decimal Node::decimal;
    ObjectGeneration: u64 8 decimal Node::decimal;
    NodeGeneration: u64 8 decimal Node::decimal;
    AuthorityOwnerGeneration: u64 8 decimal Node::decimal;
    OwnerLeaseGeneration: u64 8 decimal Node::decimal;
    BindingGeneration: u64 8 decimal Node::decimal;
    TargetAttemptGeneration: u64 8 decimal Node::decimal;
    DescriptorRevision: u64 8 decimal Node::decimal;
    MembershipEpoch: u64 8 decimal Node::decimal;
    AggregateGeneration: u64 8 decimal Node::decimal;
    Correlation: u64 8 decimal Node::decimal;
    ReplyRouteId: u64 8 decimal Node::decimal;
    ProbeId: u64 8 decimal Node::decimal;
    ParticipantId: u64 8 decimal Node::decimal;
    WorkOrder: u64 8 decimal Node::decimal;
    SessionSequence: u64 8 decimal Node::decimal;
    InboxSequence: u64 8 decimal Node::decimal;
    RelaySequence: u64 8 decimal Node::decimal;
    ReplayCursor: u64 8 decimal Node::decimal;
    BoundaryRecordCount: u64 8 decimal Node::decimal;
    DeliveryIndex: u64 8 decimal Node::decimal;
    ScheduledIndex: u64 8 decimal Node::decimal;
    SkippedTicks: u64 8 decimal Node::decimal;
    MaxCatchUpTicks: u64 8 decimal Node::decimal;
    PeriodMillis: u64 8 decimal Node::decimal;
    AvailableCapacity: u64 8 decimal Node::decimal;
    RelocationLogicalLength: u64 8 decimal Node::decimal;
    ChunkLength: u64 8 decimal Node::decimal;
    UnixMillis: u64 8 decimal Node::decimal;
    DeadlineUnixMillis: u64 8 decimal Node::decimal;
    ApplicationVersion: i64 8 decimal Node::decimal;
    HopCount: u8 1 number small;
    PositiveU32: u32 4 number Node::number;
    Weight: u32 4 number Node::number;
    CapacityLimit: u32 4 number Node::number;
    PendingCapacityLimit: u32 4 number Node::number;
    PendingCapacityDelta: u32 4 number Node::number;
    MaxMessageBytes: u32 4 number Node::number;
    CreationRequestSize: u32 4 number Node::number;
    RelocationChunkCount: u32 4 number Node::number;
}

standalone!("nonzero-u64", Positive);
standalone!("ordinal-or-zero", Ordinal);
standalone!("nonzero-u32", PositiveU32);
standalone!("relocation-logical-length", RelocationLogicalLength);
standalone!("relocation-chunk-count", RelocationChunkCount);
standalone!("application-version", ApplicationVersion);
standalone!("creation-request-size", CreationRequestSize);
standalone!("object-capacity-limit", CapacityLimit);
standalone!("object-pending-capacity-limit", PendingCapacityLimit);

/// `ordinal-or-zero` and bounded `u32` fields where zero means that there is none.
macro_rules! optional_numbers {
    ($($ty:ident: $repr:ident $bytes:literal $to:ident $from:expr;)+) => {$(
        impl Layout for Option<$ty> {
            const MIN: usize = $bytes;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let at = r.offset();
                match r.$repr()? {
                    0 => Ok(None),
                    number => $ty::new(number)
                        .map(Some)
                        .map_err(|e| Reader::invalid(at, Reason::Value(e))),
                }
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                w.$repr(self.map_or(0, $ty::get));
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::$to(self.map_or(0, $ty::get))
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                match $from(node)? {
                    0 => Ok(None),
                    number => {
                        $ty::new(number).map(Some).map_err(|e| JsonError::new(e.to_string()))
                    }
                }
            }
        }
    )+};
}

optional_numbers! {
    NodeGeneration: u64 8 decimal Node::decimal;
    OwnerLeaseGeneration: u64 8 decimal Node::decimal;
    TargetAttemptGeneration: u64 8 decimal Node::decimal;
    DeliveryIndex: u64 8 decimal Node::decimal;
    ScheduledIndex: u64 8 decimal Node::decimal;
    ReceiveChunkLimit: u32 4 number Node::number;
}

/// Closed enums.
macro_rules! enums {
    ($($ty:ident: $repr:ident $bytes:literal $contract:literal;)+) => {$(
        impl Layout for $ty {
            const MIN: usize = $bytes;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let at = r.offset();
                let value = r.$repr()?;
                Self::from_wire(value).ok_or_else(|| {
                    Reader::invalid(at, Reason::Reserved(u64::from(value)))
                })
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                w.$repr(self.wire());
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                Node::Text(self.name().to_owned())
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                let name = node.text()?;
                Self::from_name(&name).ok_or_else(|| {
                    JsonError::new(format!("not a member of {}", Self::CONTRACT_NAME))
                })
            }
        }

        standalone!($contract, $ty);
    )+};
}

enums! {
    RuntimeState: u8 1 "runtime-state";
    StatefulObjectKind: u8 1 "stateful-object-kind";
    ObjectRole: u8 1 "object-role";
    AuthorityObjectKind: u8 1 "authority-object-kind";
    SpotKind: u8 1 "spot-kind";
    SpotAuthorityState: u8 1 "entry-user-spot-authority-state";
    ActorAuthorityState: u8 1 "actor-authority-state";
    RelocationPolicyKind: u8 1 "relocation-policy-kind";
    TimerOverrunPolicyKind: u8 1 "timer-overrun-policy-kind";
    ActorSpotKind: u8 1 "actor-spot-kind";
    RelocationRole: u8 1 "relocation-role";
    ActorJoinResult: u32 4 "actor-join-result";
    MeshRecordKind: u8 1 "mesh-record-kind";
    FrozenSourceKind: u8 1 "frozen-source-kind";
    MeshDestinationKind: u8 1 "mesh-destination-kind";
    ServiceTopologyKind: u8 1 "service-topology-kind";
    ClientServerRole: u8 1 "client-server-role";
    ClientServerDirection: u8 1 "client-server-direction";
    ActorLifecycleKind: u8 1 "actor-lifecycle-kind";
    BindingState: u8 1 "bound-session-binding-state";
    SessionRouteAction: u8 1 "session-relocation-route-action";
    RelocationPhase: u8 1 "relocation-phase";
    SourceCleanupState: u8 1 "source-cleanup-state";
    ReplyRelayAckStatus: u8 1 "reply-relay-ack-status";
    AuthorityOperationKind: u8 1 "authority-operation-kind";
    MeshOperationKind: u32 4 "mesh-operation-kind";
    TerminalResult: u32 4 "request-terminal-result";
    FailureCode: u32 4 "framework-error-code";
    InstanceOperationKind: u8 1 "instance-operation-kind";
    InstanceRouteKind: u8 1 "instance-route-kind";
    UserSpotCreateResult: u8 1 "user-spot-create-result";
    ActorCreateResult: u8 1 "actor-create-result";
    InstanceAuthorityState: u8 1 "instance-authority-state";
    ReplyRelayContextKind: u8 1 "reply-relay-context-kind";
    ColdActivationCompletionKind: u8 1 "cold-activation-completion-kind";
    RejectReason: u32 4 "reject-reason";
    ReservationOperationKind: u8 1 "generic-reservation-operation-kind";
}

/// Texts and short byte strings with a length prefix.
macro_rules! strings {
    ($($ty:ident: $prefix:ident $prefix_bytes:literal, $new:ident, $to:ident, $from:expr;)+) => {$(
        impl Layout for $ty {
            const MIN: usize = $prefix_bytes + $ty::BYTES_MIN;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                Self::view(r).map(Self::from_borrowed)
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                write_string!(w, self, $prefix);
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::$to(self.as_bytes())
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                let value = $from(node)?;
                Self::$new(value.as_ref()).map_err(|e| JsonError::new(e.to_string()))
            }
        }
    )+};
}

macro_rules! string_views {
    ($($ty:ident: $prefix:ident;)+) => {$(
        impl Viewed for $ty {
            type View<'a> = Borrowed<'a, Self>;

            #[inline]
            fn view<'a>(r: &mut Reader<'a>) -> Read<Borrowed<'a, Self>> {
                let at = r.offset();
                let len = usize::from(r.$prefix()?);
                r.borrowed(at, len, Self::borrow_prefix)
            }

            #[inline(always)]
            fn from_view(view: &Borrowed<'_, Self>) -> Self {
                Self::from_borrowed(*view)
            }
        }
    )+};
}

/// The bound of each string type fits its prefix, so the conversion cannot fail.
macro_rules! write_string {
    ($w:ident, $value:expr, u8) => {
        match $value.as_padded() {
            Some((padded, len)) => $w.put_short(len, padded),
            None => write_string!(@long $w, $value, u8),
        }
    };
    ($w:ident, $value:expr, u16) => {
        write_string!(@long $w, $value, u16)
    };
    (@long $w:ident, $value:expr, $prefix:ident) => {{
        let bytes = $value.as_bytes();
        $w.$prefix($prefix::try_from(bytes.len()).unwrap_or($prefix::MAX));
        $w.put(bytes);
    }};
}

strings! {
    Text8: u8 1, new, text, Node::text;
    ActorId: u8 1, new, text, Node::text;
    SpotId: u8 1, new, text, Node::text;
    OwnerId: u8 1, new, text, Node::text;
    MeshName: u8 1, new, text, Node::text;
    ChannelName: u8 1, new, text, Node::text;
    Topic: u8 1, new, text, Node::text;
    StableType: u8 1, new, text, Node::text;
    SecurityIdentity: u8 1, new, text, Node::text;
    ReservationId: u8 1, new, text, Node::text;
    DescriptorVersion: u8 1, new, text, Node::text;
    TimerName: u8 1, new, text, Node::text;
    HandlerType: u8 1, new, text, Node::text;
    ProtocolCapability: u8 1, new, text, Node::text;
    MaintenanceWave: u8 1, new, text, Node::text;
    MetadataKey: u8 1, new, text, Node::text;
    RecoveryReference: u8 1, new, text, Node::text;
    PacketName: u8 1, new, text, Node::text;
    ContentType: u8 1, new, text, Node::text;
    MetadataValue: u16 2, new, text, Node::text;
    Text16: u16 2, new, text, Node::text;
    NonEmptyText16: u16 2, new, text, Node::text;
    Endpoint: u16 2, new, text, Node::text;
    StoreVersion: u16 2, new, text, Node::text;
    CreationContentReference: u16 2, new, text, Node::text;
    RelocationReference: u16 2, new, text, Node::text;
    NodeRid: u8 1, new, to_hex, Node::hex;
    SessionRid: u8 1, new, to_hex, Node::hex;
    ServerRid: u8 1, new, to_hex, Node::hex;
}

string_views! {
    Text8: u8;
    ActorId: u8;
    SpotId: u8;
    OwnerId: u8;
    MeshName: u8;
    ChannelName: u8;
    Topic: u8;
    StableType: u8;
    SecurityIdentity: u8;
    ReservationId: u8;
    DescriptorVersion: u8;
    TimerName: u8;
    HandlerType: u8;
    ProtocolCapability: u8;
    MaintenanceWave: u8;
    MetadataKey: u8;
    RecoveryReference: u8;
    PacketName: u8;
    ContentType: u8;
    MetadataValue: u16;
    Text16: u16;
    NonEmptyText16: u16;
    Endpoint: u16;
    StoreVersion: u16;
    CreationContentReference: u16;
    RelocationReference: u16;
    NodeRid: u8;
    SessionRid: u8;
    ServerRid: u8;
}

standalone!("text8", Text8);
standalone!("text16", Text16);
standalone!("nonempty-text16", NonEmptyText16);
standalone!("recovery-reference", RecoveryReference);
standalone!("endpoint", Endpoint);
standalone!("packet-name", PacketName);
standalone!("content-type", ContentType);
standalone!("metadata-value", MetadataValue);
standalone!("rid", NodeRid);
standalone!("creation-content-reference", CreationContentReference);
standalone!("relocation-reference", RelocationReference);
standalone!("authority-store-version", StoreVersion);

/// Strings that may be empty, which means that there is none.
macro_rules! optional_strings {
    ($($ty:ident: $new:ident, $to:ident, $from:expr;)+) => {$(
        impl Layout for Option<$ty> {
            const MIN: usize = 1;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let at = r.offset();
                match usize::from(r.u8()?) {
                    0 => Ok(None),
                    len => r.borrowed(at, len, $ty::borrow_prefix).map($ty::from_borrowed).map(Some),
                }
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                match self {
                    Some(value) => value.write(w)?,
                    None => w.u8(0),
                }
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::$to(self.as_ref().map_or(&[], |value| value.as_bytes()))
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                let value = $from(node)?;
                if value.is_empty() {
                    return Ok(None);
                }
                $ty::$new(value.as_ref()).map(Some).map_err(|e| JsonError::new(e.to_string()))
            }
        }
    )+};
}

optional_strings! {
    Text8: new, text, Node::text;
    SpotId: new, text, Node::text;
    OwnerId: new, text, Node::text;
    MaintenanceWave: new, text, Node::text;
    NodeRid: new, to_hex, Node::hex;
}

standalone!("optional-text8", Option<Text8>);
standalone!("optional-rid", Option<NodeRid>);

/// Ids of two words.
macro_rules! wide_ids {
    ($($contract:literal $ty:ident;)+) => {$(
        impl Viewed for $ty {
            type View<'a> = Self;

            #[inline]
            fn view(r: &mut Reader<'_>) -> Read<Self> {
                Self::read(r)
            }

            #[inline(always)]
            fn from_view(view: &Self) -> Self {
                *view
            }
        }

        impl Layout for $ty {
            const MIN: usize = 16;

            #[inline]
            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let high = r.u64().map_err(|e| e.within("high"))?;
                let at = r.offset();
                let low = r.u64().map_err(|e| e.within("low"))?;
                Self::new(high, low)
                    .map_err(|e| Reader::invalid(at, Reason::Value(e)).within("low"))
            }

            #[inline]
            fn write(&self, w: &mut Writer<'_>) -> Written {
                let wide = (u128::from(self.high()) << 64) | u128::from(self.low());
                w.put(&wide.to_be_bytes());
                Ok(())
            }

            #[cfg(feature = "serde")]
            fn to_json(&self) -> Node {
                json::words(self.high(), self.low())
            }

            #[cfg(feature = "serde")]
            fn from_json(node: Node) -> Result<Self, JsonError> {
                let (high, low) = json::read_words(node)?;
                Self::new(high, low).map_err(|e| JsonError::new(e.to_string()).within("low"))
            }
        }

        standalone!($contract, $ty);
    )+};
}

wide_ids! {
    "operation-id" OperationId;
    "relocation-id" RelocationId;
    "aggregate-id" AggregateId;
}

/// The operation id of a frozen record, the only place where both words may be zero (WR-34).
impl Layout for Option<OperationId> {
    const MIN: usize = 16;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let high = r.u64().map_err(|e| e.within("high"))?;
        let low = r.u64().map_err(|e| e.within("low"))?;
        Ok(OperationId::new(high, low).ok())
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.u64(self.map_or(0, OperationId::high));
        w.u64(self.map_or(0, OperationId::low));
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        json::words(
            self.map_or(0, OperationId::high),
            self.map_or(0, OperationId::low),
        )
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        let (high, low) = json::read_words(node)?;
        Ok(OperationId::new(high, low).ok())
    }
}

/// `sha256-bytes`: a digest with its length before it.
impl Layout for Sha256 {
    const MIN: usize = 33;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        let len = r.u8()?;
        if len != 32 {
            let reason = Reason::Expected {
                expected: 32,
                actual: u64::from(len),
            };
            return Err(Reader::invalid(at, reason));
        }
        r.count(at, 32, 1)?;
        r.bytes32().map(Self::new)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.u8(32);
        w.put(self.as_bytes());
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        json::to_hex(self.as_bytes())
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        json::digest(node).map(Self::new)
    }
}

standalone!("sha256-bytes", Sha256);

/// A digest without length: what the contract calls `sha256-raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a digest in another layout, nothing more"
)]
pub struct RawSha256(pub Sha256);

impl Layout for RawSha256 {
    const MIN: usize = 32;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        r.bytes32().map(|digest| Self(Sha256::new(digest)))
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.put(self.0.as_bytes());
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        self.0.to_json()
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        Sha256::from_json(node).map(Self)
    }
}

standalone!("sha256-raw", RawSha256);
#[cfg(feature = "serde")]
json::serde_form!(RawSha256);
