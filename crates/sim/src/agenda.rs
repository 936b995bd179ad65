//! What will happen in a world, by time and then by the order in which it was planned.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use spotlane_relocation::identity::ConnectionId;
use spotlane_session::{ActorRoute, BindRefusal};
use spotlane_types::count::Correlation;
use spotlane_wire::frozen::FrozenRecord;

use crate::faults::Fault;
use crate::network::{HostIndex, NetworkLane};
use crate::observation::{Answer, ClientIndex, Loss, MessageId, SenderIndex};
use crate::workload::MovePlan;

/// What travels between two hosts.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "hosts take each of them")]
pub enum Packet {
    /// A command of a move, as it stands on the wire, with the messages in it.
    Command {
        /// Its frames.
        frames: Vec<Bytes>,
        /// The message in it, and what its loss means.
        carries: Option<(MessageId, Loss)>,
    },
    /// A message, and how often it was forwarded.
    Message {
        /// The message with its address.
        record: Box<FrozenRecord>,
        /// How often it was forwarded.
        hops: u8,
    },
    /// The terminal of a request.
    Terminal {
        /// The request.
        message: MessageId,
        /// How it ended.
        answer: Answer,
    },
    /// A notice about a route (command 50), as it stands on the wire.
    Notice {
        /// Its frames.
        frames: Vec<Bytes>,
    },
    /// A record about a binding (commands 36, 42 to 44 and 51), as it stands on the wire.
    Binding {
        /// Its frames.
        frames: Vec<Bytes>,
    },
    /// A request about a binding (command 38), as it stands on the wire.
    Bind {
        /// Its frames.
        frames: Vec<Bytes>,
        /// The session owner that asks.
        owner: HostIndex,
        /// How often it was forwarded: once at most (SB-24).
        hops: u8,
    },
    /// The answer to it.
    BindAnswer(BindReply),
}

/// The answer of an Actor's owner to command 38.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "hosts fill it in")]
pub struct BindReply {
    /// The request.
    pub correlation: Correlation,
    /// Whether it was done.
    pub result: Result<(), BindRefusal>,
    /// Where it was done, if the request was forwarded.
    pub followed: Option<Box<ActorRoute>>,
}

impl Packet {
    /// The lane that it takes.
    pub fn lane(&self) -> NetworkLane {
        match self {
            Self::Terminal { .. } | Self::BindAnswer(_) => NetworkLane::Completion,
            Self::Command { .. }
            | Self::Message { .. }
            | Self::Notice { .. }
            | Self::Binding { .. }
            | Self::Bind { .. } => NetworkLane::Application,
        }
    }

    /// How long it is on the wire, roughly.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Command { frames, .. }
            | Self::Notice { frames }
            | Self::Binding { frames }
            | Self::Bind { frames, .. } => frames.iter().map(Bytes::len).sum(),
            Self::Message { .. } => 256,
            Self::Terminal { .. } | Self::BindAnswer(_) => 64,
        }
    }

    /// The message that is lost with it.
    pub fn carries(&self) -> Option<(MessageId, Loss)> {
        match self {
            Self::Command { carries, .. } => *carries,
            Self::Message { record, .. } => {
                crate::cast::message_of(record).map(|message| (message, Loss::Cut))
            }
            // A lost answer is no lost message: the caller's own deadline ends its wait.
            Self::Terminal { .. }
            | Self::Notice { .. }
            | Self::Binding { .. }
            | Self::Bind { .. }
            | Self::BindAnswer(_) => None,
        }
    }
}

/// One thing that will happen.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the world carries out each of them"
)]
#[expect(missing_docs, reason = "the fields are named by their types")]
pub enum Event {
    /// A packet arrives, if its connection still stands.
    Deliver {
        connection: ConnectionId,
        from: HostIndex,
        to: HostIndex,
        packet: Packet,
    },
    /// A host notices that a connection is gone.
    LinkDown {
        at: HostIndex,
        peer: HostIndex,
        connection: ConnectionId,
    },
    /// Two hosts are connected again, if they live.
    Reconnect { a: HostIndex, b: HostIndex },
    /// A timer of a host is due.
    Wake { at: HostIndex },
    /// A sender issues its next message.
    Issue { sender: SenderIndex, left: u32 },
    /// A client does its next thing.
    Client { client: ClientIndex, left: u32 },
    /// Somebody asks for a move.
    Move(MovePlan),
    /// The operation of a move is aborted.
    AbortMove(MovePlan),
    /// Something goes wrong.
    Fault(Fault),
    /// The store can be reached again, and answers in time.
    StoreBack { at: HostIndex },
    /// A paused process goes on.
    Resume { at: HostIndex },
    /// Everything heals.
    Heal,
    /// Every connection is made anew: what is remembered as long as an old one is open may be forgotten (RL-353).
    Renew,
}

/// The plan of a world.
#[derive(Debug, Default)]
pub struct Agenda {
    entries: BTreeMap<(Duration, u64), Event>,
    next: u64,
}

impl Agenda {
    /// Plans an event.
    pub fn add(&mut self, at: Duration, event: Event) {
        self.entries.insert((at, self.next), event);
        self.next = self.next.saturating_add(1);
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<Duration> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// Takes the next event that is due.
    pub fn pop(&mut self, now: Duration) -> Option<Event> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
