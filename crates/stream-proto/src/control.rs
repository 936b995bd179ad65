//! Control packets: heartbeats and the notice before an intended close (section 4).

use bytes::{BufMut, Bytes, BytesMut};

use crate::bound::CLOSING_TEXT_BYTES_MAX;
use crate::error::ControlFault;

pub(crate) const PING: &str = "$zlink.heartbeat.ping";
pub(crate) const PONG: &str = "$zlink.heartbeat.pong";
pub(crate) const CLOSING: &str = "session-closing";
const CLOSING_VERSION: u8 = 1;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 4 of the stream contract"
)]
pub enum CloseReason {
    /// The client closed it.
    ClientClose,
    /// No application packet of the client for the idle time.
    IdleTimeout,
    /// No answer to heartbeats.
    HeartbeatTimeout,
    /// The server shuts down or drains.
    ServerDrain,
    /// The peer broke the protocol.
    ProtocolError,
    /// The transport failed.
    TransportError,
}

impl CloseReason {
    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::ClientClose => 1,
            Self::IdleTimeout => 2,
            Self::HeartbeatTimeout => 3,
            Self::ServerDrain => 4,
            Self::ProtocolError => 5,
            Self::TransportError => 6,
        }
    }

    const fn from_wire(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::ClientClose,
            2 => Self::IdleTimeout,
            3 => Self::HeartbeatTimeout,
            4 => Self::ServerDrain,
            5 => Self::ProtocolError,
            6 => Self::TransportError,
            _ => return None,
        })
    }

    /// The name under which metrics count it (ST-158).
    pub const fn metric(self) -> &'static str {
        match self {
            Self::ClientClose => "client_close",
            Self::IdleTimeout => "idle_timeout",
            Self::HeartbeatTimeout => "heartbeat_timeout",
            Self::ServerDrain => "server_shutdown",
            Self::ProtocolError => "protocol_error",
            Self::TransportError => "transport_error",
        }
    }
}

/// The last frame before an intended close of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionClosing {
    reason: CloseReason,
    text: String,
}

impl SessionClosing {
    /// A notice; a text above 512 bytes is cut at a character.
    #[must_use]
    pub fn new(reason: CloseReason, text: &str) -> Self {
        let mut end = text.len().min(CLOSING_TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        Self {
            reason,
            text: text.get(..end).unwrap_or_default().to_owned(),
        }
    }

    /// Why.
    pub const fn reason(&self) -> CloseReason {
        self.reason
    }

    /// For people.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn decode(payload: &[u8]) -> Result<Self, ControlFault> {
        let Some(([version, reason, high, low], text)) = payload.split_first_chunk() else {
            return Err(ControlFault::Closing);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let reason = CloseReason::from_wire(*reason).ok_or(ControlFault::Closing)?;
        // ST-118
        if *version != CLOSING_VERSION || length != text.len() || length > CLOSING_TEXT_BYTES_MAX {
            return Err(ControlFault::Closing);
        }
        let text = core::str::from_utf8(text).map_err(|_| ControlFault::Closing)?;
        Ok(Self {
            reason,
            text: text.to_owned(),
        })
    }

    fn encode(&self) -> Bytes {
        let mut payload = BytesMut::with_capacity(self.text.len().saturating_add(4));
        payload.put_u8(CLOSING_VERSION);
        payload.put_u8(self.reason.to_wire());
        payload.put_u16(u16::try_from(self.text.len()).unwrap_or(u16::MAX));
        payload.put_slice(self.text.as_bytes());
        payload.freeze()
    }
}

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 4 of the stream contract"
)]
pub enum Control {
    /// Asks for a pong.
    Ping,
    /// Answers a ping.
    Pong,
    /// The connection is about to be closed.
    SessionClosing(SessionClosing),
}

impl Control {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ping => PING,
            Self::Pong => PONG,
            Self::SessionClosing(_) => CLOSING,
        }
    }

    pub(crate) fn payload(&self) -> Bytes {
        match self {
            Self::Ping | Self::Pong => Bytes::new(),
            Self::SessionClosing(closing) => closing.encode(),
        }
    }

    pub(crate) fn decode(name: &[u8], payload: &[u8]) -> Result<Self, ControlFault> {
        let heartbeat = if name == PING.as_bytes() {
            Self::Ping
        } else if name == PONG.as_bytes() {
            Self::Pong
        } else if name == CLOSING.as_bytes() {
            return SessionClosing::decode(payload).map(Self::SessionClosing);
        } else {
            return Err(ControlFault::Unknown);
        };
        if payload.is_empty() {
            Ok(heartbeat)
        } else {
            Err(ControlFault::Payload)
        }
    }
}
