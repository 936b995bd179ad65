//! The handle of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use spotlane_stream_proto::connector::{CallId, ConnectError, ConnectorState, RequestError};
use spotlane_stream_proto::{CloseReason, Extras, FlowRule, Metadata, Name, Payload, SizeBound};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::calls::{Call, Calls};
use crate::dial::Dialer;
use crate::endpoint::ConfigError;
use crate::inbox::{Inbox, Shelf};
use crate::random::Random;
use crate::reconnects::Reconnects;
use crate::settings::{ClientSettings, Diagnostics};
use crate::task::{Outside, Task};
use crate::tls::ClientTls;

/// A client of one server. Cloning is cheap. Dropping the last handle cuts the connection off;
/// [`Client::close`] lets go out first what was written.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    calls: Arc<Calls>,
    status: watch::Receiver<Status>,
    /// The one task of the client; ends with the last handle.
    _task: JoinSet<()>,
    diagnostics: Diagnostics,
    random: Random,
    reconnects: Arc<Reconnects>,
}

/// What the task tells everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: ConnectorState,
    pub(crate) close_reason: Option<CloseReason>,
}

impl Client {
    /// A client that is not connected, and what comes for it. Runs one task on the current runtime.
    ///
    /// # Errors
    /// `tls` or `wss` is asked for and the system has no certificate authorities.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(settings: ClientSettings) -> Result<(Self, Inbox), ConfigError> {
        let tls = match (&settings.tls, settings.endpoint.has_tls) {
            (_, false) => None,
            (Some(tls), true) => Some(tls.connector()),
            (None, true) => Some(ClientTls::system()?.connector()),
        };
        let random = Random::new();
        let flow = match settings.diagnostics {
            Diagnostics::Off => FlowRule::Skip,
            Diagnostics::Errors => FlowRule::Judge,
        };
        let reconnects = Arc::new(Reconnects::new(settings.endpoint.scheme()));
        let dialer = Arc::new(Dialer {
            endpoint: settings.endpoint,
            tls,
            bound: SizeBound::Payload(settings.connector.receive_payload_max),
            flow,
            random: random.clone(),
        });
        let calls = Arc::new(Calls::new());
        let shelf = Shelf::new(settings.receive_queue_max);
        let (tell, status) = watch::channel(Status {
            state: ConnectorState::Created,
            close_reason: None,
        });
        let outside = Outside {
            calls: Arc::clone(&calls),
            shelf: Arc::clone(&shelf),
            status: tell,
            reconnects: Arc::clone(&reconnects),
        };
        let mut task = JoinSet::new();
        task.spawn(Task::new(settings.connector, dialer, outside).run());
        let inner = Inner {
            calls,
            status,
            _task: task,
            diagnostics: settings.diagnostics,
            random,
            reconnects,
        };
        let client = Self {
            inner: Arc::new(inner),
        };
        Ok((client, Inbox { shelf }))
    }

    /// The state.
    pub fn state(&self) -> ConnectorState {
        self.inner.status.borrow().state
    }

    /// Why the last connection ended; cleared by the next one (ST-175).
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.inner.status.borrow().close_reason
    }

    /// The attempts after losses so far (ST-176).
    pub fn reconnects(&self) -> &Reconnects {
        &self.inner.reconnects
    }

    /// Connects, or waits for the attempt that runs (ST-162).
    ///
    /// # Errors
    /// The last of its attempts failed, or the client is closed.
    ///
    /// # Cancel safety
    /// Dropped, the attempts go on.
    pub async fn connect(&self) -> Result<(), ConnectError> {
        let (ended, end) = oneshot::channel();
        self.inner.calls.put(Call::Connect(ended)).await;
        end.await.unwrap_or(Err(ConnectError::Closed))
    }

    /// Sends a packet that nobody answers. Completes when it was taken for writing.
    ///
    /// # Errors
    /// There is no connection, or the packet is above a bound; nothing was sent then.
    ///
    /// # Cancel safety
    /// Dropped, it may have been sent or not.
    pub async fn send(&self, name: Name, payload: Payload) -> Result<(), RequestError> {
        self.send_with(name, payload, None).await
    }

    /// As [`Self::send`], with metadata.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Cancel safety
    /// As [`Self::send`].
    pub async fn send_with(
        &self,
        name: Name,
        payload: Payload,
        metadata: Option<Metadata>,
    ) -> Result<(), RequestError> {
        let (ended, end) = oneshot::channel();
        let extras = self.extras(metadata);
        let call = Call::Send {
            name,
            payload,
            extras,
            ended,
        };
        self.inner.calls.put(call).await;
        end.await.unwrap_or(Err(RequestError::NotConnected))
    }

    /// Asks and waits for the answer, for at most the request timeout.
    ///
    /// # Errors
    /// Exactly one of: the server's error, no answer in time, the end of the connection, or nothing was
    /// sent at all (ST-167). After an end or a timeout it is open whether the request ran.
    ///
    /// # Cancel safety
    /// Dropped, a late answer is an error of no call (ST-165).
    pub async fn request(&self, name: Name, payload: Payload) -> Result<Payload, RequestError> {
        self.request_with(name, payload, None, None).await
    }

    /// As [`Self::request`], with metadata and a time of its own.
    ///
    /// # Errors
    /// As [`Self::request`].
    ///
    /// # Cancel safety
    /// As [`Self::request`].
    pub async fn request_with(
        &self,
        name: Name,
        payload: Payload,
        metadata: Option<Metadata>,
        timeout: Option<Duration>,
    ) -> Result<Payload, RequestError> {
        let (ended, end) = oneshot::channel();
        let call = self.inner.calls.fresh();
        let forget = Forget {
            calls: &self.inner.calls,
            call: Some(call),
        };
        let request = Call::Request {
            call,
            name,
            payload,
            extras: self.extras(metadata),
            timeout,
            ended,
        };
        self.inner.calls.put(request).await;
        let ended = end.await;
        forget.done();
        ended.unwrap_or(Err(RequestError::NotConnected))
    }

    /// Closes for good: what was written goes out, pending requests end, nothing dials again (ST-164).
    ///
    /// # Cancel safety
    /// Dropped, the client closes all the same.
    pub async fn close(&self) {
        let (ended, end) = oneshot::channel();
        self.inner.calls.put(Call::Close(ended)).await;
        // Gone without an answer is closed too.
        drop(end.await);
    }

    fn extras(&self, metadata: Option<Metadata>) -> Extras {
        let flow = match self.inner.diagnostics {
            Diagnostics::Off => None,
            Diagnostics::Errors => Some(self.inner.random.flow()),
        };
        Extras {
            metadata,
            correlation: None,
            flow,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = *self.inner.status.borrow();
        f.debug_struct("Client")
            .field("state", &status.state)
            .finish_non_exhaustive()
    }
}

/// Takes the entry of a request back when its caller is gone (ST-165).
struct Forget<'a> {
    calls: &'a Calls,
    call: Option<CallId>,
}

impl Forget<'_> {
    fn done(mut self) {
        self.call = None;
    }
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.calls.forget(call);
        }
    }
}
