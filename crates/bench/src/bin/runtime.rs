//! Messages to Actors of another host beside the same link used directly (EX-395): what the runtime costs.
//!
//! Both contenders have their two ends in this process, each on a runtime of its own with two workers: hosts that send to
//! an Actor, and bare nodes that send to each other. *Window* is so many tasks with one request each. *Link* sends the
//! smallest record there is with a payload, and handles it where it was read; *link, actor record* is the same link with
//! the very records that the hosts exchange, so the difference of the two is what those records cost.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a bench may fail, and is no library"
)]

#[path = "net/node.rs"]
mod node;

use std::future::Future;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use node::Load;
use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::prelude::*;
use spotlane_bench::now;
use spotlane_mesh::{Flow, Inbound, Mesh, MeshConfig, PeerEvent, PeerIntent, PeerLink, Received};
use spotlane_types::count::{Correlation, HopCount};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{ActorId, NodeRid, OperationId};
use spotlane_wire::Record;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

const TIMEOUT: Duration = Duration::from_secs(20);
/// The window of the rule.
const WINDOW: usize = 100;

/// Counts one-way messages at the receiver and says when so many have come.
#[derive(Clone, Default)]
struct Arrivals {
    count: Arc<AtomicU64>,
    wanted: Arc<AtomicU64>,
    there: Arc<Notify>,
}

impl Arrivals {
    fn one(&self) {
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        if count == self.wanted.load(Ordering::Acquire) {
            self.there.notify_one();
        }
    }

    /// Waits until everything that was sent has come.
    async fn all(&self, sent: u64) {
        self.wanted.store(sent, Ordering::Release);
        if self.count.load(Ordering::Acquire) < sent {
            self.there.notified().await;
        }
        self.count.store(0, Ordering::Release);
        self.wanted.store(0, Ordering::Release);
    }
}

/// One end that sends, whatever it sends through.
trait Sender: Clone + Send + Sync + 'static {
    fn request(&self, payload: &Bytes) -> impl Future<Output = ()> + Send;
    fn send(&self, payload: &Bytes) -> impl Future<Output = ()> + Send;
}

/// A contender: two ends, connected.
struct Pair<S> {
    client: Runtime,
    sender: S,
    arrivals: Arrivals,
    _server: Runtime,
    _ends: Box<dyn std::any::Any>,
}

impl<S: Sender> Pair<S> {
    /// Requests per second.
    fn requests(&self, payload: usize, callers: usize, time: Duration) -> f64 {
        let payload = Bytes::from(vec![1; payload]);
        let start = now();
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (sender, payload) = (self.sender.clone(), payload.clone());
                self.client.spawn(async move {
                    let mut done = 0u64;
                    while start.elapsed() < time {
                        sender.request(&payload).await;
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let done = tasks
            .into_iter()
            .map(|task| self.client.block_on(task).unwrap());
        done.sum::<u64>() as f64 / start.elapsed().as_secs_f64()
    }

    /// One-way messages per second, as the receiver has handled them.
    fn one_way(&self, payload: usize, time: Duration) -> f64 {
        let payload = Bytes::from(vec![1; payload]);
        let (sender, arrivals) = (self.sender.clone(), self.arrivals.clone());
        let start = now();
        let task = async move {
            let mut sent = 0;
            while start.elapsed() < time {
                sender.send(&payload).await;
                sent += 1;
            }
            arrivals.all(sent).await;
            sent
        };
        let sent: u64 = self.client.block_on(self.client.spawn(task)).unwrap();
        sent as f64 / start.elapsed().as_secs_f64()
    }
}

/// The link, used directly.
#[derive(Clone)]
struct Direct {
    link: PeerLink,
    next: Arc<AtomicU64>,
    /// Whom records name; without one they are those of a node.
    actor: Option<Arc<ActorRouteFence>>,
}

impl Sender for Direct {
    async fn request(&self, payload: &Bytes) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let load = Load::new(payload.clone());
        let request = match &self.actor {
            None => load.request(number),
            Some(actor) => Record::from(ActorRequest {
                correlation: Correlation::new(number).unwrap(),
                operation: OperationId::new(1, number).unwrap(),
                message_follow_hop_count: HopCount::MIN,
                source_actor: None,
                target_actor: (**actor).clone(),
                bound_session_tail: None,
                metadata: None,
                payload: load.0,
            }),
        };
        self.link.request(request, TIMEOUT).await.unwrap();
    }

    async fn send(&self, payload: &Bytes) {
        let load = Load::new(payload.clone());
        let send = match &self.actor {
            None => load.send(),
            Some(actor) => Record::from(ActorSend {
                operation: OperationId::new(1, self.next.fetch_add(1, Ordering::Relaxed)).unwrap(),
                message_follow_hop_count: HopCount::MIN,
                source_actor: None,
                target_actor: (**actor).clone(),
                bound_session_tail: None,
                metadata: None,
                payload: load.0,
            }),
        };
        self.link.send(send, Some(TIMEOUT)).await.unwrap();
    }
}

/// What a route of the hosts looks like.
fn fence() -> ActorRouteFence {
    ActorRouteFence {
        actor: ActorRef {
            actor_id: ActorId::new("e").unwrap(),
            object_generation: ObjectGeneration::MIN,
        },
        target_node_rid: NodeRid::new(b"a-server").unwrap(),
        target_node_generation: NodeGeneration::new(7).unwrap(),
        expected_authority_owner_generation: AuthorityOwnerGeneration::MIN,
        expected_owner_lease_generation: OwnerLeaseGeneration::MIN,
    }
}

/// Answers requests with their payload, counts everything else.
struct Far(Arrivals);

impl Inbound for Far {
    fn on_record(&self, received: Received) -> Flow {
        match (received.record, received.reply) {
            (Record::NodeRequest(request), Some(reply)) => {
                reply
                    .answer(node::answer(request.correlation, request.payload))
                    .unwrap();
            }
            (Record::ActorRequest(request), Some(reply)) => {
                reply
                    .answer(node::answer(request.correlation, request.payload))
                    .unwrap();
            }
            (Record::NodeSend(_) | Record::ActorSend(_), _) => self.0.one(),
            _ => {}
        }
        Flow::Continue
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

fn direct(actor: Option<ActorRouteFence>) -> Pair<Direct> {
    let (server, client) = (node::runtime(), node::runtime());
    let arrivals = Arrivals::default();
    let far = MeshConfig::new(node::identity("a-server"));
    let far = server
        .block_on(Mesh::start(far, Far(arrivals.clone())))
        .unwrap();
    let peer = PeerIntent::manual(far.advertised_endpoint().as_str(), None).unwrap();
    let near = MeshConfig::new(node::identity("b-client")).peer(peer);
    let (near, link) = client.block_on(async {
        let near = Mesh::start(near, Far(Arrivals::default())).await.unwrap();
        let mut peers = near.watch_peers();
        let link = peers.wait_for(|peers| !peers.is_empty()).await.unwrap()[0]
            .link
            .clone();
        (near, link)
    });
    Pair {
        client,
        sender: Direct {
            link,
            next: Arc::new(AtomicU64::new(1)),
            actor: actor.map(Arc::new),
        },
        arrivals,
        _server: server,
        _ends: Box::new((far, near)),
    }
}

/// The Actor that answers and counts.
struct Echo(Arrivals);

impl Echo {
    async fn echo(&mut self, _: &mut Context, payload: Payload) -> Payload {
        payload
    }

    async fn count(&mut self, _: &mut Context, _: Payload) {
        self.0.one();
    }
}

impl Actor for Echo {
    const TYPE: &'static str = "echo";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers.request("p", Self::echo).send("p", Self::count);
    }
}

#[derive(Clone)]
struct Hosts {
    actor: ActorHandle,
}

impl Sender for Hosts {
    async fn request(&self, payload: &Bytes) {
        let request = self.actor.request("p", payload.clone());
        request.timeout(TIMEOUT).await.unwrap();
    }

    async fn send(&self, payload: &Bytes) {
        self.actor.send("p", payload.clone()).await.unwrap();
    }
}

fn hosts() -> Pair<Hosts> {
    let (server, client) = (node::runtime(), node::runtime());
    let location = MemoryStore::new(spotlane::store_time);
    let relocation = MemoryRelocation::new(spotlane::store_time);
    let host = |name| {
        Host::builder()
            .mesh("bench")
            .node_id(name)
            .listen("tcp://127.0.0.1:0")
            .location_store(location.clone())
            .relocation_store(relocation.clone())
    };
    let arrivals = Arrivals::default();
    let counted = arrivals.clone();
    let far = host("a-server").actor(Policy::disable(), move || Echo(counted.clone()));
    let far = server.block_on(far.start()).unwrap();
    // Only the other host knows the type, so the Actor is there.
    server
        .block_on(far.actors().create::<Echo>("e").submit())
        .unwrap();
    let near = client.block_on(host("b-client").start()).unwrap();
    client.block_on(near.wait_for_peers(1, TIMEOUT)).unwrap();
    Pair {
        client,
        sender: Hosts {
            actor: near.actor("e"),
        },
        arrivals,
        _server: server,
        _ends: Box::new((far, near)),
    }
}

fn main() -> ExitCode {
    spotlane_bench::main(|bench| {
        let ours = Rc::new(hosts());
        let links = [("link", None), ("link, actor record", Some(fence()))];
        let links = links.map(|(name, actor)| (name, Rc::new(direct(actor))));
        let time = bench.slice() * 5;
        for (size, payload) in [("1 KiB", 1024), ("4 KiB", 4096)] {
            for (how, callers) in [("one by one", 1), ("window 100", WINDOW)] {
                let ours = Rc::clone(&ours);
                let name = format!("requests, {size}, {how}");
                let run = move || ours.requests(payload, callers, time);
                let figure = bench.figure(name, "requests/s", run);
                for (name, link) in &links {
                    let link = Rc::clone(link);
                    figure.peer(*name, move || link.requests(payload, callers, time));
                }
            }
            let ours = Rc::clone(&ours);
            let run = move || ours.one_way(payload, time);
            let figure = bench.figure(format!("one-way, {size}"), "messages/s", run);
            for (name, link) in &links {
                let link = Rc::clone(link);
                figure.peer(*name, move || link.one_way(payload, time));
            }
        }
    })
}
