//! What goes wrong at a stream server, by who must act.

use std::io;

use spotlane_stream_proto::{EncodeError, RemoteError};
use thiserror::Error;

/// A server that cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The endpoint is no `tcp`, `tls`, `ws` or `wss` address.
    #[error(
        "the endpoint {endpoint:?} is not of the form scheme://host:port with tcp, tls, ws or wss"
    )]
    Endpoint {
        /// As it was given.
        endpoint: String,
    },
    /// ST-137: `tls` and `wss` need a certificate with its key.
    #[error("the endpoint {endpoint:?} needs a certificate and its key; set both")]
    TlsMissing {
        /// As it was given.
        endpoint: String,
    },
    /// ST-137: client certificates without TLS.
    #[error("the endpoint {endpoint:?} has no tls, so that a certificate means nothing there")]
    TlsUnused {
        /// As it was given.
        endpoint: String,
    },
    /// Certificate, key or authorities cannot be used.
    #[error("the certificate or its key cannot be used: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {endpoint:?}")]
    Listen {
        /// As it was given.
        endpoint: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A packet or reply that was not taken for sending.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The session is over. A reply goes to no later session (ST-150).
    #[error("the session is closed")]
    Closed,
    /// ST-149: the queue of the connection had no room in time.
    #[error("the client did not read for {0:?}, so that there was no room in time")]
    DeadlineExceeded(std::time::Duration),
    /// ST-147: the request was answered already.
    #[error("the request was answered already")]
    Answered,
    /// It cannot be encoded.
    #[error(transparent)]
    Invalid(#[from] EncodeError),
}

/// The failure of a handler (ST-148): a kind and a text, which a waiting client gets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct HandlerFailure(RemoteError);

impl HandlerFailure {
    /// A failure with the name of a public kind in Pascal case, for example `NotFound`.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self(RemoteError {
            code: code.to_owned(),
            message: message.into(),
        })
    }

    /// A failure without a kind: the client learns nothing of its cause (EX-12).
    #[must_use]
    pub fn internal() -> Self {
        Self::new("InternalFailure", "the handler failed")
    }

    /// What the client gets.
    pub const fn as_remote(&self) -> &RemoteError {
        &self.0
    }

    pub(crate) fn into_remote(self) -> RemoteError {
        self.0
    }
}

impl From<SendError> for HandlerFailure {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Closed => "Unavailable",
            SendError::DeadlineExceeded(_) => "DeadlineExceeded",
            SendError::Answered => "InvalidOperation",
            SendError::Invalid(_) => "InternalFailure",
        };
        Self::new(code, error.to_string())
    }
}
