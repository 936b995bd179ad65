//! Messages that a session relays: sent on, held or given up (SB-30 to SB-35, SB-86).

use anyhow::{Context as _, Result};
use spotlane_session::{ActorRoute, CallId, SessionEvent};
use spotlane_types::count::SessionSequence;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::reference::ActorRef;

use super::{Call, RelayCall, Wire};
use crate::agenda::Packet;
use crate::cast::{Sender, session_rid};
use crate::host::Host;
use crate::mutant::Mutant;
use crate::observation::{Answer, Loss, MessageId, SessionIndex, SessionSight};
use crate::shared::{Shared, Submit};

impl Host {
    /// Commands 24 and 25 (SB-30, SB-31).
    pub(super) fn submit_relay(
        &mut self,
        session: SessionIndex,
        call: CallId,
        to: (&ActorRoute, &ActorRef, BoundSessionTail),
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(Call::Relay(relay)) = self.end_call(session, call) else {
            return Ok(());
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.held.remove(&relay.message);
            if shared.has(Mutant::RouteTwice) {
                unit.calls.insert(call, Call::Relay(relay));
            }
        }
        self.send_relay(session, relay, to, shared)
    }

    fn send_relay(
        &mut self,
        session: SessionIndex,
        relay: RelayCall,
        to: (&ActorRoute, &ActorRef, BoundSessionTail),
        shared: &mut Shared,
    ) -> Result<()> {
        let RelayCall {
            message,
            actor,
            kind,
        } = relay;
        let (route, reference, tail) = to;
        shared.sight(SessionSight::Relayed {
            session,
            actor,
            message,
        });
        let lease = self.held.lease().generation();
        let owner = shared.cast.session_owner(self.index, lease)?;
        let from = Sender {
            owner: &owner,
            tail,
            actor: reference,
        };
        let record = shared
            .cast
            .relayed(from, route.fence(reference), message, kind)?;
        let record = Box::new(record);
        let to = shared.cast.host_of(&route.node_rid);
        let to = to.context("a host of this world")?;
        if to == self.index {
            return self.arrive(record, 0, shared);
        }
        let link = self.links.get(&to).copied();
        let packet = Packet::Message { record, hops: 0 };
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            self.not_submitted(message, kind, shared);
        }
        Ok(())
    }

    pub(super) fn relay_held(&mut self, session: SessionIndex, call: CallId, shared: &mut Shared) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        if let Some(Call::Relay(relay)) = unit.calls.get(&call) {
            unit.held.insert(relay.message, call);
            shared.sight(SessionSight::Held {
                session,
                actor: relay.actor,
                message: relay.message,
            });
        }
    }

    pub(super) fn relay_failed(
        &mut self,
        session: SessionIndex,
        call: CallId,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(Call::Relay(relay)) = self.end_call(session, call) else {
            return Ok(());
        };
        let message = relay.message;
        let unit = self.sessions.units.get_mut(&session);
        if let Some(unit) = unit
            && unit.held.remove(&message).is_some()
            && unit.wire == Wire::Closed
            && shared.has(Mutant::HeldAfterClose)
            && let Some(known) = unit.known.get(&relay.actor)
        {
            let bound = known.bound.clone();
            let tail = BoundSessionTail {
                source_session_rid: session_rid(session)?,
                source_binding_generation: known.generation,
                source_session_sequence: SessionSequence::MAX,
            };
            let to = (&bound.route, &bound.actor, tail);
            return self.send_relay(session, relay, to, shared);
        }
        shared.sight(SessionSight::NotRelayed { session, message });
        shared.lose(message, Loss::NotRelayed);
        if shared.has(Mutant::ForgetFailedRelay) {
            self.callers.remove(&message);
        } else if self.callers.contains_key(&message) {
            self.settle(message, Answer::Unavailable, shared);
        }
        Ok(())
    }

    /// SB-86: a held message whose caller has given it up leaves the hold.
    pub(in crate::host) fn withdraw(
        &mut self,
        message: MessageId,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some((session, call)) = self.sessions.holder(message) else {
            return Ok(());
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.held.remove(&message);
            unit.calls.remove(&call);
        }
        shared.sight(SessionSight::Withdrawn { session, message });
        shared.lose(message, Loss::NotRelayed);
        self.drive_session(session, SessionEvent::RelayWithdrawn { call }, shared)
    }
}
