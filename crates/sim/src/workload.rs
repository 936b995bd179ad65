//! What the applications of a world do: Actors with state and timers, senders, and moves.

use std::time::Duration;

use crate::network::HostIndex;
use crate::observation::ActorIndex;
use crate::random::Random;

/// What a move does with the state of an Actor (RL-110 to RL-112).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-110 to RL-112")]
pub enum Policy {
    /// It does not move.
    Disable,
    /// It moves without state.
    Recreate,
    /// It moves with its state.
    Preserve,
}

/// One Actor.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests build their own")]
pub struct ActorPlan {
    /// Where it begins.
    pub home: HostIndex,
    /// What a move does with its state.
    pub policy: Policy,
    /// The period of its timer, if it has one.
    pub period: Option<Duration>,
    /// How many bytes of state it carries besides the log of what it handled.
    pub ballast: usize,
    /// How long its handlers take at most.
    pub handler: Duration,
}

/// How a sender finds its Actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three ways")]
pub enum Addressing {
    /// By the route cache, else by a look-up.
    Cache,
    /// By a look-up for every message.
    LookUp,
    /// By the first route that it ever saw, for ever.
    OldAddress,
}

/// One sender of messages to one Actor.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests build their own")]
pub struct SenderPlan {
    /// Where it sits.
    pub host: HostIndex,
    /// Whom it sends to.
    pub actor: ActorIndex,
    /// How it finds it.
    pub addressing: Addressing,
    /// When it begins.
    pub begins: Duration,
    /// How many messages it sends.
    pub messages: u32,
    /// How long it waits between two, at most.
    pub gap: Duration,
    /// How many of a hundred messages are requests.
    pub request_percent: u64,
}

/// One move that somebody asks for.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests build their own")]
pub struct MovePlan {
    /// Which Actor.
    pub actor: ActorIndex,
    /// Where to. If it is there already, nothing happens.
    pub to: HostIndex,
    /// Whether the operation is aborted soon after it began.
    pub aborted_after: Option<Duration>,
}

/// Draws the Actors.
pub fn actors(random: &mut Random, hosts: usize) -> Vec<ActorPlan> {
    let count = random.between(1, 4);
    (0..count)
        .map(|_| ActorPlan {
            home: HostIndex(random.index(hosts)),
            policy: match random.below(20) {
                0 => Policy::Disable,
                1..=3 => Policy::Recreate,
                _ => Policy::Preserve,
            },
            period: random.percent(60).then(|| random.micros(40_000, 150_000)),
            ballast: usize::try_from(random.below(3_000)).unwrap_or(0),
            handler: random.micros(50, 8_000),
        })
        .collect()
}

/// Draws the senders: at least one for every Actor.
pub fn senders(random: &mut Random, hosts: usize, actors: &[ActorPlan]) -> Vec<SenderPlan> {
    let mut senders = Vec::new();
    for actor in 0..actors.len() {
        for _ in 0..random.between(1, 3) {
            senders.push(SenderPlan {
                host: HostIndex(random.index(hosts)),
                actor: ActorIndex(actor),
                addressing: match random.below(4) {
                    0 => Addressing::OldAddress,
                    1 => Addressing::LookUp,
                    _ => Addressing::Cache,
                },
                begins: random.micros(5_000, 100_000),
                messages: u32::try_from(random.between(5, 30)).unwrap_or(5),
                gap: random.micros(500, 30_000),
                request_percent: random.below(101),
            });
        }
    }
    senders
}

/// Draws the moves. An Actor often goes somewhere and back (A to B to A).
pub fn moves(
    random: &mut Random,
    hosts: usize,
    actors: &[ActorPlan],
    busy: Duration,
) -> Vec<(Duration, MovePlan)> {
    let mut moves = Vec::new();
    let busy = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
    for (index, actor) in actors.iter().enumerate() {
        let mut at = random.micros(30_000, busy / 2);
        let mut place = actor.home;
        for _ in 0..random.between(1, 4) {
            let back = place != actor.home && random.percent(50);
            let to = if back {
                actor.home
            } else {
                HostIndex((place.0 + 1 + random.index(hosts.saturating_sub(1))) % hosts)
            };
            let aborted_after = random.percent(8).then(|| random.micros(0, 20_000));
            let plan = MovePlan {
                actor: ActorIndex(index),
                to,
                aborted_after,
            };
            moves.push((at, plan));
            place = to;
            at += random.micros(2_000, busy / 2);
        }
    }
    moves.sort_by_key(|(at, _)| *at);
    moves
}
