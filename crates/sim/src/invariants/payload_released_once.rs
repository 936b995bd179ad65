//! Every payload copy is given up exactly once (RL-133, SRC-19, T-REL-14).

use std::collections::BTreeMap;

use spotlane_types::id::RelocationId;

use super::{Invariant, View};
use crate::network::HostIndex;
use crate::observation::{Observation, Side};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PayloadReleasedOnce {
    held: BTreeMap<(RelocationId, Side), (HostIndex, u32)>,
}

impl Invariant for PayloadReleasedOnce {
    fn name(&self) -> &'static str {
        "payload-released-once"
    }

    fn observe(&mut self, seen: &Observation, _view: &View<'_>) -> Result<(), String> {
        match seen {
            Observation::Retained {
                relocation,
                at,
                side,
            } => {
                let copies = self.held.entry((*relocation, *side)).or_insert((*at, 0));
                copies.1 += 1;
                if copies.1 > 1 {
                    return Err(format!("{at:?} holds two {side:?} copies of {relocation}"));
                }
            }
            Observation::Released {
                relocation,
                at,
                side,
            } => {
                let copies = self.held.get_mut(&(*relocation, *side));
                match copies {
                    Some((_, copies)) if *copies > 0 => *copies -= 1,
                    _ => {
                        return Err(format!(
                            "{at:?} gives up a {side:?} copy of {relocation} that is not there"
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for ((relocation, side), (at, copies)) in &self.held {
            if *copies > 0 && !view.oracle.has_crashed(*at) {
                return Err(format!(
                    "{at:?} still holds the {side:?} copy of {relocation}"
                ));
            }
        }
        Ok(())
    }
}
