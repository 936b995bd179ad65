//! What a driver asks its lane: how to begin, what comes next, and when to let the gate go (EX-61).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::carrier::{Exit, Mode, Polled};
use crate::core::{ATTENTION, Admission, After, Choice, Core, Debt, Inner, Junk, Run, WAITING};
use crate::desk::Desk;
use crate::drive::Pick;
use crate::driven::Locked;
use crate::host::GateTurn;
use crate::owner::Owner;
use crate::queue::{BarrierRun, Entry, Work};
use crate::signal::{AtBoundary, Mark, RelocationReady, at_boundary};
use crate::sync::Ordering;
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

impl<O: Owner> Turn<'_, O> {
    /// Begins with a gate out of the ready set, whose key is here. Whatever else has come up meanwhile has left a signal, so
    /// nothing has to be asked, and no lock is taken (EX-391). Without a key it goes on with a gate that was never let go: a
    /// ticket or a resumed turn ran in between (EX-66).
    #[inline]
    pub(crate) fn begin(&mut self, desk: &mut Desk) -> bool {
        let Some(key) = &mut self.key else {
            return self.go_on(desk);
        };
        self.core.set_polled(self.seat.polled());
        let driven = key.inside();
        self.number = driven.turns;
        self.hand.begin(driven.first.take());
        desk.start_slice(self.core, self.hand.len());
        true
    }

    fn go_on(&mut self, desk: &mut Desk) -> bool {
        let core = self.core;
        let mut inner = core.lock();
        if inner.run != Run::Running {
            return false;
        }
        let start = inner.ext.as_mut().and_then(|ext| ext.slice_start.take());
        let Some(mut key) = inner.take() else {
            return false;
        };
        inner.note();
        if inner.calm() {
            inner.take_plain(self.hand);
        }
        drop(inner);
        core.set_polled(self.seat.polled());
        self.number = key.inside().turns;
        self.key = Some(key);
        desk.continue_slice(core, start);
        true
    }
}

impl<O: Owner> Core<O> {
    /// The next entry in hand, as long as nothing besides plain work has come up. The whole price of a
    /// turn boundary in a burst; without an entry, ask [`Core::pick`].
    #[inline]
    pub(crate) fn plain(&self, turn: &mut Turn<'_, O>, desk: &Desk) -> Option<Entry<O>> {
        let signals = self.signals.load(Ordering::Acquire);
        // Room is handed to waiters in portions, so that the two sides do not wake each other for every
        // single item; at the latest when the entries in hand are used up.
        let calm = signals == 0 || (signals == WAITING && desk.served < self.kind.serve_after);
        if calm && !desk.cut {
            turn.hand.pop_front()
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
            entry = turn.hand.pop_front();
            if entry.is_none() {
                // The entries in hand are used up. If nobody has come to the lane meanwhile, that is all there is.
                if self.let_go(turn) {
                    desk.served = 0;
                    return None;
                }
                // With nothing but plain work around there are two ways.
                let mut inner = self.lock();
                if inner.ext.is_none() && inner.calm() {
                    desk.served = 0;
                    if inner.app.is_empty() {
                        inner.burst = 0;
                        let large = self.hand_back(&mut inner, turn);
                        inner.run = Run::Idle;
                        drop(inner);
                        drop(large);
                        return None;
                    }
                    inner.take_plain(turn.hand);
                    if let Some(key) = &turn.key {
                        // What was left for this driver is in its hand.
                        inner.run = Run::Idle;
                        inner.seen(key);
                    }
                    drop(inner);
                    entry = turn.hand.pop_front();
                }
            }
        }
        match entry {
            Some(Entry::Work(work)) => Some(Pick::Work(work, TurnKind::Application)),
            Some(Entry::Tick(tick)) => Some(Pick::Tick(tick)),
            Some(other) => {
                let start = desk.slice_start(self);
                let inner = self.lock();
                self.hand_on(turn, start, inner, other)
            }
            None => {
                desk.served = 0;
                self.pick_slowly(turn, desk)
            }
        }
    }

    /// Lets the gate go without the lane's lock, if nobody has taken that since the gate was, and nothing but plain work was
    /// there then (EX-391).
    #[inline]
    fn let_go(&self, turn: &mut Turn<'_, O>) -> bool {
        let Some(mut key) = turn.key.take() else {
            return false;
        };
        self.set_polled(Polled::BY_NOBODY);
        let driven = key.inside();
        driven.turns = turn.number;
        driven.worker = u8::try_from(turn.seat.worker()).unwrap_or(0);
        match key.try_release() {
            Ok(()) => true,
            Err(key) => {
                self.set_polled(turn.seat.polled());
                turn.key = Some(key);
                false
            }
        }
    }

    /// Gives room that became free to those who wait for it.
    pub(crate) fn serve(self: &Arc<Self>) {
        let mut after = After::default();
        let mut inner = self.lock();
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
        let mut inner = self.lock();
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
        let in_hand = !turn.hand.is_empty();
        let pick = match inner.choose(in_hand, self.kind.limits.lifecycle_burst_limit) {
            Choice::Nothing => {
                self.give_back(&mut inner, turn, &mut after);
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
                    turn.hand.take_all(&mut inner.app);
                }
                let entry = turn.hand.pop_front().or_else(|| inner.app.pop_front());
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
        if (!counted || turn.hand.is_empty())
            && inner.calm()
            && self.signals.load(Ordering::Relaxed) & ATTENTION != 0
        {
            self.signals.fetch_and(!ATTENTION, Ordering::SeqCst);
        }
    }

    /// Lets the gate go where something stronger than queued work says so: the end of the lane, a seal,
    /// or the budget.
    fn must_leave(
        self: &Arc<Self>,
        inner: &mut Locked<'_, O>,
        turn: &mut Turn<'_, O>,
        cut: bool,
        after: &mut After<O>,
    ) -> bool {
        if inner.admission == Admission::Ended {
            // EX-306: the claim was revoked. What is queued ends without a turn.
            inner.run = Run::Stopped;
            after.junk.push(Junk::Entries(turn.hand.drain()));
            after
                .junk
                .push(Junk::Entries(std::mem::take(&mut inner.app)));
            let key = turn.key.take();
            let held = key.map(|key| key.hold(Arc::clone(self)));
            after.junk.extend(held.map(Junk::Driven));
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
                self.give_back(inner, turn, after);
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
        if cut && inner.has_ready(!turn.hand.is_empty()) {
            // EX-65: to the back of the ready set.
            self.give_back(inner, turn, after);
            inner.run = Run::Idle;
            after.schedule = self.make_ready(inner);
            return true;
        }
        false
    }

    /// A ticket or a resume was selected: the gate stays taken and goes to another carrier.
    fn hand_on(
        self: &Arc<Self>,
        turn: &mut Turn<'_, O>,
        slice_start: Monotonic,
        mut inner: Locked<'_, O>,
        entry: Entry<O>,
    ) -> Option<Pick<O>> {
        let mut after = After::default();
        self.give_back(&mut inner, turn, &mut after);
        let fence = inner.both().1.map_or(0, |driven| {
            driven.turns += 1;
            driven.turns
        });
        inner.ext().slice_start = Some(slice_start);
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
                    self.set_polled(carrier.seat().polled());
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
    fn give_back(&self, inner: &mut Locked<'_, O>, turn: &mut Turn<'_, O>, after: &mut After<O>) {
        if let Some(buffer) = self.hand_back(inner, turn) {
            after.junk.push(Junk::Entries(buffer));
        }
    }

    /// As [`Core::give_back`]; returns an empty buffer that is to be dropped without the lock.
    fn hand_back(
        &self,
        inner: &mut Locked<'_, O>,
        turn: &mut Turn<'_, O>,
    ) -> Option<VecDeque<Entry<O>>> {
        self.set_polled(Polled::BY_NOBODY);
        if let Some(mut key) = turn.key.take() {
            let driven = key.inside();
            driven.turns = turn.number;
            driven.worker = u8::try_from(turn.seat.worker()).unwrap_or(0);
            key.release(inner);
        }
        turn.hand.give_back(&mut inner.app)
    }
}

impl<O: Owner> Turn<'_, O> {
    /// A turn yields: as [`Core::give_back`], with the claim of a member kept.
    pub(crate) fn return_state(&mut self) {
        let core = self.core;
        let mut after = After::default();
        let mut inner = core.lock();
        if self.gate.is_some() {
            if let Some(key) = self.key.take() {
                key.release(&mut inner);
            }
        } else {
            core.give_back(&mut inner, self, &mut after);
        }
        drop(inner);
        after.run(core);
    }

    /// A resumed turn takes its owner again. Its gate has been given to it.
    pub(crate) fn borrow_state(&mut self) {
        let mut inner = self.core.lock();
        self.key = inner.take();
        inner.note();
    }
}
