//! A push reaches the session that is bound, in the tenure that it knows, once, and nobody else (SB-37, SB-38, RL-350).

use std::collections::BTreeSet;

use super::{Invariant, View};
use crate::observation::{Observation, PushId, SessionIndex, SessionSight};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PushToCurrent {
    delivered: BTreeSet<PushId>,
}

impl PushToCurrent {
    fn delivered(
        &mut self,
        session: SessionIndex,
        push: PushId,
        view: &View<'_>,
    ) -> Result<(), String> {
        let book = view.oracle.book();
        let (Some(facts), Some(of)) = (book.push(push), book.session(session)) else {
            return Err(format!("{session:?} got {push:?}, which nobody sent"));
        };
        if !self.delivered.insert(push) {
            return Err(format!("{session:?} got {push:?} again"));
        }
        if let Some(ending) = of.ending {
            return Err(format!(
                "{session:?} got {push:?} after its end: {ending:?}"
            ));
        }
        let bound = of.bound.get(&facts.actor);
        if bound != Some(&(facts.binding, facts.tenure)) {
            return Err(format!(
                "{session:?} got {push:?} of {facts:?}, but it holds {bound:?}"
            ));
        }
        Ok(())
    }
}

impl Invariant for PushToCurrent {
    fn name(&self) -> &'static str {
        "push-to-current"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        match seen {
            Observation::Session(SessionSight::Pushed {
                push,
                actor,
                binding,
                ..
            }) => {
                let current = view.oracle.book().current(*actor);
                if current == Some(*binding) {
                    return Ok(());
                }
                Err(format!(
                    "{actor:?} sent {push:?} to {binding:?}, but {current:?} is bound"
                ))
            }
            Observation::Session(SessionSight::Delivered { session, push }) => {
                self.delivered(*session, *push, view)
            }
            _ => Ok(()),
        }
    }
}
