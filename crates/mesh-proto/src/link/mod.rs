//! One link: a pair of connections to one peer, from the first byte to the named end.
//!
//! | stage | lanes | what happens |
//! |---|---|---|
//! | opening | dialled or joined, handshake running | messages are held; ends when a lane is late |
//! | up | both ready | admission; then probes, records, requests |
//! | ended | closed | everything is ignored |
//!
//! A lane that ends takes the link with it (TR-58), so a link has one generation and its requests end
//! with it. The driver makes a new link for the next generation, to which nothing passes over (TR-91).

mod class;
mod effect;
mod event;
mod gate;
mod hold;
mod lanes;
mod receive;
mod submit;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_e2;

use core::num::NonZeroU64;

use spotlane_types::id::NodeRid;
use spotlane_types::time::Monotonic;
use spotlane_wire::FrameBuffer;
use spotlane_wire::command::liveness::LivenessProbe;

pub use class::{Class, Question, class_of, question_of};
pub use effect::{EndReason, Ignored, LinkEffect, NotSubmitted, Outcome, Redial};
pub use event::{AcceptedLane, Awaits, ConnectionToken, LinkEvent, LinkSettings, Submit};
pub use gate::{Gate, GateBuffer, Gates};
pub use hold::HeldBudget;
pub use receive::{
    ActorMessage, is_message, message_whole, ordinary, ordinary_whole, reply_outcome, reply_whole,
};

use crate::admission::{Admission, AdmissionEffect, AdmissionEvent, Side};
use crate::bound::HANDSHAKE_TIMEOUT;
use crate::liveness::{Liveness, Turn};
use crate::machine::Machine;
use crate::pending::Pending;
use crate::zmp::{
    Connection, ConnectionEffect, Edition, Flow, FlowState, Lane, PairKey, Parts, PeerReady,
    flow_frame, record_buffer,
};
use hold::Hold;
use lanes::Lanes;

/// The machine of one link.
#[derive(Debug)]
pub struct Link {
    settings: LinkSettings,
    side: Side,
    key: PairKey,
    /// That of the first lane that is ready; nothing is sent before.
    edition: Edition,
    lanes: Lanes,
    stage: Stage,
    frames: FrameBuffer,
}

#[derive(Debug)]
enum Stage {
    Opening(Opening),
    Up(Box<Up>),
    Ended,
}

#[derive(Debug)]
struct Opening {
    /// The lane that is ready first, and what its peer said.
    first: Option<PeerReady>,
    /// When its sister must be ready (TR-27).
    sister_by: Option<Monotonic>,
    held: Hold,
}

#[derive(Debug)]
struct Up {
    token: ConnectionToken,
    limits: Limits,
    admission: Admission,
    liveness: Option<Liveness>,
    responsive: Responsive,
    used: Used,
    pending: Pending,
    held: Hold,
    /// The epoch of the last flow state that we sent; 0 before the first one.
    flow_epoch: u64,
}

/// What the peer takes on each lane (TR-17).
#[derive(Clone, Copy, Debug)]
struct Limits {
    application: Option<NonZeroU64>,
    completion: Option<NonZeroU64>,
}

/// Whether the peer has acknowledged a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Responsive {
    NotYet,
    Yes,
}

/// Whether the link carries what we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Yes,
    /// It lost against another one of the same run (TR-74).
    No,
}

type Effects = Vec<LinkEffect>;

impl Link {
    /// Starts a link to a peer that we dial: both lanes are opened at once (TR-22).
    pub fn dial(settings: LinkSettings, key: PairKey, out: &mut Effects) -> Self {
        out.extend(Lane::ALL.map(LinkEffect::Open));
        Self::start(settings, Side::Dialler, key, Lanes::dialled())
    }

    /// Starts a link with the first connection of a pair that a peer opened. `unnamed` names the pair
    /// where its edition does not: no other link of the node has it.
    pub fn accept(
        settings: LinkSettings,
        unnamed: PairKey,
        first: AcceptedLane,
        now: Monotonic,
        out: &mut Effects,
    ) -> Self {
        let key = first.ready.key.unwrap_or(unnamed);
        let mut link = Self::start(settings, Side::Acceptor, key, Lanes::accepted());
        link.join(now, first, out);
        link
    }

    fn start(settings: LinkSettings, side: Side, key: PairKey, lanes: Lanes) -> Self {
        let held = Hold::new(settings.held.clone());
        Self {
            settings,
            side,
            key,
            edition: Edition::default(),
            lanes,
            stage: Stage::Opening(Opening {
                first: None,
                sister_by: None,
                held,
            }),
            frames: record_buffer(),
        }
    }

    /// Names the pair; `None` before both lanes are ready and after the end.
    pub fn token(&self) -> Option<&ConnectionToken> {
        match &self.stage {
            Stage::Up(up) => Some(&up.token),
            Stage::Opening(_) | Stage::Ended => None,
        }
    }

    /// Which side opened it.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// The edition that it speaks; known when its pair is ready.
    pub const fn edition(&self) -> Edition {
        self.edition
    }

    /// Whether it is over.
    pub const fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// How many requests wait for their reply.
    pub fn pending(&self) -> usize {
        match &self.stage {
            Stage::Up(up) => up.pending.len(),
            Stage::Opening(_) | Stage::Ended => 0,
        }
    }

    /// Gives the connection of an open lane to the driver, which runs it from now on: it gives the
    /// machine of the connection what comes in and its deadlines, and the link what that asks for
    /// ([`LinkEvent::Decoded`]). So one lane is decoded without holding up the other.
    ///
    /// `None` when the lane has no connection, or has given it away already.
    pub fn detach(&mut self, lane: Lane) -> Option<Connection> {
        self.lanes.detach(lane)
    }

    fn join(&mut self, now: Monotonic, lane: AcceptedLane, out: &mut Effects) {
        let name = lane.ready.lane;
        if !self.lanes.put(name, lane.connection) {
            out.push(LinkEffect::Ignored(Ignored::LateLane(name)));
            return;
        }
        let effects = core::iter::once(ConnectionEffect::Ready(lane.ready)).chain(lane.early);
        self.run(now, name, effects.collect(), out);
    }

    /// Carries out what a connection asks for.
    fn run(
        &mut self,
        now: Monotonic,
        lane: Lane,
        effects: Vec<ConnectionEffect>,
        out: &mut Effects,
    ) {
        for effect in effects {
            if self.is_ended() {
                // The rest of a segment whose beginning has ended the link: the end was reported.
                return;
            }
            match effect {
                ConnectionEffect::Write(bytes) => {
                    out.push(LinkEffect::Write(lane, Parts::of_control(bytes)));
                }
                ConnectionEffect::Ready(ready) => self.lane_ready(now, ready, out),
                ConnectionEffect::Message(message) => self.message(now, lane, message, out),
                ConnectionEffect::Flow(state) => out.push(LinkEffect::PeerFlow(state)),
                ConnectionEffect::Dropped(dropped) => {
                    out.push(LinkEffect::Ignored(Ignored::Connection(lane, dropped)));
                }
                ConnectionEffect::End(end) => self.end(EndReason::Lane { lane, end }, out),
            }
        }
    }

    /// TR-24, TR-25: the pair is ready with its second lane.
    fn lane_ready(&mut self, now: Monotonic, ready: PeerReady, out: &mut Effects) {
        let Stage::Opening(opening) = &mut self.stage else {
            out.push(LinkEffect::Ignored(Ignored::LateLane(ready.lane)));
            return;
        };
        let Some(first) = opening.first.take() else {
            opening.sister_by = Some(now.after(HANDSHAKE_TIMEOUT));
            self.edition = ready.edition();
            opening.first = Some(ready);
            return;
        };
        if first.edition() != ready.edition() {
            return self.end(EndReason::MixedEditions, out);
        }
        if first.id != ready.id || first.key != ready.key {
            return self.end(EndReason::OtherIdentity, out);
        }
        let mut held = core::mem::take(&mut opening.held);
        let (application, completion) = match ready.lane {
            Lane::Application => (ready.receive_limit, first.receive_limit),
            Lane::Completion => (first.receive_limit, ready.receive_limit),
        };
        let limits = Limits {
            application,
            completion,
        };
        self.up(now, first.id, limits, held.successor(), out);
        self.replay(now, held, out);
    }

    fn up(&mut self, now: Monotonic, peer: NodeRid, limits: Limits, held: Hold, out: &mut Effects) {
        let token = ConnectionToken::new(peer.clone(), self.key);
        out.push(LinkEffect::PairReady(token.clone()));
        self.stage = Stage::Up(Box::new(Up {
            token,
            limits,
            admission: Admission::new(self.side, peer, self.settings.terms.clone(), now),
            liveness: None,
            responsive: Responsive::NotYet,
            used: Used::Yes,
            pending: Pending::new(self.settings.pending_max),
            held,
            flow_epoch: 0,
        }));
        // TR-46: said anew on each generation; a new link has nothing that its host would not take.
        self.flow(FlowState::Running, out);
        self.admission(now, AdmissionEvent::PairReady, out);
    }

    /// Tells the peer whether we take new messages. E1 has no frame for it: there the socket that is
    /// not read says it.
    fn flow(&mut self, state: FlowState, out: &mut Effects) {
        let (Stage::Up(up), Edition::E2) = (&mut self.stage, self.edition) else {
            return;
        };
        up.flow_epoch = up.flow_epoch.saturating_add(1);
        let Some(epoch) = NonZeroU64::new(up.flow_epoch) else {
            return;
        };
        let frame = flow_frame(Flow { state, epoch });
        out.push(LinkEffect::Write(
            Lane::Completion,
            Parts::of_control(frame),
        ));
    }

    /// Gives an event to the admission and carries out what it asks for.
    fn admission(&mut self, now: Monotonic, event: AdmissionEvent, out: &mut Effects) {
        let mut effects = Vec::new();
        if let Stage::Up(up) = &mut self.stage {
            up.admission.on_event(now, event, &mut effects);
        }
        self.admitted(now, effects, out);
    }

    fn admitted(&mut self, now: Monotonic, effects: Vec<AdmissionEffect>, out: &mut Effects) {
        let mut held = None;
        for effect in effects {
            let Stage::Up(up) = &mut self.stage else {
                return;
            };
            match effect {
                AdmissionEffect::Send(record) => self.control(&record, out),
                AdmissionEffect::Admitted(descriptor) => {
                    up.liveness = Some(Liveness::start(now, self.settings.first_probe));
                    up.responsive = Responsive::NotYet;
                    held = Some(core::mem::take(&mut up.held));
                    out.push(LinkEffect::Admitted(descriptor));
                }
                AdmissionEffect::Updated(descriptor) => out.push(LinkEffect::Updated(descriptor)),
                AdmissionEffect::RunEnded => {
                    up.liveness = None;
                    complete_all(&mut up.pending, &Outcome::RunEnded, out);
                    out.push(LinkEffect::RunEnded);
                }
                AdmissionEffect::RefusedByPeer(reason) => {
                    out.push(LinkEffect::RefusedByPeer(reason));
                }
                AdmissionEffect::Ignored(what) => {
                    out.push(LinkEffect::Ignored(Ignored::Admission(what)));
                }
                AdmissionEffect::End(end) => return self.end(EndReason::Admission(end), out),
            }
        }
        if let Some(held) = held {
            // TR-85: the first probe goes out at once, ahead of what the records before it cause.
            self.probe(now, out);
            self.replay(now, held, out);
        }
    }

    fn replay(&mut self, now: Monotonic, mut held: Hold, out: &mut Effects) {
        while let Some((lane, message)) = held.pop() {
            if self.is_ended() {
                return;
            }
            self.message(now, lane, message, out);
        }
    }

    fn probe(&mut self, now: Monotonic, out: &mut Effects) {
        let Stage::Up(up) = &mut self.stage else {
            return;
        };
        let turn = up.liveness.as_mut().map(|liveness| liveness.turn(now));
        match turn {
            None | Some(Turn::Early) => {}
            Some(Turn::Probe(probe_id)) => self.control(&LivenessProbe { probe_id }.into(), out),
            Some(Turn::Over) => self.end(EndReason::NotAlive, out),
        }
    }

    /// The one way out: lanes close, every request ends, the reason comes last (TR-58, TR-90).
    fn end(&mut self, reason: EndReason, out: &mut Effects) {
        out.extend(self.lanes.close().map(LinkEffect::Close));
        match core::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Opening(opening) => dropped(&opening.held, out),
            Stage::Up(mut up) => {
                dropped(&up.held, out);
                complete_all(&mut up.pending, &Outcome::LinkEnded, out);
            }
            Stage::Ended => {}
        }
        out.push(LinkEffect::Ended(reason));
    }
}

fn dropped(held: &Hold, out: &mut Effects) {
    if held.len() > 0 {
        out.push(LinkEffect::Ignored(Ignored::HeldRecords(held.len())));
    }
}

fn complete_all(pending: &mut Pending, outcome: &Outcome, out: &mut Effects) {
    while let Some(request) = pending.pop() {
        out.push(LinkEffect::Completed {
            id: request.id,
            outcome: outcome.clone(),
        });
    }
}

impl Machine for Link {
    type Event = LinkEvent;
    type Effect = LinkEffect;

    fn on_event(&mut self, now: Monotonic, event: LinkEvent, out: &mut Effects) {
        if self.is_ended() {
            return self.late(event, out);
        }
        match event {
            LinkEvent::Opened(lane, since) => self.opened(now, lane, since, out),
            LinkEvent::OpenFailed(lane) => self.end(EndReason::OpenFailed(lane), out),
            LinkEvent::Joined(lane) => self.join(now, *lane, out),
            LinkEvent::Received(lane, bytes) => self.received(now, lane, bytes, out),
            LinkEvent::Decoded(lane, effects) => self.decoded(now, lane, effects, out),
            LinkEvent::Begun(lane, bytes) => self.begun(lane, bytes, out),
            LinkEvent::Closed(lane) => self.closed(now, lane, out),
            LinkEvent::Submit(submit) => self.submit(*submit, out),
            LinkEvent::Answer { sequence, reply } => self.answer(sequence, *reply, out),
            LinkEvent::Cancel(id) => self.cancel(id, out),
            LinkEvent::Flow(state) => self.flow(state, out),
            LinkEvent::Describe(own) => {
                self.settings.terms.own = (*own).clone();
                self.admission(now, AdmissionEvent::Describe(own), out);
            }
            LinkEvent::Supersede => self.supersede(out),
            LinkEvent::Resume => self.resume(out),
            LinkEvent::Outlived => self.end(EndReason::Outlived, out),
            LinkEvent::AnswerHello => self.admission(now, AdmissionEvent::AnswerHello, out),
            LinkEvent::Shutdown => self.end(EndReason::Shutdown, out),
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let own = match &self.stage {
            Stage::Opening(opening) => opening.sister_by,
            Stage::Up(up) => {
                let liveness = up.liveness.as_ref().map(Liveness::next_deadline);
                let deadlines = [
                    up.admission.next_deadline(),
                    liveness,
                    up.pending.next_deadline(),
                ];
                deadlines.into_iter().flatten().min()
            }
            Stage::Ended => return None,
        };
        own.into_iter().chain(self.lanes.next_deadline()).min()
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Effects) {
        for lane in Lane::ALL {
            let effects = self.lanes.on_deadline(lane, now);
            self.run(now, lane, effects, out);
        }
        let mut effects = Vec::new();
        match &mut self.stage {
            Stage::Opening(opening) => {
                if opening.sister_by.is_some_and(|deadline| deadline <= now) {
                    self.end(EndReason::NoSister, out);
                }
                return;
            }
            Stage::Up(up) => {
                while let Some(request) = up.pending.expire(now) {
                    out.push(LinkEffect::Completed {
                        id: request.id,
                        outcome: Outcome::TimedOut,
                    });
                }
                up.admission.on_deadline(now, &mut effects);
            }
            Stage::Ended => return,
        }
        self.admitted(now, effects, out);
        self.probe(now, out);
    }
}
