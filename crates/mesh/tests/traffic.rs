//! Records between two nodes over real sockets.

mod common;

use std::time::Duration;

use common::{Node, body, echoing, node_request, node_send, rid, watch};
use spotlane_mesh::{NotSubmitted, PeerEvent, Written};

const SECOND: Duration = Duration::from_secs(1);

/// TR-70, TR-40, TR-69: node request (17) and its reply (20), both ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_both_ways() {
    let a = Node::alone("a", echoing()).await;
    let b = Node::dialling("b", &a, echoing()).await;
    a.admitted("b").await;
    b.admitted("a").await;
    for (from, to) in [(&a, "b"), (&b, "a")] {
        for correlation in 1..100 {
            let request = node_request(correlation, format!("ask {correlation}"));
            let reply = from.mesh.request(&rid(to), request, SECOND).await.unwrap();
            assert_eq!(reply.correlation.get(), correlation);
            let payload = reply.payload.unwrap();
            assert_eq!(
                &payload.payload.as_bytes()[..],
                format!("ask {correlation}").as_bytes()
            );
        }
    }
}

/// TR-38, EX-264: node send (16) in the order of submits, small and large ones mixed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_arrive_in_the_order_of_their_submits() {
    let mut a = Node::alone("a", watch()).await;
    let b = Node::dialling("b", &a, watch()).await;
    b.admitted("a").await;
    for number in 0..5000_u32 {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(if number % 7 == 0 { 3000 } else { 20 }, 0);
        b.mesh
            .send(&rid("a"), node_send(bytes), None)
            .await
            .unwrap();
    }
    let (link, event) = a.event().await;
    assert_eq!(link.peer(), &rid("b"));
    assert!(matches!(event, PeerEvent::Admitted { .. }));
    for number in 0..5000_u32 {
        let received = a.record().await;
        assert_eq!(received.from, link);
        assert_eq!(body(&received.record)[..4], number.to_be_bytes());
    }
}

/// TR-37, TR-90: what is not taken comes back.
#[tokio::test]
async fn an_unknown_peer_is_not_connected_at_once() {
    let a = Node::alone("a", watch()).await;
    let refused = a.mesh.submit(&rid("b"), node_send("x")).unwrap_err();
    assert_eq!(refused.why, NotSubmitted::NotConnected);
    assert_eq!(*refused.record, node_send("x"));
}

/// TR-94, EX-264: the two moments of a submit that asks for them.
#[tokio::test]
async fn a_tracked_submit_tells_when_it_is_written() {
    let a = Node::alone("a", watch()).await;
    let b = Node::dialling("b", &a, watch()).await;
    b.admitted("a").await;
    let tracked = b.mesh.submit_tracked(&rid("a"), node_send("x")).unwrap();
    assert_eq!(tracked.charge(), 64 + 5 + 64 + 14);
    assert_eq!(tracked.await, Written::Taken);
    // Whoever looks first may wait all the same.
    let mut seen = b.mesh.submit_tracked(&rid("a"), node_send("y")).unwrap();
    let looks = async {
        while seen.now().is_none() {
            tokio::task::yield_now().await;
        }
        (seen.now(), seen.await)
    };
    let looked = tokio::time::timeout(common::PATIENCE, looks).await.unwrap();
    assert_eq!(looked, (Some(Written::Taken), Written::Taken));
}

/// TR-28: everything that was submitted before a shutdown is read by the peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_loses_nothing_that_was_taken() {
    for round in 0..20 {
        let mut a = Node::alone("a", watch()).await;
        let b = Node::dialling("b", &a, watch()).await;
        b.admitted("a").await;
        for number in 0..1000_u32 {
            b.mesh
                .submit(&rid("a"), node_send(number.to_be_bytes().to_vec()))
                .unwrap();
        }
        b.mesh.shutdown(5 * SECOND).await;
        let refused = b.mesh.submit(&rid("a"), node_send("x")).unwrap_err();
        assert!(matches!(
            refused.why,
            NotSubmitted::Shutdown | NotSubmitted::NotConnected
        ));
        for number in 0..1000_u32 {
            let received = a.record().await;
            assert_eq!(body(&received.record)[..], number.to_be_bytes(), "{round}");
        }
        let (_, event) = a.event().await;
        assert!(matches!(event, PeerEvent::Lost { .. }), "{event:?}");
    }
}
