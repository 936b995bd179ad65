//! From what is seen in a world to the event names of the behavior vectors.
//!
//! The names are those of `spotlane_relocation::vocabulary`; here also stand the steps that no machine shows because
//! the driver does them.

use std::time::Duration;

use spotlane_relocation::source::SourceStage;
use spotlane_relocation::target::TargetStage;
use spotlane_relocation::vocabulary::BehaviorEvent;
use spotlane_types::id::RelocationId;

use crate::observation::{Observation, Step};

/// The steps of one move, in the order in which they happened.
pub fn of_move(
    seen: &[(Duration, Observation)],
    wanted: RelocationId,
) -> Vec<(Duration, BehaviorEvent)> {
    seen.iter()
        .filter_map(|(at, seen)| {
            let (relocation, event) = of(seen)?;
            (relocation == wanted).then_some((*at, event))
        })
        .collect()
}

/// The step that an observation is, and its move.
fn of(seen: &Observation) -> Option<(RelocationId, BehaviorEvent)> {
    match seen {
        Observation::Source {
            relocation,
            stage: SourceStage::Waiting,
            ..
        } => Some((*relocation, BehaviorEvent::RelocationRequested)),
        Observation::Target {
            relocation,
            stage: TargetStage::RelayReady,
            ..
        } => Some((*relocation, BehaviorEvent::TargetStateRestored)),
        Observation::MoveFinished { relocation, .. } => {
            Some((*relocation, BehaviorEvent::RelocationTerminalDelivered))
        }
        Observation::Step {
            relocation, step, ..
        } => of_step(*step).map(|event| (*relocation, event)),
        _ => None,
    }
}

const fn of_step(step: Step) -> Option<BehaviorEvent> {
    Some(match step {
        Step::Sealed => BehaviorEvent::SourceAdmissionSealed,
        Step::Captured => BehaviorEvent::SourceStateCaptured,
        Step::TemporaryQueue => BehaviorEvent::TargetTemporaryQueueOpened,
        Step::Committed => BehaviorEvent::OwnershipCommitted,
        Step::Lifecycle => BehaviorEvent::TargetLifecycleCompleted,
        Step::SavedAdmitted => BehaviorEvent::SavedWorkAdmitted,
        Step::TemporaryAdmitted => BehaviorEvent::TemporaryWorkAdmitted,
        Step::Opened => BehaviorEvent::TargetDispatchActivated,
        Step::Published => BehaviorEvent::TargetReadyPublished,
        Step::CleanUpStarted => BehaviorEvent::SourceCleanupStarted,
        Step::Closing => BehaviorEvent::SourceClosingCompleted,
        Step::CleanedUp => BehaviorEvent::SourceCleanupCompleted,
        Step::Completed => BehaviorEvent::AuthorityCompleted,
        // The ready reply stands for the restored target; factory and restore are counted by themselves.
        Step::Factory | Step::Restored | Step::StateCaptured | Step::StateRestored => return None,
    })
}
