//! Nodes for tests: real sockets on loopback, a host that writes down what it sees.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "shared by the test files, each of which uses a part"
)]

pub mod raw;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use spotlane_mesh::{
    Diagnostic, Flow, Inbound, LostReason, Mesh, MeshClock, MeshConfig, NodeIdentity, PeerEvent,
    PeerIntent, PeerLink, Received,
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
use tokio::sync::mpsc;

/// How long anything may take in a test before it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn rid(text: &str) -> NodeRid {
    NodeRid::new(text.as_bytes()).unwrap()
}

/// A serving node without channels.
pub fn descriptor(run: u64) -> RouteMeshAdmission {
    let capability = ProtocolCapability::new("framework-service-v13").unwrap();
    RouteMeshAdmission {
        mesh_name: MeshName::new("game-mesh").unwrap(),
        security_identity: SecurityIdentity::new("plaintext").unwrap(),
        lifecycle_generation: NodeGeneration::new(run).unwrap(),
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
    }
}

pub fn identity(name: &str, run: u64) -> NodeIdentity {
    NodeIdentity {
        rid: rid(name),
        descriptor: descriptor(run),
    }
}

pub fn payload(bytes: impl Into<Bytes>) -> ApplicationPayload {
    ApplicationPayload {
        packet_name: PacketName::new("p").unwrap(),
        content_type: ContentType::new("c").unwrap(),
        payload: PayloadBytes::new(bytes.into()).unwrap(),
    }
}

pub fn node_send(bytes: impl Into<Bytes>) -> Record {
    NodeSend {
        metadata: None,
        payload: payload(bytes),
    }
    .into()
}

pub fn node_request(correlation: u64, bytes: impl Into<Bytes>) -> Record {
    NodeRequest {
        correlation: Correlation::new(correlation).unwrap(),
        metadata: None,
        payload: payload(bytes),
    }
    .into()
}

/// The answer to a request: the same payload.
pub fn echo(record: &Record) -> Reply {
    let Record::NodeRequest(request) = record else {
        panic!("{record:?} is no node request");
    };
    Reply {
        correlation: request.correlation,
        outcome: ReplyOutcome {
            terminal_result: TerminalResult::Ok,
            failure_code: FailureCode::None,
            tail: ReplyTail::None,
        },
        payload: Some(request.payload.clone()),
    }
}

/// The payload of an application record.
pub fn body(record: &Record) -> Bytes {
    record.payload().unwrap().payload.as_bytes().clone()
}

/// What a host sees, in order.
#[derive(Debug)]
pub enum Seen {
    Record(Received),
    Peer(PeerLink, PeerEvent),
    Diagnostic(Diagnostic),
}

/// What a host does with a record.
pub type Answer = Box<dyn Fn(Received) -> Result<Flow, Received> + Send + Sync>;

/// A host: `answer` takes records first; what it gives back is seen by the test.
pub struct Host {
    seen: mpsc::Sender<Seen>,
    answer: Answer,
}

impl Inbound for Host {
    fn on_record(&self, received: Received) -> Flow {
        match (self.answer)(received) {
            Ok(flow) => flow,
            Err(received) => {
                self.seen
                    .try_send(Seen::Record(received))
                    .expect("room in the test");
                Flow::Continue
            }
        }
    }

    fn on_peer(&self, link: &PeerLink, event: PeerEvent) {
        let seen = Seen::Peer(link.clone(), event);
        self.seen.try_send(seen).expect("room in the test");
    }

    fn on_diagnostic(&self, diagnostic: Diagnostic) {
        // Those that come after the test are of no interest.
        self.seen.try_send(Seen::Diagnostic(diagnostic)).ok();
    }
}

/// A running node of a test.
pub struct Node {
    pub mesh: Mesh,
    pub seen: mpsc::Receiver<Seen>,
}

/// Gives every record to the test.
pub fn watch() -> Answer {
    Box::new(Err)
}

/// A host that is busy with a record until the test lets it go on.
pub struct Busy {
    /// One for each record that it is at.
    pub begun: mpsc::Receiver<()>,
    pub go_on: std::sync::mpsc::Sender<()>,
}

/// Is busy with each record in turn, then does what `outcome` says.
pub fn busy(outcome: fn(Received) -> Flow) -> (Answer, Busy) {
    let (begins, begun) = mpsc::channel(64);
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let goes_on = Mutex::new(goes_on);
    let answer = Box::new(move |received| {
        begins.try_send(()).expect("room in the test");
        // Others run on this thread's place meanwhile, as with a host that computes elsewhere.
        tokio::task::block_in_place(|| goes_on.lock().unwrap().recv())
            .expect("a test that goes on");
        Ok(outcome(received))
    });
    (answer, Busy { begun, go_on })
}

/// Answers requests with their payload; everything else is seen by the test.
pub fn echoing() -> Answer {
    Box::new(|mut received| match received.reply.take() {
        Some(reply) => {
            reply.answer(echo(&received.record)).ok();
            Ok(Flow::Continue)
        }
        None => Err(received),
    })
}

pub async fn start(config: MeshConfig, answer: Answer) -> Node {
    let (sender, seen) = mpsc::channel(1 << 20);
    let host = Host {
        seen: sender,
        answer,
    };
    let mesh = Mesh::start(config, host).await.unwrap();
    Node { mesh, seen }
}

impl Node {
    /// A node that knows nobody.
    pub async fn alone(name: &str, answer: Answer) -> Self {
        start(MeshConfig::new(identity(name, 41)), answer).await
    }

    /// A node that dials another one.
    pub async fn dialling(name: &str, to: &Self, answer: Answer) -> Self {
        let config = MeshConfig::new(identity(name, 42)).peer(to.intent());
        start(config, answer).await
    }

    pub fn intent(&self) -> PeerIntent {
        PeerIntent::manual(self.mesh.advertised_endpoint().as_str(), None).unwrap()
    }

    /// Waits until a peer is admitted.
    pub async fn admitted(&self, peer: &str) -> PeerLink {
        let peer = rid(peer);
        let mut peers = self.mesh.watch_peers();
        let found = peers.wait_for(|peers| peers.iter().any(|it| *it.link.peer() == peer));
        let found = tokio::time::timeout(PATIENCE, found).await;
        let found = found.expect("admitted in time").unwrap();
        let found = found.iter().find(|it| *it.link.peer() == peer);
        found.expect("what was waited for").link.clone()
    }

    /// Waits until a peer is gone.
    pub async fn gone(&self, peer: &str) {
        let peer = rid(peer);
        let mut peers = self.mesh.watch_peers();
        let gone = peers.wait_for(|peers| peers.iter().all(|it| *it.link.peer() != peer));
        drop(
            tokio::time::timeout(PATIENCE, gone)
                .await
                .expect("gone in time")
                .unwrap(),
        );
    }

    /// The next thing that the host sees.
    pub async fn next(&mut self) -> Seen {
        let seen = tokio::time::timeout(PATIENCE, self.seen.recv()).await;
        seen.expect("something in time").expect("the mesh runs")
    }

    /// The next record, whatever happens to peers before it.
    pub async fn record(&mut self) -> Received {
        loop {
            if let Seen::Record(received) = self.next().await {
                return received;
            }
        }
    }

    /// The next diagnostic, whatever else happens before it.
    pub async fn diagnostic(&mut self) -> Diagnostic {
        loop {
            if let Seen::Diagnostic(diagnostic) = self.next().await {
                return diagnostic;
            }
        }
    }

    /// Why the next link ends, admitted or not.
    pub async fn link_end(&mut self) -> LostReason {
        loop {
            if let Diagnostic::LinkEnded { reason, .. } = self.diagnostic().await {
                return reason;
            }
        }
    }

    /// Why the next peer is lost.
    pub async fn lost(&mut self) -> LostReason {
        loop {
            if let Seen::Peer(_, PeerEvent::Lost { reason }) = self.next().await {
                return reason;
            }
        }
    }

    /// The next event of a peer; a record before it is a failure.
    pub async fn event(&mut self) -> (PeerLink, PeerEvent) {
        loop {
            match self.next().await {
                Seen::Peer(link, event) => return (link, event),
                Seen::Record(received) => panic!("{:?} instead of an event", received.record),
                Seen::Diagnostic(_) => {}
            }
        }
    }
}

/// Whether the host may go on, changed by the test.
pub type Gate = Arc<Mutex<bool>>;

/// A clock on which a minute passes in 0.6 s.
pub fn fast() -> MeshClock {
    MeshClock::faster(100)
}
