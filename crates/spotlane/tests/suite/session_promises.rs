//! What section 14 of the session seed asks for, on real hosts and real connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::{HandlerFailure, Packet, Session, SessionHandler, StreamSettings};
use spotlane_stream_proto::Frame;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::app::settings;
use crate::players::{Client, Player, gate, pair, tell, until, wired_pair};

/// SB-2, SB-6, SB-11, SB-64: T-BND-02
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_02_one_session_holds_two_actors_on_two_hosts() {
    let (a, g, game) = pair().await;
    a.actors().create::<Player>("q").await.unwrap();
    if a.actors().find("q").await.unwrap().unwrap().node() == a.node_id() {
        a.relocate("q", g.node_id()).await.unwrap();
    }
    let place = g.actor("q").request("place", Payload::empty());
    assert_eq!(place.reply::<String>().await.unwrap(), "g");
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.ask_until_open("login", "q").await;
    assert_eq!(g.session_counts().bindings, 2);
    for (id, node) in [("p", "a"), ("q", "g"), ("p", "a")] {
        client.ask("switch", id).await.unwrap();
        assert_eq!(client.ask("place", "").await.unwrap(), node);
        client.ask("note", id).await.unwrap();
        tell(&a, id, id).await.unwrap();
        assert_eq!(client.pushed().await.1, id);
    }
    assert_eq!(client.ask("note", "end").await.unwrap(), "p,p,end");
    // The end of one is not the end of the other.
    client.ask("logout", "").await.unwrap();
    let refused = client.ask("switch", "p").await.unwrap_err();
    assert!(refused.contains("NotFound"), "{refused}");
    client.ask("switch", "q").await.unwrap();
    assert_eq!(client.ask("note", "end").await.unwrap(), "q,end");
    game.left(1).await;
}

/// SB-13, SB-71: T-BND-04
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_04_a_reference_to_an_earlier_incarnation_is_refused() {
    let (a, g, _game) = pair().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    client.ask("remember", "").await.unwrap();
    client.ask("logout", "").await.unwrap();
    let first = a.actors().find("p").await.unwrap().unwrap();
    assert!(a.actors().destroy(&first).await.unwrap());
    a.actors().create::<Player>("p").await.unwrap();
    if a.actors().find("p").await.unwrap().unwrap().node() != a.node_id() {
        g.relocate("p", a.node_id()).await.unwrap();
    }
    let place = a.actor("p").request("place", Payload::empty());
    assert_eq!(place.reply::<String>().await.unwrap(), "a");
    let refused = client.ask("login-there", "").await.unwrap_err();
    assert!(refused.contains("InvalidOperation"), "{refused}");
    client.ask_until_open("login", "p").await;
    assert_eq!(client.ask("note", "new").await.unwrap(), "new");
}

/// SB-33, SB-50: a session that does not know yet that another one has its Actor. T-BND-12
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_12_what_the_session_before_relays_is_refused() {
    let (a, g, game, wire) = wired_pair("a", settings()).await;
    let (at_g, at_a) = (gate(&g).await, gate(&a).await);
    let mut first = Client::login(&at_g, "p").await;
    assert_eq!(first.ask("note", "1").await.unwrap(), "1");
    // What the Actor's owner says to the first session does not arrive for now; the other way is open.
    wire.stop_after(0);
    let mut second = Client::login(&at_a, "p").await;
    let late = first.one_way("jot", "late");
    first.socket.write_all(&late).await.unwrap();
    let asked = first.send("note", "late too").await;
    assert_eq!(second.ask("note", "2").await.unwrap(), "1,2");
    wire.go_on();
    // Refused, or cut off by the close that the second login brings.
    while let Some(frame) = first.frame().await {
        match frame {
            Frame::Send { name, .. } => assert_eq!(name.as_str(), "replaced"),
            Frame::Error {
                sequence: Some(sequence),
                ..
            } => assert_eq!(sequence.get(), asked),
            other => panic!("{other:?}"),
        }
    }
    tell(&a, "p", "mine").await.unwrap();
    assert_eq!(second.pushed().await.1, "mine");
    assert_eq!(second.ask("note", "3").await.unwrap(), "1,2,3");
    assert_eq!(game.left.load(Ordering::SeqCst), 0);
}

/// SB-25, SB-26, SB-51: T-BND-14
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_14_a_session_that_binds_again_is_not_replaced() {
    let (a, g, game) = pair().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    for number in 0..3 {
        client.ask("login", "p").await.unwrap();
        tell(&a, "p", &number.to_string()).await.unwrap();
        // Nothing else came in between, and it comes once.
        assert_eq!(
            client.pushed().await,
            ("told".to_owned(), number.to_string())
        );
    }
    assert_eq!(g.session_counts().bindings, 1);
    assert_eq!(client.ask("note", "x").await.unwrap(), "x");
    assert_eq!(game.left.load(Ordering::SeqCst), 0);
    assert_eq!(stream.stats().active(), 1);
}

/// SB-35, SB-59, ST-165: both connections count their requests from one, and the reply to the second request of the former
/// one is no answer to the second of the next. T-BND-10, T-BND-15
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_15_a_late_reply_of_the_former_connection_is_not_applied_to_the_next() {
    let (a, g, game) = pair().await;
    let stream = gate(&g).await;
    let mut former = Client::login(&stream, "p").await;
    assert_eq!(former.send("wait", "").await, 2);
    game.began.notified().await;
    drop(former);
    until(|| a.session_counts().waiting == 1).await;
    let mut next = Client::login(&stream, "p").await;
    assert_eq!(next.send("place", "").await, 2);
    game.go_on.notify_one();
    assert_eq!(next.answer().await, (2, Ok("a".to_owned())));
    tell(&a, "p", "end").await.unwrap();
    loop {
        match next.frame().await {
            Some(Frame::Send { name, .. }) if name.as_str() == "farewell" => {}
            Some(Frame::Send { name, .. }) => break assert_eq!(name.as_str(), "told"),
            other => panic!("{other:?}"),
        }
    }
    game.left(1).await;
}

/// SB-1: what carries bindings out is named by no path of the facade. What its types do not have stands in the examples of
/// `spotlane::session`, which do not compile.
#[test]
fn the_public_surface_names_no_seam() {
    let facade = include_str!("../../src/lib.rs");
    let code = facade
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let module = code.split("pub mod session {").nth(1).expect("the module");
    let module = module.split("\n}").next().expect("its end");
    for name in ["Session,", "SessionActor,", "SessionHandler,", "Packet,"] {
        assert!(module.contains(name), "{name}");
    }
    assert!(!module.contains('*'), "each name is chosen");
    let seam = [
        "ActorBindings",
        "ActorRoute",
        "ActorRouteFence",
        "BindRequest",
        "BindTicket",
        "BindingToken",
        "NoticeTicket",
        "Record",
        "RelayMessage",
        "RelayTicket",
        "SessionActors",
        "SessionIds",
        "StreamServer",
        "actors_of",
        "route_of",
    ];
    for name in seam {
        let named = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == name)
        };
        assert!(!module.lines().any(named), "{name}");
    }
}

/// A handler whose replaced callback says when it began and ended, and may hang.
struct Slow {
    host: Host,
    hangs: Arc<AtomicBool>,
    began: Arc<Notify>,
    at: Arc<Mutex<Option<Instant>>>,
}

impl SessionHandler for Slow {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let found = self.host.actors().find("p").await;
        let found = found.ok().flatten().ok_or_else(HandlerFailure::internal)?;
        let bound = self.host.bind(session, &found).await;
        bound.map_err(|error| HandlerFailure::new("Unavailable", error.to_string()))?;
        packet.reply(spotlane::session::Payload::json("{}")).await?;
        Ok(())
    }

    async fn replaced(
        &mut self,
        _: &Session,
        _: &spotlane::id::ActorId,
    ) -> Result<(), HandlerFailure> {
        self.began.notify_one();
        *self.at.lock().unwrap() = Some(Instant::now());
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// SB-50, SB-54, SB-55: the session before is closed 100 ms after its callback although nothing waits for its client, and when
/// the callback does not end, at the callback timeout; the new one waits for neither. T-BND-11, T-BND-13
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_13_the_session_before_is_closed_after_its_callback_or_without_it() {
    const TIMEOUT: Duration = Duration::from_millis(1_500);
    let stores = crate::app::Stores::new();
    let mut quick = settings();
    quick.session_replacement_callback_timeout = TIMEOUT;
    let game = crate::players::Game::default();
    let g = crate::players::players("g", &stores, &game, quick).await;
    g.actors().create::<Player>("p").await.unwrap();
    let (hangs, began) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let at = Arc::new(Mutex::new(None));
    let settings = StreamSettings::new("tcp://127.0.0.1:0".parse().unwrap());
    let (host, hanging) = (g.clone(), Arc::clone(&hangs));
    let (beginning, noted) = (Arc::clone(&began), Arc::clone(&at));
    let stream = g.listen_for_sessions(settings, move |_| Slow {
        host: host.clone(),
        hangs: Arc::clone(&hanging),
        began: Arc::clone(&beginning),
        at: Arc::clone(&noted),
    });
    let stream = stream.await.unwrap();
    let mut before = Client::login(&stream, "p").await;
    for (hanging, least) in [(false, Duration::from_millis(100)), (true, TIMEOUT)] {
        hangs.store(hanging, Ordering::SeqCst);
        let mut next = Client::login(&stream, "p").await;
        let told = tokio::time::timeout(crate::players::PATIENCE, began.notified()).await;
        told.expect("the session before is told");
        // The new one has the Actor while the callback of the other one runs, or its close is due.
        tell(&g, "p", "mine").await.unwrap();
        assert_eq!(next.pushed().await.1, "mine");
        assert_eq!(before.frame().await, None, "nothing is sent to it");
        let began = at.lock().unwrap().take().expect("it began");
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        before = next;
    }
    assert_eq!(game.left.load(Ordering::SeqCst), 0);
}
