//! Clients that misbehave while their Actors move, over TCP and WebSocket: each outcome is named, nobody else notices, and
//! nothing grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use spotlane::prelude::*;
use spotlane::session::{CloseReason, SessionStream};
use spotlane_stream_proto::Frame;
use tokio::io::AsyncWriteExt;
use tokio::task::{JoinHandle, JoinSet};

use crate::hostile::PATIENCE;
use crate::players::{Client, Game, gate_on, tell, trio, until};

/// A stream on `g`, and the Actor `p` on its way between `a` and `b` all the time.
struct Field {
    a: Host,
    hosts: [Host; 3],
    game: Game,
    stream: SessionStream,
    over: Arc<AtomicBool>,
    moves: JoinHandle<u64>,
}

impl Field {
    async fn set(scheme: &str) -> Self {
        let ([a, b, g], game) = trio(&["p", "calm"]).await;
        let stream = gate_on(&g, scheme).await;
        let over = Arc::new(AtomicBool::new(false));
        let moves = tokio::spawn({
            let (a, b, over) = (a.clone(), b.clone(), Arc::clone(&over));
            async move {
                let (mut moves, mut tries) = (0, 0_u32);
                while !over.load(Ordering::Acquire) {
                    for (from, to) in [(&a, &b), (&b, &a)] {
                        // A move may fail when its session ends under it; the Actor is where it was then.
                        if from.relocate("p", to.node_id()).await.is_ok() {
                            moves += 1;
                        }
                        // It is open for another while each time: on one processor everything else would have its
                        // turn at the same moments of each move. And a move that fails at once would never let a test
                        // end that has failed.
                        tries += 1;
                        for _ in 0..=tries % 64 {
                            tokio::task::yield_now().await;
                        }
                    }
                }
                moves
            }
        });
        Self {
            hosts: [a.clone(), b, g],
            a,
            game,
            stream,
            over,
            moves,
        }
    }

    /// Logs in while the Actor may be on its way.
    async fn login(&self, id: &str) -> Client {
        Client::login(&self.stream, id).await
    }

    /// Waits until so many players were told that their session has left; says what the hosts see when they are not.
    async fn left(&self, count: u64) {
        let there = || self.game.left.load(Ordering::SeqCst);
        let told = async {
            while there() < count {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(PATIENCE, told).await.is_err() {
            let seen = self.hosts.each_ref().map(|host| {
                let status = host.status();
                let moves = (status.actors, status.moving, status.sealing, status.arrived);
                (moves, host.session_counts())
            });
            panic!("{} of {count} were told: {seen:?}", there());
        }
        assert_eq!(there(), count, "once each");
    }

    /// Whoever behaves is served, and nothing of the others is left.
    async fn ends(self) {
        let mut client = self.login("p").await;
        client.ask("note", "end").await.unwrap();
        self.over.store(true, Ordering::Release);
        assert!(self.moves.await.unwrap() > 0, "it moved meanwhile");
        let notes = client.ask("note", "last").await.unwrap();
        assert!(notes.ends_with("last"));
        drop(client);
        until(|| self.stream.stats().active() == 0).await;
    }
}

/// SB-64, ST-159: T-BND-19
async fn reconnects(scheme: &str) {
    let field = Field::set(scheme).await;
    for _ in 0..50 {
        let mut client = field.login("p").await;
        client.ask("note", "x").await.unwrap();
    }
    let mut fresh = Client::connect(&field.stream).await;
    let refused = fresh.ask("note", "x").await.unwrap_err();
    assert!(refused.contains("log in first"), "nothing is inherited");
    drop(fresh);
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_begins_anew_over_tcp() {
    reconnects("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_begins_anew_over_websocket() {
    reconnects("ws").await;
}

/// SB-50, SB-54, SB-58, ST-157: T-BND-11
async fn binds_again(scheme: &str) {
    let field = Field::set(scheme).await;
    let mut before = field.login("p").await;
    for _ in 0..10 {
        let mut after = field.login("p").await;
        after.ask("note", "mine").await.unwrap();
        // The one before is told, gets nothing more, and is closed.
        let (mut told, mut all) = (false, Vec::new());
        while let Some(frame) = before.frame().await {
            let text = format!("{frame:?}");
            all.push(text.clone());
            told |= text.contains("replaced");
            assert!(!text.contains("mine"), "{text}");
        }
        assert!(told, "{all:?}");
        before = after;
    }
    // None of them has left: each was replaced.
    assert_eq!(field.game.left.load(Ordering::SeqCst), 0);
    drop(before);
    field.game.left(1).await;
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_connection_takes_over_during_moves_over_tcp() {
    binds_again("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_connection_takes_over_during_moves_over_websocket() {
    binds_again("ws").await;
}

/// SB-60, SB-91, ST-156: reset in the middle of a frame, with requests in flight
async fn cut(scheme: &str) {
    let field = Field::set(scheme).await;
    for cut in 0..40 {
        let mut client = field.login("p").await;
        for _ in 0..cut % 4 {
            client.send("note", "in flight").await;
        }
        let (_, bytes) = client.request("note", "never whole");
        client
            .socket
            .write_all(&bytes[..cut % bytes.len()])
            .await
            .unwrap();
        if cut % 2 == 0 {
            client.socket.set_zero_linger().unwrap();
        }
        drop(client);
        // A login before that would replace it, and who was replaced has not left.
        field.left(u64::try_from(cut + 1).unwrap()).await;
    }
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_leaves_once_over_tcp() {
    cut("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_leaves_once_over_websocket() {
    cut("ws").await;
}

/// ST-140, EX-120, SB-86: what a flooded Actor does not take waits at its client
async fn floods(scheme: &str) {
    let field = Field::set(scheme).await;
    let mut calm = field.login("calm").await;
    let mut flood = field.login("p").await;
    flood.send("wait", "").await;
    field.game.began.notified().await;
    let (written, _) = flood.flood("jot", &"x".repeat(32_768), 8_192).await;
    assert!(written > 0);
    // Another client of the same stream is served meanwhile.
    assert_eq!(calm.ask("note", "calm").await.unwrap(), "calm");
    field.game.go_on.notify_one();
    drop(flood);
    drop(calm);
    field.game.left(2).await;
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_waits_at_its_client_over_tcp() {
    floods("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_waits_at_its_client_over_websocket() {
    floods("ws").await;
}

/// ST-104, ST-103, ST-105: every byte of a frame, made another one
async fn garbage(scheme: &str) {
    let field = Field::set(scheme).await;
    let mut calm = field.login("calm").await;
    let length = calm.request("note", "x").1.len();
    // All three at each byte take minutes: the short form takes turns.
    let flips = [0x01, 0x80, 0xFF];
    let each = std::env::var("SPOTLANE_GARBAGE_FLIPS").map_or(1, |each| each.parse().unwrap());
    for at in 0..length {
        for flip in flips.into_iter().cycle().skip(at).take(each) {
            let mut client = field.login("p").await;
            let (_, mut bytes) = client.request("note", "x");
            bytes[at] ^= flip;
            client.socket.write_all(&bytes).await.unwrap();
            client.socket.shutdown().await.unwrap();
            // Served, refused or closed: with a reason when it was garbage, and never silence.
            client.closed().await;
            // Whoever behaves notices nothing.
            calm.ask("place", "").await.unwrap();
        }
    }
    let errors = field.stream.stats().closed(CloseReason::ProtocolError);
    assert!(errors > 0);
    assert_eq!(calm.ask("note", "calm").await.unwrap(), "calm");
    drop(calm);
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_at_every_byte_ends_its_own_connection_over_tcp() {
    garbage("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_at_every_byte_ends_its_own_connection_over_websocket() {
    garbage("ws").await;
}

/// ST-149, ST-151, RL-330: pushes for a client that does not read are dropped and counted, and its heartbeat ends it
async fn stops_reading(scheme: &str) {
    let field = Field::set(scheme).await;
    let mut calm = field.login("calm").await;
    let deaf = field.login("p").await;
    let large = "x".repeat(100_000);
    let mut pushed = 0_usize;
    let stats = field.stream.stats();
    while stats.pushes_dropped() == 0 {
        match tell(&field.a, "p", &large).await {
            Ok(()) => pushed += large.len(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(pushed < 256 << 20, "nobody keeps that much");
        assert_eq!(stats.active(), 2, "after {pushed} bytes");
    }
    assert_eq!(calm.ask("note", "calm").await.unwrap(), "calm");
    // It answers no ping either.
    let cut = async {
        while stats.closed(CloseReason::HeartbeatTimeout) == 0 {
            calm.ask("place", "").await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, cut)
        .await
        .expect("it is cut");
    field.game.left(1).await;
    drop((deaf, calm));
    field.game.left(2).await;
    field.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_is_cut_off_over_tcp() {
    stops_reading("tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_is_cut_off_over_websocket() {
    stops_reading("ws").await;
}

/// How many want one Actor at a time.
const WANT_IT: usize = 500;

/// Asks for the Actor until it is bound, or its connection ends.
async fn wants_it(client: &mut Client) -> bool {
    loop {
        client.try_send("login", "p").await;
        loop {
            match client.frame().await {
                Some(Frame::Response { .. }) => return true,
                // On its way, or a later bind was there before.
                Some(Frame::Error { .. }) => break,
                Some(_) => {}
                None => return false,
            }
        }
    }
}

/// SB-2, SB-50, SB-51, SB-54, ST-157: five hundred connections bind one Actor while it moves. One has it in the end, and
/// nobody else is left.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_connections_bind_one_actor_that_moves() {
    let field = Field::set("tcp").await;
    let mut all = Vec::new();
    for _ in 0..WANT_IT {
        all.push(Client::connect(&field.stream).await);
    }
    let mut bound = 0;
    let mut tasks = JoinSet::new();
    for mut client in all {
        tasks.spawn(async move {
            let got_it = tokio::time::timeout(4 * PATIENCE, wants_it(&mut client)).await;
            (got_it.expect("in time"), client)
        });
    }
    let mut rest = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (got_it, client) = ended.unwrap();
        bound += usize::from(got_it);
        rest.push(client);
    }
    assert!(bound > 0, "nobody got it");
    // Another one takes it, and all that had it are closed.
    let mut last = field.login("p").await;
    last.ask("note", "mine").await.unwrap();
    let open = u64::try_from(WANT_IT - bound + 1).unwrap();
    until(|| field.stream.stats().active() <= open).await;
    drop(rest);
    until(|| field.stream.stats().active() == 1).await;
    assert!(last.ask("note", "x").await.unwrap().ends_with("mine,x"));
    drop(last);
    // Whoever was replaced has not left; a session that a move took too long for has, and was told of once.
    let told = || usize::try_from(field.game.left.load(Ordering::SeqCst)).unwrap();
    until(|| told() > 0).await;
    assert!(told() <= bound + 1, "{} of {bound}", told());
    field.ends().await;
}
