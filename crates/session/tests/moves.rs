//! Bound Actors that move, at the session owner; the barrier vectors.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
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

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;
use spotlane_session::{
    ActorRoute, BindAnswer, BindCall, CallId, CloseCause, Diagnostic, Ignored, Machine, Peer,
    RelayError, SessionBindingAggregate, SessionEffect, SessionEvent, SessionIdentity,
    SessionOwner, SessionTimes,
};
use spotlane_types::hex;
use spotlane_types::kind::{MeshOperationKind, RelocationRole};
use spotlane_wire::Record;
use spotlane_wire::command::session::{
    BoundSessionReplaced, SessionRelocationRoute, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::SessionRouteUpdate;
use support::{Session, abort, actor, binding, commit, ms, push, replaced, route, routed, seal};

fn late(effects: &[SessionEffect]) -> bool {
    let diagnostic = Diagnostic::LateSessionRouteUpdate;
    matches!(effects, [SessionEffect::Report { diagnostic: d, .. }] if *d == diagnostic)
}

/// A session with `ann` bound under 6 and sealed by move 9.
fn sealed() -> (Session, spotlane_session::BoundActor, SessionRelocationSeal) {
    let mut session = Session::new();
    let ann = session.bound("ann", 6);
    let seal = seal(session.machine.identity(), "ann", 6, 9);
    let effects = session.on(SessionEvent::Seal(seal.clone()));
    assert!(matches!(effects[..], [SessionEffect::SendSealed { .. }]));
    (session, ann, seal)
}

/// SES-1, SES-4, SB-14, SB-87
#[test]
fn t_ses_01_the_route_follows_the_move_and_the_identity_stays() {
    let (mut session, ann, seal) = sealed();
    assert_eq!(session.on(routed(commit(&seal))), []);
    let after = session.machine.find(&"ann".parse().unwrap()).unwrap();
    assert_eq!((after.token, after.actor), (ann.token.clone(), ann.actor));
    assert_eq!(after.route, route("b", 12));
    match &session.relay(&ann.token, "x")[..] {
        [SessionEffect::SubmitRelay { route, .. }] => assert_eq!(route.node_rid, support::rid("b")),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        session.machine.next_deadline(),
        None,
        "the seal clock is gone"
    );
}

/// EX-178, SES-3, SB-86, SB-87
#[test]
fn t_ses_02_held_messages_go_first_in_order_and_once() {
    let (mut session, ann, seal) = sealed();
    let bob = session.bound("bob", 7);
    for text in ["one", "two", "three"] {
        let held = session.relay(&ann.token, text);
        assert!(matches!(held[..], [SessionEffect::RelayHeld { .. }]));
    }
    let other = session.relay(&bob.token, "goes on");
    assert!(matches!(other[..], [SessionEffect::SubmitRelay { .. }]));
    let withdrawn = session.on(SessionEvent::RelayWithdrawn {
        call: CallId::new(4),
    });
    assert_eq!(withdrawn, [], "two ended in the hold and leaves it");
    let released = session.on(routed(commit(&seal)));
    let texts: Vec<&[u8]> = released
        .iter()
        .map(|effect| match effect {
            SessionEffect::SubmitRelay { route, message, .. } => {
                assert_eq!(route.node_rid, support::rid("b"));
                &message.payload.payload.as_bytes()[..]
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, [&b"one"[..], b"three"]);
}

/// SES-6, SB-88
#[test]
fn t_ses_03_without_route_update_the_session_closes_and_nothing_held_is_delivered() {
    let (mut session, ann, seal) = sealed();
    session.bound("bob", 7);
    session.relay(&ann.token, "held");
    session.on(SessionEvent::Push(push("ann", 12, 6, "held too")));
    assert_eq!(session.machine.next_deadline(), Some(ms(3_000)));
    assert_eq!(session.wait(2_999), []);
    let effects = session.wait(1);
    let cause = CloseCause::SealTimeout;
    assert!(effects.contains(&SessionEffect::CloseConnection { cause }));
    assert!(effects.iter().any(|effect| matches!(
        effect,
        SessionEffect::RelayFailed {
            error: RelayError::SessionClosed { .. },
            ..
        }
    )));
    let told = effects
        .iter()
        .filter(|e| matches!(e, SessionEffect::SendTombstone { .. }));
    assert_eq!(told.count(), 2, "an ordinary disconnect for all bindings");
    assert!(!effects.iter().any(|e| matches!(
        e,
        SessionEffect::SubmitRelay { .. } | SessionEffect::DeliverPush { .. }
    )));
    // SES-7
    assert!(late(&session.on(routed(commit(&seal)))));
}

/// SES-7
#[test]
fn t_ses_04_a_late_or_repeated_update_changes_nothing() {
    let (mut session, _, seal) = sealed();
    session.on(routed(commit(&seal)));
    let before = session.machine.find(&"ann".parse().unwrap());
    assert!(late(&session.on(routed(commit(&seal)))));
    assert!(late(&session.on(routed(commit(&support::seal(
        session.machine.identity(),
        "ann",
        6,
        10
    ))))));
    assert_eq!(session.machine.find(&"ann".parse().unwrap()), before);
    // The 42 of the move that has ended seals nothing any more.
    let effects = session.on(SessionEvent::Seal(seal));
    assert_eq!(effects, [SessionEffect::Ignored(Ignored::SealOfEndedMove)]);
}

/// T-REL-26, SES-3, SES-4: what came during the seal waits, goes to the new owner after the switch, and then the seal is gone.
#[test]
fn t_rel_26_what_was_held_goes_out_after_the_switch_and_the_seal_is_released() {
    let (mut session, ann, seal) = sealed();
    let held = session.relay(&ann.token, "held");
    assert!(matches!(held[..], [SessionEffect::RelayHeld { .. }]));
    let released = session.on(routed(commit(&seal)));
    match &released[..] {
        [SessionEffect::SubmitRelay { route, .. }] => {
            assert_eq!(route.node_rid, support::rid("b"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(session.machine.next_deadline(), None);
    let direct = session.relay(&ann.token, "direct");
    assert!(matches!(direct[..], [SessionEffect::SubmitRelay { .. }]));
}

/// T-REL-28, SES-6: the session is closed when its new route does not come within 3,000 ms, and not a millisecond earlier.
#[test]
fn t_rel_28_no_route_update_in_time_closes_the_session() {
    let (mut session, ann, _) = sealed();
    session.relay(&ann.token, "held");
    assert_eq!(session.wait(2_999), []);
    let effects = session.wait(1);
    let cause = CloseCause::SealTimeout;
    assert!(effects.contains(&SessionEffect::CloseConnection { cause }));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, SessionEffect::SubmitRelay { .. }))
    );
}

/// T-REL-29, SES-7, RL-322: a route update after the timeout is reported and changes nothing.
#[test]
fn t_rel_29_a_route_update_after_the_timeout_only_warns() {
    let (mut session, _, seal) = sealed();
    session.wait(3_000);
    let ann = "ann".parse().unwrap();
    let before = (session.machine.next_deadline(), session.machine.find(&ann));
    assert!(late(&session.on(routed(commit(&seal)))));
    let after = (session.machine.next_deadline(), session.machine.find(&ann));
    assert_eq!(after, before);
}

/// SES-5, SB-82
#[test]
fn t_ses_05_an_abort_sends_held_messages_to_the_source() {
    let (mut session, ann, seal) = sealed();
    session.relay(&ann.token, "held");
    match &session.on(routed(abort(&seal)))[..] {
        [SessionEffect::SubmitRelay { route: to, .. }] => assert_eq!(*to, route("a", 11)),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.machine.next_deadline(), None);
}

/// SB-83, SB-88
#[test]
fn t_ses_06_after_the_boundary_nothing_but_the_seal_timeout_helps() {
    let (mut session, ann, _) = sealed();
    session.relay(&ann.token, "held");
    assert_eq!(
        session.wait(2_999),
        [],
        "nobody sends 44, and nothing goes back"
    );
    assert!(!session.wait(1).is_empty());
}

/// SB-84, SB-80, WR-55
#[test]
fn t_ses_07_the_answer_repeats_the_identity_and_nothing_else() {
    let (mut session, _, seal) = sealed();
    match &session.on(SessionEvent::Seal(seal.clone()))[..] {
        [SessionEffect::SendSealed { to, sealed }] => {
            assert_eq!(to.node_rid, seal.coordinator.coordinator_node_rid);
            assert_eq!(sealed.binding_generation, seal.binding_generation);
            assert_eq!(sealed.actor, seal.actor);
        }
        other => panic!("a repeat gets the same answer: {other:?}"),
    }
}

/// SES-2, SB-85
#[test]
fn a_seal_that_cannot_be_installed_is_answered_by_silence() {
    let mut session = Session::new();
    session.bound("ann", 6);
    let good = seal(session.machine.identity(), "ann", 6, 9);
    let changes: [fn(&mut SessionRelocationSeal); 5] = [
        |s| s.binding_generation = binding(5),
        |s| s.actor.actor = actor("ann", 2),
        |s| s.actor.actor = actor("bob", 1),
        |s| s.session_owner_node_rid = support::rid("other"),
        |s| s.session_rid = spotlane_types::id::SessionRid::new(b"other").unwrap(),
    ];
    for change in changes {
        let mut other = good.clone();
        change(&mut other);
        let effects = session.on(SessionEvent::Seal(other));
        assert_eq!(effects, [SessionEffect::Ignored(Ignored::SealNotCurrent)]);
    }
    let mut role = good.clone();
    role.sender_role = RelocationRole::Coordinator;
    let effects = session.on(SessionEvent::Seal(role));
    assert_eq!(
        effects,
        [SessionEffect::Ignored(Ignored::WrongRole)],
        "WR-51"
    );
    session.on(SessionEvent::Seal(good));
    let other = seal(session.machine.identity(), "ann", 6, 10);
    let effects = session.on(SessionEvent::Seal(other));
    assert_eq!(effects, [SessionEffect::Ignored(Ignored::SealedByAnother)]);
}

/// SES-8, SB-89, RL-350
#[test]
fn pushes_of_the_source_pass_and_pushes_of_the_target_wait() {
    let (mut session, _, seal) = sealed();
    let source = session.on(SessionEvent::Push(push("ann", 11, 6, "source")));
    assert!(matches!(source[..], [SessionEffect::DeliverPush { .. }]));
    for text in ["same", "same"] {
        assert_eq!(session.on(SessionEvent::Push(push("ann", 12, 6, text))), []);
    }
    let mut foreign = push("ann", 13, 6, "of nobody");
    foreign.actor.target_node_rid = support::rid("c");
    assert_eq!(session.on(SessionEvent::Push(foreign)), []);
    let released = session.on(routed(commit(&seal)));
    assert!(
        matches!(
            released[..],
            [
                SessionEffect::DeliverPush { .. },
                SessionEffect::DeliverPush { .. },
                SessionEffect::Report {
                    diagnostic: Diagnostic::PushRefused,
                    ..
                },
            ]
        ),
        "identical payloads are two pushes: {released:?}"
    );
}

/// SB-90
#[test]
fn a_replacement_under_a_seal_ends_both() {
    let (mut session, ann, seal) = sealed();
    session.relay(&ann.token, "held");
    let replaced = replaced(session.machine.identity(), "ann", 6);
    let peer = support::peer("a");
    let effects = session.on(SessionEvent::Replaced { peer, replaced });
    assert!(matches!(
        effects[..],
        [
            SessionEffect::RelayFailed { .. },
            SessionEffect::BeginClosing,
            SessionEffect::RunReplacedCallback { .. },
        ]
    ));
    assert!(late(&session.on(routed(commit(&seal)))));
}

fn golden(file: &str) -> Option<Value> {
    let folder = std::env::var_os("SPOTLANE_GOLDEN").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"),
        PathBuf::from,
    );
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("SKIPPED: no reference vectors at {}", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

struct Barrier {
    seal: SessionRelocationSeal,
    sealed: SessionRelocationSealed,
    commit: SessionRelocationRoute,
    abort: SessionRelocationRoute,
}

fn barrier(vectors: &Value) -> Barrier {
    let record = |name: &str| {
        let cases = vectors["canonical"].as_array().unwrap();
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        let frame = Bytes::from(hex::decode(case["hex"].as_str().unwrap()).unwrap());
        Record::decode(&[frame], MeshOperationKind::None).unwrap()
    };
    let route = |name: &str| match record(name) {
        Record::SessionRelocationRoute(route) => *route,
        other => panic!("{other:?}"),
    };
    Barrier {
        seal: match record("sessionRelocationSeal") {
            Record::SessionRelocationSeal(seal) => *seal,
            other => panic!("{other:?}"),
        },
        sealed: match record("sessionRelocationSealed") {
            Record::SessionRelocationSealed(sealed) => *sealed,
            other => panic!("{other:?}"),
        },
        commit: route("sessionRelocationRouteCommit"),
        abort: route("sessionRelocationRouteAbort"),
    }
}

/// The session owner of the vectors, with the binding that they name.
fn session_of(seal: &SessionRelocationSeal) -> Session {
    let identity = SessionIdentity {
        owner: SessionOwner {
            node_rid: seal.session_owner_node_rid.clone(),
            node_generation: seal.session_owner_node_generation,
            owner_id: seal.session_owner_id.clone(),
            owner_lease_generation: seal.session_owner_lease_generation,
        },
        session_rid: seal.session_rid.clone(),
    };
    let mut session = Session::new();
    session.machine = SessionBindingAggregate::new(identity, SessionTimes::default());
    session.on(SessionEvent::Bind(BindCall {
        call: CallId::new(1),
        actor: seal.actor.actor.clone(),
        route: ActorRoute {
            mesh_name: "world".parse().unwrap(),
            node_rid: seal.actor.target_node_rid.clone(),
            node_generation: seal.actor.target_node_generation,
            authority_owner_generation: seal.actor.expected_authority_owner_generation,
            owner_lease_generation: seal.actor.expected_owner_lease_generation,
        },
        generation: seal.binding_generation,
    }));
    session.on(SessionEvent::BindAnswered {
        generation: seal.binding_generation,
        answer: BindAnswer::Registered { followed: None },
    });
    session
}

fn outcome(effects: &[SessionEffect], before: usize) -> &'static str {
    match effects {
        [SessionEffect::SendSealed { .. }] if before > 0 => "idempotent",
        [
            SessionEffect::Report {
                diagnostic: Diagnostic::ProtocolError,
                ..
            },
        ] => "protocolError",
        [
            SessionEffect::Report {
                diagnostic: Diagnostic::LateSessionRouteUpdate,
                ..
            },
        ] if before > 1 => "alreadyApplied",
        [
            SessionEffect::Report {
                diagnostic: Diagnostic::LateSessionRouteUpdate,
                ..
            },
        ] => "stale",
        [] => "applied",
        other => panic!("{other:?}"),
    }
}

fn mutate(seal: &mut SessionRelocationSeal, update: &mut SessionRelocationRoute, text: &str) {
    let (field, value) = text.split_once('=').unwrap();
    let number: u64 = value.parse().unwrap();
    match field {
        "sourceAuthorityOwnerGeneration" => {
            seal.actor.expected_authority_owner_generation = support::tenure_number(number);
        }
        "targetAuthorityOwnerGeneration" => match &mut update.route {
            SessionRouteUpdate::Commit {
                target_authority_owner_generation,
                ..
            } => {
                *target_authority_owner_generation = support::tenure_number(number);
            }
            SessionRouteUpdate::Abort { .. } => panic!("an abort has no target"),
        },
        "relocationLow" => update.relocation = support::relocation(number),
        other => panic!("unknown field {other}"),
    }
}

/// SES-1, SES-2, SES-4, SES-5, SES-7, SB-85, WR-52, T-REL-29
#[test]
fn the_receiver_cases_of_the_barrier_vectors_hold() {
    let Some(vectors) = golden("session-relocation-barrier-v1.json") else {
        return;
    };
    let Barrier {
        seal,
        sealed,
        commit,
        abort,
    } = barrier(&vectors);
    for case in vectors["receiverCases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut session = session_of(&seal);
        let installed = session.on(SessionEvent::Seal(seal.clone()));
        assert!(matches!(
            &installed[..],
            [SessionEffect::SendSealed { sealed: answer, .. }] if **answer == sealed
        ));
        let (mut other_seal, mut other_commit) = (seal.clone(), commit.clone());
        let mut other_abort = abort.clone();
        if let Some(text) = case.get("retryMutation").and_then(Value::as_str) {
            mutate(&mut other_seal, &mut other_commit, text);
        }
        if let Some(text) = case.get("routeMutation").and_then(Value::as_str) {
            mutate(&mut other_seal, &mut other_abort, text);
        }
        // A case with a seal is about an abort.
        let result = match case
            .get("first")
            .map_or("abort", |kind| kind.as_str().unwrap())
        {
            "sessionRelocationSeal" => outcome(&session.on(SessionEvent::Seal(other_seal)), 1),
            "sessionRelocationRouteCommit" => {
                assert_eq!(session.on(routed(commit.clone())), []);
                outcome(&session.on(routed(other_commit)), 2)
            }
            _ => outcome(&session.on(routed(other_abort)), 0),
        };
        assert_eq!(result, case["result"].as_str().unwrap(), "{name}");
    }
}

/// SB-52
#[test]
fn the_receiver_cases_of_the_replacement_vectors_hold() {
    let Some(vectors) = golden("bound-session-replaced-v1.json") else {
        return;
    };
    let bytes = vectors["canonical"]["bytes"].as_array().unwrap();
    let byte = |value: &Value| u8::try_from(value.as_u64().unwrap()).unwrap();
    let frame: Bytes = bytes.iter().map(byte).collect();
    let record = match Record::decode(&[frame], MeshOperationKind::None).unwrap() {
        Record::BoundSessionReplaced(record) => *record,
        other => panic!("{other:?}"),
    };
    for case in vectors["receiverFenceCases"].as_array().unwrap() {
        let mut session = session_of_retired(&record);
        let run: u64 = case["sessionOwnerNodeGeneration"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let mut replaced = record.clone();
        replaced.retired_session.session_owner_node_generation =
            spotlane_types::generation::NodeGeneration::new(run).unwrap();
        let peer = Peer {
            node_rid: record.actor_authority.target_node_rid.clone(),
            node_generation: record.actor_authority.target_node_generation,
        };
        let result = match &session.on(SessionEvent::Replaced { peer, replaced })[..] {
            [SessionEffect::Ignored(Ignored::ReplacementStale)] => "ignore-stale",
            [SessionEffect::BeginClosing, _] => "apply",
            other => panic!("{other:?}"),
        };
        assert_eq!(result, case["result"].as_str().unwrap(), "{}", case["name"]);
    }
}

fn session_of_retired(record: &BoundSessionReplaced) -> Session {
    let retired = &record.retired_session;
    let identity = SessionIdentity {
        owner: SessionOwner {
            node_rid: retired.session_owner_node_rid.clone(),
            node_generation: retired.session_owner_node_generation,
            owner_id: retired.session_owner_id.clone(),
            owner_lease_generation: retired.session_owner_lease_generation,
        },
        session_rid: retired.session_rid.clone(),
    };
    let mut session = Session::new();
    session.machine = SessionBindingAggregate::new(identity, SessionTimes::default());
    session.ask(record.actor_authority.actor.clone(), route("a", 3), 7);
    session.answered(7, BindAnswer::Registered { followed: None });
    session
}
