//! Records about bindings: commands 36, 38, 42, 43, 44 and 51, from other nodes and from this one.

use std::sync::Arc;

use spotlane_mesh::{PeerLink, ReplyHandle};
use spotlane_relocation::source::SourceEvent;
use spotlane_session::{Peer, SessionOwner};
use spotlane_types::count::HopCount;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{NodeRid, OwnerId};
use spotlane_wire::Record;
use spotlane_wire::command::session::BoundSessionBind;
use spotlane_wire::reference::{BindingTransition, SessionRouteUpdate};

use crate::core::Core;
use crate::error::Error;
use crate::inbound::send_error;
use crate::session::actor::{self, BindReply};

/// Takes a record of another node, or gives it back when it is about something else.
pub(crate) fn take(
    core: &Arc<Core>,
    link: &PeerLink,
    record: Record,
    reply: Option<ReplyHandle>,
) -> Option<(Record, Option<ReplyHandle>)> {
    match record {
        Record::BoundSessionBind(bind) => {
            if let Some(handle) = reply {
                bound(core, link, bind, handle);
            }
        }
        Record::BoundSessionSend(_)
        | Record::BoundSessionReplaced(_)
        | Record::SessionRelocationSeal(_)
        | Record::SessionRelocationSealed(_)
        | Record::SessionRelocationRoute(_) => {
            let peer = Peer {
                node_rid: link.peer().clone(),
                node_generation: link.node_generation(),
            };
            one_way(core, peer, record);
        }
        other => return Some((other, reply)),
    }
    None
}

/// As [`take`], for a record that this host sends to itself.
pub(crate) fn take_here(core: &Arc<Core>, record: Record) {
    let peer = Peer {
        node_rid: core.identity.rid.clone(),
        node_generation: core.identity.generation,
    };
    one_way(core, peer, record);
}

fn one_way(core: &Arc<Core>, peer: Peer, record: Record) {
    let sessions = &core.sessions;
    if !speaks_for_itself(&peer, &record) {
        // SB-4: who sent it is judged here and nowhere else.
        tracing::debug!(target: "spotlane::runtime::session", peer = %peer.node_rid, "a record speaks for another node");
        return;
    }
    match record {
        Record::BoundSessionSend(push) => {
            if let Some(actors) = sessions.of_binding(push.expected_binding_generation) {
                actors.on_push(push);
            } else {
                // SB-38: never silent.
                tracing::debug!(target: "spotlane::runtime::session", reason = "stale_target", "zlink.message_flow");
            }
        }
        Record::BoundSessionReplaced(replaced) => {
            // SB-52: the session judges; a record that it refuses has changed nothing.
            if let Some(actors) = sessions.actors(&replaced.retired_session.session_rid) {
                actors.on_replaced(peer, *replaced);
            }
        }
        Record::SessionRelocationSeal(seal) => {
            // WR-55: without the session there is no seal and no answer.
            if let Some(actors) = sessions.actors(&seal.session_rid) {
                actors.on_seal(*seal);
            }
        }
        Record::SessionRelocationSealed(sealed) => {
            let source = core.moves.source_of(&sealed.actor.actor.actor_id);
            if let Some(source) = source {
                source.push(SourceEvent::BindingSealed(sealed));
            }
        }
        Record::SessionRelocationRoute(update) => {
            if let Some(actors) = sessions.actors(&update.session_rid) {
                actors.on_route(core.identity.mesh.clone(), *update);
            } else {
                // RL-322
                tracing::warn!(target: "spotlane::runtime::session", "late_session_route_update");
            }
        }
        _ => {}
    }
}

/// SB-4: whether the peer is the one that the record says it comes from.
fn speaks_for_itself(peer: &Peer, record: &Record) -> bool {
    let is =
        |rid: &NodeRid, run: NodeGeneration| peer.node_rid == *rid && peer.node_generation == run;
    match record {
        Record::BoundSessionSend(push) => {
            let actor = &push.actor;
            is(&actor.target_node_rid, actor.target_node_generation)
        }
        Record::SessionRelocationSeal(seal) => {
            let coordinator = &seal.coordinator;
            is(
                &coordinator.coordinator_node_rid,
                coordinator.coordinator_node_generation,
            )
        }
        Record::SessionRelocationSealed(sealed) => is(
            &sealed.session_owner_node_rid,
            sealed.session_owner_node_generation,
        ),
        Record::SessionRelocationRoute(update) => match &update.route {
            SessionRouteUpdate::Commit {
                target_node_rid,
                target_node_generation,
                ..
            } => is(target_node_rid, *target_node_generation),
            SessionRouteUpdate::Abort { .. } => {
                let coordinator = &update.coordinator;
                is(
                    &coordinator.coordinator_node_rid,
                    coordinator.coordinator_node_generation,
                )
            }
        },
        // SB-52: the session itself compares its sender.
        _ => true,
    }
}

/// Command 38: who sent it is the authenticated peer, with the owner that the directory knows it by (SB-12).
fn bound(core: &Arc<Core>, link: &PeerLink, bind: BoundSessionBind, handle: ReplyHandle) {
    let correlation = bind.correlation;
    let Some(from) = owner_of(core, link) else {
        let error = Error::unavailable("the session owner is not in the directory");
        return send_error(handle, correlation, &error);
    };
    let asked = match bind.binding {
        BindingTransition::Active { binding_generation } => Some(binding_generation),
        BindingTransition::Tombstone { .. } => None,
    };
    let reply = BindReply::Peer {
        handle,
        correlation,
        asked,
    };
    actor::bind(core, from, bind, reply, HopCount::MIN);
}

fn owner_of(core: &Core, link: &PeerLink) -> Option<SessionOwner> {
    let node = core.directory.node(link.peer())?;
    let row = &node.descriptor().row;
    (row.descriptor.lifecycle_generation == link.node_generation()).then_some(())?;
    let owner: &OwnerId = &row.owner_id;
    Some(SessionOwner {
        node_rid: link.peer().clone(),
        node_generation: link.node_generation(),
        owner_id: owner.clone(),
        owner_lease_generation: row.lease_generation,
    })
}
