//! The stages before the payload is sent: running, waiting, paused (SRC-1 to SRC-7).

use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::SessionRelocationSealed;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::stream::EnvelopeHead;

use super::effect::{CaptureOrder, MoveFailure, SourceEffect, SourceIgnored, SourcePoint};
use super::event::{BindingName, CaptureFailure, SourceEvent};
use super::payload::{ChunkSizes, Payload};
use super::records;
use super::stage::{Context, SourceStage, Stage, earliest, is_due};
use super::transfer::{TargetRestoring, Transfer};
use crate::identity::ConnectionId;
use crate::unit::{Binding, EarlyProgress, MovePlan, UnitPolicy};

/// The object is served here.
#[derive(Debug)]
pub struct SourceRunning {
    pub(super) moves: Moves,
}

/// Whether a move may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    Allowed,
    /// RL-222: the shutdown was sealed first.
    ShuttingDown,
}

impl SourceRunning {
    pub(super) fn on_event(mut self, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::MoveRequested(plan) => return self.request(plan, cx),
            SourceEvent::Shutdown => self.moves = Moves::ShuttingDown,
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::Arrived(_) => cx.ignore(SourceIgnored::NotHeld),
            SourceEvent::ConnectionLost(_) | SourceEvent::ConnectionReady(_) => {
                cx.ignore(SourceIgnored::OtherConnection);
            }
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Running(self)
    }

    /// SRC-1, SRC-2: what may not move fails without touching dispatch.
    fn request(self, plan: Box<MovePlan>, cx: &mut Context<'_>) -> Stage {
        let refused = match (plan.policy, self.moves) {
            (_, Moves::ShuttingDown) => Some(MoveFailure::ShuttingDown),
            (UnitPolicy::Disabled, Moves::Allowed) => Some(MoveFailure::Disabled),
            (UnitPolicy::Movable, Moves::Allowed) if plan.deadline <= cx.now => {
                Some(MoveFailure::DeadlineExceeded)
            }
            (UnitPolicy::Movable, Moves::Allowed) => None,
        };
        if let Some(failure) = refused {
            cx.push(SourceEffect::Refused(failure));
            return Stage::Running(self);
        }
        cx.enter(SourceStage::Waiting);
        cx.push(SourceEffect::AwaitBudget);
        Stage::Waiting(Box::new(Waiting {
            connection: Some(plan.connection),
            plan,
            wait: Wait::Budget,
        }))
    }
}

/// A move was accepted; messages and timers are processed as ever (SRC-3).
#[derive(Debug)]
pub struct Waiting {
    plan: Box<MovePlan>,
    connection: Option<ConnectionId>,
    wait: Wait,
}

/// What it waits for, in this order (RL-125).
#[derive(Debug)]
enum Wait {
    Budget,
    Binds,
    Seals {
        all: Vec<Binding>,
        open: Vec<Binding>,
        until: Monotonic,
    },
    SafePoint {
        all: Vec<Binding>,
    },
}

impl Waiting {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::BudgetOpen => self.budget_open(cx),
            SourceEvent::BindsRefused(bindings) => self.binds_refused(bindings, cx),
            SourceEvent::BindingSealed(sealed) => self.sealed(&sealed, cx),
            SourceEvent::BindingEnded(name) => self.binding_ended(&name, cx),
            SourceEvent::SafePoint => return self.safe_point(cx),
            SourceEvent::ConnectionLost(lost) => {
                if self.connection == Some(lost) {
                    self.connection = None;
                } else {
                    cx.ignore(SourceIgnored::OtherConnection);
                }
            }
            SourceEvent::ConnectionReady(ready) => self.connection = Some(ready),
            // RL-140: one move at a time.
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            // SRC-4: R§9, whichever was sealed first, and no seal was taken yet.
            SourceEvent::Shutdown => return self.fail(MoveFailure::ShuttingDown, cx),
            SourceEvent::OperationAborted => return self.fail(MoveFailure::Aborted, cx),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::Arrived(_) => cx.ignore(SourceIgnored::NotHeld),
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Waiting(self)
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        earliest([Some(self.plan.deadline), self.seals_until()])
    }

    pub(super) fn on_deadline(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        if self.plan.deadline <= cx.now {
            return self.fail(MoveFailure::DeadlineExceeded, cx);
        }
        if is_due(self.seals_until(), cx.now) {
            return self.fail(MoveFailure::NotSealed, cx);
        }
        Stage::Waiting(self)
    }

    fn seals_until(&self) -> Option<Monotonic> {
        match &self.wait {
            Wait::Seals { until, .. } => Some(*until),
            Wait::Budget | Wait::Binds | Wait::SafePoint { .. } => None,
        }
    }

    fn budget_open(&mut self, cx: &mut Context<'_>) {
        if matches!(self.wait, Wait::Budget) {
            self.wait = Wait::Binds;
            cx.push(SourceEffect::RefuseBinds);
        } else {
            cx.ignore(SourceIgnored::LateAnswer);
        }
    }

    /// RL-125: sealing the bindings comes last, because their clocks start there.
    fn binds_refused(&mut self, bindings: Vec<Binding>, cx: &mut Context<'_>) {
        if !matches!(self.wait, Wait::Binds) {
            cx.ignore(SourceIgnored::LateAnswer);
            return;
        }
        for binding in &bindings {
            cx.push(records::seal(&self.plan, binding));
        }
        self.wait = Wait::Seals {
            open: bindings.clone(),
            all: bindings,
            until: cx.now.after(cx.settings.seal_timeout()),
        };
        self.seal_when_complete(cx);
    }

    fn seal_when_complete(&mut self, cx: &mut Context<'_>) {
        if let Wait::Seals { all, open, .. } = &mut self.wait
            && open.is_empty()
        {
            self.wait = Wait::SafePoint {
                all: core::mem::take(all),
            };
            cx.push(SourceEffect::RequestSeal);
        }
    }

    fn sealed(&mut self, sealed: &SessionRelocationSealed, cx: &mut Context<'_>) {
        let plan = &self.plan;
        let Wait::Seals { open, .. } = &mut self.wait else {
            cx.ignore(SourceIgnored::ForeignSeal);
            return;
        };
        let before = open.len();
        open.retain(|binding| !records::answers(plan, binding, sealed));
        if open.len() == before {
            cx.ignore(SourceIgnored::ForeignSeal);
        }
        self.seal_when_complete(cx);
    }

    /// RL-358: nobody waits for the seal of a binding that has ended. Its 44 is sent all the same.
    fn binding_ended(&mut self, name: &BindingName, cx: &mut Context<'_>) {
        let Wait::Seals { open, .. } = &mut self.wait else {
            cx.ignore(SourceIgnored::ForeignBinding);
            return;
        };
        let before = open.len();
        open.retain(|binding| !is_named(binding, name));
        if open.len() == before {
            cx.ignore(SourceIgnored::ForeignBinding);
        }
        self.seal_when_complete(cx);
    }

    /// SRC-5: S0.
    fn safe_point(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        let Self {
            plan,
            connection,
            wait,
        } = *self;
        let Wait::SafePoint { all } = wait else {
            cx.ignore(SourceIgnored::LateAnswer);
            return Stage::Waiting(Box::new(Self {
                plan,
                connection,
                wait,
            }));
        };
        cx.enter(SourceStage::SourcePaused);
        cx.push(SourceEffect::Reached(SourcePoint::S0));
        // RL-65: sealed, then captured.
        cx.push(SourceEffect::Capture(Box::new(CaptureOrder {
            head: EnvelopeHead {
                relocation: plan.identity.relocation,
                object: plan.object.clone(),
                application_version: plan.application_version,
            },
            chunks: ChunkSizes::new(cx.settings, plan.receive_chunk_limit),
        })));
        Stage::Paused(Box::new(SourcePaused {
            plan,
            bindings: all,
            s0: cx.now,
            hold: Vec::new(),
            connection,
            payload: None,
        }))
    }

    /// SRC-4: the operation fails, and nothing was stopped.
    fn fail(self: Box<Self>, failure: MoveFailure, cx: &mut Context<'_>) -> Stage {
        let sealed = match &self.wait {
            Wait::Budget | Wait::Binds => &[][..],
            Wait::Seals { all, .. } => all,
            Wait::SafePoint { all } => {
                cx.push(SourceEffect::WithdrawSeal);
                all
            }
        };
        for binding in sealed {
            cx.push(records::abort(&self.plan, binding));
        }
        if !matches!(self.wait, Wait::Budget) {
            cx.push(SourceEffect::AllowBinds);
        }
        cx.enter(SourceStage::SourceRunning);
        cx.push(SourceEffect::Finished(Err(failure)));
        Stage::Running(SourceRunning {
            moves: match failure {
                MoveFailure::ShuttingDown => Moves::ShuttingDown,
                MoveFailure::Disabled
                | MoveFailure::AlreadyMoving
                | MoveFailure::NotSealed
                | MoveFailure::DeadlineExceeded
                | MoveFailure::Aborted
                | MoveFailure::Capture(_)
                | MoveFailure::Target(_) => Moves::Allowed,
            },
        })
    }
}

fn is_named(binding: &Binding, name: &BindingName) -> bool {
    binding.actor.actor.actor_id == name.actor_id
        && binding.session_rid == name.session_rid
        && binding.binding_generation == name.binding_generation
}

/// Dispatch stands still; state and queue are being captured, or wait for a connection.
#[derive(Debug)]
pub struct SourcePaused {
    plan: Box<MovePlan>,
    bindings: Vec<Binding>,
    s0: Monotonic,
    hold: Vec<FrozenRecord>,
    connection: Option<ConnectionId>,
    /// What was captured, when there is no connection to send it on.
    payload: Option<Box<Payload>>,
}

impl SourcePaused {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::Captured(captured) => return self.captured(captured, cx),
            // RL-126: from S0 on what arrives is held, in the order of acceptance.
            SourceEvent::Arrived(record) => self.hold.push(*record),
            SourceEvent::ConnectionLost(lost) => {
                if self.connection == Some(lost) {
                    self.connection = None;
                } else {
                    cx.ignore(SourceIgnored::OtherConnection);
                }
            }
            SourceEvent::ConnectionReady(ready) => {
                self.connection = Some(ready);
                return self.send_when_possible(cx);
            }
            SourceEvent::OperationAborted => {
                return self.restore_source(Some(MoveFailure::Aborted), cx);
            }
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Paused(self)
    }

    pub(super) fn deadline(&self) -> Monotonic {
        self.plan.deadline
    }

    /// SRC-6: out of time before command 40 was sent.
    pub(super) fn on_deadline(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        if self.plan.deadline <= cx.now {
            return self.restore_source(Some(MoveFailure::DeadlineExceeded), cx);
        }
        Stage::Paused(self)
    }

    fn captured(
        mut self: Box<Self>,
        captured: Result<Box<Payload>, CaptureFailure>,
        cx: &mut Context<'_>,
    ) -> Stage {
        if self.payload.is_some() {
            cx.ignore(SourceIgnored::LateAnswer);
            return Stage::Paused(self);
        }
        match captured {
            Ok(payload) => {
                self.payload = Some(payload);
                self.send_when_possible(cx)
            }
            Err(failure) => self.restore_source(Some(MoveFailure::Capture(failure)), cx),
        }
    }

    /// SRC-7: command 40 goes out with the payload fixed in memory and a connection to pin it to.
    fn send_when_possible(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        // SRC-6: out of time before it was sent; behind it nobody could say what comes of the move.
        if self.plan.deadline <= cx.now {
            return self.restore_source(Some(MoveFailure::DeadlineExceeded), cx);
        }
        let this = *self;
        match (this.payload, this.connection) {
            (Some(payload), Some(connection)) => {
                cx.enter(SourceStage::TargetRestoring);
                let mut transfer = Transfer::new(this.plan, this.bindings, this.s0, payload);
                transfer.hold = this.hold;
                transfer.connect(connection, cx);
                Stage::TargetRestoring(Box::new(TargetRestoring { transfer }))
            }
            (payload, connection) => Stage::Paused(Box::new(Self {
                plan: this.plan,
                bindings: this.bindings,
                s0: this.s0,
                hold: this.hold,
                connection,
                payload,
            })),
        }
    }

    /// Gives the object back to its source, before command 40 (SRC-6).
    pub fn restore_source(
        self: Box<Self>,
        failure: Option<MoveFailure>,
        cx: &mut Context<'_>,
    ) -> Stage {
        let this = *self;
        restore(this.plan, this.bindings, this.hold, failure, cx)
    }
}

/// RB of RL section 15, in its order: queue, abort fixed, 44, payload dropped, reopened.
///
/// Called by `restore_source`, which only the stages before the boundary have.
pub(super) fn restore(
    plan: Box<MovePlan>,
    bindings: Vec<Binding>,
    hold: Vec<FrozenRecord>,
    failure: Option<MoveFailure>,
    cx: &mut Context<'_>,
) -> Stage {
    cx.push(SourceEffect::RestoreQueue { held: hold });
    let aborting = Box::new(Aborting {
        plan,
        bindings,
        failure,
        hold: Vec::new(),
    });
    match aborting.plan.early_progress {
        // RL-28: nothing was written, so nothing has to be undone.
        EarlyProgress::None => aborting.finish(cx),
        EarlyProgress::Recorded => {
            cx.push(SourceEffect::FixAbort);
            Stage::Aborting(aborting)
        }
    }
}

/// The way back of a unit whose move stands in the store: dispatch stays closed until it is undone.
#[derive(Debug)]
pub struct Aborting {
    plan: Box<MovePlan>,
    bindings: Vec<Binding>,
    failure: Option<MoveFailure>,
    /// What arrived since the queue was put back.
    hold: Vec<FrozenRecord>,
}

impl Aborting {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::AbortFixed => return self.finish(cx),
            SourceEvent::Arrived(record) => self.hold.push(*record),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::ConnectionLost(_) | SourceEvent::ConnectionReady(_) => {
                cx.ignore(SourceIgnored::OtherConnection);
            }
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Aborting(self)
    }

    /// The abort is fixed: tell the sessions, drop the payload, open again.
    fn finish(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        if !self.hold.is_empty() {
            cx.push(SourceEffect::RestoreQueue { held: self.hold });
        }
        // RL-358: one 44 for every 42, answered or not.
        for binding in &self.bindings {
            cx.push(records::abort(&self.plan, binding));
        }
        cx.push(SourceEffect::ReleasePayload);
        cx.push(SourceEffect::AllowBinds);
        cx.push(SourceEffect::Reopen);
        cx.enter(SourceStage::SourceRunning);
        if let Some(failure) = self.failure {
            cx.push(SourceEffect::Finished(Err(failure)));
        }
        Stage::Running(SourceRunning {
            moves: Moves::Allowed,
        })
    }
}
