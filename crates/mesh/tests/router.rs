//! A peer that speaks only ZMP v1 ROUTER exchanges multipart messages with us.
#![expect(clippy::disallowed_methods, reason = "tasks of a test end with it")]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::raw::{RawPeer, envelope, frames_of, message};
use common::{Node, body, echo, echoing, node_request, node_send, rid, start, watch};
use spotlane_mesh::{MeshConfig, PeerEvent, PeerIntent};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
use tokio::net::TcpListener;

/// TR-10, TR-13, TR-22, TR-24, TR-40, TR-44, TR-66, TR-70, TR-85: a ROUTER dials us.
#[tokio::test]
async fn a_router_that_dials_sends_and_is_answered() {
    let mut node = Node::alone("node", echoing()).await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    let (link, event) = node.event().await;
    assert_eq!(link.peer(), &rid("raw"));
    assert!(matches!(event, PeerEvent::Admitted { .. }));
    peer.acknowledge().await;
    // One-way: a plain message of two frames, the second one empty of nothing but the envelope.
    let send = frames_of(&node_send("over the wire"));
    assert_eq!(send.len(), 2);
    peer.application.write(&message(&send)).await;
    assert_eq!(body(&node.record().await.record), "over the wire");
    // A request with sequence 7: its reply repeats it on the Completion lane.
    let request = [envelope(1, 7), frames_of(&node_request(70, "ask"))].concat();
    peer.application.write(&message(&request)).await;
    let reply = peer.completion.message().await.unwrap();
    assert_eq!(reply[..4], envelope(2, 7));
    let record = Record::decode(&reply[4..], MeshOperationKind::NodeRequest).unwrap();
    let Record::Reply(reply) = record else {
        panic!("{record:?}");
    };
    assert_eq!(reply.correlation.get(), 70);
    assert_eq!(
        reply.payload.unwrap().payload.as_bytes(),
        &Bytes::from("ask")
    );
}

/// TR-23, TR-32, TR-40, TR-69: we dial a ROUTER and ask it.
#[tokio::test]
async fn a_router_that_we_dial_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let intent = PeerIntent::manual(&endpoint, Some(rid("raw"))).unwrap();
    let config = MeshConfig::new(common::identity("node", 5)).peer(intent);
    let node = start(config, watch()).await;
    let mut peer = RawPeer::accept(&listener, "raw").await;
    peer.admit(&endpoint).await;
    let link = node.admitted("raw").await;
    peer.acknowledge().await;
    let ask = tokio::spawn(async move {
        let request = node_request(70, "ask");
        link.request(request, Duration::from_secs(10)).await
    });
    let request = peer.application.message().await.unwrap();
    assert_eq!(request[..4], envelope(1, 1));
    let record = Record::decode(&request[4..], MeshOperationKind::None).unwrap();
    let answer = frames_of(&Record::Reply(echo(&record)));
    let reply = [envelope(2, 1), answer].concat();
    peer.completion.write(&message(&reply)).await;
    let reply = ask.await.unwrap().unwrap();
    assert_eq!(
        reply.payload.unwrap().payload.as_bytes(),
        &Bytes::from("ask")
    );
    // TR-42: an error reply ends the next one.
    let link = node.mesh.link(&rid("raw")).unwrap();
    let asked = link
        .ask(node_request(71, "ask"), Duration::from_secs(10))
        .unwrap();
    let request = peer.application.message().await.unwrap();
    assert_eq!(request[..4], envelope(1, 2));
    let mut reply = envelope(3, 2);
    reply.push(Bytes::from_static(&[0, 0, 0, 11]));
    peer.completion.write(&message(&reply)).await;
    let error = asked.await.unwrap_err();
    assert_eq!(
        error,
        spotlane_mesh::RequestError::PeerError { errno: Some(11) }
    );
}

/// TR-29, TR-68: the probe of the socket asks for our hello, and controls are taken from either lane.
#[tokio::test]
async fn an_empty_message_asks_for_hello() {
    let node = Node::alone("node", watch()).await;
    let pair = common::raw::Pair {
        id: 3,
        generation: 1,
    };
    let mut peer = RawPeer::dial(&node, "raw", pair).await;
    peer.application.write(&message(&[Bytes::new()])).await;
    let hello = peer.application.message().await.unwrap();
    let hello = Record::decode(&hello, MeshOperationKind::None).unwrap();
    assert!(matches!(hello, Record::Hello(_)));
}
