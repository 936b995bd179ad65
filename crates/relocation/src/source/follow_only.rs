//! After the commit was seen: Message Follow and the clean-up of the source (SRC-21, SRC-25, RL-138).

use spotlane_types::time::Monotonic;
use spotlane_wire::frozen::FrozenRecord;

use super::effect::{Closing, MoveFailure, SourceEffect, SourceIgnored, SourcePoint};
use super::event::{CleanUpOutcome, SourceEvent};
use super::reads::{Activated, Reads, Seen, SeenCommit, judge};
use super::settle::{Committed, Lanes, Retained, refuse, release, release_due};
use super::stage::{Context, SourceStage, Stage, earliest, is_due};
use crate::diagnostic::Diagnostic;
use crate::identity::RowRead;
use crate::unit::{MovePlan, UnitKind};

/// The target is owner; what still comes here is forwarded.
#[derive(Debug)]
pub struct FollowOnly {
    plan: Box<MovePlan>,
    s1: Option<Monotonic>,
    retained: Option<Retained>,
    /// When the route ends; `None` when it has ended.
    route: Option<Monotonic>,
    cleaning: Cleaning,
}

/// How far the clean-up of the source instance has got.
#[derive(Debug)]
enum Cleaning {
    /// It starts when the target's dispatch is open (RL-71), or at last at this time.
    Waits { reads: Reads, by: Monotonic },
    /// The driver is at it.
    Runs,
    /// The instance is gone.
    Done,
}

impl FollowOnly {
    /// SRC-21: the new owner's route takes over, and the backlog goes along it.
    pub(super) fn begin(
        committed: Committed,
        backlog: Vec<FrozenRecord>,
        seen: SeenCommit,
        cx: &mut Context<'_>,
    ) -> Stage {
        cx.enter(SourceStage::FollowOnly);
        let duration = cx.settings.follow_duration();
        let until = cx.now.after(duration);
        let mut stage = Box::new(Self {
            plan: committed.plan,
            s1: committed.s1,
            retained: committed.retained,
            route: Some(until),
            cleaning: Cleaning::Waits {
                reads: Reads::new(),
                by: cx.now.after(duration.max(cx.settings.restore_validity())),
            },
        });
        // RL-150: a duration of 0 switches it off.
        if duration.is_zero() {
            stage.end_route(cx);
        } else {
            let row = seen.row;
            cx.push(SourceEffect::FollowTo { row, until });
        }
        for record in backlog {
            cx.push(SourceEffect::Forward(Box::new(record)));
        }
        // Before the clean-up takes the lanes, and what they hold with them.
        if committed.lanes == Lanes::Hold {
            cx.push(SourceEffect::DrainHold);
        }
        match seen.activated {
            Activated::Yes => stage.clean_up(cx),
            Activated::NotYet => stage.read_again(cx),
        }
        stage.next(cx)
    }

    pub(super) fn on_event(mut self: Box<Self>, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::Arrived(record) => match self.route {
                Some(_) => cx.push(SourceEffect::Forward(record)),
                None => refuse(&record, cx),
            },
            SourceEvent::AuthorityRead(read) => self.read(read, cx),
            SourceEvent::CommitHint => match &mut self.cleaning {
                Cleaning::Waits { reads, .. } => reads.hint(cx),
                Cleaning::Runs | Cleaning::Done => cx.ignore(SourceIgnored::LateHint),
            },
            SourceEvent::CleanedUp(outcome) => match self.cleaning {
                Cleaning::Runs => {
                    self.cleaning = Cleaning::Done;
                    report(outcome, cx);
                }
                Cleaning::Waits { .. } | Cleaning::Done => cx.ignore(SourceIgnored::LateAnswer),
            },
            SourceEvent::Shutdown => return self.shut_down(cx),
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
            | SourceEvent::AbortFixed => cx.ignore(SourceIgnored::LateAnswer),
        }
        self.next(cx)
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let (read, by) = match &self.cleaning {
            Cleaning::Waits { reads, by } => (reads.deadline(), Some(*by)),
            Cleaning::Runs | Cleaning::Done => (None, None),
        };
        let window = self.retained.as_ref().map(|kept| kept.until);
        earliest([window, self.route, read, by])
    }

    pub(super) fn on_deadline(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        release_due(&mut self.retained, cx);
        if is_due(self.route, cx.now) {
            cx.push(SourceEffect::RemoveFollow);
            self.end_route(cx);
        }
        if let Cleaning::Waits { reads, by } = &mut self.cleaning {
            // A target that never opens does not keep the instance here for ever.
            if *by <= cx.now {
                self.clean_up(cx);
            } else {
                reads.on_deadline(cx);
            }
        }
        self.next(cx)
    }

    /// S4 (RL-345).
    fn end_route(&mut self, cx: &mut Context<'_>) {
        self.route = None;
        let convergence = self.s1.map(|s1| cx.now.since(s1));
        cx.push(SourceEffect::Reached(SourcePoint::S4 { convergence }));
    }

    fn read(&mut self, read: RowRead, cx: &mut Context<'_>) {
        let Cleaning::Waits { reads, .. } = &mut self.cleaning else {
            cx.ignore(SourceIgnored::LateAnswer);
            return;
        };
        if !reads.answered(cx) {
            return;
        }
        match judge(&self.plan, read) {
            Seen::Committed(SeenCommit {
                activated: Activated::Yes,
                ..
            })
            | Seen::Gone => self.clean_up(cx),
            Seen::Committed(SeenCommit {
                activated: Activated::NotYet,
                ..
            })
            | Seen::Source
            | Seen::Nothing => self.read_again(cx),
        }
    }

    fn read_again(&mut self, cx: &mut Context<'_>) {
        if let Cleaning::Waits { reads, by } = &mut self.cleaning {
            let by = *by;
            reads.again(Some(by), cx);
        }
    }

    /// RL-71: the target's dispatch is open.
    fn clean_up(&mut self, cx: &mut Context<'_>) {
        self.cleaning = Cleaning::Runs;
        let closing = match UnitKind::of(&self.plan.object) {
            UnitKind::Actor => Closing::None,
            UnitKind::UserSpot | UnitKind::InstanceSpot => Closing::RelocationOut,
        };
        cx.push(SourceEffect::CleanUp(closing));
    }

    /// SRC-25: over when route, copies and instance are gone.
    fn next(self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        let done = matches!(self.cleaning, Cleaning::Done);
        if self.route.is_none() && self.retained.is_none() && done {
            cx.enter(SourceStage::Ended);
            return Stage::Ended(Ended);
        }
        Stage::FollowOnly(self)
    }

    /// SRC-26: only the follow route is cleaned up; the copies go with the transport.
    fn shut_down(mut self: Box<Self>, cx: &mut Context<'_>) -> Stage {
        if self.route.take().is_some() {
            cx.push(SourceEffect::RemoveFollow);
        }
        release(&mut self.retained, cx);
        if matches!(self.cleaning, Cleaning::Waits { .. }) {
            self.clean_up(cx);
        }
        cx.enter(SourceStage::Ended);
        Stage::Ended(Ended)
    }
}

fn report(outcome: CleanUpOutcome, cx: &mut Context<'_>) {
    match outcome {
        CleanUpOutcome::Done => {}
        // SRC-28: never a reason to move the owner back.
        CleanUpOutcome::CallbackFailed => cx.diagnose(Diagnostic::OnClosingFailed),
    }
}

/// Nothing is left; what still comes is unavailable.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended;

impl Ended {
    pub(super) fn on_event(self, event: SourceEvent, cx: &mut Context<'_>) -> Stage {
        match event {
            SourceEvent::Arrived(record) => refuse(&record, cx),
            SourceEvent::CleanedUp(outcome) => report(outcome, cx),
            SourceEvent::MoveRequested(_) => {
                cx.push(SourceEffect::Refused(MoveFailure::AlreadyMoving));
            }
            SourceEvent::Ready(_) | SourceEvent::Failed(_) => {
                cx.ignore(SourceIgnored::ForeignReply);
            }
            SourceEvent::ConnectionLost(_) | SourceEvent::ConnectionReady(_) => {
                cx.ignore(SourceIgnored::OtherConnection);
            }
            SourceEvent::Shutdown | SourceEvent::OperationAborted => {
                cx.ignore(SourceIgnored::PastAbort);
            }
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
            | SourceEvent::CutoverSubmitted(_)
            | SourceEvent::AuthorityRead(_)
            | SourceEvent::AbortFixed => cx.ignore(SourceIgnored::LateAnswer),
        }
        Stage::Ended(self)
    }
}
