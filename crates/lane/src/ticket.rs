//! Lanes that are bound to the gate of another one: tickets, claims and whose gate it is (EX-23).

use std::sync::Arc;

use crate::carrier::Polled;
use crate::core::{Admission, After, Choice, Core, Junk, Run};
use crate::drive::Pick;
use crate::error::Fifo;
use crate::host::GateHost;
use crate::owner::Owner;
use crate::queue::{BarrierRun, Current, Entry, Work};
use crate::turn::{Turn, TurnKind};

impl<O: Owner> Turn<'_, O> {
    pub(crate) fn begin_ticket(&mut self, gate: &Arc<dyn GateHost>, fence: u64) -> bool {
        let core = self.core;
        self.gate = Some(Arc::clone(gate));
        self.number = fence;
        let mut inner = core.lock();
        if inner.admission == Admission::Ended || !inner.is_free() {
            return false;
        }
        let Some((fifo, current)) = inner.ext().current.take() else {
            return false;
        };
        self.key = inner.take();
        inner.run = Run::Running;
        core.set_polled(self.seat.polled());
        let kind = match fifo {
            Fifo::Application => TurnKind::Application,
            Fifo::Lifecycle => TurnKind::Lifecycle,
        };
        let pick = match current {
            Current::Queued(Entry::Work(work)) => Pick::Work(work, kind),
            Current::Queued(Entry::Tick(tick)) => Pick::Tick(tick),
            Current::Barrier(item) => Pick::Work(Work::one_way(item), TurnKind::Barrier),
            // Tickets and resumes stand in the FIFO of the gate's lane only.
            Current::Queued(Entry::Ticket(_) | Entry::Resume(_)) => return false,
        };
        self.ticket = Some(pick);
        true
    }
}

impl<O: Owner> Core<O> {
    /// The terminal of a member's item: the claim ends, the next item asks for the gate (EX-11).
    pub(crate) fn end_ticket(self: &Arc<Self>, turn: &mut Turn<'_, O>, fifo: Fifo) {
        let payload = turn.payload_bytes;
        let mut after = After::default();
        if fifo == Fifo::Application {
            self.end_application(payload);
        }
        self.set_polled(Polled::BY_NOBODY);
        let mut inner = self.lock();
        if fifo == Fifo::Lifecycle {
            inner.ext().lifecycle_ledger.end(payload);
        }
        if turn.kind == TurnKind::Barrier {
            let ext = inner.ext();
            ext.barrier = if ext.barrier_holds > 0 {
                BarrierRun::Held
            } else {
                BarrierRun::None
            };
        }
        if inner.admission == Admission::Ended {
            inner.run = Run::Stopped;
            let key = turn.key.take();
            let held = key.map(|key| key.hold(Arc::clone(self)));
            after.junk.extend(held.map(Junk::Driven));
        } else {
            if let Some(key) = turn.key.take() {
                key.release(&mut inner);
            }
            self.settle(&mut inner);
            inner.serve_waiters(&self.kind, &mut after);
            inner.run = Run::Idle;
            after.schedule = self.make_ready_if_any(&mut inner);
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
        let mut inner = self.lock();
        let choice = inner.choose(false, self.kind.limits.lifecycle_burst_limit);
        let current = match choice {
            Choice::Nothing => None,
            Choice::Barrier => {
                let ext = inner.ext();
                ext.barrier = BarrierRun::Running;
                ext.barriers
                    .pop_front()
                    .map(|item| (Fifo::Lifecycle, Current::Barrier(item)))
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
            gate.push_ticket(fifo, Arc::<Self>::clone(self));
        }
    }

    pub(crate) fn gate_id(&self) -> u64 {
        let inner = self.lock();
        let bound = inner.ext.as_ref().and_then(|ext| ext.gate.as_ref());
        bound.map_or(self.id, |gate| gate.gate_id())
    }

    pub(crate) fn is_spot(&self) -> bool {
        self.lock().spot().is_some()
    }
}
