//! Drives the target machines: one for each object that may come here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority, PreparedTarget};
use spotlane_location::cache::{Route, Tenure};
use spotlane_relocation::Machine as _;
use spotlane_relocation::identity::{ConnectionId, RelocationIdentity, RowRead};
use spotlane_relocation::target::{
    CommitAnswer, CommitOrder, LifecycleOutcome, LocalCheck, RestoreFailure, RestoreOrder, Target,
    TargetEffect, TargetEvent, TargetPoint, TargetStage,
};
use spotlane_relocation::unit::Binding;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::{ActorAuthorityState, RelocationPhase};
use spotlane_wire::FrameBuffer;
use spotlane_wire::Record;
use spotlane_wire::command::relocation::RelocationPrepare;
use spotlane_wire::reference::RelocationTargetFence;
use spotlane_wire::relocation::RelocationObject;

use super::binding::{arrived, tenure_of};
use super::inbound::Arrival;
use super::lane::{ActorState, Gate, Lane, Timer};
use super::source::SourceUnit;
use super::{Host, Job, StoreAnswer, rows};
use crate::agenda::Packet;
use crate::cast::message_of;
use crate::mutant::Mutant;
use crate::observation::{ActorIndex, Loss, MessageId, Observation, Place, Side, Step};
use crate::shared::{Shared, Submit, monotonic, since_origin};

/// How far the owner has told the store that it serves (RL-365).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing has to be written.
    Nothing,
    /// `activated` is being written.
    Activating,
    /// The relocation state is taken out of the row.
    Completing,
}

/// What a restore has made, with dispatch closed.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) state: ActorState,
    pub(super) timer: Option<Timer>,
    /// The session that is bound to it (RL-357).
    pub(super) bindings: Vec<Binding>,
}

/// An object that may come here.
#[derive(Debug)]
pub(super) struct TargetUnit {
    pub(super) machine: Target<Arrival>,
    /// Whether messages for the object go to the machine.
    pub(super) queue_registered: bool,
    pub(super) relocation: Option<RelocationId>,
    pub(super) identity: Option<RelocationIdentity>,
    pub(super) fence: Option<RelocationTargetFence>,
    pub(super) staged: Option<Staged>,
    /// The row as it was read or written last.
    pub(super) row: Option<ActiveObject>,
    pub(super) progress: Progress,
    /// When the progress is written again.
    pub(super) progress_at: Option<Duration>,
    retained: bool,
    /// Messages that came by relay.
    taken: Vec<MessageId>,
}

impl TargetUnit {
    fn new(shared: &Shared) -> Self {
        Self {
            machine: Target::new(shared.plan.settings),
            queue_registered: false,
            relocation: None,
            identity: None,
            fence: None,
            staged: None,
            row: None,
            progress: Progress::Nothing,
            progress_at: None,
            retained: false,
            taken: Vec::new(),
        }
    }

    /// Whether it is the machine of the tenure that a move ends, or of an earlier one.
    pub(super) fn began_before(&self, leaving: &SourceUnit) -> bool {
        let ours = self
            .row
            .as_ref()
            .map(|row| row.row().authority_owner_generation);
        let open = self.machine.stage() == TargetStage::TargetOpen;
        open && ours.is_some_and(|ours| !ours.is_after(leaving.ends))
    }

    /// Whether a successor may begin: nothing of this move will touch the row any more.
    pub(super) fn is_settled(&self) -> bool {
        self.progress == Progress::Nothing && !self.queue_registered
    }

    /// Whether nothing is left of it but the tenure that it began.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_settled() && self.machine.stage() == TargetStage::TargetOpen
    }
}

/// A command as it stands on the wire.
pub(super) fn frames(record: &Record) -> Result<Vec<Bytes>> {
    let mut buffer = FrameBuffer::default();
    record
        .encode(&mut buffer)
        .context("a command of a machine cannot be encoded")?;
    Ok(buffer.to_frames())
}

/// Damages the last byte of a command: with a chunk that is a byte of the stream.
pub(super) fn damage(frames: &mut [Bytes]) {
    if let Some(frame) = frames.last_mut() {
        let mut bytes = frame.to_vec();
        if let Some(last) = bytes.last_mut() {
            *last ^= 0xFF;
        }
        *frame = Bytes::from(bytes);
    }
}

impl Host {
    /// A command of a source, as an event of the machine that it is for.
    pub(super) fn target_command(
        &mut self,
        connection: ConnectionId,
        record: Record,
        shared: &mut Shared,
    ) -> Result<Option<Job>> {
        let (object, event) = match record {
            Record::RelocationPrepare(prepare) => {
                let object = prepare.object.clone();
                self.tenure_may_have_ended(&prepare, shared)?;
                let local = self.local_check(&prepare, shared)?;
                let event = TargetEvent::Prepare {
                    connection,
                    prepare,
                    local,
                };
                (object, event)
            }
            Record::RelocationState(chunk) => {
                let object = chunk.object.clone();
                (object, TargetEvent::Chunk { connection, chunk })
            }
            Record::RelocationData(relay) => {
                let object = relay.object.clone();
                (object, TargetEvent::Relay { connection, relay })
            }
            Record::RelocationCutover(cutover) => {
                let object = cutover.object.clone();
                let event = TargetEvent::Cutover {
                    connection,
                    cutover,
                };
                (object, event)
            }
            _ => return Ok(None),
        };
        let actor = actor_of_object(&object, shared)?;
        let prepares = matches!(event, TargetEvent::Prepare { .. });
        if !prepares && !self.targets.contains_key(&actor) {
            return Ok(None);
        }
        Ok(Some(Job::Target(actor, event)))
    }

    /// The command 40 of another node for an object that this node took over earlier: it owned it meanwhile, so the
    /// tenure here has ended even if this node has not seen that yet.
    fn tenure_may_have_ended(
        &mut self,
        prepare: &RelocationPrepare,
        shared: &Shared,
    ) -> Result<()> {
        let RelocationObject::Actor {
            expected_authority_owner_generation: ends,
            ..
        } = &prepare.object
        else {
            return Ok(());
        };
        let actor = actor_of_object(&prepare.object, shared)?;
        let Some(unit) = self.targets.get(&actor) else {
            return Ok(());
        };
        let ours = unit
            .row
            .as_ref()
            .map(|row| row.row().authority_owner_generation);
        let open = unit.machine.stage() == TargetStage::TargetOpen;
        if open && ours.is_some_and(|ours| ends.is_after(ours)) {
            self.jobs
                .push_back(Job::Target(actor, TargetEvent::TenureEnded));
        }
        Ok(())
    }

    /// TGT-5, as far as it is local.
    fn local_check(&self, prepare: &RelocationPrepare, shared: &Shared) -> Result<LocalCheck> {
        let lease = self.held.lease();
        let fence = &prepare.target;
        let this_run = fence.target_node_rid == *shared.cast.node(self.index)?
            && fence.target_node_generation == shared.cast.run
            && fence.target_owner_id == *lease.owner()
            && fence.target_owner_lease_generation == lease.generation();
        Ok(if !this_run {
            LocalCheck::NotThisRun
        } else if !self.held.admits(self.location_now()) {
            LocalCheck::LeasePast
        } else if self.shutting_down {
            LocalCheck::ShuttingDown
        } else {
            LocalCheck::Fits
        })
    }

    /// One event for a target.
    pub(super) fn drive_target(
        &mut self,
        actor: ActorIndex,
        event: TargetEvent<Arrival>,
        shared: &mut Shared,
    ) -> Result<()> {
        let now = monotonic(shared.now());
        let unit = self
            .targets
            .entry(actor)
            .or_insert_with(|| TargetUnit::new(shared));
        match &event {
            TargetEvent::Prepare { prepare, .. }
                if matches!(
                    unit.machine.stage(),
                    TargetStage::Absent | TargetStage::TargetRemoved
                ) =>
            {
                use spotlane_relocation::identity::OfMove as _;
                unit.relocation = Some(prepare.relocation);
                unit.identity = Some(prepare.identity());
                unit.fence = Some(prepare.target.clone());
            }
            TargetEvent::Relay { relay, .. } => unit.taken.extend(message_of(&relay.record)),
            _ => {}
        }
        let mut effects = Vec::new();
        unit.machine.on_event(now, event, &mut effects);
        self.target_effects(actor, effects, shared)
    }

    fn target_effects(
        &mut self,
        actor: ActorIndex,
        effects: Vec<TargetEffect<Arrival>>,
        shared: &mut Shared,
    ) -> Result<()> {
        let coordinator = self
            .targets
            .get(&actor)
            .and_then(|unit| unit.identity.as_ref());
        let peer =
            coordinator.and_then(|one| shared.cast.host_of(&one.coordinator.coordinator_node_rid));
        for effect in effects {
            if !self.step(peer, shared) {
                return Ok(());
            }
            self.target_effect(actor, effect, shared)?;
        }
        if self
            .targets
            .get(&actor)
            .is_some_and(|unit| unit.machine.is_idle())
        {
            let kept = shared.has(Mutant::KeepTarget);
            if !kept && self.targets.get(&actor).is_some_and(TargetUnit::is_settled) {
                self.targets.remove(&actor);
            }
        }
        Ok(())
    }

    /// The deadlines of all targets.
    pub(super) fn wake_targets(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let actors: Vec<ActorIndex> = self.targets.keys().copied().collect();
        for actor in actors {
            let mut effects = Vec::new();
            if let Some(unit) = self.targets.get_mut(&actor)
                && unit
                    .machine
                    .next_deadline()
                    .is_some_and(|at| at <= monotonic(now))
            {
                unit.machine.on_deadline(monotonic(now), &mut effects);
            }
            self.target_effects(actor, effects, shared)?;
            let due = |unit: &TargetUnit| unit.progress_at.is_some_and(|at| at <= now);
            if self.targets.get(&actor).is_some_and(due) {
                self.write_progress(actor, shared)?;
            }
        }
        Ok(())
    }

    /// When a target is next due.
    pub(super) fn targets_next(&self) -> Option<Duration> {
        let machines = self
            .targets
            .values()
            .filter_map(|unit| unit.machine.next_deadline().map(since_origin));
        let writes = self.targets.values().filter_map(|unit| unit.progress_at);
        [machines.min(), writes.min()].into_iter().flatten().min()
    }

    fn move_of_target(&self, actor: ActorIndex) -> Result<RelocationId> {
        let unit = self.targets.get(&actor);
        unit.and_then(|unit| unit.relocation)
            .context("a move to this host")
    }

    fn target_effect(
        &mut self,
        actor: ActorIndex,
        effect: TargetEffect<Arrival>,
        shared: &mut Shared,
    ) -> Result<()> {
        let relocation = self.move_of_target(actor)?;
        let at = self.index;
        match effect {
            TargetEffect::Entered(stage) => {
                shared.see(Observation::Target {
                    relocation,
                    at,
                    stage,
                });
                if stage == TargetStage::RelayReady && shared.has(Mutant::OpenBeforeCommit) {
                    self.open_too_early(actor, shared);
                }
            }
            TargetEffect::RegisterQueue => self.register(actor, relocation, shared),
            TargetEffect::ReadAuthority => self.read_for_target(actor, shared)?,
            TargetEffect::Restore(order) => self.restore(actor, relocation, &order, shared)?,
            TargetEffect::Send { connection, record } => {
                self.send_back(connection, &record, shared)?;
            }
            TargetEffect::Commit(order) => self.commit(actor, &order, shared)?,
            TargetEffect::Merge(items) => self.merge(actor, relocation, items, shared)?,
            TargetEffect::RunLifecycle(_) => {
                let event = TargetEvent::LifecycleEnded(LifecycleOutcome::Done);
                self.jobs.push_back(Job::Target(actor, event));
            }
            TargetEffect::Open(_proof) => self.open(actor, relocation, shared),
            TargetEffect::RecordActivated => {
                if let Some(unit) = self.targets.get_mut(&actor) {
                    unit.progress = Progress::Activating;
                }
                self.write_progress(actor, shared)?;
            }
            TargetEffect::Deliver(record) => {
                self.accept(&record, Place::Temporary, shared);
                self.dispatch(actor, record, 0, shared);
            }
            TargetEffect::Forward(record) => self.dispatch(actor, record, 0, shared),
            TargetEffect::GiveBack(Arrival { record, hops }) => {
                self.judge_and_dispatch(actor, record, hops, shared);
            }
            TargetEffect::SendToNode {
                node_rid, record, ..
            } => self.send_route(relocation, &node_rid, *record, shared)?,
            TargetEffect::Remove { arrivals } => self.removed(actor, relocation, arrivals, shared),
            TargetEffect::Reached(TargetPoint::S2) => {
                self.seen_step(relocation, Step::Committed, shared);
            }
            TargetEffect::Diagnose(what) => {
                shared.see(Observation::Diagnosed {
                    relocation,
                    at,
                    what,
                });
            }
            // No joins in this world.
            TargetEffect::AdmitJoin(_)
            | TargetEffect::AcceptJoin { .. }
            | TargetEffect::RefuseJoin(_)
            | TargetEffect::Reached(TargetPoint::S3 { .. })
            | TargetEffect::Ignored(_) => {}
        }
        Ok(())
    }

    fn register(&mut self, actor: ActorIndex, relocation: RelocationId, shared: &mut Shared) {
        if let Some(unit) = self.targets.get_mut(&actor) {
            unit.queue_registered = true;
            unit.retained = true;
            unit.taken.clear();
            unit.row = None;
        }
        self.seen_step(relocation, Step::TemporaryQueue, shared);
        shared.see(Observation::Retained {
            relocation,
            at: self.index,
            side: Side::Target,
        });
    }

    pub(super) fn give_up_copy(
        &mut self,
        actor: ActorIndex,
        relocation: RelocationId,
        shared: &mut Shared,
    ) {
        let retained = self
            .targets
            .get_mut(&actor)
            .is_some_and(|unit| std::mem::take(&mut unit.retained));
        if retained {
            shared.see(Observation::Released {
                relocation,
                at: self.index,
                side: Side::Target,
            });
        }
    }

    fn read_for_target(&self, actor: ActorIndex, shared: &Shared) -> Result<()> {
        let key = shared.cast.key(actor)?;
        let until = self.location_now().after(Duration::from_millis(100));
        let repository = Arc::clone(&self.repository);
        self.ask(shared, async move {
            let found = repository.read(&key, until).await;
            StoreAnswer::TargetRow { actor, found }
        });
        Ok(())
    }

    /// The row that a target has read.
    pub(super) fn target_row(
        &mut self,
        actor: ActorIndex,
        found: Result<Authority, LocationError>,
    ) {
        if let (Ok(Authority::Active(row)), Some(unit)) = (&found, self.targets.get_mut(&actor)) {
            unit.row = Some(row.clone());
        }
        let read: RowRead = rows::row_read(found);
        let event = TargetEvent::AuthorityRead(read);
        self.jobs.push_back(Job::Target(actor, event));
    }

    fn restore(
        &mut self,
        actor: ActorIndex,
        relocation: RelocationId,
        order: &RestoreOrder,
        shared: &mut Shared,
    ) -> Result<()> {
        self.seen_step(relocation, Step::Factory, shared);
        let trouble = self.troubles.entry(actor).or_default();
        let result = if trouble.restore_fails > 0 {
            trouble.restore_fails -= 1;
            Err(RestoreFailure::Failed)
        } else {
            let staged = staged(actor, order, shared)?;
            if let Some(unit) = self.targets.get_mut(&actor) {
                unit.staged = Some(staged);
            }
            if order.states.iter().any(|(_, state)| state.is_some()) {
                self.seen_step(relocation, Step::StateRestored, shared);
            }
            self.seen_step(relocation, Step::Restored, shared);
            Ok(())
        };
        self.jobs
            .push_back(Job::Target(actor, TargetEvent::Restored(result)));
        Ok(())
    }

    /// To whoever is at the other end of the connection; a reply on a connection that is gone is lost.
    fn send_back(
        &self,
        connection: ConnectionId,
        record: &Record,
        shared: &mut Shared,
    ) -> Result<()> {
        let peer = self.links.iter().find(|(_, link)| **link == connection);
        let Some((to, _)) = peer else {
            return Ok(());
        };
        let packet = Packet::Command {
            frames: frames(record)?,
            carries: None,
        };
        let (Submit::Taken(_) | Submit::Failed) =
            shared.send(self.index, *to, Some(connection), packet);
        Ok(())
    }

    fn commit(&mut self, actor: ActorIndex, order: &CommitOrder, shared: &Shared) -> Result<()> {
        let answer = |answer| Job::Target(actor, TargetEvent::CommitAnswered(answer));
        // RL-286
        if !self.held.admits(self.location_now()) {
            self.jobs.push_back(answer(CommitAnswer::NotTried));
            return Ok(());
        }
        let expected = &order
            .identity()
            .coordinator
            .expected_authority_store_version;
        let row = self.targets.get(&actor).and_then(|unit| unit.row.clone());
        let row = row.filter(|row| row.version().as_str() == expected.as_str());
        let Some(row) = row else {
            self.jobs.push_back(answer(CommitAnswer::NotApplied));
            return Ok(());
        };
        let cast = &shared.cast;
        let (lease, state) = (self.held.lease(), ActorAuthorityState::Ready);
        let steady = rows::steady(cast, self.index, lease, actor, state)?;
        let phase = RelocationPhase::Committed;
        let payload = rows::moved(steady, order.identity(), order.target(), phase)?;
        let target = PreparedTarget::new(self.held.clone(), payload)?;
        let until = self.location_now().after(Duration::from_millis(120));
        let repository = Arc::clone(&self.repository);
        self.ask(shared, async move {
            let done = repository.new_owner(&target, &row, until).await;
            StoreAnswer::Committed {
                actor,
                done: done.map(Box::new),
            }
        });
        Ok(())
    }

    /// What the repository made of the owner change.
    pub(super) fn commit_answered(
        &mut self,
        actor: ActorIndex,
        done: Result<Box<ActiveObject>, LocationError>,
        shared: &Shared,
    ) {
        let answer = match done {
            Ok(row) => {
                let tenure = row.row().authority_owner_generation;
                if let Some(unit) = self.targets.get_mut(&actor) {
                    unit.row = Some(*row);
                }
                CommitAnswer::Applied {
                    authority_owner_generation: tenure,
                }
            }
            Err(LocationError::Conflict { .. }) => CommitAnswer::NotApplied,
            Err(LocationError::Stale { .. }) => CommitAnswer::NotTried,
            Err(_) if shared.has(Mutant::UnknownIsSuccess) => self.claim_success(actor),
            Err(_) => CommitAnswer::Unknown,
        };
        let event = TargetEvent::CommitAnswered(answer);
        self.jobs.push_back(Job::Target(actor, event));
    }

    /// The mutant that takes "I do not know" for "yes".
    fn claim_success(&self, actor: ActorIndex) -> CommitAnswer {
        let row = self.targets.get(&actor).and_then(|unit| unit.row.as_ref());
        row.map_or(CommitAnswer::Unknown, |row| CommitAnswer::Applied {
            authority_owner_generation: row.row().authority_owner_generation,
        })
    }

    fn open(&mut self, actor: ActorIndex, relocation: RelocationId, shared: &mut Shared) {
        if let Some(lane) = self.lanes.get_mut(&actor)
            && lane.gate == Gate::Merged
        {
            lane.gate = Gate::Open;
        }
        for step in [
            Step::Lifecycle,
            Step::SavedAdmitted,
            Step::TemporaryAdmitted,
            Step::Opened,
        ] {
            self.seen_step(relocation, step, shared);
        }
        self.jobs.push_back(Job::Turn(actor));
    }

    /// The mutant that serves with the first thing it has.
    fn open_too_early(&mut self, actor: ActorIndex, shared: &Shared) {
        let Some(unit) = self.targets.get_mut(&actor) else {
            return;
        };
        let (Some(row), Some(staged)) = (&unit.row, &unit.staged) else {
            return;
        };
        let route = route_of(row, shared);
        let Some(tenure) = tenure_of(&route) else {
            return;
        };
        let binding = arrived(tenure, &staged.bindings);
        let lane = Lane::new(route, staged.state.clone(), staged.timer, binding);
        self.lanes.insert(actor, lane);
    }

    fn removed(
        &mut self,
        actor: ActorIndex,
        relocation: RelocationId,
        arrivals: Vec<Arrival>,
        shared: &mut Shared,
    ) {
        let mut taken = Vec::new();
        if let Some(unit) = self.targets.get_mut(&actor) {
            unit.queue_registered = false;
            unit.staged = None;
            taken = std::mem::take(&mut unit.taken);
        }
        self.give_up_copy(actor, relocation, shared);
        for message in taken {
            shared.lose(message, Loss::Removed);
        }
        for arrival in arrivals {
            self.refuse(&arrival.record, Loss::Removed, shared);
        }
    }
}

/// What a restore order makes.
fn staged(actor: ActorIndex, order: &RestoreOrder, shared: &Shared) -> Result<Staged> {
    let plan = shared
        .plan
        .actors
        .get(actor.0)
        .context("an Actor of this world")?;
    let state = order.states.first().and_then(|(_, state)| state.as_ref());
    let mut state = match state {
        Some(bytes) => ActorState::from_bytes(bytes)?,
        None => ActorState {
            handled: Vec::new(),
            ballast: plan.ballast,
        },
    };
    if shared.has(Mutant::ForgetState) {
        state.handled.clear();
    }
    let timer = order.timers.first().map(|timer| Timer {
        period_millis: timer.period_milliseconds.get(),
        scheduled: match timer.last_completed_scheduled_index {
            Some(index) if !shared.has(Mutant::ForgetTimer) => index.get(),
            _ => 0,
        },
        next_millis: timer.next_scheduled_at_unix_milliseconds.get(),
    });
    let bindings = order.bindings.clone();
    Ok(Staged {
        state,
        timer,
        bindings,
    })
}

/// The Actor that a move is about.
fn actor_of_object(object: &RelocationObject, shared: &Shared) -> Result<ActorIndex> {
    let RelocationObject::Actor { actor, .. } = object else {
        anyhow::bail!("only Actors move in these worlds");
    };
    let found = shared.cast.actor_of(&actor.actor_id);
    found.context("an Actor of another world")
}

/// The tenure that a row names.
pub(crate) fn route_of(row: &ActiveObject, shared: &Shared) -> Route {
    let content = row.row();
    let payload = row.payload();
    Route {
        tenure: Tenure {
            object: row.object().clone(),
            object_generation: content.object_generation,
            node_rid: payload.owner_node_rid.clone(),
            node_generation: payload.owner_node_generation,
            authority_owner_generation: content.authority_owner_generation,
            owner_lease_generation: content.owner_lease_generation,
        },
        owner_id: content.owner_id.clone(),
        mesh_name: shared.cast.mesh.clone(),
        store_version: row.version().clone(),
    }
}
