//! What a connector is asked and told, and what it asks for.

use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::control::CloseReason;
use crate::error::{DecodeError, DecompressError, EncodeError};
use crate::frame::{Extras, Frame, Payload, Sequence};
use crate::name::Name;
use crate::remote_error::RemoteError;

/// Names a call of the application; chosen by the driver, unique while the call lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// The call with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Names one connection of a connector; what an older one brings is ignored (ST-165).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkGeneration(pub(super) u64);

/// The states of section 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by section 13 of the stream contract"
)]
pub enum ConnectorState {
    /// Never connected.
    Created,
    /// The first attempt runs.
    Connecting,
    /// Packets go in and out.
    Connected,
    /// Further attempts run, or are waited for.
    Reconnecting,
    /// Nothing happens until the application connects.
    Disconnected,
    /// Final.
    Closed,
}

/// Why an attempt made no connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// ST-162
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// ST-133
    #[error("the server's certificate was not accepted: {0}")]
    Tls(String),
    /// Name resolution, connecting, or the upgrade.
    #[error("the server cannot be reached: {0}")]
    Transport(String),
}

/// Why a connect failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The last attempt failed.
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    /// The connector was closed.
    #[error("the connector is closed")]
    Closed,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// ST-160: there is no connection now; nothing was sent.
    #[error("there is no connection")]
    NotConnected,
    /// The connection ended before the response; whether the request ran is open (ST-160).
    #[error("the connection ended before the response: {0:?}")]
    Disconnected(CloseReason),
    /// ST-167
    #[error("no response in time")]
    Timeout,
    /// The server reported a failure.
    #[error("the server failed: {0}")]
    Remote(#[from] RemoteError),
    /// The response cannot be decompressed (ST-125).
    #[error("the response cannot be read: {0}")]
    Decompression(#[from] DecompressError),
    /// ST-113
    #[error("the error of the server has not its form")]
    ErrorPayload,
    /// The request cannot be sent in this form; nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Invalid(#[from] EncodeError),
    /// ST-125: compression was asked for and not agreed on.
    #[error("compression is not configured")]
    CompressionNotConfigured,
}

/// What can happen to a connector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by sections 13 and 14 of the stream contract"
)]
pub enum ConnectorEvent {
    /// The application connects.
    Connect(CallId),
    /// The application closes.
    Close,
    /// An attempt ended.
    Attempted {
        /// Which.
        link: LinkGeneration,
        /// How.
        result: Result<(), AttemptError>,
    },
    /// A frame came.
    Received {
        /// On which connection.
        link: LinkGeneration,
        /// The frame.
        frame: Frame,
    },
    /// Bytes came that are no frame.
    Undecodable {
        /// On which connection.
        link: LinkGeneration,
        /// Why.
        error: DecodeError,
    },
    /// A connection ended or failed.
    Lost(LinkGeneration),
    /// The application sends.
    Send {
        /// The call.
        call: CallId,
        /// What it is.
        name: Name,
        /// The payload.
        payload: Payload,
        /// What else it carries.
        extras: Extras,
    },
    /// The application asks.
    Request {
        /// The call.
        call: CallId,
        /// What it is.
        name: Name,
        /// The payload.
        payload: Payload,
        /// What else it carries.
        extras: Extras,
        /// How long to wait; the default when there is none.
        timeout: Option<Duration>,
    },
    /// The caller of a request is gone (ST-165).
    Forgotten(CallId),
}

/// An error that belongs to no call (ST-177).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StrayError {
    /// ST-168: the response or error of a request that nobody waits for.
    #[error("a reply to request {0} that nobody waits for")]
    Unmatched(Sequence),
    /// ST-168: an error of the stream itself.
    #[error("the server reported {0}")]
    Remote(RemoteError),
    /// ST-113: an error without form and request.
    #[error("the server reported an error without its form")]
    ErrorPayload,
    /// ST-125: a push that cannot be decompressed.
    #[error("a packet cannot be read: {0}")]
    Decompression(DecompressError),
    /// ST-146: a server does not ask.
    #[error("the server sent a request, which is not part of the protocol")]
    ServerRequest,
    /// The connection ended over it.
    #[error("the server broke the protocol: {0}")]
    Undecodable(DecodeError),
}

/// A packet of the server that nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts of a packet")]
pub struct Push {
    /// What it is.
    pub name: Name,
    /// Its payload, never compressed.
    pub payload: Payload,
    /// What else it carries.
    pub extras: Extras,
}

/// What the driver of a connector does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by sections 13 and 14 of the stream contract"
)]
pub enum ConnectorEffect {
    /// Make a connection and report it.
    Attempt(LinkGeneration),
    /// Stop making it; close it when it came all the same (ST-164).
    Abandon(LinkGeneration),
    /// Write these bytes.
    Write(Bytes),
    /// Close the connection; what was written before goes out first.
    CloseLink(LinkGeneration),
    /// A connect ended.
    ConnectEnded {
        /// The call.
        call: CallId,
        /// How.
        result: Result<(), ConnectError>,
    },
    /// A send ended: accepted for writing, or not.
    SendEnded {
        /// The call.
        call: CallId,
        /// How.
        result: Result<(), RequestError>,
    },
    /// A request ended, exactly once (ST-167).
    RequestEnded {
        /// The call.
        call: CallId,
        /// How.
        result: Result<Payload, RequestError>,
    },
    /// A push came.
    Deliver(Push),
    /// The state is another one.
    State(ConnectorState),
    /// A connection ended, once for each (ST-161).
    Disconnected(CloseReason),
    /// An error of no call.
    Stray(StrayError),
    /// Input of an older connection, or in a state that has no use for it.
    Ignored,
}
