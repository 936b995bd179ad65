//! The driver of an object that comes: runs the target machine and carries out what it asks for, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use spotlane_lane::{Backlog, CapturedTimer, Fifo};
use spotlane_location::authority::ActiveObject;
use spotlane_location::cache::Tenure;
use spotlane_relocation::Machine as _;
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::saved::is_disconnected;
use spotlane_relocation::source::SourceEvent;
use spotlane_relocation::target::{
    BacklogItem, CommitAnswer, CommitOrder, LifecycleOutcome, LifecycleStep, LocalCheck,
    OwnerCommitted, RestoreFailure, RestoreOrder, Target, TargetEffect, TargetEvent, TargetPoint,
    TargetStage,
};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::{ActorId, StableType};
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::relocation::RelocationPrepare;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::relocation::RelocationObject;
use tokio::sync::OwnedMutexGuard;

use super::inbox::Input;
use super::outbox::send_beside;
use super::receive::{Attempt, Event, TargetInput, TargetUnit};
use super::replies::{MoveContext, Place};
use super::{book, emit, freeze, rows};
use crate::actor::ActorRef;
use crate::cell::{Cell, Leave, Work};
use crate::core::{Core, actor_key};
use crate::entry;
use crate::error::Error;
use crate::inbound::{redispatch, refuse, refuse_stale};
use crate::join::JoinOutcome;
use crate::message::Message;
use crate::placement;
use crate::slots::{Live, Slot, Unit};
use crate::state::HostState;
use crate::unwind::caught;

/// RL-77: a callback that failed is run again.
fn outcome_of<E: std::fmt::Display>(ran: Result<(), E>) -> LifecycleOutcome {
    match ran {
        Ok(()) => LifecycleOutcome::Done,
        Err(error) => {
            tracing::warn!(target: "spotlane::runtime::relocation", %error, "a callback of a join failed");
            LifecycleOutcome::Failed
        }
    }
}

/// An instance that was restored and must not run yet.
pub(super) struct Staged {
    live: Arc<Live>,
    backlog: Backlog<Cell, OwnerCommitted>,
    timers: Vec<CapturedTimer>,
    /// Keeps moves away from the row until it says that the Actor is open here.
    book: OwnedMutexGuard<()>,
}

/// Command 40, in the receive step of its connection (TGT-5): the temporary queue is there before anything else of this
/// connection is looked at.
pub(super) fn prepared(
    core: &Arc<Core>,
    connection: ConnectionId,
    prepare: Box<RelocationPrepare>,
) {
    let RelocationObject::Actor { actor, .. } = &prepare.object else {
        return refused(core, connection, prepare);
    };
    let (id, mut local) = (actor.actor_id.clone(), local_check(core, &prepare));
    // The lock keeps the unit from being dropped between look-up and push.
    let mut targets = core.moves.targets();
    let unit = Arc::clone(
        targets
            .entry(id.clone())
            .or_insert_with(|| start(core, &id)),
    );
    if local == LocalCheck::Fits && core.slots.live(&id).is_none() {
        local = unit.make_room(core);
    }
    let prepare = TargetEvent::Prepare {
        connection,
        prepare,
        local,
    };
    if local != LocalCheck::Fits {
        unit.push(prepare);
        return;
    }
    core.slots.change(&id, |slot| {
        // Command 40 is in the inbox before a message can be: what came earlier than the machine's look at it would be
        // given back to the very queue that it came from.
        unit.push(prepare);
        // When it lives here the machine finds that the row says so, and refuses.
        if let Some(Slot::Live(_)) = slot {
            return (slot, ());
        }
        if !matches!(&slot, Some(Slot::Arriving(found)) if Arc::ptr_eq(found, &unit)) {
            *unit.earlier() = match slot {
                Some(Slot::Leaving(earlier)) => Some(earlier),
                _ => None,
            };
        }
        unit.inbox.open_arrivals();
        (Some(Slot::Arriving(Arc::clone(&unit))), ())
    });
}

/// TGT-6, WR-56: only Actors move here. No command 40 of such an object will ever fit, so nothing has to be remembered of the
/// one that was refused (RL-353): each of them is answered alike, and what follows it is discarded (TGT-37).
fn refused(core: &Arc<Core>, connection: ConnectionId, prepare: Box<RelocationPrepare>) {
    let local = match local_check(core, &prepare) {
        LocalCheck::Fits => LocalCheck::NotServed,
        other => other,
    };
    let mut machine = Target::<Box<Message>>::new(core.moves.settings);
    let prepare = TargetEvent::Prepare {
        connection,
        prepare,
        local,
    };
    let (now, mut effects) = (Monotonic::from_origin(core.clock.elapsed()), Vec::new());
    machine.on_event(now, prepare, &mut effects);
    for effect in effects {
        match effect {
            TargetEffect::Send { connection, record } => {
                let link = core.moves.links.link(connection);
                send_beside(core, link, *record, || {});
            }
            TargetEffect::Diagnose(diagnostic) => emit::diagnose(diagnostic),
            _ => {}
        }
    }
}

/// TGT-5: what this node knows without the store.
fn local_check(core: &Core, prepare: &RelocationPrepare) -> LocalCheck {
    let target = &prepare.target;
    let lease = core.lease.held();
    let ours = target.target_node_rid == core.identity.rid
        && target.target_node_generation == core.identity.generation
        && target.target_owner_id == core.identity.owner
        && lease
            .is_some_and(|held| held.lease().generation() == target.target_owner_lease_generation);
    if !ours {
        return LocalCheck::NotThisRun;
    }
    if core.state.get() != HostState::Serving {
        return LocalCheck::ShuttingDown;
    }
    if !core.admits() {
        return LocalCheck::LeasePast;
    }
    if prepare.application_version != core.settings.all.application_version {
        return LocalCheck::NotServed;
    }
    LocalCheck::Fits
}

fn start(core: &Arc<Core>, id: &ActorId) -> Arc<TargetUnit> {
    let unit = Arc::new(TargetUnit::new(core.moves.settings));
    let driver = Driver {
        core: Arc::clone(core),
        id: id.clone(),
        unit: Arc::clone(&unit),
        events: VecDeque::new(),
        context: None,
        attempt: Attempt::default(),
        read: Attempt::default(),
        row: None,
        staged: None,
        live: None,
        book: None,
    };
    core.tasks.spawn(driver.run());
    unit
}

struct Driver {
    core: Arc<Core>,
    id: ActorId,
    unit: Arc<TargetUnit>,
    events: VecDeque<Event>,
    /// What the answers to moved requests are called.
    context: Option<MoveContext>,
    /// The restore or commit that an answer is awaited for.
    attempt: Attempt,
    /// The read of the row that an answer is awaited for.
    read: Attempt,
    /// The row as it was read last, or written by the commit.
    row: Option<Box<ActiveObject>>,
    staged: Option<Box<Staged>>,
    /// The Actor, once it is open.
    live: Option<Arc<Live>>,
    book: Option<OwnedMutexGuard<()>>,
}

/// A connection that waits for a driver must not wait for one that is gone, were it by a panic.
impl Drop for Driver {
    fn drop(&mut self) {
        self.unit.driver_is_gone();
    }
}

impl Driver {
    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.core.clock.elapsed())
    }

    async fn run(mut self) {
        let mut effects = Vec::new();
        loop {
            while let Some(event) = self.events.pop_front() {
                let asked = self.look_at(&event);
                if self.ends_the_tenure(&event) {
                    let (now, ended) = (self.now(), TargetEvent::TenureEnded);
                    self.unit.machine().on_event(now, ended, &mut effects);
                    self.carry_out(&mut effects).await;
                }
                let now = self.now();
                self.unit.machine().on_event(now, event, &mut effects);
                self.carry_out(&mut effects).await;
                if asked && self.is_nothing_here() {
                    // A move that is over, or was refused: the queue that command 40 registered is nobody's (RL-353).
                    self.give_the_place_back(Vec::new());
                }
            }
            if self.is_done() {
                return;
            }
            match self.next_input().await {
                Some(Input::Arrived(message)) => {
                    self.events.push_back(TargetEvent::Arrived(message));
                }
                Some(Input::Other(TargetInput::Effects(mut asked))) => {
                    self.carry_out(&mut asked).await;
                }
                Some(Input::Other(input)) => self.take(input),
                None => {
                    let now = self.now();
                    self.unit.machine().on_deadline(now, &mut effects);
                    self.carry_out(&mut effects).await;
                }
            }
        }
    }

    /// Whether no move is on its way here and none has ended here as owner.
    fn is_nothing_here(&self) -> bool {
        let stage = self.unit.machine().stage();
        matches!(stage, TargetStage::Absent | TargetStage::TargetRemoved)
    }

    /// Whether nothing is left to remember; then the unit is gone from the host.
    fn is_done(&self) -> bool {
        if !self.unit.machine().is_idle() {
            return false;
        }
        let mut targets = self.core.moves.targets();
        let done = self.unit.inbox.is_empty();
        if done {
            targets.remove(&self.id);
        }
        done
    }

    async fn next_input(&self) -> Option<Input<TargetInput>> {
        let left = self
            .unit
            .machine()
            .next_deadline()
            .map(|deadline| deadline.since(self.now()));
        self.unit.next_input(left).await
    }

    fn take(&mut self, input: TargetInput) {
        let event = match input {
            TargetInput::Event(event) => *event,
            // Carried out by the caller.
            TargetInput::Effects(_) => return,
            TargetInput::TenureEnded(tenure) if self.tenure() != Some(tenure) => return,
            TargetInput::TenureEnded(_) => TargetEvent::TenureEnded,
            // What was read for an earlier move, or before a later read, says nothing.
            TargetInput::Row(read, ..) if read != self.read => return,
            TargetInput::Row(_, read, row) => {
                if row.is_some() {
                    self.row = row;
                }
                TargetEvent::AuthorityRead(read)
            }
            TargetInput::Restored(attempt, _)
            | TargetInput::Committed(attempt, ..)
            | TargetInput::Joined(attempt, _)
            | TargetInput::JoinCompleted(attempt, ..)
                if attempt != self.attempt =>
            {
                return;
            }
            TargetInput::Restored(_, restored) => TargetEvent::Restored(restored.map(|staged| {
                self.staged = Some(staged);
            })),
            TargetInput::Committed(_, answer, row) => {
                if row.is_some() {
                    self.row = row;
                }
                TargetEvent::CommitAnswered(answer)
            }
            TargetInput::Joined(_, outcome) => TargetEvent::LifecycleEnded(outcome),
            TargetInput::JoinCompleted(_, staged, outcome) => {
                self.staged = Some(staged);
                TargetEvent::LifecycleEnded(outcome)
            }
        };
        self.events.push_back(event);
    }

    /// Whether the event is a command 40; keeps the name of its move, for the answers of its requests.
    fn look_at(&mut self, event: &Event) -> bool {
        let TargetEvent::Prepare { prepare, .. } = event else {
            return false;
        };
        // RL-139: a move that is on its way keeps its name.
        if self.is_nothing_here() {
            self.row = None;
            self.read.next();
            self.context = Some(MoveContext {
                relocation: prepare.relocation,
                attempt: prepare.target_attempt_generation,
                coordinator: prepare.coordinator.clone(),
                replies: Some(Arc::default()),
            });
        }
        true
    }

    /// Whether a command 40 names a later tenure than that of the object here: it has left without this driver hearing of
    /// it, because the source of its move away has not seen the commit yet (SRC-12, RL-356).
    fn ends_the_tenure(&self, event: &Event) -> bool {
        let TargetEvent::Prepare { prepare, .. } = event else {
            return false;
        };
        let RelocationObject::Actor {
            expected_authority_owner_generation: ends,
            ..
        } = &prepare.object
        else {
            return false;
        };
        self.unit.machine().stage() == TargetStage::TargetOpen
            && self.tenure().is_some_and(|here| ends.is_after(here))
    }

    /// The tenure of the Actor that is open here, or was.
    fn tenure(&self) -> Option<AuthorityOwnerGeneration> {
        let live = self.live.as_ref()?;
        Some(live.unit.tenure().authority_owner_generation)
    }

    async fn carry_out(&mut self, effects: &mut Vec<TargetEffect<Box<Message>>>) {
        for effect in effects.drain(..) {
            self.act(effect).await;
        }
    }

    async fn act(&mut self, effect: TargetEffect<Box<Message>>) {
        match effect {
            TargetEffect::Entered(stage) => emit::target_stage(stage),
            TargetEffect::ReadAuthority => self.read_row(),
            TargetEffect::Restore(order) => self.restore(*order),
            TargetEffect::Send { connection, record } => self.send(connection, *record),
            TargetEffect::Commit(order) => self.commit(*order),
            TargetEffect::Merge(items) => self.merge(items),
            TargetEffect::RunLifecycle(step) => self.run_lifecycle(&step),
            TargetEffect::Open(proof) => self.open(proof).await,
            TargetEffect::RecordActivated => self.record_activated(),
            TargetEffect::SendToNode {
                node_rid, record, ..
            } => {
                crate::session::to_node(&self.core, &node_rid, *record);
            }
            TargetEffect::Deliver(record) | TargetEffect::Forward(record) => self.deliver(*record),
            TargetEffect::GiveBack(message) => self.give_back(message),
            TargetEffect::Remove { arrivals } => self.remove(arrivals),
            TargetEffect::Reached(point) => {
                if matches!(point, TargetPoint::S3 { .. }) {
                    emit::point(&self.id, "S3");
                }
                emit::target_point(point);
            }
            TargetEffect::Diagnose(diagnostic) => emit::diagnose(diagnostic),
            TargetEffect::Ignored(reason) => {
                tracing::trace!(target: "spotlane::runtime::relocation", ?reason, "ignored");
            }
            // The queue was registered in the receive step; joins of User Spots come with the Spots.
            TargetEffect::RegisterQueue
            | TargetEffect::AdmitJoin(_)
            | TargetEffect::AcceptJoin { .. }
            | TargetEffect::RefuseJoin(_) => {}
        }
    }

    fn read_row(&mut self) {
        let attempt = self.read.next();
        let (core, unit) = (Arc::clone(&self.core), Arc::clone(&self.unit));
        let key = actor_key(&self.id);
        self.core.tasks.spawn(async move {
            let deadline = core.deadline(core.settings.lease.renew_timeout());
            let (read, row) = rows::read(&core, &key, &deadline).await;
            unit.inbox.push(TargetInput::Row(attempt, read, row));
        });
    }

    fn restore(&mut self, order: RestoreOrder) {
        // RL-119: each attempt has a fresh instance.
        self.staged = None;
        let attempt = self.attempt.next();
        let stable_type = self
            .row
            .as_ref()
            .map(|row| row.row().allocation.stable_type.clone());
        let tenure = self.row.as_ref().map(|row| self.tenure_here(row));
        let (core, unit, id) = (
            Arc::clone(&self.core),
            Arc::clone(&self.unit),
            self.id.clone(),
        );
        self.core.tasks.spawn(async move {
            let restored = match (stable_type, tenure) {
                (Some(stable_type), Some(tenure)) => {
                    restored(&core, &id, &stable_type, tenure, order).await
                }
                _ => Err(RestoreFailure::NotServed),
            };
            unit.inbox
                .push(TargetInput::Restored(attempt, restored.map(Box::new)));
        });
    }

    /// The tenure that is to begin; its owner generation is known with the commit.
    fn tenure_here(&self, row: &ActiveObject) -> Tenure {
        let lease = self.core.lease.held().map(|held| held.lease().generation());
        let row = row.row();
        Tenure {
            object: AuthorityKey::Actor(self.id.clone()),
            object_generation: row.object_generation,
            node_rid: self.core.identity.rid.clone(),
            node_generation: self.core.identity.generation,
            authority_owner_generation: row.authority_owner_generation,
            owner_lease_generation: lease.unwrap_or(row.owner_lease_generation),
        }
    }

    fn send(&self, connection: ConnectionId, record: Record) {
        let (unit, link) = (
            Arc::clone(&self.unit),
            self.core.moves.links.link(connection),
        );
        send_beside(&self.core, link, record, move || {
            unit.push(TargetEvent::ConnectionLost(connection));
        });
    }

    /// One attempt at the owner change; the machine decides about another (TGT-24).
    fn commit(&mut self, order: CommitOrder) {
        let attempt = self.attempt.next();
        let (core, unit, row) = (
            Arc::clone(&self.core),
            Arc::clone(&self.unit),
            self.row.clone(),
        );
        self.core.tasks.spawn(async move {
            let (answer, row) = match row {
                Some(row) => {
                    let deadline = core.deadline(core.settings.lease.renew_timeout());
                    rows::commit(&core, &order, &row, &deadline).await
                }
                None => (CommitAnswer::Unknown, None),
            };
            unit.inbox
                .push(TargetInput::Committed(attempt, answer, row));
        });
    }

    /// R§4.6: everything in its final order behind closed dispatch, and in the same exclusive step the live queue takes
    /// over from the temporary one (EX-212).
    fn merge(&mut self, items: Vec<BacklogItem<Box<Message>>>) {
        let Some(staged) = self.staged.as_mut() else {
            return;
        };
        let Staged {
            live,
            backlog,
            timers,
            book: _,
        } = &mut **staged;
        if let Some(row) = &self.row {
            live.unit.owned_since(row.row().authority_owner_generation);
            live.set_row((**row).clone());
        }
        live.unit.keep_periods(
            timers
                .iter()
                .map(|timer| (Arc::clone(&timer.name), timer.settings.period())),
        );
        for item in items {
            push(
                &self.core,
                self.context.as_ref(),
                live,
                backlog,
                timers,
                item,
            );
        }
        let (core, unit, id) = (&self.core, &self.unit, &self.id);
        core.slots.change(id, |_| {
            for message in unit.inbox.close_arrivals() {
                let bytes = message.payload_bytes();
                backlog.push_relay(Work::Message(message), bytes);
            }
            *unit.earlier() = None;
            core.moves.following.came_back(id);
            (Some(Slot::Live(Arc::clone(live))), ())
        });
        drop(self.unit.room().take());
        if let Some(earlier) = core.moves.source_of(id) {
            // An earlier move away whose commit was not seen: what its sealed lane holds is for this tenure.
            earlier.push(SourceEvent::CommitHint);
        }
    }

    /// RL-70: the Entry Spot takes note, then the completion of the Join runs on the closed lane, before the first saved item.
    /// An Actor that moves with its host is told nothing (RL-60).
    fn run_lifecycle(&mut self, step: &LifecycleStep) {
        match step {
            LifecycleStep::Joined(_) => self.run_joined(),
            LifecycleStep::JoinCompleted(_) => self.run_join_completed(),
            LifecycleStep::RelocationReadyCompleted => self.lifecycle_is_done(),
        }
    }

    fn lifecycle_is_done(&mut self) {
        self.events
            .push_back(TargetEvent::LifecycleEnded(LifecycleOutcome::Done));
    }

    /// RL-45
    fn run_joined(&mut self) {
        let Some(staged) = &self.staged else {
            return self.lifecycle_is_done();
        };
        let actor = staged.live.unit.reference.clone();
        let (attempt, unit, core) = (
            self.attempt.next(),
            Arc::clone(&self.unit),
            Arc::clone(&self.core),
        );
        self.core.tasks.spawn(async move {
            let outcome = outcome_of(entry::joined(&core, actor).await);
            unit.inbox.push(TargetInput::Joined(attempt, outcome));
        });
    }

    /// RL-50
    fn run_join_completed(&mut self) {
        let Some(staged) = self.staged.take() else {
            return self.lifecycle_is_done();
        };
        let (attempt, unit) = (self.attempt.next(), Arc::clone(&self.unit));
        self.core.tasks.spawn(async move {
            let accepted = JoinOutcome::Accepted {
                actor: staged.live.unit.reference.clone(),
                reply: None,
            };
            let ran = staged.backlog.run_lifecycle(Work::JoinCompleted(accepted));
            let outcome = outcome_of(ran.await);
            unit.inbox
                .push(TargetInput::JoinCompleted(attempt, staged, outcome));
        });
    }

    /// S3: ordinary dispatch opens behind the backlog, then the timers run (EX-210, EX-214, EX-245).
    async fn open(&mut self, proof: OwnerCommitted) {
        let Some(staged) = self.staged.take() else {
            return;
        };
        let Staged {
            live,
            backlog,
            timers,
            book,
        } = *staged;
        let permit = if backlog.is_empty() {
            None
        } else {
            Some(self.core.jobs.source().reserve().await)
        };
        drop(backlog.open(proof, permit));
        let unix = self.core.clock.unix().get();
        for timer in timers {
            let handle = self.core.timers.restore(&live.lane, &timer, unix);
            handle.admit_until(Some(self.core.lease.timers_until()));
            live.unit.keep_timer(timer.name, handle);
        }
        live.unit.session.opened(&self.core);
        self.live = Some(live);
        self.book = Some(book);
        placement::came();
    }

    /// RL-365: look-ups and moves away wait for `activated`; `completed` gates nothing (RL-26).
    fn record_activated(&mut self) {
        let (live, right) = (self.live.clone(), self.book.take());
        if let (Some(live), Some(right), Some(context)) = (live, right, self.context.clone()) {
            let core = Arc::clone(&self.core);
            self.core
                .tasks
                .spawn(book::keep(core, live, context, right));
        }
    }

    /// A message that no unit holds: to whatever stands in the object's place, unless that is this queue itself.
    fn give_back(&self, message: Box<Message>) {
        match self.core.slots.get(&self.id) {
            Some(Slot::Arriving(unit)) if Arc::ptr_eq(&unit, &self.unit) => refuse_stale(message),
            _ => redispatch(&self.core, &self.id, message),
        }
    }

    /// A record that the source relayed late: to the lane, or after the object (RL-362).
    fn deliver(&self, record: FrozenRecord) {
        let Some(context) = &self.context else { return };
        if is_disconnected(&record) {
            if let Some(live) = &self.live {
                live.unit.session.left_late(&self.core, live);
            }
            return;
        }
        if let Some(message) = freeze::thaw(&self.core, context, Place::Relayed, record) {
            redispatch(&self.core, &self.id, message);
        }
    }

    /// RL-239: nothing of the unit stays.
    #[expect(
        clippy::vec_box,
        reason = "messages are boxed where they wait, before and after"
    )]
    fn remove(&mut self, arrivals: Vec<Box<Message>>) {
        self.attempt.next();
        self.staged = None;
        self.give_the_place_back(arrivals);
    }

    /// What stood in the object's place before stands there again; what had arrived meanwhile ends.
    #[expect(
        clippy::vec_box,
        reason = "messages are boxed where they wait, before and after"
    )]
    fn give_the_place_back(&mut self, arrivals: Vec<Box<Message>>) {
        let (unit, following) = (&self.unit, &self.core.moves.following);
        let waiting = self.core.slots.change(&self.id, |slot| match slot {
            Some(Slot::Arriving(found)) if Arc::ptr_eq(&found, unit) => {
                let earlier = unit.earlier().take().filter(|earlier| earlier.takes());
                let follow = || following.target(&self.id).map(|_| Slot::Follow);
                let back = earlier.map(Slot::Leaving).or_else(follow);
                (back, unit.inbox.close_arrivals())
            }
            // Who has seen the queue before something else took its place looks again (RL-170).
            other => (other, unit.inbox.close_arrivals()),
        });
        drop(self.unit.room().take());
        for message in arrivals.into_iter().chain(waiting) {
            refuse(
                message,
                Error::unavailable("the actor did not come to this node"),
            );
        }
    }
}

/// Puts one item into the backlog of the closed lane.
fn push(
    core: &Arc<Core>,
    context: Option<&MoveContext>,
    live: &Live,
    backlog: &mut Backlog<Cell, OwnerCommitted>,
    timers: &mut [CapturedTimer],
    item: BacklogItem<Box<Message>>,
) {
    let Some(context) = context else { return };
    let thaw = |place, record| freeze::thaw(core, context, place, record);
    match item {
        // SB-65: in the order in which it was accepted. Its binding is not the one that came along: a binding whose end was
        // in the queue is not carried (RL-357), and the Actor may have been bound again since.
        BacklogItem::Saved(entry) if is_disconnected(&entry.record) => {
            backlog.push_saved(Fifo::Application, Work::Disconnected(Leave::Came), 0);
        }
        // What came since the capture is the end of the binding that was captured: nobody else could be bound.
        BacklogItem::Relay(record) if is_disconnected(&record) => {
            live.unit.session.left_on_the_way();
            backlog.push_relay(Work::Disconnected(Leave::Came), 0);
        }
        BacklogItem::Saved(entry) => {
            context.seen(entry.order);
            let place = Place::Saved(entry.participant_id, entry.order);
            if let Some(message) = thaw(place, entry.record) {
                let bytes = message.payload_bytes();
                backlog.push_saved(Fifo::Application, Work::Message(message), bytes);
            }
        }
        BacklogItem::Tick(tick) => {
            context.seen(tick.order);
            // The tick itself is in the queue, so its timer goes on behind it.
            let name = tick.timer_name.as_str();
            if let Some(timer) = timers.iter_mut().find(|timer| *timer.name == *name) {
                timer.completed_delivery_index = tick.delivery_index.get();
                timer.completed_schedule_index = tick.scheduled_index.get();
                let period = timer.settings.period().as_millis();
                let period = u64::try_from(period).unwrap_or(u64::MAX);
                let due = tick
                    .scheduled_at_unix_milliseconds
                    .get()
                    .saturating_add(period);
                timer.next_due_unix_ms = timer.next_due_unix_ms.max(due);
            }
            backlog.push_saved(Fifo::Application, Work::Tick(tick), 0);
        }
        BacklogItem::Relay(record) => {
            if let Some(message) = thaw(Place::Relayed, *record) {
                let bytes = message.payload_bytes();
                backlog.push_relay(Work::Message(message), bytes);
            }
        }
        BacklogItem::Direct(message) => {
            let bytes = message.payload_bytes();
            backlog.push_relay(Work::Message(message), bytes);
        }
    }
}

/// RL-120: factory, Configure, Restore; the lane is staged with closed dispatch.
async fn restored(
    core: &Arc<Core>,
    id: &ActorId,
    stable_type: &StableType,
    tenure: Tenure,
    order: RestoreOrder,
) -> Result<Staged, RestoreFailure> {
    let actor_type = core
        .types
        .get(stable_type)
        .ok_or(RestoreFailure::NotServed)?;
    // RL-130: waits for activation admission; none free fails nothing.
    let permit = core.activations.acquire().await;
    let _permit = permit.map_err(|_| RestoreFailure::Failed)?;
    let mut actor = actor_type.make().map_err(|_| RestoreFailure::Failed)?;
    let state = order.states.into_iter().next().and_then(|(_, state)| state);
    match caught(actor.restore(state)).await {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            tracing::warn!(target: "spotlane::runtime::relocation", kind = %error.kind(), "an adapter did not restore");
            return Err(RestoreFailure::Failed);
        }
        None => return Err(RestoreFailure::Failed),
    }
    let reference = ActorRef {
        id: id.clone(),
        generation: tenure.object_generation,
        mesh: core.identity.mesh.clone(),
        node: core.identity.rid.clone(),
    };
    let unit = Arc::new(Unit::new(core, Arc::clone(actor_type), reference, tenure));
    unit.session.arrived(order.bindings);
    let cell = Cell {
        actor,
        unit: Arc::clone(&unit),
    };
    let backlog = core.cells.stage::<OwnerCommitted>(cell);
    let lane = backlog.lane().ok_or(RestoreFailure::Failed)?;
    let live = Live::new(unit, lane, None);
    let book = Arc::clone(&live.book).lock_owned().await;
    Ok(Staged {
        live,
        book,
        backlog,
        timers: order.timers.iter().filter_map(freeze::thaw_timer).collect(),
    })
}
