//! A former owner sends one notice for each pair of routes, however much it forwards (RL-162).

use std::collections::BTreeSet;

use super::{Invariant, View};
use crate::network::HostIndex;
use crate::observation::Observation;

/// See the module. Owner generations are issued once in a world, so two of them name a pair of routes.
#[derive(Debug, Default)]
pub(super) struct OneNotice {
    sent: BTreeSet<(HostIndex, u64, u64)>,
}

impl Invariant for OneNotice {
    fn name(&self) -> &'static str {
        "one-notice"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let Observation::Notice {
            at, source, target, ..
        } = seen
        else {
            return Ok(());
        };
        let first = self.sent.insert((*at, source.get(), target.get()));
        // One that did not leave for want of a connection may be tried again.
        if !first && view.plan.climate.is_gentle() {
            return Err(format!(
                "{at:?} sends a second notice about {source:?} to {target:?}"
            ));
        }
        Ok(())
    }
}
