//! The driver: takes a gate, runs selected items in turns, and lets the gate go (EX-72, EX-73).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::carrier::{AnyCarrier, Carrier, Exit, Mode, Seat};
use crate::core::{
    ATTENTION, Admission, After, Choice, Core, GateHost, Inner, Junk, KEEP_CAPACITY, Run, Schedule,
    TicketHolder, WAITING,
};
use crate::engine::Shared;
use crate::error::{AskError, Fifo, HandlerError};
use crate::owner::Owner;
use crate::queue::{BarrierRun, Current, Entry, QueuedTick, Work};
use crate::ready::Runnable;
use crate::sync::{Mutex, MutexGuard, Ordering};
use crate::time::Monotonic;
use crate::timer::TickOutcome;
use crate::turn::{Turn, TurnKind};
use crate::worker::Worker;

/// After so many items a worker lets the other tasks of its thread run.
const PAUSE_ITEMS: u32 = 256;
/// A worker that measured this much time lets the other tasks of its thread run.
const PAUSE_AFTER: Duration = Duration::from_micros(500);
/// The most handlers between two readings of the clock; only while handlers prove short.
const STRIDE_MAX: u32 = 8;

/// A gate, or a ticket at one, for a carrier to begin with.
pub(crate) struct Load<O: Owner> {
    pub(crate) core: Arc<Core<O>>,
    pub(crate) duty: Duty,
}

pub(crate) enum Duty {
    /// The lane's own gate, taken from the ready set.
    Slice,
    /// The lane's own gate, kept while a ticket or a resumed turn ran in it.
    Continue,
    /// One item, in a turn of another lane's gate (EX-23).
    Ticket(Arc<dyn GateHost>, u64),
}

/// What a carrier keeps between slices.
struct Desk<O: Owner> {
    batch: VecDeque<Entry<O>>,
    /// Items since the last pause.
    spent: u32,
    /// Items since the clock was read, and how many are let pass before the next reading.
    since: u32,
    stride: u32,
    /// When the carrier last knew the time, and when it last paused.
    now: Monotonic,
    paused: Monotonic,
    slice_start: Monotonic,
}

enum Pick<O: Owner> {
    Work(Work<O>, TurnKind),
    Tick(Box<QueuedTick>),
    Barrier(O::Item),
}

/// How the lane's state says to begin.
enum Begin {
    Go,
    /// A parked turn woke up.
    Poll(Box<dyn AnyCarrier>),
    Nothing,
}

pub(crate) fn new_carrier<O: Owner>(shared: &Arc<Shared>) -> Carrier<Load<O>> {
    let seat = Arc::new(Seat::new());
    let inbox = Arc::new(Mutex::new(None));
    let body = carry::<O>(Arc::clone(shared), Arc::clone(&seat), Arc::clone(&inbox));
    Carrier::new(seat, inbox, body)
}

async fn carry<O: Owner>(
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    inbox: Arc<Mutex<Option<Load<O>>>>,
) {
    let mut desk = Desk {
        batch: VecDeque::new(),
        spent: 0,
        since: 0,
        stride: 1,
        now: Monotonic::ORIGIN,
        paused: Monotonic::ORIGIN,
        slice_start: Monotonic::ORIGIN,
    };
    loop {
        // A gate comes from the worker, or the body helps itself: a run of gates of one type costs no
        // hand-over at all.
        let mut load = poll_fn(|_| {
            // Whatever was read before the rest is old.
            desk.since = u32::MAX;
            desk.spent = 0;
            let load = if seat.take_loaded() {
                inbox.lock().take()
            } else {
                next_gate(&mut desk, &shared, &seat)
            };
            load.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        loop {
            drive(&mut desk, &shared, &seat, load).await;
            if seat.mode() == Mode::Exit {
                break;
            }
            if desk.spent >= PAUSE_ITEMS {
                pause(&mut desk, &seat).await;
            }
            match next_gate(&mut desk, &shared, &seat) {
                Some(next) => load = next,
                None => break,
            }
        }
        // At rest: what comes next is decided in the next poll, not in this one.
        let mut left = false;
        poll_fn(|_| if std::mem::replace(&mut left, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
}

fn next_gate<O: Owner>(desk: &mut Desk<O>, shared: &Arc<Shared>, seat: &Seat) -> Option<Load<O>> {
    // A gate that leads nowhere still counts, so that a long row of them ends.
    desk.spent += 1;
    let Some(job) = shared.ready.pop(seat.worker()) else {
        seat.set_mode(Mode::Empty);
        return None;
    };
    let any: &dyn std::any::Any = &*job;
    if !any.is::<Core<O>>() {
        seat.leave(Exit::Run(job));
        seat.set_mode(Mode::Exit);
        return None;
    }
    let job: Arc<dyn std::any::Any + Send + Sync> = job;
    match job.downcast::<Core<O>>() {
        Ok(core) => Some(Load { core, duty: Duty::Slice }),
        Err(_) => None,
    }
}

/// Lets the other tasks of this thread run, with the gate in hand.
async fn pause<O: Owner>(desk: &mut Desk<O>, seat: &Seat) {
    desk.spent = 0;
    let mut first = true;
    poll_fn(|_| {
        if std::mem::take(&mut first) {
            seat.set_mode(Mode::Pause);
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
    seat.set_mode(Mode::Waiting);
}

impl<O: Owner> Desk<O> {
    /// EX-65: asked after a handler ended, never during one. The clock is read after every handler
    /// until handlers prove short; then after at most [`STRIDE_MAX`], so that a message of a few dozen
    /// nanoseconds does not pay for a reading (EX-392).
    #[inline]
    fn used_up(&mut self, core: &Core<O>) -> bool {
        self.spent += 1;
        self.since = self.since.saturating_add(1);
        if self.since < self.stride {
            return false;
        }
        self.read_clock(core)
    }

    fn read_clock(&mut self, core: &Core<O>) -> bool {
        let before = self.now;
        self.now = core.shared().clock.now();
        let budget = core.kind.limits.owner_time_budget;
        let short = self.now.since(before) < budget / 64;
        self.stride = if short { (self.stride * 2).min(STRIDE_MAX) } else { 1 };
        self.since = 0;
        self.now.since(self.slice_start) >= budget
    }

    /// A gate is taken from the ready set. The last reading serves as its start as long as it is no
    /// older than the stride allows.
    #[inline]
    fn start_slice(&mut self, core: &Core<O>) {
        if self.since >= self.stride {
            self.now = core.shared().clock.now();
            self.since = 0;
        }
        self.slice_start = self.now;
    }
}

async fn drive<O: Owner>(desk: &mut Desk<O>, shared: &Shared, seat: &Arc<Seat>, load: Load<O>) {
    let core = load.core;
    let mut turn = Turn {
        core: &core,
        seat,
        owner: None,
        batch: std::mem::take(&mut desk.batch),
        number: 0,
        kind: TurnKind::Application,
        gate: None,
        deferred: Vec::new(),
    };
    seat.set_mode(Mode::Waiting);
    if let Duty::Ticket(gate, fence) = load.duty {
        if let Some(current) = core.begin_ticket(&mut turn, &gate, fence) {
            let (fifo, pick) = current;
            let payload = run(shared, seat, &core, &mut turn, pick).await;
            core.end_ticket(&mut turn, fifo, payload);
        }
        let gate = turn.gate.take().unwrap_or(gate);
        seat.leave(Exit::Continue(gate));
        seat.set_mode(Mode::Exit);
        desk.batch = turn.batch;
        return;
    }
    match core.begin(&mut turn, desk, matches!(load.duty, Duty::Continue)) {
        Begin::Go => {}
        Begin::Poll(carrier) => {
            seat.leave(Exit::Poll(carrier));
            seat.set_mode(Mode::Exit);
            desk.batch = turn.batch;
            return;
        }
        Begin::Nothing => {
            desk.batch = turn.batch;
            return;
        }
    }
    let mut cut = desk.now.since(desk.slice_start) >= core.kind.limits.owner_time_budget;
    let mut served = 0u64;
    while let Some(pick) = core.pick(&mut turn, desk, cut, &mut served) {
        let kind = match &pick {
            Pick::Work(_, kind) => *kind,
            Pick::Tick(..) => TurnKind::Tick,
            Pick::Barrier(_) => TurnKind::Barrier,
        };
        turn.number += 1;
        let payload = run(shared, seat, &core, &mut turn, pick).await;
        match kind {
            TurnKind::Application | TurnKind::Tick => core.end_application(payload),
            TurnKind::Lifecycle => core.end_lifecycle(payload),
            TurnKind::Barrier => core.end_barrier(),
        }
        served += 1;
        cut = desk.used_up(&core);
        if desk.spent >= PAUSE_ITEMS || desk.now.since(desk.paused) >= PAUSE_AFTER {
            desk.paused = desk.now;
            pause(desk, seat).await;
        }
    }
    desk.batch = turn.batch;
}

/// One turn of one item, up to its terminal. Returns the payload bytes to release.
async fn run<O: Owner>(
    shared: &Shared,
    seat: &Arc<Seat>,
    core: &Arc<Core<O>>,
    turn: &mut Turn<'_, O>,
    pick: Pick<O>,
) -> u64 {
    match pick {
        Pick::Work(Work { item, payload_bytes, reply, permit }, kind) => {
            // EX-121: returned immediately before the first instruction of the callback.
            drop(permit);
            if reply.as_ref().is_some_and(tokio::sync::oneshot::Sender::is_closed) {
                // EX-330: its caller gave up before the handler began. One terminal, no handler.
                shared.stats.cancelled();
                shared.guard_drop(item);
                return payload_bytes;
            }
            turn.kind = kind;
            let gate = turn.gate.clone();
            let result =
                guarded(seat, core, gate, async { O::handle(turn, item).await }).await;
            if turn.owner.is_none() {
                regain(seat, turn).await;
            }
            finish(shared, turn, result, reply);
            payload_bytes
        }
        Pick::Barrier(item) => {
            turn.kind = TurnKind::Barrier;
            let gate = turn.gate.clone();
            let result =
                guarded(seat, core, gate, async { O::handle(turn, item).await }).await;
            finish(shared, turn, result, None);
            0
        }
        Pick::Tick(queued) => {
            let QueuedTick { mut tick, mut end } = *queued;
            turn.kind = TurnKind::Tick;
            if !end.begin(&mut tick) {
                // EX-232: cancelled or registered anew since the tick was queued.
                return 0;
            }
            let gate = turn.gate.clone();
            let result =
                guarded(seat, core, gate, async { O::on_tick(turn, tick).await }).await;
            if turn.owner.is_none() {
                regain(seat, turn).await;
            }
            let ended_well = matches!(result, Ok(Ok(())));
            end.ended(if ended_well { TickOutcome::Completed } else { TickOutcome::Failed });
            settle_deferred(turn, ended_well);
            count(shared, &result);
            0
        }
    }
}

type Caught<T> = Result<Result<T, HandlerError>, String>;

fn count<T>(shared: &Shared, result: &Caught<T>) {
    match result {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => shared.stats.failed(),
        Err(_) => shared.stats.panicked(),
    }
}

fn settle_deferred<O: Owner>(turn: &mut Turn<'_, O>, ended_well: bool) {
    // EX-45: still inside the turn; a failing handler takes its barriers back.
    for barrier in turn.deferred.drain(..) {
        if ended_well {
            barrier.activate();
        }
    }
}

#[inline]
fn finish<O: Owner>(
    shared: &Shared,
    turn: &mut Turn<'_, O>,
    result: Caught<O::Reply>,
    reply: Option<tokio::sync::oneshot::Sender<Result<O::Reply, AskError>>>,
) {
    count(shared, &result);
    let ended_well = matches!(result, Ok(Ok(_)));
    if let Some(reply) = reply {
        let answer = match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(AskError::Failed(error)),
            Err(message) => Err(AskError::Panicked { message }),
        };
        // A caller that went away does not want it (EX-301).
        drop(reply.send(answer));
    }
    if !turn.deferred.is_empty() {
        settle_deferred(turn, ended_well);
    }
}

/// Polls a handler where it stands, catches its panic, and remembers whose gate it keeps when it waits.
async fn guarded<O: Owner, T>(
    seat: &Arc<Seat>,
    core: &Arc<Core<O>>,
    gate: Option<Arc<dyn GateHost>>,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> Caught<T> {
    let mut handler = pin!(Some(handler));
    poll_fn(|cx| {
        let Some(running) = handler.as_mut().as_pin_mut() else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| running.poll(cx))) {
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Ok(Poll::Pending) => {
                if !matches!(seat.mode(), Mode::Suspended | Mode::Decided) {
                    seat.set_gate(gate.clone().unwrap_or_else(|| {
                        let own: Arc<dyn GateHost> = Arc::<Core<O>>::clone(core);
                        own
                    }));
                    seat.set_mode(Mode::Waiting);
                }
                Poll::Pending
            }
            Err(panic) => {
                let message = panic_text(&*panic);
                // What the handler held is dropped here, where a second panic is caught as well.
                drop(catch_unwind(AssertUnwindSafe(|| handler.set(None))));
                drop(catch_unwind(AssertUnwindSafe(move || drop(panic))));
                Poll::Ready(Err(message))
            }
        }
    })
    .await
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// A handler that abandoned a yielded wait ended without the gate: its terminal needs a turn, so it
/// takes one as a resume would.
async fn regain<O: Owner>(seat: &Arc<Seat>, turn: &mut Turn<'_, O>) {
    let mut polls = 0u8;
    poll_fn(|cx| match seat.mode() {
        Mode::Granted => Poll::Ready(()),
        Mode::Suspended => {
            polls += 1;
            if polls == 1 {
                // This poll may be the one that still holds the gate.
                cx.waker().wake_by_ref();
            } else {
                seat.set_mode(Mode::Decided);
            }
            Poll::Pending
        }
        _ => Poll::Pending,
    })
    .await;
    turn.take_gate();
}

impl<O: Owner> Core<O> {
    fn begin(&self, turn: &mut Turn<'_, O>, desk: &mut Desk<O>, kept: bool) -> Begin {
        let mut junk = None;
        let mut inner = self.inner.lock();
        match inner.run {
            Run::Ready if !kept => {}
            // The gate was never let go: a ticket or a resumed turn ran in between (EX-66).
            Run::Running if kept => {
                let start = inner.ext.as_mut().and_then(|ext| ext.slice_start.take());
                desk.slice_start = start.unwrap_or(desk.now);
            }
            Run::Parked if !kept => {
                inner.run = Run::Running;
                inner.worker = u8::try_from(turn.seat.worker()).unwrap_or(0);
                return match inner.ext.as_mut().and_then(|ext| ext.parked.take()) {
                    Some(carrier) => Begin::Poll(carrier),
                    None => Begin::Nothing,
                };
            }
            // An old entry of the ready set: sealed or ended meanwhile.
            Run::Idle | Run::Stopped | Run::Ready | Run::Running | Run::Parked => return Begin::Nothing,
        }
        let fresh = !kept;
        inner.run = Run::Running;
        inner.worker = u8::try_from(turn.seat.worker()).unwrap_or(0);
        turn.owner = inner.owner.take();
        turn.number = inner.turns;
        if turn.owner.is_none() || inner.admission == Admission::Ended {
            inner.run = Run::Stopped;
            junk = turn.owner.take();
        } else if inner.calm() {
            std::mem::swap(&mut inner.app, &mut turn.batch);
        }
        drop(inner);
        if turn.owner.is_none() {
            drop(junk);
            return Begin::Nothing;
        }
        if fresh {
            desk.start_slice(self);
        }
        Begin::Go
    }

    /// What runs next, or nothing when the gate was let go or handed on.
    #[inline]
    fn pick(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        desk: &mut Desk<O>,
        cut: bool,
        served: &mut u64,
    ) -> Option<Pick<O>> {
        let signals = self.signals.load(Ordering::Acquire);
        if signals & ATTENTION == 0 && !cut {
            // Room is handed to waiters in portions, so that the two sides do not wake each other for
            // every single item; at the latest when the entries in hand are used up.
            if signals & WAITING != 0 && *served >= self.kind.serve_after {
                *served = 0;
                self.serve();
            }
            match turn.batch.pop_front() {
                Some(Entry::Work(work)) => return Some(Pick::Work(work, TurnKind::Application)),
                Some(Entry::Tick(tick)) => return Some(Pick::Tick(tick)),
                Some(other) => {
                    let inner = self.inner.lock();
                    return self.hand_on(turn, desk, inner, other);
                }
                None => {}
            }
            // The entries in hand are used up. With nothing but plain work around there are two ways.
            let mut inner = self.inner.lock();
            if inner.ext.is_none() && inner.calm() {
                *served = 0;
                if inner.app.is_empty() {
                    inner.burst = 0;
                    let large = self.hand_back(&mut inner, turn);
                    inner.run = Run::Idle;
                    drop(inner);
                    drop(large);
                    return None;
                }
                std::mem::swap(&mut inner.app, &mut turn.batch);
                drop(inner);
                match turn.batch.pop_front() {
                    Some(Entry::Work(work)) => {
                        return Some(Pick::Work(work, TurnKind::Application));
                    }
                    Some(Entry::Tick(tick)) => return Some(Pick::Tick(tick)),
                    Some(other) => {
                        let inner = self.inner.lock();
                        return self.hand_on(turn, desk, inner, other);
                    }
                    None => {}
                }
            }
        }
        *served = 0;
        self.pick_slowly(turn, desk, cut)
    }

    /// Gives room that became free to those who wait for it.
    pub(crate) fn serve(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.settle(&mut inner);
        inner.serve_waiters(&self.kind, &mut after);
        if inner.ext.as_ref().is_none_or(|ext| ext.waiters.is_empty()) {
            self.signals.fetch_and(!WAITING, Ordering::SeqCst);
        }
        drop(inner);
        after.run(self);
    }

    fn pick_slowly(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        desk: &mut Desk<O>,
        cut: bool,
    ) -> Option<Pick<O>> {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if inner.ext.is_some() {
            self.settle(&mut inner);
            inner.serve_waiters(&self.kind, &mut after);
            if inner.ext.as_ref().is_none_or(|ext| ext.waiters.is_empty()) {
                self.signals.fetch_and(!WAITING, Ordering::SeqCst);
            }
        }
        if inner.admission == Admission::Ended {
            // EX-306: the claim was revoked. What is queued ends without a turn.
            inner.run = Run::Stopped;
            after.junk.push(Junk::Entries(std::mem::take(&mut turn.batch)));
            after.junk.push(Junk::Entries(std::mem::take(&mut inner.app)));
            after.junk.extend(turn.owner.take().map(Junk::Owner));
            if let Some(mut ext) = inner.ext.take() {
                after.quiet.append(&mut ext.quiet);
                after.junk.push(Junk::Ext(ext));
            }
            drop(inner);
            after.run(self);
            return None;
        }
        if inner.seal_requested() && inner.nothing_suspended() {
            self.give_back(&mut inner, turn, &mut after);
            inner.take_s0(&mut after);
            inner.check_quiet(&mut after);
            drop(inner);
            after.run(self);
            return None;
        }
        let in_hand = !turn.batch.is_empty();
        if cut && inner.has_ready(in_hand) {
            // EX-65: to the back of the ready set.
            self.give_back(&mut inner, turn, &mut after);
            inner.run = Run::Ready;
            after.schedule = Schedule::Ready(inner.worker);
            drop(inner);
            after.run(self);
            return None;
        }
        let choice = inner.choose(in_hand, self.kind.limits.lifecycle_burst_limit);
        let pick = match choice {
            Choice::Nothing => {
                self.give_back(&mut inner, turn, &mut after);
                inner.run = Run::Idle;
                inner.check_quiet(&mut after);
                None
            }
            Choice::Barrier => {
                let ext = inner.ext();
                ext.barrier = BarrierRun::Running;
                ext.barriers.pop_front().map(Pick::Barrier)
            }
            Choice::Lifecycle => match inner.ext().lifecycle.pop_front() {
                Some(Entry::Work(work)) => Some(Pick::Work(work, TurnKind::Lifecycle)),
                Some(other) => {
                    let pick = self.hand_on(turn, desk, inner, other);
                    after.run(self);
                    return pick;
                }
                None => None,
            },
            Choice::Application => {
                if !in_hand && inner.calm() {
                    std::mem::swap(&mut inner.app, &mut turn.batch);
                }
                let entry = turn.batch.pop_front().or_else(|| inner.app.pop_front());
                if let Some(ext) = inner.ext.as_mut()
                    && ext.segment > 0
                {
                    ext.segment -= 1;
                    if ext.segment == 0 {
                        // EX-213: the last handler of the segment starts and gives it back.
                        after.permits.extend(ext.segment_permit.take());
                    }
                }
                match entry {
                    Some(Entry::Work(work)) => Some(Pick::Work(work, TurnKind::Application)),
                    Some(Entry::Tick(tick)) => Some(Pick::Tick(tick)),
                    Some(other) => {
                        let pick = self.hand_on(turn, desk, inner, other);
                        after.run(self);
                        return pick;
                    }
                    None => None,
                }
            }
        };
        if inner.calm() && self.signals.load(Ordering::Relaxed) & ATTENTION != 0 {
            self.signals.fetch_and(!ATTENTION, Ordering::SeqCst);
        }
        drop(inner);
        after.run(self);
        pick
    }

    /// A ticket or a resume was selected: the gate stays taken and goes to another carrier.
    fn hand_on(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        desk: &Desk<O>,
        mut inner: MutexGuard<'_, Inner<O>>,
        entry: Entry<O>,
    ) -> Option<Pick<O>> {
        let mut after = After::default();
        self.give_back(&mut inner, turn, &mut after);
        inner.turns += 1;
        let fence = inner.turns;
        let slice_start = desk.slice_start;
        inner.ext().slice_start = Some(slice_start);
        let exit = match entry {
            Entry::Ticket(ticket) => Some(Exit::Ticket(ticket, self.clone(), fence)),
            Entry::Resume(suspended) => {
                let carrier = inner.spot().and_then(|spot| {
                    let carrier = spot.suspended.remove(&suspended)?;
                    spot.suspended_len = spot.suspended_len.saturating_sub(1);
                    Some(carrier)
                });
                carrier.map(|carrier| {
                    carrier.seat().set_fence(fence);
                    carrier.seat().set_mode(Mode::Granted);
                    Exit::Poll(carrier)
                })
            }
            Entry::Work(_) | Entry::Tick(_) => None,
        };
        drop(inner);
        after.run(self);
        let exit = exit.unwrap_or_else(|| {
            // EX-7: nobody is suspended under this number any more. Nothing changes; go on.
            self.shared().stats.ignored();
            Exit::Continue(self.clone())
        });
        turn.seat.leave(exit);
        turn.seat.set_mode(Mode::Exit);
        None
    }

    /// The owner and the entries in hand go back under the lock, in front of what came meanwhile.
    fn give_back(
        &self,
        inner: &mut Inner<O>,
        turn: &mut Turn<'_, O>,
        after: &mut After<O>,
    ) {
        after.junk.extend(self.hand_back(inner, turn).map(Junk::Entries));
    }

    /// As [`Core::give_back`]; returns an empty buffer that is to be dropped without the lock.
    fn hand_back(
        &self,
        inner: &mut Inner<O>,
        turn: &mut Turn<'_, O>,
    ) -> Option<VecDeque<Entry<O>>> {
        inner.owner = turn.owner.take();
        inner.turns = turn.number;
        if !turn.batch.is_empty() {
            turn.batch.append(&mut inner.app);
            std::mem::swap(&mut turn.batch, &mut inner.app);
        } else if inner.app.is_empty() && inner.app.capacity() > KEEP_CAPACITY {
            // Idle lanes keep small buffers only; the large one stays with the worker.
            if turn.batch.capacity() > KEEP_CAPACITY {
                return Some(std::mem::take(&mut inner.app));
            }
            std::mem::swap(&mut turn.batch, &mut inner.app);
        }
        None
    }

    /// A turn yields: as [`Core::give_back`], with the claim of a member kept.
    pub(crate) fn return_state(self: &Arc<Self>, turn: &mut Turn<'_, O>) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if turn.gate.is_some() {
            inner.owner = turn.owner.take();
        } else {
            self.give_back(&mut inner, turn, &mut after);
        }
        drop(inner);
        after.run(self);
    }

    /// A resumed turn takes its owner again. Its gate has been given to it.
    pub(crate) fn borrow_state(&self, turn: &mut Turn<'_, O>) {
        let mut inner = self.inner.lock();
        turn.owner = inner.owner.take();
    }

    fn begin_ticket(
        &self,
        turn: &mut Turn<'_, O>,
        gate: &Arc<dyn GateHost>,
        fence: u64,
    ) -> Option<(Fifo, Pick<O>)> {
        turn.gate = Some(Arc::clone(gate));
        turn.number = fence;
        let mut inner = self.inner.lock();
        if inner.admission == Admission::Ended || inner.owner.is_none() {
            return None;
        }
        let current = inner.ext().current.take()?;
        turn.owner = inner.owner.take();
        inner.run = Run::Running;
        let (fifo, current) = current;
        let kind = match fifo {
            Fifo::Application => TurnKind::Application,
            Fifo::Lifecycle => TurnKind::Lifecycle,
        };
        let pick = match current {
            Current::Queued(Entry::Work(work)) => Pick::Work(work, kind),
            Current::Queued(Entry::Tick(tick)) => Pick::Tick(tick),
            Current::Barrier(item) => Pick::Barrier(item),
            // Tickets and resumes stand in the FIFO of the gate's lane only.
            Current::Queued(Entry::Ticket(_) | Entry::Resume(_)) => return None,
        };
        Some((fifo, pick))
    }

    /// The terminal of a member's item: the claim ends, the next item asks for the gate (EX-11).
    fn end_ticket(self: &Arc<Self>, turn: &mut Turn<'_, O>, fifo: Fifo, payload: u64) {
        let mut after = After::default();
        if fifo == Fifo::Application {
            self.end_application(payload);
        }
        let mut inner = self.inner.lock();
        if fifo == Fifo::Lifecycle {
            inner.ext().lifecycle_ledger.end(payload);
        }
        if turn.kind == TurnKind::Barrier {
            inner.ext().barrier = BarrierRun::None;
        }
        if inner.admission == Admission::Ended {
            inner.run = Run::Stopped;
            after.junk.extend(turn.owner.take().map(Junk::Owner));
        } else {
            inner.owner = turn.owner.take();
            self.settle(&mut inner);
            inner.serve_waiters(&self.kind, &mut after);
            inner.run = Run::Idle;
            after.schedule = inner.make_ready_if_any();
            inner.check_quiet(&mut after);
        }
        drop(inner);
        if let Some(gate) = &turn.gate {
            gate.ticket_ended(fifo);
        }
        after.run(self);
    }

    /// Chooses what a bound lane does next and puts its ticket into the gate's FIFO (EX-23). The lane
    /// is `Ready` already, so there is one ticket at a time.
    pub(crate) fn offer_ticket(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        let choice = inner.choose(false, self.kind.limits.lifecycle_burst_limit);
        let current = match choice {
            Choice::Nothing => None,
            Choice::Barrier => {
                let ext = inner.ext();
                ext.barrier = BarrierRun::Running;
                ext.barriers.pop_front().map(|item| (Fifo::Lifecycle, Current::Barrier(item)))
            }
            Choice::Lifecycle => {
                let entry = inner.ext().lifecycle.pop_front();
                entry.map(|entry| (Fifo::Lifecycle, Current::Queued(entry)))
            }
            Choice::Application => {
                let entry = inner.app.pop_front();
                entry.map(|entry| (Fifo::Application, Current::Queued(entry)))
            }
        };
        let Some((fifo, current)) = current else {
            inner.run = Run::Idle;
            return;
        };
        let ext = inner.ext();
        ext.current = Some((fifo, current));
        let gate = ext.gate.clone();
        drop(inner);
        if let Some(gate) = gate {
            gate.push_ticket(fifo, self.clone());
        }
    }

    pub(crate) fn gate_id(&self) -> u64 {
        let inner = self.inner.lock();
        let bound = inner.ext.as_ref().and_then(|ext| ext.gate.as_ref());
        bound.map_or(self.id, |gate| gate.gate_id())
    }

    pub(crate) fn is_spot(&self) -> bool {
        self.inner.lock().spot().is_some()
    }
}

impl<O: Owner> Runnable for Core<O> {
    fn run(self: Arc<Self>, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load { core: self, duty: Duty::Slice });
        worker.poll_carrier(carrier);
    }
}

impl<O: Owner> Core<O> {
    /// Goes on with a gate that was kept.
    pub(crate) fn go_on(self: Arc<Self>, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load { core: self, duty: Duty::Continue });
        worker.poll_carrier(carrier);
    }
}

impl<O: Owner> TicketHolder for Core<O> {
    fn run_ticket(self: Arc<Self>, gate: Arc<dyn GateHost>, fence: u64, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load { core: self, duty: Duty::Ticket(gate, fence) });
        worker.poll_carrier(carrier);
    }
}
