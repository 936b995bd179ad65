//! The binding at the owner of the Actor.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use spotlane_session::actor::{
    ActorBinding, ActorEffect, ActorEvent, ActorIgnored, CarriedBinding, CarryError,
};
use spotlane_session::{BindRefusal, BindingIdentity, FailureKind, Machine, Peer, SessionIdentity};
use spotlane_types::count::{Correlation, SessionSequence};
use spotlane_types::generation::{NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::kind::RelocationRole;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::{BoundSessionBind, SessionRelocationSealed};
use spotlane_wire::reference::{ActorRouteFence, BindingTransition, SessionRouteUpdate};
use support::{
    actor, at_owner, binding, coordinator, identity, ms, payload, peer, relocation, route, tenure,
};

fn correlation(number: u64) -> Correlation {
    Correlation::new(number).unwrap()
}

fn fence() -> ActorRouteFence {
    route("a", 11).fence(&actor("ann", 1))
}

fn request(session: &SessionIdentity, transition: BindingTransition, number: u64) -> ActorEvent {
    ActorEvent::Bind {
        from: session.owner.clone(),
        request: Box::new(BoundSessionBind {
            correlation: correlation(number),
            actor: fence(),
            session_rid: session.session_rid.clone(),
            binding: transition,
        }),
    }
}

fn active(session: &SessionIdentity, number: u64) -> ActorEvent {
    let binding_generation = binding(number);
    request(
        session,
        BindingTransition::Active { binding_generation },
        number,
    )
}

fn tombstone(session: &SessionIdentity, number: u64) -> ActorEvent {
    let retired_binding_generation = binding(number);
    let transition = BindingTransition::Tombstone {
        retired_binding_generation,
    };
    request(session, transition, 100 + number)
}

fn on(machine: &mut ActorBinding, event: ActorEvent) -> Vec<ActorEffect> {
    let mut out = Vec::new();
    machine.on_event(ms(0), event, &mut out);
    out
}

fn answer(number: u64, result: Result<(), BindRefusal>) -> ActorEffect {
    let correlation = correlation(number);
    ActorEffect::Answer {
        correlation,
        result,
    }
}

fn id(session: &SessionIdentity, number: u64) -> BindingIdentity {
    BindingIdentity {
        owner_rid: session.owner.node_rid.clone(),
        lifecycle: session.owner.node_generation,
        generation: binding(number),
    }
}

fn tail(session: &SessionIdentity, number: u64, sequence: u64) -> BoundSessionTail {
    BoundSessionTail {
        source_session_rid: session.session_rid.clone(),
        source_binding_generation: binding(number),
        source_session_sequence: SessionSequence::new(sequence).unwrap(),
    }
}

fn begins() -> ActorEvent {
    ActorEvent::MoveBegins {
        relocation: relocation(9),
        coordinator: Box::new(coordinator()),
        deadline: ms(60_000),
    }
}

/// SB-21, SB-71, SB-75
#[test]
fn t_bnd_20_three_values_admit_a_bind_and_the_lease_does_not() {
    type Case = (fn(&mut ActorRouteFence), Result<(), BindRefusal>);
    let one = identity("gate", "one");
    let cases: [Case; 4] = [
        (
            |f| f.expected_owner_lease_generation = OwnerLeaseGeneration::new(77).unwrap(),
            Ok(()),
        ),
        (
            |f| f.actor = actor("ann", 2),
            Err(BindRefusal::OtherGeneration),
        ),
        (
            |f| f.target_node_generation = NodeGeneration::new(2).unwrap(),
            Err(BindRefusal::StaleLocation),
        ),
        (
            |f| f.expected_authority_owner_generation = support::tenure_number(10),
            Err(BindRefusal::StaleLocation),
        ),
    ];
    for (change, result) in cases {
        let mut machine = at_owner("ann");
        let mut actor = fence();
        change(&mut actor);
        let event = ActorEvent::Bind {
            from: one.owner.clone(),
            request: Box::new(BoundSessionBind {
                correlation: correlation(1),
                actor,
                session_rid: one.session_rid.clone(),
                binding: BindingTransition::Active {
                    binding_generation: binding(6),
                },
            }),
        };
        assert_eq!(on(&mut machine, event), [answer(1, result)]);
        assert_eq!(machine.identity().is_some(), result.is_ok(), "SB-22");
    }
}

/// SB-74, SB-37, SB-39
#[test]
fn t_bnd_05_push_and_close_need_a_binding_and_then_succeed() {
    let mut machine = at_owner("ann");
    let refused = machine.push(payload("x")).unwrap_err();
    assert_eq!(refused.kind(), FailureKind::InvalidOperation);
    assert_eq!(
        machine.close().unwrap_err().kind(),
        FailureKind::InvalidOperation
    );
    on(&mut machine, active(&identity("gate", "one"), 6));
    let push = machine.push(payload("x")).unwrap();
    assert_eq!(push.to, peer("gate"));
    assert_eq!(push.record.expected_binding_generation, binding(6));
    assert_eq!(push.record.actor, fence());
    let close = machine.close().unwrap();
    assert_eq!(
        close.record.payload.packet_name.as_str(),
        "$zlink.session-close"
    );
}

/// EX-371, SB-50, SB-51
#[test]
fn t_bnd_11_the_new_session_is_registered_and_answered_before_the_old_one_is_told() {
    let mut machine = at_owner("ann");
    let (one, two) = (identity("gate", "one"), identity("gate-2", "two"));
    on(&mut machine, active(&one, 6));
    let effects = on(&mut machine, active(&two, 1));
    match &effects[..] {
        [first, ActorEffect::SendReplaced { to, replaced }] => {
            assert_eq!(*first, answer(1, Ok(())));
            assert_eq!(*to, peer("gate"));
            let retired = &replaced.retired_session;
            assert_eq!(retired.session_rid, one.session_rid);
            assert_eq!(retired.retired_binding_generation, binding(6));
            assert_eq!(replaced.actor_authority, fence());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(machine.push(payload("x")).unwrap().to, peer("gate-2"));
}

/// SB-33, SB-75
#[test]
fn t_bnd_12_a_relay_of_the_retired_session_is_refused_and_changes_nothing() {
    let mut machine = at_owner("ann");
    let (one, two) = (identity("gate", "one"), identity("gate-2", "two"));
    on(&mut machine, active(&one, 6));
    assert!(
        machine
            .judge_relay(&peer("gate"), &tail(&one, 6, 1))
            .is_ok()
    );
    on(&mut machine, active(&two, 1));
    let refused = machine
        .judge_relay(&peer("gate"), &tail(&one, 6, 2))
        .unwrap_err();
    assert_eq!(refused.kind(), FailureKind::Unavailable);
    let restarted = Peer {
        node_generation: NodeGeneration::new(2).unwrap(),
        ..peer("gate-2")
    };
    assert!(machine.judge_relay(&restarted, &tail(&two, 1, 1)).is_err());
    assert!(
        machine
            .judge_relay(&peer("gate-2"), &tail(&one, 1, 1))
            .is_err()
    );
    assert_eq!(machine.session(), Some(&two));
    let current = machine
        .judge_relay(&peer("gate-2"), &tail(&two, 1, 5))
        .unwrap();
    assert_eq!(current.sequence().get(), 5, "a gap is no error");
}

/// SB-34, SB-33: what a former owner has sent on is judged by session and number, whoever the hop is
#[test]
fn a_relay_that_was_followed_is_judged_as_any_other() {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    assert!(machine.judge_followed_relay(&tail(&one, 6, 1)).is_err());
    on(&mut machine, active(&one, 6));
    let current = machine.judge_followed_relay(&tail(&one, 6, 4)).unwrap();
    assert_eq!(current.sequence().get(), 4);
    assert!(machine.judge_followed_relay(&tail(&one, 5, 5)).is_err());
    on(&mut machine, active(&identity("gate-2", "two"), 1));
    assert!(machine.judge_followed_relay(&tail(&one, 6, 5)).is_err());
}

/// SB-65: what came with the Actor ends when its session has left on the way, and nothing that was bound since
#[test]
fn a_session_that_left_on_the_way_ends_what_was_carried_and_nothing_else() {
    let one = identity("gate", "one");
    let mut machine = at_owner("ann");
    on(&mut machine, active(&one, 6));
    machine.end_carried(&id(&one, 5));
    assert_eq!(machine.identity(), Some(id(&one, 6)));
    machine.end_carried(&id(&one, 6));
    assert_eq!(machine.session(), None);
    // A bind that it overtook is late.
    let late = on(&mut machine, active(&one, 6));
    assert_eq!(late, [answer(6, Err(BindRefusal::Superseded))]);
}

/// SB-26, SB-51
#[test]
fn t_bnd_14_the_session_that_holds_the_actor_is_never_told_of_itself() {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    on(&mut machine, active(&one, 6));
    assert_eq!(on(&mut machine, active(&one, 6)), [answer(6, Ok(()))]);
    assert_eq!(on(&mut machine, active(&one, 7)), [answer(7, Ok(()))]);
    assert_eq!(machine.identity(), Some(id(&one, 7)));
}

/// SB-10, SB-59
#[test]
fn numbers_are_compared_in_one_run_of_one_session_owner_only() {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    on(&mut machine, active(&one, 6));
    let late = on(&mut machine, active(&identity("gate", "other"), 5));
    assert_eq!(late, [answer(5, Err(BindRefusal::Superseded))]);
    let mut restarted = identity("gate", "other");
    restarted.owner.node_generation = NodeGeneration::new(2).unwrap();
    assert_eq!(
        on(&mut machine, active(&restarted, 1))[0],
        answer(1, Ok(()))
    );
}

/// SB-61, SB-62
#[test]
fn t_bnd_17_one_callback_for_one_identity_however_often_it_is_asked_for() {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    on(&mut machine, active(&one, 6));
    let first = on(&mut machine, tombstone(&one, 6));
    assert_eq!(first, [ActorEffect::RunDisconnected(id(&one, 6))]);
    assert_eq!(on(&mut machine, tombstone(&one, 6)), []);
    assert!(
        machine
            .judge_relay(&peer("gate"), &tail(&one, 6, 1))
            .is_ok(),
        "until then in force"
    );
    let ended = on(&mut machine, ActorEvent::DisconnectedEnded(id(&one, 6)));
    assert_eq!(ended, [answer(106, Ok(())), answer(106, Ok(()))]);
    assert_eq!(on(&mut machine, tombstone(&one, 6)), [answer(106, Ok(()))]);
    assert!(machine.push(payload("x")).is_err());
}

/// SB-57, SB-61
#[test]
fn a_tombstone_of_a_replaced_identity_touches_nothing() {
    let mut machine = at_owner("ann");
    let (one, two) = (identity("gate", "one"), identity("gate-2", "two"));
    on(&mut machine, active(&one, 6));
    on(&mut machine, tombstone(&one, 6));
    let effects = on(&mut machine, active(&two, 1));
    assert_eq!(effects[..2], [answer(1, Ok(())), answer(106, Ok(()))]);
    let ended = on(&mut machine, ActorEvent::DisconnectedEnded(id(&one, 6)));
    assert_eq!(
        ended,
        [ActorEffect::Ignored(ActorIgnored::CallbackOfNobody)]
    );
    assert_eq!(machine.session(), Some(&two));
}

/// SB-27
#[test]
fn a_bind_that_its_own_tombstone_overtook_is_late() {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    assert_eq!(on(&mut machine, tombstone(&one, 6)), [answer(106, Ok(()))]);
    let late = on(&mut machine, active(&one, 6));
    assert_eq!(late, [answer(6, Err(BindRefusal::Superseded))]);
    assert_eq!(on(&mut machine, active(&one, 7)), [answer(7, Ok(()))]);
}

fn moving() -> (ActorBinding, SessionIdentity, SessionRelocationSealed) {
    let mut machine = at_owner("ann");
    let one = identity("gate", "one");
    on(&mut machine, active(&one, 6));
    let seal = match &on(&mut machine, begins())[..] {
        [ActorEffect::SendSeal { to, seal }] => {
            assert_eq!(*to, peer("gate"));
            assert_eq!(seal.sender_role, RelocationRole::Source, "WR-51");
            (**seal).clone()
        }
        other => panic!("{other:?}"),
    };
    let sealed = SessionRelocationSealed {
        relocation: seal.relocation,
        coordinator: seal.coordinator,
        actor: seal.actor,
        session_owner_node_rid: seal.session_owner_node_rid,
        session_owner_node_generation: seal.session_owner_node_generation,
        session_owner_id: seal.session_owner_id,
        session_owner_lease_generation: seal.session_owner_lease_generation,
        session_rid: seal.session_rid,
        binding_generation: seal.binding_generation,
    };
    (machine, one, sealed)
}

/// RL-358, SB-72, T-SAF-08
#[test]
fn from_the_first_42_no_new_binding_is_made() {
    let (mut machine, one, sealed) = moving();
    let two = identity("gate-2", "two");
    let refused = on(&mut machine, active(&two, 1));
    assert_eq!(refused, [answer(1, Err(BindRefusal::Sealed))]);
    assert_eq!(
        on(&mut machine, active(&one, 6)),
        [answer(6, Ok(()))],
        "the current one is"
    );
    let mut other = sealed.clone();
    other.relocation = relocation(10);
    let ignored = [ActorEffect::Ignored(ActorIgnored::SealedOfNobody)];
    assert_eq!(
        on(&mut machine, ActorEvent::Sealed(Box::new(other))),
        ignored
    );
    let event = ActorEvent::Sealed(Box::new(sealed));
    assert_eq!(on(&mut machine, event.clone()), [ActorEffect::SealReady]);
    assert_eq!(on(&mut machine, event), ignored);
    assert_eq!(machine.next_deadline(), None);
}

/// RL-358, SB-82, T-SAF-09
#[test]
fn a_42_without_answer_fails_the_move_and_is_aborted_all_the_same() {
    let (mut machine, _, _) = moving();
    assert_eq!(
        machine.next_deadline(),
        Some(ms(3_000)),
        "the earlier of the two"
    );
    let mut out = Vec::new();
    machine.on_deadline(ms(2_999), &mut out);
    assert_eq!(out, []);
    machine.on_deadline(ms(3_000), &mut out);
    assert_eq!(out, [ActorEffect::SealFailed]);
    match &on(&mut machine, ActorEvent::MoveAborted)[..] {
        [ActorEffect::SendRoute { to, update }] => {
            assert_eq!(*to, peer("gate"));
            assert_eq!(update.sender_role, RelocationRole::Source);
            assert!(matches!(update.route, SessionRouteUpdate::Abort { .. }));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        on(&mut machine, active(&identity("gate-2", "two"), 1))[0],
        answer(1, Ok(()))
    );
}

/// RL-358
#[test]
fn a_binding_that_ends_meanwhile_is_not_waited_for() {
    let (mut machine, one, _) = moving();
    on(&mut machine, tombstone(&one, 6));
    let ended = on(&mut machine, ActorEvent::DisconnectedEnded(id(&one, 6)));
    assert_eq!(ended, [answer(106, Ok(())), ActorEffect::SealReady]);
}

/// SB-65
#[test]
fn a_tombstone_at_a_captured_actor_ends_the_binding_and_joins_the_hold() {
    let (mut machine, one, sealed) = moving();
    on(&mut machine, ActorEvent::Sealed(Box::new(sealed)));
    assert_eq!(on(&mut machine, ActorEvent::MoveCaptured), []);
    let effects = on(&mut machine, tombstone(&one, 6));
    assert_eq!(
        effects,
        [
            ActorEffect::HoldDisconnected(id(&one, 6)),
            answer(106, Ok(()))
        ]
    );
    assert_eq!(
        on(&mut machine, tombstone(&one, 6)),
        [answer(106, Ok(()))],
        "once"
    );
}

/// RL-357, SB-12, SB-81, T-SAF-07
#[test]
fn the_binding_moves_with_its_actor_and_the_commit_names_it() {
    let (mut machine, one, _) = moving();
    drop(
        machine
            .judge_relay(&peer("gate"), &tail(&one, 6, 41))
            .unwrap(),
    );
    let record = machine.carry(relocation(9)).unwrap();
    let bytes = spotlane_wire::encode(&record).unwrap();
    let record = spotlane_wire::decode(&bytes).unwrap();
    let carried = CarriedBinding::of_record(&record, relocation(9))
        .unwrap()
        .unwrap();
    let other = CarriedBinding::of_record(&record, relocation(10)).unwrap();
    assert_eq!(other, Err(CarryError::Malformed), "of another move");
    let target = tenure("ann", "b", 12);
    let (to, update) = carried.commit(relocation(9), coordinator(), &target);
    assert_eq!(to, peer("gate"));
    assert_eq!(update.sender_role, RelocationRole::Target);
    assert_eq!(update.binding_generation, binding(6));
    let at_target = ActorBinding::at_target(target, Some(carried));
    assert_eq!(at_target.session(), Some(&one));
    assert_eq!(at_target.identity(), machine.identity());
    let push = at_target.push(payload("x")).unwrap();
    assert_eq!(
        push.record.actor.expected_authority_owner_generation,
        support::tenure_number(12)
    );
}

/// SB-91, RL-47, SB-62, SB-65: nobody sends the notices of a session owner that has ended
#[test]
fn the_end_of_a_session_owner_ends_its_binding_as_a_notice_does() {
    let gone = |node: &str| ActorEvent::OwnerGone(peer(node));
    let ignored = || ActorEffect::Ignored(ActorIgnored::OwnerOfNobody);
    let session = identity("gate", "session");
    let mut machine = at_owner("ann");
    assert_eq!(on(&mut machine, gone("gate")), [ignored()]);
    on(&mut machine, active(&session, 6));
    assert_eq!(on(&mut machine, gone("other")), [ignored()]);
    let of_another_run = Peer {
        node_generation: NodeGeneration::new(2).unwrap(),
        ..peer("gate")
    };
    assert_eq!(
        on(&mut machine, ActorEvent::OwnerGone(of_another_run)),
        [ignored()]
    );
    let callback = ActorEffect::RunDisconnected(id(&session, 6));
    assert_eq!(on(&mut machine, gone("gate")), [callback]);
    assert_eq!(on(&mut machine, gone("gate")), [], "once");
    on(&mut machine, ActorEvent::DisconnectedEnded(id(&session, 6)));
    assert!(machine.push(payload("x")).is_err());
    assert_eq!(on(&mut machine, gone("gate")), [ignored()]);

    let mut machine = at_owner("ann");
    on(&mut machine, active(&session, 7));
    machine.refuse_binds();
    on(&mut machine, ActorEvent::MoveCaptured);
    let held = ActorEffect::HoldDisconnected(id(&session, 7));
    assert_eq!(on(&mut machine, gone("gate")), [held]);
    assert_eq!(machine.session(), None);
}
