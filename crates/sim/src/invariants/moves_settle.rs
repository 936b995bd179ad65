//! After everything has healed, moves end: each operation has one result, and an Actor is served unless the contract
//! lets it be unavailable (RL-94, RL-236, RL-239, RL-245).

use spotlane_relocation::source::MoveFailure;

use super::{Invariant, View};
use crate::faults::Climate;
use crate::observation::ActorIndex;

/// See the module.
#[derive(Debug)]
pub(super) struct MovesSettle;

impl MovesSettle {
    /// What lets an Actor be without a server: its owner died, or a move of it was lost to a fault.
    fn is_excused(view: &View<'_>, actor: ActorIndex) -> bool {
        let Some(row) = (view.row)(actor) else {
            return false;
        };
        let dead = view.oracle.has_crashed(row.owner);
        let lost = view
            .oracle
            .moves()
            .any(|(_, one)| one.actor == actor && one.was_given_up());
        dead || (!view.plan.climate.is_gentle() && lost)
    }
}

impl Invariant for MovesSettle {
    fn name(&self) -> &'static str {
        "moves-settle"
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for (relocation, facts) in view.oracle.moves() {
            let died = view.oracle.has_crashed(facts.from);
            if facts.finished != 1 && !died {
                return Err(format!(
                    "the operation of {relocation} had {} results: {facts:?}",
                    facts.finished
                ));
            }
            let refused = [
                None,
                Some(MoveFailure::Aborted),
                Some(MoveFailure::Disabled),
            ];
            if view.plan.climate == Climate::Calm && !refused.contains(&facts.failure) {
                return Err(format!(
                    "nothing was wrong, but {relocation} failed: {facts:?}"
                ));
            }
        }
        for actor in view.plan.actor_indices() {
            if view.server(actor).is_none() && !Self::is_excused(view, actor) {
                return Err(format!("nobody serves {actor:?}, and nothing excuses that"));
            }
        }
        Ok(())
    }
}
