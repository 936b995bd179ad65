//! Payload on its way: target restoring, or silent past the deadline (SRC-7 to SRC-13, SRC-30, SRC-31).

use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::{RelocationFailed, RelocationReady};
use spotlane_wire::frozen::FrozenRecord;

use super::before::restore;
use super::effect::{MoveFailure, SourceEffect, SourceIgnored};
use super::event::SourceEvent;
use super::follow_only::FollowOnly;
use super::payload::Payload;
use super::reads::{Limit, Reads, Seen, judge};
use super::records::{self, Reply};
use super::relay::{Operation, RelayReady};
use super::settle::{self, Lanes, Unavailable};
use super::stage::{Context, SourceStage, Stage, earliest};
use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, RowRead};
use crate::unit::{Binding, MovePlan, PendingRequest};

/// A payload on its way, and what arrives meanwhile.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) plan: Box<MovePlan>,
    pub(super) bindings: Vec<Binding>,
    pub(super) s0: Monotonic,
    pub(super) payload: Box<Payload>,
    pub(super) hold: Vec<FrozenRecord>,
    pub(super) connection: Option<ConnectionId>,
    /// The chunks that were sent on this connection.
    sent: usize,
    /// Whether room for the next chunk was asked for.
    asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Yes,
}

/// What a reply of the target leads to.
enum Verdict {
    Accept,
    Refuse,
    Nothing,
}

impl Transfer {
    pub(super) const fn new(
        plan: Box<MovePlan>,
        bindings: Vec<Binding>,
        s0: Monotonic,
        payload: Box<Payload>,
    ) -> Self {
        Self {
            plan,
            bindings,
            s0,
            payload,
            hold: Vec::new(),
            connection: None,
            sent: 0,
            asked: Asked::No,
        }
    }

    /// Sends command 40, and all chunks after it, on a connection (RL-136: again, if it is a new one).
    pub(super) fn connect(&mut self, connection: ConnectionId, cx: &mut Context<'_>) {
        self.connection = Some(connection);
        self.sent = 0;
        self.asked = Asked::No;
        let record = Box::new(records::prepare(&self.plan, self.payload.summary()));
        cx.push(SourceEffect::Send { connection, record });
        self.ask(cx);
    }

    /// The connection for what comes after the boundary, should it still come. Nothing of the transfer begins again on it:
    /// SRC-11 has ended with the deadline of the operation.
    const fn reconnect(&mut self, connection: ConnectionId) {
        self.connection = Some(connection);
        self.asked = Asked::No;
    }

    fn disconnect(&mut self, lost: ConnectionId, cx: &mut Context<'_>) {
        if self.connection == Some(lost) {
            self.connection = None;
            self.asked = Asked::No;
        } else {
            cx.ignore(SourceIgnored::OtherConnection);
        }
    }

    fn next_chunk(&self) -> Option<spotlane_wire::Record> {
        let bytes = self.payload.chunks().get(self.sent)?;
        let ordinal = u32::try_from(self.sent).ok()?;
        records::chunk(&self.plan, ordinal, bytes.clone())
    }

    /// RL-131: the next chunk waits for room; it never fails for want of it.
    fn ask(&mut self, cx: &mut Context<'_>) {
        if let Some(record) = self.next_chunk() {
            self.asked = Asked::Yes;
            let charge = records::charge_of(&record);
            cx.push(SourceEffect::AwaitChunk { charge });
        }
    }

    fn chunk_open(&mut self, cx: &mut Context<'_>) {
        let (Some(connection), Asked::Yes, Some(record)) =
            (self.connection, self.asked, self.next_chunk())
        else {
            cx.ignore(SourceIgnored::LateAnswer);
            return;
        };
        let record = Box::new(record);
        cx.push(SourceEffect::Send { connection, record });
        self.sent = self.sent.saturating_add(1);
        self.asked = Asked::No;
        self.ask(cx);
    }

    fn judge_ready(&self, ready: &RelocationReady, cx: &mut Context<'_>) -> Verdict {
        match records::ready_reply(&self.plan, ready) {
            Reply::Ours => Verdict::Accept,
            other @ (Reply::Foreign | Reply::WrongRole) => self.not_ours(other, cx),
        }
    }

    fn judge_failed(&self, failed: &RelocationFailed, cx: &mut Context<'_>) -> Verdict {
        match records::failed_reply(&self.plan, failed) {
            Reply::Ours => Verdict::Refuse,
            other @ (Reply::Foreign | Reply::WrongRole) => self.not_ours(other, cx),
        }
    }

    #[expect(clippy::unused_self, reason = "reads as part of the two above")]
    fn not_ours(&self, reply: Reply, cx: &mut Context<'_>) -> Verdict {
        match reply {
            Reply::WrongRole => cx.diagnose(Diagnostic::WrongRole),
            Reply::Ours | Reply::Foreign => cx.ignore(SourceIgnored::ForeignReply),
        }
        Verdict::Nothing
    }

    /// The requests whose callers wait for this unit.
    fn requests(&self) -> Vec<PendingRequest> {
        let saved = self.payload.requests().iter().cloned();
        saved
            .chain(self.hold.iter().filter_map(PendingRequest::of))
            .collect()
    }
}

/// The target restores; an explicit failure leads back, silence does not.
#[derive(Debug)]
pub struct TargetRestoring {
    pub(super) transfer: Transfer,
}

impl TargetRestoring {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        let transfer = &mut self.transfer;
        match event {
            SourceEvent::Ready(ready) => match transfer.judge_ready(&ready, cx) {
                Verdict::Accept => {
                    return Stage::RelayReady(RelayReady::begin(
                        self.transfer,
                        Operation::Waits,
                        cx,
                    ));
                }
                Verdict::Refuse | Verdict::Nothing => {}
            },
            SourceEvent::Failed(failed) => match transfer.judge_failed(&failed, cx) {
                Verdict::Refuse => {
                    let failure = MoveFailure::Target(failed.failure_code);
                    return self.restore_source(Some(failure), cx);
                }
                Verdict::Accept | Verdict::Nothing => {}
            },
            SourceEvent::ChunkOpen => transfer.chunk_open(cx),
            // SRC-8: held, and not relayed before the target is ready for it.
            SourceEvent::Arrived(record) => transfer.hold.push(*record),
            SourceEvent::ConnectionLost(lost) => transfer.disconnect(lost, cx),
            // SRC-11
            SourceEvent::ConnectionReady(ready) => transfer.connect(ready, cx),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            // RL-352: only an explicit failure restores once command 40 was sent.
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
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::TargetRestoring(self)
    }

    pub(super) fn deadline(&self) -> Monotonic {
        self.transfer.plan.deadline
    }

    /// SRC-12: silence is no failure; what the target does is not known from here.
    pub(super) fn on_deadline(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        if self.transfer.plan.deadline > cx.now {
            return Stage::TargetRestoring(self);
        }
        cx.enter(SourceStage::Reconciling);
        cx.push(SourceEffect::Finished(Err(MoveFailure::DeadlineExceeded)));
        let mut unknown = Box::new(ReadyUnknown {
            transfer: self.transfer,
            reads: Reads::new(),
            limit: Limit::from_mark(cx),
        });
        unknown.reads.start(cx);
        Stage::ReadyUnknown(unknown)
    }

    /// Gives the object back to its source: the target has failed explicitly (SRC-9).
    ///
    /// Only stages before the boundary can do this:
    ///
    /// ```
    /// use spotlane_relocation::source::{Context, MoveFailure, Stage, TargetRestoring};
    /// fn back(stage: Box<TargetRestoring>, why: MoveFailure, cx: &mut Context<'_>) -> Stage {
    ///     stage.restore_source(Some(why), cx)
    /// }
    /// ```
    pub fn restore_source(
        self: Box<Self>,
        failure: Option<MoveFailure>,
        cx: &mut Context<'_>,
    ) -> Stage {
        let Transfer {
            plan,
            bindings,
            hold,
            ..
        } = self.transfer;
        restore(plan, bindings, hold, failure, cx)
    }
}

/// No reply came in time: the boundary was not crossed here, but may be crossed still.
#[derive(Debug)]
pub struct ReadyUnknown {
    transfer: Transfer,
    reads: Reads,
    limit: Limit,
}

impl ReadyUnknown {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        let transfer = &mut self.transfer;
        match event {
            // SRC-30
            SourceEvent::Ready(ready) => match transfer.judge_ready(&ready, cx) {
                Verdict::Accept => {
                    return Stage::RelayReady(RelayReady::begin(
                        self.transfer,
                        Operation::Ended,
                        cx,
                    ));
                }
                Verdict::Refuse | Verdict::Nothing => {}
            },
            // SRC-31: the operation has its result already.
            SourceEvent::Failed(failed) => match transfer.judge_failed(&failed, cx) {
                Verdict::Refuse => return self.restore_source(cx),
                Verdict::Accept | Verdict::Nothing => {}
            },
            SourceEvent::AuthorityRead(read) => return self.read(read, cx),
            SourceEvent::Arrived(record) => transfer.hold.push(*record),
            SourceEvent::ChunkOpen => transfer.chunk_open(cx),
            SourceEvent::ConnectionLost(lost) => transfer.disconnect(lost, cx),
            SourceEvent::ConnectionReady(ready) => transfer.reconnect(ready),
            SourceEvent::CommitHint => self.reads.hint(cx),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Shutdown => cx.ignore(SourceIgnored::MoveGoesOn),
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::ReadyUnknown(self)
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        earliest([self.reads.deadline(), self.limit.deadline()])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        self.limit.on_deadline(&mut self.reads, cx);
        self.reads.on_deadline(cx);
        Stage::ReadyUnknown(self)
    }

    /// RL-356: a row shows a commit or it does not; it never shows that there will be none.
    fn read(mut self: Box<Self>, read: RowRead, cx: &mut Context<'_>) -> Stage {
        if !self.reads.answered(cx) {
            return Stage::ReadyUnknown(self);
        }
        match judge(&self.transfer.plan, read) {
            Seen::Committed(seen) => {
                let Transfer { plan, hold, .. } = self.transfer;
                cx.push(SourceEffect::ReleasePayload);
                let committed = settle::Committed {
                    plan,
                    s1: None,
                    retained: None,
                    lanes: Lanes::Hold,
                };
                FollowOnly::begin(committed, hold, seen, cx)
            }
            Seen::Gone => {
                let requests = self.transfer.requests();
                let one_way = settle::one_way(&self.transfer.hold);
                // Before the clean-up takes the lanes, and what they hold with them.
                cx.push(SourceEffect::DrainHold);
                settle::gone(requests, one_way, settle::Holding::Payload, cx)
            }
            Seen::Source | Seen::Nothing if self.limit.is_over(&self.reads) => {
                let requests = self.transfer.requests();
                let one_way = settle::one_way(&self.transfer.hold);
                settle::end_pending(requests, one_way, cx);
                cx.push(SourceEffect::ReleasePayload);
                let stage = Unavailable::begin(self.transfer.plan, None, None, cx);
                cx.push(SourceEffect::DrainHold);
                Stage::Unavailable(Box::new(stage))
            }
            Seen::Source | Seen::Nothing => {
                self.reads.again(self.limit.deadline(), cx);
                Stage::ReadyUnknown(self)
            }
        }
    }

    /// Gives the object back to its source: the failure came late, but it came (SRC-31).
    pub fn restore_source(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        let Transfer {
            plan,
            bindings,
            hold,
            ..
        } = self.transfer;
        restore(plan, bindings, hold, None, cx)
    }
}
