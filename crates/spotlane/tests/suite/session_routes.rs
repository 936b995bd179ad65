//! Routes of sessions: what is read for them, how long they are used, and what follows an Actor that has moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spotlane::memory::MemoryStore;
use spotlane::prelude::*;
use spotlane_store::{
    ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, WriteOutcome,
    WriteRequest,
};
use spotlane_stream_proto::Frame;

use tokio::io::AsyncWriteExt;

use crate::app::{Stores, settings};
use crate::players::{
    Client, Game, Notes, Player, gate, pair, player_host, players, tell, trio, trio_with,
    wired_pair,
};
use crate::two_hosts::{acquainted, connect};

/// A store that counts who asks for the rows of one Actor.
#[derive(Clone)]
struct Counting {
    store: MemoryStore,
    about: &'static str,
    asked: Arc<AtomicU64>,
}

impl Counting {
    fn count(&self, request: &impl std::fmt::Debug) {
        if format!("{request:?}").contains(self.about) {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl StoreProvider for Counting {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.count(key);
        self.store.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.count(&request);
        self.store.write(request).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.count(&request);
        self.store.scan(request).await
    }
}

/// A host whose reads about the Actor `counted` are counted.
async fn counting(stores: &Stores, settings: Settings) -> (Host, Counting) {
    let counting = Counting {
        store: stores.location.clone(),
        about: "counted",
        asked: Arc::default(),
    };
    let host = Host::builder()
        .mesh("test")
        .node_id("g")
        .location_store(counting.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Notes), Player::default)
        .settings(settings);
    (host.start().await.unwrap(), counting)
}

/// SB-3, SB-20, SB-30: nothing is read for a bind on a known route, for relays, replies, pushes and the notice of the end
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_06_a_relay_reads_no_store_and_goes_to_the_handler() {
    let (stores, game) = (Stores::new(), Game::default());
    let a = players("a", &stores, &game, settings()).await;
    a.actors().create::<Player>("counted").await.unwrap();
    let (g, counting) = counting(&stores, settings()).await;
    connect(&[&a, &g]).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "counted").await;
    let before = counting.asked.load(Ordering::SeqCst);
    assert!(before > 0, "the login looked it up");
    for number in 1..=100 {
        let notes = client.ask("note", &number.to_string()).await.unwrap();
        assert!(notes.ends_with(&number.to_string()));
    }
    tell(&a, "counted", "hello").await.unwrap();
    assert_eq!(client.pushed().await.1, "hello");
    drop(client);
    game.left(1).await;
    assert_eq!(counting.asked.load(Ordering::SeqCst), before);
}

/// SB-31, ST-147: many requests in flight, each answered once under its own number
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_08_each_reply_completes_its_own_request_once() {
    let (_a, g, _game) = pair().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    for number in 0..200 {
        let sent = client.send("note", &number.to_string()).await;
        assert_eq!(sent, number + 2, "behind the login");
    }
    let mut answered = std::collections::BTreeMap::new();
    for _ in 0..200 {
        let (sequence, answer) = client.answer().await;
        let notes = answer.unwrap();
        let last = notes.rsplit(',').next().unwrap().to_owned();
        assert!(answered.insert(sequence, last).is_none(), "once");
    }
    for (sequence, note) in answered {
        assert_eq!(note, (sequence - 2).to_string(), "its own");
    }
}

/// SB-36, EX-151, EX-153: binds, replacements and notices wait behind no message of their Actor
#[tokio::test(flavor = "multi_thread")]
async fn control_records_pass_an_actor_that_is_busy() {
    let (_a, g, game) = pair().await;
    let stream = gate(&g).await;
    let mut first = Client::login(&stream, "p").await;
    first.send("wait", "").await;
    game.began.notified().await;
    for number in 0..100 {
        first.send("note", &number.to_string()).await;
    }
    let mut second = Client::login(&stream, "p").await;
    // What it has sent is refused first, here or by the owner that has retired it.
    loop {
        match first.frame().await {
            Some(Frame::Send { name, .. }) if name.as_str() == "replaced" => break,
            Some(Frame::Error { payload, .. }) => {
                let refused = String::from_utf8_lossy(&payload.bytes).into_owned();
                assert!(refused.contains("Unavailable"), "{refused}");
            }
            other => panic!("{other:?}"),
        }
    }
    first.closed().await;
    game.go_on.notify_one();
    let notes = second.ask("note", "end").await.unwrap();
    assert!(notes.ends_with("end"));
}

/// SB-56, EX-266, SB-32: a queue that is full fails nothing at once; what waits keeps its order
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_to_the_actors_node_makes_relays_wait_in_order() {
    let mut patient = settings();
    patient.send_timeout = Duration::from_secs(10);
    let (_a, g, _game, wire) = wired_pair("g", patient).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    wire.stop_after(0);
    let large = "x".repeat(60_000);
    let (stalled, rest) = client.flood("jot", &large, FLOOD).await;
    wire.go_on();
    client.socket.write_all(&rest).await.unwrap();
    for number in stalled + 1..FLOOD {
        let packet = client.one_way("jot", &format!("{number}{large}"));
        client.socket.write_all(&packet).await.unwrap();
    }
    let notes = client.ask("note", "end").await.unwrap();
    assert_eq!(stream.stats().failed_sends(), 0);
    let order = notes
        .split(',')
        .map(|note| note.trim_end_matches('x').to_owned());
    let expected = (0..FLOOD).map(|number| number.to_string());
    assert!(order.eq(expected.chain(["end".to_owned()])));
}

/// Packets of 60 KB: more than all queues between a client and another node hold.
const FLOOD: u64 = 2_000;

/// SB-35: a request that ends by its timeout is not sent again; the Actor handled it once
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_09_nothing_is_sent_again_after_a_timeout() {
    let mut quick = settings();
    quick.default_request_timeout = Duration::from_secs(3);
    let ([a, b, g], game) = trio_with(&["p"], settings(), quick).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.send("wait", "").await;
    game.began.notified().await;
    let sent = client.send("note", "once").await;
    for _ in 0..2 {
        let (sequence, answer) = client.answer().await;
        assert!(
            answer.unwrap_err().contains("DeadlineExceeded"),
            "{sequence}"
        );
        assert!(sequence == sent || sequence + 1 == sent);
    }
    game.go_on.notify_one();
    // At another owner it is not handled again either.
    a.relocate("p", b.node_id()).await.unwrap();
    let notes = client.ask("note", "end").await.unwrap();
    assert_eq!(notes, "once,end");
}

/// SB-24, SB-70, RL-157, RL-160: the session owner believes in a place that the Actor has left, and reads no store
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_03_a_bind_follows_the_actor_once_and_its_session_goes_on_directly() {
    let ([a, b, g], game) = trio(&["p"]).await;
    let stream = gate(&g).await;
    // The former owner has clients of its own, which know the Follow route itself.
    let at_a = gate(&a).await;
    for stream in [&stream, &at_a] {
        let mut client = Client::login(stream, "p").await;
        client.ask("remember", "").await.unwrap();
        client.ask("logout", "").await.unwrap();
    }
    a.relocate("p", b.node_id()).await.unwrap();
    for stream in [&stream, &at_a] {
        let mut client = Client::connect(stream).await;
        client.ask_until_open("login-there", "").await;
        assert_eq!(client.ask("place", "").await.unwrap(), "b");
        tell(&b, "p", "hello").await.unwrap();
        assert_eq!(client.pushed().await.1, "hello");
        // The binding has the route of the new owner, and nothing goes by the former one.
        client.ask("remember", "").await.unwrap();
        client.ask("logout", "").await.unwrap();
        client.ask("login-there", "").await.unwrap();
        client.ask("logout", "").await.unwrap();
    }
    game.left(6).await;
}

/// SB-70, RL-153: without a Follow route a stale location is unavailable, and nobody looks for another one
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_03_without_a_follow_route_a_stale_location_is_unavailable() {
    let mut forgetful = settings();
    forgetful.message_follow_duration = Duration::ZERO;
    forgetful.route_cache_max_age = Duration::ZERO;
    let (stores, game) = (Stores::new(), Game::default());
    let a = players("a", &stores, &game, forgetful.clone()).await;
    a.actors().create::<Player>("counted").await.unwrap();
    let b = players("b", &stores, &game, forgetful.clone()).await;
    let (g, counting) = counting(&stores, forgetful).await;
    acquainted(&[&a, &b, &g]).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "counted").await;
    client.ask("remember", "").await.unwrap();
    client.ask("logout", "").await.unwrap();
    a.relocate("counted", b.node_id()).await.unwrap();
    let before = counting.asked.load(Ordering::SeqCst);
    // Until the former owner has seen the commit the Actor is on its way, which is as unavailable.
    for _ in 0..20 {
        let refused = client.ask("login-there", "").await.unwrap_err();
        assert!(refused.contains("Unavailable"), "{refused}");
    }
    assert_eq!(counting.asked.load(Ordering::SeqCst), before, "no look-up");
    client.ask_until_open("login", "counted").await;
    assert_eq!(client.ask("place", "").await.unwrap(), "b");
}

/// SB-15, RL-283: past the admission deadline no route is used, and none is guessed
#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_used_while_the_lease_admits_and_again_when_it_is_renewed() {
    let stores = Stores::new();
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("p").await.unwrap();
    let control = spotlane_store_memory::FaultControl::new();
    let mut short = settings();
    // Not so short that a host which waits for its turn on a busy machine loses it.
    short.owner_lease_renew_interval = Duration::from_millis(200);
    short.owner_lease_ttl = Duration::from_secs(5);
    short.owner_lease_renew_timeout = Duration::from_millis(200);
    short.owner_lease_fencing_margin = Duration::from_millis(500);
    let store = spotlane_store_memory::FaultStore::new(stores.location.clone(), control.clone());
    let g = Host::builder()
        .mesh("test")
        .node_id("g")
        .location_store(store)
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Notes), Player::default)
        .settings(short);
    let g = g.start().await.unwrap();
    connect(&[&a, &g]).await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.ask("note", "1").await.unwrap();
    control.cut_off();
    let refused = loop {
        match client.ask("note", "2").await {
            Ok(_) => tokio::task::yield_now().await,
            Err(refused) => break refused,
        }
    };
    assert!(refused.contains("no longer valid"), "{refused}");
    control.heal();
    loop {
        match client.ask("note", "3").await {
            Ok(notes) => break assert!(notes.ends_with('3')),
            Err(refused) => assert!(refused.contains("no longer valid"), "{refused}"),
        }
    }
}

/// SB-5: sessions without Actors of their own need nothing; with Actors the store is there before the host is
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_01_a_host_of_sessions_has_its_store_or_does_not_start() {
    let started = Host::builder().mesh("test").node_id("g").start().await;
    let error = started.err().map(|error| error.to_string());
    let error = error.expect("a host without a location store does not start");
    assert!(
        error.contains("store") && error.contains("missing"),
        "{error}"
    );
    // A host that takes no Actors is a client of those that do: its sessions bind them all the same.
    let stores = Stores::new();
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("p").await.unwrap();
    let g = Host::builder()
        .mesh("test")
        .node_id("g")
        .location_store(stores.location.clone())
        .settings(settings());
    let g = g.start().await.unwrap();
    connect(&[&a, &g]).await;
    let stream = gate(&g).await;
    let mut client = Client::connect(&stream).await;
    client.ask_until_open("login-found", "p").await;
    assert_eq!(client.ask("place", "").await.unwrap(), "a");
}
