//! What the clients of a world do: they connect, bind Actors, send, go and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use spotlane_session::SessionTimes;

use crate::faults::Climate;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, ClientIndex, Kind, SessionIndex};
use crate::random::Random;

/// How many of a hundred worlds have clients; the others are as worlds were without sessions.
const WORLDS_WITH_CLIENTS: u64 = 75;

/// Short, like every other time of a world, and in the order of those of the contract: a seal outlasts a move that goes
/// on without its cutover.
pub const SESSION_TIMES: SessionTimes = SessionTimes {
    seal_timeout: Duration::from_millis(800),
    replacement_callback_timeout: Duration::from_millis(300),
    lifecycle_deadline: Duration::from_millis(900),
};

/// One client.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests build their own")]
pub struct ClientPlan {
    /// Where it connects first.
    pub host: HostIndex,
    /// Whom it binds.
    pub actors: Vec<ActorIndex>,
    /// When it begins.
    pub begins: Duration,
    /// How many things it does.
    pub steps: u32,
    /// How long it waits between two, at most.
    pub gap: Duration,
    /// How many of a hundred messages are requests.
    pub request_percent: u64,
    /// How many of a hundred steps go wrong on purpose: away, a notice, another bind.
    pub restless_percent: u64,
    /// The least time that it waits for the answer to a request; `None` is as long as anybody.
    pub patience: Option<Duration>,
    /// Whether it stays connected when it has nothing left to do.
    pub stays: Stays,
}

/// What a client does at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it stays or it goes")]
pub enum Stays {
    /// It stays connected.
    Connected,
    /// It disconnects.
    Gone,
}

/// One thing that a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "hosts take each of them")]
#[expect(missing_docs, reason = "the fields are named by their types")]
pub enum ClientAct {
    /// It connects.
    Connect {
        client: ClientIndex,
        session: SessionIndex,
    },
    /// The session's handler binds an Actor for it.
    Bind {
        session: SessionIndex,
        actor: ActorIndex,
        reference: Reference,
    },
    /// It sends a message that the handler relays.
    Relay {
        session: SessionIndex,
        actor: ActorIndex,
        kind: Kind,
        patience: Option<Duration>,
    },
    /// The handler tells one Actor that its client is gone (SB-64).
    Notify {
        session: SessionIndex,
        actor: ActorIndex,
    },
    /// Its connection ends.
    Disconnect { session: SessionIndex },
}

/// Which reference a bind uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a new one or an old one")]
pub enum Reference {
    /// Looked up, if need be.
    Fresh,
    /// The first that the host ever saw: it may be stale.
    Old,
}

/// Where a client is in its script.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClientState {
    /// Its connection.
    pub session: Option<(HostIndex, SessionIndex)>,
    /// Its draws.
    pub random: Random,
    /// Whom it bound on this connection, as far as it knows.
    bound: BTreeSet<ActorIndex>,
}

impl ClientState {
    /// A client that has done nothing yet.
    pub fn new(random: Random) -> Self {
        Self {
            session: None,
            random,
            bound: BTreeSet::new(),
        }
    }

    /// Its connection is gone.
    pub fn cut_off(&mut self) {
        self.session = None;
        self.bound.clear();
    }

    /// A bind on its connection has failed.
    pub fn not_bound(&mut self, session: SessionIndex, actor: ActorIndex) {
        if self.session.is_some_and(|(_, mine)| mine == session) {
            self.bound.remove(&actor);
        }
    }

    /// What it does next on its connection.
    pub fn next_act(&mut self, plan: &ClientPlan, session: SessionIndex) -> Option<ClientAct> {
        let place = self.random.index(plan.actors.len());
        let actor = *plan.actors.get(place)?;
        if self.random.percent(plan.restless_percent) {
            return Some(self.restless(session, actor));
        }
        if !self.bound.contains(&actor) {
            return Some(self.bind(session, actor));
        }
        let kind = if self.random.percent(plan.request_percent) {
            Kind::Request
        } else {
            Kind::Send
        };
        let patience = plan
            .patience
            .map(|least| least + self.random.micros(0, 400_000));
        Some(ClientAct::Relay {
            session,
            actor,
            kind,
            patience,
        })
    }

    fn bind(&mut self, session: SessionIndex, actor: ActorIndex) -> ClientAct {
        self.bound.insert(actor);
        ClientAct::Bind {
            session,
            actor,
            reference: if self.random.percent(15) {
                Reference::Old
            } else {
                Reference::Fresh
            },
        }
    }

    fn restless(&mut self, session: SessionIndex, actor: ActorIndex) -> ClientAct {
        match self.random.below(6) {
            0 | 1 => {
                self.cut_off();
                ClientAct::Disconnect { session }
            }
            2 => {
                self.bound.remove(&actor);
                ClientAct::Notify { session, actor }
            }
            _ => self.bind(session, actor),
        }
    }
}

/// Draws the clients of a world; none in a share of the worlds.
pub fn clients(
    random: &mut Random,
    climate: Climate,
    hosts: usize,
    actors: usize,
) -> Vec<ClientPlan> {
    if !random.percent(WORLDS_WITH_CLIENTS) {
        return Vec::new();
    }
    let count = random.between(1, 5);
    (0..count)
        .map(|_| ClientPlan {
            host: HostIndex(random.index(hosts)),
            actors: (0..random.between(1, 3))
                .map(|_| ActorIndex(random.index(actors)))
                .collect(),
            begins: random.micros(2_000, 150_000),
            steps: u32::try_from(random.between(10, 90)).unwrap_or(10),
            // Some never stop, so that much is held while an Actor moves.
            gap: match random.below(3) {
                0 => random.micros(200, 1_500),
                1 => random.micros(1_000, 8_000),
                _ => random.micros(2_000, 25_000),
            },
            request_percent: random.below(101),
            restless_percent: *[0, 3, 10, 30].get(random.index(4)).unwrap_or(&0),
            patience: (!climate.is_gentle() && random.percent(50))
                .then(|| random.micros(20_000, 400_000)),
            stays: if random.percent(50) {
                Stays::Connected
            } else {
                Stays::Gone
            },
        })
        .collect()
}
