//! Bind, relay, push, replacement and disconnect at the session owner.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    clippy::similar_names,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use spotlane_session::{
    BindAnswer, BindError, BindRefusal, CallbackEnd, CloseCause, Diagnostic, FailureKind, Ignored,
    Machine, NoticeEnd, NoticeKind, RelayError, SessionEffect, SessionEvent,
};
use spotlane_types::generation::{NodeGeneration, OwnerLeaseGeneration};
use support::{Session, actor, binding, ms, peer, push, replaced, route};

fn ended(effects: &[SessionEffect]) -> FailureKind {
    match effects {
        [
            SessionEffect::BindEnded {
                result: Err(error), ..
            },
        ] => error.kind(),
        other => panic!("{other:?}"),
    }
}

fn tombstones(effects: &[SessionEffect]) -> Vec<u64> {
    let number = |effect: &SessionEffect| match effect {
        SessionEffect::SendTombstone { generation, .. } => Some(generation.get()),
        _ => None,
    };
    effects.iter().filter_map(number).collect()
}

/// SB-20, SB-23
#[test]
fn a_bind_is_one_request_and_appears_with_its_answer() {
    let mut session = Session::new();
    let asked = session.ask(actor("ann", 1), route("a", 11), 6);
    assert_eq!(
        asked,
        [SessionEffect::RequestBind {
            route: route("a", 11),
            actor: actor("ann", 1),
            generation: binding(6),
        }]
    );
    assert!(session.machine.find(&"ann".parse().unwrap()).is_none());
    // On another way than the answer: kept until the answer says what it is worth.
    assert_eq!(
        session.on(SessionEvent::Push(push("ann", 11, 6, "early"))),
        []
    );
    let done = session.answered(6, BindAnswer::Registered { followed: None });
    assert!(matches!(
        done[..],
        [
            SessionEffect::BindEnded { result: Ok(_), .. },
            SessionEffect::DeliverPush { .. }
        ]
    ));
    let pushed = session.on(SessionEvent::Push(push("ann", 11, 6, "hello")));
    assert!(matches!(pushed[..], [SessionEffect::DeliverPush { .. }]));
}

/// SB-6, SB-2, SB-11, SB-13
#[test]
fn t_bnd_02_two_actors_have_routes_and_tokens_of_their_own() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    session.ask(actor("bob", 1), route("b", 3), 7);
    session.answered(7, BindAnswer::Registered { followed: None });
    let bob = session.machine.find(&"bob".parse().unwrap()).unwrap();
    assert_ne!(ann.token, bob.token);
    for (bound, node, sequence) in [(&ann, "a", 1), (&bob, "b", 2)] {
        match &session.relay(&bound.token, "x")[..] {
            [SessionEffect::SubmitRelay { route, tail, .. }] => {
                assert_eq!(route.node_rid, support::rid(node));
                assert_eq!(
                    tail.source_session_sequence.get(),
                    sequence,
                    "SB-32: per session"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(session.machine.bound().count(), 2);
}

/// SB-24, SB-70
#[test]
fn t_bnd_03_a_stale_location_is_followed_once_or_unavailable() {
    let mut session = Session::new();
    assert_eq!(session.ask(actor("ann", 1), route("a", 11), 6).len(), 1);
    let answer = BindAnswer::Refused(BindRefusal::StaleLocation);
    let kind = ended(&session.answered(6, answer));
    assert_eq!(kind, FailureKind::Unavailable, "and nothing is asked again");
    session.ask(actor("ann", 1), route("a", 11), 7);
    let followed = Some(route("b", 12));
    session.answered(7, BindAnswer::Registered { followed });
    let bound = session.machine.find(&"ann".parse().unwrap()).unwrap();
    assert_eq!(bound.route, route("b", 12), "where the answer came from");
}

/// SB-71, SB-72, SB-73, SB-75
#[test]
fn t_bnd_04_each_refusal_has_the_kind_of_section_12() {
    let kinds = [
        (BindRefusal::OtherGeneration, FailureKind::InvalidOperation),
        (BindRefusal::Sealed, FailureKind::Unavailable),
        (BindRefusal::NoFactory, FailureKind::NotFound),
        (BindRefusal::Superseded, FailureKind::Unavailable),
    ];
    let mut session = Session::new();
    for (number, (refusal, kind)) in (6..).zip(kinds) {
        session.ask(actor("ann", 1), route("a", 11), number);
        assert_eq!(
            ended(&session.answered(number, BindAnswer::Refused(refusal))),
            kind
        );
    }
}

/// SB-25, SB-26
#[test]
fn t_bnd_14_the_same_session_binds_again_and_nothing_happens() {
    let mut session = Session::new();
    let first = session.bound("ann", 6);
    let again = session.ask(actor("ann", 1), route("elsewhere", 99), 7);
    match &again[..] {
        [
            SessionEffect::BindEnded {
                result: Ok(bound), ..
            },
        ] => assert_eq!(*bound, first),
        other => panic!("{other:?}"),
    }
}

/// SB-25
#[test]
fn binds_of_one_actor_run_one_after_the_other() {
    let mut session = Session::new();
    session.ask(actor("ann", 1), route("a", 11), 6);
    assert_eq!(session.ask(actor("ann", 1), route("a", 11), 7), []);
    let both = session.answered(6, BindAnswer::Registered { followed: None });
    assert!(matches!(
        &both[..],
        [
            SessionEffect::BindEnded { result: Ok(a), .. },
            SessionEffect::BindEnded { result: Ok(b), .. },
        ] if a == b
    ));
}

/// SB-25
#[test]
fn the_next_bind_asks_when_the_first_one_failed() {
    let mut session = Session::new();
    session.ask(actor("ann", 1), route("a", 11), 6);
    session.ask(actor("ann", 1), route("a", 11), 7);
    let next = session.answered(6, BindAnswer::Refused(BindRefusal::StaleLocation));
    assert!(matches!(
        next[..],
        [
            SessionEffect::BindEnded { result: Err(_), .. },
            SessionEffect::RequestBind { .. }
        ]
    ));
}

/// SB-27, SB-59
#[test]
fn a_bind_without_answer_is_taken_back_and_its_late_answer_ignored() {
    let mut session = Session::new();
    session.ask(actor("ann", 1), route("a", 11), 6);
    let failed = session.answered(6, BindAnswer::Unanswered);
    assert!(matches!(
        &failed[..],
        [
            SessionEffect::SendTombstone { kind: NoticeKind::Unawaited, .. },
            SessionEffect::BindEnded { result: Err(error @ BindError::Unanswered { .. }), .. },
        ] if error.kind() == FailureKind::DeadlineExceeded
    ));
    let late = session.answered(6, BindAnswer::Registered { followed: None });
    assert_eq!(late, [SessionEffect::Ignored(Ignored::AnswerOfNoBind)]);
    assert_eq!(session.machine.bound().count(), 0);
}

/// SB-50, SB-58
#[test]
fn only_a_successful_bind_of_another_incarnation_ends_the_old_binding() {
    let mut session = Session::new();
    let old = session.bound("ann", 6);
    session.ask(actor("ann", 2), route("a", 20), 7);
    assert!(matches!(
        session.relay(&old.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
    session.answered(7, BindAnswer::Refused(BindRefusal::StaleLocation));
    assert!(matches!(
        session.relay(&old.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
    session.ask(actor("ann", 2), route("a", 20), 8);
    session.answered(8, BindAnswer::Registered { followed: None });
    match &session.relay(&old.token, "x")[..] {
        [SessionEffect::RelayFailed { error, .. }] => {
            assert_eq!(error.kind(), FailureKind::Unavailable);
        }
        other => panic!("{other:?}"),
    }
}

/// SB-15
#[test]
fn a_route_is_not_used_past_the_admission_deadline() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    session.on(SessionEvent::AdmissionUntil(ms(1_000)));
    session.wait(999);
    assert!(matches!(
        session.relay(&ann.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
    session.wait(1);
    let effects = session.relay(&ann.token, "x");
    assert!(matches!(
        effects[..],
        [SessionEffect::RelayFailed {
            error: RelayError::RouteExpired { .. },
            ..
        }]
    ));
    session.on(SessionEvent::AdmissionUntil(ms(2_000)));
    assert!(matches!(
        session.relay(&ann.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
}

/// SB-38, SB-21
#[test]
fn t_bnd_20_four_values_judge_a_push_and_the_lease_does_not() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let good = push("ann", 11, 6, "x");
    let mut lease = good.clone();
    lease.actor.expected_owner_lease_generation = OwnerLeaseGeneration::new(77).unwrap();
    let mut run = good.clone();
    run.actor.target_node_generation = NodeGeneration::new(2).unwrap();
    let mut incarnation = good.clone();
    incarnation.actor.actor = actor("ann", 2);
    for current in [good, lease] {
        let effects = session.on(SessionEvent::Push(current));
        assert!(matches!(effects[..], [SessionEffect::DeliverPush { .. }]));
    }
    for stale in [
        run,
        incarnation,
        push("ann", 10, 6, "x"),
        push("ann", 12, 6, "x"),
        push("ann", 11, 5, "x"),
        push("bob", 11, 6, "x"),
    ] {
        let actor_id = stale.actor.actor.actor_id.clone();
        let diagnostic = Diagnostic::PushRefused;
        let effects = session.on(SessionEvent::Push(stale));
        assert_eq!(
            effects,
            [SessionEffect::Report {
                diagnostic,
                actor_id
            }]
        );
    }
}

/// SB-39
#[test]
fn an_actor_closes_the_connection_by_a_push_that_is_judged_like_any_other() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let mut close = push("ann", 11, 5, "");
    close.payload.packet_name = "$zlink.session-close".parse().unwrap();
    let stale = session.on(SessionEvent::Push(close.clone()));
    assert!(matches!(stale[..], [SessionEffect::Report { .. }]));
    close.expected_binding_generation = binding(6);
    let effects = session.on(SessionEvent::Push(close));
    let cause = CloseCause::ActorClosed;
    assert_eq!(effects[0], SessionEffect::CloseConnection { cause });
    assert_eq!(tombstones(&effects), [6]);
}

/// SB-52, SB-53, SB-54
#[test]
fn t_bnd_13_the_connection_closes_100_ms_after_the_callback() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let record = replaced(session.machine.identity(), "ann", 6);
    let from = peer("a");
    let actor_id = record.actor_authority.actor.actor_id.clone();
    let effects = session.on(SessionEvent::Replaced {
        peer: from,
        replaced: record,
    });
    assert_eq!(
        effects,
        [
            SessionEffect::BeginClosing,
            SessionEffect::RunReplacedCallback { actor_id }
        ]
    );
    assert_eq!(session.wait(20_000), []);
    let end = SessionEvent::ReplacedCallbackEnded(CallbackEnd::Completed);
    assert_eq!(session.on(end), []);
    assert_eq!(
        session.wait(99),
        [],
        "also when nothing is left to be written"
    );
    let cause = CloseCause::Replaced;
    assert_eq!(
        session.wait(1),
        [
            SessionEffect::CloseConnection { cause },
            SessionEffect::Finished
        ]
    );
}

/// SB-55
#[test]
fn t_bnd_13_a_callback_that_does_not_end_is_cut_off() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let replaced = replaced(session.machine.identity(), "ann", 6);
    let from = peer("a");
    session.on(SessionEvent::Replaced {
        peer: from,
        replaced,
    });
    assert_eq!(session.machine.next_deadline(), Some(ms(30_000)));
    assert_eq!(session.wait(29_999), []);
    let effects = session.wait(1);
    let cause = CloseCause::ReplacedCallbackTimeout;
    assert_eq!(effects[1], SessionEffect::CloseConnection { cause });
    let late = SessionEvent::ReplacedCallbackEnded(CallbackEnd::Completed);
    assert_eq!(
        session.on(late),
        [SessionEffect::Ignored(Ignored::CallbackOfNobody)]
    );
}

/// SB-52, SB-59
#[test]
fn t_bnd_15_a_replacement_that_differs_in_one_value_is_ignored() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let good = replaced(session.machine.identity(), "ann", 6);
    let mut cases = vec![(peer("b"), good.clone())];
    let changes: [fn(&mut spotlane_wire::reference::RetiredBoundSessionRouteFence); 6] = [
        |r| r.session_owner_node_rid = support::rid("other"),
        |r| r.session_owner_node_generation = NodeGeneration::new(9).unwrap(),
        |r| r.session_owner_id = "other".parse().unwrap(),
        |r| r.session_owner_lease_generation = OwnerLeaseGeneration::new(9).unwrap(),
        |r| r.session_rid = spotlane_types::id::SessionRid::new(b"other").unwrap(),
        |r| r.retired_binding_generation = binding(5),
    ];
    for change in changes {
        let mut record = good.clone();
        change(&mut record.retired_session);
        cases.push((peer("a"), record));
    }
    for (peer, replaced) in cases {
        let effects = session.on(SessionEvent::Replaced { peer, replaced });
        assert_eq!(effects, [SessionEffect::Ignored(Ignored::ReplacementStale)]);
    }
    assert_eq!(session.machine.bound().count(), 1);
    let from = peer("a");
    let applied = session.on(SessionEvent::Replaced {
        peer: from.clone(),
        replaced: good.clone(),
    });
    assert_eq!(applied.len(), 2);
    let again = session.on(SessionEvent::Replaced {
        peer: from,
        replaced: good,
    });
    assert_eq!(
        again,
        [SessionEffect::Ignored(Ignored::ReplacementStale)],
        "at most once"
    );
}

/// SB-57
#[test]
fn the_replaced_actor_is_told_nothing_and_the_others_once() {
    let mut session = Session::new();
    session.bound("ann", 6);
    session.bound("bob", 7);
    let replaced = replaced(session.machine.identity(), "ann", 6);
    let from = peer("a");
    session.on(SessionEvent::Replaced {
        peer: from,
        replaced,
    });
    session.on(SessionEvent::ReplacedCallbackEnded(CallbackEnd::Failed));
    assert_eq!(tombstones(&session.wait(100)), [7]);
}

/// SB-60, SB-63
#[test]
fn t_bnd_16_every_actor_is_told_once_whatever_the_others_do() {
    let mut session = Session::new();
    session.bound("ann", 6);
    session.bound("bob", 7);
    session.bound("cat", 8);
    assert_eq!(
        tombstones(&session.on(SessionEvent::ConnectionLost)),
        [6, 7, 8]
    );
    let end = NoticeEnd::Failed;
    let generation = binding(6);
    let failed = session.on(SessionEvent::NoticeEnded { generation, end });
    assert!(matches!(failed[..], [SessionEffect::Report { .. }]));
    let generation = binding(7);
    let end = NoticeEnd::Answered;
    assert_eq!(
        session.on(SessionEvent::NoticeEnded { generation, end }),
        []
    );
    assert_eq!(session.wait(29_999), []);
    let effects = session.wait(1);
    assert_eq!(
        effects.last(),
        Some(&SessionEffect::Finished),
        "the third was late"
    );
    assert!(session.machine.is_over());
}

/// SB-62
#[test]
fn t_bnd_17_explicit_and_physical_notice_share_one_identity() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    assert_eq!(tombstones(&session.notify(&ann.token)), [6]);
    assert_eq!(
        session.notify(&ann.token),
        [],
        "the second call waits for the same end"
    );
    assert_eq!(
        session.on(SessionEvent::ConnectionLost),
        [],
        "and so does the connection"
    );
    let generation = binding(6);
    let end = NoticeEnd::Answered;
    let effects = session.on(SessionEvent::NoticeEnded { generation, end });
    assert!(matches!(
        effects[..],
        [
            SessionEffect::NotifyEnded { result: Ok(()), .. },
            SessionEffect::NotifyEnded { result: Ok(()), .. },
            SessionEffect::Finished,
        ]
    ));
}

/// SB-64
#[test]
fn t_bnd_18_an_explicit_notice_ends_one_binding_and_leaves_the_connection() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    let bob = session.bound("bob", 7);
    session.notify(&ann.token);
    let generation = binding(6);
    let end = NoticeEnd::Answered;
    session.on(SessionEvent::NoticeEnded { generation, end });
    assert!(matches!(
        session.relay(&ann.token, "x")[..],
        [SessionEffect::RelayFailed { .. }]
    ));
    assert!(matches!(
        session.relay(&bob.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
}

/// SB-63
#[test]
fn a_notice_without_answer_ends_the_binding_all_the_same() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    session.notify(&ann.token);
    let effects = session.wait(30_000);
    assert!(matches!(
        &effects[..],
        [
            SessionEffect::Report { diagnostic: Diagnostic::DisconnectNoticeFailed, .. },
            SessionEffect::NotifyEnded { result: Err(error), .. },
        ] if error.kind() == FailureKind::DeadlineExceeded
    ));
    assert_eq!(session.machine.bound().count(), 0);
}

/// SB-64
#[test]
fn t_bnd_19_nothing_is_left_for_a_later_connection() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    session.on(SessionEvent::ConnectionLost);
    let later = Session::named("gate", "later");
    assert_eq!(later.machine.bound().count(), 0);
    assert!(matches!(
        session.relay(&ann.token, "x")[..],
        [SessionEffect::RelayFailed { .. }]
    ));
    let refused = session.ask(actor("ann", 1), route("a", 11), 7);
    assert_eq!(ended(&refused), FailureKind::Unavailable);
}

/// SB-27, SB-60
#[test]
fn a_bind_in_flight_when_the_connection_ends_is_taken_back() {
    let mut session = Session::new();
    session.ask(actor("ann", 1), route("a", 11), 6);
    let effects = session.on(SessionEvent::ConnectionLost);
    assert_eq!(tombstones(&effects), [6]);
    assert_eq!(effects.last(), Some(&SessionEffect::Finished));
}

/// SB-91
#[test]
fn a_host_that_leaves_makes_no_new_bindings_and_keeps_those_it_has() {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    session.on(SessionEvent::RefuseBinds);
    let refused = session.ask(actor("bob", 1), route("a", 11), 7);
    assert_eq!(ended(&refused), FailureKind::Unavailable);
    assert!(matches!(
        session.relay(&ann.token, "x")[..],
        [SessionEffect::SubmitRelay { .. }]
    ));
}
