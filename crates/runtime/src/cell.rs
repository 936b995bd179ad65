//! An Actor in its lane: what one turn does.

use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::{Clock as _, HandlerError, KeepGate, Lane, Monotonic, Owner, Spot, Tick, Turn};
use spotlane_wire::relocation::PendingTimerTick;
use tokio::sync::oneshot;

use crate::actor::Decision;
use crate::context::{Arrival, Context};
use crate::core::Core;
use crate::error::Error;
use crate::join::{self, JoinOrder, JoinOutcome};
use crate::message::Message;
use crate::payload::Payload;
use crate::registry::ErasedActor;
use crate::session::{is_followed, take_queued};
use crate::slots::Unit;

/// The owner of an Actor's lane.
///
/// An Actor of an Entry Spot is a relocation unit of its own (R§3), so its lane has the policy of a unit: `Spot`, the one
/// that can be sealed. Its handlers keep the gate while they wait (EX-33).
pub(crate) struct Cell {
    pub(crate) actor: Box<dyn ErasedActor>,
    pub(crate) unit: Arc<Unit>,
}

/// One item of an Actor's lane.
pub(crate) enum Work {
    /// A message of the application.
    Message(Box<Message>),
    /// The decision about a new Actor (RL-43).
    Create {
        request: Option<Payload>,
        decided: oneshot::Sender<Result<Decision, Error>>,
    },
    /// A Join whose handler has ended well: the barrier of the Actor's queue (RL-141).
    Join(Box<JoinOrder>),
    /// What became of a Join (RL-50).
    JoinCompleted(JoinOutcome),
    /// A tick that was queued at the former owner (EX-245).
    Tick(Box<PendingTimerTick>),
    /// A session has left (SB-61).
    Disconnected(Leave),
}

/// Whose disconnect callback a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The first that waits, if one does.
    Next,
    /// One that came with the Actor; its binding ended before (SB-65).
    Came,
}

impl Owner for Cell {
    type Policy = Spot;
    type Waits = KeepGate;
    type Item = Work;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, work: Work) -> Result<(), HandlerError> {
        match work {
            Work::Message(message) => deliver(turn, message).await,
            Work::Create { request, decided } => {
                let Some(mut context) = callback_context(turn) else {
                    return Ok(());
                };
                let decision = turn.state().actor.on_create(&mut context, request).await;
                // A creator that went away does not want it.
                drop(decided.send(decision));
                Ok(())
            }
            Work::Join(order) => {
                if let (Some(core), Some(hold)) = (turn.state().unit.core(), turn.hold_barrier()) {
                    join::start(&core, order, hold);
                }
                Ok(())
            }
            Work::JoinCompleted(outcome) => {
                if let Some(mut context) = callback_context(turn) {
                    let actor = &mut turn.state().actor;
                    actor.on_join_completed(&mut context, outcome).await;
                }
                Ok(())
            }
            Work::Disconnected(leave) => {
                disconnected(turn, leave).await;
                Ok(())
            }
            Work::Tick(pending) => match thaw_tick(turn, &pending) {
                Some(tick) => Self::on_tick(turn, tick).await,
                None => Ok(()),
            },
        }
    }

    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), HandlerError> {
        let Some(mut context) = context(turn) else {
            return Ok(());
        };
        let name = Arc::clone(&tick.name);
        let Some(call) = turn.state().actor.tick(&mut context, tick) else {
            return Err(HandlerError::new(format!("no handler for timer {name:?}")));
        };
        let ended = call.await.map_err(|error| {
            tracing::debug!(target: "spotlane::runtime::handler", kind = %error.kind(), "a timer callback failed");
            HandlerError::new(error)
        });
        if ended.is_ok() {
            defer_join(turn, &mut context);
        }
        ended
    }
}

/// The tick with its indices; its period is that of the timer that was restored with it.
fn thaw_tick(turn: &mut Turn<'_, Cell>, pending: &PendingTimerTick) -> Option<Tick> {
    let unit = Arc::clone(&turn.state().unit);
    let core = unit.core()?;
    let now = core.clock.now();
    let late = core.clock.unix().get();
    let late = late.saturating_sub(pending.scheduled_at_unix_milliseconds.get());
    let scheduled = now
        .since_origin()
        .saturating_sub(Duration::from_millis(late));
    let mut tick = Tick::restored(
        Arc::from(pending.timer_name.as_str()),
        unit.period_of(pending),
    );
    tick.delivery_index = pending.delivery_index.get();
    tick.schedule_index = pending.scheduled_index.get();
    tick.skipped_ticks = pending.skipped_ticks.get();
    tick.scheduled_at = Monotonic::from_origin(scheduled);
    tick.started_at = now;
    Some(tick)
}

/// `None` when the host is gone, and the Actor with it.
fn context(turn: &mut Turn<'_, Cell>) -> Option<Context> {
    let lane: Lane<Cell> = turn.lane();
    let unit = Arc::clone(&turn.state().unit);
    let core: Arc<Core> = unit.core()?;
    Some(Context::new(core, unit, lane))
}

/// As [`context`], for a lifecycle callback.
fn callback_context(turn: &mut Turn<'_, Cell>) -> Option<Context> {
    let lane: Lane<Cell> = turn.lane();
    let unit = Arc::clone(&turn.state().unit);
    let core: Arc<Core> = unit.core()?;
    Some(Context::of_callback(core, unit, lane))
}

/// EX-45, RL-141: the handler has ended well, so the Join it recorded becomes the barrier of this queue. Dropped with the
/// context it is discarded.
fn defer_join(turn: &mut Turn<'_, Cell>, context: &mut Context) {
    if let Some(order) = context.joins().take() {
        // A turn that marked its boundary for a move has no Join; the Join is discarded with its order.
        turn.defer(Work::Join(order)).ok();
    }
}

/// EX-29, SB-61: the callback of an Actor in an Entry Spot, which has no callbacks of its own, is the Actor's.
async fn disconnected(turn: &mut Turn<'_, Cell>, leave: Leave) {
    let Some(mut context) = callback_context(turn) else {
        return;
    };
    let unit = Arc::clone(&turn.state().unit);
    // SB-62: once, and the binding ends also when the callback panics.
    let _ended = match leave {
        Leave::Came => None,
        Leave::Next => {
            let next = unit.session.callback(context.core(), Arc::clone(&unit));
            if next.is_none() {
                return;
            }
            next
        }
    };
    turn.state().actor.on_disconnected(&mut context).await;
}

/// EX-388: decode once, call, answer on the spot. The permit went back when the turn began.
async fn deliver(turn: &mut Turn<'_, Cell>, message: Box<Message>) -> Result<(), HandlerError> {
    let wants = message.wants();
    if !message.reply.is_here() {
        turn.brings_nothing();
    }
    let arrival = Arrival::of(&message.from);
    // Out of the box one by one: the rest of a message is not moved again.
    let Message {
        name,
        payload,
        reply,
        ..
    } = *message;
    // EX-301: cancelled before its handler began.
    if reply.is_abandoned() {
        return Ok(());
    }
    let Some(context) = context(turn) else {
        return Ok(());
    };
    let mut context = context.of_message(arrival);
    if is_followed(&name) {
        let unit = Arc::clone(&turn.state().unit);
        take_queued(context.core(), &unit, name, &payload, reply);
        return Ok(());
    }
    // RL-284: past the admission deadline no message starts.
    if !context.core().admits() {
        reply.answer(&name, Err(Error::unavailable(NOT_ADMITTED)));
        return Ok(());
    }
    let Some(call) = turn.state().actor.call(&mut context, wants, &name, payload) else {
        // The text is made for whoever waits; a one-way message is recorded.
        tracing::debug!(target: "spotlane::runtime::handler", handler = %name, "no such handler");
        let error = Error::not_found(format!("no handler {:?} of this kind", name.as_str()));
        reply.answer(&name, Err(error));
        return Ok(());
    };
    let outcome = call.await;
    match &outcome {
        Ok(_) => defer_join(turn, &mut context),
        Err(error) => {
            tracing::debug!(target: "spotlane::runtime::handler", kind = %error.kind(), "a handler failed");
        }
    }
    reply.answer(&name, outcome);
    Ok(())
}

/// What a caller is told past the admission deadline (EX-107).
pub(crate) const NOT_ADMITTED: &str =
    "the owner lease of the host is past its admission deadline; try again later";
