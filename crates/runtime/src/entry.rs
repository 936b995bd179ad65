//! The Entry Spot of a host: what its application is told about the Actors that join it and leave it, and about its
//! end (RL-30, RL-45, RL-46, RL-48).

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use spotlane_lane::{AskError, GateUse, HandlerError, KeepGate, Lane, Owner, Spot, Turn};
use spotlane_types::id::NodeRid;

use crate::actor::ActorRef;
use crate::calls::{ActorHandle, Caller};
use crate::clock::Deadline;
use crate::core::Core;
use crate::error::Error;
use crate::handlers::BoxFuture;
use crate::host::Host;
use crate::state::HostState;

/// The Entry Spot of a host: every Actor that lives there is a member of it (RL-30).
///
/// A host has one, whether or not an application says anything about it. The value is its state; its callbacks run one at a
/// time, as lifecycle work of its own (EX-15), and never while an Actor is created here or moves with its host (RL-60): only
/// a Join of an Actor is told.
///
/// ```
/// use spotlane_runtime::{ActorRef, EntrySpot, SpotContext};
///
/// #[derive(Default)]
/// struct Lobby { guests: u64 }
///
/// impl EntrySpot for Lobby {
///     async fn on_joined_actor(&mut self, _: &mut SpotContext, _: &ActorRef) {
///         self.guests += 1;
///     }
/// }
/// ```
pub trait EntrySpot: Send + 'static {
    /// An Actor has joined (RL-45): after its change of owner, and before it is told and handles anything.
    ///
    /// A callback that panics is run again, and the Actor waits until it has ended well (RL-77).
    fn on_joined_actor(
        &mut self,
        context: &mut SpotContext,
        actor: &ActorRef,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, actor);
        std::future::ready(())
    }

    /// An Actor has left by a Join (RL-46). It is no destroy, nothing waits for it, and the Actor lives elsewhere by now.
    fn on_leave_actor(
        &mut self,
        context: &mut SpotContext,
        actor: &ActorRef,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, actor);
        std::future::ready(())
    }

    /// The Spot ends, because its host does (RL-48, RL-52): once, when everything that its Actors had accepted has ended,
    /// and while they and their rows are still there.
    ///
    /// A callback that panics, or has not ended when the time is over, makes the end a forced one (RL-77). It is dropped
    /// then.
    fn on_closing(
        &mut self,
        context: &mut SpotContext,
        closing: &Closing,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, closing);
        std::future::ready(())
    }
}

/// Why a Spot ends (RL-51 to RL-54).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-51 to RL-54")]
pub enum CloseReason {
    /// The application closed it.
    ExplicitClose = 0,
    /// Its host ends: the only reason of an Entry Spot.
    HostShutdown = 1,
    /// It has moved to another host.
    RelocationOut = 2,
    /// Nobody needed it for a while.
    IdleEvicted = 3,
}

/// What a Spot is told about its end.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    reason: CloseReason,
    deadline: Deadline,
}

impl Closing {
    /// Why it ends.
    pub const fn reason(&self) -> CloseReason {
        self.reason
    }

    /// How much time is left until its host goes on without it; zero when that is over.
    pub fn time_left(&self) -> Duration {
        self.deadline.left().unwrap_or_default()
    }

    /// Resolves when the time is over: the signal of this callback alone (EX-307).
    ///
    /// # Cancel safety
    /// It only waits.
    pub async fn expired(&self) {
        tokio::time::sleep(self.time_left()).await;
    }
}

/// The surroundings of a callback of a Spot.
pub struct SpotContext {
    core: Arc<Core>,
}

impl SpotContext {
    /// The node.
    pub fn node(&self) -> &NodeRid {
        &self.core.identity.rid
    }

    /// The host.
    pub fn host(&self) -> Host {
        Host::of(Arc::clone(&self.core))
    }

    /// An Actor, wherever it is. An Actor that is joining answers after the callback only; a message to it waits.
    pub fn actor(&self, id: impl AsRef<str>) -> ActorHandle {
        ActorHandle::new(Arc::clone(&self.core), id.as_ref(), Caller::Handle)
    }
}

impl fmt::Debug for SpotContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpotContext").finish_non_exhaustive()
    }
}

/// [`EntrySpot`] without its type.
pub(crate) trait ErasedEntrySpot: Send {
    fn joined<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        actor: &'a ActorRef,
    ) -> BoxFuture<'a, ()>;
    fn left<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        actor: &'a ActorRef,
    ) -> BoxFuture<'a, ()>;
    fn closing<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        closing: &'a Closing,
    ) -> BoxFuture<'a, ()>;
}

impl<S: EntrySpot> ErasedEntrySpot for S {
    fn joined<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        actor: &'a ActorRef,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.on_joined_actor(context, actor))
    }

    fn left<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        actor: &'a ActorRef,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.on_leave_actor(context, actor))
    }

    fn closing<'a>(
        &'a mut self,
        context: &'a mut SpotContext,
        closing: &'a Closing,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.on_closing(context, closing))
    }
}

/// The owner of the Spot's lane.
struct SpotCell {
    spot: Box<dyn ErasedEntrySpot>,
    core: Weak<Core>,
}

enum SpotWork {
    Joined(ActorRef),
    Left(ActorRef),
    Closing(Closing),
}

impl Owner for SpotCell {
    type Policy = Spot;
    type Waits = KeepGate;
    type Item = SpotWork;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, work: SpotWork) -> Result<(), HandlerError> {
        let Some(core) = turn.state().core.upgrade() else {
            return Ok(());
        };
        let mut context = SpotContext { core };
        let spot = &mut turn.state().spot;
        match work {
            SpotWork::Joined(actor) => spot.joined(&mut context, &actor).await,
            SpotWork::Left(actor) => spot.left(&mut context, &actor).await,
            SpotWork::Closing(closing) => spot.closing(&mut context, &closing).await,
        }
        Ok(())
    }
}

/// The lane of an Entry Spot that an application has registered.
pub(crate) struct EntryLane(Lane<SpotCell>);

impl EntryLane {
    pub(crate) fn new(core: &Arc<Core>, spot: Box<dyn ErasedEntrySpot>) -> Self {
        let kind = core
            .engine
            .kind(core.settings.all.lane_limits, GateUse::Own);
        Self(kind.lane(SpotCell {
            spot,
            core: Arc::downgrade(core),
        }))
    }
}

/// Tells the Entry Spot that an Actor has joined, and waits until it has taken note (RL-70).
///
/// # Errors
/// The callback panicked; it is to be run again (RL-77).
pub(crate) async fn joined(core: &Core, actor: ActorRef) -> Result<(), Error> {
    let Some(EntryLane(lane)) = core.entry.get() else {
        return Ok(());
    };
    match lane.ask_lifecycle(SpotWork::Joined(actor)).await {
        Ok(()) => Ok(()),
        Err(AskError::Panicked { message }) => Err(Error::internal(message)),
        // The host ends, and nobody is told any more.
        Err(error) if core.state.get() != HostState::Serving => {
            tracing::debug!(target: "spotlane::runtime::relocation", %error, "the entry spot has ended");
            Ok(())
        }
        Err(error) => Err(Error::internal(error.to_string()).with_source(error)),
    }
}

/// Tells the Entry Spot that an Actor has left. One-way: nothing depends on it (RL-46, RL-72).
pub(crate) fn left(core: &Arc<Core>, actor: ActorRef) {
    let task = Arc::clone(core);
    if core.entry.get().is_none() {
        return;
    }
    core.tasks.spawn(async move {
        let Some(EntryLane(lane)) = task.entry.get() else {
            return;
        };
        if let Err(error) = lane.ask_lifecycle(SpotWork::Left(actor)).await {
            tracing::warn!(target: "spotlane::runtime::relocation", %error, "a leave callback did not end well");
        }
    });
}

/// Refuses new work of the whole host and lets what was accepted end, or the grace; the Entry Spot still takes work, and no
/// instance goes (RL-221).
pub(crate) async fn drain_host(core: &Core, grace: impl Future<Output = ()>) {
    let lane = core.entry.get().map(|EntryLane(lane)| lane);
    core.engine.drain(lane, grace).await;
}

/// Tells the Entry Spot that its host ends (RL-52), and whether it took that well (RL-77).
pub(crate) async fn closing(core: &Core, deadline: Deadline) -> bool {
    let Some(EntryLane(lane)) = core.entry.get() else {
        return true;
    };
    let closing = Closing {
        reason: CloseReason::HostShutdown,
        deadline,
    };
    let told = lane.ask_lifecycle(SpotWork::Closing(closing));
    let error = match tokio::time::timeout(closing.time_left(), told).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => error,
        Err(_) => AskError::DeadlineExceeded,
    };
    // RL-329
    tracing::warn!(target: "spotlane::runtime::host", %error, "onClosingFailed");
    false
}

impl fmt::Debug for EntryLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryLane").finish_non_exhaustive()
    }
}
