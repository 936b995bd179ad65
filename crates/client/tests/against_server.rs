//! Our client and our server, over every transport and through what can go wrong (ST-T9 to ST-T13).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the lint's setting"
)]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spotlane_client::{
    Client, ClientSettings, ClientTls, CloseReason, ConnectError, ConnectorState, Diagnostics,
    Heartbeat, Inbox, Incoming, Name, Payload, Reconnect, ReconnectOutcome, ReconnectReason,
    RequestError, WaitError,
};
use spotlane_lane::{Engine, JobQueue, JobQueueSettings, Monotonic};
use spotlane_stream::{
    Execution, HandlerFailure, Packet, ServerTls, Session, SessionHandler, SessionIds,
    StreamServer, StreamSettings,
};
use spotlane_stream_proto::server::ServerTimes;
use spotlane_stream_proto::{Control, Extras, Frame, to_bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// How long anything may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

struct Handler;

impl SessionHandler for Handler {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let payload = packet.payload().clone();
        match packet.name() {
            "fail" => Err(HandlerFailure::new("NotFound", "no such bag")),
            "silent" => Ok(()),
            "push" => Ok(session.send(name("pushed"), payload).await?),
            "bye" => {
                session.close();
                Ok(())
            }
            _ => Ok(packet.reply(payload).await?),
        }
    }
}

fn name(text: &str) -> Name {
    Name::application(text).unwrap()
}

struct Rig {
    server: StreamServer,
    tls: Option<ClientTls>,
    _engine: Arc<Engine>,
}

impl Rig {
    async fn start(scheme: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let chain = certified.cert.pem();
        let key = certified.signing_key.serialize_pem();
        let endpoint = format!("{scheme}://127.0.0.1:0").parse().unwrap();
        let mut settings = StreamSettings::new(endpoint);
        let mut tls = None;
        if matches!(scheme, "tls" | "wss") {
            let server = ServerTls::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
            settings = settings.tls(server);
            tls = Some(ClientTls::authorities(chain.as_bytes()).unwrap());
        }
        Self::with(settings, tls).await
    }

    async fn with(settings: StreamSettings, tls: Option<ClientTls>) -> Self {
        let start = tokio::time::Instant::now();
        let clock = Arc::new(move || Monotonic::from_origin(start.elapsed()));
        let handle = tokio::runtime::Handle::current();
        let engine = Arc::new(Engine::start(&handle, NonZeroUsize::new(2).unwrap(), clock));
        let jobs = JobQueue::new(JobQueueSettings::manual(1_024).unwrap());
        let execution = Execution {
            engine: &engine,
            jobs,
        };
        let ids = SessionIds::default();
        let server = StreamServer::start(settings, execution, ids, None, |_| Handler).await;
        Self {
            server: server.unwrap(),
            tls,
            _engine: engine,
        }
    }

    fn settings(&self) -> ClientSettings {
        let endpoint = self.server.endpoint();
        let scheme = endpoint.transport.scheme();
        let at = format!("{scheme}://localhost:{}", endpoint.address.port());
        let settings = ClientSettings::new(at.parse().unwrap());
        match &self.tls {
            Some(tls) => settings.tls(tls.clone()),
            None => settings,
        }
    }

    async fn client(&self) -> (Client, Inbox) {
        let (client, inbox) = Client::new(self.settings()).unwrap();
        client.connect().await.unwrap();
        (client, inbox)
    }
}

async fn until(there: impl Fn() -> bool) {
    let wait = async {
        while !there() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("in time");
}

async fn disconnected(inbox: &mut Inbox) -> CloseReason {
    loop {
        match inbox.next().await {
            Some(Incoming::Disconnected(reason)) => return reason,
            Some(_) => {}
            None => panic!("closed without a reason"),
        }
    }
}

async fn state(inbox: &mut Inbox, wanted: ConnectorState) {
    loop {
        match inbox.next().await {
            Some(Incoming::State(state)) if state == wanted => return,
            Some(_) => {}
            None => panic!("closed before {wanted:?}"),
        }
    }
}

/// ST-T13, ST-121, ST-129, ST-133, ST-134, ST-136, ST-178
#[tokio::test(flavor = "multi_thread")]
async fn every_transport_carries_requests_errors_and_pushes() {
    for scheme in ["tcp", "tls", "ws", "wss"] {
        let rig = Rig::start(scheme).await;
        let (client, mut inbox) = rig.client().await;
        let large = Payload::json("x".repeat(60_000));
        assert_eq!(
            client.request(name("echo"), large.clone()).await,
            Ok(large),
            "{scheme}"
        );
        match client.request(name("fail"), Payload::json("1")).await {
            Err(RequestError::Remote(error)) => assert!(error.is("NotFound")),
            other => panic!("{other:?}"),
        }
        let packed = Payload::compressed(spotlane_client::Codec::Json, &"a".repeat(500).into());
        client.send(name("push"), packed).await.unwrap();
        let push = inbox.push("pushed", PATIENCE, |_| true).await.unwrap();
        assert_eq!(push.payload, Payload::json("a".repeat(500)));
        client.close().await;
        assert_eq!(client.state(), ConnectorState::Closed);
        assert_eq!(disconnected(&mut inbox).await, CloseReason::ClientClose);
        let refused = client.request(name("echo"), Payload::json("")).await;
        assert_eq!(refused, Err(RequestError::NotConnected));
        assert_eq!(client.connect().await, Err(ConnectError::Closed));
    }
}

/// ST-133
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_somebody_else_is_refused_unless_that_is_switched_off() {
    let rig = Rig::start("tls").await;
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let stranger = ClientTls::authorities(other.cert.pem().as_bytes()).unwrap();
    let settings = rig.settings().tls(stranger).reconnect(None);
    let (client, _inbox) = Client::new(settings).unwrap();
    match client.connect().await {
        Err(ConnectError::Attempt(spotlane_client::AttemptError::Tls(_))) => {}
        other => panic!("{other:?}"),
    }
    let anybody = ClientTls::dangerous_without_verification().unwrap();
    let (client, _inbox) = Client::new(rig.settings().tls(anybody)).unwrap();
    client.connect().await.unwrap();
}

/// ST-166, ST-167, ST-179
#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_get_their_own_answers() {
    let rig = Rig::start("tcp").await;
    let (client, _inbox) = rig.client().await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..500 {
        let client = client.clone();
        all.spawn(async move {
            let payload = Payload::json(number.to_string());
            assert_eq!(
                client.request(name("echo"), payload.clone()).await,
                Ok(payload)
            );
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// ST-165, ST-167, ST-177: the error of a call is no event
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_answer_ends_in_time_and_harms_nothing() {
    let rig = Rig::start("tcp").await;
    let (client, mut inbox) = rig.client().await;
    let short = Some(Duration::from_millis(50));
    let late = client
        .request_with(name("silent"), Payload::json(""), None, short)
        .await;
    assert_eq!(late, Err(RequestError::Timeout));
    let dropped = client.request(name("silent"), Payload::json(""));
    assert!(
        tokio::time::timeout(Duration::from_millis(20), dropped)
            .await
            .is_err()
    );
    assert!(
        client
            .request(name("echo"), Payload::json("1"))
            .await
            .is_ok()
    );
    while let Some(incoming) = inbox.try_next() {
        assert!(!matches!(incoming, Incoming::Error(_)), "{incoming:?}");
    }
}

/// ST-160, ST-161, ST-163, SB-64
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_19_a_lost_connection_is_made_again_as_a_new_session() {
    let rig = Rig::start("tcp").await;
    let (client, mut inbox) = rig.client().await;
    client
        .request(name("echo"), Payload::json("1"))
        .await
        .unwrap();
    let first = rig.server.sessions()[0].rid().clone();
    let pending = client.request(name("silent"), Payload::json(""));
    let cut = async {
        client.send(name("bye"), Payload::json("")).await.unwrap();
    };
    let (pending, ()) = tokio::join!(pending, cut);
    assert_eq!(
        pending,
        Err(RequestError::Disconnected(CloseReason::TransportError))
    );
    state(&mut inbox, ConnectorState::Connected).await;
    state(&mut inbox, ConnectorState::Connected).await;
    client
        .request(name("echo"), Payload::json("2"))
        .await
        .unwrap();
    // The former session takes its leave on its own, beside the new one.
    until(|| rig.server.session(&first).is_none()).await;
    assert_ne!(*rig.server.sessions()[0].rid(), first);
}

/// ST-174, ST-163
#[tokio::test(flavor = "multi_thread")]
async fn a_draining_server_is_dialled_a_bounded_number_of_times() {
    let rig = Rig::start("tcp").await;
    let reconnect = Reconnect {
        delay: Duration::from_millis(10),
        ..Reconnect::DEFAULT
    };
    let (client, mut inbox) = Client::new(rig.settings().reconnect(Some(reconnect))).unwrap();
    client.connect().await.unwrap();
    client
        .request(name("echo"), Payload::json("1"))
        .await
        .unwrap();
    rig.server.drain(Duration::from_secs(1)).await;
    assert_eq!(disconnected(&mut inbox).await, CloseReason::ServerDrain);
    for _ in 0..3 {
        assert_eq!(disconnected(&mut inbox).await, CloseReason::ServerDrain);
    }
    until(|| client.state() == ConnectorState::Disconnected).await;
    assert_eq!(rig.server.stats().refused(), 3);
    assert_eq!(client.close_reason(), Some(CloseReason::ServerDrain));
}

/// Waits until a client of a server that says nothing gives up.
async fn ended_by_silence(beat: Heartbeat) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("tcp://{}", listener.local_addr().unwrap());
    let settings = ClientSettings::new(at.parse().unwrap()).reconnect(None);
    let (client, mut inbox) = Client::new(settings.heartbeat(Some(beat))).unwrap();
    let (connected, _silent) = tokio::join!(client.connect(), listener.accept());
    connected.unwrap();
    assert_eq!(
        disconnected(&mut inbox).await,
        CloseReason::HeartbeatTimeout
    );
}

/// ST-170: a client that is late itself reads what its server has answered in time, before it judges
#[tokio::test]
async fn a_client_that_is_late_reads_before_it_judges_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("tcp://{}", listener.local_addr().unwrap());
    let beat = Heartbeat::new(Duration::from_secs(100), Duration::from_secs(1_000)).unwrap();
    let settings = ClientSettings::new(at.parse().unwrap()).reconnect(None);
    let (client, mut inbox) = Client::new(settings.heartbeat(Some(beat))).unwrap();
    let (connected, accepted) = tokio::join!(client.connect(), listener.accept());
    connected.unwrap();
    let mut server = accepted.unwrap().0;
    pass(Duration::from_secs(101)).await;
    let ping = to_bytes(&Control::Ping.into()).unwrap();
    let answer = to_bytes(&Control::Pong.into()).unwrap();
    let mut asked = vec![0; ping.len()];
    server.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked, ping);
    // The answer is there when the client has its turn, and so is the end of its patience.
    server.write_all(&answer).await.unwrap();
    pass(Duration::from_secs(1_001)).await;
    let push = Frame::Send {
        name: name("pushed"),
        payload: Payload::json("1"),
        extras: Extras::default(),
    };
    server.write_all(&to_bytes(&push).unwrap()).await.unwrap();
    let push = inbox.push("pushed", PATIENCE, |_| true).await.unwrap();
    assert_eq!(push.payload, Payload::json("1"));
    assert_eq!(client.state(), ConnectorState::Connected);
}

/// Lets so much time pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// ST-176: a loss, attempts that find nobody, and one that the application asks for
#[tokio::test(flavor = "multi_thread")]
async fn attempts_after_a_loss_are_counted_by_outcome_and_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let again = Reconnect {
        delay: Duration::from_millis(1),
        ..Reconnect::DEFAULT
    };
    let endpoint = format!("tcp://{address}").parse().unwrap();
    let settings = ClientSettings::new(endpoint).reconnect(Some(again));
    let (client, mut inbox) = Client::new(settings).unwrap();
    let (connected, accepted) = tokio::join!(client.connect(), listener.accept());
    connected.unwrap();
    assert_eq!(client.reconnects().total(), 0, "the first is none");
    // In this order: one that finds its connection gone is back within a moment, and must find nobody.
    drop(listener);
    drop(accepted);
    disconnected(&mut inbox).await;
    state(&mut inbox, ConnectorState::Disconnected).await;
    let count = |outcome, reason| client.reconnects().count(outcome, reason);
    let failed = ReconnectOutcome::Failed;
    assert_eq!(count(failed, ReconnectReason::TransportClosed), 1);
    assert_eq!(
        count(failed, ReconnectReason::ConnectFailed),
        2,
        "three in all"
    );
    let listener = TcpListener::bind(address).await.unwrap();
    let (connected, accepted) = tokio::join!(client.connect(), listener.accept());
    connected.unwrap();
    let connected = ReconnectOutcome::Connected;
    assert_eq!(count(connected, ReconnectReason::Requested), 1);
    assert_eq!(client.reconnects().total(), 4);
    drop(accepted);
}

/// ST-169: everything is handled as it comes, and nothing waits
#[tokio::test(flavor = "multi_thread")]
async fn immediate_dispatch_handles_pushes_as_they_come() {
    let rig = Rig::start("tcp").await;
    let (client, inbox) = rig.client().await;
    let (seen, mut pushes) = tokio::sync::mpsc::channel(64);
    let mut dispatch = tokio::task::JoinSet::new();
    dispatch.spawn(inbox.dispatch(async move |incoming| {
        if let Incoming::Push(push) = incoming {
            seen.send(push.payload.bytes).await.unwrap();
        }
    }));
    for number in 0..20 {
        let payload = Payload::json(number.to_string());
        client.send(name("push"), payload).await.unwrap();
        assert_eq!(pushes.recv().await.unwrap(), number.to_string());
    }
    client.close().await;
    dispatch.join_next().await.unwrap().unwrap();
}

/// ST-128: a payload at the client's bound is above the server's, because the header counts there
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_near_the_bound_does_not_fit_a_server() {
    let rig = Rig::start("tcp").await;
    let (client, mut inbox) = rig.client().await;
    let fits = Payload::json("x".repeat(65_000));
    assert_eq!(client.request(name("echo"), fits.clone()).await, Ok(fits));
    let full = Payload::json("x".repeat(65_536));
    let ended = client.request(name("echo"), full).await;
    let lost = RequestError::Disconnected(CloseReason::TransportError);
    assert_eq!(ended, Err(lost));
    assert_eq!(disconnected(&mut inbox).await, CloseReason::TransportError);
}

/// ST-169, ST-170, ST-173
#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_to_take_anything_for_the_connection_to_stay() {
    let rig = Rig::start("tcp").await;
    // Long enough that a server that has to wait for its turn is not taken for a silent one.
    let beat = Heartbeat::new(Duration::from_millis(100), Duration::from_secs(2)).unwrap();
    let (client, mut inbox) = Client::new(rig.settings().heartbeat(Some(beat))).unwrap();
    client.connect().await.unwrap();
    for number in 0..50 {
        let payload = Payload::json(number.to_string());
        client.send(name("push"), payload).await.unwrap();
    }
    // Who meets silence with the same heartbeat is gone by the timeout: then it has passed here as well.
    for _ in 0..2 {
        ended_by_silence(beat).await;
    }
    assert_eq!(client.state(), ConnectorState::Connected);
    let mut next = 0;
    while let Some(incoming) = inbox.try_next() {
        if let Incoming::Push(push) = incoming {
            assert_eq!(push.payload, Payload::json(next.to_string()));
            next += 1;
        }
    }
    assert_eq!(next, 50, "ST-171: nothing is dropped");
}

/// ST-171
#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_queue_drops_the_newest_and_says_so() {
    let rig = Rig::start("tcp").await;
    let settings = rig.settings().receive_queue_max(NonZeroUsize::new(2));
    let (client, mut inbox) = Client::new(settings).unwrap();
    client.connect().await.unwrap();
    for number in 0..5 {
        client
            .send(name("push"), Payload::json(number.to_string()))
            .await
            .unwrap();
    }
    client
        .request(name("echo"), Payload::json(""))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Some(incoming) = inbox.try_next() {
        match incoming {
            Incoming::Push(push) => seen.push(push.payload.bytes),
            Incoming::Dropped => seen.push("dropped".into()),
            _ => {}
        }
    }
    assert_eq!(seen, ["0", "1", "dropped"]);
}

/// ST-172
#[tokio::test(flavor = "multi_thread")]
async fn waits_take_what_fits_and_leave_the_rest() {
    let rig = Rig::start("tcp").await;
    let (client, mut inbox) = rig.client().await;
    for number in 0..3 {
        client
            .send(name("push"), Payload::json(number.to_string()))
            .await
            .unwrap();
    }
    let two = inbox
        .push("pushed", PATIENCE, |push| push.payload.bytes == "2")
        .await
        .unwrap();
    assert_eq!(two.payload, Payload::json("2"));
    assert_eq!(
        inbox.no_push("pushed", PATIENCE).await,
        Err(WaitError::Unexpected),
        "0 was there"
    );
    inbox
        .push("pushed", PATIENCE, |push| push.payload.bytes == "1")
        .await
        .unwrap();
    let window = Duration::from_millis(30);
    assert_eq!(inbox.no_push("pushed", window).await, Ok(()));
    let none = inbox.push("pushed", window, |_| true).await;
    assert_eq!(none, Err(WaitError::Timeout(window)));
}

/// ST-110
#[tokio::test(flavor = "multi_thread")]
async fn without_diagnostics_no_flow_is_sent() {
    for (diagnostics, expected) in [(Diagnostics::Off, false), (Diagnostics::Errors, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("tcp://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let settings = ClientSettings::new(at).diagnostics(diagnostics);
        let (client, _inbox) = Client::new(settings).unwrap();
        let (connected, accepted) = tokio::join!(client.connect(), listener.accept());
        connected.unwrap();
        client.send(name("n"), Payload::json("{}")).await.unwrap();
        let mut prefix = [0; 10];
        accepted.unwrap().0.read_exact(&mut prefix).await.unwrap();
        assert_eq!(prefix[9] & 0x10 != 0, expected);
    }
}

/// ST-161, ST-162, ST-164
#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_end_calls_and_never_the_process() {
    let answers: [&[u8]; 5] = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\x06\xff\xff\xff\xff",
        b"\0\x06\0\0\0\x01\xf1\x01\x01\0\x01nx",
        b"\0\x1a\0\0\0\0\xf2\x05\0\0\x15$zlink.heartbeat.pong\0\x05\0\0\0\0\xf2\x01\0\0\0",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("tcp://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let settings = ClientSettings::new(at).reconnect(None);
        let (client, mut inbox) = Client::new(settings).unwrap();
        let (connected, accepted) = tokio::join!(client.connect(), listener.accept());
        connected.unwrap();
        let mut socket = accepted.unwrap().0;
        let hostile = async {
            socket.read_u8().await.unwrap();
            socket.write_all(answer).await.unwrap();
            if answer.is_empty() {
                socket.set_zero_linger().unwrap();
                drop(socket);
                return None;
            }
            Some(socket)
        };
        let request = client.request(name("echo"), Payload::json("1"));
        let (result, _socket) = tokio::join!(request, hostile);
        assert!(
            matches!(result, Err(RequestError::Disconnected(_))),
            "{result:?}"
        );
        disconnected(&mut inbox).await;
        assert_eq!(client.state(), ConnectorState::Disconnected);
    }
}

/// ST-162, ST-164
#[tokio::test(flavor = "multi_thread")]
async fn closing_while_connecting_ends_the_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("ws://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let (client, _inbox) = Client::new(ClientSettings::new(at)).unwrap();
    let closing = async {
        let accepted = listener.accept().await.unwrap();
        client.close().await;
        accepted
    };
    let (connected, _accepted) = tokio::join!(client.connect(), closing);
    assert_eq!(connected, Err(ConnectError::Closed));
}

/// ST-T13: many clients in one process, each one task and small buffers.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_clients_fit_into_one_process() {
    // The first ones wait long for their turn on a machine that is busy with other things, and pings of all of them, each
    // second, would be more than such a machine can do beside.
    let times = ServerTimes {
        ping_interval: 20 * PATIENCE,
        heartbeat_timeout: 20 * PATIENCE,
        idle_timeout: None,
        ..ServerTimes::default()
    };
    let settings = StreamSettings::new("tcp://127.0.0.1:0".parse().unwrap());
    let rig = Rig::with(settings.times(times), None).await;
    let mut clients = Vec::new();
    for _ in 0..2_000 {
        let settings = rig.settings().diagnostics(Diagnostics::Off);
        let (client, _inbox) = Client::new(settings.heartbeat(None)).unwrap();
        client.connect().await.unwrap();
        clients.push(client);
    }
    let mut all = tokio::task::JoinSet::new();
    for client in clients {
        all.spawn(async move {
            for number in 0..3 {
                let payload = Payload::json(number.to_string());
                assert_eq!(
                    client.request(name("echo"), payload.clone()).await,
                    Ok(payload)
                );
            }
            client
        });
    }
    let clients = all.join_all().await;
    assert_eq!(rig.server.stats().active(), 2_000);
    drop(clients);
    until(|| rig.server.stats().active() == 0).await;
}
