//! The stages of a source, and what they share.

use spotlane_types::time::Monotonic;

use super::before::{Aborting, SourcePaused, SourceRunning, Waiting};
use super::effect::{SourceEffect, SourceIgnored};
use super::follow_only::{Ended, FollowOnly};
use super::relay::{CutoverSubmitted, RelayReady};
use super::settle::{AwaitCommit, Reconciling, Unavailable};
use super::transfer::{ReadyUnknown, TargetRestoring};
use crate::diagnostic::Diagnostic;
use crate::settings::RelocationSettings;

/// The name of a stage, as the contract has it (R§11, RL section 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 15")]
pub enum SourceStage {
    /// The object is served here.
    SourceRunning,
    /// A move was accepted; everything goes on until it can start.
    Waiting,
    /// Dispatch stands still.
    SourcePaused,
    /// The payload is on its way, or the target restores.
    TargetRestoring,
    /// The boundary was crossed; what was held is relayed.
    RelayReady,
    /// The cutover is with the transport.
    CutoverSubmitted,
    /// The commit has not been seen yet.
    AwaitCommit,
    /// Whether the target takes over is not known.
    Reconciling,
    /// The time to find out is over; sweeps go on.
    Unavailable,
    /// The commit was seen: only Message Follow is left.
    FollowOnly,
    /// Nothing is left.
    Ended,
}

/// One stage with its data.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stage {
    /// [`SourceStage::SourceRunning`].
    Running(SourceRunning),
    /// [`SourceStage::Waiting`].
    Waiting(Box<Waiting>),
    /// [`SourceStage::SourcePaused`].
    Paused(Box<SourcePaused>),
    /// [`SourceStage::SourcePaused`] on the way back: the abort is being fixed in the store.
    Aborting(Box<Aborting>),
    /// [`SourceStage::TargetRestoring`].
    TargetRestoring(Box<TargetRestoring>),
    /// [`SourceStage::Reconciling`] without a ready reply: the boundary was not crossed.
    ReadyUnknown(Box<ReadyUnknown>),
    /// [`SourceStage::RelayReady`].
    RelayReady(Box<RelayReady>),
    /// [`SourceStage::CutoverSubmitted`].
    CutoverSubmitted(Box<CutoverSubmitted>),
    /// [`SourceStage::AwaitCommit`].
    AwaitCommit(Box<AwaitCommit>),
    /// [`SourceStage::Reconciling`].
    Reconciling(Box<Reconciling>),
    /// [`SourceStage::Unavailable`].
    Unavailable(Box<Unavailable>),
    /// [`SourceStage::FollowOnly`].
    FollowOnly(Box<FollowOnly>),
    /// [`SourceStage::Ended`].
    Ended(Ended),
}

impl Stage {
    /// Its name.
    pub const fn name(&self) -> SourceStage {
        match self {
            Self::Running(_) => SourceStage::SourceRunning,
            Self::Waiting(_) => SourceStage::Waiting,
            Self::Paused(_) | Self::Aborting(_) => SourceStage::SourcePaused,
            Self::TargetRestoring(_) => SourceStage::TargetRestoring,
            Self::ReadyUnknown(_) | Self::Reconciling(_) => SourceStage::Reconciling,
            Self::RelayReady(_) => SourceStage::RelayReady,
            Self::CutoverSubmitted(_) => SourceStage::CutoverSubmitted,
            Self::AwaitCommit(_) => SourceStage::AwaitCommit,
            Self::Unavailable(_) => SourceStage::Unavailable,
            Self::FollowOnly(_) => SourceStage::FollowOnly,
            Self::Ended(_) => SourceStage::Ended,
        }
    }
}

/// What a stage has at hand while it acts. Only the machine makes one.
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) now: Monotonic,
    pub(super) settings: &'a RelocationSettings,
    pub(super) out: &'a mut Vec<SourceEffect>,
}

impl Context<'_> {
    pub(super) fn push(&mut self, effect: SourceEffect) {
        self.out.push(effect);
    }

    pub(super) fn enter(&mut self, stage: SourceStage) {
        self.out.push(SourceEffect::Entered(stage));
    }

    pub(super) fn ignore(&mut self, reason: SourceIgnored) {
        self.out.push(SourceEffect::Ignored(reason));
    }

    pub(super) fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.out.push(SourceEffect::Diagnose(diagnostic));
    }
}

/// The earliest of several deadlines.
pub(super) fn earliest(
    deadlines: impl IntoIterator<Item = Option<Monotonic>>,
) -> Option<Monotonic> {
    deadlines.into_iter().flatten().min()
}

/// Whether a deadline is due.
pub(super) fn is_due(deadline: Option<Monotonic>, now: Monotonic) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}
