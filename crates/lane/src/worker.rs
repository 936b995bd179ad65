//! A worker: takes gates out of the ready set and polls their carriers. One long-lived task each.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::carrier::{AnyCarrier, Carrier, Exit, Mode};
use crate::drive::{Load, new_carrier};
use crate::engine::Shared;
use crate::here;
use crate::host::GateHost;
use crate::owner::Owner;
use crate::ready::Job;

/// How many carriers at rest a worker keeps for the next gate of their owner type.
const SPARES_MAX: usize = 8;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    spares: Vec<Box<dyn AnyCarrier>>,
    /// A carrier that paused with a gate in hand.
    current: Option<Box<dyn AnyCarrier>>,
    next: Option<Exit>,
    after: AfterPoll,
    /// Items handled since the worker last looked for rest, without those that bring nothing.
    items: u32,
    /// On their way from the queue of another worker into the own one.
    taken: VecDeque<Job>,
    /// Another worker asked for help, and the other tasks of this thread had their turn since.
    helps: bool,
}

/// After so many items in a row a worker that finds no more lets the other tasks of its thread run before
/// it sleeps: those that it woke are likely to bring more, and need not wake it one by one.
const LINGER_FROM: u32 = 2;

/// What the worker does once the poll of a carrier is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterPoll {
    Look,
    /// The carrier found the ready set empty.
    Sleep,
    /// The other tasks of the thread come first.
    Pause,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self {
            shared,
            index,
            spares: Vec::new(),
            current: None,
            next: None,
            after: AfterPoll::Look,
            items: 0,
            taken: VecDeque::new(),
            helps: false,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs gates until there is none or until others on this thread should run. Ready when the engine
    /// has stopped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.ready.enter(self.index, cx.waker());
        let polled = self.serve(cx);
        self.shared.ready.leave();
        polled
    }

    fn serve(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.current.is_some() {
            self.shared.ready.go_on(self.index);
        }
        loop {
            if self.shared.is_stopped() {
                return Poll::Ready(());
            }
            self.after = AfterPoll::Look;
            if let Some(carrier) = self.current.take() {
                self.poll_carrier(carrier);
            } else if let Some(exit) = self.next.take() {
                match exit {
                    Exit::Run(job) => job.run(self),
                    Exit::Continue(gate) => gate.go_on(self),
                    Exit::Poll(carrier) => self.poll_carrier(carrier),
                    Exit::Ticket(ticket, turn) => ticket.run_ticket(turn, self),
                }
            } else if let Some(carrier) = self.spares.pop() {
                // It takes the next gate itself; one of another type comes back as an exit.
                self.poll_carrier(carrier);
            } else if let Some(job) = self.shared.ready.pop(self.index) {
                job.run(self);
            } else {
                self.after = AfterPoll::Sleep;
            }
            if self.after == AfterPoll::Look {
                continue;
            }
            if self.after == AfterPoll::Pause {
                self.shared.ready.pause(self.index, false);
                here::let_others_run(cx);
                return Poll::Pending;
            }
            if self.helps
                && self.items == 0
                && let Some(job) = self.shared.ready.help_others(self.index, &mut self.taken)
            {
                job.run(self);
                continue;
            }
            self.helps = self.shared.ready.is_help_wanted(self.index);
            if self.lingers() || self.helps {
                self.shared.ready.pause(self.index, self.helps);
                cx.waker().wake_by_ref();
            } else if self.shared.is_stopped() {
                // Stopping wakes everybody after it is set, so it is seen here or there.
                return Poll::Ready(());
            }
            return Poll::Pending;
        }
    }

    /// Whether to look once more, after the other tasks of this thread, before the worker sleeps.
    fn lingers(&mut self) -> bool {
        std::mem::take(&mut self.items) >= LINGER_FROM
    }

    /// A carrier at rest for owners of this type.
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "carriers live in boxes and are kept in them"
    )]
    pub(crate) fn take_carrier<O: Owner>(&mut self) -> Box<Carrier<Load<O>>> {
        let fits = |carrier: &dyn AnyCarrier| {
            let any: &dyn Any = carrier;
            any.is::<Carrier<Load<O>>>()
        };
        if let Some(at) = self.spares.iter().rposition(|carrier| fits(&**carrier)) {
            let any: Box<dyn Any> = self.spares.swap_remove(at);
            if let Ok(carrier) = any.downcast() {
                return carrier;
            }
        }
        Box::new(new_carrier::<O>(&self.shared))
    }

    pub(crate) fn poll_carrier(&mut self, mut carrier: Box<dyn AnyCarrier>) {
        carrier.seat().set_worker(self.index);
        carrier.wakeup().begin();
        let polled = catch_unwind(AssertUnwindSafe(|| carrier.poll()));
        if !matches!(polled, Ok(Poll::Pending)) {
            // The body of a carrier never ends and catches what handlers throw. What is left are
            // values whose drop panics between turns; the lane cannot be trusted after that.
            self.shared.stats.carrier_lost();
            drop(catch_unwind(AssertUnwindSafe(|| drop(carrier))));
            return;
        }
        self.items = self.items.saturating_add(carrier.seat().take_items());
        match carrier.seat().mode() {
            Mode::Empty => {
                self.after = AfterPoll::Sleep;
                self.keep(carrier);
            }
            Mode::Exit => {
                self.next = carrier.seat().take_exit();
                self.keep(carrier);
            }
            Mode::Pause => {
                self.after = AfterPoll::Pause;
                self.current = Some(carrier);
            }
            Mode::Suspended => {
                // EX-31: the gate is given up after the operation was submitted, and goes on with
                // what is next in the same slice.
                if let Some(gate) = carrier.seat().take_gate() {
                    let fence = carrier.seat().fence();
                    Arc::clone(&gate).store_suspended(fence, carrier, self);
                    self.next = Some(Exit::Continue(gate));
                }
            }
            // A handler waits. `Decided` is reached without a gate only, in `poll_suspended`.
            Mode::Waiting | Mode::Decided | Mode::Granted => {
                if let Some(gate) = carrier.seat().take_gate() {
                    gate.park(carrier, self);
                }
            }
        }
    }

    /// Polls the operation of a suspended turn, without its gate.
    pub(crate) fn poll_suspended(
        &mut self,
        mut carrier: Box<dyn AnyCarrier>,
        gate: &Arc<dyn GateHost>,
        fence: u64,
    ) {
        carrier.seat().set_worker(self.index);
        carrier.wakeup().begin();
        if catch_unwind(AssertUnwindSafe(|| carrier.poll())).is_err() {
            self.shared.stats.carrier_lost();
            return;
        }
        if carrier.seat().mode() == Mode::Decided {
            Arc::clone(gate).decided(fence, carrier);
        } else {
            Arc::clone(gate).store_suspended(fence, carrier, self);
        }
    }

    fn keep(&mut self, carrier: Box<dyn AnyCarrier>) {
        if self.spares.len() < SPARES_MAX {
            self.spares.push(carrier);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The engine has stopped, or its task was dropped.
        let next = match self.next.take() {
            Some(Exit::Run(job)) => Some(job),
            _ => None,
        };
        for job in next.into_iter().chain(self.taken.drain(..)) {
            self.shared.guard(|| job.lost());
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
