//! The end of a binding: who is told of it, how often, and where.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::{SessionCounts, SessionStream};

use crate::app::{Stores, settings};
use crate::players::{
    Client, Game, PATIENCE, Player, gate, pair, player_builder, players, tell, trio, trio_with,
    until,
};
use crate::transfer::Process;
use crate::two_hosts::acquainted;

/// SB-60, SB-61, SB-62, EX-29, EX-309: T-BND-16
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_16_a_callback_that_fails_stops_nobody_and_ends_its_binding() {
    let (stores, game) = (Stores::new(), Game::default());
    let g = players("g", &stores, &game, settings()).await;
    let stream = gate(&g).await;
    let clients = [
        Client::login(&stream, "one").await,
        Client::login(&stream, "two").await,
    ];
    game.panics.store(true, Ordering::SeqCst);
    drop(clients);
    game.left(2).await;
    for id in ["one", "two"] {
        // Its callback has run and its end is under way.
        until(|| g.session_counts().bound_actors == 0).await;
        let error = tell(&g, id, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOperation);
        let mut again = Client::login(&stream, id).await;
        assert_eq!(again.ask("note", "x").await.unwrap(), "left,x");
        assert_eq!(again.ask("logout", "").await.unwrap(), "{}");
    }
    game.left(4).await;
}

/// SB-57, SB-60, EX-309: one connection with Actors on two hosts, one of whose callbacks fails. T-BND-16
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_16_one_connection_with_two_actors_tells_each_once() {
    let ([a, b, g], game) = trio(&["p", "q"]).await;
    a.relocate("q", b.node_id()).await.unwrap();
    let stream = gate(&g).await;
    for round in 1..=4 {
        let mut client = Client::login(&stream, "p").await;
        client.ask_until_open("login", "q").await;
        game.panics.store(round % 2 == 0, Ordering::SeqCst);
        drop(client);
        game.left(2 * round).await;
        let hosts = [&a, &b, &g];
        until(|| hosts.map(Host::session_counts) == [SessionCounts::default(); 3]).await;
    }
    for id in ["p", "q"] {
        let mut again = Client::login(&stream, id).await;
        assert_eq!(again.ask("count", "").await.unwrap(), "4", "{id}");
    }
}

/// SB-62, SB-64: an explicit notice and the end of the connection, in one moment
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_17_whoever_asks_the_callback_runs_once() {
    let (_a, g, game) = pair().await;
    let stream = gate(&g).await;
    for round in 1..=10 {
        let mut client = Client::login(&stream, "p").await;
        client.send("logout", "").await;
        drop(client);
        game.left(round).await;
    }
    until(|| stream.stats().active() == 0).await;
    assert_eq!(game.left.load(Ordering::SeqCst), 10);
}

/// SB-61, SB-64: the binding stands while its callback runs, and the connection afterwards
#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_notice_ends_with_its_callback_and_leaves_the_connection() {
    let (_a, g, game) = pair().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    // The push of the callback takes another lane than the answer, so that it may come too late to be current.
    assert_eq!(client.ask("logout", "").await.unwrap(), "{}");
    let refused = client.ask("note", "x").await.unwrap_err();
    assert!(refused.contains("no longer bound"), "{refused}");
    assert_eq!(client.ask("login", "p").await.unwrap(), "{}");
    assert_eq!(client.ask("note", "x").await.unwrap(), "left,x");
    game.left(1).await;
}

/// SB-57, SB-51: a session that another one replaces has not left
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_session_does_not_leave() {
    let (stores, game) = (Stores::new(), Game::default());
    let g = players("g", &stores, &game, settings()).await;
    let stream = gate(&g).await;
    let mut first = Client::login(&stream, "p").await;
    let second = Client::login(&stream, "p").await;
    first.closed().await;
    until(|| stream.stats().active() == 1).await;
    assert_eq!(game.left.load(Ordering::SeqCst), 0);
    drop(second);
    game.left(1).await;
}

/// SB-60, SB-61, SB-65, RL-358: clients that leave while their Actors move, at every moment of the move
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_leaves_during_a_move_is_told_of_once_wherever_the_actor_is() {
    // The session owner waits longer for the answer to a notice than this test does.
    let mut patient = settings();
    patient.default_request_timeout = Duration::from_mins(5);
    let ([a, b, g], game) = trio_with(&["p"], settings(), patient).await;
    let stream = gate(&g).await;
    let hosts = [&a, &b];
    for round in 0..40 {
        let (from, to) = (hosts[round % 2], hosts[(round + 1) % 2]);
        until(|| from.status().actors == 1).await;
        let client = Client::login(&stream, "p").await;
        let leave = async {
            for _ in 0..round * 8 {
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        // A session that has gone holds no move up.
        let (moved, ()) = tokio::join!(from.relocate("p", to.node_id()), leave);
        moved.unwrap();
        game.left(u64::try_from(round).unwrap() + 1).await;
        // SB-60, SB-61: its notice is answered, whichever way it took after its Actor, so nothing is left of the session.
        until(|| stream.stats().active() == 0).await;
    }
    let mut last = Client::login(&stream, "p").await;
    assert_eq!(
        last.ask("count", "").await.unwrap(),
        "40",
        "each of them once"
    );
}

/// SB-91, RL-47, RL-358, SB-74: the host of a client is killed. Its Actor is told once, has no session any more, and moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_ends_with_the_host_of_its_session() {
    let (stores, game) = (Stores::new(), Game::default());
    let a = players("a", &stores, &game, settings()).await;
    for id in ["p", "q"] {
        a.actors().create::<Player>(id).await.unwrap();
    }
    let b = players("b", &stores, &game, settings()).await;
    let mut short = settings();
    short.owner_lease_renew_interval = Duration::from_millis(300);
    short.owner_lease_renew_timeout = Duration::from_millis(300);
    short.owner_lease_ttl = Duration::from_secs(4);
    short.owner_lease_fencing_margin = Duration::from_secs(1);
    let process = Process::new();
    let g = player_builder("g", &stores, &game, short);
    let g = process.start(g).await;
    acquainted(&[&a, &b, &g]).await;
    let at_g = g.clone();
    let stream = process.run(async move { gate(&at_g).await }).await;
    let mut clients = [
        Client::login(&stream, "p").await,
        Client::login(&stream, "q").await,
    ];
    // One of them is found by the former owner, and one by an owner that it has come to.
    a.relocate("q", b.node_id()).await.unwrap();
    until(|| b.session_counts().bound_actors == 1).await;
    for client in &mut clients {
        client.ask("note", "x").await.unwrap();
    }
    drop((stream, g));
    process.kill();
    game.left(2).await;
    until(|| a.session_counts().bound_actors + b.session_counts().bound_actors == 0).await;
    for id in ["p", "q"] {
        let error = tell(&a, id, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    }
    // Nobody is asked for a seal: nobody would answer.
    let moved = tokio::time::timeout(PATIENCE, a.relocate("p", b.node_id())).await;
    moved.expect("in time").unwrap();
    let stream = gate(&a).await;
    let mut again = Client::login(&stream, "p").await;
    assert_eq!(again.ask("note", "y").await.unwrap(), "x,left,y");
    game.left(2).await;
}

/// SB-50, SB-57, SB-65: a callback that is queued when its Actor moves says nothing of the session that is bound by then
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_moves_with_its_actor_ends_no_later_binding() {
    let ([a, b, g], game) = trio(&["p"]).await;
    let stream = gate(&g).await;
    let mut first = Client::login(&stream, "p").await;
    first.send("wait", "").await;
    game.began.notified().await;
    drop(first);
    // Its notice waits for the callback, and the callback for the handler.
    until(|| a.session_counts().waiting == 1).await;
    let mut second = Client::login(&stream, "p").await;
    let (mover, to) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("p", &to).await });
    until(|| a.status().sealing == 1).await;
    game.go_on.notify_one();
    moved.await.unwrap().unwrap();
    assert_eq!(second.ask("place", "").await.unwrap(), "b");
    tell(&b, "p", "still here").await.unwrap();
    assert_eq!(second.pushed().await.1, "still here");
    assert_eq!(second.ask("note", "x").await.unwrap(), "left,x");
}

/// Clients that come and go while `p` hangs.
const HANGING: u64 = 1_000;

/// Binds `p` and leaves again, so many times in a row, while its handler hangs. No login waits for a callback.
async fn come_and_go(owner: &Host, stream: &SessionStream, game: &Game) {
    let mut first = Client::login(stream, "p").await;
    first.send("wait", "").await;
    game.began.notified().await;
    drop(first);
    until(|| owner.session_counts().callbacks == 1).await;
    for number in 2..=HANGING {
        drop(Client::login(stream, "p").await);
        until(|| owner.session_counts().callbacks == number).await;
    }
    assert_eq!(game.left.load(Ordering::SeqCst), 0);
}

/// SB-50, SB-62, EX-309: whoever has left an Actor that hangs costs it a number and no task, and each is told of, once
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sessions_leave_an_actor_that_hangs() {
    let (a, g, game) = pair().await;
    let stream = gate(&g).await;
    come_and_go(&a, &stream, &game).await;
    // One notice waits for its answer: the others were answered by the binds that came behind them.
    assert_eq!(a.session_counts().waiting, 1);
    game.go_on.notify_one();
    game.left(HANGING).await;
    until(|| a.session_counts() == SessionCounts::default()).await;
    let mut last = Client::login(&stream, "p").await;
    assert_eq!(last.ask("count", "").await.unwrap(), HANGING.to_string());
    game.left(HANGING).await;
}

/// SB-57, SB-65, WR-30, RL-357: they move with their Actor, all of them, and say nothing of the session that is bound by then
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callbacks_move_with_an_actor_that_is_bound_again() {
    let ([a, b, g], game) = trio(&["p"]).await;
    let stream = gate(&g).await;
    come_and_go(&a, &stream, &game).await;
    let mut bound = Client::login(&stream, "p").await;
    let (mover, to) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("p", &to).await });
    until(|| a.status().sealing == 1).await;
    game.go_on.notify_one();
    moved.await.unwrap().unwrap();
    assert_eq!(bound.ask("place", "").await.unwrap(), "b");
    game.left(HANGING).await;
    tell(&b, "p", "still here").await.unwrap();
    loop {
        let (name, text) = bound.pushed().await;
        // What the callbacks say reaches whoever is bound.
        if name == "told" {
            break assert_eq!(text, "still here");
        }
    }
    drop(bound);
    game.left(HANGING + 1).await;
    let nothing = SessionCounts::default();
    until(|| {
        [&a, &b, &g]
            .iter()
            .all(|host| host.session_counts() == nothing)
    })
    .await;
}

/// EX-306, SB-63: an Actor that ends while it hangs takes its callbacks along, and keeps nobody waiting
#[tokio::test(flavor = "multi_thread")]
async fn callbacks_end_with_an_actor_that_is_destroyed() {
    let (a, g, game) = pair().await;
    let stream = gate(&g).await;
    let mut first = Client::login(&stream, "p").await;
    first.send("wait", "").await;
    game.began.notified().await;
    drop(first);
    until(|| a.session_counts().callbacks == 1).await;
    drop(Client::login(&stream, "p").await);
    until(|| a.session_counts().callbacks == 2).await;
    let found = a.actors().find("p").await.unwrap().unwrap();
    let (actors, go_on) = (a.actors(), Arc::clone(&game.go_on));
    let destroyed = tokio::spawn(async move { actors.destroy(&found).await });
    go_on.notify_one();
    assert!(destroyed.await.unwrap().unwrap());
    until(|| {
        [&a, &g]
            .iter()
            .all(|host| host.session_counts() == SessionCounts::default())
    })
    .await;
    assert!(game.left.load(Ordering::SeqCst) <= 2);
}
