//! The handle of a lane: everything that may be asked of it from outside a turn.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::carrier::Polled;
use crate::core::{AskRefusal, Core, Line};
use crate::error::{AskError, InvalidOperation, Refusal, Refused};
use crate::host::AnyLane;
use crate::jobs::JobSource;
use crate::owner::Owner;
use crate::queue::Work;
use crate::reply::{self, Answer};
use crate::submit::{self, Wanted};
use crate::turn::Turn;

/// The lane of one execution object: submits work, closes it, waits for it.
///
/// Cloning is cheap. The lane lives until its last handle is dropped and its accepted work has ended;
/// nothing that was accepted is lost by dropping handles. Nothing that is submitted here ever runs on
/// the caller's stack (EX-9). Whatever may have to wait is a future; there is no call that blocks its thread (EX-283).
pub struct Lane<O: Owner> {
    pub(crate) core: Arc<Core<O>>,
}

impl<O: Owner> Lane<O> {
    /// Offers one application item; one attempt that never waits (EX-95).
    ///
    /// # Errors
    /// Gives the item back with the reason; nothing is left behind (EX-96). The reason names the limit
    /// when the FIFO has no room.
    #[inline]
    pub fn enqueue(&self, item: O::Item) -> Result<(), Refused<O::Item>> {
        self.offer(Work::one_way(item))
    }

    /// As [`Lane::enqueue`] for an item that retains `payload_bytes` of encoded payload (EX-93).
    ///
    /// # Errors
    /// As [`Lane::enqueue`].
    pub fn enqueue_with_payload_bytes(
        &self,
        item: O::Item,
        payload_bytes: u64,
    ) -> Result<(), Refused<O::Item>> {
        self.offer(Work {
            payload_bytes,
            ..Work::one_way(item)
        })
    }

    /// Puts an item that was accepted before into the FIFO: accounted, and never refused for want of room (EX-98). It goes
    /// behind what is queued, and before those that wait for room. Held like a submit while the lane is sealed for a move.
    ///
    /// # Errors
    /// Gives the item back when the lane has ended or is closing.
    pub fn transfer(&self, item: O::Item, payload_bytes: u64) -> Result<(), Refused<O::Item>> {
        let work = Work {
            payload_bytes,
            ..Work::one_way(item)
        };
        self.core.transfer(work).map_err(|(reason, work)| Refused {
            item: work.item,
            reason,
        })
    }

    #[inline]
    fn offer(&self, work: Work<O>) -> Result<(), Refused<O::Item>> {
        self.core.submit(work).map_err(|(reason, work)| {
            if reason == Refusal::ConnectionClosing {
                self.core.shared().stats.discarded();
            }
            Refused {
                item: work.item,
                reason,
            }
        })
    }

    /// Offers one lifecycle item; one attempt that never waits (EX-60). Accepted, it runs although the
    /// application FIFO is full (EX-64).
    ///
    /// # Errors
    /// As [`Lane::enqueue`]; a lane that is sealed for a move refuses it with [`Refusal::Sealed`]
    /// (EX-109).
    pub fn enqueue_lifecycle(&self, item: O::Item) -> Result<(), Refused<O::Item>> {
        self.enqueue_lifecycle_with_payload_bytes(item, 0)
    }

    /// As [`Lane::enqueue_lifecycle`] for an item that retains `payload_bytes` of encoded payload.
    ///
    /// # Errors
    /// As [`Lane::enqueue_lifecycle`].
    pub fn enqueue_lifecycle_with_payload_bytes(
        &self,
        item: O::Item,
        payload_bytes: u64,
    ) -> Result<(), Refused<O::Item>> {
        let work = Work {
            payload_bytes,
            ..Work::one_way(item)
        };
        self.core
            .submit_lifecycle(work, Line::Normal)
            .map_err(|(reason, work)| Refused {
                item: work.item,
                reason,
            })
    }

    /// Puts an active barrier into the barrier slot: it runs right after the current turn and before
    /// everything in the application FIFO (EX-71).
    ///
    /// # Errors
    /// Gives the item back when the lane ended or is being moved.
    pub fn enqueue_barrier_next(&self, item: O::Item) -> Result<(), Refused<O::Item>> {
        self.core.activate_barrier(item).map_err(|item| {
            let sealed = !self.core.is_closed();
            let reason = if sealed {
                Refusal::Sealed
            } else {
                self.core.end_reason()
            };
            Refused { item, reason }
        })
    }

    /// Submits one application item and waits while its FIFO has no room, in order with everybody else
    /// who waits (EX-100, EX-101). Completes when the item is accepted, not when it has run (EX-260).
    ///
    /// # Errors
    /// Gives the item back when the lane ends or closes first.
    ///
    /// # Cancel safety
    /// Dropped before it completed, the item was not accepted and never will be (EX-301).
    #[inline]
    pub async fn submit(&self, item: O::Item) -> Result<(), Refused<O::Item>> {
        // The common case needs no future that can wait.
        match self.core.submit(Work::one_way(item)) {
            Ok(()) => Ok(()),
            Err((reason, work)) => {
                submit::wait(&self.core, reason, work, Wanted::Application).await
            }
        }
    }

    /// As [`Lane::submit`] for an item that retains `payload_bytes`, waiting at most `timeout`
    /// (EX-266).
    ///
    /// # Errors
    /// [`Refusal::DeadlineExceeded`] with the item when no room became free in time; it is not accepted
    /// later. Otherwise as [`Lane::submit`].
    ///
    /// # Cancel safety
    /// As [`Lane::submit`].
    pub async fn submit_within(
        &self,
        item: O::Item,
        payload_bytes: u64,
        timeout: Duration,
    ) -> Result<(), Refused<O::Item>> {
        let work = Work {
            payload_bytes,
            ..Work::one_way(item)
        };
        submit::within(&self.core, work, Wanted::Application, timeout).await
    }

    /// Submits local work under the host-wide job limit: waits for room in the FIFO first and for a
    /// permit of `source` last, so that a waiting call holds neither (EX-102, EX-127).
    ///
    /// # Errors
    /// As [`Lane::submit`].
    ///
    /// # Cancel safety
    /// As [`Lane::submit`]; a permit that was handed over goes to the next source.
    pub async fn submit_job(
        &self,
        source: &mut JobSource,
        item: O::Item,
        payload_bytes: u64,
    ) -> Result<(), Refused<O::Item>> {
        let work = Work {
            payload_bytes,
            ..Work::one_way(item)
        };
        submit::job(&self.core, source, work).await
    }

    /// Offers a record that was received under a permit: the permit goes with it (EX-121).
    ///
    /// # Errors
    /// As [`Lane::enqueue`]. The permit comes back with the item inside the error's item pair.
    pub fn enqueue_job(
        &self,
        permit: crate::jobs::JobPermit,
        item: O::Item,
        payload_bytes: u64,
    ) -> Result<(), Refused<(O::Item, crate::jobs::JobPermit)>> {
        let permit = permit.queued();
        let work = Work {
            item,
            payload_bytes,
            reply: reply::Reply::to_nobody(),
            permit: Some(permit),
        };
        match self.core.submit(work) {
            Ok(()) => Ok(()),
            Err((
                reason,
                Work {
                    item,
                    permit: Some(permit),
                    ..
                },
            )) => Err(Refused {
                item: (item, permit.reserved()),
                reason,
            }),
            Err((
                reason,
                Work {
                    item, permit: None, ..
                },
            )) => {
                // A refused work comes back as it was given, so this cannot be.
                debug_assert!(false, "a permit was lost: {reason}");
                drop(item);
                Ok(())
            }
        }
    }

    /// Submits one lifecycle item and waits while its FIFO has no room.
    ///
    /// # Errors
    /// As [`Lane::enqueue_lifecycle`], without the refusals that waiting can end.
    ///
    /// # Cancel safety
    /// As [`Lane::submit`].
    pub async fn submit_lifecycle(&self, item: O::Item) -> Result<(), Refused<O::Item>> {
        match self
            .core
            .submit_lifecycle(Work::one_way(item), Line::Normal)
        {
            Ok(()) => Ok(()),
            Err((reason, work)) => submit::wait(&self.core, reason, work, Wanted::Lifecycle).await,
        }
    }

    /// Submits one application item and waits for what its handler answers (EX-261).
    ///
    /// # Errors
    /// Exactly one outcome: the reply or an [`AskError`] (EX-269). A handler that waits for its own lane is told at
    /// once, although this handle knows nothing of its turn (EX-154); what has the gate in another way, such as the Spot
    /// around a member, is seen by [`Turn::ask`] only.
    ///
    /// # Cancel safety
    /// Dropped before the item was accepted, it never runs. Dropped while it is queued, it ends without
    /// its handler. Dropped later, only the wait ends (EX-301, EX-304).
    #[inline]
    pub async fn ask(&self, item: O::Item) -> Result<O::Reply, AskError> {
        let (reply, mut answer, asker) = reply::slot_here().await;
        let work = Work {
            reply,
            ..Work::one_way(item)
        };
        if let Err((refusal, work)) = self.core.submit_asked(asker, work) {
            let AskRefusal::Fifo(reason) = refusal else {
                return Err(self.own_turn());
            };
            submit::wait(&self.core, reason, work, Wanted::Application)
                .await
                .map_err(|refused| AskError::Refused(refused.reason))?;
            answer = answer.look_at_once();
        }
        self.answer(answer).await
    }

    /// As [`Lane::ask`], through the lifecycle FIFO.
    ///
    /// # Errors
    /// As [`Lane::ask`].
    ///
    /// # Cancel safety
    /// As [`Lane::ask`].
    pub async fn ask_lifecycle(&self, item: O::Item) -> Result<O::Reply, AskError> {
        let (reply, mut answer, asker) = reply::slot_here().await;
        if self.core.is_run_by(asker) {
            return Err(self.own_turn());
        }
        let work = Work {
            reply,
            ..Work::one_way(item)
        };
        if let Err((reason, work)) = self.core.submit_lifecycle(work, Line::Normal) {
            submit::wait(&self.core, reason, work, Wanted::Lifecycle)
                .await
                .map_err(|refused| AskError::Refused(refused.reason))?;
            answer = answer.look_at_once();
        }
        self.answer(answer).await
    }

    /// As [`Lane::ask`] with one deadline for room and reply (EX-268). A timeout ends the wait, not a
    /// handler that began (EX-269).
    ///
    /// # Errors
    /// [`AskError::DeadlineExceeded`] when the time is over; otherwise as [`Lane::ask`].
    ///
    /// # Cancel safety
    /// As [`Lane::ask`].
    pub async fn ask_within(&self, item: O::Item, timeout: Duration) -> Result<O::Reply, AskError> {
        match tokio::time::timeout(timeout, self.ask(item)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AskError::DeadlineExceeded),
        }
    }

    fn own_turn(&self) -> AskError {
        AskError::InvalidOperation(if self.core.is_spot() {
            InvalidOperation::OwnGate
        } else {
            InvalidOperation::OwnClaim
        })
    }

    /// Whether the caller runs in the turn of this lane, by the waker it is polled with: whoever then waits for
    /// the lane waits for itself (EX-154). Work that a handler started elsewhere is not part of its turn (EX-366), and
    /// what a handler polls with a waker of its own is not recognized.
    ///
    /// # Cancel safety
    /// It changes nothing and never waits.
    pub async fn runs_caller(&self) -> bool {
        poll_fn(|cx| {
            let polled = Polled::by(cx.waker());
            Poll::Ready(self.core.is_run_by(polled))
        })
        .await
    }

    async fn answer(
        &self,
        answer: Answer<Result<O::Reply, AskError>>,
    ) -> Result<O::Reply, AskError> {
        match answer.await {
            Some(outcome) => outcome,
            // The item ended without a turn: the host stopped, or the object moved or ended.
            None if self.core.shared().is_stopping() => Err(AskError::ShuttingDown),
            None => Err(AskError::Unavailable),
        }
    }

    /// Whether `turn` is a turn of this lane.
    pub fn is_current<T: Owner>(&self, turn: &Turn<'_, T>) -> bool {
        turn.core.id == self.core.id
    }

    /// Refuses new work from now on and finishes what was accepted (EX-74). Calls that wait for room end
    /// as unavailable (EX-112). A lane that is sealed for a move stays as it is, see
    /// [`Lane::try_close`].
    pub fn close(&self) {
        // Whoever wants to know asks with `try_close`.
        self.try_close().ok();
    }

    /// As [`Lane::close`], and tells when that is not possible. A seal that was only requested is
    /// withdrawn.
    ///
    /// # Errors
    /// [`Refusal::Sealed`]: the object is being moved, and nothing changed (EX-113).
    pub fn try_close(&self) -> Result<(), Refusal> {
        self.core.close()
    }

    /// Completes when nothing is queued, running, parked or suspended (EX-74): never in a turn of this lane, see
    /// [`Lane::runs_caller`].
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn await_quiescence(&self) {
        while let Some(quiet) = Arc::clone(&self.core).quiet() {
            // The sender goes away only with the lane's work; then the next look says so.
            drop(quiet.await);
        }
    }

    /// How many application items were accepted and have not ended, and their charge in bytes.
    pub fn application_usage(&self) -> Usage {
        let mut inner = self.core.lock();
        self.core.settle(&mut inner);
        let fixed = self.core.kind.limits.fixed_work_byte_cost;
        Usage {
            items: inner.ledger.used_items(),
            bytes: inner.ledger.used_bytes(fixed),
            accepted: inner.ledger.accepted,
        }
    }

    /// As [`Lane::application_usage`] for the lifecycle FIFO.
    pub fn lifecycle_usage(&self) -> Usage {
        let mut inner = self.core.lock();
        let fixed = self.core.kind.limits.fixed_work_byte_cost;
        let ledger = &inner.ext().lifecycle_ledger;
        Usage {
            items: ledger.used_items(),
            bytes: ledger.used_bytes(fixed),
            accepted: ledger.accepted,
        }
    }
}

/// What one FIFO of a lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Accepted items that have not ended: queued, running, parked and suspended ones (EX-94).
    pub items: u64,
    /// The sum of their charges, in bytes (EX-93).
    pub bytes: u64,
    /// How many items this FIFO ever accepted: its accepted sequence (EX-95).
    pub accepted: u64,
}

impl<O: Owner> Clone for Lane<O> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<O: Owner> fmt::Debug for Lane<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
