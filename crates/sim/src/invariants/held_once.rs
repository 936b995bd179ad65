//! What a session holds is sent on once, in its order and before anything later, or the session or its caller has given
//! it up (SB-86 to SB-88, SES-3 to SES-6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Invariant, View};
use crate::observation::{ActorIndex, MessageId, Observation, SessionIndex, SessionSight};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldOnce {
    waiting: BTreeMap<(SessionIndex, ActorIndex), VecDeque<MessageId>>,
    /// What was held and has left the hold.
    ended: BTreeSet<MessageId>,
}

impl HeldOnce {
    fn relayed(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        message: MessageId,
        view: &View<'_>,
    ) -> Result<(), String> {
        if self.ended.contains(&message) {
            return Err(format!(
                "{session:?} sent {message:?} on, which it held no more"
            ));
        }
        let Some(waiting) = self.waiting.get_mut(&(session, actor)) else {
            return Ok(());
        };
        let Some(first) = waiting.front().copied() else {
            return Ok(());
        };
        if first != message {
            return Err(format!(
                "{session:?} sent {message:?} on before {first:?}, which it holds"
            ));
        }
        waiting.pop_front();
        self.ended.insert(message);
        let facts = view.oracle.book().session(session);
        match facts.and_then(|facts| facts.ending) {
            Some(ending) => Err(format!(
                "{session:?} sent {message:?} on after its end: {ending:?}"
            )),
            None => Ok(()),
        }
    }

    fn given_up(&mut self, session: SessionIndex, message: MessageId) -> Result<(), String> {
        if self.ended.contains(&message) {
            return Err(format!(
                "{session:?} gave {message:?} up, which it held no more"
            ));
        }
        for ((of, _), waiting) in &mut self.waiting {
            let place = waiting.iter().position(|one| *one == message);
            if let Some(place) = place.filter(|_| *of == session) {
                waiting.remove(place);
                self.ended.insert(message);
            }
        }
        Ok(())
    }
}

impl Invariant for HeldOnce {
    fn name(&self) -> &'static str {
        "held-once"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let Observation::Session(sight) = seen else {
            return Ok(());
        };
        match sight {
            SessionSight::Held {
                session,
                actor,
                message,
            } => {
                let waiting = self.waiting.entry((*session, *actor)).or_default();
                waiting.push_back(*message);
                Ok(())
            }
            SessionSight::Relayed {
                session,
                actor,
                message,
            } => self.relayed(*session, *actor, *message, view),
            SessionSight::NotRelayed { session, message }
            | SessionSight::Withdrawn { session, message } => self.given_up(*session, *message),
            _ => Ok(()),
        }
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for ((session, actor), waiting) in &self.waiting {
            let facts = view.oracle.book().session(*session);
            let died = facts.is_some_and(|facts| view.oracle.has_crashed(facts.at));
            if !waiting.is_empty() && !died {
                return Err(format!(
                    "{session:?} neither sent on nor gave up {waiting:?} for {actor:?}"
                ));
            }
        }
        Ok(())
    }
}
