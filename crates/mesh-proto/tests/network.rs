//! Two nodes over a simulated network that can be cut behind every byte.
//!
//! The check is that of the contract: a link ends with a named reason, and each request ends exactly
//! once. Mutants of the driver show that the check can fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;
use common::{E1, E2, settings};
use spotlane_mesh_proto::Machine;
use spotlane_mesh_proto::link::{
    AcceptedLane, Awaits, EndReason, Link, LinkEffect, LinkEvent, Outcome, Redial, Submit,
};
use spotlane_mesh_proto::peers::{ConnectionId, Join, Joins};
use spotlane_mesh_proto::pending::SubmitId;
use spotlane_mesh_proto::zmp::{
    Connection, ConnectionEffect, ConnectionEvent, Generation, Lane, Opening, PairId, PairKey,
};
use spotlane_types::count::Correlation;
use spotlane_types::id::{ContentType, PacketName};
use spotlane_types::kind::{FailureCode, MeshOperationKind, TerminalResult};
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::message::{NodeRequest, NodeSend};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::payload::ApplicationPayload;

fn payload() -> ApplicationPayload {
    ApplicationPayload {
        packet_name: PacketName::new("p").unwrap(),
        content_type: ContentType::new("c").unwrap(),
        payload: PayloadBytes::new(Bytes::from_static(b"hi")).unwrap(),
    }
}

fn node_send() -> Record {
    let (metadata, payload) = (None, payload());
    NodeSend { metadata, payload }.into()
}

fn node_request(correlation: Correlation) -> Record {
    NodeRequest {
        correlation,
        metadata: None,
        payload: payload(),
    }
    .into()
}

fn reply(correlation: Correlation) -> Reply {
    Reply {
        correlation,
        outcome: ReplyOutcome {
            terminal_result: TerminalResult::Ok,
            failure_code: FailureCode::None,
            tail: ReplyTail::None,
        },
        payload: Some(payload()),
    }
}

/// A known defect of the driver that the check must report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    ForgetsCompletions,
    RepeatsCompletions,
    ForgetsTheEnd,
}

/// What one node knows at the end.
#[derive(Debug, Default)]
struct Log {
    submitted: Vec<u64>,
    ended: BTreeMap<u64, Vec<Option<Outcome>>>,
    delivered: usize,
    reasons: Vec<EndReason>,
    had_link: bool,
}

struct Node {
    name: &'static str,
    opening: Opening,
    link: Option<Link>,
    /// Accepted connections whose handshake runs, by place.
    accepting: [Option<Connection>; 2],
    joins: Joins,
    log: Log,
}

/// One direction of one connection.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    closed: bool,
    told: bool,
}

/// Connection 0 is the Application lane and 1 the Completion lane; side 0 dials, side 1 accepts.
struct World {
    now: Monotonic,
    nodes: [Node; 2],
    /// By receiving side and connection.
    pipes: [[Pipe; 2]; 2],
    delivered: usize,
    mutant: Mutant,
}

const REQUESTS: u64 = 3;

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Application => 0,
        Lane::Completion => 1,
    }
}

fn key(pair: u64) -> PairKey {
    PairKey {
        pair: PairId::new(NonZeroU64::new(pair).unwrap()),
        generation: Generation::FIRST,
    }
}

fn node(name: &'static str, opening: Opening) -> Node {
    Node {
        name,
        opening,
        link: None,
        accepting: [None, None],
        joins: Joins::default(),
        log: Log::default(),
    }
}

impl World {
    fn new([dialler, acceptor]: [Opening; 2], mutant: Mutant) -> Self {
        let mut world = Self {
            now: Monotonic::ORIGIN,
            nodes: [node("b", dialler), node("a", acceptor)],
            pipes: Default::default(),
            delivered: 0,
            mutant,
        };
        let mut out = Vec::new();
        let settings = settings("b", dialler);
        world.nodes[0].link = Some(Link::dial(settings, key(9), &mut out));
        world.nodes[0].log.had_link = true;
        world.effects(0, out);
        world
    }

    fn event(&mut self, side: usize, event: LinkEvent) {
        let mut out = Vec::new();
        let link = self.nodes[side].link.as_mut().unwrap();
        link.on_event(self.now, event, &mut out);
        self.effects(side, out);
    }

    fn effects(&mut self, side: usize, effects: Vec<LinkEffect>) {
        for effect in effects {
            match effect {
                LinkEffect::Open(lane) => self.open(lane),
                LinkEffect::Write(lane, parts) => {
                    let pipe = &mut self.pipes[1 - side][index(lane)];
                    if !pipe.closed {
                        pipe.bytes.extend(parts.to_bytes());
                    }
                }
                LinkEffect::Close(lane) => self.pipes[1 - side][index(lane)].closed = true,
                LinkEffect::Admitted(_) => self.submit_all(side),
                LinkEffect::Deliver { record, answer, .. } => {
                    self.nodes[side].log.delivered += 1;
                    if let (Some(sequence), Record::NodeRequest(request)) = (answer, *record) {
                        let reply = Box::new(reply(request.correlation));
                        self.event(side, LinkEvent::Answer { sequence, reply });
                    }
                }
                LinkEffect::Completed { id, outcome } => {
                    let times = match self.mutant {
                        Mutant::ForgetsCompletions => 0,
                        Mutant::RepeatsCompletions => 2,
                        Mutant::None | Mutant::ForgetsTheEnd => 1,
                    };
                    let ended = self.nodes[side].log.ended.entry(id.get()).or_default();
                    ended.extend(vec![Some(outcome); times]);
                }
                LinkEffect::NotSubmitted { id, .. } => {
                    self.nodes[side]
                        .log
                        .ended
                        .entry(id.get())
                        .or_default()
                        .push(None);
                }
                LinkEffect::Ended(reason) => {
                    if self.mutant != Mutant::ForgetsTheEnd {
                        self.nodes[side].log.reasons.push(reason);
                    }
                }
                LinkEffect::PairReady(_)
                | LinkEffect::PeerFlow(_)
                | LinkEffect::Updated(_)
                | LinkEffect::RunEnded
                | LinkEffect::Responsive
                | LinkEffect::RefusedByPeer(_)
                | LinkEffect::NotAnswered { .. }
                | LinkEffect::AnswerOnKeeper
                | LinkEffect::Ignored(_) => {}
            }
        }
    }

    fn open(&mut self, lane: Lane) {
        self.event(0, LinkEvent::Opened(lane, self.now));
        let mut out = Vec::new();
        let settings = settings("a", self.nodes[1].opening).connection();
        let connection = Connection::accept(settings, self.now, &mut out);
        self.nodes[1].accepting[index(lane)] = Some(connection);
        self.accepted(index(lane), out);
    }

    /// Effects of an accepted connection that has no link yet.
    fn accepted(&mut self, place: usize, effects: Vec<ConnectionEffect>) {
        let mut effects = effects.into_iter();
        while let Some(effect) = effects.next() {
            match effect {
                ConnectionEffect::Write(bytes) => self.pipes[0][place].bytes.extend(bytes),
                ConnectionEffect::Ready(ready) => {
                    let id = ConnectionId::new(u64::try_from(place).unwrap());
                    let join = self.nodes[1].joins.on_ready(id, &ready);
                    let early = effects.by_ref().collect();
                    let lane = AcceptedLane {
                        connection: self.nodes[1].accepting[place].take().unwrap(),
                        ready,
                        early,
                    };
                    match join {
                        Join::First => {
                            let mut out = Vec::new();
                            let settings = settings("a", self.nodes[1].opening);
                            let link = Link::accept(settings, key(77), lane, self.now, &mut out);
                            self.nodes[1].link = Some(link);
                            self.nodes[1].log.had_link = true;
                            self.effects(1, out);
                        }
                        Join::Sister(_) => self.event(1, LinkEvent::Joined(Box::new(lane))),
                        Join::Refused { why, .. } => panic!("{why}"),
                    }
                }
                ConnectionEffect::Message(_)
                | ConnectionEffect::Flow(_)
                | ConnectionEffect::Dropped(_) => {}
                ConnectionEffect::End(_) => {
                    self.nodes[1].accepting[place] = None;
                    self.pipes[0][place].closed = true;
                }
            }
        }
    }

    fn submit_all(&mut self, side: usize) {
        for id in 1..=REQUESTS {
            let correlation = Correlation::new(id + 500).unwrap();
            self.nodes[side].log.submitted.push(id);
            let request = Submit {
                id: SubmitId::new(id),
                record: node_request(correlation),
                pin: None,
                awaits: Some(Awaits {
                    correlation,
                    kind: MeshOperationKind::NodeRequest,
                    deadline: self.now.after(Duration::from_mins(1)),
                }),
            };
            self.event(side, LinkEvent::Submit(Box::new(request)));
        }
        let send = Submit {
            id: SubmitId::new(1000),
            record: node_send(),
            pin: None,
            awaits: None,
        };
        self.event(side, LinkEvent::Submit(Box::new(send)));
    }

    fn give(&mut self, side: usize, place: usize, event: ConnectionEvent) {
        if side == 1 && self.nodes[1].accepting[place].is_some() {
            let mut out = Vec::new();
            let connection = self.nodes[1].accepting[place].as_mut().unwrap();
            connection.on_event(self.now, event, &mut out);
            return self.accepted(place, out);
        }
        if self.nodes[side].link.is_some() {
            let lane = Lane::ALL[place];
            self.event(
                side,
                match event {
                    ConnectionEvent::Received(bytes) => LinkEvent::Received(lane, bytes),
                    ConnectionEvent::Closed => LinkEvent::Closed(lane),
                },
            );
        }
    }

    /// Delivers up to `limit` bytes of one pipe, or an end of stream; false when all is quiet.
    fn deliver(&mut self, limit: usize) -> bool {
        for place in 0..2 {
            for side in 0..2 {
                let pipe = &mut self.pipes[side][place];
                let count = pipe.bytes.len().min(limit);
                if count > 0 {
                    let bytes: Vec<u8> = pipe.bytes.drain(..count).collect();
                    self.delivered += count;
                    self.give(side, place, ConnectionEvent::Received(Bytes::from(bytes)));
                    return true;
                }
                if pipe.bytes.is_empty() && pipe.closed && !pipe.told {
                    pipe.told = true;
                    self.give(side, place, ConnectionEvent::Closed);
                    return true;
                }
            }
        }
        false
    }

    /// Runs until `bytes` bytes are delivered or all is quiet.
    fn run_to(&mut self, bytes: usize) {
        while self.delivered < bytes && self.deliver(bytes - self.delivered) {}
    }

    /// Loses a connection with all that is under way on it.
    fn cut(&mut self, place: usize) {
        for side in 0..2 {
            let pipe = &mut self.pipes[side][place];
            pipe.bytes.clear();
            pipe.closed = true;
        }
    }

    /// Lets time pass until nothing is left to wait for.
    fn settle(&mut self) {
        loop {
            self.run_to(usize::MAX);
            let deadlines = self.nodes.iter().filter_map(|node| {
                let accepting = node.accepting.iter().flatten();
                let accepting = accepting.filter_map(Machine::next_deadline);
                let link = node.link.as_ref().and_then(Machine::next_deadline);
                accepting.chain(link).min()
            });
            let Some(due) = deadlines.min() else { return };
            self.now = due;
            for side in 0..2 {
                let mut out = Vec::new();
                if let Some(link) = &mut self.nodes[side].link {
                    link.on_deadline(due, &mut out);
                }
                self.effects(side, out);
            }
            for place in 0..2 {
                let mut out = Vec::new();
                if let Some(connection) = &mut self.nodes[1].accepting[place] {
                    connection.on_deadline(due, &mut out);
                }
                self.accepted(place, out);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        for node in &self.nodes {
            let log = &node.log;
            if log.had_link && log.reasons.len() != 1 {
                return Err(format!("{}: ended {} times", node.name, log.reasons.len()));
            }
            for id in &log.submitted {
                let times = log.ended.get(id).map_or(0, Vec::len);
                if times != 1 {
                    return Err(format!("{}: request {id} ended {times} times", node.name));
                }
            }
        }
        Ok(())
    }
}

/// The script without a fault: both nodes send and answer; then one goes down.
fn undisturbed(openings: [Opening; 2], mutant: Mutant) -> (World, usize) {
    let mut world = World::new(openings, mutant);
    world.run_to(usize::MAX);
    let bytes = world.delivered;
    world.event(0, LinkEvent::Shutdown);
    world.settle();
    (world, bytes)
}

const N: Opening = Opening::Neutral;

/// TR-1, TR-2, TR-25, TR-40, TR-45, TR-70: whichever side speaks which editions, as long as they have one
/// in common.
#[test]
fn without_a_fault_every_request_is_answered_in_both_directions() {
    for openings in [
        [E1, E1],
        [E2, E2],
        [N, E1],
        [E1, N],
        [N, E2],
        [E2, N],
        [N, N],
    ] {
        let (world, bytes) = undisturbed(openings, Mutant::None);
        world.check().unwrap();
        assert!(bytes > 1000, "{openings:?}: {bytes}");
        for node in &world.nodes {
            assert_eq!(node.log.delivered, usize::try_from(REQUESTS).unwrap() + 1);
            let replied = |outcomes: &Vec<_>| matches!(outcomes[..], [Some(Outcome::Reply(_))]);
            assert!(
                node.log.ended.values().all(replied),
                "{openings:?}: {:?}",
                node.log
            );
        }
        assert_eq!(world.nodes[0].log.reasons, [EndReason::Shutdown]);
        assert!(matches!(
            world.nodes[1].log.reasons[..],
            [EndReason::Lane { .. }]
        ));
    }
}

/// TR-3: sides without a common edition end by name, with nothing exchanged.
#[test]
fn a_mixed_link_is_a_violation() {
    for openings in [[E1, E2], [E2, E1]] {
        let mut world = World::new(openings, Mutant::None);
        world.settle();
        world.check().unwrap();
        let reasons = &world.nodes[0].log.reasons;
        let stopped = matches!(reasons[..], [EndReason::Lane { .. }]);
        assert!(stopped, "{openings:?}: {reasons:?}");
        assert_eq!(reasons[0].redial(), Redial::Stop, "TR-60");
        assert!(world.nodes.iter().all(|node| node.log.delivered == 0));
    }
}

/// TR-8, TR-39, TR-58, TR-61, TR-90: the loss of either lane or of both behind every byte.
#[test]
fn a_cut_behind_every_byte_ends_the_link_by_name_and_every_request_once() {
    for openings in [[E1, E1], [E2, E2], [N, E1], [N, E2]] {
        let (_, bytes) = undisturbed(openings, Mutant::None);
        let mut unanswered = 0;
        for at in 0..=bytes {
            for lost in [&[0][..], &[1], &[0, 1]] {
                let mut world = World::new(openings, Mutant::None);
                world.run_to(at);
                for place in lost {
                    world.cut(*place);
                }
                world.settle();
                world
                    .check()
                    .unwrap_or_else(|what| panic!("{openings:?}, cut at {at}, {lost:?}: {what}"));
                let ended = world
                    .nodes
                    .iter()
                    .flat_map(|node| node.log.ended.values().flatten());
                unanswered += ended
                    .filter(|end| **end == Some(Outcome::LinkEnded))
                    .count();
            }
        }
        assert!(unanswered > 100, "the cuts met open requests: {unanswered}");
    }
}

/// TR-86: half-open: nothing arrives any more, and no stream ends.
#[test]
fn a_half_open_connection_ends_by_liveness() {
    for openings in [[E1, E1], [E2, E2]] {
        let mut world = World::new(openings, Mutant::None);
        world.run_to(usize::MAX);
        // Both nodes are up and quiet; from here on nothing arrives any more.
        for _ in 0..100 {
            let links = world.nodes.iter().filter_map(|node| node.link.as_ref());
            let Some(due) = links.filter_map(Machine::next_deadline).min() else {
                break;
            };
            world.now = due;
            for side in 0..2 {
                let mut out = Vec::new();
                world.nodes[side]
                    .link
                    .as_mut()
                    .unwrap()
                    .on_deadline(due, &mut out);
                world.effects(side, out);
            }
            for pipe in world.pipes.iter_mut().flatten() {
                pipe.bytes.clear();
            }
        }
        for node in &world.nodes {
            assert_eq!(node.log.reasons, [EndReason::NotAlive]);
        }
        world.check().unwrap();
    }
}

/// A checker that never failed is not trusted.
#[test]
fn a_driver_that_loses_or_repeats_an_end_is_reported() {
    for (mutant, report) in [
        (Mutant::ForgetsCompletions, "request 1 ended 0 times"),
        (Mutant::RepeatsCompletions, "request 1 ended 2 times"),
        (Mutant::ForgetsTheEnd, "b: ended 0 times"),
    ] {
        let (world, _) = undisturbed([E1, E1], mutant);
        let what = world.check().unwrap_err();
        assert!(what.ends_with(report), "{mutant:?}: {what}");
    }
}
