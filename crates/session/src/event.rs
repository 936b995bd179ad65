//! What can happen to the bindings of a session.

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::MeshName;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::{
    BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute, SessionRelocationSeal,
};
use spotlane_wire::payload::{ApplicationPayload, MetadataFrame};
use spotlane_wire::reference::ActorRef;

use crate::error::BindRefusal;
use crate::identity::{ActorRoute, BindingToken, CallId, Peer};

/// A call of `bind` or `bind_or_get`. The two differ in name only: what is bound already is returned
/// by both, unchanged (SB-25, SB-26).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-20")]
pub struct BindCall {
    /// The call.
    pub call: CallId,
    /// The incarnation to bind.
    pub actor: ActorRef,
    /// Its location as the caller's reference says; not looked up (SB-20).
    pub route: ActorRoute,
    /// A fresh number of this run of the session owner (SB-10). Unused when nothing has to be asked.
    pub generation: BindingGeneration,
}

/// What became of a bind request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-20 and SB-27")]
pub enum BindAnswer {
    /// The Actor owner registered the binding.
    Registered {
        /// Where it answered from, when Message Follow led the request there (SB-24).
        followed: Option<ActorRoute>,
    },
    /// It refused.
    Refused(BindRefusal),
    /// No answer came in time: it may have registered it (SB-27).
    Unanswered,
    /// The request could not be sent, or its link broke.
    Unreachable,
}

/// A packet of the client that the session handler sends on to an Actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts of commands 24 and 25")]
pub struct RelayMessage {
    /// Whether the client waits for a reply (SB-31).
    pub form: RelayForm,
    /// Metadata of the packet.
    pub metadata: Option<MetadataFrame>,
    /// The packet.
    pub payload: ApplicationPayload,
}

/// How a packet travels (SB-31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-31")]
pub enum RelayForm {
    /// Command 24.
    Send,
    /// Command 25; its answer completes the client's request.
    Request,
}

/// How a callback of the application ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-54")]
pub enum CallbackEnd {
    /// It returned.
    Completed,
    /// It failed or panicked.
    Failed,
}

/// How a disconnect notice ended (SB-61, SB-63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-61")]
pub enum NoticeEnd {
    /// The Actor owner answered: its callback ended, or the identity was not current there.
    Answered,
    /// It could not be reached or answered with a failure.
    Failed,
}

/// What can happen to the bindings of one session.
///
/// The driver passes records of one link in the order in which they came, so that an answer to a bind
/// is seen before the first push of the new binding (SB-23).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The application binds an Actor.
    Bind(BindCall),
    /// A bind request ended.
    BindAnswered {
        /// The number that was asked for.
        generation: BindingGeneration,
        /// How it ended.
        answer: BindAnswer,
    },
    /// The caller of a bind is gone (EX-304).
    BindAbandoned {
        /// The call.
        call: CallId,
    },
    /// The application relays a packet.
    Relay {
        /// The call.
        call: CallId,
        /// Its handle.
        token: BindingToken,
        /// The packet.
        message: RelayMessage,
    },
    /// A relay that may still be held ended otherwise: deadline or cancellation (SB-86).
    RelayWithdrawn {
        /// The call.
        call: CallId,
    },
    /// The application tells one Actor that its client is gone (SB-64).
    NotifyDisconnected {
        /// The call.
        call: CallId,
        /// Its handle.
        token: BindingToken,
    },
    /// A disconnect notice ended.
    NoticeEnded {
        /// The binding that it was for.
        generation: BindingGeneration,
        /// How it ended.
        end: NoticeEnd,
    },
    /// Command 36.
    Push(BoundSessionSend),
    /// Command 51.
    Replaced {
        /// Who sent it.
        peer: Peer,
        /// The record.
        replaced: BoundSessionReplaced,
    },
    /// The callback of the replaced session ended.
    ReplacedCallbackEnded(CallbackEnd),
    /// Command 42.
    Seal(SessionRelocationSeal),
    /// Command 44.
    Route {
        /// The mesh in which the record came: where the target is reached (WR-53).
        mesh_name: MeshName,
        /// The record.
        update: SessionRelocationRoute,
    },
    /// The host renewed its lease: routes may be used until then (SB-15).
    AdmissionUntil(Monotonic),
    /// The host makes no new bindings from now on (RL-229).
    RefuseBinds,
    /// The session's own handler closes it.
    Close,
    /// The connection ended physically.
    ConnectionLost,
}
