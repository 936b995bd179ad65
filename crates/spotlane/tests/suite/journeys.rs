//! Actors with a client that join the Entry Spot of another host: the journeys of the behavior vectors.

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
use crate::two_hosts::acquainted;

const PATIENCE: Duration = Duration::from_secs(30);

/// An Actor that goes where its client wants, and says so when it is there.
#[derive(Default)]
struct Traveller {
    places: Vec<String>,
}

fn name(node: &spotlane::id::NodeRid) -> String {
    String::from_utf8_lossy(node.as_bytes()).into_owned()
}

impl Traveller {
    async fn go(&mut self, context: &mut Context, to: Payload) -> Result<(), Error> {
        let to = spotlane::id::NodeRid::new(to.as_bytes())?;
        context.join_entry_spot().to(&to).defer()
    }

    async fn place(&mut self, context: &mut Context, _: Payload) -> String {
        name(context.node())
    }

    async fn places(&mut self, _: &mut Context, _: Payload) -> String {
        self.places.join(",")
    }
}

impl Actor for Traveller {
    const TYPE: &'static str = "traveller";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("go", Self::go)
            .request("place", Self::place)
            .request("places", Self::places);
    }

    async fn on_join_completed(&mut self, context: &mut Context, outcome: JoinOutcome) {
        assert!(
            matches!(outcome, JoinOutcome::Accepted { .. }),
            "{outcome:?}"
        );
        let place = name(context.node());
        let push = Payload::bytes(place.clone());
        self.places.push(place);
        context.bound_session().send("arrived", push).unwrap();
    }
}

struct Places;

impl Adapter<Traveller> for Places {
    async fn capture(&self, traveller: &mut Traveller) -> Result<Bytes, Error> {
        Ok(Bytes::from(traveller.places.join(",")))
    }

    async fn restore(&self, traveller: &mut Traveller, state: Bytes) -> Result<(), Error> {
        let text = String::from_utf8_lossy(&state).into_owned();
        let places = text.split(',').filter(|place| !place.is_empty());
        traveller.places = places.map(str::to_owned).collect();
        Ok(())
    }
}

/// Binds `t` with the first packet, relays everything else.
struct Gate {
    host: Host,
    actor: Option<SessionActor>,
}

impl SessionHandler for Gate {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let failed = |error: Error| HandlerFailure::new(error.kind().name(), error.to_string());
        let Some(actor) = &self.actor else {
            let found = self.host.actors().find("t").await.map_err(failed)?;
            let found = found.ok_or_else(HandlerFailure::internal)?;
            self.actor = Some(self.host.bind(session, &found).await.map_err(failed)?);
            packet.reply(spotlane::session::Payload::json("{}")).await?;
            return Ok(());
        };
        let relayed = actor.relay(packet).await;
        relayed.map_err(|error| HandlerFailure::new("Unavailable", error.to_string()))
    }
}

async fn host(node: &str, stores: &Stores) -> Host {
    let host = Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Places), Traveller::default)
        .settings(settings())
        .start();
    host.await.unwrap()
}

/// One client, by hand.
struct Client {
    socket: TcpStream,
    decoder: FrameDecoder,
    next: u64,
}

impl Client {
    async fn bound(stream: &SessionStream) -> Self {
        let mut client = Self {
            socket: TcpStream::connect(stream.endpoint().address).await.unwrap(),
            decoder: FrameDecoder::new(SizeBound::None, FlowRule::Judge),
            next: 1,
        };
        assert_eq!(client.ask("bind", "").await, ["{}"]);
        client
    }

    async fn frame(&mut self) -> Frame {
        let next = async {
            loop {
                while let Some(frame) = self.decoder.next_frame().unwrap() {
                    if frame != Frame::Control(Control::Ping) {
                        return frame;
                    }
                    let pong = to_bytes(&Control::Pong.into()).unwrap();
                    self.socket.write_all(&pong).await.unwrap();
                }
                let read = self.socket.read_buf(self.decoder.buffer()).await.unwrap();
                assert_ne!(read, 0, "the connection was closed");
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("a frame")
    }

    /// Asks, and gives the pushes that came before the answer, and the answer.
    async fn ask(&mut self, name: &str, payload: &str) -> Vec<String> {
        let frame = Frame::Request {
            sequence: Sequence::new(self.next).unwrap(),
            name: Name::application(name).unwrap(),
            payload: spotlane::session::Payload::json(payload.to_owned()),
            extras: Extras::default(),
        };
        self.next += 1;
        self.socket
            .write_all(&to_bytes(&frame).unwrap())
            .await
            .unwrap();
        let mut seen = Vec::new();
        loop {
            match self.frame().await {
                Frame::Response { payload, .. } => {
                    seen.push(String::from_utf8_lossy(&payload.bytes).into_owned());
                    return seen;
                }
                Frame::Send { name, payload, .. } => {
                    let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                    seen.push(format!("{} {text}", name.as_str()));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    async fn pushed(&mut self) -> String {
        match self.frame().await {
            Frame::Send { name, payload, .. } => {
                let text = String::from_utf8_lossy(&payload.bytes).into_owned();
                format!("{} {text}", name.as_str())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A traveller `t` on the first of three hosts, and a client of it on the third.
async fn journey() -> ([Host; 3], SessionStream, Client) {
    let stores = Stores::new();
    let a = host("a", &stores).await;
    a.actors().create::<Traveller>("t").await.unwrap();
    let (b, g) = (host("b", &stores).await, host("g", &stores).await);
    acquainted(&[&a, &b, &g]).await;
    let settings = StreamSettings::new("tcp://127.0.0.1:0".parse().unwrap());
    let at = g.clone();
    let stream = g.listen_for_sessions(settings, move |_| Gate {
        host: at.clone(),
        actor: None,
    });
    let stream = stream.await.unwrap();
    let client = Client::bound(&stream).await;
    ([a, b, g], stream, client)
}

/// RL-70, RL-350, SES-3, SES-4: what the completion of a Join pushes while its session is still sealed comes once, when the
/// route has switched.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_the_completion_reaches_the_client_once() {
    let (_hosts, _stream, mut client) = journey().await;
    assert_eq!(client.ask("go", "b").await, [""]);
    assert_eq!(client.pushed().await, "arrived b");
    // Nothing came twice: the next frame is the answer.
    assert_eq!(client.ask("place", "").await, ["b"]);
    assert_eq!(client.ask("places", "").await, ["b"]);
}

/// RL-152, RL-154, RL-161, SES-4, SB-14: there and back, with one session all the time. A host with the very first route
/// is followed once on each way; the object's incarnation is the same, and each request is handled once where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_actor_joins_there_and_back() {
    let ([a, b, g], _stream, mut client) = journey().await;
    let place = async |host: &Host| -> String {
        let call = host.actor("t").request("place", Payload::empty());
        call.reply().await.unwrap()
    };
    let first = g.actors().find("t").await.unwrap().unwrap();
    assert_eq!(place(&b).await, "a");
    client.ask("go", "b").await;
    assert_eq!(client.pushed().await, "arrived b");
    // On the old route: followed, and answered by the new owner.
    assert_eq!(place(&g).await, "b");
    assert_eq!(client.ask("place", "").await, ["b"]);
    // The move back is admitted when the book-keeping of the first one is over; then nothing moves at the same time.
    client.ask("go", "a").await;
    assert_eq!(client.pushed().await, "arrived a");
    // A notice about the first tenure of `a`, however late, takes the route to its second one from nobody.
    for host in [&b, &g, &a] {
        assert_eq!(place(host).await, "a");
    }
    assert_eq!(client.ask("place", "").await, ["a"]);
    assert_eq!(client.ask("places", "").await, ["b,a"]);
    let last = g.actors().find("t").await.unwrap().unwrap();
    assert_eq!(last.generation(), first.generation());
    assert_eq!((a.status().actors, b.status().actors), (1, 0));
}
