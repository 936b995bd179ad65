//! Keeps the intents of a mesh in step with the directory of nodes.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use spotlane_types::id::NodeRid;
use spotlane_types::time::Monotonic;

use crate::intent::{DiscoveredNode, PeerIntent};
use crate::mesh::Mesh;

/// Where nodes are found; the host adapts its directory to it.
pub trait Directory: Send + Sync + 'static {
    /// Why the directory was not read. Only whether it was read counts here.
    type Error: Send;

    /// All nodes of the mesh whose lease is live, or nothing: a part of them is a failure (RL-243).
    fn nodes(&self) -> impl Future<Output = Result<Vec<DiscoveredNode>, Self::Error>> + Send;
}

/// How often the directory is read, and what an outage of it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct DiscoverySettings {
    /// Between two readings.
    pub polling_interval: Duration,
    /// How long the last complete list is kept while the directory cannot be read (RL-243).
    pub store_failure_grace: Duration,
    /// The time that a lease has: a node that is missing from the first list after an outage is
    /// dropped only when it is still missing that much later (RL-243).
    pub lease_ttl: Duration,
}

/// Reads the directory until the mesh stops, and tells the mesh whom to dial.
///
/// # Cancel safety
/// Dropped, the intents stay what they are.
pub async fn discover<D: Directory>(mesh: &Mesh, directory: &D, settings: DiscoverySettings) {
    let mut roster = Roster::new(settings);
    loop {
        let read = tokio::select! {
            biased;
            () = mesh.stopped() => return,
            read = directory.nodes() => read,
        };
        let now = mesh.now();
        let change = match read {
            Ok(nodes) => Some(roster.on_list(now, nodes)),
            Err(_) => roster.on_failure(now),
        };
        if let Some(nodes) = change {
            mesh.set_peers(nodes.into_iter().map(PeerIntent::discovered).collect());
        }
        tokio::select! {
            biased;
            () = mesh.stopped() => return,
            () = mesh.sleep(settings.polling_interval) => {}
        }
    }
}

/// The nodes that may be connected to: what the directory said, through its outages.
#[derive(Debug)]
struct Roster {
    settings: DiscoverySettings,
    nodes: BTreeMap<NodeRid, Known>,
    state: State,
}

#[derive(Debug)]
struct Known {
    node: DiscoveredNode,
    /// It was missing in the first list after an outage: when it is dropped.
    dropped_at: Option<Monotonic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// Since then the directory cannot be read.
    Failing(Monotonic),
}

type Nodes = Vec<DiscoveredNode>;

impl Roster {
    const fn new(settings: DiscoverySettings) -> Self {
        Self {
            settings,
            nodes: BTreeMap::new(),
            state: State::Reading,
        }
    }

    fn all(&self) -> Nodes {
        self.nodes
            .values()
            .map(|known| known.node.clone())
            .collect()
    }

    /// A complete list. Gives the nodes to be connected to.
    fn on_list(&mut self, now: Monotonic, nodes: Nodes) -> Nodes {
        let after_outage = std::mem::replace(&mut self.state, State::Reading) != State::Reading;
        let listed: BTreeMap<_, _> = nodes.into_iter().map(|it| (it.node.clone(), it)).collect();
        self.nodes.retain(|rid, known| {
            if listed.contains_key(rid) {
                return true;
            }
            if after_outage && known.dropped_at.is_none() {
                known.dropped_at = Some(now.after(self.settings.lease_ttl));
            }
            known.dropped_at.is_some_and(|at| now < at)
        });
        for (rid, node) in listed {
            let dropped_at = None;
            self.nodes.insert(rid, Known { node, dropped_at });
        }
        self.all()
    }

    /// The directory could not be read. Gives the nodes to be connected to when that changes them.
    fn on_failure(&mut self, now: Monotonic) -> Option<Nodes> {
        let since = match self.state {
            State::Reading => {
                self.state = State::Failing(now);
                return None;
            }
            State::Failing(since) => since,
        };
        let over = now.since(since) >= self.settings.store_failure_grace;
        if !over || self.nodes.is_empty() {
            return None;
        }
        self.nodes.clear();
        Some(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use spotlane_types::generation::NodeGeneration;
    use spotlane_types::id::{Endpoint, SecurityIdentity};
    use spotlane_types::kind::ObjectRole;

    use super::*;

    fn node(name: &str) -> DiscoveredNode {
        DiscoveredNode {
            node: NodeRid::new(name.as_bytes()).unwrap(),
            endpoint: Endpoint::new(&format!("tcp://{name}:7")).unwrap(),
            generation: NodeGeneration::new(1).unwrap(),
            security_identity: SecurityIdentity::new("plaintext").unwrap(),
            object_role: ObjectRole::Server,
            server_channels: 0,
        }
    }

    fn nodes(names: &str) -> Nodes {
        names.chars().map(|name| node(&name.to_string())).collect()
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn roster() -> Roster {
        Roster::new(DiscoverySettings {
            polling_interval: Duration::from_secs(1),
            store_failure_grace: Duration::from_secs(30),
            lease_ttl: Duration::from_secs(10),
        })
    }

    /// RL-243: without an outage a missing node is dropped at once.
    #[test]
    fn the_list_of_the_directory_is_what_counts() {
        let mut roster = roster();
        assert_eq!(roster.on_list(at(0), nodes("ab")), nodes("ab"));
        assert_eq!(roster.on_list(at(1), nodes("bc")), nodes("bc"));
    }

    /// RL-243: an outage keeps the last list for the grace and no longer.
    #[test]
    fn an_outage_keeps_the_last_list_for_its_grace() {
        let mut roster = roster();
        roster.on_list(at(0), nodes("ab"));
        for second in 1..31 {
            assert_eq!(roster.on_failure(at(second)), None);
        }
        assert_eq!(roster.on_failure(at(31)), Some(Vec::new()));
        assert_eq!(roster.on_failure(at(32)), None);
        assert_eq!(roster.on_list(at(33), nodes("b")), nodes("b"));
    }

    /// RL-243: after an outage a missing node has the time of a lease to come back.
    #[test]
    fn after_an_outage_a_missing_node_has_a_lease_to_come_back() {
        let mut roster = roster();
        roster.on_list(at(0), nodes("abc"));
        roster.on_failure(at(1));
        assert_eq!(roster.on_list(at(2), nodes("a")), nodes("abc"));
        assert_eq!(roster.on_list(at(5), nodes("ac")), nodes("abc"));
        assert_eq!(roster.on_list(at(12), nodes("ac")), nodes("ac"));
        // It is a node like any other then.
        assert_eq!(roster.on_list(at(13), nodes("a")), nodes("a"));
    }
}
