//! One event in, the complete list of effects out; the peer is a second link.

use core::num::NonZeroU64;
use core::time::Duration;

use bytes::Bytes;
use spotlane_types::count::{Correlation, ProbeId};
use spotlane_types::id::SecurityIdentity;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;

use super::*;
use crate::admission::{AdmissionEnd, Expected, Terms};
use crate::pending::{NotTaken, SubmitId, Unmatched};
use crate::sample::{capability, descriptor, node_request, node_send, reply, rid};
use crate::zmp::{
    ConnectionEnd, ConnectionEvent, Cut, Envelope, Generation, PairId, Parts, Refusal, Sequence,
    encode_frames, encode_record,
};

fn at(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

fn settings(name: &str) -> LinkSettings {
    let terms = Terms {
        own_id: rid(name),
        own: descriptor(name),
        required: capability(),
        expected: Expected::Anyone,
        authenticated: SecurityIdentity::new("plaintext").unwrap(),
    };
    LinkSettings::new(terms, ProbeId::new(100).unwrap())
}

fn key() -> PairKey {
    PairKey {
        pair: PairId::new(NonZeroU64::new(7).unwrap()),
        generation: Generation::FIRST,
    }
}

fn step(link: &mut Link, millis: u64, event: LinkEvent) -> Effects {
    let mut out = Vec::new();
    link.on_event(at(millis), event, &mut out);
    out
}

fn written(effects: &[LinkEffect], lane: Lane) -> Bytes {
    let writes = effects.iter().filter_map(|effect| match effect {
        LinkEffect::Write(on, parts) if *on == lane => Some(parts.to_bytes()),
        _ => None,
    });
    writes.collect::<Vec<_>>().concat().into()
}

/// A dialler `b` and the handshake of a peer `a` that a test plays by hand.
fn dialled() -> Link {
    let mut link = Link::dial(settings("b"), key(), &mut Vec::new());
    for lane in Lane::ALL {
        step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
        step(&mut link, 0, LinkEvent::Received(lane, handshake(lane)));
    }
    assert!(link.token().is_some());
    link
}

/// HELLO and READY of an acceptor `a`.
fn handshake(lane: Lane) -> Bytes {
    handshake_of(key(), lane)
}

fn handshake_of(key: PairKey, lane: Lane) -> Bytes {
    let mut out = Vec::new();
    let mut peer = Connection::accept(settings("a").connection(), at(0), &mut out);
    let mut ours = Vec::new();
    Connection::dial(settings("b").connection(), key, lane, at(0), &mut ours);
    let [ConnectionEffect::Write(bytes)] = &ours[..] else {
        panic!("{ours:?}");
    };
    peer.on_event(at(0), ConnectionEvent::Received(bytes.clone()), &mut out);
    let writes = out.iter().filter_map(|effect| match effect {
        ConnectionEffect::Write(bytes) => Some(&bytes[..]),
        _ => None,
    });
    writes.collect::<Vec<_>>().concat().into()
}

fn bytes_of(envelope: Envelope, record: &Record) -> Bytes {
    let mut frames = FrameBuffer::default();
    record.encode(&mut frames).unwrap();
    encode_record(Edition::E1, envelope, &frames).to_bytes()
}

fn receive(
    link: &mut Link,
    millis: u64,
    lane: Lane,
    envelope: Envelope,
    record: &Record,
) -> Effects {
    step(
        link,
        millis,
        LinkEvent::Received(lane, bytes_of(envelope, record)),
    )
}

fn hello() -> Record {
    spotlane_wire::command::admission::Hello {
        admission: spotlane_wire::descriptor::ServiceAdmission::RouteMesh {
            route_mesh: descriptor("a"),
        },
    }
    .into()
}

fn admitted_link() -> Link {
    let mut link = dialled();
    let out = receive(&mut link, 0, Lane::Application, Envelope::Plain, &hello());
    assert!(matches!(out[0], LinkEffect::Admitted(_)), "{out:?}");
    link
}

fn submit(id: u64, record: Record, awaits: Option<Awaits>) -> LinkEvent {
    LinkEvent::Submit(Box::new(Submit {
        id: SubmitId::new(id),
        record,
        pin: None,
        awaits,
    }))
}

fn request(id: u64, millis: u64) -> LinkEvent {
    let awaits = Awaits {
        correlation: Correlation::new(id).unwrap(),
        kind: MeshOperationKind::NodeRequest,
        deadline: at(millis),
    };
    submit(id, node_request(id), Some(awaits))
}

fn completed(id: u64, outcome: Outcome) -> LinkEffect {
    let id = SubmitId::new(id);
    LinkEffect::Completed { id, outcome }
}

fn not_submitted(id: u64, why: NotSubmitted) -> [LinkEffect; 1] {
    let id = SubmitId::new(id);
    [LinkEffect::NotSubmitted { id, why }]
}

fn probe(id: u64) -> Record {
    let probe_id = ProbeId::new(id).unwrap();
    LivenessProbe { probe_id }.into()
}

fn ack(id: u64) -> Record {
    let probe_id = ProbeId::new(id).unwrap();
    spotlane_wire::command::liveness::LivenessAck { probe_id }.into()
}

/// TR-22, TR-25, TR-70
#[test]
fn a_dialler_opens_both_lanes_and_says_hello_when_both_are_ready() {
    let mut out = Vec::new();
    let mut link = Link::dial(settings("b"), key(), &mut out);
    assert_eq!(out, Lane::ALL.map(LinkEffect::Open));
    for lane in Lane::ALL {
        let out = step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
        assert!(matches!(&out[..], [LinkEffect::Write(on, _)] if *on == lane));
    }
    let first = LinkEvent::Received(Lane::Completion, handshake(Lane::Completion));
    assert_eq!(step(&mut link, 1, first), []);
    let second = LinkEvent::Received(Lane::Application, handshake(Lane::Application));
    let out = step(&mut link, 2, second);
    assert!(matches!(
        &out[..],
        [LinkEffect::PairReady(token), LinkEffect::Write(Lane::Application, _)] if *token.peer() == rid("a")
    ));
}

/// TR-84, TR-85
#[test]
fn admission_sends_the_first_probe_and_only_a_matching_ack_makes_the_peer_responsive() {
    let mut link = dialled();
    let out = receive(&mut link, 0, Lane::Application, Envelope::Plain, &hello());
    let [
        LinkEffect::Admitted(_),
        LinkEffect::Write(Lane::Application, _),
        LinkEffect::Write(Lane::Completion, first),
    ] = &out[..]
    else {
        panic!("{out:?}");
    };
    assert_eq!(
        first.to_bytes(),
        bytes_of(Envelope::CompletionControl, &probe(100))
    );
    let foreign = [LinkEffect::Ignored(Ignored::ForeignAcknowledgement)];
    let (lane, control) = (Lane::Completion, Envelope::CompletionControl);
    assert_eq!(receive(&mut link, 1, lane, control, &ack(99)), foreign);
    // TR-68: whichever lane brings it.
    let out = receive(&mut link, 2, Lane::Application, Envelope::Plain, &ack(100));
    assert_eq!(out, [LinkEffect::Responsive]);
    assert_eq!(receive(&mut link, 3, lane, control, &ack(100)), foreign);
}

/// TR-86
#[test]
fn a_peer_that_never_acknowledges_ends_the_link_after_fifteen_seconds() {
    let mut link = admitted_link();
    step(&mut link, 0, request(1, 60_000));
    let (mut out, mut probes) = (Vec::new(), 0);
    while let Some(due) = link.next_deadline() {
        out.clear();
        link.on_deadline(due, &mut out);
        probes += usize::from(!written(&out, Lane::Completion).is_empty());
        assert!(due <= at(15_000));
    }
    assert_eq!(probes, 2, "at 5 s and 10 s; the first went out at once");
    let ended = [
        LinkEffect::Close(Lane::Application),
        LinkEffect::Close(Lane::Completion),
        completed(1, Outcome::LinkEnded),
        LinkEffect::Ended(EndReason::NotAlive),
    ];
    assert_eq!(out, ended);
    assert_eq!(EndReason::NotAlive.redial(), Redial::Again);
}

/// TR-83, TR-88
#[test]
fn a_probe_is_answered_at_once_in_every_state_and_not_handed_up() {
    for mut link in [dialled(), admitted_link()] {
        let control = Envelope::CompletionControl;
        let out = receive(&mut link, 1, Lane::Completion, control, &probe(5));
        assert_eq!(out.len(), 1);
        assert_eq!(written(&out, Lane::Completion), bytes_of(control, &ack(5)));
    }
}

/// TR-40, TR-41, TR-69
#[test]
fn a_request_ends_with_its_first_reply_and_late_ones_are_ignored() {
    let mut link = admitted_link();
    let out = step(&mut link, 0, request(1, 1000));
    let envelope = Envelope::Request(Sequence::FIRST);
    assert_eq!(
        written(&out, Lane::Application),
        bytes_of(envelope, &node_request(1))
    );
    let answer = Envelope::Reply(Sequence::FIRST);
    let out = receive(&mut link, 1, Lane::Completion, answer, &reply(1));
    assert!(matches!(
        &out[..],
        [LinkEffect::Completed {
            outcome: Outcome::Reply(_),
            ..
        }]
    ));
    let out = receive(&mut link, 2, Lane::Completion, answer, &reply(1));
    assert_eq!(
        out,
        [LinkEffect::Ignored(Ignored::Reply(Unmatched::Finished))]
    );
    let never = Envelope::Reply(Sequence::new(9).unwrap());
    let out = receive(&mut link, 3, Lane::Completion, never, &reply(1));
    assert_eq!(
        out,
        [LinkEffect::Ignored(Ignored::Reply(Unmatched::NeverIssued))]
    );
}

/// TR-69
#[test]
fn a_reply_with_another_correlation_fails_its_request_alone() {
    let mut link = admitted_link();
    step(&mut link, 0, request(1, 1000));
    let answer = Envelope::Reply(Sequence::FIRST);
    let out = receive(&mut link, 1, Lane::Completion, answer, &reply(2));
    let broken = LinkEffect::Ignored(Ignored::BrokenReply);
    assert_eq!(out, [broken, completed(1, Outcome::BrokenReply)]);
    assert!(!link.is_ended());
}

/// TR-41, TR-42, TR-90
#[test]
fn timeout_cancel_and_error_reply_end_a_request_once() {
    let mut link = admitted_link();
    for id in 1..=3 {
        step(&mut link, 0, request(id, 1000));
    }
    assert_eq!(
        step(&mut link, 1, LinkEvent::Cancel(SubmitId::new(2))),
        [completed(2, Outcome::Cancelled)]
    );
    assert_eq!(
        step(&mut link, 1, LinkEvent::Cancel(SubmitId::new(2))),
        [LinkEffect::Ignored(Ignored::LateCancel(SubmitId::new(2)))]
    );
    let list: [&'static [u8]; 5] = [&[1], &[1], &[3], &[0, 0, 0, 0, 0, 0, 0, 3], &[0, 0, 0, 9]];
    let frames = list.map(Bytes::from_static);
    let bytes = encode_frames(Edition::E1, Envelope::Plain, &frames).to_bytes();
    let out = step(&mut link, 1, LinkEvent::Received(Lane::Completion, bytes));
    assert_eq!(out, [completed(3, Outcome::PeerError(Some(9)))]);
    let mut out = Vec::new();
    link.on_deadline(at(1000), &mut out);
    assert_eq!(out, [completed(1, Outcome::TimedOut)]);
    assert_eq!(link.pending(), 0);
}

/// TR-25, TR-37, TR-90, TR-93
#[test]
fn what_cannot_be_sent_is_refused_at_once() {
    let send = |id| submit(id, node_send(), None);
    let mut link = dialled();
    let refused = step(&mut link, 0, send(1));
    assert_eq!(refused, not_submitted(1, NotSubmitted::NotConnected));
    let mut link = admitted_link();
    let mut pinned = Submit {
        id: SubmitId::new(2),
        record: node_send(),
        pin: link.token().cloned(),
        awaits: None,
    };
    let out = step(&mut link, 0, LinkEvent::Submit(Box::new(pinned.clone())));
    assert!(matches!(
        &out[..],
        [LinkEffect::Write(Lane::Application, _)]
    ));
    let mut other = key();
    other.generation = other.generation.next();
    pinned.pin = Some(ConnectionToken::new(rid("a"), other));
    let out = step(&mut link, 0, LinkEvent::Submit(Box::new(pinned)));
    assert_eq!(out, not_submitted(2, NotSubmitted::OtherConnection));
    let out = step(&mut link, 0, submit(3, probe(1), None));
    assert_eq!(
        out,
        not_submitted(3, NotSubmitted::Misused(Class::Liveness))
    );
    step(&mut link, 0, request(4, 9));
    let in_use = NotSubmitted::NotTaken(NotTaken::IdInUse);
    assert_eq!(step(&mut link, 0, request(4, 9)), not_submitted(4, in_use));
    step(&mut link, 1, LinkEvent::Shutdown);
    assert_eq!(
        step(&mut link, 2, send(5)),
        not_submitted(5, NotSubmitted::NotConnected)
    );
}

/// TR-66, TR-67, TR-68, TR-92
#[test]
fn records_are_handed_up_with_their_token_when_they_travel_as_their_class_does() {
    let mut link = admitted_link();
    let token = link.token().cloned().unwrap();
    let delivered = |record: Record, answer| {
        let (token, record) = (token.clone(), Box::new(record));
        [LinkEffect::Deliver {
            token,
            record,
            answer,
        }]
    };
    let application = Lane::Application;
    let out = receive(&mut link, 1, application, Envelope::Plain, &node_send());
    assert_eq!(out, delivered(node_send(), None));
    let envelope = Envelope::Request(Sequence::FIRST);
    let out = receive(&mut link, 1, application, envelope, &node_request(1));
    assert_eq!(out, delivered(node_request(1), Some(Sequence::FIRST)));
    let misplaced = |class| [LinkEffect::Ignored(Ignored::Misplaced(class))];
    let out = receive(&mut link, 1, application, Envelope::Plain, &node_request(1));
    assert_eq!(out, misplaced(Class::Request));
    let out = receive(&mut link, 1, application, envelope, &node_send());
    assert_eq!(out, misplaced(Class::OneWay));
    let out = receive(&mut link, 1, application, Envelope::Plain, &reply(1));
    assert_eq!(out, misplaced(Class::Reply));
}

/// TR-40
#[test]
fn an_answer_goes_out_on_the_completion_lane_with_the_sequence_of_its_request() {
    let mut link = admitted_link();
    let Record::Reply(record) = reply(1) else {
        panic!("no reply");
    };
    let sequence = Sequence::new(8).unwrap();
    let event = LinkEvent::Answer {
        sequence,
        reply: Box::new(record),
    };
    let out = step(&mut link, 0, event);
    assert_eq!(
        written(&out, Lane::Completion),
        bytes_of(Envelope::Reply(sequence), &reply(1))
    );
}

/// TR-80
#[test]
fn records_before_admission_are_held_in_order_up_to_a_bound() {
    let mut link = dialled();
    let (lane, plain) = (Lane::Application, Envelope::Plain);
    for _ in 0..1024 {
        assert_eq!(receive(&mut link, 0, lane, plain, &node_send()), []);
    }
    let out = receive(&mut link, 1, lane, plain, &hello());
    let delivered = out
        .iter()
        .filter(|effect| matches!(effect, LinkEffect::Deliver { .. }));
    assert_eq!(delivered.count(), 1024);

    let mut link = dialled();
    let mut out = Vec::new();
    for _ in 0..1025 {
        out = receive(&mut link, 0, lane, plain, &node_send());
    }
    assert!(matches!(
        &out[2..],
        [
            LinkEffect::Ignored(Ignored::HeldRecords(1024)),
            LinkEffect::Ended(EndReason::HeldTooMuch)
        ]
    ));
}

/// A dialler that shares its hold budget with other links of its node.
fn dialled_with(held: &HeldBudget) -> Link {
    let mut shared = settings("b");
    shared.held = held.clone();
    let mut link = Link::dial(shared, key(), &mut Vec::new());
    for lane in Lane::ALL {
        step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
        step(&mut link, 0, LinkEvent::Received(lane, handshake(lane)));
    }
    link
}

/// TR-80: the bound is that of the node: what one link holds, another one cannot.
#[test]
fn the_links_of_a_node_hold_1024_records_together() {
    let held = HeldBudget::default();
    let mut links: Vec<_> = (0..3).map(|_| dialled_with(&held)).collect();
    let (lane, plain) = (Lane::Application, Envelope::Plain);
    for (link, count) in links.iter_mut().zip([500, 300, 224]) {
        for _ in 0..count {
            assert_eq!(receive(link, 0, lane, plain, &node_send()), []);
        }
    }
    assert_eq!(held.records(), 1024);
    // The one that brings one more ends, and makes room for the others by it.
    let out = receive(&mut links[0], 0, lane, plain, &node_send());
    assert_eq!(
        out[2..],
        [
            LinkEffect::Ignored(Ignored::HeldRecords(500)),
            LinkEffect::Ended(EndReason::HeldTooMuch)
        ]
    );
    assert_eq!(held.records(), 524);
    for _ in 0..500 {
        assert_eq!(receive(&mut links[1], 0, lane, plain, &node_send()), []);
    }
    // An admission delivers, in order; a link that goes away drops.
    let out = receive(&mut links[1], 1, lane, plain, &hello());
    let delivered = out
        .iter()
        .filter(|effect| matches!(effect, LinkEffect::Deliver { .. }));
    assert_eq!(delivered.count(), 800);
    assert_eq!(held.records(), 224);
    drop(links);
    assert_eq!((held.records(), held.bytes()), (0, 0));
}

/// TR-80: and 16 MiB together, the charge of each frame included.
#[test]
fn the_links_of_a_node_hold_16_mib_together() {
    let held = HeldBudget::default();
    let mut links: Vec<_> = (0..3).map(|_| dialled_with(&held)).collect();
    let frames = [
        Bytes::from_static(b"ZM\x01\x10\0"),
        Bytes::from(vec![0; 6 << 20]),
    ];
    let large = encode_frames(Edition::E1, Envelope::Plain, &frames).to_bytes();
    let event = || LinkEvent::Received(Lane::Application, large.clone());
    let mut ended = Vec::new();
    for link in &mut links {
        step(link, 0, event());
        ended.push(link.is_ended());
    }
    assert_eq!(ended, [false, false, true]);
    assert_eq!(held.records(), 2);
    assert_eq!(held.bytes(), 2 * ((6 << 20) + 5 + 2 * 64));
}

/// TR-79
#[test]
fn a_peer_that_never_admits_ends_the_link_with_a_named_reason() {
    let mut link = dialled();
    let mut out = Vec::new();
    while let Some(due) = link.next_deadline() {
        out.clear();
        link.on_deadline(due, &mut out);
    }
    let reason = EndReason::Admission(AdmissionEnd::NotAdmitted);
    assert_eq!(out.last(), Some(&LinkEffect::Ended(reason)));
}

/// TR-27
#[test]
fn a_lane_without_its_sister_is_closed_after_the_handshake_time() {
    let mut link = Link::dial(settings("b"), key(), &mut Vec::new());
    let lane = Lane::Application;
    step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
    step(&mut link, 5, LinkEvent::Received(lane, handshake(lane)));
    assert_eq!(link.next_deadline(), Some(at(30_005)));
    let mut out = Vec::new();
    link.on_deadline(at(30_005), &mut out);
    assert_eq!(out.last(), Some(&LinkEffect::Ended(EndReason::NoSister)));
}

/// TR-58, TR-60, TR-87
#[test]
fn the_loss_of_either_lane_ends_the_pair_and_what_comes_later_changes_nothing() {
    for lane in Lane::ALL {
        let mut link = admitted_link();
        step(&mut link, 0, request(1, 1000));
        let end = ConnectionEnd::Closed(Cut::BetweenMessages);
        let reason = EndReason::Lane { lane, end };
        let ended = [
            LinkEffect::Close(Lane::Application),
            LinkEffect::Close(Lane::Completion),
            completed(1, Outcome::LinkEnded),
            LinkEffect::Ended(reason.clone()),
        ];
        assert_eq!(step(&mut link, 1, LinkEvent::Closed(lane)), ended);
        assert_eq!(reason.redial(), Redial::Again);
        let late = [LinkEffect::Ignored(Ignored::AfterEnd)];
        assert_eq!(step(&mut link, 2, LinkEvent::Closed(lane.sister())), late);
        let bytes = bytes_of(Envelope::Reply(Sequence::FIRST), &reply(1));
        assert_eq!(step(&mut link, 3, LinkEvent::Received(lane, bytes)), late);
        assert_eq!(link.next_deadline(), None);
    }
}

/// TR-18, TR-60
#[test]
fn a_violation_is_answered_with_one_error_and_stops_the_dialler() {
    let mut link = admitted_link();
    let bytes = Bytes::from_static(b"\x5B\x01\0\0\0\0\0\0 and more");
    let out = step(&mut link, 1, LinkEvent::Received(Lane::Completion, bytes));
    let [
        LinkEffect::Write(Lane::Completion, _),
        LinkEffect::Close(_),
        LinkEffect::Close(_),
        LinkEffect::Ended(reason),
    ] = &out[..]
    else {
        panic!("{out:?}");
    };
    let end = ConnectionEnd::Refused(Refusal::InvalidMagic);
    assert_eq!(
        *reason,
        EndReason::Lane {
            lane: Lane::Completion,
            end
        }
    );
    assert_eq!(reason.redial(), Redial::Stop);
}

/// TR-24
#[test]
fn lanes_of_different_peers_end_the_link() {
    let mut link = Link::dial(settings("b"), key(), &mut Vec::new());
    for lane in Lane::ALL {
        step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
    }
    let lane = Lane::Application;
    step(&mut link, 0, LinkEvent::Received(lane, handshake(lane)));
    let mut other = handshake(Lane::Completion).to_vec();
    other[11] = b'x';
    let out = step(
        &mut link,
        0,
        LinkEvent::Received(Lane::Completion, other.into()),
    );
    assert_eq!(
        out.last(),
        Some(&LinkEffect::Ended(EndReason::OtherIdentity))
    );
}

/// TR-17
#[test]
fn a_message_above_the_peers_limit_is_refused_here() {
    let mut link = admitted_link();
    if let Stage::Up(up) = &mut link.stage {
        up.limits.application = NonZeroU64::new(10);
    }
    let out = step(&mut link, 0, submit(1, node_send(), None));
    assert!(matches!(
        &out[..],
        [LinkEffect::NotSubmitted {
            why: NotSubmitted::TooLarge { max: 10, .. },
            ..
        }]
    ));
}

/// TR-74
#[test]
fn the_loser_of_two_links_is_closed_by_its_dialler_and_not_used_by_its_acceptor() {
    let mut link = admitted_link();
    let out = step(&mut link, 1, LinkEvent::Supersede);
    assert_eq!(out.last(), Some(&LinkEffect::Ended(EndReason::Superseded)));
    let mut link = admitted_link();
    link.side = Side::Acceptor;
    assert_eq!(step(&mut link, 1, LinkEvent::Supersede), []);
    let out = step(&mut link, 2, submit(1, node_send(), None));
    assert_eq!(out, not_submitted(1, NotSubmitted::Superseded));
    let out = receive(&mut link, 2, Lane::Application, Envelope::Plain, &hello());
    assert_eq!(out, [LinkEffect::AnswerOnKeeper]);
    assert_eq!(step(&mut link, 3, LinkEvent::Resume), []);
    let out = step(&mut link, 3, submit(2, node_send(), None));
    assert!(matches!(
        &out[..],
        [LinkEffect::Write(Lane::Application, _)]
    ));
    step(&mut link, 4, request(3, 1000));
    let out = step(&mut link, 5, LinkEvent::Outlived);
    let ended = [
        completed(3, Outcome::LinkEnded),
        LinkEffect::Ended(EndReason::Outlived),
    ];
    assert_eq!(out[2..], ended);
}

/// TR-76
#[test]
fn another_run_ends_the_requests_of_the_old_one_first() {
    let mut link = admitted_link();
    step(&mut link, 0, request(1, 1000));
    let mut node = descriptor("a");
    node.lifecycle_generation = spotlane_types::generation::NodeGeneration::new(99).unwrap();
    let admission = spotlane_wire::descriptor::ServiceAdmission::RouteMesh { route_mesh: node };
    let record = spotlane_wire::command::admission::Hello { admission }.into();
    let out = receive(&mut link, 1, Lane::Application, Envelope::Plain, &record);
    assert_eq!(
        out[..2],
        [completed(1, Outcome::RunEnded), LinkEffect::RunEnded]
    );
    assert!(matches!(out[2], LinkEffect::Admitted(_)));
}

/// TR-66
#[test]
fn a_record_that_the_codec_refuses_ends_the_link_and_a_bad_hello_is_rejected() {
    let frame = |bytes: &'static [u8]| {
        let frames = [Bytes::from_static(bytes)];
        let parts: Parts = encode_frames(Edition::E1, Envelope::Plain, &frames);
        LinkEvent::Received(Lane::Application, parts.to_bytes())
    };
    let mut link = admitted_link();
    let out = step(&mut link, 1, frame(b"ZM\x01\xFF\0"));
    assert!(matches!(
        out.last(),
        Some(LinkEffect::Ended(EndReason::BrokenRecord(_)))
    ));
    let mut link = admitted_link();
    let out = step(&mut link, 1, frame(b"ZM\x01\x01\0\x01"));
    assert!(
        matches!(&out[..], [LinkEffect::Write(Lane::Application, _)]),
        "{out:?}"
    );
}

/// TR-28
#[test]
fn a_regular_close_sends_nothing() {
    let ended = [
        LinkEffect::Close(Lane::Application),
        LinkEffect::Close(Lane::Completion),
        LinkEffect::Ended(EndReason::Shutdown),
    ];
    assert_eq!(step(&mut admitted_link(), 1, LinkEvent::Shutdown), ended);
    assert_eq!(EndReason::Shutdown.redial(), Redial::Stop);
}

/// TR-61, TR-91
#[test]
fn nothing_of_a_link_passes_over_to_the_next_one() {
    let mut link = admitted_link();
    step(&mut link, 0, request(1, 1000));
    let old = link.token().cloned().unwrap();
    step(&mut link, 1, LinkEvent::Closed(Lane::Completion));
    let mut next = key();
    next.generation = next.generation.next();
    let mut link = Link::dial(settings("b"), next, &mut Vec::new());
    for lane in Lane::ALL {
        step(&mut link, 2, LinkEvent::Opened(lane, at(2)));
        step(
            &mut link,
            2,
            LinkEvent::Received(lane, handshake_of(next, lane)),
        );
    }
    assert_ne!(link.token().cloned().unwrap(), old);
    let refused = step(&mut link, 3, submit(2, node_send(), None));
    assert_eq!(refused, not_submitted(2, NotSubmitted::NotConnected));
    receive(&mut link, 3, Lane::Application, Envelope::Plain, &hello());
    let late = Envelope::Reply(Sequence::FIRST);
    let out = receive(&mut link, 4, Lane::Completion, late, &reply(1));
    assert_eq!(
        out,
        [LinkEffect::Ignored(Ignored::Reply(Unmatched::NeverIssued))]
    );
}

/// TR-23
#[test]
fn an_acceptor_that_echoes_another_pair_is_refused() {
    let mut other = key();
    other.generation = other.generation.next();
    let mut link = Link::dial(settings("b"), key(), &mut Vec::new());
    let lane = Lane::Application;
    step(&mut link, 0, LinkEvent::Opened(lane, at(0)));
    let out = step(
        &mut link,
        0,
        LinkEvent::Received(lane, handshake_of(other, lane)),
    );
    let end = ConnectionEnd::Refused(Refusal::PairMetadataInvalid);
    assert_eq!(
        out.last(),
        Some(&LinkEffect::Ended(EndReason::Lane { lane, end }))
    );
}

/// EX-387: deadlines are looked at when one is due, and no record asks for it or moves one.
#[test]
fn records_move_no_deadline() {
    let mut link = dialled();
    let (lane, plain) = (Lane::Application, Envelope::Plain);
    receive(&mut link, 0, lane, plain, &hello());
    let due = link.next_deadline();
    for _ in 0..1000 {
        let out = receive(&mut link, 1, lane, plain, &node_send());
        assert!(matches!(out[..], [LinkEffect::Deliver { .. }]));
        assert_eq!(link.next_deadline(), due);
    }
    let mut out = Vec::new();
    link.on_deadline(at(1), &mut out);
    assert_eq!(out, [], "nothing was due");
}
