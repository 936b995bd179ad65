//! What all hosts of a world share: time, network, plan, and the stream of observations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spotlane_relocation::identity::ConnectionId;
use spotlane_store_memory::MemoryStore;
use spotlane_types::count::Correlation;
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::time::Monotonic;

use crate::agenda::{Agenda, Event, Packet};
use crate::cast::Cast;
use crate::client::ClientState;
use crate::executor::Handle;
use crate::faults::Outage;
use crate::host::StoreAnswer;
use crate::mutant::Mutant;
use crate::network::{HostIndex, Network};
use crate::observation::{
    Answer, Kind, Loss, MessageId, Observation, PushId, SessionIndex, SessionSight,
};
use crate::plan::Plan;
use crate::random::Random;

/// Answers of the store on their way to the hosts that asked.
#[derive(Clone, Debug, Default)]
pub struct Mailbox(Arc<Mutex<Vec<(HostIndex, StoreAnswer)>>>);

impl Mailbox {
    /// Puts an answer in.
    pub fn put(&self, to: HostIndex, answer: StoreAnswer) {
        // A leaf: nothing is locked while it is held.
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((to, answer));
    }

    /// Takes all answers out.
    pub fn take(&self) -> Vec<(HostIndex, StoreAnswer)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it left or it did not")]
#[must_use]
pub enum Submit {
    /// The transport took it, and it arrives then, if the connection stands until then.
    Taken(Duration),
    /// The sender knows that it did not leave.
    Failed,
}

/// What hosts share.
#[derive(Debug)]
#[non_exhaustive]
pub struct Shared {
    /// The plan of the world.
    pub plan: Arc<Plan>,
    /// The names of everybody.
    pub cast: Arc<Cast>,
    /// The defect that is switched on.
    pub mutant: Option<Mutant>,
    /// What will happen.
    pub agenda: Agenda,
    /// The connections.
    pub network: Network,
    /// Time, and a way to spawn.
    pub handle: Handle,
    /// The store itself, without any way in between.
    pub memory: MemoryStore,
    /// Draws for what hosts do.
    pub random: Random,
    /// Where answers of the store arrive.
    pub mailbox: Mailbox,
    /// Whether timers of Actors still run.
    pub timers_run: bool,
    /// Where every client is.
    pub clients: Vec<ClientState>,
    /// Draws for sessions and pushes: a world without clients makes none.
    pub session_random: Random,
    /// The lease of every host, as the descriptors of all hosts say.
    pub leases: Vec<OwnerLeaseGeneration>,
    next_session: u64,
    next_push: u64,
    next_correlation: u64,
    next_message: u64,
    next_move: u64,
    seen: Vec<Observation>,
}

impl Shared {
    /// The shared part of a world that has not begun.
    pub fn new(
        plan: Arc<Plan>,
        cast: Arc<Cast>,
        mutant: Option<Mutant>,
        handle: Handle,
        memory: MemoryStore,
    ) -> Self {
        let root = Random::new(plan.seed);
        let clients = plan
            .client_indices()
            .map(|client| ClientState::new(root.fork(&format!("client {}", client.0))))
            .collect();
        Self {
            plan,
            cast,
            mutant,
            agenda: Agenda::default(),
            network: Network::new(root.fork("network")),
            handle,
            memory,
            random: root.fork("hosts"),
            mailbox: Mailbox::default(),
            timers_run: true,
            clients,
            session_random: root.fork("sessions"),
            leases: Vec::new(),
            next_session: 1,
            next_push: 1,
            next_correlation: 1,
            next_message: 1,
            next_move: 1,
            seen: Vec::new(),
        }
    }

    /// The time of the world.
    pub fn now(&self) -> Duration {
        self.handle.now()
    }

    /// The time of the world in milliseconds.
    pub fn now_millis(&self) -> u64 {
        u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a defect is switched on.
    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Notes an observation.
    pub fn see(&mut self, seen: Observation) {
        self.seen.push(seen);
    }

    /// Notes something about sessions and bindings.
    pub fn sight(&mut self, seen: SessionSight) {
        self.see(Observation::Session(seen));
    }

    /// Notes that a message is gone; a request is answered separately.
    pub fn lose(&mut self, message: MessageId, loss: Loss) {
        self.see(Observation::Lost { message, loss });
    }

    /// Takes what was seen since the last call.
    pub fn take_seen(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.seen)
    }

    /// A number for a new message.
    pub fn message_id(&mut self) -> MessageId {
        let id = MessageId(self.next_message);
        self.next_message = self.next_message.saturating_add(1);
        id
    }

    /// A number for a new connection of a client.
    pub fn session_index(&mut self) -> SessionIndex {
        let session = SessionIndex(self.next_session);
        self.next_session = self.next_session.saturating_add(1);
        session
    }

    /// A number for a new push.
    pub fn push_id(&mut self) -> PushId {
        let push = PushId(self.next_push);
        self.next_push = self.next_push.saturating_add(1);
        push
    }

    /// A number for a new request about a binding.
    pub fn correlation(&mut self) -> Correlation {
        let number = self.next_correlation;
        self.next_correlation = number.saturating_add(1);
        Correlation::new(number).unwrap_or(Correlation::MIN)
    }

    /// A number for a new move.
    pub fn move_number(&mut self) -> u64 {
        let number = self.next_move;
        self.next_move = self.next_move.saturating_add(1);
        number
    }

    /// Plans an event.
    pub fn after(&mut self, by: Duration, event: Event) {
        let at = self.now().saturating_add(by);
        self.agenda.add(at, event);
    }

    /// Sends a packet on the connection that the sender knows. A connection that was cut and whose end the sender has
    /// not noticed takes it and loses it.
    pub fn send(
        &mut self,
        from: HostIndex,
        to: HostIndex,
        known: Option<ConnectionId>,
        packet: Packet,
    ) -> Submit {
        let Some(connection) = known else {
            return Submit::Failed;
        };
        let now = self.now();
        let bytes = packet.bytes();
        let stands = self.network.connection(from, to) == Some(connection);
        let arrival = self.network.arrival(from, to, packet.lane(), now, bytes);
        let at = arrival.unwrap_or(now);
        if stands {
            let event = Event::Deliver {
                connection,
                from,
                to,
                packet,
            };
            self.agenda.add(at, event);
        } else if let Some((message, loss)) = packet.carries() {
            self.lose(message, loss);
        }
        Submit::Taken(at)
    }

    /// Cuts a connection; each side notices after its own while, and there is a new one later.
    pub fn cut(&mut self, a: HostIndex, b: HostIndex, outage: Outage) {
        let Some(connection) = self.network.cut(a, b) else {
            return;
        };
        self.see(Observation::Cut { a, b });
        let down = |at, peer| Event::LinkDown {
            at,
            peer,
            connection,
        };
        self.after(outage.noticed_here, down(a, b));
        self.after(outage.noticed_there, down(b, a));
        self.after(outage.back_after, Event::Reconnect { a, b });
    }

    /// Notes that a request or one-way message cannot be served here, and says what to send back.
    pub fn refuse(&mut self, message: MessageId, kind: Kind, loss: Loss) -> Option<Answer> {
        self.lose(message, loss);
        (kind == Kind::Request).then_some(Answer::Unavailable)
    }
}

/// The time of the machines.
pub const fn monotonic(at: Duration) -> Monotonic {
    Monotonic::from_origin(at)
}

/// From a moment of the machines to the time of the world.
pub fn since_origin(at: Monotonic) -> Duration {
    at.since(Monotonic::ORIGIN)
}
