//! The driver of a unit that leaves: runs the source machine and carries out what it asks for, in order.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::{Captured, CapturedTimer, Saved, SealError, SealGuard};
use spotlane_mesh::{NotSubmitted, PeerLink, SendError};
use spotlane_relocation::Machine as _;
use spotlane_relocation::budget::UnitId;
use spotlane_relocation::identity::{AuthorityView, ConnectionId};
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

use super::encode::encode;
use super::inbox::{Inbox, Input};
use super::pacing::{Charge, Granted};
use super::replies::{MoveContext, Number, Place};
use super::{emit, follow, freeze, pending, rows};
use crate::cell::{Cell, Work};
use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::message::{Message, Origin};
use crate::slots::{Live, Slot};
use crate::unwind::caught;

/// A unit that leaves, as the rest of the host sees it.
#[derive(Debug)]
pub(crate) struct SourceUnit {
    inbox: Inbox<SourceInput>,
    target: NodeRid,
    target_generation: NodeGeneration,
}

impl Granted for SourceUnit {
    fn start(&self) {
        self.push(SourceEvent::BudgetOpen);
    }

    fn chunk(&self, charge: Charge) {
        self.inbox.push(SourceInput::Chunk(charge));
    }
}

enum SourceInput {
    Event(Box<SourceEvent>),
    /// The budget has room for the next chunk.
    Chunk(Charge),
    Sealed(Result<Box<SealGuard<Cell>>, SealError>),
}

impl SourceUnit {
    pub(crate) fn push(&self, event: SourceEvent) {
        self.inbox.push(SourceInput::Event(Box::new(event)));
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
    });
    core.moves
        .sources()
        .insert(live.unit.id().clone(), Arc::clone(&unit));
    let tenure = live.unit.tenure();
    let actor = ActorRef {
        actor_id: live.unit.id().clone(),
        object_generation: tenure.object_generation,
    };
    let driver = Driver {
        machine: Source::new(core.moves.settings),
        events: VecDeque::from([SourceEvent::MoveRequested(plan.clone())]),
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
    };
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

/// Whether messages at the old address go along a route of this move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    No,
    /// There is a route, and the lane still has what it held: that goes along it first.
    BehindTheHold,
    Yes,
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

    async fn run(mut self) {
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
                Some(Input::Arrived(message)) => self.arrived(message).await,
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
            SourceEffect::AwaitBudget => {
                let unit = Arc::clone(&self.unit);
                let pacing = &self.core.moves.pacing;
                pacing.want_start(self.paced, unit, self.connection);
            }
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
                let captured = self.capture(&order).await;
                self.events
                    .push_back(SourceEvent::Captured(captured.map(Box::new)));
            }
            SourceEffect::Send { connection, record } => self.send(connection, *record).await,
            SourceEffect::AwaitChunk { charge } => {
                let unit = Arc::clone(&self.unit);
                let pacing = &self.core.moves.pacing;
                pacing.want_chunk(self.paced, unit, self.connection, charge);
            }
            SourceEffect::DrainHold => self.cross_the_boundary().await,
            SourceEffect::SubmitCutover { connection, record } => {
                let outcome = self.submit_cutover(connection, *record).await;
                self.events
                    .push_back(SourceEvent::CutoverSubmitted(outcome));
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
                tracing::trace!(target: "spotlane::runtime::relocation", records, reason = "stale_target", "zlink.message_flow");
            }
            SourceEffect::Ignored(reason) => {
                tracing::trace!(target: "spotlane::runtime::relocation", ?reason, "ignored");
            }
            // Permit and payload are the machine's and the lane's own: nothing is kept here.
            SourceEffect::ReturnPermit | SourceEffect::ReleasePayload => {}
        }
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
        let (lane, unit) = (self.live.lane.clone(), Arc::clone(&self.unit));
        self.core.tasks.spawn(async move {
            tokio::select! {
                sealed = lane.request_seal() => {
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
                tracing::debug!(target: "spotlane::runtime::relocation", %error, "a lane was not sealed");
                self.events.push_back(SourceEvent::OperationAborted);
            }
        }
    }

    fn withdraw_seal(&mut self) {
        drop(self.cancel_seal.take());
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
        let carried = self.live.unit.session.carry(self.plan.identity.relocation);
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
        let mut queue = captured_queue(&self.core, &self.fence, guard);
        if !queue.left_out.is_empty() && !std::mem::replace(&mut self.looked, true) {
            // A sender that has joined since the last look at the directory.
            look(&self.core).await;
            queue = captured_queue(&self.core, &self.fence, guard);
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

    /// Sends one record, pinned (TR-93); a pin that fails is a connection that is lost.
    async fn send(&mut self, connection: ConnectionId, record: Record) {
        if let Record::RelocationPrepare(_) = record {
            self.connection = connection;
        }
        let sent = match self.core.moves.links.link(connection) {
            Some(link) if matches!(record, Record::RelocationState(_)) => {
                self.submit_chunk(&link, record)
            }
            Some(link) => submit(&link, record).await,
            None => false,
        };
        if !sent {
            self.events
                .push_back(SourceEvent::ConnectionLost(connection));
        }
    }

    /// RL-131: a chunk is charged until the transport is seen to release it.
    fn submit_chunk(&mut self, link: &PeerLink, record: Record) -> bool {
        let charge = self.granted.take();
        let Ok(tracked) = link.submit_bulk(record) else {
            return false;
        };
        self.core.tasks.spawn(async move {
            tracked.await;
            drop(charge);
        });
        true
    }

    async fn submit_cutover(&mut self, connection: ConnectionId, record: Record) -> SubmitOutcome {
        let sent = match self.core.moves.links.link(connection) {
            Some(link) => submit(&link, record).await,
            None => false,
        };
        if sent {
            SubmitOutcome::Submitted
        } else {
            SubmitOutcome::FailedOrUnknown
        }
    }

    /// The boundary (RL-352): the lane becomes a hand-off, from which no call leads back, and messages come to the inbox
    /// from now on. What it had held goes to the machine first.
    async fn cross_the_boundary(&mut self) {
        let Some(guard) = self.guard.take() else {
            self.events.push_back(SourceEvent::HoldDrained);
            return;
        };
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
        let (held, cell) = handoff.moved();
        self.left = cell;
        for message in messages(held) {
            self.arrived(message).await;
        }
        self.events.push_back(SourceEvent::HoldDrained);
        let tenure = self.fence.expected_authority_owner_generation;
        self.core.moves.tenure_ended(&id, tenure);
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

    /// RL-150: from here on messages are forwarded without this driver.
    fn follow_to(&mut self, row: &AuthorityView, until: Monotonic) {
        let (core, live) = (&self.core, &self.live);
        let id = live.unit.id();
        core.slots.change(id, |slot| {
            // An object that is here again, in a tenure of its own, needs no route to itself.
            let is_back = matches!(&slot, Some(Slot::Live(found)) if !Arc::ptr_eq(found, live));
            if !is_back && !follow::leads_here(core, row) {
                let moves = &core.moves;
                moves.following.retain(&live.unit.tenure(), row, until);
            }
            (slot, ())
        });
        if self.guard.is_some() {
            self.follows = Follows::BehindTheHold;
        } else {
            self.switch_to_follow();
        }
    }

    /// Takes no message any more; what waits goes on. The switch is one step (EX-212).
    fn switch_to_follow(&mut self) {
        self.follows = Follows::Yes;
        let (core, unit, id) = (&self.core, &self.unit, self.live.unit.id());
        let arrived = core.slots.change(id, |slot| {
            let arrived = unit.inbox.close_arrivals();
            match slot {
                Some(Slot::Leaving(found)) if Arc::ptr_eq(&found, unit) => {
                    let follow = core.moves.following.target(id).map(|_| Slot::Follow);
                    (follow, arrived)
                }
                other => (other, arrived),
            }
        });
        for message in arrived {
            self.send_on(message);
        }
    }

    fn forward(&self, record: spotlane_wire::frozen::FrozenRecord) {
        let context = self.context();
        if let Some(message) = freeze::thaw(&self.core, &context, Place::Relayed, record) {
            self.send_on(message);
        }
    }

    /// Along the route, if there is one, and else to whatever stands in the object's place.
    fn send_on(&self, message: Box<Message>) {
        let id = self.live.unit.id();
        if let Err(message) = follow::forward(&self.core, id, message, None) {
            crate::inbound::redispatch(&self.core, id, message);
        }
    }

    fn context(&self) -> MoveContext {
        MoveContext {
            relocation: self.plan.identity.relocation,
            attempt: self.plan.identity.attempt,
            coordinator: self.plan.identity.coordinator.clone(),
            replies: None,
        }
    }

    /// Takes what stands here in the object's place away, if it is this move's.
    fn remove_slot(&self) {
        let (core, unit, id) = (&self.core, &self.unit, self.live.unit.id());
        let (now, tenure) = (self.now(), self.live.unit.tenure());
        let arrived = core.slots.change(id, |slot| {
            core.moves.following.end(id, &tenure, now);
            let slot = match slot {
                Some(Slot::Leaving(found)) if Arc::ptr_eq(&found, unit) => None,
                // The route of a later move keeps its place.
                Some(Slot::Follow) if core.moves.following.target(id).is_none() => None,
                other => other,
            };
            (slot, unit.inbox.close_arrivals())
        });
        for message in arrived {
            crate::inbound::refuse_stale(message);
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

    fn clean_up(&mut self) {
        self.live.unit.cancel_timers();
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

/// Reads the list of nodes now; a store that does not answer leaves it as it was.
async fn look(core: &Core) {
    if let Err(error) = crate::directory::refresh(core).await {
        tracing::debug!(target: "spotlane::runtime::relocation", %error, "the list of nodes was not read");
    }
}

/// What a sealed lane holds, as it travels.
struct CapturedQueue {
    work: Vec<QueuedWork>,
    /// The places, among the messages, of those that do not travel.
    left_out: Vec<usize>,
}

/// EX-204: what was accepted and has not started, with queued ticks, in order.
fn captured_queue(core: &Core, fence: &ActorRouteFence, guard: &SealGuard<Cell>) -> CapturedQueue {
    let mut queue = CapturedQueue {
        work: Vec::new(),
        left_out: Vec::new(),
    };
    let mut messages = 0;
    for captured in guard.captured() {
        match captured {
            Captured::Item {
                item: Work::Message(message),
                ..
            } => {
                match freeze::freeze(core, fence, message) {
                    Ok(record) => queue.work.push(QueuedWork::Record(Box::new(record))),
                    Err(_) => queue.left_out.push(messages),
                }
                messages += 1;
            }
            Captured::Item {
                item: Work::Tick(tick),
                ..
            } => queue.work.push(QueuedWork::Tick(tick.clone())),
            Captured::Tick(tick) => {
                if let Ok(tick) = freeze::freeze_tick(core, tick) {
                    queue.work.push(QueuedWork::Tick(Box::new(tick)));
                }
            }
            _ => {}
        }
    }
    queue
}

/// Puts a record into the queue of a connection, waiting for room; `false` when the connection is over.
pub(super) async fn submit(link: &PeerLink, record: Record) -> bool {
    let mut refused = match link.submit(record) {
        Ok(()) => return true,
        Err(refused) => refused,
    };
    loop {
        if !matches!(refused.why, NotSubmitted::Full { .. }) {
            tracing::debug!(target: "spotlane::runtime::relocation", why = %refused.why, "a record was not sent");
            return false;
        }
        match link.send(*refused.record, None).await {
            Ok(()) => return true,
            Err(SendError::DeadlineExceeded { record, .. }) => match link.submit(*record) {
                Ok(()) => return true,
                Err(again) => refused = again,
            },
            Err(_) => return false,
        }
    }
}
