//! Owners that do what their items say and write down what happened.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::too_many_lines,
    reason = "every test file takes what it needs of this module, and owners misbehave on purpose"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lint's setting"
)]

use std::future::Future;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use spotlane_lane::{
    ActorDelivery, AskError, Clock, Engine, Fence, GateUse, HandlerError, KeepGate, Kind, Lane,
    LaneLimits, LanePolicy, Monotonic, Owner, Session, Spot, Tick, Turn, TurnKind, WaitsUnder,
    Yielding,
};
use tokio::sync::oneshot;

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn text(&self) -> String {
        self.all().join(" ")
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// A clock that stands until it is moved.
#[derive(Clone, Default)]
pub(crate) struct HandClock(Arc<AtomicU64>);

impl HandClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0
            .fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Monotonic {
        Monotonic::from_origin(Duration::from_nanos(self.0.load(Ordering::SeqCst)))
    }
}

/// Lets a waiting handler go on.
pub(crate) type Release = oneshot::Sender<()>;

pub(crate) type SpotLane = Lane<Scripted<Spot>>;
pub(crate) type ActorLane = Lane<Scripted<ActorDelivery>>;

/// A call that knows no turn.
pub(crate) type Outside = Pin<Box<dyn Future<Output = Result<Said, AskError>> + Send>>;

/// What a handler does.
pub(crate) enum Step {
    Note(&'static str),
    /// Waits with the gate kept.
    Wait(&'static str, oneshot::Receiver<()>),
    /// Waits with the gate given up.
    Yield(&'static str, oneshot::Receiver<()>),
    /// Yields for something that is there already.
    YieldReady(&'static str),
    Fail(&'static str),
    Panic(&'static str),
    Never(&'static str),
    /// Takes this long on the hand clock.
    Take(&'static str, Duration),
    Defer(&'static str, Box<Self>),
    DeferThenFail(&'static str, Box<Self>),
    DeferThenAsk(&'static str, Box<Self>, ActorLane),
    AskActor(&'static str, ActorLane),
    AskSpot(&'static str, SpotLane),
    YieldAskActor(&'static str, ActorLane),
    YieldAskSpot(&'static str, SpotLane),
    TellSpot(&'static str, SpotLane, &'static str),
    TellActor(&'static str, ActorLane, &'static str),
    /// Awaits a call that was made with a handle from outside of the turn.
    Outside(&'static str, Outside),
    YieldOutside(&'static str, Outside),
    /// Holds the barrier it runs for until it is released.
    HoldBarrier(&'static str, oneshot::Receiver<()>),
    /// Yields and gives up the wait before it is over, then touches its state.
    AbandonYield(&'static str),
}

impl Step {
    pub(crate) fn wait(name: &'static str) -> (Self, Release) {
        let (release, wait) = oneshot::channel();
        (Self::Wait(name, wait), release)
    }

    pub(crate) fn yielding(name: &'static str) -> (Self, Release) {
        let (release, wait) = oneshot::channel();
        (Self::Yield(name, wait), release)
    }
}

/// What a handler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) name: &'static str,
    pub(crate) fences: Vec<Fence>,
    pub(crate) kind: TurnKind,
}

/// An owner that follows its items.
pub(crate) struct Scripted<P> {
    pub(crate) log: Log,
    pub(crate) clock: HandClock,
    pub(crate) count: u64,
    policy: PhantomData<fn() -> P>,
}

impl<P> Scripted<P> {
    pub(crate) fn new(log: &Log, clock: &HandClock) -> Self {
        Self {
            log: log.clone(),
            clock: clock.clone(),
            count: 0,
            policy: PhantomData,
        }
    }
}

fn verdict<T>(outcome: &Result<T, AskError>) -> &'static str {
    match outcome {
        Ok(_) => "answered",
        Err(AskError::InvalidOperation(_)) => "invalidOperation",
        Err(AskError::Unavailable) => "unavailable",
        Err(_) => "otherError",
    }
}

impl<P: LanePolicy> Owner for Scripted<P>
where
    Yielding: WaitsUnder<P>,
{
    type Policy = P;
    type Waits = Yielding;
    type Item = Step;
    type Reply = Said;

    async fn handle(turn: &mut Turn<'_, Self>, step: Step) -> Result<Said, HandlerError> {
        let kind = turn.kind();
        let mut fences = vec![turn.fence()];
        turn.state().count += 1;
        let log = turn.state().log.clone();
        let name = match step {
            Step::Note(name) => {
                log.note(name);
                name
            }
            Step::Wait(name, wait) => {
                log.note(format!("{name}("));
                drop(wait.await);
                log.note(format!("){name}"));
                name
            }
            Step::Yield(name, wait) => {
                log.note(format!("{name}("));
                match turn.yield_for(wait).await {
                    Ok(_) => log.note(format!("){name}")),
                    Err(_) => log.note(format!("{name}:invalidOperation")),
                }
                turn.state().count += 1;
                fences.push(turn.fence());
                name
            }
            Step::YieldReady(name) => {
                turn.yield_for(std::future::ready(()))
                    .await
                    .map_err(HandlerError::new)?;
                log.note(name);
                fences.push(turn.fence());
                name
            }
            Step::Fail(name) => {
                log.note(name);
                return Err(HandlerError::new(name));
            }
            Step::Panic(name) => {
                log.note(name);
                panic!("{name}");
            }
            Step::Never(name) => {
                log.note(name);
                std::future::pending().await
            }
            Step::Take(name, by) => {
                turn.state().clock.advance(by);
                log.note(name);
                name
            }
            Step::Defer(name, barrier) => {
                turn.defer(*barrier).map_err(HandlerError::new)?;
                log.note(name);
                name
            }
            Step::DeferThenFail(name, barrier) => {
                turn.defer(*barrier).map_err(HandlerError::new)?;
                log.note(name);
                return Err(HandlerError::new(name));
            }
            Step::DeferThenAsk(name, barrier, actor) => {
                turn.defer_to(&actor, *barrier).map_err(HandlerError::new)?;
                let outcome = turn.ask(&actor, Step::Note("asked")).await;
                log.note(format!("{name}:{}", verdict(&outcome)));
                name
            }
            Step::AskActor(name, actor) => {
                let outcome = turn.ask(&actor, Step::Note("asked")).await;
                log.note(format!("{name}:{}", verdict(&outcome)));
                name
            }
            Step::AskSpot(name, spot) => {
                let outcome = turn.ask(&spot, Step::Note("asked")).await;
                log.note(format!("{name}:{}", verdict(&outcome)));
                name
            }
            Step::YieldAskActor(name, actor) => {
                let outcome = turn.yield_ask(&actor, Step::Note("asked")).await;
                log.note(format!("{name}:{}", verdict(&outcome)));
                fences.push(turn.fence());
                name
            }
            Step::YieldAskSpot(name, spot) => {
                let outcome = turn.yield_ask(&spot, Step::Note("asked")).await;
                log.note(format!("{name}:{}", verdict(&outcome)));
                fences.push(turn.fence());
                name
            }
            Step::TellSpot(name, spot, text) => {
                spot.enqueue(Step::Note(text)).unwrap();
                log.note(name);
                name
            }
            Step::TellActor(name, actor, text) => {
                actor.enqueue(Step::Note(text)).unwrap();
                log.note(name);
                name
            }
            Step::Outside(name, call) => {
                log.note(format!("{name}:{}", verdict(&call.await)));
                name
            }
            Step::YieldOutside(name, call) => {
                let outcome = turn.yield_for(call).await.map_err(HandlerError::new)?;
                log.note(format!("{name}:{}", verdict(&outcome)));
                name
            }
            Step::HoldBarrier(name, release) => {
                let hold = turn.hold_barrier().unwrap();
                log.note(name);
                tokio::task::spawn(async move {
                    drop(release.await);
                    drop(hold);
                });
                name
            }
            Step::AbandonYield(name) => {
                log.note(name);
                let mut wait = std::pin::pin!(turn.yield_for(std::future::pending::<()>()));
                std::future::poll_fn(|cx| {
                    assert!(wait.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                name
            }
        };
        Ok(Said { name, fences, kind })
    }

    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), HandlerError> {
        let text = format!(
            "{}:{}/{}+{}",
            tick.name, tick.delivery_index, tick.schedule_index, tick.skipped_ticks
        );
        turn.state().log.note(text);
        if &*tick.name == "failing" {
            return Err(HandlerError::new("a failing tick"));
        }
        Ok(())
    }
}

/// A session that only writes down.
pub(crate) struct Client(pub(crate) Log);

impl Owner for Client {
    type Policy = Session;
    type Waits = KeepGate;
    type Item = &'static str;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, item: &'static str) -> Result<(), HandlerError> {
        turn.state().0.note(item);
        Ok(())
    }
}

/// An engine with one worker on the runtime of the test, so that nothing runs before the test waits.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) log: Log,
    pub(crate) clock: HandClock,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_workers(1)
    }

    pub(crate) fn with_workers(workers: usize) -> Self {
        let clock = HandClock::default();
        let workers = NonZeroUsize::new(workers).unwrap();
        let runtime = tokio::runtime::Handle::current();
        let engine = Engine::start(&runtime, workers, Arc::new(clock.clone()));
        Self {
            engine,
            log: Log::default(),
            clock,
        }
    }

    pub(crate) fn kind<P: LanePolicy>(&self, limits: LaneLimits, gate: GateUse) -> Kind<Scripted<P>>
    where
        Yielding: WaitsUnder<P>,
    {
        self.engine.kind(limits, gate)
    }

    pub(crate) fn spot(&self, gate: GateUse) -> SpotLane {
        self.spot_with(LaneLimits::DEFAULT, gate)
    }

    pub(crate) fn spot_with(&self, limits: LaneLimits, gate: GateUse) -> SpotLane {
        self.kind(limits, gate)
            .lane(Scripted::new(&self.log, &self.clock))
    }

    pub(crate) fn actor(&self) -> ActorLane {
        self.actor_with(LaneLimits::DEFAULT)
    }

    pub(crate) fn actor_with(&self, limits: LaneLimits) -> ActorLane {
        self.kind(limits, GateUse::Own)
            .lane(Scripted::new(&self.log, &self.clock))
    }

    pub(crate) fn member_of(&self, spot: &SpotLane) -> ActorLane {
        let actor = self.actor();
        actor.bind(spot).unwrap();
        actor
    }
}

/// Has the lane run a handler that waits, with its gate, until it is released.
pub(crate) async fn running<P: LanePolicy>(lane: &Lane<Scripted<P>>, name: &'static str) -> Release
where
    Yielding: WaitsUnder<P>,
{
    let (wait, release) = Step::wait(name);
    lane.enqueue(wait).unwrap();
    settle().await;
    release
}

/// Lets everything run that can run without the test doing anything.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
