//! One event in, the complete list of effects out.

mod after;
mod before;
mod graph;
mod payload;

use spotlane_types::kind::{FailureCode, RelocationPhase, RelocationRole};
use spotlane_types::machine::Machine as _;
use spotlane_wire::command::relocation::{RelocationFailed, RelocationReady};
use spotlane_wire::command::session::SessionRelocationSealed;

use super::payload::{ParticipantCapture, Payload, QueuedWork};
use super::*;
use crate::identity::RowRead;
use crate::unit::sample::{
    ask, at, binding, connection, identity, note, object, plan, row_of_source, row_of_target,
    target,
};
use crate::unit::{Binding, show};

/// A source and what its driver needs for an answer.
struct Unit {
    source: Source,
    order: Option<CaptureOrder>,
}

impl Unit {
    fn new() -> Self {
        Self::with(RelocationSettings::default())
    }

    fn with(settings: RelocationSettings) -> Self {
        Self {
            source: Source::new(settings),
            order: None,
        }
    }

    fn step(&mut self, millis: u64, event: SourceEvent) -> Vec<String> {
        let mut out = Vec::new();
        self.source.on_event(at(millis), event, &mut out);
        self.shown(out)
    }

    fn time(&mut self, millis: u64) -> Vec<String> {
        let mut out = Vec::new();
        self.source.on_deadline(at(millis), &mut out);
        self.shown(out)
    }

    fn shown(&mut self, out: Vec<SourceEffect>) -> Vec<String> {
        for effect in &out {
            if let SourceEffect::Capture(order) = effect {
                self.order = Some((**order).clone());
            }
        }
        out.iter().map(show::source).collect()
    }

    /// Up to S0 at 0 ms, with these bindings sealed.
    fn paused(bindings: Vec<Binding>) -> Self {
        let mut unit = Self::new();
        unit.pause(bindings);
        unit
    }

    fn pause(&mut self, bindings: Vec<Binding>) {
        self.step(0, SourceEvent::MoveRequested(Box::new(plan(1))));
        self.step(0, SourceEvent::BudgetOpen);
        self.step(0, SourceEvent::BindsRefused(bindings.clone()));
        for binding in &bindings {
            self.step(0, SourceEvent::BindingSealed(sealed(binding)));
        }
        self.step(0, SourceEvent::SafePoint);
        assert_eq!(self.source.stage(), SourceStage::SourcePaused);
    }

    #[expect(clippy::unnecessary_box_returns, reason = "the event takes a box")]
    /// What a capture of `state` bytes and one note and one request gives.
    fn payload(&self, state: usize) -> Box<Payload> {
        let capture = ParticipantCapture {
            state: Some(vec![7; state].into()),
            queue: vec![
                QueuedWork::Record(Box::new(note("saved"))),
                QueuedWork::Record(Box::new(ask("saved request"))),
            ],
            timers: Vec::new(),
        };
        let order = self.order.as_ref().unwrap();
        Box::new(Payload::encode(order, &[capture]).unwrap())
    }

    /// Command 40 and all chunks are out.
    fn restoring(bindings: Vec<Binding>) -> Self {
        let mut unit = Self::paused(bindings);
        unit.send();
        unit
    }

    fn send(&mut self) {
        let payload = self.payload(10);
        self.step(0, SourceEvent::Captured(Ok(payload)));
        self.step(0, SourceEvent::ChunkOpen);
        assert_eq!(self.source.stage(), SourceStage::TargetRestoring);
    }

    /// The boundary at 10 ms, with what was held.
    fn relaying(held: &[&str]) -> Self {
        let mut unit = Self::restoring(Vec::new());
        for text in held {
            unit.step(5, SourceEvent::Arrived(Box::new(note(text))));
        }
        unit.step(10, ready());
        assert_eq!(unit.source.stage(), SourceStage::RelayReady);
        unit
    }

    /// The cutover is submitted at 20 ms, the submit ends at 30 ms.
    fn settling(held: &[&str], outcome: SubmitOutcome) -> Self {
        let mut unit = Self::relaying(held);
        unit.step(20, SourceEvent::HoldDrained);
        unit.step(30, SourceEvent::CutoverSubmitted(outcome));
        unit
    }
}

fn sealed(binding: &Binding) -> Box<SessionRelocationSealed> {
    let owner = binding.session_owner.clone();
    Box::new(SessionRelocationSealed {
        relocation: identity(1).relocation,
        coordinator: identity(1).coordinator,
        actor: binding.actor.clone(),
        session_owner_node_rid: owner.node_rid,
        session_owner_node_generation: owner.node_generation,
        session_owner_id: owner.owner_id,
        session_owner_lease_generation: owner.owner_lease_generation,
        session_rid: binding.session_rid.clone(),
        binding_generation: binding.binding_generation,
    })
}

fn ready_command(number: u64) -> RelocationReady {
    let identity = identity(number);
    RelocationReady {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        target: target(),
        object: object(),
        sender_role: RelocationRole::Target,
    }
}

fn ready() -> SourceEvent {
    SourceEvent::Ready(Box::new(ready_command(1)))
}

fn failed_command(number: u64, failure_code: FailureCode) -> RelocationFailed {
    let ready = ready_command(number);
    RelocationFailed {
        relocation: ready.relocation,
        target_attempt_generation: ready.target_attempt_generation,
        coordinator: ready.coordinator,
        target: ready.target,
        object: ready.object,
        sender_role: ready.sender_role,
        failure_code,
    }
}

fn failed() -> SourceEvent {
    SourceEvent::Failed(Box::new(failed_command(1, FailureCode::RequestFailed)))
}

fn read_source() -> SourceEvent {
    SourceEvent::AuthorityRead(RowRead::Row(Box::new(row_of_source())))
}

fn read_target(phase: RelocationPhase) -> SourceEvent {
    SourceEvent::AuthorityRead(RowRead::Row(Box::new(row_of_target(1, phase))))
}

fn arrived(text: &str) -> SourceEvent {
    SourceEvent::Arrived(Box::new(note(text)))
}
