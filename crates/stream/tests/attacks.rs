//! Clients that attack the server below the frames: handshakes that crawl, WebSocket frames that no client sends, and floods
//! of what the server answers by itself.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    clippy::let_underscore_must_use,
    let_underscore_drop,
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use std::time::Duration;

use bytes::BytesMut;
use spotlane_stream::StreamSettings;
use spotlane_stream_proto::server::ServerTimes;
use spotlane_stream_proto::ws::{self, Mask};
use support::{PATIENCE, Rig, request, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A client whose upgrade was granted, and what came behind the grant.
async fn upgraded(rig: &Rig) -> TcpStream {
    let mut socket = rig.connect().await.socket;
    let (request, key) = ws::client_request("localhost", "/", [7; 16]);
    socket.write_all(&request).await.unwrap();
    let mut input = BytesMut::new();
    while ws::parse_response(&mut input, &key).unwrap().is_none() {
        assert!(socket.read_buf(&mut input).await.unwrap() > 0);
    }
    socket
}

fn masked(bytes: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    ws::put_data(bytes, Some(Mask::new([9, 8, 7, 6])), &mut out);
    out
}

/// A well-behaved client beside the others.
struct Calm {
    socket: TcpStream,
    asked: u64,
}

impl Calm {
    async fn new(rig: &Rig) -> Self {
        let socket = upgraded(rig).await;
        Self { socket, asked: 0 }
    }

    /// Its requests are answered; what else comes are pings, which it need not answer so soon.
    async fn is_served(&mut self) {
        self.asked += 1;
        let text = format!("calm-{}-", self.asked);
        let packet = masked(&request(self.asked, "echo", &text));
        self.socket.write_all(&packet).await.unwrap();
        let answered = async {
            let mut input = BytesMut::new();
            while !input
                .windows(text.len())
                .any(|found| found == text.as_bytes())
            {
                assert!(self.socket.read_buf(&mut input).await.unwrap() > 0);
            }
        };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .expect("served");
    }
}

/// A server over WebSocket that ends nobody for silence.
async fn patient() -> Rig {
    let times = ServerTimes {
        heartbeat_timeout: 2 * PATIENCE,
        idle_timeout: None,
        ..ServerTimes::default()
    };
    let settings = StreamSettings::new("ws://127.0.0.1:0".parse().unwrap()).times(times);
    Rig::with(settings, 1_024).await
}

/// Reads until the server ends the connection, whatever it says before.
async fn ends(socket: &mut TcpStream) {
    let end = async {
        let mut thrown_away = [0; 4_096];
        while matches!(socket.read(&mut thrown_away).await, Ok(1..)) {}
    };
    tokio::time::timeout(PATIENCE, end).await.expect("it ends");
}

/// ST-130, ST-139: an upgrade that comes byte by byte has the handshake timeout as a whole, not for each byte
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_crawls_is_cut_off() {
    let settings = StreamSettings::new("ws://127.0.0.1:0".parse().unwrap())
        // Long enough for the upgrade of the calm one on a machine that is busy with other things.
        .handshake_timeout(Duration::from_secs(4));
    let rig = Rig::with(settings, 1_024).await;
    let mut calm = Calm::new(&rig).await;
    let mut crawling = JoinSet::new();
    for _ in 0..20 {
        let mut socket = rig.connect().await.socket;
        crawling.spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            let head = b"GET / HTTP/1.1\r\nX: "
                .iter()
                .chain(std::iter::repeat(&b'x'));
            for byte in head {
                pace.tick().await;
                if socket.write_all(&[*byte]).await.is_err() {
                    break;
                }
            }
        });
    }
    until(|| rig.server.stats().handshakes_failed() == 20).await;
    let all = tokio::time::timeout(PATIENCE, crawling.join_all()).await;
    all.expect("cut off");
    calm.is_served().await;
    assert_eq!(rig.server.stats().opened(), 1);
}

/// ST-133, ST-139: the beginning of a TLS handshake, and then nothing
#[tokio::test(flavor = "multi_thread")]
async fn a_tls_handshake_that_is_never_finished_is_cut_off() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (chain, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = spotlane_stream::ServerTls::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let settings = StreamSettings::new("wss://127.0.0.1:0".parse().unwrap())
        .tls(tls)
        .handshake_timeout(Duration::from_millis(300));
    let rig = Rig::with(settings, 1_024).await;
    // A record of a ClientHello that says how long it is.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for cut in 0..=hello.len() {
        let mut socket = rig.connect().await.socket;
        socket.write_all(&hello[..cut]).await.unwrap();
        ends(&mut socket).await;
    }
    let failed = u64::try_from(hello.len()).unwrap() + 1;
    until(|| rig.server.stats().handshakes_failed() == failed).await;
    assert_eq!(rig.server.stats().opened(), 0);
}

/// ST-131, ST-132: what no WebSocket client may send, at the beginning and in the middle of a message
#[tokio::test(flavor = "multi_thread")]
async fn websocket_frames_in_bad_places_end_their_own_connection() {
    let rig = patient().await;
    let mut calm = Calm::new(&rig).await;
    let long = [&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[0; 126]].concat();
    let endless = [&[0x82, 0xff][..], &[0xff; 8], &[0; 4]].concat();
    let bad: [(&str, &[u8]); 12] = [
        ("a ping in two parts", &[0x09, 0x80, 0, 0, 0, 0]),
        ("a ping that is too long", &long),
        ("a reserved bit", &[0xc2, 0x80, 0, 0, 0, 0]),
        ("an unknown kind", &[0x83, 0x80, 0, 0, 0, 0]),
        ("an unknown control", &[0x8b, 0x80, 0, 0, 0, 0]),
        ("no mask", &[0x82, 0x01, 0]),
        ("a ping without a mask", &[0x89, 0x00]),
        ("a continuation of nothing", &[0x80, 0x80, 0, 0, 0, 0]),
        (
            "a message inside of another",
            &[0x02, 0x80, 0, 0, 0, 0, 0x82, 0x80, 0, 0, 0, 0],
        ),
        ("text", &[0x81, 0x80, 0, 0, 0, 0]),
        ("a close of one byte", &[0x88, 0x81, 0, 0, 0, 0, 3]),
        ("a length beyond all bounds", &endless),
    ];
    let of = |begins: &str| {
        let lines = rig.log.all();
        lines.iter().filter(|line| line.starts_with(begins)).count()
    };
    for (number, (what, frame)) in (1..).zip(bad) {
        let mut socket = upgraded(&rig).await;
        socket.write_all(frame).await.unwrap();
        ends(&mut socket).await;
        calm.is_served().await;
        until(|| of("disconnected ProtocolError") == number).await;
        assert_eq!(of("connected"), number + 1, "{what}");
    }
    assert_eq!(of("disconnected"), bad.len());
}

/// ST-139, ST-149: pings are answered by the server itself; who sends them and does not read is not read either
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pings_that_nobody_reads_the_answers_of_waits_at_its_client() {
    let rig = patient().await;
    let mut calm = Calm::new(&rig).await;
    let mut flood = upgraded(&rig).await;
    let ping = [&[0x89, 0xfd, 0, 0, 0, 0][..], &[b'x'; 125]].concat();
    let many = ping.repeat(500);
    let mut sent = 0_usize;
    let stalled = async {
        loop {
            // From where the last write stopped, so that it stays pings.
            let rest = &many[sent % many.len()..];
            match tokio::time::timeout(Duration::from_millis(500), flood.write(rest)).await {
                Ok(written) => sent += written.unwrap(),
                Err(_) => break,
            }
            assert!(sent < 256 << 20, "nobody keeps that much");
        }
    };
    tokio::time::timeout(PATIENCE, stalled)
        .await
        .expect("it stalls");
    calm.is_served().await;
    drop(flood);
    until(|| rig.server.stats().active() == 1).await;
    calm.is_served().await;
}

/// ST-119, ST-141: pings of the stream itself, with others served between them
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_heartbeats_does_not_keep_others_waiting() {
    let rig = patient().await;
    let mut calm = Calm::new(&rig).await;
    let ping = spotlane_stream_proto::Control::Ping;
    let ping = spotlane_stream_proto::to_bytes(&ping.into()).unwrap();
    let many = masked(&ping.repeat(1_000));
    let mut floods = JoinSet::new();
    for _ in 0..4 {
        let (mut read, mut write) = upgraded(&rig).await.into_split();
        let many = many.clone();
        floods.spawn(async move {
            let reads = async {
                let mut thrown_away = [0; 8_192];
                while matches!(read.read(&mut thrown_away).await, Ok(1..)) {}
            };
            let writes = async {
                for _ in 0..50 {
                    if write.write_all(&many).await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! {
                () = reads => {}
                () = writes => {}
            }
        });
    }
    for _ in 0..50 {
        calm.is_served().await;
    }
    let all = tokio::time::timeout(PATIENCE, floods.join_all()).await;
    all.expect("in time");
    until(|| rig.server.stats().active() == 1).await;
}
