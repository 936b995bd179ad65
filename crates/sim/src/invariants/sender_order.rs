//! What one sender sent along one path is handled in the order in which it was sent (R§5.1).
//!
//! Two messages that took different ways have no order, and a move that went on without its cutover promises none.

use std::collections::BTreeMap;

use super::{Invariant, View};
use crate::network::HostIndex;
use crate::observation::{ActorIndex, MessageId, Observation, Origin, Work};

type Way = (Origin, ActorIndex, Vec<HostIndex>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SenderOrder {
    last: BTreeMap<Way, MessageId>,
}

impl Invariant for SenderOrder {
    fn name(&self) -> &'static str {
        "sender-order"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let Observation::Started {
            actor,
            work: Work::Message(message),
            ..
        } = seen
        else {
            return Ok(());
        };
        let Some(facts) = view.oracle.message(*message) else {
            return Ok(());
        };
        let unordered = view
            .oracle
            .moves()
            .any(|(_, one)| one.actor == *actor && one.fell_back);
        if unordered {
            return Ok(());
        }
        let way = (facts.origin, *actor, facts.path.clone());
        let before = self.last.insert(way, *message);
        match before {
            Some(before) if before > *message => Err(format!(
                "{message:?} is handled after {before:?} of the same sender on the same path {:?}",
                facts.path
            )),
            _ => Ok(()),
        }
    }
}
