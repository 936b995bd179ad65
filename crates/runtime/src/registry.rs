//! The Actor types of a host, without their Rust types: how one is made, called, captured and restored.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use spotlane_lane::{Tick, TimerSettings};
use spotlane_types::id::{PacketName, StableType};
use spotlane_types::kind::RelocationPolicyKind;

use crate::actor::{Actor, Decision};
use crate::context::Context;
use crate::error::Error;
use crate::handlers::{BoxFuture, Handlers};
use crate::join::JoinOutcome;
use crate::payload::Payload;
use crate::policy::{Moving, Policy};

/// Whether a message wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Nothing,
    Answer,
}

/// A living Actor without its type.
pub(crate) trait ErasedActor: Send {
    /// Calls the handler of this name; `None` when there is none.
    fn call<'a>(
        &'a mut self,
        context: &'a mut Context,
        wants: Wants,
        name: &PacketName,
        payload: Payload,
    ) -> Option<BoxFuture<'a, Result<Payload, Error>>>;

    fn tick<'a>(
        &'a mut self,
        context: &'a mut Context,
        tick: Tick,
    ) -> Option<BoxFuture<'a, Result<(), Error>>>;

    fn on_create<'a>(
        &'a mut self,
        context: &'a mut Context,
        request: Option<Payload>,
    ) -> BoxFuture<'a, Result<Decision, Error>>;

    fn on_join_completed<'a>(
        &'a mut self,
        context: &'a mut Context,
        outcome: JoinOutcome,
    ) -> BoxFuture<'a, ()>;

    fn on_disconnected<'a>(&'a mut self, context: &'a mut Context) -> BoxFuture<'a, ()>;

    /// Writes the state down; `None` under `recreate` (RL-111).
    fn capture(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, Error>>;

    fn restore(&mut self, state: Option<Bytes>) -> BoxFuture<'_, Result<(), Error>>;
}

struct Living<A> {
    actor: A,
    of: Arc<TypeOf<A>>,
}

struct TypeOf<A> {
    handlers: Handlers<A>,
    factory: Box<dyn Fn() -> A + Send + Sync>,
    moving: Moving<A>,
}

impl<A: Actor> ErasedActor for Living<A> {
    fn call<'a>(
        &'a mut self,
        context: &'a mut Context,
        wants: Wants,
        name: &PacketName,
        payload: Payload,
    ) -> Option<BoxFuture<'a, Result<Payload, Error>>> {
        let handlers = &self.of.handlers;
        let invoke = match wants {
            Wants::Answer => handlers.find_request(name)?,
            Wants::Nothing => handlers.find_send(name)?,
        };
        Some(invoke(&mut self.actor, context, payload))
    }

    fn tick<'a>(
        &'a mut self,
        context: &'a mut Context,
        tick: Tick,
    ) -> Option<BoxFuture<'a, Result<(), Error>>> {
        let invoke = self.of.handlers.find_tick(&tick.name)?;
        Some(invoke(&mut self.actor, context, tick))
    }

    fn on_create<'a>(
        &'a mut self,
        context: &'a mut Context,
        request: Option<Payload>,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(self.actor.on_create(context, request))
    }

    fn on_join_completed<'a>(
        &'a mut self,
        context: &'a mut Context,
        outcome: JoinOutcome,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.actor.on_join_completed(context, outcome))
    }

    fn on_disconnected<'a>(&'a mut self, context: &'a mut Context) -> BoxFuture<'a, ()> {
        Box::pin(self.actor.on_disconnected(context))
    }

    fn capture(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        match &self.of.moving {
            Moving::Preserve(adapter) => {
                let capture = adapter.capture(&mut self.actor);
                Box::pin(async move { capture.await.map(Some) })
            }
            Moving::Disabled | Moving::Recreate => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn restore(&mut self, state: Option<Bytes>) -> BoxFuture<'_, Result<(), Error>> {
        match (&self.of.moving, state) {
            (Moving::Preserve(adapter), Some(state)) => adapter.restore(&mut self.actor, state),
            // RL-115: an empty state is a state; an absent one means a new Actor.
            _ => Box::pin(std::future::ready(Ok(()))),
        }
    }
}

/// One registered Actor type.
pub(crate) struct ActorType {
    pub(crate) name: StableType,
    pub(crate) policy: RelocationPolicyKind,
    pub(crate) timers: Vec<(Arc<str>, TimerSettings)>,
    make: Box<dyn Fn() -> Box<dyn ErasedActor> + Send + Sync>,
}

impl std::fmt::Debug for ActorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActorType")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl ActorType {
    /// Registers `A`; the texts are what is wrong with it.
    pub(crate) fn of<A: Actor>(
        policy: Policy<A>,
        factory: impl Fn() -> A + Send + Sync + 'static,
    ) -> Result<Self, Vec<String>> {
        let mut handlers = Handlers::new();
        A::configure(&mut handlers);
        let at = |fault: &str| format!("actor type {:?}: {fault}", A::TYPE);
        let faults: Vec<String> = handlers.faults().iter().map(|fault| at(fault)).collect();
        let name = StableType::new(A::TYPE).map_err(|error| vec![at(&error.to_string())])?;
        if !faults.is_empty() {
            return Err(faults);
        }
        let timers = handlers.timers().iter();
        let timers = timers.map(|(name, settings)| (Arc::from(&**name), *settings));
        let timers = timers.collect();
        let kind = policy.kind();
        let of = Arc::new(TypeOf {
            handlers,
            factory: Box::new(factory),
            moving: policy.0,
        });
        Ok(Self {
            name,
            policy: kind,
            timers,
            make: Box::new(move || {
                let actor = (of.factory)();
                let of = Arc::clone(&of);
                Box::new(Living { actor, of })
            }),
        })
    }

    /// Runs the factory.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) fn make(&self) -> Result<Box<dyn ErasedActor>, Error> {
        catch_unwind(AssertUnwindSafe(|| (self.make)()))
            .map_err(|_| Error::internal(format!("the factory of {:?} panicked", self.name)))
    }
}

/// The types by name: unique per host (RL-2).
#[derive(Debug, Default)]
pub(crate) struct Registry {
    types: BTreeMap<StableType, Arc<ActorType>>,
}

impl Registry {
    /// The text says that the name is taken.
    pub(crate) fn add(&mut self, actor_type: ActorType) -> Result<(), String> {
        let name = actor_type.name.clone();
        if self.types.contains_key(&name) {
            return Err(format!(
                "actor type {:?} is registered twice",
                name.as_str()
            ));
        }
        self.types.insert(name, Arc::new(actor_type));
        Ok(())
    }

    pub(crate) fn get(&self, name: &StableType) -> Option<&Arc<ActorType>> {
        self.types.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ActorType>> {
        self.types.values()
    }
}
