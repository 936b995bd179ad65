//! Every request ends exactly once for its caller, and is replied to at most once (RL-268).

use super::{Invariant, View};
use crate::observation::{Answer, Kind, Loss};

/// See the module.
#[derive(Debug)]
pub(super) struct OneTerminal;

impl Invariant for OneTerminal {
    fn name(&self) -> &'static str {
        "one-terminal"
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        let gentle = view.plan.climate.is_gentle();
        let requests = view.oracle.messages();
        for (message, facts) in requests.filter(|(_, facts)| facts.kind == Kind::Request) {
            let caller_died = view.oracle.has_crashed(facts.from);
            if facts.settled.len() != 1 && !caller_died {
                return Err(format!("{message:?} ended {} times", facts.settled.len()));
            }
            let replies = facts
                .answers
                .iter()
                .filter(|answer| **answer == Answer::Reply);
            if replies.count() > 1 {
                return Err(format!("{message:?} was replied to more than once"));
            }
            let refusals = facts
                .answers
                .iter()
                .filter(|answer| **answer != Answer::Reply);
            if refusals.count() > 1 {
                return Err(format!("{message:?} was refused more than once: {facts:?}"));
            }
            let given_up =
                facts.losses.contains(&Loss::Unavailable) || facts.losses.contains(&Loss::Refused);
            if given_up && facts.answers.is_empty() && facts.ended == 0 {
                return Err(format!("{message:?} was given up and never answered"));
            }
            let refused = facts.losses.iter().any(|loss| loss.is_refusal());
            if gentle && !refused && facts.settled != [Answer::Reply] {
                return Err(format!("{message:?} ended as {:?}", facts.settled));
            }
        }
        Ok(())
    }
}
