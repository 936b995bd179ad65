//! Accepted work is not doubled, ever, and not lost unless the contract says so (R§5.2, RL-127, RL-109, RL-236).

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, View};
use crate::observation::{ActorIndex, Loss, Observation, Work};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ExactlyOnce {
    begun: BTreeSet<(ActorIndex, Work)>,
    last_tick: BTreeMap<ActorIndex, u64>,
}

impl Invariant for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly-once"
    }

    fn observe(&mut self, seen: &Observation, _view: &View<'_>) -> Result<(), String> {
        let Observation::Started { actor, at, work } = seen else {
            return Ok(());
        };
        // One callback for one binding has an invariant of its own.
        if matches!(work, Work::Disconnected(_)) {
            return Ok(());
        }
        if !self.begun.insert((*actor, *work)) {
            return Err(format!("{at:?} handles {work:?} of {actor:?} again"));
        }
        if let Work::Tick(tick) = work {
            let last = self.last_tick.insert(*actor, *tick);
            if last.is_some_and(|last| last >= *tick) {
                return Err(format!("tick {tick} of {actor:?} comes after {last:?}"));
            }
        }
        Ok(())
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        let gentle = view.plan.climate.is_gentle();
        for (message, facts) in view.oracle.messages() {
            if facts.ended > 0 {
                continue;
            }
            // A unit that became unavailable, or whose owner died, keeps what it had (RL-94, RL-245).
            let unserved = view.server(facts.actor).is_none();
            // The batch before the boundary arrives by retransmission, unless the target went on without it.
            let fell_back = || {
                let mut moves = view.oracle.moves();
                moves.any(|(_, one)| one.actor == facts.actor && one.fell_back)
            };
            let lost = |loss: &Loss| *loss != Loss::BatchCut || fell_back();
            let excused = facts.losses.iter().any(lost) || unserved;
            let refused = facts.losses.iter().any(|loss| loss.is_refusal());
            if (gentle && !refused) || !excused {
                return Err(format!("{message:?} was never handled: {facts:?}"));
            }
        }
        Ok(())
    }
}
