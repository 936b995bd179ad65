//! What a thread knows about the workers that were polled on it: hints, and nothing more. No result
//! depends on them, only how far a gate travels and whether a thread is asked to hand something over.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use threads::{enter, leave, let_others_run, woken, worker};

#[cfg(any(loom, shuttle))]
pub(crate) use models::{enter, leave, let_others_run, woken, worker};

use std::task::Waker;

/// Another worker that this thread was to poll, and which must not wait for what is polled now.
#[derive(Debug)]
#[cfg_attr(
    any(loom, shuttle),
    expect(dead_code, reason = "a model has no threads that keep workers back")
)]
pub(crate) enum Stranded {
    Nobody,
    /// Possibly in the place for the task that was woken last, which no other thread takes from.
    Woken,
    /// Among the tasks that come back once this thread has nothing else to do. Waking it again
    /// makes it a [`Stranded::Woken`].
    Deferred(Waker),
}

#[cfg(not(any(loom, shuttle)))]
mod threads {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::Stranded;

    /// A worker of a ready set, which is told apart from those of other engines by its address.
    type Place = (usize, usize);

    struct Here {
        /// Who was polled last.
        last: Cell<Place>,
        polling: Cell<bool>,
        /// Who was woken from this thread, outside of a poll, since a worker was polled on it.
        woken: Cell<Option<Place>>,
        deferred: Cell<bool>,
    }

    thread_local! {
        static HERE: Here = const {
            Here {
                last: Cell::new((0, 0)),
                polling: Cell::new(false),
                woken: Cell::new(None),
                deferred: Cell::new(false),
            }
        };
        static DEFERRED: Cell<Option<Waker>> = const { Cell::new(None) };
    }

    /// The worker of this set that was polled last on this thread.
    #[inline]
    pub(crate) fn worker(set: usize) -> Option<usize> {
        // A thread that is ending has no use for a hint, here and below.
        let (of, worker) = HERE.try_with(|here| here.last.get()).unwrap_or((0, 0));
        (of == set).then_some(worker)
    }

    /// The poll of a worker begins.
    pub(crate) fn enter(set: usize, worker: usize, waker: &Waker) -> Stranded {
        let place = (set, worker);
        let entered = HERE.try_with(|here| {
            here.last.set(place);
            here.polling.set(true);
            let woken = here.woken.take().is_some_and(|woken| woken != place);
            (here.deferred.take(), woken)
        });
        let (deferred, woken) = entered.unwrap_or((false, false));
        let deferred = if deferred {
            DEFERRED.try_with(Cell::take).ok().flatten()
        } else {
            None
        };
        match deferred {
            Some(other) if !other.will_wake(waker) => Stranded::Deferred(other),
            _ if woken => Stranded::Woken,
            _ => Stranded::Nobody,
        }
    }

    /// The poll of a worker is over.
    pub(crate) fn leave() {
        HERE.try_with(|here| here.polling.set(false)).ok();
    }

    /// A worker was woken here. Whether that happened in the poll of a worker, so that this thread
    /// may not come to the woken one for long.
    pub(crate) fn woken(set: usize, worker: usize) -> bool {
        let noted = HERE.try_with(|here| {
            let polling = here.polling.get();
            if !polling {
                here.woken.set(Some((set, worker)));
            }
            polling
        });
        noted.unwrap_or(false)
    }

    /// Has this task polled again after the other tasks of its thread and the I/O driver had their turn.
    pub(crate) fn let_others_run(cx: &mut Context<'_>) {
        if pin!(tokio::task::yield_now()).poll(cx).is_pending() {
            defer(cx.waker());
        } else {
            cx.waker().wake_by_ref();
        }
    }

    /// The worker comes back when this thread has nothing else to do.
    fn defer(waker: &Waker) {
        let kept = DEFERRED.try_with(|deferred| deferred.set(Some(waker.clone())));
        if kept.is_ok() {
            HERE.try_with(|here| here.deferred.set(true)).ok();
        }
    }
}

/// The model checkers run all threads of a model on one thread.
#[cfg(any(loom, shuttle))]
mod models {
    use std::task::{Context, Waker};

    use super::Stranded;

    pub(crate) fn let_others_run(cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    pub(crate) fn worker(_: usize) -> Option<usize> {
        None
    }

    pub(crate) fn enter(_: usize, _: usize, _: &Waker) -> Stranded {
        Stranded::Nobody
    }

    pub(crate) fn leave() {}

    pub(crate) fn woken(_: usize, _: usize) -> bool {
        false
    }
}
