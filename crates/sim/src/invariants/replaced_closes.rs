//! A replaced session runs its callback once, and its connection ends 100 ms after that, or at the timeout of the callback
//! (SB-53 to SB-55).

use std::collections::BTreeMap;
use std::time::Duration;

use spotlane_session::bound::REPLACEMENT_CLOSE_DELAY;

use super::{Invariant, View};
use crate::observation::{Ending, Observation, SessionIndex, SessionSight};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReplacedCloses {
    begun: BTreeMap<SessionIndex, Duration>,
    ended: BTreeMap<SessionIndex, Duration>,
}

impl ReplacedCloses {
    fn closed(&self, session: SessionIndex, ending: Ending, view: &View<'_>) -> Result<(), String> {
        let due = match ending {
            // Each of them may come first.
            Ending::Client | Ending::Crash | Ending::SealTimeout | Ending::Actor => return Ok(()),
            Ending::Replaced => {
                let ended = self.ended.get(&session);
                ended.map(|at| *at + REPLACEMENT_CLOSE_DELAY)
            }
            Ending::CallbackTimeout => {
                let timeout = view.plan.session_times.replacement_callback_timeout;
                let ended = self.ended.contains_key(&session);
                let begun = self.begun.get(&session).filter(|_| !ended);
                begun.map(|at| *at + timeout)
            }
            Ending::Handler => None,
        };
        let (begun, now) = (self.begun.get(&session), view.now);
        let on_time = due.is_some_and(|due| {
            // A process that stands still closes late.
            due == now || (due < now && !view.plan.climate.is_gentle())
        });
        if on_time {
            return Ok(());
        }
        Err(format!(
            "{session:?}, replaced at {begun:?}, was closed as {ending:?} instead of at {due:?}"
        ))
    }
}

impl Invariant for ReplacedCloses {
    fn name(&self) -> &'static str {
        "replaced-closes"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        match seen {
            Observation::Session(SessionSight::ReplacedBegins { session }) => {
                match self.begun.insert(*session, view.now) {
                    Some(_) => Err(format!("{session:?} is told again that it was replaced")),
                    None => Ok(()),
                }
            }
            Observation::Session(SessionSight::ReplacedEnded { session }) => {
                self.ended.insert(*session, view.now);
                Ok(())
            }
            Observation::Session(SessionSight::Closed { session, ending }) => {
                self.closed(*session, *ending, view)
            }
            _ => Ok(()),
        }
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for session in self.begun.keys() {
            let Some(facts) = view.oracle.book().session(*session) else {
                continue;
            };
            if facts.ending.is_none() && !view.oracle.has_crashed(facts.at) {
                return Err(format!("{session:?} was replaced and is still connected"));
            }
        }
        Ok(())
    }
}
