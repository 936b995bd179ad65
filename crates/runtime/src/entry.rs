//! The Entry Spot of a host: what its application is told about the Actors that join it and leave it (RL-30, RL-45, RL-46).

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};

use spotlane_lane::{AskError, GateUse, HandlerError, KeepGate, Lane, Owner, Spot, Turn};
use spotlane_types::id::NodeRid;

use crate::actor::ActorRef;
use crate::calls::{ActorHandle, Caller};
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
}

/// The owner of the Spot's lane.
struct SpotCell {
    spot: Box<dyn ErasedEntrySpot>,
    core: Weak<Core>,
}

enum SpotWork {
    Joined(ActorRef),
    Left(ActorRef),
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

impl fmt::Debug for EntryLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryLane").finish_non_exhaustive()
    }
}
