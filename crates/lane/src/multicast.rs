//! Logical multicast to objects of this host: a set of lanes that is fixed before anything is tried, and one payload for
//! all of them (EX-278, EX-326).
//!
//! A [`Multicast`] that was not started is a value like any other: dropping it, or the wait for a slot, cancels it and
//! nothing was tried. [`MulticastSlots::start`] fixes the slot and the start in one step (EX-305); the caller's operation is
//! complete with that, whatever becomes of the targets. What is left, [`StartedMulticast`], belongs to a task of the host.

use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::error::{AskError, Refusal};
use crate::jobs::{JobPermit, JobQueue, JobQueueError, JobQueueSettings, JobSource};
use crate::lane::Lane;
use crate::owner::Owner;
use crate::queue::Work;
use crate::reply::{self, Answer};
use crate::submit;

/// What one target has of the payload of a multicast: a look at it, and no copy (EX-326).
///
/// The multicast lets the payload go after the last of its targets has ended. A handler that keeps its share longer keeps
/// the payload as well.
pub struct Share<P> {
    payload: Arc<P>,
}

impl<P> Deref for Share<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.payload
    }
}

/// A multicast that has not started.
///
/// The targets are those that were given here; a lane that matches later is none (EX-278). It is started once:
///
/// ```compile_fail,E0382
/// // EX-278: each target is tried once, so nothing starts twice.
/// use spotlane_lane::{Multicast, MulticastSlots, Owner};
/// async fn twice<O: Owner, P: Send + Sync + 'static>(slots: &MulticastSlots, all: Multicast<O, P>) {
///     let _one = slots.start(all).await;
///     let _two = slots.start(all).await;
/// }
/// ```
///
/// # Example
///
/// ```
/// # use std::{num::{NonZeroU32, NonZeroUsize}, sync::Arc};
/// # use spotlane_lane::*;
/// struct Seat;
/// impl Owner for Seat {
///     type Policy = ActorDelivery;
///     type Waits = KeepGate;
///     type Item = Share<String>;
///     type Reply = ();
///     async fn handle(_: &mut Turn<'_, Self>, news: Share<String>) -> Result<(), HandlerError> {
///         assert_eq!(*news, "the show begins");
///         Ok(())
///     }
/// }
/// # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
/// # runtime.block_on(async {
/// # let clock = Arc::new(|| Monotonic::ORIGIN);
/// # let engine = Engine::start(&tokio::runtime::Handle::current(), NonZeroUsize::MIN, clock);
/// let seats = engine.kind(LaneLimits::DEFAULT, GateUse::Own);
/// let row = [seats.lane(Seat), seats.lane(Seat)];
/// let jobs = JobQueue::new(JobQueueSettings::manual(1)?);
/// let slots = MulticastSlots::new(NonZeroU32::MIN)?;
///
/// let news = Multicast::new(row, "the show begins".to_owned(), 15, |share| share);
/// let started = slots.start(news).await;
/// // The caller's operation is complete. The rest is done by a task of the host.
/// let delivered = started.deliver(&mut jobs.source(), std::future::pending::<()>).await;
/// assert_eq!(delivered.report().accepted, 2);
/// assert_eq!(delivered.ended().await.failed, 0);
/// # Ok::<(), JobQueueError>(()) }).unwrap();
/// ```
#[must_use]
pub struct Multicast<O: Owner, P> {
    targets: Vec<Lane<O>>,
    payload: Arc<P>,
    payload_bytes: u64,
    item: fn(Share<P>) -> O::Item,
}

impl<O: Owner, P: Send + Sync + 'static> Multicast<O, P> {
    /// Fixes the targets, in the order in which they are tried, and their payload, of which each target is charged
    /// `payload_bytes` (EX-93). `item` makes the item of one target, once its permit is there.
    pub fn new(
        targets: impl IntoIterator<Item = Lane<O>>,
        payload: P,
        payload_bytes: u64,
        item: fn(Share<P>) -> O::Item,
    ) -> Self {
        Self {
            targets: targets.into_iter().collect(),
            payload: Arc::new(payload),
            payload_bytes,
            item,
        }
    }
}

/// How many multicasts of a host deliver at a time.
#[derive(Clone, Debug)]
pub struct MulticastSlots {
    slots: JobQueue,
}

impl MulticastSlots {
    /// # Errors
    /// More than 2^31 - 1 slots; fix the setting.
    pub fn new(slots: NonZeroU32) -> Result<Self, JobQueueError> {
        let settings = JobQueueSettings::manual(u64::from(slots.get()))?;
        Ok(Self {
            slots: JobQueue::new(settings),
        })
    }

    /// Waits for a slot, in order with the others, and starts: from then on nothing takes the multicast back (EX-305). Also
    /// one without targets starts.
    ///
    /// # Cancel safety
    /// Dropped before it completed, the multicast has not started and no target was tried; a slot that was handed over in
    /// that moment goes to the next one.
    pub async fn start<O: Owner, P>(&self, multicast: Multicast<O, P>) -> StartedMulticast<O, P> {
        let mut source = self.slots.source();
        // Nothing is awaited between the slot and the start, so there is no state with one of them only.
        let slot = source.reserve().await;
        StartedMulticast { multicast, slot }
    }

    /// How many multicasts have a slot.
    pub fn in_use(&self) -> u32 {
        let status = self.slots.status();
        status.reserved + status.queued
    }
}

/// A multicast that has started. It belongs to a task of the host, which delivers it.
#[must_use = "a started multicast is delivered by whoever owns it"]
pub struct StartedMulticast<O: Owner, P> {
    multicast: Multicast<O, P>,
    slot: JobPermit,
}

impl<O: Owner, P: Send + Sync + 'static> StartedMulticast<O, P> {
    /// Tries every target once, in their order. A permit of `source` is taken for one target at a time, and nothing is made
    /// for a target before it has its own (EX-126). A target without room is waited for until the future that `expire` makes
    /// for it is ready (EX-267). What a target answers, or why it refused, is recorded and changes nothing for the others.
    ///
    /// Waits for permits, so it must not be awaited with a gate or claim in hand (EX-129).
    ///
    /// # Cancel safety
    /// For the end of the host: dropped in the middle, accepted targets run, and the others are not tried any more.
    pub async fn deliver<F: Future<Output = ()>>(
        self,
        source: &mut JobSource,
        mut expire: impl FnMut() -> F,
    ) -> DeliveredMulticast<O, P> {
        let Self { multicast, slot } = self;
        let Multicast {
            targets,
            payload,
            payload_bytes,
            item,
        } = multicast;
        let mut tries = Tries::of(targets.len());
        let mut answers = Vec::with_capacity(targets.len());
        while let Some(target) = tries.next().and_then(|at| targets.get(at)) {
            let mut given = None;
            let make = || {
                let (reply, answer) = reply::slot_of_wanted();
                let share = Share {
                    payload: Arc::clone(&payload),
                };
                given = Some(answer);
                Work {
                    item: item(share),
                    payload_bytes,
                    reply,
                    permit: None,
                }
            };
            let outcome = {
                let mut offer = pin!(submit::job_of(&target.core, source, payload_bytes, make));
                let mut expired = pin!(expire());
                poll_fn(|cx| match offer.as_mut().poll(cx) {
                    Poll::Ready(outcome) => Poll::Ready(outcome),
                    Poll::Pending => {
                        let expired = expired.as_mut().poll(cx);
                        expired.map(|()| Err(Refusal::DeadlineExceeded))
                    }
                })
                .await
            };
            tries.ended(&outcome);
            if outcome.is_ok() {
                answers.extend(given);
            }
        }
        drop(slot);
        DeliveredMulticast {
            payload,
            answers,
            report: tries.report,
        }
    }
}

/// A multicast all of whose targets were tried.
#[must_use = "keeps the payload until its targets have ended"]
pub struct DeliveredMulticast<O: Owner, P> {
    payload: Arc<P>,
    answers: Vec<Answer<Result<O::Reply, AskError>>>,
    report: MulticastReport,
}

impl<O: Owner, P> DeliveredMulticast<O, P> {
    /// What became of the tries; the targets may not have run yet.
    pub const fn report(&self) -> MulticastReport {
        self.report
    }

    /// Waits until the last accepted target has ended, its reply included, and lets the payload go then (EX-326).
    ///
    /// # Cancel safety
    /// Dropped before, accepted targets still run; the payload goes with the last of them.
    pub async fn ended(self) -> MulticastReport {
        let Self {
            payload,
            answers,
            mut report,
        } = self;
        for answer in answers {
            if !matches!(answer.await, Some(Ok(_))) {
                report.failed += 1;
            }
        }
        drop(payload);
        report
    }
}

/// What became of the targets. Recorded for the host; none of it is a result of the multicast (EX-278).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MulticastReport {
    /// Targets whose lane took their item.
    pub accepted: usize,
    /// Targets that refused it, those without room in time included.
    pub refused: usize,
    /// Accepted targets whose handler failed or never ran; known when all have ended.
    pub failed: usize,
}

/// Which target is tried next: each of a fixed number once, in order.
struct Tries {
    next: usize,
    targets: usize,
    report: MulticastReport,
}

impl Tries {
    fn of(targets: usize) -> Self {
        Self {
            next: 0,
            targets,
            report: MulticastReport::default(),
        }
    }

    fn next(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.targets).then(|| {
            self.next += 1;
            at
        })
    }

    fn ended(&mut self, outcome: &Result<(), Refusal>) {
        match outcome {
            Ok(()) => self.report.accepted += 1,
            Err(_) => self.report.refused += 1,
        }
    }
}

impl<P: fmt::Debug> fmt::Debug for Share<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.payload).finish()
    }
}

impl<O: Owner, P> fmt::Debug for Multicast<O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multicast")
            .field("targets", &self.targets.len())
            .finish_non_exhaustive()
    }
}

impl<O: Owner, P> fmt::Debug for StartedMulticast<O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StartedMulticast")
            .field(&self.multicast)
            .finish()
    }
}

impl<O: Owner, P> fmt::Debug for DeliveredMulticast<O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveredMulticast")
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EX-278: each target once and in order, whatever became of the one before; none at all is fine.
    #[test]
    fn each_target_is_tried_once() {
        let mut tries = Tries::of(3);
        for at in 0..3 {
            assert_eq!(tries.next(), Some(at));
            let outcome = if at == 1 { Err(Refusal::Ended) } else { Ok(()) };
            tries.ended(&outcome);
        }
        assert_eq!((tries.next(), tries.next()), (None, None));
        assert_eq!((tries.report.accepted, tries.report.refused), (2, 1));
        assert_eq!(Tries::of(0).next(), None);
    }
}
