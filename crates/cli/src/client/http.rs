//! One request to an admin endpoint.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use url::Url;

use crate::admin::ErrorBody;

/// No answer of the endpoint is longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An admin endpoint and its token.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    authority: String,
    token: Option<HeaderValue>,
}

/// Without the token.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// Why there is no answer. Each says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CallError {
    /// The URL cannot be used.
    #[error("{url:?} is no admin endpoint: write http://ADDRESS:PORT, as the node printed it")]
    Url {
        /// What was given.
        url: String,
    },
    /// The token cannot stand in a header.
    #[error("the token holds characters that no token has")]
    Token,
    /// Nobody listens.
    #[error(
        "no node answers at {authority} ({reason}); start one with `spotlane cluster`, or name its endpoint with --admin"
    )]
    Unreachable {
        /// Where.
        authority: String,
        /// Why.
        reason: String,
    },
    /// It did not answer in time.
    #[error(
        "{authority} gave no answer within {seconds} s; what was asked may have happened, see `spotlane status`"
    )]
    TimedOut {
        /// Where.
        authority: String,
        /// The limit.
        seconds: u64,
    },
    /// What came back is no answer of a node.
    #[error("{authority} does not speak as a node does: {reason}")]
    Foreign {
        /// Where.
        authority: String,
        /// Why.
        reason: String,
    },
    /// The node says no.
    #[error("{message} ({kind})")]
    Refused {
        /// Its word for it.
        kind: String,
        /// Its message.
        message: String,
    },
}

impl Endpoint {
    /// Checks a URL and a token.
    ///
    /// # Errors
    /// [`CallError::Url`] and [`CallError::Token`].
    pub(crate) fn new(url: &str, token: Option<&str>) -> Result<Self, CallError> {
        let wrong = || CallError::Url {
            url: url.to_owned(),
        };
        let parsed = Url::parse(url).map_err(|_| wrong())?;
        let plain = parsed.scheme() == "http" && parsed.path() == "/" && parsed.query().is_none();
        let host = parsed
            .host_str()
            .filter(|_| plain && parsed.username().is_empty())
            .ok_or_else(wrong)?;
        let authority = format!("{host}:{}", parsed.port_or_known_default().unwrap_or(80));
        let header =
            |token| HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| CallError::Token);
        let mut token = token.map(header).transpose()?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok(Self {
            url: parsed,
            authority,
            token,
        })
    }

    /// `GET` with an answer in JSON.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        limit: Duration,
    ) -> Result<T, CallError> {
        self.call(Method::GET, path, Bytes::new(), limit).await
    }

    /// `POST` of a JSON body with an answer in JSON.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| self.foreign(error))?;
        self.call(Method::POST, path, body.into(), limit).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Bytes,
        limit: Duration,
    ) -> Result<T, CallError> {
        let socket =
            tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority)).await;
        let socket = match socket {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(self.unreachable(error)),
            Err(_) => return Err(self.unreachable("no connection in time")),
        };
        let request = self.request(method, path, body)?;
        let answer = tokio::time::timeout(limit, self.exchange(socket, request)).await;
        let (status, body) = answer.unwrap_or_else(|_| {
            Err(CallError::TimedOut {
                authority: self.authority.clone(),
                seconds: limit.as_secs(),
            })
        })?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(|error| self.foreign(error));
        }
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(refusal) => Err(CallError::Refused {
                kind: refusal.error.kind,
                message: refusal.error.message,
            }),
            Err(_) => Err(self.foreign(format_args!("it answered {status}"))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        let mut request = Request::builder()
            .method(method)
            .uri(url.path())
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        request
            .body(Full::new(body))
            .map_err(|error| self.foreign(error))
    }

    /// # Cancel safety
    /// Dropping it closes the connection; what was asked may happen all the same.
    async fn exchange(
        &self,
        socket: TcpStream,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|error| self.foreign(error))?;
        let answer = async move {
            let response = sender
                .send_request(request)
                .await
                .map_err(|error| self.foreign(error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
                .collect()
                .await;
            Ok((
                status,
                body.map_err(|error| self.foreign(error))?.to_bytes(),
            ))
        };
        // The connection has to be polled for the answer to arrive; it ends when the sender is dropped, no earlier
        // than the answer is complete.
        let (answer, _) = tokio::join!(answer, connection);
        answer
    }

    fn unreachable(&self, reason: impl ToString) -> CallError {
        CallError::Unreachable {
            authority: self.authority.clone(),
            reason: reason.to_string(),
        }
    }

    fn foreign(&self, reason: impl ToString) -> CallError {
        CallError::Foreign {
            authority: self.authority.clone(),
            reason: reason.to_string(),
        }
    }
}
