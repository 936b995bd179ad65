//! Two and three hosts over real sockets: creation and messages from any node.

use std::time::Duration;

use spotlane::prelude::*;

use crate::app::{self, Counter, Shared, Stores, add, host, refuses_and_fails, settings, text};
use crate::players::until;

/// Waits until all hosts are connected to each other.
pub(crate) async fn connect(hosts: &[&Host]) {
    for host in hosts {
        host.wait_for_peers(hosts.len() - 1, Duration::from_secs(30))
            .await
            .unwrap();
    }
}

/// Moves `c` while a handler of it waits for the gate, which opens when the move waits for the handler: what stands in line
/// behind it moves along.
pub(crate) async fn move_behind_a_handler(from: &Host, to: &Host, shared: &Shared) {
    let moved = async { from.relocate("c", to.node_id()).await.unwrap() };
    let opened = async {
        until(|| from.status().sealing > 0).await;
        shared.gate.notify_one();
    };
    tokio::join!(moved, opened);
}

/// Waits until they are connected, and each has all of them in its directory.
pub(crate) async fn acquainted(hosts: &[&Host]) {
    connect(hosts).await;
    let knows = |host: &&Host| host.nodes().len() >= hosts.len();
    until(|| hosts.iter().all(knows)).await;
}

/// A host that takes no Actors, so that they are placed on the others.
async fn bystander(node: &str, stores: &Stores) -> Host {
    let mut settings = settings();
    settings.placement_weight = 0;
    app::builder(node, stores, &Shared::default())
        .settings(settings)
        .start()
        .await
        .unwrap()
}

/// RL-84, RL-83, EX-261: an Actor is created on another node by command 49 and answers from there.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_is_created_and_asked_on_another_node() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    connect(&[&a, &b]).await;
    let made = b
        .actors()
        .create::<Counter>("c")
        .request("hello")
        .await
        .unwrap();
    let Creation::Created {
        actor,
        reply: Some(reply),
    } = made
    else {
        panic!("{made:?}");
    };
    assert_eq!(actor.node(), a.node_id());
    assert_eq!(reply.as_bytes(), "welcome");
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
    assert_eq!(add(&b, "c", 4).await.unwrap(), "4");
    assert_eq!(add(&a, "c", 5).await.unwrap(), "9");
    b.actor("c").send("note", "end").await.unwrap();
    assert_eq!(text(&b, "c", "log").await.unwrap(), "hello,4,5,end");
    assert_eq!(b.actors().find("c").await.unwrap(), Some(actor));
}

/// EX-154: a handler that moves its own Actor and waits for that would wait for its own end; it is told at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_does_not_wait_for_its_own_move() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    connect(&[&a, &b]).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let refused = b.actor("c").request("outside", "b").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
}

/// RL-85: refusals and failures of a creation on another node are told apart, and nothing stays behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_on_another_node_may_be_refused() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    connect(&[&a, &b]).await;
    refuses_and_fails(&b).await;
    assert!(
        b.actors()
            .create::<Counter>("c")
            .await
            .unwrap()
            .is_created()
    );
}

/// EX-269, EX-340, EX-344, EX-348, EX-351: errors keep their kind across nodes.
#[tokio::test(flavor = "multi_thread")]
async fn errors_keep_their_kind_across_nodes() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    connect(&[&a, &b]).await;
    b.actors().create::<Counter>("c").await.unwrap();
    let kind = |name: &'static str| {
        let call = b.actor("c").request(name, ());
        async move { call.await.unwrap_err().kind() }
    };
    assert_eq!(kind("fail").await, ErrorKind::Rejected);
    assert_eq!(kind("explode").await, ErrorKind::InternalFailure);
    assert_eq!(kind("nothing").await, ErrorKind::NotFound);
    assert_eq!(kind("add").await, ErrorKind::ProtocolError);
    let call = b
        .actor("c")
        .request("wait", ())
        .timeout(Duration::from_millis(50));
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    let nobody = add(&b, "nobody", 1).await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
}

/// RL-97, WR-58: an Actor of another node is destroyed by command 27, and a stale route ends the next call once.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_of_another_node_is_destroyed() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    let c = bystander("c", &stores).await;
    connect(&[&a, &b, &c]).await;
    let made = b.actors().create::<Counter>("c").await.unwrap();
    let actor = made.actor().unwrap().clone();
    assert_eq!(add(&c, "c", 1).await.unwrap(), "1");
    assert!(b.actors().destroy(&actor).await.unwrap());
    assert!(!b.actors().destroy(&actor).await.unwrap());
    assert_eq!(a.status().actors, 0);
    // RL-169, RL-167: the cached route leads to an owner that has no such Actor any more; the call after it looks again.
    let stale = add(&c, "c", 1).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Unavailable);
    let gone = add(&c, "c", 1).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

/// EX-10, EX-264: what one sender sends to one Actor of another node is handled in its order.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_sender_keep_their_order() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let b = bystander("b", &stores).await;
    connect(&[&a, &b]).await;
    b.actors().create::<Counter>("c").await.unwrap();
    let expected: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    for n in &expected {
        b.actor("c").send("note", n.clone()).await.unwrap();
    }
    assert_eq!(text(&b, "c", "log").await.unwrap(), expected.join(","));
}

/// EX-40: Actors on different nodes ask each other.
#[tokio::test(flavor = "multi_thread")]
async fn actors_ask_each_other_across_nodes() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    a.actors().create::<Counter>("here").await.unwrap();
    let (b, _) = host("b", &stores).await;
    connect(&[&a, &b]).await;
    let mut there = None;
    for n in 0..64 {
        let id = format!("c-{n}");
        let made = a.actors().create::<Counter>(&id).await.unwrap();
        if made.actor().unwrap().node() == b.node_id() {
            there = Some(id);
            break;
        }
    }
    let there = there.expect("one of 64 is placed on the other node");
    let sum: String = a
        .actor("here")
        .request("ask", there.clone())
        .reply()
        .await
        .unwrap();
    assert_eq!(sum, "1");
    let sum: String = b
        .actor(&there)
        .request("ask", "here")
        .reply()
        .await
        .unwrap();
    assert_eq!(sum, "1");
}

/// RL-94, RL-235: an owner that is gone is not replaced; its Actor is unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_whose_owner_is_gone_is_unavailable() {
    let stores = Stores::new();
    let b = bystander("b", &stores).await;
    let mut short = settings();
    // Not so short that a host which waits for its turn on a busy machine loses it.
    short.owner_lease_ttl = Duration::from_secs(4);
    short.owner_lease_fencing_margin = Duration::from_millis(100);
    short.owner_lease_renew_interval = Duration::from_millis(200);
    short.owner_lease_renew_timeout = Duration::from_millis(200);
    let a = app::builder("a", &stores, &Shared::default())
        .settings(short)
        .start()
        .await
        .unwrap();
    connect(&[&a, &b]).await;
    b.actors().create::<Counter>("c").await.unwrap();
    drop(a);
    // Its tasks end one after the other, and until its connection is gone it may still answer.
    until(|| b.status().peers == 0).await;
    loop {
        let call = b
            .actor("c")
            .request("add", "1")
            .timeout(Duration::from_millis(500));
        match call.await.unwrap_err().kind() {
            // The lease has not run out yet, and the node is not connected any more.
            ErrorKind::DeadlineExceeded => {}
            kind => {
                assert_eq!(kind, ErrorKind::Unavailable);
                break;
            }
        }
    }
    let existing = b.actors().get_or_create::<Counter>("c").await.unwrap();
    assert!(!existing.is_created());
}
