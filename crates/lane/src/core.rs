//! The one execution primitive (EX-170): queues, admission, gate and policy state of one lane.
//!
//! Lock order: a lane's lock, then the cell of a waiter; a member's lock and its gate's lock are never
//! held together. Nothing of an application runs, is dropped or is woken under any of them (EX-360):
//! what has to happen afterwards is collected in [`After`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

pub(crate) use crate::after::{After, Junk, Schedule};
use crate::carrier::Polled;
use crate::driven::{Driven, Hold, LaneGate, Locked};
use crate::engine::Shared;
use crate::error::{Fifo, Refusal};
use crate::hand::Hand;
use crate::kind::KindInner;
use crate::owner::Owner;
use crate::policy::{Seal, SpotState, sealed};
use crate::queue::{
    BarrierRun, Called, Dispatch, Entry, Ext, Ledger, Place, WaitState, Waiter, Work,
};
use crate::sync::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// EX-76. Suspended is no run state: the gate is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// The gate is free: whoever locks the lane finds its key there.
    Idle,
    /// Of a bound lane: its ticket is queued.
    Ready,
    /// The gate was taken and is in the ready set or on a worker, who needs not tell which (EX-391); of a
    /// bound lane: its claim is held (EX-11), wherever the turn is.
    Running,
    /// The turn waits, the gate is kept.
    Parked,
    /// Dispatch is stopped by a move (EX-201) or for good.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    /// Open, but earlier operations wait for room (EX-101).
    Queueing,
    /// Arrivals are held (EX-109) or join the backlog (EX-210).
    Held,
    /// The connection closes (EX-111).
    ConnectionClosing,
    /// What was accepted runs to its end, nothing more comes in (EX-74).
    Closed,
    /// Nothing runs any more.
    Ended,
}

/// Something besides plain application work wants the driver at the next turn boundary.
pub(crate) const ATTENTION: u8 = 1;
/// Operations wait for room.
pub(crate) const WAITING: u8 = 2;

/// A queue buffer up to this size stays with an idle lane; larger ones go on with the worker.
pub(crate) const KEEP_CAPACITY: usize = 8;

/// EX-363: capacity, sequence and append of a FIFO are one invariant, so they have one owner and plain collections, and a
/// queue for many threads would not do. Single numbers that one side writes are atomics.
///
/// In this order: what a submit writes, the word of the gate, what it leaves for the driver, what only the driver writes, and
/// what nobody does; `docs/decisions/lane-gate.md` has what another order costs.
#[repr(C)]
pub(crate) struct Core<O: Owner> {
    pub(crate) gate: LaneGate<O>,
    /// Ended application items and their payload bytes. Only the holder of the gate writes, so a plain
    /// store is enough; what ends without the gate is counted in the ledger, under the lock.
    pub(crate) ended: AtomicU64,
    /// Where the turn runs that holds the gate, or of a bound lane the claim. Written by its driver, and true only for
    /// those that this driver polls, so no order with anything else is needed.
    polled: AtomicUsize,
    pub(crate) signals: AtomicU8,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) kind: Arc<KindInner<O>>,
    pub(crate) id: u64,
    pub(crate) registered: AtomicU64,
}

/// In this order: what every submit needs lies beside the lock, which comes next.
#[repr(C)]
pub(crate) struct Inner<O: Owner> {
    pub(crate) policy: <O::Policy as sealed::Policy>::State,
    pub(crate) ext: Option<Box<Ext<O>>>,
    /// What came while the gate was taken, behind what its driver has in hand.
    pub(crate) app: VecDeque<Entry<O>>,
    pub(crate) ledger: Ledger,
    pub(crate) run: Run,
    pub(crate) admission: Admission,
    /// EX-63: of this pair of FIFOs alone, whatever gate it is bound to; dropped with it (EX-77).
    pub(crate) burst: u8,
    pub(crate) debt: Debt,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    None,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    OwnGate,
    /// To a gate of another lane; the binding is in [`Ext::gate`].
    Shared,
}

/// The answer to "what is next?" (EX-61).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Barrier,
    Lifecycle,
    Application,
    Nothing,
}

impl<O: Owner> Inner<O> {
    pub(crate) fn ext(&mut self) -> &mut Ext<O> {
        self.ext.get_or_insert_default()
    }

    pub(crate) fn spot(&mut self) -> Option<&mut SpotState> {
        <O::Policy as sealed::Policy>::spot(&mut self.policy)
    }

    /// EX-202: a lane without suspended turns, as far as its policy can have any.
    pub(crate) fn nothing_suspended(&mut self) -> bool {
        self.spot().is_none_or(|spot| spot.suspended_len == 0)
    }

    pub(crate) fn seal_requested(&mut self) -> bool {
        self.spot()
            .is_some_and(|spot| matches!(spot.seal, Seal::Requested(_)))
    }

    /// EX-203: a boundary is marked, or the completion of a mark is due.
    pub(crate) fn is_marked(&mut self) -> bool {
        self.spot().is_some_and(|spot| !spot.mark.is_none())
    }

    /// Whether the driver may take application work without asking here at every turn boundary.
    pub(crate) fn calm(&mut self) -> bool {
        self.admission != Admission::Ended
            && self.ext.as_ref().is_none_or(|ext| ext.calm())
            && !self.seal_requested()
            && !self.is_marked()
    }

    /// EX-61: one decision, first match wins. `in_hand` says whether the driver still has application
    /// entries that it took out earlier. Changes burst count and debt as EX-67 to EX-69 say.
    pub(crate) fn choose(&mut self, in_hand: bool, burst_limit: u8) -> Choice {
        let Some(ext) = self.ext.as_ref() else {
            self.burst = 0;
            return if in_hand || !self.app.is_empty() {
                Choice::Application
            } else {
                Choice::Nothing
            };
        };
        if ext.barrier == BarrierRun::None && !ext.barriers.is_empty() {
            return Choice::Barrier;
        }
        // EX-71: an active barrier closes the application FIFO until its terminal.
        let application = (in_hand || !self.app.is_empty())
            && ext.barrier == BarrierRun::None
            && ext.application == Dispatch::Open;
        if self.debt == Debt::Set && application {
            self.debt = Debt::None;
            self.burst = 0;
            return Choice::Application;
        }
        if !ext.lifecycle.is_empty() {
            if self.debt == Debt::None {
                self.burst += 1;
                if self.burst >= burst_limit {
                    self.burst = 0;
                    self.debt = Debt::Set;
                }
            }
            return Choice::Lifecycle;
        }
        if application {
            self.burst = 0;
            return Choice::Application;
        }
        Choice::Nothing
    }

    /// Whether a submit that finds the gate free may put its entry into the driver's hand: nothing else is queued and
    /// nothing but plain application work could be chosen, so that the choice is as [`Inner::choose`] would make it (EX-61).
    #[inline]
    fn is_plain(&self) -> bool {
        self.run == Run::Idle
            && self.bound == Bound::OwnGate
            && self.burst == 0
            && self.debt == Debt::None
            && self.app.is_empty()
            && self.ext.as_ref().is_none_or(|ext| ext.calm())
    }

    /// Application work is all there is: the driver takes it into its hand. The first of these turns is
    /// chosen by debt or because no lifecycle work waits; either way count and debt are zero (EX-68).
    pub(crate) fn take_plain(&mut self, hand: &mut Hand<O>) {
        if !self.app.is_empty() {
            self.burst = 0;
            self.debt = Debt::None;
            hand.take_all(&mut self.app);
        }
    }

    /// Whether [`Inner::choose`] would find something; changes nothing.
    pub(crate) fn has_ready(&mut self, in_hand: bool) -> bool {
        let waiting = in_hand || !self.app.is_empty();
        if self.is_marked() {
            return true;
        }
        self.ext.as_ref().map_or(waiting, |ext| {
            let open = ext.barrier == BarrierRun::None;
            (open && !ext.barriers.is_empty())
                || !ext.lifecycle.is_empty()
                || (waiting && open && ext.application == Dispatch::Open)
        })
    }

    /// Gives room that became free to those who wait, in order (EX-101).
    pub(crate) fn serve_waiters(&mut self, kind: &KindInner<O>, after: &mut After<O>) {
        let limits = kind.limits;
        let Some(ext) = self.ext.as_mut() else { return };
        while let Some(front) = ext.waiters.front_mut() {
            let bytes = match &front.place {
                Place::Item(work) => work.payload_bytes,
                Place::Reserved(bytes, _) => *bytes,
                Place::Tick => 0,
            };
            let fixed = limits.fixed_work_byte_cost;
            if !self
                .ledger
                .fits(limits.application, fixed, bytes.saturating_add(fixed))
            {
                break;
            }
            if let Place::Reserved(_, called) = &mut front.place {
                // EX-102: its permit is taken last; until then nobody passes it.
                if *called == Called::No {
                    *called = Called::Yes;
                    after.wakers.extend(front.cell.decide(WaitState::Turn));
                }
                break;
            }
            match ext.waiters.pop_front() {
                Some(Waiter {
                    cell,
                    place: Place::Item(work),
                }) => {
                    self.ledger.accept(work.payload_bytes);
                    self.app.push_back(Entry::Work(work));
                    after.wakers.extend(cell.decide(WaitState::Accepted));
                }
                // EX-242: it comes on its own time and keeps nobody waiting.
                Some(Waiter { cell, .. }) => after.wakers.extend(cell.decide(WaitState::Turn)),
                None => {}
            }
        }
        if ext.waiters.is_empty() && self.admission == Admission::Queueing {
            self.admission = Admission::Open;
        }
        while let Some(front) = ext.lifecycle_waiters.front() {
            let Place::Item(work) = &front.place else {
                break;
            };
            let fixed = limits.fixed_work_byte_cost;
            let charge = work.payload_bytes.saturating_add(fixed);
            if !ext.lifecycle_ledger.fits(limits.lifecycle, fixed, charge) {
                break;
            }
            if let Some(Waiter {
                cell,
                place: Place::Item(work),
            }) = ext.lifecycle_waiters.pop_front()
            {
                ext.lifecycle_ledger.accept(work.payload_bytes);
                ext.lifecycle.push_back(Entry::Work(work));
                after.wakers.extend(cell.decide(WaitState::Accepted));
            }
        }
    }

    /// Ends everyone who waits for room (EX-112).
    pub(crate) fn end_waiters(&mut self, reason: &Refusal, after: &mut After<O>) {
        let Some(ext) = self.ext.as_mut() else { return };
        for Waiter { cell, place } in ext.waiters.drain(..).chain(ext.lifecycle_waiters.drain(..)) {
            let work = match place {
                Place::Item(work) => Some(work),
                Place::Reserved(..) | Place::Tick => None,
            };
            after
                .wakers
                .extend(cell.decide(WaitState::Ended(reason.clone(), work)));
        }
        if self.admission == Admission::Queueing {
            self.admission = Admission::Open;
        }
    }

    /// Requested → Open (EX-174): the lane ends or closes first. The requester learns it when what is
    /// returned is dropped.
    #[must_use]
    pub(crate) fn withdraw_seal(&mut self) -> Option<oneshot::Sender<()>> {
        let spot = self.spot()?;
        match std::mem::take(&mut spot.seal) {
            Seal::Requested(requester) => Some(requester),
            other => {
                spot.seal = other;
                None
            }
        }
    }

    /// EX-201: the seal takes effect. Waiters go to the hold queue in order (EX-101); lifecycle
    /// waiters are membership changes and end as unavailable (EX-113).
    pub(crate) fn take_s0(&mut self, after: &mut After<O>) {
        self.run = Run::Stopped;
        self.admission = Admission::Held;
        if let Some(spot) = self.spot()
            && let Seal::Requested(done) = std::mem::replace(&mut spot.seal, Seal::Sealed)
        {
            after.sealed = Some(done);
        }
        self.hold_waiters(after);
    }

    pub(crate) fn hold_waiters(&mut self, after: &mut After<O>) {
        let Some(ext) = self.ext.as_mut() else { return };
        for Waiter { cell, place } in ext.waiters.drain(..) {
            match place {
                Place::Item(work) => {
                    self.ledger.accept(work.payload_bytes);
                    ext.hold.push_back(Entry::Work(work));
                    after.wakers.extend(cell.decide(WaitState::Accepted));
                }
                // It comes again and finds the hold queue itself.
                Place::Reserved(..) | Place::Tick => {
                    after.wakers.extend(cell.decide(WaitState::Turn));
                }
            }
        }
        for Waiter { cell, place } in ext.lifecycle_waiters.drain(..) {
            if let Place::Item(work) = place {
                after
                    .wakers
                    .extend(cell.decide(WaitState::Ended(Refusal::Sealed, Some(work))));
            }
        }
    }

    /// Tells those who wait for quiescence when nothing is queued, running, parked or suspended.
    pub(crate) fn check_quiet(&mut self, after: &mut After<O>) {
        if self.is_quiet()
            && let Some(ext) = self.ext.as_mut()
        {
            after.quiet.append(&mut ext.quiet);
        }
    }

    pub(crate) fn is_quiet(&mut self) -> bool {
        matches!(self.run, Run::Idle | Run::Stopped)
            && self.app.is_empty()
            && self.nothing_suspended()
            && !self.is_marked()
            && self.ext.as_ref().is_none_or(|ext| {
                ext.lifecycle.is_empty()
                    && ext.barriers.is_empty()
                    && ext.barrier == BarrierRun::None
                    && ext.waiters.is_empty()
                    && ext.lifecycle_waiters.is_empty()
                    && ext.hold.is_empty()
            })
    }
}

impl<O: Owner> Core<O> {
    pub(crate) fn new(kind: Arc<KindInner<O>>, id: u64, owner: O) -> Self {
        let worker = u8::try_from(id % kind.shared.ready.workers() as u64).unwrap_or(0);
        let driven = Driven {
            first: None,
            turns: 0,
            worker,
            owner: Some(owner),
        };
        Self {
            ended: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            polled: AtomicUsize::new(Polled::BY_NOBODY.0),
            signals: AtomicU8::new(0),
            id,
            registered: AtomicU64::new(u64::MAX),
            kind,
            gate: LaneGate::new(
                Inner {
                    run: Run::Idle,
                    admission: Admission::Open,
                    burst: 0,
                    debt: Debt::None,
                    bound: Bound::OwnGate,
                    ext: None,
                    ledger: Ledger::default(),
                    app: VecDeque::new(),
                    policy: Default::default(),
                },
                driven,
            ),
        }
    }

    /// The lock of this lane.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, O> {
        #[cfg(all(test, not(any(loom, shuttle))))]
        crate::sync::tests::count();
        let mut inner = self.gate.lock();
        // A slice that begins with a submit to an idle lane says nothing here, so that it need not say anything when it ends.
        if inner.run == Run::Idle && inner.bound == Bound::OwnGate && !inner.is_free() {
            inner.run = Run::Running;
        }
        inner
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.kind.shared
    }

    /// Drops what the gate guards, with the gate: nothing runs here any more.
    #[cold]
    pub(crate) fn discard(&self, mut held: Hold<O>) {
        let driven = held.inside();
        let (first, owner) = (driven.first.take(), driven.owner.take());
        self.shared().guard_drop(first);
        self.shared().guard_drop(owner);
    }

    /// Makes the driver look here at its next turn boundary.
    #[inline]
    pub(crate) fn signal(&self, bit: u8) {
        self.signals.fetch_or(bit, Ordering::SeqCst);
    }

    /// Brings the ledger up to what the driver has published. Under the lock.
    pub(crate) fn settle(&self, inner: &mut Inner<O>) {
        inner.ledger.ended = self.ended.load(Ordering::Acquire);
        inner.ledger.bytes_out = self.bytes_out.load(Ordering::Acquire);
    }

    /// The terminal of an application item whose turn holds the gate (EX-94).
    #[inline]
    pub(crate) fn end_application(&self, payload_bytes: u64) {
        let ended = self.ended.load(Ordering::Relaxed).wrapping_add(1);
        self.ended.store(ended, Ordering::Release);
        if payload_bytes != 0 {
            let bytes = self
                .bytes_out
                .load(Ordering::Relaxed)
                .wrapping_add(payload_bytes);
            self.bytes_out.store(bytes, Ordering::Release);
        }
    }

    pub(crate) fn end_lifecycle(&self, payload_bytes: u64) {
        let mut inner = self.lock();
        inner.ext().lifecycle_ledger.end(payload_bytes);
    }

    /// EX-95, EX-97: one span decides, counts, numbers and appends, and does nothing else. `Err` gives
    /// the work back untouched. The caller has checked what the host knows (EX-106, EX-107).
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the item goes from the caller's registers into the FIFO"
    )]
    pub(crate) fn submit(self: &Arc<Self>, work: Work<O>) -> Result<(), (Refusal, Work<O>)> {
        let inner = self.lock();
        let limits = &self.kind.limits;
        let fixed = limits.fixed_work_byte_cost;
        let charge = work.payload_bytes.saturating_add(fixed);
        if inner.admission != Admission::Open
            || !inner.ledger.fits(limits.application, fixed, charge)
        {
            return self.submit_slowly(inner, work);
        }
        self.append(inner, work);
        Ok(())
    }

    /// As [`Core::submit`] of work whose answer `asker` waits for; its own turn is refused before anything is submitted
    /// (EX-35).
    #[inline]
    pub(crate) fn submit_asked(
        self: &Arc<Self>,
        asker: Polled,
        work: Work<O>,
    ) -> Result<(), (AskRefusal, Work<O>)> {
        if self.is_run_by(asker) {
            return Err((AskRefusal::OwnTurn, work));
        }
        let submitted = self.submit(work);
        submitted.map_err(|(reason, work)| (AskRefusal::Fifo(reason), work))
    }

    /// Steps 4 to 6 of EX-95, and waking outside of the span.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn append(self: &Arc<Self>, mut inner: Locked<'_, O>, work: Work<O>) {
        inner.ledger.accept(work.payload_bytes);
        if let (front, Some(driven)) = inner.both()
            && front.is_plain()
        {
            driven.put_first(Entry::Work(work));
            let worker = driven.worker;
            if front.ext.is_some() {
                // Its driver has more to look at than its own hand.
                front.run = Run::Running;
            }
            let noted = front.ext.is_some();
            let Some(key) = inner.take() else { return };
            if noted {
                inner.note();
            }
            drop(inner);
            self.enter_gate(key.hold(Arc::clone(self)), worker);
            return;
        }
        inner.app.push_back(Entry::Work(work));
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
    }

    /// A transfer: only accounted (EX-98), so it does not stand in line with those that wait for room.
    pub(crate) fn transfer(self: &Arc<Self>, work: Work<O>) -> Result<(), (Refusal, Work<O>)> {
        let inner = self.lock();
        if !matches!(inner.admission, Admission::Open | Admission::Queueing) {
            return self.submit_slowly(inner, work);
        }
        self.append(inner, work);
        Ok(())
    }

    /// The FIFO is closed, or full unless something has ended meanwhile.
    #[cold]
    #[inline(never)]
    fn submit_slowly(
        self: &Arc<Self>,
        mut inner: Locked<'_, O>,
        mut work: Work<O>,
    ) -> Result<(), (Refusal, Work<O>)> {
        let refusal = match inner.admission {
            Admission::Open => {
                let limits = &self.kind.limits;
                let (limit, fixed) = (limits.application, limits.fixed_work_byte_cost);
                let charge = work.payload_bytes.saturating_add(fixed);
                self.settle(&mut inner);
                if inner.ledger.fits(limit, fixed, charge) {
                    self.append(inner, work);
                    return Ok(());
                }
                inner
                    .ledger
                    .refusal(Fifo::Application, limit, fixed, charge)
            }
            Admission::Queueing => Refusal::Queueing {
                fifo: Fifo::Application,
                waiting: inner.ext.as_ref().map_or(0, |ext| ext.waiters.len()),
            },
            Admission::Held => {
                // EX-131: what cannot run holds no permit. It is returned after the span.
                let permit = work.permit.take();
                inner.ledger.accept(work.payload_bytes);
                inner.ext().hold.push_back(Entry::Work(work));
                drop(inner);
                drop(permit);
                return Ok(());
            }
            Admission::ConnectionClosing => Refusal::ConnectionClosing,
            Admission::Closed | Admission::Ended => self.end_reason(),
        };
        drop(inner);
        Err((refusal, work))
    }

    pub(crate) fn end_reason(&self) -> Refusal {
        if self.shared().is_stopping() {
            Refusal::ShuttingDown
        } else {
            Refusal::Ended
        }
    }

    /// The lifecycle counterpart of [`Core::submit`]; the two share no admission state (EX-60).
    pub(crate) fn submit_lifecycle(
        self: &Arc<Self>,
        work: Work<O>,
        line: Line,
    ) -> Result<(), (Refusal, Work<O>)> {
        let limits = &self.kind.limits;
        let fixed = limits.fixed_work_byte_cost;
        let charge = work.payload_bytes.saturating_add(fixed);
        let mut inner = self.lock();
        let refusal = match inner.admission {
            Admission::Open | Admission::Queueing | Admission::ConnectionClosing => None,
            Admission::Held if line == Line::Backlog => None,
            Admission::Held => Some(Refusal::Sealed),
            Admission::Closed | Admission::Ended => Some(self.end_reason()),
        };
        if let Some(refusal) = refusal {
            drop(inner);
            return Err((refusal, work));
        }
        let ext = inner.ext();
        let refusal = if !ext.lifecycle_waiters.is_empty() && line == Line::Normal {
            let waiting = ext.lifecycle_waiters.len();
            Some(Refusal::Queueing {
                fifo: Fifo::Lifecycle,
                waiting,
            })
        } else if ext.lifecycle_ledger.fits(limits.lifecycle, fixed, charge) {
            None
        } else {
            Some(
                ext.lifecycle_ledger
                    .refusal(Fifo::Lifecycle, limits.lifecycle, fixed, charge),
            )
        };
        if let Some(refusal) = refusal {
            drop(inner);
            return Err((refusal, work));
        }
        ext.lifecycle_ledger.accept(work.payload_bytes);
        ext.lifecycle.push_back(Entry::Work(work));
        self.signal(ATTENTION);
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
        Ok(())
    }

    /// An active barrier (EX-71). A transfer: it is counted with the lifecycle FIFO.
    pub(crate) fn activate_barrier(self: &Arc<Self>, item: O::Item) -> Result<(), O::Item> {
        let mut inner = self.lock();
        if matches!(
            inner.admission,
            Admission::Closed | Admission::Ended | Admission::Held
        ) {
            drop(inner);
            return Err(item);
        }
        let ext = inner.ext();
        ext.lifecycle_ledger.accept(0);
        ext.barriers.push_back(item);
        self.signal(ATTENTION);
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
        Ok(())
    }

    /// The barrier's turn is over. The application FIFO opens again unless somebody holds the barrier.
    pub(crate) fn end_barrier(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.lock();
        let ext = inner.ext();
        ext.lifecycle_ledger.end(0);
        ext.barrier = if ext.barrier_holds > 0 {
            BarrierRun::Held
        } else {
            BarrierRun::None
        };
        after.schedule = self.make_ready_if_any(&mut inner);
        inner.check_quiet(&mut after);
        drop(inner);
        after.run(self);
    }

    pub(crate) fn hold_barrier(&self) {
        self.lock().ext().barrier_holds += 1;
    }

    /// The last hold ends the barrier, if its turn is over.
    pub(crate) fn let_barrier_go(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.lock();
        let ext = inner.ext();
        ext.barrier_holds = ext.barrier_holds.saturating_sub(1);
        if ext.barrier_holds == 0 && ext.barrier == BarrierRun::Held {
            ext.barrier = BarrierRun::None;
            after.schedule = self.make_ready_if_any(&mut inner);
            inner.check_quiet(&mut after);
        }
        drop(inner);
        after.run(self);
    }

    /// EX-154: whether the turn that runs here is the one that polls, so that waiting for this lane would never end.
    pub(crate) fn is_run_by(&self, polled: Polled) -> bool {
        polled != Polled::BY_NOBODY && self.polled.load(Ordering::Relaxed) == polled.0
    }

    /// EX-38: what a turn waits for without its gate may well be behind it.
    pub(crate) fn set_polled(&self, polled: Polled) {
        self.polled.store(polled.0, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.lock().admission, Admission::Closed | Admission::Ended)
    }
}

/// Why a call did not get into the FIFO at once.
pub(crate) enum AskRefusal {
    /// The caller is polled by the turn that it would wait for.
    OwnTurn,
    Fifo(Refusal),
}

/// Who brings lifecycle work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Normal,
    /// The owner of a backlog whose dispatch is not open yet (EX-208).
    Backlog,
}

impl<O: Owner> Drop for Core<O> {
    fn drop(&mut self) {
        let key = self.registered.load(Ordering::Relaxed);
        self.kind.shared.registry.remove(key);
    }
}

impl<O: Owner> fmt::Debug for Core<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = self.lock();
        self.settle(&mut inner);
        f.debug_struct("Lane")
            .field("id", &self.id)
            .field("run", &inner.run)
            .field("admission", &inner.admission)
            .field("queued", &inner.app.len())
            .field("used", &inner.ledger.used_items())
            .finish_non_exhaustive()
    }
}
