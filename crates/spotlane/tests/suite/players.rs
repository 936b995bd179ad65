//! The application of the session tests: Actors that talk to their clients, a gate that binds them, and clients by hand
//! over TCP and WebSocket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane::HostBuilder;
use spotlane::prelude::*;
use spotlane::session::{
    HandlerFailure, Packet, Session, SessionActor, SessionHandler, SessionStream, StreamSettings,
    Transport,
};
use spotlane_session::ActorRoute;
use spotlane_stream_proto::ws::{self, Mask, Side};
use spotlane_stream_proto::{
    Carrier, Control, Extras, FlowRule, Frame, Name, Sequence, SizeBound, Step, to_bytes,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_wire::reference::ActorRef as WireActorRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::app::{Stores, settings};
use crate::proxy::{Proxy, Way, Wire};
use crate::two_hosts::{acquainted, connect};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the players of a test have in common.
#[derive(Clone, Default)]
pub(crate) struct Game {
    /// How often a player was told that its session has left.
    pub(crate) left: Arc<AtomicU64>,
    /// Makes that callback panic, once.
    pub(crate) panics: Arc<AtomicBool>,
    /// `wait` has begun.
    pub(crate) began: Arc<Notify>,
    /// Lets `wait` go on.
    pub(crate) go_on: Arc<Notify>,
}

impl Game {
    /// Waits until so many players were told.
    pub(crate) async fn left(&self, count: u64) {
        until(|| self.left.load(Ordering::SeqCst) >= count).await;
        assert_eq!(self.left.load(Ordering::SeqCst), count);
    }
}

/// Waits for something that others bring about.
pub(crate) async fn until(there: impl Fn() -> bool) {
    let wait = async {
        while !there() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("in time");
}

/// An Actor that notes what its client says, and talks back.
#[derive(Default)]
pub(crate) struct Player {
    notes: Vec<String>,
    game: Game,
}

fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(payload.as_bytes()).into_owned()
}

impl Player {
    async fn note(&mut self, _: &mut Context, payload: Payload) -> String {
        self.notes.push(text(&payload));
        self.notes.join(",")
    }

    /// As `note` for floods of large packets: keeps what stands before the filling, and gives nothing back.
    async fn jot(&mut self, _: &mut Context, payload: Payload) {
        let text = text(&payload);
        self.notes.push(text.trim_end_matches('x').to_owned());
    }

    async fn count(&mut self, _: &mut Context, _: Payload) -> String {
        self.notes.len().to_string()
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

    async fn wait(&mut self, _: &mut Context, _: Payload) {
        self.game.began.notify_one();
        self.game.go_on.notified().await;
    }
}

impl Actor for Player {
    const TYPE: &'static str = "player";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("note", Self::note)
            .send("jot", Self::jot)
            .request("count", Self::count)
            .request("place", Self::place)
            .request("tell", Self::tell)
            .request("join", Self::join)
            .request("kick", Self::kick)
            .request("wait", Self::wait);
    }

    async fn on_disconnected(&mut self, context: &mut Context) {
        self.notes.push("left".to_owned());
        self.game.left.fetch_add(1, Ordering::SeqCst);
        // SB-61: the binding stands until this has ended. A client that is still there hears of it.
        drop(context.bound_session().send("farewell", Payload::empty()));
        assert!(!self.game.panics.swap(false, Ordering::SeqCst), "as asked");
    }
}

pub(crate) struct Notes;

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

/// Where an Actor was when somebody of this gate remembered it.
type Remembered = Arc<Mutex<Option<(WireActorRef, ActorRoute)>>>;

/// Binds on `login`, takes leave on `logout`, relays everything else.
pub(crate) struct Gate {
    host: Host,
    actor: Option<SessionActor>,
    remembered: Remembered,
}

impl Gate {
    /// Makes one value of what is remembered another one, which is as good as a value that is out of date.
    fn alter(&self, value: &str) -> Option<()> {
        let mut remembered = self.remembered.lock().unwrap();
        let (actor, route) = remembered.as_mut()?;
        let next = |number: u64| number.checked_add(1).unwrap_or(1);
        match value {
            "object" => {
                let number = next(actor.object_generation.get());
                actor.object_generation = ObjectGeneration::new(number).ok()?;
            }
            "node" => {
                let number = next(route.node_generation.get());
                route.node_generation = NodeGeneration::new(number).ok()?;
            }
            "owner" => {
                let number = next(route.authority_owner_generation.get());
                route.authority_owner_generation = AuthorityOwnerGeneration::new(number).ok()?;
            }
            "lease" => {
                let number = next(route.owner_lease_generation.get());
                route.owner_lease_generation = OwnerLeaseGeneration::new(number).ok()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// As `login`, for an Actor that is there.
    async fn login_found(
        &mut self,
        session: &Session,
        packet: Packet,
    ) -> Result<(), HandlerFailure> {
        let failed = |error: Error| HandlerFailure::new(error.kind().name(), error.to_string());
        let id = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
        let found = self.host.actors().find(&id).await.map_err(failed)?;
        let found = found.ok_or_else(HandlerFailure::internal)?;
        self.actor = Some(self.host.bind(session, &found).await.map_err(failed)?);
        packet.reply(spotlane::session::Payload::json("{}")).await?;
        Ok(())
    }

    async fn login(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let failed = |error: Error| HandlerFailure::new(error.kind().name(), error.to_string());
        let id = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
        let created = self.host.actors().get_or_create::<Player>(&id).await;
        let created = created.map_err(failed)?;
        let actor = created.actor().ok_or_else(HandlerFailure::internal)?;
        let bound = self.host.bind(session, actor).await.map_err(failed)?;
        self.actor = Some(bound);
        packet.reply(spotlane::session::Payload::json("{}")).await?;
        Ok(())
    }
}

impl SessionHandler for Gate {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        if packet.name() == "login" {
            return self.login(session, packet).await;
        }
        if packet.name() == "login-found" {
            return self.login_found(session, packet).await;
        }
        if packet.name() == "switch" {
            // SB-6: among the bindings of this session and nowhere else.
            let id = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
            let id = id.parse().map_err(|_| HandlerFailure::internal())?;
            let found = session.actors().and_then(|actors| actors.find(&id));
            self.actor = Some(found.ok_or_else(|| HandlerFailure::new("NotFound", "not bound"))?);
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        if packet.name() == "login-there" {
            let there = self.remembered.lock().unwrap().clone();
            let (actor, route) = there.ok_or_else(HandlerFailure::internal)?;
            let actors = spotlane_stream::actors_of(session);
            let actors = actors.ok_or_else(HandlerFailure::internal)?;
            let bound = actors.bind(actor, route).await;
            let bound = bound.map_err(|error| {
                let kind = format!("{:?}", error.kind());
                HandlerFailure::new(&kind, error.to_string())
            })?;
            self.actor = Some(bound);
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        if packet.name() == "alter" {
            let text = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
            self.alter(&text).ok_or_else(HandlerFailure::internal)?;
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        let Some(actor) = &self.actor else {
            return Err(HandlerFailure::new("InvalidOperation", "log in first"));
        };
        let failed = |error: String| HandlerFailure::new("Unavailable", error);
        if packet.name() == "snapshot" {
            let node = actor.node().ok_or_else(HandlerFailure::internal)?;
            let node = String::from_utf8_lossy(node.as_bytes()).into_owned();
            let reference = actor.actor_ref();
            let (id, generation) = (&reference.actor_id, reference.object_generation.get());
            let text = format!("{id} {generation} on {node}");
            packet.reply(spotlane::session::Payload::json(text)).await?;
            return Ok(());
        }
        if packet.name() == "remember" {
            let route = spotlane_stream::route_of(actor);
            let route = route.map(|route| (actor.actor_ref().clone(), route));
            *self.remembered.lock().unwrap() = route;
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        if packet.name() == "logout" {
            let told = actor.notify_disconnected().await;
            told.map_err(|error| failed(error.to_string()))?;
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        }
        let relayed = actor.relay(packet).await;
        relayed.map_err(|error| failed(error.to_string()))
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

pub(crate) async fn player_host(node: &str, stores: &Stores) -> Host {
    players(node, stores, &Game::default(), settings()).await
}

pub(crate) async fn players(node: &str, stores: &Stores, game: &Game, settings: Settings) -> Host {
    let host = player_builder(node, stores, game, settings).start();
    host.await.unwrap()
}

pub(crate) fn player_builder(
    node: &str,
    stores: &Stores,
    game: &Game,
    settings: Settings,
) -> HostBuilder {
    let game = game.clone();
    Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Notes), move || Player {
            game: game.clone(),
            ..Player::default()
        })
        .settings(settings)
}

/// `a` with the Actor `p`, and `g` for streams, which know each other.
pub(crate) async fn pair() -> (Host, Host, Game) {
    let (stores, game) = (Stores::new(), Game::default());
    let a = players("a", &stores, &game, settings()).await;
    a.actors().create::<Player>("p").await.unwrap();
    let g = players("g", &stores, &game, settings()).await;
    acquainted(&[&a, &g]).await;
    (a, g, game)
}

/// `a` with the Actors `ids`, `b` where they can move, and `g` for streams, which know each other.
pub(crate) async fn trio(ids: &[&str]) -> ([Host; 3], Game) {
    trio_with(ids, settings(), settings()).await
}

/// As [`trio`], with other settings of the owners and of `g`.
pub(crate) async fn trio_with(
    ids: &[&str],
    owners: Settings,
    streams: Settings,
) -> ([Host; 3], Game) {
    let (stores, game) = (Stores::new(), Game::default());
    let a = players("a", &stores, &game, owners.clone()).await;
    // Nobody else is there yet, so they are made here.
    for id in ids {
        a.actors().create::<Player>(id).await.unwrap();
    }
    let b = players("b", &stores, &game, owners).await;
    let g = players("g", &stores, &game, streams).await;
    acquainted(&[&a, &b, &g]).await;
    ([a, b, g], game)
}

/// As [`pair`], with a wire that steers what goes from `sender` to the other one.
pub(crate) async fn wired_pair(sender: &str, settings: Settings) -> (Host, Host, Game, Wire) {
    let (stores, game, wire) = (Stores::new(), Game::default(), Wire::new());
    let at = async |node: &str| {
        let way = if node == sender { Way::Out } else { Way::In };
        let proxy = Proxy::start(&wire, way).await;
        let host = player_builder(node, &stores, &game, settings.clone())
            .listen(proxy.listen())
            .advertise(proxy.advertise());
        host.start().await.unwrap()
    };
    let a = at("a").await;
    a.actors().create::<Player>("p").await.unwrap();
    let g = at("g").await;
    connect(&[&a, &g]).await;
    (a, g, game, wire)
}

pub(crate) async fn gate(host: &Host) -> SessionStream {
    gate_on(host, "tcp").await
}

pub(crate) async fn gate_on(host: &Host, scheme: &str) -> SessionStream {
    let endpoint = format!("{scheme}://127.0.0.1:0").parse().unwrap();
    let (at, remembered) = (host.clone(), Remembered::default());
    let stream = host.listen_for_sessions(StreamSettings::new(endpoint), move |_| Gate {
        host: at.clone(),
        actor: None,
        remembered: Arc::clone(&remembered),
    });
    stream.await.unwrap()
}

/// Nobody reads any more when a socket takes nothing for so long.
const STALLED: Duration = Duration::from_millis(500);

/// A client by hand.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    carrier: Carrier,
    pub(crate) next: u64,
}

#[expect(clippy::unnecessary_wraps, reason = "what a carrier asks for")]
fn mask() -> Option<Mask> {
    Some(Mask::new([9, 8, 7, 6]))
}

impl Client {
    pub(crate) async fn connect(stream: &SessionStream) -> Self {
        let endpoint = stream.endpoint();
        let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (bound, flow) = (SizeBound::None, FlowRule::Judge);
        let carrier = if endpoint.transport == Transport::Ws {
            let (request, key) = ws::client_request("localhost", "/", [7; 16]);
            socket.write_all(&request).await.unwrap();
            let mut input = bytes::BytesMut::new();
            while ws::parse_response(&mut input, &key).unwrap().is_none() {
                assert!(socket.read_buf(&mut input).await.unwrap() > 0);
            }
            Carrier::websocket(Side::Client, input, bound, flow)
        } else {
            Carrier::plain(bound, flow)
        };
        Self {
            socket,
            carrier,
            next: 1,
        }
    }

    pub(crate) async fn login(stream: &SessionStream, id: &str) -> Self {
        let mut client = Self::connect(stream).await;
        client.ask_until_open("login", id).await;
        client
    }

    /// Asks again while the Actor is on its way, which takes no session (SB-72).
    pub(crate) async fn ask_until_open(&mut self, name: &str, payload: &str) {
        let open = async {
            while let Err(refused) = self.ask(name, payload).await {
                assert!(refused.contains("Unavailable"), "{refused}");
            }
        };
        let open = tokio::time::timeout(PATIENCE, open).await;
        assert!(open.is_ok(), "the actor opens for no session");
    }

    /// Bytes of frames as this client's transport carries them.
    pub(crate) fn carried(&self, frames: &[u8]) -> Vec<u8> {
        let mut out = bytes::BytesMut::new();
        self.carrier.put(frames, mask, &mut out);
        out.to_vec()
    }

    /// A request and its number.
    pub(crate) fn request(&mut self, name: &str, payload: &str) -> (u64, Vec<u8>) {
        let sequence = self.next;
        self.next += 1;
        let frame = Frame::Request {
            sequence: Sequence::new(sequence).unwrap(),
            name: Name::application(name).unwrap(),
            payload: spotlane::session::Payload::json(payload.to_owned()),
            extras: Extras::default(),
        };
        (sequence, self.carried(&to_bytes(&frame).unwrap()))
    }

    /// A one-way packet.
    pub(crate) fn one_way(&self, name: &str, payload: &str) -> Vec<u8> {
        let frame = Frame::Send {
            name: Name::application(name).unwrap(),
            payload: spotlane::session::Payload::json(payload.to_owned()),
            extras: Extras::default(),
        };
        self.carried(&to_bytes(&frame).unwrap())
    }

    /// Sends a one-way packet.
    pub(crate) async fn write_one_way(&mut self, name: &str, payload: &str) {
        let packet = self.one_way(name, payload);
        self.socket.write_all(&packet).await.unwrap();
    }

    /// Sends up to `most` one-way packets, each with its number in front of `text`, until nobody takes any more. Gives how many
    /// have left as a whole, and the rest of the one that stalled.
    pub(crate) async fn flood(&mut self, name: &str, text: &str, most: u64) -> (u64, Vec<u8>) {
        for number in 0..most {
            let packet = self.one_way(name, &format!("{number}{text}"));
            let mut at = 0;
            while at < packet.len() {
                let write = self.socket.write(&packet[at..]);
                match tokio::time::timeout(STALLED, write).await {
                    Ok(written) => at += written.unwrap(),
                    Err(_) => return (number, packet[at..].to_vec()),
                }
            }
        }
        panic!(
            "nobody pushes back within {most} packets of {} bytes",
            text.len()
        );
    }

    /// Sends a request and gives its number.
    pub(crate) async fn send(&mut self, name: &str, payload: &str) -> u64 {
        let (sequence, bytes) = self.request(name, payload);
        self.socket.write_all(&bytes).await.unwrap();
        sequence
    }

    /// As [`Self::send`], on a connection that may have ended.
    pub(crate) async fn try_send(&mut self, name: &str, payload: &str) {
        let (_, bytes) = self.request(name, payload);
        drop(self.socket.write_all(&bytes).await);
    }

    /// The next answer, whatever it says: `true` when it is no error; `false` also at the end of the connection.
    pub(crate) async fn any_answer(&mut self) -> bool {
        loop {
            match self.frame().await {
                Some(Frame::Response { .. }) => return true,
                Some(Frame::Send { .. }) => {}
                _ => return false,
            }
        }
    }

    /// The next frame that is no ping; `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.next_frame())
            .await
            .expect("a frame or the end")
    }

    async fn next_frame(&mut self) -> Option<Frame> {
        let mut out = bytes::BytesMut::new();
        loop {
            match self.carrier.advance(mask, &mut out).unwrap() {
                Step::Control | Step::Packet => match self.carrier.take().unwrap() {
                    Some(Frame::Control(Control::Ping)) => {
                        let pong = to_bytes(&Control::Pong.into()).unwrap();
                        self.carrier.put(&pong, mask, &mut out);
                    }
                    Some(frame) => {
                        self.answer_pings(&out).await;
                        return Some(frame);
                    }
                    None => {}
                },
                Step::End => return None,
                Step::Read => {
                    self.answer_pings(&out).await;
                    out.clear();
                    let read = self.socket.read_buf(self.carrier.input()).await;
                    if matches!(read, Ok(0) | Err(_)) {
                        return None;
                    }
                }
            }
        }
    }

    async fn answer_pings(&mut self, pongs: &[u8]) {
        // A server that has closed does not need them.
        drop(self.socket.write_all(pongs).await);
    }

    /// The next answer: its number, and the text or the code of the error.
    pub(crate) async fn answer(&mut self) -> (u64, Result<String, String>) {
        let text = |payload: spotlane::session::Payload| {
            String::from_utf8_lossy(&payload.bytes).into_owned()
        };
        loop {
            match self.frame().await {
                Some(Frame::Response {
                    sequence, payload, ..
                }) => return (sequence.get(), Ok(text(payload))),
                Some(Frame::Error {
                    sequence: Some(sequence),
                    payload,
                    ..
                }) => return (sequence.get(), Err(text(payload))),
                Some(Frame::Send { name, .. }) if name.as_str() == "farewell" => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn ask(&mut self, name: &str, payload: &str) -> Result<String, String> {
        let sent = self.send(name, payload).await;
        let (sequence, answer) = self.answer().await;
        assert_eq!(sequence, sent);
        answer
    }

    pub(crate) async fn pushed(&mut self) -> (String, String) {
        match self.frame().await {
            Some(Frame::Send { name, payload, .. }) => {
                let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                (name.as_str().to_owned(), text)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the server ends the connection.
    pub(crate) async fn closed(&mut self) {
        while self.frame().await.is_some() {}
    }
}

/// Has the player say something to its session.
pub(crate) async fn tell(host: &Host, id: &str, text: &str) -> Result<(), Error> {
    let text = Payload::bytes(text.to_owned());
    host.actor(id).request("tell", text).reply().await
}
