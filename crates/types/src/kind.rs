//! The closed enumerations of the contract.
//!
//! Another value on the wire is a protocol error, so these enums are exhaustive on purpose: a new
//! member is a new version of the contract. Every one knows its wire value and its contract name.

macro_rules! closed_enum {
    ($(
        $(#[$meta:meta])*
        $contract:literal $name:ident: $repr:ty {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal $text:literal,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\nContract: `", $contract, "`.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(clippy::exhaustive_enums, reason = "closed by the contract")]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The name of the enumeration in the contract.
            pub const CONTRACT_NAME: &'static str = $contract;
            /// Every member, in the order of the wire values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The member with this wire value, if there is one.
            #[inline]
            pub const fn from_wire(value: $repr) -> Option<Self> {
                match value {
                    $($value => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The wire value.
            #[inline]
            pub const fn wire(self) -> $repr {
                match self {
                    $(Self::$variant => $value,)+
                }
            }

            /// The name in the contract.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The member with this contract name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    )+};
}

closed_enum! {
    /// What a node or server says of itself.
    "runtime-state" RuntimeState: u8 {
        /// Preparing.
        Preparing = 0 "preparing",
        /// Serving.
        Serving = 1 "serving",
        /// Draining.
        Draining = 2 "draining",
        /// Stopped.
        Stopped = 3 "stopped",
        /// Error.
        Error = 4 "error",
    }
    /// The kinds of object that a node can host.
    "stateful-object-kind" StatefulObjectKind: u8 {
        /// Actor.
        Actor = 1 "actor",
        /// User spot.
        UserSpot = 2 "userSpot",
        /// Instance spot.
        InstanceSpot = 3 "instanceSpot",
    }
    /// Whether a node hosts objects or only uses them.
    "object-role" ObjectRole: u8 {
        /// None.
        None = 0 "none",
        /// Client.
        Client = 1 "client",
        /// Server.
        Server = 2 "server",
    }
    /// The two key spaces of authority rows.
    "authority-object-kind" AuthorityObjectKind: u8 {
        /// Actor.
        Actor = 1 "actor",
        /// Spot.
        Spot = 2 "spot",
    }
    /// The three kinds of Spot.
    "spot-kind" SpotKind: u8 {
        /// Entry.
        Entry = 1 "entry",
        /// User.
        User = 2 "user",
        /// Instance.
        Instance = 3 "instance",
    }
    /// The state of an Entry or User Spot in its authority row.
    "entry-user-spot-authority-state" SpotAuthorityState: u8 {
        /// Creating.
        Creating = 0 "creating",
        /// Ready.
        Ready = 1 "ready",
        /// Closing.
        Closing = 2 "closing",
        /// Relocating.
        Relocating = 3 "relocating",
    }
    /// The state of an Actor in its authority row.
    "actor-authority-state" ActorAuthorityState: u8 {
        /// Creating.
        Creating = 0 "creating",
        /// Ready.
        Ready = 1 "ready",
    }
    /// What happens to the state of an object when it moves.
    "relocation-policy-kind" RelocationPolicyKind: u8 {
        /// Disabled.
        Disabled = 0 "disabled",
        /// Recreate.
        Recreate = 1 "recreate",
        /// Snapshot.
        Snapshot = 2 "snapshot",
    }
    /// What a timer does with ticks that it could not deliver in time.
    "timer-overrun-policy-kind" TimerOverrunPolicyKind: u8 {
        /// Skip late ticks.
        SkipLateTicks = 1 "skipLateTicks",
        /// Catch up bounded.
        CatchUpBounded = 2 "catchUpBounded",
        /// Delay next tick.
        DelayNextTick = 3 "delayNextTick",
    }
    /// The kinds of Spot that an Actor can be a member of.
    "actor-spot-kind" ActorSpotKind: u8 {
        /// Entry.
        Entry = 1 "entry",
        /// User.
        User = 2 "user",
    }
    /// Who speaks in a move (WR-51).
    "relocation-role" RelocationRole: u8 {
        /// Source.
        Source = 1 "source",
        /// Target.
        Target = 2 "target",
        /// Coordinator.
        Coordinator = 3 "coordinator",
    }
    /// The answer to a join.
    "actor-join-result" ActorJoinResult: u32 {
        /// Accepted.
        Accepted = 0 "accepted",
        /// Rejected.
        Rejected = 1 "rejected",
    }
    /// What a frozen record was when it was accepted (WR-30).
    "mesh-record-kind" MeshRecordKind: u8 {
        /// Node send.
        NodeSend = 1 "nodeSend",
        /// Node request.
        NodeRequest = 2 "nodeRequest",
        /// Channel send.
        ChannelSend = 3 "channelSend",
        /// Channel request.
        ChannelRequest = 4 "channelRequest",
        /// Spot send.
        SpotSend = 5 "spotSend",
        /// Spot request.
        SpotRequest = 6 "spotRequest",
        /// Spot multicast.
        SpotMulticast = 7 "spotMulticast",
        /// Spot control.
        SpotControl = 8 "spotControl",
        /// Actor send.
        ActorSend = 9 "actorSend",
        /// Actor request.
        ActorRequest = 10 "actorRequest",
        /// Completion.
        Completion = 11 "completion",
        /// Send ready.
        SendReady = 12 "sendReady",
        /// Relocation control.
        RelocationControl = 13 "relocationControl",
        /// Instance spot activation.
        InstanceSpotActivation = 14 "instanceSpotActivation",
    }
    /// Who sent a frozen record (WR-33).
    "frozen-source-kind" FrozenSourceKind: u8 {
        /// Node.
        Node = 1 "node",
        /// Spot.
        Spot = 2 "spot",
        /// Actor.
        Actor = 3 "actor",
        /// Bound session.
        BoundSession = 4 "boundSession",
    }
    /// What a record can be sent to.
    "mesh-destination-kind" MeshDestinationKind: u8 {
        /// Node.
        Node = 1 "node",
        /// Channel.
        Channel = 2 "channel",
        /// Spot.
        Spot = 3 "spot",
        /// Actor.
        Actor = 4 "actor",
        /// Bound session.
        BoundSession = 5 "boundSession",
    }
    /// The two topologies of a service.
    "service-topology-kind" ServiceTopologyKind: u8 {
        /// Route mesh.
        RouteMesh = 1 "routeMesh",
        /// Client server.
        ClientServer = 2 "clientServer",
    }
    /// The two sides of a client-server channel.
    "client-server-role" ClientServerRole: u8 {
        /// Client.
        Client = 1 "client",
        /// Server.
        Server = 2 "server",
    }
    /// Who may start a message on a client-server channel.
    "client-server-direction" ClientServerDirection: u8 {
        /// Client to server.
        ClientToServer = 1 "clientToServer",
    }
    /// What happened to an Actor.
    "actor-lifecycle-kind" ActorLifecycleKind: u8 {
        /// Created.
        Created = 1 "created",
        /// Joined.
        Joined = 2 "joined",
        /// Left.
        Left = 3 "left",
        /// Disconnected.
        Disconnected = 4 "disconnected",
        /// Destroyed.
        Destroyed = 5 "destroyed",
    }
    /// Whether a binding is in force or was retired.
    "bound-session-binding-state" BindingState: u8 {
        /// Active.
        Active = 1 "active",
        /// Tombstone.
        Tombstone = 2 "tombstone",
    }
    /// What the session owner does with a sealed binding.
    "session-relocation-route-action" SessionRouteAction: u8 {
        /// Commit.
        Commit = 1 "commit",
        /// Abort.
        Abort = 2 "abort",
    }
    /// How far a move has got, as its authority row records it (WR-63).
    "relocation-phase" RelocationPhase: u8 {
        /// None.
        None = 0 "none",
        /// Preparing.
        Preparing = 1 "preparing",
        /// Captured.
        Captured = 2 "captured",
        /// Prepared.
        Prepared = 3 "prepared",
        /// Committed.
        Committed = 4 "committed",
        /// Activating.
        Activating = 5 "activating",
        /// Activated.
        Activated = 6 "activated",
        /// Cleaning.
        Cleaning = 7 "cleaning",
        /// Completed.
        Completed = 8 "completed",
        /// Aborted.
        Aborted = 9 "aborted",
    }
    /// What became of the source of a move.
    "source-cleanup-state" SourceCleanupState: u8 {
        /// Pending.
        Pending = 0 "pending",
        /// Completed.
        Completed = 1 "completed",
        /// Source lease expired.
        SourceLeaseExpired = 2 "sourceLeaseExpired",
    }
    /// What the request source did with a relayed reply.
    "reply-relay-ack-status" ReplyRelayAckStatus: u8 {
        /// Terminal received.
        TerminalReceived = 1 "terminalReceived",
        /// Already terminal.
        AlreadyTerminal = 2 "alreadyTerminal",
    }
    /// What an authority row is in the middle of (WR-62).
    "authority-operation-kind" AuthorityOperationKind: u8 {
        /// Steady.
        Steady = 0 "steady",
        /// Cold activation.
        ColdActivation = 1 "coldActivation",
        /// Maintenance relocation.
        MaintenanceRelocation = 2 "maintenanceRelocation",
        /// Close.
        Close = 3 "close",
    }
    /// What a pending operation is; it decides the tail of its reply (WR-21).
    "mesh-operation-kind" MeshOperationKind: u32 {
        /// None.
        None = 0 "none",
        /// Node request.
        NodeRequest = 1 "nodeRequest",
        /// Channel request.
        ChannelRequest = 2 "channelRequest",
        /// Spot request.
        SpotRequest = 3 "spotRequest",
        /// Actor request.
        ActorRequest = 4 "actorRequest",
        /// Actor lookup.
        ActorLookup = 5 "actorLookup",
        /// Actor destroy.
        ActorDestroy = 6 "actorDestroy",
        /// Actor join.
        ActorJoin = 7 "actorJoin",
        /// Actor leave.
        ActorLeave = 8 "actorLeave",
        /// Stream bind.
        StreamBind = 9 "streamBind",
        /// Stream unbind.
        StreamUnbind = 10 "streamUnbind",
        /// Stream close.
        StreamClose = 11 "streamClose",
        /// Instance spot request.
        InstanceSpotRequest = 12 "instanceSpotRequest",
        /// User spot create.
        UserSpotCreate = 13 "userSpotCreate",
        /// User spot close.
        UserSpotClose = 14 "userSpotClose",
        /// Actor create.
        ActorCreate = 15 "actorCreate",
    }
    /// How an operation ended (WR-20).
    "request-terminal-result" TerminalResult: u32 {
        /// Ok.
        Ok = 0 "ok",
        /// Timed out.
        TimedOut = 101 "timedOut",
        /// Not found.
        NotFound = 102 "notFound",
        /// Terminated.
        Terminated = 103 "terminated",
        /// Protocol error.
        ProtocolError = 104 "protocolError",
        /// Internal error.
        InternalError = 105 "internalError",
        /// Rejected.
        Rejected = 106 "rejected",
        /// Conflict.
        Conflict = 107 "conflict",
        /// Busy.
        Busy = 108 "busy",
        /// Not connected.
        NotConnected = 109 "notConnected",
        /// Invalid argument.
        InvalidArgument = 110 "invalidArgument",
        /// Invalid state.
        InvalidState = 111 "invalidState",
        /// Not supported.
        NotSupported = 112 "notSupported",
        /// Backpressured.
        Backpressured = 113 "backpressured",
    }
    /// Why an operation failed (WR-20). The values 23 to 32 are not legal on the wire (WR-21).
    "framework-error-code" FailureCode: u32 {
        /// None.
        None = 0 "none",
        /// Actor route not found.
        ActorRouteNotFound = 1 "actorRouteNotFound",
        /// Actor create failed.
        ActorCreateFailed = 2 "actorCreateFailed",
        /// Actor already exists.
        ActorAlreadyExists = 3 "actorAlreadyExists",
        /// Actor type mismatch.
        ActorTypeMismatch = 4 "actorTypeMismatch",
        /// Spot create failed.
        SpotCreateFailed = 5 "spotCreateFailed",
        /// Spot route not found.
        SpotRouteNotFound = 6 "spotRouteNotFound",
        /// Spot type mismatch.
        SpotTypeMismatch = 7 "spotTypeMismatch",
        /// Actor session not bound.
        ActorSessionNotBound = 8 "actorSessionNotBound",
        /// Handler not found.
        HandlerNotFound = 9 "handlerNotFound",
        /// Route handler not found.
        RouteHandlerNotFound = 10 "routeHandlerNotFound",
        /// Actor dispatch handler not found.
        ActorDispatchHandlerNotFound = 11 "actorDispatchHandlerNotFound",
        /// Payload decode failed.
        PayloadDecodeFailed = 12 "payloadDecodeFailed",
        /// Route not connected.
        RouteNotConnected = 13 "routeNotConnected",
        /// Request target not found.
        RequestTargetNotFound = 14 "requestTargetNotFound",
        /// Request rejected.
        RequestRejected = 15 "requestRejected",
        /// Request protocol error.
        RequestProtocolError = 16 "requestProtocolError",
        /// Request failed.
        RequestFailed = 17 "requestFailed",
        /// Worker queue full.
        WorkerQueueFull = 18 "workerQueueFull",
        /// Worker timed out.
        WorkerTimedOut = 19 "workerTimedOut",
        /// Worker failed.
        WorkerFailed = 20 "workerFailed",
        /// Actor location stale.
        ActorLocationStale = 21 "actorLocationStale",
        /// Actor create rejected.
        ActorCreateRejected = 22 "actorCreateRejected",
        /// Spot generation stale.
        SpotGenerationStale = 33 "spotGenerationStale",
        /// Spot moving.
        SpotMoving = 34 "spotMoving",
        /// Relocation data lost.
        RelocationDataLost = 35 "relocationDataLost",
    }
    /// Whether a message to an Instance Spot wants an answer.
    "instance-operation-kind" InstanceOperationKind: u8 {
        /// Send.
        Send = 1 "send",
        /// Request.
        Request = 2 "request",
    }
    /// Whether an Instance Spot is ready or has to be activated.
    "instance-route-kind" InstanceRouteKind: u8 {
        /// Ready.
        Ready = 1 "ready",
        /// Cold activation.
        ColdActivation = 2 "coldActivation",
    }
    /// The answer to the creation of a User Spot.
    "user-spot-create-result" UserSpotCreateResult: u8 {
        /// Existing.
        Existing = 1 "existing",
        /// Created.
        Created = 2 "created",
        /// Rejected.
        Rejected = 3 "rejected",
    }
    /// The answer to the creation of an Actor.
    "actor-create-result" ActorCreateResult: u8 {
        /// Existing.
        Existing = 1 "existing",
        /// Created.
        Created = 2 "created",
        /// Rejected.
        Rejected = 3 "rejected",
    }
    /// The state of an Instance Spot in its authority row.
    "instance-authority-state" InstanceAuthorityState: u8 {
        /// Cold activating.
        ColdActivating = 1 "coldActivating",
        /// Ready.
        Ready = 2 "ready",
        /// Closing.
        Closing = 3 "closing",
        /// Relocating.
        Relocating = 4 "relocating",
    }
    /// Why a reply is relayed.
    "reply-relay-context-kind" ReplyRelayContextKind: u8 {
        /// Cold activation.
        ColdActivation = 1 "coldActivation",
        /// Maintenance relocation.
        MaintenanceRelocation = 2 "maintenanceRelocation",
    }
    /// How the activation of an Instance Spot ended.
    "cold-activation-completion-kind" ColdActivationCompletionKind: u8 {
        /// Ready barrier.
        ReadyBarrier = 1 "readyBarrier",
        /// Activation failure.
        ActivationFailure = 2 "activationFailure",
    }
    /// Why a node was not admitted.
    "reject-reason" RejectReason: u32 {
        /// Protocol version unsupported.
        ProtocolVersionUnsupported = 1 "protocolVersionUnsupported",
        /// Topology mismatch.
        TopologyMismatch = 2 "topologyMismatch",
        /// Identity mismatch.
        IdentityMismatch = 3 "identityMismatch",
        /// Security identity mismatch.
        SecurityIdentityMismatch = 4 "securityIdentityMismatch",
        /// Channel mismatch.
        ChannelMismatch = 5 "channelMismatch",
        /// Lifecycle generation stale.
        LifecycleGenerationStale = 6 "lifecycleGenerationStale",
        /// Descriptor revision stale.
        DescriptorRevisionStale = 7 "descriptorRevisionStale",
        /// Capability mismatch.
        CapabilityMismatch = 8 "capabilityMismatch",
        /// Runtime not serving.
        RuntimeNotServing = 9 "runtimeNotServing",
        /// Duplicate connection.
        DuplicateConnection = 10 "duplicateConnection",
        /// Invalid descriptor.
        InvalidDescriptor = 11 "invalidDescriptor",
        /// Resource limit.
        ResourceLimit = 12 "resourceLimit",
    }
    /// The three steps of an object reservation.
    "generic-reservation-operation-kind" ReservationOperationKind: u8 {
        /// Reserve.
        Reserve = 1 "reserve",
        /// Commit.
        Commit = 2 "commit",
        /// Abort.
        Abort = 3 "abort",
    }
}

impl TerminalResult {
    /// Whether a reply with this result names a failure code other than none (WR-20).
    pub const fn has_failure_code(self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::ProtocolError
                | Self::InternalError
                | Self::Rejected
                | Self::Conflict
        )
    }
}

impl FailureCode {
    /// The one terminal result that this code goes with; `None` for [`FailureCode::None`] (WR-20).
    pub const fn terminal_result(self) -> Option<TerminalResult> {
        Some(match self {
            Self::None => return None,
            Self::ActorRouteNotFound
            | Self::SpotRouteNotFound
            | Self::ActorSessionNotBound
            | Self::HandlerNotFound
            | Self::RouteHandlerNotFound
            | Self::ActorDispatchHandlerNotFound
            | Self::RequestTargetNotFound => TerminalResult::NotFound,
            Self::ActorAlreadyExists
            | Self::ActorTypeMismatch
            | Self::SpotTypeMismatch
            | Self::ActorLocationStale
            | Self::SpotGenerationStale
            | Self::SpotMoving => TerminalResult::Conflict,
            Self::RequestRejected | Self::WorkerQueueFull | Self::ActorCreateRejected => {
                TerminalResult::Rejected
            }
            Self::PayloadDecodeFailed | Self::RequestProtocolError => TerminalResult::ProtocolError,
            Self::ActorCreateFailed
            | Self::SpotCreateFailed
            | Self::RouteNotConnected
            | Self::RequestFailed
            | Self::WorkerTimedOut
            | Self::WorkerFailed
            | Self::RelocationDataLost => TerminalResult::InternalError,
        })
    }

    /// Whether this code may stand beside `result` (WR-20).
    pub fn fits(self, result: TerminalResult) -> bool {
        match self.terminal_result() {
            Some(only) => only == result,
            None => !result.has_failure_code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-20
    #[test]
    fn a_failure_code_fits_exactly_one_result() {
        for code in FailureCode::ALL {
            let fitting = TerminalResult::ALL
                .iter()
                .filter(|r| code.fits(**r))
                .count();
            let expected = if *code == FailureCode::None { 9 } else { 1 };
            assert_eq!(fitting, expected, "{code}");
        }
    }

    /// WR-21
    #[test]
    fn the_reserved_failure_codes_are_no_members() {
        for value in 23..=32 {
            assert_eq!(FailureCode::from_wire(value), None);
        }
    }

    #[test]
    fn a_name_and_a_wire_value_lead_back_to_the_member() {
        for kind in MeshOperationKind::ALL {
            assert_eq!(MeshOperationKind::from_wire(kind.wire()), Some(*kind));
            assert_eq!(MeshOperationKind::from_name(kind.name()), Some(*kind));
        }
    }
}
