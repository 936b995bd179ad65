//! The settings of a client.

use std::num::NonZeroUsize;
use std::time::Duration;

use spotlane_stream_proto::connector::{Compression, ConnectorSettings, Heartbeat, Reconnect};

use crate::endpoint::Endpoint;
use crate::tls::ClientTls;

/// Whether packets carry what ties log lines together (ST-110).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-110")]
pub enum Diagnostics {
    /// Nothing is sent, and what is received is not looked at.
    Off,
    /// Each packet carries a flow.
    #[default]
    Errors,
}

/// The settings of a client; the defaults are those of section 15 of the stream contract.
///
/// ```
/// use spotlane_client::ClientSettings;
///
/// let settings = ClientSettings::new("ws://localhost:4000/".parse()?)
///     .request_timeout(std::time::Duration::from_secs(5));
/// # Ok::<(), spotlane_client::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub(crate) endpoint: Endpoint,
    pub(crate) connector: ConnectorSettings,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) receive_queue_max: Option<NonZeroUsize>,
}

impl ClientSettings {
    /// The defaults, for one server.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connector: ConnectorSettings::default(),
            tls: None,
            diagnostics: Diagnostics::Errors,
            receive_queue_max: None,
        }
    }

    /// Whom to trust with `tls` and `wss`; the system's authorities by default.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// From name resolution to the end of TLS and upgrade, 5 s by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connector.connect_timeout = timeout;
        self
    }

    /// For requests that name no other time, 30 s by default.
    #[must_use]
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.connector.request_timeout = timeout;
        self
    }

    /// Pings and how long silence may last; `None` turns it off.
    #[must_use]
    pub const fn heartbeat(mut self, heartbeat: Option<Heartbeat>) -> Self {
        self.connector.heartbeat = heartbeat;
        self
    }

    /// How a lost connection is made again; `None` leaves that to the application.
    #[must_use]
    pub const fn reconnect(mut self, reconnect: Option<Reconnect>) -> Self {
        self.connector.reconnect = reconnect;
        self
    }

    /// Bytes of a payload that is sent and of one that is received, 65,536 each by default (ST-126). A
    /// server at its own default counts the header too, so that a payload close to the bound does not
    /// fit there (ST-128).
    #[must_use]
    pub const fn payload_max(mut self, send: u32, receive: u32) -> Self {
        self.connector.send_payload_max = send;
        self.connector.receive_payload_max = receive;
        self
    }

    /// Whether payloads may be compressed; LZ4 by default.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.connector.compression = compression;
        self
    }

    /// Whether packets carry a flow; they do by default.
    #[must_use]
    pub const fn diagnostics(mut self, diagnostics: Diagnostics) -> Self {
        self.diagnostics = diagnostics;
        self
    }

    /// How many pushes wait to be taken at most; the newest is dropped above it. No bound by default
    /// (ST-171).
    #[must_use]
    pub const fn receive_queue_max(mut self, pushes: Option<NonZeroUsize>) -> Self {
        self.receive_queue_max = pushes;
        self
    }
}
