//! Client sessions: the streams of this host, and both halves of the bindings between sessions and Actors.
//!
//! * [`SessionStream`](crate::SessionStream) listens for clients (`stream`);
//! * `bindings` is the session owner's half: it sends what an aggregate decides, and takes the answers;
//! * `actor` is the half of an Actor's owner: who is bound, and what is refused;
//! * `records` brings the records of other nodes to the one or the other.

mod actor;
mod bindings;
mod records;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_stream::{SessionActors, SessionIds, StreamServer};
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{NodeRid, SessionRid};
use spotlane_wire::Record;

use crate::core::Core;

pub(crate) use actor::ActorSession;
pub use actor::BoundSession;
pub(crate) use records::{take, take_here};
pub use stream::SessionStream;

/// What a host knows of its client sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) ids: SessionIds,
    /// The streams of the host. A leaf lock.
    servers: Mutex<Vec<Arc<StreamServer>>>,
    /// Which session a binding number belongs to: a push names nothing else (SB-38). A leaf lock; an entry lives as long as
    /// its binding, or the request for it.
    bound: Mutex<HashMap<u64, SessionRid>>,
    next_generation: AtomicU64,
}

impl Sessions {
    fn servers(&self) -> MutexGuard<'_, Vec<Arc<StreamServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bound(&self) -> MutexGuard<'_, HashMap<u64, SessionRid>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, server: Arc<StreamServer>) {
        self.servers().push(server);
    }

    fn actors(&self, session: &SessionRid) -> Option<SessionActors> {
        let servers = self.servers();
        let session = servers.iter().find_map(|server| server.session(session));
        drop(servers);
        session?.actors().cloned()
    }

    /// The session that a binding number belongs to.
    fn of_binding(&self, generation: BindingGeneration) -> Option<SessionActors> {
        let session = self.bound().get(&generation.get()).cloned();
        self.actors(&session?)
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

/// Sends a control record about a binding to its node, which may be this one.
pub(crate) fn to_node(core: &Arc<Core>, node: &NodeRid, record: Record) {
    if *node == core.identity.rid {
        return take_here(core, record);
    }
    let sent = core.mesh().map(|mesh| mesh.submit(node, record));
    if let Ok(Err(error)) = sent {
        // SB-56, SB-84: not repeated; what it was for has its own timeout.
        tracing::debug!(target: "spotlane::runtime::session", %error, "a record about a binding was not sent");
    }
}
