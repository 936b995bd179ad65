//! Joins: an Actor asks, from inside of a handler, to move into another Entry Spot (RL-141 to RL-149).
//!
//! A Join is recorded in the handler and becomes the barrier of the Actor's queue when the handler ends well. The barrier
//! stays closed while the Actor moves; what was accepted meanwhile waits behind it and moves too (RL-149).

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::BarrierHold;
use spotlane_types::id::{NodeRid, OperationId};

use crate::actor::ActorRef;
use crate::cell::{Cell, Work};
use crate::clock::Deadline;
use crate::context::Context;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::in_flight::One;
use crate::payload::{IntoPayload, Payload};
use crate::relocation::{begin_join, pick_target};
use crate::slots::Live;

/// RL-142: how long a Join may take unless it says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// RL-142: the longest time that a Join may say, in milliseconds.
const TIMEOUT_MAX_MS: u128 = (1 << 31) - 1;
/// RL-142: the largest request of a Join.
const REQUEST_MAX: usize = 1024 * 1024;

/// What became of a Join (RL-141).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-141")]
pub enum JoinOutcome {
    /// The Actor is a member where it wanted to be; this is said there.
    Accepted {
        /// The Actor at its place.
        actor: ActorRef,
        /// What the Spot answered; an Entry Spot answers nothing.
        reply: Option<Payload>,
    },
    /// The Spot said no; an Entry Spot never does. The Actor is where it was.
    Rejected {
        /// What the Spot answered.
        reply: Option<Payload>,
    },
    /// It came to nothing, and the Actor is where it was (RL-147).
    Failed(ErrorKind),
}

/// A Join into an Entry Spot that is not recorded yet. Made by [`Context::join_entry_spot`].
#[must_use = "nothing happens before `defer`"]
pub struct JoinCall<'a> {
    context: &'a mut Context,
    target: Option<NodeRid>,
    timeout: Duration,
    request: Option<Payload>,
    fault: Option<Error>,
}

impl<'a> JoinCall<'a> {
    pub(crate) fn new(context: &'a mut Context) -> Self {
        Self {
            context,
            target: None,
            timeout: TIMEOUT_DEFAULT,
            request: None,
            fault: None,
        }
    }

    /// Names the node whose Entry Spot it shall be. Its own node is the trivial Join: accepted, and nothing moves (RL-59).
    pub fn to(mut self, node: &NodeRid) -> Self {
        self.target = Some(node.clone());
        self
    }

    /// How long it may take, counted from [`JoinCall::defer`]: 1 to 2^31 - 1 ms, 5 s unless said. A fraction of a
    /// millisecond is rounded up (RL-142).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a request of at most 1 MiB. An Entry Spot has no approval (RL-143), so nobody reads it there.
    pub fn request(mut self, request: impl IntoPayload) -> Self {
        match request.into_payload() {
            Ok(request) => self.request = Some(request),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// Records the Join (RL-141) and returns at once (EX-262). No look-up and no I/O: when the handler has ended well the Actor moves, and
    /// [`Actor::on_join_completed`](crate::Actor::on_join_completed) says what became of it. When the handler fails,
    /// panics or is cancelled, the Join is discarded without a word.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOperation`]: the place is a lifecycle callback, or a value is out of its range.
    /// [`ErrorKind::Unavailable`]: the Actor has a Join already, moves or ends. Nothing is recorded then.
    pub fn defer(self) -> Result<(), Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let timeout = checked_timeout(self.timeout)?;
        let size = self.request.as_ref().map_or(0, Payload::len);
        if size > REQUEST_MAX {
            return Err(Error::invalid(format!(
                "the request of a join has {size} bytes, at most {REQUEST_MAX} are allowed"
            )));
        }
        if matches!(self.context.joins(), Joins::WrongPlace) {
            return Err(Error::invalid(
                "a join is recorded in a handler of a message or timer only",
            ));
        }
        let core = Arc::clone(self.context.core());
        let unit = self.context.unit();
        let live = core.slots.live(unit.id());
        let live = live.filter(|live| Arc::ptr_eq(&live.unit, unit));
        let order = JoinOrder {
            _one: core.joins.begin(),
            claim: Claim::take(live)?,
            target: self.target,
            operation: core.ids.operation(),
            deadline: core.deadline(timeout),
        };
        *self.context.joins() = Joins::Allowed(Some(Box::new(order)));
        Ok(())
    }
}

/// RL-142: whole milliseconds in their range.
fn checked_timeout(timeout: Duration) -> Result<Duration, Error> {
    let ms = timeout.as_nanos().div_ceil(1_000_000);
    if ms == 0 || ms > TIMEOUT_MAX_MS {
        return Err(Error::invalid(format!(
            "the timeout of a join is {ms} ms, must be 1 to {TIMEOUT_MAX_MS}"
        )));
    }
    Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX)))
}

/// What a context knows about the Join of its handler: at most one, since a second one finds the Actor in transition.
#[derive(Debug)]
pub(crate) enum Joins {
    /// A lifecycle callback.
    WrongPlace,
    /// A handler, and what it has recorded.
    Allowed(Option<Box<JoinOrder>>),
}

impl Joins {
    /// What was recorded.
    pub(crate) fn take(&mut self) -> Option<Box<JoinOrder>> {
        match self {
            Self::WrongPlace => None,
            Self::Allowed(order) => mem::take(order),
        }
    }
}

/// A recorded Join. Dropping it discards the Join.
#[derive(Debug)]
pub(crate) struct JoinOrder {
    /// Keeps a shutdown waiting for the end of the Join (RL-148).
    _one: One,
    claim: Claim,
    target: Option<NodeRid>,
    operation: OperationId,
    deadline: Deadline,
}

/// The right to move the Actor, from `defer` to the end of the Join (RL-148); given back when it is dropped.
struct Claim(Arc<Live>);

impl Claim {
    fn take(live: Option<Arc<Live>>) -> Result<Self, Error> {
        match live {
            Some(live) if live.begin_join() => Ok(Self(live)),
            _ => Err(Error::unavailable(
                "the actor has a join already, or is being moved or destroyed",
            )),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let core = self.0.unit.core();
        let lives_here = core.is_some_and(|core| self.0.is_in(&core.slots));
        self.0.end_join(lives_here);
    }
}

/// The barrier has come to its turn: carries the Join out, with the queue closed until its end.
pub(crate) fn start(core: &Arc<Core>, order: Box<JoinOrder>, hold: BarrierHold<Cell>) {
    let task = Arc::clone(core);
    core.tasks.spawn(async move {
        let live = Arc::clone(&order.claim.0);
        if let Some(outcome) = carry_out(&task, &live, &order).await {
            let completed = live.lane.ask_lifecycle(Work::JoinCompleted(outcome));
            if let Err(error) = completed.await {
                tracing::warn!(target: "spotlane::runtime::relocation", %error, "the completion of a join failed");
            }
        }
        // The next handler may join again, so the right comes back before the queue opens.
        drop(order);
        drop(hold);
    });
}

/// What is to be said here; `None` when the Actor has left, and the target says it (RL-70).
async fn carry_out(core: &Arc<Core>, live: &Arc<Live>, order: &JoinOrder) -> Option<JoinOutcome> {
    match join(core, live, order).await {
        Ok(Joined::Here) => Some(JoinOutcome::Accepted {
            actor: live.unit.reference.clone(),
            reply: None,
        }),
        Ok(Joined::There) => None,
        Err(error) => {
            tracing::debug!(target: "spotlane::runtime::relocation", %error, "a join failed");
            live.is_in(&core.slots)
                .then_some(JoinOutcome::Failed(error.kind()))
        }
    }
}

enum Joined {
    /// RL-59: it was there already.
    Here,
    There,
}

async fn join(core: &Arc<Core>, live: &Arc<Live>, order: &JoinOrder) -> Result<Joined, Error> {
    if order.deadline.left().is_none() {
        return Err(Error::deadline(
            "the time of the join was over when its handler ended",
        ));
    }
    let target = if let Some(target) = &order.target {
        target.clone()
    } else {
        let version = core.settings.all.application_version;
        pick_target(core, &live.unit.actor_type.name, version)
            .ok_or_else(|| Error::unavailable("no other node takes actors of this type"))?
    };
    let moving = begin_join(core, live, &target, order.operation, order.deadline);
    match moving.await? {
        None => Ok(Joined::Here),
        Some(moving) => moving.done().await.map(|()| Joined::There),
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.0.unit).finish()
    }
}

impl fmt::Debug for JoinCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinCall")
            .field("target", &self.target)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-142
    #[test]
    fn a_timeout_is_rounded_up_to_milliseconds_in_its_range() {
        let ms = Duration::from_millis;
        assert_eq!(checked_timeout(Duration::from_nanos(1)).unwrap(), ms(1));
        assert_eq!(
            checked_timeout(ms((1 << 31) - 1)).unwrap(),
            ms((1 << 31) - 1)
        );
        for refused in [Duration::ZERO, ms(1 << 31)] {
            let error = checked_timeout(refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOperation);
        }
    }
}
