//! What the owner writes about a move after its commit: that it serves, and that it is over (RL-365, RL-26).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_types::kind::{ActorAuthorityState, RelocationPhase};

use super::lane::Gate;
use super::target::Progress;
use super::{Host, StoreAnswer, rows};
use crate::observation::{ActorIndex, Step};
use crate::shared::Shared;

impl Host {
    /// Writes how far the move has got: `activated`, then nothing any more (RL-365).
    pub(super) fn write_progress(&mut self, actor: ActorIndex, shared: &Shared) -> Result<()> {
        let lease = self.held.lease().clone();
        let steady = rows::steady(
            &shared.cast,
            self.index,
            &lease,
            actor,
            ActorAuthorityState::Ready,
        )?;
        let key = shared.cast.key(actor)?;
        let Some(unit) = self.targets.get_mut(&actor) else {
            return Ok(());
        };
        unit.progress_at = None;
        let payload = match (unit.progress, &unit.identity, &unit.fence) {
            (Progress::Activating, Some(identity), Some(fence)) => {
                rows::moved(steady, identity, fence, RelocationPhase::Activated)?
            }
            _ => steady,
        };
        let until = self.location_now().after(Duration::from_millis(150));
        let repository = Arc::clone(&self.repository);
        let held = self.held.clone();
        self.ask(shared, async move {
            // Read first: an earlier write of the same progress may have happened unseen.
            let done = async {
                let row = match repository.read(&key, until).await? {
                    Authority::Active(row) if row.is_owned_by(&lease) => row,
                    _ => return Err(LocationError::Unavailable { source: None }),
                };
                repository.preserve(&held, &row, &payload, until).await
            };
            StoreAnswer::Progress {
                actor,
                done: done.await.map(Box::new),
            }
        });
        Ok(())
    }

    /// The answer to a progress write.
    pub(super) fn progress_answered(
        &mut self,
        actor: ActorIndex,
        done: Result<Box<ActiveObject>, LocationError>,
        shared: &mut Shared,
    ) {
        let now = shared.now();
        let serves = self
            .lanes
            .get(&actor)
            .is_some_and(|lane| lane.gate != Gate::Merged);
        let Some(unit) = self.targets.get_mut(&actor) else {
            return;
        };
        let (Ok(row), Some(relocation)) = (done, unit.relocation) else {
            // It goes on trying while it owns the object; a successor waits for it.
            unit.progress_at = serves.then(|| now + Duration::from_millis(25));
            if !serves {
                unit.progress = Progress::Nothing;
            }
            return;
        };
        unit.row = Some(*row);
        let step = match unit.progress {
            Progress::Activating => {
                unit.progress = Progress::Completing;
                unit.progress_at = Some(now + Duration::from_millis(10));
                Step::Published
            }
            Progress::Completing | Progress::Nothing => {
                unit.progress = Progress::Nothing;
                Step::Completed
            }
        };
        self.seen_step(relocation, step, shared);
    }
}
