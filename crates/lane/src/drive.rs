//! The driver: takes a gate, runs selected items in turns, and lets the gate go (EX-72, EX-73).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::carrier::{AnyCarrier, Carrier, Exit, Mode, Seat};
use crate::core::{Admission, Core};
use crate::engine::Shared;
use crate::error::{AskError, HandlerError};
use crate::host::{AnyLane, GateHost, GateTurn, TicketHolder};
use crate::owner::Owner;
use crate::queue::{Entry, QueuedTick, Work};
use crate::ready::Runnable;
use crate::reply::Reply;
use crate::sync::Mutex;
use crate::time::Monotonic;
use crate::timer::TickOutcome;
use crate::turn::{Turn, TurnKind};
use crate::worker::Worker;

/// After so many items a worker lets the other tasks of its thread run.
const PAUSE_ITEMS: u32 = 64;
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
    Ticket(GateTurn),
}

/// What a carrier keeps between slices.
pub(crate) struct Desk<O: Owner> {
    batch: VecDeque<Entry<O>>,
    /// Items since the last pause.
    spent: u32,
    /// Items since the clock was read, and how many are let pass before the next reading.
    since: u32,
    stride: u32,
    /// The carrier was at rest since the last reading.
    rested: bool,
    /// When the carrier last knew the time, and when it last paused.
    pub(crate) now: Monotonic,
    paused: Monotonic,
    pub(crate) slice_start: Monotonic,
    /// The slice began without a reading; it counts from the next one.
    unread: bool,
}

pub(crate) enum Pick<O: Owner> {
    Work(Work<O>, TurnKind),
    Tick(Box<QueuedTick>),
    Barrier(O::Item),
}

/// How the lane's state says to begin.
pub(crate) enum Begin {
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

async fn carry<O: Owner>(shared: Arc<Shared>, seat: Arc<Seat>, inbox: Arc<Mutex<Option<Load<O>>>>) {
    let mut desk = Desk {
        batch: VecDeque::new(),
        spent: 0,
        since: 0,
        rested: true,
        stride: 1,
        now: Monotonic::ORIGIN,
        paused: Monotonic::ORIGIN,
        slice_start: Monotonic::ORIGIN,
        unread: false,
    };
    loop {
        // A gate comes from the worker, or the body helps itself: a run of gates of one type costs no
        // hand-over at all.
        let mut load = poll_fn(|_| {
            // Whatever was read before the rest is old.
            desk.rested = true;
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
        poll_fn(|_| {
            if std::mem::replace(&mut left, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
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
    seat.count_gate();
    let any: &dyn std::any::Any = &*job;
    if !any.is::<Core<O>>() {
        seat.leave(Exit::Run(job));
        seat.set_mode(Mode::Exit);
        return None;
    }
    let job: Arc<dyn std::any::Any + Send + Sync> = job;
    match job.downcast::<Core<O>>() {
        Ok(core) => Some(Load {
            core,
            duty: Duty::Slice,
        }),
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
        if !std::mem::take(&mut self.rested) {
            let short = self.now.since(before) < budget / 64;
            self.stride = if short {
                (self.stride * 2).min(STRIDE_MAX)
            } else {
                1
            };
        }
        self.since = 0;
        if std::mem::take(&mut self.unread) {
            self.slice_start = self.now;
        }
        self.now.since(self.slice_start) >= budget
    }

    /// The start of the slice, for whoever goes on with it.
    pub(crate) fn slice_start(&mut self, core: &Core<O>) -> Monotonic {
        if self.unread {
            self.read_clock(core);
        }
        self.slice_start
    }

    /// A gate is taken from the ready set. The last reading serves as its start as long as it is no
    /// older than the stride allows.
    #[inline]
    pub(crate) fn start_slice(&mut self, core: &Core<O>, entries: usize) {
        self.unread = false;
        if self.rested || self.since >= self.stride {
            if entries == 1 && self.stride == STRIDE_MAX {
                // Handlers proved short and there is one item: most likely nobody will want to know.
                self.unread = true;
            } else {
                self.now = core.shared().clock.now();
                self.since = 0;
                self.rested = false;
            }
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
    let lost = Lost(Some(&core));
    if let Duty::Ticket(GateTurn { gate, fence, fifo }) = load.duty {
        if let Some(pick) = core.begin_ticket(&mut turn, &gate, fence) {
            let payload = run(shared, seat, &core, &mut turn, pick).await;
            core.end_ticket(&mut turn, fifo, payload);
        } else {
            // Its lane ended meanwhile; the place in the gate's FIFO was charged all the same.
            gate.ticket_ended(fifo);
        }
        lost.not();
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
            lost.not();
            return;
        }
        Begin::Nothing => {
            desk.batch = turn.batch;
            lost.not();
            return;
        }
    }
    let kept = desk.now.since(desk.slice_start);
    let mut cut = !desk.unread && kept >= core.kind.limits.owner_time_budget;
    let mut served = 0u64;
    while let Some(pick) = core.pick(&mut turn, desk, cut, &mut served) {
        let kind = match &pick {
            Pick::Work(_, kind) => *kind,
            Pick::Tick(..) => TurnKind::Tick,
            Pick::Barrier(_) => TurnKind::Barrier,
        };
        turn.number += 1;
        let payload = run(shared, seat, &core, &mut turn, pick).await;
        // EX-2, EX-13: reply, barriers and the reservation come before the gate is let go.
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
    lost.not();
}

/// Ends the lane when its carrier is lost with the turn: nobody else would, and what was accepted has
/// to end (EX-94).
struct Lost<'a, O: Owner>(Option<&'a Arc<Core<O>>>);

impl<O: Owner> Lost<'_, O> {
    fn not(mut self) {
        self.0 = None;
    }
}

impl<O: Owner> Drop for Lost<'_, O> {
    fn drop(&mut self) {
        if let Some(core) = self.0 {
            core.lost();
        }
    }
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
        Pick::Work(
            Work {
                item,
                payload_bytes,
                reply,
                permit,
            },
            kind,
        ) => {
            // EX-121, EX-124: returned immediately before the first instruction of the callback, which
            // takes none from here on.
            drop(permit);
            if reply.as_ref().is_some_and(Reply::is_unwanted) {
                // EX-330: its caller gave up before the handler began. One terminal, no handler.
                shared.stats.cancelled();
                shared.guard_drop(item);
                return payload_bytes;
            }
            turn.kind = kind;
            let gate = turn.gate.clone();
            let result = guarded(seat, core, gate, async { O::handle(turn, item).await }).await;
            if turn.owner.is_none() {
                regain(seat, turn).await;
            }
            finish(shared, turn, result, reply);
            payload_bytes
        }
        Pick::Barrier(item) => {
            turn.kind = TurnKind::Barrier;
            let gate = turn.gate.clone();
            let result = guarded(seat, core, gate, async { O::handle(turn, item).await }).await;
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
            let result = guarded(seat, core, gate, async { O::on_tick(turn, tick).await }).await;
            if turn.owner.is_none() {
                regain(seat, turn).await;
            }
            let ended_well = matches!(result, Ok(Ok(())));
            end.ended(if ended_well {
                TickOutcome::Completed
            } else {
                TickOutcome::Failed
            });
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
    reply: Option<Reply<Result<O::Reply, AskError>>>,
) {
    count(shared, &result);
    let ended_well = matches!(result, Ok(Ok(_)));
    if let Some(reply) = reply {
        let answer = match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(AskError::Failed(error)),
            Err(message) => Err(AskError::Panicked { message }),
        };
        // A caller that went away does not want it (EX-300, EX-301).
        if let Some(unwanted) = reply.answer(answer) {
            shared.guard_drop(unwanted);
        }
    } else {
        shared.guard_drop(result);
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
        let Some(running) = handler.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
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

impl<O: Owner> Runnable for Core<O> {
    fn run(self: Arc<Self>, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load {
            core: self,
            duty: Duty::Slice,
        });
        worker.poll_carrier(carrier);
    }
}

impl<O: Owner> Core<O> {
    /// Goes on with a gate that was kept.
    pub(crate) fn go_on(self: Arc<Self>, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load {
            core: self,
            duty: Duty::Continue,
        });
        worker.poll_carrier(carrier);
    }
}

impl<O: Owner> TicketHolder for Core<O> {
    fn run_ticket(self: Arc<Self>, turn: GateTurn, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(Load {
            core: self,
            duty: Duty::Ticket(turn),
        });
        worker.poll_carrier(carrier);
    }

    fn gate_ended(self: Arc<Self>) {
        // A member that moves with its Spot is in the hands of the move.
        if self.inner.lock().admission != Admission::Held {
            self.abort();
        }
    }
}
