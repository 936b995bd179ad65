//! The mesh: node requests (17) and node sends (16) between two nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use spotlane_mesh::{
    Flow, Inbound, Mesh, MeshConfig, NodeIdentity, PeerEvent, PeerIntent, PeerLink, Received,
};
use spotlane_types::count::{
    ApplicationVersion, CapacityLimit, Correlation, PendingCapacityLimit, Weight,
};
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{
    ContentType, Endpoint, MeshName, NodeRid, PacketName, ProtocolCapability, SecurityIdentity,
};
use spotlane_types::kind::{FailureCode, ObjectRole, RuntimeState, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::message::{NodeRequest, NodeSend};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::descriptor::{
    Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};
use spotlane_wire::payload::ApplicationPayload;
use tokio::runtime::Runtime;

use crate::child::{Mode, Server, say};
use crate::{Client, END, Out, Shape, nanos, now, runtime};

const TIMEOUT: Duration = Duration::from_secs(20);

pub fn identity(name: &str) -> NodeIdentity {
    let capability = ProtocolCapability::new("framework-service-v13").unwrap();
    NodeIdentity {
        rid: NodeRid::new(name.as_bytes()).unwrap(),
        descriptor: RouteMeshAdmission {
            mesh_name: MeshName::new("bench").unwrap(),
            security_identity: SecurityIdentity::new("plaintext").unwrap(),
            lifecycle_generation: NodeGeneration::new(7).unwrap(),
            descriptor_revision: DescriptorRevision::new(1).unwrap(),
            advertised_endpoint: Endpoint::new("tcp://127.0.0.1:1").unwrap(),
            channels: Channels::new(vec![]).unwrap(),
            extension: DescriptorExtension {
                runtime_state: RuntimeState::Serving,
                application_version: ApplicationVersion::new(1).unwrap(),
                protocol_capabilities: ProtocolCapabilities::new(vec![capability]).unwrap(),
                object_role: ObjectRole::Server,
                placement_weight: Weight::new(1).unwrap(),
                active_capacity_limit: CapacityLimit::new(10).unwrap(),
                pending_capacity_limit: PendingCapacityLimit::new(10).unwrap(),
                active_capacity_used: 0,
                pending_capacity_used: 0,
                spot_types: None,
                stateful_capabilities: None,
                maintenance_wave: None,
            },
        },
    }
}

/// What a message carries.
#[derive(Clone)]
struct Load(ApplicationPayload);

impl Load {
    fn new(bytes: Bytes) -> Self {
        Self(ApplicationPayload {
            packet_name: PacketName::new("p").unwrap(),
            content_type: ContentType::new("c").unwrap(),
            payload: PayloadBytes::new(bytes).unwrap(),
        })
    }

    fn send(&self) -> Record {
        NodeSend {
            metadata: None,
            payload: self.0.clone(),
        }
        .into()
    }

    fn request(&self, correlation: u64) -> Record {
        NodeRequest {
            correlation: Correlation::new(correlation).unwrap(),
            metadata: None,
            payload: self.0.clone(),
        }
        .into()
    }
}

/// Answers requests with their payload, counts everything else.
#[derive(Default)]
struct Host {
    handled: AtomicU64,
}

impl Inbound for Host {
    fn on_record(&self, received: Received) -> Flow {
        match (received.record, received.reply) {
            (Record::NodeRequest(request), Some(reply)) => {
                let answer = Reply {
                    correlation: request.correlation,
                    outcome: ReplyOutcome {
                        terminal_result: TerminalResult::Ok,
                        failure_code: FailureCode::None,
                        tail: ReplyTail::None,
                    },
                    payload: Some(request.payload),
                };
                reply.answer(answer).ok();
            }
            (Record::NodeSend(send), _) => {
                let handled = self.handled.fetch_add(1, Ordering::Relaxed) + 1;
                if send.payload.payload.as_bytes().first() == Some(&END) {
                    self.handled.store(0, Ordering::Relaxed);
                    say(handled);
                }
            }
            _ => {}
        }
        Flow::Continue
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

pub async fn serve(_: Mode) {
    let mesh = Mesh::start(MeshConfig::new(identity("a-server")), Host::default())
        .await
        .unwrap();
    let endpoint = mesh.advertised_endpoint().as_str().to_owned();
    say(endpoint.rsplit(':').next().unwrap());
    std::future::pending::<()>().await;
}

pub struct Ours {
    runtime: Runtime,
    /// Ends with the bench.
    _mesh: Mesh,
    link: PeerLink,
    server: Server,
}

impl Ours {
    pub fn new(server: Server, port: u16) -> Self {
        let runtime = runtime();
        let (mesh, link) = runtime.block_on(async {
            let peer = PeerIntent::manual(&format!("tcp://127.0.0.1:{port}"), None).unwrap();
            let config = MeshConfig::new(identity("b-client")).peer(peer);
            let mesh = Mesh::start(config, Host::default()).await.unwrap();
            let mut peers = mesh.watch_peers();
            let link = peers.wait_for(|peers| !peers.is_empty()).await.unwrap()[0]
                .link
                .clone();
            (mesh, link)
        });
        Self {
            runtime,
            _mesh: mesh,
            link,
            server,
        }
    }
}

impl Client for Ours {
    fn requests(&mut self, payload: usize, depth: usize, shape: Shape, time: Duration) -> Out {
        let load = Load::new(Bytes::from(vec![1; payload]));
        match shape {
            Shape::Pipelined => {
                let task = pipelined(self.link.clone(), load, depth, time);
                self.runtime.block_on(self.runtime.spawn(task)).unwrap()
            }
            Shape::Callers => {
                let start = now();
                let next = Arc::new(AtomicU64::new(1));
                let callers: Vec<_> = (0..depth)
                    .map(|_| {
                        let (link, load) = (self.link.clone(), load.clone());
                        let next = Arc::clone(&next);
                        self.runtime.spawn(async move {
                            let mut latencies = Vec::with_capacity(4096);
                            let mut last = now();
                            while last - start < time {
                                let correlation = next.fetch_add(1, Ordering::Relaxed);
                                let request = load.request(correlation);
                                link.request(request, TIMEOUT).await.unwrap();
                                let done = now();
                                latencies.push(nanos(last, done));
                                last = done;
                            }
                            latencies
                        })
                    })
                    .collect();
                let done = callers
                    .into_iter()
                    .map(|it| self.runtime.block_on(it).unwrap());
                let latencies = done.flatten().collect();
                Out {
                    seconds: start.elapsed().as_secs_f64(),
                    latencies,
                }
            }
        }
    }

    fn one_way(&mut self, payload: usize, time: Duration) -> f64 {
        let start = now();
        let link = self.link.clone();
        let task = async move {
            let load = Load::new(Bytes::from(vec![1; payload]));
            while start.elapsed() < time {
                for _ in 0..64 {
                    link.send(load.send(), Some(TIMEOUT)).await.unwrap();
                }
            }
            let last = Load::new(Bytes::from(vec![END; payload])).send();
            link.send(last, Some(TIMEOUT)).await.unwrap();
        };
        self.runtime.block_on(self.runtime.spawn(task)).unwrap();
        self.server.handled() / start.elapsed().as_secs_f64()
    }
}

async fn pipelined(link: PeerLink, load: Load, depth: usize, time: Duration) -> Out {
    let mut open = VecDeque::with_capacity(depth);
    let mut latencies = Vec::with_capacity(1 << 18);
    let start = now();
    let mut correlation = 0;
    let mut ask = |at| {
        correlation += 1;
        let asked = link.ask(load.request(correlation), TIMEOUT).unwrap();
        (at, asked)
    };
    for _ in 0..depth {
        open.push_back(ask(now()));
    }
    while let Some((at, asked)) = open.pop_front() {
        asked.await.unwrap();
        let done = now();
        latencies.push(nanos(at, done));
        if done - start < time {
            open.push_back(ask(done));
        }
    }
    Out {
        seconds: start.elapsed().as_secs_f64(),
        latencies,
    }
}
