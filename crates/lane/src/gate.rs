//! The gate of a lane: who may run, apart from where work waits (EX-1).

use std::sync::Arc;

use crate::carrier::AnyCarrier;
use crate::core::{Admission, Bound, Core, Run, Schedule};
use crate::driven::{Hold, Locked};
use crate::error::Fifo;
use crate::host::{GateHost, TicketHolder};
use crate::owner::Owner;
use crate::queue::{Entry, Ticket};
use crate::ready::{Job, Runnable};
use crate::worker::Worker;

/// A suspended turn as the ready set sees it: its operation woke and wants to be polled. That needs no
/// gate (EX-42).
struct SuspendedTurn {
    gate: Arc<dyn GateHost>,
    fence: u64,
}

impl Runnable for SuspendedTurn {
    fn run(self: Arc<Self>, worker: &mut Worker) {
        // EX-7: a wake for a turn that is not suspended any more changes nothing.
        let Some(carrier) = self.gate.take_suspended(self.fence) else {
            worker.shared().stats.ignored();
            return;
        };
        worker.poll_suspended(carrier, &self.gate, self.fence);
    }
}

impl<O: Owner> Core<O> {
    /// Idle with runnable work becomes ready; the caller enters it after leaving the lock (EX-72).
    #[inline]
    pub(crate) fn make_ready(self: &Arc<Self>, inner: &mut Locked<'_, O>) -> Schedule<O> {
        if inner.run != Run::Idle {
            return Schedule::No;
        }
        if inner.bound == Bound::Shared {
            inner.run = Run::Ready;
            return Schedule::Ticket;
        }
        match inner.take() {
            Some(key) => {
                inner.run = Run::Running;
                inner.note();
                let mut held = key.hold(Arc::clone(self));
                let worker = held.inside().worker;
                Schedule::Ready(held, worker)
            }
            None => Schedule::No,
        }
    }

    /// As [`Core::make_ready`], when there is something that may run.
    pub(crate) fn make_ready_if_any(self: &Arc<Self>, inner: &mut Locked<'_, O>) -> Schedule<O> {
        if inner.has_ready(false) {
            self.make_ready(inner)
        } else {
            Schedule::No
        }
    }

    /// Enters what became runnable: the gate into the ready set, or a ticket into the gate's FIFO.
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>, schedule: Schedule<O>) {
        match schedule {
            Schedule::No => {}
            Schedule::Ready(held, worker) => self.enter_gate(held, worker),
            Schedule::Ticket => self.offer_ticket(),
        }
    }

    #[inline]
    pub(crate) fn enter_gate(&self, held: Hold<O>, worker: u8) {
        let ready = &self.shared().ready;
        ready.push(usize::from(worker), Job::gate(held));
    }
}

// EX-14: a member under `SpotWide` has its own queue and no gate; both halves are needed.
impl<O: Owner> GateHost for Core<O> {
    fn gate_id(&self) -> u64 {
        self.id
    }

    fn go_on(self: Arc<Self>, worker: &mut Worker) {
        Self::go_on(self, worker);
    }

    fn park(self: Arc<Self>, carrier: Box<dyn AnyCarrier>, worker: &Worker) {
        let wakeup = Arc::clone(carrier.wakeup());
        // EX-100: whoever waits for room does not wait for this handler as well.
        self.serve();
        let mut inner = self.lock();
        if inner.admission == Admission::Ended {
            inner.run = Run::Stopped;
            drop(inner);
            self.shared().guard_drop(carrier);
            return;
        }
        inner.run = Run::Parked;
        inner.ext().parked = Some(carrier);
        drop(inner);
        wakeup.end(worker.index(), Arc::clone(self.shared()), self);
    }

    fn note_suspended(&self) {
        if let Some(spot) = self.lock().spot() {
            spot.suspended_len += 1;
        }
    }

    fn store_suspended(self: Arc<Self>, fence: u64, carrier: Box<dyn AnyCarrier>, worker: &Worker) {
        let wakeup = Arc::clone(carrier.wakeup());
        let mut inner = self.lock();
        let ended = inner.admission == Admission::Ended;
        match inner.spot() {
            Some(spot) if !ended => {
                spot.suspended.insert(fence, carrier);
                drop(inner);
            }
            _ => {
                drop(inner);
                self.shared().guard_drop(carrier);
                return;
            }
        }
        let shared = Arc::clone(self.shared());
        wakeup.end(
            worker.index(),
            shared,
            Arc::new(SuspendedTurn { gate: self, fence }),
        );
    }

    fn take_suspended(&self, fence: u64) -> Option<Box<dyn AnyCarrier>> {
        self.lock().spot()?.suspended.remove(&fence)
    }

    fn decided(self: Arc<Self>, fence: u64, carrier: Box<dyn AnyCarrier>) {
        let mut inner = self.lock();
        let ended = inner.admission == Admission::Ended;
        match inner.spot() {
            Some(spot) if !ended => {
                spot.suspended.insert(fence, carrier);
            }
            _ => {
                drop(inner);
                self.shared().guard_drop(carrier);
                return;
            }
        }
        // EX-43: no count, no bytes, no permit, never refused. A requested seal waits for suspended
        // turns (EX-202), so the record cannot meet a sealed lane.
        inner.app.push_back(Entry::Resume(fence));
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
    }

    fn push_ticket(self: Arc<Self>, fifo: Fifo, ticket: Arc<dyn TicketHolder>) {
        // EX-23: one item and the fixed cost; a transfer, never refused for capacity (EX-98).
        let mut inner = self.lock();
        if inner.admission == Admission::Ended {
            drop(inner);
            ticket.gate_ended();
            return;
        }
        if fifo == Fifo::Lifecycle {
            let ext = inner.ext();
            ext.lifecycle
                .push_back(Entry::Ticket(Ticket::new(ticket, fifo)));
            ext.lifecycle_ledger.accept(0);
            self.signal(crate::core::ATTENTION);
        } else {
            inner.ledger.accept(0);
            inner
                .app
                .push_back(Entry::Ticket(Ticket::new(ticket, fifo)));
        }
        let schedule = self.make_ready(&mut inner);
        drop(inner);
        self.enter(schedule);
    }

    fn ticket_ended(&self, fifo: Fifo) {
        if fifo == Fifo::Application {
            self.end_application(0);
        } else {
            self.end_lifecycle(0);
        }
    }
}
