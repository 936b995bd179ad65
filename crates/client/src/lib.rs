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
