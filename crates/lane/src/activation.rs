//! One-way work for an object that is being activated: held, in order, until the object is there, or dropped when the
//! activation ends without it (EX-308).

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use thiserror::Error;

use crate::error::{Fifo, Refusal, Refused};
use crate::lane::Lane;
use crate::limits::LaneLimits;
use crate::owner::Owner;
use crate::queue::Ledger;
use crate::sync::Mutex;

/// Why an activation ended without its object. What was held is dropped, once.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ActivationError<E> {
    /// The activation deadline passed first.
    #[error("the activation deadline passed, {dropped} held items were dropped")]
    DeadlineExceeded {
        /// One-way items that were held.
        dropped: usize,
    },
    /// The host drains.
    #[error("the host is shutting down, {dropped} held items were dropped")]
    ShuttingDown {
        /// One-way items that were held.
        dropped: usize,
    },
    /// The object could not be made.
    #[error("the object was not activated, {dropped} held items were dropped")]
    Failed {
        /// One-way items that were held.
        dropped: usize,
        /// What making it reported.
        #[source]
        cause: E,
    },
}

/// Makes both halves of one activation: who sends work to the object, and who activates it.
///
/// As much is held as the application FIFO of the object would take (EX-90, EX-93).
pub fn activation<O: Owner>(limits: LaneLimits) -> (Pending<O>, Activation<O>) {
    let hold = Arc::new(Mutex::new(Hold::Waiting(Held::default())));
    let pending = Pending {
        hold: Arc::clone(&hold),
        limits,
    };
    (pending, Activation { hold })
}

/// The sending half: takes one-way work for an object that may not be there yet. Cloning is cheap.
pub struct Pending<O: Owner> {
    hold: Arc<Mutex<Hold<O>>>,
    limits: LaneLimits,
}

impl<O: Owner> Pending<O> {
    /// Offers one one-way item: held while the object is being activated, handed to its lane afterwards, never in front of
    /// what was held before. One attempt that never waits.
    ///
    /// # Errors
    /// Gives the item back: no room, or the activation ended, with the reason it ended for. Otherwise as [`Lane::enqueue`].
    pub fn offer(&self, item: O::Item, payload_bytes: u64) -> Result<(), Refused<O::Item>> {
        let offered = self.hold.lock().offer(item, payload_bytes, self.limits);
        match offered {
            Offered::Held => Ok(()),
            Offered::Refused(reason, item) => Err(Refused { item, reason }),
            Offered::Pass(lane, item) => lane.enqueue_with_payload_bytes(item, payload_bytes),
        }
    }
}

/// The activating half. It is run once, so an activation cannot end twice:
///
/// ```compile_fail,E0382
/// // EX-308: an activation ends once.
/// use std::future::{pending, ready};
/// use spotlane_lane::{Activation, Lane, Owner};
/// async fn twice<O: Owner>(activation: Activation<O>) {
///     let make = || pending::<Result<Lane<O>, ()>>();
///     let _one = activation.run(make(), ready(()), pending()).await;
///     let _two = activation.run(make(), ready(()), pending()).await;
/// }
/// ```
///
/// Dropped without having run, it ends the activation.
#[must_use]
pub struct Activation<O: Owner> {
    hold: Arc<Mutex<Hold<O>>>,
}

impl<O: Owner> Activation<O> {
    /// Makes the object and hands it what was held, in order. The activation ends at whatever comes first: the object, the
    /// host's `drain`, or the activation `deadline` (EX-308). An object that is there in the very moment of one of the two is
    /// too late.
    ///
    /// # Errors
    /// See [`ActivationError`]; the held work was dropped, and later offers are refused.
    ///
    /// # Cancel safety
    /// Dropped before it completed, the activation has ended, and what was held is dropped.
    pub async fn run<E>(
        self,
        make: impl Future<Output = Result<Lane<O>, E>>,
        deadline: impl Future<Output = ()>,
        drain: impl Future<Output = ()>,
    ) -> Result<Lane<O>, ActivationError<E>> {
        let (mut make, mut deadline, mut drain) = (pin!(make), pin!(deadline), pin!(drain));
        let event = poll_fn(|cx| {
            if drain.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Drain);
            }
            if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Deadline);
            }
            make.as_mut().poll(cx).map(Event::Made)
        })
        .await;
        match event {
            Event::Made(Ok(lane)) => {
                self.open(&lane);
                Ok(lane)
            }
            Event::Made(Err(cause)) => {
                let dropped = self.end(Refusal::Ended);
                Err(ActivationError::Failed { dropped, cause })
            }
            Event::Deadline => {
                let dropped = self.end(Refusal::DeadlineExceeded);
                Err(ActivationError::DeadlineExceeded { dropped })
            }
            Event::Drain => {
                let dropped = self.end(Refusal::ShuttingDown);
                Err(ActivationError::ShuttingDown { dropped })
            }
        }
    }

    /// Hands over what is held, with no lock around the lane; the last look, which finds nothing, lets offers through.
    fn open(&self, lane: &Lane<O>) {
        loop {
            let held = self.hold.lock().take(lane);
            let Some(held) = held else { return };
            for (item, payload_bytes) in held {
                // Accounted and not refused for want of room (EX-98): it was accepted here. A lane that ended drops it.
                drop(lane.transfer(item, payload_bytes));
            }
        }
    }

    /// Ends what still waits; how many items that dropped. They are dropped with no lock held (EX-360).
    fn end(&self, reason: Refusal) -> usize {
        let held = self.hold.lock().end(reason);
        held.map_or(0, |held| held.items.len())
    }
}

impl<O: Owner> Drop for Activation<O> {
    fn drop(&mut self) {
        self.end(Refusal::Ended);
    }
}

enum Event<O: Owner, E> {
    Made(Result<Lane<O>, E>),
    Deadline,
    Drain,
}

/// What is held, counted as a FIFO counts.
struct Held<O: Owner> {
    items: VecDeque<(O::Item, u64)>,
    ledger: Ledger,
}

impl<O: Owner> Default for Held<O> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            ledger: Ledger::default(),
        }
    }
}

/// The one decision of an activation: Waiting → Open or Over, and no step back.
enum Hold<O: Owner> {
    Waiting(Held<O>),
    Open(Lane<O>),
    Over(Refusal),
}

enum Offered<O: Owner> {
    Held,
    Pass(Lane<O>, O::Item),
    Refused(Refusal, O::Item),
}

impl<O: Owner> Hold<O> {
    fn offer(&mut self, item: O::Item, payload_bytes: u64, limits: LaneLimits) -> Offered<O> {
        match self {
            Self::Waiting(held) => {
                let (limit, fixed) = (limits.application, limits.fixed_work_byte_cost);
                let charge = payload_bytes.saturating_add(fixed);
                if !held.ledger.fits(limit, fixed, charge) {
                    let reason = held.ledger.refusal(Fifo::Application, limit, fixed, charge);
                    return Offered::Refused(reason, item);
                }
                held.ledger.accept(payload_bytes);
                held.items.push_back((item, payload_bytes));
                Offered::Held
            }
            Self::Open(lane) => Offered::Pass(lane.clone(), item),
            Self::Over(reason) => Offered::Refused(reason.clone(), item),
        }
    }

    /// What is held, for the lane; without anything the hold is open from here on.
    fn take(&mut self, lane: &Lane<O>) -> Option<VecDeque<(O::Item, u64)>> {
        let Self::Waiting(held) = self else {
            return None;
        };
        if held.items.is_empty() {
            *self = Self::Open(lane.clone());
            return None;
        }
        Some(std::mem::take(held).items)
    }

    fn end(&mut self, reason: Refusal) -> Option<Held<O>> {
        if !matches!(self, Self::Waiting(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Over(reason)) {
            Self::Waiting(held) => Some(held),
            Self::Open(_) | Self::Over(_) => None,
        }
    }
}

impl<O: Owner> Clone for Pending<O> {
    fn clone(&self) -> Self {
        Self {
            hold: Arc::clone(&self.hold),
            limits: self.limits,
        }
    }
}

impl<O: Owner> fmt::Debug for Pending<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.hold.lock() {
            Hold::Waiting(_) => "waiting",
            Hold::Open(_) => "open",
            Hold::Over(_) => "over",
        };
        f.debug_tuple("Pending").field(&state).finish()
    }
}

impl<O: Owner> fmt::Debug for Activation<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation").finish_non_exhaustive()
    }
}
