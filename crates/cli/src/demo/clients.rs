//! Clients: real connections, each bound to an actor of its own, each with one request in flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use spotlane_client::{
    Client, ClientSettings, Diagnostics, Inbox, Incoming, Name, Payload, RequestError, ValueError,
};
use spotlane_counter::{Add, Login};
use tokio::time::{Instant, sleep_until};

use crate::descriptors;

use super::oracle::{Number, Outcome, Stream};
use super::tag::{self, Kind};
use super::traffic::{REQUEST_TIMEOUT, Shared};
use super::world::World;

/// How many connect at a time.
const CONNECTING_AT_ONCE: usize = 64;
/// Between two requests of one client at least.
const PERIOD_MIN: Duration = Duration::from_millis(5);

/// Why the clients are not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClientError {
    /// The endpoint of a host.
    #[error(transparent)]
    Config(#[from] spotlane_client::ConfigError),
    /// No connection.
    #[error(
        "a client did not connect: {0}; a client needs two descriptors, and this process may have {limit} (`ulimit -Hn`)",
        limit = descriptors::limit()
    )]
    Connect(#[from] spotlane_client::ConnectError),
    /// No login.
    #[error("a client did not log in: {0}")]
    Login(#[from] RequestError),
    /// A name or value has no form.
    #[error("a packet has no form: {0}")]
    Packet(String),
}

impl From<ValueError> for ClientError {
    fn from(error: ValueError) -> Self {
        Self::Packet(error.to_string())
    }
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        Self::Packet(error.to_string())
    }
}

/// A client that has logged in.
#[derive(Debug)]
pub(crate) struct Connected {
    client: Client,
    inbox: Inbox,
    index: u32,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    connected: AtomicU64,
    closed: AtomicU64,
    moved: AtomicU64,
}

/// Clients by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Clients {
    /// Logged in at the start.
    pub(crate) connected: u64,
    /// Connections that ended before the end; must be 0.
    pub(crate) closed: u64,
    /// Pushes by which actors told that they had moved.
    pub(crate) moved_pushes: u64,
}

impl ClientCounts {
    /// What they are now.
    pub(crate) fn now(&self) -> Clients {
        Clients {
            connected: self.connected.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
            moved_pushes: self.moved.load(Ordering::Relaxed),
        }
    }
}

/// Connects so many clients, in turn to each host, and logs each in to the actor of its number.
///
/// # Errors
/// The first that failed.
pub(crate) async fn connect_all(
    world: &World,
    count: u32,
    counts: &ClientCounts,
) -> Result<Vec<Connected>, ClientError> {
    let connected: Vec<Connected> = stream::iter(0..count)
        .map(|index| connect(world, index))
        .buffer_unordered(CONNECTING_AT_ONCE)
        .try_collect()
        .await?;
    counts.connected.store(count.into(), Ordering::Relaxed);
    Ok(connected)
}

async fn connect(world: &World, index: u32) -> Result<Connected, ClientError> {
    let settings = ClientSettings::new(world.stream(index).parse()?)
        .reconnect(None)
        .request_timeout(REQUEST_TIMEOUT)
        .payload_max(4 << 20, 4 << 20)
        .diagnostics(Diagnostics::Off);
    let (client, inbox) = Client::new(settings)?;
    client.connect().await?;
    let login = serde_json::to_vec(&Login {
        actor: world.id(index).to_owned(),
    })?;
    client
        .request(Name::application("login")?, Payload::json(login))
        .await?;
    Ok(Connected {
        client,
        inbox,
        index,
    })
}

/// Asks until the end; what the host pushes meanwhile is counted.
pub(crate) async fn run(shared: &Shared, connected: Connected, counts: &ClientCounts) {
    let Connected {
        client,
        mut inbox,
        index,
    } = connected;
    let listen = async {
        while let Some(incoming) = inbox.next().await {
            match incoming {
                Incoming::Push(push) if push.name.as_str() == "moved" => {
                    counts.moved.fetch_add(1, Ordering::Relaxed);
                }
                Incoming::Disconnected(_) => {
                    counts.closed.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    };
    tokio::select! {
        () = ask(shared, &client, index) => {}
        () = listen => {}
    }
    client.close().await;
}

async fn ask(shared: &Shared, client: &Client, index: u32) {
    let args = &shared.args;
    let pad = "x".repeat(usize::try_from(args.payload).unwrap_or(0));
    let stream = Stream {
        sender: args.senders + index,
        actor: index,
    };
    let rate = u32::try_from(args.rate).unwrap_or(u32::MAX);
    let period = (Duration::from_secs(1) * args.clients / rate).max(PERIOD_MIN);
    let mut due = shared.start + period.mul_f64(f64::from(index) / f64::from(args.clients.max(1)));
    while !shared.is_over() {
        tokio::select! {
            // Sleep: the pace.
            () = sleep_until(due) => {}
            // Every move is crossed by a request.
            () = shared.world.begins_to_move(index) => {}
        }
        let number = shared.judge(|oracle| oracle.send(stream));
        let outcome = add(shared, client, stream, number, &pad).await;
        shared.judge(|oracle| oracle.end(stream, number, outcome));
        shared
            .payload_bytes
            .fetch_add(args.payload, Ordering::Relaxed);
        due = (due + period).max(Instant::now());
    }
}

async fn add(
    shared: &Shared,
    client: &Client,
    stream: Stream,
    number: Number,
    pad: &str,
) -> Outcome {
    let tag = tag::write(Kind::Add, stream.sender, number);
    let add = Add {
        n: tag::amount(number),
        tag,
        pad: pad.to_owned(),
    };
    let (Ok(name), Ok(packet)) = (Name::application("add"), serde_json::to_vec(&add)) else {
        return Outcome::Refused;
    };
    let asked = shared.ask(stream.actor);
    match client.request(name, Payload::json(packet)).await {
        Ok(_) => {
            shared.answered(stream.actor, asked);
            Outcome::Answered
        }
        // EX-354: it may have been handled or not.
        Err(error) => {
            shared.trouble("client", &error);
            Outcome::Unknown
        }
    }
}
