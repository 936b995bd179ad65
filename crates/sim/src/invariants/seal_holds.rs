//! From its answer to a seal on, a session sends nothing to the Actor until the route update or its own end (SES-1, SES-3,
//! SB-80, SB-86).

use std::collections::BTreeMap;

use spotlane_types::id::RelocationId;

use super::{Invariant, View};
use crate::observation::{ActorIndex, Observation, SessionIndex, SessionSight};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SealHolds {
    sealed: BTreeMap<(SessionIndex, ActorIndex), RelocationId>,
}

impl Invariant for SealHolds {
    fn name(&self) -> &'static str {
        "seal-holds"
    }

    fn observe(&mut self, seen: &Observation, _view: &View<'_>) -> Result<(), String> {
        let Observation::Session(sight) = seen else {
            return Ok(());
        };
        match sight {
            SessionSight::Sealed {
                session,
                actor,
                relocation,
            } => {
                self.sealed.insert((*session, *actor), *relocation);
            }
            SessionSight::Unsealed { session, actor, .. }
            | SessionSight::Unbound { session, actor, .. } => {
                self.sealed.remove(&(*session, *actor));
            }
            SessionSight::Closed { session, .. } => {
                self.sealed.retain(|(of, _), _| of != session);
            }
            SessionSight::Relayed {
                session,
                actor,
                message,
            } => {
                if let Some(relocation) = self.sealed.get(&(*session, *actor)) {
                    return Err(format!(
                        "{session:?} sent {message:?} to {actor:?} although it holds for {relocation}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
