//! Live moves: one driver per unit and side, running the pure machines of `spotlane-relocation`.
//!
//! `docs/runtime.md`, "Relocation driver", says how slots, inboxes and lanes work together.

mod book;
mod capture;
mod emit;
mod encode;
mod follow;
mod freeze;
mod host;
mod inbox;
mod line;
mod links;
mod memory;
mod moving;
mod outbox;
mod pacing;
mod pending;
mod receive;
mod replies;
mod rows;
mod source;
mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_mesh::{Flow, PeerEvent, PeerLink};
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::settings::RelocationSettings;
use spotlane_relocation::source::SourceEvent;
use spotlane_relocation::target::TargetEvent;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::relocation::RelocationPrepare;
use spotlane_wire::relocation::RelocationObject;

use follow::Following;
pub(crate) use follow::{forward, may_hop, route_of, tenure_of};
pub use host::{BlockReason, HostRelocation, RelocateMode, RelocateOutcome};
pub(crate) use host::{HostMove, run as relocate_host};
pub(crate) use moving::{begin_join, pick_target, relocate};
pub(crate) use pending::{CallKey, Pending, Registered};
use pending::{take_confirmation, take_relay};
pub(crate) use receive::TargetUnit;
pub(crate) use source::SourceUnit;

use crate::core::Core;
use crate::inbound::resumes;
use crate::settings::Settings;
use line::Lines;
use links::Links;
use pacing::Pacing;

/// The moves of a host, and the connections that they use.
pub(crate) struct Moves {
    pub(crate) settings: RelocationSettings,
    links: Links,
    /// Which chunk goes next (RL-131).
    pacing: Arc<Pacing>,
    /// Where messages for objects that have left go (RL-151).
    pub(crate) following: Following,
    /// What waits on the way there.
    lines: Lines,
    /// Units that leave. A leaf lock.
    sources: Mutex<HashMap<ActorId, Arc<SourceUnit>>>,
    /// Objects that come, have come, or are remembered (RL-353). A leaf lock.
    targets: Mutex<HashMap<ActorId, Arc<TargetUnit>>>,
}

impl Moves {
    pub(crate) fn new(settings: RelocationSettings) -> Self {
        Self {
            links: Links::default(),
            pacing: Pacing::new(&settings),
            following: Following::default(),
            lines: Lines::default(),
            settings,
            sources: Mutex::new(HashMap::new()),
            targets: Mutex::new(HashMap::new()),
        }
    }

    /// The move of an Actor away from here.
    pub(crate) fn source_of(&self, id: &ActorId) -> Option<Arc<SourceUnit>> {
        self.sources().get(id).cloned()
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<ActorId, Arc<SourceUnit>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<ActorId, Arc<TargetUnit>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, object: &RelocationObject) -> Option<Arc<SourceUnit>> {
        let RelocationObject::Actor { actor, .. } = object else {
            return None;
        };
        self.sources().get(&actor.actor_id).cloned()
    }

    fn target(&self, object: &RelocationObject) -> Option<Arc<TargetUnit>> {
        let RelocationObject::Actor { actor, .. } = object else {
            return None;
        };
        self.targets().get(&actor.actor_id).cloned()
    }

    /// How many units are on their way out.
    pub(crate) fn leaving(&self) -> usize {
        self.sources().len()
    }

    /// How many units have come here, or are remembered after their end.
    pub(crate) fn arrived(&self) -> usize {
        self.targets().len()
    }

    /// How many units that are on their way out start no further handler, and have not left yet.
    pub(crate) fn sealing(&self) -> usize {
        let sources = self.sources();
        sources.values().filter(|unit| unit.is_sealing()).count()
    }

    /// Tells an arrived unit that its object has left or ended here, in that tenure.
    pub(crate) fn tenure_ended(&self, id: &ActorId, tenure: AuthorityOwnerGeneration) {
        let target = self.targets().get(id).cloned();
        if let Some(target) = target {
            target.tenure_ended(tenure);
        }
    }

    /// RL-222: the shutdown was sealed; units that have not begun do not begin.
    pub(crate) fn shut_down(&self) {
        let sources: Vec<_> = self.sources().values().cloned().collect();
        for source in sources {
            source.push(SourceEvent::Shutdown);
        }
        let targets: Vec<_> = self.targets().values().cloned().collect();
        for target in targets {
            target.push(TargetEvent::Shutdown);
        }
    }
}

/// The machine's settings out of the host's.
///
/// # Errors
/// The text of what is out of range.
pub(crate) fn settings_of(settings: &Settings) -> Result<RelocationSettings, String> {
    let chunk = u32::try_from(settings.relocation_payload_chunk_limit).unwrap_or(u32::MAX);
    RelocationSettings::builder()
        .cutover_wait(settings.relocation_cutover_wait_timeout)
        .seal_timeout(settings.session_relocation_seal_timeout)
        .chunk_limit(chunk)
        .in_flight_budget(settings.relocation_in_flight_payload_budget)
        .node_in_flight_budget(settings.relocation_node_in_flight_payload_budget)
        .follow_duration(settings.message_follow_duration)
        .restore_validity(settings.relocation_restore_validity)
        .polling_interval(settings.polling_interval)
        .build()
        .map_err(|error| error.to_string())
}

/// What became of a record.
pub(crate) enum Taken {
    /// It is of a move. Its connection may go on, or not before the unit has caught up.
    Yes(Flow),
    /// It belongs to none.
    Not(Box<Record>),
}

/// Takes a record of a move, in the receive step of its connection.
pub(crate) fn take(core: &Arc<Core>, link: &PeerLink, record: Record) -> Taken {
    let connection: ConnectionId = core.moves.links.id(link);
    match record {
        // Only the run that was asked answers; what its record names must be itself besides.
        Record::RelocationReady(ready) => match core.moves.source(&ready.object) {
            Some(source) if source.is_to(link) => source.push(SourceEvent::Ready(ready)),
            Some(_) => ignored("an answer of another node"),
            None => ignored("no such move leaves here"),
        },
        Record::RelocationFailed(failed) => match core.moves.source(&failed.object) {
            Some(source) if source.is_to(link) => {
                source.push(SourceEvent::Failed(failed));
            }
            Some(_) => ignored("an answer of another node"),
            None => ignored("no such move leaves here"),
        },
        Record::RelocationPrepare(prepare) if !is_from(&prepare, link) => {
            ignored("a move in the name of another node");
        }
        Record::RelocationPrepare(prepare) => target::prepared(core, connection, prepare),
        Record::RelocationState(chunk) => match core.moves.target(&chunk.object) {
            Some(target) => {
                let now = Monotonic::from_origin(core.clock.elapsed());
                return Taken::Yes(target.chunk(now, connection, chunk, || resumes(link)));
            }
            // TGT-37
            None => ignored("no such move comes here"),
        },
        Record::RelocationData(relay) => match core.moves.target(&relay.object) {
            Some(target) => target.push(TargetEvent::Relay { connection, relay }),
            None => ignored("no such move comes here"),
        },
        Record::RelocationCutover(cutover) => match core.moves.target(&cutover.object) {
            Some(target) => target.push(TargetEvent::Cutover {
                connection,
                cutover,
            }),
            None => ignored("no such move comes here"),
        },
        Record::ActorLeft(left) => {
            // WR-58, OP-2: a hint to read at once.
            let source = core.moves.sources().get(&left.actor.actor_id).cloned();
            if let Some(source) = source {
                source.push(SourceEvent::CommitHint);
            }
        }
        Record::ReplyRelay(relay) => take_relay(core, link, *relay),
        Record::ReplyRelayAck(ack) => take_confirmation(core, link, &ack),
        other => return Taken::Not(Box::new(other)),
    }
    Taken::Yes(Flow::Continue)
}

/// WR-51: whether the source that a command 40 names is the run at the other end. That is judged here and nowhere else, as
/// authority is by the commit and a binding by its session (RL-29). What follows is tied to the
/// connection of that command (RL-5).
fn is_from(prepare: &RelocationPrepare, link: &PeerLink) -> bool {
    prepare.source_node_rid == *link.peer()
        && prepare.source_node_generation == link.node_generation()
        && prepare.coordinator.coordinator_node_rid == *link.peer()
        && prepare.coordinator.coordinator_node_generation == link.node_generation()
}

fn ignored(reason: &'static str) {
    tracing::trace!(target: "spotlane::runtime::relocation", reason, "ignored");
}

/// A connection has come or gone: every unit that may use it hears of it.
pub(crate) fn peer_changed(core: &Core, link: &PeerLink, event: &PeerEvent) {
    match event {
        PeerEvent::Admitted { .. } => {
            // A connection that a move uses already is no new one, whatever came first.
            let Some(id) = core.moves.links.meet(link) else {
                return;
            };
            for source in core.moves.sources().values() {
                if source.is_to(link) {
                    source.push(SourceEvent::ConnectionReady(id));
                }
            }
        }
        PeerEvent::Lost { .. } => {
            let Some(id) = core.moves.links.forget(link) else {
                return;
            };
            core.moves.pacing.connection_lost(id);
            for source in core.moves.sources().values() {
                source.push(SourceEvent::ConnectionLost(id));
            }
            for target in core.moves.targets().values() {
                target.push(TargetEvent::ConnectionLost(id));
            }
        }
        _ => {}
    }
}
