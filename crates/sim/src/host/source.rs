//! Drives the source machines: one event in, every effect carried out in its order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_location::cache::Tenure;
use spotlane_relocation::Machine as _;
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::source::payload::{ParticipantCapture, Payload, QueuedWork};
use spotlane_relocation::source::{
    CaptureFailure, CaptureOrder, CleanUpOutcome, Closing, MoveFailure, Source, SourceEffect,
    SourceEvent, SourceStage, SubmitOutcome,
};
use spotlane_relocation::target::TargetEvent;
use spotlane_relocation::unit::PendingRequest;
use spotlane_session::actor::ActorEvent;
use spotlane_types::count::{
    DeliveryIndex, MaxCatchUpTicks, ParticipantId, PeriodMillis, ScheduledIndex, SkippedTicks,
    WorkOrder,
};
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::TimerOverrunPolicyKind;
use spotlane_types::time::UnixMillis;
use spotlane_wire::Record;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::relocation::{PendingTimerTick, TimerRegistration};

use super::lane::{Gate, Item};
use super::{Host, Job, StoreAnswer};
use crate::agenda::Packet;
use crate::cast::{disconnected_of, kind_of, message_of};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, Answer, Kind, Loss, MessageId, Observation, Side, Step};
use crate::shared::{Shared, Submit, monotonic, since_origin};
use crate::workload::Policy;

/// A unit that leaves.
#[derive(Debug)]
pub(super) struct SourceUnit {
    pub(super) machine: Source,
    pub(super) actor: ActorIndex,
    pub(super) target: HostIndex,
    /// The tenure that this move ends.
    pub(super) ends: AuthorityOwnerGeneration,
    /// Whether the machine holds arrivals itself, or the lane does until the machine asks.
    pub(super) machine_holds: bool,
    /// Whether the machine has asked for what the lane held.
    pub(super) drained: bool,
    /// The tenure here, as routes name it.
    pub(super) tenure: Option<Tenure>,
    /// The move before it, whose follow route may still be there.
    pub(super) previous: Option<RelocationId>,
    /// Whether everything before the boundary is with the machine.
    closed: bool,
    /// The messages of the batch before the boundary.
    batch: BTreeSet<MessageId>,
    /// One-way messages that the machine has, in case it drops them.
    one_way: Vec<MessageId>,
}

impl SourceUnit {
    pub(super) const fn new(
        machine: Source,
        actor: ActorIndex,
        target: HostIndex,
        ends: AuthorityOwnerGeneration,
    ) -> Self {
        Self {
            machine,
            actor,
            target,
            ends,
            machine_holds: false,
            drained: false,
            tenure: None,
            previous: None,
            closed: false,
            batch: BTreeSet::new(),
            one_way: Vec::new(),
        }
    }

    /// Whether its object has left, as far as this host will ever know.
    pub(super) fn is_behind(&self) -> bool {
        matches!(
            self.machine.stage(),
            SourceStage::FollowOnly | SourceStage::Ended
        )
    }
}

impl Host {
    /// One event for a source.
    pub(super) fn drive_source(
        &mut self,
        relocation: RelocationId,
        event: SourceEvent,
        shared: &mut Shared,
    ) -> Result<()> {
        let now = monotonic(shared.now());
        let mut effects = Vec::new();
        let Some(unit) = self.sources.get_mut(&relocation) else {
            return Ok(());
        };
        match &event {
            SourceEvent::Arrived(record) => {
                if kind_of(record) == Kind::Send {
                    unit.one_way.extend(message_of(record));
                }
                if !unit.closed {
                    unit.batch.extend(message_of(record));
                }
            }
            SourceEvent::HoldDrained => unit.closed = true,
            _ => {}
        }
        if shared.has(Mutant::ReopenAfterBoundary)
            && matches!(event, SourceEvent::ConnectionLost(_))
            && unit.machine.stage() >= SourceStage::RelayReady
            && let Some(lane) = self.lanes.get_mut(&unit.actor)
        {
            lane.gate = Gate::Open;
        }
        let opened = matches!(event, SourceEvent::ChunkOpen);
        unit.machine.on_event(now, event, &mut effects);
        self.source_effects(relocation, effects, shared)?;
        if opened {
            self.chunk_not_sent(relocation);
        }
        self.settle_source(relocation);
        Ok(())
    }

    fn source_effects(
        &mut self,
        relocation: RelocationId,
        effects: Vec<SourceEffect>,
        shared: &mut Shared,
    ) -> Result<()> {
        let peer = self.sources.get(&relocation).map(|unit| unit.target);
        for effect in effects {
            if !self.step(peer, shared) {
                return Ok(());
            }
            self.source_effect(relocation, effect, shared)?;
        }
        Ok(())
    }

    /// Removes a unit of which nothing is left.
    fn settle_source(&mut self, relocation: RelocationId) {
        let Some(unit) = self.sources.get(&relocation) else {
            return;
        };
        let stage = unit.machine.stage();
        let over = matches!(stage, SourceStage::Ended | SourceStage::SourceRunning);
        let waits = self
            .jobs
            .iter()
            .any(|job| matches!(job, Job::Source(one, _) if *one == relocation));
        if !over || waits {
            return;
        }
        let actor = unit.actor;
        let previous = unit.previous.filter(|one| self.sources.contains_key(one));
        let returned = stage == SourceStage::SourceRunning;
        self.budget_ended(relocation);
        self.sources.remove(&relocation);
        if self.latest.get(&actor) == Some(&relocation) {
            match previous.filter(|_| returned) {
                Some(previous) => self.latest.insert(actor, previous),
                None => self.latest.remove(&actor),
            };
        }
    }

    /// The deadlines of all sources.
    pub(super) fn wake_sources(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let due: Vec<RelocationId> = self
            .sources
            .iter()
            .filter(|(_, unit)| {
                let deadline = unit.machine.next_deadline();
                deadline.is_some_and(|at| at <= monotonic(now))
            })
            .map(|(relocation, _)| *relocation)
            .collect();
        for relocation in due {
            let mut effects = Vec::new();
            if let Some(unit) = self.sources.get_mut(&relocation) {
                unit.machine.on_deadline(monotonic(now), &mut effects);
            }
            self.source_effects(relocation, effects, shared)?;
            self.settle_source(relocation);
        }
        Ok(())
    }

    /// When a source is next due.
    pub(super) fn sources_next(&self) -> Option<Duration> {
        let machines = self.sources.values();
        machines
            .filter_map(|unit| unit.machine.next_deadline().map(since_origin))
            .min()
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each effect, most of one line"
    )]
    fn source_effect(
        &mut self,
        relocation: RelocationId,
        effect: SourceEffect,
        shared: &mut Shared,
    ) -> Result<()> {
        let at = self.index;
        match effect {
            SourceEffect::Entered(stage) => {
                shared.see(Observation::Source {
                    relocation,
                    at,
                    stage,
                });
                if matches!(stage, SourceStage::RelayReady | SourceStage::FollowOnly) {
                    self.tenure_ends(relocation);
                }
                if stage == SourceStage::Unavailable {
                    self.dropped(relocation, shared);
                }
                if stage == SourceStage::SourcePaused {
                    self.seen_step(relocation, Step::Sealed, shared);
                }
            }
            SourceEffect::AwaitBudget => {
                let peer = self.peer_of_move(relocation)?;
                self.await_start(relocation, peer);
            }
            SourceEffect::AwaitChunk { charge } => {
                let peer = self.peer_of_move(relocation)?;
                self.await_chunk(relocation, peer, charge, shared);
            }
            SourceEffect::RefuseBinds => {
                let actor = self.actor_of_move(relocation)?;
                let event = SourceEvent::BindsRefused(self.refuse_binds(actor));
                self.jobs.push_back(Job::Source(relocation, event));
            }
            SourceEffect::AllowBinds => {
                let actor = self.actor_of_move(relocation)?;
                self.binding_event(actor, ActorEvent::MoveAborted, shared)?;
            }
            SourceEffect::SendToSession {
                node_rid, record, ..
            } => self.send_route(relocation, &node_rid, *record, shared)?,
            SourceEffect::RequestSeal => self.request_seal(relocation),
            SourceEffect::WithdrawSeal | SourceEffect::Reopen => self.reopen(relocation),
            SourceEffect::Capture(order) => self.capture(relocation, &order, shared)?,
            SourceEffect::Send { connection, record } => {
                self.send_command(relocation, connection, &record, shared)?;
            }
            SourceEffect::SubmitCutover { connection, record } => {
                let sent = self.send_pinned(relocation, connection, &record, shared)?;
                let outcome = match sent {
                    Submit::Taken(_) => SubmitOutcome::Submitted,
                    Submit::Failed => SubmitOutcome::FailedOrUnknown,
                };
                let event = SourceEvent::CutoverSubmitted(outcome);
                self.jobs.push_back(Job::Source(relocation, event));
            }
            SourceEffect::DrainHold => self.drain_hold(relocation, shared),
            SourceEffect::ReadAuthority => self.read_for_source(relocation, shared)?,
            SourceEffect::RestoreQueue { held } => self.restore_queue(relocation, held, shared),
            // Nothing was written before the commit, so nothing has to be undone (RL-28).
            SourceEffect::FixAbort => {
                self.jobs
                    .push_back(Job::Source(relocation, SourceEvent::AbortFixed));
            }
            SourceEffect::ReleasePayload => self.release(relocation, shared),
            SourceEffect::FollowTo { row, until } => self.follow_to(relocation, &row, until)?,
            SourceEffect::Forward(record) if disconnected_of(&record).is_some() => {
                self.forward_disconnected(relocation, &record, shared)?;
            }
            SourceEffect::Forward(record) => self.forward(record, shared)?,
            SourceEffect::RemoveFollow => self.expire_follow(shared),
            SourceEffect::EndRequests(requests) => self.end_requests(&requests, shared),
            SourceEffect::Dropped { .. } => self.dropped(relocation, shared),
            SourceEffect::CleanUp(closing) => self.clean_up(relocation, closing, shared)?,
            SourceEffect::Finished(result) => {
                shared.see(Observation::MoveFinished {
                    relocation,
                    at,
                    result,
                });
            }
            SourceEffect::Refused(why) => self.refused(relocation, why, shared),
            SourceEffect::Diagnose(what) => {
                shared.see(Observation::Diagnosed {
                    relocation,
                    at,
                    what,
                });
            }
            // No job permits in this world.
            SourceEffect::ReturnPermit | SourceEffect::Reached(_) | SourceEffect::Ignored(_) => {}
        }
        Ok(())
    }

    fn refused(&self, relocation: RelocationId, why: MoveFailure, shared: &mut Shared) {
        shared.see(Observation::MoveRefused {
            relocation,
            at: self.index,
            why,
        });
    }

    pub(super) fn seen_step(&self, relocation: RelocationId, step: Step, shared: &mut Shared) {
        shared.see(Observation::Step {
            relocation,
            at: self.index,
            step,
        });
    }

    fn peer_of_move(&self, relocation: RelocationId) -> Result<HostIndex> {
        let unit = self.sources.get(&relocation);
        unit.map(|unit| unit.target).context("a move of this host")
    }

    fn actor_of_move(&self, relocation: RelocationId) -> Result<ActorIndex> {
        let unit = self.sources.get(&relocation);
        unit.map(|unit| unit.actor).context("a move of this host")
    }

    /// The object has left: what was the target of an earlier move has nothing to do any more.
    fn tenure_ends(&mut self, relocation: RelocationId) {
        let Some(unit) = self.sources.get(&relocation) else {
            return;
        };
        let actor = unit.actor;
        if self
            .targets
            .get(&actor)
            .is_some_and(|target| target.began_before(unit))
        {
            self.jobs
                .push_back(Job::Target(actor, TargetEvent::TenureEnded));
        }
    }

    fn request_seal(&mut self, relocation: RelocationId) {
        let Some(unit) = self.sources.get(&relocation) else {
            return;
        };
        let actor = unit.actor;
        if let Some(lane) = self.lanes.get_mut(&actor) {
            lane.gate = Gate::SealWanted(relocation);
        }
        self.jobs.push_back(Job::Turn(actor));
    }

    fn reopen(&mut self, relocation: RelocationId) {
        let Some(unit) = self.sources.get(&relocation) else {
            return;
        };
        let actor = unit.actor;
        if let Some(lane) = self.lanes.get_mut(&actor) {
            lane.gate = Gate::Open;
        }
        self.jobs.push_back(Job::Turn(actor));
    }

    fn capture(
        &mut self,
        relocation: RelocationId,
        order: &CaptureOrder,
        shared: &mut Shared,
    ) -> Result<()> {
        let actor = self.actor_of_move(relocation)?;
        // From the order on there may be copies, whether or not the capture succeeds.
        shared.see(Observation::Retained {
            relocation,
            at: self.index,
            side: Side::Source,
        });
        let trouble = self.troubles.entry(actor).or_default();
        let result = if trouble.capture_fails > 0 {
            trouble.capture_fails -= 1;
            Err(CaptureFailure::Adapter)
        } else {
            let captured = self.captured(relocation, actor, shared)?;
            Payload::encode(order, &[captured])
                .map(Box::new)
                .map_err(|_| CaptureFailure::NotEncodable)
        };
        if result.is_ok() {
            if preserves(actor, shared) {
                self.seen_step(relocation, Step::StateCaptured, shared);
            }
            self.seen_step(relocation, Step::Captured, shared);
            self.note_saved(relocation, actor, shared);
        }
        let event = SourceEvent::Captured(result);
        self.jobs.push_back(Job::Source(relocation, event));
        Ok(())
    }

    /// State, queue and timer, as they are behind the seal.
    fn captured(
        &self,
        relocation: RelocationId,
        actor: ActorIndex,
        shared: &Shared,
    ) -> Result<ParticipantCapture> {
        let lane = self.lanes.get(&actor).context("an Actor of this host")?;
        let participant_id = ParticipantId::new(1)?;
        // RL-357: the binding comes first.
        let carried = lane.binding.carry(relocation);
        let mut queue: Vec<QueuedWork> = carried
            .map(|record| QueuedWork::Record(Box::new(record)))
            .into_iter()
            .collect();
        for item in &lane.queue {
            queue.push(match item {
                Item::Message(record) => QueuedWork::Record(record.clone()),
                Item::Tick(tick) => QueuedWork::Tick(Box::new(PendingTimerTick {
                    participant_id,
                    order: WorkOrder::new(1)?,
                    timer_name: shared.cast.timer.clone(),
                    delivery_index: DeliveryIndex::new(tick.scheduled)?,
                    scheduled_index: ScheduledIndex::new(tick.scheduled)?,
                    scheduled_at_unix_milliseconds: UnixMillis::new(tick.at_millis)?,
                    skipped_ticks: SkippedTicks::new(0)?,
                })),
            });
        }
        let mut timers = Vec::new();
        if let Some(timer) = &lane.timer {
            timers.push(TimerRegistration {
                participant_id,
                name: shared.cast.timer.clone(),
                handler_type: shared.cast.timer_handler.clone(),
                period_milliseconds: PeriodMillis::new(timer.period_millis)?,
                overrun_policy: TimerOverrunPolicyKind::SkipLateTicks,
                max_catch_up_ticks: MaxCatchUpTicks::new(1)?,
                stop_on_unhandled_exception: false,
                last_completed_delivery_index: DeliveryIndex::new(timer.scheduled).ok(),
                last_completed_scheduled_index: ScheduledIndex::new(timer.scheduled).ok(),
                next_scheduled_at_unix_milliseconds: UnixMillis::new(timer.next_millis)?,
            });
        }
        Ok(ParticipantCapture {
            state: preserves(actor, shared).then(|| lane.state.to_bytes()),
            queue,
            timers,
        })
    }

    /// The one-way messages in the payload, in case the unit is lost with them.
    fn note_saved(&mut self, relocation: RelocationId, actor: ActorIndex, shared: &Shared) {
        let (Some(lane), Some(unit)) = (
            self.lanes.get_mut(&actor),
            self.sources.get_mut(&relocation),
        ) else {
            return;
        };
        for item in &lane.queue {
            if let Item::Message(record) = item {
                if kind_of(record) == Kind::Send {
                    unit.one_way.extend(message_of(record));
                }
                if shared.has(Mutant::RelaySavedWork) {
                    lane.hold.push_back((**record).clone());
                }
            }
        }
    }

    fn drain_hold(&mut self, relocation: RelocationId, shared: &Shared) {
        let Some(unit) = self.sources.get_mut(&relocation) else {
            return;
        };
        unit.drained = true;
        let hold = self
            .lanes
            .get_mut(&unit.actor)
            .map(|lane| std::mem::take(&mut lane.hold));
        let mut hold = hold.unwrap_or_default();
        if shared.has(Mutant::ReverseHold) {
            hold = hold.into_iter().rev().collect();
        }
        if shared.has(Mutant::LoseHeld) {
            hold.pop_front();
        }
        for record in hold {
            let event = SourceEvent::Arrived(Box::new(record));
            self.jobs.push_back(Job::Source(relocation, event));
        }
        self.jobs
            .push_back(Job::Source(relocation, SourceEvent::HoldDrained));
    }

    /// Gives the machine what its lane held, because the lane makes room for a new tenure.
    pub(super) fn hand_over(&mut self, relocation: RelocationId, hold: VecDeque<FrozenRecord>) {
        if let Some(unit) = self.sources.get_mut(&relocation) {
            unit.machine_holds = true;
        }
        for record in hold {
            let event = SourceEvent::Arrived(Box::new(record));
            self.jobs.push_back(Job::Source(relocation, event));
        }
    }

    /// The saved work is where it was; then what the machine held, then what the lane held (RB).
    fn restore_queue(
        &mut self,
        relocation: RelocationId,
        held: Vec<FrozenRecord>,
        shared: &mut Shared,
    ) {
        let Some(unit) = self.sources.get_mut(&relocation) else {
            return;
        };
        unit.one_way.clear();
        let actor = unit.actor;
        if let Some(lane) = self.lanes.get_mut(&actor) {
            let own = std::mem::take(&mut lane.hold);
            for record in held.into_iter().chain(own) {
                self.enqueue(actor, Box::new(record), shared);
            }
        }
    }

    fn release(&mut self, relocation: RelocationId, shared: &mut Shared) {
        let times = match shared.mutant {
            Some(Mutant::ReleaseTwice) => 2,
            Some(Mutant::NeverRelease) => 0,
            _ => 1,
        };
        for _ in 0..times {
            shared.see(Observation::Released {
                relocation,
                at: self.index,
                side: Side::Source,
            });
        }
    }

    fn end_requests(&mut self, requests: &[PendingRequest], shared: &mut Shared) {
        for request in requests {
            let message = MessageId(request.operation_id.low());
            shared.lose(message, Loss::Unavailable);
            if shared.has(Mutant::AnswerNever) {
                continue;
            }
            if let Some(caller) = shared.cast.sender_of(&request.source) {
                self.answer(caller, message, Answer::Unavailable, shared);
            }
        }
    }

    fn dropped(&mut self, relocation: RelocationId, shared: &mut Shared) {
        let Some(unit) = self.sources.get_mut(&relocation) else {
            return;
        };
        for message in std::mem::take(&mut unit.one_way) {
            shared.lose(message, Loss::Unavailable);
        }
    }

    fn clean_up(
        &mut self,
        relocation: RelocationId,
        closing: Closing,
        shared: &mut Shared,
    ) -> Result<()> {
        let actor = self.actor_of_move(relocation)?;
        self.seen_step(relocation, Step::CleanUpStarted, shared);
        if closing == Closing::RelocationOut {
            self.seen_step(relocation, Step::Closing, shared);
        }
        // The instance of this move, not that of a later return of the Actor.
        let ours = |lane: &super::lane::Lane| lane.gate == Gate::Sealed(relocation);
        if self.lanes.get(&actor).is_some_and(ours) {
            self.lanes.remove(&actor);
        }
        self.seen_step(relocation, Step::CleanedUp, shared);
        let event = SourceEvent::CleanedUp(CleanUpOutcome::Done);
        self.jobs.push_back(Job::Source(relocation, event));
        Ok(())
    }

    fn read_for_source(&self, relocation: RelocationId, shared: &Shared) -> Result<()> {
        let actor = self.actor_of_move(relocation)?;
        let key = shared.cast.key(actor)?;
        let until = self.location_now().after(Duration::from_millis(100));
        let repository = Arc::clone(&self.repository);
        self.ask(shared, async move {
            let found = repository.read(&key, until).await;
            StoreAnswer::SourceRow { relocation, found }
        });
        Ok(())
    }

    /// Sends a command of a move; a submit that fails is a lost connection for the machine (TR-93).
    fn send_command(
        &mut self,
        relocation: RelocationId,
        connection: ConnectionId,
        record: &Record,
        shared: &mut Shared,
    ) -> Result<()> {
        let sent = self.send_pinned(relocation, connection, record, shared)?;
        if sent == Submit::Failed {
            let event = SourceEvent::ConnectionLost(connection);
            self.jobs.push_back(Job::Source(relocation, event));
        }
        Ok(())
    }

    fn send_pinned(
        &mut self,
        relocation: RelocationId,
        connection: ConnectionId,
        record: &Record,
        shared: &mut Shared,
    ) -> Result<Submit> {
        let unit = self
            .sources
            .get(&relocation)
            .context("a move of this host")?;
        let to = unit.target;
        if self.links.get(&to) != Some(&connection) {
            return Ok(Submit::Failed);
        }
        let carries = match record {
            // The batch before the boundary is sent again; a record behind it goes once.
            Record::RelocationData(data) => message_of(&data.record).map(|message| {
                let batch = unit.batch.contains(&message);
                (message, if batch { Loss::BatchCut } else { Loss::Cut })
            }),
            _ => None,
        };
        let chunk = matches!(record, Record::RelocationState(_));
        let mut frames = super::target::frames(record)?;
        if chunk && self.damaged_chunks > 0 {
            self.damaged_chunks = 0;
            super::target::damage(&mut frames);
        }
        let packet = Packet::Command { frames, carries };
        let sent = shared.send(self.index, to, Some(connection), packet);
        if let (true, Submit::Taken(until)) = (chunk, sent) {
            self.chunk_left(relocation, to, until, shared);
        }
        Ok(sent)
    }
}

/// Whether an adapter captures and restores the state of an Actor.
fn preserves(actor: ActorIndex, shared: &Shared) -> bool {
    let plan = shared.plan.actors.get(actor.0);
    plan.is_some_and(|plan| plan.policy == Policy::Preserve)
}
