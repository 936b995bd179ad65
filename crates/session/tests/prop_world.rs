//! Random histories of sessions, one Actor and its moves, judged by what must hold at every moment.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the lint's setting"
)]
#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    clippy::too_many_lines,
    reason = "every test file uses a part of the shared helpers"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use spotlane_session::actor::{ActorBinding, ActorEffect, ActorEvent, CarriedBinding};
use spotlane_session::{
    BindAnswer, BindingToken, CallbackEnd, Machine, NoticeEnd, NoticeKind, SessionEffect,
    SessionEvent,
};
use spotlane_types::count::Correlation;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::{
    BoundSessionBind, BoundSessionSend, SessionRelocationRoute, SessionRelocationSeal,
    SessionRelocationSealed,
};
use spotlane_wire::reference::BindingTransition;
use support::{Session, actor, binding, coordinator, ms, payload, peer, relocation, route, tenure};

const SESSIONS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Bind(usize),
    Relay(usize),
    Notify(usize),
    Lose(usize),
    Push,
    Move,
    /// What the move decides: commit or abort.
    Decide(bool),
    /// Delivers the oldest record of one link.
    Deliver(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..SESSIONS).prop_map(Step::Bind),
        4 => (0..SESSIONS).prop_map(Step::Relay),
        1 => (0..SESSIONS).prop_map(Step::Notify),
        1 => (0..SESSIONS).prop_map(Step::Lose),
        2 => Just(Step::Push),
        1 => Just(Step::Move),
        2 => any::<bool>().prop_map(Step::Decide),
        12 => (0..4 * SESSIONS).prop_map(Step::Deliver),
        1 => (1..2_000_u64).prop_map(Step::Wait),
    ]
}

/// A record on a link, either way.
#[derive(Debug)]
enum Record {
    Bind {
        generation: u64,
        tombstone: Option<NoticeKind>,
    },
    Relay {
        tail: BoundSessionTail,
        call: u64,
    },
    Sealed(Box<SessionRelocationSealed>),
    BindAnswer {
        generation: u64,
        answer: BindAnswer,
    },
    NoticeAnswer {
        generation: u64,
    },
    Push(BoundSessionSend),
    Replaced(Box<spotlane_wire::command::session::BoundSessionReplaced>),
    Seal(Box<SessionRelocationSeal>),
    Route(Box<SessionRelocationRoute>),
}

/// Three gates with a session each, two nodes with the Actor on one of them, ordered links between.
struct World {
    sessions: Vec<Session>,
    tokens: Vec<Option<BindingToken>>,
    actor: ActorBinding,
    node: &'static str,
    /// (session, node) to records towards the Actor, and back.
    to_actor: BTreeMap<(usize, &'static str), VecDeque<Record>>,
    to_session: BTreeMap<(usize, &'static str), VecDeque<Record>>,
    /// Who waits for the answer of correlation n: session and whether it is a notice.
    asked: BTreeMap<u64, (usize, u64, Option<NoticeKind>)>,
    next: u64,
    moves: u64,
    moving: bool,
    callbacks: Vec<u64>,
    /// Call to how often it reached the Actor, or failed.
    relays: BTreeMap<u64, (u32, u32)>,
    held: BTreeSet<u64>,
}

impl World {
    fn new() -> Self {
        let gates = ["gate-0", "gate-1", "gate-2"];
        Self {
            sessions: gates.map(|gate| Session::named(gate, gate)).into(),
            tokens: vec![None; SESSIONS],
            actor: ActorBinding::new(tenure("ann", "a", 11)),
            node: "a",
            to_actor: BTreeMap::new(),
            to_session: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: 1,
            moves: 0,
            moving: false,
            callbacks: Vec::new(),
            relays: BTreeMap::new(),
            held: BTreeSet::new(),
        }
    }

    fn session_event(&mut self, at: usize, event: SessionEvent) {
        let effects = self.sessions[at].on(event);
        self.session_effects(at, effects);
    }

    fn session_effects(&mut self, at: usize, effects: Vec<SessionEffect>) {
        for effect in effects {
            match effect {
                SessionEffect::RequestBind {
                    route, generation, ..
                } => {
                    let record = Record::Bind {
                        generation: generation.get(),
                        tombstone: None,
                    };
                    self.send(at, node_of(&route), record);
                }
                SessionEffect::SendTombstone {
                    route,
                    generation,
                    kind,
                    ..
                } => {
                    let tombstone = Some(kind);
                    let record = Record::Bind {
                        generation: generation.get(),
                        tombstone,
                    };
                    self.send(at, node_of(&route), record);
                }
                SessionEffect::BindEnded {
                    result: Ok(bound), ..
                } => {
                    self.tokens[at] = Some(bound.token);
                }
                SessionEffect::SubmitRelay {
                    call, route, tail, ..
                } => {
                    let call = call.get() + 1_000 * at as u64;
                    self.held.remove(&call);
                    self.send(at, node_of(&route), Record::Relay { tail, call });
                }
                SessionEffect::RelayHeld { call } => {
                    self.held.insert(call.get() + 1_000 * at as u64);
                }
                SessionEffect::RelayFailed { call, .. } => {
                    let call = call.get() + 1_000 * at as u64;
                    self.held.remove(&call);
                    self.relays.entry(call).or_default().1 += 1;
                }
                SessionEffect::SendSealed { sealed, .. } => {
                    let node = self.node;
                    self.send(at, node, Record::Sealed(sealed));
                }
                SessionEffect::RunReplacedCallback { .. } => {
                    let end = SessionEvent::ReplacedCallbackEnded(CallbackEnd::Completed);
                    self.session_event(at, end);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, at: usize, node: &'static str, record: Record) {
        self.to_actor
            .entry((at, node))
            .or_default()
            .push_back(record);
    }

    fn actor_event(&mut self, event: ActorEvent) {
        let mut out = Vec::new();
        self.actor.on_event(ms(0), event, &mut out);
        self.actor_effects(out);
    }

    fn actor_effects(&mut self, effects: Vec<ActorEffect>) {
        for effect in effects {
            match effect {
                ActorEffect::Answer {
                    correlation,
                    result,
                } => {
                    let (at, generation, notice) = self.asked[&correlation.get()];
                    let record = match notice {
                        Some(NoticeKind::Unawaited) => continue,
                        Some(NoticeKind::Awaited) => Record::NoticeAnswer { generation },
                        None => Record::BindAnswer {
                            generation,
                            answer: match result {
                                Ok(()) => BindAnswer::Registered { followed: None },
                                Err(refusal) => BindAnswer::Refused(refusal),
                            },
                        },
                    };
                    self.reply(at, record);
                }
                ActorEffect::SendReplaced { to, replaced } => {
                    self.reply(gate_of(&to), Record::Replaced(replaced));
                }
                ActorEffect::RunDisconnected(identity) => {
                    self.callbacks.push(identity.generation.get());
                    self.actor_event(ActorEvent::DisconnectedEnded(identity));
                }
                ActorEffect::HoldDisconnected(identity) => {
                    self.callbacks.push(identity.generation.get());
                }
                ActorEffect::SendSeal { to, seal } => self.reply(gate_of(&to), Record::Seal(seal)),
                ActorEffect::SendRoute { to, update } => {
                    self.reply(gate_of(&to), Record::Route(update));
                }
                ActorEffect::SealReady if self.moving => {
                    self.actor_event(ActorEvent::MoveCaptured);
                }
                _ => {}
            }
        }
    }

    fn reply(&mut self, at: usize, record: Record) {
        let node = self.node;
        self.to_session
            .entry((at, node))
            .or_default()
            .push_back(record);
    }

    fn deliver(&mut self, link: usize) {
        let (at, node) = (link % SESSIONS, ["a", "b"][link / SESSIONS % 2]);
        if link >= 2 * SESSIONS {
            let queue = self.to_actor.entry((at, node)).or_default();
            if let Some(record) = queue.pop_front() {
                self.at_actor(at, node, record);
            }
        } else {
            let queue = self.to_session.entry((at, node)).or_default();
            if let Some(record) = queue.pop_front() {
                self.at_session(at, node, record);
            }
        }
    }

    fn at_actor(&mut self, at: usize, node: &'static str, record: Record) {
        match record {
            Record::Bind {
                generation,
                tombstone,
            } => {
                let number = self.next;
                self.next += 1;
                self.asked.insert(number, (at, generation, tombstone));
                let binding = match tombstone {
                    None => BindingTransition::Active {
                        binding_generation: binding(generation),
                    },
                    Some(_) => BindingTransition::Tombstone {
                        retired_binding_generation: binding(generation),
                    },
                };
                let session = self.sessions[at].machine.identity().clone();
                // Message Follow leads a record for the former node on, in its present tenure.
                let actor = self.actor.tenure().fence();
                let request = Box::new(BoundSessionBind {
                    correlation: Correlation::new(number).unwrap(),
                    actor,
                    session_rid: session.session_rid,
                    binding,
                });
                self.actor_event(ActorEvent::Bind {
                    from: session.owner,
                    request,
                });
            }
            Record::Relay { tail, call } => {
                let gate = peer(&format!("gate-{at}"));
                let counts = self.relays.entry(call).or_default();
                match self.actor.judge_relay(&gate, &tail) {
                    Ok(_) => counts.0 += 1,
                    Err(_) => counts.1 += 1,
                }
            }
            Record::Sealed(sealed) if node == self.node => {
                self.actor_event(ActorEvent::Sealed(sealed));
            }
            _ => {}
        }
    }

    fn at_session(&mut self, at: usize, node: &'static str, record: Record) {
        let event = match record {
            Record::BindAnswer { generation, answer } => SessionEvent::BindAnswered {
                generation: binding(generation),
                answer,
            },
            Record::NoticeAnswer { generation } => SessionEvent::NoticeEnded {
                generation: binding(generation),
                end: NoticeEnd::Answered,
            },
            Record::Push(push) => SessionEvent::Push(push),
            Record::Replaced(replaced) => SessionEvent::Replaced {
                peer: peer(node),
                replaced: *replaced,
            },
            Record::Seal(seal) => SessionEvent::Seal(*seal),
            Record::Route(update) => support::routed(*update),
            other => panic!("{other:?}"),
        };
        let is_push = matches!(event, SessionEvent::Push(_));
        let effects = self.sessions[at].on(event);
        if is_push {
            for effect in &effects {
                if let SessionEffect::DeliverPush { .. } = effect {
                    assert!(
                        !self.sessions[at].machine.is_over(),
                        "delivered after the end"
                    );
                }
            }
        }
        self.session_effects(at, effects);
    }

    fn decide(&mut self, commit: bool) {
        if !self.moving {
            return;
        }
        self.moving = false;
        if !commit {
            return self.actor_event(ActorEvent::MoveAborted);
        }
        let mv = relocation(self.moves);
        let record = self.actor.carry(mv);
        let carried = record.map(|r| CarriedBinding::of_record(&r, mv).unwrap().unwrap());
        let number = self.actor.tenure().authority_owner_generation.get() + 1;
        self.node = if self.node == "a" { "b" } else { "a" };
        let target = tenure("ann", self.node, number);
        let update = carried
            .as_ref()
            .map(|c| c.commit(mv, coordinator(), &target));
        self.actor = ActorBinding::at_target(target, carried);
        if let Some((to, update)) = update {
            self.reply(gate_of(&to), Record::Route(Box::new(update)));
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Bind(at) => {
                let number = self.next;
                self.next += 1;
                let tenure = self.actor.tenure().authority_owner_generation.get();
                let to = route(self.node, tenure);
                let effects = self.sessions[at].ask(actor("ann", 1), to, number);
                self.session_effects(at, effects);
            }
            Step::Relay(at) => {
                if let Some(token) = self.tokens[at].clone() {
                    let effects = self.sessions[at].relay(&token, "x");
                    self.session_effects(at, effects);
                }
            }
            Step::Notify(at) => {
                if let Some(token) = self.tokens[at].clone() {
                    let effects = self.sessions[at].notify(&token);
                    self.session_effects(at, effects);
                }
            }
            Step::Lose(at) => self.session_event(at, SessionEvent::ConnectionLost),
            Step::Push => {
                if let Ok(push) = self.actor.push(payload("p")) {
                    self.reply(gate_of(&push.to), Record::Push(push.record));
                }
            }
            Step::Move if !self.moving => {
                self.moving = true;
                self.moves += 1;
                self.actor_event(ActorEvent::MoveBegins {
                    relocation: relocation(self.moves),
                    coordinator: Box::new(coordinator()),
                    deadline: ms(u64::from(u32::MAX)),
                });
            }
            Step::Move => {}
            Step::Decide(commit) => self.decide(commit),
            Step::Deliver(link) => self.deliver(link),
            Step::Wait(millis) => {
                for at in 0..SESSIONS {
                    let effects = self.sessions[at].wait(millis);
                    self.session_effects(at, effects);
                }
            }
        }
    }

    fn check(&self) {
        let unique: BTreeSet<_> = self.callbacks.iter().collect();
        assert_eq!(
            unique.len(),
            self.callbacks.len(),
            "one callback for one identity"
        );
        for (call, (reached, failed)) in &self.relays {
            assert!(
                reached + failed <= 1,
                "relay {call}: {reached} times, {failed} failures"
            );
        }
    }

    /// Everything arrives, every clock runs out.
    fn settle(&mut self) {
        self.decide(false);
        for _ in 0..40 {
            while self.pending() {
                for link in 0..4 * SESSIONS {
                    self.deliver(link);
                }
            }
            self.run(Step::Wait(40_000));
        }
        self.check();
        assert_eq!(self.held.len(), 0, "what was held was delivered or failed");
        let open = |s: &&Session| s.machine.bound().count() > 0;
        let holders: Vec<_> = self.sessions.iter().filter(open).collect();
        assert!(holders.len() <= 1, "at most one session holds the actor");
        for holder in holders {
            assert_eq!(self.actor.session(), Some(holder.machine.identity()));
        }
    }

    fn pending(&self) -> bool {
        self.to_actor
            .values()
            .chain(self.to_session.values())
            .any(|queue| !queue.is_empty())
    }
}

fn node_of(route: &spotlane_session::ActorRoute) -> &'static str {
    if route.node_rid.as_bytes() == b"a" {
        "a"
    } else {
        "b"
    }
}

fn gate_of(peer: &spotlane_session::Peer) -> usize {
    usize::from(peer.node_rid.as_bytes()[5] - b'0')
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_048) })]

    /// SB-2, SB-33, SB-38, SB-50, SB-62, SB-87, EX-179
    #[test]
    fn whatever_happens_the_promises_of_a_binding_hold(
        steps in proptest::collection::vec(step(), 1..160)
    ) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
            world.check();
        }
        world.settle();
    }
}
