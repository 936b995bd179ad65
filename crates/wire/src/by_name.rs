//! Values by the name of their type, for tools: every type of the contract that can stand alone.

use bytes::Bytes;

use crate::authority::{
    ActivationRecoveryState, ActorAuthorityIdentity, AuthorityObject, AuthorityPayload,
    AuthorityRelocationState, InstanceActivationRecovery, InstanceAuthorityIdentity,
    RelocationRootPointer, SpotAuthorityIdentity,
};
use crate::blob::{
    Blob16, DurableBlob, NonEmptyBlob16, ParticipantMutation, PayloadBytes, StateBlob,
};
use crate::command::follow::{FollowNotice, FollowRoute};
use crate::command::message::BoundSessionTail;
use crate::command::reply::{ActorJoinReply, ColdActivationReplyContext, ReplyRelayContext};
use crate::creation::{
    ActorCreateTerminal, CreationOperationTerminal, ObjectCreationIntent, ObjectCreationKey,
    ObjectCreationTarget, ObjectReservation, ObjectReservationFence, PendingObjectCreation,
};
use crate::descriptor::{
    ChannelEntry, Channels, ClientServerAdmission, DescriptorExtension, RouteMeshAdmission,
    ServiceAdmission, SortedTexts, StatefulCapabilities, StatefulCapability,
};
use crate::durable::Durable;
use crate::error::{DecodeError, EncodeError};
use crate::frozen::{
    ActorControlData, ActorMembershipSnapshot, FrozenRecord, FrozenSource, InstanceRoute,
    SendReadyDestination,
};
use crate::json::{JsonError, Node};
use crate::payload::{ApplicationPayload, MetadataEntry, MetadataFrame};
use crate::reference::{
    ActorRef, ActorRouteFence, AuthorityGenerationFence, BindingTransition,
    RelocationCoordinatorFence, RelocationTargetFence, RequestSourceFence,
    RetiredBoundSessionRouteFence, SessionRouteUpdate, SpotMembership, SpotRef, SpotRouteFence,
    UserSpotCloseFence,
};
use crate::relocation::{
    AggregateParticipant, AggregateParticipants, MaintenanceAggregate, ManifestChunk,
    ManifestChunks, ParticipantState, ParticipantStates, PendingTimerTick, PendingTimerTicks,
    RelocationControlData, RelocationDataChunk, RelocationEnvelope, RelocationManifest,
    RelocationObject, SavedWork, SavedWorkEntry, TimerRegistration, TimerRegistrations,
};
use crate::scalar::RawSha256;
use crate::standalone::{Standalone, decode, encode};

/// A type of the contract, with its two directions.
#[derive(Clone, Copy, Debug)]
pub struct NamedType {
    name: &'static str,
    durable: bool,
    check: fn(&Bytes) -> Result<(), DecodeError>,
    decode: fn(&Bytes) -> Result<Node, DecodeError>,
    encode: fn(Node) -> Result<Bytes, NamedError>,
}

/// Why a JSON value was not encoded. A mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamedError {
    /// The JSON is not the form of a value of this type.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The value breaks a rule or a bound of its encoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl NamedType {
    /// The name in the contract; a durable format is `durable:` and the name of its body.
    pub fn name(&self) -> String {
        if self.durable {
            format!("durable:{}", self.name)
        } else {
            self.name.to_owned()
        }
    }

    /// Decodes bytes and keeps nothing.
    ///
    /// # Errors
    /// The bytes are not a legal value.
    pub fn check(&self, bytes: &Bytes) -> Result<(), DecodeError> {
        (self.check)(bytes)
    }

    /// Decodes bytes into the JSON form.
    ///
    /// # Errors
    /// The bytes are not a legal value.
    pub fn decode(&self, bytes: &Bytes) -> Result<Node, DecodeError> {
        (self.decode)(bytes)
    }

    /// Encodes the JSON form.
    ///
    /// # Errors
    /// The JSON is not the form of a legal value.
    pub fn encode(&self, value: Node) -> Result<Bytes, NamedError> {
        (self.encode)(value)
    }

    const fn of<T: Standalone>() -> Self {
        Self {
            name: T::CONTRACT_NAME,
            durable: false,
            check: |bytes| decode::<T>(bytes).map(drop),
            decode: |bytes| decode::<T>(bytes).map(|value| value.to_json()),
            encode: |node| Ok(encode(&T::from_json(node)?)?),
        }
    }

    const fn durable<T: Durable>() -> Self {
        Self {
            name: T::CONTRACT_NAME,
            durable: true,
            check: |bytes| crate::durable::decode::<T>(bytes).map(drop),
            decode: |bytes| crate::durable::decode::<T>(bytes).map(|value| value.to_json()),
            encode: |node| Ok(crate::durable::encode(&T::from_json(node)?)?),
        }
    }
}

/// The type with this name, if it can stand alone.
pub fn named_type(name: &str) -> Option<NamedType> {
    let (durable, plain) = match name.strip_prefix("durable:") {
        Some(plain) => (true, plain),
        None => (false, name),
    };
    all().find(|named| named.durable == durable && named.name == plain)
}

/// Every type that can stand alone.
pub fn all() -> impl Iterator<Item = NamedType> {
    SCALARS.iter().chain(COMPOSITES).chain(DURABLES).copied()
}

macro_rules! named {
    ($($ty:ty,)+) => {
        &[$(NamedType::of::<$ty>(),)+]
    };
}

const DURABLES: &[NamedType] = &[
    NamedType::durable::<AuthorityPayload>(),
    NamedType::durable::<InstanceActivationRecovery>(),
    NamedType::durable::<RelocationDataChunk>(),
    NamedType::durable::<RelocationManifest>(),
];

const COMPOSITES: &[NamedType] = named![
    Blob16,
    NonEmptyBlob16,
    PayloadBytes,
    DurableBlob,
    StateBlob,
    ParticipantMutation,
    RawSha256,
    ApplicationPayload,
    MetadataEntry,
    MetadataFrame,
    ActorJoinReply,
    ActorRef,
    SpotRef,
    ActorCreateTerminal,
    CreationOperationTerminal,
    Option<SpotRef>,
    SpotMembership,
    Option<SpotMembership>,
    BindingTransition,
    RetiredBoundSessionRouteFence,
    SessionRouteUpdate,
    ObjectCreationKey,
    ObjectCreationIntent,
    PendingObjectCreation,
    ObjectCreationTarget,
    InstanceActivationRecovery,
    ObjectReservationFence,
    ObjectReservation,
    AggregateParticipant,
    AggregateParticipants,
    MaintenanceAggregate,
    ActorRouteFence,
    SpotRouteFence,
    UserSpotCloseFence,
    FollowRoute,
    FollowNotice,
    RelocationObject,
    ActorAuthorityIdentity,
    InstanceAuthorityIdentity,
    SpotAuthorityIdentity,
    AuthorityObject,
    AuthorityGenerationFence,
    RelocationCoordinatorFence,
    RelocationTargetFence,
    RequestSourceFence,
    Option<ActorRef>,
    BoundSessionTail,
    ChannelEntry,
    Channels,
    SortedTexts,
    StatefulCapability,
    StatefulCapabilities,
    DescriptorExtension,
    RouteMeshAdmission,
    ClientServerAdmission,
    ServiceAdmission,
    ColdActivationReplyContext,
    ReplyRelayContext,
    SendReadyDestination,
    ActorMembershipSnapshot,
    Option<ActorMembershipSnapshot>,
    ActorControlData,
    RelocationControlData,
    FrozenSource,
    FrozenRecord,
    InstanceRoute,
    Option<RelocationRootPointer>,
    Option<AuthorityRelocationState>,
    Option<ActivationRecoveryState>,
    AuthorityPayload,
    SavedWorkEntry,
    SavedWork,
    ManifestChunk,
    ManifestChunks,
    RelocationManifest,
    RelocationDataChunk,
    Option<StateBlob>,
    ParticipantState,
    ParticipantStates,
    TimerRegistration,
    TimerRegistrations,
    PendingTimerTick,
    PendingTimerTicks,
    RelocationEnvelope,
];

use spotlane_types::count::{
    ApplicationVersion, CapacityLimit, CreationRequestSize, Ordinal, PendingCapacityLimit,
    Positive, PositiveU32, RelocationChunkCount, RelocationLogicalLength,
};
use spotlane_types::id::{
    AggregateId, ContentType, CreationContentReference, Endpoint, NodeRid, OperationId, PacketName,
    RecoveryReference, RelocationId, RelocationReference, Sha256, StoreVersion,
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
use spotlane_types::text::{MetadataValue, NonEmptyText16, Text8, Text16};

const SCALARS: &[NamedType] = named![
    u8,
    u16,
    u32,
    PositiveU32,
    u64,
    Positive,
    Ordinal,
    RelocationLogicalLength,
    RelocationChunkCount,
    ApplicationVersion,
    bool,
    NodeRid,
    Option<NodeRid>,
    Text8,
    Option<Text8>,
    Sha256,
    RecoveryReference,
    CreationRequestSize,
    Text16,
    NonEmptyText16,
    Endpoint,
    PacketName,
    ContentType,
    MetadataValue,
    CapacityLimit,
    PendingCapacityLimit,
    AggregateId,
    OperationId,
    RelocationId,
    CreationContentReference,
    RelocationReference,
    StoreVersion,
    RuntimeState,
    StatefulObjectKind,
    ObjectRole,
    AuthorityObjectKind,
    SpotKind,
    SpotAuthorityState,
    ActorAuthorityState,
    RelocationPolicyKind,
    TimerOverrunPolicyKind,
    ActorSpotKind,
    RelocationRole,
    ActorJoinResult,
    MeshRecordKind,
    FrozenSourceKind,
    MeshDestinationKind,
    ServiceTopologyKind,
    ClientServerRole,
    ClientServerDirection,
    ActorLifecycleKind,
    BindingState,
    SessionRouteAction,
    RelocationPhase,
    SourceCleanupState,
    ReplyRelayAckStatus,
    AuthorityOperationKind,
    MeshOperationKind,
    TerminalResult,
    FailureCode,
    InstanceOperationKind,
    InstanceRouteKind,
    UserSpotCreateResult,
    ActorCreateResult,
    InstanceAuthorityState,
    ReplyRelayContextKind,
    ColdActivationCompletionKind,
    RejectReason,
    ReservationOperationKind,
];
