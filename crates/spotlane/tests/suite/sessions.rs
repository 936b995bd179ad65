//! Clients on real sockets, bound to Actors that live on other hosts and move.

use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::{
    HandlerFailure, Packet, Session, SessionActor, SessionHandler, SessionStream, StreamSettings,
};
use spotlane_stream_proto::{
    Control, Extras, FlowRule, Frame, FrameDecoder, Name, Sequence, SizeBound, to_bytes,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{Stores, settings};
use crate::two_hosts::connect;

/// An Actor that notes what its client says, and talks back.
#[derive(Default)]
struct Player {
    notes: Vec<String>,
}

fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(payload.as_bytes()).into_owned()
}

impl Player {
    async fn note(&mut self, _: &mut Context, payload: Payload) -> String {
        self.notes.push(text(&payload));
        self.notes.join(",")
    }

    async fn place(&mut self, context: &mut Context, _: Payload) -> String {
        String::from_utf8_lossy(context.node().as_bytes()).into_owned()
    }

    async fn tell(&mut self, context: &mut Context, payload: Payload) -> Result<(), Error> {
        context.bound_session().send("told", payload)
    }

    async fn join(&mut self, context: &mut Context, payload: Payload) -> Result<(), Error> {
        let node = spotlane::id::NodeRid::new(payload.as_bytes())?;
        context.join_entry_spot().to(&node).defer()
    }

    async fn kick(&mut self, context: &mut Context, _: Payload) -> Result<(), Error> {
        context.bound_session().close()
    }
}

impl Actor for Player {
    const TYPE: &'static str = "player";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("note", Self::note)
            .request("place", Self::place)
            .request("tell", Self::tell)
            .request("join", Self::join)
            .request("kick", Self::kick);
    }
}

struct Notes;

impl Adapter<Player> for Notes {
    async fn capture(&self, player: &mut Player) -> Result<Bytes, Error> {
        Ok(Bytes::from(player.notes.join(",")))
    }

    async fn restore(&self, player: &mut Player, state: Bytes) -> Result<(), Error> {
        let text = String::from_utf8_lossy(&state).into_owned();
        let notes = text.split(',').filter(|note| !note.is_empty());
        player.notes = notes.map(str::to_owned).collect();
        Ok(())
    }
}

/// Binds on `login`, relays everything else.
struct Gate {
    host: Host,
    actor: Option<SessionActor>,
}

impl SessionHandler for Gate {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let failed = |error: Error| HandlerFailure::new(error.kind().name(), error.to_string());
        if packet.name() == "login" {
            let id = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
            let created = self.host.actors().get_or_create::<Player>(&id).await;
            let created = created.map_err(failed)?;
            let actor = created.actor().ok_or_else(HandlerFailure::internal)?;
            let bound = self.host.bind(session, actor).await.map_err(failed)?;
            self.actor = Some(bound);
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        match &self.actor {
            Some(actor) => actor
                .relay(packet)
                .await
                .map_err(|error| HandlerFailure::new("Unavailable", error.to_string())),
            None => Err(HandlerFailure::new("InvalidOperation", "log in first")),
        }
    }

    async fn replaced(
        &mut self,
        session: &Session,
        _: &spotlane::id::ActorId,
    ) -> Result<(), HandlerFailure> {
        let name = Name::application("replaced").unwrap();
        Ok(session
            .send(name, spotlane::session::Payload::json("{}"))
            .await?)
    }
}

async fn player_host(node: &str, stores: &Stores) -> Host {
    let host = Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Notes), Player::default)
        .settings(settings())
        .start();
    host.await.unwrap()
}

async fn gate(host: &Host) -> SessionStream {
    let settings = StreamSettings::new("tcp://127.0.0.1:0".parse().unwrap());
    let at = host.clone();
    let stream = host.listen_for_sessions(settings, move |_| Gate {
        host: at.clone(),
        actor: None,
    });
    stream.await.unwrap()
}

/// A client by hand.
struct Client {
    socket: TcpStream,
    decoder: FrameDecoder,
    next: u64,
}

impl Client {
    async fn connect(stream: &SessionStream) -> Self {
        Self {
            socket: TcpStream::connect(stream.endpoint().address).await.unwrap(),
            decoder: FrameDecoder::new(SizeBound::None, FlowRule::Judge),
            next: 1,
        }
    }

    async fn login(stream: &SessionStream, id: &str) -> Self {
        let mut client = Self::connect(stream).await;
        client.ask("login", id).await.unwrap();
        client
    }

    /// Sends a request and gives its number.
    async fn send(&mut self, name: &str, payload: &str) -> u64 {
        let sequence = self.next;
        self.next += 1;
        let frame = Frame::Request {
            sequence: Sequence::new(sequence).unwrap(),
            name: Name::application(name).unwrap(),
            payload: spotlane::session::Payload::json(payload.to_owned()),
            extras: Extras::default(),
        };
        self.socket
            .write_all(&to_bytes(&frame).unwrap())
            .await
            .unwrap();
        sequence
    }

    async fn frame(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                while let Some(frame) = self.decoder.next_frame().unwrap() {
                    if frame == Frame::Control(Control::Ping) {
                        let pong = to_bytes(&Control::Pong.into()).unwrap();
                        drop(self.socket.write_all(&pong).await);
                    } else {
                        return Some(frame);
                    }
                }
                if matches!(
                    self.socket.read_buf(self.decoder.buffer()).await,
                    Ok(0) | Err(_)
                ) {
                    return None;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(15), next)
            .await
            .expect("a frame or the end")
    }

    /// The next answer: its number, and the text or the code of the error.
    async fn answer(&mut self) -> (u64, Result<String, String>) {
        match self.frame().await {
            Some(Frame::Response {
                sequence, payload, ..
            }) => {
                let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                (sequence.get(), Ok(text))
            }
            Some(Frame::Error {
                sequence: Some(sequence),
                payload,
                ..
            }) => {
                let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                (sequence.get(), Err(text))
            }
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&mut self, name: &str, payload: &str) -> Result<String, String> {
        let sent = self.send(name, payload).await;
        let (sequence, answer) = self.answer().await;
        assert_eq!(sequence, sent);
        answer
    }

    async fn pushed(&mut self) -> (String, String) {
        match self.frame().await {
            Some(Frame::Send { name, payload, .. }) => {
                let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                (name.as_str().to_owned(), text)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// SB-30, SB-31, SB-37, EX-281: on the session's own host and on another.
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_07_bind_relay_reply_and_push_here_and_between_hosts() {
    let stores = Stores::new();
    // The first host that there is gets the Actor.
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("far").await.unwrap();
    let g = player_host("g", &stores).await;
    connect(&[&a, &g]).await;
    a.actors().create::<Player>("near").await.unwrap();
    let near = a.actors().find("near").await.unwrap().unwrap();
    if near.node() == a.node_id() {
        while a.nodes().len() < 2 {
            tokio::task::yield_now().await;
        }
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
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    g.actor("p")
        .request("tell", Payload::bytes("x"))
        .reply::<()>()
        .await
        .unwrap();
    assert_eq!(client.pushed().await, ("told".to_owned(), "x".to_owned()));
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
    let stores = Stores::new();
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("p").await.unwrap();
    let g = player_host("g", &stores).await;
    connect(&[&a, &g]).await;
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
    drop(client);
    loop {
        let told = g
            .actor("p")
            .request("tell", Payload::bytes("x"))
            .reply::<()>()
            .await;
        if told.is_err() {
            break;
        }
    }
    let mut again = Client::connect(&stream).await;
    let refused = again.ask("note", "x").await.unwrap_err();
    assert!(
        refused.contains("InvalidOperation"),
        "T-BND-19: nothing is restored"
    );
    again.ask("login", "p").await.unwrap();
    assert_eq!(again.ask("note", "more").await.unwrap(), "kept,more");
}

/// SES-1, SES-3, SES-4, SB-14, RL-357: requests in flight while the Actor moves are answered once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn t_ses_01_the_connection_stays_while_the_actor_moves() {
    let stores = Stores::new();
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("p").await.unwrap();
    let b = player_host("b", &stores).await;
    let g = player_host("g", &stores).await;
    connect(&[&a, &b, &g]).await;
    while a.nodes().len() < 3 || b.nodes().len() < 3 {
        tokio::task::yield_now().await;
    }
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
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
    let stores = Stores::new();
    let a = player_host("a", &stores).await;
    a.actors().create::<Player>("p").await.unwrap();
    let b = player_host("b", &stores).await;
    let g = player_host("g", &stores).await;
    connect(&[&a, &b, &g]).await;
    while a.nodes().len() < 3 || b.nodes().len() < 3 {
        tokio::task::yield_now().await;
    }
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
