//! Across the boundary: the hold is relayed and the cutover submitted (SRC-13 to SRC-17).

use core::time::Duration;

use spotlane_types::time::Monotonic;
use spotlane_wire::frozen::FrozenRecord;

use super::effect::{InterruptionTarget, MoveFailure, SourceEffect, SourceIgnored, SourcePoint};
use super::event::{SourceEvent, SubmitOutcome};
use super::payload::Payload;
use super::records;
use super::settle::{AwaitCommit, Reconciling, Retained, Settling};
use super::stage::{Context, SourceStage, Stage};
use super::transfer::Transfer;
use crate::boundary::Boundary;
use crate::diagnostic::Diagnostic;
use crate::identity::ConnectionId;
use crate::settings::INTERRUPTION_TARGET;
use crate::unit::{MovePlan, PendingRequest};

/// The records before the boundary, kept for a retransmission.
#[derive(Debug)]
pub(super) struct Batch {
    payload: Box<Payload>,
    records: Vec<FrozenRecord>,
    boundary: Boundary,
}

impl Batch {
    /// Takes a record into the batch; `false` when it cannot be encoded.
    fn push(&mut self, record: &FrozenRecord, cx: &mut Context<'_>) -> bool {
        if self.boundary.push(record).is_err() {
            cx.diagnose(Diagnostic::RecordNotEncodable);
            return false;
        }
        self.records.push(record.clone());
        true
    }

    /// Sends all records, in order.
    pub(super) fn resend(&self, plan: &MovePlan, connection: ConnectionId, cx: &mut Context<'_>) {
        for record in &self.records {
            send(plan, connection, record.clone(), cx);
        }
    }

    /// Sends all records and the cutover behind them (RL-134).
    pub(super) fn resend_closed(
        &self,
        plan: &MovePlan,
        connection: ConnectionId,
        cx: &mut Context<'_>,
    ) {
        self.resend(plan, connection, cx);
        let record = Box::new(records::cutover(plan, &self.boundary));
        cx.push(SourceEffect::Send { connection, record });
    }

    /// The requests whose callers wait: of the saved work and of the batch.
    fn requests(&self) -> Vec<PendingRequest> {
        let saved = self.payload.requests().iter().cloned();
        saved
            .chain(self.records.iter().filter_map(PendingRequest::of))
            .collect()
    }
}

/// Sends command 31.
pub(super) fn send(
    plan: &MovePlan,
    connection: ConnectionId,
    record: FrozenRecord,
    cx: &mut Context<'_>,
) {
    let record = Box::new(records::relay(plan, record));
    cx.push(SourceEffect::Send { connection, record });
}

/// The target is ready, and from here nothing leads back: there is no such method.
///
/// ```compile_fail,E0599
/// // R§4.4, RL-352: after the boundary the source is never restored.
/// use spotlane_relocation::source::{Context, MoveFailure, RelayReady, Stage};
/// fn back(stage: Box<RelayReady>, why: MoveFailure, cx: &mut Context<'_>) -> Stage {
///     stage.restore_source(Some(why), cx)
/// }
/// ```
#[derive(Debug)]
pub struct RelayReady {
    plan: Box<MovePlan>,
    operation: Operation,
    bound: Bound,
    s0: Monotonic,
    batch: Batch,
    connection: Option<ConnectionId>,
    /// What the cutover is pinned to if no connection is left: the submit then fails.
    last_connection: ConnectionId,
}

/// Whether the operation that asked for the move has its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Waits,
    /// It ended at its deadline, and that result stays (SRC-30).
    Ended,
}

/// Whether sessions wait for the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    No,
    Yes,
}

impl RelayReady {
    /// SRC-13: the boundary. What was held goes out, in order.
    pub(super) fn begin(
        transfer: Transfer,
        operation: Operation,
        cx: &mut Context<'_>,
    ) -> Box<Self> {
        cx.enter(SourceStage::RelayReady);
        let last_connection = transfer.connection.unwrap_or(transfer.plan.connection);
        let mut stage = Box::new(Self {
            operation,
            bound: if transfer.bindings.is_empty() {
                Bound::No
            } else {
                Bound::Yes
            },
            plan: transfer.plan,
            s0: transfer.s0,
            batch: Batch {
                payload: transfer.payload,
                records: Vec::new(),
                boundary: Boundary::default(),
            },
            connection: transfer.connection,
            last_connection,
        });
        for record in transfer.hold {
            stage.relay(record, cx);
        }
        cx.push(SourceEffect::DrainHold);
        stage
    }

    fn relay(&mut self, record: FrozenRecord, cx: &mut Context<'_>) {
        if self.batch.push(&record, cx)
            && let Some(connection) = self.connection
        {
            send(&self.plan, connection, record, cx);
        }
    }

    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            // SRC-14
            SourceEvent::Arrived(record) => self.relay(*record, cx),
            SourceEvent::HoldDrained => return self.cut_over(cx),
            SourceEvent::ConnectionLost(lost) => {
                if self.connection == Some(lost) {
                    self.connection = None;
                } else {
                    cx.ignore(SourceIgnored::OtherConnection);
                }
            }
            SourceEvent::ConnectionReady(ready) => {
                self.connection = Some(ready);
                self.last_connection = ready;
                self.batch.resend(&self.plan, ready, cx);
            }
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            // RL-353: the one reply that counts was taken.
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::RelayReady(self)
    }

    /// SRC-15: the cutover is submitted once, behind all that was relayed.
    fn cut_over(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        let connection = self.connection.unwrap_or(self.last_connection);
        cx.enter(SourceStage::CutoverSubmitted);
        let record = Box::new(records::cutover(&self.plan, &self.batch.boundary));
        cx.push(SourceEffect::SubmitCutover { connection, record });
        Stage::CutoverSubmitted(Box::new(CutoverSubmitted {
            plan: self.plan,
            operation: self.operation,
            bound: self.bound,
            s0: self.s0,
            batch: self.batch,
            connection: self.connection,
            submitted_on: connection,
            backlog: Vec::new(),
        }))
    }
}

/// The cutover is with the transport, which will say how that ended.
#[derive(Debug)]
pub struct CutoverSubmitted {
    plan: Box<MovePlan>,
    operation: Operation,
    bound: Bound,
    s0: Monotonic,
    batch: Batch,
    connection: Option<ConnectionId>,
    submitted_on: ConnectionId,
    /// What came after the boundary and found no connection behind the cutover.
    backlog: Vec<FrozenRecord>,
}

impl CutoverSubmitted {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::CutoverSubmitted(outcome) => return self.terminal(outcome, cx),
            // Behind the boundary; only a connection that carries the cutover may carry it.
            SourceEvent::Arrived(record) => match self.connection {
                Some(connection) if connection == self.submitted_on => {
                    send(&self.plan, connection, *record, cx);
                }
                Some(_) | None => self.backlog.push(*record),
            },
            SourceEvent::ConnectionLost(lost) => {
                if self.connection == Some(lost) {
                    self.connection = None;
                } else {
                    cx.ignore(SourceIgnored::OtherConnection);
                }
            }
            SourceEvent::ConnectionReady(ready) => self.connection = Some(ready),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::CommitHint => cx.ignore(SourceIgnored::LateHint),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::CutoverSubmitted(self)
    }

    /// SRC-16, SRC-17: S1. Either way dispatch has ended here for good.
    fn terminal(self: Box<Self>, outcome: SubmitOutcome, cx: &mut Context<'_>) -> Stage {
        let this = *self;
        let name = match outcome {
            SubmitOutcome::Submitted => SourceStage::AwaitCommit,
            SubmitOutcome::FailedOrUnknown => SourceStage::Reconciling,
        };
        cx.enter(name);
        cx.push(SourceEffect::ReturnPermit);
        measure(cx.now.since(this.s0), this.bound, cx);
        // RL-210: moved, as far as the source is concerned.
        if this.operation == Operation::Waits {
            cx.push(SourceEffect::Finished(Ok(())));
        }
        let pending = this.batch.requests();
        let mut settling = Settling::begin(
            this.plan,
            Retained {
                batch: this.batch,
                until: cx.now.after(cx.settings.cutover_wait()),
            },
            pending,
            cx,
        );
        settling.backlog = this.backlog;
        match (this.connection, outcome) {
            (Some(connection), SubmitOutcome::Submitted) if connection == this.submitted_on => {
                settling.connection = Some(connection);
            }
            (Some(connection), SubmitOutcome::Submitted | SubmitOutcome::FailedOrUnknown)
                if connection != this.submitted_on =>
            {
                settling.connect(connection, cx);
            }
            // The transport refused it on a connection that it will report as lost.
            (Some(_) | None, SubmitOutcome::Submitted | SubmitOutcome::FailedOrUnknown) => {}
        }
        match outcome {
            SubmitOutcome::Submitted => Stage::AwaitCommit(Box::new(AwaitCommit { settling })),
            SubmitOutcome::FailedOrUnknown => {
                Stage::Reconciling(Box::new(Reconciling { settling }))
            }
        }
    }
}

fn measure(interruption: Duration, bound: Bound, cx: &mut Context<'_>) {
    let target = if interruption > INTERRUPTION_TARGET {
        InterruptionTarget::Exceeded
    } else {
        InterruptionTarget::Met
    };
    cx.push(SourceEffect::Reached(SourcePoint::S1 {
        interruption,
        target,
    }));
    // OP-8: the sessions' clock runs on through commit and opening.
    if bound == Bound::Yes && interruption.saturating_mul(2) > cx.settings.seal_timeout() {
        cx.diagnose(Diagnostic::SealHalfUsed);
    }
}
