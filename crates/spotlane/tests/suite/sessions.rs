//! Clients on real sockets, bound to Actors that live on other hosts and move.

use spotlane::prelude::*;
use spotlane_stream_proto::Frame;

use crate::app::Stores;
use crate::players::{Client, Player, gate, pair, player_host, tell, trio, until};
use crate::two_hosts::acquainted;

/// SB-30, SB-31, SB-37, EX-281: on the session's own host and on another.
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_07_bind_relay_reply_and_push_here_and_between_hosts() {
    let stores = Stores::new();
    // The first host that there is gets the Actor.
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("far").await.unwrap();
    let g = player_host("g", &stores).await;
    acquainted(&[&a, &g]).await;
    a.actors().create::<Player>("near").await.unwrap();
    let near = a.actors().find("near").await.unwrap().unwrap();
    if near.node() == a.node_id() {
        a.relocate("near", g.node_id()).await.unwrap();
    }
    // It answers at its new place before anybody binds it.
    let place = g.actor("near").request("place", Payload::empty());
    assert_eq!(place.reply::<String>().await.unwrap(), "g");
    let stream = gate(&g).await;
    for (id, node) in [("near", "g"), ("far", "a")] {
        let mut client = Client::login(&stream, id).await;
        assert_eq!(client.ask("place", "").await.unwrap(), node);
        for (text, all) in [("one", "one"), ("two", "one,two")] {
            assert_eq!(client.ask("note", text).await.unwrap(), all);
        }
        let sent = client.send("tell", "hello").await;
        let mut answered = false;
        let mut told = false;
        while !(answered && told) {
            match client.frame().await {
                Some(Frame::Response { sequence, .. }) => answered = sequence.get() == sent,
                Some(Frame::Send { name, payload, .. }) => {
                    told = name.as_str() == "told" && payload.bytes == "hello";
                }
                other => panic!("{other:?}"),
            }
        }
        let unknown = client.ask("nothing", "").await.unwrap_err();
        assert!(unknown.contains("NotFound"), "{unknown}");
    }
}

/// SB-74
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_05_a_push_needs_a_bound_session() {
    let stores = Stores::new();
    let g = player_host("g", &stores).await;
    g.actors().create::<Player>("p").await.unwrap();
    let told = g
        .actor("p")
        .request("tell", Payload::bytes("x"))
        .reply::<()>()
        .await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let kick = async || {
        g.actor("p")
            .request("kick", Payload::empty())
            .reply::<()>()
            .await
    };
    assert_eq!(
        kick().await.unwrap_err().kind(),
        ErrorKind::InvalidOperation
    );
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    g.actor("p")
        .request("tell", Payload::bytes("x"))
        .reply::<()>()
        .await
        .unwrap();
    assert_eq!(client.pushed().await, ("told".to_owned(), "x".to_owned()));
    kick().await.unwrap();
    assert_eq!(client.frame().await, None);
}

/// SB-39
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_closes_the_connection_of_its_session() {
    let stores = Stores::new();
    let g = player_host("g", &stores).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.send("kick", "").await;
    while client.frame().await.is_some() {}
}

/// SB-50, SB-33, SB-54
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_11_a_second_session_takes_the_actor_and_the_first_is_told_and_closed() {
    let (a, g, _game) = pair().await;
    let (at_g, at_a) = (gate(&g).await, gate(&a).await);
    let mut first = Client::login(&at_g, "p").await;
    let mut second = Client::login(&at_a, "p").await;
    assert_eq!(first.pushed().await.0, "replaced");
    assert_eq!(first.frame().await, None);
    a.actor("p")
        .request("tell", Payload::bytes("mine"))
        .reply::<()>()
        .await
        .unwrap();
    assert_eq!(second.pushed().await.1, "mine");
    assert_eq!(second.ask("note", "x").await.unwrap(), "x");
}

/// SB-64, SB-61
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_18_a_lost_connection_ends_the_binding_and_not_the_actor() {
    let stores = Stores::new();
    let g = player_host("g", &stores).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.ask("note", "kept").await.unwrap();
    let before = g.actors().find("p").await.unwrap();
    drop(client);
    // SB-61: it stands until the callback has ended.
    until(|| g.session_counts().bound_actors == 0).await;
    let told = tell(&g, "p", "x").await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::InvalidOperation);
    // The same incarnation, where it was.
    assert_eq!(g.actors().find("p").await.unwrap(), before);
    let mut again = Client::connect(&stream).await;
    let refused = again.ask("note", "x").await.unwrap_err();
    assert!(
        refused.contains("InvalidOperation"),
        "T-BND-19: nothing is restored"
    );
    again.ask("login", "p").await.unwrap();
    assert_eq!(again.ask("note", "more").await.unwrap(), "kept,left,more");
}

/// SES-1, SES-3, SES-4, SB-14, RL-357: requests in flight while the Actor moves are answered once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn t_ses_01_the_connection_stays_while_the_actor_moves() {
    let ([a, b, g], _game) = trio(&["p"]).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    // What the binding says of the Actor: who it is, and where.
    let snapshot = client.ask("snapshot", "").await.unwrap();
    let who = snapshot.strip_suffix(" on a").unwrap().to_owned();
    let mut from = &a;
    for (round, to) in (0..).zip([&b, &a, &b]) {
        let first = client.next;
        let moving = async {
            while from.status().actors == 0 {
                tokio::task::yield_now().await;
            }
            from.relocate("p", to.node_id()).await.unwrap();
        };
        let talking = async {
            for number in 0..100 {
                client.send("note", &format!("{round}-{number}")).await;
                tokio::task::yield_now().await;
            }
            // Answers find their request by its number; which is first does not matter.
            let mut answered = std::collections::BTreeSet::new();
            for _ in 0..100 {
                let (sequence, answer) = client.answer().await;
                answer.unwrap();
                assert!(answered.insert(sequence), "once");
            }
            assert!(answered.into_iter().eq(first..first + 100));
        };
        tokio::join!(moving, talking);
        from = to;
        let node = client.ask("place", "").await.unwrap();
        assert_eq!(node.as_bytes(), to.node_id().as_bytes());
        let snapshot = client.ask("snapshot", "").await.unwrap();
        assert_eq!(snapshot, format!("{who} on {node}"));
        // A push of the new tenure reaches the client: its route is the new one.
        to.actor("p")
            .request("tell", Payload::bytes("here"))
            .reply::<()>()
            .await
            .unwrap();
        assert_eq!(client.pushed().await.1, "here");
    }
    let notes = client.ask("note", "end").await.unwrap();
    let all = (0..3).flat_map(|round| (0..100).map(move |number| format!("{round}-{number}")));
    let all: Vec<String> = all.chain(["end".to_owned()]).collect();
    assert_eq!(
        notes,
        all.join(","),
        "nothing lost, nothing twice, in order"
    );
}

/// RL-57, RL-144, RL-357, SES-4: an Actor with a client joins another node; the connection stays, and both ways lead there.
#[tokio::test(flavor = "multi_thread")]
async fn the_connection_stays_while_the_actor_joins_another_node() {
    let ([a, b, g], _game) = trio(&["p"]).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.ask("note", "before").await.unwrap();
    for to in [&b, &a] {
        let name = String::from_utf8_lossy(to.node_id().as_bytes()).into_owned();
        client.ask("join", &name).await.unwrap();
        assert_eq!(client.ask("place", "").await.unwrap(), name);
        let told = to.actor("p").request("tell", Payload::bytes("here"));
        told.reply::<()>().await.unwrap();
        assert_eq!(client.pushed().await.1, "here");
    }
    assert_eq!(client.ask("note", "after").await.unwrap(), "before,after");
}
