//! Entries, ledgers and waiters: what stands in the two FIFOs of a lane and how it is counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::carrier::AnyCarrier;
use crate::error::{AskError, Fifo, Refusal};
use crate::host::{GateHost, TicketHolder};
use crate::jobs::JobPermit;
use crate::limits::FifoLimits;
use crate::owner::Owner;
use crate::reply::Reply;
use crate::sync::Mutex;
use crate::time::Monotonic;
use crate::timer::{Tick, TickEnd};

/// One accepted payload with what belongs to it until its terminal (EX-94).
pub(crate) struct Work<O: Owner> {
    pub(crate) item: O::Item,
    pub(crate) payload_bytes: u64,
    pub(crate) reply: Reply<Result<O::Reply, AskError>>,
    /// The host-wide permit, returned at the first instruction of the callback (EX-121).
    pub(crate) permit: Option<JobPermit>,
}

impl<O: Owner> Work<O> {
    pub(crate) const fn one_way(item: O::Item) -> Self {
        Self {
            item,
            payload_bytes: 0,
            reply: Reply::to_nobody(),
            permit: None,
        }
    }
}

/// What may stand in an application FIFO.
pub(crate) enum Entry<O: Owner> {
    Work(Work<O>),
    /// Boxed: ticks are rare, and an entry should be no larger than a message needs.
    Tick(Box<QueuedTick>),
    /// EX-23: the current item of a member Actor asks for the gate.
    Ticket(Ticket),
    /// EX-31: a suspended turn has its result. Carries no charge of its own (EX-43).
    Resume(u64),
}

/// A place in the FIFOs of a gate's lane for the current item of a member.
pub(crate) struct Ticket {
    holder: Option<Arc<dyn TicketHolder>>,
    pub(crate) fifo: Fifo,
}

impl Ticket {
    pub(crate) fn new(holder: Arc<dyn TicketHolder>, fifo: Fifo) -> Self {
        let holder = Some(holder);
        Self { holder, fifo }
    }

    /// Its turn has come.
    pub(crate) fn take(mut self) -> Option<Arc<dyn TicketHolder>> {
        self.holder.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(holder) = self.holder.take() {
            holder.gate_ended();
        }
    }
}

/// A tick and the way back to its timer.
pub(crate) struct QueuedTick {
    pub(crate) tick: Tick,
    pub(crate) end: TickEnd,
}

/// Counts one FIFO: what was accepted and how much of it has ended.
///
/// The accepted count is the accepted sequence of the FIFO at the same time. For the application FIFO
/// the ended part is published by the driver in atomics beside the lock and only read when the FIFO
/// looks full, so an item costs the driver no lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Ledger {
    pub(crate) bytes_in: u64,
    pub(crate) accepted: u64,
    pub(crate) ended: u64,
    pub(crate) bytes_out: u64,
}

impl Ledger {
    pub(crate) const fn used_items(&self) -> u64 {
        self.accepted.wrapping_sub(self.ended)
    }

    /// EX-93: payload bytes plus the fixed cost of every item.
    pub(crate) const fn used_bytes(&self, fixed: u64) -> u64 {
        let payload = self.bytes_in.wrapping_sub(self.bytes_out);
        payload.saturating_add(self.used_items().saturating_mul(fixed))
    }

    /// Whether an item of this charge fits. EX-103: alone, an item fits whatever its charge is.
    #[inline]
    pub(crate) const fn fits(&self, limits: FifoLimits, fixed: u64, charge: u64) -> bool {
        let used = self.used_items();
        (used < limits.items_max
            && self.used_bytes(fixed).saturating_add(charge) <= limits.bytes_max)
            || used == 0
    }

    pub(crate) fn refusal(
        &self,
        fifo: Fifo,
        limits: FifoLimits,
        fixed: u64,
        charge: u64,
    ) -> Refusal {
        let used = self.used_items();
        if used >= limits.items_max {
            Refusal::ItemsFull {
                fifo,
                used,
                items_max: limits.items_max,
            }
        } else {
            let (used, bytes_max) = (self.used_bytes(fixed), limits.bytes_max);
            Refusal::BytesFull {
                fifo,
                used,
                charge,
                bytes_max,
            }
        }
    }

    /// The reservation and the sequence, in one step (EX-95).
    #[inline]
    pub(crate) const fn accept(&mut self, payload_bytes: u64) {
        self.accepted = self.accepted.wrapping_add(1);
        self.bytes_in = self.bytes_in.wrapping_add(payload_bytes);
    }

    pub(crate) const fn end(&mut self, payload_bytes: u64) {
        self.ended = self.ended.wrapping_add(1);
        self.bytes_out = self.bytes_out.wrapping_add(payload_bytes);
    }
}

/// What became of an operation that waits for room.
pub(crate) enum WaitState<O: Owner> {
    Waiting(Option<Waker>),
    /// The item is in the FIFO or in the hold queue.
    Accepted,
    /// There is room and this is the first in line; its permit is all that is missing (EX-102).
    Turn,
    Ended(Refusal, Option<Work<O>>),
}

/// Shared between a waiting operation and the lane. Locked inside the lane's lock, never around it.
pub(crate) struct WaitCell<O: Owner>(pub(crate) Mutex<WaitState<O>>);

impl<O: Owner> WaitCell<O> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(WaitState::Waiting(None))))
    }

    /// Changes the state and returns who must be told, after every lock is left.
    pub(crate) fn decide(&self, state: WaitState<O>) -> Option<Waker> {
        match std::mem::replace(&mut *self.0.lock(), state) {
            WaitState::Waiting(waker) => waker,
            _ => None,
        }
    }
}

/// A place in the line for room (EX-101).
pub(crate) struct Waiter<O: Owner> {
    pub(crate) cell: Arc<WaitCell<O>>,
    /// The item, or only its charge where the permit is taken last.
    pub(crate) place: Place<O>,
}

pub(crate) enum Place<O: Owner> {
    Item(Work<O>),
    /// Payload bytes of an item that its operation keeps, and whether it was told to come.
    Reserved(u64, Called),
    /// A tick that stays with its timer, which is told that there is room (EX-242).
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    No,
    Yes,
}

/// The barrier slot of a lane (EX-71): what comes first has a place of its own, since nothing is ever put
/// in front of a FIFO (EX-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BarrierRun {
    #[default]
    None,
    /// A barrier's turn runs; the application FIFO is closed.
    Running,
    /// The turn is over, the barrier is not: somebody holds on to it. Lifecycle work goes on.
    Held,
}

/// What only some lanes need: everything besides plain application work.
pub(crate) struct Ext<O: Owner> {
    pub(crate) lifecycle: VecDeque<Entry<O>>,
    pub(crate) lifecycle_ledger: Ledger,
    pub(crate) waiters: VecDeque<Waiter<O>>,
    pub(crate) lifecycle_waiters: VecDeque<Waiter<O>>,
    /// Active barriers that have not started, in registration order.
    pub(crate) barriers: VecDeque<O::Item>,
    pub(crate) barrier: BarrierRun,
    pub(crate) barrier_holds: u32,
    /// Arrivals while dispatch is closed by a move (EX-201), in acceptance order.
    pub(crate) hold: VecDeque<Entry<O>>,
    /// How many entries at the head of the application FIFO are the front segment (EX-210).
    pub(crate) segment: u64,
    /// The permit that goes from one entry of the segment to the next (EX-214).
    pub(crate) segment_permit: Option<JobPermit>,
    /// The turn that waits with this gate kept.
    pub(crate) parked: Option<Box<dyn AnyCarrier>>,
    /// The gate this lane is bound to, when it is not its own (EX-18).
    pub(crate) gate: Option<Arc<dyn GateHost>>,
    /// The current item of a bound lane: its ticket is queued or runs (EX-11).
    pub(crate) current: Option<(Fifo, Current<O>)>,
    /// Start of the slice while a ticket or a resumed turn runs in it (EX-66).
    pub(crate) slice_start: Option<Monotonic>,
    pub(crate) quiet: Vec<oneshot::Sender<()>>,
    /// Application dispatch has not been opened here yet (EX-208).
    pub(crate) application: Dispatch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dispatch {
    #[default]
    Open,
    Closed,
}

/// What a bound lane has chosen to be next.
pub(crate) enum Current<O: Owner> {
    Queued(Entry<O>),
    Barrier(O::Item),
}

impl<O: Owner> Default for Ext<O> {
    fn default() -> Self {
        Self {
            lifecycle: VecDeque::new(),
            lifecycle_ledger: Ledger::default(),
            waiters: VecDeque::new(),
            lifecycle_waiters: VecDeque::new(),
            barriers: VecDeque::new(),
            barrier: BarrierRun::None,
            barrier_holds: 0,
            hold: VecDeque::new(),
            segment: 0,
            segment_permit: None,
            parked: None,
            gate: None,
            current: None,
            slice_start: None,
            quiet: Vec::new(),
            application: Dispatch::Open,
        }
    }
}

impl<O: Owner> Ext<O> {
    /// Nothing here that the next choice of the driver could depend on.
    pub(crate) fn calm(&self) -> bool {
        self.lifecycle.is_empty()
            && self.lifecycle_waiters.is_empty()
            && self.barriers.is_empty()
            && self.barrier == BarrierRun::None
            && self.segment == 0
            && self.application == Dispatch::Open
    }
}
