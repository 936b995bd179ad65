//! A handler begins only where the store says that the owner is, under a lease that lives (RL-73, RL-284).

use super::{Invariant, Lease, View};
use crate::observation::Observation;

/// See the module.
#[derive(Debug)]
pub(super) struct NoHandlerBeforeCommit;

impl Invariant for NoHandlerBeforeCommit {
    fn name(&self) -> &'static str {
        "no-handler-before-commit"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let Observation::Started { actor, at, work } = seen else {
            return Ok(());
        };
        let Some(row) = (view.row)(*actor) else {
            return Err(format!(
                "{at:?} began {work:?} of {actor:?}, which has no row"
            ));
        };
        if row.owner != *at {
            let owner = row.owner;
            return Err(format!(
                "{at:?} began {work:?} of {actor:?}, whose owner is {owner:?}"
            ));
        }
        if row.lease == Lease::Ended {
            return Err(format!(
                "{at:?} began {work:?} of {actor:?} without a lease"
            ));
        }
        Ok(())
    }
}
