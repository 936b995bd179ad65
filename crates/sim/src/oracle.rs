//! What was promised: the fate of every message, and what the contract allows to excuse.
//!
//! The oracle records and does not judge; [`crate::invariants`] do. A request without a terminal is unknown to
//! its caller, and unknown is never taken for "did not happen".

mod sessions;

use std::collections::{BTreeMap, BTreeSet};

use spotlane_relocation::diagnostic::Diagnostic;
use spotlane_relocation::source::{MoveFailure, SourceStage};
use spotlane_types::id::RelocationId;

use crate::network::HostIndex;
use crate::observation::{ActorIndex, Answer, Kind, Loss, MessageId, Observation, Origin, Work};

pub use sessions::{BindingFacts, PushFacts, SessionBook, SessionFacts};

/// Everything known about one message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageFacts {
    /// Whether it wants an answer.
    pub kind: Kind,
    /// Who sent it.
    pub origin: Origin,
    /// To whom.
    pub actor: ActorIndex,
    /// From which host.
    pub from: HostIndex,
    /// The hosts that took it in, in order, each run of equal ones once.
    pub path: Vec<HostIndex>,
    /// The hosts at which a handler began with it.
    pub started: Vec<HostIndex>,
    /// How many handlers ended with it.
    pub ended: u32,
    /// What was sent back.
    pub answers: Vec<Answer>,
    /// What its caller got as its terminal.
    pub settled: Vec<Answer>,
    /// What may excuse that it was not handled.
    pub losses: BTreeSet<Loss>,
}

/// Everything known about one move.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MoveFacts {
    /// The Actor.
    pub actor: ActorIndex,
    /// The source.
    pub from: HostIndex,
    /// The target.
    pub to: HostIndex,
    /// How often the operation had a result.
    pub finished: u32,
    /// Whether that was a success.
    pub succeeded: bool,
    /// Why it was none.
    pub failure: Option<MoveFailure>,
    /// The stages of its source.
    pub stages: BTreeSet<SourceStage>,
    /// Whether it went on without a cutover (TGT-21): no order is promised from there.
    pub fell_back: bool,
}

impl MoveFacts {
    /// Whether the source gave it up: it came to its limit, or to its end, and never saw a commit (SRC-22, SRC-23).
    pub fn was_given_up(&self) -> bool {
        let gave_up = [SourceStage::Unavailable, SourceStage::Ended];
        let followed = self.stages.contains(&SourceStage::FollowOnly);
        !followed && gave_up.iter().any(|stage| self.stages.contains(stage))
    }
}

/// The record of a world.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    messages: BTreeMap<MessageId, MessageFacts>,
    moves: BTreeMap<RelocationId, MoveFacts>,
    /// Handled work by Actor, in order.
    handled: BTreeMap<ActorIndex, Vec<Work>>,
    crashed: BTreeSet<HostIndex>,
    disturbed: bool,
    book: SessionBook,
}

impl Oracle {
    /// Takes one observation.
    pub fn observe(&mut self, seen: &Observation) {
        self.observe_message(seen);
        self.observe_move(seen);
        self.book.observe(seen);
        match seen {
            Observation::Ended { actor, work, .. } => {
                self.handled.entry(*actor).or_default().push(*work);
            }
            Observation::Crashed { at } => {
                self.disturbed = true;
                self.crashed.insert(*at);
                self.excuse_held_by(*at);
            }
            Observation::Cut { .. } | Observation::Paused { .. } => self.disturbed = true,
            _ => {}
        }
    }

    fn observe_message(&mut self, seen: &Observation) {
        let Some(facts) = self.facts_for(seen) else {
            return;
        };
        match seen {
            Observation::Accepted { at, .. } if facts.path.last() != Some(at) => {
                facts.path.push(*at);
            }
            Observation::Started { at, .. } => facts.started.push(*at),
            Observation::Ended { .. } => facts.ended = facts.ended.saturating_add(1),
            Observation::Answered { answer, .. } => facts.answers.push(*answer),
            Observation::Settled { answer, .. } => facts.settled.push(*answer),
            Observation::Lost { loss, .. } => {
                facts.losses.insert(*loss);
            }
            _ => {}
        }
    }

    fn facts_for(&mut self, seen: &Observation) -> Option<&mut MessageFacts> {
        let message = match seen {
            Observation::Issued {
                message,
                kind,
                origin,
                actor,
                at,
            } => {
                let facts = MessageFacts {
                    kind: *kind,
                    origin: *origin,
                    actor: *actor,
                    from: *at,
                    path: Vec::new(),
                    started: Vec::new(),
                    ended: 0,
                    answers: Vec::new(),
                    settled: Vec::new(),
                    losses: BTreeSet::new(),
                };
                self.messages.insert(*message, facts);
                return None;
            }
            Observation::Accepted { message, .. }
            | Observation::Forwarded { message, .. }
            | Observation::Answered { message, .. }
            | Observation::Settled { message, .. }
            | Observation::LateTerminal { message, .. }
            | Observation::Lost { message, .. }
            | Observation::Started {
                work: Work::Message(message),
                ..
            }
            | Observation::Ended {
                work: Work::Message(message),
                ..
            } => *message,
            _ => return None,
        };
        self.messages.get_mut(&message)
    }

    fn observe_move(&mut self, seen: &Observation) {
        match seen {
            Observation::MoveRequested {
                relocation,
                actor,
                from,
                to,
            } => {
                let facts = MoveFacts {
                    actor: *actor,
                    from: *from,
                    to: *to,
                    finished: 0,
                    succeeded: false,
                    failure: None,
                    stages: BTreeSet::new(),
                    fell_back: false,
                };
                self.moves.insert(*relocation, facts);
            }
            Observation::MoveFinished {
                relocation, result, ..
            } => {
                if let Some(facts) = self.moves.get_mut(relocation) {
                    facts.finished = facts.finished.saturating_add(1);
                    facts.succeeded = result.is_ok();
                    facts.failure = result.err();
                }
            }
            Observation::MoveRefused {
                relocation, why, ..
            } => {
                if let Some(facts) = self.moves.get_mut(relocation) {
                    facts.finished = facts.finished.saturating_add(1);
                    facts.failure = Some(*why);
                }
            }
            Observation::Source {
                relocation, stage, ..
            } => {
                if let Some(facts) = self.moves.get_mut(relocation) {
                    facts.stages.insert(*stage);
                }
            }
            Observation::Diagnosed {
                relocation,
                what: Diagnostic::CutoverTimeout,
                ..
            } => {
                if let Some(facts) = self.moves.get_mut(relocation) {
                    facts.fell_back = true;
                }
            }
            _ => {}
        }
    }

    /// A process died: what it had taken in and nobody has handled may be gone with it.
    fn excuse_held_by(&mut self, host: HostIndex) {
        for facts in self.messages.values_mut() {
            let held = facts.path.contains(&host) || facts.from == host;
            if held && facts.ended == 0 {
                facts.losses.insert(Loss::Crash);
            }
        }
    }

    /// The facts about a message.
    pub fn message(&self, message: MessageId) -> Option<&MessageFacts> {
        self.messages.get(&message)
    }

    /// All messages.
    pub fn messages(&self) -> impl Iterator<Item = (MessageId, &MessageFacts)> {
        self.messages.iter().map(|(id, facts)| (*id, facts))
    }

    /// All moves.
    pub fn moves(&self) -> impl Iterator<Item = (RelocationId, &MoveFacts)> {
        self.moves.iter().map(|(id, facts)| (*id, facts))
    }

    /// The move with this identity.
    pub fn move_of(&self, relocation: RelocationId) -> Option<&MoveFacts> {
        self.moves.get(&relocation)
    }

    /// What an Actor has handled, in order.
    pub fn handled(&self, actor: ActorIndex) -> &[Work] {
        self.handled.get(&actor).map_or(&[], Vec::as_slice)
    }

    /// Sessions, bindings and pushes.
    pub const fn book(&self) -> &SessionBook {
        &self.book
    }

    /// Whether the process of a host has died.
    pub fn has_crashed(&self, host: HostIndex) -> bool {
        self.crashed.contains(&host)
    }

    /// Whether a connection was cut, or a process paused or killed.
    pub const fn is_disturbed(&self) -> bool {
        self.disturbed
    }
}
