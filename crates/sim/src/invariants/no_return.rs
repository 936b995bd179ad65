//! A source that has crossed the boundary does not serve again, except as the target of a later move (RL-352, SRC-27).

use std::collections::BTreeSet;

use spotlane_relocation::source::SourceStage;

use super::{Invariant, View};
use crate::network::HostIndex;
use crate::observation::{ActorIndex, Observation, Step};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoReturn {
    gone: BTreeSet<(HostIndex, ActorIndex)>,
}

impl Invariant for NoReturn {
    fn name(&self) -> &'static str {
        "no-return"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        match seen {
            Observation::Source {
                relocation,
                at,
                stage: SourceStage::RelayReady,
            } => {
                if let Some(facts) = view.oracle.move_of(*relocation) {
                    self.gone.insert((*at, facts.actor));
                }
            }
            Observation::Step {
                relocation,
                at,
                step: Step::Committed,
            } => {
                if let Some(facts) = view.oracle.move_of(*relocation) {
                    self.gone.remove(&(*at, facts.actor));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn after_step(&mut self, view: &View<'_>) -> Result<(), String> {
        for (at, actor) in &self.gone {
            if view.hosts.get(at.0).is_some_and(|host| host.serves(*actor)) {
                return Err(format!("{at:?} serves {actor:?} again after the boundary"));
            }
        }
        Ok(())
    }
}
