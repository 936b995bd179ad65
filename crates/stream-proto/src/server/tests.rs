//! Each row of the table, with a clock of its own.

use bytes::Bytes;

use super::*;
use crate::error::HeaderFault;

fn ms(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

fn open() -> ServerConnection {
    ServerConnection::new(ms(0), ServerTimes::default())
}

fn on(connection: &mut ServerConnection, at: u64, event: ServerEvent) -> Vec<ServerEffect> {
    let mut out = Vec::new();
    connection.on_event(ms(at), event, &mut out);
    out
}

fn wait(connection: &mut ServerConnection, at: u64) -> Vec<ServerEffect> {
    let mut out = Vec::new();
    connection.on_deadline(ms(at), &mut out);
    out
}

fn send() -> ServerEvent {
    ServerEvent::Received(Frame::Send {
        name: Name::application("chat.say").unwrap(),
        payload: Payload::json("{}"),
        extras: Extras::default(),
    })
}

fn pong() -> ServerEvent {
    ServerEvent::Received(Control::Pong.into())
}

fn told(effects: &[ServerEffect]) -> Option<CloseReason> {
    match effects {
        [ServerEffect::FinishWriting(closing)] => closing.as_ref().map(SessionClosing::reason),
        other => panic!("{other:?}"),
    }
}

const PING: ServerEffect = ServerEffect::Write(Control::Ping);

/// ST-151
#[test]
fn a_ping_each_second_when_none_is_outstanding() {
    let mut connection = open();
    assert_eq!(connection.next_deadline(), Some(ms(1_000)));
    assert_eq!(wait(&mut connection, 999), []);
    assert_eq!(wait(&mut connection, 1_000), [PING]);
    assert_eq!(wait(&mut connection, 2_000), []);
    on(&mut connection, 2_500, pong());
    assert_eq!(
        wait(&mut connection, 2_500),
        [PING],
        "the turn of 2,000 ms is overdue"
    );
}

/// ST-151, ST-152
#[test]
fn without_pong_the_connection_ends_whatever_else_is_sent() {
    let mut connection = open();
    wait(&mut connection, 1_000);
    on(&mut connection, 5_999, send());
    assert_eq!(wait(&mut connection, 5_999), []);
    let effects = wait(&mut connection, 6_000);
    assert_eq!(told(&effects), Some(CloseReason::HeartbeatTimeout));
}

/// ST-151, ST-152
#[test]
fn a_client_that_only_listens_is_idle_after_thirty_seconds() {
    let mut connection = open();
    for second in 1..30 {
        wait(&mut connection, second * 1_000);
        on(&mut connection, second * 1_000, pong());
    }
    let effects = wait(&mut connection, 30_000);
    assert_eq!(told(&effects), Some(CloseReason::IdleTimeout));
}

/// ST-154
#[test]
fn idle_can_be_turned_off_and_heartbeat_cannot() {
    let times = ServerTimes {
        idle_timeout: None,
        ..ServerTimes::default()
    };
    let mut connection = ServerConnection::new(ms(0), times);
    for second in 1..100 {
        wait(&mut connection, second * 1_000);
        on(&mut connection, second * 1_000, pong());
    }
    assert!(connection.is_open());
}

/// ST-153
#[test]
fn while_nothing_is_read_the_clocks_stand_still_and_pings_go_on() {
    let mut connection = open();
    wait(&mut connection, 1_000);
    on(&mut connection, 2_000, ServerEvent::ReadingPaused);
    for second in 2..40 {
        assert_eq!(wait(&mut connection, second * 1_000), [PING], "{second}");
    }
    on(&mut connection, 40_000, ServerEvent::ReadingResumed);
    assert_eq!(wait(&mut connection, 43_999), []);
    let effects = wait(&mut connection, 44_000);
    assert_eq!(
        told(&effects),
        Some(CloseReason::HeartbeatTimeout),
        "1 s before, 4 s after"
    );
}

/// ST-119, ST-142
#[test]
fn a_ping_is_answered_at_once() {
    let mut connection = open();
    let ping = ServerEvent::Received(Control::Ping.into());
    assert_eq!(
        on(&mut connection, 1, ping),
        [ServerEffect::Write(Control::Pong)]
    );
    assert_eq!(
        on(&mut connection, 1, pong()),
        [],
        "ST-120: nobody asked for it"
    );
}

/// ST-120, ST-155
#[test]
fn a_broken_protocol_is_told_and_closed_after_the_flush() {
    for event in [
        ServerEvent::Undecodable(HeaderFault::Marker(1).into()),
        ServerEvent::Undecodable(ControlFault::Unknown.into()),
        ServerEvent::Received(
            Control::SessionClosing(SessionClosing::new(CloseReason::ClientClose, "")).into(),
        ),
        ServerEvent::BadCarrier,
    ] {
        let mut connection = open();
        let effects = on(&mut connection, 1, event);
        assert_eq!(told(&effects), Some(CloseReason::ProtocolError));
        assert_eq!(on(&mut connection, 1, send()), [ServerEffect::Ignored]);
        let closed = [ServerEffect::CloseTransport(CloseReason::ProtocolError)];
        assert_eq!(on(&mut connection, 2, ServerEvent::Flushed), closed);
        assert_eq!(connection.next_deadline(), None);
    }
}

/// ST-126
#[test]
fn a_frame_above_the_bound_is_told_nothing() {
    let mut connection = open();
    let error = DecodeError::TooLarge {
        bytes: 65_537,
        bound: 65_536,
    };
    assert_eq!(
        told(&on(&mut connection, 1, ServerEvent::Undecodable(error))),
        None
    );
}

/// ST-155
#[test]
fn a_client_that_reads_nothing_is_closed_a_second_later() {
    let mut connection = open();
    on(&mut connection, 1, ServerEvent::Close(ServerClose::Drain));
    assert_eq!(wait(&mut connection, 1_000), []);
    let closed = [ServerEffect::CloseTransport(CloseReason::ServerDrain)];
    assert_eq!(wait(&mut connection, 1_001), closed);
}

/// ST-155, ST-156, ST-158
#[test]
fn each_cause_of_section_12_has_its_reason_once() {
    let failed = ServerEvent::TransportFailed;
    let mut connection = open();
    let closed = [ServerEffect::CloseTransport(CloseReason::TransportError)];
    assert_eq!(on(&mut connection, 1, failed.clone()), closed);
    assert_eq!(on(&mut connection, 1, failed), [ServerEffect::Ignored]);
    let mut connection = open();
    let ended = on(&mut connection, 1, ServerEvent::EndOfStream);
    assert_eq!(told(&ended), None);
    let closed = [ServerEffect::CloseTransport(CloseReason::ClientClose)];
    assert_eq!(on(&mut connection, 1, ServerEvent::EndOfStream), closed);
    let mut connection = open();
    let effects = on(
        &mut connection,
        1,
        ServerEvent::Close(ServerClose::Application),
    );
    assert_eq!(told(&effects), None);
    let closed = [ServerEffect::CloseTransport(CloseReason::ClientClose)];
    assert_eq!(
        on(&mut connection, 2, ServerEvent::TransportFailed),
        closed,
        "first cause"
    );
}

/// ST-146
#[test]
fn replies_of_a_client_are_counted_and_dispatched_to_nobody() {
    let mut connection = open();
    let response = Frame::Response {
        sequence: Sequence::MIN,
        payload: Payload::json(Bytes::new()),
        extras: Extras::default(),
    };
    let effects = on(&mut connection, 1, ServerEvent::Received(response));
    assert_eq!(effects, [ServerEffect::Unexpected]);
}
