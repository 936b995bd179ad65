//! What a caller can count on: how long it waits, how a request ends, and what neither of them costs.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "helpers of a test, whose tasks end with it"
)]

mod common;

use std::io::{Read as _, Write as _};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use common::raw::{Pair, Raw, RawPeer, envelope, frames_of, message};
use common::{Node, PATIENCE, body, echo, identity, node_request, node_send, rid, start, watch};
use spotlane_mesh::proto::pending::Unmatched;
use spotlane_mesh::{Asked, Diagnostic, MeshConfig, PeerIntent, RequestError, SendError};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// TR-51, EX-266: room goes to those who wait for it in the order in which they came: nobody who comes later passes them,
/// sends and requests alike, and whoever gives up or goes away leaves its place to the next.
#[tokio::test]
async fn room_is_given_in_turn() {
    let node = start(MeshConfig::new(identity("node", 1)), watch()).await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    let link = node.admitted("raw").await;
    let mut filled = 0;
    while link.submit(node_send(vec![0; 100_000])).is_ok() {
        filled += 1;
        assert!(filled < 1000, "the queue has a bound");
    }
    let within = Some(PATIENCE);
    let mut first = pin!(link.send(node_send("1"), within));
    let mut second = pin!(link.request(node_request(2, "2"), PATIENCE));
    let mut gone = Box::pin(link.send(node_send("gone"), within));
    let mut third = pin!(link.send(node_send("3"), within));
    assert!(waits(first.as_mut()) && waits(second.as_mut()));
    assert!(waits(gone.as_mut()) && waits(third.as_mut()));
    let late = link.send(node_send("late"), Some(SECOND / 20)).await;
    assert!(matches!(late, Err(SendError::DeadlineExceeded { .. })));
    drop(gone);
    // The peer reads, so there is room; none of those that wait has run meanwhile.
    let reads = async {
        for _ in 0..filled {
            assert_eq!(peer.application.message().await.unwrap().len(), 2);
        }
    };
    timeout(PATIENCE, reads).await.unwrap();
    let mut last = pin!(link.send(node_send("4"), within));
    assert!(waits(last.as_mut()), "it passed the others");
    let sent = async {
        let (last, third, first) = tokio::join!(last, third, first);
        first.and(third).and(last).unwrap();
        for expected in ["1", "2", "3", "4"] {
            let frames = peer.application.message().await.unwrap();
            let last = frames.last().unwrap();
            assert!(last.ends_with(expected.as_bytes()), "{frames:?}");
        }
    };
    tokio::select! {
        reply = second => panic!("nobody answers: {reply:?}"),
        sent = timeout(PATIENCE, sent) => sent.unwrap(),
    }
}

/// Polls something that has to wait.
fn waits(future: Pin<&mut impl Future>) -> bool {
    let nobody = &mut Context::from_waker(Waker::noop());
    future.poll(nobody).is_pending()
}

/// EX-266, EX-267: the send timeout of the mesh holds, and a caller can only shorten it.
#[tokio::test]
async fn a_caller_only_shortens_the_send_timeout() {
    let own = Duration::from_millis(80);
    let config = MeshConfig::new(identity("node", 1))
        .send_timeout(own)
        .unwrap();
    let node = start(config, watch()).await;
    // It never reads, so its queue fills.
    let _peer = RawPeer::admitted(&node, "raw").await;
    for (within, most) in [
        (None, own),
        (Some(10 * SECOND), own),
        (Some(own / 4), own / 4),
    ] {
        let waited = loop {
            let record = node_send(vec![1; 100_000]);
            match node.mesh.send(&rid("raw"), record, within).await {
                Ok(()) => {}
                Err(SendError::DeadlineExceeded { waited, .. }) => break waited,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(waited, most, "{within:?}");
    }
}

/// The bytes of the reply to the request that these bytes are.
fn reply_to(request: &[u8], sequence: u64) -> Vec<u8> {
    // Two frames behind the envelope: head and payload.
    let mut bodies = Vec::new();
    let mut rest = &request[message(&envelope(1, sequence)).len()..];
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let length = u32::from_be_bytes(head[4..].try_into().unwrap());
        let (body, tail) = tail.split_at(usize::try_from(length).unwrap());
        bodies.push(bytes::Bytes::copy_from_slice(body));
        rest = tail;
    }
    let record = Record::decode(&bodies, MeshOperationKind::None).unwrap();
    message(&[envelope(2, sequence), frames_of(&echo(&record).into())].concat()).to_vec()
}

/// The length of a request with this payload on the wire.
fn length_of(payload: &'static str) -> usize {
    let frames = [envelope(1, 1), frames_of(&node_request(1, payload))].concat();
    message(&frames).len()
}

fn blocking(raw: Raw) -> std::net::TcpStream {
    let stream = raw.stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// EX-272, EX-380, EX-389: a lone request is written in the turn of its caller, who finds its entry in
/// the table when the reply comes before it has waited at all.
#[tokio::test]
async fn a_lone_request_is_on_the_wire_before_its_caller_waits() {
    let node = Node::alone("node", watch()).await;
    let peer = RawPeer::admitted(&node, "raw").await;
    node.admitted("raw").await;
    let mut application = blocking(peer.application);
    let mut completion = blocking(peer.completion);
    let asked = node
        .mesh
        .ask(&rid("raw"), node_request(1, "now"), 10 * SECOND);
    // Nothing else can run here: this thread is the whole runtime, and nobody has awaited.
    let mut request = vec![0; length_of("now")];
    application.read_exact(&mut request).unwrap();
    completion.write_all(&reply_to(&request, 1)).unwrap();
    let reply = asked.unwrap().await.unwrap();
    assert_eq!(reply.payload.unwrap().payload.as_bytes()[..], *b"now");
}

/// EX-269, EX-275, EX-276: replies that come together are all decided before the first caller goes on; each
/// has its own, and one that panics stops no other.
#[tokio::test]
async fn callers_go_on_in_turns_of_their_own() {
    let node = Node::alone("node", watch()).await;
    let peer = RawPeer::admitted(&node, "raw").await;
    node.admitted("raw").await;
    let mut application = blocking(peer.application);
    let mut completion = blocking(peer.completion);
    let ask = |number| {
        let asked = node
            .mesh
            .ask(&rid("raw"), node_request(number, "same"), 10 * SECOND);
        asked.unwrap()
    };
    let asked = [ask(1), ask(2), ask(3)];
    // The first was alone and is written; the others go out with the task of the lane.
    tokio::task::yield_now().await;
    let mut replies = Vec::new();
    let [first, second, third] = asked;
    let panics = tokio::spawn(async move {
        first.await.unwrap();
        panic!("what a caller may do");
    });
    let others = tokio::spawn(async move {
        let second = second.await.unwrap();
        // Decided already: it needs no more than to be looked at.
        let third = timeout(Duration::ZERO, third).await;
        (second, third.expect("decided with the other one").unwrap())
    });
    let read = tokio::task::spawn_blocking(move || {
        for sequence in 1..=3 {
            let mut request = vec![0; length_of("same")];
            application.read_exact(&mut request).unwrap();
            replies.extend(reply_to(&request, sequence));
        }
        completion.write_all(&replies).unwrap();
        (application, completion)
    });
    let _sockets = read.await.unwrap();
    assert!(panics.await.unwrap_err().is_panic());
    let (second, third) = others.await.unwrap();
    assert_eq!((second.correlation.get(), third.correlation.get()), (2, 3));
    assert_eq!(second.payload, third.payload);
}

/// EX-390: requests that wait have no task of their own.
#[tokio::test]
async fn a_request_costs_no_task() {
    let node = Node::alone("node", watch()).await;
    let _peer = RawPeer::admitted(&node, "raw").await;
    node.admitted("raw").await;
    let before = Handle::current().metrics().num_alive_tasks();
    let ask = |number| {
        node.mesh
            .ask(&rid("raw"), node_request(number, "x"), 10 * SECOND)
    };
    let asked: Vec<Asked> = (1..=1000).map(|number| ask(number).unwrap()).collect();
    tokio::task::yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
    drop(asked);
}

/// EX-265, EX-276, TR-61, TR-90: a request whose connection is lost ends as that, and is not sent again on the
/// next one.
#[tokio::test]
async fn a_request_that_was_sent_is_never_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let intent = PeerIntent::manual(&endpoint, None).unwrap();
    let node = start(MeshConfig::new(identity("node", 1)).peer(intent), watch()).await;
    let mut peer = RawPeer::accept(&listener, "raw").await;
    peer.admit(&endpoint).await;
    let link = node.admitted("raw").await;
    let asked = link.ask(node_request(1, "once"), 10 * SECOND).unwrap();
    let request = peer.application.message().await.unwrap();
    assert_eq!(request[..4], envelope(1, 1));
    drop(peer);
    assert_eq!(asked.await, Err(RequestError::LinkEnded));
    let mut peer = RawPeer::accept(&listener, "raw").await;
    peer.admit(&endpoint).await;
    let next = node.admitted("raw").await;
    assert_ne!(next, link);
    next.submit(node_send("the first one here")).unwrap();
    let first = peer.application.message().await.unwrap();
    let first = Record::decode(&first, MeshOperationKind::None).unwrap();
    assert_eq!(body(&first)[..], *b"the first one here");
}

/// EX-270, EX-274, TR-41: what comes too late is reported by what is known of it, and changes nothing.
#[tokio::test]
async fn a_reply_without_a_request_is_reported_and_dropped() {
    let mut node = Node::alone("node", watch()).await;
    let mut peer = RawPeer::dial(&node, "raw", Pair::of("raw")).await;
    peer.say_hello().await;
    let link = node.admitted("raw").await;
    let asked = link.ask(node_request(1, "x"), 10 * SECOND).unwrap();
    peer.application.message().await.unwrap();
    let reply = |sequence| {
        let reply = echo(&node_request(1, "x"));
        message(&[envelope(2, sequence), frames_of(&reply.into())].concat())
    };
    for sequence in [1, 1, 77] {
        peer.completion.write(&reply(sequence)).await;
    }
    asked.await.unwrap();
    let peer_id = rid("raw");
    for expected in [Unmatched::Finished, Unmatched::NeverIssued] {
        let Diagnostic::LateReply { peer, unmatched } = node.diagnostic().await else {
            panic!("another diagnostic");
        };
        assert_eq!((peer, unmatched), (peer_id.clone(), expected));
    }
    assert_eq!(Unmatched::Finished.to_string(), "duplicateOrLate");
    assert_eq!(Unmatched::NeverIssued.to_string(), "unknownOrLate");
    assert!(node.mesh.link(&peer_id).is_some());
}
