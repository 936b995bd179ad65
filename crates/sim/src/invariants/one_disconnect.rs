//! The disconnect callback runs at most once for a binding, and once for each that a connection left behind, unless
//! another session has taken the Actor (SB-57, SB-60 to SB-62, SB-65).

use super::{Invariant, View};
use crate::observation::{Ending, Observation, Work};

/// See the module.
#[derive(Debug)]
pub(super) struct OneDisconnect;

impl Invariant for OneDisconnect {
    fn name(&self) -> &'static str {
        "one-disconnect"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        let Observation::Started {
            actor,
            work: Work::Disconnected(binding),
            ..
        } = seen
        else {
            return Ok(());
        };
        match view.oracle.book().binding(*binding) {
            Some(facts) if facts.callbacks == 1 && facts.registered => Ok(()),
            Some(facts) => Err(format!(
                "{actor:?} is told again that {binding:?} has ended: {facts:?}"
            )),
            None => Err(format!("{actor:?} is told of {binding:?}, which never was")),
        }
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        if !view.plan.climate.is_gentle() {
            return Ok(());
        }
        let book = view.oracle.book();
        for (session, facts) in book.sessions() {
            if facts.ending.is_none_or(|ending| ending == Ending::Crash) {
                continue;
            }
            for (actor, binding) in &facts.snapshot {
                let Some(of) = book.binding(*binding) else {
                    continue;
                };
                if of.callbacks == 0 && !of.replaced && view.server(*actor).is_some() {
                    return Err(format!(
                        "{actor:?} was never told that {binding:?} of {session:?} has ended"
                    ));
                }
            }
        }
        Ok(())
    }
}
