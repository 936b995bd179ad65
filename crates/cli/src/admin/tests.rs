//! The endpoint over real sockets, asked nicely and attacked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::route::BODY_BYTES_MAX;
use super::server::CONNECTIONS_MAX;
use super::*;

const TOKEN: &str = "0123456789abcdef";

/// A node with one actor, `a`, that knows the nodes `left` and `right`.
#[derive(Debug)]
struct Fake;

impl Node for Fake {
    fn status(&self) -> Status {
        Status {
            node: "left".to_owned(),
            actors: 1,
            ..Status::default()
        }
    }

    fn is_ready(&self) -> bool {
        false
    }

    async fn find(&self, object: &ObjectName) -> Result<Location, Refusal> {
        match object.id.as_str() {
            "a" => Ok(Location {
                object: object.clone(),
                node: "left".to_owned(),
                generation: "7".to_owned(),
            }),
            _ => Err(Refusal::new(
                RefusalKind::NotFound,
                "there is no such actor",
            )),
        }
    }

    async fn relocate(&self, object: &ObjectName, to: &str) -> Result<Location, Refusal> {
        let found = self.find(object).await?;
        Ok(Location {
            node: to.to_owned(),
            ..found
        })
    }

    async fn drain(&self, limit: Duration) -> Result<Drained, Refusal> {
        Ok(Drained {
            moved: limit.as_secs(),
            left: 0,
            reason: None,
        })
    }
}

#[derive(Debug)]
struct NoMetrics;

impl Metrics for NoMetrics {
    fn render(&self) -> String {
        "# nothing\n".to_owned()
    }
}

/// A running endpoint, which ends with the test.
struct Running {
    address: SocketAddr,
    _task: Stopped,
}

struct Stopped(JoinHandle<()>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "the handle is kept and aborted")]
async fn start(token: Option<&str>) -> Running {
    let routes = Routes::new(
        Fake,
        Gate::new(token.map(ToOwned::to_owned)),
        Arc::new(NoMetrics),
    );
    let server = AdminServer::bind((Ipv4Addr::LOCALHOST, 0).into(), routes)
        .await
        .unwrap();
    Running {
        address: server.address(),
        _task: Stopped(tokio::spawn(server.run())),
    }
}

impl Running {
    /// Sends bytes and reads until the endpoint closes.
    async fn raw(&self, request: &[u8]) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        // The endpoint may refuse and close before it has read all.
        drop(socket.write_all(request).await);
        let mut answer = Vec::new();
        drop(socket.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request =
            format!("{head}\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = self.raw(request.as_bytes()).await;
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .unwrap_or_default();
        (status, body)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1"), "").await
    }

    async fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.ask(
            &format!("POST {path} HTTP/1.1\r\nContent-Type: application/json"),
            body,
        )
        .await
    }
}

#[tokio::test]
async fn every_path_answers() {
    let running = start(None).await;
    assert_eq!(running.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(running.get("/readyz").await.0, 503);
    assert_eq!(
        running.get("/metrics").await,
        (200, "# nothing\n".to_owned())
    );
    let (code, body) = running.get("/v1/status").await;
    let status: Status = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (code, status.node.as_str(), status.actors),
        (200, "left", 1)
    );
    let (code, body) = running.get("/v1/objects/actor/a").await;
    assert_eq!(
        (code, body.as_str()),
        (
            200,
            r#"{"kind":"actor","id":"a","node":"left","generation":"7"}"#
        )
    );
    let (code, body) = running
        .post("/v1/relocate", r#"{"kind":"actor","id":"a","to":"right"}"#)
        .await;
    assert_eq!(code, 200);
    assert_eq!(
        serde_json::from_str::<Location>(&body).unwrap().node,
        "right"
    );
    assert_eq!(
        running.post("/v1/drain", "").await,
        (200, r#"{"moved":30,"left":0,"reason":null}"#.to_owned())
    );
    assert_eq!(
        running.post("/v1/drain", r#"{"seconds":5}"#).await,
        (200, r#"{"moved":5,"left":0,"reason":null}"#.to_owned())
    );
}

#[tokio::test]
async fn a_refusal_has_a_kind_and_a_message() {
    let running = start(None).await;
    let (code, body) = running.get("/v1/objects/actor/b").await;
    let refusal: ErrorBody = serde_json::from_str(&body).unwrap();
    assert_eq!((code, refusal.error.kind.as_str()), (404, "NotFound"));
    assert_eq!(running.get("/v1/relocate").await.0, 405);
    assert_eq!(running.get("/nowhere").await.0, 404);
}

#[tokio::test]
async fn with_a_token_only_probes_are_open() {
    let running = start(Some(TOKEN)).await;
    assert_eq!(running.get("/healthz").await.0, 200);
    assert_eq!(running.get("/readyz").await.0, 503);
    for path in ["/metrics", "/v1/status", "/v1/objects/actor/a", "/nowhere"] {
        assert_eq!(running.get(path).await.0, 401, "{path}");
    }
    assert_eq!(running.post("/v1/drain", "").await.0, 401);
    let wrong = "GET /v1/status HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdee";
    assert_eq!(running.ask(wrong, "").await.0, 401);
    let right = "GET /v1/status HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef";
    assert_eq!(running.ask(right, "").await.0, 200);
}

#[tokio::test]
async fn garbage_is_refused_and_the_endpoint_lives() {
    let running = start(None).await;
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(100_000)
    );
    let headers = format!(
        "GET /v1/status HTTP/1.1\r\n{}\r\n",
        "A: b\r\n".repeat(10_000)
    );
    for garbage in [
        &b"\0\xff\xfe"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
        long.as_bytes(),
        headers.as_bytes(),
    ] {
        let mut padded = garbage.to_vec();
        padded.extend_from_slice(b"\r\n\r\n");
        let answer = running.raw(&padded).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    for body in [
        "",
        "{",
        "[]",
        "null",
        r#"{"kind":"actor","id":"a"}"#,
        r#"{"kind":"x","id":"a","to":"b"}"#,
        r#"{"kind":"actor","id":"a","to":"b","x":1}"#,
    ] {
        assert_eq!(running.post("/v1/relocate", body).await.0, 400, "{body}");
    }
    for body in [
        r#"{"seconds":0}"#,
        r#"{"seconds":601}"#,
        r#"{"seconds":-1}"#,
    ] {
        assert_eq!(running.post("/v1/drain", body).await.0, 400, "{body}");
    }
    let deep = "[".repeat(10_000);
    assert_eq!(running.post("/v1/relocate", &deep).await.0, 400);
    assert_eq!(running.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn an_oversized_body_is_refused_however_its_length_is_told() {
    let running = start(None).await;
    let body = "x".repeat(BODY_BYTES_MAX + 1);
    assert_eq!(running.post("/v1/relocate", &body).await.0, 400);
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let head =
        "POST /v1/relocate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let answer = running
        .raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let answer = running
        .raw(format!("{head}Content-Length: 99999999999999999999\r\n\r\n").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// The clock is advanced, so nothing is slept for.
#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_give_their_place_back() {
    let running = start(None).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(b"GET /v1/sta").await.unwrap();
        silent.push(socket);
    }
    assert_eq!(running.get("/healthz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let running = start(None).await;
    let head =
        "POST /v1/relocate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let answer = running
        .raw(format!("{head}Content-Length: 10\r\n\r\n{{").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
}
