//! What the driver of a session has to do.

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::ActorId;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::SessionRelocationSealed;
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::ActorRef;

use crate::error::{BindError, RelayError};
use crate::event::RelayMessage;
use crate::identity::{ActorRoute, BindingToken, CallId, Peer};

/// A binding as the application sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-6")]
pub struct BoundActor {
    /// Its handle.
    pub token: BindingToken,
    /// The Actor.
    pub actor: ActorRef,
    /// Where it is now; follows its moves (SB-14).
    pub route: ActorRoute,
}

/// Why the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each has its rule")]
pub enum CloseCause {
    /// Another session bound one of its Actors, and the callback ended 100 ms ago (SB-54).
    Replaced,
    /// As before, but the callback did not end (SB-55).
    ReplacedCallbackTimeout,
    /// No route update came in time (SB-88).
    SealTimeout,
    /// A bound Actor asked for it (SB-39).
    ActorClosed,
    /// The session's own handler asked for it.
    HandlerClosed,
}

/// Whether somebody waits for the end of a disconnect notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-27 and SB-63")]
pub enum NoticeKind {
    /// The binding stands until [`crate::SessionEvent::NoticeEnded`].
    Awaited,
    /// It ends a binding that was perhaps never made; the answer is not needed (SB-27).
    Unawaited,
}

/// Input that changed nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// No bind waits for this answer.
    AnswerOfNoBind,
    /// No such call waits or is held.
    CallOfNobody,
    /// No notice of this binding is under way.
    NoticeOfNobody,
    /// SB-52: the record is not about a binding of this session as it is.
    ReplacementStale,
    /// The session is closing already; the binding was removed and nothing else happens.
    ReplacementWhileClosing,
    /// No replaced callback runs.
    CallbackOfNobody,
    /// SES-2: the binding is not current here; the sealer gets no answer (WR-55).
    SealNotCurrent,
    /// SES-2: another move has sealed it; the sealer gets no answer (WR-55).
    SealedByAnother,
    /// The move of this seal has ended here.
    SealOfEndedMove,
    /// WR-51: the sender has another role than the record demands.
    WrongRole,
    /// The session is over.
    SessionOver,
}

/// What has to be reported, once each (closed lists of SB-56 and RL-320 to RL-330).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// SB-38: a push was refused because it is not current; drop `stale_target` (RL-330).
    PushRefused,
    /// RL-322: command 44 after the timeout, of another move, or repeated.
    LateSessionRouteUpdate,
    /// The callback of a replaced session failed (SB-56).
    ReplacedCallbackFailed,
    /// It did not end in time (SB-55).
    ReplacedCallbackTimeout,
    /// A seal ended without its route update (SB-88).
    SealTimeout,
    /// A disconnect notice failed or found no answer (SB-62).
    DisconnectNoticeFailed,
    /// WR-52: a relocation record repeats another one with other contents.
    ProtocolError,
}

/// What the driver of a session has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEffect {
    /// Send command 38 with an active binding and report its answer.
    RequestBind {
        /// Where to.
        route: ActorRoute,
        /// The incarnation.
        actor: ActorRef,
        /// The binding.
        generation: BindingGeneration,
    },
    /// Send command 38 with a tombstone.
    SendTombstone {
        /// Where to.
        route: ActorRoute,
        /// The incarnation.
        actor: ActorRef,
        /// The binding.
        generation: BindingGeneration,
        /// Whether to report its answer.
        kind: NoticeKind,
    },
    /// Complete a bind. A success is emitted when everything that judges pushes knows it (SB-23).
    BindEnded {
        /// The call.
        call: CallId,
        /// How.
        result: Result<BoundActor, BindError>,
    },
    /// Send command 24 or 25 with the bound-session tail.
    SubmitRelay {
        /// The call: accepted from here on.
        call: CallId,
        /// Where to.
        route: ActorRoute,
        /// The incarnation.
        actor: ActorRef,
        /// The tail.
        tail: BoundSessionTail,
        /// The packet.
        message: RelayMessage,
    },
    /// A relay is held; the call waits for [`Self::SubmitRelay`] or its failure (SES-3).
    RelayHeld {
        /// The call.
        call: CallId,
    },
    /// A relay failed before it was submitted.
    RelayFailed {
        /// The call.
        call: CallId,
        /// Why.
        error: RelayError,
    },
    /// Complete a logical disconnect notice.
    NotifyEnded {
        /// The call.
        call: CallId,
        /// How.
        result: Result<(), RelayError>,
    },
    /// Write a push to the client.
    DeliverPush {
        /// The Actor.
        actor_id: ActorId,
        /// The packet.
        payload: ApplicationPayload,
    },
    /// Dispatch nothing more of the client; outbound stays open (SB-53).
    BeginClosing,
    /// Run the replaced callback as the last application turn (SB-53).
    RunReplacedCallback {
        /// The Actor that another session bound.
        actor_id: ActorId,
    },
    /// Send command 43.
    SendSealed {
        /// The coordinator of the move.
        to: Peer,
        /// The record.
        sealed: Box<SessionRelocationSealed>,
    },
    /// Close the connection.
    CloseConnection {
        /// Why.
        cause: CloseCause,
    },
    /// Every binding is settled; nothing of this session is left (SB-60).
    Finished,
    /// The event changed nothing.
    Ignored(Ignored),
    /// Report it.
    Report {
        /// What.
        diagnostic: Diagnostic,
        /// The Actor it is about.
        actor_id: ActorId,
    },
}
