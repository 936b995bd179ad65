//! The second edition of the transport, between two nodes and against a peer written by hand.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use common::raw::{
    APPLICATION, COMPLETION, CONTROL, Raw, address, frame, frames_of, hello, message,
};
use common::{
    Node, body, descriptor, echo, echoing, identity, node_request, node_send, rid, start, watch,
};
use spotlane_mesh::proto::zmp::{Edition, Opening};
use spotlane_mesh::{Asked, Diagnostic, Flow, LostReason, MeshConfig, PeerLink};
use spotlane_types::count::ProbeId;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
use spotlane_wire::command::admission::Hello;
use spotlane_wire::command::liveness::LivenessProbe;
use spotlane_wire::descriptor::ServiceAdmission;

const SECOND: Duration = Duration::from_secs(1);
const E1: Opening = Opening::Fixed(Edition::E1);
const E2: Opening = Opening::Fixed(Edition::E2);
const N: Opening = Opening::Neutral;

fn config(name: &str, run: u64, opening: Opening) -> MeshConfig {
    MeshConfig::new(identity(name, run)).opening(opening)
}

/// TR-1, TR-2, TR-45: whichever editions both sides speak, requests and records pass both ways.
#[tokio::test]
async fn nodes_with_a_common_edition_are_connected() {
    for openings in [[E2, E2], [N, E1], [E1, N], [N, E2], [E2, N], [N, N]] {
        let [dialler, acceptor] = openings;
        let mut a = start(config("a", 41, acceptor), echoing()).await;
        let dialling = config("b", 42, dialler).peer(a.intent());
        let mut b = start(dialling, echoing()).await;
        a.admitted("b").await;
        b.admitted("a").await;
        for (from, to) in [(&a, "b"), (&b, "a")] {
            for number in 1..200_u32 {
                let bytes = vec![7; usize::try_from(number).unwrap() * 100];
                let request = node_request(number.into(), bytes.clone());
                let reply = from.mesh.request(&rid(to), request, 10 * SECOND).await;
                assert_eq!(
                    reply.unwrap().payload.unwrap().payload.as_bytes()[..],
                    bytes
                );
                let record = node_send(number.to_be_bytes().to_vec());
                from.mesh.submit(&rid(to), record).unwrap();
            }
        }
        for node in [&mut a, &mut b] {
            for number in 1..200_u32 {
                let received = node.record().await;
                assert_eq!(
                    body(&received.record)[..],
                    number.to_be_bytes(),
                    "{openings:?}"
                );
            }
        }
    }
}

/// TR-3, TR-60: sides without a common edition are never connected, and others are not touched.
#[tokio::test]
async fn nodes_without_a_common_edition_are_not_connected() {
    for (dialler, acceptor) in [(E1, E2), (E2, E1)] {
        let mut a = start(config("a", 41, acceptor), echoing()).await;
        let mut b = start(config("b", 42, dialler).peer(a.intent()), watch()).await;
        let c = start(config("c", 43, acceptor).peer(a.intent()), watch()).await;
        assert!(matches!(
            a.diagnostic().await,
            Diagnostic::NotAccepted { .. }
        ));
        assert!(matches!(b.link_end().await, LostReason::Ended(_)));
        let link = c.admitted("a").await;
        link.request(node_request(1, "x"), 10 * SECOND)
            .await
            .unwrap();
        assert!(b.mesh.peers().is_empty());
    }
}

/// A READY of the second edition: no pair, a lane count.
fn ready(id: &str, lane: u8) -> Bytes {
    let mut body = vec![4];
    let mut property = |name: &str, value: &[u8]| {
        body.push(name.len().try_into().unwrap());
        body.extend(name.as_bytes());
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value);
    };
    property("Socket-Type", b"ROUTER");
    property("Routing-Id", id.as_bytes());
    property("Zlink-Max-Message-Size", &[0; 8]);
    property("Zlink-Lane", &[lane]);
    property("Zlink-Lane-Count", &[2]);
    frame(CONTROL, &body)
}

fn flow(state: u8, epoch: u64) -> Bytes {
    let mut body = b"FLOWSTATE\x01".to_vec();
    body.push(state);
    body.extend(epoch.to_be_bytes());
    frame(CONTROL, &body)
}

/// Both lanes of a peer of the second edition.
struct Peer {
    application: Raw,
    completion: Raw,
}

impl Peer {
    async fn admitted(node: &Node, id: &str) -> Self {
        let mut lanes = Vec::new();
        for lane in [APPLICATION, COMPLETION] {
            let mut raw = Raw::connect(address(node)).await;
            raw.write(&hello(id)).await;
            let (flags, theirs) = raw.frame().await.unwrap();
            assert_eq!((flags, theirs[0]), (CONTROL, 1), "HELLO before READY");
            raw.write(&ready(id, lane)).await;
            let (flags, theirs) = raw.frame().await.unwrap();
            assert_eq!(flags, CONTROL);
            assert_eq!(theirs[..], ready("node", lane)[8..], "READY");
            lanes.push(raw);
        }
        let completion = lanes.pop().unwrap();
        let mut peer = Self {
            application: lanes.pop().unwrap(),
            completion,
        };
        let admission = ServiceAdmission::RouteMesh {
            route_mesh: descriptor(77),
        };
        peer.send(&Hello { admission }.into()).await;
        assert!(matches!(peer.record().await, Record::Admit(_)));
        // TR-46: said anew for each generation.
        assert_eq!(peer.flow_state().await, flow(0, 1)[8..]);
        // TR-66: every record but the reply is on the Application lane.
        assert!(matches!(peer.record().await, Record::LivenessProbe(_)));
        peer
    }

    async fn send(&mut self, record: &Record) {
        self.application.write(&message(&frames_of(record))).await;
    }

    /// The next record on the Application lane.
    async fn record(&mut self) -> Record {
        let frames = self.application.message().await.unwrap();
        Record::decode(&frames, MeshOperationKind::None).unwrap()
    }

    async fn flow_state(&mut self) -> Bytes {
        let (flags, body) = self.completion.frame().await.unwrap();
        assert_eq!(flags, CONTROL);
        body
    }

    async fn probe(&mut self, id: u64) {
        let probe_id = ProbeId::new(id).unwrap();
        self.send(&LivenessProbe { probe_id }.into()).await;
    }

    /// The next record is the answer to this probe.
    async fn acknowledged(&mut self, id: u64) {
        let Record::LivenessAck(ack) = self.record().await else {
            panic!("something else than the answer to probe {id}");
        };
        assert_eq!(ack.probe_id.get(), id);
    }
}

/// A message with a kind and a sequence on its first frame.
fn marked(kind: u8, sequence: u64, record: &Record) -> Bytes {
    let plain = message(&frames_of(record));
    let (head, rest) = plain.split_at(8);
    [
        &head[..3],
        &[kind],
        &head[4..],
        &sequence.to_be_bytes(),
        rest,
    ]
    .concat()
    .into()
}

/// Makes sure that a node knows the flow state of its peer: two replies behind it have come, the second
/// one in a segment of its own.
struct Tell {
    asked: [Asked; 2],
    replies: Vec<Bytes>,
}

impl Tell {
    async fn prepare(peer: &mut Peer, link: &PeerLink) -> Self {
        let ask = |number| link.ask(node_request(number, "?"), 10 * SECOND).unwrap();
        let asked = [ask(1001), ask(1002)];
        let mut replies = Vec::new();
        for _ in &asked {
            let head = peer.application.any_frame().await.unwrap();
            let payload = peer.application.any_frame().await.unwrap();
            let frames = [head.body, payload.body];
            let record = Record::decode(&frames, MeshOperationKind::None).unwrap();
            replies.push(marked(2, head.sequence, &echo(&record).into()));
        }
        Self { asked, replies }
    }

    async fn tell(self, peer: &mut Peer, flow: Bytes) {
        peer.completion.write(&flow).await;
        for (asked, reply) in self.asked.into_iter().zip(self.replies) {
            peer.completion.write(&reply).await;
            asked.await.unwrap();
        }
    }
}

async fn told(peer: &mut Peer, link: &PeerLink, flow: Bytes) {
    Tell::prepare(peer, link).await.tell(peer, flow).await;
}

async fn node(answer: common::Answer) -> Node {
    start(config("node", 41, E2), answer).await
}

/// TR-40, TR-45: requests and replies of the second edition, byte by byte.
#[tokio::test]
async fn requests_and_replies_have_their_kind_and_sequence() {
    let node = node(echoing()).await;
    let mut peer = Peer::admitted(&node, "peer").await;
    let asked = node
        .mesh
        .ask(&rid("peer"), node_request(5, "ours"), 10 * SECOND);
    let asked = asked.unwrap();
    let head = peer.application.any_frame().await.unwrap();
    assert_eq!((head.flags, head.kind, head.sequence), (1, 1, 1));
    let payload = peer.application.any_frame().await.unwrap();
    assert_eq!(
        (payload.flags, payload.kind),
        (0, 0),
        "further frames have kind 0"
    );
    let record = Record::decode(&[head.body, payload.body], MeshOperationKind::None).unwrap();
    let reply = marked(2, 1, &echo(&record).into());
    peer.completion.write(&reply).await;
    assert_eq!(
        asked.await.unwrap().payload.unwrap().payload.as_bytes()[..],
        *b"ours"
    );

    let request = marked(1, 9, &node_request(6, "theirs"));
    peer.application.write(&request).await;
    let reply = peer.completion.any_frame().await.unwrap();
    assert_eq!((reply.kind, reply.sequence), (2, 9));
}

/// TR-46, TR-51, TR-88: a peer that pauses gets no new message, only records of the link itself, and
/// everything in order when it runs again.
#[tokio::test]
async fn a_paused_peer_gets_no_new_message() {
    let node = node(watch()).await;
    let mut peer = Peer::admitted(&node, "peer").await;
    let link = node.admitted("peer").await;
    let submit = |number: u8| link.submit(node_send(vec![number])).unwrap();
    submit(1);
    assert_eq!(body(&peer.record().await)[..], [1]);
    told(&mut peer, &link, flow(1, 1)).await;
    submit(2);
    submit(3);
    for id in 100..110 {
        peer.probe(id).await;
        peer.acknowledged(id).await;
    }
    let mut other = Peer::admitted(&node, "other").await;
    node.mesh.submit(&rid("other"), node_send("free")).unwrap();
    assert_eq!(body(&other.record().await)[..], *b"free");
    // An older state and those that are not legal change nothing.
    let ignored = [flow(0, 1), flow(0, 0), flow(9, 2)].concat();
    peer.completion.write(&ignored).await;
    for id in 200..210 {
        peer.probe(id).await;
        peer.acknowledged(id).await;
    }
    peer.completion.write(&flow(0, 2)).await;
    assert_eq!(body(&peer.record().await)[..], [2]);
    assert_eq!(body(&peer.record().await)[..], [3]);
}

/// TR-51: a peer that stays paused fills its own queue, and its senders are held back.
#[tokio::test]
async fn the_queue_to_a_paused_peer_is_bounded() {
    let node = node(watch()).await;
    let mut peer = Peer::admitted(&node, "peer").await;
    let link = node.admitted("peer").await;
    told(&mut peer, &link, flow(1, 1)).await;
    let record = || node_send(vec![1; 100_000]);
    let mut taken = 0;
    while link.submit(record()).is_ok() {
        taken += 1;
    }
    assert_eq!(
        taken, 41,
        "4,096,000 bytes, and the message that passes them"
    );
    let sent = tokio::join!(link.send(record(), Some(10 * SECOND)), async {
        peer.completion.write(&flow(0, 2)).await;
        for _ in 0..42 {
            assert_eq!(body(&peer.record().await).len(), 100_000);
        }
    });
    sent.0.unwrap();
}

/// TR-38, TR-46: a message that has begun is finished, the next one waits.
#[tokio::test]
async fn a_pause_acts_at_the_next_message_boundary() {
    let node = node(watch()).await;
    let mut peer = Peer::admitted(&node, "peer").await;
    let link = node.admitted("peer").await;
    let pause = Tell::prepare(&mut peer, &link).await;
    // More than the sockets take, so that one is being written and others wait behind it.
    let record = |number: u8| node_send(vec![number; 1_000_000]);
    let mut submitted = 0_u8;
    while link.submit(record(submitted)).is_ok() {
        submitted += 1;
        tokio::task::yield_now().await;
    }
    pause.tell(&mut peer, flow(1, 1)).await;
    peer.probe(100).await;
    let mut received = 0_u8;
    let mut next = async |peer: &mut Peer| match peer.record().await {
        Record::LivenessAck(_) => None,
        sent => {
            let sent = body(&sent);
            assert_eq!((sent.len(), sent[0]), (1_000_000, received));
            received += 1;
            Some(received)
        }
    };
    while next(&mut peer).await.is_some() {}
    // What was begun is whole; of the rest nothing comes.
    for id in 101..105 {
        peer.probe(id).await;
        peer.acknowledged(id).await;
    }
    peer.completion.write(&flow(0, 2)).await;
    let mut came = 0;
    while came < submitted {
        came = next(&mut peer).await.unwrap();
    }
}

/// TR-46, TR-52: a host without room tells its peer, whose probes are answered all the same.
#[tokio::test]
async fn a_host_without_room_pauses_its_peer() {
    let waiting = Arc::new(Mutex::new((0_u32, None)));
    let state = Arc::clone(&waiting);
    let host: common::Answer = Box::new(move |received| {
        let mut state = state.lock().unwrap();
        if state.0 == 0 {
            state.1 = Some(received.from.clone());
            return Ok(Flow::Later(Box::new(received)));
        }
        state.0 -= 1;
        Err(received)
    });
    let mut node = node(host).await;
    let mut peer = Peer::admitted(&node, "peer").await;
    for round in 0..3_u64 {
        let records = [1_u8, 2, 3].map(|number| node_send(vec![number]));
        for record in &records {
            peer.send(record).await;
        }
        assert_eq!(
            peer.flow_state().await,
            flow(1, 2 + 2 * round)[8..],
            "paused"
        );
        peer.probe(7 + round).await;
        peer.acknowledged(7 + round).await;
        let link = {
            let mut state = waiting.lock().unwrap();
            state.0 = 3;
            state.1.take().unwrap()
        };
        link.resume();
        assert_eq!(
            peer.flow_state().await,
            flow(0, 3 + 2 * round)[8..],
            "running"
        );
        for number in 1..=3 {
            assert_eq!(body(&node.record().await.record)[..], [number]);
        }
    }
}
