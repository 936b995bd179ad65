//! After the cutover: waiting for the commit, or finding out (SRC-16 to SRC-24, RL-240, RL-241).

use spotlane_types::time::Monotonic;
use spotlane_wire::frozen::FrozenRecord;

use super::effect::{Closing, MoveFailure, SourceEffect, SourceIgnored};
use super::event::SourceEvent;
use super::follow_only::{Ended, FollowOnly};
use super::reads::{Limit, Reads, Seen, judge};
use super::relay::{self, Batch};
use super::stage::{Context, SourceStage, Stage, earliest, is_due};
use crate::identity::{ConnectionId, RowRead};
use crate::unit::{MovePlan, PendingRequest};

/// Payload and batch copy, until the window is over (RL-133).
#[derive(Debug)]
pub(super) struct Retained {
    pub(super) batch: Batch,
    pub(super) until: Monotonic,
}

/// SRC-19: releases the copies once, when the window has ended.
pub(super) fn release_due(retained: &mut Option<Retained>, cx: &mut Context<'_>) {
    if is_due(retained.as_ref().map(|kept| kept.until), cx.now) {
        release(retained, cx);
    }
}

/// Releases the copies if they are still there.
pub(super) fn release(retained: &mut Option<Retained>, cx: &mut Context<'_>) {
    if retained.take().is_some() {
        cx.push(SourceEffect::ReleasePayload);
    }
}

/// A unit whose cutover submit is terminal and whose commit was not seen.
#[derive(Debug)]
pub(super) struct Settling {
    plan: Box<MovePlan>,
    s1: Monotonic,
    retained: Option<Retained>,
    pub(super) connection: Option<ConnectionId>,
    /// What came after the boundary and has not been sent, for want of a connection.
    pub(super) backlog: Vec<FrozenRecord>,
    /// The requests that are at the target, or lost with it.
    pending: Vec<PendingRequest>,
    reads: Reads,
    limit: Limit,
}

/// What an event leads to.
enum Step {
    Stay,
    Leave(Stage),
}

impl Settling {
    pub(super) fn begin(
        plan: Box<MovePlan>,
        retained: Retained,
        pending: Vec<PendingRequest>,
        cx: &mut Context<'_>,
    ) -> Self {
        let mut settling = Self {
            plan,
            s1: cx.now,
            retained: Some(retained),
            connection: None,
            backlog: Vec::new(),
            pending,
            reads: Reads::new(),
            limit: Limit::from_mark(cx),
        };
        settling.reads.start(cx);
        settling
    }

    /// SRC-18: on a new connection the batch and its cutover come first, then what is later (RL-135).
    pub(super) fn connect(&mut self, connection: ConnectionId, cx: &mut Context<'_>) {
        self.connection = Some(connection);
        let window = self.retained.as_ref().filter(|kept| kept.until > cx.now);
        if let Some(retained) = window {
            retained.batch.resend_closed(&self.plan, connection, cx);
        }
        for record in core::mem::take(&mut self.backlog) {
            relay::send(&self.plan, connection, record, cx);
        }
    }

    /// Everything that `AwaitCommit` and `Reconciling` have in common.
    fn on_event(&mut self, event: SourceEvent, cx: &mut Context<'_>) -> Step {
        match event {
            SourceEvent::AuthorityRead(read) => return self.read(read, cx),
            SourceEvent::CommitHint => self.reads.hint(cx),
            // SRC-20, RL-137
            SourceEvent::Arrived(record) => match self.connection {
                Some(connection) => {
                    self.pending.extend(PendingRequest::of(&record));
                    relay::send(&self.plan, connection, *record, cx);
                }
                None => self.backlog.push(*record),
            },
            SourceEvent::ConnectionLost(lost) => {
                if self.connection == Some(lost) {
                    self.connection = None;
                } else {
                    cx.ignore(SourceIgnored::OtherConnection);
                }
            }
            SourceEvent::ConnectionReady(ready) => {
                if self.connection == Some(ready) {
                    cx.ignore(SourceIgnored::OtherConnection);
                } else {
                    self.connect(ready, cx);
                }
            }
            SourceEvent::Shutdown => return Step::Leave(self.shut_down(cx)),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Step::Stay
    }

    fn deadline(&self) -> Option<Monotonic> {
        earliest([
            self.retained.as_ref().map(|kept| kept.until),
            self.reads.deadline(),
            self.limit.deadline(),
        ])
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) {
        release_due(&mut self.retained, cx);
        self.limit.on_deadline(&mut self.reads, cx);
        self.reads.on_deadline(cx);
    }

    fn read(&mut self, read: RowRead, cx: &mut Context<'_>) -> Step {
        if !self.reads.answered(cx) {
            return Step::Stay;
        }
        match judge(&self.plan, read) {
            Seen::Committed(seen) => {
                let backlog = core::mem::take(&mut self.backlog);
                let committed = Committed {
                    plan: self.plan.clone(),
                    s1: Some(self.s1),
                    retained: self.retained.take(),
                    lanes: Lanes::Drained,
                };
                Step::Leave(FollowOnly::begin(committed, backlog, seen, cx))
            }
            // SRC-22
            Seen::Gone => {
                let holding = match self.retained.take() {
                    Some(_) => Holding::Payload,
                    None => Holding::Nothing,
                };
                let (requests, one_way) = self.take_pending();
                Step::Leave(gone(requests, one_way, holding, cx))
            }
            // SRC-23: the last read did not show a commit.
            Seen::Source | Seen::Nothing if self.limit.is_over(&self.reads) => {
                let (requests, one_way) = self.take_pending();
                end_pending(requests, one_way, cx);
                let (plan, s1) = (self.plan.clone(), Some(self.s1));
                let unavailable = Unavailable::begin(plan, s1, self.retained.take(), cx);
                Step::Leave(Stage::Unavailable(Box::new(unavailable)))
            }
            Seen::Source | Seen::Nothing => {
                self.reads.again(self.limit.deadline(), cx);
                Step::Stay
            }
        }
    }

    /// The requests that end now, and how many one-way records go with them.
    fn take_pending(&mut self) -> (Vec<PendingRequest>, u64) {
        let mut requests = core::mem::take(&mut self.pending);
        let backlog = core::mem::take(&mut self.backlog);
        requests.extend(backlog.iter().filter_map(PendingRequest::of));
        (requests, one_way(&backlog))
    }

    /// SRC-26: copies go with the transport. Whatever never left this node is ended here.
    fn shut_down(&mut self, cx: &mut Context<'_>) -> Stage {
        release(&mut self.retained, cx);
        let backlog = core::mem::take(&mut self.backlog);
        let requests = backlog.iter().filter_map(PendingRequest::of).collect();
        end_pending(requests, one_way(&backlog), cx);
        cx.push(SourceEffect::CleanUp(Closing::None));
        cx.enter(SourceStage::Ended);
        Stage::Ended(Ended)
    }
}

/// The cutover is out; the commit is looked for in the background.
#[derive(Debug)]
pub struct AwaitCommit {
    pub(super) settling: Settling,
}

impl AwaitCommit {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match self.settling.on_event(event, cx) {
            Step::Stay => Stage::AwaitCommit(self),
            Step::Leave(stage) => stage,
        }
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.settling.deadline()
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        self.settling.on_deadline(cx);
        Stage::AwaitCommit(self)
    }
}

/// The cutover may not have arrived: nobody guesses, the store is read until the limit.
///
/// ```compile_fail,E0599
/// // SRC-27: not even a store that names the source leads back.
/// use spotlane_relocation::source::{Context, Reconciling, Stage};
/// fn back(stage: Box<Reconciling>, cx: &mut Context<'_>) -> Stage {
///     stage.restore_source(cx)
/// }
/// ```
#[derive(Debug)]
pub struct Reconciling {
    pub(super) settling: Settling,
}

impl Reconciling {
    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match self.settling.on_event(event, cx) {
            Step::Stay => Stage::Reconciling(self),
            Step::Leave(stage) => stage,
        }
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.settling.deadline()
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        self.settling.on_deadline(cx);
        Stage::Reconciling(self)
    }
}

/// The time to find out is over. Requests end at once; each sweep looks again.
#[derive(Debug)]
pub struct Unavailable {
    plan: Box<MovePlan>,
    s1: Option<Monotonic>,
    retained: Option<Retained>,
    reads: Reads,
}

impl Unavailable {
    pub(super) fn begin(
        plan: Box<MovePlan>,
        s1: Option<Monotonic>,
        retained: Option<Retained>,
        cx: &mut Context<'_>,
    ) -> Self {
        cx.enter(SourceStage::Unavailable);
        Self {
            plan,
            s1,
            retained,
            reads: Reads::sweeps(cx),
        }
    }

    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::AuthorityRead(read) => return self.read(read, cx),
            SourceEvent::CommitHint => self.reads.hint(cx),
            // RL-245
            SourceEvent::Arrived(record) => refuse(&record, cx),
            SourceEvent::Shutdown => {
                release(&mut self.retained, cx);
                cx.push(SourceEffect::CleanUp(Closing::None));
                cx.enter(SourceStage::Ended);
                return Stage::Ended(Ended);
            }
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::ConnectionLost(_) | SourceEvent::ConnectionReady(_) => {
                cx.ignore(SourceIgnored::OtherConnection);
            }
            SourceEvent::OperationAborted => cx.ignore(SourceIgnored::PastAbort),
            SourceEvent::WaiterCancelled => cx.ignore(SourceIgnored::Waiter),
            SourceEvent::BindingSealed(_) => cx.ignore(SourceIgnored::ForeignSeal),
            SourceEvent::BindingEnded(_) => cx.ignore(SourceIgnored::ForeignBinding),
            SourceEvent::BudgetOpen
            | SourceEvent::BindsRefused(_)
            | SourceEvent::SafePoint
            | SourceEvent::Captured(_)
            | SourceEvent::HoldDrained
            | SourceEvent::ChunkOpen
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AbortFixed
            | SourceEvent::CleanedUp(_) => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Unavailable(self)
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        earliest([
            self.retained.as_ref().map(|kept| kept.until),
            self.reads.deadline(),
        ])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        release_due(&mut self.retained, cx);
        self.reads.on_deadline(cx);
        Stage::Unavailable(self)
    }

    fn read(mut self: Box<Self>, read: RowRead, cx: &mut Context<'_>) -> Stage {
        if !self.reads.answered(cx) {
            return Stage::Unavailable(self);
        }
        match judge(&self.plan, read) {
            Seen::Committed(seen) => {
                let committed = Committed {
                    plan: self.plan,
                    s1: self.s1,
                    retained: self.retained,
                    lanes: Lanes::Drained,
                };
                FollowOnly::begin(committed, Vec::new(), seen, cx)
            }
            Seen::Gone => {
                let holding = match self.retained.take() {
                    Some(_) => Holding::Payload,
                    None => Holding::Nothing,
                };
                gone(Vec::new(), 0, holding, cx)
            }
            // SRC-24
            Seen::Source | Seen::Nothing => {
                self.reads = Reads::sweeps(cx);
                Stage::Unavailable(self)
            }
        }
    }
}

/// A move whose commit was seen.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) plan: Box<MovePlan>,
    pub(super) s1: Option<Monotonic>,
    pub(super) retained: Option<Retained>,
    pub(super) lanes: Lanes,
}

/// Whether the lanes of the unit may still hold what arrived behind the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    /// No boundary was crossed here, so nobody has asked them.
    Hold,
    /// They gave everything at the boundary.
    Drained,
}

/// Whether copies were still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    Payload,
    Nothing,
}

/// SRC-22: the object has ended; nothing is left to wait for.
pub(super) fn gone(
    requests: Vec<PendingRequest>,
    one_way: u64,
    holding: Holding,
    cx: &mut Context<'_>,
) -> Stage {
    end_pending(requests, one_way, cx);
    if holding == Holding::Payload {
        cx.push(SourceEffect::ReleasePayload);
    }
    cx.push(SourceEffect::CleanUp(Closing::None));
    cx.enter(SourceStage::Ended);
    Stage::Ended(Ended)
}

/// Ends requests with `Unavailable`, once, and counts what goes with them.
pub(super) fn end_pending(requests: Vec<PendingRequest>, one_way: u64, cx: &mut Context<'_>) {
    if !requests.is_empty() {
        cx.push(SourceEffect::EndRequests(requests));
    }
    if one_way > 0 {
        cx.push(SourceEffect::Dropped { records: one_way });
    }
}

/// Answers one record that has nowhere to go.
pub(super) fn refuse(record: &FrozenRecord, cx: &mut Context<'_>) {
    match PendingRequest::of(record) {
        Some(request) => end_pending(vec![request], 0, cx),
        None => end_pending(Vec::new(), 1, cx),
    }
}

/// How many of these records nobody waits for.
pub(super) fn one_way(records: &[FrozenRecord]) -> u64 {
    let one_way = records
        .iter()
        .filter(|record| PendingRequest::of(record).is_none());
    u64::try_from(one_way.count()).unwrap_or(u64::MAX)
}
