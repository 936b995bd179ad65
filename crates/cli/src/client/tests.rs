//! The commands against sockets that answer well and badly.

use std::net::Ipv4Addr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::admin::{ObjectName, Peer};

fn remote(admin: &str) -> RemoteArgs {
    RemoteArgs {
        admin: admin.to_owned(),
        token: None,
        json: false,
    }
}

#[test]
fn only_the_url_of_an_endpoint_is_taken() {
    assert!(Endpoint::new("http://127.0.0.1:7700", None).is_ok());
    assert!(Endpoint::new("http://[::1]:7700/", Some("0123456789abcdef")).is_ok());
    for url in [
        "",
        "127.0.0.1:7700",
        "https://localhost",
        "http://localhost/v1",
        "http://user@localhost",
        "redis://localhost",
    ] {
        let error = Endpoint::new(url, None).unwrap_err().to_string();
        assert!(error.contains("http://ADDRESS:PORT"), "{error}");
    }
    assert!(matches!(
        Endpoint::new("http://localhost", Some("a\nb")),
        Err(CallError::Token)
    ));
}

#[tokio::test]
async fn when_nobody_listens_the_error_says_what_to_start() {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let error = status(&remote(&format!("http://127.0.0.1:{port}")))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("spotlane cluster") && error.contains("--admin"),
        "{error}"
    );
}

/// Answers one connection with some bytes.
async fn served(answer: &'static [u8]) -> CallError {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let args = remote(&format!("http://{}", listener.local_addr().unwrap()));
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(answer).await.unwrap();
        socket.shutdown().await.unwrap();
        socket
    };
    let (result, _socket) = tokio::join!(status(&args), server);
    result.unwrap_err()
}

#[tokio::test]
async fn what_is_no_node_is_recognized() {
    for answer in [
        &b"SSH-2.0-x\r\n"[..],
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ] {
        let error = served(answer).await;
        assert!(matches!(error, CallError::Foreign { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_shown_in_the_words_of_the_node() {
    let error = served(
        b"HTTP/1.1 404 Not Found\r\n\r\n{\"error\":{\"kind\":\"NotFound\",\"message\":\"there is no actor x\"}}",
    )
    .await;
    assert_eq!(error.to_string(), "there is no actor x (NotFound)");
}

#[test]
fn tables_have_what_json_has() {
    let status = Status {
        node: "left".to_owned(),
        state: "running".to_owned(),
        actors: 1_234,
        moving: 3,
        peers: vec![Peer {
            node: "right".to_owned(),
            mesh: "tcp://127.0.0.1:1".to_owned(),
            state: "connected".to_owned(),
        }],
        ..Status::default()
    };
    let text = status_table(&status);
    for word in [
        "left",
        "running",
        "1,234",
        "moving             3",
        "right",
        "connected",
    ] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    let found = Location {
        object: ObjectName {
            kind: ObjectKind::Actor,
            id: "a".to_owned(),
        },
        node: "left".to_owned(),
        generation: "7".to_owned(),
    };
    assert_eq!(
        location(&found, &remote("")),
        "actor       a\nnode        left\ngeneration  7\n"
    );
}
