//! What a driver asks its lane: how to begin, what comes next, and when to let the gate go (EX-61).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::carrier::{Exit, Mode, Polled};
use crate::core::{
    ATTENTION, Admission, After, Choice, Core, Debt, Inner, Junk, KEEP_CAPACITY, Run, Schedule,
    WAITING,
};
use crate::desk::Desk;
use crate::drive::{Begin, Pick};
use crate::host::GateTurn;
use crate::owner::Owner;
use crate::queue::{BarrierRun, Entry, Work};
use crate::signal::{AtBoundary, Mark, RelocationReady, at_boundary};
use crate::sync::{MutexGuard, Ordering};
use crate::time::Monotonic;
use crate::turn::{Turn, TurnKind};

impl<O: Owner> Inner<O> {
    /// EX-203: the completion of a mark, before whatever else could be chosen.
    fn take_due(&mut self) -> Option<Pick<O>> {
        let spot = self.spot()?;
        match std::mem::take(&mut spot.mark) {
            Mark::Due(outcome, done) => Some(Pick::Ready(outcome, done)),
            other => {
                spot.mark = other;
                None
            }
        }
    }
}

impl<O: Owner> Core<O> {
    pub(crate) fn begin(&self, turn: &mut Turn<'_, O>, desk: &mut Desk, kept: bool) -> Begin {
        let mut junk = None;
        let mut continued = None;
        let mut inner = self.inner.lock();
        match inner.run {
            Run::Ready if !kept => {}
            // The gate was never let go: a ticket or a resumed turn ran in between (EX-66).
            Run::Running if kept => {
                let start = inner.ext.as_mut().and_then(|ext| ext.slice_start.take());
                continued = Some(start);
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
            Run::Idle | Run::Stopped | Run::Ready | Run::Running | Run::Parked => {
                return Begin::Nothing;
            }
        }
        inner.run = Run::Running;
        inner.polled = turn.seat.polled();
        inner.worker = u8::try_from(turn.seat.worker()).unwrap_or(0);
        turn.owner = inner.owner.take();
        turn.number = inner.turns;
        if turn.owner.is_none() || inner.admission == Admission::Ended {
            inner.run = Run::Stopped;
            junk = turn.owner.take();
        } else if inner.calm() {
            inner.take_plain(turn.batch);
        }
        drop(inner);
        if turn.owner.is_none() {
            drop(junk);
            return Begin::Nothing;
        }
        match continued {
            None => desk.start_slice(self, turn.batch.len()),
            Some(start) => desk.continue_slice(self, start),
        }
        Begin::Go
    }

    /// The next entry in hand, as long as nothing besides plain work has come up. The whole price of a
    /// turn boundary in a burst; without an entry, ask [`Core::pick`].
    #[inline]
    pub(crate) fn plain(&self, turn: &mut Turn<'_, O>, desk: &Desk) -> Option<Entry<O>> {
        let signals = self.signals.load(Ordering::Acquire);
        // Room is handed to waiters in portions, so that the two sides do not wake each other for every
        // single item; at the latest when the entries in hand are used up.
        let calm = signals == 0 || (signals == WAITING && desk.served < self.kind.serve_after);
        if calm && !desk.cut {
            turn.batch.pop_front()
        } else {
            None
        }
    }

    /// What runs next, or nothing when the gate was let go or handed on. `entry` came from
    /// [`Core::plain`].
    pub(crate) fn pick(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        desk: &mut Desk,
        mut entry: Option<Entry<O>>,
    ) -> Option<Pick<O>> {
        let signals = self.signals.load(Ordering::Acquire);
        if entry.is_none() && signals & ATTENTION == 0 && !desk.cut {
            if signals & WAITING != 0 && desk.served >= self.kind.serve_after {
                desk.served = 0;
                self.serve();
            }
            entry = turn.batch.pop_front();
            if entry.is_none() {
                // The entries in hand are used up. With nothing but plain work around there are two ways.
                let mut inner = self.inner.lock();
                if inner.ext.is_none() && inner.calm() {
                    desk.served = 0;
                    if inner.app.is_empty() {
                        inner.burst = 0;
                        let large = Self::hand_back(&mut inner, turn);
                        inner.run = Run::Idle;
                        drop(inner);
                        drop(large);
                        return None;
                    }
                    inner.take_plain(turn.batch);
                    drop(inner);
                    entry = turn.batch.pop_front();
                }
            }
        }
        match entry {
            Some(Entry::Work(work)) => Some(Pick::Work(work, TurnKind::Application)),
            Some(Entry::Tick(tick)) => Some(Pick::Tick(tick)),
            Some(other) => {
                let start = desk.slice_start(self);
                let inner = self.inner.lock();
                self.hand_on(turn, start, inner, other)
            }
            None => {
                desk.served = 0;
                self.pick_slowly(turn, desk)
            }
        }
    }

    /// Gives room that became free to those who wait for it.
    pub(crate) fn serve(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.inner.lock();
        self.serve_here(&mut inner, &mut after);
        drop(inner);
        after.run(self);
    }

    fn serve_here(&self, inner: &mut Inner<O>, after: &mut After<O>) {
        self.settle(inner);
        inner.serve_waiters(&self.kind, after);
        if inner.ext.as_ref().is_none_or(|ext| ext.waiters.is_empty()) {
            self.signals.fetch_and(!WAITING, Ordering::SeqCst);
        }
    }

    fn pick_slowly(self: &Arc<Self>, turn: &mut Turn<'_, O>, desk: &mut Desk) -> Option<Pick<O>> {
        let start = desk.slice_start(self);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        if inner.ext.is_some() {
            self.serve_here(&mut inner, &mut after);
        }
        if self.must_leave(&mut inner, turn, desk.cut, &mut after) {
            drop(inner);
            after.run(self);
            return None;
        }
        if let Some(pick) = inner.take_due() {
            drop(inner);
            after.run(self);
            return Some(pick);
        }
        let in_hand = !turn.batch.is_empty();
        let pick = match inner.choose(in_hand, self.kind.limits.lifecycle_burst_limit) {
            Choice::Nothing => {
                Self::give_back(&mut inner, turn, &mut after);
                inner.run = Run::Idle;
                inner.check_quiet(&mut after);
                None
            }
            Choice::Barrier => {
                let ext = inner.ext();
                ext.barrier = BarrierRun::Running;
                let item = ext.barriers.pop_front();
                item.map(|item| Pick::Work(Work::one_way(item), TurnKind::Barrier))
            }
            Choice::Lifecycle => match inner.ext().lifecycle.pop_front() {
                Some(Entry::Work(work)) => Some(Pick::Work(work, TurnKind::Lifecycle)),
                Some(other) => {
                    let pick = self.hand_on(turn, start, inner, other);
                    after.run(self);
                    return pick;
                }
                None => None,
            },
            Choice::Application => {
                if !in_hand && inner.calm() {
                    inner.app.move_to(turn.batch);
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
                        let pick = self.hand_on(turn, start, inner, other);
                        after.run(self);
                        return pick;
                    }
                    None => None,
                }
            }
        };
        self.look_away(&mut inner, turn);
        drop(inner);
        after.run(self);
        pick
    }

    /// As soon as nothing has to be chosen any more, what is in hand runs without asking.
    fn look_away(&self, inner: &mut Inner<O>, turn: &Turn<'_, O>) {
        // EX-61: while something is counted or owed, what runs out of the hand has to be chosen too.
        let counted = inner.burst != 0 || inner.debt != Debt::None;
        if (!counted || turn.batch.is_empty())
            && inner.calm()
            && self.signals.load(Ordering::Relaxed) & ATTENTION != 0
        {
            self.signals.fetch_and(!ATTENTION, Ordering::SeqCst);
        }
    }

    /// Lets the gate go where something stronger than queued work says so: the end of the lane, a seal,
    /// or the budget.
    fn must_leave(
        &self,
        inner: &mut Inner<O>,
        turn: &mut Turn<'_, O>,
        cut: bool,
        after: &mut After<O>,
    ) -> bool {
        if inner.admission == Admission::Ended {
            // EX-306: the claim was revoked. What is queued ends without a turn.
            inner.run = Run::Stopped;
            after.junk.push(Junk::Entries(std::mem::take(turn.batch)));
            after
                .junk
                .push(Junk::Entries(std::mem::take(&mut inner.app)));
            after.junk.extend(turn.owner.take().map(Junk::Owner));
            if let Some(mut ext) = inner.ext.take() {
                after.quiet.append(&mut ext.quiet);
                after.junk.push(Junk::Ext(ext));
            }
            return true;
        }
        let (requested, suspended) = (inner.seal_requested(), !inner.nothing_suspended());
        let marked = inner
            .spot()
            .is_some_and(|spot| matches!(spot.mark, Mark::Set));
        match at_boundary(self.kind.boundaries(), marked, requested, suspended) {
            AtBoundary::Seal => {
                // EX-202, EX-203: the first turn boundary at which nothing runs, is parked or suspended, among those
                // that are for it.
                Self::give_back(inner, turn, after);
                inner.take_s0(after);
                inner.check_quiet(after);
                return true;
            }
            AtBoundary::Complete => {
                if let Some(spot) = inner.spot() {
                    spot.mark = Mark::Due(RelocationReady::Continued, None);
                }
            }
            AtBoundary::GoOn => {}
        }
        if cut && inner.has_ready(!turn.batch.is_empty()) {
            // EX-65: to the back of the ready set.
            Self::give_back(inner, turn, after);
            inner.run = Run::Ready;
            after.schedule = Schedule::Ready(inner.worker);
            return true;
        }
        false
    }

    /// A ticket or a resume was selected: the gate stays taken and goes to another carrier.
    fn hand_on(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        slice_start: Monotonic,
        mut inner: MutexGuard<'_, Inner<O>>,
        entry: Entry<O>,
    ) -> Option<Pick<O>> {
        let mut after = After::default();
        Self::give_back(&mut inner, turn, &mut after);
        inner.turns += 1;
        let fence = inner.turns;
        inner.ext().slice_start = Some(slice_start);
        inner.polled = Polled::BY_NOBODY;
        let exit = match entry {
            Entry::Ticket(ticket) => {
                let (gate, fifo) = (Arc::<Self>::clone(self), ticket.fifo);
                let turn = GateTurn { gate, fence, fifo };
                ticket.take().map(|holder| Exit::Ticket(holder, turn))
            }
            Entry::Resume(suspended) => {
                let carrier = inner.spot().and_then(|spot| {
                    let carrier = spot.suspended.remove(&suspended)?;
                    spot.suspended_len = spot.suspended_len.saturating_sub(1);
                    Some(carrier)
                });
                carrier.map(|carrier| {
                    inner.polled = carrier.seat().polled();
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
            Exit::Continue(Arc::<Self>::clone(self))
        });
        turn.seat.leave(exit);
        turn.seat.set_mode(Mode::Exit);
        None
    }

    /// The owner and the entries in hand go back under the lock, in front of what came meanwhile.
    fn give_back(inner: &mut Inner<O>, turn: &mut Turn<'_, O>, after: &mut After<O>) {
        if let Some(buffer) = Self::hand_back(inner, turn) {
            after.junk.push(Junk::Entries(buffer.into()));
        }
    }

    /// As [`Core::give_back`]; returns an empty buffer that is to be dropped without the lock.
    fn hand_back(inner: &mut Inner<O>, turn: &mut Turn<'_, O>) -> Option<VecDeque<Entry<O>>> {
        inner.owner = turn.owner.take();
        inner.turns = turn.number;
        if !turn.batch.is_empty() {
            turn.batch.append(&mut inner.app);
            std::mem::swap(turn.batch, &mut inner.app);
        } else if inner.app.is_empty() && inner.app.capacity() > KEEP_CAPACITY {
            // Idle lanes keep small buffers only; the large one stays with the worker.
            if turn.batch.capacity() > KEEP_CAPACITY {
                return Some(inner.app.take_buffer());
            }
            inner.app.swap_buffers(turn.batch);
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
            Self::give_back(&mut inner, turn, &mut after);
        }
        drop(inner);
        after.run(self);
    }

    /// EX-38: what a turn waits for without its gate may well be behind it.
    pub(crate) fn set_polled(&self, polled: Polled) {
        self.inner.lock().polled = polled;
    }

    /// A resumed turn takes its owner again. Its gate has been given to it.
    pub(crate) fn borrow_state(&self, turn: &mut Turn<'_, O>) {
        let mut inner = self.inner.lock();
        turn.owner = inner.owner.take();
    }
}
