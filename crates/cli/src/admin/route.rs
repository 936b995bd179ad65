//! From a request to an answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::gate::Gate;
use super::node::{
    DrainBody, ErrorBody, ErrorDetail, Node, ObjectKind, ObjectName, Refusal, RefusalKind,
    RelocateBody,
};

/// The longest body that is read; a relocate order takes a few hundred bytes.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a look-up or a move may take.
const ORDER_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a drain takes unless it is said.
const DRAIN_DEFAULT: Duration = Duration::from_secs(30);
/// The longest drain.
const DRAIN_SECONDS_MAX: u64 = 600;
const JSON: &str = "application/json";
/// The text form of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4";

/// Everything that answers need.
#[derive(Debug)]
pub(crate) struct Routes<N> {
    node: N,
    gate: Gate,
    metrics: Arc<dyn Metrics>,
}

/// Where `/metrics` comes from.
pub(crate) trait Metrics: std::fmt::Debug + Send + Sync {
    /// All of them in the text form of Prometheus.
    fn render(&self) -> String;
}

/// What a path stands for.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Health,
    Ready,
    Metrics,
    Status,
    Object(ObjectName),
    Relocate,
    Drain,
}

impl Place {
    fn of(path: &str) -> Result<Self, Refusal> {
        match path {
            "/healthz" => Ok(Self::Health),
            "/readyz" => Ok(Self::Ready),
            "/metrics" => Ok(Self::Metrics),
            "/v1/status" => Ok(Self::Status),
            "/v1/relocate" => Ok(Self::Relocate),
            "/v1/drain" => Ok(Self::Drain),
            _ => object(path).map(Self::Object),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Relocate | Self::Drain => Method::POST,
            Self::Health | Self::Ready | Self::Metrics | Self::Status | Self::Object(_) => {
                Method::GET
            }
        }
    }

    /// Probes have no token and say nothing but yes or no.
    fn is_open(&self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }
}

impl<N: Node> Routes<N> {
    /// Routes to a node.
    pub(crate) fn new(node: N, gate: Gate, metrics: Arc<dyn Metrics>) -> Self {
        Self {
            node,
            gate,
            metrics,
        }
    }

    /// Answers one request; a refusal is an answer too.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.try_answer(request).await {
            Ok(response) => response,
            Err(refusal) => refused(&refusal),
        }
    }

    async fn try_answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let place = Place::of(request.uri().path());
        if !place.as_ref().is_ok_and(Place::is_open) {
            self.gate.admit(request.method(), request.headers())?;
        }
        let place = place?;
        if request.method() != place.method() {
            return Ok(wrong_method(&place.method()));
        }
        match place {
            Place::Health => Ok(plain(StatusCode::OK, "text/plain", "ok\n")),
            Place::Ready if self.node.is_ready() => {
                Ok(plain(StatusCode::OK, "text/plain", "ready\n"))
            }
            Place::Ready => Ok(plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "text/plain",
                "not ready\n",
            )),
            Place::Metrics => Ok(plain(StatusCode::OK, METRICS, self.metrics.render())),
            Place::Status => json(&self.node.status()),
            Place::Object(object) => json(&within(ORDER_TIMEOUT, self.node.find(&object)).await?),
            Place::Relocate => {
                let order: RelocateBody = read_json(request.into_body()).await?;
                let object = ObjectName {
                    kind: order.kind,
                    id: order.id,
                };
                json(&within(ORDER_TIMEOUT, self.node.relocate(&object, &order.to)).await?)
            }
            Place::Drain => {
                let limit = drain_limit(request.into_body()).await?;
                json(&within(limit + ORDER_TIMEOUT, self.node.drain(limit)).await?)
            }
        }
    }
}

/// Reads `/v1/objects/{kind}/{id}`.
fn object(path: &str) -> Result<ObjectName, Refusal> {
    let unknown = || {
        Refusal::new(
            RefusalKind::NotFound,
            "no such path: there are /v1/status, /v1/objects/{kind}/{id}, /v1/relocate, /v1/drain, /healthz, /readyz \
             and /metrics",
        )
    };
    let rest = path.strip_prefix("/v1/objects/").ok_or_else(unknown)?;
    let (kind, id) = rest.split_once('/').ok_or_else(unknown)?;
    let kind = ObjectKind::of(kind).ok_or_else(|| {
        Refusal::new(
            RefusalKind::InvalidOperation,
            "the kind must be actor or spot",
        )
    })?;
    let id = percent_decoded(id)
        .filter(|id| !id.is_empty())
        .ok_or_else(|| {
            Refusal::new(
                RefusalKind::InvalidOperation,
                "the id must be percent-encoded UTF-8",
            )
        })?;
    Ok(ObjectName { kind, id })
}

/// The text behind `%41`; nothing when it is broken.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high << 4 | low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!(
            "no result after {} s; what was begun goes on",
            limit.as_secs()
        );
        Err(Refusal::new(RefusalKind::DeadlineExceeded, message))
    })
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    let collected =
        tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) => Err(Refusal::new(
            RefusalKind::InvalidOperation,
            format!("the body is broken or has more than {BODY_BYTES_MAX} bytes"),
        )),
        Err(_) => Err(Refusal::new(
            RefusalKind::DeadlineExceeded,
            "the body did not arrive in time",
        )),
    }
}

async fn read_json<T: DeserializeOwned>(body: Incoming) -> Result<T, Refusal> {
    parse(&read(body).await?)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(
            RefusalKind::InvalidOperation,
            format!("the body is not what is asked for: {error}"),
        )
    })
}

async fn drain_limit(body: Incoming) -> Result<Duration, Refusal> {
    let body = read(body).await?;
    if body.is_empty() {
        return Ok(DRAIN_DEFAULT);
    }
    let DrainBody { seconds } = parse(&body)?;
    if !(1..=DRAIN_SECONDS_MAX).contains(&seconds) {
        return Err(Refusal::new(
            RefusalKind::InvalidOperation,
            format!("seconds is {seconds}, must be 1 to {DRAIN_SECONDS_MAX}"),
        ));
    }
    Ok(Duration::from_secs(seconds))
}

fn plain(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json(value: &impl Serialize) -> Result<Response<Full<Bytes>>, Refusal> {
    let body = serde_json::to_vec(value)
        .map_err(|error| Refusal::new(RefusalKind::InternalFailure, error.to_string()))?;
    Ok(plain(StatusCode::OK, JSON, body))
}

fn refused(refusal: &Refusal) -> Response<Full<Bytes>> {
    let status = match refusal.kind {
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::InvalidOperation => StatusCode::BAD_REQUEST,
        RefusalKind::Unauthorized => StatusCode::UNAUTHORIZED,
        RefusalKind::Rejected => StatusCode::CONFLICT,
        RefusalKind::Unavailable | RefusalKind::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        RefusalKind::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        RefusalKind::InternalFailure => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body = ErrorBody {
        error: ErrorDetail {
            kind: refusal.kind.word().to_owned(),
            message: refusal.message.clone(),
        },
    };
    let mut response = plain(status, JSON, serde_json::to_vec(&body).unwrap_or_default());
    if refusal.kind == RefusalKind::Unauthorized {
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn wrong_method(right: &Method) -> Response<Full<Bytes>> {
    let mut response = refused(&Refusal::new(
        RefusalKind::InvalidOperation,
        format!("this path takes {right}"),
    ));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    if let Ok(right) = HeaderValue::from_str(right.as_str()) {
        response.headers_mut().insert(ALLOW, right);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_paths_are_decoded() {
        let Place::Object(object) = Place::of("/v1/objects/actor/a%2Fb%20%C3%A4").unwrap() else {
            panic!("not an object");
        };
        assert_eq!(
            object,
            ObjectName {
                kind: ObjectKind::Actor,
                id: "a/b ä".to_owned()
            }
        );
    }

    #[test]
    fn broken_paths_are_refused() {
        for path in ["/", "/v1", "/v1/objects", "/v1/objects/actor", "/v2/status"] {
            assert_eq!(
                Place::of(path).unwrap_err().kind,
                RefusalKind::NotFound,
                "{path}"
            );
        }
        for path in [
            "/v1/objects/actor/",
            "/v1/objects/table/1",
            "/v1/objects/actor/%",
            "/v1/objects/actor/%ff",
            "/v1/objects/actor/%+1",
        ] {
            assert_eq!(
                Place::of(path).unwrap_err().kind,
                RefusalKind::InvalidOperation,
                "{path}"
            );
        }
    }
}
