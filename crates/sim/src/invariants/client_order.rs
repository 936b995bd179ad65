//! What one connection sends to one Actor is handled in the order in which it was sent, across every move (RL-128, SB-32,
//! SB-87), unless Message Follow or a cutover that did not come took it another way.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, View};
use crate::observation::{ActorIndex, MessageId, Observation, Origin, SessionIndex, Work};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClientOrder {
    last: BTreeMap<(SessionIndex, ActorIndex), MessageId>,
    detours: BTreeSet<MessageId>,
}

impl Invariant for ClientOrder {
    fn name(&self) -> &'static str {
        "client-order"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let (actor, message) = match seen {
            Observation::Started {
                actor,
                work: Work::Message(message),
                ..
            } => (*actor, *message),
            Observation::Forwarded { message, .. } => {
                self.detours.insert(*message);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let Some(facts) = view.oracle.message(message) else {
            return Ok(());
        };
        let Origin::Session(session) = facts.origin else {
            return Ok(());
        };
        let mut moves = view.oracle.moves();
        let fell_back = moves.any(|(_, one)| one.actor == actor && one.fell_back);
        if fell_back || self.detours.contains(&message) {
            return Ok(());
        }
        let last = self.last.entry((session, actor)).or_insert(message);
        if *last > message {
            return Err(format!(
                "{actor:?} handles {message:?} of {session:?} after {last:?}"
            ));
        }
        *last = message;
        Ok(())
    }
}
