//! What a peer or the network may do to a link: it ends with a named reason, every request ends once,
//! and other links go on.
#![expect(clippy::disallowed_methods, reason = "tasks of a test end with it")]

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use common::raw::{
    COMPLETION, CONTROL, MORE, Pair, Raw, RawPeer, frame, frames_of, hello, message, ready,
};
use common::{
    Node, PATIENCE, body, echoing, fast, identity, node_request, node_send, rid, start, watch,
};
use spotlane_mesh::proto::admission::AdmissionEnd;
use spotlane_mesh::proto::link::EndReason;
use spotlane_mesh::proto::peers::RefusedJoin;
use spotlane_mesh::proto::zmp::{ConnectionEnd, Cut, Lane, Refusal};
use spotlane_mesh::{
    Bounds, Diagnostic, Flow, LostReason, MeshClock, MeshConfig, PeerIntent, Received, RequestError,
};
use spotlane_types::kind::RejectReason;
use tokio::net::TcpListener;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// Another pair of nodes that a fault elsewhere must not touch.
async fn still_works(node: &Node, other: &Node, name: &str) {
    let request = node_request(1, "still there");
    let reply = other.mesh.request(&rid(name), request, 10 * SECOND).await;
    assert!(reply.is_ok(), "{reply:?}");
    drop(node.mesh.peers());
}

/// TR-58, TR-87, TR-90: the peer is killed; its requests end, once, and other links go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_peer_ends_its_requests_and_nothing_else() {
    let mut node = Node::alone("node", echoing()).await;
    let other = Node::dialling("other", &node, watch()).await;
    other.admitted("node").await;
    let peer = RawPeer::admitted(&node, "raw").await;
    let link = node.admitted("raw").await;
    let asked: Vec<_> = (1..=100)
        .map(|id| link.ask(node_request(id, "x"), 60 * SECOND).unwrap())
        .collect();
    drop(peer);
    for asked in asked {
        assert_eq!(asked.await.unwrap_err(), RequestError::LinkEnded);
    }
    let reason = node.lost().await;
    assert!(
        matches!(
            &reason,
            LostReason::Ended(EndReason::Lane {
                end: ConnectionEnd::Closed(_),
                ..
            })
        ),
        "{reason:?}"
    );
    let refused = link.submit(node_send("x")).unwrap_err();
    assert_eq!(refused.why, spotlane_mesh::NotSubmitted::OtherConnection);
    still_works(&node, &other, "node").await;
}

/// TR-28, TR-87: a link ends in the very moment in which its host is busy with one of its records, and whatever the host makes
/// of that: all that belonged to it is over, and nothing waits for it when the node ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_link_that_ends_while_its_host_is_busy_is_over() {
    let outcomes: [fn(Received) -> Flow; 3] = [
        |_| Flow::Continue,
        |_| Flow::Pause,
        |received| Flow::Later(Box::new(received)),
    ];
    for outcome in outcomes {
        let (answer, mut busy) = common::busy(outcome);
        let node = Node::alone("node", answer).await;
        let mut peer = RawPeer::admitted(&node, "raw").await;
        let link = node.admitted("raw").await;
        let asked = link.ask(node_request(1, "x"), 3600 * SECOND).unwrap();
        peer.application
            .write(&message(&frames_of(&node_send("x"))))
            .await;
        busy.begun.recv().await.unwrap();
        drop(peer);
        assert_eq!(asked.await.unwrap_err(), RequestError::LinkEnded);
        // Whoever looks after the link hears of its end now, while another task has the right to hand up.
        tokio::task::yield_now().await;
        busy.go_on.send(()).unwrap();
        let end = timeout(PATIENCE, node.mesh.shutdown(3600 * SECOND));
        end.await.expect("nothing is left to wait for");
    }
}

/// TR-82, TR-84, TR-86: a peer that keeps its connections and answers nothing is gone after 15 s.
#[tokio::test]
async fn a_half_open_link_ends_by_liveness() {
    let config = MeshConfig::new(identity("node", 1)).clock(fast());
    let mut node = start(config, watch()).await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    peer.acknowledge().await;
    let link = node.admitted("raw").await;
    let asked = link.ask(node_request(1, "x"), 3600 * SECOND).unwrap();
    assert_eq!(node.lost().await, LostReason::Ended(EndReason::NotAlive));
    assert_eq!(asked.await.unwrap_err(), RequestError::LinkEnded);
    // TR-86: both lanes are closed.
    assert_eq!(peer.completion.error().await, None);
    assert_eq!(peer.application.error().await, None);
}

/// TR-84: acknowledgements keep a link, whatever the time.
#[tokio::test]
async fn a_peer_that_acknowledges_stays() {
    // A machine that stands still for so long that the peer is late itself proves nothing. Then the time
    // passes more slowly.
    for speed in [100, 20, 4] {
        if let Some(stays) = acknowledging_peer_stays(speed).await {
            return assert!(stays, "with a clock of {speed}");
        }
    }
    panic!("the peer was late each time");
}

/// Whether a link with ten acknowledgements is still there; `None` if one of them was late.
async fn acknowledging_peer_stays(speed: u32) -> Option<bool> {
    // A probe comes each 5 s, and the third one without an acknowledgement is the end.
    let late = 10 * SECOND / speed;
    let config = MeshConfig::new(identity("node", 1)).clock(MeshClock::faster(speed));
    let node = start(config, watch()).await;
    let mut last = Instant::now();
    let mut peer = RawPeer::admitted(&node, "raw").await;
    for _ in 0..10 {
        let probe = peer.completion.message().await;
        if last.elapsed() > late {
            return None;
        }
        last = Instant::now();
        let Some(probe) = probe else {
            return Some(false);
        };
        peer.answer_probe(&probe).await;
    }
    // Ten probes are 45 s at least, three times what a silent peer has.
    Some(node.mesh.link(&rid("raw")).is_some())
}

/// TR-84, TR-87: the clock jumps; the link is given up, and its dialler comes back by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_costs_a_reconnect_at_most() {
    let clock = fast();
    let config = MeshConfig::new(identity("a", 1)).clock(clock.clone());
    let mut a = start(config, echoing()).await;
    let config = MeshConfig::new(identity("b", 2))
        .clock(fast())
        .peer(a.intent());
    let b = start(config, echoing()).await;
    b.admitted("a").await;
    a.admitted("b").await;
    clock.jump(3600 * SECOND);
    let mut tries = 0;
    // An acknowledgement that is on its way saves the link; without one it is lost, and dialled again.
    while b
        .mesh
        .request(&rid("a"), node_request(1, "x"), 600 * SECOND)
        .await
        .is_err()
    {
        tries += 1;
        assert!(tries < 100, "it comes back");
        b.gone("a").await;
        b.admitted("a").await;
    }
    a.mesh.shutdown(SECOND).await;
    let mut reasons = Vec::new();
    while let Some(seen) = a.seen.recv().await {
        if let common::Seen::Peer(_, spotlane_mesh::PeerEvent::Lost { reason }) = seen {
            reasons.push(reason);
        }
        if reasons.last() == Some(&LostReason::Shutdown) {
            break;
        }
    }
    let others = reasons.iter().filter(|it| **it != LostReason::Shutdown);
    let mut others = others.collect::<Vec<_>>();
    others.retain(|it| **it != LostReason::Ended(EndReason::NotAlive));
    assert!(others.is_empty() && reasons.len() <= 2, "{reasons:?}");
}

/// TR-51, TR-T6: a peer that does not read is pushed back on; its link stays and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_fills_its_own_queue_only() {
    let node = Node::alone("node", echoing()).await;
    let other = Node::dialling("other", &node, watch()).await;
    other.admitted("node").await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    peer.acknowledge().await;
    let link = node.admitted("raw").await;
    let body = Bytes::from(vec![0; 65_536]);
    let mut taken = 0_u32;
    // EX-266: a send waits for room, and no longer than it may. The buffers of the system take some.
    let within = Some(Duration::from_millis(200));
    let waited = loop {
        match link.send(node_send(body.clone()), within).await {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 1000, "the queue has a bound");
    };
    assert!(
        matches!(waited, spotlane_mesh::SendError::DeadlineExceeded { .. }),
        "{waited:?}"
    );
    let full = loop {
        match link.submit(node_send(body.clone())) {
            Ok(()) => taken += 1,
            Err(refused) => break refused,
        }
        assert!(taken < 1000, "the queue has a bound");
    };
    let spotlane_mesh::NotSubmitted::Full { charge, max } = full.why else {
        panic!("{full}");
    };
    assert_eq!(max, 4_096_000);
    assert!(charge < max + 70_000, "{charge}");
    still_works(&node, &other, "node").await;
    // It reads again: everything arrives, and there is room.
    let reader = tokio::spawn(async move {
        for _ in 0..taken {
            let message = peer.application.message().await.unwrap();
            assert_eq!(message.len(), 2);
        }
        peer
    });
    link.send(node_send("y"), None).await.unwrap();
    reader.await.unwrap();
}

/// TR-28, TR-39: cut inside a frame, inside a message and between messages.
#[tokio::test]
async fn a_cut_is_named_by_its_place() {
    for (bytes, cut) in [
        (frame(0, b"0123456789")[..12].to_vec(), Cut::InFrame),
        (frame(MORE, b"ZM\x01\x10\0").to_vec(), Cut::InMessage),
        (Vec::new(), Cut::BetweenMessages),
    ] {
        let mut node = Node::alone("node", watch()).await;
        let mut peer = RawPeer::admitted(&node, "raw").await;
        peer.application.write(&bytes).await;
        drop(peer.application);
        let reason = node.lost().await;
        let expected = EndReason::Lane {
            lane: Lane::Application,
            end: ConnectionEnd::Closed(cut),
        };
        assert_eq!(reason, LostReason::Ended(expected));
    }
}

/// TR-4, TR-18, TR-54: what breaks the protocol on an open link, with the code that tells the peer.
#[tokio::test]
async fn each_violation_ends_its_link_by_name() {
    let oversized = [&[0x5A, 1, 0, 0][..], &1001_u32.to_be_bytes()].concat();
    for (bytes, refusal) in [
        (b"\x5B\x01\0\0\0\0\0\0".to_vec(), Refusal::InvalidMagic),
        (b"\x5A\x02\0\0\0\0\0\0".to_vec(), Refusal::VersionMismatch),
        (b"\x5A\x01\x20\0\0\0\0\0".to_vec(), Refusal::FlagsInvalid),
        (b"\x5A\x01\0\x01\0\0\0\0".to_vec(), Refusal::FlagsInvalid),
        (
            frame(CONTROL | MORE, b"\x07").to_vec(),
            Refusal::FlagsInvalid,
        ),
        (oversized, Refusal::BodyTooLarge),
        (frame(CONTROL, b"\x04").to_vec(), Refusal::DuplicateReady),
    ] {
        let mut bounds = Bounds::default();
        bounds.receive_limit = std::num::NonZeroU64::new(1000);
        let config = MeshConfig::new(identity("node", 1)).bounds(bounds);
        let mut node = start(config, echoing()).await;
        let other = Node::dialling("other", &node, watch()).await;
        other.admitted("node").await;
        node.admitted("other").await;
        let mut peer = RawPeer::admitted(&node, "raw").await;
        peer.application.write(&bytes).await;
        let expected = EndReason::Lane {
            lane: Lane::Application,
            end: ConnectionEnd::Refused(refusal),
        };
        assert_eq!(node.lost().await, LostReason::Ended(expected));
        assert_eq!(peer.application.error().await, Some(refusal.code()));
        assert_eq!(peer.completion.error().await, None);
        still_works(&node, &other, "node").await;
    }
}

/// TR-10, TR-16, TR-65: a connection that breaks its handshake touches no peer.
#[tokio::test]
async fn a_broken_handshake_is_a_diagnostic() {
    let mut node = Node::alone("node", watch()).await;
    let pair = Pair {
        id: 9,
        generation: 1,
    };
    for (bytes, refusal) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Refusal::HelloTooLarge),
        (
            frame(CONTROL, b"\x01\x05\x01a").to_vec(),
            Refusal::SocketTypeMismatch,
        ),
        (
            [hello("raw"), frame(0, b"data")].concat(),
            Refusal::DataBeforeReady,
        ),
        (
            [hello("raw"), ready("raw", Pair { id: 0, ..pair }, 0)].concat(),
            Refusal::PairMetadataInvalid,
        ),
    ] {
        let mut raw = Raw::connect(common::raw::address(&node)).await;
        raw.write(&bytes).await;
        assert_eq!(raw.error().await, Some(refusal.code()), "{refusal}");
        let end = ConnectionEnd::Refused(refusal);
        assert_eq!(node.diagnostic().await, Diagnostic::NotAccepted { end });
    }
    assert!(node.mesh.peers().is_empty());
}

/// TR-26: a peer that connects and says nothing is told so after 30 s.
#[tokio::test]
async fn a_silent_connection_times_out() {
    let config = MeshConfig::new(identity("node", 1)).clock(fast());
    let mut node = start(config, watch()).await;
    let mut raw = Raw::connect(common::raw::address(&node)).await;
    assert_eq!(raw.error().await, Some(Refusal::HandshakeTimeout.code()));
    let end = ConnectionEnd::Refused(Refusal::HandshakeTimeout);
    assert_eq!(node.diagnostic().await, Diagnostic::NotAccepted { end });
}

/// TR-24: a second connection for a lane closes all three; an identity of its own closes both.
#[tokio::test]
async fn a_duplicate_lane_and_a_foreign_identity_are_closed() {
    let pair = Pair::of("raw");
    for (id, why) in [
        ("raw", RefusedJoin::LaneTaken),
        ("liar", RefusedJoin::OtherIdentity),
    ] {
        let mut node = Node::alone("node", watch()).await;
        let mut peer = RawPeer::admitted(&node, "raw").await;
        let mut third = Raw::connect(common::raw::address(&node)).await;
        third
            .write(&[hello(id), ready(id, pair, COMPLETION)].concat())
            .await;
        assert_eq!(node.lost().await, LostReason::NotJoined(why));
        assert_eq!(third.error().await, None);
        assert_eq!(peer.application.error().await, None);
    }
}

/// TR-33, TR-74: the same identity opens another pair of its own: of one run and direction the admitted
/// link is kept, and the other one takes over when it ends.
#[tokio::test]
async fn a_second_pair_of_one_identity_stands_by() {
    let mut node = Node::alone("node", watch()).await;
    let first = RawPeer::admitted(&node, "raw").await;
    let kept = node.admitted("raw").await;
    let pair = Pair {
        id: 10,
        generation: 1,
    };
    let mut second = RawPeer::dial(&node, "raw", pair).await;
    second.say_hello().await;
    assert_eq!(node.mesh.link(&rid("raw")), Some(kept.clone()));
    drop(first);
    assert!(matches!(
        node.lost().await,
        LostReason::Ended(EndReason::Lane { .. })
    ));
    let resumed = node.admitted("raw").await;
    assert_ne!(resumed, kept);
    resumed.submit(node_send("now here")).unwrap();
    loop {
        let message = second.application.message().await.unwrap();
        if message[0][3] == 16 {
            break;
        }
    }
}

/// TR-72, TR-76, TR-78: a run that has stood still comes back after its node was started anew. It does not push out the run
/// that the directory shows, which would come back and push it out in turn; when that run has gone, another one is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_run_does_not_push_the_present_one_out() {
    let mut node = Node::alone("node", echoing()).await;
    let mut before = RawPeer::admitted(&node, "a").await;
    before.acknowledge().await;
    let config = MeshConfig::new(identity("a", 2)).peer(node.intent());
    let present = start(config, echoing()).await;
    let found = spotlane_mesh::DiscoveredNode {
        node: rid("a"),
        endpoint: present.mesh.advertised_endpoint().clone(),
        generation: identity("a", 2).descriptor.lifecycle_generation,
        security_identity: identity("a", 2).descriptor.security_identity,
        object_role: identity("a", 2).descriptor.extension.object_role,
        server_channels: 0,
    };
    node.mesh.set_peers(vec![PeerIntent::discovered(found)]);
    // The new run takes over from the old one.
    assert_eq!(node.lost().await, LostReason::Superseded);
    let kept = node.admitted("a").await;
    drop(before);
    let mut zombie = RawPeer::dial(&node, "a", Pair::of("zombie")).await;
    let reason = zombie.refused().await;
    assert_eq!(reason, RejectReason::InvalidDescriptor);
    assert_eq!(node.mesh.link(&rid("a")), Some(kept.clone()));
    let reply = kept.request(node_request(1, "x"), 10 * SECOND).await;
    assert!(reply.is_ok(), "{reply:?}");
    present.mesh.shutdown(SECOND).await;
    node.gone("a").await;
    let mut another = RawPeer::dial(&node, "a", Pair::of("another")).await;
    another.say_hello().await;
    node.admitted("a").await;
}

/// TR-33, TR-74, TR-79: pairs in the name of a node that never say who they are do not keep that node out: the oldest of them
/// gives way. One that is admitted never does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_that_say_nothing_keep_nobody_out() {
    let mut node = Node::alone("node", echoing()).await;
    let mut silent = Vec::new();
    for number in 0..8 {
        let pair = Pair {
            id: 100 + number,
            generation: 1,
        };
        silent.push(RawPeer::dial(&node, "a", pair).await);
    }
    let config = MeshConfig::new(identity("a", 2)).peer(node.intent());
    let mut a = start(config, echoing()).await;
    let link = a.admitted("node").await;
    let kept = node.admitted("a").await;
    while let Ok(seen) = a.seen.try_recv() {
        let ended = matches!(seen, common::Seen::Diagnostic(_));
        assert!(!ended, "{seen:?}");
    }
    assert_eq!(node.link_end().await, LostReason::TooManyLinks);
    assert_eq!(silent[0].application.error().await, None);
    for number in 8..20 {
        let pair = Pair {
            id: 100 + number,
            generation: 1,
        };
        silent.push(RawPeer::dial(&node, "a", pair).await);
    }
    for _ in 8..20 {
        assert_eq!(node.link_end().await, LostReason::TooManyLinks);
    }
    assert_eq!(node.mesh.link(&rid("a")), Some(kept));
    let reply = link.request(node_request(1, "x"), 10 * SECOND).await;
    assert!(reply.is_ok(), "{reply:?}");
}

/// TR-34, TR-36, TR-74: both nodes dial each other, many times: one admitted link is left, and it works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_simultaneous_dial_leaves_one_link() {
    for _ in 0..10 {
        let a = Node::alone("a", echoing()).await;
        let b = Node::alone("b", echoing()).await;
        let (to_a, to_b) = (a.intent(), b.intent());
        a.mesh.set_peers(vec![to_b]);
        b.mesh.set_peers(vec![to_a]);
        a.admitted("b").await;
        b.admitted("a").await;
        for (from, to) in [(&a, "b"), (&b, "a")] {
            // While the two links are sorted out, a request may find its link ended: another one is used
            // instead.
            let mut peers = from.mesh.watch_peers();
            let mut link = from.admitted(to).await;
            while link
                .request(node_request(1, "x"), 10 * SECOND)
                .await
                .is_err()
            {
                let other = peers.wait_for(|peers| peers.iter().any(|it| it.link != link));
                let other = timeout(PATIENCE, other).await;
                let next = other.expect("one link stays").unwrap()[0].link.clone();
                link = next;
            }
            assert_eq!(from.mesh.peers().len(), 1);
        }
    }
}

/// TR-79: an acceptor does not keep a peer that never says hello.
#[tokio::test]
async fn a_peer_that_never_says_hello_is_closed() {
    let config = MeshConfig::new(identity("node", 1)).clock(fast());
    let mut node = start(config, watch()).await;
    let pair = Pair {
        id: 9,
        generation: 1,
    };
    let mut peer = RawPeer::dial(&node, "raw", pair).await;
    let expected = EndReason::Admission(AdmissionEnd::NotAdmitted);
    assert_eq!(node.link_end().await, LostReason::Ended(expected));
    assert_eq!(peer.application.error().await, None);
}

/// TR-71, TR-79: a dialler repeats its hello, gives up, and dials again with the next generation.
#[tokio::test]
async fn a_peer_that_never_admits_is_dialled_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let config = MeshConfig::new(identity("node", 1))
        .clock(fast())
        .peer(PeerIntent::manual(&endpoint, None).unwrap());
    let mut node = start(config, watch()).await;
    let mut peer = RawPeer::accept(&listener, "raw").await;
    let mut hellos = 0;
    while let Some(message) = peer.application.message().await {
        assert_eq!(message[0][3], 1, "hello");
        hellos += 1;
    }
    assert!(hellos > 10, "{hellos}");
    let expected = EndReason::Admission(AdmissionEnd::NotAdmitted);
    assert_eq!(node.link_end().await, LostReason::Ended(expected));
    RawPeer::accept(&listener, "raw").await;
}

/// TR-80: what comes before the admission is bounded; the bound ends the link.
#[tokio::test]
async fn a_flood_before_admission_ends_its_link() {
    let mut node = Node::alone("node", watch()).await;
    let pair = Pair {
        id: 9,
        generation: 1,
    };
    let mut peer = RawPeer::dial(&node, "raw", pair).await;
    let record = message(&frames_of(&node_send("x")));
    for _ in 0..1025 {
        peer.application.write(&record).await;
    }
    assert_eq!(
        node.link_end().await,
        LostReason::Ended(EndReason::HeldTooMuch)
    );
}

/// TR-80: peers that are not admitted have one bound together. Who passes it loses its link; the others
/// get what they sent delivered, in order, once they are admitted.
#[tokio::test]
async fn several_unadmitted_peers_share_one_bound() {
    let mut node = Node::alone("node", watch()).await;
    let mut peers = Vec::new();
    for (number, name) in [(1_u8, "one"), (2, "two"), (3, "three")] {
        let mut peer = RawPeer::dial(&node, name, Pair::of(name)).await;
        for count in 0..340_u32 {
            let body = [&[number][..], &count.to_be_bytes()].concat();
            let record = frames_of(&node_send(body));
            peer.application.write(&message(&record)).await;
        }
        // TR-29: the answer to an empty message comes behind what was sent before it.
        peer.application.write(&message(&[Bytes::new()])).await;
        peer.application.message().await.unwrap();
        peers.push(peer);
    }
    // 1,020 are held; the fourth peer may add four.
    let mut fourth = RawPeer::dial(&node, "four", Pair::of("four")).await;
    let record = frames_of(&node_send("x"));
    for _ in 0..5 {
        fourth.application.write(&message(&record)).await;
    }
    let reason = node.link_end().await;
    assert_eq!(reason, LostReason::Ended(EndReason::HeldTooMuch));
    for (number, peer) in [1_u8, 2, 3].into_iter().zip(&mut peers) {
        peer.say_hello().await;
        for count in 0..340_u32 {
            let received = node.record().await;
            let expected = [&[number][..], &count.to_be_bytes()].concat();
            assert_eq!(body(&received.record)[..], expected);
        }
    }
    // What was delivered is room again.
    let mut fifth = RawPeer::dial(&node, "five", Pair::of("five")).await;
    for _ in 0..1024 {
        fifth.application.write(&message(&record)).await;
    }
    fifth.say_hello().await;
    for _ in 0..1024 {
        node.record().await;
    }
}

/// TR-25, TR-55, TR-80: a message that is not whole counts as well. A peer that is not admitted cannot make a node keep
/// more of it than of whole records, on either lane, and what it gives up is room for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_message_before_admission_is_bounded() {
    use tokio::io::AsyncWriteExt as _;
    const MIB: usize = 1 << 20;
    // A body of 1 GiB is announced, and 12 MiB of it come.
    let head = [&[0x5A, 1, 0, 0][..], &(1_u32 << 30).to_be_bytes()].concat();
    let part = vec![0_u8; 12 * MIB];
    for lane in [Lane::Application, Lane::Completion] {
        let mut node = Node::alone("node", echoing()).await;
        let other = Node::dialling("other", &node, watch()).await;
        other.admitted("node").await;
        let mut peers = Vec::new();
        for name in ["one", "two"] {
            let peer = RawPeer::dial(&node, name, Pair::of(name)).await;
            let (mut stream, rest) = match lane {
                Lane::Application => (peer.application.stream, peer.completion.stream),
                Lane::Completion => (peer.completion.stream, peer.application.stream),
            };
            // It ends with an error when the node has closed the connection.
            let _closed = stream.write_all(&head).await;
            let _closed = stream.write_all(&part).await;
            peers.push((stream, rest));
        }
        // Together that is more than 16 MiB.
        let reason = node.link_end().await;
        assert_eq!(reason, LostReason::Ended(EndReason::HeldTooMuch));
        still_works(&node, &other, "node").await;
        drop(peers);
        node.link_end().await;
        // What they had is room again, for whole records too.
        let mut third = RawPeer::dial(&node, "three", Pair::of("three")).await;
        let record = frames_of(&node_send(part.clone()));
        let record = message(&record);
        third.application.write(&record).await;
        third.say_hello().await;
        assert_eq!(body(&node.record().await.record).len(), part.len());
        // An admitted peer sends what it likes, in as many pieces.
        let record = frames_of(&node_send(vec![0; 20 * MIB]));
        let record = message(&record);
        let (first, last) = record.split_at(18 * MIB);
        third.application.write(first).await;
        still_works(&node, &other, "node").await;
        third.application.write(last).await;
        assert_eq!(body(&node.record().await.record).len(), 20 * MIB);
    }
}

/// Resets a connection, which is no end of its stream.
fn reset(raw: Raw) {
    let linger = socket2::SockRef::from(&raw.stream).set_linger(Some(Duration::ZERO));
    assert!(linger.is_ok(), "{linger:?}");
    drop(raw);
}

/// Connects until there is a place.
async fn placed(node: &Node) -> Option<Raw> {
    let placed = async {
        loop {
            let mut raw = Raw::connect(common::raw::address(node)).await;
            if raw.frame().await.is_some() {
                return raw;
            }
        }
    };
    timeout(PATIENCE, placed).await.ok()
}

/// TR-26, TR-58, TR-65, TR-79: connections that never become a peer take places that others want, and no longer than they
/// last: at the bound one more is closed at once, who is connected goes on, and a reset behind any byte of the handshake and
/// the first hello, on either lane, gives its place back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reset_gives_its_place_back() {
    use tokio::io::AsyncWriteExt as _;
    let mut bounds = Bounds::default();
    bounds.connections_max = 6;
    let config = MeshConfig::new(identity("node", 1)).bounds(bounds);
    let mut node = start(config, echoing()).await;
    let other = Node::dialling("other", &node, watch()).await;
    let kept = other.admitted("node").await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::connect(common::raw::address(&node)).await;
        // The HELLO of the node says that it has a place.
        raw.frame().await.unwrap();
        silent.push(raw);
    }
    let mut fifth = Raw::connect(common::raw::address(&node)).await;
    assert_eq!(fifth.frame().await, None, "closed without a word");
    assert_eq!(node.diagnostic().await, Diagnostic::TooManyConnections);
    still_works(&node, &other, "node").await;
    silent.into_iter().for_each(reset);
    let pair = |number| Pair {
        id: 1000 + number,
        generation: 1,
    };
    let said = |number, lane| [hello("raw"), ready("raw", pair(number), lane)].concat();
    let say_hello = message(&frames_of(
        &spotlane_wire::command::admission::Hello {
            admission: spotlane_wire::descriptor::ServiceAdmission::RouteMesh {
                route_mesh: common::descriptor(77),
            },
        }
        .into(),
    ));
    let whole = said(0, 0).len() + say_hello.len();
    for (number, cut) in (0..=whole).step_by(3).enumerate() {
        let number = u64::try_from(number).unwrap();
        for (whole_lane, cut_lane) in [(0, 1), (1, 0)] {
            let number = 2 * number + u64::from(whole_lane);
            let mut lanes = [cut_lane, whole_lane].map(|lane| {
                let mut bytes = said(number, lane);
                if lane == common::raw::APPLICATION {
                    bytes.extend(&say_hello);
                }
                bytes
            });
            lanes[0].truncate(cut);
            for bytes in lanes {
                let mut raw = placed(&node).await.expect("places come back");
                // The node may have closed it by then, for the sake of its sister.
                let _closed = raw.stream.write_all(&bytes).await;
                reset(raw);
            }
        }
    }
    placed(&node).await.expect("places come back");
    still_works(&node, &other, "node").await;
    assert_eq!(other.mesh.link(&rid("node")), Some(kept), "undisturbed");
    let mut peers = node.mesh.watch_peers();
    let alone = peers.wait_for(|peers| peers.len() == 1);
    let alone = timeout(PATIENCE, alone).await;
    assert!(alone.is_ok(), "a reset peer is gone");
}

/// TR-52, TR-88: a peer that asks and never reads the answers: it is not read any more, or ended, and
/// what waits for it stays bounded. Other peers are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_probes_that_nobody_reads_is_ended() {
    let mut node = Node::alone("node", echoing()).await;
    let other = Node::dialling("other", &node, watch()).await;
    other.admitted("node").await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    let probe = spotlane_wire::command::liveness::LivenessProbe {
        probe_id: spotlane_types::count::ProbeId::new(5).unwrap(),
    };
    let frames = [common::raw::envelope(4, 0), frames_of(&probe.into())].concat();
    let probes = message(&frames).repeat(1000);
    let flood = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        // It ends with an error when the node has closed the connection.
        while peer.completion.stream.write_all(&probes).await.is_ok() {}
        peer
    });
    assert_eq!(node.lost().await, LostReason::Stalled);
    still_works(&node, &other, "node").await;
    drop(flood.await.unwrap());
}
