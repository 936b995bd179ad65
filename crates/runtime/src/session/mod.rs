//! Client sessions: the streams of this host, and both halves of the bindings between sessions and Actors.
//!
//! * [`SessionStream`](crate::SessionStream) listens for clients (`stream`);
//! * `bindings` is the session owner's half: it sends what an aggregate decides, and takes the answers;
//! * `actor` is the half of an Actor's owner: who is bound, and what is refused;
//! * `callbacks` is what waits for an Actor to be told that its session has left;
//! * `relay` takes packets to Actors, and `line` keeps them in order while a queue is full;
//! * `numbers` says which session a binding belongs to;
//! * `follow` sends binds and notices after an Actor that has moved on;
//! * `gone` ends the bindings of session owners that have ended;
//! * `records` brings the records of other nodes to the one or the other.

mod actor;
mod bindings;
mod callbacks;
mod follow;
mod gone;
mod line;
mod numbers;
mod records;
mod relay;
mod stream;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_stream::{SessionActors, SessionIds, StreamServer, actors_of};
use spotlane_types::generation::{AuthorityOwnerGeneration, BindingGeneration};
use spotlane_types::id::{ActorId, NodeRid, SessionRid};
use spotlane_wire::Record;
use spotlane_wire::reference::ActorRouteFence;
use tokio::sync::Notify;

use crate::core::Core;

pub(crate) use actor::ActorSession;
pub use actor::BoundSession;
use follow::Asked;
pub(crate) use follow::{
    is_followed, is_followed_name, take as take_followed, take_here as take_queued,
};
use gone::Watch;
pub(crate) use gone::end_those_of_the_gone;
use line::{Leaves, Lines};
use numbers::Numbers;
pub(crate) use records::{take, take_here};
pub use stream::SessionStream;

/// What a host knows of its client sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) ids: SessionIds,
    /// The streams of the host. A leaf lock.
    servers: Mutex<Vec<Arc<StreamServer>>>,
    /// Which session a binding number belongs to. A leaf lock.
    numbers: Mutex<Numbers>,
    next_generation: AtomicU64,
    lines: Lines,
    /// Binds that another node is to answer. A leaf lock.
    asked: Mutex<Asked>,
    /// Something was said of one of them.
    told: Notify,
    /// Which session owners have ended.
    watch: Watch,
}

/// What a host keeps for sessions and bindings: for operators, and for tests of what is left when all clients have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCounts {
    /// Sessions of its own clients that are open, or whose last notices are under way.
    pub sessions: usize,
    /// Binding numbers of its own sessions that are in use, with binds that have no answer yet.
    pub bindings: usize,
    /// Binds that another node is to answer.
    pub unanswered: usize,
    /// Nodes that records of sessions wait for room to.
    pub full_nodes: usize,
    /// Actors that live here and are bound to a session, wherever that is.
    pub bound_actors: usize,
    /// Binds and notices whose answer waits for an Actor that lives here.
    pub waiting: usize,
    /// Disconnect callbacks of Actors that live here which have not begun.
    pub callbacks: u64,
}

impl Sessions {
    fn servers(&self) -> MutexGuard<'_, Vec<Arc<StreamServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Command 50: a hop has sent on what was addressed to it (RL-160).
    pub(crate) fn followed(&self, source: &ActorRouteFence, target: &ActorRouteFence) {
        self.asked().followed(source, target);
        self.told.notify_waiters();
    }

    /// Waits until a hop has said where a bind was registered: the notice and the answer come on different lanes of the
    /// connection, so either may be first (SB-24). Gives up after `within`.
    async fn told_of(
        &self,
        id: &ActorId,
        generation: BindingGeneration,
        tenure: AuthorityOwnerGeneration,
        within: Duration,
    ) {
        let told = async {
            loop {
                let mut told = std::pin::pin!(self.told.notified());
                told.as_mut().enable();
                if self.asked().knows(id, generation, tenure) {
                    return;
                }
                told.await;
            }
        };
        drop(tokio::time::timeout(within, told).await);
    }

    pub(crate) fn counts(&self, core: &Core) -> SessionCounts {
        let servers = self.servers().clone();
        let mut counts = SessionCounts {
            sessions: servers.iter().map(|server| server.sessions().len()).sum(),
            bindings: self.numbers().len(),
            unanswered: self.asked().len(),
            full_nodes: self.lines.len(),
            ..SessionCounts::default()
        };
        for live in core.slots.all_live() {
            live.unit.session.count(&mut counts);
        }
        counts
    }

    fn add(&self, server: Arc<StreamServer>) {
        self.servers().push(server);
    }

    fn actors(&self, session: &SessionRid) -> Option<SessionActors> {
        let servers = self.servers();
        let session = servers.iter().find_map(|server| server.session(session));
        drop(servers);
        actors_of(&session?).cloned()
    }

    /// The session that a binding number belongs to.
    fn of_binding(&self, generation: BindingGeneration) -> Option<SessionActors> {
        let session = self.numbers().session(generation).cloned();
        self.actors(&session?)
    }

    /// SB-15: the routes of all sessions may be used for so long from now on.
    pub(crate) fn admit_for(&self, left: Duration) {
        let servers = self.servers().clone();
        for session in servers.iter().flat_map(|server| server.sessions()) {
            if let Some(actors) = actors_of(&session) {
                actors.admit_for(left);
            }
        }
    }

    /// SB-10: counted by this run of the host.
    fn next_generation(&self) -> BindingGeneration {
        let number = self.next_generation.fetch_add(1, Ordering::Relaxed);
        BindingGeneration::new(number.saturating_add(1)).unwrap_or(BindingGeneration::MAX)
    }

    /// RL-229: no new session or binding; callbacks end, then each client is told and closed.
    pub(crate) async fn drain(&self, grace: Duration) {
        let servers = self.servers().clone();
        for server in servers {
            server.drain(grace).await;
        }
    }

    /// Ends what listens.
    pub(crate) fn end(&self) {
        let servers = std::mem::take(&mut *self.servers());
        drop(servers);
    }
}

/// Sends a control record about a binding to its node, which may be this one. A full queue is waited for (SB-56); here
/// and there it comes before what waits for the Actor (SB-36).
pub(crate) fn to_node(core: &Arc<Core>, node: &NodeRid, record: Record) {
    if *node == core.identity.rid {
        return take_here(core, record);
    }
    let leaves = Leaves::OneWay(Box::new(|sent| {
        if let Err(why) = sent {
            // SB-56, SB-84: not repeated; what it was for has its own timeout.
            tracing::debug!(target: "spotlane::runtime::session", ?why, "a record about a binding was not sent");
        }
    }));
    Lines::send(core, node, record, leaves);
}
