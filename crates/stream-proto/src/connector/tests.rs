//! Every cell of the state table, and what ends calls.

use core::time::Duration;

use super::*;
use crate::control::{Control, SessionClosing};
use crate::frame::{Extras, Frame};
use crate::name::Name;
use crate::remote_error::RemoteError;

fn ms(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

struct Rig {
    connector: Connector,
    now: u64,
    calls: u64,
}

impl Rig {
    fn new(settings: ConnectorSettings) -> Self {
        Self {
            connector: Connector::new(settings),
            now: 0,
            calls: 0,
        }
    }

    fn connected() -> (Self, LinkGeneration) {
        let mut rig = Self::new(ConnectorSettings::default());
        let link = attempt(&rig.connect());
        rig.on(ConnectorEvent::Attempted {
            link,
            result: Ok(()),
        });
        (rig, link)
    }

    fn on(&mut self, event: ConnectorEvent) -> Vec<ConnectorEffect> {
        let mut out = Vec::new();
        self.connector.on_event(ms(self.now), event, &mut out);
        out
    }

    fn wait(&mut self, millis: u64) -> Vec<ConnectorEffect> {
        self.now += millis;
        let mut out = Vec::new();
        self.connector.on_deadline(ms(self.now), &mut out);
        out
    }

    fn call(&mut self) -> CallId {
        self.calls += 1;
        CallId::new(self.calls)
    }

    fn connect(&mut self) -> Vec<ConnectorEffect> {
        let call = self.call();
        self.on(ConnectorEvent::Connect(call))
    }

    fn fail(&mut self, link: LinkGeneration) -> Vec<ConnectorEffect> {
        let result = Err(AttemptError::Transport("refused".to_owned()));
        self.on(ConnectorEvent::Attempted { link, result })
    }

    fn request(&mut self) -> (CallId, Vec<ConnectorEffect>) {
        let call = self.call();
        let effects = self.on(ConnectorEvent::Request {
            call,
            name: Name::application("ask").unwrap(),
            payload: Payload::json("{}"),
            extras: Extras::default(),
            timeout: None,
        });
        (call, effects)
    }

    fn received(&mut self, link: LinkGeneration, frame: Frame) -> Vec<ConnectorEffect> {
        self.on(ConnectorEvent::Received { link, frame })
    }
}

fn attempt(effects: &[ConnectorEffect]) -> LinkGeneration {
    let link = effects.iter().find_map(|effect| match effect {
        ConnectorEffect::Attempt(link) => Some(*link),
        _ => None,
    });
    link.unwrap_or_else(|| panic!("no attempt in {effects:?}"))
}

fn states(effects: &[ConnectorEffect]) -> Vec<ConnectorState> {
    let state = |effect: &ConnectorEffect| match effect {
        ConnectorEffect::State(state) => Some(*state),
        _ => None,
    };
    effects.iter().filter_map(state).collect()
}

fn response(sequence: u64) -> Frame {
    Frame::Response {
        sequence: Sequence::new(sequence).unwrap(),
        payload: Payload::json("1"),
        extras: Extras::default(),
    }
}

fn closing(reason: CloseReason) -> Frame {
    Control::SessionClosing(SessionClosing::new(reason, "")).into()
}

/// ST-162
#[test]
fn a_connect_tries_three_times_and_gives_the_last_error() {
    let mut rig = Rig::new(ConnectorSettings::default());
    let first = rig.connect();
    assert_eq!(states(&first), [ConnectorState::Connecting]);
    let effects = rig.fail(attempt(&first));
    assert_eq!(states(&effects), [ConnectorState::Reconnecting]);
    assert_eq!(rig.wait(249), []);
    let second = attempt(&rig.wait(1));
    assert_eq!(rig.fail(second), []);
    assert_eq!(rig.wait(499), []);
    let third = attempt(&rig.wait(1));
    let effects = rig.fail(third);
    assert_eq!(states(&effects), [ConnectorState::Disconnected]);
    assert!(matches!(
        effects[..],
        [
            _,
            ConnectorEffect::ConnectEnded {
                result: Err(ConnectError::Attempt(_)),
                ..
            }
        ]
    ));
}

/// ST-162
#[test]
fn each_attempt_has_its_time_and_a_late_connection_is_closed() {
    let mut rig = Rig::new(ConnectorSettings::default());
    let link = attempt(&rig.connect());
    let effects = rig.wait(5_000);
    assert_eq!(effects[0], ConnectorEffect::Abandon(link));
    let late = rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    assert_eq!(late, [ConnectorEffect::CloseLink(link)]);
}

/// ST-160
#[test]
fn every_cell_of_the_state_table() {
    let refused = |rig: &mut Rig| {
        let (_, effects) = rig.request();
        matches!(
            effects[..],
            [ConnectorEffect::RequestEnded {
                result: Err(RequestError::NotConnected),
                ..
            }]
        )
    };
    let mut rig = Rig::new(ConnectorSettings::default());
    assert!(refused(&mut rig), "Created");
    let link = attempt(&rig.connect());
    assert!(refused(&mut rig), "Connecting");
    assert_eq!(rig.connect(), [], "waits for the running attempt");
    let both = rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    assert_eq!(both.len(), 3, "two callers and the state");
    assert!(matches!(
        rig.connect()[..],
        [ConnectorEffect::ConnectEnded { result: Ok(()), .. }]
    ));
    rig.on(ConnectorEvent::Lost(link));
    assert_eq!(rig.connector.state(), ConnectorState::Reconnecting);
    assert!(refused(&mut rig), "Reconnecting");
    rig.on(ConnectorEvent::Close);
    assert!(refused(&mut rig), "Closed");
    assert!(matches!(
        rig.connect()[..],
        [ConnectorEffect::ConnectEnded {
            result: Err(ConnectError::Closed),
            ..
        }]
    ));
    assert_eq!(rig.on(ConnectorEvent::Close), [ConnectorEffect::Ignored]);
}

/// ST-161, ST-160
#[test]
fn a_loss_fails_what_is_pending_before_anything_else() {
    let (mut rig, link) = Rig::connected();
    rig.request();
    let effects = rig.on(ConnectorEvent::Lost(link));
    assert!(matches!(
        effects[..],
        [
            ConnectorEffect::RequestEnded {
                result: Err(RequestError::Disconnected(_)),
                ..
            },
            ConnectorEffect::CloseLink(_),
            ConnectorEffect::State(ConnectorState::Disconnected),
            ConnectorEffect::Disconnected(CloseReason::TransportError),
            ConnectorEffect::State(ConnectorState::Reconnecting),
        ]
    ));
    assert_eq!(rig.connector.pending(), 0);
}

/// ST-163
#[test]
fn a_server_that_closes_each_connection_at_once_is_dialled_three_times() {
    let (mut rig, mut link) = Rig::connected();
    rig.received(link, Control::Pong.into());
    rig.received(link, closing(CloseReason::ServerDrain));
    let mut dialled = 0;
    for _ in 0..20 {
        let effects = rig.wait(10_000);
        if effects.is_empty() {
            break;
        }
        dialled += 1;
        link = attempt(&effects);
        rig.on(ConnectorEvent::Attempted {
            link,
            result: Ok(()),
        });
        rig.received(link, closing(CloseReason::ServerDrain));
    }
    assert_eq!(dialled, 3);
    assert_eq!(rig.connector.state(), ConnectorState::Disconnected);
    assert_eq!(rig.connector.close_reason(), Some(CloseReason::ServerDrain));
}

/// ST-163
#[test]
fn the_counter_starts_over_when_a_connection_has_proved_itself() {
    let (mut rig, mut link) = Rig::connected();
    for _ in 0..10 {
        rig.received(link, Control::Ping.into());
        rig.on(ConnectorEvent::Lost(link));
        link = attempt(&rig.wait(250));
        rig.on(ConnectorEvent::Attempted {
            link,
            result: Ok(()),
        });
    }
    assert_eq!(rig.connector.state(), ConnectorState::Connected);
}

/// ST-164
#[test]
fn closing_while_connecting_abandons_the_attempt() {
    let mut rig = Rig::new(ConnectorSettings::default());
    let link = attempt(&rig.connect());
    let effects = rig.on(ConnectorEvent::Close);
    assert!(matches!(
        effects[..],
        [
            ConnectorEffect::Abandon(_),
            ConnectorEffect::ConnectEnded {
                result: Err(ConnectError::Closed),
                ..
            },
            ConnectorEffect::State(ConnectorState::Closed),
        ]
    ));
    let late = rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    assert_eq!(late, [ConnectorEffect::CloseLink(link)]);
    assert_eq!(rig.connector.next_deadline(), None);
}

/// ST-164
#[test]
fn closing_ends_pending_requests_and_tells_once() {
    let (mut rig, _) = Rig::connected();
    rig.request();
    let effects = rig.on(ConnectorEvent::Close);
    assert!(matches!(
        effects[..],
        [
            ConnectorEffect::CloseLink(_),
            ConnectorEffect::RequestEnded { .. },
            ConnectorEffect::State(ConnectorState::Closed),
            ConnectorEffect::Disconnected(CloseReason::ClientClose),
        ]
    ));
}

/// ST-165
#[test]
fn what_an_older_connection_brings_is_ignored() {
    let (mut rig, old) = Rig::connected();
    rig.on(ConnectorEvent::Lost(old));
    let link = attempt(&rig.wait(250));
    rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    rig.request();
    for event in [
        ConnectorEvent::Received {
            link: old,
            frame: response(1),
        },
        ConnectorEvent::Lost(old),
    ] {
        assert_eq!(rig.on(event), [ConnectorEffect::Ignored]);
    }
    assert_eq!(rig.connector.pending(), 1);
}

/// ST-166, ST-167, ST-168
#[test]
fn a_request_ends_once_and_a_second_reply_is_a_stray() {
    let (mut rig, link) = Rig::connected();
    let (call, written) = rig.request();
    match &written[..] {
        [ConnectorEffect::Write(bytes)] => assert_eq!(bytes[10..18], [0, 0, 0, 0, 0, 0, 0, 1]),
        other => panic!("{other:?}"),
    }
    let ended = rig.received(link, response(1));
    let result = Ok(Payload::json("1"));
    assert_eq!(ended, [ConnectorEffect::RequestEnded { call, result }]);
    let stray = StrayError::Unmatched(Sequence::MIN);
    assert_eq!(
        rig.received(link, response(1)),
        [ConnectorEffect::Stray(stray)]
    );
}

/// ST-165, ST-167
#[test]
fn timeout_and_a_dropped_call_leave_no_entry() {
    let (mut rig, link) = Rig::connected();
    let (call, _) = rig.request();
    rig.on(ConnectorEvent::Forgotten(call));
    assert_eq!(rig.connector.pending(), 0);
    let (call, _) = rig.request();
    for _ in 0..29 {
        rig.wait(1_000);
        rig.received(link, Control::Pong.into());
    }
    let result = Err(RequestError::Timeout);
    assert!(
        rig.wait(1_000)
            .contains(&ConnectorEffect::RequestEnded { call, result })
    );
    assert_eq!(rig.connector.pending(), 0);
    assert_eq!(rig.connector.state(), ConnectorState::Connected);
}

/// ST-113, ST-148, ST-168
#[test]
fn errors_of_the_server_reach_their_call_or_the_events() {
    let (mut rig, link) = Rig::connected();
    let error = |sequence, text: &'static str| Frame::Error {
        sequence,
        payload: Payload::json(text),
        extras: Extras::default(),
    };
    let (call, _) = rig.request();
    let text = r#"{"code":"not_found","message":"no such bag","more":1}"#;
    match &rig.received(link, error(Some(Sequence::MIN), text))[..] {
        [
            ConnectorEffect::RequestEnded {
                call: ended,
                result: Err(RequestError::Remote(e)),
            },
        ] => {
            assert_eq!(*ended, call);
            assert!(e.is("NotFound"));
        }
        other => panic!("{other:?}"),
    }
    rig.request();
    let result = rig.received(link, error(Sequence::new(2), "oops"));
    assert!(matches!(
        result[..],
        [ConnectorEffect::RequestEnded {
            result: Err(RequestError::ErrorPayload),
            ..
        }]
    ));
    let remote = RemoteError {
        code: "a".to_owned(),
        message: "b".to_owned(),
    };
    assert_eq!(
        rig.received(link, error(None, r#"{"code":"a","message":"b"}"#)),
        [ConnectorEffect::Stray(StrayError::Remote(remote))]
    );
    assert_eq!(rig.connector.state(), ConnectorState::Connected);
}

/// ST-173
#[test]
fn silence_ends_the_connection_and_any_frame_breaks_it() {
    let (mut rig, link) = Rig::connected();
    for _ in 0..4 {
        assert!(matches!(rig.wait(1_000)[..], [ConnectorEffect::Write(_)]));
    }
    rig.received(link, response(9));
    for _ in 0..4 {
        rig.wait(1_000);
    }
    let effects = rig.wait(1_000);
    assert!(effects.contains(&ConnectorEffect::Disconnected(
        CloseReason::HeartbeatTimeout
    )));
    let second = Duration::from_secs(1);
    assert!(Heartbeat::new(second, second).is_err());
}

/// ST-119
#[test]
fn a_ping_is_answered_also_when_the_own_heartbeat_is_off() {
    let mut rig = Rig::new(ConnectorSettings {
        heartbeat: None,
        ..ConnectorSettings::default()
    });
    let link = attempt(&rig.connect());
    rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    assert_eq!(rig.connector.next_deadline(), None);
    let effects = rig.received(link, Control::Ping.into());
    assert!(matches!(effects[..], [ConnectorEffect::Write(_)]));
}

/// ST-125, ST-126
#[test]
fn what_cannot_be_sent_or_read_ends_one_call_only() {
    let settings = ConnectorSettings {
        compression: Compression::None,
        send_payload_max: 4,
        ..ConnectorSettings::default()
    };
    let mut rig = Rig::new(settings);
    let link = attempt(&rig.connect());
    rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    let mut ask = |payload| {
        let call = rig.call();
        let effects = rig.on(ConnectorEvent::Request {
            call,
            name: Name::application("ask").unwrap(),
            payload,
            extras: Extras::default(),
            timeout: None,
        });
        match effects.into_iter().next() {
            Some(ConnectorEffect::RequestEnded {
                result: Err(error), ..
            }) => error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(
        ask(Payload::json("12345")),
        RequestError::Invalid(_)
    ));
    let packed = Payload::compressed(crate::Codec::Json, &"1234".into());
    assert_eq!(ask(packed.clone()), RequestError::CompressionNotConfigured);
    let push = Frame::Send {
        name: Name::application("news").unwrap(),
        payload: packed,
        extras: Extras::default(),
    };
    let stray = rig.received(link, push);
    assert!(matches!(
        stray[..],
        [ConnectorEffect::Stray(StrayError::Decompression(_))]
    ));
    assert_eq!(rig.connector.state(), ConnectorState::Connected);
}

/// ST-174, ST-175
#[test]
fn the_reason_of_the_server_becomes_the_close_reason_and_is_cleared_by_connecting() {
    let (mut rig, link) = Rig::connected();
    rig.received(link, closing(CloseReason::IdleTimeout));
    assert_eq!(rig.connector.close_reason(), Some(CloseReason::IdleTimeout));
    let link = attempt(&rig.wait(250));
    rig.on(ConnectorEvent::Attempted {
        link,
        result: Ok(()),
    });
    assert_eq!(rig.connector.close_reason(), None);
}
