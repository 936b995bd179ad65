//! At most one host starts handlers of an Actor, at any moment (R§12, RL-73).

use super::{Invariant, View};

/// See the module.
#[derive(Debug)]
pub(super) struct OneOwner;

impl Invariant for OneOwner {
    fn name(&self) -> &'static str {
        "one-owner"
    }

    fn after_step(&mut self, view: &View<'_>) -> Result<(), String> {
        for actor in view.plan.actor_indices() {
            let mut serving = view.hosts.iter().filter(|host| host.serves(actor));
            if let (Some(one), Some(other)) = (serving.next(), serving.next()) {
                let (one, other) = (one.index(), other.index());
                return Err(format!("{actor:?} is served by {one:?} and by {other:?}"));
            }
        }
        Ok(())
    }
}
