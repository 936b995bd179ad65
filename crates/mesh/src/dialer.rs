//! Keeps a node connected to the peers that it wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use spotlane_mesh_proto::admission::Side;
use spotlane_mesh_proto::link::{EndReason, Redial};
use spotlane_mesh_proto::peers::{Intent, winning_side};
use spotlane_types::id::Endpoint;
use tokio::task::AbortHandle;

use crate::config::parse_endpoint;
use crate::error::LostReason;
use crate::intent::{Origin, PeerIntent};
use crate::link::LinkCore;
use crate::node::{Node, locked};

/// The intents of a node, each with the task that dials for it.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    running: Mutex<BTreeMap<Endpoint, Running>>,
}

#[derive(Debug)]
struct Running {
    intent: PeerIntent,
    task: Option<AbortHandle>,
    link: Arc<Mutex<Option<Arc<LinkCore>>>>,
}

impl Dialer {
    /// Makes the intents of configuration and discovery those that are dialled for.
    pub(crate) fn set(&self, node: &Arc<Node>, discovered: Vec<PeerIntent>) {
        let shown = discovered.iter().filter_map(|intent| match &intent.origin {
            Origin::Manual { .. } => None,
            Origin::Discovered(found) => Some((found.node.clone(), intent.expected())),
        });
        node.show(shown.collect());
        let wanted = wanted(node, discovered);
        let mut running = locked(&self.running);
        let stale: Vec<_> = running
            .iter()
            .filter(|(endpoint, running)| wanted.get(endpoint) != Some(&running.intent))
            .map(|(endpoint, _)| endpoint.clone())
            .collect();
        for endpoint in stale {
            if let Some(running) = running.remove(&endpoint) {
                running.withdraw();
            }
        }
        for (endpoint, intent) in wanted {
            running
                .entry(endpoint)
                .or_insert_with(|| Running::start(node, intent));
        }
    }
}

/// TR-36, TR-73, TR-78: which endpoints are dialled, and what is expected there.
fn wanted(node: &Node, discovered: Vec<PeerIntent>) -> BTreeMap<Endpoint, PeerIntent> {
    let manual = node.config.peers.iter();
    let mut wanted: BTreeMap<_, _> = manual
        .map(|intent| (intent.endpoint.clone(), intent.clone()))
        .collect();
    let own = node.own();
    let own_rid = &node.config.identity.rid;
    for intent in discovered {
        let dials = match &intent.origin {
            Origin::Manual { .. } => true,
            Origin::Discovered(found) => {
                found.node != *own_rid
                    && winning_side(own_rid, &found.node) == Side::Dialler
                    && found.is_needed_by(&own)
            }
        };
        // What the directory knows is not weakened by a manual intent, which is dialled in any case.
        let manual = wanted.contains_key(&intent.endpoint) && intent.node() != Some(own_rid);
        if dials || manual {
            wanted.insert(intent.endpoint.clone(), intent);
        }
    }
    wanted
}

impl Running {
    fn start(node: &Arc<Node>, intent: PeerIntent) -> Self {
        let link = Arc::new(Mutex::new(None));
        let task = dial(Arc::clone(node), intent.clone(), Arc::clone(&link));
        Self {
            task: node.spawn(task),
            intent,
            link,
        }
    }

    fn withdraw(self) {
        if let Some(task) = self.task {
            task.abort();
        }
        let link = locked(&self.link).take();
        if let Some(link) = link {
            link.end_by(LostReason::Withdrawn);
        }
    }
}

/// What a dialler does after the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Dials again after a pause, with the same pair id (TR-56, TR-57).
    Again,
    /// The peer is connected by another link: dials anew when it is not any more.
    WhenGone,
    /// Leaves it to the owner of the intent (TR-60, TR-73).
    Never,
}

fn next(reason: &LostReason) -> Next {
    match reason {
        LostReason::Ended(reason) => match (reason.redial(), reason) {
            (Redial::Again, _) => Next::Again,
            (Redial::Stop, EndReason::Superseded | EndReason::Outlived) => Next::WhenGone,
            (Redial::Stop, _) => Next::Never,
        },
        LostReason::Stalled | LostReason::TooManyLinks | LostReason::NotJoined(_) => Next::Again,
        LostReason::Superseded | LostReason::RunEnded => Next::WhenGone,
        LostReason::Withdrawn | LostReason::Shutdown => Next::Never,
    }
}

/// Dials for one intent until it is withdrawn or the node stops.
async fn dial(node: Arc<Node>, intent: PeerIntent, current: Arc<Mutex<Option<Arc<LinkCore>>>>) {
    let Ok((_, address)) = parse_endpoint(intent.endpoint.as_str()) else {
        // Only a descriptor of the directory can have such an endpoint, and no other way to reach it.
        return;
    };
    let mut stopping = node.stopping.subscribe();
    let mut pair = Intent::new(node.pair(), node.config.redial);
    loop {
        if node.is_stopping() {
            return;
        }
        let core = node.dial(pair.key(), intent.expected(), &address);
        *locked(&current) = Some(Arc::clone(&core));
        let reason = core.ended().await;
        if core.token().is_some() {
            pair.on_ready();
        }
        match next(&reason) {
            Next::Again => {}
            Next::WhenGone => {
                let mut peers = node.peers.subscribe();
                let gone =
                    peers.wait_for(|peers| !peers.iter().any(|it| it.link.peer() == core.peer()));
                tokio::select! {
                    biased;
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                    _ = gone => {}
                }
                pair = Intent::new(node.pair(), node.config.redial);
            }
            Next::Never => return,
        }
        let random = u32::try_from(node.random() >> 32).unwrap_or(0);
        let wait = node.clock().real(pair.on_lost(random));
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
