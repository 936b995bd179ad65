//! The handlers of an Actor type: registered by name, called with a typed message.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use foldhash::fast::RandomState;
use spotlane_lane::{OnTickError, OverrunPolicy, Tick, TimerSettings};
use spotlane_types::id::{PacketName, TimerName};

use crate::context::Context;
use crate::error::Error;
use crate::payload::{FromPayload, IntoReply, Payload};

/// A future that a table of handlers can hold.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

type Invoke<A> = Box<
    dyn for<'a> Fn(&'a mut A, &'a mut Context, Payload) -> BoxFuture<'a, Result<Payload, Error>>
        + Send
        + Sync,
>;

type InvokeTick<A> = Box<
    dyn for<'a> Fn(&'a mut A, &'a mut Context, Tick) -> BoxFuture<'a, Result<(), Error>>
        + Send
        + Sync,
>;

/// A handler: an async method `(&mut self, &mut Context, M)` of an Actor.
///
/// Implemented for every such method; nobody implements it by hand.
pub trait Handler<'a, A, M>: Send + Sync + 'static {
    /// What it returns.
    type Reply;
    /// The future of one call.
    type Future: Future<Output = Self::Reply> + Send + 'a;

    /// Calls it.
    fn call(&self, actor: &'a mut A, context: &'a mut Context, message: M) -> Self::Future;
}

impl<'a, F, A, M, Fut> Handler<'a, A, M> for F
where
    A: 'a,
    F: Fn(&'a mut A, &'a mut Context, M) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'a,
{
    type Reply = Fut::Output;
    type Future = Fut;

    fn call(&self, actor: &'a mut A, context: &'a mut Context, message: M) -> Fut {
        self(actor, context, message)
    }
}

/// When a timer fires (EX-230). Checked when it is registered.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Every {
    period: Duration,
    policy: OverrunPolicy,
    on_error: OnTickError,
}

impl Every {
    /// Once per period, the first time after one period. A fraction of a millisecond is rounded up (EX-231).
    pub const fn new(period: Duration) -> Self {
        Self {
            period,
            policy: OverrunPolicy::SkipLateTicks,
            on_error: OnTickError::GoOn,
        }
    }

    /// What happens to ticks that became due while a callback ran late.
    pub const fn overrun(mut self, policy: OverrunPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// A failing callback ends the timer (EX-244).
    pub const fn stop_on_error(mut self) -> Self {
        self.on_error = OnTickError::Stop;
        self
    }

    pub(crate) fn settings(self) -> Result<TimerSettings, Error> {
        TimerSettings::new(self.period, self.policy, self.on_error)
            .map_err(|error| Error::invalid(error.to_string()).with_source(error))
    }
}

/// The handlers of one Actor type, as its [`configure`](crate::Actor::configure) registers them.
pub struct Handlers<A> {
    requests: HashMap<PacketName, Invoke<A>, RandomState>,
    sends: HashMap<PacketName, Invoke<A>, RandomState>,
    ticks: HashMap<Box<str>, InvokeTick<A>>,
    timers: Vec<(Box<str>, TimerSettings)>,
    faults: Vec<String>,
}

impl<A: Send + 'static> Handlers<A> {
    pub(crate) fn new() -> Self {
        Self {
            requests: HashMap::default(),
            sends: HashMap::default(),
            ticks: HashMap::new(),
            timers: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Answers requests of this name.
    pub fn request<M, R, H>(&mut self, name: &str, handler: H) -> &mut Self
    where
        M: FromPayload + Send + 'static,
        R: IntoReply,
        H: for<'a> Handler<'a, A, M, Reply = R>,
    {
        let invoke = invoke(handler);
        self.add(name, invoke, |this| &mut this.requests)
    }

    /// Handles one-way messages of this name. An error of the handler is recorded and reaches nobody.
    pub fn send<M, R, H>(&mut self, name: &str, handler: H) -> &mut Self
    where
        M: FromPayload + Send + 'static,
        R: IntoReply,
        H: for<'a> Handler<'a, A, M, Reply = R>,
    {
        let invoke = invoke(handler);
        self.add(name, invoke, |this| &mut this.sends)
    }

    /// Runs a timer of this name for every Actor of the type, from its creation to its end; it moves with the Actor
    /// (RL-79).
    pub fn timer<R, H>(&mut self, name: &str, every: Every, handler: H) -> &mut Self
    where
        R: IntoReply,
        H: for<'a> Handler<'a, A, Tick, Reply = R>,
    {
        match every.settings() {
            Ok(settings) => self.timers.push((name.into(), settings)),
            Err(error) => self.faults.push(format!("timer {name:?}: {error}")),
        }
        self.on_tick(name, handler)
    }

    /// Handles the ticks of a timer that a handler starts with [`Context::start_timer`].
    pub fn on_tick<R, H>(&mut self, name: &str, handler: H) -> &mut Self
    where
        R: IntoReply,
        H: for<'a> Handler<'a, A, Tick, Reply = R>,
    {
        if let Err(error) = TimerName::new(name) {
            self.faults.push(format!("timer {name:?}: {error}"));
        }
        if self
            .ticks
            .insert(name.into(), invoke_tick(handler))
            .is_some()
        {
            self.faults
                .push(format!("timer {name:?} is registered twice"));
        }
        self
    }

    fn add(
        &mut self,
        name: &str,
        invoke: Invoke<A>,
        table: fn(&mut Self) -> &mut HashMap<PacketName, Invoke<A>, RandomState>,
    ) -> &mut Self {
        match PacketName::new(name) {
            Ok(packet) => {
                if table(self).insert(packet, invoke).is_some() {
                    self.faults
                        .push(format!("handler {name:?} is registered twice"));
                }
            }
            Err(error) => self.faults.push(format!("handler {name:?}: {error}")),
        }
        self
    }

    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    pub(crate) fn timers(&self) -> &[(Box<str>, TimerSettings)] {
        &self.timers
    }

    pub(crate) fn find_request(&self, name: &PacketName) -> Option<&Invoke<A>> {
        self.requests.get(name)
    }

    pub(crate) fn find_send(&self, name: &PacketName) -> Option<&Invoke<A>> {
        self.sends.get(name)
    }

    pub(crate) fn find_tick(&self, name: &str) -> Option<&InvokeTick<A>> {
        self.ticks.get(name)
    }
}

impl<A> fmt::Debug for Handlers<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("requests", &self.requests.len())
            .field("sends", &self.sends.len())
            .field("ticks", &self.ticks.len())
            .finish_non_exhaustive()
    }
}

/// EX-323: the payload is decoded here, right before the call, with the gate held.
fn invoke<A, M, R, H>(handler: H) -> Invoke<A>
where
    A: 'static,
    M: FromPayload + Send + 'static,
    R: IntoReply,
    H: for<'a> Handler<'a, A, M, Reply = R>,
{
    Box::new(
        move |actor, context, payload| match M::from_payload(payload) {
            Ok(message) => {
                let call = handler.call(actor, context, message);
                Box::pin(async move { call.await.into_reply() })
            }
            // EX-327: malformed input reaches no handler.
            Err(error) => Box::pin(std::future::ready(Err(error))),
        },
    )
}

fn invoke_tick<A, R, H>(handler: H) -> InvokeTick<A>
where
    A: 'static,
    R: IntoReply,
    H: for<'a> Handler<'a, A, Tick, Reply = R>,
{
    Box::new(move |actor, context, tick| {
        let call = handler.call(actor, context, tick);
        Box::pin(async move { call.await.into_reply().map(drop) })
    })
}
