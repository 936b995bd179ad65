//! Seals, the callback of a replaced session, the end of a connection, and everything of a session that is due.

use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_session::{BindAnswer, CallbackEnd, Machine as _, SessionEvent};
use spotlane_types::id::RelocationId;
use spotlane_wire::Record;
use spotlane_wire::command::session::{SessionRelocationSeal, SessionRelocationSealed};

use super::Wire;
use crate::host::Host;
use crate::mutant::Mutant;
use crate::observation::{ActorIndex, Ending, SessionIndex, SessionSight};
use crate::shared::{Shared, monotonic};

impl Host {
    /// SB-53: the last turn of the session, which may take too long.
    pub(super) fn run_callback(&mut self, session: SessionIndex, shared: &mut Shared) {
        shared.sight(SessionSight::ReplacedBegins { session });
        let longest = if shared.session_random.percent(10) {
            900_000
        } else {
            40_000
        };
        let at = shared.now() + shared.session_random.micros(0, longest);
        let end = if shared.session_random.percent(20) {
            CallbackEnd::Failed
        } else {
            CallbackEnd::Completed
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.callback = Some((at, end));
        }
    }

    pub(super) fn send_sealed(
        &mut self,
        session: SessionIndex,
        sealed: SessionRelocationSealed,
        shared: &mut Shared,
    ) -> Result<()> {
        let actor = shared.cast.actor_of(&sealed.actor.actor.actor_id);
        let actor = actor.context("an Actor of this world")?;
        let relocation = sealed.relocation;
        shared.sight(SessionSight::Sealed {
            session,
            actor,
            relocation,
        });
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.sealed.insert(actor, relocation);
        }
        let to = &sealed.coordinator.coordinator_node_rid;
        let to = shared.cast.host_of(to).context("a host of this world")?;
        self.send_record(to, Record::from(sealed), shared)
    }

    /// Notes that an update ends the hold that it was for.
    pub(super) fn unsealed(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        relocation: RelocationId,
        shared: &mut Shared,
    ) {
        if let Some(unit) = self.sessions.units.get_mut(&session)
            && unit.sealed.get(&actor) == Some(&relocation)
        {
            unit.sealed.remove(&actor);
            shared.sight(SessionSight::Unsealed {
                session,
                actor,
                relocation,
            });
        }
    }

    /// The connection ends; its client learns it at once.
    pub(super) fn close_wire(
        &mut self,
        session: SessionIndex,
        ending: Ending,
        shared: &mut Shared,
    ) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        if unit.wire == Wire::Closed {
            return;
        }
        unit.wire = Wire::Closed;
        unit.callback = None;
        if let Some(client) = shared.clients.get_mut(unit.client.0)
            && client.session.is_some_and(|(_, mine)| mine == session)
        {
            client.cut_off();
        }
        shared.sight(SessionSight::Closed { session, ending });
    }

    /// What is due for sessions.
    pub(in crate::host) fn wake_sessions(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        self.end_asked(|asked| asked.until <= now, &BindAnswer::Unanswered);
        for session in self.sessions.all() {
            self.wake_session(session, shared)?;
        }
        let (due, later) = std::mem::take(&mut self.sessions.late_seals)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.sessions.late_seals = later;
        let due: Vec<(Duration, SessionIndex, SessionRelocationSeal)> = due;
        for (_, session, seal) in due {
            self.drive_session(session, SessionEvent::Seal(seal), shared)?;
        }
        Ok(())
    }

    fn wake_session(&mut self, session: SessionIndex, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return Ok(());
        };
        let mut effects = Vec::new();
        let due = unit.machine.next_deadline();
        if due.is_some_and(|at| at <= monotonic(now)) {
            unit.machine.on_deadline(monotonic(now), &mut effects);
        }
        let callback = unit.callback.take_if(|(at, _)| *at <= now);
        self.session_effects(session, effects, shared)?;
        let Some((_, end)) = callback else {
            return Ok(());
        };
        if self.sessions.is_closed(session) {
            return Ok(());
        }
        shared.sight(SessionSight::ReplacedEnded { session });
        let event = SessionEvent::ReplacedCallbackEnded(end);
        self.drive_session(session, event, shared)?;
        if shared.has(Mutant::CloseAtOnce) {
            self.drive_session(session, SessionEvent::Close, shared)?;
        }
        Ok(())
    }
}
