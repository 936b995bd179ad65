//! The turns of one gate, one after the other: handlers are polled where they were made, and every item
//! gets its terminal (EX-73, EX-94).
//!
//! A panic is caught around all turns of a slice at once, so that a message does not pay for the border.
//! What the handler that panicked owes stands in its [`Turn`], outside of what the panic destroys.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::carrier::{Mode, Seat};
use crate::core::Core;
use crate::desk::Desk;
use crate::drive::{Pick, pause};
use crate::error::AskError;
use crate::host::GateHost;
use crate::owner::Owner;
use crate::queue::{Entry, QueuedTick, Work};
use crate::reply::Reply;
use crate::signal::RelocationReady;
use crate::timer::{TickEnd, TickOutcome};
use crate::turn::{Turn, TurnKind};

/// The terminal that the handler in progress owes.
pub(crate) enum Owed<O: Owner> {
    /// No handler is in progress.
    Nothing,
    /// Of an item: its answer, if somebody asked.
    Item(Reply<Result<O::Reply, AskError>>),
    Tick(Box<TickEnd>),
}

/// Runs turns until the gate is let go or handed on.
pub(crate) async fn serve<O: Owner>(desk: &mut Desk, turn: &mut Turn<'_, O>) {
    let (core, seat) = (turn.core, turn.seat);
    loop {
        let gate = turn.gate.clone();
        let ended = {
            let mut turns = pin!(turns(desk, turn));
            poll_fn(|cx| {
                // Unwinding has dropped what the handler held; what is left is not polled again.
                let polled = catch_unwind(AssertUnwindSafe(|| turns.as_mut().poll(cx)));
                if matches!(polled, Ok(Poll::Pending)) {
                    keep_gate(seat, core, gate.as_ref());
                }
                match polled {
                    Ok(polled) => polled.map(Ok),
                    Err(panic) => Poll::Ready(Err(panic)),
                }
            })
            .await
        };
        let Err(panic) = ended else {
            return;
        };
        if matches!(turn.owed, Owed::Nothing) {
            // No handler did that, and nobody can say what is left of the lane.
            resume_unwind(panic);
        }
        let message = panic_text(&*panic);
        drop(catch_unwind(AssertUnwindSafe(move || drop(panic))));
        if turn.key.is_none() {
            regain(seat, turn).await;
        }
        end_badly(turn, AskError::Panicked { message });
        release(turn);
        desk.count_lively();
        desk.count_item(core);
    }
}

/// A poll is over and the turn is not: remembers whose gate it keeps if its handler waits (EX-30).
#[cold]
fn keep_gate<O: Owner>(seat: &Seat, core: &Arc<Core<O>>, gate: Option<&Arc<dyn GateHost>>) {
    if !matches!(seat.mode(), Mode::Suspended | Mode::Decided | Mode::Pause) {
        let own = || -> Arc<dyn GateHost> { Arc::<Core<O>>::clone(core) };
        seat.set_gate(gate.map_or_else(own, Arc::clone));
        seat.set_mode(Mode::Waiting);
    }
}

async fn turns<O: Owner>(desk: &mut Desk, turn: &mut Turn<'_, O>) {
    let (core, seat) = (turn.core, turn.seat);
    loop {
        let work = match core.plain(turn, desk) {
            Some(Entry::Work(work)) => {
                turn.number += 1;
                turn.kind = TurnKind::Application;
                work
            }
            entry => match next(core, turn, desk, entry) {
                Some(Pick::Work(work, kind)) => {
                    turn.kind = kind;
                    work
                }
                Some(Pick::Tick(queued)) => {
                    tick(turn, *queued).await;
                    release(turn);
                    desk.count_lively();
                    if desk.count_item(core) && desk.wants_pause() {
                        pause(desk, seat).await;
                    }
                    continue;
                }
                Some(Pick::Ready(outcome, done)) => {
                    relocation_ready(turn, outcome).await;
                    release(turn);
                    // Whoever waited and went away does not want to know.
                    done.map(|done| done.send(()).ok());
                    desk.count_lively();
                    if desk.count_item(core) && desk.wants_pause() {
                        pause(desk, seat).await;
                    }
                    continue;
                }
                None => return,
            },
        };
        if let Some(item) = take_up(turn, work) {
            let result = O::handle(turn, item).await;
            if turn.key.is_none() {
                regain(seat, turn).await;
            }
            match result {
                Ok(value) => end_well(turn, value),
                Err(error) => end_badly(turn, AskError::Failed(error)),
            }
        }
        release(turn);
        if !turn.quiet {
            desk.count_lively();
        }
        if desk.count_item(core) && desk.wants_pause() {
            pause(desk, seat).await;
        }
    }
}

#[inline]
fn next<O: Owner>(
    core: &Arc<Core<O>>,
    turn: &mut Turn<'_, O>,
    desk: &mut Desk,
    entry: Option<Entry<O>>,
) -> Option<Pick<O>> {
    if turn.gate.is_some() {
        // A turn at the gate of another lane is for one item (EX-23).
        return turn.ticket.take();
    }
    let pick = core.pick(turn, desk, entry)?;
    turn.number += 1;
    Some(pick)
}

/// The item, if its handler is to run.
#[inline]
fn take_up<O: Owner>(turn: &mut Turn<'_, O>, work: Work<O>) -> Option<O::Item> {
    let Work {
        item,
        payload_bytes,
        reply,
        permit,
    } = work;
    turn.payload_bytes = payload_bytes;
    turn.quiet = false;
    // EX-121, EX-124: returned immediately before the first instruction of the callback, which takes
    // none from here on.
    drop(permit);
    if reply.is_unwanted() {
        // EX-330: its caller gave up before the handler began. One terminal, no handler.
        turn.core.shared().stats.cancelled();
        turn.core.shared().guard_drop(item);
        return None;
    }
    turn.owed = Owed::Item(reply);
    Some(item)
}

#[inline]
fn end_well<O: Owner>(turn: &mut Turn<'_, O>, value: O::Reply) {
    let unwanted = match std::mem::replace(&mut turn.owed, Owed::Nothing) {
        // A caller that went away does not want it (EX-300, EX-301).
        Owed::Item(reply) if reply.is_expected() => reply.answer(Ok(value)),
        _ => Some(Ok(value)),
    };
    if std::mem::needs_drop::<O::Reply>() {
        turn.core.shared().guard_drop(unwanted);
    }
    if !turn.deferred.is_empty() || turn.marked {
        settle_deferred(turn, true);
    }
}

/// EX-12: the item failed, and nothing else.
#[cold]
fn end_badly<O: Owner>(turn: &mut Turn<'_, O>, error: AskError) {
    let shared = turn.core.shared();
    if matches!(error, AskError::Panicked { .. }) {
        shared.stats.panicked();
    } else {
        shared.stats.failed();
    }
    let unwanted = match std::mem::replace(&mut turn.owed, Owed::Nothing) {
        Owed::Item(reply) if reply.is_expected() => reply.answer(Err(error)),
        Owed::Tick(end) => {
            end.ended(TickOutcome::Failed);
            Some(Err(error))
        }
        Owed::Item(_) | Owed::Nothing => Some(Err(error)),
    };
    shared.guard_drop(unwanted);
    settle_deferred(turn, false);
}

async fn tick<O: Owner>(turn: &mut Turn<'_, O>, queued: QueuedTick) {
    let QueuedTick { mut tick, mut end } = queued;
    turn.kind = TurnKind::Tick;
    turn.payload_bytes = 0;
    if !end.begin(&mut tick) {
        // EX-232: cancelled or registered anew since it was queued.
        return;
    }
    turn.owed = Owed::Tick(Box::new(end));
    let result = O::on_tick(turn, tick).await;
    if turn.key.is_none() {
        regain(turn.seat, turn).await;
    }
    if let Err(error) = result {
        end_badly(turn, AskError::Failed(error));
        return;
    }
    if let Owed::Tick(end) = std::mem::replace(&mut turn.owed, Owed::Nothing) {
        end.ended(TickOutcome::Completed);
    }
    settle_deferred(turn, true);
}

/// EX-203, RL-207: one completion for one mark.
async fn relocation_ready<O: Owner>(turn: &mut Turn<'_, O>, outcome: RelocationReady) {
    turn.kind = TurnKind::RelocationReady;
    turn.payload_bytes = 0;
    turn.owed = Owed::Item(Reply::to_nobody());
    let result = O::on_relocation_ready(turn, outcome).await;
    if turn.key.is_none() {
        regain(turn.seat, turn).await;
    }
    if let Err(error) = result {
        end_badly(turn, AskError::Failed(error));
        return;
    }
    turn.owed = Owed::Nothing;
    settle_deferred(turn, true);
}

#[cold]
fn settle_deferred<O: Owner>(turn: &mut Turn<'_, O>, ended_well: bool) {
    if std::mem::take(&mut turn.marked) && ended_well {
        turn.core.mark();
    }
    // EX-45: still inside the turn; a failing handler takes its barriers back.
    for barrier in turn.deferred.drain(..) {
        if ended_well {
            barrier.activate();
        }
    }
}

/// EX-2, EX-13: the reservation, after reply and barriers and before the gate is let go.
#[inline]
fn release<O: Owner>(turn: &Turn<'_, O>) {
    if turn.kind == TurnKind::Application && turn.gate.is_none() {
        turn.core.end_application(turn.payload_bytes);
    } else {
        release_other(turn);
    }
}

#[inline(never)]
fn release_other<O: Owner>(turn: &Turn<'_, O>) {
    if turn.gate.is_some() {
        // With the claim, in `Core::end_ticket`.
        return;
    }
    match turn.kind {
        TurnKind::Application | TurnKind::Tick => turn.core.end_application(turn.payload_bytes),
        TurnKind::Lifecycle => turn.core.end_lifecycle(turn.payload_bytes),
        TurnKind::Barrier => turn.core.end_barrier(),
        // It was never accepted by a FIFO.
        TurnKind::RelocationReady => {}
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// A handler that abandoned a yielded wait ended without the gate: its terminal needs a turn, so it
/// takes one as a resume would.
#[cold]
async fn regain<O: Owner>(seat: &Arc<Seat>, turn: &mut Turn<'_, O>) {
    let mut polls = 0u8;
    poll_fn(|cx| match seat.mode() {
        Mode::Granted => Poll::Ready(()),
        Mode::Suspended => {
            polls += 1;
            if polls == 1 {
                // This poll may be the one that still holds the gate.
                cx.waker().wake_by_ref();
            } else {
                seat.set_mode(Mode::Decided);
            }
            Poll::Pending
        }
        _ => Poll::Pending,
    })
    .await;
    turn.take_gate();
}
