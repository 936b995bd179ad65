//! Waiting for room: the slow half of a submit.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::core::{ATTENTION, Admission, After, Core, Line, Schedule, WAITING};
use crate::error::{Refusal, Refused};
use crate::jobs::JobSource;
use crate::owner::Owner;
use crate::queue::{Called, Entry, Place, WaitCell, WaitState, Waiter, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Application,
    Lifecycle,
}

/// Takes the place in line back when the waiting future is dropped (EX-301).
struct InLine<O: Owner> {
    core: Arc<Core<O>>,
    cell: Arc<WaitCell<O>>,
    wanted: Wanted,
}

impl<O: Owner> Drop for InLine<O> {
    fn drop(&mut self) {
        let mut after = After::default();
        let mut left = None;
        let mut inner = self.core.lock();
        if let Some(ext) = inner.ext.as_mut() {
            let line = match self.wanted {
                Wanted::Application => &mut ext.waiters,
                Wanted::Lifecycle => &mut ext.lifecycle_waiters,
            };
            if let Some(at) = line
                .iter()
                .position(|waiter| Arc::ptr_eq(&waiter.cell, &self.cell))
            {
                left = line.remove(at);
                // Whoever stands behind may fit where this one did not.
                self.core.settle(&mut inner);
                inner.serve_waiters(&self.core.kind, &mut after);
                after.schedule = self.core.make_ready_if_any(&mut inner);
            }
        }
        drop(inner);
        drop(left);
        after.run(&self.core);
    }
}

/// Gets in line with an item that found no room, and waits until it is accepted.
#[cold]
pub(crate) async fn wait<O: Owner>(
    core: &Arc<Core<O>>,
    reason: Refusal,
    work: Work<O>,
    wanted: Wanted,
) -> Result<(), Refused<O::Item>> {
    if !reason.is_full() {
        if reason == Refusal::ConnectionClosing {
            core.shared().stats.discarded();
        }
        return Err(Refused {
            item: work.item,
            reason,
        });
    }
    let cell = WaitCell::new();
    let place = Waiter {
        cell: Arc::clone(&cell),
        place: Place::Item(work),
    };
    match get_in_line(core, place, wanted) {
        Ok(()) => {}
        Err((reason, Place::Item(work))) => {
            return Err(Refused {
                item: work.item,
                reason,
            });
        }
        Err((_, Place::Reserved(..) | Place::Tick)) => return Ok(()),
    }
    let in_line = InLine {
        core: Arc::clone(core),
        cell,
        wanted,
    };
    let outcome = decided(&in_line.cell).await;
    match outcome {
        WaitState::Ended(reason, Some(work)) => Err(Refused {
            item: work.item,
            reason,
        }),
        _ => Ok(()),
    }
}

/// A tick found no room: `mark` stands in line for it and is woken, or dropped, once it leaves the line.
#[cold]
pub(crate) fn mark<O: Owner>(core: &Arc<Core<O>>, mark: Waker) {
    let waiter = Waiter {
        cell: WaitCell::new(),
        place: Place::Tick,
    };
    *waiter.cell.0.lock() = WaitState::Waiting(Some(mark));
    // Not taken in by a lane that ends: dropped here.
    drop(get_in_line(core, waiter, Wanted::Application));
}

async fn decided<O: Owner>(cell: &WaitCell<O>) -> WaitState<O> {
    poll_fn(|cx| {
        let mut state = cell.0.lock();
        match &mut *state {
            WaitState::Waiting(waker) => {
                let old = waker.replace(cx.waker().clone());
                drop(state);
                drop(old);
                Poll::Pending
            }
            decided => {
                // Whoever asks again finds a state that says so.
                Poll::Ready(std::mem::replace(decided, WaitState::Accepted))
            }
        }
    })
    .await
}

/// Joins the line, or is accepted at once when room became free meanwhile.
fn get_in_line<O: Owner>(
    core: &Arc<Core<O>>,
    waiter: Waiter<O>,
    wanted: Wanted,
) -> Result<(), (Refusal, Place<O>)> {
    let mut after = After::default();
    let mut inner = core.lock();
    let refusal = match (inner.admission, wanted) {
        (Admission::Open | Admission::Queueing, _)
        | (Admission::Held, Wanted::Application)
        | (Admission::ConnectionClosing, Wanted::Lifecycle) => None,
        (Admission::Held, Wanted::Lifecycle) => Some(Refusal::Sealed),
        (Admission::ConnectionClosing, Wanted::Application) => Some(Refusal::ConnectionClosing),
        (Admission::Closed | Admission::Ended, _) => Some(core.end_reason()),
    };
    if let Some(refusal) = refusal {
        drop(inner);
        return Err((refusal, waiter.place));
    }
    match wanted {
        Wanted::Application => {
            inner.ext().waiters.push_back(waiter);
            if inner.admission == Admission::Held {
                inner.hold_waiters(&mut after);
            } else {
                inner.admission = Admission::Queueing;
                core.signal(WAITING);
            }
        }
        Wanted::Lifecycle => {
            inner.ext().lifecycle_waiters.push_back(waiter);
            core.signal(ATTENTION);
        }
    }
    // The driver may have ended items since the refusal; after this span it sees the line itself.
    core.settle(&mut inner);
    if inner.admission != Admission::Held {
        inner.serve_waiters(&core.kind, &mut after);
        after.schedule = core.make_ready_if_any(&mut inner);
    }
    drop(inner);
    after.run(core);
    Ok(())
}

/// As [`wait`], ended by a deadline.
pub(crate) async fn within<O: Owner>(
    core: &Arc<Core<O>>,
    work: Work<O>,
    wanted: Wanted,
    timeout: Duration,
) -> Result<(), Refused<O::Item>> {
    let attempt = match wanted {
        Wanted::Application => core.submit(work),
        Wanted::Lifecycle => core.submit_lifecycle(work, Line::Normal),
    };
    let (reason, work) = match attempt {
        Ok(()) => return Ok(()),
        Err(refused) => refused,
    };
    if !reason.is_full() {
        return Err(Refused {
            item: work.item,
            reason,
        });
    }
    let cell = WaitCell::new();
    let place = Waiter {
        cell: Arc::clone(&cell),
        place: Place::Item(work),
    };
    if let Err((reason, Place::Item(work))) = get_in_line(core, place, wanted) {
        return Err(Refused {
            item: work.item,
            reason,
        });
    }
    let in_line = InLine {
        core: Arc::clone(core),
        cell,
        wanted,
    };
    let outcome = match tokio::time::timeout(timeout, decided(&in_line.cell)).await {
        Ok(outcome) => outcome,
        Err(_) => give_up(&in_line),
    };
    match outcome {
        WaitState::Ended(reason, Some(work)) => Err(Refused {
            item: work.item,
            reason,
        }),
        _ => Ok(()),
    }
}

/// EX-100: deadline first, so nothing is left behind; or the room came first after all.
fn give_up<O: Owner>(in_line: &InLine<O>) -> WaitState<O> {
    let mut after = After::default();
    let mut inner = in_line.core.lock();
    let found = inner.ext.as_mut().and_then(|ext| {
        let line = match in_line.wanted {
            Wanted::Application => &mut ext.waiters,
            Wanted::Lifecycle => &mut ext.lifecycle_waiters,
        };
        let at = line
            .iter()
            .position(|waiter| Arc::ptr_eq(&waiter.cell, &in_line.cell))?;
        line.remove(at)
    });
    if found.is_some() {
        in_line.core.settle(&mut inner);
        inner.serve_waiters(&in_line.core.kind, &mut after);
        after.schedule = in_line.core.make_ready_if_any(&mut inner);
    }
    drop(inner);
    after.run(&in_line.core);
    match found {
        Some(Waiter {
            place: Place::Item(work),
            ..
        }) => WaitState::Ended(Refusal::DeadlineExceeded, Some(work)),
        _ => std::mem::replace(&mut *in_line.cell.0.lock(), WaitState::Accepted),
    }
}

/// EX-102: room first, permit last, and the place in line is kept until both are there.
pub(crate) async fn job<O: Owner>(
    core: &Arc<Core<O>>,
    source: &mut JobSource,
    mut work: Work<O>,
) -> Result<(), Refused<O::Item>> {
    let mut in_line: Option<InLine<O>> = None;
    loop {
        // No gate, claim or permit is held while this waits (EX-129).
        let permit = source.reserve().await;
        work.permit = Some(permit.queued());
        let attempt = match &in_line {
            None => core.submit(work),
            Some(line) => core.submit_at_head(&line.cell, work),
        };
        let (reason, mut refused) = match attempt {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        drop(refused.permit.take());
        if !reason.is_full() {
            return Err(Refused {
                item: refused.item,
                reason,
            });
        }
        work = refused;
        if let Err(reason) = called(core, &mut in_line, work.payload_bytes).await {
            return Err(Refused {
                item: work.item,
                reason,
            });
        }
    }
}

/// As [`job`] for one of several targets: nothing is made for it before its permit is there, and nothing is kept of it while
/// it waits for room (EX-126).
pub(crate) async fn job_of<O: Owner>(
    core: &Arc<Core<O>>,
    source: &mut JobSource,
    payload_bytes: u64,
    mut make: impl FnMut() -> Work<O>,
) -> Result<(), Refusal> {
    let mut in_line: Option<InLine<O>> = None;
    loop {
        let permit = source.reserve().await;
        let work = Work {
            permit: Some(permit.queued()),
            ..make()
        };
        let attempt = match &in_line {
            None => core.submit(work),
            Some(line) => core.submit_at_head(&line.cell, work),
        };
        let Err((reason, refused)) = attempt else {
            return Ok(());
        };
        drop(refused);
        if !reason.is_full() {
            return Err(reason);
        }
        called(core, &mut in_line, payload_bytes).await?;
    }
}

/// Stands in line with a charge until its turn has come.
async fn called<O: Owner>(
    core: &Arc<Core<O>>,
    in_line: &mut Option<InLine<O>>,
    payload_bytes: u64,
) -> Result<(), Refusal> {
    // A seal dissolves the line; when the lane is full again after it was given back, the caller joins anew.
    if in_line.as_ref().is_some_and(|line| !stands(line)) {
        *in_line = None;
    }
    let line = if let Some(line) = in_line {
        line
    } else {
        let cell = WaitCell::new();
        let waiter = Waiter {
            cell: Arc::clone(&cell),
            place: Place::Reserved(payload_bytes, Called::No),
        };
        get_in_line(core, waiter, Wanted::Application).map_err(|(reason, _)| reason)?;
        in_line.insert(InLine {
            core: Arc::clone(core),
            cell,
            wanted: Wanted::Application,
        })
    };
    match decided(&line.cell).await {
        WaitState::Ended(reason, _) => Err(reason),
        _ => Ok(()),
    }
}

/// Whether the place in line is still there.
fn stands<O: Owner>(in_line: &InLine<O>) -> bool {
    let inner = in_line.core.lock();
    let waiters = inner.ext.as_ref().map(|ext| ext.waiters.iter());
    let mut waiters = waiters.into_iter().flatten();
    waiters.any(|waiter| Arc::ptr_eq(&waiter.cell, &in_line.cell))
}

impl<O: Owner> Core<O> {
    /// The first in line comes with its permit. Leaves the line when it is accepted.
    fn submit_at_head(
        self: &Arc<Self>,
        cell: &Arc<WaitCell<O>>,
        work: Work<O>,
    ) -> Result<(), (Refusal, Work<O>)> {
        let limits = self.kind.limits;
        let fixed = limits.fixed_work_byte_cost;
        let charge = work.payload_bytes.saturating_add(fixed);
        let mut after = After::default();
        let mut inner = self.lock();
        self.settle(&mut inner);
        let fits = inner.ledger.fits(limits.application, fixed, charge);
        let first = inner
            .ext
            .as_ref()
            .and_then(|ext| ext.waiters.front())
            .is_some_and(|waiter| Arc::ptr_eq(&waiter.cell, cell));
        if !first {
            // The line was dissolved: by a seal, or by the end of the lane. The ordinary way tells.
            drop(inner);
            return self.submit(work);
        }
        if !fits {
            let refusal = Refusal::Queueing {
                fifo: crate::error::Fifo::Application,
                waiting: inner.ext.as_ref().map_or(0, |ext| ext.waiters.len()),
            };
            if let Some(Place::Reserved(_, called)) = inner
                .ext()
                .waiters
                .front_mut()
                .map(|waiter| &mut waiter.place)
            {
                *called = Called::No;
            }
            *cell.0.lock() = WaitState::Waiting(None);
            drop(inner);
            return Err((refusal, work));
        }
        drop(inner.ext().waiters.pop_front());
        inner.ledger.accept(work.payload_bytes);
        inner.app.push_back(Entry::Work(work));
        inner.serve_waiters(&self.kind, &mut after);
        let empty = inner.ext.as_ref().is_none_or(|ext| ext.waiters.is_empty());
        if empty && inner.admission == Admission::Queueing {
            inner.admission = Admission::Open;
        }
        after.schedule = if inner.has_ready(false) {
            self.make_ready(&mut inner)
        } else {
            Schedule::No
        };
        drop(inner);
        after.run(self);
        Ok(())
    }
}
