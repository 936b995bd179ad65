//! The server over real sockets: what well-behaved clients get, and what others cannot do.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::let_underscore_must_use,
    let_underscore_drop,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use std::time::Duration;

use bytes::BytesMut;
use spotlane_stream::StreamSettings;
use spotlane_stream_proto::server::ServerTimes;
use spotlane_stream_proto::ws::{self, Deframer, Event, Mask, Side};
use spotlane_stream_proto::{CloseReason, Control, Frame, RemoteError, to_bytes};
use support::{PATIENCE, Rig, joined, request, send, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TCP: &str = "tcp://127.0.0.1:0";

/// A client that is served after whatever happened.
async fn still_serves(rig: &Rig) {
    let mut client = rig.connect().await;
    client.request(77, "echo", "ok").await;
    assert_eq!(client.response().await, (77, "ok".to_owned()));
}

/// ST-139, ST-144
#[tokio::test(flavor = "multi_thread")]
async fn callbacks_come_in_order_from_connected_to_disconnected() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    let all: Vec<_> = (0..200).map(|n| send("note", &n.to_string())).collect();
    client.write(&joined(&all)).await;
    drop(client);
    rig.log.wait("disconnected ClientClose").await;
    let log = rig.log.all();
    assert_eq!(log.len(), 202, "ST-145: a plain end is no error");
    assert_eq!((log[0].as_str(), log[1].as_str()), ("connected", "note 0"));
    assert_eq!(log[200], "note 199");
}

/// ST-135, ST-143: each connection has an id of its own, and its handler what the packet says
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_told_apart_and_handlers_get_what_a_packet_says() {
    let rig = Rig::start(TCP).await;
    let mut clients = [rig.connect().await, rig.connect().await];
    for (number, client) in (1..).zip(&mut clients) {
        client.request(number, "echo", "what").await;
        assert_eq!(client.response().await, (number, "what".to_owned()));
        client.send("note", "no answer").await;
    }
    rig.log.wait("note no answer").await;
    let sessions = rig.server.sessions();
    assert_eq!(sessions.len(), 2);
    assert_ne!(sessions[0].rid(), sessions[1].rid());
    for session in &sessions {
        assert!(rig.server.session(session.rid()).is_some());
    }
}

/// ST-102, ST-147
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_wherever_its_bytes_are_cut() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    for byte in &request(9, "echo", "cut") {
        client.write(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.response().await, (9, "cut".to_owned()));
}

/// EX-280, ST-143, ST-147, ST-148
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_handler_answers_a_request_once_and_the_connection_stays() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    for (sequence, name) in [(1, "fail"), (2, "panic")] {
        client.request(sequence, name, "").await;
        match client.frame().await {
            Some(Frame::Error {
                sequence: Some(of),
                payload,
                ..
            }) => {
                assert_eq!(of.get(), sequence);
                let error = RemoteError::of_payload(&payload.bytes).unwrap();
                let code = if name == "fail" {
                    "NotFound"
                } else {
                    "InternalFailure"
                };
                assert_eq!(error.code, code);
            }
            other => panic!("{other:?}"),
        }
    }
    client.request(3, "twice", "").await;
    assert_eq!(client.response().await, (3, "1".to_owned()));
    client.send("fail", "").await;
    client.request(4, "echo", "next").await;
    assert_eq!(
        client.response().await,
        (4, "next".to_owned()),
        "nothing in between"
    );
    assert_eq!(rig.server.stats().failed_sends(), 1);
}

/// ST-150, EX-281
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_10_a_reply_after_the_close_goes_nowhere() {
    let rig = Rig::start(TCP).await;
    let mut first = rig.connect().await;
    first.request(1, "later", "").await;
    rig.log.wait("later ").await;
    drop(first);
    rig.log.wait("disconnected ClientClose").await;
    let mut second = rig.connect().await;
    rig.gate.add_permits(1);
    second.request(1, "echo", "mine").await;
    assert_eq!(second.response().await, (1, "mine".to_owned()));
}

/// ST-103, ST-104, ST-126, ST-155
#[tokio::test(flavor = "multi_thread")]
async fn garbage_at_every_field_ends_its_own_connection_only() {
    let rig = Rig::start(TCP).await;
    let good = request(1, "echo", "x");
    let mut ended = 0;
    for at in 0..good.len() - 1 {
        for byte in [0x00, 0x7f, 0xff] {
            let mut bytes = good.to_vec();
            if bytes[at] == byte {
                continue;
            }
            bytes[at] = byte;
            let mut client = rig.connect().await;
            client.write(&bytes).await;
            // What is a frame all the same, or only the start of one, is ended by the client.
            client.socket.shutdown().await.unwrap();
            if client.closing().await == Some(CloseReason::ProtocolError) {
                ended += 1;
            }
        }
    }
    assert!(ended > 10, "{ended}");
    still_serves(&rig).await;
}

/// ST-126
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_above_the_bound_is_closed_without_a_word() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    client.write(b"\0\x06\xff\xff\xff\xff").await;
    assert_eq!(client.closing().await, None);
    rig.log.wait("disconnected ProtocolError").await;
    let mut at_bound = rig.connect().await;
    let frame = send("note", &"x".repeat(65_536 - 9));
    at_bound.write(&frame).await;
    at_bound.request(1, "echo", "after").await;
    assert_eq!(at_bound.response().await.1, "after");
}

/// ST-106, ST-146
#[tokio::test(flavor = "multi_thread")]
async fn replies_and_reserved_names_reach_no_handler() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    client
        .write(b"\0\x0d\0\0\0\x02\xf2\x03\x01\x01\0\0\0\0\0\0\0\x05\0{}")
        .await;
    client
        .write(b"\0\x0d\0\0\0\x02\xf2\x01\x01\0\x08$zlink.x{}")
        .await;
    client.request(1, "echo", "after").await;
    assert_eq!(client.response().await.1, "after");
    assert_eq!(rig.server.stats().unexpected(), 1);
    assert_eq!(rig.log.all(), ["connected", "echo after"]);
}

/// ST-140, EX-120
#[tokio::test(flavor = "multi_thread")]
async fn without_permits_nothing_is_lost_doubled_or_reordered() {
    let settings = StreamSettings::new(TCP.parse().unwrap());
    let rig = Rig::with(settings, 1).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(rig.connect().await);
    }
    for client in &mut clients {
        let all: Vec<_> = (1..=100)
            .map(|n| request(n, "echo", &n.to_string()))
            .collect();
        client.write(&joined(&all)).await;
    }
    for client in &mut clients {
        for number in 1..=100 {
            assert_eq!(client.response().await, (number, number.to_string()));
        }
    }
    assert_eq!(rig.jobs.status().limit, 1);
}

/// ST-119, ST-142, EX-153
#[tokio::test(flavor = "multi_thread")]
async fn a_ping_is_answered_while_all_handlers_wait() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    client.send("stall", "").await;
    rig.log.wait("stall ").await;
    client
        .write(&to_bytes(&Control::Ping.into()).unwrap())
        .await;
    let mut answer = [0; 26 + 6];
    client.socket.read_exact(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"$zlink.heartbeat.pong"));
    still_serves(&rig).await;
    rig.gate.add_permits(1);
}

/// ST-141, ST-139
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_waits_in_the_socket_of_its_own_connection() {
    let rig = Rig::start(TCP).await;
    let mut flooder = rig.connect().await;
    flooder.send("stall", "").await;
    rig.log.wait("stall ").await;
    let frame = send("note", &"x".repeat(30_000));
    let mut written = 0;
    loop {
        let write = tokio::time::timeout(Duration::from_millis(300), flooder.write(&frame));
        if write.await.is_err() {
            break;
        }
        written += frame.len();
        assert!(written < 64 << 20, "nobody pushes back");
    }
    // Beside it others are served, and what was taken comes in order.
    still_serves(&rig).await;
    assert!(rig.jobs.status().queued <= 65, "{:?}", rig.jobs.status());
    rig.gate.add_permits(1);
}

/// ST-149, ST-156
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_holds_a_bounded_queue_and_nobody_else() {
    let times = ServerTimes {
        ping_interval: Duration::from_millis(100),
        // The other client, which is served, has to answer within it on a machine that is busy with other things.
        heartbeat_timeout: Duration::from_secs(4),
        ..ServerTimes::default()
    };
    let settings = StreamSettings::new(TCP.parse().unwrap())
        .times(times)
        .send_timeout(Duration::from_millis(200));
    let rig = Rig::with(settings, 1_024).await;
    let mut client = rig.connect().await;
    client.send("pour", "").await;
    rig.log.wait("pour ").await;
    rig.log.wait("disconnected HeartbeatTimeout").await;
    assert!(
        rig.log
            .all()
            .iter()
            .any(|line| line.starts_with("pour Deadline") || line.starts_with("pour Closed"))
    );
    let mut other = rig.connect().await;
    other.request(1, "echo", "ok").await;
    assert_eq!(other.response().await.1, "ok");
}

/// ST-151, ST-152
#[tokio::test(flavor = "multi_thread")]
async fn silence_and_idleness_are_told_and_closed() {
    // Who answers has so much time for it that it can do so on a machine that is busy with other things.
    let times = ServerTimes {
        ping_interval: Duration::from_millis(200),
        heartbeat_timeout: Duration::from_secs(4),
        idle_timeout: Some(Duration::from_secs(5)),
        ..ServerTimes::default()
    };
    let settings = StreamSettings::new(TCP.parse().unwrap()).times(times);
    let rig = Rig::with(settings, 1_024).await;
    let mut idle = rig.connect().await;
    assert_eq!(
        idle.closing().await,
        Some(CloseReason::IdleTimeout),
        "it answers pings"
    );
    let mut silent = rig.connect().await;
    let mut all = Vec::new();
    silent.socket.read_to_end(&mut all).await.unwrap();
    assert!(
        all.windows(2).any(|pair| pair == [1, 3]),
        "version 1, reason 3"
    );
    rig.log.wait("disconnected HeartbeatTimeout").await;
}

/// ST-151: a server that is late itself reads what its client has answered in time, before it judges
#[tokio::test]
async fn a_server_that_is_late_reads_before_it_judges_silence() {
    let times = ServerTimes {
        ping_interval: Duration::from_secs(100),
        heartbeat_timeout: Duration::from_secs(1_000),
        idle_timeout: None,
        ..ServerTimes::default()
    };
    let settings = StreamSettings::new(TCP.parse().unwrap()).times(times);
    let rig = Rig::with(settings, 1_024).await;
    let mut client = rig.connect().await;
    client.request(1, "echo", "before").await;
    assert_eq!(client.response().await.1, "before");
    pass(Duration::from_secs(101)).await;
    let ping = to_bytes(&Control::Ping.into()).unwrap();
    let answer = to_bytes(&Control::Pong.into()).unwrap();
    let mut asked = vec![0; ping.len()];
    client.socket.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked, ping);
    // The answer is there when the server has its turn, and so is the end of its patience.
    client.write(&answer).await;
    pass(Duration::from_secs(1_001)).await;
    client.request(2, "echo", "after").await;
    assert_eq!(client.response().await.1, "after");
}

/// Lets so much time pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// ST-155, ST-158
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_closes_without_a_word_and_after_what_it_sent() {
    let rig = Rig::start(TCP).await;
    let mut client = rig.connect().await;
    client
        .write(&joined(&[send("push", "last"), send("bye", "")]))
        .await;
    assert!(matches!(client.frame().await, Some(Frame::Send { .. })));
    assert_eq!(client.frame().await, None);
    rig.log.wait("disconnected ClientClose").await;
    // It is counted beside the callback.
    until(|| rig.server.stats().active() == 0).await;
    assert_eq!(rig.server.stats().closed(CloseReason::ClientClose), 1);
}

/// ST-155, RL-229
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_finishes_callbacks_tells_everybody_and_turns_new_clients_away() {
    let rig = Rig::start(TCP).await;
    let mut busy = rig.connect().await;
    busy.send("stall", "").await;
    busy.request(1, "echo", "accepted").await;
    rig.log.wait("stall ").await;
    let mut idle = rig.connect().await;
    idle.request(1, "echo", "x").await;
    idle.response().await;
    let draining = rig.server.drain(PATIENCE);
    let clients = async {
        assert_eq!(idle.closing().await, Some(CloseReason::ServerDrain));
        let mut late = rig.connect().await;
        assert_eq!(late.closing().await, Some(CloseReason::ServerDrain));
        rig.gate.add_permits(1);
        assert_eq!(busy.response().await, (1, "accepted".to_owned()));
        assert_eq!(busy.closing().await, Some(CloseReason::ServerDrain));
    };
    tokio::join!(draining, clients);
    assert_eq!(rig.server.stats().active(), 0);
    assert_eq!(
        rig.log.count("connected"),
        2,
        "the late one made no session"
    );
}

/// ST-144, ST-156
#[tokio::test(flavor = "multi_thread")]
async fn cut_anywhere_a_session_ends_exactly_once() {
    let rig = Rig::start(TCP).await;
    let whole = joined(&[
        send("note", "a"),
        request(1, "echo", "b"),
        send("note", "c"),
    ]);
    for cut in 0..whole.len() {
        let mut client = rig.connect().await;
        client.write(&whole[..cut]).await;
        if cut % 2 == 0 {
            // A reset instead of an end.
            client.socket.set_zero_linger().unwrap();
        }
    }
    still_serves(&rig).await;
    until(|| {
        let log = rig.log.all();
        let opened = log.iter().filter(|line| *line == "connected").count();
        let ended = log
            .iter()
            .filter(|line| line.starts_with("disconnected"))
            .count();
        assert!(ended <= opened);
        ended == opened
    })
    .await;
    // A session is counted beside its last callback.
    until(|| rig.server.stats().active() == 0).await;
}

struct WebSocket {
    socket: TcpStream,
    input: BytesMut,
}

impl WebSocket {
    async fn open(rig: &Rig, target: &str) -> Self {
        let mut socket = rig.connect().await.socket;
        let (request, key) = ws::client_request("localhost", target, [7; 16]);
        socket.write_all(&request).await.unwrap();
        let mut input = BytesMut::new();
        while ws::parse_response(&mut input, &key).unwrap().is_none() {
            assert!(socket.read_buf(&mut input).await.unwrap() > 0);
        }
        Self { socket, input }
    }

    async fn data(&mut self, bytes: &[u8]) {
        let mut out = BytesMut::new();
        ws::put_data(bytes, Some(Mask::new([9, 8, 7, 6])), &mut out);
        self.socket.write_all(&out).await.unwrap();
    }

    /// What the server sends until it closes, or until so many bytes of the stream are there.
    async fn read(&mut self, bytes: usize) -> (BytesMut, Vec<Event>) {
        let (mut stream, mut events) = (BytesMut::new(), Vec::new());
        let mut deframer = Deframer::new(Side::Client);
        loop {
            while let Some(event) = deframer.next_event(&mut self.input, &mut stream).unwrap() {
                let ends = matches!(event, Event::Close(_));
                events.push(event);
                if ends {
                    return (stream, events);
                }
            }
            if stream.len() >= bytes || self.socket.read_buf(&mut self.input).await.unwrap() == 0 {
                return (stream, events);
            }
        }
    }
}

/// ST-130, ST-131, ST-132
#[tokio::test(flavor = "multi_thread")]
async fn websocket_messages_may_be_cut_in_any_way_and_text_ends_the_connection() {
    let rig = Rig::start("ws://127.0.0.1:0").await;
    let mut client = WebSocket::open(&rig, "/some/path?x=1").await;
    let whole = request(1, "echo", "hi");
    client.data(&whole[..3]).await;
    client.data(&[]).await;
    client.data(&whole[3..]).await;
    let (answer, _) = client.read(20).await;
    assert!(answer.ends_with(b"hi"));
    let mut text = BytesMut::from(&[0x81, 0x82, 0, 0, 0, 0][..]);
    text.extend_from_slice(b"hi");
    client.socket.write_all(&text).await.unwrap();
    let (last, events) = client.read(usize::MAX).await;
    assert!(last.windows(15).any(|window| window == b"session-closing"));
    assert_eq!(events.last(), Some(&Event::Close(Some(1_000))));
    rig.log.wait("disconnected ProtocolError").await;
}

/// ST-132
#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_ping_and_close_are_answered() {
    let rig = Rig::start("ws://127.0.0.1:0").await;
    let mut client = WebSocket::open(&rig, "/").await;
    let ping = [0x89, 0x82, 0, 0, 0, 0, b'h', b'i'];
    let close = [0x88, 0x82, 0, 0, 0, 0, 0x0f, 0xa1];
    client.socket.write_all(&ping).await.unwrap();
    client.socket.write_all(&close).await.unwrap();
    let (_, events) = client.read(usize::MAX).await;
    assert_eq!(events, [Event::Pong, Event::Close(Some(4_001))]);
    rig.log.wait("disconnected ClientClose").await;
}

/// ST-130
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_upgrade_gets_status_400_and_no_session() {
    let rig = Rig::start("ws://127.0.0.1:0").await;
    for bad in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\n\r\n",
    ] {
        let mut client = rig.connect().await;
        client.write(bad.as_bytes()).await;
        let mut answer = Vec::new();
        client.socket.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400 "));
    }
    let mut endless = rig.connect().await;
    let junk = vec![b'x'; 20_000];
    let _ = endless.socket.write_all(&junk).await;
    let mut answer = Vec::new();
    let _ = endless.socket.read_to_end(&mut answer).await;
    assert_eq!(rig.log.all(), Vec::<String>::new());
    until(|| rig.server.stats().handshakes_failed() >= 3).await;
}

/// ST-133, ST-137
#[tokio::test(flavor = "multi_thread")]
async fn bad_tls_makes_no_session_and_harms_nobody() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (chain, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = spotlane_stream::ServerTls::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(spotlane_stream::ServerTls::from_pem(b"", key.as_bytes()).is_err());
    let settings = StreamSettings::new("tls://127.0.0.1:0".parse().unwrap())
        .tls(tls)
        .handshake_timeout(Duration::from_millis(300));
    let rig = Rig::with(settings, 1_024).await;
    let mut plain = rig.connect().await;
    plain.request(1, "echo", "x").await;
    let mut answer = Vec::new();
    let _ = plain.socket.read_to_end(&mut answer).await;
    let mut silent = rig.connect().await;
    let _ = silent.socket.read_to_end(&mut answer).await;
    until(|| rig.server.stats().handshakes_failed() >= 2).await;
    assert_eq!(rig.log.all(), Vec::<String>::new());
}

/// ST-139
#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_allowed_are_closed_at_once() {
    let settings = StreamSettings::new(TCP.parse().unwrap()).sessions_max(2);
    let rig = Rig::with(settings, 1_024).await;
    let (mut one, _two) = (rig.connect().await, rig.connect().await);
    one.request(1, "echo", "x").await;
    one.response().await;
    until(|| rig.server.stats().opened() >= 2).await;
    let mut three = rig.connect().await;
    assert_eq!(three.frame().await, None);
    assert_eq!(rig.server.stats().refused(), 1);
}
