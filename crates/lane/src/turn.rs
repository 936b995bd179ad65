//! What a handler sees of its turn: the owner's state, the gate, and the two ways of waiting.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::carrier::{Mode, Polled, Seat};
use crate::core::Core;
use crate::drive::Pick;
use crate::driven::Key;
use crate::error::{AskError, InvalidOperation, YieldError};
use crate::hand::Hand;
use crate::host::GateHost;
use crate::lane::Lane;
use crate::owner::Owner;
use crate::policy::Yielding;
use crate::serve::Owed;

/// The number of one acquisition of one gate (EX-7).
///
/// The pair of lane and number is never given out twice by a host. Compared for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    pub(crate) gate: u64,
    pub(crate) number: u64,
}

/// What kind of work a turn was started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TurnKind {
    /// An item of the application FIFO.
    Application,
    /// An item of the lifecycle FIFO.
    Lifecycle,
    /// A barrier (EX-71).
    Barrier,
    /// A tick of a timer (EX-240).
    Tick,
    /// What came of a boundary that a turn marked for a move (EX-203).
    RelocationReady,
}

/// The running turn of an owner: lends its state and offers what may be done inside a turn.
///
/// The turn is a value, not something "current" (EX-8): a handler that does not have it cannot wait
/// inside it. `state` borrows from the turn, so the compiler refuses a handler that keeps a reference
/// to its state across a Yield, where other turns may change it (EX-4).
pub struct Turn<'a, O: Owner> {
    pub(crate) core: &'a Arc<Core<O>>,
    pub(crate) seat: &'a Arc<Seat>,
    /// That of the own gate, or of a bound lane its claim, as long as the state is here.
    pub(crate) key: Option<Key<'a, O>>,
    pub(crate) hand: &'a mut Hand<O>,
    pub(crate) number: u64,
    pub(crate) kind: TurnKind,
    /// The gate of another lane this one is bound to (EX-18).
    pub(crate) gate: Option<Arc<dyn GateHost>>,
    pub(crate) deferred: Vec<Box<dyn Deferred>>,
    /// The handler marked the boundary after this turn (EX-203).
    pub(crate) marked: bool,
    /// What the item in hand is charged besides the fixed cost (EX-93).
    pub(crate) payload_bytes: u64,
    /// Nothing comes back of the item in hand: see [`Turn::brings_nothing`].
    pub(crate) quiet: bool,
    pub(crate) owed: Owed<O>,
    /// The one item of a turn at the gate of another lane.
    pub(crate) ticket: Option<Pick<O>>,
}

/// A barrier that a handler recorded and that is not active yet (EX-45).
pub(crate) trait Deferred: Send {
    fn lane_id(&self) -> u64;
    fn activate(self: Box<Self>);
}

struct DeferredItem<O: Owner> {
    core: Arc<Core<O>>,
    item: O::Item,
}

impl<O: Owner> Deferred for DeferredItem<O> {
    fn lane_id(&self) -> u64 {
        self.core.id
    }

    fn activate(self: Box<Self>) {
        if let Err(item) = self.core.activate_barrier(self.item) {
            // The lane ended or is being moved: the barrier has nothing left to hold up.
            self.core.shared().stats.barrier_dropped();
            drop(item);
        }
    }
}

impl<O: Owner> Turn<'_, O> {
    /// The owner's state.
    ///
    /// # Panics
    /// After a handler abandoned a yielded wait: it has no gate any more, so it must not touch its
    /// state. The panic ends its item.
    #[expect(
        clippy::expect_used,
        reason = "a turn has its owner whenever handler code runs"
    )]
    #[inline]
    pub fn state(&mut self) -> &mut O {
        let driven = self.key.as_mut().map(Key::inside);
        let owner = driven.and_then(|driven| driven.owner.as_mut());
        owner.expect("a running turn holds its owner")
    }

    /// The fencing number of the gate acquisition this turn runs under (EX-7).
    pub fn fence(&self) -> Fence {
        let gate = self
            .gate
            .as_ref()
            .map_or(self.core.id, |gate| gate.gate_id());
        Fence {
            gate,
            number: self.number,
        }
    }

    /// What kind of work this turn was started for.
    pub const fn kind(&self) -> TurnKind {
        self.kind
    }

    /// A handle of the lane this turn runs on.
    pub fn lane(&self) -> Lane<O> {
        Lane {
            core: Arc::clone(self.core),
        }
    }

    /// Records a barrier on the own lane: `item` runs right after this turn and before everything in
    /// the application FIFO, once this handler ended normally (EX-45, EX-71). A handler that fails
    /// takes all its barriers back. Does nothing else and never waits.
    ///
    /// # Errors
    /// [`InvalidOperation::AfterReady`] in a turn that has marked its boundary (RL-206); nothing was recorded.
    pub fn defer(&mut self, item: O::Item) -> Result<(), InvalidOperation> {
        self.check_unmarked()?;
        let core = Arc::clone(self.core);
        self.deferred.push(Box::new(DeferredItem { core, item }));
        Ok(())
    }

    /// Says that nobody on this thread waits for the end of this item, so that its end brings no more work: a one-way
    /// message, or a request of another node. A hint, and no result depends on it. A worker that has served others looks once
    /// more behind the tasks that it woke before it sleeps, which is in vain here, and the runtime wakes another of its
    /// threads for it.
    #[inline]
    pub const fn brings_nothing(&mut self) {
        self.quiet = true;
    }

    /// EX-203, RL-206: marking the boundary is the last operation of a turn.
    pub(crate) const fn check_unmarked(&self) -> Result<(), InvalidOperation> {
        if self.marked {
            return Err(InvalidOperation::AfterReady);
        }
        Ok(())
    }

    /// Holds the barrier this turn runs for beyond the turn: the application FIFO stays closed until the
    /// hold is dropped, lifecycle work goes on (EX-71). `None` in a turn that is none.
    pub fn hold_barrier(&mut self) -> Option<BarrierHold<O>> {
        if self.kind != TurnKind::Barrier {
            return None;
        }
        self.core.hold_barrier();
        Some(BarrierHold {
            core: Arc::clone(self.core),
        })
    }

    /// Records a barrier on another lane, for example on the Actor that is to join (EX-45).
    ///
    /// # Errors
    /// As [`Turn::defer`].
    pub fn defer_to<T: Owner>(
        &mut self,
        lane: &Lane<T>,
        item: T::Item,
    ) -> Result<(), InvalidOperation> {
        self.check_unmarked()?;
        let core = Arc::clone(&lane.core);
        self.deferred.push(Box::new(DeferredItem { core, item }));
        Ok(())
    }

    /// Asks another object and waits for its answer with the gate kept (EX-30).
    ///
    /// # Errors
    /// [`AskError::InvalidOperation`] before anything is submitted when the target needs the gate or
    /// the claim that this turn keeps (EX-35, EX-37, EX-38, EX-39). Anything with another gate is waited
    /// for (EX-40); otherwise as [`Lane::ask`].
    ///
    /// # Cancel safety
    /// As [`Lane::ask`].
    pub async fn ask<T: Owner>(
        &mut self,
        target: &Lane<T>,
        item: T::Item,
    ) -> Result<T::Reply, AskError> {
        self.check_unmarked().map_err(AskError::InvalidOperation)?;
        if self.is_own_claim(target) {
            return Err(AskError::InvalidOperation(InvalidOperation::OwnClaim));
        }
        if target.core.gate_id() == self.fence().gate {
            return Err(AskError::InvalidOperation(InvalidOperation::OwnGate));
        }
        self.check_barriers(target)?;
        target.ask(item).await
    }

    /// EX-36: the check is local and looks at this gate and claim only; an indirect cycle ends with the
    /// request's timeout. EX-37: an Actor that waits for itself waits for its own claim, whatever gate it is bound to.
    fn is_own_claim<T: Owner>(&self, target: &Lane<T>) -> bool {
        target.core.id == self.core.id && !self.core.is_spot()
    }

    fn check_barriers<T: Owner>(&self, target: &Lane<T>) -> Result<(), AskError> {
        if self
            .deferred
            .iter()
            .any(|barrier| barrier.lane_id() == target.core.id)
        {
            return Err(AskError::InvalidOperation(
                InvalidOperation::BehindOwnBarrier,
            ));
        }
        Ok(())
    }
}

impl<O: Owner<Waits = Yielding>> Turn<'_, O> {
    /// Waits for `operation` with the shared gate given up: other turns of the gate run meanwhile, and
    /// this handler goes on in a new turn at the back of the queue (EX-31). The claim of an Actor stays
    /// (EX-32). When the operation is ready at once, nothing is given up.
    ///
    /// State read before must be read again afterwards (EX-4).
    ///
    /// # Errors
    /// [`YieldError::InvalidOperation`] where Yield is not offered: the gate is not that of a
    /// `SpotWide` or Instance Spot, or this is not an application turn (EX-33, EX-34). The operation is
    /// not polled in that case.
    ///
    /// # Cancel safety
    /// Dropping the future between its polls is not possible for a handler; when the engine drops the
    /// handler the operation is dropped with it and nothing resumes (EX-44).
    pub async fn yield_for<F>(&mut self, operation: F) -> Result<F::Output, YieldError>
    where
        F: Future + Send,
        F::Output: Send,
    {
        self.check_yield().map_err(YieldError::InvalidOperation)?;
        Ok(self.wait_without_gate(operation).await)
    }

    /// Asks another object and waits with the shared gate given up (EX-31). Legal also for the own Spot
    /// and for other members of it (EX-38, EX-39).
    ///
    /// # Errors
    /// [`AskError::InvalidOperation`] before anything is submitted for the calling Actor itself
    /// (EX-37) and where Yield is not offered (EX-34); otherwise as [`Lane::ask`].
    ///
    /// # Cancel safety
    /// As [`Turn::yield_for`].
    pub async fn yield_ask<T: Owner>(
        &mut self,
        target: &Lane<T>,
        item: T::Item,
    ) -> Result<T::Reply, AskError> {
        self.check_yield().map_err(AskError::InvalidOperation)?;
        if self.is_own_claim(target) {
            return Err(AskError::InvalidOperation(InvalidOperation::OwnClaim));
        }
        self.check_barriers(target)?;
        self.wait_without_gate(target.ask(item)).await
    }

    fn check_yield(&self) -> Result<(), InvalidOperation> {
        self.check_unmarked()?;
        let offered = match &self.gate {
            Some(_) => true,
            None => self.core.kind.gate == crate::kind::GateUse::Shared,
        };
        // A join half way must not let other work in, so lifecycle turns and barriers do not yield.
        let kind = matches!(self.kind, TurnKind::Application | TurnKind::Tick);
        if offered && kind {
            Ok(())
        } else {
            Err(InvalidOperation::YieldNotOffered)
        }
    }

    async fn wait_without_gate<F: Future>(&mut self, operation: F) -> F::Output {
        let mut operation = pin!(operation);
        let keeps_claim = self.gate.is_some() || !self.core.is_spot();
        if !keeps_claim {
            self.core.set_polled(Polled::BY_NOBODY);
        }
        let first = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await;
        if let Poll::Ready(value) = first {
            if !keeps_claim {
                self.core.set_polled(self.seat.polled());
            }
            return value;
        }
        self.give_up_gate();
        let mut decided = None;
        let mut released = false;
        let value = poll_fn(|cx| match self.seat.mode() {
            // The rest of this poll still holds the gate: the operation, which has our waker, is looked
            // at again when the worker has let the gate go.
            Mode::Suspended if !std::mem::replace(&mut released, true) => Poll::Pending,
            Mode::Granted => decided.take().map_or(Poll::Pending, Poll::Ready),
            Mode::Suspended => {
                if decided.is_none()
                    && let Poll::Ready(result) = operation.as_mut().poll(cx)
                {
                    decided = Some(result);
                    self.seat.set_mode(Mode::Decided);
                }
                Poll::Pending
            }
            _ => Poll::Pending,
        })
        .await;
        self.take_gate();
        value
    }
}

impl<O: Owner> Drop for Turn<'_, O> {
    fn drop(&mut self) {
        // Lost with its carrier: the state goes now and not with the last handle of the lane.
        if let Some(key) = self.key.take() {
            self.core.discard(key.hold(Arc::clone(self.core)));
        }
    }
}

impl<O: Owner> Turn<'_, O> {
    /// The state goes back to the lane, the entries in hand too; the worker lets the gate go after
    /// this poll.
    fn give_up_gate(&mut self) {
        let gate: Arc<dyn GateHost> = match &self.gate {
            Some(gate) => Arc::clone(gate),
            None => Arc::<Core<O>>::clone(self.core),
        };
        self.return_state();
        gate.note_suspended();
        self.seat.set_fence(self.number);
        self.seat.set_mode(Mode::Suspended);
        self.seat.set_gate(gate);
    }

    pub(crate) fn take_gate(&mut self) {
        self.number = self.seat.fence();
        self.borrow_state();
    }
}

/// Keeps an active barrier from ending; see [`Turn::hold_barrier`].
#[must_use]
pub struct BarrierHold<O: Owner> {
    core: Arc<Core<O>>,
}

impl<O: Owner> Drop for BarrierHold<O> {
    fn drop(&mut self) {
        self.core.let_barrier_go();
    }
}

impl<O: Owner> fmt::Debug for BarrierHold<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierHold")
            .field("lane", &self.core.id)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> fmt::Debug for Turn<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("fence", &self.fence())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
