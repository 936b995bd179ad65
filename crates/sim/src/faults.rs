//! The schedule of faults of a world: what goes wrong, when, and for how long. Everything follows from the seed.

use std::time::Duration;

use crate::network::HostIndex;
use crate::observation::ActorIndex;
use crate::random::Random;

/// Which kinds of fault a world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "every world has one of these")]
pub enum Climate {
    /// None: nothing may be lost, doubled, out of order or unanswered.
    Calm,
    /// No fault, but adapters fail, chunks are damaged and budgets are tight: moves fail and Actors stay.
    Clumsy,
    /// Connections are slow, cut and made anew.
    Network,
    /// The store loses requests and answers, is late, or is away.
    Store,
    /// Processes pause and die, some of them at a chosen step of a move.
    Process,
    /// Everything at once.
    Storm,
}

impl Climate {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Calm,
        Self::Clumsy,
        Self::Network,
        Self::Store,
        Self::Process,
        Self::Storm,
    ];

    /// The climate of a seed.
    pub fn of(seed: u64) -> Self {
        let place = Random::new(seed).fork("climate").index(Self::ALL.len());
        Self::ALL.get(place).copied().unwrap_or(Self::Calm)
    }

    /// Whether every message has to be handled exactly once and every request replied.
    pub const fn is_gentle(self) -> bool {
        matches!(self, Self::Calm | Self::Clumsy)
    }
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the world carries out each of them"
)]
#[expect(missing_docs, reason = "the fields are named by their types")]
pub enum Fault {
    /// The connection of two hosts is cut. Each side notices after its own while.
    Cut {
        a: HostIndex,
        b: HostIndex,
        outage: Outage,
    },
    /// The ways between two hosts become slow and uneven.
    Slow {
        a: HostIndex,
        b: HostIndex,
        by: Duration,
    },
    /// The next operations of a host with the store go wrong.
    StoreLoses {
        at: HostIndex,
        what: Lost,
        next: u64,
    },
    /// The store cannot be reached from a host.
    StoreAway { at: HostIndex, during: Duration },
    /// Answers of the store come late.
    StoreLate {
        at: HostIndex,
        percent: u64,
        by: Duration,
        during: Duration,
    },
    /// A process stands still; the world goes on.
    Pause { at: HostIndex, during: Duration },
    /// A process dies.
    Crash { at: HostIndex },
    /// Something happens in the middle of the work of a host's driver, after this many more steps of it.
    AfterSteps {
        at: HostIndex,
        steps: u64,
        spark: Spark,
    },
    /// The next capture of an Actor fails.
    CaptureFails { actor: ActorIndex },
    /// The next restores of an Actor fail.
    RestoreFails { actor: ActorIndex, times: u64 },
    /// A byte of the next chunk that a host sends is damaged.
    DamagedChunk { at: HostIndex },
    /// The handlers of an Actor take longer.
    SlowHandlers { actor: ActorIndex, by: Duration },
    /// A host begins to shut down: its own moves are told so.
    Shutdown { at: HostIndex },
}

/// What happens at a step of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the host carries out each of them")]
pub enum Spark {
    /// The process dies.
    Die,
    /// The process stands still, once the event is done.
    Pause(Duration),
    /// The connection to the other side of the move is cut.
    Cut(Outage),
}

/// How a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests build their own")]
pub struct Outage {
    /// When the host notices.
    pub noticed_here: Duration,
    /// When the peer notices.
    pub noticed_there: Duration,
    /// When there is a new connection.
    pub back_after: Duration,
}

impl Outage {
    fn draw(random: &mut Random) -> Self {
        // Most cuts are shorter than the cutover wait, some much longer.
        let longest = if random.percent(70) { 60_000 } else { 900_000 };
        Self {
            noticed_here: random.micros(0, 20_000),
            noticed_there: random.micros(0, 20_000),
            back_after: random.micros(500, longest),
        }
    }
}

/// What is lost on the way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the faults of ST-21")]
pub enum Lost {
    /// It never arrives, and the caller knows.
    Refused,
    /// It never arrives, and the caller does not know.
    Request,
    /// It happens, and the caller does not know.
    Answer,
}

/// What faults can be about.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the plan fills it in")]
pub struct Scope {
    /// How many hosts there are.
    pub hosts: usize,
    /// How many Actors there are.
    pub actors: usize,
    /// When the last fault may begin.
    pub until: Duration,
    /// How long a lease lives without renewal.
    pub lease_ttl: Duration,
}

/// Draws the faults of a world.
pub fn draw(random: &mut Random, climate: Climate, scope: Scope) -> Vec<(Duration, Fault)> {
    let count = match climate {
        Climate::Calm => 0,
        Climate::Clumsy => random.between(2, 6),
        Climate::Network | Climate::Store => random.between(2, 8),
        Climate::Process => random.between(1, 4),
        Climate::Storm => random.between(4, 12),
    };
    let mut faults = Vec::new();
    for _ in 0..count {
        let until = u64::try_from(scope.until.as_micros()).unwrap_or(u64::MAX);
        let at = random.micros(20_000, until);
        let kind = match climate {
            Climate::Calm | Climate::Clumsy => clumsy(random, scope),
            Climate::Network => network(random, scope),
            Climate::Store => store(random, scope),
            Climate::Process => process(random, scope),
            Climate::Storm => match random.below(8) {
                0 => clumsy(random, scope),
                1..=3 => network(random, scope),
                4..=6 => store(random, scope),
                _ => process(random, scope),
            },
        };
        faults.push((at, kind));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn host(random: &mut Random, scope: Scope) -> HostIndex {
    HostIndex(random.index(scope.hosts))
}

fn actor(random: &mut Random, scope: Scope) -> ActorIndex {
    ActorIndex(random.index(scope.actors))
}

fn pair(random: &mut Random, scope: Scope) -> (HostIndex, HostIndex) {
    let a = host(random, scope);
    let step = 1 + random.index(scope.hosts.saturating_sub(1));
    (a, HostIndex((a.0 + step) % scope.hosts))
}

fn clumsy(random: &mut Random, scope: Scope) -> Fault {
    let actor = actor(random, scope);
    match random.below(5) {
        0 => Fault::CaptureFails { actor },
        1 => Fault::RestoreFails {
            actor,
            times: random.between(1, 3),
        },
        2 | 3 => Fault::DamagedChunk {
            at: host(random, scope),
        },
        _ => Fault::SlowHandlers {
            actor,
            by: random.micros(1_000, 40_000),
        },
    }
}

fn network(random: &mut Random, scope: Scope) -> Fault {
    let (a, b) = pair(random, scope);
    if random.percent(25) {
        let by = random.micros(1_000, 60_000);
        return Fault::Slow { a, b, by };
    }
    let outage = Outage::draw(random);
    if random.percent(70) {
        return Fault::AfterSteps {
            at: a,
            steps: random.between(1, 60),
            spark: Spark::Cut(outage),
        };
    }
    Fault::Cut { a, b, outage }
}

fn store(random: &mut Random, scope: Scope) -> Fault {
    let at = host(random, scope);
    match random.below(6) {
        0..=2 => Fault::StoreLoses {
            at,
            what: match random.below(3) {
                0 => Lost::Refused,
                1 => Lost::Request,
                _ => Lost::Answer,
            },
            next: random.between(1, 6),
        },
        3 => Fault::StoreLate {
            at,
            percent: random.between(10, 80),
            by: random.micros(2_000, 400_000),
            during: random.micros(20_000, 400_000),
        },
        4 => Fault::StoreAway {
            at,
            during: random.micros(5_000, 300_000),
        },
        // Long enough for the lease of the host to end.
        _ => Fault::StoreAway {
            at,
            during: scope.lease_ttl + random.micros(0, 500_000),
        },
    }
}

fn process(random: &mut Random, scope: Scope) -> Fault {
    let at = host(random, scope);
    match random.below(6) {
        5 => Fault::Shutdown { at },
        0 | 1 => Fault::AfterSteps {
            at,
            steps: random.between(1, 60),
            spark: if random.percent(50) {
                Spark::Die
            } else {
                Spark::Pause(random.micros(1_000, 400_000))
            },
        },
        2 => Fault::Crash { at },
        3 => Fault::Pause {
            at,
            during: random.micros(1_000, 300_000),
        },
        _ => Fault::Pause {
            at,
            during: scope.lease_ttl + random.micros(0, 500_000),
        },
    }
}
