//! The owner change and its proof (TGT-22 to TGT-26, RL-238, RL-239).

use core::time::Duration;

use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationData;

use super::backlog::Backlog;
use super::effect::{CommitOrder, TargetEffect, TargetIgnored, TargetPoint};
use super::event::CommitAnswer;
use super::open::Committed;
use super::span::{Late, Released};
use super::stage::{Context, Stage, TargetStage, Unit, earliest};
use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, RowRead};
use crate::settings::READ_WAIT_MIN;

/// Proof that the store names this node as owner of the unit.
///
/// Made in one place, of the store's answer; demanded by [`Backlog::merge`] and handed on to whatever
/// opens dispatch.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct OwnerCommitted(());

/// The owner change is asked for.
#[derive(Debug)]
pub struct Committing<M> {
    pub(super) unit: Unit,
    pub(super) backlog: Backlog<M>,
    late: Late,
    cause: Cause,
    step: Step,
    wait: Duration,
}

/// Which of the three stages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The cutover came.
    Received,
    /// The wait was over.
    Fallback,
    /// The store did not settle it at once.
    Retry,
}

/// What is open with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The change was sent.
    Writing,
    /// The row is being read, because what happened is not known (RL-238).
    Reading,
    /// A pause before the next read.
    ReadAt(Monotonic),
    /// A pause before the same change again.
    WriteAt(Monotonic),
}

impl<M> Committing<M> {
    pub(super) fn begin(
        unit: Unit,
        backlog: Backlog<M>,
        late: Late,
        cause: Cause,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        let committing = Box::new(Self {
            unit,
            backlog,
            late,
            cause,
            step: Step::Writing,
            wait: READ_WAIT_MIN,
        });
        committing.write(cx);
        committing.stay()
    }

    /// The stage that it is in.
    pub(super) fn stay(self: Box<Self>) -> Stage<M> {
        match self.cause {
            Cause::Received => Stage::CutoverReceived(self),
            Cause::Fallback => Stage::CutoverFallback(self),
            Cause::Retry => Stage::StoreRetry(self),
        }
    }

    fn retry(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        if self.cause != Cause::Retry {
            self.cause = Cause::Retry;
            cx.enter(TargetStage::StoreRetry);
        }
        self.stay()
    }

    /// The one compare-and-set of the move, after cutover or wait (RL-68, RL-96): the source values that were read first.
    fn write(&self, cx: &mut Context<'_, M>) {
        cx.push(TargetEffect::Commit(Box::new(CommitOrder {
            identity: self.unit.identity.clone(),
            object: self.unit.prepare.object.clone(),
            target: self.unit.prepare.target.clone(),
            join: self.unit.join.clone(),
        })));
    }

    /// The end of the next pause; pauses grow.
    fn pause(&mut self, cx: &Context<'_, M>) -> Monotonic {
        let until = cx.now.after(self.wait);
        let longer = self.wait.saturating_mul(2);
        self.wait = longer.min(cx.settings.polling_interval());
        until
    }

    /// The answer to the change.
    pub(super) fn answered(
        mut self: Box<Self>,
        answer: CommitAnswer,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        if self.step != Step::Writing {
            cx.ignore(TargetIgnored::LateAnswer);
            return self.stay();
        }
        match answer {
            CommitAnswer::Applied {
                authority_owner_generation,
            } => self.owner(authority_owner_generation, OwnerCommitted(()), cx),
            // TGT-24, RL-17: first find out, then the same change again.
            CommitAnswer::NotApplied | CommitAnswer::Unknown => {
                self.step = Step::Reading;
                let stage = self.retry(cx);
                cx.push(TargetEffect::ReadAuthority);
                stage
            }
            // TGT-33, RL-286: nothing is written past the own lease.
            CommitAnswer::NotTried => {
                self.step = Step::ReadAt(self.pause(cx));
                self.retry(cx)
            }
        }
    }

    /// The row after a change whose outcome is not known (RL-238, RL-356).
    pub(super) fn row(mut self: Box<Self>, read: RowRead, cx: &mut Context<'_, M>) -> Stage<M> {
        if self.step != Step::Reading {
            cx.ignore(TargetIgnored::LateAnswer);
            return self.stay();
        }
        let prepare = &self.unit.prepare;
        match read {
            RowRead::Row(row) if row.is_owned_by(&prepare.target, &self.unit.identity) => {
                self.owner(row.authority_owner_generation, OwnerCommitted(()), cx)
            }
            RowRead::Row(row) if row.is_first_read(&prepare.coordinator) => {
                self.step = Step::WriteAt(self.pause(cx));
                self.stay()
            }
            // TGT-25: stale at once, whatever time is left.
            RowRead::Row(_) | RowRead::Absent => self.unit.remove(self.backlog, cx),
            RowRead::Unreadable => {
                self.step = Step::ReadAt(self.pause(cx));
                self.stay()
            }
        }
    }

    /// TGT-23: S2.
    fn owner(
        self: Box<Self>,
        tenure: AuthorityOwnerGeneration,
        proof: OwnerCommitted,
        cx: &mut Context<'_, M>,
    ) -> Stage<M> {
        cx.enter(TargetStage::OwnerCommitted);
        cx.push(TargetEffect::Reached(TargetPoint::S2));
        cx.push(TargetEffect::Merge(self.backlog.merge(&proof)));
        Committed::begin(self.unit, self.late, tenure, proof, cx)
    }

    /// TGT-31: behind what is here.
    pub(super) fn relay(
        &mut self,
        connection: ConnectionId,
        relay: RelocationData,
        cx: &mut Context<'_, M>,
    ) {
        if !self.unit.owns(&relay) {
            cx.ignore(TargetIgnored::ForeignIdentity);
            return;
        }
        self.unit.seen(connection);
        let until = cx.now.after(cx.settings.cutover_wait());
        let released = self.late.push(connection, *relay.record, until);
        self.take(released, cx);
    }

    /// TGT-30: it changes neither owner nor queue, but says what a repeated batch is.
    pub(super) fn late_cutover(&mut self, connection: ConnectionId, cx: &mut Context<'_, M>) {
        cx.diagnose(Diagnostic::LateCutover);
        self.unit.seen(connection);
        let released = self.late.close(connection);
        self.take(released, cx);
    }

    fn take(&mut self, released: Released, cx: &mut Context<'_, M>) {
        for _ in 0..released.repeated {
            cx.ignore(TargetIgnored::AlreadyRelayed);
        }
        for record in released.records {
            self.backlog.push_late(record);
        }
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let pause = match self.step {
            Step::ReadAt(at) | Step::WriteAt(at) => Some(at),
            Step::Writing | Step::Reading => None,
        };
        earliest([Some(self.unit.valid_until), pause, self.late.deadline()])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_, M>) -> Stage<M> {
        // TGT-26, RL-239
        if self.unit.valid_until <= cx.now {
            return self.unit.remove(self.backlog, cx);
        }
        let released = self.late.on_deadline(cx.now);
        self.take(released, cx);
        match self.step {
            Step::ReadAt(at) if at <= cx.now => {
                self.step = Step::Reading;
                cx.push(TargetEffect::ReadAuthority);
            }
            Step::WriteAt(at) if at <= cx.now => {
                self.step = Step::Writing;
                self.write(cx);
            }
            Step::ReadAt(_) | Step::WriteAt(_) | Step::Writing | Step::Reading => {}
        }
        self.stay()
    }
}
