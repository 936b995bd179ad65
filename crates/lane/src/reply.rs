//! The way back of one awaited call: a slot for the answer and the waker of whoever waits for it.
//!
//! It differs from a oneshot channel of the runtime in that the waker is there before the item is
//! submitted, so the caller need not be polled a second time only to leave it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::carrier::Polled;
use crate::sync::Mutex;

enum State<T> {
    Waiting(Option<Waker>),
    /// As `Waiting`, and it counts as wanted whether or not somebody still waits. The slot holds itself until the item ends.
    Wanted(
        Option<Waker>,
        #[expect(dead_code, reason = "it is held, and never looked at")] Arc<Slot<T>>,
    ),
    Answered(T),
    /// The item ended without an answer, or the answer was taken.
    Over,
}

struct Slot<T>(Mutex<State<T>>);

/// Goes with the item. Dropped without an answer, it ends the call, if there is one.
pub(crate) struct Reply<T>(Option<Arc<Slot<T>>>);

/// Stays with the caller. Dropped, it tells that nobody waits any more.
pub(crate) struct Answer<T> {
    slot: Option<Arc<Slot<T>>>,
    /// The waker was left in this very poll of the caller, so there is no need to look yet.
    fresh: bool,
}

/// Both ends for an item whose end may be waited for, and which runs also if it is not (EX-300).
pub(crate) fn slot_of_wanted<T>() -> (Reply<T>, Answer<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Waiting(None))));
    *slot.0.lock() = State::Wanted(None, Arc::clone(&slot));
    let reply = Reply(Some(Arc::clone(&slot)));
    let answer = Answer {
        slot: Some(slot),
        fresh: false,
    };
    (reply, answer)
}

/// Both ends; `waker` is that of the poll in which the caller goes on to wait.
fn slot<T>(waker: Waker) -> (Reply<T>, Answer<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Waiting(Some(waker)))));
    let reply = Reply(Some(Arc::clone(&slot)));
    let answer = Answer {
        slot: Some(slot),
        fresh: true,
    };
    (reply, answer)
}

/// As [`slot`], with the waker of the poll that makes it, and whose poll that is.
pub(crate) async fn slot_here<T>() -> (Reply<T>, Answer<T>, Polled) {
    poll_fn(|cx| {
        let (reply, answer) = slot(cx.waker().clone());
        Poll::Ready((reply, answer, Polled::by(cx.waker())))
    })
    .await
}

impl<T> Reply<T> {
    /// Of work that nobody waits for.
    pub(crate) const fn to_nobody() -> Self {
        Self(None)
    }

    /// Whether somebody asked, who may have given up since.
    #[inline]
    pub(crate) fn is_expected(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the caller gave up.
    #[inline]
    pub(crate) fn is_unwanted(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|slot| Arc::strong_count(slot) == 1)
    }

    /// Gives the answer; gives it back when nobody waits for it.
    #[inline]
    pub(crate) fn answer(mut self, answer: T) -> Option<T> {
        let Some(slot) = self.0.take() else {
            return Some(answer);
        };
        let before = std::mem::replace(&mut *slot.0.lock(), State::Answered(answer));
        // Let go of before the caller is woken, so that it finds the slot its own and needs no lock.
        let unwanted = Arc::into_inner(slot).map(|slot| slot.0.into_inner());
        if let State::Waiting(Some(waker)) | State::Wanted(Some(waker), _) = before {
            waker.wake();
        }
        match unwanted? {
            State::Answered(answer) => Some(answer),
            State::Waiting(_) | State::Wanted(..) | State::Over => None,
        }
    }
}

impl<T> Drop for Reply<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            end_unanswered(&slot);
        }
    }
}

#[cold]
fn end_unanswered<T>(slot: &Slot<T>) {
    let before = std::mem::replace(&mut *slot.0.lock(), State::Over);
    if let State::Waiting(Some(waker)) | State::Wanted(Some(waker), _) = before {
        waker.wake();
    }
}

impl<T> Answer<T> {
    /// Something was waited for since the slot was made.
    pub(crate) fn look_at_once(mut self) -> Self {
        self.fresh = false;
        self
    }
}

impl<T> Future for Answer<T> {
    /// `None` when the item ended without an answer.
    type Output = Option<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if std::mem::take(&mut self.fresh) {
            return Poll::Pending;
        }
        let Some(slot) = &self.slot else {
            return Poll::Ready(None);
        };
        if Arc::strong_count(slot) == 1 {
            let state = self.slot.take().and_then(Arc::into_inner);
            return Poll::Ready(match state.map(|slot| slot.0.into_inner()) {
                Some(State::Answered(answer)) => Some(answer),
                Some(State::Waiting(_) | State::Wanted(..) | State::Over) | None => None,
            });
        }
        let mut state = slot.0.lock();
        if let State::Waiting(waker) | State::Wanted(waker, _) = &mut *state {
            if waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            let old = waker.replace(cx.waker().clone());
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Poll::Ready(Some(answer)),
            State::Waiting(_) | State::Wanted(..) | State::Over => Poll::Ready(None),
        }
    }
}
