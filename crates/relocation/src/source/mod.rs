//! The source of a move: one machine for one unit, from running here to nothing left.
//!
//! | stage | what happens | ends by |
//! |---|---|---|
//! | `SourceRunning` | the object is served | a request to move (SRC-2) |
//! | `Waiting` | served; budget, bindings, safe point are waited for, in this order (RL-125) | S0 (SRC-5), or failure (SRC-4) |
//! | `SourcePaused` | dispatch stands, arrivals are held, capture runs | payload and connection (SRC-7), or RB (SRC-6) |
//! | `TargetRestoring` | 40, then 52 as the budget allows; arrivals are held | 30 (SRC-13), 53: RB (SRC-9), silence (SRC-12) |
//! | `RelayReady` | **the boundary is behind**; the hold goes out as 31 | hold drained: 34 (SRC-15) |
//! | `CutoverSubmitted` | the transport has 34 | submit terminal, S1 (SRC-16, SRC-17) |
//! | `AwaitCommit` | the store is read in the background; arrivals go out as 31 | commit seen (SRC-21), limit (SRC-23), object ended (SRC-22) |
//! | `Reconciling` | the same after a failed submit; or no reply in time, then 30 and 53 still count (SRC-30, SRC-31) | as `AwaitCommit` |
//! | `Unavailable` | requests end at once; sweeps read on (SRC-24) | commit seen, object ended |
//! | `FollowOnly` | arrivals are forwarded; clean-up once the target is open (RL-138) | route, copies and instance gone (SRC-25) |
//! | `Ended` | what comes is unavailable | |
//!
//! RB, the way back of RL section 15, is the method `restore_source`. The stages from `RelayReady` on do
//! not have it. Payload and batch copy are held until the submit is terminal and the window is over, in
//! whatever stage that happens, and released once (RL-133, SRC-19).

mod before;
mod effect;
mod event;
mod follow_only;
pub mod payload;
mod reads;
mod records;
mod relay;
mod settle;
mod stage;
#[cfg(test)]
mod tests;
mod transfer;

use spotlane_types::machine::Machine;
use spotlane_types::time::Monotonic;

pub use before::{Aborting, SourcePaused, SourceRunning, Waiting};
pub use effect::{
    CaptureOrder, Closing, InterruptionTarget, MoveFailure, SourceEffect, SourceIgnored,
    SourcePoint,
};
pub use event::{BindingName, CaptureFailure, CleanUpOutcome, SourceEvent, SubmitOutcome};
pub use follow_only::{Ended, FollowOnly};
pub use relay::{CutoverSubmitted, RelayReady};
pub use settle::{AwaitCommit, Reconciling, Unavailable};
use stage::is_due;
pub use stage::{Context, SourceStage, Stage};
pub use transfer::{ReadyUnknown, TargetRestoring};

use crate::settings::RelocationSettings;
use before::Moves;

/// The machine of one unit at its source.
#[derive(Debug)]
pub struct Source {
    settings: RelocationSettings,
    stage: Stage,
}

impl Source {
    /// A unit that is served here.
    pub const fn new(settings: RelocationSettings) -> Self {
        Self {
            settings,
            stage: Stage::Running(SourceRunning {
                moves: Moves::Allowed,
            }),
        }
    }

    /// The stage it is in.
    pub const fn stage(&self) -> SourceStage {
        self.stage.name()
    }

    /// Runs the stage, which is taken out meanwhile.
    fn step(
        &mut self,
        now: Monotonic,
        out: &mut Vec<SourceEffect>,
        act: impl FnOnce(Stage, &mut Context<'_>) -> Stage,
    ) {
        let stage = core::mem::replace(&mut self.stage, Stage::Ended(Ended));
        let mut context = Context {
            now,
            settings: &self.settings,
            out,
        };
        self.stage = act(stage, &mut context);
    }
}

impl Machine for Source {
    type Event = SourceEvent;
    type Effect = SourceEffect;

    fn on_event(&mut self, now: Monotonic, event: SourceEvent, out: &mut Vec<SourceEffect>) {
        // SRC-4: nothing is stopped yet, so a deadline that is over ends the operation before anything else begins.
        if matches!(self.stage, Stage::Waiting(_)) && is_due(self.next_deadline(), now) {
            self.on_deadline(now, out);
        }
        self.step(now, out, |stage, cx| match stage {
            Stage::Running(stage) => stage.on_event(event, cx),
            Stage::Waiting(stage) => stage.on_event(event, cx),
            Stage::Paused(stage) => stage.on_event(event, cx),
            Stage::Aborting(stage) => stage.on_event(event, cx),
            Stage::TargetRestoring(stage) => stage.on_event(event, cx),
            Stage::ReadyUnknown(stage) => stage.on_event(event, cx),
            Stage::RelayReady(stage) => stage.on_event(event, cx),
            Stage::CutoverSubmitted(stage) => stage.on_event(event, cx),
            Stage::AwaitCommit(stage) => stage.on_event(event, cx),
            Stage::Reconciling(stage) => stage.on_event(event, cx),
            Stage::Unavailable(stage) => stage.on_event(event, cx),
            Stage::FollowOnly(stage) => stage.on_event(event, cx),
            Stage::Ended(stage) => stage.on_event(event, cx),
        });
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match &self.stage {
            Stage::Waiting(stage) => stage.deadline(),
            Stage::Paused(stage) => Some(stage.deadline()),
            Stage::TargetRestoring(stage) => Some(stage.deadline()),
            Stage::ReadyUnknown(stage) => stage.deadline(),
            Stage::AwaitCommit(stage) => stage.deadline(),
            Stage::Reconciling(stage) => stage.deadline(),
            Stage::Unavailable(stage) => stage.deadline(),
            Stage::FollowOnly(stage) => stage.deadline(),
            // These wait for an answer of the driver, not for time.
            Stage::Running(_)
            | Stage::Aborting(_)
            | Stage::RelayReady(_)
            | Stage::CutoverSubmitted(_)
            | Stage::Ended(_) => None,
        }
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<SourceEffect>) {
        self.step(now, out, |stage, cx| match stage {
            Stage::Waiting(stage) => stage.on_deadline(cx),
            Stage::Paused(stage) => stage.on_deadline(cx),
            Stage::TargetRestoring(stage) => stage.on_deadline(cx),
            Stage::ReadyUnknown(stage) => stage.on_deadline(cx),
            Stage::AwaitCommit(stage) => stage.on_deadline(cx),
            Stage::Reconciling(stage) => stage.on_deadline(cx),
            Stage::Unavailable(stage) => stage.on_deadline(cx),
            Stage::FollowOnly(stage) => stage.on_deadline(cx),
            stage @ (Stage::Running(_)
            | Stage::Aborting(_)
            | Stage::RelayReady(_)
            | Stage::CutoverSubmitted(_)
            | Stage::Ended(_)) => stage,
        });
    }
}
