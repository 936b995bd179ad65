//! Reading the Location Store for a commit (RL-138, RL-356, OP-2), and how long (RL-241).

use core::time::Duration;

use spotlane_types::kind::RelocationPhase;
use spotlane_types::time::Monotonic;

use super::effect::{SourceEffect, SourceIgnored};
use super::stage::{Context, is_due};
use crate::identity::{AuthorityView, RowRead, object_generation};
use crate::settings::READ_WAIT_MIN;
use crate::unit::MovePlan;

/// What a read says about the move.
#[derive(Debug)]
pub(super) enum Seen {
    /// Its tenure was ended by its target.
    Committed(SeenCommit),
    /// The row still names the source.
    Source,
    /// The object has ended, or another incarnation is there.
    Gone,
    /// Nothing: the store could not be read.
    Nothing,
}

/// A commit that a read showed.
#[derive(Debug)]
pub(super) struct SeenCommit {
    /// The row.
    pub(super) row: Box<AuthorityView>,
    /// Whether the new owner's dispatch is open.
    pub(super) activated: Activated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activated {
    NotYet,
    Yes,
}

/// RL-356: only the target of this move could end the source's tenure, whatever the row shows now.
pub(super) fn judge(plan: &MovePlan, read: RowRead) -> Seen {
    let row = match read {
        RowRead::Row(row) => row,
        RowRead::Absent => return Seen::Gone,
        RowRead::Unreadable => return Seen::Nothing,
    };
    if row.object_generation != object_generation(&plan.object) {
        return Seen::Gone;
    }
    let tenure = plan.source.authority_owner_generation;
    if !row.authority_owner_generation.is_after(tenure) {
        return Seen::Source;
    }
    let ours = row
        .progress
        .filter(|progress| progress.relocation == plan.identity.relocation);
    // RL-138, RL-365: with `completed` the state leaves the row, and a later move means that this one
    // was opened.
    let activated = match ours.map(|progress| progress.phase) {
        None
        | Some(
            RelocationPhase::None
            | RelocationPhase::Activated
            | RelocationPhase::Cleaning
            | RelocationPhase::Completed,
        ) => Activated::Yes,
        Some(
            RelocationPhase::Preparing
            | RelocationPhase::Captured
            | RelocationPhase::Prepared
            | RelocationPhase::Committed
            | RelocationPhase::Activating
            | RelocationPhase::Aborted,
        ) => Activated::NotYet,
    };
    Seen::Committed(SeenCommit { row, activated })
}

/// Repeated reads, one at a time.
#[derive(Debug)]
pub(super) struct Reads {
    next: Option<Monotonic>,
    wait: Duration,
    open: Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    No,
    /// One read was asked for and has not been answered.
    Yes,
    /// The same, and another one follows it at once.
    Again,
}

impl Reads {
    /// No read is planned.
    pub(super) const fn new() -> Self {
        Self {
            next: None,
            wait: READ_WAIT_MIN,
            open: Open::No,
        }
    }

    /// Reads in sweeps from now on.
    pub(super) fn sweeps(cx: &Context<'_>) -> Self {
        let wait = cx.settings.polling_interval();
        Self {
            next: Some(cx.now.after(wait)),
            wait,
            open: Open::No,
        }
    }

    /// Reads now, or once more when the open read is answered.
    pub(super) fn start(&mut self, cx: &mut Context<'_>) {
        self.next = None;
        self.open = match self.open {
            Open::No => {
                cx.push(SourceEffect::ReadAuthority);
                Open::Yes
            }
            Open::Yes | Open::Again => Open::Again,
        };
    }

    /// A hint that there is something to see.
    pub(super) fn hint(&mut self, cx: &mut Context<'_>) {
        self.wait = READ_WAIT_MIN;
        self.start(cx);
    }

    /// Takes an answer; `false` when nothing was asked.
    pub(super) fn answered(&mut self, cx: &mut Context<'_>) -> bool {
        match self.open {
            Open::No => {
                cx.ignore(SourceIgnored::LateAnswer);
                false
            }
            Open::Yes => {
                self.open = Open::No;
                true
            }
            Open::Again => {
                self.open = Open::No;
                self.next = Some(cx.now);
                true
            }
        }
    }

    /// Plans the next read with a growing wait, but not behind `limit`.
    pub(super) fn again(&mut self, limit: Option<Monotonic>, cx: &mut Context<'_>) {
        if self.next.is_some() {
            return self.start(cx);
        }
        let next = cx.now.after(self.wait);
        self.wait = self
            .wait
            .saturating_mul(2)
            .min(cx.settings.polling_interval());
        self.next = Some(limit.map_or(next, |limit| next.min(limit)));
    }

    pub(super) fn is_open(&self) -> bool {
        self.open != Open::No
    }

    pub(super) const fn deadline(&self) -> Option<Monotonic> {
        self.next
    }

    pub(super) fn on_deadline(&mut self, cx: &mut Context<'_>) {
        if is_due(self.next, cx.now) {
            self.start(cx);
        }
    }
}

/// Until when a commit is waited for, and the one read that comes last (RL-241).
#[derive(Debug)]
pub(super) enum Limit {
    Until(Monotonic),
    /// The limit has passed; the answer to this read decides.
    LastRead,
}

impl Limit {
    /// The limit of a unit that is marked now.
    pub(super) fn from_mark(cx: &Context<'_>) -> Self {
        Self::Until(cx.now.after(cx.settings.follow_duration()))
    }

    pub(super) const fn deadline(&self) -> Option<Monotonic> {
        match self {
            Self::Until(limit) => Some(*limit),
            Self::LastRead => None,
        }
    }

    /// At the limit one more read is made, behind any that is open.
    pub(super) fn on_deadline(&mut self, reads: &mut Reads, cx: &mut Context<'_>) {
        if is_due(self.deadline(), cx.now) {
            *self = Self::LastRead;
            reads.start(cx);
        }
    }

    /// Whether the answer that was just taken was the last one.
    pub(super) fn is_over(&self, reads: &Reads) -> bool {
        matches!(self, Self::LastRead) && !reads.is_open() && reads.deadline().is_none()
    }
}
