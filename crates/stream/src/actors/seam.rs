//! What whoever knows Actors has to do for the sessions of a server.

use std::time::Duration;

use spotlane_session::{ActorRoute, Diagnostic, Peer, RelayMessage, SessionOwner, SessionTimes};
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{ActorId, SessionRid};
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::SessionRelocationSealed;
use spotlane_wire::reference::ActorRef;

use super::ticket::{BindTicket, NoticeTicket, RelayTicket};

/// Carries out what the bindings of sessions ask for.
///
/// Every method puts its record in line before it returns, so that the records of one session leave in
/// the order of the calls; whatever takes longer is reported later, through the ticket. No method waits,
/// and none may be called back with a lock held: a ticket may be used right away.
pub trait ActorBindings: Send + Sync + 'static {
    /// This host, as Actor owners know it.
    fn owner(&self) -> SessionOwner;

    /// The times of this host.
    fn times(&self) -> SessionTimes {
        SessionTimes::default()
    }

    /// For how long routes may be used from now on (SB-15); `None` for no limit.
    fn admitted_for(&self) -> Option<Duration> {
        None
    }

    /// A number that this run of the host has not given out (SB-10).
    fn next_generation(&self) -> BindingGeneration;

    /// Sends command 38 with an active binding (SB-20).
    fn bind(&self, request: BindRequest, ticket: BindTicket);

    /// Sends command 38 with a tombstone (SB-61); without a ticket nobody waits for the answer.
    fn tombstone(&self, request: BindRequest, ticket: Option<NoticeTicket>);

    /// Sends command 24, or 25 when the ticket has a reply to give (SB-30, SB-31).
    fn relay(&self, relay: Relay, ticket: RelayTicket);

    /// Sends command 43.
    fn sealed(&self, to: Peer, sealed: SessionRelocationSealed);

    /// Every binding of a session is settled: nothing of it is asked for any more.
    fn session_ended(&self, session: &SessionRid) {
        let _ = session;
    }

    /// Reports what the contract wants reported.
    fn report(&self, session: &SessionRid, diagnostic: Diagnostic, actor_id: &ActorId);
}

/// A binding that is to be registered or retired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of command 38")]
pub struct BindRequest {
    /// The session.
    pub session_rid: SessionRid,
    /// Where to.
    pub route: ActorRoute,
    /// The incarnation.
    pub actor: ActorRef,
    /// The binding.
    pub generation: BindingGeneration,
}

/// A packet on its way to an Actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields of commands 24 and 25"
)]
pub struct Relay {
    /// Where to.
    pub route: ActorRoute,
    /// The incarnation.
    pub actor: ActorRef,
    /// The tail.
    pub tail: BoundSessionTail,
    /// The packet.
    pub message: RelayMessage,
}
