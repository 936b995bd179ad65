//! All timers of one host behind one ordered structure of deadlines (EX-241).
//!
//! No registration has a task, a thread or a timer of the operating system. Time is handed in with
//! [`Timers::fire`]; [`Timers::run`] does that with tokio's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

use crate::core::{Admission, Core};
use crate::error::Refusal;
use crate::jobs::{JobPermit, JobSource};
use crate::lane::Lane;
use crate::owner::Owner;
use crate::queue::{Entry, QueuedTick};
use crate::submit;
use crate::sync::Mutex;
use crate::time::{Clock, Monotonic};
use crate::timer::{
    CapturedTimer, EndState, Tick, TickEnd, TickOutcome, TimerMachine, TimerSettings,
};

/// A registration and its generation: registering a name again makes another one (EX-232).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey(u64);

/// Where ticks go.
pub(crate) trait TickSink: Send + Sync {
    /// One attempt that never waits.
    fn offer(self: Arc<Self>, tick: Tick, end: TickEnd) -> Result<(), Refusal>;

    /// Stands in line for a tick that found no room; the mark is woken or dropped when it leaves.
    fn stand_in_line(self: Arc<Self>, mark: Waker);
}

impl<O: Owner> TickSink for Core<O> {
    fn offer(self: Arc<Self>, tick: Tick, end: TickEnd) -> Result<(), Refusal> {
        self.submit_tick(tick, end)
    }

    fn stand_in_line(self: Arc<Self>, mark: Waker) {
        submit::mark(&self, mark);
    }
}

/// Stands in the line of a lane for a tick (EX-242). However it leaves the line, the timer looks again.
struct InLine {
    timers: Weak<TimersInner>,
    key: TimerKey,
}

impl Wake for InLine {
    fn wake(self: Arc<Self>) {}
}

impl Drop for InLine {
    fn drop(&mut self) {
        if let Some(timers) = self.timers.upgrade() {
            timers.room(self.key);
        }
    }
}

/// The timers of one host.
#[derive(Clone)]
pub struct Timers {
    inner: Arc<TimersInner>,
}

pub(crate) struct TimersInner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    next_key: u64,
    /// By lane and name, so that a name is unique per owner (EX-230).
    names: BTreeMap<(u64, Arc<str>), TimerKey>,
    timers: BTreeMap<TimerKey, Registration>,
    deadlines: BTreeSet<(Monotonic, TimerKey)>,
    /// Due timers that found no permit, until they get one (EX-242).
    starved: BTreeSet<TimerKey>,
}

struct Registration {
    lane: u64,
    name: Arc<str>,
    sink: Weak<dyn TickSink>,
    machine: TimerMachine,
    /// When the scheduler looks again; the entry in `deadlines`.
    armed: Option<Monotonic>,
    /// EX-243: no tick is queued and no callback starts from here on.
    admit_until: Option<Monotonic>,
    /// EX-232: a tick that is queued does not run any more.
    cancelled: Cancelled,
    /// EX-242: the tick is due and an [`InLine`] stands for it in the line of its lane.
    in_line: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancelled {
    No,
    /// A callback runs; it is not interrupted.
    AfterCallback,
}

impl State {
    fn arm(&mut self, key: TimerKey, at: Option<Monotonic>) {
        let Some(registration) = self.timers.get_mut(&key) else {
            return;
        };
        if let Some(old) = registration.armed.take() {
            self.deadlines.remove(&(old, key));
        }
        if let Some(at) = at {
            registration.armed = Some(at);
            self.deadlines.insert((at, key));
        }
    }

    fn remove(&mut self, key: TimerKey) -> Option<Registration> {
        self.arm(key, None);
        self.starved.remove(&key);
        let registration = self.timers.remove(&key)?;
        let name = (registration.lane, Arc::clone(&registration.name));
        if self.names.get(&name) == Some(&key) {
            self.names.remove(&name);
        }
        Some(registration)
    }
}

impl Timers {
    /// Timers on this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(State::default());
        let changed = tokio::sync::Notify::new();
        Self {
            inner: Arc::new(TimersInner {
                clock,
                state,
                changed,
            }),
        }
    }

    /// Registers a timer of a lane. The same name again starts a new generation: queued ticks of the
    /// older one do not run and indices start again (EX-232).
    pub fn register<O: Owner>(
        &self,
        lane: &Lane<O>,
        name: impl Into<Arc<str>>,
        settings: TimerSettings,
    ) -> TimerHandle {
        let machine = TimerMachine::new(settings, self.inner.clock.now());
        self.insert(lane, name.into(), machine)
    }

    /// Registers a timer that moved here with its owner (EX-245): its due time is converted once, from
    /// Unix time to this host's clock, with `unix_ms` being now.
    pub fn restore<O: Owner>(
        &self,
        lane: &Lane<O>,
        captured: &CapturedTimer,
        unix_ms: u64,
    ) -> TimerHandle {
        let now = self.inner.clock.now();
        let millis = std::time::Duration::from_millis;
        let ahead = captured.next_due_unix_ms.saturating_sub(unix_ms);
        let behind = unix_ms.saturating_sub(captured.next_due_unix_ms);
        let due = now
            .after(millis(ahead))
            .since_origin()
            .saturating_sub(millis(behind));
        let machine = TimerMachine::restored(captured, Monotonic::from_origin(due));
        self.insert(lane, Arc::clone(&captured.name), machine)
    }

    fn insert<O: Owner>(
        &self,
        lane: &Lane<O>,
        name: Arc<str>,
        machine: TimerMachine,
    ) -> TimerHandle {
        let sink: Arc<dyn TickSink> = Arc::<Core<O>>::clone(&lane.core);
        let sink = Arc::downgrade(&sink);
        let mut state = self.inner.state.lock();
        state.next_key += 1;
        let key = TimerKey(state.next_key);
        let old = state.names.insert((lane.core.id, Arc::clone(&name)), key);
        let old = old.and_then(|old| state.remove_or_let_run(old));
        let at = machine.next_deadline();
        let lane = lane.core.id;
        let (armed, admit_until, cancelled) = (None, None, Cancelled::No);
        let registration = Registration {
            lane,
            name,
            sink,
            machine,
            armed,
            admit_until,
            cancelled,
            in_line: false,
        };
        state.timers.insert(key, registration);
        state.arm(key, at);
        drop(state);
        drop(old);
        self.inner.changed.notify_one();
        TimerHandle {
            timers: Arc::clone(&self.inner),
            key,
        }
    }

    /// EX-245: stops the timers of a sealed lane and returns their progress, in name order.
    pub fn capture<O: Owner>(&self, lane: &Lane<O>, unix_ms: u64) -> Vec<CapturedTimer> {
        let now = self.inner.clock.now();
        let mut state = self.inner.state.lock();
        let keys: Vec<TimerKey> = state
            .names
            .range((lane.core.id, Arc::from(""))..)
            .take_while(|((id, _), _)| *id == lane.core.id)
            .map(|(_, key)| *key)
            .collect();
        let mut captured = Vec::new();
        let mut removed = Vec::new();
        for key in keys {
            if let Some(registration) = state.remove(key) {
                captured.push(
                    registration
                        .machine
                        .capture(&registration.name, now, unix_ms),
                );
                removed.push(registration);
            }
        }
        drop(state);
        drop(removed);
        captured
    }

    /// When [`Timers::fire`] has something to do next.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.inner.state.lock().deadlines.first().map(|(at, _)| *at)
    }

    /// Queues every tick that is due at `now`, in the order of their deadlines, each under a permit of
    /// `source` if there is one (EX-127). A tick without a permit or a place stays where it is, is
    /// coalesced by its policy and blocks nobody (EX-242): without a permit until [`Timers::run`] gets
    /// one for it, without a place until its turn in the line for room has come and it is due again.
    pub fn fire(&self, now: Monotonic, source: Option<&mut JobSource>) {
        let mut source = source;
        let mut due = Vec::new();
        {
            let mut state = self.inner.state.lock();
            while let Some(&(at, key)) = state.deadlines.first() {
                if at > now {
                    break;
                }
                state.arm(key, None);
                due.push(key);
            }
        }
        for key in due {
            self.inner.fire_one(key, now, source.as_deref_mut());
        }
    }

    /// Fires ticks when they are due, for ever. One of these runs per host (EX-241).
    ///
    /// # Cancel safety
    /// Dropping it stops firing; a later call goes on with what became due meanwhile.
    pub async fn run(&self, mut source: Option<JobSource>) {
        loop {
            let changed = self.inner.changed.notified();
            let now = self.inner.clock.now();
            let deadline = self.next_deadline();
            if deadline.is_some_and(|at| at <= now) {
                self.fire(now, source.as_mut());
                continue;
            }
            let starved = self.inner.state.lock().starved.first().copied();
            let next = async {
                match deadline {
                    // Either ends the wait; the loop looks at the clock again in both cases.
                    Some(at) => drop(tokio::time::timeout(at.since(now), changed).await),
                    None => changed.await,
                }
            };
            let (Some(key), Some(source)) = (starved, source.as_mut()) else {
                next.await;
                continue;
            };
            if let Some(permit) = first(source.reserve(), next).await {
                let now = self.inner.clock.now();
                self.inner.fire_with(key, now, TickPermit::Taken(permit));
            }
        }
    }
}

/// The permit, unless the other future ends first.
async fn first(permit: impl Future<Output = JobPermit>, other: impl Future) -> Option<JobPermit> {
    let (mut permit, mut other) = (pin!(permit), pin!(other));
    poll_fn(|cx| {
        if let Poll::Ready(permit) = permit.as_mut().poll(cx) {
            return Poll::Ready(Some(permit));
        }
        other.as_mut().poll(cx).map(|_| None)
    })
    .await
}

impl State {
    /// EX-232: a callback that runs is not interrupted; everything else of the timer ends now.
    fn remove_or_let_run(&mut self, key: TimerKey) -> Option<Registration> {
        let running = self
            .timers
            .get(&key)
            .is_some_and(|timer| timer.machine.is_running());
        if !running {
            return self.remove(key);
        }
        if let Some(timer) = self.timers.get_mut(&key) {
            timer.cancelled = Cancelled::AfterCallback;
        }
        None
    }
}

/// The permit of a tick that is about to be queued (EX-127).
enum TickPermit {
    NotNeeded,
    Missing,
    Taken(JobPermit),
}

impl TimersInner {
    fn fire_one(self: &Arc<Self>, key: TimerKey, now: Monotonic, source: Option<&mut JobSource>) {
        // Taken before the lock: what it wakes must not be woken under one.
        let permit = source.map_or(TickPermit::NotNeeded, |source| {
            source
                .try_reserve()
                .map_or(TickPermit::Missing, TickPermit::Taken)
        });
        self.fire_with(key, now, permit);
    }

    /// Fires one timer, under its permit if the host has a job queue.
    fn fire_with(self: &Arc<Self>, key: TimerKey, now: Monotonic, permit: TickPermit) {
        let mut state = self.state.lock();
        state.starved.remove(&key);
        let Some(timer) = state.timers.get_mut(&key) else {
            return;
        };
        if timer.admit_until.is_some_and(|until| now >= until) {
            // EX-243: nothing is queued any more until the deadline is extended.
            return;
        }
        let Some(sink) = timer.sink.upgrade() else {
            let gone = state.remove(key);
            drop(state);
            drop(gone);
            return;
        };
        let name = Arc::clone(&timer.name);
        if matches!(permit, TickPermit::Missing) {
            let again = timer.machine.retry_at(now);
            state.arm(key, Some(again));
            state.starved.insert(key);
            drop(state);
            drop(sink);
            return;
        }
        let permit = match permit {
            TickPermit::Taken(permit) => Some(permit),
            TickPermit::NotNeeded | TickPermit::Missing => None,
        };
        let tick = timer.machine.on_due(now, &name);
        drop(state);
        let Some(tick) = tick else { return };
        // The permit goes with the tick and is given back at the first instruction (EX-121).
        let permit = permit.map(JobPermit::queued);
        let end = TickEnd {
            timers: Arc::clone(self),
            key,
            state: EndState::Queued,
            permit,
        };
        match Arc::clone(&sink).offer(tick, end) {
            Ok(()) => {}
            Err(reason) if reason.is_full() => {
                let mut state = self.state.lock();
                let waits = state.timers.get_mut(&key).is_some_and(|timer| {
                    // Who stands in line already keeps the place.
                    !std::mem::replace(&mut timer.in_line, true)
                });
                state.arm(key, None);
                drop(state);
                if waits {
                    let timers = Arc::downgrade(self);
                    sink.stand_in_line(Waker::from(Arc::new(InLine { timers, key })));
                }
            }
            Err(reason) => {
                let mut state = self.state.lock();
                let gone = if matches!(reason, Refusal::Ended | Refusal::ShuttingDown) {
                    state.remove(key)
                } else {
                    let again = state
                        .timers
                        .get_mut(&key)
                        .map(|timer| timer.machine.retry_at(now));
                    state.arm(key, again);
                    None
                };
                drop(state);
                drop(gone);
            }
        }
    }

    /// The mark of a timer left the line of its lane: its tick is due now.
    fn room(&self, key: TimerKey) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let due = state.timers.get_mut(&key).is_some_and(|timer| {
            std::mem::take(&mut timer.in_line) && timer.machine.next_deadline().is_some()
        });
        if due {
            state.arm(key, Some(now));
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn started(&self, key: TimerKey, tick: &mut Tick) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let Some(timer) = state.timers.get_mut(&key) else {
            return false;
        };
        if timer.cancelled != Cancelled::No || timer.admit_until.is_some_and(|at| now >= at) {
            timer.machine.on_returned();
            return false;
        }
        timer.machine.on_started();
        tick.started_at = now;
        true
    }

    pub(crate) fn ended(&self, key: TimerKey, outcome: TickOutcome) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let Some(timer) = state.timers.get_mut(&key) else {
            return;
        };
        timer.machine.on_ended(now, outcome);
        let gone = if timer.machine.is_ended() || timer.cancelled != Cancelled::No {
            state.remove(key)
        } else {
            let at = timer.machine.next_deadline();
            state.arm(key, at);
            None
        };
        drop(state);
        drop(gone);
        self.changed.notify_one();
    }

    pub(crate) fn returned(&self, key: TimerKey) {
        let mut state = self.state.lock();
        let Some(timer) = state.timers.get_mut(&key) else {
            return;
        };
        timer.machine.on_returned();
        let at = timer.machine.next_deadline();
        state.arm(key, at);
        drop(state);
        self.changed.notify_one();
    }
}

/// One registration. Dropping the handle leaves the timer running; it ends with its lane.
#[derive(Clone)]
pub struct TimerHandle {
    timers: Arc<TimersInner>,
    key: TimerKey,
}

impl TimerHandle {
    /// Ends the timer: no callback starts any more, a running one is not interrupted (EX-232).
    pub fn cancel(&self) {
        let gone = self.timers.state.lock().remove_or_let_run(self.key);
        drop(gone);
    }

    /// The local admission deadline of the owner's lease: from there on no tick is queued and no
    /// callback starts (EX-243). `None` takes the bound away.
    pub fn admit_until(&self, until: Option<Monotonic>) {
        let mut state = self.timers.state.lock();
        if let Some(timer) = state.timers.get_mut(&self.key) {
            timer.admit_until = until;
            let at = timer.machine.next_deadline();
            state.arm(self.key, at);
        }
        drop(state);
        self.timers.changed.notify_one();
    }
}

impl<O: Owner> Core<O> {
    /// A tick is local application work with the fixed cost (EX-240). A sealed lane takes none: its
    /// scheduling has stopped (EX-245).
    fn submit_tick(self: &Arc<Self>, tick: Tick, end: TickEnd) -> Result<(), Refusal> {
        let limits = &self.kind.limits;
        let fixed = limits.fixed_work_byte_cost;
        let queued = Box::new(QueuedTick { tick, end });
        let mut inner = self.lock();
        let refusal = match inner.admission {
            Admission::Open => {
                self.settle(&mut inner);
                let fits = inner.ledger.fits(limits.application, fixed, fixed);
                (!fits).then(|| {
                    let fifo = crate::error::Fifo::Application;
                    inner.ledger.refusal(fifo, limits.application, fixed, fixed)
                })
            }
            Admission::Queueing => Some(Refusal::Queueing {
                fifo: crate::error::Fifo::Application,
                waiting: inner.ext.as_ref().map_or(0, |ext| ext.waiters.len()),
            }),
            Admission::Held => Some(Refusal::Sealed),
            Admission::ConnectionClosing => Some(Refusal::ConnectionClosing),
            Admission::Closed | Admission::Ended => Some(self.end_reason()),
        };
        if let Some(refusal) = refusal {
            drop(inner);
            // Tells the timer that the tick is due as before.
            drop(queued);
            return Err(refusal);
        }
        inner.ledger.accept(0);
        inner.app.push_back(Entry::Tick(queued));
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
        Ok(())
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("registered", &self.inner.state.lock().timers.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
