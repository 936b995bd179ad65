//! The driver of a unit that leaves: runs the source machine and carries out what it asks for, in order.

mod route;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spotlane_lane::{CapturedTimer, Saved, SealError, SealGuard};
use spotlane_mesh::PeerLink;
use spotlane_relocation::Machine as _;
use spotlane_relocation::budget::UnitId;
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::saved::{JoinData, join_record};
use spotlane_relocation::source::payload::{ParticipantCapture, Payload, QueuedWork};
use spotlane_relocation::source::{
    CaptureFailure, CaptureOrder, CleanUpOutcome, MoveFailure, Source, SourceEffect, SourceEvent,
    SourcePoint, SourceStage, SubmitOutcome,
};
use spotlane_relocation::unit::{MovePlan, PendingRequest};
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use spotlane_types::kind::RelocationPolicyKind;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::reference::{ActorRef, ActorRouteFence};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::capture::{captured_queue, look};
use super::encode::encode;
use super::inbox::{Inbox, Input};
use super::outbox::{Outbox, Sending, Sent, What};
use super::pacing::{Charge, Granted};
use super::replies::{MoveContext, Number};
use super::{emit, freeze, pending, rows};
use crate::cell::{Cell, Work};
use crate::core::{Core, actor_key};
use crate::drops::{self, Reason};
use crate::entry;
use crate::error::Error;
use crate::message::{Message, Origin};
use crate::placement;
use crate::session::ActorSession;
use crate::slots::{Live, Slot, Unit};
use crate::unwind::caught;
use route::Follows;

/// A unit that leaves, as the rest of the host sees it.
#[derive(Debug)]
pub(crate) struct SourceUnit {
    inbox: Inbox<SourceInput>,
    target: NodeRid,
    target_generation: NodeGeneration,
    unit: Arc<Unit>,
    sealing: AtomicBool,
}

impl SourceUnit {
    /// Whether its lane starts no further handler, before the boundary.
    pub(super) fn is_sealing(&self) -> bool {
        self.sealing.load(Ordering::Acquire)
    }
}

impl Granted for SourceUnit {
    fn start(&self) {
        self.push(SourceEvent::BudgetOpen);
    }

    fn chunk(&self, charge: Charge) {
        self.inbox.push(SourceInput::Chunk(charge));
    }
}

pub(super) enum SourceInput {
    Event(Box<SourceEvent>),
    /// A record that waited for room has left, or its connection is over.
    Sent(Sent),
    /// The budget has room for the next chunk.
    Chunk(Charge),
    Sealed(Result<Box<SealGuard<Cell>>, SealError>),
}

impl SourceUnit {
    pub(super) fn sent(&self, sent: Sent) {
        self.inbox.push(SourceInput::Sent(sent));
    }

    pub(crate) fn push(&self, event: SourceEvent) {
        self.inbox.push(SourceInput::Event(Box::new(event)));
    }

    /// The session that was bound when the object left.
    pub(crate) fn session(&self) -> &ActorSession {
        &self.unit.session
    }

    /// Takes a message for the object past the boundary, or gives it back when the route has been switched.
    pub(crate) fn hold(&self, message: Box<Message>) -> Result<(), Box<Message>> {
        self.inbox.hold(message)
    }

    /// Whether it still takes messages.
    pub(super) fn takes(&self) -> bool {
        self.inbox.takes_arrivals()
    }

    /// Whether a connection leads to the very run that is the target.
    pub(super) fn is_to(&self, link: &PeerLink) -> bool {
        *link.peer() == self.target && link.node_generation() == self.target_generation
    }
}

/// Starts the driver of a planned move; what comes back is the result of the operation.
pub(super) fn start(
    core: &Arc<Core>,
    live: Arc<Live>,
    target: NodeRid,
    plan: Box<MovePlan>,
    book: OwnedMutexGuard<()>,
    join: Option<JoinData>,
) -> oneshot::Receiver<Result<(), MoveFailure>> {
    let (finished, result) = oneshot::channel();
    let unit = Arc::new(SourceUnit {
        inbox: Inbox::new(),
        target,
        target_generation: plan.target.target_node_generation,
        unit: Arc::clone(&live.unit),
        sealing: AtomicBool::new(false),
    });
    core.moves
        .sources()
        .insert(live.unit.id().clone(), Arc::clone(&unit));
    let tenure = live.unit.tenure();
    let actor = ActorRef {
        actor_id: live.unit.id().clone(),
        object_generation: tenure.object_generation,
    };
    // Boxed: of a move that is over it stays for as long as Message Follow does, and a task would keep it twice.
    let driver = Box::new(Driver {
        machine: Source::new(core.moves.settings),
        events: VecDeque::from([SourceEvent::MoveRequested(plan.clone())]),
        outbox: Outbox::default(),
        guard: None,
        cancel_seal: None,
        paced: core.moves.pacing.unit(),
        connection: plan.connection,
        granted: None,
        follows: Follows::No,
        timers: Vec::new(),
        left_out: Vec::new(),
        looked: false,
        left: None,
        fence: freeze::fence(core, &actor, &tenure),
        began: core.clock.elapsed(),
        // A Join gives the right back by itself, after its completion.
        stays: join.is_some(),
        join,
        finished: Some(finished),
        failed: None,
        _book: book,
        core: Arc::clone(core),
        live,
        unit,
        plan,
    });
    emit::started(core.identity.mesh.as_str(), driver.policy());
    core.tasks.spawn(driver.run());
    result
}

struct Driver {
    core: Arc<Core>,
    live: Arc<Live>,
    unit: Arc<SourceUnit>,
    plan: Box<MovePlan>,
    machine: Source,
    /// What effects have led to; comes before everything that waits in the inbox.
    events: VecDeque<SourceEvent>,
    outbox: Outbox,
    /// The sealed lane, from S0 to the boundary.
    guard: Option<SealGuard<Cell>>,
    cancel_seal: Option<oneshot::Sender<()>>,
    /// The name of this unit at the budget.
    paced: UnitId,
    /// The connection of the latest command 40.
    connection: ConnectionId,
    /// What the chunk that the machine is about to send is charged.
    granted: Option<Charge>,
    follows: Follows,
    /// The timers as they were captured, for the way back.
    timers: Vec<CapturedTimer>,
    /// Which of the captured messages do not travel: nobody could answer them (WR-32).
    left_out: Vec<usize>,
    /// Whether the directory was read for a sender that it did not show; once for each move.
    looked: bool,
    /// The instance, from the boundary to the clean-up.
    left: Option<Cell>,
    /// The tenure that ends, as messages were addressed.
    fence: ActorRouteFence,
    began: Duration,
    /// The Join that this move is for (RL-57).
    join: Option<JoinData>,
    /// Whether the right to move the object was given back.
    stays: bool,
    finished: Option<oneshot::Sender<Result<(), MoveFailure>>>,
    /// Why the move of a Join fails, until the driver ends.
    failed: Option<MoveFailure>,
    /// The right to change the row, which keeps the version that the commit will compare.
    _book: OwnedMutexGuard<()>,
}

impl Driver {
    fn policy(&self) -> &'static str {
        match self.live.unit.actor_type.policy {
            RelocationPolicyKind::Snapshot => "snapshot",
            RelocationPolicyKind::Recreate | RelocationPolicyKind::Disabled => "recreate",
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.core.clock.elapsed())
    }

    async fn run(mut self: Box<Self>) {
        let mut effects = Vec::new();
        loop {
            while let Some(event) = self.events.pop_front() {
                self.machine.on_event(self.now(), event, &mut effects);
                self.carry_out(&mut effects).await;
                // RL-131: a grant that led to no chunk goes back.
                drop(self.granted.take());
            }
            if self.follows == Follows::BehindTheHold && self.guard.is_none() {
                self.switch_to_follow();
            }
            if matches!(
                self.machine.stage(),
                SourceStage::SourceRunning | SourceStage::Ended
            ) {
                break;
            }
            match self.next_input().await {
                Some(Input::Other(SourceInput::Event(event))) => self.events.push_back(*event),
                Some(Input::Other(SourceInput::Chunk(charge))) => self.chunk_open(charge),
                Some(Input::Other(SourceInput::Sealed(sealed))) => self.sealed(sealed),
                Some(Input::Other(SourceInput::Sent(sent))) => {
                    self.sent(sent);
                    for sent in self.outbox.go_on(&self.core, &self.unit) {
                        self.sent(sent);
                    }
                }
                Some(Input::Arrived(message)) => Box::pin(self.arrived(message)).await,
                None => {
                    self.machine.on_deadline(self.now(), &mut effects);
                    self.carry_out(&mut effects).await;
                }
            }
        }
        self.end();
    }

    /// The next thing to do; `None` when the machine's deadline has come.
    async fn next_input(&mut self) -> Option<Input<SourceInput>> {
        let left = self
            .machine
            .next_deadline()
            .map(|deadline| deadline.since(self.now()));
        let inbox = &self.unit.inbox;
        match left {
            None => Some(inbox.pop().await),
            Some(left) => tokio::time::timeout(left, inbox.pop()).await.ok(),
        }
    }

    async fn carry_out(&mut self, effects: &mut Vec<SourceEffect>) {
        for effect in effects.drain(..) {
            self.act(effect).await;
        }
    }

    async fn act(&mut self, effect: SourceEffect) {
        match effect {
            SourceEffect::Entered(stage) => emit::source_stage(stage),
            SourceEffect::AwaitBudget => self.want_start(),
            SourceEffect::RefuseBinds => {
                let bindings = self.live.unit.session.refuse_binds();
                self.events.push_back(SourceEvent::BindsRefused(bindings));
            }
            SourceEffect::AllowBinds => self.live.unit.session.allow_binds(&self.core),
            SourceEffect::SendToSession {
                node_rid, record, ..
            } => crate::session::to_node(&self.core, &node_rid, *record),
            SourceEffect::RequestSeal => self.request_seal(),
            SourceEffect::WithdrawSeal => self.withdraw_seal(),
            SourceEffect::Capture(order) => {
                let captured = Box::pin(self.capture(&order)).await;
                self.events
                    .push_back(SourceEvent::Captured(captured.map(Box::new)));
            }
            SourceEffect::Send { connection, record } => self.send(connection, *record),
            SourceEffect::AwaitChunk { charge } => self.want_chunk(charge),
            SourceEffect::DrainHold => Box::pin(self.cross_the_boundary()).await,
            SourceEffect::SubmitCutover { connection, record } => {
                self.put(connection, *record, What::Cutover);
            }
            SourceEffect::ReadAuthority => self.read_row(),
            // The hold is the lane's own until the boundary, so the machine has none to give back here.
            SourceEffect::RestoreQueue { held } => debug_assert!(held.is_empty()),
            SourceEffect::FixAbort => self.events.push_back(SourceEvent::AbortFixed),
            SourceEffect::Reopen => self.reopen(),
            SourceEffect::FollowTo { row, until } => self.follow_to(&row, until),
            SourceEffect::Forward(record) => self.forward(*record),
            SourceEffect::RemoveFollow => self.remove_slot(),
            SourceEffect::EndRequests(requests) => self.end_requests(&requests),
            SourceEffect::CleanUp(_) => {
                self.tell_the_spot();
                self.clean_up();
                self.events
                    .push_back(SourceEvent::CleanedUp(CleanUpOutcome::Done));
            }
            SourceEffect::Finished(result) => self.finish(result),
            SourceEffect::Refused(failure) => self.finish(Err(failure)),
            SourceEffect::Reached(point) => {
                if point == SourcePoint::S0 {
                    emit::point(self.live.unit.id(), "S0");
                }
                emit::source_point(point);
            }
            SourceEffect::Diagnose(diagnostic) => emit::diagnose(diagnostic),
            SourceEffect::Dropped { records } => {
                drops::record(
                    Reason::StaleTarget,
                    records,
                    &"the actor was lost on its way",
                );
            }
            SourceEffect::Ignored(reason) => {
                tracing::trace!(target: "spotlane::runtime::relocation", ?reason, "ignored");
            }
            // Permit and payload are the machine's and the lane's own: nothing is kept here.
            SourceEffect::ReturnPermit | SourceEffect::ReleasePayload => {}
        }
    }

    /// RL-125, RL-131: room in the budget, before the seal and before each chunk.
    fn want_start(&self) {
        let unit = Arc::clone(&self.unit);
        let pacing = &self.core.moves.pacing;
        pacing.want_start(self.paced, unit, self.connection);
    }

    fn want_chunk(&self, charge: u64) {
        let unit = Arc::clone(&self.unit);
        let pacing = &self.core.moves.pacing;
        pacing.want_chunk(self.paced, unit, self.connection, charge);
    }

    /// The budget has room for the next chunk. The grant of a connection that is not in use any more goes back: the machine
    /// has asked again on the next one.
    fn chunk_open(&mut self, charge: Charge) {
        if charge.connection() == self.connection {
            self.granted = Some(charge);
            self.events.push_back(SourceEvent::ChunkOpen);
        }
    }

    fn request_seal(&mut self) {
        let (cancel, cancelled) = oneshot::channel();
        self.cancel_seal = Some(cancel);
        let unit = Arc::clone(&self.unit);
        let sealed = self.live.lane.request_seal();
        self.unit.sealing.store(true, Ordering::Release);
        self.core.tasks.spawn(async move {
            tokio::select! {
                sealed = sealed => {
                    unit.inbox.push(SourceInput::Sealed(sealed.map(Box::new)));
                }
                // Dropping the request withdraws it, or gives the seal back if it was just taken.
                _ = cancelled => {}
            }
        });
    }

    fn sealed(&mut self, sealed: Result<Box<SealGuard<Cell>>, SealError>) {
        if self.cancel_seal.take().is_none() {
            // Withdrawn meanwhile: dropping the guard gives the lane back.
            return;
        }
        match sealed {
            Ok(guard) => {
                self.guard = Some(*guard);
                self.events.push_back(SourceEvent::SafePoint);
            }
            Err(error) => {
                self.unit.sealing.store(false, Ordering::Release);
                tracing::debug!(target: "spotlane::runtime::relocation", %error, "a lane was not sealed");
                self.events.push_back(SourceEvent::OperationAborted);
            }
        }
    }

    fn withdraw_seal(&mut self) {
        drop(self.cancel_seal.take());
        self.unit.sealing.store(false, Ordering::Release);
        if self.guard.is_some() {
            self.reopen();
        } else {
            self.stay();
        }
    }

    /// The object may move or end again; said once.
    fn stay(&mut self) {
        if !std::mem::replace(&mut self.stays, true) {
            self.live.stay();
        }
    }

    /// R§4.2: state, accepted work and timers, fixed at S0. The lane keeps the work until the boundary.
    async fn capture(&mut self, order: &CaptureOrder) -> Result<Payload, CaptureFailure> {
        let unix = self.core.clock.unix().get();
        self.timers = self.core.timers.capture(&self.live.lane, unix);
        let Some(guard) = self.guard.as_mut() else {
            return Err(CaptureFailure::Adapter);
        };
        let relocation = self.plan.identity.relocation;
        let session = &self.live.unit.session;
        let carried = session.capture(&self.core, relocation);
        let callbacks = session.captured_callbacks();
        let carried = carried.map(|record| QueuedWork::Record(Box::new(record)));
        let join = match &self.join {
            // RL-360: right behind the record of the binding.
            Some(join) => {
                let source = freeze::source_of(&self.core, &Origin::Local { actor: None });
                let source = source.map_err(|_| CaptureFailure::NotEncodable)?;
                Some(QueuedWork::Record(Box::new(join_record(source, join))))
            }
            None => None,
        };
        let mut queue = captured_queue(&self.core, &self.fence, guard, callbacks);
        if !queue.left_out.is_empty() && !std::mem::replace(&mut self.looked, true) {
            // A sender that has joined since the last look at the directory.
            look(&self.core).await;
            queue = captured_queue(&self.core, &self.fence, guard, callbacks);
        }
        self.left_out = queue.left_out;
        let queue = carried.into_iter().chain(join).chain(queue.work).collect();
        let timers = self.timers.iter().map(freeze::freeze_timer);
        let timers = timers.collect::<Result<_, _>>().map_err(|error| {
            tracing::error!(target: "spotlane::runtime::relocation", %error, "a timer is not encodable");
            CaptureFailure::NotEncodable
        })?;
        let Some(cell) = guard.state() else {
            return Err(CaptureFailure::Adapter);
        };
        let left = self
            .plan
            .deadline
            .since(Monotonic::from_origin(self.core.clock.elapsed()));
        let state = tokio::time::timeout(left, caught(cell.actor.capture())).await;
        let Ok(Some(Ok(state))) = state else {
            tracing::warn!(target: "spotlane::runtime::relocation", "an adapter did not capture");
            return Err(CaptureFailure::Adapter);
        };
        let participant = ParticipantCapture {
            state,
            queue,
            timers,
        };
        let payload = encode(order, participant).await?;
        let bytes = payload.summary().total_length.get();
        emit::bytes(self.core.identity.mesh.as_str(), self.policy(), bytes);
        Ok(payload)
    }

    /// Sends one record, behind those before it.
    fn send(&mut self, connection: ConnectionId, record: Record) {
        let what = match record {
            Record::RelocationState(_) => What::Chunk(self.granted.take()),
            Record::RelocationPrepare(_) => {
                self.connection = connection;
                What::Record
            }
            _ => What::Record,
        };
        self.put(connection, record, what);
    }

    fn put(&mut self, connection: ConnectionId, record: Record, what: What) {
        let sending = Sending {
            connection,
            record,
            what,
        };
        if let Some(sent) = self.outbox.send(&self.core, &self.unit, sending) {
            self.sent(sent);
        }
    }

    /// A pin that fails is a connection that is lost (TR-93).
    fn sent(&mut self, sent: Sent) {
        let event = match (sent.is_cutover, sent.taken) {
            (true, true) => SourceEvent::CutoverSubmitted(SubmitOutcome::Submitted),
            (true, false) => SourceEvent::CutoverSubmitted(SubmitOutcome::FailedOrUnknown),
            (false, true) => return,
            (false, false) => SourceEvent::ConnectionLost(sent.connection),
        };
        self.events.push_back(event);
    }

    /// The boundary (RL-352): the lane becomes a hand-off, from which no call leads back, and messages come to the inbox
    /// from now on. What it had held goes to the machine first.
    async fn cross_the_boundary(&mut self) {
        let Some(guard) = self.guard.take() else {
            self.events.push_back(SourceEvent::HoldDrained);
            return;
        };
        self.unit.sealing.store(false, Ordering::Release);
        let mut handoff = guard.into_handoff();
        for (at, message) in messages(handoff.take_saved()).enumerate() {
            if self.left_out.contains(&at) {
                let error = Error::unavailable("the sender is not in the mesh any more");
                crate::inbound::refuse(message, error);
            } else {
                freeze::detach(&self.core, message);
            }
        }
        let id = self.live.unit.id().clone();
        let (live, unit) = (&self.live, &self.unit);
        self.core.slots.change(&id, |slot| match slot {
            Some(Slot::Live(found)) if Arc::ptr_eq(&found, live) => {
                (Some(Slot::Leaving(Arc::clone(unit))), ())
            }
            // It has come back already, or is coming: what stands there stays (SRC-12).
            other => (other, ()),
        });
        placement::went();
        // SB-65: the session has left since the capture; what came with the Actor ends at the target.
        let mut left = self.live.unit.session.cross();
        let (held, cell) = handoff.moved();
        self.left = cell;
        for saved in held {
            match saved {
                Saved::Item {
                    item: Work::Message(message),
                    ..
                } => self.arrived(message).await,
                // The place of a callback among the messages.
                Saved::Item {
                    item: Work::Disconnected(_),
                    ..
                } if left > 0 => {
                    left -= 1;
                    self.session_left();
                }
                _ => {}
            }
        }
        for _ in 0..left {
            self.session_left();
        }
        self.events.push_back(SourceEvent::HoldDrained);
        let tenure = self.fence.expected_authority_owner_generation;
        self.core.moves.tenure_ended(&id, tenure);
    }

    /// A session that left past S0: its callback is on its way with the object.
    fn session_left(&mut self) {
        if let Ok(record) = freeze::freeze_disconnect(&self.core, &self.fence) {
            let arrived = SourceEvent::Arrived(Box::new(record));
            self.events.push_back(arrived);
        }
    }

    /// A message past S0: on its way with the object.
    async fn arrived(&mut self, message: Box<Message>) {
        let mut frozen = freeze::freeze(&self.core, &self.fence, &message);
        if frozen.is_err() && !std::mem::replace(&mut self.looked, true) {
            look(&self.core).await;
            frozen = freeze::freeze(&self.core, &self.fence, &message);
        }
        match frozen {
            Ok(record) => {
                freeze::detach(&self.core, message);
                self.events
                    .push_back(SourceEvent::Arrived(Box::new(record)));
            }
            Err(error) => crate::inbound::refuse(message, error),
        }
    }

    fn read_row(&self) {
        let (core, unit) = (Arc::clone(&self.core), Arc::clone(&self.unit));
        let key = actor_key(self.live.unit.id());
        self.core.tasks.spawn(async move {
            let deadline = core.deadline(core.settings.lease.renew_timeout());
            let (read, _) = rows::read(&core, &key, &deadline).await;
            unit.push(SourceEvent::AuthorityRead(read));
        });
    }

    /// The way back (RB): queue and hold as they were, timers too, then dispatch.
    fn reopen(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.restore(None);
        }
        let unix = self.core.clock.unix().get();
        for timer in std::mem::take(&mut self.timers) {
            let handle = self.core.timers.restore(&self.live.lane, &timer, unix);
            handle.admit_until(Some(self.core.lease.timers_until()));
            self.live.unit.keep_timer(timer.name, handle);
        }
        self.stay();
    }

    fn context(&self) -> MoveContext {
        MoveContext {
            relocation: self.plan.identity.relocation,
            attempt: self.plan.identity.attempt,
            coordinator: self.plan.identity.coordinator.clone(),
            replies: None,
        }
    }

    fn end_requests(&self, requests: &[PendingRequest]) {
        for request in requests {
            let key = (request.operation_id, request.reply_route);
            let error = Error::unavailable("the actor was lost on its way to another node");
            let context = self.context().of(Number::FIRST);
            pending::end_call(&self.core, &request.source, key, &context, Err(error));
        }
    }

    /// RL-46, RL-60: of a Join only.
    fn tell_the_spot(&self) {
        if self.join.is_some() {
            entry::left(&self.core, self.live.unit.reference.clone());
        }
    }

    fn clean_up(&mut self) {
        self.live.unit.cancel_timers();
        // Nobody ends or moves it from here any more, and the driver stays for as long as Message Follow does.
        self.live.forget_row();
        let left = self.left.take();
        let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(left)));
        if dropped.is_err() {
            tracing::warn!(target: "spotlane::runtime::relocation", "an actor panicked while it was dropped");
        }
    }

    fn finish(&mut self, result: Result<(), MoveFailure>) {
        let took = self.core.clock.elapsed().saturating_sub(self.began);
        let outcome = match result {
            Ok(()) => "completed",
            Err(MoveFailure::ShuttingDown) => "shutdown",
            Err(MoveFailure::Aborted) => "aborted",
            Err(_) => "failed",
        };
        emit::completed(
            self.core.identity.mesh.as_str(),
            self.policy(),
            outcome,
            took,
        );
        if result.is_err() && self.machine.stage() == SourceStage::SourceRunning {
            // It ended before anything was sealed.
            self.stay();
        }
        if let (Err(failure), Some(_)) = (result, &self.join) {
            // The deadline may come before it is known where the Actor stays (SRC-12); a Join ends once, when it is.
            self.failed = Some(failure);
        } else if let Some(finished) = self.finished.take() {
            // A caller that went away does not want it (SRC-10).
            let _ignored = finished.send(result);
        }
    }

    fn end(mut self) {
        self.core.moves.pacing.unit_ended(self.paced);
        if self.machine.stage() == SourceStage::Ended {
            self.remove_slot();
            self.clean_up();
        }
        let failed = self.failed.take().zip(self.finished.take());
        let mut sources = self.core.moves.sources();
        let id = self.live.unit.id();
        if sources
            .get(id)
            .is_some_and(|unit| Arc::ptr_eq(unit, &self.unit))
        {
            sources.remove(id);
        }
        drop(sources);
        if let Some((failure, finished)) = failed {
            let _ignored = finished.send(Err(failure));
        }
    }
}

/// The application messages among what a lane gave.
fn messages(saved: Vec<Saved<Cell>>) -> impl Iterator<Item = Box<Message>> {
    saved.into_iter().filter_map(|saved| match saved {
        Saved::Item {
            item: Work::Message(message),
            ..
        } => Some(message),
        _ => None,
    })
}
