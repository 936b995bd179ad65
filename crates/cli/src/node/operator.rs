//! A host as the admin endpoint sees it.

use std::time::Duration;

use spotlane::id::NodeRid;
use spotlane::{Error, ErrorKind, Host, HostState, RelocateMode, RelocateOutcome, SessionStream};
use spotlane_counter::node_name;
use tokio::time::Instant;

use crate::admin::{
    Drained, Location, Node, ObjectKind, ObjectName, Peer, Refusal, RefusalKind, Status,
};

/// Answers operators for a host.
#[derive(Debug)]
pub(crate) struct Operator {
    host: Host,
    store: &'static str,
    stream: Option<SessionStream>,
    since: Instant,
}

/// The name of a host's node.
pub(crate) fn node_of(host: &Host) -> String {
    node_name(host.node_id())
}

impl Operator {
    /// An operator's view of a host that starts now.
    pub(crate) fn new(host: Host, store: &'static str, stream: Option<SessionStream>) -> Self {
        Self {
            host,
            store,
            stream,
            since: Instant::now(),
        }
    }

    /// The node of this name, if this host knows it.
    fn node(&self, name: &str) -> Result<NodeRid, Refusal> {
        let nodes = self.host.nodes();
        let found = nodes.iter().find(|node| node_name(&node.node) == name);
        found.map(|node| node.node.clone()).ok_or_else(|| {
            let known: Vec<_> = nodes.iter().map(|node| node_name(&node.node)).collect();
            Refusal::new(
                RefusalKind::NotFound,
                format!("there is no node {name:?}; there are {}", known.join(", ")),
            )
        })
    }

    fn actors(&self) -> u64 {
        u64::try_from(self.host.status().actors).unwrap_or(u64::MAX)
    }

    /// A node moves only what it owns; whoever asked the wrong one is told the right one.
    async fn not_moved(&self, object: &ObjectName, error: Error) -> Refusal {
        if error.kind() != ErrorKind::NotFound {
            return refusal(error);
        }
        match self.find(object).await {
            Err(missing) => missing,
            Ok(at) if at.node == node_of(&self.host) => refusal(error),
            Ok(at) => Refusal::new(
                RefusalKind::Rejected,
                format!(
                    "actor {:?} lives on {}; ask the admin endpoint of that node to move it",
                    object.id, at.node
                ),
            ),
        }
    }
}

impl Node for Operator {
    fn status(&self) -> Status {
        let status = self.host.status();
        let own = self.host.node_id();
        let others = self
            .host
            .nodes()
            .into_iter()
            .filter(|node| node.node != *own);
        let peers = others.map(|node| Peer {
            node: node_name(&node.node),
            mesh: node.endpoint.to_string(),
            state: if node.is_connected {
                "connected"
            } else {
                "away"
            }
            .to_owned(),
        });
        Status {
            node: node_of(&self.host),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: status.state.name().to_owned(),
            uptime_seconds: self.since.elapsed().as_secs(),
            mesh: status
                .endpoint
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            stream: self
                .stream
                .as_ref()
                .map(|stream| stream.endpoint().to_string()),
            store: self.store.to_owned(),
            actors: self.actors(),
            spots: 0,
            sessions: self
                .stream
                .as_ref()
                .map_or(0, |stream| stream.stats().active()),
            moving: u64::try_from(status.moving).unwrap_or(u64::MAX),
            safe_to_shutdown: status.safe_to_shutdown,
            peers: peers.collect(),
        }
    }

    fn is_ready(&self) -> bool {
        self.host.state() == HostState::Serving && self.host.status().admits_work
    }

    async fn find(&self, object: &ObjectName) -> Result<Location, Refusal> {
        let found = self
            .host
            .actors()
            .find(only_actors(object)?)
            .await
            .map_err(refusal)?;
        let found = found.ok_or_else(|| {
            Refusal::new(
                RefusalKind::NotFound,
                format!("there is no actor {:?}", object.id),
            )
        })?;
        Ok(Location {
            object: object.clone(),
            node: node_name(found.node()),
            generation: found.generation().to_string(),
        })
    }

    async fn relocate(&self, object: &ObjectName, to: &str) -> Result<Location, Refusal> {
        let target = self.node(to)?;
        let before = self.find(object).await?;
        if let Err(error) = self.host.relocate(only_actors(object)?, &target).await {
            return Err(self.not_moved(object, error).await);
        }
        // RL-210: the actor has left for good; the row names its new owner a moment later.
        Ok(Location {
            node: to.to_owned(),
            ..before
        })
    }

    async fn drain(&self, limit: Duration) -> Result<Drained, Refusal> {
        let before = self.actors();
        let drained = self
            .host
            .drain(RelocateMode::PlannedMaintenance, Some(limit))
            .await
            .map_err(refusal)?;
        let left = self.actors();
        let reason = match drained.outcome {
            RelocateOutcome::Relocated => None,
            RelocateOutcome::Blocked(reason) => Some(format!("{reason:?}")),
        };
        Ok(Drained {
            moved: before.saturating_sub(left),
            left,
            reason,
        })
    }
}

/// The sample application has no Spots that could be asked for.
fn only_actors(object: &ObjectName) -> Result<&str, Refusal> {
    match object.kind {
        ObjectKind::Actor => Ok(&object.id),
        ObjectKind::Spot => Err(Refusal::new(
            RefusalKind::NotFound,
            format!("there is no spot {:?}", object.id),
        )),
    }
}

fn refusal(error: Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::NotFound => RefusalKind::NotFound,
        ErrorKind::AlreadyExists | ErrorKind::Rejected => RefusalKind::Rejected,
        ErrorKind::TypeMismatch | ErrorKind::NotConfigured | ErrorKind::InvalidOperation => {
            RefusalKind::InvalidOperation
        }
        ErrorKind::Unavailable => RefusalKind::Unavailable,
        ErrorKind::DeadlineExceeded => RefusalKind::DeadlineExceeded,
        ErrorKind::ShuttingDown => RefusalKind::ShuttingDown,
        ErrorKind::ProtocolError | ErrorKind::DataLost | ErrorKind::InternalFailure => {
            RefusalKind::InternalFailure
        }
    };
    Refusal::new(kind, error.message())
}
