//! Where a server listens and what it allows.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use spotlane_stream_proto::FlowRule;
use spotlane_stream_proto::bound::SIZE_DEFAULT;
use spotlane_stream_proto::connector::Compression;
use spotlane_stream_proto::server::ServerTimes;

use crate::error::StartError;
use crate::tls::ServerTls;

/// How clients reach a server (ST-129).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-129")]
pub enum Transport {
    /// Frames on a TCP connection.
    Tcp,
    /// Frames on a TLS connection.
    Tls,
    /// Frames in WebSocket messages.
    Ws,
    /// Frames in WebSocket messages on TLS.
    Wss,
}

impl Transport {
    /// Its scheme.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    pub(crate) const fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    pub(crate) const fn has_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// An address with its transport: `tcp://127.0.0.1:0`. Port 0 lets the system choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-129")]
pub struct Endpoint {
    /// The transport.
    pub transport: Transport,
    /// The address.
    pub address: SocketAddr,
}

impl FromStr for Endpoint {
    type Err = StartError;

    fn from_str(text: &str) -> Result<Self, StartError> {
        let refused = || StartError::Endpoint {
            endpoint: text.to_owned(),
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let all = [
            Transport::Tcp,
            Transport::Tls,
            Transport::Ws,
            Transport::Wss,
        ];
        let transport = all.into_iter().find(|t| t.scheme() == scheme);
        let transport = transport.ok_or_else(refused)?;
        let address = rest.trim_end_matches('/');
        // A name is resolved once, at start; the first address counts.
        let address = address
            .to_socket_addrs()
            .ok()
            .and_then(|mut all| all.next());
        let address = address.ok_or_else(refused)?;
        Ok(Self { transport, address })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.transport.scheme(), self.address)
    }
}

/// The settings of a stream server.
///
/// ```
/// use spotlane_stream::StreamSettings;
///
/// let settings = StreamSettings::new("tcp://127.0.0.1:0".parse()?).message_bytes_max(1 << 20);
/// # Ok::<(), spotlane_stream::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamSettings {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) message_bytes_max: Option<u32>,
    pub(crate) plain_bytes_max: u32,
    pub(crate) compression: Compression,
    pub(crate) flow: FlowRule,
    pub(crate) times: ServerTimes,
    pub(crate) send_timeout: Duration,
    pub(crate) handshake_timeout: Duration,
    pub(crate) outbound_bytes: u32,
    pub(crate) sessions_max: usize,
}

impl StreamSettings {
    /// The defaults of the contract, on one endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            tls: None,
            message_bytes_max: Some(SIZE_DEFAULT),
            plain_bytes_max: SIZE_DEFAULT,
            compression: Compression::Lz4,
            flow: FlowRule::Judge,
            times: ServerTimes::default(),
            send_timeout: Duration::from_secs(1),
            handshake_timeout: Duration::from_secs(5),
            outbound_bytes: 262_144,
            sessions_max: 65_536,
        }
    }

    /// The certificate of `tls` and `wss`.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// `MaxMessageSize`: header plus payload of a received frame, 65,536 by default; 0 for no limit
    /// (ST-126, ST-127). A client whose own bound is the default cannot send a payload that close to it,
    /// since the header counts here (ST-128).
    #[must_use]
    pub const fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = if bytes == 0 { None } else { Some(bytes) };
        self
    }

    /// The plain form of a received payload, 65,536 bytes by default.
    #[must_use]
    pub const fn plain_bytes_max(mut self, bytes: u32) -> Self {
        self.plain_bytes_max = bytes;
        self
    }

    /// Whether compressed payloads are understood; LZ4 by default (ST-121).
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Whether received flows are judged (ST-110).
    #[must_use]
    pub const fn flow(mut self, rule: FlowRule) -> Self {
        self.flow = rule;
        self
    }

    /// Heartbeat, idle and flush times (ST-154).
    #[must_use]
    pub const fn times(mut self, times: ServerTimes) -> Self {
        self.times = times;
        self
    }

    /// How long a send waits for room, 1,000 ms by default (ST-149).
    #[must_use]
    pub const fn send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    /// How long TLS and upgrade may take, 5 s by default.
    #[must_use]
    pub const fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Bytes that wait to be written to one client before its senders wait, 256 KiB by default. Pushes
    /// of Actors, which cannot wait, may take as much again.
    #[must_use]
    pub const fn outbound_bytes(mut self, bytes: u32) -> Self {
        self.outbound_bytes = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// Connections at a time, 65,536 by default; more are closed at once.
    #[must_use]
    pub const fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }
}
