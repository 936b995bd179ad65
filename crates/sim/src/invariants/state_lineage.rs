//! The state of an Actor is the sum of everything it has handled, in order, however often it has moved (RL-112, RL-117).

use super::{Invariant, View};
use crate::workload::Policy;

/// See the module.
#[derive(Debug)]
pub(super) struct StateLineage;

impl Invariant for StateLineage {
    fn name(&self) -> &'static str {
        "state-lineage"
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for actor in view.plan.actor_indices() {
            let preserved = view
                .plan
                .actors
                .get(actor.0)
                .is_some_and(|plan| plan.policy == Policy::Preserve);
            let lane = view.server(actor).and_then(|host| host.lane(actor));
            let Some(lane) = lane.filter(|_| preserved) else {
                continue;
            };
            let handled = view.oracle.handled(actor);
            if lane.state.handled != handled {
                let (has, should) = (lane.state.handled.len(), handled.len());
                return Err(format!(
                    "{actor:?} remembers {has} of {should} turns, or in another order"
                ));
            }
        }
        Ok(())
    }
}
