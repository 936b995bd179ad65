//! Messages and timers in the form in which they travel with their object, and back (WR-30 to WR-33, WR-42).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::{CapturedTimer, OnTickError, OverrunPolicy, Tick, TimerSettings};
use spotlane_relocation::saved::disconnected_record;
use spotlane_types::count::{
    DeliveryIndex, MaxCatchUpTicks, ParticipantId, PeriodMillis, ScheduledIndex, SkippedTicks,
    WorkOrder,
};
use spotlane_types::id::{HandlerType, TimerName};
use spotlane_types::kind::{MeshOperationKind, TimerOverrunPolicyKind};
use spotlane_types::time::UnixMillis;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::reference::{ActorRef, ActorRouteFence, SpotMembership};
use spotlane_wire::relocation::{PendingTimerTick, TimerRegistration};
use tokio::sync::oneshot;

use super::pending::{CallKey, Registered, RelayAnswer};
use super::replies::{MoveContext, Place};
use crate::core::Core;
use crate::error::Error;
use crate::message::{Message, Origin, Outcome, ReplyTo, Route};
use crate::payload::Payload;

/// A message as it travels. The message keeps its way back until [`detach`] takes it.
///
/// # Errors
/// Its sender holds no lease that is known here, so nobody could be answered (WR-32).
pub(crate) fn freeze(
    core: &Core,
    target: &ActorRouteFence,
    message: &Message,
) -> Result<FrozenRecord, Error> {
    let here = Origin::Local { actor: None };
    let from = if message.comes_back() {
        &here
    } else {
        &message.from
    };
    let (source, operation) = (source_of(core, from)?, message.operation(core));
    let payload = message.payload.clone().into_wire(message.name.clone())?;
    let reply_route = message.reply_route(core);
    let target_actor = target.clone();
    let (operation_kind, body) = if reply_route.is_some() {
        let body = FrozenRecordBody::ActorRequest {
            target_actor,
            payload,
        };
        (MeshOperationKind::ActorRequest, body)
    } else {
        let body = FrozenRecordBody::ActorSend {
            target_actor,
            payload,
        };
        (MeshOperationKind::None, body)
    };
    Ok(FrozenRecord {
        source,
        metadata: message.metadata.clone(),
        operation_id: Some(operation),
        operation_kind,
        reply_route,
        body,
    })
}

/// WR-32: who sent it, always somebody with a lease.
pub(crate) fn source_of(core: &Core, from: &Origin) -> Result<FrozenSource, Error> {
    let identity = &core.identity;
    let (rid, generation, owner, lease, actor) = match from {
        Origin::Frozen { source, .. } => return Ok((**source).clone()),
        Origin::Local { actor } => {
            let held = core.lease.held();
            let held = held.ok_or_else(|| Error::unavailable("this host has no lease"))?;
            let lease = held.lease().generation();
            let actor = actor.as_deref().cloned();
            (
                identity.rid.clone(),
                identity.generation,
                identity.owner.clone(),
                lease,
                actor,
            )
        }
        Origin::Peer(peer) => {
            let node = core.directory.node(&peer.node).filter(|node| {
                node.descriptor().row.descriptor.lifecycle_generation == peer.node_generation
            });
            let node = node.ok_or_else(|| Error::unavailable("the sender's lease has ended"))?;
            let descriptor = &node.descriptor().row.descriptor;
            (
                peer.node.clone(),
                peer.node_generation,
                descriptor.owner_id.clone(),
                descriptor.lease_generation,
                peer.actor.clone(),
            )
        }
    };
    Ok(match actor {
        None => FrozenSource::Node {
            source_node_rid: rid,
            source_node_generation: generation,
            source_owner_id: owner,
            source_owner_lease_generation: lease,
        },
        Some(source_actor) => FrozenSource::Actor {
            source_node_rid: rid,
            source_node_generation: generation,
            source_owner_id: owner,
            source_owner_lease_generation: lease,
            source_actor,
        },
    })
}

/// A disconnect callback that has not run, as it travels (SB-65).
///
/// # Errors
/// This host has no lease.
pub(crate) fn freeze_disconnect(
    core: &Core,
    actor: &ActorRouteFence,
) -> Result<FrozenRecord, Error> {
    let source = source_of(core, &Origin::Local { actor: None })?;
    let spot = core.identity.entry_spot.clone();
    let membership = SpotMembership { spot };
    Ok(disconnected_record(source, actor.actor.clone(), membership))
}

/// The message is on its way with its object: its answer comes from there. A caller of this host waits on under its
/// call key, and so does a request that this host makes for another node; other callers elsewhere do so by themselves
/// (RL-261).
pub(crate) fn detach(core: &Arc<Core>, mut message: Box<Message>) {
    let Some(route) = message.reply_route(core) else {
        return;
    };
    let key = (message.operation(core), route);
    match message.reply.take() {
        Some(Route::Local(sender)) => core.pending.register(key, sender),
        Some(Route::Remote(answer)) if answer.comes_back() => {
            let (sender, outcome) = oneshot::channel();
            core.pending.register(key, sender);
            let task = Arc::clone(core);
            core.tasks.spawn(async move {
                answer.answer(None, awaited(&task, key, outcome).await);
            });
        }
        Some(Route::Mesh(_) | Route::Remote(_)) | None => {}
    }
}

/// The outcome of a request that has left with its object.
async fn awaited(core: &Core, key: CallKey, outcome: oneshot::Receiver<Outcome>) -> Outcome {
    let pending = &core.pending;
    let _registered = Registered { pending, key };
    let within = core.settings.all.default_request_timeout;
    match tokio::time::timeout(within, outcome).await {
        Ok(outcome) => outcome.unwrap_or_else(|_| Err(core.gone())),
        Err(_) => Err(Error::deadline(format!(
            "no answer came within {within:?} from where the actor went"
        ))),
    }
}

/// A record as a message again. `None` for what is no message of an application.
pub(crate) fn thaw(
    core: &Arc<Core>,
    context: &MoveContext,
    place: Place,
    record: FrozenRecord,
) -> Option<Box<Message>> {
    let FrozenRecord {
        source,
        metadata,
        operation_id,
        reply_route,
        body,
        ..
    } = record;
    let operation = operation_id?;
    let (FrozenRecordBody::ActorSend { payload, .. }
    | FrozenRecordBody::ActorRequest { payload, .. }) = body
    else {
        return None;
    };
    let (name, payload) = Payload::from_wire(payload);
    let reply = match reply_route {
        None => ReplyTo::NOBODY,
        Some(route) => {
            let key: CallKey = (operation, route);
            let (context, ticket) = context.accept(place);
            ReplyTo::remote(RelayAnswer {
                core: Arc::clone(core),
                source: source.clone(),
                key,
                context,
                ticket,
            })
        }
    };
    Some(Box::new(Message::new(
        name,
        payload,
        metadata,
        Origin::Frozen {
            source: Box::new(source),
            operation,
        },
        reply,
    )))
}

/// Where the messages of an Actor were addressed in the tenure that ends.
pub(crate) fn fence(
    core: &Core,
    actor: &ActorRef,
    tenure: &spotlane_location::cache::Tenure,
) -> ActorRouteFence {
    ActorRouteFence {
        actor: actor.clone(),
        target_node_rid: core.identity.rid.clone(),
        target_node_generation: core.identity.generation,
        expected_authority_owner_generation: tenure.authority_owner_generation,
        expected_owner_lease_generation: tenure.owner_lease_generation,
    }
}

/// A timer as it travels (EX-245).
///
/// # Errors
/// A number or name outside of its range: a defect.
pub(crate) fn freeze_timer(timer: &CapturedTimer) -> Result<TimerRegistration, Error> {
    let settings = &timer.settings;
    let period = u64::try_from(settings.period().as_millis()).unwrap_or(u64::MAX);
    let (overrun_policy, most) = match settings.policy() {
        OverrunPolicy::SkipLateTicks => (TimerOverrunPolicyKind::SkipLateTicks, 1),
        OverrunPolicy::CatchUpBounded { ticks_max } => (
            TimerOverrunPolicyKind::CatchUpBounded,
            u64::from(ticks_max.get()),
        ),
        OverrunPolicy::DelayNextTick => (TimerOverrunPolicyKind::DelayNextTick, 1),
    };
    Ok(TimerRegistration {
        // Set when the payload is encoded.
        participant_id: ParticipantId::MIN,
        name: TimerName::new(&timer.name)?,
        handler_type: HandlerType::new(&timer.name)?,
        period_milliseconds: PeriodMillis::new(period)?,
        overrun_policy,
        max_catch_up_ticks: MaxCatchUpTicks::new(most)?,
        stop_on_unhandled_exception: settings.on_error() == OnTickError::Stop,
        last_completed_delivery_index: DeliveryIndex::new(timer.completed_delivery_index).ok(),
        last_completed_scheduled_index: ScheduledIndex::new(timer.completed_schedule_index).ok(),
        next_scheduled_at_unix_milliseconds: UnixMillis::new(timer.next_due_unix_ms)?,
    })
}

/// A timer as the lane engine restores it; `None` when its settings are none that a timer can have.
pub(crate) fn thaw_timer(timer: &TimerRegistration) -> Option<CapturedTimer> {
    let most = u32::try_from(timer.max_catch_up_ticks.get())
        .ok()
        .and_then(NonZeroU32::new);
    let policy = match timer.overrun_policy {
        TimerOverrunPolicyKind::SkipLateTicks => OverrunPolicy::SkipLateTicks,
        TimerOverrunPolicyKind::CatchUpBounded => {
            OverrunPolicy::CatchUpBounded { ticks_max: most? }
        }
        TimerOverrunPolicyKind::DelayNextTick => OverrunPolicy::DelayNextTick,
    };
    let on_error = if timer.stop_on_unhandled_exception {
        OnTickError::Stop
    } else {
        OnTickError::GoOn
    };
    let period = Duration::from_millis(timer.period_milliseconds.get());
    Some(CapturedTimer {
        name: Arc::from(timer.name.as_str()),
        settings: TimerSettings::new(period, policy, on_error).ok()?,
        completed_delivery_index: timer
            .last_completed_delivery_index
            .map_or(0, DeliveryIndex::get),
        completed_schedule_index: timer
            .last_completed_scheduled_index
            .map_or(0, ScheduledIndex::get),
        next_due_unix_ms: timer.next_scheduled_at_unix_milliseconds.get(),
    })
}

/// A tick that was queued at S0 (EX-245).
///
/// # Errors
/// A number or name outside of its range: a defect.
pub(crate) fn freeze_tick(core: &Core, tick: &Tick) -> Result<PendingTimerTick, Error> {
    use spotlane_lane::Clock as _;
    let late = core.clock.now().since(tick.scheduled_at);
    let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
    Ok(PendingTimerTick {
        // Both are set when the payload is encoded.
        participant_id: ParticipantId::MIN,
        order: WorkOrder::MIN,
        timer_name: TimerName::new(&tick.name)?,
        delivery_index: DeliveryIndex::new(tick.delivery_index)?,
        scheduled_index: ScheduledIndex::new(tick.schedule_index)?,
        scheduled_at_unix_milliseconds: UnixMillis::new(
            core.clock.unix().get().saturating_sub(late),
        )?,
        skipped_ticks: SkippedTicks::new(tick.skipped_ticks)?,
    })
}
