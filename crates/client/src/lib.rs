//! A client of Spotlane sessions over `tcp`, `tls`, `ws` and `wss`.
//!
//! A [`Client`] connects, sends, asks, and makes a lost connection again; an [`Inbox`] has what came
//! without being asked for. Heartbeats and liveness need nobody's attention (ST-170). A connection that
//! was made again is a new session: bindings do not come back, log in again (S§9).
//!
//! A client is one task and a few hundred bytes while nothing happens, so that thousands fit into a
//! process. Layer 5, async; it shares the codec with the server and nothing else (ST-180).
//!
//! ```no_run
//! use spotlane_client::{Client, ClientSettings, Name, Payload};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let (client, mut inbox) = Client::new(ClientSettings::new("tcp://localhost:4000".parse()?))?;
//! client.connect().await?;
//! let login = Payload::json(r#"{"actor":"ann"}"#);
//! let answer = client.request(Name::application("login")?, login).await?;
//! while let Some(incoming) = inbox.next().await {
//!     println!("{incoming:?}");
//! }
//! # drop(answer); Ok(()) }
//! ```
//!
//! # When the connection is lost
//!
//! Requests that wait end with [`RequestError::Disconnected`]: whether they ran is open. The inbox then has, in this order:
//!
//! 1. `State(Disconnected)` and `Disconnected(reason)`;
//! 2. `State(Reconnecting)` while the client dials ([`Reconnect`], three attempts by default);
//! 3. `State(Connected)`, or `State(Disconnected)` when all attempts failed. Then nothing happens until
//!    [`Client::connect`] is called again.
//!
//! Calls meanwhile end with [`RequestError::NotConnected`] at once; nothing is queued. A session of its own goes with each
//! connection, so the login belongs where the connection is reported:
//!
//! ```no_run
//! use spotlane_client::{Client, ConnectorState, Inbox, Incoming, Name, Payload, RequestError};
//!
//! async fn log_in(client: &Client) -> Result<Payload, RequestError> {
//!     let name = Name::application("login").expect("a name of an application");
//!     client.request(name, Payload::json(r#"{"actor":"ann"}"#)).await
//! }
//!
//! /// Stays logged in for as long as the server can be reached. Spawn it: it takes everything that comes.
//! async fn stay(client: Client, mut inbox: Inbox) {
//!     while let Some(incoming) = inbox.next().await {
//!         match incoming {
//!             // Also the first time.
//!             Incoming::State(ConnectorState::Connected) => match log_in(&client).await {
//!                 Ok(_) => println!("logged in"),
//!                 // The connection has gone again, which the inbox says as well.
//!                 Err(RequestError::Disconnected(_) | RequestError::NotConnected) => {}
//!                 Err(error) => println!("refused: {error}"),
//!             },
//!             Incoming::Disconnected(reason) => {
//!                 println!("lost: {reason:?}");
//!                 // Waits for the attempts that run, or begins some when there are none (any more).
//!                 if client.connect().await.is_err() {
//!                     client.close().await;
//!                 }
//!             }
//!             Incoming::Push(push) => println!("{}: {:?}", push.name.as_str(), push.payload),
//!             _ => {}
//!         }
//!     }
//! }
//! ```
//!
//! A reason is what the server said before it closed. `TransportError` is what is left when it said nothing: a cut, a crash,
//! a frame that was too large, or a later login that took the Actor over.
//!
//! # Staying connected
//!
//! Heartbeats go by themselves, but they do not keep a session from being idle: a server closes it as
//! [`CloseReason::IdleTimeout`] when the application has sent nothing for 30 s (ST-152). A client that only listens sends
//! something small now and then, whatever its server takes.

mod calls;
mod client;
mod dial;
mod endpoint;
mod inbox;
mod random;
mod reconnects;
mod settings;
mod task;
mod tls;

pub use client::Client;
pub use endpoint::{ConfigError, Endpoint};
pub use inbox::{Inbox, Incoming, WaitError};
pub use reconnects::{ReconnectOutcome, ReconnectReason, Reconnects};
pub use settings::{ClientSettings, Diagnostics};
pub use spotlane_stream_proto::connector::{
    AttemptError, Compression, ConnectError, ConnectorState, Heartbeat, Push, Reconnect,
    RequestError, SettingError, StrayError,
};
pub use spotlane_stream_proto::{
    CloseReason, Codec, Extras, Metadata, Name, Packing, Payload, RemoteError, ValueError,
};
pub use tls::ClientTls;
