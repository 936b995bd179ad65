//! Records about a binding that come before the answer to its bind: the answer takes the other lane of the connection, so
//! that what was sent behind it may be first. They are judged behind it, in their own order.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use spotlane_session::bound::{EARLY_CONTROLS_MAX, EARLY_PUSHES_MAX};
use spotlane_session::{
    BindAnswer, BindRefusal, CallbackEnd, CloseCause, Diagnostic, Ignored, Machine as _,
    SessionEffect, SessionEvent,
};
use support::{Session, abort, actor, commit, ms, peer, push, replaced, route, routed, seal};

/// A session that has asked for `ann` under 6 and has no answer.
fn asked() -> Session {
    let mut session = Session::new();
    session.ask(actor("ann", 1), route("a", 11), 6);
    session
}

fn registered(session: &mut Session) -> Vec<SessionEffect> {
    session.answered(6, BindAnswer::Registered { followed: None })
}

/// SES-1, SB-22, SB-88: the clock of a seal starts when it is installed
#[test]
fn a_seal_waits_for_the_answer_to_its_bind() {
    let mut session = asked();
    let seal = seal(session.machine.identity(), "ann", 6, 9);
    assert_eq!(session.on(SessionEvent::Seal(seal.clone())), []);
    assert_eq!(session.wait(2_000), []);
    let effects = registered(&mut session);
    assert!(matches!(
        effects[..],
        [
            SessionEffect::BindEnded { result: Ok(_), .. },
            SessionEffect::SendSealed { .. }
        ]
    ));
    assert_eq!(session.machine.next_deadline(), Some(ms(5_000)));
    assert_eq!(session.on(routed(commit(&seal))), []);
    let ann = session.machine.find(&"ann".parse().unwrap()).unwrap();
    assert_eq!(ann.route, route("b", 12));
}

/// SES-5, SB-82, RL-358: an abort does not overtake its seal, so no seal stands that nobody ends
#[test]
fn an_abort_stays_behind_the_seal_that_waits() {
    let mut session = asked();
    let seal = seal(session.machine.identity(), "ann", 6, 9);
    assert_eq!(session.on(SessionEvent::Seal(seal.clone())), []);
    assert_eq!(session.on(routed(abort(&seal))), []);
    let effects = registered(&mut session);
    let [
        SessionEffect::BindEnded {
            result: Ok(ann), ..
        },
        SessionEffect::SendSealed { .. },
    ] = &effects[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(session.machine.next_deadline(), None, "no seal stands");
    let relayed = session.relay(&ann.token, "x");
    assert!(matches!(relayed[..], [SessionEffect::SubmitRelay { .. }]));
}

/// SB-50 to SB-52: another session took the Actor before this one knew that it had it
#[test]
fn a_replacement_waits_for_the_answer_to_the_bind_that_it_retires() {
    let mut session = asked();
    let record = replaced(session.machine.identity(), "ann", 6);
    let (stranger, owner) = (peer("b"), peer("a"));
    for peer in [stranger, owner] {
        let replaced = record.clone();
        assert_eq!(session.on(SessionEvent::Replaced { peer, replaced }), []);
    }
    let effects = registered(&mut session);
    assert!(
        matches!(
            effects[..],
            [
                SessionEffect::BindEnded { result: Ok(_), .. },
                // SB-52: not from the Actor's owner.
                SessionEffect::Ignored(Ignored::ReplacementStale),
                SessionEffect::BeginClosing,
                SessionEffect::RunReplacedCallback { .. },
            ]
        ),
        "{effects:?}"
    );
    assert_eq!(session.machine.bound().count(), 0);
    session.on(SessionEvent::ReplacedCallbackEnded(CallbackEnd::Completed));
    let closed = session.wait(100);
    let cause = CloseCause::Replaced;
    assert_eq!(
        closed.first(),
        Some(&SessionEffect::CloseConnection { cause })
    );
}

/// SB-36: pushes, seal and abort in the order in which they were sent
#[test]
fn early_records_keep_their_order() {
    let mut session = asked();
    let seal = seal(session.machine.identity(), "ann", 6, 9);
    session.on(SessionEvent::Push(push("ann", 11, 6, "one")));
    session.on(SessionEvent::Seal(seal.clone()));
    session.on(SessionEvent::Push(push("ann", 11, 6, "two")));
    session.on(routed(abort(&seal)));
    session.on(SessionEvent::Push(push("ann", 11, 6, "three")));
    let effects = registered(&mut session);
    assert!(
        matches!(
            effects[..],
            [
                SessionEffect::BindEnded { result: Ok(_), .. },
                SessionEffect::DeliverPush { .. },
                SessionEffect::SendSealed { .. },
                SessionEffect::DeliverPush { .. },
                SessionEffect::DeliverPush { .. },
            ]
        ),
        "{effects:?}"
    );
}

/// SB-27, SB-38, WR-55: without a binding each record ends as it would have ended without a bind
#[test]
fn early_records_of_a_bind_that_failed_end_by_their_names() {
    let fill = |session: &mut Session| {
        let identity = session.machine.identity().clone();
        let seal = seal(&identity, "ann", 6, 9);
        session.on(SessionEvent::Push(push("ann", 11, 6, "x")));
        session.on(SessionEvent::Seal(seal.clone()));
        session.on(routed(abort(&seal)));
        session.on(SessionEvent::Replaced {
            peer: peer("a"),
            replaced: replaced(&identity, "ann", 6),
        });
    };
    let ends = |effects: &[SessionEffect]| {
        let ended = effects.iter().filter_map(|effect| match effect {
            SessionEffect::Report { diagnostic, .. } => Some(format!("{diagnostic:?}")),
            SessionEffect::Ignored(ignored) => Some(format!("{ignored:?}")),
            _ => None,
        });
        ended.collect::<Vec<_>>()
    };
    let expected = [
        format!("{:?}", Diagnostic::PushRefused),
        format!("{:?}", Ignored::SealNotCurrent),
        format!("{:?}", Diagnostic::LateSessionRouteUpdate),
        format!("{:?}", Ignored::ReplacementStale),
    ];
    for answer in [
        BindAnswer::Refused(BindRefusal::Sealed),
        BindAnswer::Unanswered,
    ] {
        let mut session = asked();
        fill(&mut session);
        assert_eq!(ends(&session.answered(6, answer)), expected);
    }
    // Its caller has gone, or its client.
    let mut session = Session::new();
    let call = session.call();
    let again = spotlane_session::BindCall {
        call,
        actor: actor("ann", 1),
        route: route("a", 11),
        generation: support::binding(6),
    };
    session.on(SessionEvent::Bind(again));
    fill(&mut session);
    let abandoned = session.on(SessionEvent::BindAbandoned { call });
    assert_eq!(ends(&abandoned), expected);
    let mut session = asked();
    fill(&mut session);
    assert_eq!(ends(&session.on(SessionEvent::ConnectionLost)), expected);
}

/// A node that repeats itself fills nothing.
#[test]
fn early_records_are_bounded() {
    let mut session = asked();
    let seal = seal(session.machine.identity(), "ann", 6, 9);
    for number in 0..=EARLY_PUSHES_MAX {
        let refused = session.on(SessionEvent::Push(push("ann", 11, 6, "x")));
        assert_eq!(refused.len(), usize::from(number == EARLY_PUSHES_MAX));
    }
    for number in 0..=EARLY_CONTROLS_MAX {
        let refused = session.on(SessionEvent::Seal(seal.clone()));
        assert_eq!(refused.len(), usize::from(number == EARLY_CONTROLS_MAX));
    }
    let effects = registered(&mut session);
    assert_eq!(effects.len(), 1 + EARLY_PUSHES_MAX + EARLY_CONTROLS_MAX);
}

/// SB-59, SB-90: while another incarnation is asked for, records of the binding in force are judged at once
#[test]
fn records_of_the_binding_before_do_not_wait() {
    let mut session = Session::new();
    session.bound("ann", 5);
    session.ask(actor("ann", 2), route("a", 12), 6);
    let pushed = session.on(SessionEvent::Push(push("ann", 11, 5, "x")));
    assert!(matches!(pushed[..], [SessionEffect::DeliverPush { .. }]));
    let seal = seal(session.machine.identity(), "ann", 5, 9);
    let sealed = session.on(SessionEvent::Seal(seal));
    assert_eq!(sealed, [SessionEffect::Ignored(Ignored::SealNotCurrent)]);
}
