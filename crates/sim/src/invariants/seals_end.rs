//! Who seals says how it ended: one route update for each seal, by the source of a move that failed or by the target of
//! one that opened, and never by both (RL-358, SB-81 to SB-84).

use std::collections::{BTreeMap, BTreeSet};

use spotlane_relocation::source::SourceStage;
use spotlane_relocation::target::TargetStage;
use spotlane_types::id::RelocationId;

use super::{Invariant, View};
use crate::observation::{BindingNumber, Ending, Observation, SessionSight, Verdict};
use crate::oracle::MoveFacts;

type Seal = (RelocationId, BindingNumber);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SealsEnd {
    sealed: BTreeSet<Seal>,
    carried: BTreeSet<Seal>,
    opened: BTreeSet<RelocationId>,
    verdicts: BTreeMap<Seal, Verdict>,
}

impl SealsEnd {
    /// Whether the source of a move has the object again, and so has to give its seals back.
    fn failed(facts: &MoveFacts, view: &View<'_>) -> bool {
        let again = facts.stages.contains(&SourceStage::SourceRunning);
        again && !view.oracle.has_crashed(facts.from)
    }

    fn judge(&self, seal: Seal, view: &View<'_>) -> Result<(), String> {
        let (relocation, binding) = seal;
        let Some(facts) = view.oracle.move_of(relocation) else {
            return Ok(());
        };
        let verdict = self.verdicts.get(&seal);
        if Self::failed(facts, view) && verdict != Some(&Verdict::Abort) {
            return Err(format!(
                "{relocation} failed and ended its seal of {binding:?} by {verdict:?}"
            ));
        }
        let opened = self.opened.contains(&relocation) && !view.oracle.has_crashed(facts.to);
        if opened && self.carried.contains(&seal) && verdict != Some(&Verdict::Commit) {
            return Err(format!(
                "{relocation} opened and ended its seal of {binding:?} by {verdict:?}"
            ));
        }
        Ok(())
    }
}

impl Invariant for SealsEnd {
    fn name(&self) -> &'static str {
        "seals-end"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let sight = match seen {
            Observation::Session(sight) => sight,
            Observation::Target {
                relocation,
                stage: TargetStage::TargetOpen,
                ..
            } => {
                self.opened.insert(*relocation);
                return Ok(());
            }
            _ => return Ok(()),
        };
        match sight {
            SessionSight::SealSent {
                relocation,
                binding,
            } => {
                self.sealed.insert((*relocation, *binding));
            }
            SessionSight::Carried {
                relocation,
                binding,
                ..
            } => {
                self.carried.insert((*relocation, *binding));
            }
            SessionSight::RouteSent {
                relocation,
                binding,
                verdict,
            } => {
                let before = self.verdicts.insert((*relocation, *binding), *verdict);
                if let Some(before) = before {
                    return Err(format!(
                        "{relocation} ends its seal of {binding:?} by {before:?} and by {verdict:?}"
                    ));
                }
            }
            SessionSight::Closed {
                session,
                ending: Ending::SealTimeout,
            } if view.plan.climate.is_gentle() => {
                return Err(format!(
                    "{session:?} was closed, because nobody ended a seal"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        let mut seals = self.sealed.iter();
        seals.try_for_each(|seal| self.judge(*seal, view))
    }
}
