//! What a handler may do besides changing its Actor.

use std::fmt;
use std::sync::{Arc, OnceLock};

use spotlane_lane::Lane;
use spotlane_types::count::HopCount;
use spotlane_types::id::{ActorId, NodeRid, TimerName};

use crate::actor::ActorRef;
use crate::calls::{ActorHandle, Caller, TurnMark};
use crate::cell::Cell;
use crate::core::Core;
use crate::error::Error;
use crate::handlers::Every;
use crate::host::Host;
use crate::join::{JoinCall, Joins};
use crate::message::Origin;
use crate::session::BoundSession;
use crate::slots::Unit;

/// The way on which a message came to its Actor.
///
/// Messages of one sender to one Actor are handled in the order in which they were sent, as long as they take one way. While
/// an Actor moves, a message that a former owner passes on and a later one that comes directly take two, and the order of
/// these two is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-150 and WR-30")]
pub enum Arrival {
    /// From its sender to the host that handles it.
    Direct,
    /// A former owner of the Actor passed it on (RL-150).
    Followed,
    /// It came with the Actor: accepted before that moved, or by its former owner before that had seen the end of the move
    /// (RL-137).
    Moved,
}

impl Arrival {
    pub(crate) fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Peer(peer) if peer.hops > HopCount::MIN => Self::Followed,
            Origin::Local { .. } | Origin::Peer(_) => Self::Direct,
            Origin::Frozen { .. } => Self::Moved,
        }
    }
}

/// The surroundings of a running handler: who the Actor is, and the way to others.
///
/// A call made here knows which Actor makes it: a request to oneself, which could never be answered, is refused at once
/// (EX-37).
pub struct Context {
    core: Arc<Core>,
    unit: Arc<Unit>,
    lane: Lane<Cell>,
    joins: Joins,
    /// Lives as long as the turn; made for the first handle that has to know.
    turn: OnceLock<Arc<()>>,
    /// Of the message that is handled.
    arrival: Option<Arrival>,
}

impl Context {
    pub(crate) fn new(core: Arc<Core>, unit: Arc<Unit>, lane: Lane<Cell>) -> Self {
        Self {
            core,
            unit,
            lane,
            joins: Joins::Allowed(None),
            turn: OnceLock::new(),
            arrival: None,
        }
    }

    /// The surroundings of the handler of a message.
    pub(crate) fn of_message(mut self, arrival: Arrival) -> Self {
        self.arrival = Some(arrival);
        self
    }

    /// The surroundings of a lifecycle callback, in which no Join is recorded (RL-142).
    pub(crate) fn of_callback(core: Arc<Core>, unit: Arc<Unit>, lane: Lane<Cell>) -> Self {
        Self {
            joins: Joins::WrongPlace,
            ..Self::new(core, unit, lane)
        }
    }

    pub(crate) fn unit(&self) -> &Arc<Unit> {
        &self.unit
    }

    pub(crate) fn joins(&mut self) -> &mut Joins {
        &mut self.joins
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The address of this Actor.
    pub fn id(&self) -> &ActorId {
        self.unit.id()
    }

    /// This incarnation of the Actor, on this node.
    pub fn actor_ref(&self) -> &ActorRef {
        &self.unit.reference
    }

    /// The node that the handler runs on.
    pub fn node(&self) -> &NodeRid {
        &self.core.identity.rid
    }

    /// The way on which the message that is handled came here; `None` where none is, as in a timer or a lifecycle callback.
    pub fn arrival(&self) -> Option<Arrival> {
        self.arrival
    }

    /// The host, for creating and finding other Actors.
    pub fn host(&self) -> Host {
        Host::of(Arc::clone(&self.core))
    }

    /// Another Actor, wherever it is.
    ///
    /// The handle speaks for this turn while it runs; in a task that outlives the turn it is an ordinary handle (EX-366).
    pub fn actor(&self, id: impl AsRef<str>) -> ActorHandle {
        let turn = TurnMark::of(self.turn.get_or_init(Arc::default));
        let caller = Caller::Actor(Arc::clone(&self.unit), turn);
        ActorHandle::new(Arc::clone(&self.core), id.as_ref(), caller)
    }

    /// The client session that is bound to this Actor, if one is.
    pub fn bound_session(&self) -> BoundSession<'_> {
        BoundSession::new(&self.core, &self.unit)
    }

    /// Moves this Actor into the Entry Spot of another node once the handler has ended well (RL-141): any usable node, or
    /// the one that [`JoinCall::to`] names. Nothing happens before [`JoinCall::defer`].
    pub fn join_entry_spot(&mut self) -> JoinCall<'_> {
        JoinCall::new(self)
    }

    /// Starts a timer of this Actor, or starts it anew (EX-232). Its ticks go to the handler that was registered with
    /// [`Handlers::on_tick`](crate::Handlers::on_tick) under the same name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOperation`](crate::ErrorKind::InvalidOperation): the period is zero, the catch-up limit out of
    /// range, or the name empty or too long.
    pub fn start_timer(&self, name: &str, every: Every) -> Result<(), Error> {
        TimerName::new(name)?;
        let settings = every.settings()?;
        let name = Arc::from(name);
        self.unit
            .start_timer(&self.core, &self.lane, &name, settings);
        Ok(())
    }

    /// Ends a timer: no callback of it starts any more. `false` when there is none of this name.
    pub fn cancel_timer(&self, name: &str) -> bool {
        self.unit.cancel_timer(name)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("actor", &self.unit.reference)
            .finish_non_exhaustive()
    }
}
