//! Replies and their relay after a move: commands 20, 33 and 46.

use spotlane_types::count::{
    Correlation, ParticipantId, ReceiveChunkLimit, RelaySequence, ReplyRouteId,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, MembershipEpoch, ObjectGeneration,
    TargetAttemptGeneration,
};
use spotlane_types::id::{OperationId, RelocationId, SpotId};
use spotlane_types::kind::{
    ActorJoinResult, ColdActivationCompletionKind, FailureCode, MeshOperationKind,
    ReplyRelayAckStatus, ReplyRelayContextKind, TerminalResult, UserSpotCreateResult,
};

use super::wire_command;
use crate::creation::ActorCreateTerminal;
use crate::error::Breach;
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Members, Node, ObjectReader};
use crate::layout::{FlatLayout, Layout, wire_struct, wire_union};
use crate::reader::{Read, Reader};
use crate::reference::{
    ActorRef, AuthorityGenerationFence, RelocationCoordinatorFence, RequestSourceFence, SpotRef,
};
use crate::terminal::{check_payload, check_terminal};
use crate::writer::{Writer, Written};

wire_union! {
    /// The answer to a join (WR-57).
    "actor-join-reply-tail" enum ActorJoinReply on "joinResult" ActorJoinResult len u16 {
        /// The Actor is a member now.
        Accepted {
            /// The Spot.
            spot: SpotRef = "spot",
            /// The owner generation of the Actor at the reply; equality only.
            membership_epoch: MembershipEpoch = "membershipEpoch",
            /// The largest relocation chunk that the target takes; none on the wire is 0.
            receive_chunk_limit_bytes: Option<ReceiveChunkLimit> = "receiveChunkLimitBytes",
        }
        /// The Spot refused.
        Rejected {
            /// The Spot, if there is one.
            spot: Option<SpotRef> = "spot",
        }
    }

    /// How the activation ended whose reply is relayed.
    "cold-activation-reply-context" enum ColdActivationReplyContext
        on "completionKind" ColdActivationCompletionKind len u16
    {
        /// The Spot is ready.
        ReadyBarrier {
            /// Its tenure.
            authority: AuthorityGenerationFence = "authority",
        }
        /// The activation failed.
        ActivationFailure {
            /// The tenure that was tried.
            authority: AuthorityGenerationFence = "authority",
        }
    }

    /// Why a reply is relayed.
    "reply-relay-context" enum ReplyRelayContext on "contextKind" ReplyRelayContextKind len u16 {
        /// An Instance Spot was activated.
        ColdActivation {
            /// How that ended.
            cold_activation: ColdActivationReplyContext = "coldActivation",
        }
        /// The object has moved.
        MaintenanceRelocation {
            /// The move.
            relocation: RelocationId = "relocation",
            /// Its attempt.
            target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
            /// Its coordinator.
            coordinator: RelocationCoordinatorFence = "coordinator",
            /// The participant that answered.
            participant_id: ParticipantId = "participantId",
            /// The place of the reply among those of the participant.
            sequence: RelaySequence = "sequence",
        }
    }
}

wire_struct! {
    /// What a look-up found.
    "request-specific-tail:actorLookup" struct ActorLookupReply {
        /// The Actor.
        actor: ActorRef = "actor",
        /// The Spot it is a member of.
        spot_id: SpotId = "spotId",
        /// The incarnation of that Spot.
        spot_generation: ObjectGeneration = "spotGeneration",
        /// The membership.
        membership_epoch: MembershipEpoch = "membershipEpoch",
        /// The tenure.
        authority_owner_generation: AuthorityOwnerGeneration = "authorityOwnerGeneration",
    }

    /// What a bind gave.
    "request-specific-tail:streamBind" struct StreamBindReply {
        /// The binding.
        binding_generation: BindingGeneration = "bindingGeneration",
        /// The tenure of the Actor.
        authority_owner_generation: AuthorityOwnerGeneration = "authorityOwnerGeneration",
    }

    /// What the creation of a User Spot gave.
    "request-specific-tail:userSpotCreate" struct UserSpotCreateReply {
        /// Whether it was there already, is new, or was refused.
        create_result: UserSpotCreateResult = "createResult",
        /// The Spot.
        spot: SpotRef = "spot",
    }

    /// What the close of a User Spot gave.
    "request-specific-tail:userSpotClose" struct UserSpotCloseReply {
        /// Whether there was something to close.
        closed: bool = "closed",
    }

    /// What a join gave.
    "request-specific-tail:actorJoin" struct ActorJoinTail {
        /// The answer.
        join: ActorJoinReply = "join",
    }

    /// What the creation of an Actor gave.
    "request-specific-tail:actorCreate" struct ActorCreateTail {
        /// The answer.
        creation: ActorCreateTerminal = "creation",
    }
}

/// What a reply with the result `ok` carries beside its payload (WR-21).
///
/// Contract: `request-specific-tail`. The larger ones are in boxes: nearly every reply has none, and each is moved
/// several times on its way to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "mirrors a closed union of the contract"
)]
pub enum ReplyTail {
    /// Nothing.
    None,
    /// What a look-up found.
    ActorLookup(Box<ActorLookupReply>),
    /// What a join gave.
    ActorJoin(Box<ActorJoinTail>),
    /// What a bind gave.
    StreamBind(StreamBindReply),
    /// What the creation of a User Spot gave.
    UserSpotCreate(Box<UserSpotCreateReply>),
    /// What the close of a User Spot gave.
    UserSpotClose(UserSpotCloseReply),
    /// What the creation of an Actor gave.
    ActorCreate(Box<ActorCreateTail>),
}

fn boxed<T, E>(tail: Result<T, E>) -> Result<Box<T>, E> {
    tail.map(Box::new)
}

/// Makes the tail that replies to operations of this kind have (WR-21).
macro_rules! by_operation {
    ($kind:expr, $make:ident($from:expr), or $none:expr) => {
        match $kind {
            MeshOperationKind::ActorLookup => boxed(Layout::$make($from)).map(Self::ActorLookup),
            MeshOperationKind::ActorJoin => boxed(Layout::$make($from)).map(Self::ActorJoin),
            MeshOperationKind::StreamBind => Layout::$make($from).map(Self::StreamBind),
            MeshOperationKind::UserSpotCreate => {
                boxed(Layout::$make($from)).map(Self::UserSpotCreate)
            }
            MeshOperationKind::UserSpotClose => Layout::$make($from).map(Self::UserSpotClose),
            MeshOperationKind::ActorCreate => boxed(Layout::$make($from)).map(Self::ActorCreate),
            MeshOperationKind::None
            | MeshOperationKind::NodeRequest
            | MeshOperationKind::ChannelRequest
            | MeshOperationKind::SpotRequest
            | MeshOperationKind::ActorRequest
            | MeshOperationKind::ActorDestroy
            | MeshOperationKind::ActorLeave
            | MeshOperationKind::StreamUnbind
            | MeshOperationKind::StreamClose
            | MeshOperationKind::InstanceSpotRequest => $none,
        }
    };
}

impl ReplyTail {
    fn read(kind: MeshOperationKind, r: &mut Reader<'_>) -> Read<Self> {
        by_operation!(kind, read(r), or Ok(Self::None))
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        match self {
            Self::None => Ok(()),
            Self::ActorLookup(tail) => tail.write(w),
            Self::ActorJoin(tail) => tail.write(w),
            Self::StreamBind(tail) => tail.write(w),
            Self::UserSpotCreate(tail) => tail.write(w),
            Self::UserSpotClose(tail) => tail.write(w),
            Self::ActorCreate(tail) => tail.write(w),
        }
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        match self {
            Self::None => json::object(|_| ()),
            Self::ActorLookup(tail) => tail.to_json(),
            Self::ActorJoin(tail) => tail.to_json(),
            Self::StreamBind(tail) => tail.to_json(),
            Self::UserSpotCreate(tail) => tail.to_json(),
            Self::UserSpotClose(tail) => tail.to_json(),
            Self::ActorCreate(tail) => tail.to_json(),
        }
    }

    #[cfg(feature = "serde")]
    fn from_json(kind: MeshOperationKind, node: Node) -> Result<Self, JsonError> {
        by_operation!(kind, from_json(node), or json::read_object(node, |_| Ok(Self::None)))
    }
}

/// How an operation ended and what that brought, beside the payload.
///
/// Stands inside command 20 as the fields `terminalResult`, `failureCode` and `tail`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors three closed fields of the contract"
)]
pub struct ReplyOutcome {
    /// How it ended.
    pub terminal_result: TerminalResult,
    /// Why it failed.
    pub failure_code: FailureCode,
    /// What it brought; nothing unless the result is `ok` (WR-21).
    pub tail: ReplyTail,
}

impl FlatLayout for ReplyOutcome {
    const MIN: usize = 8;

    fn read_flat(r: &mut Reader<'_>) -> Read<Self> {
        let terminal_result = TerminalResult::read(r).map_err(|e| e.within("terminalResult"))?;
        let failure_code = FailureCode::read(r).map_err(|e| e.within("failureCode"))?;
        let tail = if terminal_result == TerminalResult::Ok {
            ReplyTail::read(r.pending(), r).map_err(|e| e.within("tail"))?
        } else {
            ReplyTail::None
        };
        Ok(Self {
            terminal_result,
            failure_code,
            tail,
        })
    }

    fn write_flat(&self, w: &mut Writer<'_>) -> Written {
        self.terminal_result.write(w)?;
        self.failure_code.write(w)?;
        self.tail.write(w).map_err(|e| e.within("tail"))
    }

    #[cfg(feature = "serde")]
    fn to_members(&self, members: &mut Members) {
        members.push("terminalResult", self.terminal_result.to_json());
        members.push("failureCode", self.failure_code.to_json());
        members.push("tail", self.tail.to_json());
    }

    #[cfg(feature = "serde")]
    fn from_members(object: &mut ObjectReader) -> Result<Self, JsonError> {
        let terminal_result = object.take("terminalResult")?;
        let failure_code = object.take("failureCode")?;
        let kind = if terminal_result == TerminalResult::Ok {
            object.pending()
        } else {
            MeshOperationKind::None
        };
        let tail = object
            .node("tail")
            .ok_or_else(|| JsonError::new("missing"))
            .and_then(|node| ReplyTail::from_json(kind, node))
            .map_err(|e| e.within("tail"))?;
        Ok(Self {
            terminal_result,
            failure_code,
            tail,
        })
    }
}

fn reply_rule(reply: &Reply) -> Result<(), Breach> {
    let ReplyOutcome {
        terminal_result,
        failure_code,
        tail,
    } = &reply.outcome;
    check_terminal(*terminal_result, *failure_code)?;
    check_payload(*terminal_result, reply.payload.is_some(), "payload")?;
    if *terminal_result != TerminalResult::Ok && *tail != ReplyTail::None {
        return Err(Breach::new("tail", "a tail goes only with the result ok"));
    }
    Ok(())
}

fn relay_rule(relay: &ReplyRelay) -> Result<(), Breach> {
    check_terminal(relay.terminal_result, relay.failure_code)?;
    check_payload(relay.terminal_result, relay.payload.is_some(), "payload")
}

wire_command! {
    /// Answers a request.
    20 "reply" command Reply frames [payload ?] rule reply_rule {
        /// The request.
        correlation: Correlation = "correlation",
        /// How it ended and what that brought.
        outcome: ReplyOutcome = (flat),
    }

    /// Relays a reply to the source of a request whose object has moved or was activated.
    33 "replyRelay" command ReplyRelay frames [payload ?] rule relay_rule {
        /// The request.
        operation: OperationId = "operation",
        /// The way back to its caller.
        reply_route_id: ReplyRouteId = "replyRouteId",
        /// Why it is relayed.
        context: ReplyRelayContext = "context",
        /// How the request ended.
        terminal_result: TerminalResult = "terminalResult",
        /// Why it failed.
        failure_code: FailureCode = "failureCode",
    }

    /// Confirms a relayed reply.
    46 "replyRelayAck" command ReplyRelayAck frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// The request.
        operation: OperationId = "operation",
        /// The way back to its caller.
        reply_route_id: ReplyRouteId = "replyRouteId",
        /// Who sent the request.
        request_source: RequestSourceFence = "requestSource",
        /// Whether the reply was the first one.
        status: ReplyRelayAckStatus = "status",
    }
}
